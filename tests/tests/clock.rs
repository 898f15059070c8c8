//! What time does to keys, tokens and sessions, by an injected clock: no test waits.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, to_bytes},
};
use denizen::{
    App, config,
    config::SigningAlgorithm,
    seams::{Clock, Seams, SystemEntropy},
    store::{Alone, News, Peers, Store, StoreError, Topic, embedded::Embedded},
    tokens::TokenType,
};
use denizen_tests::{Configuration, broker::install_providers, configuration::KUBERNETES, jwt};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tower::ServiceExt as _;

const BEGIN: i64 = 1_800_000_000;
const DAY: i64 = 86_400;
const ISSUER: &str = "http://127.0.0.1:5556";

struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

struct House {
    app: Arc<App>,
    doors: Router,
    clock: Arc<Hand>,
    store: Arc<dyn Store>,
}

impl House {
    async fn new(configuration: Configuration) -> Self {
        Self::on(configuration, Arc::new(Embedded::in_memory().unwrap()), BEGIN).await
    }

    async fn on(configuration: Configuration, store: Arc<dyn Store>, at: i64) -> Self {
        Self::among(configuration.with("/store", json!({})), store, at, Arc::new(Alone)).await
    }

    async fn among(configuration: Configuration, store: Arc<dyn Store>, at: i64, peers: Arc<dyn Peers>) -> Self {
        install_providers();
        let folder = std::env::temp_dir();
        let text = configuration.text(ISSUER, 5556, 5558, &folder);
        let loaded = config::load_text(&text, &folder, "test.yaml").unwrap();
        let clock = Arc::new(Hand(AtomicI64::new(at)));
        let alone = Seams::alone(Arc::clone(&clock) as _, Arc::new(SystemEntropy), Arc::clone(&store));
        let seams = Seams { peers, ..alone };
        let app = Arc::new(denizen::build(loaded, seams).await.unwrap());
        Self { doors: denizen::http::public(&app, None), app, clock, store }
    }

    fn now(&self) -> i64 {
        self.clock.0.load(Ordering::SeqCst)
    }

    /// Time passes, and the upkeep of each minute is done at the end of it.
    async fn pass(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
        self.app.keys.rotate(self.clock.now()).await.unwrap();
        self.store.sweep(self.clock.now(), 10_000).await.unwrap();
    }

    async fn send(&self, request: http::Request<Body>) -> (u16, Value) {
        let mut request = request;
        request.extensions_mut().insert(axum::extract::ConnectInfo(std::net::SocketAddr::from(([127, 0, 0, 1], 9))));
        let response = self.doors.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// The ids of the published keys.
    async fn published(&self) -> BTreeSet<String> {
        let (status, keys) = self.send(http::Request::get("/oauth2/jwks").body(Body::empty()).unwrap()).await;
        assert_eq!(status, 200);
        let kid = |key: &Value| key["kid"].as_str().unwrap().to_owned();
        keys["keys"].as_array().unwrap().iter().map(kid).collect()
    }

    /// A service's token.
    async fn token(&self) -> String {
        let body = format!(
            "grant_type=client_credentials&client_id=globex-workload&client_secret={}",
            denizen_tests::configuration::secret_of("globex-workload")
        );
        let request =
            http::Request::post("/oauth2/token").header("content-type", "application/x-www-form-urlencoded").body(body.into()).unwrap();
        let (status, granted) = self.send(request).await;
        assert_eq!(status, 200, "{granted}");
        granted["access_token"].as_str().unwrap().to_owned()
    }

    async fn is_good(&self, token: &str) -> bool {
        let body =
            json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, "audiences": [KUBERNETES]}});
        let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", denizen_tests::configuration::REVIEWER_TOKEN))
            .body(body.to_string().into())
            .unwrap();
        let (status, review) = self.send(request).await;
        assert_eq!(status, 200, "{review}");
        review["status"]["authenticated"].as_bool().unwrap()
    }
}

