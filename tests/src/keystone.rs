//! A real Keystone (PyPI) on SQLite under gunicorn, with same-named people in two domains; see [`fixtures`].

mod administration;
pub mod api;
pub mod fixtures;
mod server;
mod template;

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

pub use self::{
    api::{Api, Scope},
    fixtures::{ApplicationCredential, Fixtures},
};
use self::{
    fixtures::{DEFAULT, DEFAULT_NAME, DENIZEN},
    server::Place,
};
use crate::{
    Authority, Configuration,
    authority::Files,
    configuration::password_of,
    folder, ports,
    process::{PATIENCE, Process},
    tools,
};

/// How it is, right for most tests.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long its tokens are good, in seconds.
    pub token_seconds: u32,
    /// Whether it keeps in memory what it read. Without, it is some ten times slower.
    pub cache: bool,
    /// How many it lists at once.
    pub list_limit: Option<u32>,
    /// After how many wrong passwords it locks someone out.
    pub lockout_after: Option<u32>,
    /// What its tokens are.
    pub tokens: Tokens,
    /// Whether it speaks TLS, by a certificate of an authority of its own.
    pub tls: bool,
}

/// The forms of Keystone's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokens {
    /// Only Keystone can read them.
    Fernet,
    /// Anyone can.
    JsonWeb,
}

impl Default for Settings {
    fn default() -> Self {
        Self { token_seconds: 3_600, cache: true, list_limit: None, lockout_after: None, tokens: Tokens::Fernet, tls: false }
    }
}

/// A running Keystone. Its data is in a folder of its own, which is gone when this is dropped.
#[derive(Debug)]
pub struct Keystone {
    process: Process,
    folder: TempDir,
    environment: PathBuf,
    port: u16,
    authority: Option<Authority>,
    tls: Option<Files>,
    fixtures: Fixtures,
}

impl Keystone {
    /// Starts one with everything of [`fixtures`], or gives `None` where Keystone is not installed: then the suite says that it did
    /// not run.
    pub async fn start() -> Option<Self> {
        Self::start_with(Settings::default()).await
    }

