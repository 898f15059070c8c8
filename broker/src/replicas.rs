//! Which replicas serve from one store, and in which format they write.
//!
//! It owns the record of each replica that is alive, and the record of the format, which is raised once all of them read the next one and
//! never goes down. It does not own what a format is: `store/formats.rs`. A process that has its store for itself has no record of a
//! replica: nobody else can come in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{
    sync::{Mutex, broadcast::error::RecvError},
    time::Instant,
};
use uuid::Uuid;

use crate::{
    seams::{Clock, Seams},
    secret_text::random_uuid,
    store::{Batch, Expect, Format, Key, Kind, News, Outcome, Partition, Peers, Release, Store, StoreError, Versioned},
};

/// How long a replica counts as alive after it was heard last.
const ALIVE: Duration = Duration::seconds(15);
/// How often it is heard.
const HEARD_EVERY: std::time::Duration = std::time::Duration::from_secs(5);
/// How long the same replicas must have been heard, all of which read a format, until it is written. Longer than a replica needs to come
/// back whose record was lost with a server of the store.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(20);
/// How far the clocks of replicas may be apart, as for tokens.
pub const APART: Duration = Duration::MINUTE;

/// A replica that is alive. Each version reads this of each other one: parts are added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replica {
    /// Its id, new at each start.
    pub id: Uuid,
    /// The newest format that it reads.
    pub reads: Format,
    /// Its version.
    pub version: String,
    /// When it started, after RFC 3339.
    pub started_at: String,
}

/// In which format values are written. Each version reads this of each other one, as above.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The format.
    pub format: Format,
    /// The version that raised it.
    pub by: String,
}

/// This program may not serve from the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The store is in the form of a newer version.
    #[error(
        "the store is written in format {format} since Denizen {by}, and this is Denizen {own}, which reads formats up to {reads}: start Denizen {by} or a \
         later one; to go back, put back what the store held before {by}"
    )]
    TooOld {
        /// Its format.
        format: Format,
        /// By which version.
        by: String,
        /// This version.
        own: &'static str,
        /// What it reads.
        reads: Format,
    },
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// This replica among the others.
pub struct Replicas {
    /// Below the formats.
    store: Arc<dyn Store>,
    versioned: Arc<Versioned>,
    peers: Arc<dyn Peers>,
    clock: Arc<dyn Clock>,
    version: &'static str,
    own: Replica,
    agreed: Mutex<Option<Agreed>>,
}

/// What has been so for a while.
#[derive(Debug, Clone, Copy)]
struct Agreed {
    /// What all read.
    lowest: Format,
    /// The last time that one joined, as a version of the record of it.
    joined: Option<u64>,
    since: Instant,
}

