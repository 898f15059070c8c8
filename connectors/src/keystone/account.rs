//! The service account's own token: got when it is first needed, by one login at a time, and again ahead of its end.
//!
//! Its age is measured with the machine's monotonic clock from what Keystone says of its length: no clock of Keystone's is compared
//! with ours.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use http::{HeaderValue, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    api::{Issued, Server, secret_header},
    auth::Proof,
    claims::lifetime,
};
use crate::ConnectorError;

/// The least time between a login that was refused and the next one.
const PAUSE: Duration = Duration::from_secs(5);

/// A token of the service account.
pub(super) struct Held {
    /// Counts the logins.
    number: u64,
    header: HeaderValue,
    refresh_at: Instant,
    ends_at: Instant,
}

impl Held {
    pub(super) fn header(&self) -> &HeaderValue {
        &self.header
    }
}

type Flight = Shared<BoxFuture<'static, Result<Arc<Held>, ConnectorError>>>;

/// The service account.
pub(super) struct Account {
    server: Arc<Server>,
    proof: Proof,
    pause: Duration,
    course: Mutex<Course>,
}

#[derive(Default)]
struct Course {
    held: Option<Arc<Held>>,
    /// The login that is under way.
    flight: Option<Flight>,
    logins: u64,
    /// When Keystone last refused the account, and how.
    refused: Option<(Instant, ConnectorError)>,
}

impl Account {
    pub(super) fn new(server: Arc<Server>, proof: Proof) -> Arc<Self> {
        Self::with_pause(server, proof, PAUSE)
    }

    pub(super) fn with_pause(server: Arc<Server>, proof: Proof, pause: Duration) -> Arc<Self> {
        Arc::new(Self { server, proof, pause, course: Mutex::default() })
    }

    /// A token that is in force, as far as is known. One that is about to end is given at once, and another one got in the background.
    ///
    /// # Errors
    /// When there is none, and no login brings one; within the pause after a login that was refused, why it was.
    pub(super) async fn token(self: &Arc<Self>) -> Result<Arc<Held>, ConnectorError> {
        let flight = {
            let mut course = self.course();
            let now = Instant::now();
            let held = course.held.clone().filter(|held| now < held.ends_at);
            if let Some(held) = held.as_ref().filter(|held| now < held.refresh_at) {
                return Ok(Arc::clone(held));
            }
            let flight = self.flight(&mut course, now);
            match held {
                Some(held) => return Ok(held),
                None => flight?,
            }
        };
        flight.await
    }

    /// A token in place of one that Keystone does not take any more.
    ///
    /// # Errors
    /// As [`Self::token`].
    pub(super) async fn another(self: &Arc<Self>, stale: &Held) -> Result<Arc<Held>, ConnectorError> {
        self.forget(stale);
        self.token().await
    }

    /// Keystone does not take a token that is new: what to tell, now and to everyone within the pause.
    pub(super) fn refused(&self, held: &Held, why: String) -> ConnectorError {
        let error = ConnectorError::Refused(why);
        self.forget(held);
        self.course().refused = Some((Instant::now(), error.clone()));
        error
    }

    fn forget(&self, stale: &Held) {
        let mut course = self.course();
        // Another caller may have got a newer one since.
        course.held = course.held.take().filter(|held| held.number != stale.number);
    }

    /// The login that is under way, or a new one.
    fn flight(self: &Arc<Self>, course: &mut Course, now: Instant) -> Result<Flight, ConnectorError> {
        if let Some(flight) = &course.flight {
            return Ok(flight.clone());
        }
        // A wrong password stays wrong, and Keystone may lock the account.
        if let Some((at, error)) = &course.refused
            && now < *at + self.pause
        {
            return Err(error.clone());
        }
        course.logins += 1;
        // A task of its own: a caller who gives up does not take the login along.
        let task = tokio::spawn(Arc::clone(self).land(now, course.logins));
        let ended = |task: Result<_, tokio::task::JoinError>| task.unwrap_or_else(|_| Err(nothing()));
        let flight = task.map(ended).boxed().shared();
        course.flight = Some(flight.clone());
        Ok(flight)
    }

    async fn land(self: Arc<Self>, began_at: Instant, number: u64) -> Result<Arc<Held>, ConnectorError> {
        let got = std::panic::AssertUnwindSafe(self.log_in(began_at, number)).catch_unwind().await.unwrap_or_else(|_| Err(nothing()));
        let mut course = self.course();
        course.flight = None;
        match got {
            Ok(held) => {
                let held = Arc::new(held);
                course.held = Some(Arc::clone(&held));
                course.refused = None;
                Ok(held)
            }
            Err(error) => {
                // Who can not be reached has refused nothing.
                if !matches!(error, ConnectorError::Unavailable(_)) {
                    course.refused = Some((Instant::now(), error.clone()));
                }
                Err(error)
            }
        }
    }

    async fn log_in(&self, began_at: Instant, number: u64) -> Result<Held, ConnectorError> {
        const WHAT: &str = "the service account's login";
        let Some(Issued { token, body }) = self.server.issue(WHAT, self.proof.auth(), &[StatusCode::UNAUTHORIZED]).await? else {
            return Err(ConnectorError::Refused(format!(
                "keystone: {WHAT}: it is refused (401): check `serviceAccount`: its name, domain and password, and that it has a role on its scope"
            )));
        };
        let unusable = |why: &str| ConnectorError::Unusable(format!("keystone: {WHAT}: {why}"));
        let life = life(&body).ok_or_else(|| unusable("the token does not say for how long it is good"))?;
        let header = secret_header(token.expose()).ok_or_else(|| unusable("the token can not be sent"))?;
        // Counted from before it was asked for, so that it is never thought to last longer than it does.
        Ok(Held { number, header, refresh_at: began_at + life * 4 / 5, ends_at: began_at + life * 19 / 20 })
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn life(body: &Value) -> Option<Duration> {
    // A day is more than what Keystone gives by itself, and keeps sums of times within their range.
    lifetime(body).map(|life| life.min(Duration::from_secs(86_400))).filter(|life| !life.is_zero())
}

fn nothing() -> ConnectorError {
    ConnectorError::Unavailable("keystone: the login ended without an answer".to_owned())
}
