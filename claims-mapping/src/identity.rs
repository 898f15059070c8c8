//! The one identity, and the one way to it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;
use uuid::Uuid;

use crate::{ConnectorId, MappedUser, Rejection, Subject, Tenant, TenantId, UserId, UserKind};

/// Whom a connector's upstream answers to, and so how far it is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperatedBy {
    /// The operator of Denizen: it may speak for all tenants, keep upstream ids and yield the system tenant.
    Operator,
    /// A tenant: it speaks for the tenants that are listed, and its users' ids are derived.
    #[default]
    Tenant,
}

/// How a user's opaque id comes about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IdScheme {
    /// UUIDv5 over tenant, connector and subject.
    #[default]
    Derived,
    /// The upstream's own UUID, lower-cased.
    Verbatim,
}

/// Which tenant a connector's users are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantRule {
    /// All of them are of this one.
    Fixed(TenantId),
    /// As the mapping says, within the allow-list (`None` is `all`).
    Mapped(Option<BTreeSet<TenantId>>),
    /// The connector has no tenant rule; the broker's `defaultTenant` stands in.
    Default(TenantId),
}

impl TenantRule {
    /// Whether this rule can yield the tenant.
    #[must_use]
    pub fn admits(&self, tenant: &TenantId) -> bool {
        match self {
            Self::Fixed(id) | Self::Default(id) => id == tenant,
            Self::Mapped(None) => true,
            Self::Mapped(Some(list)) => list.contains(tenant),
        }
    }
}

/// What a connector's users may become.
#[derive(Debug, Clone)]
pub struct ConnectorPolicy {
    /// The connector.
    pub connector: ConnectorId,
    /// Denizen's own issuer, the `idp` of every id.
    pub issuer: Url,
    /// Whom the upstream answers to.
    pub operated_by: OperatedBy,
    /// Which tenant its users are of.
    pub tenant_rule: TenantRule,
    /// How ids come about.
    pub ids: IdScheme,
    /// The roles that its users may have; every other is dropped.
    pub roles: BTreeSet<String>,
}

/// Someone who was admitted: the only form in which a person reaches a token, a review or a search result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    id: UserId,
    connector: ConnectorId,
    subject: Subject,
    username: String,
    display_name: Option<String>,
    email: Option<String>,
    email_verified: bool,
    groups: Vec<String>,
    roles: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid_number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid_number: Option<i64>,
}

impl Identity {
    /// Admits a mapped user to a tenant: the tenant is on, the connector may speak for it, and every name can be used
    /// downstream. Roles that the connector may not give, and groups whose names can not be used, are left out.
    ///
    /// # Errors
    /// The first reason why not. Nothing is healed.
    pub fn admit(user: MappedUser, tenant: &Tenant, policy: &ConnectorPolicy) -> Result<Self, Rejection> {
        let not_allowed = || Rejection::ConnectorNotAllowed(policy.connector.clone());
        if tenant.disabled {
            return Err(Rejection::TenantDisabled);
        }
        if !policy.tenant_rule.admits(&tenant.id) || tenant.connectors.as_ref().is_some_and(|list| !list.contains(&policy.connector)) {
            return Err(not_allowed());
        }
        // Whoever may speak for all tenants, or yield the operators' own, must be an operator's.
        let operators_only = tenant.id.is_system() || policy.tenant_rule == TenantRule::Mapped(None);
        if operators_only && policy.operated_by != OperatedBy::Operator {
            return Err(not_allowed());
        }
        check_username(&user.username)?;
        let id = match policy.ids {
            IdScheme::Derived => {
                UserId::derived(policy.issuer.clone(), UserKind::Primary, &tenant.id, policy.connector.as_str(), user.subject.as_str())
            }
            IdScheme::Verbatim if policy.operated_by == OperatedBy::Operator => {
                // All zeros is what a directory says that has no id to say.
                let uuid = Uuid::try_parse(user.subject.as_str()).ok().filter(|uuid| !uuid.is_nil()).ok_or(Rejection::SubjectNotUuid)?;
                UserId::verbatim(policy.issuer.clone(), UserKind::Primary, tenant.id.clone(), uuid)
            }
            IdScheme::Verbatim => return Err(not_allowed()),
        };
        Ok(Self {
            id,
            connector: policy.connector.clone(),
            subject: user.subject,
            username: user.username,
            display_name: user.display_name,
            email: user.email,
            email_verified: user.email_verified,
            groups: user.groups.into_iter().filter(|g| name_reason(g).is_none()).collect(),
            roles: user.roles.into_iter().filter(|r| policy.roles.contains(r)).collect(),
            extra: user.extra,
            uid_number: user.uid_number,
            gid_number: user.gid_number,
        })
    }

    /// Why no one is admitted with this username, where no one is.
    #[must_use]
    pub fn username_fault(name: &str) -> Option<&'static str> {
        name_reason(name)
            .or_else(|| (name.trim() != name).then_some("it begins or ends with a blank"))
            .or_else(|| Uuid::try_parse(name).is_ok().then_some("it looks like a UUID"))
    }
    /// Why a group of this name is left out of every identity, where it is.
    #[must_use]
    pub fn group_fault(name: &str) -> Option<&'static str> {
        name_reason(name)
    }

    /// Who.
    #[must_use]
    pub const fn id(&self) -> &UserId {
        &self.id
    }
    /// Through which connector.
    #[must_use]
    pub const fn connector(&self) -> &ConnectorId {
        &self.connector
    }
    /// As whom, at that connector's upstream.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }
    /// The name for people and for Kubernetes; unique within the upstream at one moment, not a key.
    #[must_use]
    pub fn username(&self) -> &str {
        &self.username
    }
    /// The full name.
    #[must_use]
    pub fn display_name(&self) -> Option<&str> {
        self.display_name.as_deref()
    }
    /// The e-mail address; never a key.
    #[must_use]
    pub fn email(&self) -> Option<&str> {
        self.email.as_deref()
    }
    /// Whether the upstream's mapping says that the address is theirs.
    #[must_use]
    pub const fn email_verified(&self) -> bool {
        self.email_verified
    }
    /// Groups, of the person's own tenant.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        &self.groups
    }
    /// Roles that the connector may give.
    #[must_use]
    pub fn roles(&self) -> &[String] {
        &self.roles
    }
    /// More of them for Kubernetes' `extra`.
    #[must_use]
    pub const fn extra(&self) -> &BTreeMap<String, Vec<String>> {
        &self.extra
    }
    /// The POSIX user number, at least 0; as unique as the upstream keeps it, and never a key.
    #[must_use]
    pub const fn uid_number(&self) -> Option<i64> {
        self.uid_number
    }
    /// The POSIX number of the user's own group, at least 0.
    #[must_use]
    pub const fn gid_number(&self) -> Option<i64> {
        self.gid_number
    }
}

/// A username downstream: OpenCloud splits at `:` and takes what looks like a UUID for an id; Kubernetes reserves
/// `system:`; Arktos takes what is before the first `:` for the tenant.
fn check_username(name: &str) -> Result<(), Rejection> {
    Identity::username_fault(name).map_or(Ok(()), |reason| Err(Rejection::Name { what: "username", reason }))
}

fn name_reason(name: &str) -> Option<&'static str> {
    if name.trim().is_empty() {
        Some("it is empty or blank")
    } else if name.chars().any(char::is_control) {
        Some("it holds a control character")
    } else if name.chars().count() > 255 {
        Some("it is longer than 255 characters")
    } else if name.contains(':') {
        Some("it holds a `:`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
