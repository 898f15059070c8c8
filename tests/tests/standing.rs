//! What still stands of what was given, when the world around it has changed; and who can bring it down.
#![expect(clippy::indexing_slicing, reason = "tests")]

use std::fs;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use denizen_tests::{
    Authorization, Broker, Configuration,
    configuration::{KUBERNETES, REVIEWER_TOKEN, hash_of, password_of},
    jwt,
};
use serde_json::{Value, json};

async fn good(broker: &Broker, token: &str) -> bool {
    broker.service().review(REVIEWER_TOKEN, token, &[KUBERNETES]).await["authenticated"] == true
}

fn user(id: &str, tenant: &str, username: &str) -> Value {
    json!({"id": id, "tenant": tenant, "username": username, "password": hash_of(tenant, username)})
}

fn offline() -> Authorization {
    Authorization::web().with("scope", "openid profile groups offline_access")
}

#[tokio::test]
async fn whoever_sees_an_access_token_can_not_end_its_grant() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let tokens = broker.tokens(&offline(), "acme", "jane").await;
    let claims = jwt::claims(tokens.access());
    let family = claims["grant_id"].as_str().unwrap();
    for family in [family.to_owned(), family.replace('-', "")] {
        let forged = format!("dzr_{}.{family}.guess", B64.encode("acme"));
        service.try_refresh("web", &forged).await.expect(400);
        service.try_refresh("console", &forged).await.expect(400);
        service.revoke("web", &forged).await.expect(200);
    }
    assert!(good(&broker, tokens.access()).await);
    service.refresh("web", tokens.refresh()).await;
}

#[tokio::test]
async fn t09_t30_a_session_answers_no_one_who_was_disabled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.yaml");
    let write = |user: Value| fs::write(&path, json!({"users": [user]}).to_string()).unwrap();
    write(user("a1", "acme", "jane"));
    let connector = json!({"id": "people", "type": "file", "operatedBy": "operator", "tenants": ["acme", "globex"], "path": path});
    let broker = Broker::start(Configuration::default().with("/connectors/0", connector)).await;
    let request = Authorization::web().with("tenant", "acme");
    let mut browser = broker.browser();
    browser.sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let silent = request.with("prompt", "none").path();
    assert!(browser.open(&silent).await.location().unwrap().query().unwrap().contains("code="));
    let mut disabled = user("a1", "acme", "jane");
    disabled["disabled"] = json!(true);
    write(disabled);
    let mut query = String::new();
    for _ in 0..100 {
        query = browser.open(&silent).await.location().unwrap().query().unwrap().to_owned();
        if query.contains("error=login_required") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(query.contains("error=login_required"), "{query}");
    // The session is over, also when they are back.
    write(user("a1", "acme", "jane"));
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(browser.open(&silent).await.location().unwrap().query().unwrap().contains("error=login_required"));
}

#[tokio::test]
async fn a_clients_tokens_fall_with_what_it_may() {
    let mut broker = Broker::start(Configuration::default()).await;
    let tokens = broker.tokens(&offline(), "acme", "jane").await;
    assert!(good(&broker, tokens.access()).await);
    broker.reconfigure(|c| *c = std::mem::take(c).with_client("web", "tenants", json!(["globex"]))).await;
    assert!(!good(&broker, tokens.access()).await, "the client takes acme no longer");
    broker.reconfigure(|c| *c = std::mem::take(c).with_client("web", "tenants", Value::Null)).await;
    assert!(good(&broker, tokens.access()).await);
    // What it may not have any more, a refresh does not give.
    broker.reconfigure(|c| *c = std::mem::take(c).with_client("web", "scopes", json!(["openid"]))).await;
    let renewed = broker.service().refresh("web", tokens.refresh()).await;
    assert_eq!(jwt::claims(renewed.access())["scope"], "openid");
    let mut browser = broker.browser();
    let form = browser.open(&Authorization::web().with("scope", "openid").path()).await.expect(200);
    broker
        .reconfigure(|c| {
            let clients = c.0["clients"].as_array_mut().unwrap();
            clients.retain(|client| client["id"] != "web");
        })
        .await;
    assert!(!good(&broker, renewed.access()).await, "the client is gone");
    let name = password_of("acme", "jane");
    browser.submit(&form, &[("username", "jane@acme"), ("password", &name)]).await.expect(404);
}

#[tokio::test]
async fn a_revoked_token_stays_revoked_whatever_stood_in_its_way() {
    let mut broker = Broker::start(Configuration::default()).await;
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    broker.reconfigure(|c| c.set("/tenants/0/disabled", true)).await;
    broker.service().revoke("web", tokens.access()).await.expect(200);
    broker.reconfigure(|c| c.set("/tenants/0/disabled", false)).await;
    assert!(!good(&broker, tokens.access()).await);
}

