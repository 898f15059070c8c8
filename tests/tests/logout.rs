//! Signing out: through an application (RP-initiated), and how applications are told (back-channel).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeSet;

use denizen::seams::{Clock as _, SystemClock};
use denizen_tests::{
    Answer, Authorization, Broker, Browser, Configuration, LogoutReceiver, Tokens,
    configuration::{REVIEWER_TOKEN, hash_of, password_of, secret_of},
    form::Form,
    jwt,
    logout_receiver::Reply,
};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::JwkSet};
use serde_json::{Value, json};

const BYE: &str = "https://app.example/bye";

fn configuration() -> Configuration {
    let addresses = json!([BYE, "https://app.example/bye?x=1", "http://127.0.0.1/bye"]);
    let configuration = Configuration::default().with_client("web", "postLogoutRedirectUris", addresses);
    configuration.with_client("console", "connectors", json!(["people"]))
}

/// With an application that is told of sign-outs.
fn told_at(receiver: &LogoutReceiver) -> Configuration {
    configuration().with_client("web", "backchannelLogoutUri", receiver.address())
}

/// Someone who has signed in to `web`, with the browser and the tokens of the application.
struct Person {
    browser: Browser,
    tokens: Tokens,
}

async fn sign_in(broker: &Broker, request: &Authorization, tenant: &str, username: &str) -> Person {
    let mut browser = broker.browser();
    let request = request.clone().with("tenant", tenant);
    let code = browser.sign_in(&request, username, &password_of(tenant, username)).await;
    let tokens = broker.service().exchange(&request, &code).await;
    Person { browser, tokens }
}

async fn jane(broker: &Broker) -> Person {
    sign_in(broker, &Authorization::web(), "acme", "jane").await
}

fn logout(parameters: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    format!("/oauth2/logout?{}", query.extend_pairs(parameters).finish())
}

async fn is_signed_in(broker: &Broker, person: &Person) -> bool {
    let by_token = broker.service().userinfo(person.tokens.access()).await.status == 200;
    let by_browser = person.browser.clone().get("/account").await.status == 200;
    assert_eq!(by_token, by_browser, "the session stands for both, or for neither");
    by_token
}

/// The page that asks, and nothing has ended.
#[track_caller]
fn asks(answer: &Answer) -> Form {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.location().is_none() && answer.text.contains("<h1>Sign out?</h1>"), "{}", answer.text);
    assert!(!answer.text.contains("<script") && answer.header("cache-control") == "no-store");
    Form::of(&answer.text).unwrap()
}

#[track_caller]
fn says_signed_out(answer: &Answer) {
    assert!(answer.status == 200 && answer.text.contains("You are signed out"), "{}: {}", answer.status, answer.text);
}

#[track_caller]
fn goes_to(answer: &Answer, address: &str) {
    assert_eq!((answer.status, answer.header("location")), (303, address), "{}", answer.text);
}

#[tokio::test]
async fn a_hint_of_this_session_ends_it_without_asking() {
    let broker = Broker::start(configuration()).await;
    let document = broker.service().get("/.well-known/openid-configuration").await.json();
    assert_eq!(document["end_session_endpoint"], format!("{}/oauth2/logout", broker.issuer()));

    let (mut person, other) = (jane(&broker).await, jane(&broker).await);
    let path = logout(&[("id_token_hint", person.tokens.id()), ("post_logout_redirect_uri", BYE), ("state", "a b&c")]);
    let answer = person.browser.get(&path).await;
    goes_to(&answer, "https://app.example/bye?state=a+b%26c");
    assert_eq!((answer.header("cache-control"), answer.header("referrer-policy")), ("no-store", "no-referrer"));
    assert!(!is_signed_in(&broker, &person).await);
    assert!(!person.browser.cookies.contains_key("denizen"), "{:?}", person.browser.cookies);
    assert!(is_signed_in(&broker, &other).await, "the other browser's session stands");

    let mut person = jane(&broker).await;
    let path = logout(&[("id_token_hint", person.tokens.id()), ("post_logout_redirect_uri", "https://app.example/bye?x=1")]);
    goes_to(&person.browser.get(&path).await, "https://app.example/bye?x=1");
    let mut person = jane(&broker).await;
    let both = [("id_token_hint", person.tokens.id()), ("client_id", "web"), ("logout_hint", "jane"), ("ui_locales", "de")];
    says_signed_out(&person.browser.get(&logout(&both)).await);
    assert!(!is_signed_in(&broker, &person).await);
}

