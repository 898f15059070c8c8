//! A real Kubernetes API server before an etcd of its own, with the broker as its authentication webhook.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Answer, Authority, Broker,
    authority::Files,
    broker::install_providers,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    folder, ports,
    process::Process,
};

/// The token of an administrator of the API server's own, whom no webhook is asked about.
pub const ADMINISTRATOR: &str = "probe-token";

/// How the API server proves to the broker who it is.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The bearer token of the reviewer `kubernetes`.
    Bearer,
    /// A client certificate.
    Certificate(Files),
}

/// The API server.
#[derive(Debug)]
pub struct KubeApi {
    address: String,
    authority: Authority,
    // The server ends before its etcd does.
    _server: Process,
    _etcd: Process,
    _folder: TempDir,
}

/// The path of the API server's program, or why this suite can not run.
///
/// # Errors
/// Where there is none, and none is demanded.
///
/// # Panics
/// Where there is none, and the environment says that every suite must run.
pub fn program() -> Result<PathBuf, String> {
    let path = std::env::var_os("DENIZEN_KUBE_APISERVER").map(PathBuf::from).filter(|path| path.is_file());
    let is_set = |name: &str| std::env::var(name).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    match path {
        Some(path) => Ok(path),
        None if is_set("CI") || is_set("DENIZEN_REQUIRE_ALL") => {
            panic!("there is no kube-apiserver: tests/run builds it, where there is Go")
        }
        None => Err("NOT RUN: there is no kube-apiserver (DENIZEN_KUBE_APISERVER); tests/run builds it, where there is Go".to_owned()),
    }
}

impl KubeApi {
    /// Starts both servers with the broker as their webhook of this version. The broker must speak TLS: over plain HTTP the API
    /// server's client leaves every credential out.
    ///
    /// # Panics
    /// When one of them can not be started.
    pub async fn start(program: &PathBuf, broker: &Broker, version: &str, credential: &Credential) -> Self {
        Self::start_with(program, broker, version, credential, "AlwaysAllow").await
    }

    /// The same, where everyone may do what RBAC says, and no more. [`ADMINISTRATOR`] may do everything.
    ///
    /// # Panics
    /// When one of them can not be started.
    pub async fn start_rbac(program: &PathBuf, broker: &Broker, version: &str, credential: &Credential) -> Self {
        Self::start_with(program, broker, version, credential, "RBAC").await
    }

    async fn start_with(program: &PathBuf, broker: &Broker, version: &str, credential: &Credential, authorization: &str) -> Self {
        install_providers();
        let folder = folder::new("kubernetes");
        let at = |name: &str| folder.path().join(name);
        let (client, peer, port) = (ports::free(), ports::free(), ports::free());
        let mut etcd = Process::start(
            Command::new("etcd")
                .arg("--unsafe-no-fsync")
                .arg(format!("--data-dir={}", at("etcd").display()))
                .arg(format!("--listen-client-urls=http://127.0.0.1:{client}"))
                .arg(format!("--advertise-client-urls=http://127.0.0.1:{client}"))
                .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer}"))
                .arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"))
                .arg(format!("--initial-cluster=default=http://127.0.0.1:{peer}")),
            &at("etcd.log"),
        );
        etcd.wait_for_port(client).await;

