//! Whose groups the CS3 door can not ask for, though their connector could tell.

use std::collections::BTreeMap;

use claims_mapping::ConnectorId;

use super::{LoadedConnector, load::Parts, places::Places};
use crate::cs3::group_prefix_of;

/// Tells of connectors whose mapping makes something else of groups than what they are called.
pub(super) fn check(parts: &Parts, connectors: &[LoadedConnector], places: &mut Places) {
    if parts.cs3.is_none() {
        return;
    }
    let paths: BTreeMap<&ConnectorId, &str> = parts.connectors.iter().map(|(path, config)| (&config.id, path.as_str())).collect();
    for loaded in connectors.iter().filter(|loaded| loaded.connector.groups.is_some() && group_prefix_of(&loaded.mapping).is_none()) {
        places.warning(
            super::places::join(paths.get(&loaded.config.id).copied().unwrap_or_default(), "claimMappings.groups"),
            "with `cs3`: groups of this connector are known by the people who are in them only, and are found by no search; they are where `groups` is `{ claim: groups }`, with a `prefix` or without one",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::load_text;

    const CS3: &str = "cs3: {socket: {path: /run/denizen/cs3.sock}, jwtSecret: 0123456789abcdef0123456789abcdef}\n";
    const LDAP: &str = "type: ldap, tenant: {fixed: a}, url: 'ldaps://x.example', userSearch: {base: dc=x}";

    /// The warnings about one connector.
    fn told(cs3: &str, connector: &str) -> Vec<String> {
        let text = format!("issuer: http://127.0.0.1:5556\n{cs3}tenants: [{{id: a}}]\nconnectors:\n- {{id: corp, {connector}}}\n");
        let loaded = load_text(&text, Path::new("/nowhere"), "d.yaml").unwrap();
        loaded.warnings.iter().map(|warning| warning.line("d.yaml")).collect()
    }

    #[test]
    fn a_mapping_that_makes_something_else_of_groups_is_told_of() {
        let mapped = |groups: &str| {
            format!("{LDAP}, groups: {{search: {{base: ou=g}}}}, claimMappings: {{username: {{claim: uid}}, groups: {groups}}}")
        };
        for groups in ["{expression: 'claims.groups'}", "{claim: department, prefix: ''}"] {
            let warned = told(CS3, &mapped(groups));
            assert!(
                warned.len() == 1 && warned[0].contains("connectors[0].claimMappings.groups: with `cs3`: groups of this connector"),
                "{warned:?}"
            );
        }
        for groups in ["{claim: groups}", "{claim: groups, prefix: ''}", "{claim: groups, prefix: 'corp:'}"] {
            assert_eq!(told(CS3, &mapped(groups)), Vec::<String>::new(), "{groups}");
        }
        assert_eq!(told("", &mapped("{expression: 'claims.groups'}")), Vec::<String>::new(), "no one asks");
        let unable = format!("{LDAP}, claimMappings: {{username: {{claim: uid}}, groups: {{expression: 'claims.groups'}}}}");
        assert_eq!(told(CS3, &unable), Vec::<String>::new(), "its connector could not tell either");
    }
}
