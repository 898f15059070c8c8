//! The next version beside this one, on one store: everything that was answered holds, whichever of them is asked, and who is too old says so.
//!
//! The next version is `denizen_tests::next_release`: what it changes is a real form, of the families of refresh tokens.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use claims_mapping::TenantId;
use denizen::{
    BuildError,
    config::{self, StoreConfig},
    http::{self, server},
    seams::{Clock as _, Seams, SystemClock, SystemEntropy},
    store::{
        Alone, Batch, Key, Kind, News, Partition, Peers, Release, Scan as _, Store, StoreError, Topic, embedded::Embedded,
        redis::Redis as OnRedis,
    },
};
use denizen_tests::{
    Answer, Authorization, Broker, Browser, Configuration, Redis, Replicas, Service,
    broker::{command, install_providers},
    browser::code,
    configuration::{KUBERNETES, REVIEWER_TOKEN, password_of},
    folder,
    next_release::NEXT,
    ports,
    process::PATIENCE,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::{broadcast, oneshot},
    task::JoinHandle,
};

/// The mark of the second format.
const SECOND: u8 = 0x82;

fn next() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_denizen-next"))
}

fn request() -> Authorization {
    Authorization::web().with("tenant", "acme")
}

fn configuration() -> Configuration {
    Configuration::default().with("/lifetimes", json!({"codeSeconds": 600}))
}

async fn sign_in(browser: &mut Browser, username: &str) -> String {
    browser.sign_in(&request(), username, &password_of("acme", username)).await
}

fn partitions() -> [Partition; 2] {
    [Partition::System, Partition::Tenant(TenantId::parse("acme").unwrap())]
}

/// All records of a kind, as they are stored.
async fn records(store: &dyn Store, kind: Kind) -> Vec<(Key, Vec<u8>)> {
    let mut records = Vec::new();
    for partition in partitions() {
        for (id, entry) in store.list(&partition, kind, None, 1_000, SystemClock.now()).await.unwrap().entries {
            let key = match &partition {
                Partition::System => Key::system(kind, id),
                Partition::Tenant(tenant) => Key::new(tenant, kind, id),
            };
            records.push((key, entry.value));
        }
    }
    records
}

/// In which forms families are stored: how many in that of the first format, and how many in that of the second.
async fn families(store: &dyn Store) -> (usize, usize) {
    forms(records(store, Kind::Grant).await.into_iter().map(|(_, value)| value))
}

/// The same over Redis, which lists no families.
async fn families_on(redis: &OnRedis) -> (usize, usize) {
    let (mut families, mut cursor) = (BTreeMap::new(), None::<String>);
    loop {
        let page = redis.scan(cursor.as_deref(), 500).await.unwrap();
        let found = page.records.into_iter().filter(|kept| kept.key.kind() == Kind::Grant);
        families.extend(found.map(|kept| (kept.key, kept.value)));
        cursor = page.next;
        if cursor.is_none() {
            return forms(families.into_values());
        }
    }
}

fn forms(families: impl Iterator<Item = Vec<u8>>) -> (usize, usize) {
    let (mut first, mut second) = (0, 0);
    for value in families {
        if value[0] == SECOND {
            let family: Value = serde_json::from_slice(&value[1..]).unwrap();
            assert_eq!((family["scope"].as_str(), family.get("scopes")), (Some("openid profile email groups roles"), None));
            second += 1;
        } else {
            let family: Value = serde_json::from_slice(&value).unwrap();
            assert_eq!((family["scopes"].as_array().map(Vec::len), family.get("scope")), (Some(5), None));
            first += 1;
        }
    }
    (first, second)
}

