//! Lists all that directories know, so that the records of their people's ids are written: after a store was lost, or before ids are asked for that
//! nobody has searched for yet. People who are known only because they have signed in are in no directory's list.
//!
//! A list is one tenant at one connector. It is asked for as a whole, for the ports have no pages that would outlast a request, and is recorded in
//! batches. What could not be told leaves what was recorded as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use claims_mapping::{ConnectorId, Tenant, TenantId, UpstreamUser};
use connectors::{ConnectorError, Directory, Found};
use futures_util::{TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc::Sender},
    time::{Instant, sleep},
};

use crate::{
    store::StoreError,
    tenancy::{Admission, Caller, Wired},
};

/// The most people of one list. They are held in memory at once, a kilobyte or so each.
const LIST_MOST: usize = 1_000_000;
/// How many lists are asked for at a time.
const LISTS_AT_ONCE: usize = 4;
/// How many people are recorded at a time.
const BATCH: usize = 500;
/// For how long a list is asked for again while its directory does not answer.
const AGAIN_WITHIN: Duration = Duration::from_secs(20);
/// After so many lists in a row that a connector did not give, it is asked for no more of them.
const GIVEN_UP_AFTER: u32 = 3;

/// What is to be listed: everything, or one tenant's, or one connector's.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wanted {
    /// The tenant.
    pub tenant: Option<TenantId>,
    /// The connector.
    pub connector: Option<ConnectorId>,
}

/// It is not begun.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReindexError {
    /// There is no such tenant.
    #[error("there is no such tenant, or it is disabled")]
    NoTenant,
    /// There is no such connector.
    #[error("there is no such connector, it is disabled, or it has no directory")]
    NoConnector,
    /// One is under way.
    #[error("a reindex is under way; wait for its end")]
    UnderWay,
}

/// What is told while it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub enum Told {
    /// It begins.
    Begun {
        /// How many lists there are to be asked for.
        lists: usize,
    },
    /// A batch was recorded.
    Batch {
        /// How many people it had.
        people: usize,
    },
    /// A list is done.
    Listed(List),
    /// A list could not be had, or not be recorded to its end.
    Unreached {
        /// Whose.
        tenant: TenantId,
        /// From which directory.
        connector: ConnectorId,
        /// Why not.
        why: String,
    },
    /// A connector was asked for no more lists.
    GivenUp {
        /// Which.
        connector: ConnectorId,
        /// How many lists it was not asked for.
        lists: usize,
    },
    /// It has ended.
    Ended(Summary),
}

/// One list, recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Whose people.
    pub tenant: TenantId,
    /// From which directory.
    pub connector: ConnectorId,
    /// How many were listed.
    pub people: usize,
    /// How many of them had no record before.
    pub recorded: usize,
    /// How many were not admitted: no tenant, another tenant, a name that can not be, an id that is someone else's.
    pub refused: usize,
    /// Whether the directory cut the list, so that there are more.
    pub truncated: bool,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many tenants were listed at a connector at least.
    pub tenants: usize,
    /// How many connectors gave a list at least.
    pub connectors: usize,
    /// How many people were listed.
    pub people: usize,
    /// How many of them had no record before.
    pub recorded: usize,
    /// How many were not admitted.
    pub refused: usize,
    /// How many lists were cut by their directory.
    pub truncated: usize,
    /// How many lists could not be had, or not be recorded to their end.
    pub unreached: usize,
}

/// The use case: one at a time.
#[derive(Debug)]
pub struct Reindex {
    admission: Arc<Admission>,
    turn: Arc<Semaphore>,
}

/// One that may begin.
pub struct Plan {
    admission: Arc<Admission>,
    lists: Vec<Wish>,
    summary: Mutex<Counted>,
    /// How many lists in a row each connector did not give, and how many it was not asked for after that.
    troubles: BTreeMap<ConnectorId, (AtomicU32, AtomicU32)>,
    _turn: OwnedSemaphorePermit,
}

