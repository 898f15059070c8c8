//! Tokens of upstreams themselves, for the reviewers that take them.
//!
//! It owns which connector is asked, what is remembered of its answers, and how many answers are waited for. Whether a token
//! is genuine the connector says; who its bearer is here, the admission. Remembered is what the upstream said, and never that
//! tenant, connector and reviewer still agree: that is judged at every use.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use claims_mapping::{ConnectorId, Identity, MappedUser, Tenant};
use connectors::{Audiences, ConnectorError, TokenAuthentication, UnverifiedToken, Verdict, VerifiedToken};
use futures_util::FutureExt as _;
use moka::sync::Cache;
use time::OffsetDateTime;
use tokio::sync::Semaphore;

use super::{Refused, Reviewer, Untold, openstack::OpenStack};
use crate::{
    config::UpstreamTokens,
    secret_text::digest,
    slots::Fingerprint,
    tenancy::{Admission, AdmissionError, Wired},
};

/// How long a genuine token is believed before its upstream's keys are asked again, in seconds.
const BELIEVED: i64 = 300;
/// How long a refusal is, in seconds.
const REFUSED: i64 = 10;
/// Bytes of the tokens that are remembered as genuine, in sum; what they say takes a few times as much.
const GENUINE_BYTES: u64 = 16 << 20;
/// Refusals that are remembered. They stand apart, so that a flood of forgeries pushes no genuine token out.
const REFUSALS: u64 = 20_000;
/// Authentications under way at one connector: what more there are, are answered where the upstream need not be waited for.
const UNDER_WAY: usize = 64;

/// A genuine token, as its connector told of it.
struct Known {
    connector: ConnectorId,
    /// The length of the token, in bytes.
    bytes: u32,
    token: VerifiedToken,
    /// Until when it is believed, in seconds since 1970.
    until: i64,
    /// Whose identity it gave, and what the mapping had given: the first time that it gave one.
    admitted: OnceLock<(ConnectorId, MappedUser)>,
}

/// A token that is not good, until a time in seconds since 1970.
#[derive(Clone)]
struct Bad {
    connector: ConnectorId,
    reason: String,
    until: i64,
}

/// The way of an upstream's token.
pub(super) struct Way<'a> {
    /// What the reviewer takes of it.
    pub(super) entry: &'a UpstreamTokens,
    connector: &'a Wired,
    port: &'a dyn TokenAuthentication,
    fingerprint: Fingerprint,
}

/// Someone whom a token of an upstream proved.
pub(super) struct Bearer {
    pub(super) identity: Identity,
    pub(super) tenant: Arc<Tenant>,
}

/// The upstreams' tokens.
pub(super) struct Upstreams {
    admission: Arc<Admission>,
    /// Our own: tokens that name it are never an upstream's.
    issuer: String,
    genuine: Cache<Fingerprint, Arc<Known>>,
    bad: Cache<Fingerprint, Bad>,
    under_way: BTreeMap<ConnectorId, Semaphore>,
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstreams").field("connectors", &self.under_way.len()).finish_non_exhaustive()
    }
}

impl Upstreams {
    pub(super) fn new(admission: Arc<Admission>, issuer: String) -> Self {
        let taking = admission.connectors().filter(|connector| connector.token.is_some());
        Self {
            under_way: taking.map(|connector| (connector.id.clone(), Semaphore::new(UNDER_WAY))).collect(),
            genuine: Cache::builder().weigher(|_, known: &Arc<Known>| known.bytes).max_capacity(GENUINE_BYTES).build(),
            bad: Cache::new(REFUSALS),
            admission,
            issuer,
        }
    }

