//! What a browser is bound to while it is at an upstream's own pages: which attempt, which connector, and what the answer will
//! be held against. Used once, by that browser, at that connector's address.

use std::{net::IpAddr, sync::Arc};

use claims_mapping::ConnectorId;
use connectors::{Handshake, Wish};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use time::{Duration, OffsetDateTime};

use super::{AttemptError, attempt::Begun};
use crate::{
    seams::Entropy,
    secret_text::{fingerprint, random_text},
    store::{Batch, Expect, Key, Kind, Outcome, Store},
};

/// Someone who was sent to an upstream's pages.
#[derive(Debug, Clone)]
pub struct Sent {
    /// In which attempt.
    pub attempt: String,
    /// What the answer is held against.
    pub handshake: Handshake,
    /// How the upstream was asked to ask.
    pub wish: Wish,
}

/// The stored form. The `state` is in the key alone, as a fingerprint.
#[derive(Serialize, Deserialize)]
struct Record {
    attempt: String,
    connector: ConnectorId,
    browser: String,
    nonce: String,
    code_verifier: String,
    begun_at: i64,
    wish: Wish,
}

/// The handshakes.
pub struct Handshakes {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    lifetime: Duration,
    begun: Begun,
}

impl std::fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handshakes")
    }
}

impl Handshakes {
    /// Handshakes that last as long as the attempts do.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>, lifetime: Duration) -> Self {
        Self { store, entropy, lifetime, begun: Begun::new() }
    }

    /// Begins one for an attempt of this browser. An address may begin 600 at once, and 5 a second.
    ///
    /// # Errors
    /// [`AttemptError::Slowed`] beyond that; else when the store could not tell.
    pub async fn begin(
        &self,
        (browser, address): (&str, IpAddr),
        attempt: &str,
        connector: &ConnectorId,
        wish: &Wish,
        now: OffsetDateTime,
    ) -> Result<Handshake, AttemptError> {
        self.begun.one(address, now)?;
        let text = || random_text(&*self.entropy);
        let handshake = Handshake { state: text(), nonce: text(), code_verifier: text(), begun_at: now.unix_timestamp() };
        let record = Record {
            attempt: attempt.to_owned(),
            connector: connector.clone(),
            browser: browser.to_owned(),
            nonce: handshake.nonce.clone(),
            code_verifier: handshake.code_verifier.clone(),
            begun_at: handshake.begun_at,
            wish: wish.clone(),
        };
        let value = serde_json::to_vec(&record).unwrap_or_default();
        self.store.commit(Batch::new().put(key(&handshake.state), value, Some(now + self.lifetime)), now).await?;
        Ok(handshake)
    }

    /// Uses one up: the browser that was sent comes back to the connector that it was sent to. Anyone else's try leaves it as
    /// it was. Of two uses at once, one is told that it is gone.
    ///
    /// # Errors
    /// [`AttemptError::Gone`] for every other state, browser and connector; else when the store could not tell.
    pub async fn take(&self, state: &str, browser: &str, connector: &ConnectorId, now: OffsetDateTime) -> Result<Sent, AttemptError> {
        let key = key(state);
        let entry = self.store.get(&key, now).await?.ok_or(AttemptError::Gone)?;
        let record: Record = serde_json::from_slice(&entry.value).map_err(|_| AttemptError::Gone)?;
        let is_its_browser: bool = record.browser.as_bytes().ct_eq(browser.as_bytes()).into();
        if !is_its_browser || &record.connector != connector {
            return Err(AttemptError::Gone);
        }
        let batch = Batch::new().expect(key.clone(), Expect::Version(entry.version)).delete(key);
        if self.store.commit(batch, now).await? == Outcome::Conflict {
            return Err(AttemptError::Gone);
        }
        let Record { attempt, nonce, code_verifier, begun_at, wish, .. } = record;
        Ok(Sent { attempt, handshake: Handshake { state: state.to_owned(), nonce, code_verifier, begun_at }, wish })
    }
}

fn key(state: &str) -> Key {
    Key::system(Kind::Handshake, fingerprint(state))
}