/// A list that is to be asked for.
struct Wish {
    tenant: Arc<Tenant>,
    connector: Arc<Wired>,
    directory: Arc<dyn Directory>,
}

#[derive(Default)]
struct Counted {
    summary: Summary,
    tenants: BTreeSet<TenantId>,
    connectors: BTreeSet<ConnectorId>,
}

/// Nobody listens any more.
struct Unheard;

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("lists", &self.lists.len()).finish_non_exhaustive()
    }
}

impl Reindex {
    /// A reindex over these connectors.
    #[must_use]
    pub fn new(admission: Arc<Admission>) -> Self {
        Self { admission, turn: Arc::new(Semaphore::new(1)) }
    }

    /// What is to be done; whoever holds it has the turn.
    ///
    /// # Errors
    /// When there is no such tenant or connector, or another one is under way.
    pub fn plan(&self, wanted: &Wanted) -> Result<Plan, ReindexError> {
        let with_directory = |connector: &Arc<Wired>| Some((Arc::clone(connector), Arc::clone(connector.directory.as_ref()?)));
        let mut connectors: Vec<_> = self.admission.connectors().filter_map(with_directory).collect();
        if let Some(id) = &wanted.connector {
            connectors.retain(|(connector, _)| connector.id == *id);
            if connectors.is_empty() {
                return Err(ReindexError::NoConnector);
            }
        }
        let tenants = match &wanted.tenant {
            None => self.admission.tenants.all_enabled(),
            Some(id) => vec![self.admission.tenants.enabled(id).ok_or(ReindexError::NoTenant)?],
        };
        let turn = Arc::clone(&self.turn).try_acquire_owned().map_err(|_| ReindexError::UnderWay)?;
        let mut lists = Vec::new();
        for tenant in &tenants {
            for (connector, directory) in connectors.iter().filter(|(connector, _)| connector.serves(tenant)) {
                lists.push(Wish { tenant: Arc::clone(tenant), connector: Arc::clone(connector), directory: Arc::clone(directory) });
            }
        }
        Ok(Plan {
            admission: Arc::clone(&self.admission),
            lists,
            summary: Mutex::default(),
            troubles: connectors.into_iter().map(|(connector, _)| (connector.id.clone(), Default::default())).collect(),
            _turn: turn,
        })
    }
}

impl Plan {
    /// Does it, and tells how it goes; it ends early where nobody listens any more.
    pub async fn run(self, now: OffsetDateTime, tell: Sender<Told>) {
        let told = async {
            say(&tell, Told::Begun { lists: self.lists.len() }).await?;
            let lists = stream::iter(self.lists.iter().map(Ok));
            lists.try_for_each_concurrent(LISTS_AT_ONCE, |list| self.list(list, now, &tell)).await?;
            for (connector, (_, skipped)) in &self.troubles {
                let lists = skipped.load(Ordering::Relaxed) as usize;
                if lists > 0 {
                    say(&tell, Told::GivenUp { connector: connector.clone(), lists }).await?;
                }
            }
            let summary = self.count(|counted| Summary {
                tenants: counted.tenants.len(),
                connectors: counted.connectors.len(),
                ..counted.summary.clone()
            });
            tracing::info!(
                target: "audit", event = "directory.reindex", people = summary.people, recorded = summary.recorded, unreached = summary.unreached,
            );
            say(&tell, Told::Ended(summary)).await
        };
        // A directory that takes its time must not hold the turn of whoever has gone away.
        let told = tokio::select! {
            told = told => told,
            () = tell.closed() => Err(Unheard),
        };
        if told.is_err() {
            tracing::warn!("a reindex was left before its end; what it had recorded stays");
        }
    }

