//! Connectors that ask their upstream about each new token: one call for a token, so many at once, so many that wait; tokens that
//! were taken back; and answers that are given again.

use std::time::Duration;

use futures_util::{FutureExt as _, future::join_all};

use super::*;

const BOUNDS: TokenBounds = TokenBounds { believed_seconds: 120, refused_seconds: 10, in_flight: 2, asks_upstream: true };
/// In flight, and waiting for a turn.
const FULL: usize = 2 + 2 * 16;

async fn cloud(bounds: TokenBounds) -> Arc<House> {
    Arc::new(house_of(tenant(false), false, bounds).await)
}

fn person(name: &str) -> String {
    token(SSO, name, "good")
}

fn at(after: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(NOW + after).unwrap()
}

type Reviewing = tokio::task::JoinHandle<Result<Bearer, Refused>>;

impl House {
    fn reviewing(self: &Arc<Self>, token: &str) -> Reviewing {
        let (house, token) = (Arc::clone(self), token.to_owned());
        tokio::spawn(async move { house.review(&token, 0).await })
    }

    fn hangs(&self, hangs: bool) {
        self.fake.hangs.store(hangs, Ordering::SeqCst);
        if !hangs {
            self.fake.go_on.notify_waiters();
        }
    }

    fn forget(&self, token: &str, after: i64) {
        self.forget_as(TakenBack::token(UnverifiedToken::new(token)), after);
    }

    fn forget_as(&self, what: TakenBack, after: i64) {
        self.upstreams.asking(&ConnectorId::parse("sso").unwrap()).unwrap().forget(what, at(after));
    }

