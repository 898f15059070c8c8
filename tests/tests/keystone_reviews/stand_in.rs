//! Something in place of Keystone that answers faster than Keystone can, for floods: it knows some tokens, and no other.

use std::{
    collections::HashSet,
    fs,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use denizen_tests::{Configuration, Relay, relay::Reply};
use serde_json::json;
use tempfile::TempDir;

use super::house::accept_tokens;

/// The stand-in, and the folder of the service account's password.
pub(crate) struct StandIn {
    pub(crate) relay: Relay,
    good: Arc<Mutex<HashSet<String>>>,
    folder: TempDir,
}

impl StandIn {
    pub(crate) fn start() -> Self {
        let good = Arc::new(Mutex::new(HashSet::<String>::new()));
        let known = Arc::clone(&good);
        let relay = Relay::stand_in(move |seen| {
            let token = |name: &str| seen.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
            match seen.method.as_str() {
                "POST" => Reply::new(201, body("denizen")).with_header("x-subject-token", "the-service-token"),
                _ if token("x-auth-token") != "the-service-token" => Reply::new(401, "{}"),
                _ if seen.uri.path() != super::house::TOKENS => Reply::new(200, r#"{"groups": [], "role_assignments": [], "links": {}}"#),
                _ if known.lock().unwrap().contains(&token("x-subject-token")) => Reply::new(200, body("jane")),
                _ => Reply::new(404, r#"{"error": {"code": 404}}"#),
            }
        });
        let folder = denizen_tests::folder::new("stand-in");
        fs::write(folder.path().join("password"), "password").unwrap();
        Self { relay, good, folder }
    }

    /// A token that it knows.
    pub(crate) fn good(&self, number: u64) -> String {
        let token = fernet(number);
        self.good.lock().unwrap().insert(token.clone());
        token
    }

    /// The broker's configuration.
    pub(crate) fn configuration(&self) -> Configuration {
        let mut configuration = Configuration::default().with("/tenants/0/externalIds", json!({"cloud": "d1"})).with(
            "/connectors/-",
            json!({
                "id": "cloud", "type": "keystone", "operatedBy": "operator", "url": format!("{}/v3", self.relay.address()),
                "allowedNetworks": ["127.0.0.0/8"], "userDirectory": false,
                "serviceAccount": {
                    "name": "denizen", "domain": {"id": "default"}, "passwordFile": self.folder.path().join("password"), "scope": {"system": "all"},
                },
            }),
        );
        accept_tokens(&mut configuration);
        configuration
    }
}

fn body(name: &str) -> String {
    let token = json!({
        "methods": ["password"], "user": {"id": format!("id-of-{name}"), "name": name, "domain": {"id": "d1", "name": "acme"}},
        "issued_at": "2026-11-21T07:28:10.000000Z", "expires_at": "2126-11-21T07:28:10.000000Z",
    });
    json!({ "token": token }).to_string()
}

/// What has the form of a Fernet token, each number's another: version, a time, a vector, four blocks and a signature.
pub(crate) fn fernet(number: u64) -> String {
    let mut bytes = vec![0x80];
    bytes.extend(1_700_000_000_u64.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend([7; 8 + 4 * 16 + 32]);
    URL_SAFE.encode(bytes)
}
