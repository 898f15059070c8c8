//! The upstreams. One module each: it speaks the protocol and returns what the upstream said, an [`UpstreamUser`], unmapped.
//!
//! What no connector does: build an identity, decide on a tenant, cache, retry across connectors, or read another
//! connector's answer. Caches, single flight, deadlines over a whole call and breakers are wrapped around the ports once, in broker.
//!
//! # Adding a connector
//!
//! 1. A module `name.rs` (and a folder `name/` where it has parts) with a `NameConfig` (serde, camelCase, unknown keys
//!    refused, `JsonSchema`, documented fields) and a constructor that does no I/O.
//! 2. Implement the ports that the upstream can serve, and only those: there are no "not supported" bodies.
//! 3. One variant and one match arm each in `config.rs`, the registry.
//! 4. Run the directory conformance suite of `tests/` against a real server.

pub mod config;
pub mod file;
pub mod ldap;
mod names;
mod secret;

use std::{fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
pub use claims_mapping::UpstreamUser;
use claims_mapping::{ConnectorId, Subject, Tenant, TenantScope};
pub use secret::{ConfiguredSecret, Secret};

/// One upstream, as the ports that it has.
pub struct Connector {
    /// Its permanent name.
    pub id: ConnectorId,
    /// Sign-in with name and password.
    pub password: Option<Arc<dyn PasswordLogin>>,
    /// Users by search and look-up.
    pub directory: Option<Arc<dyn Directory>>,
    /// Files whose change the connector follows by itself.
    pub watches: Vec<PathBuf>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("id", &self.id)
            .field("password", &self.password.is_some())
            .field("directory", &self.directory.is_some())
            .finish_non_exhaustive()
    }
}

/// The third outcome beside yes and no: the upstream could not tell. It is never reported as "no". Texts name the
/// upstream and the operation, and hold no credential and no claim value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectorError {
    /// It did not answer, or not in time, or the connection broke.
    #[error("the upstream is unavailable: {0}")]
    Unavailable(String),
    /// It answered, and refused the connector's own credential or request: an operator must act.
    #[error("the upstream refuses the connector: {0}")]
    Refused(String),
    /// It answered what its protocol or the configuration does not allow (a user without the id attribute, broken claims).
    #[error("the upstream's answer can not be used: {0}")]
    Unusable(String),
}

/// What someone typed as their name, and the tenant in which to look for it.
#[derive(Debug, Clone)]
pub struct LoginName {
    /// The name, without a tenant.
    pub name: String,
    /// The tenant of the sign-in: from the client's request, or from `name@label`.
    pub tenant: Option<Arc<Tenant>>,
}

/// Sign-in with name and password.
#[async_trait]
pub trait PasswordLogin: Send + Sync {
    /// Whether name and password are right: `Some` with the person, groups included; `None` for a wrong password, an
    /// unknown, disabled or ambiguous name, an empty, blank or NUL-holding password.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<UpstreamUser>, ConnectorError>;
}

/// Users by search and look-up, always within one tenant: it enters the upstream's own query.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Enabled users of the scope's tenant that match, at most `query.limit`, groups left out, in no particular order.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError>;

    /// One enabled user of the scope's tenant, groups included; `None` where there is none, or more than one.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError>;
}

/// A search for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserQuery {
    /// A substring of one of the directory's search attributes, without regard to case; empty finds everyone.
    pub text: String,
    /// The most users to return, at least 1.
    pub limit: usize,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The users.
    pub users: Vec<UpstreamUser>,
    /// Whether the limit, or one of the upstream's own, cut the answer.
    pub truncated: bool,
}

/// By what one user is looked up; always exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// By the immutable subject.
    Subject(Subject),
    /// By the name that they sign in with.
    Username(String),
    /// By e-mail address.
    Mail(String),
}