#[tokio::test]
async fn a_store_in_a_file_goes_on_in_the_next_version_and_not_back() {
    let mut broker = Broker::start(configuration()).await;
    let service = broker.service();
    let mut jane = broker.browser();
    let tokens = service.exchange(&request(), &sign_in(&mut jane, "jane").await).await;
    let (kept, used) = (code(&jane.open(&request().path()).await), code(&jane.open(&request().path()).await));
    let untouched = service.exchange(&request(), &used).await;
    let mut alice = broker.browser();
    let revoked = service.exchange(&request(), &sign_in(&mut alice, "alice").await).await;
    service.revoke("web", revoked.access()).await.expect(200);
    let mut bob = broker.browser();
    let under_way = bob.open(&request().path()).await.expect(200);
    broker.stop().await;

    broker.restart_as(next()).await;
    wait(async || broker.log().contains("values are written in another format")).await;
    jane.get("/account").await.expect(200);
    service.userinfo(tokens.access()).await.expect(200);
    let renewed = service.refresh("web", tokens.refresh()).await;
    service.exchange(&request(), &kept).await;
    _ = code(&bob.submit(&under_way, &[("username", "bob"), ("password", &password_of("acme", "bob"))]).await);
    service.userinfo(revoked.access()).await.expect(401);
    broker.stop().await;
    let file = broker.folder().join("denizen.redb");
    let (first, second) = families(&Embedded::open(&file).unwrap()).await;
    assert_eq!((first, second), (2, 2), "what was not written anew has its old form: one of jane's, alice's");

    let configuration = broker.folder().join("denizen.yaml");
    let back = command(&["serve", "--config", configuration.to_str().unwrap()]);
    assert_eq!(back.code, Some(1), "{}", back.err);
    for part in ["written in format 2 since Denizen 0.2.0-next", "reads formats up to 1", "start Denizen 0.2.0-next or a later one"] {
        assert!(back.err.contains(part), "{}", back.err);
    }

    broker.restart().await;
    let again = service.refresh("web", renewed.refresh()).await;
    service.userinfo(again.access()).await.expect(200);
    // What was ended or used stays so: also where the old form tells of it.
    assert_eq!(service.try_exchange(&request(), &used).await.expect(400).error(), "invalid_grant");
    service.userinfo(untouched.access()).await.expect(401);
    assert_eq!(service.try_refresh("web", tokens.refresh()).await.expect(400).error(), "invalid_grant");
    assert_eq!(service.try_refresh("web", again.refresh()).await.expect(400).error(), "invalid_grant");
}

/// Several brokers in this process, on one store in memory.
struct House {
    store: Arc<Embedded>,
    issuer: String,
    folder: TempDir,
}

/// One of them.
struct Replica {
    address: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// There are others, who say nothing.
struct Neighbours;

#[async_trait]
impl Peers for Neighbours {
    fn may_be(&self) -> bool {
        true
    }
    async fn tell(&self, _: Topic, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn hear(&self) -> broadcast::Receiver<News> {
        Alone.hear()
    }
}

impl House {
    fn new() -> Self {
        install_providers();
        let issuer = format!("http://127.0.0.1:{}", ports::free());
        Self { store: Arc::new(Embedded::in_memory().unwrap()), issuer, folder: folder::new("upgrade") }
    }

    async fn start(&self, release: &'static Release) -> Result<Replica, BuildError> {
        let port = ports::free();
        let text = configuration().with("/store", json!({})).text(&self.issuer, port, 0, self.folder.path());
        let loaded = config::load_text(&text, self.folder.path(), "test.yaml").unwrap_or_else(|faults| panic!("{faults}"));
        let mut seams = Seams::alone(Arc::new(SystemClock), Arc::new(SystemEntropy), Arc::clone(&self.store) as _);
        seams.peers = Arc::new(Neighbours);
        let app = Arc::new(denizen::build_as(release, loaded, seams).await?);
        let bind = |port| server::bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let doors = ((bind(port), http::public(&app, None)), (bind(0), http::admin(&app)));
        let (stop, stopped) = oneshot::channel();
        let served = async move {
            server::serve(app, doors.0, doors.1, async { _ = stopped.await }).await.unwrap();
        };
        Ok(Replica { address: format!("http://127.0.0.1:{port}"), stop, served: tokio::spawn(served) })
    }

