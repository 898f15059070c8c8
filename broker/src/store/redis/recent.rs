//! What changed of late, where no replica of the server has to have it: if the server fails and comes back without it, a record that was
//! used or ended is not believed to be there again. This holds while one Denizen that saw the change lives, and for a while only: it makes
//! a loss smaller, and is no substitute for a second server.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::message::{Change, Digest};

/// For how long a change is remembered.
const KEPT: Duration = Duration::from_secs(300);
/// How many are remembered at most; beyond it the oldest are forgotten.
const MOST: usize = 200_000;
/// How far apart the lines in the log are that tell of a loss.
const TOLD_APART: Duration = Duration::from_secs(60);

/// The changes.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    changes: HashMap<Digest, Change>,
    order: VecDeque<(Instant, Digest, Change)>,
    told_at: Option<Instant>,
}

impl Recent {
    /// Remembers a change.
    pub(super) fn note(&self, digest: Digest, change: Change) {
        self.note_at(digest, change, Instant::now());
    }

    fn note_at(&self, digest: Digest, change: Change, now: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Messages and answers overtake each other.
        if state.changes.get(&digest).is_some_and(|known| is_older(change, *known)) {
            return;
        }
        state.changes.insert(digest, change);
        state.order.push_back((now, digest, change));
        while let Some((noted, digest, change)) = state.order.front().copied() {
            if state.order.len() <= MOST && now.duration_since(noted) < KEPT {
                break;
            }
            state.order.pop_front();
            // Unless it has changed again since.
            if state.changes.get(&digest) == Some(&change) {
                state.changes.remove(&digest);
            }
        }
    }

    /// The lowest version that a record can have which the server has not lost; 0 where nothing is known of it.
    pub(super) fn floor(&self, digest: Digest) -> u64 {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).changes.get(&digest) {
            Some(Change::Written(known)) => *known,
            Some(Change::Deleted(until)) => until.saturating_add(1),
            None => 0,
        }
    }

    /// Whether a record that the server shows in this version was written or deleted since: then the server has lost that.
    pub(super) fn is_lost(&self, digest: Digest, version: u64) -> bool {
        self.is_lost_at(digest, version, Instant::now())
    }

    fn is_lost_at(&self, digest: Digest, version: u64, now: Instant) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = match state.changes.get(&digest) {
            Some(Change::Written(known)) => version < *known,
            Some(Change::Deleted(until)) => version <= *until,
            None => false,
        };
        if is_lost && state.told_at.is_none_or(|told| now.duration_since(told) >= TOLD_APART) {
            state.told_at = Some(now);
            tracing::error!(
                "Redis shows records as they were before changes that it had answered: it lost them when it failed; they are taken for absent, \
                 so that nothing that was used or ended comes back. `acknowledgedBy` and a replica of the server keep this from happening"
            );
        }
        is_lost
    }
}

const fn is_older(change: Change, known: Change) -> bool {
    let (Change::Written(at) | Change::Deleted(at)) = change;
    let (Change::Written(known_at) | Change::Deleted(known_at)) = known;
    match (change, known) {
        // A record is written anew with a version above the one that it was deleted with.
        (Change::Written(_), Change::Deleted(_)) => at <= known_at,
        _ => at < known_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Digest = *b"12345678";

    #[tokio::test(start_paused = true)]
    async fn what_was_written_or_deleted_does_not_come_back_older() {
        let recent = Recent::default();
        assert!(!recent.is_lost(ONE, 1), "nothing is known of it");
        recent.note(ONE, Change::Written(10));
        assert!(recent.is_lost(ONE, 9) && !recent.is_lost(ONE, 10) && !recent.is_lost(ONE, 11));
        recent.note(ONE, Change::Deleted(12));
        assert!(recent.is_lost(ONE, 12) && !recent.is_lost(ONE, 13), "it was written anew");
        recent.note(ONE, Change::Written(11));
        assert!(recent.is_lost(ONE, 12), "an older change that is heard later");
        recent.note(ONE, Change::Written(13));
        assert!(recent.is_lost(ONE, 12) && !recent.is_lost(ONE, 13));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_forgotten_in_time_and_bounded() {
        let recent = Recent::default();
        recent.note(ONE, Change::Deleted(5));
        tokio::time::advance(Duration::from_secs(200)).await;
        recent.note(ONE, Change::Deleted(6));
        tokio::time::advance(Duration::from_secs(200)).await;
        recent.note(*b"other---", Change::Deleted(5));
        assert!(recent.is_lost(ONE, 6), "it changed again since");
        for i in 0..MOST as u64 {
            recent.note(i.to_be_bytes(), Change::Written(1));
        }
        assert!(!recent.is_lost(ONE, 6));
        let state = recent.0.lock().unwrap();
        assert!(state.order.len() <= MOST && state.changes.len() <= MOST);
    }
}
