//! A provider that is gone: what was issued holds, a sign-in says so in time, and other connectors do not notice.

use denizen_tests::{
    ClockedBroker, OidcProvider, Tools,
    browser::code,
    configuration::{KUBERNETES, REVIEWER_TOKEN, password_of},
    oidc_provider::{Settings, account},
};
use serde_json::{Value, json};

use super::{configuration, request};

/// Seconds that the connector gives its provider.
const DEADLINE: u64 = 1;

async fn stopped(stop: impl FnOnce(&mut OidcProvider)) {
    let Some(tools) = Tools::find() else { return };
    let mut provider = OidcProvider::start(&tools, Settings::new("gone", vec![account("gone", "1", "gina", &json!({}))])).await;
    let mut connector = provider.connector_apart("gone-sso");
    connector["tenant"] = json!({"fixed": "acme"});
    connector["deadlineSeconds"] = DEADLINE.into();
    // One more that was never used: its provider's documents are not known yet.
    let mut fresh = provider.connector_apart("fresh-sso");
    fresh["tenant"] = json!({"fixed": "acme"});
    fresh["deadlineSeconds"] = DEADLINE.into();
    let connectors = [connector, fresh];
    let broker = ClockedBroker::start(configuration(&connectors).with("/lifetimes", json!({"accessTokenSeconds": 3_600}))).await;
    provider.register_at(broker.issuer(), &connectors[0], &Value::Null).await;
    let new_browser = || broker.browser().visiting(provider.issuer());
    let mut browser = new_browser();
    let request = |connector: &str| request(broker.issuer(), connector);
    let page = browser.open(&request("gone-sso").path()).await;
    let answer = provider.sign_in(&mut browser, &page, "gina").await;
    let tokens = broker.service().exchange(&request("gone-sso"), &code(&answer)).await;
    // One person is on the provider's page when it goes, and has her answer already.
    let mut late = new_browser();
    let page = late.open(&request("gone-sso").path()).await;
    let answer = late.submit_until(&page, &provider.fields("gina"), broker.issuer()).await;

    stop(&mut provider);
    let service = broker.service();
    let begun = std::time::Instant::now();
    for address in [request("fresh-sso").path(), answer.to_string()] {
        let page = late.open(&address).await.expect(503);
        assert!(page.text.contains("<h1") && !page.text.contains("{\""), "a page that helps: {}", page.text);
    }
    // The limit is the deadline of each, twice over: what is shown is that there is one.
    assert!(begun.elapsed() < std::time::Duration::from_secs(4 * DEADLINE + 4), "{:?}", begun.elapsed());
    broker.pass(600);
    assert_eq!(service.review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await["authenticated"], true, "what was issued holds");
    service.userinfo(tokens.access()).await.expect(200);
    assert_eq!(service.try_refresh("at-gone-sso", tokens.refresh()).await.expect(503).error(), "temporarily_unavailable");
    // Another connector's people sign in.
    let web = denizen_tests::Authorization::web().with("tenant", "acme");
    broker.browser().sign_in(&web, "jane", &password_of("acme", "jane")).await;
}

#[tokio::test]
async fn a_provider_that_refuses_connections_is_unavailable() {
    stopped(OidcProvider::stop).await;
}

#[tokio::test]
async fn a_provider_that_answers_nothing_is_unavailable_within_the_deadline() {
    stopped(|provider| provider.freeze()).await;
}