#[tokio::test]
async fn an_expired_hint_is_as_good() {
    let broker = Broker::start(configuration().with("/lifetimes", json!({"idTokenSeconds": 1}))).await;
    let mut person = jane(&broker).await;
    let exp = jwt::claims(person.tokens.id())["exp"].as_i64().unwrap();
    while SystemClock.now().unix_timestamp() <= exp {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let path = logout(&[("id_token_hint", person.tokens.id()), ("post_logout_redirect_uri", BYE)]);
    goes_to(&person.browser.get(&path).await, BYE);
    assert!(!is_signed_in(&broker, &person).await);
}

#[tokio::test]
async fn an_application_with_offline_access_ends_the_browsers_session_and_keeps_its_own() {
    let receiver = LogoutReceiver::start([]).await;
    let broker = Broker::start(told_at(&receiver)).await;
    let mut person = sign_in(&broker, &Authorization::web().with("scope", "openid offline_access"), "acme", "jane").await;
    let sid = jwt::claims(person.tokens.id())["sid"].clone();
    let path = logout(&[("id_token_hint", person.tokens.id()), ("post_logout_redirect_uri", BYE)]);
    goes_to(&person.browser.get(&path).await, BYE);
    assert_eq!(person.browser.get("/account").await.status, 303, "the browser is signed out");
    broker.service().userinfo(person.tokens.access()).await.expect(200);
    let renewed = broker.service().refresh("web", person.tokens.refresh()).await;
    assert_eq!(jwt::claims(renewed.id())["sid"], sid, "one sign-in, one name");
    assert_eq!(jwt::claims(&receiver.wait_for(1).await[0])["sid"], sid, "the name that the application knows");
}

#[tokio::test]
async fn t45_whatever_does_not_prove_this_session_is_a_question() {
    let broker = Broker::start(configuration()).await;
    let mut person = jane(&broker).await;
    let same_person = jane(&broker).await;
    let namesake = sign_in(&broker, &Authorization::web(), "globex", "jane").await;
    let tampered = jwt::with_claims(same_person.tokens.id(), |claims| claims["sid"] = jwt::claims(person.tokens.id())["sid"].clone());
    let forged = jwt::es256(&jwt::header(person.tokens.id()), &jwt::claims(person.tokens.id()));
    let unsigned = format!("{}.", person.tokens.id().rsplit_once('.').unwrap().0);
    let hints = [same_person.tokens.id(), namesake.tokens.id(), &tampered, &forged, &unsigned, person.tokens.access(), "x", "a.b.c"];
    let before = person.browser.cookies.clone();
    for hint in hints {
        let parameters = [("id_token_hint", hint), ("client_id", "web"), ("post_logout_redirect_uri", BYE), ("state", "s")];
        let page = person.browser.get(&logout(&parameters)).await;
        let form = asks(&page);
        assert!(page.text.contains("The web application") && page.text.contains("Jane Jones (Acme Corporation)"), "{}", page.text);
        let policy = page.header("content-security-policy");
        assert!(policy.contains("form-action 'self' https://app.example;"), "{policy}");
        assert_eq!((form.action.as_str(), form.value("state"), form.value("id_token_hint")), ("/oauth2/logout", Some("s"), None));
    }
    for parameters in [&[][..], &[("client_id", "web")], &[("csrf", "x")], &[("id_token_hint", same_person.tokens.id())]] {
        asks(&person.browser.get(&logout(parameters)).await);
    }
    assert_eq!(person.browser.cookies, before);
    for who in [&person, &same_person, &namesake] {
        assert!(is_signed_in(&broker, who).await, "nothing ends before the answer");
    }

    let page = person.browser.get(&logout(&[("client_id", "web"), ("post_logout_redirect_uri", BYE), ("state", "s")])).await;
    goes_to(&person.browser.submit(&page, &[]).await, "https://app.example/bye?state=s");
    assert!(!is_signed_in(&broker, &person).await);
    assert!(is_signed_in(&broker, &same_person).await && is_signed_in(&broker, &namesake).await);
    says_signed_out(&person.browser.submit(&page, &[]).await);

    let mut person = jane(&broker).await;
    let page = person.browser.get("/oauth2/logout").await;
    says_signed_out(&person.browser.submit(&page, &[]).await);
    assert!(!is_signed_in(&broker, &person).await);
}

#[tokio::test]
async fn t46_only_a_form_that_was_shown_to_this_session_signs_it_out() {
    let broker = Broker::start(configuration()).await;
    let (mut person, mut other) = (jane(&broker).await, jane(&broker).await);
    let of_other = asks(&other.browser.get("/oauth2/logout").await);
    for csrf in ["wrong", of_other.value("csrf").unwrap()] {
        let answer = person.browser.post("/oauth2/logout", &[("csrf".to_owned(), csrf.to_owned())]).await;
        assert_eq!(answer.status, 400);
        assert!(is_signed_in(&broker, &person).await);
    }
    let twice = [("csrf".to_owned(), "a".to_owned()), ("csrf".to_owned(), "b".to_owned())];
    assert_eq!(person.browser.post("/oauth2/logout", &twice).await.status, 400);
    assert!(is_signed_in(&broker, &person).await);
}

#[tokio::test]
async fn a_form_of_an_application_is_sent_on_as_a_link() {
    let broker = Broker::start(configuration()).await;
    let mut person = jane(&broker).await;
    let fields = [("id_token_hint", person.tokens.id()), ("post_logout_redirect_uri", BYE), ("state", "s")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    // Another site's form comes without the cookie.
    let mut bare = broker.browser();
    let answer = bare.post("/oauth2/logout", &fields).await;
    assert_eq!(answer.status, 303);
    assert!(is_signed_in(&broker, &person).await);
    let next = answer.location().unwrap();
    assert_eq!((next.path(), next.origin()), ("/oauth2/logout", url::Url::parse(broker.issuer()).unwrap().origin()));
    goes_to(&person.browser.get(next.as_str()).await, "https://app.example/bye?state=s");
    assert!(!is_signed_in(&broker, &person).await);
}

#[tokio::test]
async fn an_address_that_is_not_registered_is_a_page_and_nothing_ends() {
    let broker = Broker::start(configuration()).await;
    let mut person = jane(&broker).await;
    let hint = person.tokens.id().to_owned();
    let refused = [
        "https://evil.example/",
        "https://app.example/bye/",
        "https://app.example/bye?",
        "https://app.example/bye#x",
        "https://app.example/bye?x=1&y=2",
        "https://APP.example/bye",
        "https://app.example:443/bye",
        "http://app.example/bye",
        "https://app.example/x/../bye",
        "http://127.0.0.1:4711/bye",
        "http://127.0.0.1:4711/cb",
        "javascript:alert(1)",
        "//evil.example",
    ];
    for uri in refused {
        for by in [("id_token_hint", hint.as_str()), ("client_id", "web")] {
            let answer = person.browser.get(&logout(&[by, ("post_logout_redirect_uri", uri)])).await;
            assert_eq!((answer.status, answer.header("location")), (400, ""), "{uri}");
            assert!(!answer.text.contains("evil.example"), "{}", answer.text);
        }
    }
    let other = sign_in(&broker, &Authorization::new("console", "https://console.example/cb"), "acme", "jane").await;
    for parameters in [
        &[("post_logout_redirect_uri", BYE)][..],
        &[("post_logout_redirect_uri", BYE), ("id_token_hint", "forged")],
        &[("post_logout_redirect_uri", BYE), ("client_id", "console")],
        &[("post_logout_redirect_uri", BYE), ("id_token_hint", other.tokens.id())],
        &[("client_id", "nobody")],
        &[("client_id", "console"), ("id_token_hint", &hint)],
        &[("client_id", "web"), ("client_id", "web")],
        &[("id_token_hint", &hint), ("state", "a"), ("state", "b")],
        &[("id_token_hint", &hint), ("state", &"a".repeat(2_049))],
    ] {
        let answer = person.browser.get(&logout(parameters)).await;
        assert_eq!((answer.status, answer.header("location")), (400, ""), "{parameters:?}");
        assert!(answer.header("content-type").starts_with("text/html"), "{parameters:?}");
    }
    assert!(is_signed_in(&broker, &person).await, "nothing has ended");
    // The form is held to the same.
    let mut form = asks(&person.browser.get(&logout(&[("client_id", "web"), ("post_logout_redirect_uri", BYE)])).await);
    form.fill("post_logout_redirect_uri", "https://evil.example/");
    assert_eq!(person.browser.post("/oauth2/logout", &form.fields).await.status, 400);
    assert!(is_signed_in(&broker, &person).await);
}

#[tokio::test]
async fn without_a_session_there_is_nothing_to_ask() {
    let broker = Broker::start(configuration()).await;
    let person = jane(&broker).await;
    let mut nobody = broker.browser();
    says_signed_out(&nobody.get("/oauth2/logout").await);
    says_signed_out(&nobody.get(&logout(&[("client_id", "web"), ("post_logout_redirect_uri", BYE)])).await);
    let by_hint = [("id_token_hint", person.tokens.id()), ("post_logout_redirect_uri", BYE), ("state", "s")];
    goes_to(&nobody.get(&logout(&by_hint)).await, "https://app.example/bye?state=s");
    says_signed_out(&nobody.post("/oauth2/logout", &[("csrf".to_owned(), "x".to_owned())]).await);
    assert!(nobody.cookies.is_empty(), "no session is made for it");
    assert!(is_signed_in(&broker, &person).await, "a hint ends nothing in a browser that is not its own");
}

/// What a logout token says, held against our published keys.
async fn verified(broker: &Broker, token: &str, client: &str) -> Value {
    let keys: JwkSet = serde_json::from_value(broker.service().get("/oauth2/jwks").await.json()).unwrap();
    let header = jwt::header(token);
    assert_eq!(header["typ"], "logout+jwt");
    let key = DecodingKey::from_jwk(keys.find(header["kid"].as_str().unwrap()).unwrap()).unwrap();
    let mut validation = Validation::new(if header["alg"] == "RS256" { Algorithm::RS256 } else { Algorithm::ES256 });
    validation.set_audience(&[client]);
    validation.set_issuer(&[broker.issuer()]);
    let claims = jsonwebtoken::decode::<Value>(token, &key, &validation).unwrap().claims;
    let lasts = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert_eq!(lasts, 120);
    assert_eq!(claims["events"], json!({"http://schemas.openid.net/event/backchannel-logout": {}}));
    assert!(claims.get("nonce").is_none() && claims["jti"].is_string());
    claims
}

#[tokio::test]
async fn every_application_of_the_session_is_told_and_no_other() {
    let (web, backend, console) =
        (LogoutReceiver::start([]).await, LogoutReceiver::start([Reply::Status(204)]).await, LogoutReceiver::start([]).await);
    let configuration = told_at(&web)
        .with("/keys", json!({"algorithms": ["ES256", "RS256"]}))
        .with_client("backend", "backchannelLogoutUri", backend.address())
        .with_client("backend", "signingAlgorithm", "RS256")
        .with_client("console", "backchannelLogoutUri", console.address());
    let broker = Broker::start(configuration).await;
    let (mut person, other) = (jane(&broker).await, sign_in(&broker, &Authorization::web(), "globex", "jane").await);
    let request = Authorization::backend().with("tenant", "acme");
    let code = denizen_tests::browser::code(&person.browser.open(&request.path()).await);
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", "backend"),
        ("client_secret", &secret_of("backend")),
        ("code", &code),
        ("redirect_uri", request.get("redirect_uri")),
        ("code_verifier", &request.verifier),
    ];
    broker.service().token(&form).await.expect(200);
    // Without `openid` there is no ID token, and no session that the application knows of.
    let silent = Authorization::new("console", "https://console.example/cb").with("scope", "profile").with("tenant", "acme");
    let code = denizen_tests::browser::code(&person.browser.open(&silent.path()).await);
    broker.service().try_exchange(&silent, &code).await.expect(200);

    says_signed_out(&person.browser.sign_out().await);
    let id = jwt::claims(person.tokens.id());
    for (receiver, client) in [(&web, "web"), (&backend, "backend")] {
        let claims = verified(&broker, &receiver.wait_for(1).await[0], client).await;
        assert_eq!((&claims["sid"], &claims["sub"]), (&id["sid"], &id["sub"]), "{client}");
    }
    let token = &web.tokens()[0];
    assert_eq!(broker.service().review(REVIEWER_TOKEN, token, &[]).await, json!({"authenticated": false}), "t51");
    broker.service().userinfo(token).await.expect(401);
    assert!(is_signed_in(&broker, &other).await);
    assert_eq!((web.tokens().len(), backend.tokens().len(), console.tokens().len()), (1, 1, 0));
}

#[tokio::test]
async fn t51_a_logout_token_is_no_hint() {
    let receiver = LogoutReceiver::start([]).await;
    let broker = Broker::start(told_at(&receiver)).await;
    jane(&broker).await.browser.sign_out().await;
    let token = receiver.wait_for(1).await.remove(0);
    let mut nobody = broker.browser();
    says_signed_out(&nobody.get(&logout(&[("id_token_hint", &token)])).await);
    nobody.get(&logout(&[("id_token_hint", &token), ("post_logout_redirect_uri", BYE)])).await.expect(400);
}

#[tokio::test]
async fn a_client_that_fails_is_told_again_also_after_a_crash() {
    let receiver = LogoutReceiver::start([Reply::Status(500), Reply::Status(500)]).await;
    let mut broker = Broker::start(told_at(&receiver)).await;
    let mut person = jane(&broker).await;
    person.browser.sign_out().await;
    receiver.wait_for(1).await;
    broker.restart().await;
    let tokens = receiver.wait_for(3).await;
    let mut ids = BTreeSet::new();
    for token in &tokens {
        let claims = verified(&broker, token, "web").await;
        assert_eq!(claims["sid"], jwt::claims(person.tokens.id())["sid"]);
        ids.insert(claims["jti"].as_str().unwrap().to_owned());
    }
    assert_eq!((tokens.len(), ids.len()), (3, 3), "each token has its own id");
    assert!(broker.stop().await.success());
    assert!(broker.log().contains("\"result\":\"told\""), "{}", broker.log());
}

#[tokio::test]
async fn a_client_that_is_slow_or_sends_elsewhere_holds_up_no_other() {
    let other = LogoutReceiver::start([]).await;
    let elsewhere = LogoutReceiver::start([]).await;
    let slow = LogoutReceiver::start(vec![Reply::Nothing; 8]).await;
    let broker = Broker::start(told_at(&slow).with_client("console", "backchannelLogoutUri", other.address())).await;
    for _ in 0..4 {
        jane(&broker).await.browser.sign_out().await;
    }
    slow.wait_for(1).await;
    let begun = std::time::Instant::now();
    let request = Authorization::new("console", "https://console.example/cb").with("scope", "openid");
    sign_in(&broker, &request, "acme", "jane").await.browser.sign_out().await;
    other.wait_for(1).await;
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
    drop(broker);

    let sends_on = LogoutReceiver::start([Reply::Redirect(elsewhere.address().to_owned()), Reply::Status(400)]).await;
    let broker = Broker::start(told_at(&sends_on)).await;
    jane(&broker).await.browser.sign_out().await;
    sends_on.wait_for(2).await;
    while !broker.log().contains("\"result\":\"refused\"") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(elsewhere.tokens().is_empty(), "no redirect is followed");
}

#[tokio::test]
async fn whoever_ends_a_session_its_applications_are_told() {
    let receiver = LogoutReceiver::start([]).await;
    let mut broker = Broker::start(told_at(&receiver)).await;
    // Through an application.
    let mut person = jane(&broker).await;
    person.browser.get(&logout(&[("id_token_hint", person.tokens.id())])).await;
    receiver.wait_for(1).await;
    // Someone else on the same browser.
    let mut person = jane(&broker).await;
    let request = Authorization::web().with("tenant", "acme").with("prompt", "login");
    person.browser.sign_in(&request, "alice", &password_of("acme", "alice")).await;
    let sid = jwt::claims(person.tokens.id())["sid"].clone();
    assert_eq!(jwt::claims(&receiver.wait_for(2).await[1])["sid"], sid);
    // A renewal that finds the person gone.
    let person = jane(&broker).await;
    broker
        .reconfigure(|configuration| {
            let users = json!([{"id": "a2", "tenant": "acme", "username": "alice", "password": hash_of("acme", "alice")}]);
            configuration.set("/connectors/0/users", users);
        })
        .await;
    broker.service().try_refresh("web", person.tokens.refresh()).await.expect(400);
    assert_eq!(jwt::claims(&receiver.wait_for(3).await[2])["sid"], jwt::claims(person.tokens.id())["sid"]);
}
