//! The one conformance suite of stores, and that of limits, over real Redis servers: one, one with TLS and an ACL, a Cluster, a pair under
//! Sentinel; a failover in the middle of writing; scans.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use claims_mapping::TenantId;
use denizen::{
    config::{RedisConfig, StoreConfig},
    store::{
        Batch, Expect, Key, Kind, Limits, Outcome, Scan as _, Store, StoreError,
        conformance::{self, Fresh, Opening},
        redis::Redis as OnRedis,
    },
};
use denizen_tests::redis::{Redis, RedisCluster, RedisPair};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::{sync::OnceCell, time::Instant};

// Servers for all cases of a suite, each case with a prefix of its own. They end with the process.
static SINGLE: OnceCell<Redis> = OnceCell::const_new();
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
static PAIR: OnceCell<RedisPair> = OnceCell::const_new();
static PREFIXES: AtomicUsize = AtomicUsize::new(0);

/// A prefix that no other case has.
fn own(store: Value) -> RedisConfig {
    let mut config = config(store);
    config.prefix = format!("case-{}", PREFIXES.fetch_add(1, Ordering::Relaxed));
    config
}

fn config(store: Value) -> RedisConfig {
    serde_json::from_value::<StoreConfig>(store).unwrap().redis.unwrap()
}

async fn opened(config: &RedisConfig) -> Arc<OnRedis> {
    Arc::new(OnRedis::connect(config).await.unwrap())
}

fn fresh(config: RedisConfig, with: impl std::any::Any + Send + Sync) -> Fresh {
    let open = move || -> Opening {
        let config = config.clone();
        Box::pin(async move { opened(&config).await as Arc<dyn Store> })
    };
    Fresh::reopening(with, open).without_sweeping()
}

async fn counts(config: RedisConfig) -> Arc<dyn Limits> {
    opened(&config).await
}

async fn single() -> RedisConfig {
    own(SINGLE.get_or_init(Redis::single).await.as_store())
}

async fn cluster() -> RedisConfig {
    own(CLUSTER.get_or_init(RedisCluster::three).await.as_store())
}

async fn pair() -> RedisConfig {
    own(PAIR.get_or_init(RedisPair::start).await.as_store())
}

denizen::store_suite!(one_server, fresh(single().await, ()));
denizen::limits_suite!(limits_of_one_server, (counts(single().await).await, ()));
denizen::store_suite!(tls_and_acl, {
    let server = Redis::tls().await;
    fresh(config(server.as_store()), server)
});
denizen::limits_suite!(limits_with_tls_and_acl, {
    let server = Redis::tls().await;
    (counts(config(server.as_store())).await, server)
});
denizen::store_suite!(cluster_of_three, fresh(cluster().await, ()));
denizen::limits_suite!(limits_of_a_cluster, (counts(cluster().await).await, ()));
denizen::store_suite!(under_sentinel, fresh(pair().await, ()));

fn now() -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000)
}

fn tenant(id: &str) -> TenantId {
    TenantId::parse(id).unwrap()
}

