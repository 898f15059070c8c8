use claims_mapping::MappingConfig;
use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    json!({
        "url": "https://keystone.example:5000/v3",
        "serviceAccount": {"name": "denizen", "domain": {"id": "default"}, "password": "secret", "scope": {"system": "all"}},
    })
}

/// The configuration with these members in place of its own, by pointers; null takes one out.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut config = good();
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = config.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => _ = parent.remove(name),
            value => _ = parent.insert(name.to_owned(), value.clone()),
        }
    }
    config
}

fn plan_for(config: Value, tenant: &str, fixed: bool) -> Result<Plan, Vec<String>> {
    let mut mapping: MappingConfig = crate::keystone::default_mapping();
    mapping.claim_mappings.tenant = serde_json::from_value(json!({ "claim": tenant })).unwrap();
    if tenant.is_empty() {
        mapping.claim_mappings.tenant = serde_json::from_value(json!({"expression": "claims.domain"})).unwrap();
    }
    let config: KeystoneConfig = serde_json::from_value(config).unwrap();
    let plan = Plan::new(&config, &Mapping::compile(&mapping).unwrap(), fixed);
    plan.map_err(|faults| faults.into_iter().map(|(path, _)| path).collect())
}

fn plan(changes: &[(&str, Value)]) -> Result<Plan, Vec<String>> {
    plan_for(with(changes), "domain", false)
}

fn faults(changes: &[(&str, Value)]) -> Vec<String> {
    plan(changes).err().unwrap_or_default()
}

#[test]
fn a_configuration_that_is_right_says_what_it_means() {
    let Plan { server, rules, accept_tokens, .. } = plan(&[("/url", json!("https://keystone.example:5000/identity/v3/"))]).ok().unwrap();
    assert_eq!(server.base.as_str(), "https://keystone.example:5000/identity/v3");
    assert!(rules.directory && rules.groups && !rules.assignments && !accept_tokens);
    assert_eq!((rules.tenancy, rules.trusts), (Tenancy::DomainId, Trusts::Refuse));
    assert!(!plan(&[("/userDirectory", json!(false))]).ok().unwrap().rules.groups);
    assert!(plan(&[("/userDirectory", json!(false)), ("/groups", json!(true))]).ok().unwrap().rules.groups);
    let endpoints =
        [("/url", Value::Null), ("/endpoints", json!({"a": "https://a.example/v3", "b": "https://b.example/v3"})), ("/region", json!("b"))];
    assert_eq!(plan(&endpoints).ok().unwrap().server.base.as_str(), "https://b.example/v3");
    let directory_scope = plan(&[("/serviceAccount/directoryScope", json!({"system": "all"}))]).ok().unwrap().directory_proof;
    assert!(matches!(directory_proof_of(&directory_scope), Some(Wanted::System)));
    let credential = json!({"applicationCredentialId": "c", "applicationCredentialSecret": "s"});
    assert!(matches!(plan(&[("/serviceAccount", credential)]).ok().unwrap().proof, Proof::ApplicationCredential { .. }));
    assert!(faults(&[("/url", json!("http://127.0.0.1:5000/v3")), ("/allowedNetworks", json!(["127.0.0.1"]))]).is_empty());
}

fn directory_proof_of(proof: &Option<Proof>) -> Option<&Wanted> {
    match proof {
        Some(Proof::Password { wanted, .. }) => Some(wanted),
        _ => None,
    }
}

