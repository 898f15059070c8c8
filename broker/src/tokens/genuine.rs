//! What was found genuine before: a fixed number of slots, each for the tokens whose fingerprints lead to it, the latest of
//! them kept. Fingerprints are spread evenly, so that no order of use need be remembered.

use std::sync::{Arc, Mutex, PoisonError};

use super::claims::AccessClaims;

/// SHA-256 of a token.
pub(super) type Fingerprint = [u8; 32];

type Slot = Mutex<Option<(Fingerprint, Arc<AccessClaims>)>>;

/// Genuine tokens only, so that a flood of forgeries pushes nothing out; about 1 KiB each.
pub(super) struct Genuine(Box<[Slot]>);

impl Genuine {
    const SLOTS: usize = 16_384;

    pub(super) fn new() -> Self {
        Self((0..Self::SLOTS).map(|_| Mutex::default()).collect())
    }

    /// The slot that a fingerprint leads to, by its first four bytes.
    fn slot(&self, fingerprint: &Fingerprint) -> Option<&Slot> {
        let first = fingerprint.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))?;
        self.0.get(usize::try_from(first).ok()? % Self::SLOTS)
    }

    pub(super) fn get(&self, fingerprint: &Fingerprint) -> Option<Arc<AccessClaims>> {
        let slot = self.slot(fingerprint)?.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().filter(|(of, _)| of == fingerprint).map(|(_, claims)| Arc::clone(claims))
    }

    pub(super) fn insert(&self, fingerprint: Fingerprint, claims: Arc<AccessClaims>) {
        if let Some(slot) = self.slot(&fingerprint) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some((fingerprint, claims));
        }
    }
}
