//! Upstreams' own tokens in reviews: what must be so between the reviewers that take them and the connectors that vouch.

use std::collections::HashMap;

use claims_mapping::OperatedBy;
use connectors::{config::Upstream, oidc::OidcConfig};

use super::{
    ConnectorConfig, UpstreamTokens,
    load::Parts,
    places::{Places, element, join},
    tenants::unknown,
};

/// Finds the faults of `reviewers[].upstreamTokens`, and of connectors that take tokens of one issuer.
pub(super) fn check(parts: &Parts, places: &mut Places) {
    let known = parts.declared("connectors");
    let by_id: HashMap<&str, &ConnectorConfig> = parts.connectors.iter().map(|(_, config)| (config.id.as_str(), config)).collect();
    for (path, reviewer) in &parts.reviewers {
        let mut before: HashMap<&str, String> = HashMap::new();
        let mut keystone: Option<(&str, String)> = None;
        for (index, entry) in reviewer.upstream_tokens.iter().enumerate() {
            let here = format!("{path}.upstreamTokens[{index}]");
            let id = entry.connector.as_str();
            if let Some(other) = before.insert(id, here.clone()) {
                places.fault(join(&here, "connector"), format!("the entry {} has this connector already", places.line_of(&other)));
            }
            match by_id.get(id) {
                Some(connector) => {
                    one(parts, &here, entry, connector, places);
                    let is_keystone = matches!(connector.upstream, Upstream::Keystone(_)) && !connector.disabled;
                    if is_keystone && let Some((_, other)) = keystone.replace((id, here.clone())).filter(|(other, _)| *other != id) {
                        let message = format!(
                            "the entry {} is of a Keystone too, whose tokens look the same; a token has one judge: give each a reviewer of its own",
                            places.line_of(&other)
                        );
                        places.fault(join(&here, "connector"), message);
                    }
                }
                // One that has faults of its own is known all the same.
                None if known.contains(id) => {}
                None => places.fault(join(&here, "connector"), unknown("connector", id, &known)),
            }
        }
    }
    shared_issuers(parts, places);
}

fn one(parts: &Parts, here: &str, entry: &UpstreamTokens, connector: &ConnectorConfig, places: &mut Places) {
    let accepts = match &connector.upstream {
        Upstream::Oidc(oidc) => oidc.accept_tokens,
        Upstream::Keystone(keystone) => keystone.accept_tokens,
        Upstream::File(_) | Upstream::Ldap(_) => {
            places.fault(join(here, "connector"), "a connector of this type has no tokens of its own");
            return;
        }
    };
    if !accepts {
        places.fault(join(here, "connector"), "the connector does not have `acceptTokens: true`");
    }
    match &connector.upstream {
        Upstream::Oidc(oidc) => of_provider(parts, here, entry, oidc, places),
        _ => of_keystone(here, entry, connector.operated_by, places),
    }
}

/// Keystone's tokens name no audience, and what they say of OpenStack is Keystone's word.
fn of_keystone(here: &str, entry: &UpstreamTokens, operated_by: OperatedBy, places: &mut Places) {
    let list = join(here, "audiences");
    if places.has(&list) {
        places.fault(&list, "Keystone's tokens name none, and each stands for the reviewer's own audiences; leave it out");
    }
    if entry.compatibility.is_some() && operated_by != OperatedBy::Operator {
        places.fault(
            join(here, "compatibility"),
            "only a connector with `operatedBy: operator` may: Kubernetes is told roles and projects on its Keystone's word",
        );
    }
}

fn of_provider(parts: &Parts, here: &str, entry: &UpstreamTokens, oidc: &OidcConfig, places: &mut Places) {
    let compatibility = join(here, "compatibility");
    if places.has(&compatibility) {
        places.fault(compatibility, "it is for the tokens of a `keystone` connector; leave it out");
    }
    let list = join(here, "audiences");
    if entry.audiences.is_empty() {
        places.fault(&list, "name at least one of the connector's audiences");
    }
    let own: Vec<&str> = match oidc.issuer.audiences.as_slice() {
        [] => oidc.client_id.as_deref().into_iter().collect(),
        audiences => audiences.iter().map(String::as_str).collect(),
    };
    for audience in entry.audiences.iter().filter(|audience| !own.contains(&audience.as_str())) {
        places.fault(
            element(&parts.root, &list, audience),
            "it is none of the connector's `issuer.audiences` (its `clientId` where it has none)",
        );
    }
}

/// A token has one judge: of the connectors that take tokens, each issuer is one's only, and none is Denizen.
fn shared_issuers(parts: &Parts, places: &mut Places) {
    let own = parts.issuer.as_ref().map(|issuer| issuer.as_str().trim_end_matches('/'));
    let mut before: HashMap<String, &str> = HashMap::new();
    for (path, config) in &parts.connectors {
        let Upstream::Oidc(oidc) = &config.upstream else { continue };
        if !oidc.accept_tokens || config.disabled {
            continue;
        }
        let here = join(path, "issuer.url");
        for issuer in issuers(oidc) {
            if own == Some(issuer.trim_end_matches('/')) {
                places.fault(&here, "it is Denizen's own issuer, whose tokens no connector vouches for");
            } else if let Some(other) = before.insert(issuer, path) {
                let message = format!(
                    "the connector {} takes the tokens of this issuer too; a token has one judge: leave `acceptTokens` to one of them",
                    places.line_of(other)
                );
                places.fault(&here, message);
                break;
            }
        }
    }
}

