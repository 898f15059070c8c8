//! A breaker around the ports of a connector that ask its upstream at every call, put there once: while the upstream is down, it is
//! left alone and whoever asks is told so at once.
//!
//! After five calls in a row that found it unavailable it opens for a second; then one call is let through, and the others wait for
//! what comes of it: any answer closes the breaker, also "no" and one that can not be used, and no answer opens it for twice as long, up
//! to eight seconds. A failure counts only if nothing was answered since its call began, so that some slow calls do not shut
//! out those that are answered. The ports of a connector share one breaker, because they share the upstream; but for revocations,
//! which anyone may ask for: they have one of their own.
//!
//! It stands in front of sign-in by password or credential, searches and look-ups, renewals, revocations, and of the tokens that the
//! upstream is asked about. It does not stand where the upstream often need not be asked: where keys that are at hand tell of a token it
//! only watches, and tells the log; and a browser's way to the upstream's own pages it leaves alone, for whoever comes back
//! from there has one chance.
//!
//! The log says that the upstream is unavailable once when that begins and once when it is over, for all ports of a breaker together; and
//! likewise that it refuses the connector or answers what can not be used.

use std::sync::{Mutex, MutexGuard, PoisonError};

use claims_mapping::ConnectorId;
use connectors::ConnectorError;
use tokio::time::{Duration, Instant};

use crate::outage::Outage;

/// So many calls in a row find the upstream unavailable, and it is left alone.
const FAILURES: u32 = 5;
/// For how long at first, and at most.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(8);

/// The breaker of one connector.
#[derive(Debug)]
pub struct Breaker {
    /// Whether it opens, or only tells.
    opens: bool,
    outage: Outage,
    /// Answers that are of no use.
    trouble: Outage,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    answered_at: Option<Instant>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    wait: Duration,
    /// Whether a call is trying.
    is_tried: bool,
}

/// A call that was let through while the breaker is open. However it ends, the next may try.
struct Trial<'a>(&'a Breaker);

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Some(open) = &mut self.0.state().open {
            open.is_tried = false;
        }
    }
}

impl Breaker {
    /// One that is closed.
    #[must_use]
    pub fn new(connector: ConnectorId) -> Self {
        let outage = Outage::new(connector, "an upstream is unavailable; it is told when it answers again", "the upstream answers again");
        Self { opens: true, trouble: trouble(&outage), outage, state: Mutex::default() }
    }

    /// One that never opens, for ports that often need not ask.
    #[must_use]
    pub fn that_only_tells(connector: ConnectorId) -> Self {
        let begins = "tokens of an upstream can not be told, because it is unavailable; it is told when they can";
        let outage = Outage::new(connector, begins, "tokens of the upstream can be told again");
        Self { opens: false, trouble: trouble(&outage), outage, state: Mutex::default() }
    }

    /// Makes a call, unless the upstream is left alone.
    ///
    /// # Errors
    /// The call's own, or that the upstream is left alone.
    pub async fn guard<T>(&self, call: impl Future<Output = Result<T, ConnectorError>>) -> Result<T, ConnectorError> {
        let began = Instant::now();
        let trial = self.let_through(began)?;
        let result = call.await;
        match &result {
            Err(error @ ConnectorError::Unavailable(_)) => self.failed(began, error, trial.is_some()),
            Err(error) => {
                self.answered();
                self.trouble.is_met(error);
            }
            Ok(_) => {
                self.answered();
                self.trouble.is_over();
            }
        }
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_through(&self, now: Instant) -> Result<Option<Trial<'_>>, ConnectorError> {
        let mut state = self.state();
        let Some(open) = &mut state.open else { return Ok(None) };
        if now >= open.until && !open.is_tried {
            open.is_tried = true;
            return Ok(Some(Trial(self)));
        }
        drop(state);
        let error = ConnectorError::Unavailable("it did not answer a moment ago, and is asked again in some seconds".to_owned());
        self.outage.is_met(&error);
        Err(error)
    }

    fn failed(&self, began: Instant, error: &ConnectorError, is_trial: bool) {
        let now = Instant::now();
        let mut state = self.state();
        let is_answered_since = state.answered_at.is_some_and(|answered| answered > began);
        if let Some(open) = &mut state.open {
            // Any other call was let through before the breaker opened.
            if is_trial {
                open.wait = open.wait.saturating_mul(2).min(MOST);
                open.until = now + open.wait;
            }
        } else if !is_answered_since {
            state.failures = state.failures.saturating_add(1);
            if self.opens && state.failures >= FAILURES {
                state.open = Some(Open { until: now + FIRST, wait: FIRST, is_tried: false });
            }
        }
        drop(state);
        self.outage.is_met(error);
    }

    fn answered(&self) {
        let mut state = self.state();
        *state = State { failures: 0, answered_at: Some(Instant::now()), open: None };
        drop(state);
        self.outage.is_over();
    }
}

/// The answers of the same upstream that are of no use.
fn trouble(of: &Outage) -> Outage {
    let begins = "an upstream refuses the connector, or answers what can not be used; it is told when an answer can be";
    Outage::new(of.connector().clone(), begins, "an answer of the upstream can be used again")
}

#[cfg(test)]
mod tests;
