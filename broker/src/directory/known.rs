//! One person, exactly, from what is remembered of them where that is fresh.
//!
//! That their tenant and connector are on, and that the tenant rule still gives this tenant, is judged at every use. Past its time a fact
//! counts only while the directory is silent, and never after it said "no".

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use claims_mapping::{Identity, Tenant, TenantScope};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use time::OffsetDateTime;
use tokio::time::timeout;
use uuid::Uuid;

use super::{
    DirectoryError, People,
    facts::{Age, Fact, Facts},
};
use crate::tenancy::AdmissionError;

/// How long a directory is waited for by whoever could be given what it said earlier.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many people are looked up at once for one request.
const AT_ONCE: usize = 8;

/// By what one person is looked up; always exact.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PersonBy {
    /// The opaque id.
    Id(Uuid),
    /// The username within the tenant, without regard to case.
    Username(String),
    /// The e-mail address, without regard to case.
    Mail(String),
    /// The POSIX user number.
    UidNumber(i64),
    /// The POSIX number of the user's own group.
    GidNumber(i64),
}

/// Someone whom a directory knew a moment ago. That their tenant and connector are on was checked now.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownPerson {
    /// Who, groups included.
    pub identity: Identity,
    /// Their tenant.
    pub tenant: Arc<Tenant>,
}

impl People {
    /// One person of the scope's tenant; `None` where there is none, or more than one. What is remembered of them answers for as long as
    /// `cs3.cache` says; where nothing is remembered at all, each call asks.
    ///
    /// # Errors
    /// When the store or a directory could not tell: that is never "none".
    pub async fn person(
        &self,
        scope: &TenantScope,
        by: &PersonBy,
        now: OffsetDateTime,
    ) -> Result<Option<Arc<KnownPerson>>, DirectoryError> {
        let Some(tenant) = self.directories.admission.tenants.enabled(scope.tenant_id()) else { return Ok(None) };
        let Some(facts) = &self.facts else {
            let found = self.directories.ask(scope, by, now).await?;
            return Ok(found.map(|found| Arc::new(KnownPerson { identity: found.identity, tenant })));
        };
        let held = match facts.recall(&tenant.id, by) {
            Some(fact) => self.standing(facts, by, fact, &tenant, now).await?,
            None => None,
        };
        let age = held.as_ref().map_or(Age::Over, |fact| facts.age(fact, now));
        let ask = || facts.ask(&self.directories, (scope, &tenant), (by, held.as_ref()), now);
        match (age, &held) {
            (Age::Fresh, Some(fact)) => {
                facts.counts.remembered.inc();
                Ok(Some(Arc::clone(&fact.person)))
            }
            (Age::Due, Some(fact)) => {
                if fact.is_to_ask(now) {
                    drop(ask());
                }
                facts.counts.remembered.inc();
                Ok(Some(Arc::clone(&fact.person)))
            }
            // It is known to be silent: nobody waits, and it is asked all the same.
            (Age::Stale, Some(fact)) if fact.is_overdue.load(Ordering::Relaxed) => {
                if fact.is_to_ask(now) {
                    drop(ask());
                }
                facts.counts.stale.inc();
                Ok(Some(Arc::clone(&fact.person)))
            }
            (Age::Stale, Some(fact)) => match timeout(PATIENCE, ask()).await {
                Ok(Err(untold)) if !untold.is_outage() => {
                    facts.counts.unavailable.inc();
                    Err(untold.into())
                }
                Ok(Ok(told)) => {
                    facts.counts.asked.inc();
                    Ok(told.map(|fact| Arc::clone(&fact.person)))
                }
                Ok(Err(_)) | Err(_) => {
                    fact.is_overdue.store(true, Ordering::Relaxed);
                    facts.counts.stale.inc();
                    Ok(Some(Arc::clone(&fact.person)))
                }
            },
            (Age::Over, _) | (_, None) => {
                let told = ask().await;
                let count = if told.is_ok() { &facts.counts.asked } else { &facts.counts.unavailable };
                count.inc();
                Ok(told?.map(|fact| Arc::clone(&fact.person)))
            }
        }
    }

    /// These people with their groups, which a search leaves out, in the same order; who is gone meanwhile is left out.
    ///
    /// # Errors
    /// When it could not be told of one of them.
    pub async fn with_groups(
        &self,
        scope: &TenantScope,
        people: &[Identity],
        now: OffsetDateTime,
    ) -> Result<Vec<Arc<KnownPerson>>, DirectoryError> {
        let ids: Vec<_> = people.iter().map(|person| PersonBy::Id(person.id().opaque_id())).collect();
        let asked = stream::iter(ids.into_iter().map(|by| async move { self.person(scope, &by, now).await }));
        let known: Vec<_> = asked.buffered(AT_ONCE).try_collect().await?;
        Ok(known.into_iter().flatten().collect())
    }

    /// A fact, if it would still make the same person: the connector is on and serves the tenant, which is on, and the tenant rule gives
    /// it. What does not stand is let go.
    async fn standing(
        &self,
        facts: &Facts,
        by: &PersonBy,
        fact: Arc<Fact>,
        tenant: &Arc<Tenant>,
        now: OffsetDateTime,
    ) -> Result<Option<Arc<Fact>>, DirectoryError> {
        let (admission, identity) = (&self.directories.admission, &fact.person.identity);
        if let Some(connector) = admission.connector(identity.connector().as_str()) {
            if Arc::ptr_eq(&fact.person.tenant, tenant) && admission.surely_readmits(connector, &fact.mapped, tenant) {
                return Ok(Some(fact));
            }
            if connector.serves(tenant) {
                match admission.readmit(connector, fact.mapped.clone(), now).await {
                    Ok(anew) if anew.id() == identity.id() => return Ok(Some(facts.restate(by, &fact, anew, tenant))),
                    Err(AdmissionError::Store(error)) => return Err(error.into()),
                    Ok(_) | Err(_) => {}
                }
            }
        }
        facts.forget(&tenant.id, by);
        Ok(None)
    }
}
