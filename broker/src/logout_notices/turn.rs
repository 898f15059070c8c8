//! Whose turn it is to send: one replica's, by a lease that it prolongs while it lives.
//!
//! A replica that stands still loses it without knowing. What it begins is bounded by its own clock, so that it begins nothing after that; what was
//! under way may be sent by the next one again.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    seams::Clock,
    store::{Lease, Store, StoreError},
};

/// The name of the lease.
const NAME: &str = "logout-notices";
/// How long it lasts.
const LASTS: Duration = Duration::from_secs(15);
/// How often it is prolonged, and how often others look whether it is free.
pub(super) const BEAT: Duration = Duration::from_secs(5);
/// How long before its end it counts as over: what is begun then is under way for no longer than that.
const MARGIN: Duration = Duration::from_secs(3);
/// How long to wait after a try of the store failed.
const PAUSE: Duration = Duration::from_secs(1);

/// A turn; cheap to look at.
#[derive(Debug)]
pub(super) struct Turn {
    over: CancellationToken,
    /// When it ends unless it is prolonged; `None` where there is no one to take turns with.
    until: Option<Mutex<Instant>>,
}

impl Turn {
    /// The turn of a process that is alone, until it is told to stop.
    pub(super) fn alone(stop: &CancellationToken) -> Self {
        Self { over: stop.child_token(), until: None }
    }

    /// Whether anything may be begun.
    pub(super) fn is_on(&self) -> bool {
        let until = self.until.as_ref().map(|until| *until.lock().unwrap_or_else(PoisonError::into_inner));
        !self.over.is_cancelled() && until.is_none_or(|until| Instant::now() < until)
    }

    /// Done when it is over.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.over.cancel();
    }

    fn prolonged(&self, from: Instant) {
        if let Some(until) = &self.until {
            *until.lock().unwrap_or_else(PoisonError::into_inner) = from + LASTS - MARGIN;
        }
    }

    /// Takes the turn, where no other has it. It is over soon unless it is [kept](Self::keep), and at the latest at `stop`.
    pub(super) async fn take(
        store: &dyn Store,
        own: Uuid,
        clock: &dyn Clock,
        stop: &CancellationToken,
    ) -> Result<Option<(Self, Lease)>, StoreError> {
        let begun = Instant::now();
        let lease = Lease::take(store, NAME, own, lasts(), clock.now()).await?;
        let turn = || Self { over: stop.child_token(), until: Some(Mutex::new(begun + LASTS - MARGIN)) };
        Ok(lease.map(|lease| (turn(), lease)))
    }

    /// Prolongs it until it is over or lost; then it is over, and given back where it is still held.
    pub(super) async fn keep(&self, mut lease: Lease, store: &dyn Store, clock: &dyn Clock) {
        let mut wait = BEAT;
        while self.is_on() {
            tokio::select! {
                () = self.over() => break,
                () = sleep(wait) => {}
            }
            let begun = Instant::now();
            match timeout(BEAT, lease.clone().prolong(store, lasts(), clock.now())).await {
                Ok(Ok(Some(prolonged))) => {
                    (lease, wait) = (prolonged, BEAT);
                    self.prolonged(begun);
                }
                Ok(Ok(None)) => {
                    tracing::info!("another replica sends the logout notices now");
                    return self.end();
                }
                Ok(Err(_)) | Err(_) => wait = PAUSE,
            }
        }
        self.end();
        if let Err(error) = lease.give_back(store, clock.now()).await {
            tracing::debug!(%error, "the turn to send logout notices could not be given back; it ends by itself");
        }
    }
}

fn lasts() -> time::Duration {
    time::Duration::try_from(LASTS).unwrap_or(time::Duration::MINUTE)
}
