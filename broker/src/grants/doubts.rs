//! Doubts: commits of which it is not known whether they were carried out, and whose caller was given nothing.
//!
//! A code or a refresh token (here: the *predecessor*) is exchanged in one commit, which names what it gives (the *successor*: the
//! fingerprint of the next refresh token, or the family of a code). Where the store does not answer, or the request is dropped
//! before it does, no one was given the successor: it has not left this process, and never will. A *note* in the store says just
//! that. Whoever then shows the predecessor is given another successor; the undelivered one dies in the same batch.
//!
//! Why nobody else gains by it:
//!
//! 1. A note names one successor, and is written only after it is sure that this one is given to no one. So a note is true for
//!    ever; it does not matter when it is read, whether it is written twice, or after it was used. Notes of old doubts name
//!    successors that are not current, and say nothing of others.
//! 2. The record (family, tombstone) names the current successor and its one direct predecessor. A predecessor is good where the
//!    record still has it as the current one (the commit was not carried out), or where it is the direct one and a note names the
//!    current successor. With that it becomes the direct predecessor of what it is given now.
//! 3. So once a successor was answered, its predecessor is never good again: no note will name that successor, and the next record
//!    has the successor as its direct predecessor. By the same, of two that show one predecessor at once, one is given something.
//! 4. Each exchange expects the version of the record that it read. A commit that is still on its way in a stalled server, when the
//!    predecessor is shown again, either lands before that read (then 2. holds), or between it and the second commit (which then
//!    conflicts, and is decided anew), or after it (then it conflicts itself, as it does after a revocation). A second commit
//!    that is doubtful too gets a note of its own.
//! 5. Whoever shows it has to prove the same as the first time: the client's secret, redirect URI and PKCE's verifier. A public
//!    client's refresh token is good for whoever has it, before and during a doubt; the other one who then shows it ends the
//!    family, as ever.
//! 6. A sign-out, or a revocation, deletes what the exchange needs, and no note brings that back.
//!
//! A process that has its store for itself knows all doubts that are not noted yet. Replicas do not know each other's: there, what is
//! shown for the second time is refused after the second in which a note may come.
//!
//! Without a note it is a second use. So it is after a process was killed between commit and answer, after [`TRIED_FOR`] in which the
//! store took no note, and for an answer that was given to the network and not received: the person signs in anew.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration as StdDuration,
};

use claims_mapping::TenantId;
use time::{Duration, OffsetDateTime};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use crate::store::{Batch, Key, Kind, Outcome, Peers, Store, StoreError};

/// For how long the store is asked to keep a note.
const TRIED_FOR: StdDuration = StdDuration::from_secs(120);
/// How long one try may take, and the longest pause between two: a note is there soon after the store is.
const TRY: StdDuration = StdDuration::from_millis(500);
const PAUSES: [u64; 4] = [25, 50, 100, 250];
/// How long an answer waits for its own note, at most.
const ANSWER_WAITS: StdDuration = StdDuration::from_secs(1);
/// A note is looked for when its predecessor is shown, and as long as it may be on its way after each of these pauses, in milliseconds:
/// for one second.
const LOOKS_AGAIN: [u64; 5] = [50, 100, 200, 300, 350];
/// The most notes that wait for the store at a time. One more is not kept, and its predecessor is strictly used.
const MOST_WAITING: usize = 4_096;
/// How long a note is kept.
const KEPT: Duration = Duration::days(1);

/// The notes.
#[derive(Clone)]
pub(super) struct Doubts {
    store: Arc<dyn Store>,
    peers: Arc<dyn Peers>,
    room: Arc<Semaphore>,
    here: Here,
}

/// The successors of this process of which the store does not say yet what became of them.
#[derive(Clone, Default)]
struct Here(Arc<Mutex<HashMap<Key, Stage>>>);

/// How far one is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its commit is under way.
    Committing,
    /// It was given to no one, and its note is on its way.
    Undelivered,
}

