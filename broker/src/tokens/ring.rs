//! The keys in force: which one signs, which ones are published. When the next one is made is `rotation.rs`' business, how those
//! that other replicas made are taken up that of `following.rs`.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::AtomicBool},
};

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::JwkSet;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    following::Reading,
    keys::{KeyError, SigningKey, StoredKey},
    rotation::Schedule,
};
use crate::{
    config::{KeysConfig, Lifetimes, SigningAlgorithm},
    sealing::Sealing,
    store::{Kind, Partition, Store},
};

/// The keys in force. They live in the store, so that a restart and every other replica sign with the same ones.
pub struct KeyRing {
    pub(super) store: Arc<dyn Store>,
    pub(super) sealing: Sealing,
    pub(super) schedule: Schedule,
    /// Who takes turns with other replicas, where there may be any.
    pub(super) holder: Option<Uuid>,
    pub(super) reading: Reading,
    /// Whether it has not yet seen all keys lie as they should since its start.
    pub(super) wants_to_seal: AtomicBool,
    current: ArcSwap<Ring>,
}

/// What a ring is made of.
pub struct RingParts<'a> {
    /// Keeps the keys.
    pub store: Arc<dyn Store>,
    /// Seals them.
    pub sealing: Sealing,
    /// This replica, where there may be others.
    pub holder: Option<Uuid>,
    /// Which keys, and when.
    pub keys: &'a KeysConfig,
    /// How long what they sign lives.
    pub lifetimes: &'a Lifetimes,
}

impl std::fmt::Debug for RingParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingParts").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// A key, and where it is stored.
pub(super) struct Stored {
    pub(super) slot: String,
    pub(super) version: u64,
    pub(super) key: StoredKey,
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
    /// Reads the keys from the store, and makes those that are missing; where another replica is making them, waits for that.
    ///
    /// # Errors
    /// When the store could not tell, holds a broken key or one that can not be opened, or a key can not be made.
    pub async fn open(parts: RingParts<'_>, now: OffsetDateTime) -> Result<Self, KeyError> {
        let RingParts { store, sealing, holder, keys, lifetimes } = parts;
        let schedule = Schedule::new(keys, lifetimes);
        let (reading, wants_to_seal, current) = (Reading::default(), AtomicBool::new(true), ArcSwap::default());
        let ring = Self { store, sealing, schedule, holder, reading, wants_to_seal, current };
        ring.begin(now).await?;
        Ok(ring)
    }

    /// What the store holds that is still published.
    pub(super) async fn load(&self, now: OffsetDateTime) -> Result<Vec<Stored>, KeyError> {
        let listing = self.store.list(&Partition::System, Kind::SigningKey, None, 1_000, now).await?;
        let read = |(slot, entry): (String, crate::store::Entry)| match serde_json::from_slice::<StoredKey>(&entry.value) {
            Ok(key) => Ok(Stored { slot, version: entry.version, key }),
            Err(_) => Err(KeyError::Stored(slot)),
        };
        let keys = listing.entries.into_iter().map(read).collect::<Result<Vec<_>, KeyError>>()?;
        Ok(keys.into_iter().filter(|stored| stored.key.published_until > now.unix_timestamp()).collect())
    }

    /// Puts these keys in force, and says whether all of them lie as they should. Where one can not be opened, those in force stay.
    pub(super) fn put_in_force(&self, stored: &[Stored]) -> Result<bool, KeyError> {
        let mut all_lie_as_they_should = true;
        let mut keys = Vec::with_capacity(stored.len());
        for Stored { slot, key, .. } in stored {
            let (key, lies_as_it_should) = key.open(slot, &self.sealing)?;
            all_lie_as_they_should &= lies_as_it_should;
            keys.push(Arc::new(key));
        }
        let by_kid = keys.iter().map(|key| (key.kid.clone(), Arc::clone(key))).collect();
        self.current.store(Arc::new(Ring { keys, by_kid }));
        Ok(all_lie_as_they_should)
    }

    /// The key that signs now.
    pub(super) fn signing(&self, algorithm: SigningAlgorithm, now: i64) -> Option<Arc<SigningKey>> {
        let ring = self.current.load();
        let of_algorithm = || ring.keys.iter().filter(|key| key.algorithm == algorithm);
        let begun = of_algorithm().filter(|key| key.signs_from <= now).max_by_key(|key| (key.signs_until > now, key.signs_from));
        // The very first was made by a replica whose clock is ahead of ours; there is no other to sign with.
        begun.or_else(|| of_algorithm().min_by_key(|key| key.signs_from)).cloned()
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
