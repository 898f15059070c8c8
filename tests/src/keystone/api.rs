//! Keystone's API, as one whose token we have may use it.

use serde_json::{Value, json};

use super::fixtures::{DEFAULT, DEFAULT_NAME};
use crate::{Answer, configuration::password_of};

/// What a token is asked for, and where a role is given. What is named is named by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Nothing.
    Unscoped,
    /// A project.
    Project(&'a str),
    /// A domain.
    Domain(&'a str),
    /// The whole of the installation.
    System,
}

impl Scope<'_> {
    /// As a request for a token says it.
    #[must_use]
    pub fn json(self) -> Value {
        match self {
            Self::Unscoped => json!("unscoped"),
            Self::Project(id) => json!({"project": {"id": id}}),
            Self::Domain(id) => json!({"domain": {"id": id}}),
            Self::System => json!({"system": {"all": true}}),
        }
    }

    /// Where the roles are that someone (`users` or `groups`) has here.
    fn roles_of(self, kind: &str, who: &str) -> String {
        match self {
            Self::Unscoped => panic!("no one has roles on nothing"),
            Self::Project(id) => format!("/projects/{id}/{kind}/{who}/roles"),
            Self::Domain(id) => format!("/domains/{id}/{kind}/{who}/roles"),
            Self::System => format!("/system/{kind}/{who}/roles"),
        }
    }
}

/// Keystone at an address that ends in `/v3`.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
}

impl Api {
    /// For nobody yet. `authority` is the certificate, in PEM, of the only one that is trusted.
    ///
    /// # Panics
    /// When it is not a certificate.
    #[must_use]
    pub fn new(url: &str, authority: Option<&str>) -> Self {
        crate::broker::install_providers();
        let authorities = authority.map(|pem| reqwest::Certificate::from_pem(pem.as_bytes()).unwrap());
        let http = reqwest::Client::builder().no_proxy().tls_certs_only(authorities).timeout(crate::process::PATIENCE).build().unwrap();
        Self { http, url: url.to_owned(), token: None }
    }

    /// For the one whose token this is.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Calls it, with more headers.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.url));
        for (name, value) in self.token.iter().map(|token| ("X-Auth-Token", token.as_str())).chain(headers.iter().copied()) {
            request = request.header(name, value);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        Answer::read(request.send().await.unwrap()).await.unwrap()
    }

    /// Whether Keystone answers at all.
    pub(super) async fn is_there(&self) -> bool {
        let request = self.http.get(&self.url).timeout(std::time::Duration::from_secs(2));
        request.send().await.is_ok_and(|answer| answer.status().is_success())
    }

    /// Reads something.
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], &Value::Null).await
    }

    /// Makes something of this kind below a path, and gives what was made.
    pub async fn create(&self, path: &str, kind: &str, body: &Value) -> Value {
        self.send("POST", path, &[], &json!({ kind: body })).await.expect(201).json()[kind].clone()
    }

    /// Changes something of this kind.
    pub async fn change(&self, path: &str, kind: &str, body: &Value) {
        self.send("PATCH", path, &[], &json!({ kind: body })).await.expect(200);
    }

    /// Puts something where it is not yet.
    pub async fn put(&self, path: &str) {
        self.send("PUT", path, &[], &Value::Null).await.expect(204);
    }

    /// Takes something away.
    pub async fn delete(&self, path: &str) {
        self.send("DELETE", path, &[], &Value::Null).await.expect(204);
    }

    /// Gives a user a role, by its id.
    pub async fn grant(&self, role: &str, user: &str, scope: Scope<'_>) {
        self.put(&format!("{}/{role}", scope.roles_of("users", user))).await;
    }

    /// Gives a group a role, by its id.
    pub async fn grant_group(&self, role: &str, group: &str, scope: Scope<'_>) {
        self.put(&format!("{}/{role}", scope.roles_of("groups", group))).await;
    }

    /// Takes a role from a user.
    pub async fn remove_role(&self, role: &str, user: &str, scope: Scope<'_>) {
        self.delete(&format!("{}/{role}", scope.roles_of("users", user))).await;
    }

    /// Asks for a token: `identity` and `scope` as Keystone has them, `null` for no scope at all.
    pub async fn authenticate(&self, identity: &Value, scope: &Value) -> Answer {
        let mut auth = json!({ "identity": identity });
        if !scope.is_null() {
            auth["scope"] = scope.clone();
        }
        let anyone = Self { token: None, ..self.clone() };
        anyone.send("POST", "/auth/tokens?nocatalog", &[], &json!({ "auth": auth })).await
    }

    /// Asks for a token with a password, for a user of the domain of this id.
    pub async fn password(&self, domain: &str, user: &str, password: &str, scope: &Value) -> Answer {
        self.authenticate(&password_identity(domain, user, password), scope).await
    }

    /// Asks what a token says.
    pub async fn validate(&self, token: &str) -> Answer {
        self.send("GET", "/auth/tokens?nocatalog", &[("X-Subject-Token", token)], &Value::Null).await
    }
}

/// For the first administrator, by a token on the system: one of a project may not make users.
pub(super) async fn administrator(api: &Api) -> Api {
    let password = password_of(DEFAULT_NAME, "admin");
    api.with_token(&token_of(api.password(DEFAULT, "admin", &password, &Scope::System.json()).await))
}

/// What a request for a token says about who asks, for a user of the domain of this id.
#[must_use]
pub fn password_identity(domain: &str, user: &str, password: &str) -> Value {
    json!({"methods": ["password"], "password": {"user": {"name": user, "domain": {"id": domain}, "password": password}}})
}

/// The same for an application credential.
#[must_use]
pub fn application_credential_identity(id: &str, secret: &str) -> Value {
    json!({"methods": ["application_credential"], "application_credential": {"id": id, "secret": secret}})
}

/// The token of an answer that has one.
///
/// # Panics
/// When it has none.
#[must_use]
#[track_caller]
pub fn token_of(answer: Answer) -> String {
    answer.expect(201).header("X-Subject-Token").to_owned()
}
