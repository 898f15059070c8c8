//! What every store must do, and what counts over all replicas must. A backend runs [`store_suite!`](crate::store_suite) with a way
//! to make a fresh store of it.

#![expect(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "these are tests, which a backend's own tests call"
)]

use std::{any::Any, pin::Pin, sync::Arc};

use claims_mapping::TenantId;
use time::{Duration, OffsetDateTime};

use super::{Batch, Bucket, Expect, Key, Kind, Limits, Outcome, Partition, Rate, Store, StoreError};

/// A store that is being opened.
pub type Opening = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>>;

/// A store of a test's own, and how it is opened again.
pub struct Fresh {
    open: Box<dyn Fn() -> Opening + Send + Sync>,
    durable: bool,
    sweeps: bool,
    _with: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Fresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fresh")
    }
}

impl Fresh {
    /// A backend that keeps nothing once it is dropped.
    pub fn new(open: impl Fn() -> Opening + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), durable: false, sweeps: true, _with: Box::new(()) }
    }
    /// A backend that keeps its records with this: a folder, or servers. It lives as long as the test.
    pub fn reopening(with: impl Any + Send + Sync, open: impl Fn() -> Opening + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), durable: true, sweeps: true, _with: Box::new(with) }
    }
    /// Its records leave by themselves, some time after they have expired.
    #[must_use]
    pub fn without_sweeping(self) -> Self {
        Self { sweeps: false, ..self }
    }
    /// How many records are swept, of those that have expired.
    const fn swept(&self, expired: usize) -> usize {
        if self.sweeps { expired } else { 0 }
    }
    /// Opens it.
    pub async fn open(&self) -> Arc<dyn Store> {
        (self.open)().await
    }
}

/// Runs every case against a backend.
#[macro_export]
macro_rules! store_suite {
    ($name:ident, $fresh:expr) => {
        mod $name {
            use super::*;
            $crate::store_suite!(@ $fresh;
                reads_what_was_written, versions_grow, expect_absent, expect_present, expect_version, a_conflict_changes_nothing,
                deletes_come_first, an_empty_batch_is_committed, a_batch_has_one_partition, expired_is_absent_at_once,
                a_write_renews_the_expiry, listing_pages_in_order, listing_skips_the_expired, listing_bounds_the_limit,
                t03_partitions_are_apart, t03_ids_and_names_do_not_run_together, sweeping_removes_the_expired_only,
                sweeping_keeps_what_was_renewed, t38_fifty_at_once_have_one_winner, a_crowd_loses_no_write,
                which_records_there_are, what_is_answered_is_read, what_is_as_seen_has_not_changed, t39_versions_grow_over_restarts);
        }
    };
    (@ $fresh:expr; $($case:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let fresh = $fresh;
            $crate::store::conformance::$case(&fresh).await;
        })+
    };
}

/// Runs every case against counts; `$counts` makes fresh ones, as an `Arc<dyn Limits>` and what they need to live.
#[macro_export]
macro_rules! limits_suite {
    ($name:ident, $counts:expr) => {
        mod $name {
            use super::*;
            $crate::limits_suite!(@ $counts;
                a_bucket_holds_so_many_and_refills, all_buckets_or_none, what_is_given_back_is_free, t38_a_crowd_gets_no_more_than_there_is);
        }
    };
    (@ $counts:expr; $($case:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let (counts, _with) = $counts;
            $crate::store::conformance::$case(counts).await;
        })+
    };
}

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + Duration::seconds(1_700_000_000 + seconds)
}

fn tenant(id: &str) -> TenantId {
    TenantId::parse(id).unwrap()
}

fn key(id: &str) -> Key {
    Key::new(&tenant("acme"), Kind::Person, id)
}

fn part(id: &str) -> Partition {
    Partition::Tenant(tenant(id))
}

async fn put(store: &dyn Store, key: &Key, value: &str, expires_at: Option<OffsetDateTime>) {
    let outcome = store.commit(Batch::new().put(key.clone(), value.into(), expires_at), at(0)).await.unwrap();
    assert_eq!(outcome, Outcome::Committed);
}

async fn text(store: &dyn Store, key: &Key, now: OffsetDateTime) -> Option<String> {
    store.get(key, now).await.unwrap().map(|entry| String::from_utf8(entry.value).unwrap())
}