/// Writers that write each record once, and know which of them were answered as written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_in_the_middle_loses_nothing_that_was_answered() {
    let mut pair = RedisPair::start().await;
    let mut redis = config(pair.as_store());
    redis.prefix = "failover".to_owned();
    let store = opened(&redis).await;
    let ended = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, ended) = (Arc::clone(&store), Arc::clone(&ended));
            tokio::spawn(async move {
                let (mut answered, mut unknown, mut last) = (Vec::new(), 0_usize, Instant::now());
                for n in 0.. {
                    if ended.load(Ordering::SeqCst) {
                        break;
                    }
                    let key = Key::new(&tenant("acme"), Kind::Code, format!("{writer}-{n}"));
                    let batch = Batch::new().expect(key.clone(), Expect::Absent).put(key.clone(), vec![7; 100], None);
                    match store.commit(batch, now()).await {
                        Ok(Outcome::Committed) => {
                            answered.push(key);
                            last = Instant::now();
                        }
                        // Each record is written by one batch, which is never sent twice where it may have run.
                        Ok(Outcome::Conflict) => panic!("a batch was carried out twice: {key:?}"),
                        Err(StoreError::Unavailable(_)) => unknown += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                (answered, unknown, last)
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let killed = pair.kill_primary();
    let took = pair.wait_for_failover(killed).await;
    let failed_over = Instant::now();
    // The new primary takes nothing until a replica is there again.
    pair.server_mut(killed).restart().await;
    pair.wait_until_whole().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    ended.store(true, Ordering::SeqCst);
    let (mut all, mut errors) = (0, 0);
    for writer in writers {
        let (answered, unknown, last) = writer.await.unwrap();
        assert!(last > failed_over, "a writer wrote nothing more after the failover");
        for key in &answered {
            assert!(store.get(key, now()).await.unwrap().is_some(), "{key:?} was answered and is gone");
        }
        (all, errors) = (all + answered.len(), errors + unknown);
    }
    println!("failover in {took:?}: {all} answered, {errors} unavailable");
    assert!(errors > 0, "nobody met the failover: this tests nothing");

    redis.prefix = "afterwards".to_owned();
    let config = redis;
    let pair = Arc::new(pair);
    let next = AtomicUsize::new(0);
    let case = || {
        let mut config = config.clone();
        config.prefix = format!("afterwards-{}", next.fetch_add(1, Ordering::Relaxed));
        fresh(config, Arc::clone(&pair))
    };
    conformance::reads_what_was_written(&case()).await;
    conformance::versions_grow(&case()).await;
    conformance::expect_version(&case()).await;
    conformance::a_conflict_changes_nothing(&case()).await;
    conformance::listing_pages_in_order(&case()).await;
    conformance::t38_fifty_at_once_have_one_winner(&case()).await;
    conformance::a_crowd_loses_no_write(&case()).await;
    conformance::what_is_as_seen_has_not_changed(&case()).await;
    conformance::t39_versions_grow_over_restarts(&case()).await;
}

/// With its replica gone, a primary takes the write and says that no one has it: never "committed".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_replica_has_is_not_answered_as_committed() {
    let server = Redis::single().await;
    let mut redis = config(server.as_store());
    redis.acknowledged_by = Some(1);
    let store = opened(&redis).await;
    let key = Key::new(&tenant("acme"), Kind::Code, "x");
    let put = || Batch::new().put(key.clone(), vec![1], None);
    let error = store.commit(put(), now()).await.unwrap_err();
    assert!(error.to_string().contains("replicas"), "{error}");
    let conflict = put().expect(key.clone(), Expect::Absent);
    let began = Instant::now();
    assert_eq!(store.commit(conflict, now()).await.unwrap(), Outcome::Conflict);
    assert_eq!(store.commit(Batch::new().expect(key, Expect::Present), now()).await.unwrap(), Outcome::Committed, "it only asks");
    let attempt = Batch::new().put(Key::system(Kind::Attempt, "a"), vec![1], None);
    assert_eq!(store.commit(attempt, now()).await.unwrap(), Outcome::Committed, "that may be lost");
    assert!(began.elapsed() < Duration::from_millis(500), "none of it waits for a replica: {:?}", began.elapsed());
}

/// A server that forgot the scripts, and one that was frozen and came back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_scripts_or_stalls_is_met_with_one_error_at_most() {
    let server = Redis::single().await;
    let store = opened(&config(server.as_store())).await;
    let put = |id: &str| Batch::new().put(Key::new(&tenant("acme"), Kind::Code, id), vec![1], None);
    _ = server.server().cli(&["SCRIPT", "FLUSH"]);
    let crowd = (0..20).map(|n| {
        let (store, batch) = (Arc::clone(&store), put(&n.to_string()));
        tokio::spawn(async move { store.commit(batch, now()).await.unwrap() })
    });
    for commit in crowd.collect::<Vec<_>>() {
        assert_eq!(commit.await.unwrap(), Outcome::Committed);
    }
    server.server().freeze();
    let began = Instant::now();
    store.commit(put("frozen"), now()).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(2_600), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    store.commit(put("frozen"), now()).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(600), "while there is none, it fails soon: {:?}", began.elapsed());
    server.server().thaw();
    let thawed = Instant::now();
    while store.commit(put("thawed"), now()).await.is_err() {
        assert!(thawed.elapsed() < Duration::from_secs(5), "it does not come back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_of_a_cluster_finds_every_record() {
    let store = opened(&cluster().await).await;
    let mut written = BTreeSet::new();
    for n in 0..60 {
        for key in [Key::new(&tenant(&format!("t{n}")), Kind::Person, "x"), Key::system(Kind::Attempt, n.to_string())] {
            let expires_at = (n % 2 == 0).then(|| now() + time::Duration::hours(n + 1));
            store.commit(Batch::new().put(key.clone(), n.to_string().into(), expires_at), now()).await.unwrap();
            written.insert((key, n.to_string().into_bytes(), expires_at));
        }
    }
    let (mut found, mut cursor, mut pages) = (BTreeSet::new(), None::<String>, 0);
    loop {
        let page = store.scan(cursor.as_deref(), 10).await.unwrap();
        found.extend(page.records.into_iter().map(|kept| (kept.key, kept.value, kept.expires_at)));
        pages += 1;
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert!(found == written, "{} of {}", found.len(), written.len());
    assert!(pages > 3, "{pages}");
    assert!(matches!(store.scan(Some("no cursor"), 10).await, Err(StoreError::Unavailable(_))));
}

/// Channels are the same in all databases of a server, keys are not: what is written in one is nothing to the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_of_one_server_do_not_hear_each_other() {
    let server = Redis::single().await;
    let mut redis = config(server.as_store());
    let one = opened(&redis).await;
    redis.database = 1;
    let other = opened(&redis).await;
    let key = Key::new(&tenant("acme"), Kind::Person, "jane");
    let put = || Batch::new().put(key.clone(), vec![1], None);
    tokio::time::sleep(Duration::from_millis(300)).await;
    one.commit(put(), now()).await.unwrap();
    other.commit(put(), now()).await.unwrap();
    other.commit(Batch::new().delete(key.clone()), now()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(one.get(&key, now()).await.unwrap().is_some(), "its own was never changed");
    assert!(other.get(&key, now()).await.unwrap().is_none());
}

/// A Cluster that moves a slot refuses what it can not do whole; nothing half is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_is_being_moved_leaves_no_half_a_batch() {
    let cluster = RedisCluster::three().await;
    let mut redis = config(cluster.as_store());
    redis.deadline_milliseconds = 500;
    let store = opened(&redis).await;
    let keys = ["a", "b"].map(|id| Key::new(&tenant("acme"), Kind::Person, id));
    let put = |value: u8| keys.iter().fold(Batch::new(), |batch, key| batch.put(key.clone(), vec![value], None));
    assert_eq!(store.commit(put(1), now()).await.unwrap(), Outcome::Committed);
    let slot = cluster.slot_of("{t:acme}");
    let from = cluster.primary_of(slot);
    let (from, to) = (&cluster.servers()[from], &cluster.servers()[(from + 1) % 3]);
    let (id_from, id_to) = (from.cli(&["CLUSTER", "MYID"]).text(), to.cli(&["CLUSTER", "MYID"]).text());
    let number = slot.to_string();
    _ = to.cli(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &id_from]);
    _ = from.cli(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &id_to]);
    let move_on = |key: &str| _ = from.cli(&["MIGRATE", "127.0.0.1", &to.port().to_string(), key, "0", "5000"]);
    // The index is there already, the records are not.
    move_on("denizen:{t:acme}:person");
    assert!(matches!(store.commit(put(2), now()).await, Err(StoreError::Unavailable(_))), "it is told that it was not done");
    for key in &keys {
        assert_eq!(store.get(key, now()).await.unwrap().unwrap().value, [1], "and it was not: {key:?}");
    }
    for key in ["denizen:{t:acme}:person:a", "denizen:{t:acme}:person:b"] {
        move_on(key);
    }
    for server in cluster.servers() {
        _ = server.cli(&["CLUSTER", "SETSLOT", &number, "NODE", &id_to]);
    }
    let moved = Instant::now();
    while store.commit(put(3), now()).await.is_err() {
        assert!(moved.elapsed() < Duration::from_secs(10), "the slot is not found again");
    }
    let listing = store.list(keys[0].partition(), Kind::Person, None, 10, now()).await.unwrap();
    assert_eq!(listing.entries.iter().map(|(id, entry)| (id.as_str(), entry.value[0])).collect::<Vec<_>>(), [("a", 3), ("b", 3)]);
}

