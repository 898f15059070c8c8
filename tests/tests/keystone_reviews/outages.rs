//! Keystone goes away and comes back: who is known stays, no one else is told "no", and the log is told once.

use std::time::{Duration, Instant};

use denizen_tests::{
    Broker, Service,
    relay::{Manner, Reply, When},
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    house::{CACHE, DEADLINE, House, REFUSAL, TOKENS, review, soon_good},
    stand_in::fernet,
};

/// Lines of the log from warnings up, after so many lines.
fn told(broker: &Broker, after: usize) -> Vec<Value> {
    let log = broker.log();
    let lines = log.lines().skip(after).map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
    lines.filter(|line| matches!(line["level"].as_str(), Some("ERROR" | "WARN"))).collect()
}

fn lines(broker: &Broker) -> usize {
    broker.log().lines().count()
}

/// Each of these is not told, within the deadline.
async fn none_is_told(service: &Service, tokens: impl Iterator<Item = String>) {
    for token in tokens {
        let begun = Instant::now();
        assert_eq!(review(service, &token).await.status, 503);
        assert!(begun.elapsed() < Duration::from_secs(u64::from(DEADLINE) + 1), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_keystone_that_is_stopped_takes_no_one_away_until_their_answers_run_out() {
    let Some(mut house) = House::clocked(|_, _| {}).await else { return };
    let (jane, gina, unseen) = (house.jane().await, house.token("globex", "gina", "globex").await, house.jane().await);
    assert!(house.reviewed(&jane).await.is_object());
    house.broker.pass(100);
    assert!(house.reviewed(&gina).await.is_object());
    let forged = fernet(0);
    assert_eq!(house.reviewed(&forged).await, Value::Null);
    house.keystone.stop();
    house.relay.refuse().await;
    none_is_told(&house.service, [unseen.clone(), fernet(1), fernet(2)].into_iter()).await;
    assert_eq!(house.reviewed(&forged).await, Value::Null, "a refusal is remembered, too");
    // Ten seconds before jane's answer runs out; the broker's clock goes on by itself, too.
    house.broker.pass(i64::from(CACHE) - 110);
    for (token, name) in [(&jane, "acme:jane"), (&gina, "globex:gina")] {
        assert_eq!(house.reviewed(token).await["username"], name);
    }
    house.broker.pass(11);
    none_is_told(&house.service, std::iter::once(jane.clone())).await;
    assert_eq!(house.reviewed(&gina).await["username"], "globex:gina", "hers is of a later question");
    none_is_told(&house.service, std::iter::once(forged)).await;
    house.broker.pass(100);
    none_is_told(&house.service, [gina.clone(), jane.clone()].into_iter()).await;

    house.keystone.restart().await;
    house.relay.listen().await;
    for token in [&jane, &gina, &unseen] {
        soon_good(&house.service, token).await;
    }
    house.broker.pass(i64::from(REFUSAL));
    assert_eq!(house.reviewed(&fernet(1)).await, Value::Null, "what was not told is not remembered");
}

#[tokio::test]
async fn an_outage_is_told_once_when_it_begins_and_once_when_it_is_over() {
    let Some(house) = House::start().await else { return };
    let jane = house.jane().await;
    assert!(house.reviewed(&jane).await.is_object());
    let other = house.token("globex", "jane", "globex").await;
    let before = lines(&house.broker);
    house.relay.refuse().await;
    none_is_told(&house.service, (0..300).map(fernet)).await;
    let during = told(&house.broker, before);
    assert_eq!(during.len(), 1, "{during:#?}");
    assert_eq!((&during[0]["level"], &during[0]["connector.id"]), (&json!("ERROR"), &json!("cloud")));
    assert!(during[0]["message"].as_str().unwrap().contains("unavailable"), "{:#}", during[0]);
    assert!(house.reviewed(&jane).await.is_object());

    house.relay.listen().await;
    soon_good(&house.service, &other).await;
    for number in 1_000..1_020 {
        assert_eq!(house.reviewed(&fernet(number)).await, Value::Null);
    }
    let all = told(&house.broker, before);
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(all[1]["message"].as_str().unwrap().contains("answers again"), "{:#}", all[1]);
    assert!(all[1]["calls"].as_u64().is_some_and(|calls| calls >= 300), "{:#}", all[1]);
}

#[tokio::test]
async fn every_kind_of_outage_leaves_keystone_alone_and_heals() {
    let Some(house) = House::start().await else { return };
    for manner in [Manner::Answer(Reply::new(500, "x")), Manner::Answer(Reply::new(503, "x")), Manner::Break] {
        let (good, before) = (house.jane().await, lines(&house.broker));
        house.relay.set(When::any(), manner.clone());
        house.relay.forget();
        none_is_told(&house.service, (0..100).map(fernet)).await;
        assert!(house.relay.total() < 30, "{manner:?}: {} of 100 questions were put to one who does not answer", house.relay.total());
        assert!(told(&house.broker, before).iter().filter(|line| line["level"] == "ERROR").count() <= 1, "{manner:?}");
        house.relay.pass_on();
        soon_good(&house.service, &good).await;
    }
    // One that takes requests and says nothing is waited for, and then left alone, too.
    let (good, begun) = (house.jane().await, Instant::now());
    house.relay.set(When::path(TOKENS), Manner::Hold);
    let asked = join_all((1_000..1_040).map(async |number| review(&house.service, &fernet(number)).await.status)).await;
    assert!(asked.iter().all(|status| *status == 503), "{asked:?}");
    assert!(begun.elapsed() < Duration::from_secs(u64::from(DEADLINE) * 2 + 2), "{:?}", begun.elapsed());
    house.relay.pass_on();
    soon_good(&house.service, &good).await;
}
