//! Asking one connector about tokens: once for a token however many want to know, in a task of its own, so that whoever goes away
//! takes no answer from the others; so many at once, and so many that wait for a turn.
//!
//! A connector that asks its upstream about each new token is not asked without a turn. Who would be one too many in the queue, or
//! waits longer than one call may take, is told that it could not be told. Tokens that were genuine before have a queue of
//! their own, which a flood of others does not fill. A flight for which nobody waits any more when its turn comes is given up.
//! Where keys at hand mostly tell, there is no queue: while all turns are taken, tokens that need not wait are answered all the same.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use claims_mapping::ConnectorId;
use connectors::{ConnectorError, Secret, TokenAuthentication, TokenBounds, UnverifiedToken, Verdict};
use futures_util::FutureExt as _;
use time::OffsetDateTime;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout},
};

use super::{
    known::{Answer, Memory},
    shown::{Shown, TakenBack},
};
use crate::{outage::Outage, tenancy::Wired};

/// How many wait for each that has a turn.
const WAITING: usize = 16;

/// What came of asking. An error is told to those who waited, and not remembered.
type Told = Result<Answer, ConnectorError>;

/// A token that is being asked about, and those who wait for what comes of it.
struct Flight {
    told: watch::Sender<Option<Told>>,
    /// Whether it was taken back meanwhile: what was genuine when it was asked about is not any more.
    is_taken_back: bool,
}

/// One connector and its tokens.
pub(in crate::review) struct Asking {
    pub(super) id: ConnectorId,
    port: Arc<dyn TokenAuthentication>,
    bounds: TokenBounds,
    /// How long someone waits.
    within: Duration,
    memory: Arc<Memory>,
    flights: Mutex<HashMap<Shown, Flight>>,
    turns: Arc<Semaphore>,
    /// Places in the queue: for tokens that were genuine before, and for all others.
    places: Places,
    crowd: Outage,
}

struct Places {
    familiar: Arc<Semaphore>,
    new: Arc<Semaphore>,
}

/// What a flight begins with; given back when it is dropped.
enum Room {
    Turn(OwnedSemaphorePermit),
    Place(OwnedSemaphorePermit),
    /// It must do without waiting.
    Neither,
}

/// Where an answer comes from.
enum From {
    Memory(Answer),
    Flight(watch::Receiver<Option<Told>>),
}

/// Takes a flight that broke off out of the list, so that those who wait learn of it.
struct Landing<'a> {
    asking: &'a Asking,
    of: Shown,
    has_landed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.has_landed {
            self.asking.flights().remove(&self.of);
        }
    }
}

