//! The schedule, by an injected clock. What goes over the wire, the suite `logout` looks at.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use axum::{Router, http::StatusCode, routing::post};
use claims_mapping::TenantId;
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;
use crate::{
    config::{KeysConfig, Lifetimes},
    sealing::Sealing,
    seams::SystemEntropy,
    store::{
        Alone, Lease, Peers, Store,
        stand_in::{StandIn, stand_in},
    },
    tokens::RingParts,
};

const BEGIN: i64 = 1_800_000_000;

struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// A client that answers all alike, and counts.
async fn client(status: StatusCode) -> (String, Arc<AtomicUsize>) {
    let heard = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&heard);
    let routes = Router::new().route("/", post(async move || (counted.fetch_add(1, Ordering::SeqCst), status).1));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (uri, heard)
}

struct House {
    store: Arc<StandIn>,
    clock: Arc<Hand>,
    outbox: Outbox,
    deliveries: Arc<Deliveries>,
}

impl House {
    async fn new(clients: &[(&str, &str)]) -> Self {
        Self::over(stand_in(), Arc::new(Hand(AtomicI64::new(BEGIN))), Arc::new(Alone), clients).await
    }

    /// One of several replicas.
    async fn replica(of: &Self, clients: &[(&str, &str)]) -> Self {
        Self::over(Arc::clone(&of.store), Arc::clone(&of.clock), Arc::clone(&of.store) as _, clients).await
    }

    async fn over(stands_on: Arc<StandIn>, clock: Arc<Hand>, peers: Arc<dyn Peers>, clients: &[(&str, &str)]) -> Self {
        crate::cli::install_providers();
        let store: Arc<dyn Store> = Arc::clone(&stands_on) as _;
        let sealing = Sealing::with(&[1; 32].into(), Arc::new(SystemEntropy)).unwrap();
        let (keys, lifetimes) = (&KeysConfig::default(), &Lifetimes::default());
        let parts = RingParts { store: Arc::clone(&store), sealing, holder: None, keys, lifetimes };
        let keys = KeyRing::open(parts, clock.now()).await.unwrap();
        let clients = clients.iter().map(|(id, uri)| {
            let config = serde_json::from_value(json!({"id": id, "backchannelLogoutUri": uri})).unwrap();
            Client::new(&config).unwrap()
        });
        let outbox = Outbox::new(Arc::clone(&store));
        let parts = DeliveryParts {
            outbox: outbox.clone(),
            clients: Arc::new(Clients::new(clients.collect())),
            keys: Arc::new(keys),
            clock: Arc::clone(&clock) as _,
            entropy: Arc::new(SystemEntropy),
            issuer: "http://127.0.0.1:5556".to_owned(),
            store,
            peers,
        };
        Self { store: stands_on, clock, outbox, deliveries: Arc::new(Deliveries::new(parts).unwrap()) }
    }

    async fn put(&self, client: &str, sid: u128) {
        let tenant = TenantId::parse("acme").unwrap();
        let notice = Notice { tenant, client_id: client.to_owned(), sid: Uuid::from_u128(sid), sub: Uuid::from_u128(7), attempts: 0 };
        self.outbox.put(&[notice], self.clock.now()).await.unwrap();
    }

    /// Time passes, and what is due then is sent.
    async fn pass(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
        self.deliveries.send_due().await.unwrap();
    }

    /// Whether nothing is left, now or later.
    async fn is_empty(&self) -> bool {
        let due = self.outbox.due(self.clock.now()).await.unwrap();
        due.notices.is_empty() && due.next.is_none()
    }
}

#[tokio::test]
async fn a_client_that_fails_is_tried_seven_times_and_given_up() {
    let (uri, heard) = client(StatusCode::INTERNAL_SERVER_ERROR).await;
    let house = House::new(&[("app", &uri)]).await;
    house.put("app", 1).await;
    house.pass(0).await;
    for (tries, wait) in (1..).zip(super::super::WAITS) {
        assert_eq!(heard.load(Ordering::SeqCst), tries);
        let next = house.outbox.due(house.clock.now()).await.unwrap().next;
        assert_eq!(next, Some(Duration::from_secs(wait.unsigned_abs())));
        house.pass(wait - 1).await;
        assert_eq!(heard.load(Ordering::SeqCst), tries, "a second too early");
        house.pass(1).await;
    }
    assert_eq!(heard.load(Ordering::SeqCst), 7);
    assert!(house.is_empty().await);
}

#[tokio::test]
async fn an_answer_settles_it_and_so_does_a_client_that_is_gone() {
    for status in [StatusCode::OK, StatusCode::NO_CONTENT, StatusCode::BAD_REQUEST] {
        let (uri, heard) = client(status).await;
        let house = House::new(&[("app", &uri)]).await;
        house.put("app", 1).await;
        house.put("gone", 1).await;
        house.pass(0).await;
        assert_eq!(heard.load(Ordering::SeqCst), 1, "{status}");
        assert!(house.is_empty().await, "{status}");
    }
}