    /// What an answer about this token rests on.
    async fn basis(&self, token: &str) -> Basis {
        let token = UnverifiedToken::new(token);
        let way = self.upstreams.way(&self.reviewer, token).unwrap();
        let genuine = self.upstreams.genuine(&way, token, at(0)).await.ok().unwrap();
        let bearer = self.upstreams.bearer(&way, &genuine, at(0)).await.ok().unwrap();
        Upstreams::basis(&way, &genuine, &bearer.tenant)
    }
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn could_not_tell<T>(result: &Result<T, Refused>) -> bool {
    matches!(result, Err(Refused::CouldNotTell(Untold::Upstream(_, ConnectorError::Unavailable(_)))))
}

#[tokio::test]
async fn t52_ten_thousand_who_ask_for_one_token_make_one_call() {
    let house = cloud(BOUNDS).await;
    house.hangs(true);
    let reviews: Vec<_> = (0..10_000).map(|_| house.reviewing(&person("jane"))).collect();
    settle().await;
    house.hangs(false);
    for review in reviews {
        assert_eq!(review.await.unwrap().ok().unwrap().identity.username(), "jane");
    }
    assert_eq!(house.asked(), 1);
}

#[tokio::test]
async fn whoever_goes_away_takes_no_answer_from_the_others() {
    let house = cloud(BOUNDS).await;
    house.hangs(true);
    let first = house.reviewing(&person("jane"));
    settle().await;
    let second = house.reviewing(&person("jane"));
    settle().await;
    first.abort();
    assert!(first.await.is_err());
    house.hangs(false);
    assert!(second.await.unwrap().is_ok());
    assert_eq!(house.asked(), 1);
}

#[tokio::test]
async fn an_error_is_told_to_all_who_waited_and_not_remembered() {
    let house = cloud(BOUNDS).await;
    house.hangs(true);
    house.fake.is_down.store(true, Ordering::SeqCst);
    let reviews: Vec<_> = (0..10).map(|_| house.reviewing(&person("jane"))).collect();
    settle().await;
    house.hangs(false);
    for review in reviews {
        assert!(could_not_tell(&review.await.unwrap()));
    }
    assert_eq!(house.asked(), 1);
    house.fake.is_down.store(false, Ordering::SeqCst);
    assert!(house.review(&person("jane"), 0).await.is_ok());
}

#[tokio::test]
async fn a_port_that_breaks_leaves_no_one_waiting() {
    let house = cloud(BOUNDS).await;
    let broken = format!("{}panics", person("jane"));
    for _ in 0..2 {
        assert!(could_not_tell(&house.review(&broken, 0).await));
    }
    assert!(house.review(&person("jane"), 0).await.is_ok());
}

#[tokio::test]
async fn t52_so_many_are_in_flight_so_many_wait_and_the_others_are_told_at_once() {
    let house = cloud(BOUNDS).await;
    house.hangs(true);
    let waiting: Vec<_> = (0..FULL).map(|n| house.reviewing(&person(&format!("user{n}")))).collect();
    settle().await;
    let more = join_all((0..100).map(|n| house.reviewing(&person(&format!("more{n}")))));
    assert!(more.await.into_iter().all(|result| could_not_tell(&result.unwrap())));
    assert_eq!(house.asked(), 2, "no one is asked about without a turn");
    while waiting.iter().any(|review| !review.is_finished()) {
        house.fake.go_on.notify_waiters();
        tokio::task::yield_now().await;
    }
    for review in waiting {
        assert!(review.await.unwrap().is_ok());
    }
    assert_eq!((house.asked(), house.fake.most_at_once.load(Ordering::SeqCst)), (FULL, 2));
    house.hangs(false);
    assert!(house.review(&person("more0"), 0).await.is_ok(), "there is room again");
}

#[tokio::test]
async fn t52_a_flood_of_invalid_tokens_delays_none_that_is_known() {
    let house = cloud(BOUNDS).await;
    assert!(house.review(&person("jane"), 0).await.is_ok());
    house.hangs(true);
    let flood: Vec<_> = (0..60_000).map(|n| house.reviewing(&token(SSO, "jane", &format!("bad{n}")))).collect();
    // The last of them find the queue full.
    while flood.iter().rev().take(1_000).any(|review| !review.is_finished()) {
        tokio::task::yield_now().await;
    }
    settle().await;
    for _ in 0..100 {
        let answer = house.review(&person("jane"), 1).now_or_never();
        assert!(answer.expect("it waits for no one").is_ok());
    }
    assert_eq!(house.asked(), 3);
    assert_eq!(house.fake.most_at_once.load(Ordering::SeqCst), 2);
    flood.into_iter().for_each(|review| review.abort());
}

#[tokio::test(start_paused = true)]
async fn who_waits_longer_than_a_call_may_take_is_told_so() {
    let house = cloud(BOUNDS).await;
    house.hangs(true);
    let begun = tokio::time::Instant::now();
    let waiting = join_all((0..10).map(|n| house.reviewing(&person(&format!("user{n}")))));
    assert!(waiting.await.into_iter().all(|result| could_not_tell(&result.unwrap())));
    assert_eq!(begun.elapsed().as_secs(), 5);
    // Those that no one waits for any more are given up when their turn comes.
    house.hangs(false);
    settle().await;
    assert_eq!(house.asked(), 2);
    assert!(house.review(&person("user9"), 0).await.is_ok());
}

#[tokio::test]
async fn what_was_genuine_before_has_places_of_its_own() {
    let house = cloud(BOUNDS).await;
    assert!(house.review(&person("jane"), 0).await.is_ok());
    house.hangs(true);
    let _crowd: Vec<_> = (0..FULL).map(|n| house.reviewing(&token(SSO, "jane", &format!("bad{n}")))).collect();
    settle().await;
    assert!(could_not_tell(&house.review(&token(SSO, "jane", "one too many"), 0).await));
    let again = {
        let house = Arc::clone(&house);
        tokio::spawn(async move { house.review(&person("jane"), 120).await.is_ok() })
    };
    settle().await;
    assert!(!again.is_finished(), "it is believed no longer, and waits");
    while !again.is_finished() {
        house.fake.go_on.notify_waiters();
        tokio::task::yield_now().await;
    }
    assert!(again.await.unwrap());
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_refused_at_once() {
    let house = cloud(BOUNDS).await;
    let jane = person("jane");
    assert!(house.review(&jane, 0).await.is_ok());
    let basis = house.basis(&jane).await;
    assert!(house.upstreams.surely_stands(&basis, at(1)));
    house.forget(&jane, 1);
    assert!(!house.upstreams.surely_stands(&basis, at(1)));
    // Also where the upstream itself has not noticed yet, and for as long as it could have been believed.
    for after in [1, 100, 120] {
        assert!(matches!(house.review(&jane, after).await, Err(Refused::Upstream(..))), "{after}");
    }
    assert_eq!(house.asked(), 1);
    assert!(house.review(&jane, 121).await.is_ok(), "then the upstream is asked");
    assert_eq!(house.asked(), 2);
}

#[tokio::test]
async fn a_token_that_is_taken_back_while_it_is_asked_about_is_not_believed() {
    for waits_for_a_turn in [false, true] {
        let house = cloud(BOUNDS).await;
        house.hangs(true);
        let others: Vec<_> = (0..2).filter(|_| waits_for_a_turn).map(|n| house.reviewing(&person(&format!("user{n}")))).collect();
        settle().await;
        let jane = house.reviewing(&person("jane"));
        settle().await;
        house.forget(&person("jane"), 0);
        assert!(matches!(house.review(&person("jane"), 0).await, Err(Refused::Upstream(..))), "no one new waits for it");
        house.hangs(false);
        assert!(matches!(jane.await.unwrap(), Err(Refused::Upstream(..))));
        assert!(matches!(house.review(&person("jane"), 0).await, Err(Refused::Upstream(..))));
        for other in others {
            assert!(other.await.unwrap().is_ok());
        }
    }
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_so_in_every_writing_of_its_signature() {
    let house = cloud(BOUNDS).await;
    let (one, other) = (token(SSO, "jane", "good"), token(SSO, "jane", "fine"));
    let basis = house.basis(&other).await;
    assert!(house.review(&one, 0).await.is_ok() && house.upstreams.surely_stands(&basis, at(0)));
    // Who knows what a token says, and not its signature, takes nothing back.
    house.forget_as(TakenBack::text(UnverifiedToken::new(&token(SSO, "jane", "forged"))), 0);
    assert!(house.review(&one, 0).await.is_ok() && house.review(&other, 0).await.is_ok());
    house.forget(&one, 0);
    assert!(!house.upstreams.surely_stands(&basis, at(0)));
    for token in [&one, &other] {
        assert!(matches!(house.review(token, 0).await, Err(Refused::Upstream(..))));
    }
    assert!(house.review(&token(SSO, "joe", "good"), 0).await.is_ok());
    assert_eq!(house.asked(), 3);
}

#[tokio::test]
async fn t52_what_one_connector_or_anyone_says_makes_no_token_that_was_taken_back_good() {
    let house = cloud(BOUNDS).await;
    let (one, other) = (token(SSO, "jane", "good"), token(SSO, "jane", "fine"));
    assert!(house.review(&one, 0).await.is_ok() && house.review(&other, 0).await.is_ok());
    house.forget(&one, 0);
    // A connector that someone else operates has its own Keystone say what they like.
    let theirs = ConnectorId::parse("theirs").unwrap();
    house.upstreams.memory.take_back(&theirs, TakenBack::token(UnverifiedToken::new(&one)), [NOW + 1_000; 2]);
    for token in [&one, &other] {
        assert!(matches!(house.review(token, 0).await, Err(Refused::Upstream(..))));
    }
    // Nor does it take a token of this one's away.
    let joe = person("joe");
    let basis = house.basis(&joe).await;
    house.upstreams.memory.take_back(&theirs, TakenBack::token(UnverifiedToken::new(&joe)), [NOW + 1_000; 2]);
    assert!(house.upstreams.surely_stands(&basis, at(0)));
    // Texts that are no tokens are for anyone to say, and crowd out none that was taken back.
    for number in 0..=known::REFUSALS {
        house.forget_as(TakenBack::text(UnverifiedToken::new(&format!("forged-{number}"))), 0);
    }
    assert!(house.upstreams.memory.refusals() <= known::REFUSALS);
    assert!(matches!(house.review(&other, 0).await, Err(Refused::Upstream(..))));
    assert_eq!(house.asked(), 3, "the upstream was asked about none of it");
    // As a refusal, it is for a while only.
    let text = person("jim");
    house.forget_as(TakenBack::text(UnverifiedToken::new(&text)), 0);
    assert!(matches!(house.review(&text, 9).await, Err(Refused::Upstream(..))));
    assert!(house.review(&text, 10).await.is_ok());
}

#[test]
fn padding_makes_no_other_token() {
    let of = |text| Shown::of(UnverifiedToken::new(text));
    assert_eq!(of("gAAAAABk"), of("gAAAAABk=="));
    assert_ne!(of("gAAAAABk"), of("gAAAAABl"));
    assert_eq!(of("YQ.YQ.YQ"), of("YQ==.YQ==.YQ=="));
}

#[tokio::test]
async fn an_answer_is_given_again_only_while_all_that_it_rests_on_stands() {
    let jane = person("jane");
    for (change, what) in [
        (tenant(true), "the tenant is switched off"),
        (Tenant { connectors: Some([ConnectorId::parse("other").unwrap()].into()), ..tenant(false) }, "the connector is not the tenant's"),
    ] {
        let house = cloud(BOUNDS).await;
        let basis = house.basis(&jane).await;
        assert!(house.upstreams.surely_stands(&basis, at(0)));
        house.upstreams.admission.tenants.describe(&change);
        assert!(!house.upstreams.surely_stands(&basis, at(0)), "{what}");
        assert!(house.review(&jane, 0).await.is_err(), "{what}");
    }
    let house = cloud(BOUNDS).await;
    let basis = house.basis(&jane).await;
    assert!(house.upstreams.surely_stands(&basis, at(119)));
    assert!(!house.upstreams.surely_stands(&basis, at(120)), "it is believed no longer");
    assert!(house.review(&jane, 120).await.is_ok());
    assert!(!house.upstreams.surely_stands(&basis, at(120)), "what it rests on was said anew since");
    let later = Basis { through: Arc::new(without_a_connector()), ..house.basis(&jane).await };
    assert!(!house.upstreams.surely_stands(&later, at(120)), "the connector is switched off");
}

fn without_a_connector() -> Wired {
    wired(Arc::default(), true)
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_down_costs_those_that_are_known_nothing() {
    let house = cloud(BOUNDS).await;
    assert!(house.review(&person("jane"), 0).await.is_ok());
    house.fake.is_down.store(true, Ordering::SeqCst);
    assert!(house.review(&person("jane"), 119).await.is_ok());
    assert!(could_not_tell(&house.review(&person("jane"), 120).await));
    tokio::time::advance(Duration::from_secs(1)).await;
    house.fake.is_down.store(false, Ordering::SeqCst);
    assert!(house.review(&person("jane"), 120).await.is_ok());
}