impl Here {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Stage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a commit gives, until it is known what became of it. Dropped before that, it is noted as undelivered.
struct Giving<'a> {
    doubts: &'a Doubts,
    /// Which note that would be; `None` once it is known.
    note: Option<Key>,
    now: OffsetDateTime,
}

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.note.take() {
            drop(self.doubts.note(key, self.now));
        }
    }
}

impl Doubts {
    /// The notes in this store.
    pub(super) fn new(store: Arc<dyn Store>, peers: Arc<dyn Peers>) -> Self {
        Self { store, peers, room: Arc::new(Semaphore::new(MOST_WAITING)), here: Here::default() }
    }

    /// Carries out a batch that gives this successor. [`Outcome::Committed`] is to be answered without waiting for anything more; in
    /// each other case the successor is given to no one.
    ///
    /// # Errors
    /// When it is not known whether it was carried out; the note is kept then, or soon.
    pub(super) async fn commit(
        &self,
        (tenant, successor): (&TenantId, &str),
        batch: Batch,
        now: OffsetDateTime,
    ) -> Result<Outcome, StoreError> {
        let key = key(tenant, successor);
        self.here.all().insert(key.clone(), Stage::Committing);
        let mut giving = Giving { doubts: self, note: Some(key), now };
        let outcome = self.store.commit(batch, now).await;
        let Some(key) = giving.note.take() else { return outcome };
        if outcome.is_ok() {
            self.here.all().remove(&key);
        } else if let Some(kept) = self.note(key, now) {
            // Whoever is answered tries again: better when the note is there.
            _ = timeout(ANSWER_WAITS, kept).await;
        }
        outcome
    }

    /// Whether this successor is known to have been given to no one. Where its note may be on its way, in this process or in another
    /// on the same store, it is waited for.
    ///
    /// # Errors
    /// When the store could not tell.
    pub(super) async fn is_undelivered(&self, tenant: &TenantId, successor: &str, now: OffsetDateTime) -> Result<bool, StoreError> {
        let (key, mut pauses) = (key(tenant, successor), LOOKS_AGAIN.into_iter());
        loop {
            // Before the store is asked: what is settled in between is in the store.
            let here = self.here.all().get(&key).copied();
            if here == Some(Stage::Undelivered) || self.store.get(&key, now).await?.is_some() {
                return Ok(true);
            }
            let may_come = here.is_some() || self.peers.may_be();
            let Some(pause) = pauses.next().filter(|_| may_come) else { return Ok(false) };
            sleep(StdDuration::from_millis(pause)).await;
        }
    }

    /// Has a note kept, by a task of its own.
    fn note(&self, key: Key, now: OffsetDateTime) -> Option<tokio::task::JoinHandle<()>> {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            self.here.all().remove(&key);
            tracing::error!("too many exchanges are in doubt; one is not noted, and what was shown for it counts as used");
            return None;
        };
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let (store, here) = (Arc::clone(&self.store), self.here.clone());
        here.all().insert(key.clone(), Stage::Undelivered);
        Some(runtime.spawn(async move {
            let _room = room;
            keep(&*store, &key, now).await;
            here.all().remove(&key);
        }))
    }
}

async fn keep(store: &dyn Store, key: &Key, now: OffsetDateTime) {
    let begun = Instant::now();
    let mut pauses = PAUSES.into_iter();
    let mut pause = 0;
    loop {
        let batch = Batch::new().put(key.clone(), Vec::new(), Some(now + KEPT));
        if let Ok(Ok(_)) = timeout(TRY, store.commit(batch, now)).await {
            tracing::info!("an exchange at the token endpoint was not answered; it can be tried again");
            return;
        }
        if begun.elapsed() > TRIED_FOR {
            tracing::error!(
                "an exchange at the token endpoint was not answered, and the store did not take the note: what was shown counts as used"
            );
            return;
        }
        pause = pauses.next().unwrap_or(pause);
        sleep(StdDuration::from_millis(pause)).await;
    }
}

/// Where the note of a successor stands. Its name is a fingerprint, or the id of a family.
pub(super) fn key(tenant: &TenantId, successor: &str) -> Key {
    Key::new(tenant, Kind::Doubt, successor)
}

#[cfg(test)]
mod tests;
