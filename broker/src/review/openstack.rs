//! What a token of a Keystone says of OpenStack, as Kubernetes is told it: where its bearer has rights, and by what.
//!
//! It is read from the token's own claims, and never from what a mapping gives for `extra`: a claim that someone maps is not
//! Keystone's word. Which names a bearer has otherwise is `answer.rs`' to say.

use std::borrow::Cow;

use claims_mapping::{Claims, OperatedBy};
use serde_json::Value;

use crate::{
    config::{Compatibility, UpstreamTokens},
    tenancy::Wired,
};

/// Our own keys, and the claim of each.
const OWN: [(&str, &str); 10] = [
    ("denizen.dev/application-credential-id", "application_credential_id"),
    ("denizen.dev/project-domain-id", "project_domain_id"),
    ("denizen.dev/project-id", "project_id"),
    ("denizen.dev/project-name", "project_name"),
    ("denizen.dev/scope-domain-id", "domain_id"),
    ("denizen.dev/system", "system"),
    ("denizen.dev/trust-id", "trust_id"),
    ("denizen.dev/trustee-id", "trustee_id"),
    ("denizen.dev/trustor-id", "trustor_id"),
    ("denizen.dev/user-domain-id", "user_domain_id"),
];

/// k8s-keystone-auth's keys, but for the roles.
const COMPATIBLE: [(&str, &str); 4] = [
    ("alpha.kubernetes.io/identity/project/id", "project_id"),
    ("alpha.kubernetes.io/identity/project/name", "project_name"),
    ("alpha.kubernetes.io/identity/user/domain/id", "user_domain_id"),
    ("alpha.kubernetes.io/identity/user/domain/name", "user_domain_name"),
];

/// Its key of the roles on the token's scope.
const ROLES: &str = "alpha.kubernetes.io/identity/roles";

/// A token's claims, and how much of them a reviewer is told.
#[derive(Debug, Clone, Copy)]
pub struct OpenStack<'a> {
    claims: &'a Claims,
    compatibility: Option<Compatibility>,
}

impl<'a> OpenStack<'a> {
    /// What the token of a connector says; `None` where the connector is no Keystone of the operator's. A tenant's own could name
    /// any project as its own, and authorizers downstream would take it for that one.
    pub(super) fn of(connector: &Wired, entry: &UpstreamTokens, claims: &'a Claims) -> Option<Self> {
        let is_vouched_for = connector.is_keystone && connector.policy.operated_by == OperatedBy::Operator;
        is_vouched_for.then_some(Self { claims, compatibility: entry.compatibility })
    }

    /// The keys for `extra`. Of what the token does not say there is no key.
    pub(super) fn extra(self) -> impl Iterator<Item = (Cow<'static, str>, Vec<String>)> {
        let compatible = COMPATIBLE.into_iter().filter(move |_| self.is_compatible());
        let texts = OWN.into_iter().chain(compatible).filter_map(move |(key, claim)| Some((key, vec![self.text(claim)?.to_owned()])));
        let roles = Some((ROLES, self.roles())).filter(|(_, roles)| self.is_compatible() && !roles.is_empty());
        texts.chain(roles).map(|(key, values)| (Cow::Borrowed(key), values))
    }

    /// The groups of a bearer, the token's project among them where that is wanted. Then a group that is called as if it were a
    /// project is left out: whoever may name groups would put its members into any project.
    pub(super) fn groups(self, own: &[String]) -> Cow<'_, [String]> {
        if !self.is_compatible() {
            return Cow::Borrowed(own);
        }
        let project = self.text("project_id").filter(|id| is_id(id));
        let others = own.iter().filter(|group| !is_uuid(group) && project != Some(group.as_str())).cloned();
        Cow::Owned(others.chain(project.map(str::to_owned)).collect())
    }

    const fn is_compatible(self) -> bool {
        matches!(self.compatibility, Some(Compatibility::K8sKeystoneAuth))
    }

    fn text(self, claim: &str) -> Option<&'a str> {
        self.claims.get(claim)?.as_str().filter(|text| is_writable(text))
    }

    /// Keystone's own roles on the token's scope, past the connector's allow-list: whom Kubernetes lets do what by them is the
    /// operator's decision, as with k8s-keystone-auth.
    fn roles(self) -> Vec<String> {
        let list = self.claims.get("roles").and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).filter(|role| is_writable(role)).map(str::to_owned).collect()
    }
}