impl Asking {
    /// `None` for a connector without tokens of its own.
    pub(super) fn new(connector: &Wired, memory: Arc<Memory>) -> Option<Self> {
        let port = Arc::clone(connector.token.as_ref()?);
        let bounds = port.bounds();
        let at_once = bounds.in_flight.max(1);
        let places = || Arc::new(Semaphore::new(at_once.saturating_mul(WAITING).min(Semaphore::MAX_PERMITS)));
        Some(Self {
            id: connector.id.clone(),
            port,
            bounds,
            within: connector.within,
            memory,
            flights: Mutex::default(),
            turns: Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS))),
            places: Places { familiar: places(), new: places() },
            crowd: Outage::new(
                connector.id.clone(),
                "more tokens are shown than the upstream may be asked about at once, and some could not be told",
                "all tokens are asked about in time again",
            ),
        })
    }

    /// Whether a token says that it is this upstream's.
    pub(super) fn claims(&self, token: UnverifiedToken<'_>) -> bool {
        self.port.claims_to_be_ours(token)
    }

    /// What is to be believed of a token.
    ///
    /// # Errors
    /// When it could not be told.
    pub(super) async fn about(self: &Arc<Self>, token: UnverifiedToken<'_>, of: Shown, now: OffsetDateTime) -> Told {
        if let Some(answer) = self.memory.recall(&self.id, &of, now.unix_timestamp()) {
            return Ok(answer);
        }
        let mut told = match self.join(token, of, now)? {
            From::Memory(answer) => return Ok(answer),
            From::Flight(told) => told,
        };
        match timeout(self.within, told.wait_for(Option::is_some)).await {
            Ok(Ok(told)) => told.clone().unwrap_or_else(|| Err(stopped())),
            Ok(Err(_)) => Err(stopped()),
            Err(_) => Err(late()),
        }
    }

    /// Refuses a token from now on, for as long as it could be believed, also where it is being asked about at this moment; a text
    /// that is no token, for as long as refusals are.
    pub(in crate::review) fn forget(&self, what: TakenBack, now: OffsetDateTime) {
        let mut flights = self.flights();
        self.memory.take_back(&self.id, what, [self.believed_until(now), self.refused_until(now)]);
        for (_, flight) in flights.iter_mut().filter(|(of, _)| what.has(of)) {
            flight.is_taken_back = true;
        }
    }

    /// Asks something else, when a turn comes: there are few of these, and they stand in no queue that could be full.
    pub(in crate::review) async fn in_turn<T>(
        &self,
        question: impl Future<Output = Result<T, ConnectorError>>,
    ) -> Result<T, ConnectorError> {
        let turn = timeout(self.within, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(self.crowded()) };
        question.await
    }

    /// The flight of a token; one begins where there is none.
    fn join(self: &Arc<Self>, token: UnverifiedToken<'_>, of: Shown, now: OffsetDateTime) -> Result<From, ConnectorError> {
        let mut flights = self.flights();
        // One that has just landed left its answer there.
        if let Some(answer) = self.memory.recall(&self.id, &of, now.unix_timestamp()) {
            return Ok(From::Memory(answer));
        }
        if let Some(flight) = flights.get(&of) {
            return Ok(From::Flight(flight.told.subscribe()));
        }
        let room = self.room(&of)?;
        let (told, waiting) = watch::channel(None);
        flights.insert(of, Flight { told, is_taken_back: false });
        drop(flights);
        let (this, token) = (Arc::clone(self), Secret::new(token.text().to_owned()));
        tokio::spawn(async move { this.fly(&token, of, now, room).await });
        Ok(From::Flight(waiting))
    }

    fn room(&self, of: &Shown) -> Result<Room, ConnectorError> {
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            self.crowd.is_over();
            return Ok(Room::Turn(turn));
        }
        if !self.bounds.asks_upstream {
            return Ok(Room::Neither);
        }
        let is_familiar = self.memory.genuine(of).is_some_and(|known| known.connector == self.id);
        let places = if is_familiar { &self.places.familiar } else { &self.places.new };
        Arc::clone(places).try_acquire_owned().map(Room::Place).map_err(|_| self.crowded())
    }

    async fn fly(&self, token: &Secret, of: Shown, now: OffsetDateTime, room: Room) {
        let mut landing = Landing { asking: self, of, has_landed: false };
        let asked = self.port.authenticate(UnverifiedToken::new(token.expose()), now);
        let verdict = match room {
            Room::Turn(_turn) => asked.await,
            Room::Place(place) => {
                let begun = Instant::now();
                let turn = self.turns.acquire().await;
                drop(place);
                landing.has_landed = self.is_abandoned(&of);
                match turn {
                    _ if landing.has_landed => return,
                    Ok(_turn) if begun.elapsed() < self.within => asked.await,
                    _ => Err(self.crowded()),
                }
            }
            Room::Neither => asked.now_or_never().unwrap_or_else(|| Err(self.crowded())),
        };
        landing.has_landed = true;
        self.land(of, (token.expose().len(), verdict), now);
    }

    /// Whether nobody waits for a flight any more; then it is over.
    fn is_abandoned(&self, of: &Shown) -> bool {
        let mut flights = self.flights();
        let is_abandoned = flights.get(of).is_some_and(|flight| flight.told.receiver_count() == 0);
        if is_abandoned {
            flights.remove(of);
        }
        is_abandoned
    }

    /// That there are too many others, which the log is told.
    fn crowded(&self) -> ConnectorError {
        let error = ConnectorError::Unavailable("too many other tokens are being asked about".to_owned());
        self.crowd.is_met(&error);
        error
    }

    /// Remembers what came of a flight, and tells those who wait.
    fn land(&self, of: Shown, (bytes, verdict): (usize, Result<Verdict, ConnectorError>), now: OffsetDateTime) {
        let mut flights = self.flights();
        let Some(flight) = flights.remove(&of) else { return };
        let told = verdict.map(|verdict| match verdict {
            Verdict::Genuine(_) if flight.is_taken_back => Answer::taken_back(),
            Verdict::Genuine(token) => {
                let until = token.expires_at.min(self.believed_until(now));
                self.memory.believe(&self.id, of, (bytes, token), until)
            }
            Verdict::Refused(reason) => self.memory.refuse(&self.id, of, reason, self.refused_until(now)),
        });
        drop(flights);
        flight.told.send_replace(Some(told));
    }

    /// For how long a genuine token is believed.
    pub(in crate::review) fn believed(&self) -> time::Duration {
        time::Duration::seconds(self.bounds.believed_seconds.into())
    }

    fn believed_until(&self, now: OffsetDateTime) -> i64 {
        now.unix_timestamp().saturating_add(self.bounds.believed_seconds.into())
    }

    fn refused_until(&self, now: OffsetDateTime) -> i64 {
        now.unix_timestamp().saturating_add(self.bounds.refused_seconds.into())
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Shown, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stopped() -> ConnectorError {
    ConnectorError::Unavailable("the question was stopped".to_owned())
}

fn late() -> ConnectorError {
    ConnectorError::Unavailable("it was not told in time".to_owned())
}
