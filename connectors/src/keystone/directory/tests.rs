//! What a Keystone says that answers more than it was asked, or something else.

use std::sync::Arc;

use claims_mapping::{ConnectorId, Mapping, MappingConfig, Subject, Tenant, TenantId, TenantLabel};
use serde_json::json;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    Connector, Renewed, Secret,
    config::Context,
    keystone::KeystoneConfig,
    oidc::stand_in::{Answer, StandIn},
};

const ADA: &str = "/v3/users/ada";
const NOW: OffsetDateTime = datetime!(2027-01-01 00:00:00 UTC);

/// A Keystone of one domain, `d1`, with one person, `ada`, who is a member of the project `p1`.
async fn keystone() -> StandIn {
    let keystone = StandIn::start(&[]).await;
    let token = json!({"token": {"issued_at": "2027-01-01T00:00:00.000000Z", "expires_at": "2027-01-01T01:00:00.000000Z"}});
    keystone.answer("/v3/auth/tokens", Answer::Plain(201, "X-Subject-Token: t\r\n", token.to_string()));
    says(&keystone, "/v3/domains/d1", &json!({"domain": {"id": "d1", "name": "one", "enabled": true}}));
    says(&keystone, ADA, &json!({"user": ada()}));
    says(&keystone, "/v3/users", &json!({"users": [ada()]}));
    says(&keystone, "/v3/users/ada/groups", &json!({"groups": []}));
    says(&keystone, "/v3/projects/p1", &json!({"project": {"id": "p1", "name": "web", "domain_id": "d1", "enabled": true}}));
    says(&keystone, "/v3/role_assignments", &json!({"role_assignments": [member("ada", json!({"project": {"id": "p1"}}))]}));
    keystone
}

fn says(keystone: &StandIn, path: &str, answer: &Value) {
    keystone.answer(path, Answer::json(answer));
}

fn ada() -> Value {
    json!({"id": "ada", "name": "Ada", "domain_id": "d1", "enabled": true, "email": "ada@one.example"})
}

fn member(user: &str, scope: Value) -> Value {
    json!({"user": {"id": user}, "role": {"id": "r1", "name": "member"}, "scope": scope})
}

fn with(mut value: Value, name: &str, member: Value) -> Value {
    value[name] = member;
    value
}

fn connector(keystone: &StandIn, scope: Value) -> Connector {
    let config = json!({
        "url": format!("{}/v3", keystone.issuer), "allowedNetworks": ["127.0.0.1"], "scope": scope,
        "serviceAccount": {"applicationCredentialId": "c", "applicationCredentialSecret": "s"},
    });
    let config: KeystoneConfig = serde_json::from_value(config).unwrap();
    let mapping = MappingConfig { claim_mappings: crate::keystone::default_mapping().claim_mappings, ..MappingConfig::default() };
    let mapping = Mapping::compile(&mapping).unwrap();
    let id = ConnectorId::parse("cloud").unwrap();
    crate::keystone::build(&config, Context { id: &id, mapping: &mapping, fixed_tenant: false, issuer: None }).unwrap()
}

fn scope() -> TenantScope {
    let (id, connector) = (TenantId::parse("acme").unwrap(), ConnectorId::parse("cloud").unwrap());
    TenantScope::of_verified_caller(Arc::new(Tenant {
        label: TenantLabel::derived(&id),
        display_name: String::new(),
        id,
        external_ids: [(connector, "d1".to_owned())].into(),
        connectors: None,
        disabled: false,
    }))
}

async fn found(connector: &Connector, text: &str) -> Result<Found, ConnectorError> {
    connector.directory.as_ref().unwrap().search(&scope(), &UserQuery { text: text.to_owned(), limit: 10 }).await
}

async fn got(connector: &Connector, by: Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
    connector.directory.as_ref().unwrap().get(&scope(), &by).await
}

fn by_id() -> Lookup {
    Lookup::Subject(Subject::parse("ada").unwrap())
}

