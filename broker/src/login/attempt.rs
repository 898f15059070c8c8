//! A sign-in under way. It is bound to the browser that began it, and is used once.

use std::{net::IpAddr, sync::Arc};

use connectors::Wish;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use time::{Duration, OffsetDateTime};

use super::guessing::network_of;
use crate::{
    seams::Entropy,
    secret_text::random_text,
    store::{Batch, Buckets, Expect, Key, Kind, Outcome, Store, StoreError},
};

/// What an application asked for, proven: client and redirect URI belong together, and everything else is well formed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AuthorizeRequest {
    /// The client.
    pub client_id: String,
    /// Where its answer goes, exactly as it was given.
    pub redirect_uri: String,
    /// What it asks for.
    pub scopes: Vec<String>,
    /// Its own value, returned as it is.
    pub state: Option<String>,
    /// Its own value, for the ID token.
    pub nonce: Option<String>,
    /// PKCE's challenge, S256 (RFC 7636).
    pub code_challenge: String,
    /// The audiences of its access token (RFC 8707).
    pub audiences: Vec<String>,
    /// The tenant in which the sign-in must happen, as the client named it; it may be one that there is not.
    pub tenant: Option<String>,
}

/// What the application wants of the sign-in, beside its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The tenant in which the sign-in must happen, where no application's request names one; it may be one that there is not.
    pub tenant: Option<String>,
    /// Who they say they are (`login_hint`).
    pub login_hint: Option<String>,
    /// Whether they must prove it anew, whatever session they have upstream (`prompt=login`, `prompt=select_account`).
    pub anew: bool,
    /// Whether they want to choose, whatever they chose before (`prompt=select_account`).
    pub select: bool,
    /// How long ago they may have proven it, in seconds (`max_age`).
    pub max_age: Option<u32>,
}

/// A sign-in under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    /// What for; `None` is the account page.
    pub request: Option<AuthorizeRequest>,
    /// How the person is to be asked.
    pub wanted: Wanted,
    /// What they typed to find their way: an address, a name, an organisation.
    pub typed: Option<String>,
    /// Proves that a form was shown to this browser for this attempt.
    pub csrf: String,
    /// The browser that began it: what its session calls it.
    browser: String,
    /// Until when it can be finished, in seconds since 1970.
    until: i64,
}

/// An attempt can not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// It is over, was used, was begun in another browser, or never was.
    #[error("this sign-in is over, or was begun in another browser")]
    Gone,
    /// Too many are begun from this address.
    #[error("too many sign-ins are begun from this address; wait a moment")]
    Slowed,
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The attempts.
pub struct Attempts {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    lifetime: Duration,
    begun: Begun,
}

/// How many records each address may begin: 600 at once, and 5 a second.
pub(super) struct Begun(Buckets<IpAddr>);

impl Begun {
    pub(super) fn new() -> Self {
        Self(Buckets::refilling(600, Duration::milliseconds(200)))
    }

    /// One more from this address.
    pub(super) fn one(&self, address: IpAddr, now: OffsetDateTime) -> Result<(), AttemptError> {
        self.0.take(network_of(address), now).map_err(|_| AttemptError::Slowed)
    }
}

impl std::fmt::Debug for Attempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attempts")
    }
}

impl Attempts {
    /// Attempts that last so long.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>, lifetime: Duration) -> Self {
        Self { store, entropy, lifetime, begun: Begun::new() }
    }

    /// Begins one, and gives its id. An address may begin 600 at once, and 5 a second.
    ///
    /// # Errors
    /// [`AttemptError::Slowed`] beyond that; else when the store could not tell.
    pub async fn begin(
        &self,
        (browser, address): (&str, IpAddr),
        request: Option<AuthorizeRequest>,
        wanted: Wanted,
        now: OffsetDateTime,
    ) -> Result<String, AttemptError> {
        self.begun.one(address, now)?;
        let id = random_text(&*self.entropy);
        let (csrf, until) = (random_text(&*self.entropy), (now + self.lifetime).unix_timestamp());
        let attempt = Attempt { request, wanted, typed: None, csrf, browser: browser.to_owned(), until };
        self.store.commit(Batch::new().put(key(&id), attempt.value(), attempt.until()), now).await?;
        Ok(id)
    }

    /// Keeps what someone typed to find their way.
    ///
    /// # Errors
    /// [`AttemptError::Gone`] where it was used meanwhile; else when the store could not tell.
    pub async fn keep_typed(&self, id: &str, attempt: Attempt, typed: &str, now: OffsetDateTime) -> Result<Attempt, AttemptError> {
        let attempt = Attempt { typed: Some(typed.to_owned()), ..attempt };
        let batch = Batch::new().expect(key(id), Expect::Present).put(key(id), attempt.value(), attempt.until());
        match self.store.commit(batch, now).await? {
            Outcome::Committed => Ok(attempt),
            Outcome::Conflict => Err(AttemptError::Gone),
        }
    }

    /// One that this browser began.
    ///
    /// # Errors
    /// [`AttemptError::Gone`] for every other.
    pub async fn find(&self, id: &str, browser: &str, now: OffsetDateTime) -> Result<Attempt, AttemptError> {
        let entry = self.store.get(&key(id), now).await?.ok_or(AttemptError::Gone)?;
        let attempt: Attempt = serde_json::from_slice(&entry.value).map_err(|_| AttemptError::Gone)?;
        if bool::from(attempt.browser.as_bytes().ct_eq(browser.as_bytes())) { Ok(attempt) } else { Err(AttemptError::Gone) }
    }

    /// Uses it up. Of two that do so at once, one is told that it is gone.
    ///
    /// # Errors
    /// [`AttemptError::Gone`] where it was used already.
    pub async fn consume(&self, id: &str, now: OffsetDateTime) -> Result<(), AttemptError> {
        let batch = Batch::new().expect(key(id), Expect::Present).delete(key(id));
        match self.store.commit(batch, now).await? {
            Outcome::Committed => Ok(()),
            Outcome::Conflict => Err(AttemptError::Gone),
        }
    }
}

impl Attempt {
    /// Whether a form carries this attempt's own value.
    #[must_use]
    pub fn csrf_matches(&self, sent: &str) -> bool {
        self.csrf.as_bytes().ct_eq(sent.as_bytes()).into()
    }

    /// The tenant in which the sign-in must happen: the client's request decides.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.request.as_ref().and_then(|r| r.tenant.as_deref()).or(self.wanted.tenant.as_deref())
    }

    /// Who they say they are: what they typed, where that names a person; else what the application said.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.typed.as_deref().filter(|typed| typed.contains('@')).or(self.wanted.login_hint.as_deref())
    }

    /// How an upstream is to ask: it is told the address as it is, and a name without the tenant's label, which is ours.
    #[must_use]
    pub fn wish(&self) -> Wish {
        let hint = self.hint().map(|hint| match hint.rsplit_once('@') {
            Some((name, label)) if !label.contains('.') => name,
            _ => hint,
        });
        let login_hint = hint.filter(|hint| !hint.is_empty()).map(str::to_owned);
        let Wanted { anew, select, max_age, .. } = self.wanted;
        // An application that wants someone asked anew is owed the proof: with `max_age` an upstream has to say when that was, and
        // who holds the browser can not leave the wish out unseen.
        let max_age = max_age.or((anew && !select).then_some(0));
        Wish { login_hint, anew: anew || max_age == Some(0), max_age }
    }

    fn value(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn until(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp(self.until).ok()
    }
}

fn key(id: &str) -> Key {
    Key::system(Kind::Attempt, crate::secret_text::fingerprint(id))
}
