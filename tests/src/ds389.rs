//! A real 389 Directory Server with TLS, OpenCloud's attribute names, memberOf, and the two tenants of [`slapd::content`].

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use ldap3::{Ldap, LdapConnAsync};
use tempfile::TempDir;

use crate::{
    Authority, folder, ports,
    process::Process,
    slapd::{
        self,
        content::{self, ADMIN, ADMIN_PASSWORD, Entry, READER, SUFFIX},
    },
};

const PROGRAM: &str = "/usr/sbin/ns-slapd";
/// What Debian's package makes a server's configuration of. `dscreate` does more of it, and wants systemd.
const TEMPLATE: &str = "/usr/share/dirsrv/data/template-dse.ldif";
const SCHEMA: &str = include_str!("slapd/opencloud.schema");

/// How the directory compares the UUIDs of tenants and people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uuids {
    /// As texts, which this server does right.
    AsTexts,
    /// By the rules for UUIDs, as OpenCloud's schema says. This server has no such rules: some of its answers to filters are wrong.
    AsUuids,
}

/// A running server. Its data is in a folder of its own, which is gone when this is dropped.
#[derive(Debug)]
pub struct DirectoryServer389 {
    process: Process,
    folder: TempDir,
    plain: u16,
    tls: u16,
}

impl DirectoryServer389 {
    /// Starts one with everyone of [`content`], which takes about a second.
    pub async fn start() -> Self {
        Self::start_with(Uuids::AsTexts).await
    }

    /// The same with another schema.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub async fn start_with(uuids: Uuids) -> Self {
        let folder = folder::new("ds389");
        let (plain, tls) = (ports::free(), ports::free());
        for name in ["config/schema", "lock", "tmp", "ldif", "bak", "run", "log", "db", "home"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let config = folder.path().join("config");
        fs::write(config.join("schema/99user.ldif"), schema(uuids)).unwrap();
        fs::write(config.join("dse.ldif"), configuration(folder.path(), plain, tls)).unwrap();
        // It ends without a word where this is missing.
        fs::write(config.join("certmap.conf"), "certmap default default\n").unwrap();
        certificate(folder.path(), &config);
        let process = run(folder.path());
        let mut server = Self { process, folder, plain, tls };
        server.ready().await;
        server.fill().await;
        server
    }

    async fn ready(&mut self) {
        self.process.wait_for_port(self.plain).await;
        self.process.wait_for_port(self.tls).await;
    }

    /// A suffix is made over LDAP, as every change of its configuration.
    async fn fill(&self) {
        let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let mut admin = self.admin().await;
        let backend: Entry = (
            "cn=main,cn=ldbm database,cn=plugins,cn=config".to_owned(),
            vec![
                ("objectClass", texts(&["top", "extensibleObject", "nsBackendInstance"])),
                ("cn", texts(&["main"])),
                ("nsslapd-suffix", texts(&[SUFFIX])),
            ],
        );
        let mapping: Entry = (
            format!("cn=\"{SUFFIX}\",cn=mapping tree,cn=config"),
            vec![
                ("objectClass", texts(&["top", "extensibleObject", "nsMappingTree"])),
                ("cn", texts(&[SUFFIX])),
                ("nsslapd-state", texts(&["backend"])),
                ("nsslapd-backend", texts(&["main"])),
            ],
        );
        let indices = ["openCloudUUID", "openCloudMemberOfSchool"].map(|name| {
            let attributes = vec![
                ("objectClass", texts(&["top", "nsIndex"])),
                ("cn", texts(&[name])),
                ("nsSystemIndex", texts(&["false"])),
                ("nsIndexType", texts(&["eq"])),
            ];
            (format!("cn={name},cn=index,cn=main,cn=ldbm database,cn=plugins,cn=config"), attributes)
        });
        for entry in [backend, mapping].into_iter().chain(indices) {
            slapd::add(&mut admin, entry).await;
        }
        for (dn, mut attributes) in content::everyone() {
            if dn == SUFFIX {
                let rule = format!(
                    "(targetattr != \"userPassword || aci\")(version 3.0; acl \"the reader reads\"; \
                     allow (read, search, compare) userdn = \"ldap:///{READER}\";)"
                );
                attributes.push(("aci", vec![rule]));
            }
            slapd::add(&mut admin, (dn, attributes)).await;
        }
    }

