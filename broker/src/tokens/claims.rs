//! What the tokens say.

use claims_mapping::{ConnectorId, Identity, TenantId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One audience as a string, several as a list (RFC 7519, 4.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Audience {
    /// The audiences as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
    /// Whether this audience is among them.
    #[must_use]
    pub fn contains(&self, audience: &str) -> bool {
        self.as_slice().iter().any(|a| a == audience)
    }
}

impl From<Vec<String>> for Audience {
    fn from(mut list: Vec<String>) -> Self {
        match list.pop() {
            Some(one) if list.is_empty() => Self::One(one),
            Some(last) => {
                list.push(last);
                Self::Several(list)
            }
            None => Self::Several(list),
        }
    }
}

/// An access token (RFC 9068), and what a broker of tenants adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessClaims {
    /// Denizen's issuer.
    pub iss: String,
    /// The user's opaque id.
    pub sub: Uuid,
    /// For whom the token is.
    pub aud: Audience,
    /// To which client it was given.
    pub client_id: String,
    /// What it allows, separated by spaces.
    #[serde(default)]
    pub scope: String,
    /// Its own id.
    pub jti: Uuid,
    /// The session it belongs to; absent in a service's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<Uuid>,
    /// The grant it came from: when that is revoked, so is the token. Absent in a service's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<Uuid>,
    /// Seconds since 1970.
    pub iat: i64,
    /// Seconds since 1970; not valid from then on.
    pub exp: i64,
    /// When the person proved who they are, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<i64>,
    /// The tenant.
    pub tenant_id: TenantId,
    /// Groups of the person's tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Roles that the connector may give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The username.
    pub preferred_username: String,
    /// Through which connector they signed in; absent in a service's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connector: Option<ConnectorId>,
    /// The connector whose upstream proved who they are, where that is another one: the token falls with it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<ConnectorId>,
}

impl AccessClaims {
    /// Whether it allows this.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scope.split(' ').any(|s| s == scope)
    }
}

/// An ID token (OpenID Connect Core, 2).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdClaims {
    /// Denizen's issuer.
    pub iss: String,
    /// The user's opaque id.
    pub sub: Uuid,
    /// The client.
    pub aud: String,
    /// Seconds since 1970.
    pub iat: i64,
    /// Seconds since 1970; not valid from then on.
    pub exp: i64,
    /// When the person proved who they are, in seconds since 1970.
    pub auth_time: i64,
    /// The client's own, from its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The left half of the access token's SHA-256 (Core, 3.1.3.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_hash: Option<String>,
    /// The session.
    pub sid: Uuid,
    /// Who it is, as far as the scopes go.
    #[serde(flatten)]
    pub profile: Profile,
}

/// A logout token (OpenID Connect Back-Channel Logout 1.0, 2.4). It never has a `nonce`, so that it is not taken for an ID token.
#[derive(Debug, Clone, Serialize)]
pub struct LogoutClaims {
    /// Denizen's issuer.
    pub iss: String,
    /// The user's opaque id.
    pub sub: Uuid,
    /// The client.
    pub aud: String,
    /// Seconds since 1970.
    pub iat: i64,
    /// Seconds since 1970; not valid from then on.
    pub exp: i64,
    /// Its own id.
    pub jti: Uuid,
    /// The session that ended, as the client's ID tokens name it.
    pub sid: Uuid,
    /// What happened.
    pub events: LogoutEvents,
}

/// The one event that a logout token tells of.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LogoutEvents {
    #[serde(rename = "http://schemas.openid.net/event/backchannel-logout")]
    backchannel_logout: NoMembers,
}

#[derive(Debug, Clone, Default, Serialize)]
struct NoMembers {}

/// What userinfo and an ID token say of a person, as far as the scopes go (OpenID Connect Core, 5.4).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The tenant; always there.
    pub tenant_id: Option<TenantId>,
    /// `profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_username: Option<String>,
    /// `profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// `roles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
}

impl Profile {
    /// What these scopes show of this person.
    #[must_use]
    pub fn of(identity: &Identity, has_scope: impl Fn(&str) -> bool) -> Self {
        let (profile, email) = (has_scope("profile"), has_scope("email"));
        Self {
            tenant_id: Some(identity.id().tenant_id().clone()),
            preferred_username: profile.then(|| identity.username().to_owned()),
            name: identity.display_name().filter(|_| profile).map(str::to_owned),
            email: identity.email().filter(|_| email).map(str::to_owned),
            email_verified: identity.email().filter(|_| email).map(|_| identity.email_verified()),
            groups: has_scope("groups").then(|| identity.groups().to_vec()),
            roles: has_scope("roles").then(|| identity.roles().to_vec()),
        }
    }
}
