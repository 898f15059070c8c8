//! A real OpenLDAP server with TLS, OpenCloud's attribute names, memberOf, and two tenants; see [`content`].

pub mod content;
mod large;

use std::{collections::HashSet, fmt::Write as _, fs, path::PathBuf, process::Command};

use ldap3::{Ldap, LdapConnAsync, Mod};
use tempfile::TempDir;

use self::content::{ADMIN, ADMIN_PASSWORD, Entry, READER, SUFFIX};
pub use self::large::{large_tenant, large_tenant_uuid, large_uid};
use crate::{authority::Authority, ports, process::Process};

const PROGRAM: &str = "/usr/sbin/slapd";
const SCHEMA: &str = include_str!("slapd/opencloud.schema");

/// A running slapd. Its data is in a folder of its own, which is gone when this is dropped.
#[derive(Debug)]
pub struct Slapd {
    process: Process,
    folder: TempDir,
    plain: u16,
    tls: u16,
    authority: PathBuf,
}

/// Who may search without a bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// [`READER`] only, 1,000 entries at a time.
    Reader,
    /// Everyone; those who did not bind see 3 entries at most.
    Anyone,
}

impl Slapd {
    /// Starts one with everyone of [`content`].
    pub async fn start() -> Self {
        Self::start_with(Reading::Reader).await
    }

    /// Starts one with everyone of [`content`].
    ///
    /// # Panics
    /// When slapd is not installed, or does not start.
    pub async fn start_with(reading: Reading) -> Self {
        let slapd = Self::prepare(reading).run().await;
        let mut admin = slapd.admin().await;
        for entry in content::everyone() {
            add(&mut admin, entry).await;
        }
        slapd
    }

    /// Starts one with many people, evenly in many tenants (`slapadd`, 14 s for 100,000 people): person `n` is
    /// [`large_uid`]`(n)` of tenant `n % tenants`.
    ///
    /// # Panics
    /// When slapd is not installed, or does not start.
    pub async fn start_large(people: u32, tenants: u32) -> Self {
        let slapd = Self::prepare(Reading::Reader);
        let file = slapd.folder.path().join("content.ldif");
        large::write(&file, people, tenants);
        let output = Command::new("/usr/sbin/slapadd")
            .args(["-q", "-w", "-f"])
            .arg(slapd.folder.path().join("slapd.conf"))
            .arg("-l")
            .arg(&file)
            .output();
        let output = output.unwrap_or_else(|error| panic!("slapadd can not be started ({error}); tests/run installs what is missing"));
        assert!(output.status.success(), "slapadd: {}", String::from_utf8_lossy(&output.stderr));
        fs::remove_file(&file).unwrap();
        slapd.run().await
    }

    fn prepare(reading: Reading) -> Prepared {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let authority = Authority::new("Denizen's test authority");
        let ca = authority.write(&at("ca.pem"));
        let files = authority.server(folder.path(), "server", &["localhost", "127.0.0.1"]);
        fs::write(at("opencloud.schema"), SCHEMA).unwrap();
        fs::create_dir(at("data")).unwrap();
        let mut conf = String::new();
        for schema in ["core", "cosine", "inetorgperson", "nis"] {
            writeln!(conf, "include /etc/ldap/schema/{schema}.schema").unwrap();
        }
        let anyone = if reading == Reading::Anyone { "read" } else { "auth" };
        write!(
            conf,
            "include {schema}\n\
             pidfile {pid}\n\
             modulepath /usr/lib/ldap\n\
             moduleload back_mdb\n\
             moduleload memberof\n\
             TLSCACertificateFile {ca}\n\
             TLSCertificateFile {certificate}\n\
             TLSCertificateKeyFile {key}\n\
             database mdb\n\
             suffix \"{SUFFIX}\"\n\
             rootdn \"{ADMIN}\"\n\
             rootpw \"{ADMIN_PASSWORD}\"\n\
             directory {data}\n\
             maxsize 4294967296\n\
             dbnosync\n\
             index objectClass,uid,openCloudUUID,openCloudMemberOfSchool,member,memberUid,entryUUID eq\n\
             index mail,displayName,cn eq,sub\n\
             limits dn.exact=\"{READER}\" size.soft=1000 size.hard=1000 size.pr=1000 size.prtotal=unlimited\n\
             limits anonymous size.soft=3 size.hard=3 size.prtotal=3\n\
             access to attrs=userPassword by * auth\n\
             access to * by dn.exact=\"{READER}\" read by * {anyone}\n\
             overlay memberof\n\
             memberof-refint TRUE\n\
             memberof-dangling ignore\n",
            schema = at("opencloud.schema").display(),
            pid = at("slapd.pid").display(),
            ca = ca.display(),
            certificate = files.certificate.display(),
            key = files.key.display(),
            data = at("data").display(),
        )
        .unwrap();
        fs::write(at("slapd.conf"), conf).unwrap();
        Prepared { folder, plain: ports::free(), tls: ports::free(), authority: ca }
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

    /// `ldaps://` at an address that the certificate does not have.
    #[must_use]
    pub fn wrongly_named_url(&self) -> String {
        format!("ldaps://127.0.0.2:{}", self.tls)
    }

    /// The same for StartTLS.
    #[must_use]
    pub fn wrongly_named_ldap_url(&self) -> String {
        format!("ldap://127.0.0.2:{}", self.plain)
    }

    /// The file of the authority that its certificate is from.
    #[must_use]
    pub const fn ca_path(&self) -> &PathBuf {
        &self.authority
    }

    /// What the directory calls the tenant `acme`.
    #[must_use]
    pub const fn acme_uuid(&self) -> &'static str {
        content::ACME
    }

