//! The one conformance suite of stores, and that of limits, over real Redis servers: one, one with TLS and an ACL, a Cluster, a pair under
//! Sentinel; a failover in the middle of writing; scans.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

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