    /// `ldap://` at the loopback address, for StartTLS or plain.
    #[must_use]
    pub fn ldap_url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.plain)
    }

    /// `ldaps://` at a name that the certificate has.
    #[must_use]
    pub fn ldaps_url(&self) -> String {
        format!("ldaps://localhost:{}", self.tls)
    }

    /// The file of the authority that its certificate is from.
    #[must_use]
    pub fn ca_path(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Adds an entry.
    pub async fn add(&self, entry: Entry) {
        slapd::add(&mut self.admin().await, entry).await;
    }

    /// Deletes an entry.
    pub async fn delete(&self, dn: &str) {
        self.admin().await.delete(dn).await.unwrap().success().unwrap();
    }

    /// Replaces an attribute's values, also in `cn=config`; with none, takes the attribute away.
    pub async fn modify(&self, dn: &str, attribute: &str, values: &[&str]) {
        slapd::modify(&mut self.admin().await, dn, attribute, values).await;
    }

    /// Looks at no more than so many entries for a search of the reader; it then answers with an error, and with what it has so far.
    pub async fn look_through_at_most(&self, entries: u32) {
        self.modify("cn=config,cn=ldbm database,cn=plugins,cn=config", "nsslapd-lookthroughlimit", &[&entries.to_string()]).await;
        self.modify("cn=config,cn=ldbm database,cn=plugins,cn=config", "nsslapd-pagedlookthroughlimit", &[&entries.to_string()]).await;
    }

    /// Stops it in the middle of whatever it does: it keeps its connections and answers nothing.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.signal("CONT");
    }

    /// Ends it; its address then refuses connections.
    pub fn stop(&mut self) {
        self.process.kill();
    }

    /// Starts it again, with the same data at the same addresses.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = run(self.folder.path());
        self.ready().await;
    }

    /// What it wrote of its troubles.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log/errors")).unwrap_or_default()
    }

    async fn admin(&self) -> Ldap {
        let (connection, mut ldap) = LdapConnAsync::new(&self.ldap_url()).await.unwrap();
        tokio::spawn(connection.drive());
        ldap.simple_bind(ADMIN, ADMIN_PASSWORD).await.unwrap().success().unwrap();
        ldap
    }
}

fn run(folder: &Path) -> Process {
    let mut command = Command::new(PROGRAM);
    command.arg("-D").arg(folder.join("config")).arg("-i").arg(folder.join("run/pid")).args(["-d", "0"]);
    Process::start(&mut command, &folder.join("output"))
}

/// OpenCloud's schema in this server's form.
fn schema(uuids: Uuids) -> String {
    let joined = SCHEMA.lines().filter(|line| !line.starts_with('#')).fold(String::new(), |mut text, line| {
        text.push_str(if line.starts_with(' ') { " " } else { "\n" });
        text.push_str(line.trim());
        text
    });
    let mut out = "dn: cn=schema\n".to_owned();
    for line in joined.lines() {
        let line = line.replace("openCloud:", "1.3.6.1.4.1.63016.1.");
        if let Some(rest) = line.strip_prefix("attributetype ") {
            let rest = match uuids {
                Uuids::AsUuids => rest.to_owned(),
                Uuids::AsTexts => rest
                    .replace("EQUALITY uuidMatch ORDERING uuidOrderingMatch", "EQUALITY caseIgnoreMatch")
                    .replace("1.3.6.1.1.16.1", "1.3.6.1.4.1.1466.115.121.1.15"),
            };
            writeln!(out, "attributeTypes: {rest}").unwrap();
        } else if let Some(rest) = line.strip_prefix("objectclass ") {
            writeln!(out, "objectClasses: {rest}").unwrap();
        }
    }
    out
}