    fn count<T>(&self, count: impl FnOnce(&mut Counted) -> T) -> T {
        count(&mut self.summary.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn list(&self, wish: &Wish, now: OffsetDateTime, tell: &Sender<Told>) -> Result<(), Unheard> {
        let Wish { tenant, connector, directory } = wish;
        let Some((failed, skipped)) = self.troubles.get(&connector.id) else { return Ok(()) };
        if failed.load(Ordering::Relaxed) >= GIVEN_UP_AFTER {
            skipped.fetch_add(1, Ordering::Relaxed);
            self.count(|counted| counted.summary.unreached += 1);
            return Ok(());
        }
        let why = match patiently(&**directory, tenant).await {
            Ok(found) => {
                failed.store(0, Ordering::Relaxed);
                match self.record(tenant, connector, found, now, tell).await? {
                    Ok(list) => {
                        self.count(|counted| {
                            counted.tenants.insert(tenant.id.clone());
                            counted.connectors.insert(connector.id.clone());
                            counted.summary.truncated += usize::from(list.truncated);
                        });
                        return say(tell, Told::Listed(list)).await;
                    }
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => {
                failed.fetch_add(1, Ordering::Relaxed);
                error.to_string()
            }
        };
        self.count(|counted| counted.summary.unreached += 1);
        say(tell, Told::Unreached { tenant: tenant.id.clone(), connector: connector.id.clone(), why }).await
    }

    async fn record(
        &self,
        tenant: &Tenant,
        connector: &Wired,
        found: Found,
        now: OffsetDateTime,
        tell: &Sender<Told>,
    ) -> Result<Result<List, StoreError>, Unheard> {
        let Found { users, truncated } = found;
        let mut list = List { tenant: tenant.id.clone(), connector: connector.id.clone(), people: 0, recorded: 0, refused: 0, truncated };
        let mut users = users.into_iter();
        loop {
            let batch: Vec<_> = users.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(Ok(list));
            }
            let people = batch.len();
            let (recorded, refused) = match self.record_batch(&tenant.id, connector, batch, now).await {
                Ok(counts) => counts,
                Err(error) => return Ok(Err(error)),
            };
            list.people += people;
            list.recorded += recorded;
            list.refused += refused;
            self.count(|counted| {
                counted.summary.people += people;
                counted.summary.recorded += recorded;
                counted.summary.refused += refused;
            });
            say(tell, Told::Batch { people }).await?;
        }
    }

    /// How many of them are recorded now and were not before, and how many were not admitted.
    async fn record_batch(
        &self,
        tenant: &TenantId,
        connector: &Wired,
        batch: Vec<UpstreamUser>,
        now: OffsetDateTime,
    ) -> Result<(usize, usize), StoreError> {
        let people = batch.len();
        let mapped: Vec<_> = batch.iter().filter_map(|user| connector.mapping.evaluate(user).ok()).collect();
        let mut fresh = BTreeSet::new();
        for mapped in &mapped {
            if let Ok(person) = self.admission.readmit(connector, mapped.clone(), now).await {
                let id = person.id();
                if id.tenant_id() == tenant && self.admission.ids.get(tenant, id.opaque_id(), now).await?.is_none() {
                    fresh.insert(id.opaque_id());
                }
            }
        }
        let admitted = self.admission.admit_known(connector, mapped, tenant, now).await?;
        let recorded: BTreeSet<_> = admitted.iter().map(|person| person.id().opaque_id()).filter(|id| fresh.contains(id)).collect();
        Ok((recorded.len(), people.saturating_sub(admitted.len())))
    }
}

/// Asks for a whole list, again for some seconds where the directory does not answer: a connection that broke must not cost a tenant its list.
async fn patiently(directory: &dyn Directory, tenant: &Arc<Tenant>) -> Result<Found, ConnectorError> {
    let scope = Caller::scope_of_reindex(tenant);
    let (begun, mut pause) = (Instant::now(), Duration::from_secs(1));
    loop {
        match directory.everyone(&scope, LIST_MOST).await {
            Err(ConnectorError::Unavailable(_)) if begun.elapsed() + pause < AGAIN_WITHIN => {
                sleep(pause).await;
                pause *= 2;
            }
            answer => return answer,
        }
    }
}

async fn say(tell: &Sender<Told>, told: Told) -> Result<(), Unheard> {
    tell.send(told).await.map_err(|_| Unheard)
}
