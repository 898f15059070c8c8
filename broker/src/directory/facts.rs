//! What was told of people a moment ago, and the questions about them that are under way: one for each name, however many want to know.
//!
//! Remembered is what the upstream said, and whom that made of the person; never that tenant and connector still agree, which `known.rs`
//! judges at every use. That there is no such person is not remembered, nor that it could not be told.
//!
//! A person is held by their id, and by each name under which they were found. A name stands as long as the person is held and is the
//! same as when it was found: what is told of them by one way counts for all.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use claims_mapping::{Identity, MappedUser, Tenant, TenantId, TenantScope};
use connectors::ConnectorError;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, ready},
};
use prometheus_client::metrics::{counter::Counter, family::Family};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    DirectoryError, KnownPerson, PersonBy,
    lookup::{Directories, FoundPerson, is_outage},
    shelves::Shelves,
};
use crate::{
    config::{Cs3Cache, seconds},
    metrics::Ended,
    store::StoreError,
};

/// How many of what is over are let go when something is put.
const SWEPT: usize = 8;

/// Someone as they were told of.
pub(super) struct Fact {
    pub(super) person: Arc<KnownPerson>,
    pub(super) mapped: MappedUser,
    /// When the question was begun whose answer it is.
    learnt_at: OffsetDateTime,
    /// The same for all that is held of the person as long as their upstream says the same of them.
    revision: u64,
    /// Whether the question that was to renew it has had no answer.
    pub(super) is_overdue: AtomicBool,
    /// When it was last asked about in the background, in seconds since 1970.
    asked_at: AtomicI64,
}

/// How old a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// It is believed.
    Fresh,
    /// It is believed, and is soon to be asked about again.
    Due,
    /// It counts only where the directory does not answer.
    Stale,
    /// It counts no more.
    Over,
}

/// Why it could not be told, for all who wait.
#[derive(Clone)]
pub(super) enum Untold {
    Connector(ConnectorError),
    Store(Arc<StoreError>),
}

impl Untold {
    /// Whether what was asked did not answer, and may again.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::Connector(error) => is_outage(error),
            Self::Store(error) => matches!(**error, StoreError::Unavailable(_) | StoreError::Newer { .. }),
        }
    }
}

impl From<DirectoryError> for Untold {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Connector(error) => Self::Connector(error),
            DirectoryError::Store(error) => Self::Store(Arc::new(error)),
        }
    }
}

impl From<Untold> for DirectoryError {
    fn from(untold: Untold) -> Self {
        match untold {
            Untold::Connector(error) => Self::Connector(error),
            Untold::Store(error) => Self::Store(StoreError::Unavailable(Box::new(error))),
        }
    }
}

pub(super) type Told = Result<Option<Arc<Fact>>, Untold>;
pub(super) type Flight = Shared<BoxFuture<'static, Told>>;
type Asked = (TenantId, PersonBy);

/// How look-ups ended, counted.
pub(super) struct Counts {
    pub(super) remembered: Counter,
    pub(super) asked: Counter,
    pub(super) stale: Counter,
    pub(super) unavailable: Counter,
}

struct Memory {
    people: Shelves<Uuid, Arc<Fact>>,
    names: Shelves<PersonBy, Arc<Fact>>,
    revision: u64,
}

/// What is remembered, of all tenants.
pub(super) struct Facts {
    fresh: Duration,
    /// With the grace.
    kept: Duration,
    memory: RwLock<Memory>,
    flights: Mutex<HashMap<Asked, Flight>>,
    pub(super) counts: Counts,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").field("fresh", &self.fresh).field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// Takes a question out of the list when it is over, however that comes.
struct Landing {
    facts: Arc<Facts>,
    of: Asked,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.facts.flights().remove(&self.of);
    }
}

impl Facts {
    /// Nothing yet, within these bounds.
    pub(super) fn new(cache: &Cs3Cache, lookups: &Family<Ended, Counter>) -> Self {
        let fresh = seconds(cache.seconds);
        let count = |outcome| lookups.get_or_create(&Ended { outcome }).clone();
        Self {
            fresh,
            kept: fresh.saturating_add(seconds(cache.grace_seconds)),
            memory: RwLock::new(Memory {
                people: Shelves::new(cache.entries, cache.entries_per_tenant),
                names: Shelves::new(cache.entries, cache.entries_per_tenant),
                revision: 0,
            }),
            flights: Mutex::default(),
            counts: Counts {
                remembered: count("remembered"),
                asked: count("asked"),
                stale: count("stale"),
                unavailable: count("unavailable"),
            },
        }
    }

