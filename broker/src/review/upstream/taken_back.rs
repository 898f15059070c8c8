//! Tokens that were taken back through a replica, for all of them.
//!
//! It owns the records, by which a token that is remembered as genuine is refused also where nothing was heard of it: they are
//! [watched](Kind::is_watched), so that a review of a token that is remembered looks at none of them as long as nothing has changed, and
//! any other looks once. What is told besides makes the others let go of what they remember. Neither holds a token, but digests.

use std::{sync::Arc, time::Duration as StdDuration};

use base64::Engine as _;
use claims_mapping::ConnectorId;
use time::{Duration, OffsetDateTime};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep},
};

use super::shown::{Shown, TakenBack};
use crate::store::{Batch, Key, Kind, Mark, Peers, Store, StoreError, Topic};

/// How far apart the clocks of replicas may be: a record outlasts by so much what any of them believes.
const APART: Duration = Duration::MINUTE;
/// How long to wait before a record that the store did not take is written again.
const PAUSE: StdDuration = StdDuration::from_millis(200);
/// The most records that wait for that.
const MOST_WAITING: usize = 10_000;

/// The records.
#[derive(Clone)]
pub(in crate::review) struct Records {
    store: Arc<dyn Store>,
    peers: Arc<dyn Peers>,
    waiting: Arc<Semaphore>,
}

impl Records {
    pub(super) fn new(store: Arc<dyn Store>, peers: Arc<dyn Peers>) -> Self {
        Self { store, peers, waiting: Arc::new(Semaphore::new(MOST_WAITING)) }
    }

    /// Whether a token was taken back, and by what it is known later that nothing has changed.
    pub(super) async fn look(&self, connector: &ConnectorId, of: &Shown, now: OffsetDateTime) -> Result<(bool, Option<Mark>), StoreError> {
        let keys: Vec<_> = of.forms().map(|form| key(connector, &form)).collect();
        let (present, mark) = self.store.look(&keys, now).await?;
        Ok((present.contains(&true), mark))
    }

    /// Whether what was seen under this mark surely is so still.
    pub(super) fn is_as_seen(&self, mark: &Mark, now: OffsetDateTime) -> bool {
        self.store.is_as_seen(mark, now)
    }

    /// Keeps that a token was taken back, for as long as anyone could believe it. Where the store does not take it now it is tried again in
    /// the background until then.
    ///
    /// # Errors
    /// When the store could not tell.
    pub(in crate::review) async fn keep(
        &self,
        connector: &ConnectorId,
        what: &TakenBack,
        lasts: Duration,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let batch = Batch::new().put(key(connector, &what.form()), Vec::new(), Some(now + lasts + APART));
        let kept = self.store.commit(batch.clone(), now).await.map(drop);
        if let Err(error) = &kept {
            tracing::warn!(connector.id = %connector, %error, "a token was taken back, and the store could not keep that yet");
            match Arc::clone(&self.waiting).try_acquire_owned() {
                Ok(place) => drop(tokio::spawn(Self::keep_on(Arc::clone(&self.store), batch, lasts, now, place))),
                Err(_) => tracing::error!(connector.id = %connector, "a token was taken back, and only this replica knows it"),
            }
        }
        kept
    }

    async fn keep_on(store: Arc<dyn Store>, batch: Batch, lasts: Duration, now: OffsetDateTime, _place: OwnedSemaphorePermit) {
        let begun = Instant::now();
        while begun.elapsed() < lasts.unsigned_abs() {
            sleep(PAUSE).await;
            if store.commit(batch.clone(), now + begun.elapsed()).await.is_ok() {
                return;
            }
        }
    }

    /// Tells all replicas that a token was taken back, or that a text is none.
    ///
    /// # Errors
    /// When it could not be told.
    pub(in crate::review) async fn tell(&self, connector: &ConnectorId, what: &TakenBack) -> Result<(), StoreError> {
        if !self.peers.may_be() {
            return Ok(());
        }
        self.peers.tell(Topic::TokenTakenBack, &[&what.told()[..], connector.as_str().as_bytes()].concat()).await
    }
}

/// What was told: of which connector, and what. `None` for what can not be read.
pub(super) fn heard(text: &[u8]) -> Option<(ConnectorId, TakenBack)> {
    let (what, connector) = text.split_at_checked(TakenBack::TOLD)?;
    Some((ConnectorId::parse(std::str::from_utf8(connector).ok()?).ok()?, TakenBack::of_told(what)?))
}

fn key(connector: &ConnectorId, form: &[u8]) -> Key {
    Key::system(Kind::TakenBack, format!("{connector}.{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(form)))
}
