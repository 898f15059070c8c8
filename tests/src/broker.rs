//! The broker under test: the real program, on ports of its own, with its files in a folder of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::Once,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Authority, Authorization, Browser, Configuration, Service, Tokens, configuration::password_of, folder, ports, process::Process,
};

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    folder: TempDir,
    configuration: Configuration,
    issuer: String,
    port: u16,
    admin_port: u16,
    authority: Option<Authority>,
    filter: String,
    process: Process,
}

impl Broker {
    /// Starts it over plain HTTP, and waits until it is ready.
    pub async fn start(configuration: Configuration) -> Self {
        Self::start_with(configuration, None, None, "debug").await
    }

    /// Starts one of several that share an issuer, which is another address than its own.
    pub async fn start_behind(issuer: &str, configuration: Configuration, filter: &str) -> Self {
        Self::start_with(configuration, Some(issuer), None, filter).await
    }

    /// The same with another filter of its log, as `trace` for all that anything in it can say.
    pub async fn start_logging(configuration: Configuration, filter: &str) -> Self {
        Self::start_with(configuration, None, None, filter).await
    }

    /// Starts it over TLS, with certificates of an authority of its own, which also vouches for reviewers.
    pub async fn start_tls(configuration: Configuration) -> Self {
        Self::start_with(configuration, None, Some(Authority::new("tests")), "debug").await
    }

    async fn start_with(mut configuration: Configuration, issuer: Option<&str>, authority: Option<Authority>, filter: &str) -> Self {
        install_providers();
        let folder = folder::new("broker");
        let (port, admin_port) = (ports::free(), ports::free());
        if let Some(authority) = &authority {
            let files = authority.server(folder.path(), "server", &["127.0.0.1", "localhost"]);
            configuration.0["listen"]["tls"] = json!({
                "certificateFile": files.certificate, "keyFile": files.key, "clientCaFile": authority.write(&folder.path().join("ca.crt")),
            });
        }
        let scheme = if authority.is_some() { "https" } else { "http" };
        let issuer = issuer.map_or_else(|| format!("{scheme}://127.0.0.1:{port}"), str::to_owned);
        let process = run(&configuration, &issuer, (port, admin_port), folder.path(), filter);
        let filter = filter.to_owned();
        let mut broker = Self { folder, configuration, issuer, port, admin_port, authority, filter, process };
        broker.ready().await;
        broker
    }

    /// The issuer, and the address of every public door.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The address of its own public listener, in the clear.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The admin listener's address.
    #[must_use]
    pub fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin_port)
    }

    /// The folder of its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The authority of its certificate, where it has one.
    ///
    /// # Panics
    /// When it was started without TLS.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        self.authority.as_ref().expect("it was started with TLS")
    }

    /// Everything that it wrote, in all its runs on this store.
    #[must_use]
    pub fn log(&self) -> String {
        // A line is written a few milliseconds after its event.
        std::thread::sleep(std::time::Duration::from_millis(100));
        self.process.output()
    }

    /// A new HTTP client that trusts its certificate and follows no redirect.
    ///
    /// # Panics
    /// When the client can not be made.
    #[must_use]
    pub fn http(&self) -> reqwest::Client {
        let mut client =
            reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(crate::process::PATIENCE);
        client = client.tls_certs_only(self.authority.iter().map(|a| reqwest::Certificate::from_pem(a.certificate().as_bytes()).unwrap()));
        client.build().unwrap()
    }

    /// A new browser.
    #[must_use]
    pub fn browser(&self) -> Browser {
        Browser::new(self.http(), &self.issuer)
    }

    /// A peer that speaks to the doors for programs.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(self.http(), &self.issuer)
    }

    /// Signs someone in with a new browser, and exchanges the code as a public client does.
    pub async fn tokens(&self, request: &Authorization, tenant: &str, username: &str) -> Tokens {
        let mut browser = self.browser();
        let code = browser.sign_in(&request.clone().with("tenant", tenant), username, &password_of(tenant, username)).await;
        self.service().exchange(request, &code).await
    }

    /// Stops it in the middle of whatever it does; its connections stay.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.signal("CONT");
    }

    /// `kill -9`, and nothing else.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to end, and waits for it.
    pub async fn stop(&mut self) -> ExitStatus {
        self.process.stop().await
    }

    /// Starts it anew on the same store; one that still runs is killed.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = run(&self.configuration, &self.issuer, (self.port, self.admin_port), self.folder.path(), &self.filter);
        self.ready().await;
    }

    /// Restarts it with a changed configuration on the same store.
    pub async fn reconfigure(&mut self, edit: impl FnOnce(&mut Configuration)) {
        edit(&mut self.configuration);
        self.restart().await;
    }

    async fn ready(&mut self) {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let address = format!("{}/readyz", self.admin());
        self.process.wait_until(async || http.get(&address).send().await.is_ok_and(|answer| answer.status().is_success())).await;
    }
}

fn run(configuration: &Configuration, issuer: &str, (port, admin_port): (u16, u16), folder: &Path, filter: &str) -> Process {
    let path = folder.join("denizen.yaml");
    fs::write(&path, configuration.text(issuer, port, admin_port, folder)).unwrap();
    let mut command = program();
    command.args(["--log-format", "json", "serve", "--config"]).arg(&path).env("DENIZEN_LOG", filter);
    Process::start(&mut command, &folder.join("denizen.log"))
}

/// The program under test: `DENIZEN_BIN`, or the one that cargo built beside the tests.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn program() -> Command {
    let beside = || {
        let tests = std::env::current_exe().unwrap();
        tests.ancestors().nth(2).unwrap().join("denizen")
    };
    let path = std::env::var_os("DENIZEN_BIN").map_or_else(beside, PathBuf::from);
    assert!(path.is_file(), "{} is not there: run `cargo build -p denizen` first, or tests/run", path.display());
    Command::new(path)
}

/// What a command of the program's said.
#[derive(Debug)]
pub struct Said {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Said {
    /// The output as JSON; `null` where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_default()
    }
}

/// Runs a command of the program to its end.
///
/// # Panics
/// When it can not be started.
#[must_use]
pub fn command(arguments: &[&str]) -> Said {
    let output = program().args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Tells this process's TLS once which cryptography to use.
pub fn install_providers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(denizen::cli::install_providers);
}