        let authority = Authority::new("kube-apiserver of the tests");
        let tls = authority.server(folder.path(), "apiserver", &["127.0.0.1"]);
        let signing = rcgen::KeyPair::generate().unwrap();
        fs::write(at("service-accounts.key"), signing.serialize_pem()).unwrap();
        fs::write(at("service-accounts.pub"), signing.public_key_pem()).unwrap();
        fs::write(at("tokens.csv"), format!("{ADMINISTRATOR},probe,probe,system:masters\n")).unwrap();
        fs::write(at("webhook.kubeconfig"), kubeconfig(broker, version, credential)).unwrap();
        let mut server = Process::start(
            Command::new(program)
                .arg(format!("--etcd-servers=http://127.0.0.1:{client}"))
                .arg(format!("--secure-port={port}"))
                .arg("--bind-address=127.0.0.1")
                .arg("--advertise-address=10.0.0.1")
                .arg("--endpoint-reconciler-type=none")
                .arg("--service-cluster-ip-range=10.0.0.0/24")
                .arg(format!("--cert-dir={}", at("certificates").display()))
                .arg(format!("--tls-cert-file={}", tls.certificate.display()))
                .arg(format!("--tls-private-key-file={}", tls.key.display()))
                .arg(format!("--service-account-issuer={KUBERNETES}"))
                .arg(format!("--api-audiences={KUBERNETES}"))
                .arg(format!("--service-account-key-file={}", at("service-accounts.pub").display()))
                .arg(format!("--service-account-signing-key-file={}", at("service-accounts.key").display()))
                .arg(format!("--token-auth-file={}", at("tokens.csv").display()))
                .arg(format!("--authorization-mode={authorization}"))
                .arg(format!("--authentication-token-webhook-config-file={}", at("webhook.kubeconfig").display()))
                .arg(format!("--authentication-token-webhook-version={version}"))
                .arg("--authentication-token-webhook-cache-ttl=0s"),
            &at("kube-apiserver.log"),
        );
        let address = format!("https://127.0.0.1:{port}");
        let ready = format!("{address}/readyz");
        let http = http(&authority);
        server
            .wait_until(async || http.get(&ready).bearer_auth(ADMINISTRATOR).send().await.is_ok_and(|answer| answer.status().is_success()))
            .await;
        Self { address, authority, _server: server, _etcd: etcd, _folder: folder }
    }

    /// Sends a request with a token; `null` for no body.
    ///
    /// # Panics
    /// When the API server does not answer.
    pub async fn send(&self, token: &str, method: &str, path: &str, body: &Value) -> Answer {
        let mut request = http(&self.authority).request(method.parse().unwrap(), format!("{}{path}", self.address)).bearer_auth(token);
        if !body.is_null() {
            request = request.json(body);
        }
        Answer::read(request.send().await.expect("the API server answers")).await.unwrap()
    }

    /// What the API server thinks a token's bearer is: the request that `kubectl auth whoami` makes.
    ///
    /// # Panics
    /// When the API server does not answer.
    pub async fn whoami(&self, token: &str) -> Answer {
        let body = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
        self.send(token, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &body).await
    }

    /// Waits until the API server refuses a token that it took before: besides the webhook's own cache, which is off here, it
    /// remembers each yes for ten seconds.
    ///
    /// # Panics
    /// When it takes the token for a minute more.
    pub async fn refuses_soon(&self, token: &str) {
        let begun = std::time::Instant::now();
        loop {
            let answer = self.whoami(token).await;
            if answer.status == 401 {
                return;
            }
            assert!(begun.elapsed() < crate::process::PATIENCE, "still taken: {}", answer.text);
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
    }

    /// The user of a token that must be good.
    pub async fn user(&self, token: &str) -> Value {
        self.whoami(token).await.expect(201).json()["status"]["userInfo"].clone()
    }
}

fn http(authority: &Authority) -> reqwest::Client {
    let certificate = reqwest::Certificate::from_pem(authority.certificate().as_bytes()).unwrap();
    reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).timeout(crate::process::PATIENCE).build().unwrap()
}

/// The webhook's configuration. With a certificate it is the file of `deploy/`, with these addresses and files in place of its own.
fn kubeconfig(broker: &Broker, version: &str, credential: &Credential) -> String {
    let authority = broker.folder().join("ca.crt");
    match credential {
        Credential::Certificate(files) => {
            let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes/webhook.kubeconfig");
            let text = fs::read_to_string(example).unwrap();
            let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
            let ours = [
                ("https://id.example.com", broker.issuer().to_owned()),
                ("/v1/tokenreviews", format!("/{version}/tokenreviews")),
                ("/etc/kubernetes/denizen/ca.crt", path(&authority)),
                ("/etc/kubernetes/denizen/client.crt", path(&files.certificate)),
                ("/etc/kubernetes/denizen/client.key", path(&files.key)),
            ];
            ours.into_iter().fold(text, |text, (theirs, ours)| {
                assert!(text.contains(theirs), "the example no longer has {theirs}");
                text.replace(theirs, &ours)
            })
        }
        Credential::Bearer => json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "denizen",
            "clusters": [{"name": "denizen", "cluster": {
                "server": format!("{}/apis/authentication.k8s.io/{version}/tokenreviews", broker.issuer()),
                "certificate-authority": authority,
            }}],
            "users": [{"name": "kube-apiserver", "user": {"token": REVIEWER_TOKEN}}],
            "contexts": [{"name": "denizen", "context": {"cluster": "denizen", "user": "kube-apiserver"}}],
        })
        .to_string(),
    }
}
