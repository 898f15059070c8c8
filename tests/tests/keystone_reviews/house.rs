//! A broker before a relay before a Keystone, and the reviewers that ask it about Keystone's tokens.

use std::time::{Duration, Instant};

use denizen_tests::{
    Answer, Broker, ClockedBroker, Configuration, Keystone, Relay, Service,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    keystone::Scope,
    process::PATIENCE,
};
use serde_json::{Value, json};

/// Where Keystone gives, tells of and takes back tokens.
pub(crate) const TOKENS: &str = "/v3/auth/tokens";
/// The place of the connector `cloud` in the configuration.
pub(crate) const CLOUD: &str = "/connectors/2";
/// How long a good answer is kept, and a refusal, in seconds.
pub(crate) const CACHE: u32 = 300;
pub(crate) const REFUSAL: u32 = 30;
/// How long the broker waits for Keystone, in seconds.
pub(crate) const DEADLINE: u32 = 2;

/// The connector `cloud`, whose tokens the reviewers `kubernetes` and (with another audience) `opencloud` take, and `arktos` in its own form.
pub(crate) fn configuration(keystone: &Keystone, relay: &Relay) -> Configuration {
    let connector = keystone.connector_at("cloud", &format!("{}/v3", relay.address()));
    let mut configuration = keystone.configuration(connector);
    accept_tokens(&mut configuration);
    configuration
}

/// Has the connector `cloud` and the reviewers take tokens.
pub(crate) fn accept_tokens(configuration: &mut Configuration) {
    for (key, value) in [
        ("tenants", json!(["acme", "globex"])),
        ("acceptTokens", json!(true)),
        ("deadlineSeconds", json!(DEADLINE)),
        ("tokens", json!({"cacheSeconds": CACHE, "refusalSeconds": REFUSAL})),
    ] {
        configuration.set(&format!("{CLOUD}/{key}"), value);
    }
    for reviewer in 0..3 {
        configuration.set(&format!("/reviewers/{reviewer}/upstreamTokens"), json!([{"connector": "cloud"}]));
    }
}

pub(crate) struct House<B = Broker> {
    pub(crate) keystone: Keystone,
    pub(crate) relay: Relay,
    pub(crate) broker: B,
    pub(crate) service: Service,
}

impl House<Broker> {
    /// `None` where Keystone is not installed.
    pub(crate) async fn start() -> Option<Self> {
        Self::with(|_, _| {}).await
    }

    /// The same with a configuration that is edited first.
    pub(crate) async fn with(edit: impl FnOnce(&Keystone, &mut Configuration)) -> Option<Self> {
        let (keystone, relay, configuration) = prepare(edit).await?;
        let broker = Broker::start(configuration).await;
        Some(Self { service: broker.service(), keystone, relay, broker })
    }
}

impl House<ClockedBroker> {
    /// One whose time the test sets.
    pub(crate) async fn clocked(edit: impl FnOnce(&Keystone, &mut Configuration)) -> Option<Self> {
        let (keystone, relay, configuration) = prepare(edit).await?;
        let broker = ClockedBroker::start(configuration).await;
        Some(Self { service: broker.service(), keystone, relay, broker })
    }
}

async fn prepare(edit: impl FnOnce(&Keystone, &mut Configuration)) -> Option<(Keystone, Relay, Configuration)> {
    let keystone = Keystone::start().await?;
    let relay = Relay::before(keystone.url().strip_suffix("/v3").unwrap());
    let mut configuration = configuration(&keystone, &relay);
    edit(&keystone, &mut configuration);
    Some((keystone, relay, configuration))
}

impl<B> House<B> {
    /// Someone's token for the project `web` of a domain.
    pub(crate) async fn token(&self, domain: &str, name: &str, project: &str) -> String {
        self.keystone.token(domain, name, Scope::Project(self.keystone.project(project, "web"))).await
    }

    /// A new token of jane's of acme.
    pub(crate) async fn jane(&self) -> String {
        self.keystone.token("acme", "jane", Scope::Unscoped).await
    }

    /// Whom `kubernetes` is told of; null where the token is refused.
    pub(crate) async fn reviewed(&self, token: &str) -> Value {
        reviewed(&self.service, token).await
    }

    /// How often Keystone was asked about tokens, and to give one.
    pub(crate) fn asked(&self) -> [usize; 2] {
        ["GET", "POST"].map(|method| self.relay.count(method, TOKENS))
    }
}

/// Whom `kubernetes` is told of; null where the token is refused.
pub(crate) async fn reviewed(service: &Service, token: &str) -> Value {
    reviewed_by(service, REVIEWER_TOKEN, token, &[KUBERNETES]).await
}

/// Whom a reviewer is told of who names these audiences; null where the token is refused.
pub(crate) async fn reviewed_by(service: &Service, reviewer: &str, token: &str, audiences: &[&str]) -> Value {
    let status = service.review(reviewer, token, audiences).await;
    assert_eq!(status["user"].is_null(), status["authenticated"] == false, "{status}");
    assert!(status["error"].is_null(), "an error is never remembered: {status}");
    status["user"].clone()
}

/// The answer to a review as `kubernetes` asks for it, whatever its status. It must never ask to be repeated.
pub(crate) async fn review(service: &Service, token: &str) -> Answer {
    let body =
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, "audiences": [KUBERNETES]}});
    let answer = service.review_request(Some(REVIEWER_TOKEN), "v1", &body).await;
    assert!(answer.headers.get("retry-after").is_none(), "the API server would repeat it");
    assert!(!answer.text.contains(token), "an answer never says the token");
    answer
}

/// Waits until a token is good: after an outage Keystone is left alone for some seconds.
pub(crate) async fn soon_good(service: &Service, token: &str) {
    let begun = Instant::now();
    loop {
        let answer = review(service, token).await;
        if answer.status == 200 && answer.json()["status"]["authenticated"] == true {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "all is well again, and still: {} {}", answer.status, answer.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The values of a key of `extra`, sorted.
pub(crate) fn extra(user: &Value, key: &str) -> Vec<String> {
    let mut values = texts(&user["extra"][key]);
    values.sort();
    values
}

/// A list of texts; empty where there is none.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}
