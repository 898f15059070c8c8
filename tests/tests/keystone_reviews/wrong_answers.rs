//! Whatever Keystone answers in place of what it should: "no" only where it says no, and else that it could not be told.

use std::time::{Duration, Instant};

use denizen_tests::{
    Broker, Keystone, Relay,
    keystone::Scope,
    relay::{Manner, Reply, When},
};
use futures_util::future::join_all;
use serde_json::json;

use super::house::{DEADLINE, House, TOKENS, configuration, review, soon_good, texts};

/// What is no answer of Keystone's to a question about a token, or a bad one.
fn no_answers() -> Vec<(&'static str, Manner)> {
    let token = |token: serde_json::Value| Reply::new(200, json!({ "token": token }).to_string());
    let user = json!({"id": "u1", "name": "jane", "domain": {"id": "d1", "name": "acme"}});
    let expires = "2126-11-21T07:28:10.000000Z";
    let mut all: Vec<_> = [
        ("401", Reply::new(401, "{}")),
        ("403", Reply::new(403, "{}")),
        ("400", Reply::new(400, "{}")),
        ("a proxy's 404", Reply::new(404, "a page of someone's")),
        ("413", Reply::new(413, "{}")),
        ("429", Reply::new(429, "{}").with_header("retry-after", "1")),
        ("500", Reply::new(500, "a page")),
        ("502", Reply::new(502, "<html>")),
        ("503", Reply::new(503, "{}").with_header("retry-after", "1")),
        ("204", Reply::new(204, "")),
        ("201", Reply::new(201, json!({"token": {"user": user, "expires_at": expires, "methods": []}}).to_string())),
        ("a redirect", Reply::new(302, "").with_header("location", "http://127.0.0.1:1/v3/auth/tokens")),
        ("nothing", Reply::new(200, "")),
        ("a page", Reply::new(200, "<html>It works</html>")),
        ("cut", Reply::new(200, r#"{"token": {"user": {"id": "u1", "na"#)),
        ("a list", Reply::new(200, "[]")),
        ("null", Reply::new(200, r#"{"token": null}"#)),
        ("no UTF-8", Reply::new(200, b"{\"token\": \"\xff\"}".to_vec())),
        ("deep", Reply::new(200, format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)))),
        ("huge", Reply::new(200, format!(r#"{{"token": "{}"}}"#, "x".repeat(1 << 20)))),
        ("empty", token(json!({}))),
        ("no user", token(json!({"expires_at": expires, "methods": []}))),
        ("no end", token(json!({"user": user, "methods": []}))),
        ("no such end", token(json!({"user": user, "methods": [], "expires_at": "tomorrow"}))),
        ("two scopes", token(json!({"user": user, "methods": [], "expires_at": expires, "project": {"id": "p"}, "domain": {"id": "d"}}))),
        ("a scope of another kind", token(json!({"user": user, "methods": [], "expires_at": expires, "system": {"all": "yes"}}))),
        ("roles that are none", token(json!({"user": user, "methods": [], "expires_at": expires, "roles": "admin"}))),
    ]
    .map(|(what, reply)| (what, Manner::Answer(reply)))
    .into();
    for wrong in [
        json!({"id": 7, "name": "jane", "domain": {"id": "d1"}}),
        json!({"id": "", "name": "jane", "domain": {"id": "d1"}}),
        json!({"id": "u1", "name": ["jane"], "domain": {"id": "d1"}}),
        json!({"id": "u1", "name": "jane"}),
        json!({"id": "u1", "name": "jane", "domain": "acme"}),
        json!({"id": "u1", "name": "jane", "domain": {"name": "acme"}}),
        json!("u1"),
    ] {
        all.push(("a wrong user", Manner::Answer(token(json!({"user": wrong, "methods": [], "expires_at": expires})))));
    }
    all.push(("a broken connection", Manner::Break));
    all
}

#[tokio::test]
async fn t29_an_answer_about_a_token_that_is_none_is_no_refusal() {
    let Some(house) = House::start().await else { return };
    let (keystone, relay, service) = (&house.keystone, &house.relay, &house.service);
    let remembered = house.jane().await;
    assert!(house.reviewed(&remembered).await.is_object());
    for (what, manner) in no_answers() {
        let token = keystone.token("acme", "jane", Scope::Unscoped).await;
        relay.set(When::path(TOKENS).method("GET"), manner);
        let answer = review(service, &token).await;
        assert_eq!(answer.status, 503, "{what}: {}", answer.text);
        assert_eq!(house.reviewed(&remembered).await["username"], "acme:jane", "{what}");
        relay.pass_on();
        soon_good(service, &token).await;
    }
    // It says no in one way alone, and that is remembered.
    let token = keystone.token("acme", "jane", Scope::Unscoped).await;
    relay.set(When::path(TOKENS).method("GET"), Manner::Answer(Reply::new(404, r#"{"error": {"code": 404}}"#)));
    assert!(house.reviewed(&token).await.is_null());
    relay.pass_on();
    let asked = house.asked();
    assert!(house.reviewed(&token).await.is_null());
    assert_eq!(house.asked(), asked);
}

#[tokio::test]
async fn t29_a_keystone_that_does_not_answer_is_given_up_in_time() {
    let Some(house) = House::start().await else { return };
    let token = house.jane().await;
    house.relay.freeze();
    let begun = Instant::now();
    assert_eq!(review(&house.service, &token).await.status, 503);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(u64::from(DEADLINE) + 2), "{took:?}");
    house.relay.pass_on();
    soon_good(&house.service, &token).await;
    // The same where Keystone itself stands still behind it.
    house.keystone.freeze();
    assert!(house.reviewed(&token).await.is_object(), "it is remembered");
    let forged = super::stand_in::fernet(1);
    let begun = Instant::now();
    assert_eq!(review(&house.service, &forged).await.status, 503);
    assert!(begun.elapsed() < Duration::from_secs(u64::from(DEADLINE) + 2));
    house.keystone.thaw();
}

/// One broker for each: one that was refused does not log in again for some seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t29_whatever_becomes_of_the_service_accounts_login_is_no_refusal() {
    let Some(keystone) = Keystone::start().await else { return };
    let no_token = || {
        Reply::new(
            201,
            json!({"token": {"issued_at": "2026-11-21T07:28:10.000000Z", "expires_at": "2126-11-21T07:28:10.000000Z"}}).to_string(),
        )
    };
    let no_answers: Vec<_> = [
        ("401", Manner::Answer(Reply::new(401, "{}"))),
        ("403", Manner::Answer(Reply::new(403, "{}"))),
        ("404", Manner::Answer(Reply::new(404, "{}"))),
        ("500", Manner::Answer(Reply::new(500, "a page"))),
        ("200", Manner::Answer(Reply::new(200, "{}").with_header("x-subject-token", "t"))),
        ("no token", Manner::Answer(no_token())),
        ("an empty token", Manner::Answer(no_token().with_header("x-subject-token", ""))),
        ("nothing of its end", Manner::Answer(Reply::new(201, r#"{"token": {}}"#).with_header("x-subject-token", "t"))),
        ("a page", Manner::Answer(Reply::new(201, "<html>").with_header("x-subject-token", "t"))),
        ("huge", Manner::Answer(Reply::new(201, "x".repeat(1 << 20)).with_header("x-subject-token", "t"))),
        ("a redirect", Manner::Answer(Reply::new(303, "").with_header("location", "http://127.0.0.1:1/"))),
        ("a broken connection", Manner::Break),
        ("silence", Manner::Hold),
    ]
    .into();
    let keystone = &keystone;
    let token = &keystone.token("acme", "jane", Scope::Unscoped).await;
    let other = &keystone.token("globex", "jane", Scope::Unscoped).await;
    join_all(no_answers.into_iter().map(async |(what, manner)| {
        let relay = Relay::before(keystone.url().strip_suffix("/v3").unwrap());
        let broker = Broker::start(configuration(keystone, &relay)).await;
        let service = broker.service();
        relay.set(When::path(TOKENS).method("POST"), manner);
        for token in [token, other] {
            let answer = review(&service, token).await;
            assert_eq!(answer.status, 503, "{what}: {}", answer.text);
        }
        assert_eq!(relay.count("GET", TOKENS), 0, "{what}: no one asks about a token without one");
        assert!(relay.count("POST", TOKENS) <= 2, "{what}");
        relay.pass_on();
        soon_good(&service, token).await;
        soon_good(&service, other).await;
    }))
    .await;
}

#[tokio::test]
async fn t29_a_service_token_that_is_not_taken_any_more_costs_one_login_and_one_more_question() {
    let Some(house) = House::start().await else { return };
    let (first, second) = (house.jane().await, house.token("globex", "jane", "globex").await);
    assert!(house.reviewed(&first).await.is_object());
    assert_eq!(house.asked(), [1, 1]);
    house.relay.forget();
    house.relay.set(When::path(TOKENS).method("GET").next(1), Manner::Answer(Reply::new(401, "{}")));
    assert_eq!(house.reviewed(&second).await["username"], "globex:jane");
    assert_eq!(house.asked(), [2, 1]);
    // Really taken back, it is refused at that question or, by what a thread of Keystone's remembers, at the next: for her groups.
    let held = || {
        let seen = house.relay.seen().into_iter().rev();
        seen.filter_map(|seen| Some(seen.headers.get("x-auth-token")?.to_str().unwrap().to_owned())).next().unwrap()
    };
    house.keystone.revoke(&held()).await;
    house.relay.forget();
    assert_eq!(house.reviewed(&house.token("globex", "gina", "globex").await).await["username"], "globex:gina");
    assert_eq!((house.asked()[1], house.relay.total()), (1, 4), "{:?}", house.relay.counts());
    // Of many questions at once, too, one login comes.
    let held = held();
    let mut tokens = Vec::new();
    for _ in 0..10 {
        tokens.push(house.jane().await);
    }
    house.keystone.revoke(&held).await;
    house.relay.forget();
    for user in join_all(tokens.iter().map(|token| house.reviewed(token))).await {
        assert_eq!(user["username"], "acme:jane");
    }
    let [asked, logins] = house.asked();
    assert!(logins == 1 && (10..=20).contains(&asked), "{asked} questions, {logins} logins");
}

#[tokio::test]
async fn t29_an_account_without_the_right_is_no_refusal_of_anyone() {
    let Some(house) = House::with(|keystone, configuration| {
        let account = keystone.service_account("denizen-acme", Scope::Domain(keystone.domain("acme")));
        configuration.set("/connectors/2/serviceAccount", account);
    })
    .await
    else {
        return;
    };
    let token = house.jane().await;
    assert_eq!(review(&house.service, &token).await.status, 503);
    assert_eq!(house.asked(), [1, 1], "another login would not help");
}

#[tokio::test]
async fn an_account_that_may_ask_about_tokens_only_is_enough_for_reviews() {
    let Some(house) = House::with(|keystone, configuration| {
        let account = keystone.service_account("denizen-narrow", Scope::Project(keystone.project("Default", "service")));
        configuration.set("/connectors/2/serviceAccount", account);
        configuration.set("/connectors/2/userDirectory", false);
    })
    .await
    else {
        return;
    };
    let user = house.reviewed(&house.jane().await).await;
    assert_eq!((&user["username"], texts(&user["groups"])), (&json!("acme:jane"), Vec::<String>::new()));
}