/// Each command is answered in time, and a listing is many of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_ends_in_time_whatever_the_index_holds() {
    let server = Redis::single().await;
    let mut redis = config(server.as_store());
    redis.deadline_milliseconds = 100;
    let store = opened(&redis).await;
    // What expired long ago, in a partition in which nothing was written since.
    let fill = "for i = 1, 10000 do redis.call('ZADD', KEYS[1], 0, string.format('%s-%05d', ARGV[1], i)) end";
    for n in 0..10 {
        _ = server.server().cli(&["EVAL", fill, "1", "denizen:{t:acme}:person", &n.to_string()]);
    }
    let partition = Key::new(&tenant("acme"), Kind::Person, "x").partition().clone();
    let began = Instant::now();
    _ = store.list(&partition, Kind::Person, None, 1, now()).await;
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
}

/// A server that does not know a command repeats it, and `HELLO` holds the password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_password_is_in_no_error() {
    let server = Redis::with("rename-command HELLO \"\"\n").await;
    let mut store = server.as_store();
    store["redis"]["password"] = "a-password-of-ours".into();
    let store = opened(&config(store)).await;
    let error = store.get(&Key::system(Kind::Probe, "x"), now()).await.unwrap_err().to_string();
    assert!(error.contains("unknown command") && !error.contains("a-password-of-ours"), "{error}");
}

