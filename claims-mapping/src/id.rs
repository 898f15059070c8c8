//! Identifiers, each parsed once at the edge: a value of one of these types is well formed.

use std::{fmt, str::FromStr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use url::Url;
use uuid::Uuid;

/// Why a text is not an identifier of its type. It never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text has more characters than this type allows.
    #[error("it is longer than {0} characters")]
    TooLong(usize),
    /// The text holds a character that this type does not allow.
    #[error("it holds a character that is not allowed: {0}")]
    Character(&'static str),
    /// The text is a name that is kept for the system.
    #[error("the name is reserved")]
    Reserved,
}

macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

fn bounded(text: &str, most: usize) -> Result<(), IdError> {
    match text.chars().take(most + 1).count() {
        0 => Err(IdError::Empty),
        n if n > most => Err(IdError::TooLong(most)),
        _ => Ok(()),
    }
}

/// A tenant: 1 to 255 characters without `/` or control characters, not `.` or `..`, compared byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct TenantId(Arc<str>);
text_id!(TenantId);

impl TenantId {
    /// # Errors
    /// When the text is empty, too long, `.` or `..`, or holds `/` or a control character.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        bounded(text, 255)?;
        if text.contains('/') || text.chars().any(char::is_control) {
            return Err(IdError::Character("no `/` and no control characters"));
        }
        if text == "." || text == ".." {
            return Err(IdError::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// The tenant of the operators, `system`.
    #[must_use]
    pub fn system() -> Self {
        Self("system".into())
    }

    /// Whether this is the tenant of the operators.
    #[must_use]
    pub fn is_system(&self) -> bool {
        &*self.0 == "system"
    }

    /// The id under NFKC and case folding. Two tenants of one configuration must differ in it, so that no one can
    /// take one for the other by eye; comparisons at run time are byte for byte.
    #[must_use]
    pub fn folded(&self) -> String {
        fold(&self.0)
    }
}

/// NFKC, then Unicode's default case folding, then NFKC again: the form in which look-alikes are the same.
#[must_use]
pub fn fold(text: &str) -> String {
    caseless::default_case_fold_str(&text.nfkc().collect::<String>()).nfkc().collect()
}

/// A tenant's name where only a DNS label fits (Kubernetes, Arktos, host names): RFC 1123, at most 63 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct TenantLabel(Arc<str>);
text_id!(TenantLabel);

/// Labels that mean something to Kubernetes or Arktos: `kubeadm:cluster-admins` is a group with power, `system:` a
/// reserved prefix, `all` every tenant of Arktos.
const RESERVED_LABELS: [&str; 5] = ["system", "all", "tenant", "kubeadm", "kubernetes"];

impl TenantLabel {
    /// # Errors
    /// When the text is not a DNS-1123 label, or is reserved (`system`, `all`, `tenant`, `kubeadm`, `kubernetes`).
    pub fn parse(text: &str) -> Result<Self, IdError> {
        dns_label(text)?;
        if RESERVED_LABELS.contains(&text) {
            return Err(IdError::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// The label of a tenant for which none is configured: the id itself where it is one, else a digest of it
    /// (`t-` and the first 20 hexadecimal digits of a UUIDv5).
    #[must_use]
    pub fn derived(id: &TenantId) -> Self {
        Self::parse(id.as_str()).unwrap_or_else(|_| {
            let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_str().as_bytes()).simple().to_string();
            Self(format!("t-{}", digest.get(..20).unwrap_or_default()).into())
        })
    }
}

fn dns_label(text: &str) -> Result<(), IdError> {
    bounded(text, 63)?;
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !text.chars().all(|c| inner(c) || c == '-') || !text.starts_with(inner) || !text.ends_with(inner) {
        return Err(IdError::Character("lower-case letters, digits and inner hyphens only"));
    }
    Ok(())
}

/// A connector's permanent name: a DNS-1123 label. It is part of every user's id, so renaming one makes new people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ConnectorId(Arc<str>);
text_id!(ConnectorId);

impl ConnectorId {
    /// # Errors
    /// When the text is not a DNS-1123 label.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        dns_label(text)?;
        Ok(Self(text.into()))
    }
}

/// A person's immutable, never re-used name at one upstream: OIDC `sub`, entryUUID, objectGUID, a Keystone user id.
/// Never a DN, a uid or a mail address. 1 to 255 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Subject(Arc<str>);
text_id!(Subject);

impl Subject {
    /// # Errors
    /// When the text is empty, longer than 255 characters, or holds a control character.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        bounded(text, 255)?;
        if text.chars().any(char::is_control) {
            return Err(IdError::Character("no control characters"));
        }
        Ok(Self(text.into()))
    }
}

/// What kind of user an id names; the numbers are those of CS3's `UserType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserKind {
    /// A person (CS3 `USER_TYPE_PRIMARY`, 1).
    Primary,
    /// A workload that signed in with its own credential (CS3 `USER_TYPE_SERVICE`, 3).
    Service,
}

/// CS3's `UserId`: who, at which identity provider (always Denizen's own issuer), of which tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserId {
    idp: Url,
    opaque_id: Uuid,
    kind: UserKind,
    tenant_id: TenantId,
}

impl UserId {
    /// The id of a user whose opaque id is derived: UUIDv5 over the length-prefixed tenant, connector and subject, so
    /// that no two triples give the same bytes.
    #[must_use]
    pub fn derived(idp: Url, kind: UserKind, tenant: &TenantId, connector: &str, subject: &str) -> Self {
        let namespace = Uuid::from_u128(0x6d0f_5f2c_3b0a_4a51_9c55_8d2d_5e1f_a7c4);
        let opaque_id = Uuid::new_v5(&namespace, &length_prefixed(&[tenant.as_str(), connector, subject]));
        Self { idp, opaque_id, kind, tenant_id: tenant.clone() }
    }

    /// The id of a user whose upstream's own UUID is kept (`ids: verbatim`).
    #[must_use]
    pub const fn verbatim(idp: Url, kind: UserKind, tenant_id: TenantId, opaque_id: Uuid) -> Self {
        Self { idp, opaque_id, kind, tenant_id }
    }

    /// Denizen's own issuer.
    #[must_use]
    pub const fn idp(&self) -> &Url {
        &self.idp
    }
    /// The globally unique, immutable part; `sub` in tokens, `uid` in Kubernetes.
    #[must_use]
    pub const fn opaque_id(&self) -> Uuid {
        self.opaque_id
    }
    /// A person or a workload.
    #[must_use]
    pub const fn kind(&self) -> UserKind {
        self.kind
    }
    /// The tenant. There is always one.
    #[must_use]
    pub const fn tenant_id(&self) -> &TenantId {
        &self.tenant_id
    }
}

/// What CS3's `GroupId` says of a group: a UUID and no tenant, so that the tenant is in what the UUID is derived from. A group of one
/// name is one group of its tenant, whatever connectors know it; one that is renamed is another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(Uuid);

impl GroupId {
    /// The id of a tenant's group: UUIDv5 over the length-prefixed word `group`, tenant and name, in a namespace of their own, so that no
    /// tenant and no name give the id of another group or of a user.
    #[must_use]
    pub fn derived(tenant: &TenantId, name: &str) -> Self {
        let namespace = Uuid::from_u128(0x0b7c_91e4_52d3_4f0e_8a6b_c2f8_17d9_3e60);
        Self(Uuid::new_v5(&namespace, &length_prefixed(&["group", tenant.as_str(), name])))
    }

    /// The globally unique part, which is all of it.
    #[must_use]
    pub const fn opaque_id(self) -> Uuid {
        self.0
    }
}

/// Texts as bytes, each with its length before it, so that no two lists give the same.
fn length_prefixed(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_ids_refuse_paths_and_controls() {
        for bad in ["", ".", "..", "a/b", "a\nb", "\u{0}", &"x".repeat(256)] {
            assert!(TenantId::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["acme", "Acme Ltd.", "é", "0c8d", &"x".repeat(255)] {
            assert!(TenantId::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn look_alikes_fold_together() {
        let fold = |t: &str| TenantId::parse(t).unwrap().folded();
        assert_eq!(fold("ACME"), fold("acme"));
        assert_eq!(fold("ａｃｍｅ"), fold("acme"));
        assert_eq!(fold("straße"), fold("STRASSE"));
        assert_ne!(fold("acme"), fold("acmé"));
    }

    #[test]
    fn t53_reserved_labels_are_refused() {
        for bad in ["system", "all", "tenant", "kubeadm", "kubernetes", "A", "-a", "a-", "a.b", "a:b", ""] {
            assert!(TenantLabel::parse(bad).is_err(), "{bad:?}");
        }
        assert!(TenantLabel::derived(&TenantId::parse("kubeadm").unwrap()).as_str().starts_with("t-"));
        assert_eq!(TenantLabel::derived(&TenantId::parse("acme").unwrap()).as_str(), "acme");
    }

    #[test]
    fn derived_ids_do_not_run_together() {
        let id = |t: &str, c: &str, s: &str| {
            UserId::derived(Url::parse("https://id.example").unwrap(), UserKind::Primary, &TenantId::parse(t).unwrap(), c, s).opaque_id()
        };
        assert_eq!(id("a", "b", "c"), id("a", "b", "c"));
        assert_ne!(id("ab", "c", "d"), id("a", "bc", "d"));
        assert_ne!(id("a", "bc", "d"), id("a", "b", "cd"));
    }

    #[test]
    fn ids_of_groups_stay_what_they_are_and_do_not_run_together() {
        let id = |tenant: &str, name: &str| GroupId::derived(&TenantId::parse(tenant).unwrap(), name).opaque_id();
        assert_eq!(id("acme", "staff").to_string(), "c06c8892-6139-5b50-b504-98ff7a153796", "shares hold it");
        assert_ne!(id("acme", "staff"), id("globex", "staff"));
        assert_ne!(id("ab", "c"), id("a", "bc"));
        // A tenant may be called `group`, and its users' ids are no group's.
        let idp = Url::parse("https://id.example").unwrap();
        let user = UserId::derived(idp, UserKind::Primary, &TenantId::parse("group").unwrap(), "acme", "staff");
        assert_ne!(user.opaque_id(), id("acme", "staff"));
    }
}