async fn again(connector: &Connector, left: &Value) -> Result<Option<UpstreamUser>, ConnectorError> {
    let (subject, left) = (Subject::parse("ada").unwrap(), Secret::new(left.to_string()));
    let renewed = connector.renewal.as_ref().unwrap().renew(&subject, &left, NOW).await?;
    Ok(renewed.and_then(|Renewed { user, .. }| user.unwrap()))
}

#[tokio::test]
async fn who_is_disabled_of_another_domain_or_otherwise_called_is_dropped_whatever_was_asked() {
    let keystone = keystone().await;
    let connector = connector(&keystone, json!("unscoped"));
    assert_eq!(found(&connector, "AD").await.unwrap().users.len(), 1);
    let lookups = [by_id(), Lookup::Username("ada".to_owned()), Lookup::Mail("Ada@one.example".to_owned())];
    for by in &lookups {
        assert!(got(&connector, by.clone()).await.unwrap().is_some(), "{by:?}");
    }
    for (name, value) in [("domain_id", json!("d2")), ("domain_id", Value::Null), ("enabled", json!(false)), ("enabled", json!("true"))] {
        let user = with(ada(), name, value);
        says(&keystone, ADA, &json!({"user": user}));
        says(&keystone, "/v3/users", &json!({"users": [user]}));
        assert_eq!(found(&connector, "ad").await.unwrap(), Found::default(), "{user}");
        for by in &lookups {
            assert_eq!(got(&connector, by.clone()).await.unwrap(), None, "{by:?} {user}");
        }
    }
    says(&keystone, ADA, &json!({"user": with(ada(), "id", json!("bob"))}));
    assert_eq!(got(&connector, by_id()).await.unwrap(), None);
    says(&keystone, "/v3/users", &json!({"users": [with(ada(), "name", json!("Bob")), with(ada(), "email", json!("b@one.example"))]}));
    assert_eq!(found(&connector, "o").await.unwrap().users.len(), 1);
    says(&keystone, "/v3/domains/d1", &json!({"domain": {"id": "d2", "name": "two", "enabled": true}}));
    assert_eq!(found(&connector, "").await.unwrap(), Found::default());
}

#[tokio::test]
async fn t55_groups_and_roles_of_someone_else_or_elsewhere_do_not_count() {
    let keystone = keystone().await;
    let connector = connector(&keystone, json!({"project": {"id": "p1"}}));
    let group = |id: &str, domain: Value| json!({"id": id, "name": id, "domain_id": domain});
    let groups = [group("ours", json!("d1")), group("theirs", json!("d2")), group("none", Value::Null)];
    says(&keystone, "/v3/users/ada/groups", &json!({"groups": groups}));
    let assignments = [
        member("ada", json!({"project": {"id": "p1"}})),
        with(member("bob", json!({"project": {"id": "p1"}})), "role", json!({"id": "r2", "name": "admin"})),
        with(member("ada", json!({"project": {"id": "p2"}})), "role", json!({"id": "r3", "name": "manager"})),
        with(member("ada", json!({"domain": {"id": "p1"}})), "role", json!({"id": "r4", "name": "reader"})),
        with(member("ada", json!({"system": {"all": true}})), "role", json!({"id": "r5", "name": "auditor"})),
        with(member("ada", json!({"galaxy": {"id": "p1"}})), "role", json!({"id": "r6", "name": "captain"})),
    ];
    says(&keystone, "/v3/role_assignments", &json!({"role_assignments": assignments}));
    let user = got(&connector, by_id()).await.unwrap().unwrap();
    assert_eq!(user.claims.get("groups"), Some(&json!(["ours"])));
    assert_eq!(user.claims.get("roles"), Some(&json!(["member"])));
}