/// A script takes keys and arguments by the thousand, and long ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_batches_are_carried_out_whole() {
    let server = Redis::single().await;
    let store = opened(&config(server.as_store())).await;
    let long = "i".repeat(4_096);
    let keys: Vec<_> = (0..1_000).map(|n| Key::new(&tenant("acme"), Kind::Person, format!("{long}\u{0}{n:04}"))).collect();
    let all = |value: Vec<u8>, expires_at| {
        let put = |batch: Batch, key: &Key| batch.expect(key.clone(), Expect::Absent).put(key.clone(), value.clone(), expires_at);
        keys.iter().fold(Batch::new(), put)
    };
    let soon = Some(now() + time::Duration::hours(1));
    assert_eq!(store.commit(all(vec![7], soon), now()).await.unwrap(), Outcome::Committed);
    assert_eq!(store.commit(all(vec![8], soon), now()).await.unwrap(), Outcome::Conflict);
    assert!(store.present(&keys, now()).await.unwrap().into_iter().all(|is_there| is_there));
    let listing = store.list(keys[0].partition(), Kind::Person, None, 1_000, now()).await.unwrap();
    assert_eq!((listing.entries.len(), listing.next), (1_000, None));
    let none = keys.iter().fold(Batch::new(), |batch, key| batch.delete(key.clone()));
    assert_eq!(store.commit(none, now()).await.unwrap(), Outcome::Committed);
    assert!(server.server().contents().is_empty(), "nothing is left of them, in no index");
    let large = vec![0xff; 64 << 10];
    let many = (0..100).fold(Batch::new(), |batch, n| batch.put(Key::system(Kind::Probe, n.to_string()), large.clone(), None));
    assert_eq!(store.commit(many, now()).await.unwrap(), Outcome::Committed);
    assert_eq!(store.get(&Key::system(Kind::Probe, "99"), now()).await.unwrap().unwrap().value, large);
}
