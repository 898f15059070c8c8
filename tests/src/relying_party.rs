//! Web applications on other people's OpenID libraries, which sign people in at Denizen. Their pages answer in JSON.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Broker, Tools, configuration::secret_of, folder, ports, process::Process};

/// A library, and how its client proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// npm's `openid-client`, as a public client.
    OpenidClient,
    /// PyPI's Authlib, with `client_secret_basic`.
    Authlib,
}

/// An application that does not run yet: the broker must know its addresses before it starts.
#[derive(Debug, Clone, Copy)]
pub struct Application {
    library: Library,
    port: u16,
}

/// An application that runs.
#[derive(Debug)]
pub struct RelyingParty {
    application: Application,
    _process: Process,
    _folder: TempDir,
}

impl Application {
    /// One on a port of its own.
    #[must_use]
    pub fn new(library: Library) -> Self {
        Self { library, port: ports::free() }
    }

    const fn id(self) -> &'static str {
        match self.library {
            Library::OpenidClient => "openid-client",
            Library::Authlib => "authlib",
        }
    }

    /// The address of one of its pages.
    #[must_use]
    pub fn at(self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Its entry in the broker's configuration.
    #[must_use]
    pub fn client(self) -> Value {
        let mut client = json!({
            "id": self.id(), "redirectUris": [self.at("/cb")], "connectors": ["people"],
            "scopes": ["openid", "profile", "email", "groups", "offline_access"],
            "postLogoutRedirectUris": [self.at("/goodbye")], "backchannelLogoutUri": self.at("/backchannel"),
        });
        if self.library == Library::Authlib {
            client["secret"] = secret_of(self.id()).into();
        }
        client
    }

    /// Starts it for a broker, which speaks TLS and has [`Self::client`].
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(self, tools: &Tools, broker: &Broker) -> RelyingParty {
        let folder = folder::new(self.id());
        let path = folder.path().join("settings.json");
        let settings = json!({
            "issuer": broker.issuer(), "port": self.port, "clientId": self.id(), "clientSecret": secret_of(self.id()),
            "redirectUri": self.at("/cb"), "goodbyeUri": self.at("/goodbye"), "scope": "openid profile email groups offline_access",
            "parameters": {"tenant": "acme"},
        });
        std::fs::write(&path, settings.to_string()).unwrap();
        let (mut command, trust) = match self.library {
            Library::OpenidClient => (tools.node("relying-party.mjs"), "NODE_EXTRA_CA_CERTS"),
            Library::Authlib => (tools.python("relying_party.py"), "REQUESTS_CA_BUNDLE"),
        };
        command.arg(&path).env(trust, broker.folder().join("ca.crt")).env("NO_PROXY", "127.0.0.1");
        let mut process = Process::start(&mut command, &folder.path().join("log"));
        process.wait_for_port(self.port).await;
        RelyingParty { application: self, _process: process, _folder: folder }
    }
}

impl RelyingParty {
    /// The address of one of its pages.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        self.application.at(path)
    }
}