async fn version(store: &dyn Store, key: &Key) -> u64 {
    store.get(key, at(0)).await.unwrap().unwrap().version
}

async fn ids(store: &dyn Store, partition: &Partition, kind: Kind) -> Vec<String> {
    store.list(partition, kind, None, 1_000, at(0)).await.unwrap().entries.into_iter().map(|(id, _)| id).collect()
}

pub async fn reads_what_was_written(fresh: &Fresh) {
    let store = fresh.open().await;
    assert_eq!(text(&*store, &key("a"), at(0)).await, None);
    put(&*store, &key("a"), "one", None).await;
    assert_eq!(text(&*store, &key("a"), at(0)).await.as_deref(), Some("one"));
    put(&*store, &key("a"), "", None).await;
    assert_eq!(text(&*store, &key("a"), at(0)).await.as_deref(), Some(""));
    let large = vec![0xA5; 300_000];
    store.commit(Batch::new().put(key("large"), large.clone(), None), at(0)).await.unwrap();
    assert_eq!(store.get(&key("large"), at(0)).await.unwrap().unwrap().value, large);
    store.commit(Batch::new().delete(key("a")).delete(key("never")), at(0)).await.unwrap();
    assert_eq!(text(&*store, &key("a"), at(0)).await, None);
}

pub async fn versions_grow(fresh: &Fresh) {
    let store = fresh.open().await;
    let mut last = 0;
    for (id, value) in [("a", "1"), ("b", "1"), ("a", "1"), ("a", "2")] {
        put(&*store, &key(id), value, None).await;
        let now = version(&*store, &key(id)).await;
        assert!(now > last, "{now} after {last}");
        last = now;
    }
    store.commit(Batch::new().delete(key("a")), at(0)).await.unwrap();
    store.commit(Batch::new().put(key("a"), vec![], None).put(key("b"), vec![], None), at(0)).await.unwrap();
    let (a, b) = (version(&*store, &key("a")).await, version(&*store, &key("b")).await);
    assert!(a > last && b > last && a != b);
}

pub async fn expect_absent(fresh: &Fresh) {
    let store = fresh.open().await;
    let batch = || Batch::new().expect(key("a"), Expect::Absent).put(key("a"), b"x".to_vec(), Some(at(10)));
    assert_eq!(store.commit(batch(), at(0)).await.unwrap(), Outcome::Committed);
    assert_eq!(store.commit(batch(), at(9)).await.unwrap(), Outcome::Conflict);
    assert_eq!(store.commit(batch(), at(10)).await.unwrap(), Outcome::Committed);
}

pub async fn expect_present(fresh: &Fresh) {
    let store = fresh.open().await;
    let batch = || Batch::new().expect(key("a"), Expect::Present).put(key("b"), vec![], None);
    assert_eq!(store.commit(batch(), at(0)).await.unwrap(), Outcome::Conflict);
    put(&*store, &key("a"), "x", Some(at(10))).await;
    assert_eq!(store.commit(batch(), at(9)).await.unwrap(), Outcome::Committed);
    assert_eq!(store.commit(batch(), at(10)).await.unwrap(), Outcome::Conflict);
}

pub async fn expect_version(fresh: &Fresh) {
    let store = fresh.open().await;
    put(&*store, &key("a"), "one", Some(at(10))).await;
    let first = version(&*store, &key("a")).await;
    let batch = |v| Batch::new().expect(key("a"), Expect::Version(v)).put(key("a"), b"two".to_vec(), Some(at(10)));
    assert_eq!(store.commit(batch(first + 1), at(0)).await.unwrap(), Outcome::Conflict);
    assert_eq!(store.commit(batch(first), at(0)).await.unwrap(), Outcome::Committed);
    assert_eq!(store.commit(batch(first), at(0)).await.unwrap(), Outcome::Conflict);
    let second = version(&*store, &key("a")).await;
    assert_eq!(store.commit(batch(second), at(10)).await.unwrap(), Outcome::Conflict, "it has expired");
}

