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
mod faults;
pub mod file;
mod http;
pub mod keystone;
pub mod ldap;
mod names;
mod network;
pub mod oidc;
mod secret;
mod token;

use std::{fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
pub use claims_mapping::UpstreamUser;
use claims_mapping::{ConnectorId, Subject, Tenant, TenantScope};
pub use secret::{ConfiguredSecret, Secret};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
pub use token::UnverifiedToken;
use url::Url;

/// One upstream, as the ports that it has.
pub struct Connector {
    /// Its permanent name.
    pub id: ConnectorId,
    /// Sign-in with name and password.
    pub password: Option<Arc<dyn PasswordLogin>>,
    /// Users by search and look-up.
    pub directory: Option<Arc<dyn Directory>>,
    /// Groups by search and look-up.
    pub groups: Option<Arc<dyn Groups>>,
    /// Sign-in with an id and a secret that a person made for a program of theirs.
    pub credential: Option<Arc<dyn CredentialLogin>>,
    /// Sign-in at the upstream's own pages.
    pub redirect: Option<Arc<dyn RedirectLogin>>,
    /// Asking again about those who have signed in.
    pub renewal: Option<Arc<dyn Renewal>>,
    /// Tokens of the upstream itself.
    pub token: Option<Arc<dyn TokenAuthentication>>,
    /// Taking such tokens back.
    pub revocation: Option<Arc<dyn TokenRevocation>>,
    /// Sign-outs that the upstream tells of.
    pub logout: Option<Arc<dyn LogoutNotices>>,
    /// Files whose change the connector follows by itself.
    pub watches: Vec<PathBuf>,
}

impl Connector {
    /// A connector that has nothing yet.
    #[must_use]
    pub const fn without_ports(id: ConnectorId) -> Self {
        Self {
            id,
            password: None,
            directory: None,
            groups: None,
            credential: None,
            redirect: None,
            renewal: None,
            token: None,
            revocation: None,
            logout: None,
            watches: Vec::new(),
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("id", &self.id)
            .field("password", &self.password.is_some())
            .field("directory", &self.directory.is_some())
            .field("groups", &self.groups.is_some())
            .field("credential", &self.credential.is_some())
            .field("redirect", &self.redirect.is_some())
            .field("renewal", &self.renewal.is_some())
            .field("token", &self.token.is_some())
            .field("revocation", &self.revocation.is_some())
            .field("logout", &self.logout.is_some())
            .finish_non_exhaustive()
    }
}

/// The third outcome beside yes and no: the upstream could not tell. It is never reported as "no". Texts name the
/// upstream and the operation, and hold no credential and no claim value.
#[derive(Debug, Clone, thiserror::Error)]
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
#[derive(Debug, Clone, Default)]
pub struct LoginName {
    /// The name, without a tenant.
    pub name: String,
    /// The tenant of the sign-in: from the client's request, or from `name@label`.
    pub tenant: Option<Arc<Tenant>>,
    /// What else the upstream asks for ([`PasswordLogin::asks`]): the name of the domain, as it was typed. It counts where
    /// the tenant does not say it.
    pub domain: Option<String>,
    /// The same: the name of the project.
    pub project: Option<String>,
}

/// Whether a sign-in asks for the domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AsksDomain {
    /// It has none, or knows it.
    #[default]
    Never,
    /// Where the tenant is not known, which would say it.
    WithoutTenant,
    /// In any case: which tenant someone is of does not say in which domain their name is.
    Always,
}

/// What a sign-in asks for besides name and password.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asks {
    /// The domain.
    pub domain: AsksDomain,
    /// The project; it may be left empty.
    pub project: bool,
}

/// Sign-in with name and password.
#[async_trait]
pub trait PasswordLogin: Send + Sync {
    /// What it asks for besides.
    fn asks(&self) -> Asks {
        Asks::default()
    }

    /// Whether name and password are right: `Some` with the person, groups included; `None` for a wrong password, an
    /// unknown, disabled or ambiguous name, an empty, blank or NUL-holding password.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<Proven>, ConnectorError>;
}

/// Sign-in with an id and a secret that a person made for a program of theirs (Keystone's application credentials).
#[async_trait]
pub trait CredentialLogin: Send + Sync {
    /// Whether id and secret are right: `Some` with the person who made them; `None` for a wrong secret, and for an id that is
    /// unknown, has expired or was taken back.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn authenticate(&self, id: &str, secret: &Secret) -> Result<Option<Proven>, ConnectorError>;
}

