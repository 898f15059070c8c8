//! How often records have changed, counted by where a key's hash leads: so that who looked at a record can tell, without looking
//! again, that it has not changed since.
//!
//! The order is what makes it right. A reader takes the count, then looks. Whoever writes, or hears of a write, counts it before it is
//! answered. So no count that was taken before a change was counted outlives its answer.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// How many counts there are for keys. Keys that share one are taken for changed together: that costs a look.
const COUNTS: usize = 32_768;

/// The counts.
pub(super) struct Changes {
    /// Those of the keys, and one more for everything at once.
    counts: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self { counts: (0..=COUNTS).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }

    /// Which count a key has.
    fn place(&self, key: &[u8]) -> usize {
        usize::try_from(self.hasher.hash_one(key) % COUNTS as u64).unwrap_or(0)
    }

    fn at(&self, place: usize) -> u64 {
        self.counts.get(place).map_or(0, |count| count.load(Ordering::Acquire))
    }

    fn add(&self, place: usize) {
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Release);
        }
    }

    /// Where a key is counted, and its count.
    pub(super) fn count(&self, key: &[u8]) -> (usize, u64) {
        let place = self.place(key);
        (place, self.at(place))
    }

    /// How often it was no longer known what had changed, in the form of a key's count.
    pub(super) fn count_of_all(&self) -> (usize, u64) {
        (COUNTS, self.at(COUNTS))
    }

    /// Whether nothing has changed since.
    pub(super) fn is_still(&self, (place, count): (usize, u64)) -> bool {
        self.at(place) == count
    }

    /// A record has changed, or may have.
    pub(super) fn touch(&self, key: &[u8]) {
        self.add(self.place(key));
    }

    /// Everything may have changed.
    pub(super) fn touch_all(&self) {
        self.add(COUNTS);
    }
}

/// What one transaction touches. It is counted when this is dropped: after the transaction, whether that went well, failed
/// or panicked.
pub(super) struct Touched<'a> {
    changes: &'a Changes,
    places: Vec<usize>,
}

impl<'a> Touched<'a> {
    pub(super) const fn none(changes: &'a Changes) -> Self {
        Self { changes, places: Vec::new() }
    }

    pub(super) fn add(&mut self, key: &[u8]) {
        self.places.push(self.changes.place(key));
    }
}

impl Drop for Touched<'_> {
    fn drop(&mut self) {
        for place in &self.places {
            self.changes.add(*place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_ends_what_was_counted_of_its_key_and_a_loss_ends_all() {
        let changes = Changes::new();
        let (one, other, all) = (changes.count(b"one"), changes.count(b"another"), changes.count_of_all());
        changes.touch(b"one");
        assert!(!changes.is_still(one) && changes.is_still(other) && changes.is_still(all));
        changes.touch_all();
        assert!(!changes.is_still(all) && changes.is_still(other), "a mark holds both counts");
    }
}