/// The server's configuration, before it has run.
fn configuration(folder: &Path, plain: u16, tls: u16) -> String {
    let template = fs::read_to_string(TEMPLATE)
        .unwrap_or_else(|error| panic!("{TEMPLATE}: {error}; 389-ds is not installed: tests/run installs what is missing"));
    let at = |name: &str| folder.join(name).display().to_string();
    let user = output(Command::new("id").arg("-un"));
    let password = output(Command::new("pwdhash").args(["-s", "SSHA256", ADMIN_PASSWORD]));
    let plain = plain.to_string();
    let values = [
        ("schema_dir", at("config/schema")),
        ("lock_dir", at("lock")),
        ("tmp_dir", at("tmp")),
        ("cert_dir", at("config")),
        ("ldif_dir", at("ldif")),
        ("bak_dir", at("bak")),
        ("run_dir", at("run")),
        ("inst_dir", folder.display().to_string()),
        ("log_dir", at("log")),
        ("fqdn", "localhost".to_owned()),
        ("ds_port", plain),
        ("ds_user", user),
        ("rootdn", ADMIN.to_owned()),
        ("ds_passwd", password),
        ("ldapi_enabled", "off".to_owned()),
        ("ldapi", at("ldapi")),
        ("ldapi_autobind", "off".to_owned()),
        ("ds_suffix", SUFFIX.to_owned()),
        ("config_dir", "/etc/dirsrv/config".to_owned()),
        ("db_dir", at("db")),
        ("db_home_dir", at("home")),
        ("db_lib", "bdb".to_owned()),
    ];
    let filled = values.iter().fold(template, |text, (name, value)| text.replace(&format!("%{name}%"), value));
    let with = |text: String, entry: &str, lines: &str| {
        assert!(text.contains(entry), "the template no longer has {entry}");
        text.replacen(entry, &format!("{entry}\n{lines}"), 1)
    };
    let own = format!(
        "nsslapd-security: on\nnsslapd-secureport: {tls}\nnsslapd-listenhost: 127.0.0.1\nnsslapd-securelistenhost: 127.0.0.1\n\
         passwordStorageScheme: SSHA256"
    );
    let filled = with(filled, "dn: cn=config\ncn: config", &own);
    let filled = with(filled, "cn: MemberOf Plugin", "memberOfAutoAddOC: nsMemberOf");
    // Some megabytes instead of a quarter of the machine.
    let filled =
        with(filled, "dn: cn=config,cn=ldbm database,cn=plugins,cn=config", "nsslapd-cache-autosize: 0\nnsslapd-dbcachesize: 2000000");
    let (before, plugin) = filled.split_once("cn: MemberOf Plugin").unwrap();
    format!("{before}cn: MemberOf Plugin{}", plugin.replacen("pluginenabled: off", "pluginenabled: on", 1))
}

/// Makes a certificate of an authority of its own, and puts it where the server looks.
fn certificate(folder: &Path, config: &Path) {
    let authority = Authority::new("389-ds of the tests");
    let ca = authority.write(&folder.join("ca.pem"));
    let files = authority.server(folder, "server", &["localhost", "127.0.0.1"]);
    let packed = folder.join("server.p12");
    _ = output(
        Command::new("openssl")
            .args(["pkcs12", "-export", "-name", "Server-Cert", "-passout", "pass:", "-in"])
            .arg(&files.certificate)
            .arg("-inkey")
            .arg(&files.key)
            .arg("-out")
            .arg(&packed),
    );
    _ = output(Command::new("certutil").args(["-N", "--empty-password", "-d"]).arg(config));
    _ = output(Command::new("certutil").args(["-A", "-n", "ca", "-t", "CT,,", "-d"]).arg(config).arg("-i").arg(ca));
    _ = output(Command::new("pk12util").args(["-K", "", "-W", "", "-d"]).arg(config).arg("-i").arg(packed));
}

fn output(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{name} can not be started ({error}); tests/run installs what is missing"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
