//! What is sent to Keystone to get a token: who, the proof, and what for.

use serde_json::{Value, json};

use super::config::Named;
use crate::Secret;

/// Something of Keystone's by its id or by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum By {
    Id(String),
    Name(String),
}

impl By {
    /// Exactly one of the two, which is not empty.
    pub(super) fn of(named: &Named) -> Option<Self> {
        match (&named.id, &named.name) {
            (Some(id), None) if is_name(id) => Some(Self::Id(id.clone())),
            (None, Some(name)) if is_name(name) => Some(Self::Name(name.clone())),
            _ => None,
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name(name) => json!({ "name": name }),
        }
    }
}

/// Whether a text can be a name or an id in Keystone: 1 to 255 characters, not blank, without control characters.
pub(super) fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().nth(255).is_none() && !text.chars().any(char::is_control)
}

/// What a token is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing, and not a person's default project either.
    Unscoped,
    System,
    Domain(By),
    ProjectById(String),
    Project {
        name: String,
        domain: By,
    },
}

impl Wanted {
    fn json(&self) -> Value {
        match self {
            Self::Unscoped => json!("unscoped"),
            Self::System => json!({"system": {"all": true}}),
            Self::Domain(domain) => json!({"domain": domain.json()}),
            Self::ProjectById(id) => json!({"project": {"id": id}}),
            Self::Project { name, domain } => json!({"project": {"name": name, "domain": domain.json()}}),
        }
    }
}

/// A user's name, domain and password.
pub(super) fn password(name: &str, domain: &By, password: &Secret, wanted: &Wanted) -> Value {
    let user = json!({"name": name, "domain": domain.json(), "password": password.expose()});
    json!({"identity": {"methods": ["password"], "password": {"user": user}}, "scope": wanted.json()})
}

/// An application credential, which has a scope of its own: asking for one is an error.
pub(super) fn application_credential(id: &str, secret: &Secret) -> Value {
    let credential = json!({"id": id, "secret": secret.expose()});
    json!({"identity": {"methods": ["application_credential"], "application_credential": credential}})
}

/// How the service account proves itself.
#[derive(Debug)]
pub(super) enum Proof {
    Password { name: String, domain: By, password: Secret, wanted: Wanted },
    ApplicationCredential { id: String, secret: Secret },
}

impl Proof {
    pub(super) fn auth(&self) -> Value {
        match self {
            Self::Password { name, domain, password: secret, wanted } => password(name, domain, secret, wanted),
            Self::ApplicationCredential { id, secret } => application_credential(id, secret),
        }
    }
}