    /// The same with other settings.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_with(settings: Settings) -> Option<Self> {
        let environment = tools::keystone()?;
        let folder = folder::new("keystone");
        let fixtures = template::copy(&environment, folder.path()).await;
        let authority = settings.tls.then(|| Authority::new("keystone of the tests"));
        let tls = authority.as_ref().map(|authority| {
            _ = authority.write(&folder.path().join("ca.crt"));
            authority.server(folder.path(), "server", &["127.0.0.1", "localhost"])
        });
        for name in ["denizen", "denizen-narrow", "denizen-acme"] {
            fs::write(folder.path().join(format!("{name}.password")), password_of(DEFAULT_NAME, name)).unwrap();
        }
        fs::write(folder.path().join("credential.secret"), &fixtures.service_credential.secret).unwrap();
        let place = Place { folder: folder.path(), port: ports::free(), tls: tls.as_ref() };
        server::configure(&place, &settings);
        let process = server::run(&environment, &place);
        let port = place.port;
        let mut keystone = Self { process, folder, environment, port, authority, tls, fixtures };
        keystone.ready().await;
        Some(keystone)
    }

    async fn ready(&mut self) {
        let (url, authority) = (self.url(), self.authority.as_ref().map(Authority::certificate));
        server::ready(&mut self.process, &url, authority).await;
    }

    fn place(&self) -> Place<'_> {
        Place { folder: self.folder.path(), port: self.port, tls: self.tls.as_ref() }
    }

    /// The address of its API, which ends in `/v3`.
    #[must_use]
    pub fn url(&self) -> String {
        self.place().url()
    }

    /// The file of the authority that its certificate is from, where it speaks TLS.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// The folder of its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The ids of everyone and everything that it has from the start.
    #[must_use]
    pub const fn fixtures(&self) -> &Fixtures {
        &self.fixtures
    }

    /// The id of a domain, by its first name.
    #[must_use]
    pub fn domain(&self, name: &str) -> &str {
        &self.fixtures.domains[name]
    }

    /// The id of someone who was there from the start.
    #[must_use]
    pub fn user(&self, domain: &str, name: &str) -> &str {
        &self.fixtures.users[&format!("{domain}/{name}")]
    }

    /// The id of a project that was there from the start.
    #[must_use]
    pub fn project(&self, domain: &str, name: &str) -> &str {
        &self.fixtures.projects[&format!("{domain}/{name}")]
    }

    /// The id of a group that was there from the start.
    #[must_use]
    pub fn group(&self, domain: &str, name: &str) -> &str {
        &self.fixtures.groups[&format!("{domain}/{name}")]
    }

    /// The id of a role.
    #[must_use]
    pub fn role(&self, name: &str) -> &str {
        &self.fixtures.roles[name]
    }

    /// Its API, for nobody yet. A client of its own: each test has a runtime of its own, and a kept connection belongs to one.
    #[must_use]
    pub fn api(&self) -> Api {
        Api::new(&self.url(), self.authority.as_ref().map(Authority::certificate))
    }

    /// Its API, for its first administrator. What it asks takes Keystone some 50 ms: it reads the roles of a token on the system anew
    /// each time, and keeps those of one on a project.
    pub async fn admin(&self) -> Api {
        api::administrator(&self.api()).await
    }

    /// Its API, for Denizen's service account, which may do all that Denizen asks for.
    pub async fn denizen(&self) -> Api {
        self.api().with_token(&self.token(DEFAULT_NAME, DENIZEN, Scope::System).await)
    }

    /// A connector's entry in the broker's configuration, with the service account that may do everything. Which domain is which
    /// tenant is said by [`Self::tenants`].
    #[must_use]
    pub fn connector(&self, id: &str) -> Value {
        self.connector_at(id, &self.url())
    }

    /// The same for Keystone behind another address, which ends in `/v3`.
    #[must_use]
    pub fn connector_at(&self, id: &str, url: &str) -> Value {
        let mut connector = json!({
            "id": id, "displayName": "Keystone", "type": "keystone", "operatedBy": "operator", "url": url, "allowedNetworks": ["127.0.0.0/8"],
            "serviceAccount": self.service_account(DENIZEN, Scope::System),
        });
        if self.tls.is_some() {
            connector["certificateAuthorityFile"] = json!(self.authority());
        }
        connector
    }

    /// The entry of one of the service's own users, who asks for tokens of this scope.
    #[must_use]
    pub fn service_account(&self, user: &str, scope: Scope<'_>) -> Value {
        let scope = if scope == Scope::System { json!({"system": "all"}) } else { scope.json() };
        json!({
            "name": user, "domain": {"id": DEFAULT}, "passwordFile": self.folder.path().join(format!("{user}.password")), "scope": scope,
        })
    }

    /// The same for the service's application credential, which is for its project only.
    #[must_use]
    pub fn service_credential(&self) -> Value {
        json!({
            "applicationCredentialId": self.fixtures.service_credential.id,
            "applicationCredentialSecretFile": self.folder.path().join("credential.secret"),
        })
    }

    /// The tenants acme and globex, which a connector of this id knows by the ids of the domains of the same names.
    #[must_use]
    pub fn tenants(&self, connector: &str) -> Value {
        json!([
            {"id": "acme", "displayName": "Acme Corporation", "externalIds": {connector: self.domain("acme")}},
            {"id": "globex", "displayName": "Globex", "externalIds": {connector: self.domain("globex")}},
        ])
    }

    /// The usual configuration with these tenants and this connector besides.
    ///
    /// # Panics
    /// When the connector has no id.
    #[must_use]
    pub fn configuration(&self, connector: Value) -> Configuration {
        let tenants = self.tenants(connector["id"].as_str().unwrap());
        Configuration::default().with("/tenants", tenants).with("/connectors/-", connector)
    }

    /// Stops it in the middle of whatever it does: it keeps its connections and answers nothing.
    pub fn freeze(&self) {
        self.process.signal_group("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.signal_group("CONT");
    }

    /// Ends it; its address then refuses connections.
    ///
    /// # Panics
    /// When it goes on listening.
    pub fn stop(&mut self) {
        self.process.kill();
        // The worker is killed at the same moment as its master, but nobody waits for its end.
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "it goes on listening");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts it again at the same address, with the same data and keys: tokens that it gave are still good.
    pub async fn restart(&mut self) {
        self.stop();
        self.process = server::run(&self.environment, &self.place());
        self.ready().await;
    }

    /// What it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.output()
    }
}