fn kid(token: &str) -> String {
    jwt::header(token)["kid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn keys_rotate_on_schedule_and_overlap() {
    let house = House::new(Configuration::default()).await;
    let first = kid(&house.token().await);
    assert_eq!(house.published().await, BTreeSet::from([first.clone()]));
    // A day before it signs, the next one is published; the first still signs.
    house.pass(29 * DAY).await;
    let published = house.published().await;
    assert_eq!(published.len(), 2);
    assert_eq!(kid(&house.token().await), first);
    house.pass(DAY - 60).await;
    let last = house.token().await;
    assert_eq!(kid(&last), first);
    house.pass(60).await;
    let second = kid(&house.token().await);
    assert_ne!(second, first);
    assert!(published.contains(&second), "it was known before it signed");
    assert!(house.is_good(&last).await, "what the first one signed is good until it ends");
    // It is published a day longer than anything that it signed lives, and then gone.
    house.pass(DAY).await;
    assert!(house.published().await.contains(&first));
    house.pass(601).await;
    assert_eq!(house.published().await, BTreeSet::from([second]));
}

#[tokio::test]
async fn a_key_is_there_after_a_long_sleep() {
    let house = House::new(Configuration::default()).await;
    let first = kid(&house.token().await);
    house.pass(400 * DAY).await;
    let token = house.token().await;
    assert_ne!(kid(&token), first);
    assert!(house.is_good(&token).await);
    assert_eq!(house.published().await.len(), 1);
}

#[tokio::test]
async fn two_processes_on_one_store_sign_with_one_key() {
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    let (one, other) = tokio::join!(
        House::on(Configuration::default(), Arc::clone(&store), BEGIN),
        House::on(Configuration::default(), Arc::clone(&store), BEGIN)
    );
    one.pass(0).await;
    other.pass(0).await;
    let (a, b) = (one.token().await, other.token().await);
    assert_eq!(kid(&a), kid(&b));
    assert!(one.is_good(&b).await && other.is_good(&a).await);
}

/// There may be others, and none tells anything.
struct Silent;

#[async_trait::async_trait]
impl Peers for Silent {
    fn may_be(&self) -> bool {
        true
    }
    async fn tell(&self, _topic: Topic, _text: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn hear(&self) -> tokio::sync::broadcast::Receiver<News> {
        Alone.hear()
    }
}

#[tokio::test]
async fn replicas_that_begin_at_once_share_their_keys_which_lie_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sealing");
    std::fs::write(&file, "5e".repeat(32)).unwrap();
    let configuration = || {
        let keys = json!({"algorithms": ["ES256", "RS256"]});
        Configuration::default().with("/store", json!({"sealingKeyFile": file})).with("/keys", keys)
    };
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    let replica = |at| House::among(configuration(), Arc::clone(&store), at, Arc::new(Silent));
    let (ahead, behind) = tokio::join!(replica(BEGIN + 60), replica(BEGIN));
    assert_eq!(ahead.published().await, behind.published().await);
    assert_eq!(ahead.published().await.len(), 2, "none was made twice");
    let (a, b) = (ahead.token().await, behind.token().await);
    assert_eq!(kid(&a), kid(&b));
    assert!(ahead.is_good(&b).await && behind.is_good(&a).await);
    // What one has vouched for to a browser, the other believes.
    let cookie = ahead.app.vouching.remember_way("corp");
    assert_eq!(behind.app.vouching.way(&cookie), Some("corp"));
    // One makes the next keys, and signs with them a day later; the other, of whom no minute has come since, finds them.
    ahead.pass(29 * DAY).await;
    ahead.clock.0.fetch_add(DAY, Ordering::SeqCst);
    behind.clock.0.fetch_add(30 * DAY, Ordering::SeqCst);
    let next = ahead.token().await;
    assert_ne!(kid(&next), kid(&a));
    assert!(!behind.published().await.contains(&kid(&next)));
    // It has read the store in the last five seconds, so that it waits for that.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert!(behind.is_good(&next).await);
    assert!(behind.published().await.contains(&kid(&next)));
    // A third, with no such file, does not begin.
    let loaded = Configuration::default().with("/store", json!({})).text(ISSUER, 5556, 5558, folder.path());
    let loaded = config::load_text(&loaded, folder.path(), "test.yaml").unwrap();
    let seams = Seams::alone(Arc::new(Hand(AtomicI64::new(BEGIN))), Arc::new(SystemEntropy), Arc::clone(&store));
    let error = denizen::build(loaded, seams).await.unwrap_err().to_string();
    assert!(error.contains("store.sealingKeyFile"), "{error}");
}

#[tokio::test]
async fn each_algorithm_that_is_asked_for_signs() {
    let mut configuration = Configuration::default().with("/keys", json!({"algorithms": ["ES256", "RS256", "EdDSA"]}));
    configuration.set("/clients/7/signingAlgorithm", "RS256");
    let house = House::new(configuration).await;
    let token = house.token().await;
    assert_eq!(jwt::header(&token), json!({"typ": "at+jwt", "alg": "RS256", "kid": kid(&token)}));
    assert!(house.is_good(&token).await);
    assert_eq!(house.published().await.len(), 3);
    for algorithm in [SigningAlgorithm::Es256, SigningAlgorithm::EdDsa] {
        let token = house.app.keys.sign(TokenType::Access, &jwt::claims(&token), None, algorithm, house.now()).unwrap();
        assert!(house.is_good(&token).await, "{algorithm:?}");
    }
}

#[tokio::test]
async fn a_token_ends_when_it_says_also_where_it_was_reviewed_before() {
    let house = House::new(Configuration::default()).await;
    let token = house.token().await;
    assert!(house.is_good(&token).await);
    house.pass(599).await;
    assert!(house.is_good(&token).await);
    house.pass(1).await;
    assert!(!house.is_good(&token).await);
}

#[tokio::test]
async fn a_token_from_the_future_is_refused() {
    let house = House::new(Configuration::default()).await;
    let mut claims = jwt::claims(&house.token().await);
    claims["iat"] = json!(BEGIN + 61);
    claims["exp"] = json!(BEGIN + 661);
    let token = house.app.keys.sign(TokenType::Access, &claims, None, SigningAlgorithm::Es256, BEGIN).unwrap();
    assert!(!house.is_good(&token).await);
    house.pass(1).await;
    assert!(house.is_good(&token).await);
}

#[tokio::test]
async fn t05_t51_another_issuer_and_another_type_are_refused_though_the_key_is_ours() {
    let house = House::new(Configuration::default()).await;
    let claims = jwt::claims(&house.token().await);
    let sign = |claims: &Value, typ| house.app.keys.sign(typ, claims, None, SigningAlgorithm::Es256, BEGIN).unwrap();
    assert!(house.is_good(&sign(&claims, TokenType::Access)).await);
    assert!(!house.is_good(&sign(&claims, TokenType::Id)).await);
    assert!(!house.is_good(&sign(&claims, TokenType::Logout)).await);
    let mut other = claims.clone();
    other["iss"] = json!("https://evil.example");
    assert!(!house.is_good(&sign(&other, TokenType::Access)).await);
    for (claim, value) in [
        ("tenant_id", json!("")),
        ("tenant_id", json!(["acme"])),
        ("tenant_id", json!("acme/x")),
        ("tenant_id", json!("nowhere")),
        ("sub", json!("jane")),
    ] {
        let mut broken = claims.clone();
        broken[claim] = value;
        assert!(!house.is_good(&sign(&broken, TokenType::Access)).await, "{broken}");
    }
}
