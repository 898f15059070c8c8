//! The configuration that most suites run on: two tenants with people of the same names, and one application of each kind.

use std::{collections::HashMap, path::Path, sync::Mutex};

use argon2::{Algorithm, Argon2, Params, Version, password_hash::PasswordHasher as _};
use serde_json::{Value, json};

/// The audience of the Kubernetes API server.
pub const KUBERNETES: &str = "https://kubernetes.default.svc";
/// An audience that no reviewer of Kubernetes stands for.
pub const OPENCLOUD: &str = "https://cloud.example";
/// The bearer token of the reviewer `kubernetes`.
pub const REVIEWER_TOKEN: &str = "reviewer-token-of-kubernetes";
/// The bearer token of the reviewer `opencloud`.
pub const OPENCLOUD_TOKEN: &str = "reviewer-token-of-opencloud";
/// The bearer token of the reviewer `arktos`.
pub const ARKTOS_TOKEN: &str = "reviewer-token-of-arktos";

/// The secret of a confidential client.
#[must_use]
pub fn secret_of(client: &str) -> String {
    format!("secret-of-{client}")
}

/// The password of someone.
#[must_use]
pub fn password_of(tenant: &str, username: &str) -> String {
    format!("{username}-of-{tenant}-password")
}

/// A configuration, as JSON (which YAML includes). `ISSUER` stands for the issuer, which is known once a port is.
#[derive(Debug, Clone)]
pub struct Configuration(pub Value);

impl Default for Configuration {
    fn default() -> Self {
        Self(json!({
            "tenants": [
                {"id": "acme", "displayName": "Acme Corporation"},
                {"id": "globex", "displayName": "Globex"},
            ],
            "systemTenant": {"label": "operators", "connectors": ["operators"]},
            "connectors": [
                {
                    "id": "people", "displayName": "Name and password", "type": "file", "operatedBy": "operator",
                    "tenants": ["acme", "globex"], "roles": ["editor"], "users": people(),
                },
                {
                    "id": "operators", "type": "file", "operatedBy": "operator", "tenant": {"fixed": "system"},
                    "users": [{"id": "o1", "username": "olga", "password": hash_of("system", "olga")}],
                },
            ],
            "clients": clients(),
            "reviewers": [
                {"id": "kubernetes", "bearerToken": REVIEWER_TOKEN, "audiences": [KUBERNETES]},
                {"id": "opencloud", "bearerToken": OPENCLOUD_TOKEN, "audiences": [OPENCLOUD]},
                {"id": "arktos", "bearerToken": ARKTOS_TOKEN, "audiences": [KUBERNETES], "format": "arktos"},
                {"id": "by-client", "client": "reviewer", "audiences": [KUBERNETES]},
            ],
        }))
    }
}

fn people() -> Value {
    let person = |id: &str, tenant: &str, username: &str, name: &str, groups: &[&str]| {
        json!({
            "id": id, "tenant": tenant, "username": username, "displayName": name, "email": format!("{username}@{tenant}.example"),
            "emailVerified": true, "groups": groups, "password": hash_of(tenant, username),
        })
    };
    let mut jane = person("a1", "acme", "jane", "Jane Jones", &["staff", "admins"]);
    jane["roles"] = json!(["editor", "opencloudAdmin"]);
    json!([
        jane,
        person("a2", "acme", "alice", "Alice Archer", &["staff"]),
        person("a3", "acme", "bob", "Bob Baker", &[]),
        person("g1", "globex", "jane", "Jane Joyce", &["staff"]),
        person("g2", "globex", "hank", "Hank Hill", &["staff", "admins"]),
    ])
}

fn clients() -> Value {
    let everything = ["openid", "profile", "email", "groups", "roles", "offline_access", "users.read"];
    let service = |id: &str, tenant: &str, audience: &str, scopes: &[&str]| {
        json!({
            "id": id, "secret": secret_of(id), "grantTypes": ["client_credentials"], "scopes": scopes, "audiences": [audience], "tenant": tenant,
        })
    };
    json!([
        {
            "id": "web", "displayName": "The web application", "redirectUris": ["http://127.0.0.1/cb"], "scopes": everything,
            "audiences": [KUBERNETES, "${issuer}/api", OPENCLOUD], "origins": ["https://app.example"], "connectors": ["people"],
        },
        {
            "id": "backend", "secret": secret_of("backend"), "redirectUris": ["https://backend.example/cb"], "scopes": everything,
            "audiences": ["${issuer}/api"], "connectors": ["people"],
        },
        {
            "id": "acme-only", "redirectUris": ["https://acme-only.example/cb"], "tenants": ["acme"], "connectors": ["people"],
        },
        {
            "id": "console", "redirectUris": ["https://console.example/cb"], "scopes": everything, "audiences": ["${issuer}/api", KUBERNETES],
        },
        service("reviewer", "acme", "${issuer}/review", &[]),
        service("ops", "system", "${issuer}/api", &["users.read"]),
        service("acme-service", "acme", "${issuer}/api", &["users.read"]),
        service("globex-workload", "globex", KUBERNETES, &[]),
    ])
}

impl Configuration {
    /// The configuration with a value set at a JSON pointer whose parent is there.
    ///
    /// # Panics
    /// When the parent is not there.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        self.set(pointer, value);
        self
    }

    /// Sets a value at a JSON pointer whose parent is there; `-` appends to a list.
    ///
    /// # Panics
    /// When the parent is not there.
    pub fn set(&mut self, pointer: &str, value: impl Into<Value>) {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer begins with /");
        match self.0.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}")) {
            Value::Object(map) => _ = map.insert(key.to_owned(), value.into()),
            Value::Array(list) if key == "-" => list.push(value.into()),
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = value.into(),
            _ => panic!("{parent} has no parts"),
        }
    }

    /// Sets a value of one client.
    ///
    /// # Panics
    /// When there is no such client.
    #[must_use]
    pub fn with_client(mut self, id: &str, key: &str, value: impl Into<Value>) -> Self {
        let clients = self.0["clients"].as_array_mut().unwrap();
        clients.iter_mut().find(|c| c["id"] == id).expect("there is such a client")[key] = value.into();
        self
    }

    /// The text, for an issuer and the ports of both listeners, with the store in this folder.
    #[must_use]
    pub fn text(&self, issuer: &str, port: u16, admin_port: u16, folder: &Path) -> String {
        let mut value = self.0.clone();
        value["issuer"] = issuer.into();
        value["listen"]["address"] = format!("127.0.0.1:{port}").into();
        value["listen"]["adminAddress"] = format!("127.0.0.1:{admin_port}").into();
        if value["store"].is_null() {
            value["store"]["file"] = folder.join("denizen.redb").to_string_lossy().into();
        }
        value.to_string()
    }
}

/// A hash of someone's password, of the least cost that argon2 has: the suites sign in hundreds of times.
#[must_use]
pub fn hash_of(tenant: &str, username: &str) -> String {
    hash(&password_of(tenant, username))
}

/// A cheap hash of a password.
///
/// # Panics
/// When it can not be computed.
#[must_use]
pub fn hash(password: &str) -> String {
    static KNOWN: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap();
    let known = known.get_or_insert_default();
    if let Some(hash) = known.get(password) {
        return hash.clone();
    }
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8, 1, 1, None).unwrap());
    let hash = argon2.hash_password(password.as_bytes()).unwrap().to_string();
    known.insert(password.to_owned(), hash.clone());
    hash
}
