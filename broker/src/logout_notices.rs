//! Sign-outs that clients are to be told of (OpenID Connect Back-Channel Logout 1.0): the outbox, which outlives a restart.
//!
//! It owns the records and their order. Who writes them is [`Ending`](crate::login::Ending); `logout_notices/delivery.rs` sends them.

mod delivery;
mod turn;

use std::{sync::Arc, time::Duration};

use claims_mapping::TenantId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::sync::Notify;
use uuid::Uuid;

pub use delivery::{Deliveries, DeliveryParts};

use crate::{
    secret_text::fingerprint,
    store::{Batch, Expect, Key, Kind, Partition, Store, StoreError},
};

/// How long after each failed try the next one comes, in seconds. After one more, the client is given up.
const WAITS: [i64; 6] = [1, 5, 30, 120, 600, 3_600];

/// The most notices of one client that are taken up at once: one look at a long outbox keeps few of them in memory.
const MOST_OF_ONE_CLIENT: usize = 64;

/// One client that is to be told of the end of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The session's tenant.
    pub tenant: TenantId,
    /// The client.
    pub client_id: String,
    /// The session, as the client's ID tokens name it.
    pub sid: Uuid,
    /// Whose session it was.
    pub sub: Uuid,
    /// How often it failed.
    pub attempts: usize,
}

/// What the outbox holds at a moment.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// What is to be sent, the oldest first, at most 64 of each client.
    pub(crate) notices: Vec<(String, Notice)>,
    /// Until the next one is due.
    pub(crate) next: Option<Duration>,
}

/// The outbox. Its ids begin with the time at which they are due, so that those are read first.
#[derive(Clone)]
pub struct Outbox {
    store: Arc<dyn Store>,
    written: Arc<Notify>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outbox")
    }
}

impl Outbox {
    /// The outbox in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, written: Arc::default() }
    }

    /// Puts in what is to be sent at once. To put one in twice at the same time is to put it in once.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn put(&self, notices: &[Notice], now: OffsetDateTime) -> Result<(), StoreError> {
        if notices.is_empty() {
            return Ok(());
        }
        let batch = notices.iter().fold(Batch::new(), |batch, notice| batch.put(key(&id(notice, millis(now))), value(notice), None));
        self.store.commit(batch, now).await.map(drop)
    }

    /// Has them sent without delay.
    pub fn wake(&self) {
        self.written.notify_one();
    }

    /// Done when [`Self::wake`] was called.
    async fn woken(&self) {
        self.written.notified().await;
    }

    /// What is to be sent at this time.
    ///
    /// # Errors
    /// When the store could not tell.
    pub(crate) async fn due(&self, now: OffsetDateTime) -> Result<Due, StoreError> {
        let mut due = Due::default();
        let mut of_client = std::collections::HashMap::<String, usize>::new();
        let mut cursor = None;
        loop {
            let page = self.store.list(&Partition::System, Kind::LogoutNotice, cursor.as_deref(), 1_000, now).await?;
            for (id, entry) in page.entries {
                let at = id.split_once('.').and_then(|(at, _)| at.parse::<i64>().ok()).unwrap_or_default();
                let wait = at.saturating_sub(millis(now));
                if let Ok(wait @ 1..) = u64::try_from(wait) {
                    due.next = Some(Duration::from_millis(wait));
                    return Ok(due);
                }
                let Ok(notice) = serde_json::from_slice::<Notice>(&entry.value) else {
                    tracing::error!("a logout notice in the store is broken; it is dropped");
                    self.settle(&id, now).await?;
                    continue;
                };
                let count = of_client.entry(notice.client_id.clone()).or_default();
                *count += 1;
                if *count <= MOST_OF_ONE_CLIENT {
                    due.notices.push((id, notice));
                }
            }
            match page.next {
                None => return Ok(due),
                next => cursor = next,
            }
        }
    }

    /// It is done with.
    async fn settle(&self, id: &str, now: OffsetDateTime) -> Result<(), StoreError> {
        self.store.commit(Batch::new().delete(key(id)), now).await.map(drop)
    }

    /// It failed once more: when it is tried again, or `None` where it is given up.
    async fn postpone(&self, id: &str, notice: &Notice, now: OffsetDateTime) -> Result<Option<i64>, StoreError> {
        let Some(wait) = WAITS.get(notice.attempts) else {
            self.settle(id, now).await?;
            return Ok(None);
        };
        let notice = Notice { attempts: notice.attempts + 1, ..notice.clone() };
        let later = key(&self::id(&notice, millis(now).saturating_add(wait * 1_000)));
        let batch = Batch::new().expect(key(id), Expect::Present).delete(key(id)).put(later, value(&notice), None);
        self.store.commit(batch, now).await?;
        Ok(Some(*wait))
    }
}

/// Milliseconds since 1970.
fn millis(now: OffsetDateTime) -> i64 {
    i64::try_from(now.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Sorts by the time at which it is due, and names session and client.
fn id(notice: &Notice, due: i64) -> String {
    format!("{due:016}.{}.{}", notice.sid, fingerprint(&notice.client_id))
}

fn key(id: &str) -> Key {
    Key::system(Kind::LogoutNotice, id)
}

fn value(notice: &Notice) -> Vec<u8> {
    serde_json::to_vec(notice).unwrap_or_default()
}
