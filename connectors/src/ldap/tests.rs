use claims_mapping::Mapping;
use serde_json::{Value, json};

use super::*;

/// The paths of the faults of a configuration; `claim` is what the tenant is mapped from.
fn faults(change: impl FnOnce(&mut Value), claim: Option<&str>, fixed_tenant: bool) -> Vec<String> {
    let mut config = json!({
        "url": "ldap://127.0.0.1", "allowPlain": true,
        "userSearch": { "base": "ou=people,dc=example" },
        "groups": { "search": { "base": "ou=groups,dc=example" } }
    });
    change(&mut config);
    let config: LdapConfig = serde_json::from_value(config).unwrap();
    let mut mapping = default_mapping();
    mapping.claim_mappings.tenant.claim = claim.unwrap_or_default().to_owned();
    let mapping = Mapping::compile(&mapping).unwrap();
    let id = ConnectorId::parse("corp").unwrap();
    match build(&config, Context { id: &id, mapping: &mapping, fixed_tenant, issuer: None }) {
        Ok(connector) => {
            assert!(connector.password.is_some() && connector.directory.is_some());
            Vec::new()
        }
        Err(faults) => faults.into_iter().map(|(path, _)| path).collect(),
    }
}

#[tokio::test]
async fn good_configurations_are_taken_without_a_server() {
    assert!(faults(|_| {}, Some("ou"), false).is_empty());
    assert!(faults(|_| {}, None, true).is_empty());
    assert!(faults(|c| c["userSearch"]["tenantFilter"] = "(ou={tenant})".into(), None, false).is_empty());
    let base = |c: &mut Value| {
        c["userSearch"]["tenantBase"] = "ou={tenant},dc=example".into();
        c["groups"]["search"] = json!({});
    };
    assert!(faults(base, None, false).is_empty());
    let more = |c: &mut Value| {
        c["bindDn"] = "cn=reader".into();
        c["bindPassword"] = "pw".into();
        c["userSearch"]["attributes"] = json!(["employeeType"]);
        c["groups"] = json!({ "memberOf": {}, "nested": true, "tenantAttribute": "o" });
    };
    assert!(faults(more, Some("ou"), false).is_empty());
}

#[tokio::test]
async fn a_directory_that_can_not_be_asked_for_one_tenant_is_refused() {
    assert_eq!(faults(|_| {}, None, false), ["userSearch"]);
    assert_eq!(faults(|_| {}, Some("groups"), false), ["userSearch"], "no attribute of the entry");
    let member_of = |c: &mut Value| {
        c["userSearch"]["tenantBase"] = "ou={tenant},dc=example".into();
        c["groups"] = json!({ "memberOf": {} });
    };
    assert_eq!(faults(member_of, None, false), ["groups"], "whose group is it?");
    assert_eq!(faults(|c| c["userSearch"]["tenantFilter"] = "(ou={tenant})".into(), None, true), ["userSearch"]);
}

#[tokio::test]
async fn every_fault_is_named_at_once() {
    let bad = |c: &mut Value| {
        c["url"] = "ldap:///x".into();
        c["bindDn"] = "cn=reader".into();
        c["connections"] = 0.into();
        c["operationTimeoutSeconds"] = 0.into();
        c["userSearch"]["filter"] = "(a=b".into();
        c["userSearch"]["enabledFilter"] = "a=b".into();
        c["userSearch"]["idAttribute"] = "UID".into();
        c["userSearch"]["usernameAttributes"] = json!([]);
        c["userSearch"]["searchAttributes"] = json!(["uid", "a b"]);
        c["userSearch"]["attributes"] = json!(["userpassword", "groups"]);
    };
    assert_eq!(
        faults(bad, Some("ou"), false),
        [
            "operationTimeoutSeconds",
            "url",
            "bindPassword",
            "connections",
            "userSearch.filter",
            "userSearch.enabledFilter",
            "userSearch.idAttribute",
            "userSearch.usernameAttributes",
            "userSearch.searchAttributes[1]",
            "userSearch.attributes[0]",
            "userSearch.attributes[1]",
        ]
    );
    assert_eq!(faults(|c| c["allowPlain"] = false.into(), Some("ou"), false), ["url"], "t26: plain must be asked for");
    assert_eq!(faults(|c| c["urls"] = json!(["ldap://b"]), Some("ou"), false), ["url"]);
    assert_eq!(faults(|c| c["bindPassword"] = "pw".into(), Some("ou"), false), ["bindDn"]);
    assert_eq!(faults(|c| c["groups"] = json!({}), Some("ou"), false), ["groups"]);
    let by_name = |c: &mut Value| {
        c["groups"]["nested"] = true.into();
        c["groups"]["search"]["memberAttribute"] = "memberuid".into();
    };
    assert_eq!(faults(by_name, Some("ou"), false), ["groups.nested"]);
    let ca = |c: &mut Value| {
        c["url"] = "ldaps://h".into();
        c["caFile"] = "/nonexistent.pem".into();
    };
    assert_eq!(faults(ca, Some("ou"), false), ["caFile"]);
}

#[test]
fn no_secret_is_printed() {
    let config: LdapConfig = serde_json::from_value(
        json!({ "url": "ldaps://h", "bindDn": "cn=x", "bindPassword": "hunter2", "userSearch": { "base": "dc=x" } }),
    )
    .unwrap();
    assert!(!format!("{config:?}{}", serde_json::to_string(&config).unwrap()).contains("hunter2"));
}

#[test]
fn the_attributes_of_numbers_are_read_and_others_are_not_looked_up_by() {
    let plan = |uid: &str, gid: &str| {
        let config: LdapConfig = serde_json::from_value(json!({ "url": "ldaps://h", "userSearch": { "base": "dc=x" } })).unwrap();
        let mut mapping = default_mapping();
        mapping.claim_mappings.uid_number = ClaimOrExpression::of_claim(uid);
        mapping.claim_mappings.gid_number.expression = gid.to_owned();
        Plan::new(&config, &Mapping::compile(&mapping).unwrap(), true).ok().unwrap().users
    };
    let users = plan("uidNumber", "claims.gidNumber");
    let numbers: Vec<_> = users.numbers.iter().map(Attribute::as_str).collect();
    assert_eq!(numbers, ["uidNumber"]);
    assert!(users.requested.contains(&"uidNumber".to_owned()) && users.presentation.single.contains(&"uidNumber".to_owned()));
    assert!(!users.requested.contains(&"gidNumber".to_owned()), "an expression's attributes are listed by hand");
    for none in ["dn", "UserPassword", "posix.uid"] {
        assert!(plan(none, "").numbers.is_empty(), "{none}");
        assert!(!plan(none, "").requested.iter().any(|name| name == none), "{none}");
    }
}