/// Whether a text can stand in `extra`: impersonation sends it as a header.
fn is_writable(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// Whether a text is an id as Keystone makes and takes them.
fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Whether a text is what Keystone makes for the id of a project: a UUID without hyphens.
fn is_uuid(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    pub(in crate::review) const PROJECT: &str = "0123456789abcdef0123456789abcdef";

    pub(in crate::review) fn claims() -> Claims {
        Claims::new(json!({
            "user_id": "u1", "user_name": "alice", "user_domain_id": "d1", "user_domain_name": "acme", "domain": "d1", "scope": "project",
            "project_id": PROJECT, "project_name": "web", "project_domain_id": "d2", "project_domain_name": "shared",
            "roles": ["member", "reader", "a\nb", 7, ""], "groups": ["staff"], "application_credential_id": "ac1",
        }))
        .unwrap()
    }

    pub(in crate::review) const fn openstack(claims: &Claims, is_compatible: bool) -> OpenStack<'_> {
        OpenStack { claims, compatibility: if is_compatible { Some(Compatibility::K8sKeystoneAuth) } else { None } }
    }

    fn extra(claims: Value, is_compatible: bool) -> BTreeMap<String, Vec<String>> {
        let claims = Claims::new(claims).unwrap();
        openstack(&claims, is_compatible).extra().map(|(key, values)| (key.into_owned(), values)).collect()
    }

    #[test]
    fn own_keys_say_what_the_token_says_and_no_more() {
        let claims = claims();
        let of = |is_compatible: bool| serde_json::to_value(openstack(&claims, is_compatible).extra().collect::<BTreeMap<_, _>>()).unwrap();
        let own = json!({
            "denizen.dev/application-credential-id": ["ac1"], "denizen.dev/project-domain-id": ["d2"], "denizen.dev/project-id": [PROJECT],
            "denizen.dev/project-name": ["web"], "denizen.dev/user-domain-id": ["d1"],
        });
        assert_eq!(of(false), own);
        let mut both = own;
        let compatible = json!({
            "alpha.kubernetes.io/identity/roles": ["member", "reader"], "alpha.kubernetes.io/identity/project/id": [PROJECT],
            "alpha.kubernetes.io/identity/project/name": ["web"], "alpha.kubernetes.io/identity/user/domain/id": ["d1"],
            "alpha.kubernetes.io/identity/user/domain/name": ["acme"],
        });
        both.as_object_mut().unwrap().extend(compatible.as_object().unwrap().clone());
        assert_eq!(of(true), both);
    }

    #[test]
    fn tokens_of_every_scope_are_told() {
        let keys = |claims, is_compatible| extra(claims, is_compatible).into_keys().collect::<Vec<_>>();
        let unscoped = json!({"user_domain_id": "d1", "scope": "unscoped", "roles": []});
        assert_eq!(keys(unscoped.clone(), false), ["denizen.dev/user-domain-id"]);
        assert_eq!(keys(unscoped, true), ["alpha.kubernetes.io/identity/user/domain/id", "denizen.dev/user-domain-id"]);
        let domain = json!({"user_domain_id": "d1", "scope": "domain", "domain_id": "d2", "domain_name": "x"});
        assert_eq!(keys(domain, false), ["denizen.dev/scope-domain-id", "denizen.dev/user-domain-id"]);
        let system = extra(json!({"user_domain_id": "d1", "scope": "system", "system": "all"}), false);
        assert_eq!(system["denizen.dev/system"], ["all"]);
        let trust = extra(json!({"user_domain_id": "d1", "trust_id": "t1", "trustor_id": "u1", "trustee_id": "u2"}), false);
        assert_eq!((&trust["denizen.dev/trust-id"], &trust["denizen.dev/trustee-id"]), (&vec!["t1".to_owned()], &vec!["u2".to_owned()]));
        let broken = json!({"project_id": ["p"], "project_name": "a\r\nImpersonate-User: x", "system": true, "roles": "admin", "user_domain_id": ""});
        assert_eq!(keys(broken, true), Vec::<String>::new());
    }

    #[test]
    fn every_key_survives_impersonation() {
        for (key, _) in OWN.into_iter().chain(COMPATIBLE).chain([(ROLES, "")]) {
            let (domain, path) = key.split_once('/').unwrap();
            assert!(domain.contains('.') && !path.is_empty() && !key.bytes().any(|byte| byte.is_ascii_uppercase()), "{key}");
        }
    }

    #[test]
    fn t55_no_group_can_be_taken_for_a_project() {
        let claims = claims();
        let other = "ffffffffffffffffffffffffffffffff".to_owned();
        let groups = ["staff".to_owned(), other.clone(), PROJECT.to_owned()];
        assert_eq!(*openstack(&claims, false).groups(&groups), groups);
        assert_eq!(*openstack(&claims, true).groups(&groups), ["staff", PROJECT]);
        let unscoped = Claims::new(json!({"scope": "unscoped"})).unwrap();
        assert_eq!(*openstack(&unscoped, true).groups(&groups), ["staff"]);
        for id in ["", "a:b", "a b", "system:masters", &"a".repeat(65)] {
            let odd = Claims::new(json!({"project_id": id})).unwrap();
            assert_eq!(*openstack(&odd, true).groups(&groups), ["staff"], "{id}");
        }
    }
}
