//! A real Glewlwyd (Debian): a second provider, written in C, which knows little of this harness' first. One person, one client.

use std::{fs, process::Command};

use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Answer, Browser, ports, process::Process};

const PROGRAM: &str = "/usr/bin/glewlwyd";
/// The tables of its database, as the package brings them for the installation by debconf.
const TABLES: &str = "/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3";
const ADDRESS: &str = "127.0.1.1";
/// The client's secret.
const SECRET: &str = "secret-of-denizen-at-glewlwyd";
/// What its OpenID Connect plugin does.
const ON: &[&str] = &[
    "refresh-token-rolling",
    "jwks-show",
    "auth-type-code-enabled",
    "auth-type-code-revoke-replayed",
    "auth-type-refresh-enabled",
    "auth-type-id-token-enabled",
    "pkce-allowed",
    "pkce-required",
];
/// What it does not. It wants to be told of each.
const OFF: &[&str] = &[
    "allow-non-oidc",
    "auth-type-token-enabled",
    "auth-type-none-enabled",
    "auth-type-password-enabled",
    "auth-type-client-enabled",
    "auth-type-device-enabled",
    "pkce-method-plain-allowed",
    "request-parameter-allow",
    "session-management-allowed",
    "encrypt-out-token-allow",
    "introspection-revocation-allowed",
    "register-client-allowed",
    "front-channel-logout-allowed",
    "back-channel-logout-allowed",
];
/// The person's password.
const PASSWORD: &str = "password-of-gwen";

/// A Glewlwyd that runs. Its person is `gwen`.
#[derive(Debug)]
pub struct Glewlwyd {
    address: String,
    administrator: Client,
    process: Process,
    _folder: TempDir,
}

impl Glewlwyd {
    /// Starts it.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub async fn start() -> Self {
        let folder = crate::folder::new("glewlwyd");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let made = Command::new("sqlite3").arg(at("data")).stdin(fs::File::open(TABLES).unwrap()).status();
        assert!(made.expect("sqlite3 is installed").success());
        let port = ports::free();
        let address = format!("http://{ADDRESS}:{port}");
        let settings = format!(
            "port={port}\nbind_address=\"{ADDRESS}\"\nexternal_url=\"{address}\"\nlogin_url=\"login.html\"\napi_prefix=\"api\"\n\
             log_mode=\"console\"\nlog_level=\"INFO\"\nsession_key=\"GLEWLWYD2_SESSION_ID\"\nadmin_scope=\"g_admin\"\n\
             profile_scope=\"g_profile\"\nuser_module_path=\"/usr/lib/glewlwyd/user\"\nclient_module_path=\"/usr/lib/glewlwyd/client\"\n\
             user_auth_scheme_module_path=\"/usr/lib/glewlwyd/scheme\"\nplugin_module_path=\"/usr/lib/glewlwyd/plugin\"\n\
             hash_algorithm=\"SHA512\"\ndatabase = {{ type = \"sqlite3\" path = \"{}\" }}\n",
            at("data")
        );
        fs::write(at("glewlwyd.conf"), settings).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--config-file={}", at("glewlwyd.conf")));
        let mut process = Process::start(&mut command, &folder.path().join("log"));
        process.wait_until(async || std::net::TcpStream::connect((ADDRESS, port)).is_ok()).await;
        let administrator = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let glewlwyd = Self { address, administrator, process, _folder: folder };
        glewlwyd.furnish().await;
        glewlwyd
    }

    async fn furnish(&self) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = json!({
            "iss": self.issuer(), "jwt-type": "ecdsa", "jwt-key-size": "256", "key": key.serialize_pem(), "cert": key.public_key_pem(),
            "access-token-duration": 3_600, "refresh-token-duration": 86_400, "code-duration": 60, "refresh-token-one-use": "always",
            "subject-type": "public", "name-claim": "mandatory", "email-claim": "mandatory", "scope-claim": "no",
            "address-claim": {"type": "no"}, "scope": [], "additional-parameters": [],
            "claims": [{"name": "preferred_username", "user-property": "username", "type": "string", "mandatory": true}],
        });
        for (value, names) in [(true, ON), (false, OFF)] {
            for name in names {
                parameters[name] = value.into();
            }
        }
        let plugin = json!({"module": "oidc", "name": "oidc", "display_name": "OpenID Connect", "enabled": true, "parameters": parameters});
        self.administer("POST", "/mod/plugin/", &plugin).await;
        self.administer("POST", "/user/", &gwen()).await;
    }

    async fn administer(&self, method: &str, path: &str, body: &Value) {
        // The password of the tables as they come.
        let login = json!({"username": "admin", "password": "password"});
        let answer = self.administrator.post(self.api("/auth/")).json(&login).send().await.unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let request = self.administrator.request(method.parse().unwrap(), self.api(path)).header("cookie", cookie).json(body);
        Answer::read(request.send().await.unwrap()).await.unwrap().expect(200);
    }

    fn api(&self, path: &str) -> String {
        format!("{}/api{path}", self.address)
    }

    /// Its issuer.
    #[must_use]
    pub fn issuer(&self) -> String {
        self.api("/oidc")
    }

    /// The connector's entry in the broker's configuration, without a tenant rule.
    #[must_use]
    pub fn connector(&self, id: &str) -> Value {
        json!({
            "id": id, "displayName": "Glewlwyd", "type": "oidc", "issuer": {"url": self.issuer()}, "clientId": "denizen",
            "clientSecret": SECRET, "allowedNetworks": ["127.0.0.0/8"], "signingAlgorithms": ["ES256"], "scopes": [],
        })
    }

    /// Makes the client of a broker at this address known.
    pub async fn register_at(&self, broker: &str, connector: &Value) {
        let callback = format!("{broker}/login/{}/callback", connector["id"].as_str().unwrap());
        let client = json!({
            "client_id": "denizen", "name": "Denizen", "client_secret": SECRET, "confidential": true, "redirect_uri": [callback],
            "authorization_type": ["code", "refresh_token"], "token_endpoint_auth_method": ["client_secret_basic"], "scope": [],
            "enabled": true,
        });
        self.administer("POST", "/client/", &client).await;
    }

    /// Signs `gwen` in, as the scripts of its own page do; `page` is what led the browser there. Gives the answer at the end of the way.
    ///
    /// # Panics
    /// When the browser was not led here.
    pub async fn sign_in(&self, browser: &mut Browser, page: &Answer) -> Answer {
        assert!(page.url.as_str().starts_with(&self.address), "the browser is at {}: {}", page.url, page.text);
        let back = page.url.query_pairs().find(|(name, _)| name == "callback_url").expect("it says where to go on").1.into_owned();
        let login = json!({"username": "gwen", "password": PASSWORD});
        browser.send_json("POST", &self.api("/auth/"), &login).await.expect(200);
        browser.send_json("PUT", &self.api("/auth/grant/denizen"), &json!({"scope": "openid"})).await.expect(200);
        browser.open(&format!("{back}&g_continue")).await
    }

    /// Removes `gwen`. (Switched off, this version goes on to answer renewals and userinfo for her.)
    pub async fn remove(&self) {
        self.administer("DELETE", "/user/gwen", &Value::Null).await;
    }

    /// What it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.output()
    }
}

fn gwen() -> Value {
    json!({
        "username": "gwen", "name": "Gwen", "email": "gwen@globex.example", "password": PASSWORD, "scope": ["openid"],
        "enabled": true,
    })
}
