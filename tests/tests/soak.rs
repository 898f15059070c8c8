//! What each answer promised holds through kills and outages; and the checker that says so sees each kind of fault, planted in a real run.

use std::time::Duration;

use denizen_tests::soak::{
    checker::{Bounds, Verdict},
    client::Pace,
    earlier::{self, go_back_in_time},
    embedded::{Kills, kill_again_and_again},
    history::{Came, SECOND},
    plant::Plant,
    replicated::Soak,
    restoring::Restoring,
};

/// What came is written for whoever reads CI's output.
#[expect(clippy::print_stdout, reason = "the figures are what this test is for")]
fn report(name: &str, verdict: &Verdict) {
    println!("\n{name}\n{verdict}");
}

#[track_caller]
fn shows(plant: Plant, verdict: &Verdict) {
    report(&format!("planted: {plant:?}"), verdict);
    for kind in plant.shows() {
        assert!(verdict.of(*kind) > 0, "{plant:?} is not seen as {}", kind.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t39_what_the_embedded_broker_answered_holds_through_kills() {
    let verdict = kill_again_and_again(Kills::new(10), None).await;
    report("ten kills of the embedded broker", &verdict);
    assert!(verdict.came(Came::Good) > 500 && verdict.came(Came::Refused) > 100, "it was under load");
    assert!(verdict.cut_off <= 8 * verdict.faults[0], "few are cut off by a kill");
    assert!(verdict.violations.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_goes_back_in_time_is_seen() {
    let verdict = go_back_in_time().await;
    report("planted: the store of an earlier kill", &verdict);
    assert_eq!(verdict.kinds(), earlier::SHOWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balancer_that_gives_answers_to_others_is_seen() {
    for plant in [Plant::OtherTenantsAnswer, Plant::OtherPersonsAnswer, Plant::Failure] {
        let verdict = kill_again_and_again(Kills::new(20), Some(plant)).await;
        shows(plant, &verdict);
        assert_eq!(verdict.kinds(), plant.shows(), "and as nothing else");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_without_a_cause_or_an_end_are_seen() {
    let mut kills = Kills::new(2);
    let verdict = kill_again_and_again(kills, Some(Plant::SilentKill)).await;
    shows(Plant::SilentKill, &verdict);
    kills.bounds = Bounds { outage: 2 * SECOND, ..Bounds::default() };
    let verdict = kill_again_and_again(kills, Some(Plant::LongOutage)).await;
    shows(Plant::LongOutage, &verdict);
    assert_eq!(verdict.kinds(), Plant::LongOutage.shows(), "and as nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_three_replicas_answered_holds_through_failovers() {
    let verdict = Soak::new(Duration::from_secs(60), 3, 60).run().await;
    report("sixty seconds of three replicas over Redis", &verdict);
    assert!(verdict.came(Came::Good) > 500 && verdict.came(Came::Refused) > 100, "it was under load");
    assert!(verdict.faults[0] >= 2 && verdict.faults[1] == 2 && verdict.faults[2] == 3, "all faults were made");
    assert!(verdict.failovers() >= 2, "each primary that is killed is followed by another");
    assert!(verdict.cut_off <= 4 * verdict.faults[0], "few are cut off by a kill");
    assert!(verdict.violations.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_brings_back_what_was_is_seen() {
    for restoring in Restoring::ALL {
        let pace = Pace { rest: Duration::from_millis(300), deeds: 8 };
        let verdict = Soak { restoring: Some(restoring), pace, ..Soak::new(Duration::from_secs(90), 2, 30) }.run().await;
        report(&format!("planted: {restoring:?}"), &verdict);
        for kind in restoring.shows() {
            assert!(verdict.of(*kind) > 0, "{restoring:?} is not seen as {}", kind.name());
        }
    }
}