#[tokio::test]
async fn a_client_that_can_not_be_reached_is_tried_again() {
    let house = House::new(&[("app", "http://127.0.0.1:1/")]).await;
    house.put("app", 1).await;
    house.pass(0).await;
    assert!(!house.is_empty().await);
    assert_eq!(house.outbox.due(house.clock.now() + Duration::from_secs(1)).await.unwrap().notices.len(), 1);
}

#[tokio::test]
async fn an_outbox_of_hundreds_is_emptied_and_each_is_told_once() {
    let (uri, heard) = client(StatusCode::OK).await;
    let (other, heard_other) = client(StatusCode::NO_CONTENT).await;
    let house = House::new(&[("app", &uri), ("other", &other)]).await;
    for sid in 0..200 {
        house.put("app", sid).await;
    }
    house.put("other", 1).await;
    let due = house.outbox.due(house.clock.now()).await.unwrap().notices;
    assert_eq!(due.len(), 65, "a part of the first client's, and the other's");
    let stop = CancellationToken::new();
    let run = tokio::spawn(Arc::clone(&house.deliveries).run(stop.clone()));
    house.outbox.wake();
    tokio::time::timeout(Duration::from_secs(30), async {
        while !house.is_empty().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    stop.cancel();
    run.await.unwrap();
    assert_eq!((heard.load(Ordering::SeqCst), heard_other.load(Ordering::SeqCst)), (200, 1));
}

/// Whether so many were heard within some seconds, and no more a while later.
async fn comes_to(heard: &AtomicUsize, many: usize) -> bool {
    for _ in 0..1_000 {
        if heard.load(Ordering::SeqCst) >= many {
            tokio::time::sleep(Duration::from_millis(150)).await;
            return heard.load(Ordering::SeqCst) == many;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn of_two_replicas_one_sends_and_the_other_when_that_is_gone() {
    let (uri, heard) = client(StatusCode::OK).await;
    let alone = House::new(&[("app", &uri)]).await;
    let (one, other) = (House::replica(&alone, &[("app", &uri)]).await, House::replica(&alone, &[("app", &uri)]).await);
    let stop = CancellationToken::new();
    let first = tokio::spawn(Arc::clone(&one.deliveries).run(stop.clone()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = tokio::spawn(Arc::clone(&other.deliveries).run(stop.clone()));
    // The other one writes; what it hears wakes the one whose turn it is.
    for sid in 0..30 {
        other.put("app", sid).await;
        one.deliveries.wake();
        other.deliveries.wake();
    }
    assert!(comes_to(&heard, 30).await, "{heard:?}");
    // One dies with its turn.
    first.abort();
    other.put("app", 30).await;
    other.deliveries.wake();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(heard.load(Ordering::SeqCst), 30, "the turn is not over yet");
    one.clock.0.fetch_add(16, Ordering::SeqCst);
    assert!(comes_to(&heard, 31).await, "{heard:?}");
    stop.cancel();
    second.await.unwrap();
    let free = Lease::take(&*one.store, "logout-notices", Uuid::nil(), time::Duration::SECOND, one.clock.now()).await.unwrap();
    assert!(free.is_some(), "whoever ends gives it back");
}

#[tokio::test]
async fn who_has_lost_the_turn_takes_nothing_up() {
    let (uri, heard) = client(StatusCode::OK).await;
    let alone = House::new(&[("app", &uri)]).await;
    let one = House::replica(&alone, &[("app", &uri)]).await;
    let stop = CancellationToken::new();
    let run = tokio::spawn(Arc::clone(&one.deliveries).run(stop.clone()));
    one.put("app", 1).await;
    one.deliveries.wake();
    assert!(comes_to(&heard, 1).await);
    // To the store its time is over, and another replica takes it.
    one.clock.0.fetch_add(16, Ordering::SeqCst);
    let taken = Lease::take(&*one.store, "logout-notices", Uuid::nil(), time::Duration::MINUTE, one.clock.now()).await.unwrap();
    assert!(taken.is_some());
    tokio::time::sleep(BEAT + Duration::from_millis(300)).await;
    one.put("app", 2).await;
    one.deliveries.wake();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(heard.load(Ordering::SeqCst), 1);
    stop.cancel();
    run.await.unwrap();
}

/// The store fails for longer than the turn lasts: nothing is begun after that, by its own clock. In real time: a clock that is paused runs
/// ahead while the store works.
#[tokio::test]
async fn a_turn_that_can_not_be_prolonged_is_over_in_time() {
    let (store, clock, stop) = (stand_in(), Hand(AtomicI64::new(BEGIN)), CancellationToken::new());
    let begun = Instant::now();
    let (turn, lease) = Turn::take(&*store, Uuid::nil(), &clock, &stop).await.unwrap().unwrap();
    store.refuses.store(true, Ordering::SeqCst);
    let still_on = async {
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(turn.is_on(), "it is not lost at the first failure");
    };
    tokio::join!(turn.keep(lease, &*store, &clock), still_on);
    assert!(!turn.is_on());
    let over = begun.elapsed().as_secs_f64();
    assert!((12.0..14.5).contains(&over), "before its fifteen seconds are: {over}");
}
