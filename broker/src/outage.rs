//! Troubles that many calls meet, told once: a line in the log when one begins and a line when it is over, with how many calls met
//! it. What each of those calls ends with is counted by the metrics, and is no line of its own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use claims_mapping::ConnectorId;
use connectors::ConnectorError;
use tokio::time::{Duration, Instant};

/// How far apart the beginnings are that are told, so that a trouble which comes and goes does not fill the log.
const APART: Duration = Duration::from_secs(10);

/// One kind of trouble of one connector.
#[derive(Debug)]
pub(crate) struct Outage {
    connector: ConnectorId,
    begins: &'static str,
    ends: &'static str,
    trouble: Trouble,
}

/// One trouble: whether it is to be told.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Calls that met it since it began; none where there is no trouble.
    met: u64,
    is_told: bool,
    told_at: Option<Instant>,
}

impl Outage {
    /// A trouble that there is not yet, and what the log says when it begins and ends.
    pub(crate) fn new(connector: ConnectorId, begins: &'static str, ends: &'static str) -> Self {
        Self { connector, begins, ends, trouble: Trouble::default() }
    }

    /// Whose it is.
    pub(crate) const fn connector(&self) -> &ConnectorId {
        &self.connector
    }

    /// A call met it.
    pub(crate) fn is_met(&self, error: &ConnectorError) {
        if self.trouble.meet(Instant::now()) {
            tracing::error!(connector.id = %self.connector, %error, "{}", self.begins);
        }
    }

    /// It is over, if there was one.
    pub(crate) fn is_over(&self) {
        if let Some(calls) = self.trouble.end() {
            tracing::warn!(connector.id = %self.connector, calls, "{}", self.ends);
        }
    }

    /// Calls that met it since it began.
    #[cfg(test)]
    pub(crate) fn met(&self) -> u64 {
        self.trouble.state().met
    }
}

impl Trouble {
    /// Counts a call that met it, and says whether that is to be told.
    pub(crate) fn meet(&self, now: Instant) -> bool {
        let mut state = self.state();
        state.met = state.met.saturating_add(1);
        let is_due = state.told_at.is_none_or(|before| now.duration_since(before) >= APART);
        if state.is_told || !is_due {
            return false;
        }
        (state.is_told, state.told_at) = (true, Some(now));
        true
    }

    /// Ends it, and says how many calls met it, where it was told.
    pub(crate) fn end(&self) -> Option<u64> {
        let mut state = self.state();
        let State { met, is_told, .. } = *state;
        (state.met, state.is_told) = (0, false);
        is_told.then_some(met)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage() -> Trouble {
        Trouble::default()
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let outage = outage();
        assert_eq!(outage.end(), None);
        let mut told = 0;
        for _ in 0..1_000 {
            told += u32::from(outage.meet(Instant::now()));
            tokio::time::advance(Duration::from_millis(50)).await;
        }
        assert_eq!(told, 1);
        assert_eq!((outage.end(), outage.end()), (Some(1_000), None));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_comes_and_goes_is_told_every_ten_seconds_and_one_that_lasts_is_told() {
        let outage = outage();
        let (mut begins, mut ends) = (0, 0);
        for _ in 0..1_000 {
            begins += u32::from(outage.meet(Instant::now()));
            ends += u32::from(outage.end().is_some());
            tokio::time::advance(Duration::from_millis(19)).await;
        }
        assert_eq!((begins, ends), (2, 2), "in nineteen seconds");
        begins = 0;
        for _ in 0..100 {
            begins += u32::from(outage.meet(Instant::now()));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(begins, 1);
    }
}