pub async fn a_conflict_changes_nothing(fresh: &Fresh) {
    let store = fresh.open().await;
    put(&*store, &key("kept"), "old", None).await;
    let before = version(&*store, &key("kept")).await;
    let batch = Batch::new()
        .expect(key("kept"), Expect::Present)
        .expect(key("missing"), Expect::Present)
        .put(key("kept"), b"new".to_vec(), None)
        .put(key("more"), b"new".to_vec(), None)
        .delete(key("kept"));
    assert_eq!(store.commit(batch, at(0)).await.unwrap(), Outcome::Conflict);
    assert_eq!(text(&*store, &key("kept"), at(0)).await.as_deref(), Some("old"));
    assert_eq!(version(&*store, &key("kept")).await, before);
    assert_eq!(text(&*store, &key("more"), at(0)).await, None);
}

pub async fn deletes_come_first(fresh: &Fresh) {
    let store = fresh.open().await;
    store.commit(Batch::new().put(key("a"), b"x".to_vec(), None).delete(key("a")), at(0)).await.unwrap();
    assert_eq!(text(&*store, &key("a"), at(0)).await.as_deref(), Some("x"));
}

pub async fn an_empty_batch_is_committed(fresh: &Fresh) {
    let store = fresh.open().await;
    assert_eq!(store.commit(Batch::new(), at(0)).await.unwrap(), Outcome::Committed);
    put(&*store, &key("a"), "x", None).await;
    let only = Batch::new().expect(key("a"), Expect::Present);
    assert_eq!(store.commit(only, at(0)).await.unwrap(), Outcome::Committed);
}

pub async fn a_batch_has_one_partition(fresh: &Fresh) {
    let store = fresh.open().await;
    let (own, other, system) = (key("a"), Key::new(&tenant("other"), Kind::Person, "a"), Key::system(Kind::Person, "a"));
    for foreign in [other, system] {
        let batches = [
            Batch::new().put(own.clone(), vec![], None).put(foreign.clone(), vec![], None),
            Batch::new().put(own.clone(), vec![], None).delete(foreign.clone()),
            Batch::new().put(own.clone(), vec![], None).expect(foreign.clone(), Expect::Absent),
        ];
        for batch in batches {
            assert!(matches!(store.commit(batch, at(0)).await, Err(StoreError::SpansPartitions)));
        }
        assert_eq!(text(&*store, &foreign, at(0)).await, None);
    }
    assert_eq!(text(&*store, &own, at(0)).await, None);
}

pub async fn expired_is_absent_at_once(fresh: &Fresh) {
    let store = fresh.open().await;
    put(&*store, &key("a"), "x", Some(at(10))).await;
    assert!(text(&*store, &key("a"), at(10) - Duration::milliseconds(1)).await.is_some());
    assert!(text(&*store, &key("a"), at(10)).await.is_none());
    assert!(store.list(&part("acme"), Kind::Person, None, 10, at(10)).await.unwrap().entries.is_empty());
    put(&*store, &key("past"), "x", Some(at(-1))).await;
    assert!(text(&*store, &key("past"), at(0)).await.is_none());
}

pub async fn a_write_renews_the_expiry(fresh: &Fresh) {
    let store = fresh.open().await;
    put(&*store, &key("a"), "x", Some(at(10))).await;
    put(&*store, &key("a"), "y", Some(at(20))).await;
    assert!(text(&*store, &key("a"), at(15)).await.is_some());
    put(&*store, &key("a"), "z", None).await;
    assert!(text(&*store, &key("a"), at(1_000_000)).await.is_some());
    put(&*store, &key("a"), "z", Some(at(5))).await;
    assert!(text(&*store, &key("a"), at(5)).await.is_none());
}

