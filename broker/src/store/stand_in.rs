//! A store for tests: it counts what it is asked, refuses to write while it is told so, and can end in between.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{Batch, Entry, Key, Kind, Listing, Outcome, Partition, Store, StoreError, embedded::Embedded};

/// The embedded store in memory, and how often it was read and written.
pub(crate) struct StandIn {
    store: Embedded,
    pub(crate) reads: AtomicUsize,
    pub(crate) lists: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    /// How many commits more are carried out; then it is as if the program had ended.
    pub(crate) left: AtomicUsize,
    /// Whether it takes no writes.
    pub(crate) refuses: AtomicBool,
    /// Whether it lists nothing.
    pub(crate) is_gone: AtomicBool,
}

#[async_trait]
impl Store for StandIn {
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.get(key, now).await
    }
    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.present(keys, now).await
    }
    async fn commit(&self, batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("told so".into()));
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(StoreError::Unavailable("the program has ended".into()));
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.store.commit(batch, now).await
    }
    async fn list(
        &self,
        partition: &Partition,
        kind: Kind,
        cursor: Option<&str>,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Listing, StoreError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("told so".into()));
        }
        self.store.list(partition, kind, cursor, limit, now).await
    }
    async fn sweep(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.store.sweep(now, limit).await
    }
}

/// A fresh one, which takes everything.
pub(crate) fn stand_in() -> Arc<StandIn> {
    Arc::new(StandIn {
        store: Embedded::in_memory().unwrap(),
        reads: AtomicUsize::new(0),
        lists: AtomicUsize::new(0),
        commits: AtomicUsize::new(0),
        left: AtomicUsize::new(usize::MAX / 2),
        refuses: AtomicBool::new(false),
        is_gone: AtomicBool::new(false),
    })
}