    /// What the directory calls the tenant `globex`.
    #[must_use]
    pub const fn globex_uuid(&self) -> &'static str {
        content::GLOBEX
    }

    /// Adds an entry.
    pub async fn add(&self, entry: Entry) {
        add(&mut self.admin().await, entry).await;
    }

    /// Adds many entries over one connection.
    pub async fn add_all(&self, entries: impl IntoIterator<Item = Entry>) {
        let mut admin = self.admin().await;
        for entry in entries {
            add(&mut admin, entry).await;
        }
    }

    /// Deletes an entry.
    pub async fn delete(&self, dn: &str) {
        self.admin().await.delete(dn).await.unwrap().success().unwrap();
    }

    /// Replaces an attribute's values; with none, takes the attribute away.
    pub async fn modify(&self, dn: &str, attribute: &str, values: &[&str]) {
        modify(&mut self.admin().await, dn, attribute, values).await;
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
        self.process = spawn(&self.folder, self.plain, self.tls);
        self.process.wait_for_port(self.tls).await;
    }

    /// Its process, for measuring.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    async fn admin(&self) -> Ldap {
        let (connection, mut ldap) = LdapConnAsync::new(&self.ldap_url()).await.unwrap();
        tokio::spawn(connection.drive());
        ldap.simple_bind(ADMIN, ADMIN_PASSWORD).await.unwrap().success().unwrap();
        ldap
    }
}

/// What is there before slapd runs.
struct Prepared {
    folder: TempDir,
    plain: u16,
    tls: u16,
    authority: PathBuf,
}

impl Prepared {
    async fn run(self) -> Slapd {
        let Self { folder, plain, tls, authority } = self;
        let mut process = spawn(&folder, plain, tls);
        process.wait_for_port(plain).await;
        process.wait_for_port(tls).await;
        Slapd { process, folder, plain, tls, authority }
    }
}

fn spawn(folder: &TempDir, plain: u16, tls: u16) -> Process {
    // A second loopback address, which the certificate does not name.
    let addresses = format!("ldap://127.0.0.1:{plain} ldap://127.0.0.2:{plain} ldaps://127.0.0.1:{tls} ldaps://127.0.0.2:{tls}");
    let mut command = Command::new(PROGRAM);
    command.args(["-d", "0", "-h", &addresses, "-f"]).arg(folder.path().join("slapd.conf"));
    Process::start(&mut command, &folder.path().join("log"))
}

/// Adds an entry.
pub(crate) async fn add(admin: &mut Ldap, (dn, attributes): Entry) {
    let attributes = attributes.into_iter().map(|(name, values)| (name.to_owned(), values.into_iter().collect::<HashSet<_>>())).collect();
    let result = admin.add(&dn, attributes).await.unwrap();
    assert_eq!(result.rc, 0, "{dn}: {result}");
}

/// Replaces an attribute's values; with none, takes the attribute away.
pub(crate) async fn modify(admin: &mut Ldap, dn: &str, attribute: &str, values: &[&str]) {
    let change = Mod::Replace(attribute, values.iter().copied().collect::<HashSet<_>>());
    admin.modify(dn, vec![change]).await.unwrap().success().unwrap();
}
