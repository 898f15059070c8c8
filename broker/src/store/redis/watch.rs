//! Whether what was seen is still so, by what is heard: how marks are made and how long they hold. `watch/hearing.rs` owns the connection
//! on which a primary is heard.
//!
//! What makes it right: whoever commits publishes the keys in the same script, at the primary that owns them. On one connection messages and
//! answers come in the order in which the server made them, so an answer to a question that was sent at a moment proves that all that was
//! published before that moment has been heard. A mark holds while the counts of its keys are as they were before the look, no primary was
//! lost from hearing since, and of *every* primary the last such proof is younger than [`HOLDS`]. With Sentinel the same is asked of the
//! sentinels: a primary that was replaced and does not know it would prove whatever it likes.

mod hearing;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use redis::PushInfo;
use tokio::{sync::broadcast, time::Instant};

pub(super) use self::hearing::Hearing;
use super::{
    connecting::Connection,
    message::{self, Digest, Message},
    recent::Recent,
};
use crate::store::{News, Peers, StoreError, Topic, changes::Changes};

/// For how long a proof holds.
const HOLDS: Duration = Duration::from_secs(1);
/// How much news waits for whoever is slow to take it.
const NEWS: usize = 1_024;

/// What is watched of all primaries.
pub(super) struct Watch {
    channel: String,
    changes: Changes,
    primaries: ArcSwap<Vec<Arc<Primary>>>,
    /// When the sentinels were last asked that said where the primary is; `None` where there are none.
    confirmed: Option<Moment>,
    begun: Instant,
    news: broadcast::Sender<News>,
    recent: Option<Recent>,
}

/// A moment, or none yet.
#[derive(Debug, Default)]
struct Moment(AtomicU64);

impl Moment {
    /// Later ones only: an answer may come after that of a later question.
    fn set(&self, micros: u64) {
        self.0.fetch_max(micros.saturating_add(1), Ordering::AcqRel);
    }
    fn unset(&self) {
        self.0.store(0, Ordering::Release);
    }
    fn get(&self) -> Option<u64> {
        self.0.load(Ordering::Acquire).checked_sub(1)
    }
}

/// What is known of one primary.
#[derive(Debug, Default)]
pub(super) struct Primary {
    /// When the last question was sent that it has answered since we hear it.
    proven: Moment,
    /// Whether it is being heard: subscribed, and proven at least once.
    is_heard: AtomicBool,
    connection: ArcSwapOption<Connection>,
}

/// The counts that a look depends on, taken before it.
pub(super) type Counts = Vec<(usize, u64)>;

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch {
    /// Hears nothing yet. `has_sentinels`: marks hold only while [`Self::confirm`] is called. `remembers`: keeps what changed of late
    /// ([`Recent`]).
    pub(super) fn new(channel: String, has_sentinels: bool, remembers: bool) -> Self {
        Self {
            channel,
            changes: Changes::new(),
            primaries: ArcSwap::default(),
            confirmed: has_sentinels.then(Moment::default),
            begun: Instant::now(),
            news: broadcast::channel(NEWS).0,
            recent: remembers.then(Recent::default),
        }
    }

    /// To be called before a look at these records is sent; `None` where what changes after it might not be heard.
    pub(super) fn before_look<'a>(&self, keys: impl IntoIterator<Item = &'a Digest>) -> Option<Counts> {
        // The counts first: if a primary is lost after this, or replaced, they are no longer as they were.
        let counts = [self.changes.count_of_all()].into_iter().chain(keys.into_iter().map(|key| self.changes.count(key))).collect();
        let primaries = self.primaries.load();
        let all_heard = !primaries.is_empty() && primaries.iter().all(|primary| primary.is_heard.load(Ordering::Acquire));
        all_heard.then_some(counts)
    }

    /// Whether surely nothing that these counts stand for has changed until [`HOLDS`] before now.
    pub(super) fn is_as_counted(&self, counts: &[(usize, u64)]) -> bool {
        // The proofs first: what they prove to have been heard is counted already.
        let now = self.micros(Instant::now());
        let holds = |moment: &Moment| moment.get().is_some_and(|sent| now.saturating_sub(sent) < micros(HOLDS));
        let primaries = self.primaries.load();
        let is_proven = !primaries.is_empty()
            && primaries.iter().all(|primary| primary.is_heard.load(Ordering::Acquire) && holds(&primary.proven))
            && self.confirmed.as_ref().is_none_or(holds);
        is_proven && counts.iter().all(|counted| self.changes.is_still(*counted))
    }

    /// A commit of our own has changed this, or may have: to be called before it is answered.
    pub(super) fn touch(&self, key: &Digest) {
        self.changes.touch(key);
    }

    /// What changed of late, where that is remembered.
    pub(super) const fn recent(&self) -> Option<&Recent> {
        self.recent.as_ref()
    }

    /// The sentinels, asked at this moment, say that the primary is where we hear it.
    pub(super) fn confirm(&self, asked: Instant) {
        if let Some(confirmed) = &self.confirmed {
            confirmed.set(self.micros(asked));
        }
    }

    /// From now on these are the primaries. To be called before anything is asked of one that is new.
    pub(super) fn set_primaries(&self, primaries: Vec<Arc<Primary>>) {
        self.primaries.store(Arc::new(primaries));
        // After it: who took the counts before knew the old ones.
        self.lose();
    }

    /// It is no longer known what has changed.
    fn lose(&self) {
        self.changes.touch_all();
    }

    /// What a primary says unasked.
    fn hear(&self, push: &PushInfo) {
        let Some(bytes) = message_in(push, self.channel.as_bytes()) else { return };
        match message::parse(bytes) {
            Some(Message::Records(records)) => {
                for (digest, change) in records {
                    if let Some(recent) = &self.recent {
                        recent.note(digest, change);
                    }
                    self.changes.touch(&digest);
                }
            }
            Some(Message::Changed(kind)) => self.say(News::Changed(kind)),
            Some(Message::Told(topic, text)) => self.say(News::Told(topic, text)),
            Some(Message::Newer) => {}
            None => {
                tracing::warn!(bytes = bytes.len(), "a message on the channel of the store can not be read: everything is looked at again");
                self.lose();
                self.say(News::Missed);
            }
        }
    }

    fn say(&self, news: News) {
        // Without anyone who hears there is no one to tell.
        _ = self.news.send(news);
    }

    /// Microseconds since the beginning.
    fn micros(&self, at: Instant) -> u64 {
        micros(at.saturating_duration_since(self.begun))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The bytes of a message on this channel.
fn message_in<'a>(push: &'a PushInfo, channel: &[u8]) -> Option<&'a [u8]> {
    use redis::{PushKind, Value::BulkString};
    match push.data.as_slice() {
        [BulkString(on), BulkString(bytes)] if push.kind == PushKind::Message && on == channel => Some(bytes),
        _ => None,
    }
}

#[async_trait]
impl Peers for Watch {
    fn may_be(&self) -> bool {
        true
    }

    async fn tell(&self, topic: Topic, text: &[u8]) -> Result<(), StoreError> {
        let primaries = self.primaries.load_full();
        let connection = primaries.iter().find_map(|primary| primary.connection.load_full());
        let Some(connection) = connection else {
            return Err(StoreError::Unavailable("no server is heard, so none can be told".into()));
        };
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&self.channel).arg(message::telling(topic, text));
        publish.query_async(&mut Connection::clone(&connection)).await.map_err(|error| StoreError::Unavailable(Box::new(error)))
    }

    fn hear(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }
}
