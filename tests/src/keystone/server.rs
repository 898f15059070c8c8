//! The process: gunicorn with Keystone's application, and the files that tell it how to be.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use super::{Settings, Tokens, api::Api};
use crate::{authority::Files, process::Process, tools};

/// Where it runs.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// The folder of its files.
    pub(super) folder: &'a Path,
    /// Its loopback port.
    pub(super) port: u16,
    /// Its certificate, where it speaks TLS.
    pub(super) tls: Option<&'a Files>,
}

impl Place<'_> {
    /// The address of its API, to `/v3`.
    pub(super) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/v3", self.port)
    }
}

/// Writes its configuration.
pub(super) fn configure(place: &Place<'_>, settings: &Settings) {
    let folder = place.folder.display();
    let provider = match settings.tokens {
        Tokens::Fernet => "fernet",
        Tokens::JsonWeb => "jws",
    };
    let mut text = String::from("[DEFAULT]\nuse_stderr = true\n");
    if let Some(limit) = settings.list_limit {
        writeln!(text, "list_limit = {limit}").unwrap();
    }
    write!(
        text,
        "[database]\n\
         connection = sqlite:///{folder}/keystone.db\n\
         sqlite_synchronous = false\n\
         [token]\n\
         provider = {provider}\n\
         expiration = {seconds}\n\
         [fernet_tokens]\n\
         key_repository = {folder}/fernet\n\
         [jwt_tokens]\n\
         jws_private_key_repository = {folder}/jws/private\n\
         jws_public_key_repository = {folder}/jws/public\n\
         [fernet_receipts]\n\
         key_repository = {folder}/fernet\n\
         [credential]\n\
         key_repository = {folder}/credential\n\
         [identity]\n\
         password_hash_rounds = 4\n\
         [oslo_policy]\n\
         enforce_scope = true\n\
         [cache]\n\
         enabled = {cache}\n\
         backend = dogpile.cache.memory\n\
         [federation]\n\
         assertion_prefix = HTTP_X_SSO_\n\
         [security_compliance]\n",
        seconds = settings.token_seconds,
        cache = settings.cache,
    )
    .unwrap();
    if let Some(attempts) = settings.lockout_after {
        writeln!(text, "lockout_failure_attempts = {attempts}").unwrap();
    }
    fs::write(place.folder.join("keystone.conf"), text).unwrap();
    if settings.tokens == Tokens::JsonWeb {
        let key = rcgen::KeyPair::generate().unwrap();
        for (half, text) in [("private", key.serialize_pem()), ("public", key.public_key_pem())] {
            fs::create_dir_all(place.folder.join("jws").join(half)).unwrap();
            fs::write(place.folder.join("jws").join(half).join(format!("{half}.pem")), text).unwrap();
        }
    }
}

/// Starts it. One process answers, so that what it keeps in memory is the same for every request; threads, so that a connection on
/// which nothing comes holds nobody up.
pub(super) fn run(environment: &Path, place: &Place<'_>) -> Process {
    let mut command = Command::new(environment.join("bin/python"));
    command
        .args(["-B", "-m", "gunicorn", "--workers", "1", "--worker-class", "gthread", "--threads", "8", "--keep-alive", "75"])
        // A worker that was frozen for a while is not to be replaced.
        .args(["--timeout", "0", "--bind", &format!("127.0.0.1:{}", place.port)])
        .arg("--pythonpath")
        .arg(tools::script_path("python", ""));
    if let Some(files) = place.tls {
        command.arg("--certfile").arg(&files.certificate).arg("--keyfile").arg(&files.key);
    }
    command.arg("keystone_server:application").current_dir(place.folder);
    command.env("OS_KEYSTONE_CONFIG_FILES", place.folder.join("keystone.conf")).env_remove("PYTHONPATH").env_remove("GUNICORN_CMD_ARGS");
    Process::start(&mut command, &place.folder.join("log"))
}

/// Waits until Keystone answers: gunicorn takes connections long before.
pub(super) async fn ready(process: &mut Process, url: &str, authority: Option<&str>) {
    process.wait_for_port(port_of(url)).await;
    let api = Api::new(url, authority);
    process.wait_until(async || api.is_there().await).await;
}

fn port_of(url: &str) -> u16 {
    url::Url::parse(url).unwrap().port().unwrap()
}
