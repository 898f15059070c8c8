//! User search and look-up over the connectors, within one tenant.
//!
//! The tenant is enforced twice: in the query that goes upstream, and on every admitted result. Directories are asked side by
//! side, each with its own deadline; one that does not answer is named, and takes nothing from the others. Of a connector
//! without a directory, those are found who have signed in through it.

mod facts;
mod known;
mod lookup;
mod reindex;
mod shelves;

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::{Identity, TenantScope};
use connectors::{ConnectorError, UserQuery};
use futures_util::future::join_all;
use prometheus_client::metrics::{counter::Counter, family::Family};
use time::OffsetDateTime;
use uuid::Uuid;

use self::{facts::Facts, lookup::Directories};
use crate::{
    config::{Cs3Cache, SearchConfig},
    metrics::Ended,
    store::StoreError,
    tenancy::{Admission, SignedInPeople, Wired},
};

pub use known::{KnownPerson, PersonBy};
pub use reindex::{List, Plan as ReindexPlan, Reindex, ReindexError, Summary, Told, Wanted};

/// A search of one tenant's people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// A substring; empty finds everyone.
    pub text: String,
    /// The most people on this page.
    pub limit: usize,
    /// The last one of the page before: the page begins after them.
    pub after: Option<Position>,
}

/// A place in the order of results: by username (case folded), then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The username, case folded.
    pub name: String,
    /// The opaque id.
    pub id: Uuid,
}

/// One page of people.
#[derive(Debug, Default)]
pub struct PeoplePage {
    /// The people, in order.
    pub people: Vec<Identity>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Position>,
    /// Whether a directory cut its answer short, so that a narrower search may find more.
    pub truncated: bool,
    /// The connectors that did not answer in time, or could not.
    pub incomplete: Vec<String>,
}

/// It could not be told who there is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory could not tell.
    #[error(transparent)]
    Connector(#[from] ConnectorError),
}

/// The use case.
#[derive(Debug)]
pub struct People {
    directories: Arc<Directories>,
    bounds: SearchConfig,
    facts: Option<Arc<Facts>>,
}

impl People {
    /// People through these connectors; where one has no directory, those who have signed in.
    #[must_use]
    pub fn new(admission: Arc<Admission>, signed_in: SignedInPeople, bounds: SearchConfig) -> Self {
        Self { directories: Arc::new(Directories { admission, signed_in }), bounds, facts: None }
    }

    /// The same, where what was told of one person is remembered for [`Self::person`]; `lookups` counts how those ended.
    #[must_use]
    pub fn remembering(self, cache: &Cs3Cache, lookups: &Family<Ended, Counter>) -> Self {
        Self { facts: Some(Arc::new(Facts::new(cache, lookups))), ..self }
    }

    /// The bounds in force.
    #[must_use]
    pub const fn bounds(&self) -> &SearchConfig {
        &self.bounds
    }

    /// Searches the scope's tenant.
    ///
    /// # Errors
    /// When the store could not tell. Directories that could not are named in the page instead.
    pub async fn search(&self, scope: &TenantScope, search: &Search, now: OffsetDateTime) -> Result<PeoplePage, DirectoryError> {
        let query = UserQuery { text: search.text.clone(), limit: self.bounds.results_most };
        let asked = self.directories.admission.connectors().filter(|c| c.directory.is_some() && c.serves(scope.tenant()));
        let answers = join_all(asked.map(|connector| ask(connector, scope, &query))).await;
        let mut page = PeoplePage::default();
        for (connector, answer) in answers {
            match answer {
                Ok(found) => {
                    page.truncated |= found.truncated;
                    page.people.extend(self.directories.admission.admit_found(connector, found.users, scope.tenant_id(), now).await?);
                }
                Err(error) => {
                    // Of an outage the log is told once, by the breaker.
                    if !matches!(error, ConnectorError::Unavailable(_)) {
                        tracing::warn!(connector.id = %connector.id, tenant.id = %scope.tenant_id(), %error, "a directory could not be searched");
                    }
                    page.incomplete.push(connector.id.as_str().to_owned());
                }
            }
        }
        self.add_signed_in(&mut page, scope, &query, now).await?;
        // Keys are folded once each; two connectors may know the same person by the same id.
        let mut placed: Vec<_> = page.people.drain(..).map(|person| (position(&person), person)).collect();
        placed.retain(|(at, _)| search.after.as_ref().is_none_or(|after| at > after));
        placed.sort_by(|(a, _), (b, _)| a.cmp(b));
        placed.dedup_by(|(a, _), (b, _)| a == b);
        if placed.len() > search.limit {
            placed.truncate(search.limit);
            page.next = placed.last().map(|(at, _)| at.clone());
        }
        page.people = placed.into_iter().map(|(_, person)| person).collect();
        Ok(page)
    }

    /// One person of the scope's tenant by their opaque id; `None` for everyone else's, and for ids that were never returned.
    ///
    /// # Errors
    /// When the store or the directory could not tell: that is never "none".
    pub async fn get(&self, scope: &TenantScope, id: Uuid, now: OffsetDateTime) -> Result<Option<Identity>, DirectoryError> {
        Ok(self.directories.by_id(scope, id, now).await?.map(|found| found.identity))
    }

    /// Adds those who have signed in through connectors that have no directory: one look at the tenant's records for all of these.
    async fn add_signed_in(
        &self,
        page: &mut PeoplePage,
        scope: &TenantScope,
        query: &UserQuery,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let asked: BTreeMap<_, _> = self
            .directories
            .admission
            .connectors()
            .filter(|c| c.remembers_people() && c.serves(scope.tenant()))
            .map(|c| (&c.id, c))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let seen = self.directories.signed_in.search(scope.tenant_id(), |id| asked.contains_key(id), &query.text, query.limit, now).await?;
        page.truncated |= seen.truncated;
        for (id, known) in seen.people {
            let Some(connector) = asked.get(&id) else { continue };
            page.people.extend(self.directories.admission.admit_known(connector, known, scope.tenant_id(), now).await?);
        }
        Ok(())
    }
}

async fn ask<'c>(connector: &'c Wired, scope: &TenantScope, query: &UserQuery) -> (&'c Wired, Result<connectors::Found, ConnectorError>) {
    let answer = match &connector.directory {
        Some(directory) => directory.search(scope, query).await,
        None => Ok(connectors::Found::default()),
    };
    (connector, answer)
}

fn position(person: &Identity) -> Position {
    Position { name: crate::login::canonical(person.username()), id: person.id().opaque_id() }
}