#[tokio::test]
async fn t29_an_answer_that_can_not_be_used_is_no_answer() {
    let keystone = keystone().await;
    let connector = connector(&keystone, json!({"project": {"id": "p1"}}));
    for (path, nonsense) in [
        (ADA, json!([])),
        (ADA, json!({"user": null})),
        (ADA, json!({"user": with(ada(), "name", json!(7))})),
        ("/v3/domains/d1", json!({"domain": {"id": "d1", "enabled": true}})),
        ("/v3/users/ada/groups", json!({"groups": {}})),
        ("/v3/users/ada/groups", json!({"groups": [{"id": "g", "domain_id": "d1"}]})),
        ("/v3/users/ada/groups", json!({"groups": [], "truncated": true})),
        ("/v3/role_assignments", json!({"role_assignments": [{"user": {"id": "ada"}, "scope": {}}]})),
        ("/v3/role_assignments", json!({"role_assignments": [], "truncated": true})),
    ] {
        let before = self::keystone().await;
        let connector = self::connector(&before, json!({"project": {"id": "p1"}}));
        says(&before, path, &nonsense);
        let answer = got(&connector, by_id()).await;
        assert!(matches!(answer, Err(ConnectorError::Unusable(_))), "{path} {nonsense}: {answer:?}");
    }
    says(&keystone, "/v3/users", &json!({"users": [ada()], "truncated": true}));
    for by in [Lookup::Username("ada".to_owned()), Lookup::Mail("ada@one.example".to_owned())] {
        assert!(matches!(got(&connector, by).await, Err(ConnectorError::Unusable(_))));
    }
    assert!(found(&connector, "ada").await.unwrap().truncated);
    keystone.answer(ADA, Answer::Plain(503, "", String::new()));
    assert!(matches!(got(&connector, by_id()).await, Err(ConnectorError::Unavailable(_))));
    assert!(matches!(again(&connector, &json!({"userDomain": "d1"})).await, Err(ConnectorError::Unavailable(_))));
}

#[tokio::test]
async fn t30_an_application_credential_that_expired_or_is_another_ones_is_none() {
    const CREDENTIAL: &str = "/v3/users/ada/application_credentials/c1";
    let keystone = keystone().await;
    let connector = connector(&keystone, json!("unscoped"));
    let left = json!({"userDomain": "d1", "project": "p1", "applicationCredential": "c1"});
    let credential = json!({
        "id": "c1", "name": "ci", "user_id": "ada", "project_id": "p1", "expires_at": null,
        "roles": [{"id": "r1", "name": "member"}, {"id": "r2", "name": "admin"}],
    });
    assert_eq!(again(&connector, &left).await.unwrap(), None, "it is gone");
    for (name, value) in [("expires_at", json!(null)), ("expires_at", json!("2027-01-01T00:00:00.000001")), ("user_id", json!(null))] {
        says(&keystone, CREDENTIAL, &json!({"application_credential": with(credential.clone(), name, value)}));
        let user = again(&connector, &left).await.unwrap().unwrap();
        assert_eq!(user.claims.get("roles"), Some(&json!(["member"])), "she has lost the other one");
        assert_eq!(user.claims.get("application_credential_name"), Some(&json!("ci")));
    }
    for (name, value) in [
        ("expires_at", json!("2027-01-01T00:00:00.000000")),
        ("user_id", json!("bob")),
        ("project_id", json!("p2")),
        ("id", json!("c2")),
        ("roles", json!([{"id": "r2", "name": "admin"}])),
        ("roles", json!([])),
    ] {
        says(&keystone, CREDENTIAL, &json!({"application_credential": with(credential.clone(), name, value)}));
        assert_eq!(again(&connector, &left).await.unwrap(), None, "{name}");
    }
    says(&keystone, CREDENTIAL, &json!({"application_credential": with(credential, "expires_at", json!("soon"))}));
    assert!(matches!(again(&connector, &left).await, Err(ConnectorError::Unusable(_))));
}

#[test]
fn what_keystone_is_asked_for_is_ascii_without_what_escapes() {
    for (text, part) in
        [("", ""), ("jane", "jane"), ("josé", "jos"), ("é", ""), (r"a\bc", "bc"), (r"\", ""), ("50%_x", "50%_x"), ("zoë ångström", "ngstr")]
    {
        assert_eq!(safe_part(text), part);
    }
}
