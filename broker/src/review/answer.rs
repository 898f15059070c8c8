//! The names that a reviewed token has downstream.

use std::{borrow::Cow, collections::BTreeMap};

use claims_mapping::{ConnectorId, Identity, Tenant, TenantLabel};
use uuid::Uuid;

use super::openstack::OpenStack;
use crate::{config::ReviewFormat, standing::Standing};

/// The names can not be written downstream without being taken for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its username is reserved downstream")]
pub struct Unrepresentable;

/// More of a user than Kubernetes has fields for.
pub type Extra = BTreeMap<Cow<'static, str>, Vec<String>>;

/// The one key of Kubernetes' own that it lets a webhook give: which credential it was.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

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
    pub extra: Extra,
    /// The label, where the format has a field for it.
    pub tenant: Option<TenantLabel>,
    /// The audiences that request, reviewer and token share.
    pub audiences: Vec<String>,
}

/// What Kubernetes keeps for itself: `system:` and all below it, and the one group outside of it that has power.
fn is_reserved(name: &str) -> bool {
    name.starts_with("system:") || name == "system" || name == "kubeadm:cluster-admins" || name.starts_with(':') || name.is_empty()
}

/// Whether a key of `extra` is neither ours nor Kubernetes' own, and survives impersonation, which knows no capitals.
fn is_free(key: &str) -> bool {
    let domain = key.split('/').next().unwrap_or_default();
    let is_of = |owner: &str| domain.strip_suffix(owner).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !["kubernetes.io", "k8s.io", "denizen.dev"].into_iter().any(is_of) && !key.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Whom the names are of.
struct Named<'a> {
    tenant: &'a Tenant,
    name: &'a str,
    uid: Uuid,
    groups: &'a [String],
    roles: &'a [String],
    connector: Option<&'a ConnectorId>,
}

impl Reviewed {
    /// The names of the bearer of a token of ours.
    ///
    /// # Errors
    /// When the username is reserved.
    pub fn of_own(format: ReviewFormat, standing: &Standing, audiences: Vec<String>) -> Result<Self, Unrepresentable> {
        let claims = &standing.claims;
        // A service's name is apart from every person's: no person's username holds a `:`.
        let name = match &claims.connector {
            Some(_) => Cow::Borrowed(claims.preferred_username.as_str()),
            None => Cow::Owned(format!("service:{}", claims.preferred_username)),
        };
        let named = Named {
            tenant: &standing.tenant,
            name: &name,
            uid: claims.sub,
            groups: &claims.groups,
            roles: &claims.roles,
            connector: claims.connector.as_ref(),
        };
        let more = [
            (Cow::Borrowed(CREDENTIAL_ID), vec![format!("JTI={}", claims.jti)]),
            (Cow::Borrowed("denizen.dev/client-id"), vec![claims.client_id.clone()]),
        ];
        Self::write(format, &named, more.into(), audiences)
    }

    /// The names of someone whom a token of an upstream proved: those of their identity. What the mapping gives for `extra`
    /// is theirs too, but for keys that are ours or Kubernetes' own; those come from what the token says of OpenStack, where it
    /// says something.
    ///
    /// # Errors
    /// When the username is reserved.
    pub fn of_bearer(
        format: ReviewFormat,
        who: &Identity,
        tenant: &Tenant,
        openstack: Option<OpenStack<'_>>,
        audiences: Vec<String>,
    ) -> Result<Self, Unrepresentable> {
        let groups = openstack.map_or(Cow::Borrowed(who.groups()), |openstack| openstack.groups(who.groups()));
        let named = Named {
            tenant,
            name: who.username(),
            uid: who.id().opaque_id(),
            groups: &groups,
            roles: who.roles(),
            connector: Some(who.connector()),
        };
        let more = who.extra().iter().filter(|(key, _)| *key == CREDENTIAL_ID || is_free(key));
        let more = more.map(|(key, values)| (Cow::Owned(key.clone()), values.clone()));
        Self::write(format, &named, more.chain(openstack.into_iter().flat_map(OpenStack::extra)).collect(), audiences)
    }

    /// Writes the names. The final strings are checked, whatever was checked before: a reserved group is left out, a reserved
    /// username is refused.
    fn write(format: ReviewFormat, named: &Named<'_>, mut extra: Extra, audiences: Vec<String>) -> Result<Self, Unrepresentable> {
        let label = &named.tenant.label;
        let username = format!("{label}:{}", named.name);
        if is_reserved(&username) {
            return Err(Unrepresentable);
        }
        let groups = named.groups.iter().map(|group| format!("{label}:{group}")).filter(|group| !is_reserved(group)).collect();
        extra.insert(Cow::Borrowed("denizen.dev/tenant-id"), vec![named.tenant.id.as_str().to_owned()]);
        if let Some(connector) = named.connector {
            extra.insert(Cow::Borrowed("denizen.dev/connector"), vec![connector.as_str().to_owned()]);
        }
        if !named.roles.is_empty() {
            extra.insert(Cow::Borrowed("denizen.dev/roles"), named.roles.to_vec());
        }
        let tenant = (format == ReviewFormat::Arktos).then(|| label.clone());
        Ok(Self { username, uid: named.uid, groups, extra, tenant, audiences })
    }
}

#[cfg(test)]
mod tests {
    use super::{is_free, is_reserved};

    #[test]
    fn t49_t53_what_kubernetes_keeps_is_never_written() {
        for name in ["system:masters", "system:admin", "system:", "kubeadm:cluster-admins", ":x", ""] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["acme:jane", "systems:x", "kubeadm2:cluster-admins", "acme:system:masters"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn t49_an_upstream_gives_no_key_of_ours_or_of_kubernetes() {
        for key in
            ["k8s.io/x", "alpha.kubernetes.io/identity/roles", "kubernetes.io/x", "denizen.dev/tenant-id", "x.denizen.dev/y", "a.example/B"]
        {
            assert!(!is_free(key), "{key}");
        }
        for key in ["acme.example/department", "notk8s.io/x", "example.com/kubernetes.io"] {
            assert!(is_free(key), "{key}");
        }
    }
}
