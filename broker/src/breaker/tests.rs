//! When it opens, what it lets through, and what the log says of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::FutureExt as _;

use super::*;

#[derive(Default)]
struct Upstream {
    is_down: AtomicBool,
    calls: AtomicUsize,
}

struct House {
    breaker: Breaker,
    upstream: Upstream,
}

impl House {
    fn new(breaker: fn(ConnectorId) -> Breaker) -> Self {
        Self { breaker: breaker(ConnectorId::parse("cloud").unwrap()), upstream: Upstream::default() }
    }
    fn goes(&self, down: bool) {
        self.upstream.is_down.store(down, Ordering::SeqCst);
    }
    async fn call(&self) -> Result<(), ConnectorError> {
        let call = async {
            self.upstream.calls.fetch_add(1, Ordering::SeqCst);
            if self.upstream.is_down.load(Ordering::SeqCst) { Err(unavailable()) } else { Ok(()) }
        };
        self.breaker.guard(call).await
    }
    fn calls(&self) -> usize {
        self.upstream.calls.load(Ordering::SeqCst)
    }
    async fn opened() -> Self {
        let house = Self::new(Breaker::new);
        house.goes(true);
        for _ in 0..5 {
            assert!(house.call().await.is_err());
        }
        house
    }
}

fn unavailable() -> ConnectorError {
    ConnectorError::Unavailable("it is down".to_owned())
}

async fn pass(milliseconds: u64) {
    tokio::time::advance(Duration::from_millis(milliseconds)).await;
}

#[tokio::test(start_paused = true)]
async fn it_opens_after_five_failures_in_a_row_and_only_then() {
    let house = House::new(Breaker::new);
    for _ in 0..3 {
        house.goes(true);
        for _ in 0..4 {
            assert!(house.call().await.is_err());
            pass(1).await;
        }
        house.goes(false);
        house.call().await.unwrap();
        pass(1).await;
    }
    assert_eq!(house.calls(), 15);
    let house = House::opened().await;
    for _ in 0..1_000 {
        assert!(matches!(house.call().await, Err(ConnectorError::Unavailable(_))));
    }
    assert_eq!(house.calls(), 5, "it is left alone");
}

#[tokio::test(start_paused = true)]
async fn one_call_tries_and_the_wait_doubles_up_to_eight_seconds() {
    let house = House::opened().await;
    let mut calls = 5;
    for wait in [1_000, 2_000, 4_000, 8_000, 8_000] {
        pass(wait - 1).await;
        assert!(house.call().await.is_err());
        assert_eq!(house.calls(), calls, "not before {wait} ms");
        pass(1).await;
        for _ in 0..10 {
            assert!(house.call().await.is_err());
        }
        calls += 1;
        assert_eq!(house.calls(), calls, "one alone after {wait} ms");
    }
    house.goes(false);
    pass(8_000).await;
    for _ in 0..10 {
        house.call().await.unwrap();
    }
    // The next outage begins with the short wait.
    house.goes(true);
    for _ in 0..5 {
        assert!(house.call().await.is_err());
    }
    house.goes(false);
    pass(1_000).await;
    house.call().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn while_one_tries_the_others_are_told_at_once_and_one_that_goes_away_bars_no_next() {
    let house = House::opened().await;
    pass(1_000).await;
    {
        let mut trial = std::pin::pin!(house.breaker.guard(std::future::pending::<Result<(), _>>()));
        assert!((&mut trial).now_or_never().is_none());
        assert!(house.call().await.is_err());
        assert_eq!(house.calls(), 5);
    }
    house.goes(false);
    house.call().await.unwrap();
    assert_eq!(house.calls(), 6);
}

#[tokio::test(start_paused = true)]
async fn every_answer_closes_it_also_one_that_does_not_help() {
    for error in [ConnectorError::Refused("who are you".to_owned()), ConnectorError::Unusable("what is this".to_owned())] {
        let house = House::opened().await;
        pass(1_000).await;
        assert!(house.breaker.guard(async { Err::<(), _>(error) }).await.is_err());
        house.goes(false);
        house.call().await.unwrap();
        house.call().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn slow_calls_do_not_shut_out_those_that_are_answered() {
    let house = House::new(Breaker::new);
    let slow = || async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Err::<(), _>(unavailable())
    };
    let slow = futures_util::future::join_all((0..20).map(|_| house.breaker.guard(slow())));
    let answered = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        house.call().await.unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
        house.call().await.unwrap();
    };
    tokio::join!(slow, answered);
}

#[tokio::test(start_paused = true)]
async fn one_that_only_tells_never_opens() {
    let house = House::new(Breaker::that_only_tells);
    house.goes(true);
    for _ in 0..100 {
        assert!(house.call().await.is_err());
    }
    assert_eq!(house.calls(), 100);
    assert_eq!(house.breaker.outage.met(), 100);
}

#[tokio::test(start_paused = true)]
async fn all_that_is_told_no_answer_is_one_outage() {
    let house = House::opened().await;
    for _ in 0..100 {
        assert!(house.call().await.is_err());
    }
    assert_eq!(house.breaker.outage.met(), 105);
    house.goes(false);
    pass(1_000).await;
    house.call().await.unwrap();
    assert_eq!(house.breaker.outage.met(), 0);
}