pub async fn listing_pages_in_order(fresh: &Fresh) {
    let store = fresh.open().await;
    let mut expected: Vec<_> =
        (0..25).map(|n| format!("{n}")).chain(["".to_owned(), "é".to_owned(), "a\u{0}b".to_owned(), "a".to_owned()]).collect();
    for id in expected.iter().rev() {
        put(&*store, &key(id), id, None).await;
    }
    put(&*store, &Key::new(&tenant("acme"), Kind::SessionClient, "0"), "another kind", None).await;
    expected.sort();
    for limit in [1, 7, 29, 1_000] {
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = store.list(&part("acme"), Kind::Person, cursor.as_deref(), limit, at(0)).await.unwrap();
            assert!(page.entries.len() <= limit);
            for (id, entry) in page.entries {
                assert_eq!(entry.value, id.as_bytes());
                found.push(id);
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
}

pub async fn listing_skips_the_expired(fresh: &Fresh) {
    let store = fresh.open().await;
    for n in 0..10 {
        put(&*store, &key(&n.to_string()), "x", (n % 2 == 0).then(|| at(5))).await;
    }
    let page = store.list(&part("acme"), Kind::Person, None, 5, at(5)).await.unwrap();
    assert_eq!(page.entries.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["1", "3", "5", "7", "9"]);
    assert_eq!(page.next, None);
}

pub async fn listing_bounds_the_limit(fresh: &Fresh) {
    let store = fresh.open().await;
    let batch = (0..1_001).fold(Batch::new(), |batch, n| batch.put(key(&format!("{n:04}")), vec![], None));
    store.commit(batch, at(0)).await.unwrap();
    let page = store.list(&part("acme"), Kind::Person, None, usize::MAX, at(0)).await.unwrap();
    assert_eq!((page.entries.len(), page.next.as_deref()), (1_000, Some("0999")));
    assert_eq!(store.list(&part("acme"), Kind::Person, None, 0, at(0)).await.unwrap().entries.len(), 1);
}

pub async fn t03_partitions_are_apart(fresh: &Fresh) {
    let store = fresh.open().await;
    let keys = [
        Key::new(&tenant("acme"), Kind::Person, "x"),
        Key::new(&tenant("acme2"), Kind::Person, "x"),
        Key::new(&tenant("a"), Kind::Person, "x"),
        Key::new(&tenant("system"), Kind::Person, "x"),
        Key::system(Kind::Person, "x"),
    ];
    for (n, key) in keys.iter().enumerate() {
        put(&*store, key, &n.to_string(), None).await;
    }
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(text(&*store, key, at(0)).await, Some(n.to_string()), "{key:?}");
        assert_eq!(ids(&*store, key.partition(), Kind::Person).await, ["x"], "{key:?}");
    }
    store.commit(Batch::new().delete(keys[0].clone()), at(0)).await.unwrap();
    assert!(text(&*store, &keys[0], at(0)).await.is_none());
    for key in &keys[1..] {
        assert!(text(&*store, key, at(0)).await.is_some(), "{key:?}");
    }
}

/// Names chosen so that some would be one and the same where parts are only strung together.
pub async fn t03_ids_and_names_do_not_run_together(fresh: &Fresh) {
    let store = fresh.open().await;
    let mut keys = Vec::new();
    for name in ["a", "aperson", "a\u{a0}person", "apersona", "person", "system", "systemperson"] {
        for id in ["", "a", "person", "persona", "session-client", ":", "}", "system"] {
            for kind in [Kind::Person, Kind::SessionClient, Kind::LogoutNotice] {
                keys.push(Key::new(&tenant(name), kind, id));
            }
        }
    }
    keys.extend(["", "a", "person", "persona"].map(|id| Key::system(Kind::Person, id)));
    for (n, key) in keys.iter().enumerate() {
        put(&*store, key, &n.to_string(), None).await;
    }
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(text(&*store, key, at(0)).await, Some(n.to_string()), "{key:?}");
        let expected = keys.iter().filter(|k| k.partition() == key.partition() && k.kind() == key.kind()).count();
        assert_eq!(ids(&*store, key.partition(), key.kind()).await.len(), expected, "{key:?}");
    }
}

pub async fn sweeping_removes_the_expired_only(fresh: &Fresh) {
    let store = fresh.open().await;
    for n in 0..10 {
        put(&*store, &Key::new(&tenant(&format!("t{n}")), Kind::Person, "x"), "x", Some(at(n))).await;
    }
    put(&*store, &key("for ever"), "x", None).await;
    put(&*store, &key("deleted"), "x", Some(at(1))).await;
    store.commit(Batch::new().delete(key("deleted")), at(0)).await.unwrap();
    assert_eq!(store.sweep(at(-1), 100).await.unwrap(), fresh.swept(0));
    assert_eq!(store.sweep(at(4), 3).await.unwrap(), fresh.swept(3));
    assert_eq!(store.sweep(at(4), 100).await.unwrap(), fresh.swept(2));
    assert_eq!(store.sweep(at(4), 100).await.unwrap(), fresh.swept(0));
    for n in 0..10 {
        let key = Key::new(&tenant(&format!("t{n}")), Kind::Person, "x");
        let when = if fresh.sweeps { at(-1) } else { at(4) };
        assert_eq!(text(&*store, &key, when).await.is_some(), n > 4, "{n}");
    }
    assert!(text(&*store, &key("for ever"), at(1_000_000)).await.is_some());
}

