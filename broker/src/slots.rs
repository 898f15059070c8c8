//! What was worked out before: a fixed number of slots, each for the fingerprints that lead to it, the latest of them kept.
//! Fingerprints are spread evenly, so that no order of use need be remembered.

use std::sync::{Mutex, PoisonError};

/// SHA-256 of what something was worked out from.
pub(crate) type Fingerprint = [u8; 32];

type Slot<T> = Mutex<Option<(Fingerprint, T)>>;

/// So many slots.
pub(crate) struct Slots<T>(Box<[Slot<T>]>);

impl<T: Clone> Slots<T> {
    pub(crate) fn new(many: usize) -> Self {
        Self((0..many).map(|_| Mutex::new(None)).collect())
    }

    /// The slot that a fingerprint leads to, by its first four bytes.
    fn slot(&self, fingerprint: &Fingerprint) -> Option<&Slot<T>> {
        let first = fingerprint.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))?;
        self.0.get(usize::try_from(first).ok()?.checked_rem(self.0.len())?)
    }

    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<T> {
        let slot = self.slot(fingerprint)?.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().filter(|(of, _)| of == fingerprint).map(|(_, known)| known.clone())
    }

    pub(crate) fn insert(&self, fingerprint: Fingerprint, known: T) {
        if let Some(slot) = self.slot(&fingerprint) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some((fingerprint, known));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_the_latest_and_answers_for_no_other() {
        let slots = Slots::new(1);
        assert_eq!(slots.get(&[1; 32]), None);
        slots.insert([1; 32], "one");
        assert_eq!((slots.get(&[1; 32]), slots.get(&[2; 32])), (Some("one"), None));
        slots.insert([2; 32], "two");
        assert_eq!((slots.get(&[1; 32]), slots.get(&[2; 32])), (None, Some("two")));
    }
}
