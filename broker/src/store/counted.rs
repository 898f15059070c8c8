//! A store for tests that counts what it is asked, and can end in between.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{Batch, Entry, Key, Kind, Listing, Outcome, Partition, Store, StoreError, embedded::Embedded};

/// The embedded store, and how often it was read and written.
pub(crate) struct Counted {
    store: Embedded,
    pub(crate) reads: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    /// How many commits more are carried out; then it is as if the program had ended.
    pub(crate) left: AtomicUsize,
}

#[async_trait]
impl Store for Counted {
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.get(key, now).await
    }
    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.present(keys, now).await
    }
    async fn commit(&self, batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
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
        self.store.list(partition, kind, cursor, limit, now).await
    }
    async fn sweep(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.store.sweep(now, limit).await
    }
}

/// A fresh one, without end.
pub(crate) fn counted() -> Arc<Counted> {
    Arc::new(Counted {
        store: Embedded::in_memory().unwrap(),
        reads: AtomicUsize::new(0),
        commits: AtomicUsize::new(0),
        left: AtomicUsize::new(usize::MAX / 2),
    })
}
