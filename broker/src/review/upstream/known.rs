//! What upstreams said of their tokens, for as long as it is believed. A refusal that was said here, because a token was taken back
//! through us, stands above what the upstream said before.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwapOption;
use claims_mapping::{ConnectorId, MappedUser};
use connectors::VerifiedToken;
use moka::{policy::EvictionPolicy, sync::Cache};

use super::shown::{Shown, TakenBack};
use crate::{slots::Fingerprint, store::Mark};

/// Bytes of the tokens that are remembered as genuine and of what they say, in sum.
const GENUINE_BYTES: u64 = 32 << 20;
/// Refusals that are remembered. They stand apart, so that a flood of forgeries pushes no genuine token out; so do the tokens
/// that were taken back, of which there are as many, and which only whoever had the right to it has put there.
pub(super) const REFUSALS: u64 = 20_000;
/// Why a token is refused that was taken back through us.
pub(super) const TAKEN_BACK: &str = "it was taken back";

/// A genuine token, as its connector told of it.
pub(super) struct Known {
    pub(super) connector: ConnectorId,
    pub(super) token: VerifiedToken,
    /// Until when it is believed, in seconds since 1970.
    pub(super) until: i64,
    /// Whose identity it gave, and what the mapping had given: the first time that it gave one.
    pub(super) admitted: OnceLock<(ConnectorId, MappedUser)>,
    /// By what it is known, without another look at the store, that it was not taken back through a replica.
    pub(super) seen: ArcSwapOption<Mark>,
    /// The length of the token and of what it says, in bytes.
    bytes: u32,
}

/// A token that is not good, until a time in seconds since 1970.
#[derive(Clone)]
struct Bad {
    connector: ConnectorId,
    reason: String,
    until: i64,
}

/// What is known of a token.
#[derive(Clone)]
pub(super) enum Answer {
    Genuine(Arc<Known>),
    Bad(String),
}

impl Answer {
    pub(super) fn taken_back() -> Self {
        Self::Bad(TAKEN_BACK.to_owned())
    }
}

/// What is remembered, of all connectors.
pub(super) struct Memory {
    genuine: Cache<Shown, Arc<Known>>,
    bad: Cache<Shown, Bad>,
    /// By which connectors, and until when each could have believed it: what one takes back is none of another's.
    taken_back: Cache<Fingerprint, Arc<BTreeMap<ConnectorId, i64>>>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            genuine: Cache::builder().weigher(|_, known: &Arc<Known>| known.bytes).max_capacity(GENUINE_BYTES).build(),
            bad: Cache::new(REFUSALS),
            // The newest one is always kept.
            taken_back: Cache::builder().eviction_policy(EvictionPolicy::lru()).max_capacity(REFUSALS).build(),
        }
    }

    /// The connector that has told of a token, believed or not.
    pub(super) fn connector(&self, of: &Shown) -> Option<ConnectorId> {
        let genuine = self.genuine.get(of).map(|known| known.connector.clone());
        genuine.or_else(|| self.bad.get(of).map(|bad| bad.connector))
    }

    /// A genuine token, believed or not.
    pub(super) fn genuine(&self, of: &Shown) -> Option<Arc<Known>> {
        self.genuine.get(of)
    }

    /// A genuine token that was not taken back.
    pub(super) fn standing(&self, of: &Shown) -> Option<Arc<Known>> {
        self.genuine(of).filter(|known| !self.is_taken_back(&known.connector, of, i64::MIN))
    }

    /// What is believed of a token at this time, in seconds since 1970.
    pub(super) fn recall(&self, connector: &ConnectorId, of: &Shown, seconds: i64) -> Option<Answer> {
        if self.is_taken_back(connector, of, seconds) {
            return Some(Answer::taken_back());
        }
        if let Some(known) = self.genuine.get(of).filter(|known| known.connector == *connector && seconds < known.until) {
            return Some(Answer::Genuine(known));
        }
        let stands = |bad: &Bad| bad.connector == *connector && seconds < bad.until;
        self.bad.get(of).filter(stands).map(|bad| Answer::Bad(bad.reason))
    }

    fn is_taken_back(&self, connector: &ConnectorId, of: &Shown, seconds: i64) -> bool {
        let by = |form| self.taken_back.get(&form).and_then(|by| by.get(connector).copied());
        of.forms().any(|form| by(form).is_some_and(|until| seconds < until))
    }

    /// Remembers a genuine token of so many bytes, until a time.
    pub(super) fn believe(&self, connector: &ConnectorId, of: Shown, (bytes, token): (usize, VerifiedToken), until: i64) -> Answer {
        let says: usize = token.user.claims.as_map().iter().map(|(name, value)| name.len().saturating_add(size(value))).sum();
        let known = Arc::new(Known {
            connector: connector.clone(),
            bytes: u32::try_from(bytes.saturating_add(says)).unwrap_or(u32::MAX),
            token,
            until,
            admitted: OnceLock::new(),
            seen: ArcSwapOption::empty(),
        });
        self.genuine.insert(of, Arc::clone(&known));
        Answer::Genuine(known)
    }

    /// Remembers a refusal.
    pub(super) fn refuse(&self, connector: &ConnectorId, of: Shown, reason: String, until: i64) -> Answer {
        // What was genuine is no longer.
        if self.genuine.get(&of).is_some_and(|known| known.connector == *connector) {
            self.genuine.invalidate(&of);
        }
        self.bad.insert(of, Bad { connector: connector.clone(), reason: reason.clone(), until });
        Answer::Bad(reason)
    }

    /// Remembers that a token was taken back, or a text that it is none.
    pub(super) fn take_back(&self, connector: &ConnectorId, what: TakenBack, [believed_until, refused_until]: [i64; 2]) {
        match what {
            TakenBack::Token(of) => {
                let with = |by: Option<moka::Entry<_, Arc<BTreeMap<_, _>>>>| {
                    let mut by = by.map(|by| by.into_value()).unwrap_or_default();
                    Arc::make_mut(&mut by).insert(connector.clone(), believed_until);
                    by
                };
                self.taken_back.entry(what.form()).and_upsert_with(with);
                if self.genuine.get(&of).is_some_and(|known| known.connector == *connector) {
                    self.genuine.invalidate(&of);
                }
            }
            // Anyone can say such a text: it is a refusal like any other.
            TakenBack::Text(of) => _ = self.refuse(connector, of, TAKEN_BACK.to_owned(), refused_until),
        }
    }

    #[cfg(test)]
    pub(super) fn refusals(&self) -> u64 {
        self.bad.run_pending_tasks();
        self.bad.entry_count()
    }
}

/// About how many bytes a value takes.
fn size(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    size_of::<Value>().saturating_add(match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| name.len().saturating_add(size(value))).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    })
}
