//! A store for tests: it counts what it is asked, refuses to write while it is told so, can end in between, and leaves commits in
//! doubt. Where several replicas stand on it, it is what connects them, and can be told to keep quiet.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use time::OffsetDateTime;
use tokio::sync::{Notify, broadcast};

use super::{Batch, Entry, Key, Kind, Listing, Mark, News, Outcome, Partition, Peers, Store, StoreError, Topic, embedded::Embedded};

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
    /// What becomes of the next commits that write a record of a kind, in this order.
    pub(crate) fates: Mutex<VecDeque<(Kind, Fate)>>,
    late: Mutex<Vec<(Batch, OffsetDateTime)>>,
    /// Lets a commit go on that is [`Fate::Held`].
    pub(crate) go_on: Notify,
    /// Told when a commit has met [`Fate::Held`] or [`Fate::Silent`].
    pub(crate) has_stopped: Notify,
    /// Whether it lists nothing.
    pub(crate) is_gone: AtomicBool,
    /// Whether it tells nobody anything.
    pub(crate) is_quiet: AtomicBool,
    news: broadcast::Sender<News>,
}

/// What becomes of a commit whose answer can not be relied upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out, and the answer says that it failed.
    Unanswered,
    /// It is not carried out, and the answer says that it failed.
    Lost,
    /// The answer says that it failed, and it is carried out later: at [`StandIn::late_ones_arrive`].
    Late,
    /// It is carried out, and never answered.
    Silent,
    /// It waits before it is carried out, until it may go on, and is then answered as it is.
    Held,
}

impl StandIn {
    /// The next commit that writes a record of this kind meets this.
    pub(crate) fn will(&self, kind: Kind, fate: Fate) {
        self.fates.lock().unwrap().push_back((kind, fate));
    }

    /// Carries out what is late: what comes of each.
    pub(crate) async fn late_ones_arrive(&self) -> Vec<Outcome> {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut outcomes = Vec::new();
        for (batch, now) in late {
            outcomes.push(self.store.commit(batch, now).await.unwrap());
        }
        outcomes
    }

    fn fate_of(&self, batch: &Batch) -> Option<Fate> {
        let mut fates = self.fates.lock().unwrap();
        let writes = |kind| batch.changed().any(|key| key.kind() == kind);
        let next = fates.iter().position(|(kind, _)| writes(*kind))?;
        fates.remove(next).map(|(_, fate)| fate)
    }
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
        let failed = || StoreError::Unavailable("no answer came".into());
        let fate = self.fate_of(&batch);
        let changed: BTreeSet<_> = batch.changed().map(Key::kind).filter(|kind| kind.is_told()).collect();
        let answer = match fate {
            None => self.store.commit(batch, now).await,
            Some(Fate::Unanswered) => self.store.commit(batch, now).await.and(Err(failed())),
            Some(Fate::Lost) => Err(failed()),
            Some(Fate::Late) => {
                self.late.lock().unwrap().push((batch, now));
                Err(failed())
            }
            Some(Fate::Silent) => {
                self.store.commit(batch, now).await?;
                self.has_stopped.notify_one();
                std::future::pending().await
            }
            Some(Fate::Held) => {
                self.has_stopped.notify_one();
                self.go_on.notified().await;
                self.store.commit(batch, now).await
            }
        };
        changed.into_iter().filter(|_| matches!(answer, Ok(Outcome::Committed))).for_each(|kind| self.say(News::Changed(kind)));
        answer
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
        lists: AtomicUsize::new(0),
        commits: AtomicUsize::new(0),
        left: AtomicUsize::new(usize::MAX / 2),
        refuses: AtomicBool::new(false),
        fates: Mutex::default(),
        late: Mutex::default(),
        go_on: Notify::new(),
        has_stopped: Notify::new(),
        is_gone: AtomicBool::new(false),
        is_quiet: AtomicBool::new(false),
        news: broadcast::channel(64).0,
    })
}
