//! When the next key is made, and by which replica; and what is sealed anew.
//!
//! One replica at a time holds the lease `keys`, and what it writes is fenced by it: a lease that was lost, for whatever reason, writes
//! nothing. So clocks that differ make no key twice. A process that has its store for itself needs no lease.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use time::{Duration, OffsetDateTime};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    keys::{KeyError, StoredKey},
    ring::{KeyRing, Stored},
};
use crate::{
    config::{KeysConfig, Lifetimes, SigningAlgorithm, seconds},
    store::{Batch, Expect, Key, Kind, Lease, Outcome},
};

/// How long the turn to make keys lasts at most.
const TURN: Duration = Duration::seconds(20);
/// How long after it was made all replicas surely publish a key: each takes up what there is once a minute, and their clocks differ by
/// a minute at most.
const TAKEN_UP: Duration = Duration::minutes(2);
/// How long a start waits for the replica that makes the first keys: its turn, by a clock that is a minute ahead, and a little.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(90);
/// How often it looks meanwhile.
const LOOK: std::time::Duration = std::time::Duration::from_millis(100);

/// When keys sign and are published.
pub(super) struct Schedule {
    rotation: Duration,
    overlap: Duration,
    /// How long after its last signature a key is still published: the longest token's life, and the overlap.
    afterlife: Duration,
    pub(super) algorithms: BTreeSet<SigningAlgorithm>,
}

impl Schedule {
    pub(super) fn new(keys: &KeysConfig, lifetimes: &Lifetimes) -> Self {
        let longest = lifetimes.access_token_seconds.max(lifetimes.id_token_seconds);
        Self {
            rotation: seconds(keys.rotation_seconds),
            overlap: seconds(keys.overlap_seconds),
            afterlife: seconds(longest) + seconds(keys.overlap_seconds),
            algorithms: keys.algorithms.clone(),
        }
    }

    /// From when the next key of an algorithm is to sign, where it is to be made now; `until` is when the last one ends.
    fn next(&self, until: Option<OffsetDateTime>, now: OffsetDateTime) -> Option<OffsetDateTime> {
        let Some(until) = until else { return Some(now) };
        if until - self.overlap - TAKEN_UP > now {
            return None;
        }
        // Where it comes late, the one before goes on signing till the others have it: it stays published for long enough.
        let known = now + TAKEN_UP;
        Some(if known <= until + self.overlap { until.max(known) } else { until.max(now) })
    }

    /// What is to be made now, given what there is.
    fn due(&self, stored: &[Stored], now: OffsetDateTime) -> Vec<(SigningAlgorithm, OffsetDateTime)> {
        let last = |algorithm| {
            let ends = stored.iter().filter(|stored| stored.key.algorithm == algorithm).map(|stored| stored.key.signs_until);
            ends.max().and_then(|until| OffsetDateTime::from_unix_timestamp(until).ok())
        };
        self.algorithms.iter().filter_map(|&algorithm| Some((algorithm, self.next(last(algorithm), now)?))).collect()
    }
}

impl KeyRing {
    /// Makes the keys that the schedule asks for, unless another replica does, and takes up what the store holds. At start it also seals
    /// anew what lies in the clear or under an older key; later that would undo what a replica with a newer file did. Called at start
    /// and about once a minute. A key is published one overlap before it
    /// signs, so that a verifier that caches the key set knows it in time; where there is none at all, the first signs at once.
    ///
    /// # Errors
    /// When the store could not tell, holds a broken key or one that can not be opened, or a key can not be made. The keys in force
    /// stay.
    pub async fn rotate(&self, now: OffsetDateTime) -> Result<(), KeyError> {
        let stored = self.read_and_look(now).await?;
        if !self.wants_to_seal.load(Ordering::Relaxed) && self.schedule.due(&stored, now).is_empty() {
            return Ok(());
        }
        match self.holder {
            None => self.work(None, now).await?,
            Some(holder) => self.work_in_turn(holder, now).await?,
        }
        self.read_and_look(now).await.map(drop)
    }

    async fn read_and_look(&self, now: OffsetDateTime) -> Result<Vec<Stored>, KeyError> {
        let (stored, all_lie_as_they_should) = self.read(now).await?;
        if all_lie_as_they_should {
            self.wants_to_seal.store(false, Ordering::Relaxed);
        }
        Ok(stored)
    }

    /// The first rotation: it ends when there is a key to sign with.
    pub(super) async fn begin(&self, now: OffsetDateTime) -> Result<(), KeyError> {
        let begun = Instant::now();
        loop {
            let at = now + begun.elapsed();
            self.rotate(at).await?;
            if self.schedule.algorithms.iter().all(|algorithm| self.signing(*algorithm, at.unix_timestamp()).is_some()) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(KeyError::Turn(PATIENCE.as_secs()));
            }
            sleep(LOOK).await;
        }
    }

    async fn work_in_turn(&self, holder: Uuid, now: OffsetDateTime) -> Result<(), KeyError> {
        let Some(lease) = Lease::take(&*self.store, "keys", holder, TURN, now).await? else { return Ok(()) };
        let worked = self.work(Some(&lease), now).await;
        if let Err(error) = lease.give_back(&*self.store, now).await {
            tracing::warn!(%error, "the turn to make signing keys ends by itself");
        }
        worked
    }

    /// What is to be done is seen anew: another may have done it before this turn.
    async fn work(&self, lease: Option<&Lease>, now: OffsetDateTime) -> Result<(), KeyError> {
        let fenced = |batch: Batch| lease.map_or(batch.clone(), |lease| lease.fence(batch));
        let stored = self.load(now).await?;
        let to_seal = if self.wants_to_seal.load(Ordering::Relaxed) { stored.as_slice() } else { &[] };
        for Stored { slot, version, key } in to_seal {
            let Some(anew) = key.anew(slot, &self.sealing)? else { continue };
            let (at, batch) = self.put(&anew, slot)?;
            if self.store.commit(fenced(batch.expect(at, Expect::Version(*version))), now).await? == Outcome::Committed {
                if key.is_in_the_clear() {
                    tracing::warn!(
                        key = slot,
                        "a signing key lay in the clear until now; copies of the store from before still have it so"
                    );
                }
                tracing::info!(key = slot, "sealed a signing key with the first key of store.sealingKeyFile");
            }
        }
        for (algorithm, from) in self.schedule.due(&stored, now) {
            let until = from + self.schedule.rotation;
            // The slot is named by its beginning: of two processes that make it at once without turns, one wins.
            let slot = format!("{algorithm:?}-{}", from.unix_timestamp()).to_lowercase();
            let key = StoredKey::generate(algorithm, [from, until, until + self.schedule.afterlife], &slot, &self.sealing)?;
            let (at, batch) = self.put(&key, &slot)?;
            if self.store.commit(fenced(batch.expect(at, Expect::Absent)), now).await? == Outcome::Committed {
                tracing::info!(algorithm = ?algorithm, signs_from = %from, "made a signing key");
            }
        }
        Ok(())
    }

    fn put(&self, key: &StoredKey, slot: &str) -> Result<(Key, Batch), KeyError> {
        let value = serde_json::to_vec(key).map_err(|_| KeyError::Generate(key.algorithm))?;
        let at = Key::system(Kind::SigningKey, slot);
        let until = OffsetDateTime::from_unix_timestamp(key.published_until).map_err(|_| KeyError::Generate(key.algorithm))?;
        Ok((at.clone(), Batch::new().put(at, value, Some(until))))
    }
}