impl std::fmt::Debug for Replicas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replicas").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Replicas {
    /// Joins the replicas on the store of these seams, and gives the store as this version knows it.
    ///
    /// # Errors
    /// When this version can not read the store, or it could not be told.
    pub async fn join(release: &Release, seams: &Seams) -> Result<(Self, Arc<dyn Store>), JoinError> {
        let versioned = Arc::new(Versioned::new(Arc::clone(&seams.store), release));
        let own = Replica {
            id: random_uuid(&*seams.entropy),
            reads: versioned.reads(),
            version: release.version.to_owned(),
            started_at: seams.clock.now().format(&Rfc3339).unwrap_or_default(),
        };
        let replicas = Self {
            store: Arc::clone(&seams.store),
            versioned: Arc::clone(&versioned),
            peers: Arc::clone(&seams.peers),
            clock: Arc::clone(&seams.clock),
            version: release.version,
            own,
            agreed: Mutex::new(None),
        };
        replicas.come_in().await?;
        Ok((replicas, (release.around)(versioned)))
    }

    /// First it is there, and then it looks: whoever raises the format meanwhile either sees it, or is seen.
    async fn come_in(&self) -> Result<(), JoinError> {
        let now = self.clock.now();
        if self.peers.may_be() {
            let value = serde_json::to_vec(&self.own).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
            let batch = Batch::new().put(self.own_key(), value, Some(now + ALIVE)).put(joined_key(), Vec::new(), None);
            self.store.commit(batch, now).await?;
        }
        if let Some((Written { format, by }, _)) = written(&*self.store, now).await? {
            self.versioned.write_in(format);
            let reads = self.own.reads;
            if format > reads {
                self.leave().await;
                return Err(JoinError::TooOld { format, by, own: self.version, reads });
            }
        }
        Ok(())
    }

    /// Is heard, and raises the format when it is time; until it is dropped.
    pub async fn run(&self) {
        if !self.peers.may_be() {
            if let Err(error) = self.raise(std::slice::from_ref(&self.own), None).await {
                tracing::error!(%error, "the next format of stored values could not be noted; the one before is written");
            }
            return;
        }
        let (mut news, mut turns) = (self.peers.hear(), tokio::time::interval(HEARD_EVERY));
        let (mut hears, mut failed) = (true, false);
        loop {
            tokio::select! {
                _ = turns.tick() => {}
                heard = news.recv(), if hears => match heard {
                    Ok(News::Changed(Kind::Format) | News::Missed) | Err(RecvError::Lagged(_)) => {}
                    Ok(_) => continue,
                    Err(RecvError::Closed) => {
                        hears = false;
                        continue;
                    }
                },
            }
            let done = self.turn().await;
            if let Err(error) = &done
                && !failed
            {
                tracing::error!(%error, "this replica could not say that it is alive; it goes on trying");
            }
            failed = done.is_err();
        }
    }

    /// Says that it is alive, takes up the format, and raises it when it is time.
    async fn turn(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        if let Some((Written { format, by }, _)) = written(&*self.store, now).await?
            && !self.versioned.write_in(format)
        {
            if format > self.own.reads {
                tracing::error!(%format, by, reads = %self.own.reads, "the store is written in a format that this version does not read: it answers nothing more");
            } else {
                tracing::info!(%format, by, "values are written in another format from now on");
            }
        }
        if self.versioned.is_left_behind() {
            return Ok(());
        }
        let value = serde_json::to_vec(&self.own).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        let batch = Batch::new().expect(self.own_key(), Expect::Present).put(self.own_key(), value, Some(now + ALIVE));
        if self.store.commit(batch, now).await? == Outcome::Conflict {
            // It was not heard for long, or the store lost it.
            return match self.come_in().await {
                Ok(()) | Err(JoinError::TooOld { .. }) => Ok(()),
                Err(JoinError::Store(error)) => Err(error),
            };
        }
        let joined = self.store.get(&joined_key(), now).await?.map(|entry| entry.version);
        // Whose clock is behind is alive for longer than it seems.
        let live = live(&*self.store, now - APART).await?;
        self.raise(&live, joined).await
    }

    /// Raises the format to what all of these read, where they have been the same for a while.
    async fn raise(&self, live: &[Replica], joined: Option<u64>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let before = written(&*self.store, now).await?;
        let format = before.as_ref().map_or(Format::FIRST, |(written, _)| written.format);
        let mut agreed = self.agreed.lock().await;
        let is_among = live.iter().any(|replica| replica.id == self.own.id);
        let Some(lowest) = live.iter().map(|replica| replica.reads).min().filter(|lowest| is_among && *lowest > format) else {
            *agreed = None;
            return Ok(());
        };
        let same = agreed.filter(|agreed| (agreed.lowest, agreed.joined) == (lowest, joined));
        let Agreed { since, .. } = *agreed.insert(same.unwrap_or(Agreed { lowest, joined, since: Instant::now() }));
        if self.peers.may_be() && since.elapsed() < SETTLED {
            return Ok(());
        }
        let to = Written { format: lowest, by: self.version.to_owned() };
        let value = serde_json::to_vec(&to).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        let is_as_seen = |version: Option<u64>| version.map_or(Expect::Absent, Expect::Version);
        let batch = Batch::new()
            .expect(written_key(), is_as_seen(before.map(|(_, version)| version)))
            .expect(joined_key(), is_as_seen(joined))
            .put(written_key(), value, None);
        *agreed = None;
        if self.store.commit(batch, now).await? == Outcome::Committed {
            self.versioned.write_in(lowest);
            tracing::info!(format = %lowest, "values are written in another format from now on: versions that do not read it can not start on this store");
        }
        Ok(())
    }

    /// Is heard no more: at the end, when all requests have been answered.
    pub async fn leave(&self) {
        if self.peers.may_be()
            && let Err(error) = self.store.commit(Batch::new().delete(self.own_key()), self.clock.now()).await
        {
            tracing::warn!(%error, "the others are not told that this replica has ended; they notice it in {ALIVE}");
        }
    }

    fn own_key(&self) -> Key {
        Key::system(Kind::Replica, self.own.id.to_string())
    }
}

fn written_key() -> Key {
    Key::system(Kind::Format, "written")
}

