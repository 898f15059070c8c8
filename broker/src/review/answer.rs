//! The names that a reviewed token has downstream.

use std::collections::BTreeMap;

use claims_mapping::TenantLabel;
use uuid::Uuid;

use crate::{config::ReviewFormat, standing::Standing};

/// The names can not be written downstream without being taken for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its username is reserved downstream")]
pub struct Unrepresentable;

/// Who a token is, for a reviewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewed {
    /// `<label>:<name>`: the part before the first `:` is the tenant, for Arktos and for people.
    pub username: String,
    /// The opaque id.
    pub uid: Uuid,
    /// `<label>:<group>`, in the order of the token.
    pub groups: Vec<String>,
    /// More, under lower-case, domain-prefixed keys, so that impersonation round-trips.
    pub extra: BTreeMap<&'static str, Vec<String>>,
    /// The label, where the format has a field for it.
    pub tenant: Option<TenantLabel>,
    /// The audiences that request, reviewer and token share.
    pub audiences: Vec<String>,
}

/// What Kubernetes keeps for itself: `system:` and all below it, and the one group outside of it that has power.
fn is_reserved(name: &str) -> bool {
    name.starts_with("system:") || name == "system" || name == "kubeadm:cluster-admins" || name.starts_with(':') || name.is_empty()
}

impl Reviewed {
    /// Writes the names. The final strings are checked, whatever was checked before: a reserved group is left out, a reserved
    /// username is refused.
    ///
    /// # Errors
    /// When the username is reserved.
    pub fn new(format: ReviewFormat, standing: &Standing, audiences: Vec<String>) -> Result<Self, Unrepresentable> {
        let claims = &standing.claims;
        let label = &standing.tenant.label;
        // A service's name is apart from every person's: no person's username holds a `:`.
        let name =
            if claims.connector.is_some() { claims.preferred_username.clone() } else { format!("service:{}", claims.preferred_username) };
        let username = format!("{label}:{name}");
        if is_reserved(&username) {
            return Err(Unrepresentable);
        }
        let groups = claims.groups.iter().map(|group| format!("{label}:{group}")).filter(|group| !is_reserved(group)).collect();
        let mut extra = BTreeMap::from([
            ("authentication.kubernetes.io/credential-id", vec![format!("JTI={}", claims.jti)]),
            ("denizen.dev/tenant-id", vec![standing.tenant.id.as_str().to_owned()]),
            ("denizen.dev/client-id", vec![claims.client_id.clone()]),
        ]);
        if let Some(connector) = &claims.connector {
            extra.insert("denizen.dev/connector", vec![connector.as_str().to_owned()]);
        }
        if !claims.roles.is_empty() {
            extra.insert("denizen.dev/roles", claims.roles.clone());
        }
        let tenant = (format == ReviewFormat::Arktos).then(|| label.clone());
        Ok(Self { username, uid: claims.sub, groups, extra, tenant, audiences })
    }
}

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn t49_t53_what_kubernetes_keeps_is_never_written() {
        for name in ["system:masters", "system:admin", "system:", "kubeadm:cluster-admins", ":x", ""] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["acme:jane", "systems:x", "kubeadm2:cluster-admins", "acme:system:masters"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