/// Users by search and look-up, always within one tenant: it enters the upstream's own query.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Enabled users of the scope's tenant that match, at most `query.limit`, groups left out, in no particular order.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError>;

    /// All enabled users of the scope's tenant, at most `most`, for a reindex: it may take long, and holds them all at once.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn everyone(&self, scope: &TenantScope, most: usize) -> Result<Found, ConnectorError> {
        self.search(scope, &UserQuery { text: String::new(), limit: most }).await
    }

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
    /// By the value of one attribute, which the directory has for one person only: how a person who signed in elsewhere is
    /// found here (`join`).
    Attribute {
        /// The attribute, as the directory calls it.
        name: String,
        /// Its value, letter for letter; UUIDs in any writing.
        value: String,
    },
    /// By a number of theirs, which more than one may have. A directory that can not be asked for it finds no one.
    Number {
        /// The attribute, as the directory calls it.
        attribute: String,
        /// The number, at least 0.
        number: i64,
    },
}

/// Groups by search and look-up, always within one tenant: it enters the upstream's own query. A group's name is the one that
/// `claims.groups` of its members has.
#[async_trait]
pub trait Groups: Send + Sync {
    /// Groups of the scope's tenant whose name holds the text, at most `query.limit`, in no particular order.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<FoundGroups, ConnectorError>;

    /// The one group of the scope's tenant with this name, letter for letter; `None` where there is none, or more than one.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn get(&self, scope: &TenantScope, name: &str) -> Result<Option<UpstreamGroup>, ConnectorError>;

    /// Enabled users of the scope's tenant who are in that group, those of groups in it too where the connector counts nested
    /// groups; at most `limit`, groups left out, in no particular order. None where there is no such group, or more than one.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn members(&self, scope: &TenantScope, name: &str, limit: usize) -> Result<Found, ConnectorError>;
}

/// A group, as its upstream describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamGroup {
    /// Its name, as in `claims.groups` of its members.
    pub name: String,
    /// Its name for people, where it has another.
    pub display_name: Option<String>,
    /// Its e-mail address.
    pub mail: Option<String>,
}

/// What a search for groups found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundGroups {
    /// The groups.
    pub groups: Vec<UpstreamGroup>,
    /// Whether the limit, or one of the upstream's own, cut the answer.
    pub truncated: bool,
}

/// Sign-in at the upstream's own pages: the browser is sent there, and comes back with an answer.
#[async_trait]
pub trait RedirectLogin: Send + Sync {
    /// Where to send the browser. What the answer will be held against is in the handshake, which the caller keeps.
    ///
    /// # Errors
    /// When the upstream could not be asked where its pages are.
    async fn begin(&self, handshake: &Handshake, wish: &Wish, now: OffsetDateTime) -> Result<Url, ConnectorError>;

    /// What the browser came back with: `Some` with the person whom the upstream proved, `None` where it says no (the person
    /// declined, or may not). The handshake is the caller's own, used up before this call.
    ///
    /// # Errors
    /// When the upstream could not tell, or its answer does not fit the handshake ([`ConnectorError::Unusable`]).
    async fn finish(
        &self,
        handshake: &Handshake,
        wish: &Wish,
        callback: &Callback,
        now: OffsetDateTime,
    ) -> Result<Option<Proven>, ConnectorError>;
}

/// Asking the upstream again about someone whom it proved earlier.
#[async_trait]
pub trait Renewal: Send + Sync {
    /// Asks, with what the sign-in left for that ([`UpstreamSession::refresh_token`]): `None` where the upstream says that they no longer are (disabled,
    /// gone, consent withdrawn).
    ///
    /// # Errors
    /// When the upstream could not tell, and has spent nothing.
    async fn renew(&self, subject: &Subject, refresh_token: &Secret, now: OffsetDateTime) -> Result<Option<Renewed>, ConnectorError>;

    /// How long what was said at the sign-in is believed where the upstream gave nothing to ask again with, in seconds.
    fn believed_seconds(&self) -> u64;
}

/// What one redirect is bound to. Each text is 43 characters of base64url that no one can guess; used for one sign-in only.
#[derive(Clone, Serialize, Deserialize)]
pub struct Handshake {
    /// Comes back with the browser.
    pub state: String,
    /// Comes back in the ID token (OpenID Connect Core, 3.1.2.1).
    pub nonce: String,
    /// Proves at the token endpoint that the request was ours (RFC 7636).
    pub code_verifier: String,
    /// When it was made, in seconds since 1970.
    pub begun_at: i64,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

/// How the person should be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Who they say they are, for the upstream's form.
    pub login_hint: Option<String>,
    /// Whether they must prove it anew, whatever session they have there.
    pub anew: bool,
    /// How long ago they may have proven it, in seconds.
    pub max_age: Option<u32>,
}

/// What a browser came back with, as it stands in its address: anyone may have written it.
#[derive(Clone, Default)]
pub struct Callback {
    /// The authorization code.
    pub code: Option<String>,
    /// Who answers (RFC 9207).
    pub iss: Option<String>,
    /// Why not (RFC 6749, 4.1.2.1).
    pub error: Option<String>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("code", &self.code.is_some()).field("error", &self.error.is_some()).finish_non_exhaustive()
    }
}

