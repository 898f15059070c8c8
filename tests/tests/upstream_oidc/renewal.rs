//! What becomes of a session when the provider says something else later, or nothing. The broker's time is set, the provider's runs.

use denizen_tests::{
    ClockedBroker, OidcProvider, Tokens, Tools,
    browser::code,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    jwt,
    oidc_provider::{Settings, account},
};
use serde_json::{Value, json};

use super::{Providers, configuration, connectors, providers, request};

/// Seconds after which the provider is asked again.
const RENEWED_AFTER: i64 = 31;

struct House {
    providers: &'static Providers,
    broker: ClockedBroker,
}

impl House {
    async fn start() -> Option<Self> {
        let providers = providers().await?;
        let connectors = connectors(providers, |_| ());
        let broker = ClockedBroker::start(configuration(&connectors)).await;
        for connector in &connectors {
            providers.of(connector).register_at(broker.issuer(), connector, &Value::Null).await;
        }
        Some(Self { providers, broker })
    }

    async fn sign_in(&self, connector: &str, login: &str) -> Tokens {
        let mut browser = self.providers.visited_by(self.broker.browser());
        let request = request(self.broker.issuer(), connector);
        let page = browser.open(&request.path()).await;
        let answer = self.providers.at(&page).sign_in(&mut browser, &page, login).await;
        self.broker.service().exchange(&request, &code(&answer)).await
    }

    /// That the session of these tokens is over.
    async fn is_over(&self, connector: &str, tokens: &Tokens) {
        let service = self.broker.service();
        let client = format!("at-{connector}");
        assert_eq!(service.try_refresh(&client, tokens.refresh()).await.expect(400).error(), "invalid_grant");
        assert_eq!(service.review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await["authenticated"], false);
    }
}

#[tokio::test]
async fn t09_t30_someone_who_is_disabled_at_the_provider_loses_the_session() {
    let Some(house) = House::start().await else { return };
    let mut dora = account("acme", "dora", "dora", &json!({}));
    house.providers.acme.set(&dora).await;
    let tokens = house.sign_in("acme-sso", "dora").await;
    house.broker.pass(RENEWED_AFTER);
    let tokens = house.broker.service().refresh("at-acme-sso", tokens.refresh()).await;
    dora["disabled"] = true.into();
    house.providers.acme.set(&dora).await;
    house.broker.pass(RENEWED_AFTER);
    house.is_over("acme-sso", &tokens).await;
    // Enabled again, she signs in again; the old session stays over.
    dora["disabled"] = false.into();
    house.providers.acme.set(&dora).await;
    house.is_over("acme-sso", &tokens).await;
    house.sign_in("acme-sso", "dora").await;
}

#[tokio::test]
async fn t10_someone_who_is_moved_to_another_tenant_loses_the_session() {
    let Some(house) = House::start().await else { return };
    let of = |tenant: Value| account("shared", "mona", "mona", &json!({"tenant_id": tenant}));
    for (number, then) in [json!("globex"), json!("ACME"), json!(["acme", "globex"]), Value::Null].into_iter().enumerate() {
        house.providers.shared.set(&of(json!("acme"))).await;
        let tokens = house.sign_in("shared-sso", "mona").await;
        assert_eq!(jwt::claims(tokens.access())["tenant_id"], "acme");
        house.providers.shared.set(&of(then)).await;
        house.broker.pass(RENEWED_AFTER);
        house.is_over("shared-sso", &tokens).await;
        if number == 0 {
            // In her new tenant she is someone else.
            let moved = house.sign_in("shared-sso", "mona").await;
            assert_eq!(jwt::claims(moved.access())["tenant_id"], "globex");
            assert_ne!(jwt::claims(moved.access())["sub"], jwt::claims(tokens.access())["sub"]);
        }
    }
}

#[tokio::test]
async fn groups_and_names_are_renewed() {
    let Some(house) = House::start().await else { return };
    let with = |groups: Value| account("acme", "nora", "nora", &json!({"groups": groups}));
    house.providers.acme.set(&with(json!(["staff"]))).await;
    let mut tokens = house.sign_in("acme-sso", "nora").await;
    house.providers.acme.set(&with(json!(["owners"]))).await;
    // The provider rotates its refresh tokens: the second renewal needs the one that the first gave.
    for _ in 0..2 {
        house.broker.pass(RENEWED_AFTER);
        tokens = house.broker.service().refresh("at-acme-sso", tokens.refresh()).await;
        assert_eq!(jwt::claims(tokens.access())["groups"], json!(["owners"]));
    }
}

#[tokio::test]
async fn many_refreshes_at_once_ask_the_provider_once() {
    let Some(tools) = Tools::find() else { return };
    let provider = OidcProvider::start(&tools, Settings::new("calm", vec![account("calm", "1", "cora", &json!({}))])).await;
    let mut connector = provider.connector("calm-sso");
    connector["tenant"] = json!({"fixed": "acme"});
    let broker = ClockedBroker::start(configuration(std::slice::from_ref(&connector))).await;
    provider.register_at(broker.issuer(), &connector, &Value::Null).await;
    let mut browser = broker.browser().visiting(provider.issuer());
    let request = request(broker.issuer(), "calm-sso");
    let page = browser.open(&request.path()).await;
    let first = broker.service().exchange(&request, &code(&provider.sign_in(&mut browser, &page, "cora").await)).await;
    // The same session in another three tabs.
    let mut all = vec![first];
    for _ in 0..3 {
        let answer = browser.open(&request.path()).await;
        all.push(broker.service().exchange(&request, &code(&answer)).await);
    }
    broker.pass(RENEWED_AFTER);
    provider.forget_counts().await;
    let service = broker.service();
    let renewed = futures_util::future::join_all(all.iter().map(|tokens| service.try_refresh("at-calm-sso", tokens.refresh()))).await;
    for answer in renewed {
        answer.expect(200);
    }
    assert_eq!(provider.count("/token").await, 1);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_ends_no_session() {
    let Some(tools) = Tools::find() else { return };
    let accounts = vec![account("shy", "1", "vera", &json!({}))];
    // What it is asked while it is frozen, it does once it goes on: a refresh token that is good once would then be used up.
    let provider = OidcProvider::start(&tools, Settings { rotates_refresh_tokens: false, ..Settings::new("shy", accounts) }).await;
    let mut connector = provider.connector("shy-sso");
    connector["tenant"] = json!({"fixed": "acme"});
    connector["deadlineSeconds"] = 1.into();
    let broker = ClockedBroker::start(configuration(std::slice::from_ref(&connector))).await;
    provider.register_at(broker.issuer(), &connector, &Value::Null).await;
    let mut browser = broker.browser().visiting(provider.issuer());
    let request = request(broker.issuer(), "shy-sso");
    let page = browser.open(&request.path()).await;
    let tokens = broker.service().exchange(&request, &code(&provider.sign_in(&mut browser, &page, "vera").await)).await;
    broker.pass(RENEWED_AFTER);
    provider.freeze();
    let service = broker.service();
    assert_eq!(service.try_refresh("at-shy-sso", tokens.refresh()).await.expect(503).error(), "temporarily_unavailable");
    assert_eq!(service.review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await["authenticated"], true, "what was issued holds");
    provider.thaw();
    // Our refresh token was not used up.
    let mut renewed = service.try_refresh("at-shy-sso", tokens.refresh()).await;
    for _ in 0..50 {
        if renewed.status != 503 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        renewed = service.try_refresh("at-shy-sso", tokens.refresh()).await;
    }
    renewed.expect(200);
}
