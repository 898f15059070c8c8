use serde_json::json;

use super::*;
use crate::keystone::stand_in::token;

fn claims(more: Value, system_roles: &[&str]) -> Value {
    let roles: Vec<_> = system_roles.iter().map(ToString::to_string).collect();
    let user = Facts::of_token(&token(more)).unwrap().into_user(&roles).unwrap();
    Value::Object(user.claims.as_map().clone())
}

fn role(name: &str) -> Value {
    json!({"id": format!("id-of-{name}"), "name": name})
}

#[test]
fn a_token_of_each_scope_has_its_claims_and_no_others() {
    let user = json!({"user_id": "u1", "user_name": "alice", "user_domain_id": "d1", "user_domain_name": "acme", "domain": "d1", "methods": ["password"]});
    let with = |more: Value| {
        let mut all = user.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    assert_eq!(claims(json!({}), &[]), with(json!({"scope": "unscoped", "roles": [], "projects": []})));
    let project = json!({"id": "p1", "name": "web", "domain": {"id": "d9", "name": "partners"}});
    assert_eq!(
        claims(json!({"project": project, "is_domain": false, "roles": [role("reader"), role("member"), role("reader")]}), &[]),
        with(json!({
            "scope": "project", "roles": ["member", "reader"], "projects": ["p1"], "project_id": "p1", "project_name": "web",
            "project_domain_id": "d9", "project_domain_name": "partners",
        })),
        "the tenant is the user's own domain, not the project's"
    );
    assert_eq!(
        claims(json!({"domain": {"id": "d9", "name": "partners"}, "roles": [role("admin")]}), &["admin"]),
        with(json!({"scope": "domain", "roles": ["admin"], "projects": [], "domain_id": "d9", "domain_name": "partners"}))
    );
    assert_eq!(
        claims(json!({"system": {"all": true}, "roles": [role("reader")]}), &["admin"]),
        with(json!({"scope": "system", "roles": ["reader"], "projects": [], "system": "all"}))
    );
}

#[test]
fn the_operators_tenant_is_for_a_system_scoped_token_with_the_role() {
    let domain = |more: Value, roles: &[&str]| claims(more, roles).get("domain").cloned();
    let system = |name: &str| json!({"system": {"all": true}, "roles": [role(name)]});
    assert_eq!(domain(system("admin"), &["admin"]), Some(json!("system")));
    assert_eq!(domain(system("admin"), &[]), Some(json!("d1")));
    assert_eq!(domain(system("reader"), &["admin"]), Some(json!("d1")));
    assert_eq!(domain(json!({"project": {"id": "p"}, "roles": [role("admin")]}), &["admin"]), Some(json!("d1")));
    assert_eq!(domain(json!({"domain": {"id": "system"}, "roles": [role("admin")]}), &["admin"]), Some(json!("d1")));
    for id in ["system", "SYSTEM"] {
        let user = json!({"user": {"id": "u1", "name": "alice", "domain": {"id": id, "name": "x"}}});
        assert_eq!(domain(user, &["admin"]), None, "{id}");
    }
    let user = Facts::of_user(&json!({"id": "u1", "name": "alice", "domain_id": "system"})).unwrap().into_user(&[]).unwrap();
    assert_eq!(user.claims.get("domain"), None);
}

#[test]
fn by_what_a_token_was_made_is_told() {
    let all = claims(
        json!({
            "application_credential": {"id": "c1", "name": "ci", "restricted": true},
            "OS-TRUST:trust": {"id": "t1", "trustor_user": {"id": "u1"}, "trustee_user": {"id": "u2"}, "impersonation": false},
        }),
        &[],
    );
    let named = ["application_credential_id", "application_credential_name", "trust_id", "trustor_id", "trustee_id", "impersonation"];
    assert_eq!(named.map(|name| all[name].clone()), [json!("c1"), json!("ci"), json!("t1"), json!("u1"), json!("u2"), json!(false)]);
    let federation = json!({"groups": [{"id": "g1"}], "identity_provider": {"id": "idp"}, "protocol": {"id": "openid"}});
    let user = json!({"user": {"id": "u1", "name": "alice", "domain": {"id": "d1", "name": "acme"}, "OS-FEDERATION": federation}});
    assert_eq!(Facts::of_token(&token(user.clone())).unwrap().federated_groups(), ["g1"]);
    let all = claims(user, &[]);
    assert_eq!((&all["identity_provider"], &all["protocol"], all.get("groups")), (&json!("idp"), &json!("openid"), None));
}

#[test]
fn a_record_and_a_token_say_the_same_of_someone() {
    let record =
        json!({"id": "u1", "name": "alice", "domain_id": "d1", "enabled": true, "email": "a@acme.example", "description": "Alice A."});
    let groups = || vec![Group { id: "g2".to_owned(), name: "staff".to_owned() }, Group { id: "g1".to_owned(), name: "admins".to_owned() }];
    let of_token = Facts::of_token(&token(json!({"methods": []}))).unwrap().with_record(&record).unwrap().with_groups(groups());
    let of_user = Facts::of_user(&record).unwrap().with_domain_name("acme".to_owned()).with_groups(groups());
    let (of_token, of_user) = (of_token.into_user(&[]).unwrap(), of_user.into_user(&[]).unwrap());
    assert_eq!(of_token, of_user);
    let claim = |name: &str| of_user.claims.get(name).cloned().unwrap_or_default();
    assert_eq!([claim("email"), claim("display_name")], [json!("a@acme.example"), json!("Alice A.")]);
    assert_eq!([claim("groups"), claim("group_ids")], [json!(["admins", "staff"]), json!(["g1", "g2"])]);
    for another in [json!({"id": "u2", "name": "alice", "domain_id": "d1"}), json!({"id": "u1", "name": "alice", "domain_id": "d2"})] {
        assert!(Facts::of_token(&token(json!({}))).unwrap().with_record(&another).is_err());
    }
}

#[test]
fn roles_elsewhere_say_where_they_are() {
    let project = |id: &str| Scope::Project(Project { id: id.to_owned(), name: Some(format!("name-{id}")), domain: None });
    let on = |id: &str| Scope::Domain(Domain { id: id.to_owned(), name: None });
    let assignment = |role: &str, scope: Scope| Assignment { role: role.to_owned(), scope };
    let all = vec![
        assignment("member", project("p2")),
        assignment("admin", project("p1")),
        assignment("member", project("p1")),
        assignment("admin", project("p1")),
        assignment("reader", Scope::System),
        assignment("manager", on("d1")),
        assignment("admin", on("d2")),
    ];
    let facts = Facts::of_token(&token(json!({}))).unwrap().with_assignments(all);
    let claims = Value::Object(facts.into_user(&[]).unwrap().claims.as_map().clone());
    assert_eq!((&claims["system_roles"], &claims["domain_roles"]), (&json!(["reader"]), &json!(["manager"])), "those of the own domain");
    assert_eq!(claims["project_roles"], json!(["p1/admin", "p1/member", "p2/member"]));
    assert_eq!(claims["projects"], json!(["p1", "p2"]));
    let assigned =
        json!([{"id": "p1", "name": "name-p1", "roles": ["admin", "member"]}, {"id": "p2", "name": "name-p2", "roles": ["member"]}]);
    assert_eq!(claims["project_assignments"], assigned);
    assert_eq!(claims["roles"], json!([]));
}

#[test]
fn times_are_read_with_and_without_fractions() {
    let life = |issued_at: &str, expires_at: &str| lifetime(&token(json!({"issued_at": issued_at, "expires_at": expires_at})));
    assert_eq!(life("2026-11-21T06:28:10.000000Z", "2026-11-21T07:28:10.250000Z"), Some(Duration::from_millis(3_600_250)));
    assert_eq!(life("2026-11-21T06:28:10Z", "2026-11-21T06:28:11+00:00"), Some(Duration::from_secs(1)));
    assert_eq!(life("2026-11-21T07:28:10Z", "2026-11-21T06:28:10Z"), None);
    assert_eq!(life("2026-11-21 07:28:10", "2026-11-21T06:28:10Z"), None);
}