    /// The way of a token that says that it is of an upstream whose tokens the reviewer takes. `None` for every other token:
    /// it is ours or nobody's, and no upstream hears of it.
    pub(super) fn way<'a>(&'a self, reviewer: &'a Reviewer, token: UnverifiedToken<'_>) -> Option<Way<'a>> {
        if reviewer.upstream_tokens.is_empty() || token.text().len() > UnverifiedToken::MAX_BYTES {
            return None;
        }
        let fingerprint = digest(token.text().as_bytes());
        let of = |entry: &'a UpstreamTokens| {
            let connector = self.admission.connector(entry.connector.as_str())?;
            Some(Way { entry, connector, port: &**connector.token.as_ref()?, fingerprint })
        };
        let known = self.genuine.get(&fingerprint).map(|known| known.connector.clone());
        let known = known.or_else(|| self.bad.get(&fingerprint).map(|bad| bad.connector));
        if let Some(entry) = reviewer.upstream_tokens.iter().find(|entry| known.as_ref() == Some(&entry.connector)) {
            return of(entry);
        }
        if token.unverified_issuer().is_some_and(|issuer| issuer == self.issuer) {
            return None;
        }
        reviewer.upstream_tokens.iter().filter_map(of).find(|way| way.port.claims_to_be_ours(token))
    }

    /// What a token says that is genuine, and in force at this time.
    ///
    /// # Errors
    /// That it is not, or that it could not be told.
    pub(super) async fn genuine(&self, way: &Way<'_>, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Genuine, Refused> {
        let (id, seconds) = (&way.connector.id, now.unix_timestamp());
        let known = self.genuine.get(&way.fingerprint).filter(|known| known.connector == *id && seconds < known.until);
        if let Some(known) = known {
            return Ok(Genuine(known));
        }
        if let Some(bad) = self.bad.get(&way.fingerprint).filter(|bad| bad.connector == *id && seconds < bad.until) {
            return Err(Refused::Upstream(bad.connector, bad.reason));
        }
        let untold = |error| Refused::CouldNotTell(Untold::Upstream(id.clone(), error));
        let asked = way.port.authenticate(token, now);
        let verdict = match self.under_way.get(id).map(Semaphore::try_acquire) {
            Some(Ok(_turn)) => asked.await,
            // While all turns are taken by tokens that wait for the upstream, those that need not wait are answered all the same.
            _ => asked
                .now_or_never()
                .unwrap_or_else(|| Err(ConnectorError::Unavailable(format!("{UNDER_WAY} other tokens are being asked about")))),
        };
        match verdict.map_err(untold)? {
            Verdict::Genuine(verified) => {
                let known = Arc::new(Known {
                    connector: id.clone(),
                    bytes: u32::try_from(token.text().len()).unwrap_or(u32::MAX),
                    until: verified.expires_at.min(seconds.saturating_add(BELIEVED)),
                    token: verified,
                    admitted: OnceLock::new(),
                });
                self.genuine.insert(way.fingerprint, Arc::clone(&known));
                Ok(Genuine(known))
            }
            Verdict::Refused(reason) => {
                let bad = Bad { connector: id.clone(), reason: reason.clone(), until: seconds.saturating_add(REFUSED) };
                self.bad.insert(way.fingerprint, bad);
                Err(Refused::Upstream(id.clone(), reason))
            }
        }
    }

    /// Who the bearer of a genuine token is here, at this time.
    ///
    /// # Errors
    /// That it is no one, or that it could not be told.
    pub(super) async fn bearer(&self, way: &Way<'_>, token: &Genuine, now: OffsetDateTime) -> Result<Bearer, Refused> {
        let identity = self.admit(way.connector, &token.0, now).await.map_err(|error| match error {
            AdmissionError::Store(error) => Refused::CouldNotTell(Untold::Store(error)),
            AdmissionError::Directory(error) => Refused::CouldNotTell(Untold::Upstream(way.connector.id.clone(), error)),
            refused @ (AdmissionError::Rejected(_)
            | AdmissionError::IdTaken(_)
            | AdmissionError::NoConnector(_)
            | AdmissionError::JoinClaim(_)
            | AdmissionError::JoinNoOne { .. }) => Refused::NotAdmitted(refused),
        })?;
        // The connector that the token came through must be one of the tenant's too, where the identity is another's.
        let tenant = self.admission.tenants.enabled(identity.id().tenant_id()).filter(|tenant| way.connector.serves(tenant));
        Ok(Bearer { identity, tenant: tenant.ok_or(Refused::Connector)? })
    }

    async fn admit(&self, through: &Wired, known: &Known, now: OffsetDateTime) -> Result<Identity, AdmissionError> {
        if let Some((id, mapped)) = known.admitted.get() {
            let connector = self.admission.connector(id.as_str()).ok_or_else(|| AdmissionError::NoConnector(id.clone()))?;
            return self.admission.readmit(connector, mapped.clone(), now).await;
        }
        let (identity, mapped) = self.admission.admit(through, &known.token.user, now).await?;
        // Another review of the same token may have been first, to the same effect.
        let _ = known.admitted.set((identity.connector().clone(), mapped));
        Ok(identity)
    }
}

/// A token that its upstream vouches for.
pub(super) struct Genuine(Arc<Known>);

impl Genuine {
    /// Whether it is meant for what this entry names.
    pub(super) fn is_for(&self, entry: &UpstreamTokens) -> bool {
        match &self.0.token.audiences {
            Audiences::Named(named) => named.iter().any(|audience| entry.audiences.contains(audience)),
            // The operator says by the entry that they stand for this reviewer.
            Audiences::Unbound => true,
        }
    }

    /// What it says of OpenStack.
    pub(super) fn openstack(&self, way: &Way<'_>) -> Option<OpenStack<'_>> {
        OpenStack::of(way.connector, way.entry, &self.0.token.user.claims)
    }
}

mod forgetting;
#[cfg(test)]
mod tests;