#[tokio::test]
async fn t04_two_people_never_have_one_id() {
    let people = json!({
        "id": "people", "type": "file", "operatedBy": "operator", "tenants": ["acme", "globex"], "ids": "verbatim",
        "users": [user("6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "acme", "vera"), user("6F9619FF-8B86-4D01-B42D-00CF4FC964FF", "acme", "viktor")],
    });
    let broker = Broker::start(Configuration::default().with("/connectors/0", people)).await;
    let request = Authorization::for_search(broker.issuer());
    let vera = broker.tokens(&request, "acme", "vera").await;
    let viktor = broker.browser().try_sign_in(&request, "viktor@acme", &password_of("acme", "viktor")).await;
    assert_eq!(viktor.status, 403);
    assert_eq!(broker.service().search(vera.access(), "/api/v1/users", "").await, ["acme/vera"]);
}

#[tokio::test]
async fn groups_that_make_a_token_too_long_stay_out_of_it() {
    let long: Vec<_> = (0..300).map(|i| format!("{}-{i}", "department-of-long-names".repeat(8))).collect();
    let mut configuration = Configuration::default();
    configuration.set("/connectors/0/users/0/groups", json!(long));
    let broker = Broker::start(configuration).await;
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    assert!(tokens.access().len() < 4_096 && tokens.id().len() < 4_096);
    assert!(good(&broker, tokens.access()).await);
    let info = broker.service().userinfo(tokens.access()).await.expect(200).json();
    assert_eq!(info["groups"].as_array().unwrap().len(), 300, "userinfo has them");
}

#[tokio::test]
async fn an_id_token_hint_names_the_person_who_must_answer() {
    let broker = Broker::start(Configuration::default()).await;
    let alice = broker.tokens(&Authorization::web(), "acme", "alice").await;
    let mut browser = broker.browser();
    let request = Authorization::web().with("tenant", "acme");
    let code = browser.sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let jane = broker.service().exchange(&request, &code).await;
    let silent = |hint: &str| request.clone().with("prompt", "none").with("id_token_hint", hint).path();
    for (hint, answer) in [
        (jane.id(), "code="),
        (alice.id(), "error=login_required"),
        ("nonsense", "error=login_required"),
        (jane.access(), "error=login_required"),
    ] {
        let query = browser.open(&silent(hint)).await.location().unwrap().query().unwrap().to_owned();
        assert!(query.contains(answer), "{query}");
    }
}

#[tokio::test]
async fn a_request_by_form_is_the_same_as_by_link() {
    let broker = Broker::start(Configuration::default()).await;
    let mut browser = broker.browser();
    let request = Authorization::web().with("tenant", "acme");
    let fields: Vec<(String, String)> =
        url::form_urlencoded::parse(request.path().split_once('?').unwrap().1.as_bytes()).into_owned().collect();
    let answer = browser.post("/oauth2/authorize", &fields).await.expect(303);
    assert!(answer.header("set-cookie").is_empty(), "no session is begun for a form from anywhere");
    let location = answer.header("location").to_owned();
    let form = browser.open(&location).await.expect(200);
    let password = password_of("acme", "jane");
    let code = denizen_tests::browser::code(&browser.submit(&form, &[("username", "jane"), ("password", &password)]).await);
    broker.service().exchange(&request, &code).await;
}

#[tokio::test]
async fn two_tabs_each_finish_their_sign_in() {
    let broker = Broker::start(Configuration::default()).await;
    let mut browser = broker.browser();
    let request = Authorization::web().with("tenant", "acme");
    let first = browser.open(&request.path()).await.expect(200);
    let second = browser.open(&request.path()).await.expect(200);
    let password = password_of("acme", "jane");
    for form in [first, second] {
        let answer = browser.submit(&form, &[("username", "jane"), ("password", &password)]).await;
        broker.service().exchange(&request, &denizen_tests::browser::code(&answer)).await;
    }
}

#[tokio::test]
async fn guesses_are_counted_whatever_tenant_is_named() {
    let fixed = json!({"id": "people", "type": "file", "tenant": {"fixed": "acme"}, "users": [{"id": "1", "username": "fred", "password": hash_of("acme", "fred")}]});
    let broker = Broker::start(Configuration::default().with("/connectors/0", fixed)).await;
    let mut statuses = Vec::new();
    for i in 0..7 {
        let request = Authorization::web().with("tenant", &format!("t{i}"));
        statuses.push(broker.browser().try_sign_in(&request, "fred", "wrong").await.status);
    }
    assert_eq!(statuses, [422, 422, 422, 422, 422, 429, 429]);
}

#[tokio::test]
async fn slowing_does_not_show_which_tenants_there_are() {
    let broker = Broker::start(Configuration::default()).await;
    for tenant in ["globex", "nosuch"] {
        for _ in 0..5 {
            broker.browser().try_sign_in(&Authorization::web(), &format!("zz@{tenant}"), "wrong").await.expect(422);
        }
        broker.browser().try_sign_in(&Authorization::web().with("tenant", tenant), "zz", "wrong").await.expect(429);
    }
}

#[tokio::test]
async fn many_applications_renew_in_one_session_at_once() {
    let broker = Broker::start(Configuration::default()).await;
    let (service, request) = (broker.service(), Authorization::web().with("tenant", "acme"));
    let mut browser = broker.browser();
    let mut codes = vec![browser.sign_in(&request, "jane", &password_of("acme", "jane")).await];
    for _ in 0..23 {
        codes.push(denizen_tests::browser::code(&browser.open(&request.path()).await));
    }
    let mut refresh_tokens = Vec::new();
    for code in &codes {
        refresh_tokens.push(service.exchange(&request, code).await.refresh().to_owned());
    }
    for _ in 0..3 {
        let renewals = refresh_tokens.iter().map(|token| service.refresh("web", token));
        let renewed = futures_util::future::join_all(renewals).await;
        refresh_tokens = renewed.iter().map(|tokens| tokens.refresh().to_owned()).collect();
    }
}
