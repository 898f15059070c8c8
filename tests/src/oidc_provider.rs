//! A real, certified OpenID provider (npm `oidc-provider`), with accounts that a test may change while it runs.
//!
//! Each listens at a loopback address of its own, so that real browsers keep its cookies apart.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU16, Ordering},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Answer, Authority, Broker, Browser, Tools, configuration::password_of, folder, ports, process::Process};

/// How the provider is, right for most tests.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name, which its pages show; also the realm of its accounts' passwords.
    pub name: &'static str,
    /// Whether claims besides `sub` are in userinfo only, as the specification has it for codes (OpenID Connect Core, 5.4).
    pub claims_in_userinfo_only: bool,
    /// Whether refresh tokens need the scope `offline_access` and a page where the person agrees.
    pub refresh_tokens_by_scope_only: bool,
    /// Whether each refresh token is good once.
    pub rotates_refresh_tokens: bool,
    /// Whether its issuer is at `localhost`, a name, in place of an address of its own.
    pub named: bool,
    /// Whether it speaks TLS, by a certificate of an authority of its own.
    pub tls: bool,
    /// Who there is, as [`account`] makes them.
    pub accounts: Vec<Value>,
}

impl Settings {
    /// A provider with these accounts.
    #[must_use]
    pub const fn new(name: &'static str, accounts: Vec<Value>) -> Self {
        Self {
            name,
            claims_in_userinfo_only: false,
            refresh_tokens_by_scope_only: false,
            rotates_refresh_tokens: true,
            named: false,
            tls: false,
            accounts,
        }
    }
}

/// An account whose login is `login`, with more claims. Its password is [`password_of`]`(name of the provider, login)`.
#[must_use]
pub fn account(provider: &str, sub: &str, login: &str, claims: &Value) -> Value {
    let mut all = json!({"preferred_username": login, "name": format!("{login} of {provider}")});
    for (name, value) in claims.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    json!({"sub": sub, "login": login, "password": password_of(provider, login), "claims": all})
}

/// A provider that runs.
#[derive(Debug)]
pub struct OidcProvider {
    settings: Settings,
    issuer: String,
    control: String,
    process: Process,
    tools: Tools,
    folder: TempDir,
}

