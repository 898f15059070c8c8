//! Several replicas on one store: what one did, the others know; and what only one may do, one does.

use claims_mapping::Rejection;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    login::SessionError,
    seams::{Clock, Seams},
    store::{Expect, InProcess, Lease},
};

fn after(seconds: i64) -> OffsetDateTime {
    NOW + Duration::seconds(seconds)
}

fn replica() -> Plan {
    Plan { has_peers: true, ..Plan::default() }
}

/// Two of them, and someone who signed in at the first.
async fn two() -> ([House; 2], SignedIn) {
    let one = replica().build().await;
    let other = replica().over(Arc::clone(&one.store)).await;
    let ann = one.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await;
    ([one, other], ann)
}

async fn name_of_the_turn(house: &House) -> String {
    format!("upstream-grant.{}", house.records("acme", Kind::UpstreamGrant, NOW).await[0].0)
}

fn millis(millis: u64) -> std::time::Duration {
    std::time::Duration::from_millis(millis)
}

#[tokio::test]
async fn renewals_at_once_at_two_replicas_ask_once() {
    let ([one, other], ann) = two().await;
    for house in [&one, &other] {
        house.provider.will_say(Says::Still(None, Some("second")));
    }
    let all = (0..16).map(|n| if n % 2 == 0 { &one } else { &other }).map(|house| house.sessions.renew_and_keep(&ann, after(600)));
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!([one.provider.asked(), other.provider.asked()].concat(), ["first"]);
    for house in [&one, &other] {
        let before = house.provider.asked().len();
        let at = if before == 1 { after(1_300) } else { after(1_200) };
        house.sessions.renew(&ann, at).await.unwrap();
        assert_eq!(house.provider.asked()[before..], ["second"]);
    }
    let turn = Lease::take(&*one.store, &name_of_the_turn(&one).await, Uuid::nil(), Duration::SECOND, after(1_300)).await.unwrap();
    assert!(turn.is_some(), "no turn is left behind");
}

