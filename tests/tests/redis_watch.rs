//! What replicas remember of Redis: it costs no command, and ends within a second of another replica's change, also where the primary
//! was replaced meanwhile.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::{Duration, Instant};

use claims_mapping::TenantId;
use denizen::{
    config::StoreConfig,
    store::{Batch, Key, Kind, Mark, Outcome, Store as _, redis::Redis},
};
use denizen_tests::redis::{Redis as Server, RedisCluster, RedisPair};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::sleep;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
/// For how long a change may be unknown.
const BOUND: Duration = Duration::from_secs(1);

async fn replica(mut store: Value, acknowledged_by: u8) -> Redis {
    store["redis"]["acknowledgedBy"] = json!(acknowledged_by);
    let config: StoreConfig = serde_json::from_value(store).unwrap();
    Redis::connect(&config.redis.unwrap()).await.unwrap()
}

/// The records that a review rests on: a session, and a token that was not revoked.
fn keys() -> [Key; 3] {
    let tenant = TenantId::parse("acme").unwrap();
    [Key::new(&tenant, Kind::Session, "s"), Key::new(&tenant, Kind::Grant, "g"), Key::new(&tenant, Kind::RevokedToken, "t")]
}

/// Looks until there is a mark that holds.
async fn look(replica: &Redis) -> (Vec<bool>, Mark) {
    let mut last = None;
    for _ in 0..1_500 {
        last = Some(replica.look(&keys(), NOW).await);
        if let Some(Ok((present, Some(mark)))) = &last
            && replica.is_as_seen(mark, NOW)
        {
            return (present.clone(), mark.clone());
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("no mark holds: {last:?}");
}

async fn commit(replica: &Redis, batch: Batch) {
    for _ in 0..200 {
        match replica.commit(batch.clone(), NOW).await {
            Ok(outcome) => return assert_eq!(outcome, Outcome::Committed),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("it is not written");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_costs_no_command_and_a_look_costs_one() {
    let server = Server::single().await;
    let replica = replica(server.as_store(), 0).await;
    let (_, mark) = look(&replica).await;
    // Until all of its connections are there.
    sleep(Duration::from_millis(500)).await;
    server.server().forget_commands();
    for _ in 0..2_000 {
        assert!(replica.is_as_seen(&mark, NOW));
    }
    let counts = server.server().commands();
    // What is there whether or not anything is asked: the question by which the watch goes on, and those of this test.
    let others: Vec<_> = counts.iter().filter(|(name, _)| !["hello", "info", "config|resetstat"].contains(&name.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
    server.server().forget_commands();
    for asked in 1..=20 {
        _ = replica.look(&keys(), NOW).await.unwrap();
        assert_eq!(server.server().commands()["mget"], asked);
    }
    let counts = server.server().commands();
    let others: Vec<_> =
        counts.iter().filter(|(name, _)| !["hello", "info", "config|resetstat", "mget"].contains(&name.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_replica_changes_ends_the_memory_at_once_and_the_own_change_before_its_answer() {
    let server = Server::single().await;
    let (one, other) = (replica(server.as_store(), 0).await, replica(server.as_store(), 0).await);
    let [session, _, revoked] = keys();
    let mut longest = Duration::ZERO;
    for round in 0..50 {
        commit(&other, Batch::new().put(session.clone(), vec![1], None).delete(revoked.clone())).await;
        let (present, mark) = look(&one).await;
        assert_eq!(present, [true, false, false]);
        let by = if round % 5 == 4 { &one } else { &other };
        let batch = if round % 2 == 0 { Batch::new().delete(session.clone()) } else { Batch::new().put(revoked.clone(), vec![], None) };
        commit(by, batch).await;
        let answered = Instant::now();
        assert!(round % 5 != 4 || !one.is_as_seen(&mark, NOW), "an own change");
        while one.is_as_seen(&mark, NOW) {
            assert!(answered.elapsed() < BOUND);
        }
        longest = longest.max(answered.elapsed());
    }
    println!("a change was known to the other replica at most {longest:?} after its answer");
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

/// While one server after another is the primary, `one` remembers a session that `other` ends at the new one.
async fn ended_at_the_next(one: &Redis, other: &Redis, mark: &Mark) {
    let [session, ..] = keys();
    commit(other, Batch::new().delete(session)).await;
    let answered = Instant::now();
    while one.is_as_seen(mark, NOW) {
        assert!(answered.elapsed() <= BOUND, "an ended session is as seen");
        sleep(Duration::from_millis(2)).await;
    }
}

/// It never holds again, and a look shows how it is.
async fn stays_ended(one: &Redis, mark: &Mark) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert!(!one.is_as_seen(mark, NOW));
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(look(one).await.0, [false, false, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_sentinels_replaced_while_it_was_frozen_is_not_believed_when_it_goes_on() {
    let pair = RedisPair::start().await;
    for server in pair.servers() {
        _ = server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    }
    let (one, other) = (replica(pair.as_store(), 0).await, replica(pair.as_store(), 0).await);
    let [session, ..] = keys();
    commit(&other, Batch::new().put(session, vec![1], None)).await;
    pair.primary().wait_until_acknowledged();
    let (present, mark) = look(&one).await;
    assert_eq!(present, [true, false, false]);
    let from = pair.primary_index();
    pair.servers()[from].freeze();
    pair.wait_for_failover(from).await;
    ended_at_the_next(&one, &other, &mark).await;
    pair.servers()[from].thaw();
    stays_ended(&one, &mark).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_its_cluster_replaced_while_it_was_frozen_is_not_believed_when_it_goes_on() {
    let cluster = RedisCluster::three_with_replicas().await;
    for server in cluster.servers() {
        _ = server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    }
    let (one, other) = (replica(cluster.as_store(), 0).await, replica(cluster.as_store(), 0).await);
    let [session, ..] = keys();
    commit(&other, Batch::new().put(session, vec![1], None)).await;
    let slot = cluster.slot_of("{t:acme}");
    let from = cluster.primary_of(slot);
    cluster.servers()[from].wait_until_acknowledged();
    let (present, mark) = look(&one).await;
    assert_eq!(present, [true, false, false]);
    cluster.servers()[from].freeze();
    cluster.wait_for_failover(slot, from).await;
    ended_at_the_next(&one, &other, &mark).await;
    cluster.servers()[from].thaw();
    stays_ended(&one, &mark).await;
}