impl OidcProvider {
    /// Starts one.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(tools: &Tools, settings: Settings) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(2);
        let folder = folder::new("oidc-provider");
        let own = || format!("127.0.0.{}", NEXT.fetch_add(1, Ordering::Relaxed) % 250 + 1);
        let host = if settings.named { "127.0.0.1".to_owned() } else { own() };
        let (port, control) = (ports::free(), ports::free());
        let scheme = if settings.tls { "https" } else { "http" };
        let issuer = format!("{scheme}://{}:{port}", if settings.named { "localhost" } else { &host });
        let tls = settings.tls.then(|| {
            let authority = Authority::new("provider of the tests");
            _ = authority.write(&folder.path().join("ca.crt"));
            let files = authority.server(folder.path(), "server", &[&host]);
            json!({"certificate": files.certificate, "key": files.key})
        });
        let written = json!({
            "name": settings.name, "issuer": issuer, "listen": {"host": host, "port": port, "tls": tls}, "control": control,
            "claims": {
                "openid": ["sub", "tenant_id", "groups", "roles", "employee_id"], "profile": ["preferred_username", "name"],
                "email": ["email", "email_verified"],
            },
            "claimsInUserinfoOnly": settings.claims_in_userinfo_only,
            "refreshTokensByScopeOnly": settings.refresh_tokens_by_scope_only, "rotatesRefreshTokens": settings.rotates_refresh_tokens,
            "accounts": settings.accounts,
        });
        fs::write(folder.path().join("settings.json"), written.to_string()).unwrap();
        let mut process = run(tools, folder.path());
        // It opens the second listener once the first is open.
        process.wait_for_port(control).await;
        Self { settings, issuer, control: format!("http://127.0.0.1:{control}"), process, tools: tools.clone(), folder }
    }

    /// Its issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The file of the authority that its certificate is from, where it speaks TLS.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A connector's entry in the broker's configuration, for a client of its own at this provider. The tenant rule is the
    /// caller's to add, and [`Self::register`] to be called once the broker runs.
    #[must_use]
    pub fn connector(&self, id: &str) -> Value {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let client = format!("denizen-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        json!({
            "id": id, "displayName": self.settings.name, "type": "oidc", "issuer": {"url": self.issuer}, "clientId": client,
            "clientSecret": format!("secret-of-{client}"), "allowedNetworks": ["127.0.0.0/8"], "deadlineSeconds": 3,
        })
    }

    /// The same beside another connector at this provider: it takes only what the provider said to its own client.
    #[must_use]
    pub fn connector_apart(&self, id: &str) -> Value {
        let mut connector = self.connector(id);
        connector["claimValidationRules"] = json!([{"claim": "aud", "requiredValue": connector["clientId"]}]);
        connector
    }

    /// Makes the broker's client of a connector known.
    pub async fn register(&self, broker: &Broker, connector: &Value) {
        self.register_at(broker.issuer(), connector, &json!({})).await;
    }

    /// The same for a broker at this address, with more metadata (OpenID Connect Dynamic Client Registration, 2).
    ///
    /// # Panics
    /// When the provider takes no such client.
    pub async fn register_at(&self, broker: &str, connector: &Value, more: &Value) {
        let door = format!("{broker}/login/{}", connector["id"].as_str().unwrap());
        let method = connector["clientAuthentication"].as_str().unwrap_or("client_secret_basic");
        let mut client = json!({
            "client_id": connector["clientId"], "redirect_uris": [format!("{door}/callback")], "token_endpoint_auth_method": method,
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "backchannel_logout_uri": format!("{door}/backchannel-logout"), "backchannel_logout_session_required": true,
        });
        if method.starts_with("client_secret") {
            client["client_secret"] = connector["clientSecret"].clone();
        }
        for (name, value) in more.as_object().into_iter().flatten() {
            client[name] = value.clone();
        }
        self.change("PUT", "/client", &client).await;
    }

    /// Replaces the account of the same `sub`, or adds one.
    pub async fn set(&self, account: &Value) {
        self.change("PUT", "/account", account).await;
    }

    /// Signs with a new key from now on; the old one is in the key set no more.
    pub async fn rotate_keys(&self) {
        self.change("POST", "/keys", &Value::Null).await;
    }

    /// How often each of its paths was called since [`Self::forget_counts`].
    pub async fn count(&self, path: &str) -> u64 {
        self.change("GET", "/counts", &Value::Null).await[path].as_u64().unwrap_or(0)
    }

    /// Counts from zero again.
    pub async fn forget_counts(&self) {
        self.change("DELETE", "/counts", &Value::Null).await;
    }

    async fn change(&self, method: &str, path: &str, body: &Value) -> Value {
        // A client of its own: each test has a runtime of its own, and a kept connection belongs to one.
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let request = http.request(method.parse().unwrap(), format!("{}{path}", self.control));
        let request = if body.is_null() { request } else { request.json(body) };
        Answer::read(request.send().await.unwrap()).await.unwrap().expect(200).json()
    }

    /// Fills in the provider's form, on which the browser is, and goes where that leads.
    pub async fn sign_in(&self, browser: &mut Browser, page: &Answer, login: &str) -> Answer {
        browser.submit(page, &self.fields(login)).await
    }

    /// What someone types into the provider's form.
    #[must_use]
    pub fn fields<'a>(&self, login: &'a str) -> [(&'static str, &'a str); 2] {
        [("login", login), ("password", self.password(login))]
    }

    /// Someone's password.
    #[must_use]
    pub fn password<'a>(&self, login: &str) -> &'a str {
        // A few short texts in the life of a test program.
        password_of(self.settings.name, login).leak()
    }

    /// Ends the session that a browser has here, at the provider's own page.
    pub async fn sign_out(&self, browser: &mut Browser) {
        let page = browser.open(&format!("{}/session/end", self.issuer)).await.expect(200);
        let answer = browser.submit(&page, &[("logout", "yes")]).await;
        assert!(answer.text.contains("Signed out at the provider"), "{}", answer.text);
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

    /// Starts it again at the same address, with new keys and without clients and sessions.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = run(&self.tools, self.folder.path());
        let port = self.control.rsplit_once(':').unwrap().1.parse().unwrap();
        self.process.wait_for_port(port).await;
    }

    /// What it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.output()
    }
}

fn run(tools: &Tools, folder: &Path) -> Process {
    let mut command = tools.node("provider.mjs");
    command.arg(folder.join("settings.json"));
    Process::start(&mut command, &folder.join("log"))
}

/// Writes a new P-256 key for `private_key_jwt`, and gives its file and its public half (RFC 7517) under this `kid`.
///
/// # Panics
/// When no key can be made.
#[must_use]
pub fn client_key(folder: &Path, kid: &str) -> (PathBuf, Value) {
    let key = rcgen::KeyPair::generate().unwrap();
    let path = folder.join(format!("{kid}.pem"));
    fs::write(&path, key.serialize_pem()).unwrap();
    // An uncompressed point: 4, then both coordinates.
    let (x, y) = key.public_key_raw()[1..].split_at(32);
    (path, json!({"kty": "EC", "crv": "P-256", "x": B64.encode(x), "y": B64.encode(y), "kid": kid, "use": "sig", "alg": "ES256"}))
}
