//! A store that carries a commit out and does not say so: whoever was told 503, or went away, tries again and goes on, and no one else
//! gains by it.

use std::time::Duration;

use denizen_tests::{
    Authorization, ClockedBroker, Configuration, Tokens,
    browser::code,
    configuration::{password_of, secret_of},
};

async fn broker() -> ClockedBroker {
    ClockedBroker::start(Configuration::default()).await
}

fn request() -> Authorization {
    Authorization::web().with("tenant", "acme").with("scope", "openid profile offline_access")
}

async fn a_code(broker: &ClockedBroker) -> String {
    broker.browser().sign_in(&request(), "jane", &password_of("acme", "jane")).await
}

#[tokio::test]
async fn t37_a_refresh_that_was_not_answered_is_tried_again() {
    let broker = broker().await;
    let service = broker.service();
    let first = service.exchange(&request(), &a_code(&broker).await).await;
    broker.fail_an_answer();
    assert_eq!(service.try_refresh("web", first.refresh()).await.expect(503).error(), "temporarily_unavailable");
    let second = service.refresh("web", first.refresh()).await;
    service.userinfo(second.access()).await.expect(200);

    broker.withhold_an_answer();
    let gone = service.try_send(service.refresh_request("web", second.refresh()).timeout(Duration::from_millis(300))).await;
    assert!(gone.is_err(), "the client went away");
    let third = service.refresh("web", second.refresh()).await;
    service.userinfo(third.access()).await.expect(200);
    // It was answered: what came before is used, as ever.
    assert_eq!(service.try_refresh("web", second.refresh()).await.expect(400).error(), "invalid_grant");
    service.userinfo(third.access()).await.expect(401);
}

#[tokio::test]
async fn t35_an_exchange_that_was_not_answered_is_tried_again() {
    let broker = broker().await;
    let service = broker.service();
    let code = a_code(&broker).await;
    broker.fail_an_answer();
    assert_eq!(service.try_exchange(&request(), &code).await.expect(503).error(), "temporarily_unavailable");
    broker.withhold_an_answer();
    let gone = service.try_send(service.exchange_request(&request(), &code).timeout(Duration::from_millis(300))).await;
    assert!(gone.is_err(), "the client went away");
    let tokens = service.exchange(&request(), &code).await;
    service.userinfo(tokens.access()).await.expect(200);
    assert_eq!(service.try_exchange(&request(), &code).await.expect(400).error(), "invalid_grant");
    service.userinfo(tokens.access()).await.expect(401);

    // A thief has no verifier, in a doubt as ever.
    let code = a_code(&broker).await;
    broker.fail_an_answer();
    service.try_exchange(&request(), &code).await.expect(503);
    let mut thief = request();
    thief.verifier = "v".repeat(43);
    assert_eq!(service.try_exchange(&thief, &code).await.expect(400).error(), "invalid_grant");
}

#[tokio::test]
async fn a_confidential_clients_doubt_is_its_own() {
    let broker = broker().await;
    let service = broker.service();
    let request = Authorization::backend().with("tenant", "acme");
    let code = broker.browser().sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let secret = secret_of("backend");
    let form = |secret| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", "backend"),
            ("client_secret", secret),
            ("code", code.as_str()),
            ("redirect_uri", request.get("redirect_uri")),
            ("code_verifier", request.verifier.as_str()),
        ]
    };
    broker.fail_an_answer();
    service.token(&form(&secret)).await.expect(503);
    service.token(&form("guess")).await.expect(401);
    let tokens = Tokens(service.token(&form(&secret)).await.expect(200).json());
    assert!(!tokens.refresh().is_empty());
}

#[tokio::test]
async fn whoever_signs_in_or_out_and_gets_a_503_tries_once_more() {
    let broker = broker().await;
    let (mut browser, password) = (broker.browser(), password_of("acme", "jane"));
    let fields = [("username", "jane"), ("password", password.as_str())];
    let page = browser.open(&request().path()).await;
    broker.fail_an_answer();
    assert_eq!(browser.submit(&page, &fields).await.status, 503);
    let answer = browser.try_sign_in(&request(), "jane", &password).await;
    assert!(!code(&answer).is_empty(), "they begin anew, in the same browser");
    let page = browser.open("/account").await.expect(200);
    broker.fail_an_answer();
    assert_eq!(browser.submit(&page, &[]).await.status, 503);
    assert!(browser.submit(&page, &[]).await.expect(200).text.contains("You are signed out"));
}
