//! Which tenant someone is of, and where no rule gives one: no identity.
#![expect(clippy::indexing_slicing, reason = "tests")]

use denizen_tests::{
    Authorization, Broker, Configuration,
    configuration::{hash_of, password_of},
    jwt,
};
use serde_json::{Value, json};

fn user(id: &str, tenant: Option<&str>, username: &str) -> Value {
    let mut user = json!({"id": id, "username": username, "password": hash_of("any", username)});
    if let Some(tenant) = tenant {
        user["tenant"] = json!(tenant);
    }
    user
}

/// A configuration with this one connector for people.
fn with(connector: Value) -> Configuration {
    Configuration::default().with("/connectors/0", connector)
}

/// The status of a try, and the tenant of the token where it went well.
async fn tried(broker: &Broker, username: &str) -> (u16, Option<String>) {
    let request = Authorization::web();
    let answer = broker.browser().try_sign_in(&request, username, &password_of("any", username)).await;
    if answer.status != 303 {
        return (answer.status, None);
    }
    let tokens = broker.service().exchange(&request, &denizen_tests::browser::code(&answer)).await;
    (303, jwt::claims(tokens.access())["tenant_id"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn a_tenant_comes_into_being_only_where_that_is_configured() {
    let people = json!({
        "id": "people", "type": "file", "operatedBy": "operator", "tenants": "all",
        "users": [user("1", Some("newco"), "nora"), user("2", Some("NEWCO"), "upper"), user("3", Some("system"), "root"), user("4", Some("acme"), "anna")],
    });
    let broker = Broker::start(with(people.clone())).await;
    assert_eq!(tried(&broker, "anna").await, (303, Some("acme".to_owned())));
    assert_eq!(tried(&broker, "nora").await, (403, None));

    let mut broker = Broker::start(with(people).with("/createTenants", true)).await;
    assert_eq!(tried(&broker, "nora").await, (303, Some("newco".to_owned())));
    assert_eq!(tried(&broker, "upper").await, (403, None), "a look-alike is nobody's");
    assert_eq!(tried(&broker, "root").await, (403, None), "the operators' tenant is never made up");
    broker.restart().await;
    assert_eq!(tried(&broker, "upper").await, (403, None), "it is known after a restart");
    assert_eq!(tried(&broker, "nora").await, (303, Some("newco".to_owned())));
}

#[tokio::test]
async fn a_tenants_own_connector_makes_no_tenant() {
    let people = json!({
        "id": "people", "type": "file", "tenants": ["acme"], "users": [user("1", Some("newco"), "nora"), user("2", Some("globex"), "gwen")],
    });
    let broker = Broker::start(with(people).with("/createTenants", true)).await;
    assert_eq!(tried(&broker, "nora").await, (403, None));
    assert_eq!(tried(&broker, "gwen").await, (403, None), "another tenant than those that it may speak for");
}

#[tokio::test]
async fn the_default_tenant_heals_no_rule() {
    let without_rule = json!({"id": "people", "type": "file", "users": [user("1", None, "dana")]});
    let broker = Broker::start(with(without_rule).with("/defaultTenant", "globex")).await;
    assert_eq!(tried(&broker, "dana").await, (303, Some("globex".to_owned())));

    let with_rule = json!({
        "id": "people", "type": "file", "operatedBy": "operator", "tenants": "all", "claimMappings": {"tenant": {"claim": "displayName"}},
        "users": [user("1", Some("acme"), "dana")],
    });
    let broker = Broker::start(with(with_rule).with("/defaultTenant", "globex")).await;
    assert_eq!(tried(&broker, "dana").await.0, 403, "a rule that gives nothing gives no identity");
}

#[tokio::test]
async fn a_tenant_with_another_name_upstream_is_not_reached_by_its_own() {
    let people = json!({
        "id": "people", "type": "file", "operatedBy": "operator", "tenants": "all",
        "users": [user("1", Some("school-7"), "sue"), user("2", Some("acme"), "ann")],
    });
    let broker = Broker::start(with(people).with("/tenants/0/externalIds", json!({"people": "school-7"}))).await;
    assert_eq!(tried(&broker, "sue").await, (303, Some("acme".to_owned())));
    assert_eq!(tried(&broker, "ann").await, (403, None));
}

#[tokio::test]
async fn a_tenant_chooses_the_connectors_that_speak_for_it() {
    let people = json!({
        "id": "people", "type": "file", "operatedBy": "operator", "tenants": "all",
        "users": [user("1", Some("acme"), "ann"), user("2", Some("globex"), "gil")],
    });
    let broker = Broker::start(with(people).with("/tenants/0/connectors", json!(["operators"]))).await;
    assert_eq!(tried(&broker, "ann").await, (403, None));
    assert_eq!(tried(&broker, "gil").await, (303, Some("globex".to_owned())));
}

#[tokio::test]
async fn a_tenant_that_came_into_being_takes_no_name_of_another() {
    let people = json!({
        "id": "people", "type": "file", "operatedBy": "operator", "tenants": "all",
        "users": [user("1", Some("newco"), "nora"), user("2", Some("infra"), "ivan"), user("3", Some("SYSTEM"), "sid")],
    });
    let configuration =
        with(people).with("/createTenants", true).with("/reservedLabels", json!(["infra"])).with("/systemTenant", Value::Null);
    let configuration =
        configuration.with("/connectors/1", json!({"id": "spare", "type": "file", "tenant": {"fixed": "globex"}, "users": []}));
    let clients: Value = configuration.0["clients"].as_array().unwrap().iter().filter(|c| c["tenant"] != "system").cloned().collect();
    let mut broker = Broker::start(configuration.with("/clients", clients)).await;
    assert_eq!(tried(&broker, "ivan").await, (403, None), "a reserved label");
    assert_eq!(tried(&broker, "sid").await, (403, None), "a look-alike of the operators'");
    assert_eq!(tried(&broker, "nora").await, (303, Some("newco".to_owned())));
    // Now the operator gives that label to a tenant of their own.
    broker.reconfigure(|c| c.set("/tenants/-", json!({"id": "New Company Ltd", "label": "newco"}))).await;
    assert_eq!(tried(&broker, "nora").await, (403, None), "two tenants under one label would be one to Kubernetes");
}