pub async fn sweeping_keeps_what_was_renewed(fresh: &Fresh) {
    let store = fresh.open().await;
    for id in ["later", "for ever", "again"] {
        put(&*store, &key(id), "old", Some(at(5))).await;
    }
    put(&*store, &key("later"), "new", Some(at(50))).await;
    put(&*store, &key("for ever"), "new", None).await;
    store.commit(Batch::new().delete(key("again")), at(0)).await.unwrap();
    put(&*store, &key("again"), "new", Some(at(60))).await;
    assert_eq!(store.sweep(at(10), 100).await.unwrap(), fresh.swept(0));
    for id in ["later", "for ever", "again"] {
        assert_eq!(text(&*store, &key(id), at(10)).await.as_deref(), Some("new"), "{id}");
    }
    assert_eq!(store.sweep(at(60), 100).await.unwrap(), fresh.swept(2));
}

pub async fn t38_fifty_at_once_have_one_winner(fresh: &Fresh) {
    let store = fresh.open().await;
    put(&*store, &key("token"), "0", None).await;
    let seen = version(&*store, &key("token")).await;
    let tasks: Vec<_> = (1..=50)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let batch = Batch::new()
                    .expect(key("token"), Expect::Version(seen))
                    .put(key("token"), n.to_string().into_bytes(), None)
                    .put(key(&format!("given-{n}")), vec![], None);
                (n, store.commit(batch, at(0)).await.unwrap())
            })
        })
        .collect();
    let mut winners = Vec::new();
    for task in tasks {
        let (n, outcome) = task.await.unwrap();
        if outcome == Outcome::Committed {
            winners.push(n.to_string());
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(text(&*store, &key("token"), at(0)).await.as_ref(), winners.first());
    assert_eq!(ids(&*store, &part("acme"), Kind::Person).await, [format!("given-{}", winners[0]), "token".to_owned()]);
}

pub async fn a_crowd_loses_no_write(fresh: &Fresh) {
    let store = fresh.open().await;
    put(&*store, &key("count"), "0", None).await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut added = 0;
                while added < 10 {
                    let entry = store.get(&key("count"), at(0)).await.unwrap().unwrap();
                    let count: u64 = String::from_utf8(entry.value).unwrap().parse().unwrap();
                    let batch = Batch::new().expect(key("count"), Expect::Version(entry.version)).put(
                        key("count"),
                        (count + 1).to_string().into(),
                        None,
                    );
                    if store.commit(batch, at(0)).await.unwrap() == Outcome::Committed {
                        added += 1;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(text(&*store, &key("count"), at(0)).await.as_deref(), Some("200"));
}

pub async fn which_records_there_are(fresh: &Fresh) {
    let store = fresh.open().await;
    put(&*store, &key("a"), "x", None).await;
    put(&*store, &key("b"), "x", Some(at(10))).await;
    let keys = [key("a"), key("absent"), key("b")];
    assert_eq!(store.present(&keys, at(9)).await.unwrap(), [true, false, true]);
    assert_eq!(store.present(&keys, at(10)).await.unwrap(), [true, false, false]);
}

pub async fn what_is_answered_is_read(fresh: &Fresh) {
    let store = fresh.open().await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for n in 0..25 {
                    let key = key(&format!("{task}-{n}"));
                    put(&*store, &key, "x", None).await;
                    assert!(text(&*store, &key, at(0)).await.is_some());
                    store.commit(Batch::new().delete(key.clone()), at(0)).await.unwrap();
                    assert!(text(&*store, &key, at(0)).await.is_none());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

pub async fn t39_versions_grow_over_restarts(fresh: &Fresh) {
    if !fresh.durable {
        let store = fresh.open().await;
        put(&*store, &key("a"), "x", None).await;
        drop(store);
        assert!(text(&*fresh.open().await, &key("a"), at(0)).await.is_none(), "a store in memory begins empty");
        return;
    }
    let mut last = 0;
    for _ in 0..3 {
        let store = fresh.open().await;
        if last > 0 {
            assert_eq!(version(&*store, &key("kept")).await, last);
            let stale = Batch::new().expect(key("kept"), Expect::Version(last - 1)).put(key("kept"), vec![], None);
            assert_eq!(store.commit(stale, at(0)).await.unwrap(), Outcome::Conflict);
        }
        put(&*store, &key("kept"), "x", None).await;
        put(&*store, &key("gone"), "x", None).await;
        store.commit(Batch::new().delete(key("gone")), at(0)).await.unwrap();
        put(&*store, &key("kept"), "x", None).await;
        let now = version(&*store, &key("kept")).await;
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}

/// A look at records that are watched holds for as long as nothing of it changes; a store may say at any time that it does not know.
pub async fn what_is_as_seen_has_not_changed(fresh: &Fresh) {
    let store = fresh.open().await;
    let session = |id: &str| Key::new(&tenant("acme"), Kind::Session, id);
    put(&*store, &session("a"), "x", None).await;
    put(&*store, &session("short"), "x", Some(at(10))).await;
    let keys = [session("a"), session("b"), session("short")];
    // A shared store needs a moment until it hears of changes.
    let mut tries = 0;
    let mark = loop {
        let (present, mark) = store.look(&keys, at(0)).await.unwrap();
        assert_eq!(present, [true, false, true]);
        if let Some(mark) = mark.filter(|mark| store.is_as_seen(mark, at(0))) {
            break mark;
        }
        tries += 1;
        assert!(tries < 200, "it never knows");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    assert!(!store.is_as_seen(&mark, at(10)), "one has expired");
    store.commit(Batch::new().delete(session("a")), at(0)).await.unwrap();
    assert!(!store.is_as_seen(&mark, at(0)), "what this very store deleted is known at once");
}

fn bucket(id: &str, burst: u32) -> Bucket {
    Bucket { id: id.to_owned(), rate: Rate::new(burst, Duration::seconds(10)) }
}

pub async fn a_bucket_holds_so_many_and_refills(counts: Arc<dyn Limits>) {
    let take = async |when: i64| counts.take(&[bucket("a", 3)], at(when)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(take(0).await, Ok(()));
    }
    assert_eq!(take(0).await, Err(Duration::seconds(10)));
    assert_eq!(take(4).await, Err(Duration::seconds(6)));
    assert_eq!(take(10).await, Ok(()));
    assert_eq!(take(10).await, Err(Duration::seconds(10)));
    assert_eq!(counts.take(&[bucket("b", 1)], at(10)).await.unwrap(), Ok(()), "another bucket");
}

pub async fn all_buckets_or_none(counts: Arc<dyn Limits>) {
    assert_eq!(counts.take(&[bucket("small", 1)], at(0)).await.unwrap(), Ok(()));
    for _ in 0..5 {
        assert_eq!(counts.take(&[bucket("large", 2), bucket("small", 1)], at(0)).await.unwrap(), Err(Duration::seconds(10)));
    }
    for _ in 0..2 {
        assert_eq!(counts.take(&[bucket("large", 2)], at(0)).await.unwrap(), Ok(()));
    }
}

pub async fn what_is_given_back_is_free(counts: Arc<dyn Limits>) {
    for _ in 0..20 {
        assert_eq!(counts.take(&[bucket("a", 1), bucket("b", 1)], at(0)).await.unwrap(), Ok(()));
        counts.give_back(&[bucket("a", 1), bucket("b", 1)], at(0)).await.unwrap();
    }
    counts.give_back(&[bucket("never", 1)], at(0)).await.unwrap();
    assert_eq!(counts.take(&[bucket("never", 1)], at(0)).await.unwrap(), Ok(()));
    assert!(counts.take(&[bucket("never", 1)], at(0)).await.unwrap().is_err(), "giving back makes no bucket larger");
}

pub async fn t38_a_crowd_gets_no_more_than_there_is(counts: Arc<dyn Limits>) {
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let counts = Arc::clone(&counts);
            tokio::spawn(async move { counts.take(&[bucket("a", 7)], at(0)).await.unwrap().is_ok() })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        taken += usize::from(task.await.unwrap());
    }
    assert_eq!(taken, 7);
}