/// Someone whom the upstream proved.
#[derive(Debug, Clone)]
pub struct Proven {
    /// Who, and what it says of them.
    pub user: UpstreamUser,
    /// When they proved it there, in seconds since 1970, where the upstream says so.
    pub auth_time: Option<i64>,
    /// What goes on at the upstream.
    pub session: UpstreamSession,
}

impl From<UpstreamUser> for Proven {
    /// Someone of whom nothing goes on at the upstream.
    fn from(user: UpstreamUser) -> Self {
        Self { user, auth_time: None, session: UpstreamSession::default() }
    }
}

/// What goes on at the upstream after a sign-in.
#[derive(Debug, Clone, Default)]
pub struct UpstreamSession {
    /// What the upstream calls the session, where it says so (`sid`).
    pub sid: Option<String>,
    /// What it can be asked again with: a refresh token, or whatever else the connector's [`Renewal`] takes.
    pub refresh_token: Option<Secret>,
}

/// What the upstream said when it was asked again.
#[derive(Debug, Clone)]
pub struct Renewed {
    /// What it says of the person now; `None` where it says only that they still are. Where that could not be told, the
    /// refresh token below counts all the same: the one that was shown may be spent.
    pub user: Result<Option<UpstreamUser>, ConnectorError>,
    /// What it can be asked with the next time, where that has changed.
    pub refresh_token: Option<Secret>,
}

/// Tokens of the upstream itself, shown to us by someone else.
#[async_trait]
pub trait TokenAuthentication: Send + Sync {
    /// Whether a token says that it is this upstream's. Looks at the token alone, and proves nothing.
    fn claims_to_be_ours(&self, token: UnverifiedToken<'_>) -> bool;

    /// Whose token it is, or why it is not to be used: forged, expired, for another audience, no token of this kind.
    ///
    /// # Errors
    /// When the upstream could not tell, or its keys could not be had.
    async fn authenticate(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Verdict, ConnectorError>;

    /// How its answers are to be kept, and how many may be under way.
    fn bounds(&self) -> TokenBounds {
        TokenBounds::default()
    }
}

/// How a connector's answers about tokens are to be kept, and how many may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBounds {
    /// How long a genuine token is believed before it is asked about again, in seconds; no longer than it is in force.
    pub believed_seconds: u32,
    /// How long a refusal is, in seconds.
    pub refused_seconds: u32,
    /// Authentications under way at once.
    pub in_flight: usize,
    /// Whether the upstream is asked about each new token; else only now and then, for its keys.
    pub asks_upstream: bool,
}

impl Default for TokenBounds {
    /// For tokens that are verified with keys which are at hand.
    fn default() -> Self {
        Self { believed_seconds: 300, refused_seconds: 10, in_flight: 64, asks_upstream: false }
    }
}

/// Taking a token of the upstream back.
#[async_trait]
pub trait TokenRevocation: Send + Sync {
    /// Has the upstream take a token back, by the right of whoever asks: `caller` is their own token, which may be the same.
    ///
    /// # Errors
    /// When the upstream could not tell.
    async fn revoke(&self, caller: &Secret, token: UnverifiedToken<'_>) -> Result<Revocation, ConnectorError>;
}

/// What became of a token that was to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// It is not in force any more.
    Revoked,
    /// There is no such token, or not any more.
    Unknown,
    /// The caller's own token is not in force.
    CallerUnknown,
    /// The caller may not.
    Forbidden,
}

/// What a token that names an upstream turned out to be.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// The upstream's own, and in force.
    Genuine(VerifiedToken),
    /// Not to be used. The reason is for the audit log and for operators, as `its signature is not valid`; it holds no value of the token.
    Refused(String),
}

/// What a genuine token of an upstream says.
#[derive(Debug, Clone)]
pub struct VerifiedToken {
    /// Who, and what it says of them.
    pub user: UpstreamUser,
    /// For whom it is.
    pub audiences: Audiences,
    /// Until when, in seconds since 1970.
    pub expires_at: i64,
}

/// For whom a token of an upstream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audiences {
    /// Those of its audiences that the connector's configuration names.
    Named(Vec<String>),
    /// Tokens of this upstream name no audience (Keystone): whoever holds one may show it anywhere. The operator decides where
    /// they are taken.
    Unbound,
}

/// Sign-outs that the upstream tells of (OpenID Connect Back-Channel Logout 1.0).
#[async_trait]
pub trait LogoutNotices: Send + Sync {
    /// Whose sessions end: `None` where the token is not genuine, or not a logout token.
    ///
    /// # Errors
    /// When the upstream's keys could not be had.
    async fn verify(&self, logout_token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Option<LogoutNotice>, ConnectorError>;
}

/// A genuine logout token's content. At least one of `subject` and `sid` is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutNotice {
    /// Whose.
    pub subject: Option<Subject>,
    /// Which of their sessions at the upstream; all where absent.
    pub sid: Option<String>,
    /// The token's own id: each is good once.
    pub jti: String,
    /// Until when the id must be remembered, in seconds since 1970.
    pub expires_at: i64,
}
