//! Taking up what other replicas made: when they tell, once a minute, and where a token names a key that is not known here.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use time::OffsetDateTime;
use tokio::time::Instant;

use super::{
    keys::KeyError,
    ring::{KeyRing, Stored},
};
use crate::store::StoreError;

/// What was read so lately is not read again for a token's sake: a flood of forgeries costs one reading in that time.
const LATELY: Duration = Duration::from_secs(5);

/// When the store was last read, and whether it told.
#[derive(Default)]
pub(super) struct Reading {
    last: Mutex<Option<(Instant, bool)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Reading {
    /// Whether the store told when it was read just now; `None` where it was not.
    fn lately(&self) -> Option<bool> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.filter(|(begun, _)| begun.elapsed() < LATELY).map(|(_, told)| told)
    }

    fn note(&self, begun: Instant, told: bool) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((begun, told));
    }
}

impl KeyRing {
    /// Reads the store and puts what it holds in force, and says besides whether all keys lie as they should.
    pub(super) async fn read(&self, now: OffsetDateTime) -> Result<(Vec<Stored>, bool), KeyError> {
        let begun = Instant::now();
        let read = match self.load(now).await {
            Ok(stored) => self.put_in_force(&stored).map(|as_they_should| (stored, as_they_should)),
            Err(error) => Err(error),
        };
        self.reading.note(begun, read.is_ok());
        read
    }

    /// Takes up what other replicas made.
    ///
    /// # Errors
    /// When the store could not tell, or holds a key that can not be opened. The keys in force stay.
    pub async fn read_again(&self, now: OffsetDateTime) -> Result<(), KeyError> {
        self.read(now).await.map(drop)
    }

    /// Whether a key that was not known is there after all: another replica may have made it. The store is read for it once for all
    /// who ask, and not again for five seconds.
    ///
    /// # Errors
    /// When it could not be told.
    pub(super) async fn is_there_after_all(self: &Arc<Self>, kid: &str, now: OffsetDateTime) -> Result<bool, StoreError> {
        // What a process has for itself it has made itself.
        if self.holder.is_none() || !is_kid(kid) {
            return Ok(false);
        }
        let told = match self.reading.lately() {
            Some(told) => told,
            None => {
                // It goes on where whoever asked goes away: the next one need not begin again.
                let this = Arc::clone(self);
                tokio::spawn(async move { this.read_in_turn(now).await }).await.unwrap_or(false)
            }
        };
        if self.verifying(kid).is_some() {
            return Ok(true);
        }
        if told { Ok(false) } else { Err(StoreError::Unavailable("the signing keys could not be read".into())) }
    }

    async fn read_in_turn(&self, now: OffsetDateTime) -> bool {
        let _turn = self.reading.turn.lock().await;
        if let Some(told) = self.reading.lately() {
            return told;
        }
        match self.read(now).await {
            Ok(_) => true,
            Err(error) => {
                tracing::error!(%error, "a token names a signing key that is unknown, and those that there are could not be read");
                false
            }
        }
    }
}

/// A thumbprint: a SHA-256 in base64url.
fn is_kid(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}