#[tokio::test]
async fn a_token_that_the_store_did_not_take_at_once_is_what_the_others_ask_with() {
    let ([one, other], ann) = two().await;
    one.provider.will_say(Says::Still(None, Some("second")));
    // It takes the turn, and then not the record.
    one.store.left.store(1, Ordering::SeqCst);
    assert!(matches!(one.sessions.renew(&ann, after(600)).await, Err(SessionError::Store(_))));
    other.sessions.renew(&ann, after(600)).await.unwrap();
    assert!(other.provider.asked().is_empty(), "it waited until the new one was saved");
    other.sessions.renew(&ann, after(700)).await.unwrap();
    assert_eq!(other.provider.asked(), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn the_turn_of_a_replica_that_died_is_over_in_seconds() {
    let ([one, other], ann) = two().await;
    let died = Lease::take(&*one.store, &name_of_the_turn(&one).await, Uuid::from_u128(9), Duration::seconds(15), after(600)).await;
    assert!(died.unwrap().is_some());
    let waited = tokio::time::Instant::now();
    let untold = other.sessions.renew(&ann, after(600)).await;
    assert!(matches!(untold, Err(SessionError::Store(_))), "{untold:?}");
    assert!((5..7).contains(&waited.elapsed().as_secs()), "as long as a call may take: {:?}", waited.elapsed());
    assert!(other.provider.asked().is_empty());
    other.sessions.renew(&ann, after(612)).await.unwrap();
    assert_eq!(other.provider.asked(), ["first"]);
}

#[tokio::test]
async fn a_refusal_of_a_token_that_another_replica_has_replaced_ends_nothing() {
    let ([one, other], ann) = two().await;
    other.provider.will_say(Says::Gone);
    let saved_meanwhile = async {
        tokio::time::sleep(millis(8)).await;
        let (id, entry) = one.records("acme", Kind::UpstreamGrant, NOW).await.remove(0);
        let key = Key::new(&ann.tenant, Kind::UpstreamGrant, id);
        one.store.commit(Batch::new().put(key, entry.value, None), after(600)).await.unwrap();
    };
    let (renewed, ()) = tokio::join!(other.sessions.renew(&ann, after(600)), saved_meanwhile);
    assert_eq!(other.provider.asked(), ["first"]);
    assert!(matches!(renewed, Err(SessionError::Store(_))), "{renewed:?}");
    one.sessions.renew(&ann, after(601)).await.unwrap();
    // Where nothing was replaced it is the end.
    other.provider.will_say(Says::Gone);
    assert!(matches!(other.sessions.renew(&ann, after(700)).await, Err(SessionError::Refused)));
    assert!(matches!(one.sessions.find(&ann, after(700)).await, Err(SessionError::Ended)));
}

/// The tenants of one replica.
async fn tenants(store: &Arc<StandIn>) -> Tenants {
    Tenants::open(vec![tenant("acme", false)], Some(["reserved".to_owned()].into()), Arc::clone(store) as _, NOW).await.unwrap()
}

/// Someone of this tenant comes in through an operator's connector.
async fn come_in(tenants: &Tenants, of: &str) -> Result<Arc<Tenant>, Rejection> {
    let sso = wired("sso", OperatedBy::Operator, connectors::oidc::default_mapping());
    let mapped = sso.mapping.evaluate(&at_sso("s1", "ann", of)).unwrap();
    tenants.of_user(&mapped, &sso.policy, NOW).await.map_err(|error| error.expect("the store could tell"))
}

fn tenant_id(text: &str) -> TenantId {
    TenantId::parse(text).unwrap()
}

#[tokio::test]
async fn a_tenant_that_another_replica_made_is_known_after_a_look() {
    let store = stand_in();
    let (one, other, third) = (tenants(&store).await, tenants(&store).await, tenants(&store).await);
    let made = come_in(&one, "north").await.unwrap();
    assert!(other.get(&made.id).is_none());
    other.read_again(NOW).await.unwrap();
    let known = other.get(&made.id).unwrap();
    other.read_again(NOW).await.unwrap();
    assert!(Arc::ptr_eq(&known, &other.get(&made.id).unwrap()), "what is known stays as it is");
    let reads = || store.reads.load(Ordering::SeqCst);
    let before = reads();
    assert!(third.enabled_anywhere(&made.id, NOW).await.unwrap().is_some());
    assert!(third.enabled_anywhere(&made.id, NOW).await.unwrap().is_some());
    assert_eq!(reads(), before + 1);
    // One that there is not costs one read a minute.
    for (at, more) in [(0, 2), (30, 2), (59, 2), (60, 3), (119, 3)] {
        assert!(third.enabled_anywhere(&tenant_id("gone"), after(at)).await.unwrap().is_none());
        assert_eq!(reads(), before + more, "at {at}");
    }
    assert_eq!(come_in(&third, "north").await.unwrap().id, made.id);
}

#[tokio::test]
async fn of_two_look_alikes_at_two_replicas_at_once_one_comes_into_being() {
    for round in 0..20 {
        let store = stand_in();
        let (one, other) = (tenants(&store).await, tenants(&store).await);
        let pair = if round % 2 == 0 { ["North", "north"] } else { ["north", "NORTH"] };
        let (first, second) = tokio::join!(come_in(&one, pair[0]), come_in(&other, pair[1]));
        assert_eq!(usize::from(first.is_ok()) + usize::from(second.is_ok()), 1, "{first:?} {second:?}");
        assert!(matches!(first.and(second), Err(Rejection::UnknownTenant)));
        let made = store.list(&Partition::System, Kind::CreatedTenant, None, 10, NOW).await.unwrap().entries;
        assert_eq!(made.len(), 1);
        for tenants in [&one, &other, &tenants(&store).await] {
            tenants.read_again(NOW).await.unwrap();
            assert_eq!(tenants.ids().len(), 2, "acme and one of the pair");
        }
    }
}

#[tokio::test]
async fn one_tenant_at_two_replicas_at_once_is_made_once() {
    for _ in 0..10 {
        let store = stand_in();
        let (one, other) = (tenants(&store).await, tenants(&store).await);
        let (first, second) = tokio::join!(come_in(&one, "north"), come_in(&other, "north"));
        assert_eq!((first.unwrap().id.as_str(), second.unwrap().id.as_str()), ("north", "north"));
        assert_eq!(store.commits.load(Ordering::SeqCst), 2);
    }
}

struct Still;

impl Clock for Still {
    fn now(&self) -> OffsetDateTime {
        NOW
    }
}

/// A whole program that hears.
async fn app(store: &Arc<StandIn>, stop: &CancellationToken) -> Arc<crate::App> {
    crate::cli::install_providers();
    let text = json!({"issuer": "http://127.0.0.1:5556", "tenants": [{"id": "acme"}], "createTenants": true}).to_string();
    let loaded = crate::config::load_text(&text, &std::env::temp_dir(), "test.yaml").unwrap_or_else(|faults| panic!("{faults}"));
    let seams = Seams {
        clock: Arc::new(Still),
        entropy: Arc::new(SystemEntropy),
        store: Arc::clone(store) as _,
        limits: Arc::new(InProcess::default()),
        peers: Arc::clone(store) as _,
    };
    let app = Arc::new(crate::build(loaded, seams).await.unwrap());
    tokio::spawn(crate::hearing::hear(Arc::clone(&app), stop.clone()));
    app
}

async fn soon(is_so: impl Fn() -> bool) -> bool {
    for _ in 0..50 {
        if is_so() {
            return true;
        }
        tokio::time::sleep(millis(10)).await;
    }
    false
}

#[tokio::test]
async fn what_one_program_does_the_other_hears() {
    let (store, stop) = (stand_in(), CancellationToken::new());
    let (one, other) = (app(&store, &stop).await, app(&store, &stop).await);
    tokio::time::sleep(millis(50)).await;
    let knows = |id: &str| other.admission.tenants.get(&tenant_id(id)).is_some();
    come_in(&one.admission.tenants, "north").await.unwrap();
    assert!(soon(|| knows("north")).await);
    // What was missed is read when that is said.
    store.is_quiet.store(true, Ordering::SeqCst);
    come_in(&one.admission.tenants, "south").await.unwrap();
    tokio::time::sleep(millis(100)).await;
    assert!(!knows("south"), "nobody said it");
    store.is_quiet.store(false, Ordering::SeqCst);
    store.say(crate::store::News::Missed);
    assert!(soon(|| knows("south")).await);
    stop.cancel();
    // Whoever no longer hears knows it when a genuine token names it.
    tokio::time::sleep(millis(20)).await;
    come_in(&one.admission.tenants, "west").await.unwrap();
    assert!(!soon(|| knows("west")).await);
    assert!(other.admission.tenants.enabled_anywhere(&tenant_id("west"), NOW).await.unwrap().is_some());
}

#[tokio::test]
async fn names_are_held_by_the_tenant_that_came_first() {
    let store = stand_in();
    let one = tenants(&store).await;
    come_in(&one, "north").await.unwrap();
    let label = Key::system(Kind::TenantName, "label.north");
    let taken = Batch::new().expect(label.clone(), Expect::Absent).put(label, Vec::new(), None);
    assert_eq!(store.commit(taken, NOW).await.unwrap(), Outcome::Conflict);
}