/// Is written whenever a replica joins.
fn joined_key() -> Key {
    Key::system(Kind::Format, "joined")
}

/// The replicas that are alive on a store. One whose record can not be read is there too, and reads the first format alone.
///
/// # Errors
/// When the store could not tell.
pub async fn live(store: &dyn Store, now: OffsetDateTime) -> Result<Vec<Replica>, StoreError> {
    let (mut live, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.list(&Partition::System, Kind::Replica, cursor.as_deref(), 1_000, now).await?;
        live.extend(page.entries.into_iter().map(|(id, entry)| {
            serde_json::from_slice(&entry.value).unwrap_or_else(|_| Replica {
                id: id.parse().unwrap_or_default(),
                reads: Format::FIRST,
                version: "unknown".to_owned(),
                started_at: String::new(),
            })
        }));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(live);
        }
    }
}

/// In which format a store is written, with the record's version; `None` where it was never raised: in the first.
///
/// # Errors
/// When the store could not tell, or what it says can not be read.
pub async fn written(store: &dyn Store, now: OffsetDateTime) -> Result<Option<(Written, u64)>, StoreError> {
    let entry = store.get(&written_key(), now).await?;
    let read = |entry: crate::store::Entry| serde_json::from_slice(&entry.value).map(|written| (written, entry.version));
    entry.map(read).transpose().map_err(|error| StoreError::Unavailable(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use async_trait::async_trait;
    use serde_json::json;
    use tokio::sync::broadcast;

    use super::*;
    use crate::{
        seams::SystemEntropy,
        store::{Step, Topic, embedded::Embedded},
    };

    struct Others;

    #[async_trait]
    impl Peers for Others {
        fn may_be(&self) -> bool {
            true
        }
        async fn tell(&self, _: Topic, _: &[u8]) -> Result<(), StoreError> {
            Ok(())
        }
        fn hear(&self) -> broadcast::Receiver<News> {
            broadcast::channel(1).1
        }
    }

    struct Seconds(AtomicI64);

    impl Clock for Seconds {
        fn now(&self) -> OffsetDateTime {
            OffsetDateTime::UNIX_EPOCH + Duration::seconds(1_700_000_000 + self.0.load(Ordering::SeqCst))
        }
    }

    static NEXT: Release =
        Release { version: "next", steps: &[Step { kind: Kind::Grant, to: Format::numbered(2), up: Ok, down: Ok }], ..Release::THIS };
    const TWO: Format = Format::numbered(2);

    /// A store, and the time on it.
    struct House {
        seams: Seams,
        clock: Arc<Seconds>,
    }

    impl House {
        fn new(alone: bool) -> Self {
            let clock = Arc::new(Seconds(AtomicI64::new(0)));
            let mut seams = Seams::alone(Arc::clone(&clock) as _, Arc::new(SystemEntropy), Arc::new(Embedded::in_memory().unwrap()));
            if !alone {
                seams.peers = Arc::new(Others);
            }
            Self { seams, clock }
        }
        async fn join(&self, release: &Release) -> Result<Replicas, JoinError> {
            Replicas::join(release, &self.seams).await.map(|(replicas, _)| replicas)
        }
        /// So many seconds pass, in steps of five, in which these say that they are alive.
        async fn pass(&self, seconds: i64, live: &[&Replicas]) {
            for _ in 0..seconds / 5 {
                self.clock.0.fetch_add(5, Ordering::SeqCst);
                tokio::time::advance(HEARD_EVERY).await;
                for replica in live {
                    replica.turn().await.unwrap();
                }
            }
        }
        async fn format(&self) -> Format {
            written(&*self.seams.store, self.clock.now()).await.unwrap().map_or(Format::FIRST, |(written, _)| written.format)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_format_is_raised_when_all_have_been_of_the_next_version_for_a_while() {
        let house = House::new(false);
        let (old, next) = (house.join(&Release::THIS).await.unwrap(), house.join(&NEXT).await.unwrap());
        assert_eq!(live(&*house.seams.store, house.clock.now()).await.unwrap().len(), 2);
        house.pass(300, &[&old, &next]).await;
        assert_eq!((house.format().await, next.versioned.writes()), (Format::FIRST, Format::FIRST));
        old.leave().await;
        house.pass(15, &[&next]).await;
        assert_eq!(house.format().await, Format::FIRST, "one may come back");
        let again = house.join(&Release::THIS).await.unwrap();
        house.pass(60, &[&next, &again]).await;
        assert_eq!(house.format().await, Format::FIRST);
        again.leave().await;
        let other = house.join(&NEXT).await.unwrap();
        house.pass(30, &[&next, &other]).await;
        assert_eq!(house.format().await, TWO);
        assert_eq!((next.versioned.writes(), other.versioned.writes()), (TWO, TWO));
        assert_eq!(house.join(&NEXT).await.unwrap().versioned.writes(), TWO, "one that comes later writes so at once");
        let refused = house.join(&Release::THIS).await.unwrap_err().to_string();
        assert!(refused.contains("format 2 since Denizen next") && refused.contains("start Denizen next"), "{refused}");
        assert!(live(&*house.seams.store, house.clock.now()).await.unwrap().iter().all(|r| r.version == "next"), "it has left again");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_killed_counts_for_as_long_as_clocks_may_be_apart() {
        let house = House::new(false);
        let (_killed, next) = (house.join(&Release::THIS).await.unwrap(), house.join(&NEXT).await.unwrap());
        house.pass(70, &[&next]).await;
        assert_eq!(house.format().await, Format::FIRST);
        house.pass(40, &[&next]).await;
        assert_eq!(house.format().await, TWO);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_away_meanwhile_answers_nothing_more() {
        let house = House::new(false);
        let (frozen, next) = (house.join(&Release::THIS).await.unwrap(), house.join(&NEXT).await.unwrap());
        house.pass(120, &[&next]).await;
        assert_eq!(house.format().await, TWO);
        frozen.turn().await.unwrap();
        let key = Key::system(Kind::Attempt, "1");
        assert!(matches!(frozen.versioned.get(&key, house.clock.now()).await, Err(StoreError::Newer { .. })));
        assert!(next.versioned.get(&key, house.clock.now()).await.is_ok());
        frozen.turn().await.unwrap();
        assert_eq!(live(&*house.seams.store, house.clock.now()).await.unwrap().len(), 1, "it is not among those alive");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_the_store_lost_comes_in_again_and_is_waited_for() {
        let house = House::new(false);
        let (old, next) = (house.join(&Release::THIS).await.unwrap(), house.join(&NEXT).await.unwrap());
        house.seams.store.commit(Batch::new().delete(old.own_key()), house.clock.now()).await.unwrap();
        house.pass(10, &[&next]).await;
        house.pass(120, &[&next, &old]).await;
        assert_eq!((house.format().await, live(&*house.seams.store, house.clock.now()).await.unwrap().len()), (Format::FIRST, 2));
    }

    /// Between the look at who is there and the commit, someone joins.
    #[tokio::test(start_paused = true)]
    async fn t38_one_that_joins_while_the_format_is_raised_is_seen_or_sees() {
        let house = House::new(false);
        let next = house.join(&NEXT).await.unwrap();
        let now = house.clock.now();
        let joined = next.store.get(&joined_key(), now).await.unwrap().map(|entry| entry.version);
        let seen = live(&*next.store, now).await.unwrap();
        next.raise(&seen, joined).await.unwrap();
        tokio::time::advance(SETTLED).await;
        let old = house.join(&Release::THIS).await.unwrap();
        next.raise(&seen, joined).await.unwrap();
        assert_eq!((house.format().await, next.versioned.writes()), (Format::FIRST, Format::FIRST));
        old.leave().await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_can_not_be_understood_reads_the_first_format_alone() {
        let house = House::new(false);
        let next = house.join(&NEXT).await.unwrap();
        let strange = Batch::new().put(Key::system(Kind::Replica, "strange"), b"?".to_vec(), None);
        house.seams.store.commit(strange, house.clock.now()).await.unwrap();
        house.pass(120, &[&next]).await;
        assert_eq!(house.format().await, Format::FIRST);
        let broken = Batch::new().put(written_key(), json!({"format": 300}).to_string().into_bytes(), None);
        house.seams.store.commit(broken, house.clock.now()).await.unwrap();
        assert!(matches!(house.join(&Release::THIS).await, Err(JoinError::Store(_))), "what can not be told is not the first format");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_alone_writes_the_next_format_once_it_serves() {
        let house = House::new(true);
        let next = house.join(&NEXT).await.unwrap();
        assert_eq!(house.format().await, Format::FIRST, "a command changes nothing");
        next.run().await;
        assert_eq!((house.format().await, next.versioned.writes()), (TWO, TWO));
        assert_eq!(live(&*house.seams.store, house.clock.now()).await.unwrap(), []);
        assert!(matches!(house.join(&Release::THIS).await, Err(JoinError::TooOld { .. })));
    }
}
