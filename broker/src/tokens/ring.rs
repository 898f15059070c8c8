//! The keys in force: which one signs, which ones are published, when the next one is made.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::JwkSet;
use time::{Duration, OffsetDateTime};

use super::keys::{KeyError, SigningKey, StoredKey};
use crate::{
    config::{KeysConfig, Lifetimes, SigningAlgorithm, seconds},
    store::{Batch, Expect, Key, Kind, Outcome, Partition, Store},
};

/// The keys in force. They live in the store, so that a restart and, later, another replica sign with the same ones.
pub struct KeyRing {
    schedule: Schedule,
    current: ArcSwap<Ring>,
}

struct Schedule {
    rotation: Duration,
    overlap: Duration,
    /// How long after its last signature a key is still published: the longest token's life, and the overlap.
    afterlife: Duration,
    algorithms: BTreeSet<SigningAlgorithm>,
}

#[derive(Default)]
struct Ring {
    keys: Vec<Arc<SigningKey>>,
    by_kid: HashMap<String, Arc<SigningKey>>,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.current.load().by_kid.keys()).finish_non_exhaustive()
    }
}

impl KeyRing {
    /// Reads the keys from the store, and makes those that are missing.
    ///
    /// # Errors
    /// When the store could not tell, holds a broken key, or a key can not be made.
    pub async fn open(store: &dyn Store, keys: &KeysConfig, lifetimes: &Lifetimes, now: OffsetDateTime) -> Result<Self, KeyError> {
        let longest = lifetimes.access_token_seconds.max(lifetimes.id_token_seconds);
        let schedule = Schedule {
            rotation: seconds(keys.rotation_seconds),
            overlap: seconds(keys.overlap_seconds),
            afterlife: seconds(longest) + seconds(keys.overlap_seconds),
            algorithms: keys.algorithms.clone(),
        };
        let ring = Self { schedule, current: ArcSwap::default() };
        ring.rotate(store, now).await?;
        Ok(ring)
    }

    /// Makes the keys that the schedule asks for, and takes up those that the store holds. Called at start and about once a
    /// minute. A key is published one overlap before it signs, so that a verifier that caches the key set knows it in time.
    ///
    /// # Errors
    /// When the store could not tell, holds a broken key, or a key can not be made. The keys in force stay.
    pub async fn rotate(&self, store: &dyn Store, now: OffsetDateTime) -> Result<(), KeyError> {
        let mut stored = load(store, now).await?;
        for algorithm in &self.schedule.algorithms {
            let until = stored.iter().filter(|(_, key)| key.algorithm == *algorithm).map(|(_, key)| key.signs_until).max();
            let until = until.and_then(|t| OffsetDateTime::from_unix_timestamp(t).ok()).filter(|until| *until > now);
            let from = match until {
                Some(until) if until - self.schedule.overlap > now => continue,
                Some(until) => until,
                None => now,
            };
            self.make(store, *algorithm, from, now).await?;
        }
        stored = load(store, now).await?;
        let keys = stored.iter().map(|(id, key)| key.open(id).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let by_kid = keys.iter().map(|key| (key.kid.clone(), Arc::clone(key))).collect();
        self.current.store(Arc::new(Ring { keys, by_kid }));
        Ok(())
    }

    async fn make(
        &self,
        store: &dyn Store,
        algorithm: SigningAlgorithm,
        from: OffsetDateTime,
        now: OffsetDateTime,
    ) -> Result<(), KeyError> {
        let until = from + self.schedule.rotation;
        let published_until = until + self.schedule.afterlife;
        let key = StoredKey::generate(algorithm, from, until, published_until)?;
        // The slot is named by its beginning: of two processes that make it at once, one wins, and both take up the winner's.
        let slot = Key::system(Kind::SigningKey, format!("{algorithm:?}-{}", from.unix_timestamp()).to_lowercase());
        let value = serde_json::to_vec(&key).map_err(|_| KeyError::Generate(algorithm))?;
        let batch = Batch::new().expect(slot.clone(), Expect::Absent).put(slot, value, Some(published_until));
        if store.commit(batch, now).await? == Outcome::Committed {
            tracing::info!(algorithm = ?algorithm, signs_from = %from, "made a signing key");
        }
        Ok(())
    }

    /// The key that signs now.
    pub(super) fn signing(&self, algorithm: SigningAlgorithm, now: i64) -> Option<Arc<SigningKey>> {
        let ring = self.current.load();
        let candidates = ring.keys.iter().filter(|key| key.algorithm == algorithm && key.signs_from <= now);
        candidates.max_by_key(|key| (key.signs_until > now, key.signs_from)).cloned()
    }

    /// The key that a `kid` names.
    pub(super) fn verifying(&self, kid: &str) -> Option<Arc<SigningKey>> {
        self.current.load().by_kid.get(kid).cloned()
    }

    /// The public keys (RFC 7517): those that sign, have signed, or will.
    #[must_use]
    pub fn jwks(&self) -> JwkSet {
        JwkSet { keys: self.current.load().keys.iter().map(|key| key.jwk.clone()).collect() }
    }

    /// The algorithms for which keys are kept.
    #[must_use]
    pub const fn algorithms(&self) -> &BTreeSet<SigningAlgorithm> {
        &self.schedule.algorithms
    }
}

async fn load(store: &dyn Store, now: OffsetDateTime) -> Result<Vec<(String, StoredKey)>, KeyError> {
    let listing = store.list(&Partition::System, Kind::SigningKey, None, 1_000, now).await?;
    let read = |(id, entry): (String, crate::store::Entry)| {
        let key: StoredKey = serde_json::from_slice(&entry.value).map_err(|_| KeyError::Stored(id.clone()))?;
        Ok((id, key))
    };
    let keys = listing.entries.into_iter().map(read).collect::<Result<Vec<_>, KeyError>>()?;
    Ok(keys.into_iter().filter(|(_, key)| key.published_until > now.unix_timestamp()).collect())
}
