//! Who may share with whom, asked at the door.
#![expect(clippy::unwrap_used, reason = "tests")]

use denizen_tests::{Answer, Authorization, Broker, Configuration, Service};
use serde_json::{Value, json};

async fn token(broker: &Broker, tenant: &str, username: &str) -> String {
    broker.tokens(&Authorization::for_search(broker.issuer()), tenant, username).await.access().to_owned()
}

async fn check_at(service: &Service, token: &str, path: &str, body: &Value) -> Answer {
    service.send(service.http().post(service.at(path)).bearer_auth(token).json(body)).await
}

async fn check(service: &Service, token: &str, subject: &str, target: &str) -> String {
    let body = json!({"subject": subject, "target": target});
    check_at(service, token, "/api/v1/shares:check", &body).await.expect(200).text
}

async fn id(service: &Service, token: &str, name: &str) -> String {
    let found = service.get_as(token, &format!("/api/v1/users?search={name}")).await.expect(200).json();
    found.pointer("/users/0/id").and_then(Value::as_str).unwrap().to_owned()
}

const YES: &str = r#"{"allowed":true}"#;
const NO: &str = r#"{"allowed":false}"#;
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

#[tokio::test]
async fn two_tenants_and_one_exception() {
    let mut broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let (acme, globex) = (token(&broker, "acme", "jane").await, token(&broker, "globex", "jane").await);
    let (jane, alice) = (id(&service, &acme, "jane").await, id(&service, &acme, "alice").await);
    let hank = id(&service, &globex, "hank").await;
    assert_eq!(check(&service, &acme, &jane, &alice).await, YES);
    for (subject, target) in [(&jane, &hank), (&hank, &jane), (&jane, &NOBODY.to_owned()), (&NOBODY.to_owned(), &jane)] {
        assert_eq!(check(&service, &acme, subject, target).await, NO);
    }
    assert_eq!(check(&service, &globex, &jane, &alice).await, NO, "they are no people of the caller's");

    let log = broker.log();
    assert_eq!(log.lines().filter(|line| line.contains("share.check")).count(), 6, "each is audited");

    broker.reconfigure(|configuration| configuration.set("/sharing", json!({"exceptions": [{"from": "acme", "to": "globex"}]}))).await;
    assert_eq!(check(&service, &acme, &jane, &hank).await, YES);
    assert_eq!(check(&service, &globex, &hank, &jane).await, NO, "one way");
    // It widens nothing else.
    assert_eq!(service.search(&acme, "/api/v1/users", "").await, ["acme/alice", "acme/bob", "acme/jane"]);
    service.get_as(&acme, &format!("/api/v1/users/{hank}")).await.expect(404);
    service.get_as(&acme, "/api/v1/tenants/globex/users").await.expect(404);

    // Whoever is no longer there is as one who never was.
    let without_hank = |configuration: &mut Configuration| {
        let users = configuration.0.pointer_mut("/connectors/0/users").and_then(Value::as_array_mut).unwrap();
        users.retain(|user| user["username"] != "hank");
    };
    broker.reconfigure(without_hank).await;
    assert_eq!(check(&service, &acme, &jane, &hank).await, NO);
}

#[tokio::test]
async fn t02_t12_who_may_ask_and_what() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let acme = token(&broker, "acme", "jane").await;
    let (jane, alice) = (id(&service, &acme, "jane").await, id(&service, &acme, "alice").await);
    let body = json!({"subject": jane, "target": alice});
    let unauthenticated = service.http().post(service.at("/api/v1/shares:check")).json(&body);
    service.send(unauthenticated).await.expect(401);
    let unscoped = Authorization::web().with("scope", "openid").add("resource", &format!("{}/api", broker.issuer()));
    let unscoped = broker.tokens(&unscoped, "acme", "jane").await;
    check_at(&service, unscoped.access(), "/api/v1/shares:check", &body).await.expect(403);
    for tenant in ["globex", "system", "nowhere"] {
        check_at(&service, &acme, &format!("/api/v1/tenants/{tenant}/shares:check"), &body).await.expect(404);
    }
    assert_eq!(check_at(&service, &acme, "/api/v1/tenants/acme/shares:check", &body).await.expect(200).text, YES);
    // Operators name the tenant; without one it is their own, which these are not of.
    let operator = service.client_credentials("ops").await;
    assert_eq!(check_at(&service, operator.access(), "/api/v1/tenants/acme/shares:check", &body).await.expect(200).text, YES);
    assert_eq!(check_at(&service, operator.access(), "/api/v1/tenants/globex/shares:check", &body).await.expect(200).text, NO);
    assert_eq!(check_at(&service, operator.access(), "/api/v1/shares:check", &body).await.expect(200).text, NO);
    for wrong in [
        json!({"subject": jane}),
        json!({"subject": jane, "target": "alice"}),
        json!({"subject": jane, "target": alice, "tenant": "globex"}),
        json!({"subject": [jane], "target": alice}),
        json!([]),
    ] {
        let answer = check_at(&service, &acme, "/api/v1/shares:check", &wrong).await.expect(400);
        assert_eq!(answer.error(), "invalid_request", "{wrong}");
    }
    let post = || service.http().post(service.at("/api/v1/shares:check")).bearer_auth(&acme);
    service.send(post().body(body.to_string())).await.expect(415);
    service.send(post().json(&json!({"subject": "x".repeat(300_000)}))).await.expect(413);
    service.get_as(&acme, "/api/v1/shares:check").await.expect(405);
}