    /// What is held of someone, however old.
    pub(super) fn recall(&self, tenant: &TenantId, by: &PersonBy) -> Option<Arc<Fact>> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        if let PersonBy::Id(id) = by {
            return memory.people.get(tenant, id).cloned();
        }
        let named = memory.names.get(tenant, by)?;
        let person = memory.people.get(tenant, &named.id())?;
        (person.revision == named.revision).then(|| Arc::clone(named))
    }

    /// How old a fact is. One from the future is as old as it is far away: a clock was set back.
    pub(super) fn age(&self, fact: &Fact, now: OffsetDateTime) -> Age {
        let age = (now - fact.learnt_at).abs();
        match age {
            age if age >= self.kept => Age::Over,
            age if age >= self.fresh => Age::Stale,
            age if age >= self.fresh - self.fresh / 3 => Age::Due,
            _ => Age::Fresh,
        }
    }

    /// The same person as the configuration describes tenant and connector by now; how old it is does not change.
    pub(super) fn restate(&self, by: &PersonBy, fact: &Fact, identity: Identity, tenant: &Arc<Tenant>) -> Arc<Fact> {
        let restated = Arc::new(Fact {
            person: Arc::new(KnownPerson { identity, tenant: Arc::clone(tenant) }),
            mapped: fact.mapped.clone(),
            learnt_at: fact.learnt_at,
            revision: fact.revision,
            is_overdue: AtomicBool::new(fact.is_overdue.load(Ordering::Relaxed)),
            asked_at: AtomicI64::new(fact.asked_at.load(Ordering::Relaxed)),
        });
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.put(by, &restated);
        restated
    }

    /// Lets go of someone of whom it was told that they are no more; and of their names, which stand with them.
    pub(super) fn forget(&self, tenant: &TenantId, by: &PersonBy) {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let id = match by {
            PersonBy::Id(id) => Some(*id),
            _ => memory.names.remove(tenant, by).map(|fact| fact.id()),
        };
        if let Some(id) = id {
            memory.people.remove(tenant, &id);
        }
    }

    /// The question about someone that is under way, or a new one, in a task of its own: who goes away takes no answer from the others.
    pub(super) fn ask(
        self: &Arc<Self>,
        directories: &Arc<Directories>,
        (scope, tenant): (&TenantScope, &Arc<Tenant>),
        (by, held): (&PersonBy, Option<&Arc<Fact>>),
        now: OffsetDateTime,
    ) -> Flight {
        let of = (tenant.id.clone(), by.clone());
        let mut flights = self.flights();
        if let Some(flight) = flights.get(&of) {
            return flight.clone();
        }
        // One that has just landed left its answer there.
        let landed = self.recall(&tenant.id, by).filter(|fact| held.is_none_or(|held| !Arc::ptr_eq(held, fact)));
        if let Some(fact) = landed.filter(|fact| matches!(self.age(fact, now), Age::Fresh | Age::Due)) {
            return ready(Ok(Some(fact))).boxed().shared();
        }
        let landing = Landing { facts: Arc::clone(self), of: of.clone() };
        let (directories, scope, tenant) = (Arc::clone(directories), scope.clone(), Arc::clone(tenant));
        let known = held.map(|fact| Arc::clone(&fact.person));
        let task = tokio::spawn(async move {
            let (facts, (_, by)) = (&landing.facts, &landing.of);
            let answer = match (by, &known) {
                (PersonBy::Id(id), Some(known)) => {
                    let record = (known.identity.connector(), known.identity.subject());
                    directories.by_record(&scope, *id, record, now).await
                }
                _ => directories.ask(&scope, by, now).await,
            };
            facts.land(&tenant, by, answer, now)
        });
        let stopped = |_| Err(Untold::Connector(ConnectorError::Unavailable("the question was stopped".to_owned())));
        let flight = task.map(move |told| told.unwrap_or_else(stopped)).boxed().shared();
        flights.insert(of, flight.clone());
        flight
    }

    /// Remembers what came of a question.
    fn land(&self, tenant: &Arc<Tenant>, by: &PersonBy, answer: Result<Option<FoundPerson>, DirectoryError>, now: OffsetDateTime) -> Told {
        match answer {
            Ok(Some(found)) => Ok(Some(self.keep(tenant, by, found, now))),
            Ok(None) => {
                self.forget(&tenant.id, by);
                Ok(None)
            }
            Err(error) => {
                let untold = Untold::from(error);
                // Where it is an operator's to act, whoever comes next is told so, and not what was.
                if let Some(fact) = self.recall(&tenant.id, by) {
                    fact.is_overdue.store(untold.is_outage(), Ordering::Relaxed);
                }
                Err(untold)
            }
        }
    }

    fn keep(&self, tenant: &Arc<Tenant>, by: &PersonBy, FoundPerson { identity, mapped }: FoundPerson, now: OffsetDateTime) -> Arc<Fact> {
        let id = identity.id().opaque_id();
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let same = memory.people.get(&tenant.id, &id).filter(|held| held.mapped == mapped).map(|held| held.revision);
        let revision = same.unwrap_or_else(|| memory.revision.saturating_add(1));
        memory.revision = memory.revision.max(revision);
        let fact = Arc::new(Fact {
            person: Arc::new(KnownPerson { identity, tenant: Arc::clone(tenant) }),
            mapped,
            learnt_at: now,
            revision,
            is_overdue: AtomicBool::new(false),
            asked_at: AtomicI64::new(i64::MIN),
        });
        if self.kept > Duration::ZERO {
            memory.put(by, &fact);
            let is_over = |fact: &Arc<Fact>| self.age(fact, now) == Age::Over;
            memory.people.sweep(SWEPT, is_over);
            memory.names.sweep(SWEPT, is_over);
        }
        fact
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Asked, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn put(&mut self, by: &PersonBy, fact: &Arc<Fact>) {
        let tenant = fact.person.identity.id().tenant_id();
        self.people.put(tenant, fact.id(), Arc::clone(fact));
        if !matches!(by, PersonBy::Id(_)) {
            self.names.put(tenant, by.clone(), Arc::clone(fact));
        }
    }
}

impl Fact {
    fn id(&self) -> Uuid {
        self.person.identity.id().opaque_id()
    }

    /// Whether it was not asked about in this second, which it is now.
    pub(super) fn is_to_ask(&self, now: OffsetDateTime) -> bool {
        let second = now.unix_timestamp();
        self.asked_at.swap(second, Ordering::Relaxed) != second
    }
}