#[test]
fn each_fault_has_its_place() {
    let account = |name: &str, value: Value| (format!("/serviceAccount/{name}"), value);
    let project = |by: Value| json!({ "project": by });
    let cases: Vec<(String, Value, &str)> = vec![
        ("/url".to_owned(), Value::Null, "url"),
        ("/url".to_owned(), json!("keystone"), "url"),
        ("/url".to_owned(), json!("https://keystone.example:5000"), "url"),
        ("/url".to_owned(), json!("https://keystone.example:5000/v2.0"), "url"),
        ("/url".to_owned(), json!("https://keystone.example:5000/v3/auth"), "url"),
        ("/url".to_owned(), json!("http://keystone.example:5000/v3"), "url"),
        ("/url".to_owned(), json!("http://127.0.0.1:5000/v3"), "url"),
        ("/url".to_owned(), json!("https://u:p@keystone.example/v3"), "url"),
        ("/url".to_owned(), json!("https://keystone.example/v3?a=b"), "url"),
        ("/region".to_owned(), json!("a"), "region"),
        ("/allowedNetworks".to_owned(), json!(["10.0.0.0/33"]), "allowedNetworks[0]"),
        ("/certificateAuthorityFile".to_owned(), json!("/nowhere/ca.pem"), "certificateAuthorityFile"),
        ("/domainId".to_owned(), json!(""), "domainId"),
        ("/domainId".to_owned(), json!(" "), "domainId"),
        ("/systemRoles".to_owned(), json!(["admin", ""]), "systemRoles[1]"),
        ("/scope".to_owned(), project(json!({})), "scope.project"),
        ("/scope".to_owned(), project(json!({"id": "a", "name": "b"})), "scope.project"),
        ("/scope".to_owned(), project(json!({"name": "b", "domain": {}})), "scope.project"),
        ("/scope".to_owned(), project(json!({"id": "b", "domain": {"id": "d"}})), "scope.project"),
        ("/tokens".to_owned(), json!({"cacheSeconds": 0}), "tokens.cacheSeconds"),
        ("/tokens".to_owned(), json!({"cacheSeconds": 3601}), "tokens.cacheSeconds"),
        ("/tokens".to_owned(), json!({"refusalSeconds": 0}), "tokens.refusalSeconds"),
        ("/tokens".to_owned(), json!({"inFlight": 0}), "tokens.inFlight"),
        ("/tokens".to_owned(), json!({"inFlight": 257}), "tokens.inFlight"),
    ];
    for (path, value, expected) in cases {
        assert_eq!(faults(&[(&path, value.clone())]), [expected], "{path} {value}");
    }
    let of_account = [
        (account("name", Value::Null), "serviceAccount.name"),
        (account("name", json!("")), "serviceAccount.name"),
        (account("domain", Value::Null), "serviceAccount.domain"),
        (account("domain", json!({})), "serviceAccount.domain"),
        (account("domain", json!({"id": "a", "name": "b"})), "serviceAccount.domain"),
        (account("password", Value::Null), "serviceAccount.password"),
        (account("password", json!("\n")), "serviceAccount.password"),
        (account("passwordFile", json!("/nowhere")), "serviceAccount.password"),
        (account("scope", Value::Null), "serviceAccount.scope"),
        (account("scope", json!({"domain": {}})), "serviceAccount.scope.domain"),
        (account("scope", project(json!({"name": "service"}))), "serviceAccount.scope.project.domain"),
        (account("scope", project(json!({}))), "serviceAccount.scope.project"),
    ];
    for ((path, value), expected) in of_account {
        assert_eq!(faults(&[(&path, value.clone())]), [expected], "{path} {value}");
    }
    let directory_scope = plan(&[("/serviceAccount/directoryScope", json!({"system": "all"}))]).ok().unwrap().directory_proof;
    assert!(matches!(directory_proof_of(&directory_scope), Some(Wanted::System)));
    let credential = json!({"applicationCredentialId": "c", "applicationCredentialSecret": "s"});
    let wrong = [("scope", json!({"system": "all"})), ("name", json!("n")), ("domain", json!({"id": "d"})), ("password", json!("p"))];
    for (name, value) in wrong {
        let path = format!("/serviceAccount/{name}");
        assert_eq!(faults(&[("/serviceAccount", credential.clone()), (&path, value)]), [format!("serviceAccount.{name}")]);
    }
    assert_eq!(faults(&[("/serviceAccount", json!({"applicationCredentialId": "c"}))]), ["serviceAccount.applicationCredentialSecret"]);
    assert_eq!(faults(&[("/serviceAccount", json!({"applicationCredentialSecret": "c"}))]), ["serviceAccount.applicationCredentialId"]);
    let endpoints = ("/endpoints", json!({"a": "https://a.example/v3", "b": "https://b.example"}));
    assert_eq!(faults(&[endpoints.clone(), ("/region", json!("a"))]), ["url", "endpoints.b"]);
    assert_eq!(faults(&[("/url", Value::Null), endpoints, ("/region", json!("c"))]), ["endpoints.b", "region"]);
}

#[test]
fn all_faults_are_told_at_once() {
    let many = faults(&[
        ("/url", json!("x")),
        ("/serviceAccount", json!({})),
        ("/tokens", json!({"inFlight": 0})),
        ("/trusts", json!("allow")),
        ("/userDirectory", json!(false)),
    ]);
    let expected = [
        "url",
        "serviceAccount.name",
        "serviceAccount.domain",
        "serviceAccount.password",
        "serviceAccount.scope",
        "trusts",
        "tokens.inFlight",
    ];
    assert_eq!(many, expected);
}

#[test]
fn a_directory_needs_a_tenant_that_can_be_asked_for() {
    let of = |tenant: &str, fixed, config: Value| plan_for(config, tenant, fixed).map(|plan| plan.rules.tenancy);
    assert_eq!(of("user_domain_id", false, good()), Ok(Tenancy::DomainId));
    assert_eq!(of("user_domain_name", false, good()), Ok(Tenancy::DomainName));
    for other in ["project_domain_id", "", "domain_id"] {
        assert_eq!(of(other, false, good()), Err(vec!["userDirectory".to_owned()]), "{other}");
        assert_eq!(of(other, false, with(&[("/userDirectory", json!(false))])), Ok(Tenancy::Other), "{other}");
    }
    assert_eq!(of("domain", true, good()), Err(vec!["domainId".to_owned()]));
    assert_eq!(of("domain", true, with(&[("/domainId", json!("d"))])), Ok(Tenancy::Fixed));
}

#[test]
fn roles_elsewhere_are_read_only_where_the_mapping_names_them() {
    let mut mapping: MappingConfig = crate::keystone::default_mapping();
    mapping.claim_mappings.roles = serde_json::from_value(json!({"claim": "project_roles"})).unwrap();
    let config: KeystoneConfig = serde_json::from_value(good()).unwrap();
    assert!(Plan::new(&config, &Mapping::compile(&mapping).unwrap(), false).ok().unwrap().rules.assignments);
}
