//! A store for tests: it counts what it is asked, refuses to write while it is told so, and can end in between. Where several replicas stand on
//! it, it is what connects them, and can be told to keep quiet.

use std::collections::BTreeSet;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use time::OffsetDateTime;

use tokio::sync::broadcast;

use super::{Batch, Entry, Key, Kind, Listing, Mark, News, Outcome, Partition, Peers, Store, StoreError, Topic, embedded::Embedded};

/// The embedded store in memory, and how often it was read and written.
pub(crate) struct StandIn {
    store: Embedded,
    pub(crate) reads: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    /// How many commits more are carried out; then it is as if the program had ended.
    pub(crate) left: AtomicUsize,
    /// Whether it takes no writes.
    pub(crate) refuses: AtomicBool,
    /// Whether it tells nobody anything.
    pub(crate) is_quiet: AtomicBool,
    news: broadcast::Sender<News>,
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
    async fn look(&self, keys: &[Key], now: OffsetDateTime) -> Result<(Vec<bool>, Option<Mark>), StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.look(keys, now).await
    }
    fn is_as_seen(&self, mark: &Mark, now: OffsetDateTime) -> bool {
        self.store.is_as_seen(mark, now)
    }
    async fn commit(&self, batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("told so".into()));
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(StoreError::Unavailable("the program has ended".into()));
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        let changed = batch.put.iter().map(|(key, ..)| key.kind()).chain(batch.delete.iter().map(Key::kind));
        let changed: BTreeSet<_> = changed.filter(|kind| kind.is_told()).collect();
        let outcome = self.store.commit(batch, now).await?;
        changed.into_iter().filter(|_| outcome == Outcome::Committed).for_each(|kind| self.say(News::Changed(kind)));
        Ok(outcome)
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

impl StandIn {
    /// Tells all who hear.
    pub(crate) fn say(&self, news: News) {
        if !self.is_quiet.load(Ordering::SeqCst) {
            _ = self.news.send(news);
        }
    }
}

#[async_trait]
impl Peers for StandIn {
    fn may_be(&self) -> bool {
        true
    }
    async fn tell(&self, topic: Topic, text: &[u8]) -> Result<(), StoreError> {
        self.say(News::Told(topic, text.to_vec()));
        Ok(())
    }
    fn hear(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }
}

/// A fresh one, which takes everything.
pub(crate) fn stand_in() -> Arc<StandIn> {
    Arc::new(StandIn {
        store: Embedded::in_memory().unwrap(),
        reads: AtomicUsize::new(0),
        commits: AtomicUsize::new(0),
        left: AtomicUsize::new(usize::MAX / 2),
        refuses: AtomicBool::new(false),
        is_quiet: AtomicBool::new(false),
        news: broadcast::channel(64).0,
    })
}
