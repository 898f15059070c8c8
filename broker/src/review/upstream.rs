//! Tokens of upstreams themselves, for the reviewers that take them.
//!
//! It owns which connector is asked, and who the bearer is. Whether a token is genuine the connector says ([`asking`]: once for a
//! token, so many at once); who its bearer is here, the admission. Remembered ([`known`]) is what the upstream said, and
//! never that tenant, connector and reviewer still agree: that is judged at every use, as is whether any replica had it taken back
//! ([`taken_back`]).

mod asking;
mod known;
mod shown;
mod taken_back;

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use claims_mapping::{ConnectorId, Identity, Tenant};
use connectors::{Audiences, UnverifiedToken};
use time::OffsetDateTime;

pub(super) use self::shown::TakenBack;
use self::{
    asking::Asking,
    known::{Answer, Known, Memory, TAKEN_BACK},
    shown::Shown,
    taken_back::Records,
};
use super::{Refused, Reviewer, Untold, openstack::OpenStack};
use crate::{
    config::UpstreamTokens,
    store::{Peers, Store},
    tenancy::{Admission, AdmissionError, Wired},
};

/// The way of an upstream's token.
pub(super) struct Way<'a> {
    /// What the reviewer takes of it.
    pub(super) entry: &'a UpstreamTokens,
    connector: &'a Arc<Wired>,
    asking: &'a Arc<Asking>,
    shown: Shown,
}

/// Someone whom a token of an upstream proved.
pub(super) struct Bearer {
    pub(super) identity: Identity,
    pub(super) tenant: Arc<Tenant>,
}

/// What an answer about a token of an upstream rests on. It keeps nothing alive that the memory has let go.
pub(super) struct Basis {
    shown: Shown,
    known: Weak<Known>,
    through: Arc<Wired>,
    tenant: Arc<Tenant>,
}

/// The upstreams' tokens.
pub(super) struct Upstreams {
    admission: Arc<Admission>,
    /// Our own: tokens that name it are never an upstream's.
    issuer: String,
    memory: Arc<Memory>,
    asking: BTreeMap<ConnectorId, Arc<Asking>>,
    pub(super) records: Records,
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstreams").field("connectors", &self.asking.len()).finish_non_exhaustive()
    }
}

impl Upstreams {
    pub(super) fn new(admission: Arc<Admission>, issuer: String, store: Arc<dyn Store>, peers: Arc<dyn Peers>) -> Self {
        let memory = Arc::new(Memory::new());
        let asking = admission.connectors().filter_map(|connector| Asking::new(connector, Arc::clone(&memory)));
        let asking = asking.map(|asking| (asking.id.clone(), Arc::new(asking))).collect();
        Self { admission, issuer, memory, asking, records: Records::new(store, peers) }
    }

    /// The way of a token that says that it is of an upstream whose tokens the reviewer takes. `None` for every other token:
    /// it is ours or nobody's, and no upstream hears of it.
    pub(super) fn way<'a>(&'a self, reviewer: &'a Reviewer, token: UnverifiedToken<'_>) -> Option<Way<'a>> {
        if reviewer.upstream_tokens.is_empty() || token.text().len() > UnverifiedToken::MAX_BYTES {
            return None;
        }
        let shown = Shown::of(token);
        let of = |entry: &'a UpstreamTokens| {
            let connector = self.admission.connector(entry.connector.as_str())?;
            Some(Way { entry, connector, asking: self.asking.get(&connector.id)?, shown })
        };
        let known = self.memory.connector(&shown);
        if let Some(entry) = reviewer.upstream_tokens.iter().find(|entry| known.as_ref() == Some(&entry.connector)) {
            return of(entry);
        }
        if token.unverified_issuer().is_some_and(|issuer| issuer == self.issuer) {
            return None;
        }
        reviewer.upstream_tokens.iter().filter_map(of).find(|way| way.asking.claims(token))
    }

    /// What a token says that is genuine, and in force at this time.
    ///
    /// # Errors
    /// That it is not, or that it could not be told.
    pub(super) async fn genuine(&self, way: &Way<'_>, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Genuine, Refused> {
        let id = &way.connector.id;
        match way.asking.about(token, way.shown, now).await {
            Ok(Answer::Genuine(known)) => {
                self.was_taken_back(way, &known, now).await?;
                Ok(Genuine(known))
            }
            Ok(Answer::Bad(reason)) => Err(Refused::Upstream(id.clone(), reason)),
            Err(error) => Err(Refused::CouldNotTell(Untold::Upstream(id.clone(), error))),
        }
    }

    /// Refuses a genuine token that a replica has taken back. Where what was seen of that before may have changed the store is looked at,
    /// and where none is ever taken back, nothing.
    async fn was_taken_back(&self, way: &Way<'_>, known: &Known, now: OffsetDateTime) -> Result<(), Refused> {
        if self.surely_not_taken_back(way.connector, known, now) {
            return Ok(());
        }
        let looked = self.records.look(&way.connector.id, &way.shown, now).await;
        let (is_taken_back, mark) = looked.map_err(|error| Refused::CouldNotTell(Untold::Store(error)))?;
        if is_taken_back {
            way.asking.forget(TakenBack::Token(way.shown), now);
            return Err(Refused::Upstream(way.connector.id.clone(), TAKEN_BACK.to_owned()));
        }
        known.seen.store(mark.map(Arc::new));
        Ok(())
    }

    fn surely_not_taken_back(&self, connector: &Wired, known: &Known, now: OffsetDateTime) -> bool {
        connector.revocation.is_none() || known.seen.load().as_ref().is_some_and(|mark| self.records.is_as_seen(mark, now))
    }

    /// Takes up what a replica told of a token.
    pub(super) fn heard(&self, text: &[u8], now: OffsetDateTime) {
        if let Some((asking, what)) = taken_back::heard(text).and_then(|(id, what)| Some((self.asking.get(&id)?, what))) {
            asking.forget(what, now);
        }
    }

    /// What is asked about the tokens of a connector, and what is remembered of the answers.
    pub(super) fn asking(&self, connector: &ConnectorId) -> Option<Arc<Asking>> {
        self.asking.get(connector).cloned()
    }

    /// What an answer about a genuine token and its bearer rests on.
    pub(super) fn basis(way: &Way<'_>, token: &Genuine, tenant: &Arc<Tenant>) -> Basis {
        let (known, through) = (Arc::downgrade(&token.0), Arc::clone(way.connector));
        Basis { shown: way.shown, known, through, tenant: Arc::clone(tenant) }
    }

    /// Whether a token that was genuine surely still is, and its bearer who they were, in the same tenant as it is described now.
    /// `false` says nothing: review it.
    pub(super) fn surely_stands(&self, basis: &Basis, now: OffsetDateTime) -> bool {
        let known = self.memory.standing(&basis.shown).filter(|known| std::ptr::eq(Arc::as_ptr(known), basis.known.as_ptr()));
        let Some(known) = known.filter(|known| now.unix_timestamp() < known.until) else { return false };
        if !self.surely_not_taken_back(&basis.through, &known, now) {
            return false;
        }
        let Some((id, mapped)) = known.admitted.get() else { return false };
        self.admission.connector(id.as_str()).is_some_and(|own| self.admission.surely_readmits(own, mapped, &basis.tenant))
            && basis.through.serves(&basis.tenant)
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

#[cfg(test)]
mod tests;