/// Every `iss` that a connector's tokens may have.
pub(super) fn issuers(oidc: &OidcConfig) -> Vec<String> {
    let url = &oidc.issuer.url;
    if !url.contains(TEMPLATE) {
        return vec![url.clone()];
    }
    oidc.issuer.allowed_tenant_ids.iter().map(|id| url.replace(TEMPLATE, id)).collect()
}

/// What stands for the token's `tid` in a templated issuer.
const TEMPLATE: &str = "{tenantid}";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::load_text;

    fn faults(connectors: &str, upstream_tokens: &str) -> Vec<String> {
        let text = format!(
            "issuer: http://127.0.0.1:5556\ntenants: [{{id: a}}, {{id: b}}]\nconnectors:\n{connectors}reviewers: [{{id: k, audiences: [x], upstreamTokens: [{upstream_tokens}]}}]\n"
        );
        let faults = load_text(&text, Path::new("/nowhere"), "d.yaml").err();
        faults.map(|faults| faults.list().iter().map(|fault| fault.line("d").replace("d:", "")).collect()).unwrap_or_default()
    }

    fn sso(id: &str, rest: &str) -> String {
        format!("  - {{id: {id}, type: oidc, tenant: {{fixed: a}}, clientId: denizen, allowedNetworks: [127.0.0.1], {rest}}}\n")
    }

    const TAKING: &str = "acceptTokens: true, issuer: {url: 'https://sso.example', audiences: [kube]}";

    #[test]
    fn a_reviewer_takes_tokens_of_connectors_that_give_them() {
        let taking = sso("sso", TAKING);
        assert_eq!(faults(&taking, "{connector: sso, audiences: [kube]}"), Vec::<String>::new());
        assert_eq!(
            faults(
                &taking,
                "{connector: sso, audiences: [kube, denizen]}, {connector: sso, audiences: []}, {connector: ss0, audiences: [k]}"
            ),
            [
                "5:89: reviewers[0].upstreamTokens[0].audiences[1]: it is none of the connector's `issuer.audiences` (its `clientId` where it has none)",
                "5:112: reviewers[0].upstreamTokens[1].connector: the entry at line 5 has this connector already",
                "5:128: reviewers[0].upstreamTokens[1].audiences: name at least one of the connector's audiences",
                "5:145: reviewers[0].upstreamTokens[2].connector: no connector has this id; is it `sso`?",
            ]
        );
        let own_id = sso("sso", "acceptTokens: true, issuer: {url: 'https://sso.example'}");
        assert_eq!(faults(&own_id, "{connector: sso, audiences: [denizen]}"), Vec::<String>::new());
        let not_taking = sso("sso", "issuer: {url: 'https://sso.example'}");
        let fault = "5:66: reviewers[0].upstreamTokens[0].connector: the connector does not have `acceptTokens: true`";
        assert_eq!(faults(&not_taking, "{connector: sso, audiences: [denizen]}"), [fault]);
        let file = "  - {id: sso, type: file, tenant: {fixed: a}, users: [{id: u1, username: ann}]}\n";
        let found = faults(file, "{connector: sso, audiences: [k]}");
        assert_eq!(found, ["5:66: reviewers[0].upstreamTokens[0].connector: a connector of this type has no tokens of its own"]);
    }

    #[test]
    fn t07_issuers_that_one_template_may_be_are_one_upstream() {
        let two = |a: &str, b: &str| faults(&format!("{}{}", sso("one", a), sso("two", b)), "");
        let template = |ids: &str| {
            format!(
                "issuer: {{url: 'https://login.example/{{tenantid}}', discoveryURL: 'https://login.example/d', allowedTenantIds: [{ids}]}}"
            )
        };
        for other in ["issuer: {url: 'https://login.example/t2'}", "issuer: {url: 'https://login.example/t2/'}", &template("t2, t3")] {
            let found = two(&template("t1, t2"), other);
            assert!(found.len() == 1 && found[0].contains("it has the same upstream as the connector at line 4"), "{found:?}");
        }
        for other in ["issuer: {url: 'https://login.example/t3'}", &template("t3, t4")] {
            assert_eq!(two(&template("t1, t2"), other), Vec::<String>::new());
        }
    }

    #[test]
    fn a_token_has_one_judge() {
        let apart = "claimValidationRules: [{claim: team, requiredValue: x}], ";
        let two = |a: &str, b: &str| faults(&format!("{}{}", sso("one", a), sso("two", &format!("{apart}{b}"))), "");
        let rule = "claimValidationRules: [{claim: team, requiredValue: y}], ";
        let found = two(&format!("{rule}{TAKING}"), TAKING);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("connectors[1].issuer.url: the connector at line 4 takes the tokens of this issuer too"), "{found:?}");
        assert_eq!(two(&format!("{rule}{TAKING}"), "issuer: {url: 'https://sso.example'}"), Vec::<String>::new());
        assert_eq!(two(&format!("{rule}{TAKING}"), &format!("disabled: true, {TAKING}")), Vec::<String>::new());
        let template = "claimValidationRules: [{claim: team, requiredValue: y}], acceptTokens: true, issuer: {url: 'https://login.example/{tenantid}', discoveryURL: 'https://login.example/d', allowedTenantIds: [t1, t2]}";
        let found = two(template, "acceptTokens: true, issuer: {url: 'https://login.example/t2'}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(two(template, "acceptTokens: true, issuer: {url: 'https://login.example/t3'}"), Vec::<String>::new());
        let own = faults(&sso("one", "acceptTokens: true, issuer: {url: 'http://127.0.0.1:5556'}"), "");
        assert!(own.iter().any(|fault| fault.contains("it is Denizen's own issuer")), "{own:?}");
    }

    fn cloud(id: &str, rest: &str) -> String {
        format!(
            "  - {{id: {id}, type: keystone, url: 'http://127.0.0.1:5000/v3', allowedNetworks: [127.0.0.1], userDirectory: false, serviceAccount: {{applicationCredentialId: d, applicationCredentialSecret: s3cr3t}}, {rest}}}\n"
        )
    }

    const DOMAINS: &str = "tenants: [a, b], operatedBy: operator, acceptTokens: true";

    #[test]
    fn keystones_tokens_stand_for_the_reviewers_own_audiences() {
        let taking = cloud("cloud", DOMAINS);
        assert_eq!(faults(&taking, "{connector: cloud}"), Vec::<String>::new());
        assert_eq!(faults(&taking, "{connector: cloud, compatibility: k8s-keystone-auth}"), Vec::<String>::new());
        let fault = "5:84: reviewers[0].upstreamTokens[0].audiences: Keystone's tokens name none, and each stands for the reviewer's own audiences; leave it out";
        for audiences in ["[]", "[x]"] {
            assert_eq!(faults(&taking, &format!("{{connector: cloud, audiences: {audiences}}}")), [fault]);
        }
        let other = faults(&taking, "{connector: cloud, compatibility: keystone}");
        assert_eq!(other, ["5:88: reviewers[0].upstreamTokens[0].compatibility: it must be `k8s-keystone-auth`"]);
        let not_taking = cloud("cloud", "tenants: [a, b], operatedBy: operator");
        let fault = "5:66: reviewers[0].upstreamTokens[0].connector: the connector does not have `acceptTokens: true`";
        assert_eq!(faults(&not_taking, "{connector: cloud}"), [fault]);
        let own = sso("sso", TAKING);
        assert_eq!(
            faults(&own, "{connector: sso, compatibility: k8s-keystone-auth}"),
            [
                "5:54: reviewers[0].upstreamTokens[0].audiences: name at least one of the connector's audiences",
                "5:86: reviewers[0].upstreamTokens[0].compatibility: it is for the tokens of a `keystone` connector; leave it out",
            ]
        );
    }

    #[test]
    fn t54_a_tenants_own_keystone_tells_kubernetes_no_roles() {
        let of_tenant = cloud("cloud", "tenants: [a, b], acceptTokens: true");
        assert_eq!(faults(&of_tenant, "{connector: cloud}"), Vec::<String>::new());
        assert_eq!(
            faults(&of_tenant, "{connector: cloud, compatibility: k8s-keystone-auth}"),
            [
                "5:88: reviewers[0].upstreamTokens[0].compatibility: only a connector with `operatedBy: operator` may: Kubernetes is told roles and projects on its Keystone's word"
            ]
        );
    }

    #[test]
    fn a_keystone_token_has_one_judge_at_each_reviewer() {
        let one = cloud("one", "tenants: [a], operatedBy: operator, acceptTokens: true");
        let two = |rest: &str| format!("{one}{}", cloud("two", &format!("tenants: [b], operatedBy: operator, acceptTokens: true, {rest}")));
        let fault = "6:84: reviewers[0].upstreamTokens[1].connector: the entry at line 6 is of a Keystone too, whose tokens look the same; a token has one judge: give each a reviewer of its own";
        assert_eq!(faults(&two(""), "{connector: one}, {connector: two}"), [fault]);
        assert_eq!(faults(&two("disabled: true"), "{connector: one}, {connector: two}"), Vec::<String>::new());
        assert_eq!(faults(&two(""), "{connector: two}"), Vec::<String>::new());
        let twice = faults(&two(""), "{connector: one}, {connector: one}");
        assert!(twice.len() == 1 && twice[0].contains("has this connector already"), "{twice:?}");
    }
}