    /// All records of a kind get, or lose, the mark of the second format; the rest of them stays as it is.
    async fn mark(&self, kind: Kind, is_marked: bool) -> usize {
        let records = records(&*self.store, kind).await;
        let count = records.len();
        for (key, mut value) in records {
            assert_eq!(value[0] == SECOND, !is_marked);
            if is_marked {
                value.insert(0, SECOND);
            } else {
                value.remove(0);
            }
            self.store.commit(Batch::new().put(key, value, None), SystemClock.now()).await.unwrap();
        }
        count
    }
}

impl Replica {
    fn service(&self) -> Service {
        Service::new(http_client(), &self.address)
    }
    /// A browser; with the cookies of another one it is that one, sent here by a balancer.
    fn browser(&self, cookies: Option<&Browser>) -> Browser {
        let mut browser = Browser::new(http_client(), &self.address);
        browser.cookies = cookies.map(|browser| browser.cookies.clone()).unwrap_or_default();
        browser
    }
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap();
    }
}

fn http_client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE);
    client.tls_certs_only([]).build().unwrap()
}

async fn wait(mut until: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !until().await {
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn both_versions_serve_from_one_store_and_the_form_changes_when_the_old_one_is_gone() {
    let house = House::new();
    let (old, new) = (house.start(&Release::THIS).await.unwrap(), house.start(&NEXT).await.unwrap());
    let both = [old.service(), new.service()];
    // Begun at one, gone on with at the other, in turns.
    let (mut jane, mut bob) = (old.browser(None), new.browser(None));
    let codes = [sign_in(&mut jane, "jane").await, sign_in(&mut bob, "bob").await];
    let mut tokens = [both[1].exchange(&request(), &codes[0]).await, both[0].exchange(&request(), &codes[1]).await];
    for turn in 0..6 {
        for (n, tokens) in tokens.iter_mut().enumerate() {
            *tokens = both[(turn + n) % 2].refresh("web", tokens.refresh()).await;
            for service in &both {
                service.userinfo(tokens.access()).await.expect(200);
                let review = service.review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await;
                assert_eq!(review["authenticated"], true, "{review}");
            }
            assert_eq!(families(&*house.store).await, (2, 0), "as long as both are there, the form is the one that both read");
        }
    }
    new.browser(Some(&jane)).get("/account").await.expect(200);
    old.browser(Some(&bob)).get("/account").await.expect(200);

    old.stop().await;
    assert_eq!(families(&*house.store).await, (2, 0));
    wait(async || {
        tokens[0] = both[1].refresh("web", tokens[0].refresh()).await;
        families(&*house.store).await == (1, 1)
    })
    .await;
    tokens[1] = both[1].refresh("web", tokens[1].refresh()).await;
    assert_eq!(families(&*house.store).await, (0, 2));
    new.browser(Some(&jane)).get("/account").await.expect(200);

    let refused = house.start(&Release::THIS).await.err().unwrap().to_string();
    assert!(refused.contains("written in format 2 since Denizen 0.2.0-next"), "{refused}");
    let second = house.start(&NEXT).await.unwrap();
    for tokens in tokens {
        let tokens = second.service().refresh("web", tokens.refresh()).await;
        both[1].userinfo(tokens.access()).await.expect(200);
    }
    second.stop().await;
    new.stop().await;
}

/// The programs themselves, over a real Redis: a replica after the other becomes the next version, while everything goes on.
#[tokio::test]
async fn replicas_on_redis_are_upgraded_one_after_the_other() {
    let redis = Redis::single().await;
    let mut replicas = Replicas::start(2, configuration().with("/store", redis.as_store())).await;
    let config: StoreConfig = serde_json::from_value(redis.as_store()).unwrap();
    let store = OnRedis::connect(&config.redis.unwrap()).await.unwrap();
    let mut jane = replicas.browser();
    let first = sign_in(&mut jane, "jane").await;
    let mut tokens = replicas.service().exchange(&request(), &first).await;
    let used = tokens.refresh().to_owned();
    tokens = replicas.service().refresh("web", tokens.refresh()).await;
    let kept = code(&jane.open(&request().path()).await);
    let mut bob = replicas.browser_at(0);
    let under_way = bob.open(&request().path()).await.expect(200);

    replicas.upgrade_in_order(1, next()).await;
    // What the one version began, the other goes on with, both ways; for longer than it takes to agree on a format.
    Replicas::send_to(&mut bob, 1);
    let answer = bob.submit(&under_way, &[("username", "bob"), ("password", &password_of("acme", "bob"))]).await;
    let mut others = replicas.service_at(0).exchange(&request(), &code(&answer)).await;
    let mut third = replicas.service_at(1).exchange(&request(), &kept).await;
    let (begun, mut turn) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(26) {
        for (n, tokens) in [&mut tokens, &mut others, &mut third].into_iter().enumerate() {
            *tokens = replicas.service_at((turn + n) % 2).refresh("web", tokens.refresh()).await;
            for at in 0..2 {
                let service = replicas.service_at(at);
                service.userinfo(tokens.access()).await.expect(200);
                let review = service.review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await;
                assert_eq!(review["authenticated"], true, "{review}");
            }
        }
        jane.get("/account").await.expect(200);
        assert_eq!(families_on(&store).await, (3, 0), "as long as both are there, the form is the one that both read");
        turn += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    replicas.upgrade_in_order(0, next()).await;
    wait(async || {
        tokens = replicas.service().refresh("web", tokens.refresh()).await;
        families_on(&store).await == (2, 1)
    })
    .await;
    others = replicas.service_at(0).refresh("web", others.refresh()).await;
    third = replicas.service_at(1).refresh("web", third.refresh()).await;
    for tokens in [&tokens, &others, &third] {
        replicas.service().userinfo(tokens.access()).await.expect(200);
    }
    jane.get("/account").await.expect(200);

    replicas.kill(0);
    let configuration = replicas.broker(0).folder().join("denizen.yaml");
    let back = command(&["serve", "--config", configuration.to_str().unwrap()]);
    assert_eq!(back.code, Some(1), "{}", back.err);
    assert!(back.err.contains("written in format 2 since Denizen 0.2.0-next"), "{}", back.err);
    // What was used up before the upgrade stays so, and ends its family, whichever form tells of it.
    assert_eq!(replicas.service_at(1).try_refresh("web", &used).await.expect(400).error(), "invalid_grant");
    assert_eq!(replicas.service_at(1).try_refresh("web", tokens.refresh()).await.expect(400).error(), "invalid_grant");
    replicas.service_at(1).refresh("web", others.refresh()).await;
}

/// Such values come where the record of the format was lost with the store's server, or a replica was frozen while it was raised.
#[tokio::test]
async fn what_a_newer_version_wrote_is_no_no_at_any_door() {
    let house = House::new();
    let old = house.start(&Release::THIS).await.unwrap();
    let service = old.service();
    let mut jane = old.browser(None);
    let tokens = service.exchange(&request(), &sign_in(&mut jane, "jane").await).await;
    let unused = code(&jane.open(&request().path()).await);
    let mut bob = old.browser(None);
    let page = bob.open(&request().path()).await.expect(200);
    let password = password_of("acme", "bob");
    let fields = [("username", "bob"), ("password", password.as_str())];

    let told = |answer: Answer, kind: Kind| assert_eq!(answer.status, 503, "{}: {}", kind.as_str(), answer.text);
    for kind in [Kind::Grant, Kind::Session] {
        assert!(house.mark(kind, true).await > 0);
        told(service.try_refresh("web", tokens.refresh()).await, kind);
        if kind == Kind::Grant {
            told(service.revoke("web", tokens.refresh()).await, kind);
        } else {
            told(jane.get("/account").await, kind);
            let answer = jane.get(&request().path()).await;
            let location = answer.header("location");
            assert!(location.starts_with("http://127.0.0.1:4711/cb?error=temporarily_unavailable"), "{}: {location}", answer.text);
            told(service.try_exchange(&request(), &unused).await, kind);
            told(service.userinfo(tokens.access()).await, kind);
        }
        house.mark(kind, false).await;
    }
    assert_eq!(house.mark(Kind::Code, true).await, 2);
    told(service.try_exchange(&request(), &unused).await, Kind::Code);
    house.mark(Kind::Code, false).await;
    for kind in [Kind::Attempt, Kind::Browser] {
        assert!(house.mark(kind, true).await > 0);
        told(bob.submit(&page, &fields).await, kind);
        house.mark(kind, false).await;
    }
    // Nothing of it was ended, used up or forgotten.
    jane.get("/account").await.expect(200);
    service.userinfo(tokens.access()).await.expect(200);
    service.exchange(&request(), &unused).await;
    service.refresh("web", tokens.refresh()).await;
    let code = code(&bob.submit(&page, &fields).await);
    service.exchange(&request(), &code).await;
    old.stop().await;
}
