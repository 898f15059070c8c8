//! What `/oauth2/token` can do. Each grant type is one step from a proof to a [`Granted`], through one pipeline: who is the
//! client, what proves the right, what is consumed, what is issued.
//!
//! What is used once (a code, a refresh token) is consumed in the same atomic commit that writes what it gave, and leaves a
//! tombstone that names it, so that a second use can revoke it. What was given to no one may be tried again: `grants/doubts.rs`.

mod client;
mod client_credentials;
mod code;
mod doubts;
mod family;
mod handle;
mod issue;
mod narrowing;
mod refresh;
mod revoke;

use std::sync::Arc;

use claims_mapping::TenantId;
use serde::Serialize;
use url::Url;
use uuid::Uuid;

use doubts::Doubts;
use family::Family;

pub use client::{Authentication, Client, ClientError, Clients};
pub use code::CodeRequest;
pub use refresh::RefreshRequest;

use crate::{
    config::{Lifetimes, seconds},
    login::{SessionError, Sessions},
    seams::Entropy,
    store::{Peers, Store, StoreError},
    tenancy::Admission,
    tokens::{KeyRing, MintError},
};

/// Why the token endpoint refuses (RFC 6749, 5.2), or that it could not be told. Descriptions hold nothing secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// `invalid_client`.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// `invalid_grant`: the code or refresh token is not good, or not any more, or not this client's.
    #[error("{0}")]
    InvalidGrant(&'static str),
    /// `invalid_scope`.
    #[error("{0}")]
    InvalidScope(&'static str),
    /// `invalid_target` (RFC 8707, 2).
    #[error("{0}")]
    InvalidTarget(&'static str),
    /// `unauthorized_client`: this client may not use this grant type.
    #[error("the client is not registered for this grant type")]
    UnauthorizedClient,
    /// `invalid_grant`: the session ended, or its person is no longer admitted.
    #[error(transparent)]
    Session(SessionError),
    /// The token could not be made.
    #[error(transparent)]
    Mint(#[from] MintError),
    /// The store, or a directory, could not tell: `temporarily_unavailable`, 503. What was shown can be shown again.
    #[error("{0}")]
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
}

impl GrantError {
    /// Whether it is an upstream's outage, of which the log is told once.
    pub(crate) fn is_outage(&self) -> bool {
        let Self::Unavailable(error) = self else { return false };
        matches!(error.downcast_ref(), Some(connectors::ConnectorError::Unavailable(_)))
    }
}

impl From<StoreError> for GrantError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

impl From<SessionError> for GrantError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => Self::Unavailable(Box::new(error)),
            SessionError::Directory(error) => Self::Unavailable(Box::new(error)),
            error => Self::Session(error),
        }
    }
}

/// A successful answer of the token endpoint (RFC 6749, 5.1).
#[derive(Debug, Serialize)]
pub struct Granted {
    /// The access token.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: &'static str,
    /// Seconds until the access token ends.
    pub expires_in: u64,
    /// What it allows.
    pub scope: String,
    /// The next refresh token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// The ID token, with the scope `openid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token: Option<String>,
    /// For the audit log.
    #[serde(skip)]
    pub subject: GrantedTo,
}

/// To whom something was granted, for the audit log.
#[derive(Debug, Clone)]
pub struct GrantedTo {
    /// The tenant.
    pub tenant: TenantId,
    /// The opaque id.
    pub user: Uuid,
}

/// The use case.
pub struct Grants {
    /// The applications.
    pub clients: Arc<Clients>,
    keys: Arc<KeyRing>,
    store: Arc<dyn Store>,
    doubts: Doubts,
    entropy: Arc<dyn Entropy>,
    sessions: Sessions,
    admission: Arc<Admission>,
    lifetimes: Lifetimes,
    issuer: Url,
}

impl std::fmt::Debug for Grants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grants").field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// What [`Grants`] works with.
pub struct GrantParts {
    /// The applications.
    pub clients: Arc<Clients>,
    /// The signing keys.
    pub keys: Arc<KeyRing>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The other replicas on it.
    pub peers: Arc<dyn Peers>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The sessions.
    pub sessions: Sessions,
    /// The way in.
    pub admission: Arc<Admission>,
    /// How long what is issued holds.
    pub lifetimes: Lifetimes,
    /// Denizen's issuer.
    pub issuer: Url,
}

impl Grants {
    /// The grants over these parts.
    #[must_use]
    pub fn new(parts: GrantParts) -> Self {
        let GrantParts { clients, keys, store, peers, entropy, sessions, admission, lifetimes, issuer } = parts;
        let doubts = Doubts::new(Arc::clone(&store), peers);
        Self { clients, keys, store, doubts, entropy, sessions, admission, lifetimes, issuer }
    }
}
