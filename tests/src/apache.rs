//! A real Apache whose pages mod_auth_openidc guards: people of one tenant only may see them.

use std::{fmt::Write as _, fs, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Broker, configuration::secret_of, folder, ports, process::Process};

const PROGRAM: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";
const ID: &str = "mod-auth-openidc";

/// Its address, which the broker must know before it starts.
#[derive(Debug, Clone, Copy)]
pub struct Address(u16);

/// An Apache that runs.
#[derive(Debug)]
pub struct ModAuthOpenidc {
    address: Address,
    process: Process,
    _folder: TempDir,
}

impl Address {
    /// A new one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        Self(ports::free())
    }

    /// The address of a path. `/protected` is guarded; `/cb` is the module's own, for the way back and for its hooks (`?info=json`,
    /// `?refresh=…`, `?logout=…`).
    #[must_use]
    pub fn at(self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.0)
    }

    /// Its entry in the broker's configuration.
    #[must_use]
    pub fn client(self) -> Value {
        json!({
            "id": ID, "secret": secret_of(ID), "redirectUris": [self.at("/cb")], "connectors": ["people"],
            "scopes": ["openid", "profile", "email", "groups", "offline_access"],
            "postLogoutRedirectUris": [self.at("/goodbye")], "backchannelLogoutUri": self.at("/cb?logout=backchannel"),
        })
    }

    /// Starts it for a broker, which speaks TLS and has [`Self::client`]. The pages are for people of `acme`.
    ///
    /// # Panics
    /// When Apache is not installed, or does not start.
    pub async fn start(self, broker: &Broker) -> ModAuthOpenidc {
        let folder = folder::new("apache");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut conf = String::new();
        for module in ["mpm_event", "authn_core", "authz_core", "authz_user", "status", "auth_openidc"] {
            writeln!(conf, "LoadModule {module}_module {MODULES}/mod_{module}.so").unwrap();
        }
        write!(
            conf,
            "ServerName 127.0.0.1\n\
             Listen 127.0.0.1:{port}\n\
             ServerRoot {root}\n\
             PidFile {pid}\n\
             ErrorLog /dev/stderr\n\
             LogLevel auth_openidc:info\n\
             DefaultRuntimeDir {root}\n\
             Mutex sem\n\
             User www-data\n\
             Group www-data\n\
             StartServers 1\n\
             ThreadsPerChild 8\n\
             MinSpareThreads 1\n\
             MaxSpareThreads 16\n\
             MaxRequestWorkers 16\n\
             DocumentRoot /usr/share\n\
             OIDCProviderMetadataURL {issuer}/.well-known/openid-configuration\n\
             OIDCCABundlePath {ca}\n\
             OIDCClientID {ID}\n\
             OIDCClientSecret {secret}\n\
             OIDCProviderTokenEndpointAuth client_secret_post\n\
             OIDCPKCEMethod S256\n\
             OIDCScope \"openid profile email groups offline_access\"\n\
             OIDCRedirectURI {redirect_uri}\n\
             OIDCCryptoPassphrase only-the-tests-know-this\n\
             OIDCCacheType shm\n\
             OIDCSessionType server-cache\n\
             OIDCProviderBackChannelLogoutSupported On\n\
             OIDCInfoHook iat access_token id_token userinfo refresh_token session\n\
             OIDCRemoteUserClaim preferred_username\n\
             <Location \"/protected\">\n\
             AuthType openid-connect\n\
             Require claim tenant_id:acme\n\
             SetHandler server-status\n\
             </Location>\n\
             <Location \"/cb\">\n\
             AuthType openid-connect\n\
             Require valid-user\n\
             </Location>\n\
             <Location \"/goodbye\">\n\
             Require all granted\n\
             SetHandler server-status\n\
             </Location>\n",
            port = self.0,
            root = folder.path().display(),
            pid = at("pid"),
            issuer = broker.issuer(),
            ca = authority(broker, &folder),
            secret = secret_of(ID),
            redirect_uri = self.at("/cb"),
        )
        .unwrap();
        fs::write(at("apache.conf"), conf).unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["-D", "FOREGROUND", "-f", &at("apache.conf")]);
        let mut process = Process::start(&mut command, &folder.path().join("log"));
        process.wait_for_port(self.0).await;
        ModAuthOpenidc { address: self, process, _folder: folder }
    }
}

impl ModAuthOpenidc {
    /// The address of a path.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        self.address.at(path)
    }

    /// What it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.output()
    }
}

/// The broker's authority, where Apache's own user can read it: started by root, it serves as another.
fn authority(broker: &Broker, folder: &TempDir) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let readable = |path: &std::path::Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    readable(folder.path());
    readable(folder.path().parent().unwrap());
    let path = folder.path().join("ca.crt");
    fs::copy(broker.folder().join("ca.crt"), &path).unwrap();
    readable(&path);
    path.display().to_string()
}
