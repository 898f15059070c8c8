//! Keystone connectors: what must be so between one and the tenants. What must be so within one, the connector says itself.

use connectors::config::Upstream;

use super::{
    ConnectorConfig,
    load::Parts,
    places::{Places, join},
};

/// The claims that say where a token's rights are.
const OF_THE_SCOPE: [&str; 7] =
    ["project_id", "project_name", "project_domain_id", "project_domain_name", "projects", "domain_id", "domain_name"];

/// Finds what deserves a look at a connector to a Keystone.
pub(super) fn check(parts: &Parts, path: &str, config: &ConnectorConfig, places: &mut Places) {
    let Upstream::Keystone(keystone) = &config.upstream else { return };
    let tenant = &config.mapping.claim_mappings.tenant;
    let mut words = tenant.expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    if OF_THE_SCOPE.contains(&tenant.claim.as_str()) || words.any(|word| OF_THE_SCOPE.contains(&word)) {
        places.warning(
            join(path, "claimMappings.tenant"),
            "this is where a token's rights are, not where its user is from: someone of another domain who has a role there becomes one of that tenant's people; a user's own domain is `domain`, `user_domain_id` or `user_domain_name`",
        );
    }
    let is_operators = parts.system_tenant.as_ref().is_some_and(|system| system.connectors.contains(&config.id));
    if !keystone.system_roles.is_empty() && !is_operators {
        places.warning(
            join(path, "systemRoles"),
            "no one becomes an operator by these: name the connector in `systemTenant.connectors`, or leave them out",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::load_text;

    fn entry(id: &str, rest: &str) -> String {
        format!(
            "  - {{id: {id}, type: keystone, url: 'http://127.0.0.1:5000/v3', allowedNetworks: [127.0.0.1], userDirectory: false, serviceAccount: {{applicationCredentialId: d, applicationCredentialSecret: s3cr3t}}, {rest}}}\n"
        )
    }

    /// What is told of the connectors, which begin at the third line: the warnings where there is no fault.
    fn told(connectors: &str, rest: &str) -> Result<Vec<String>, Vec<String>> {
        let text = format!("issuer: http://127.0.0.1:5556\ntenants: [{{id: a}}, {{id: b}}]\nconnectors:\n{connectors}{rest}");
        match load_text(&text, Path::new("/nowhere"), "d.yaml") {
            Ok(loaded) => Ok(loaded.warnings.iter().map(|warning| warning.line("d")).collect()),
            Err(faults) => Err(faults.list().iter().map(|fault| fault.line("d")).collect()),
        }
    }

    #[test]
    fn scopes_are_texts_or_one_key() {
        let of = |scope: &str| told(&entry("cloud", &format!("tenants: [a, b], scope: {scope}")), "");
        for scope in ["unscoped", "ask", "system", "{project: {id: p1}}", "{project: {name: web, domain: {id: default}}}"] {
            assert_eq!(of(scope), Ok(Vec::new()), "{scope}");
        }
        let at = "connectors[0].scope";
        let wanted = "it must be `unscoped`, `domain`, `system`, the key `project` or `ask`";
        for wrong in ["all", "{projet: {id: p1}}", "[]", "{}"] {
            let faults = of(wrong).unwrap_err();
            assert!(faults.len() == 1 && faults[0].ends_with(&format!("{at}: {wanted}")), "{wrong}: {faults:?}");
        }
        let faults = of("{project: {id: p1}, domain: {id: d}}").unwrap_err();
        assert!(
            faults.len() == 1 && faults[0].ends_with("connectors[0].scope.domain: unknown key; known here are `project`"),
            "{faults:?}"
        );
        let account = |scope: &str| {
            let account = format!("serviceAccount: {{name: d, domain: {{id: default}}, password: s3cr3t, scope: {scope}}}");
            let connector = format!(
                "  - {{id: cloud, type: keystone, url: 'http://127.0.0.1:5000/v3', allowedNetworks: [127.0.0.1], userDirectory: false, tenants: [a], {account}}}\n"
            );
            told(&connector, "")
        };
        for scope in ["{system: all}", "{domain: {id: default}}", "{project: {name: service, domain: {name: Default}}}"] {
            assert_eq!(account(scope), Ok(Vec::new()), "{scope}");
        }
        let faults = account("{projects: {id: p}}").unwrap_err();
        let wanted = "connectors[0].serviceAccount.scope: it must be the key `system`, the key `domain` or the key `project`";
        assert!(faults.iter().any(|fault| fault.ends_with(wanted)), "{faults:?}");
    }

    #[test]
    fn a_tenant_that_is_where_the_rights_are_deserves_a_look() {
        let of = |tenant: &str| {
            let warnings = told(&entry("cloud", &format!("tenants: [a, b], claimMappings: {{tenant: {tenant}}}")), "").unwrap();
            assert!(
                warnings.iter().all(|warning| warning.contains("connectors[0].claimMappings.tenant: this is where a token's rights are"))
            );
            warnings.len()
        };
        for scope in
            ["{claim: project_domain_id}", "{claim: project_id}", "{claim: domain_id}", "{expression: 'claims.project_domain_name'}"]
        {
            assert_eq!(of(scope), 1, "{scope}");
        }
        for own in ["{claim: domain}", "{claim: user_domain_id}", "{expression: 'claims.user_domain_name'}"] {
            assert_eq!(of(own), 0, "{own}");
        }
        assert_eq!(told(&entry("cloud", "tenants: [a, b]"), ""), Ok(Vec::new()));
    }

    #[test]
    fn system_roles_make_operators_where_the_system_tenant_names_the_connector() {
        let operators = entry("cloud", "operatedBy: operator, tenants: [a, system], systemRoles: [admin]");
        let named = "systemTenant: {label: operators, connectors: [cloud]}\n";
        assert_eq!(told(&operators, named), Ok(Vec::new()));
        let warnings = told(&entry("cloud", "operatedBy: operator, tenants: [a], systemRoles: [admin]"), "").unwrap();
        assert!(
            warnings.len() == 1 && warnings[0].contains("connectors[0].systemRoles: no one becomes an operator by these"),
            "{warnings:?}"
        );
        // A tenant's own Keystone gives no operators, as no connector of a tenant's does.
        let faults = told(&entry("cloud", "tenants: [a, system], systemRoles: [admin]"), named).unwrap_err();
        assert!(
            faults.len() == 2 && faults.iter().all(|fault| fault.contains("only a connector with `operatedBy: operator` may")),
            "{faults:?}"
        );
    }

    #[test]
    fn t31_two_connectors_on_one_keystone_are_of_two_domains() {
        let two = |a: &str, b: &str| told(&format!("{}{}", entry("one", a), entry("two", b)), "");
        let (a, b) = ("tenant: {fixed: a}", "tenant: {fixed: b}");
        let faults = two(&format!("{a}, domainId: d1"), &format!("{b}, domainId: d1")).unwrap_err();
        assert!(
            faults.len() == 1 && faults[0].contains("connectors[1]: it has the same upstream as the connector at line 4"),
            "{faults:?}"
        );
        let faults = two(a, &format!("{b}, domainId: d2")).unwrap_err();
        assert!(faults.iter().any(|fault| fault.contains("connectors[0].domainId: it is missing")), "{faults:?}");
        assert_eq!(two(&format!("{a}, domainId: d1"), &format!("{b}, domainId: d2")), Ok(Vec::new()));
    }
}
