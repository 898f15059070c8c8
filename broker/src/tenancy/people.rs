//! People who have signed in through a connector that has no directory: they are its directory.
//!
//! It owns the records, and for how long each is kept. A record is what the mapping gave when its person was last seen; who
//! may be shown of them, whoever asks admits anew.

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::{ConnectorId, Identity, MappedUser, TenantId, fold};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::stored_user::StoredUser;
use crate::store::{Batch, Key, Kind, Partition, Store, StoreError};

/// The most records that one search reads; beyond them it says that it was cut short.
const MOST_READ: usize = 100_000;
/// The records of one page of the store.
const PAGE: usize = 1_000;

/// The form that is stored.
#[derive(Serialize, Deserialize)]
struct PersonRecord {
    connector: ConnectorId,
    user: StoredUser,
    /// In seconds since 1970.
    seen_at: i64,
}

/// What a search found, as each connector's mapping gave it.
#[derive(Debug, Default)]
pub struct Seen {
    /// The people, by connector.
    pub people: BTreeMap<ConnectorId, Vec<MappedUser>>,
    /// Whether a bound cut the answer.
    pub truncated: bool,
}

/// The records.
#[derive(Clone)]
pub struct SignedInPeople {
    store: Arc<dyn Store>,
    kept: Duration,
}

impl std::fmt::Debug for SignedInPeople {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignedInPeople").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl SignedInPeople {
    /// Records that are kept so long after their person was last seen.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, kept: Duration) -> Self {
        Self { store, kept }
    }

    /// The batch that records someone who was just seen; an empty one where that is recorded already, not longer ago than a
    /// day, and nothing has changed.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn seen(&self, person: &Identity, mapped: &MappedUser, now: OffsetDateTime) -> Result<Batch, StoreError> {
        let key = key(person.id().tenant_id(), person.id().opaque_id());
        let user = StoredUser::from(mapped.clone());
        let fresh_from = (now - Duration::DAY.min(self.kept / 2)).unix_timestamp();
        let known = self.store.get(&key, now).await?.and_then(|entry| serde_json::from_slice::<PersonRecord>(&entry.value).ok());
        if known.is_some_and(|known| known.seen_at > fresh_from && known.connector == *person.connector() && known.user == user) {
            return Ok(Batch::new());
        }
        let record = PersonRecord { connector: person.connector().clone(), user, seen_at: now.unix_timestamp() };
        let value = serde_json::to_vec(&record).map_err(|e| StoreError::Unavailable(Box::new(e)))?;
        Ok(Batch::new().put(key, value, Some(now + self.kept)))
    }

    /// Forgets someone of whom the upstream says that they are gone.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn gone(&self, tenant: &TenantId, id: Uuid, now: OffsetDateTime) -> Result<(), StoreError> {
        self.store.commit(Batch::new().delete(key(tenant, id)), now).await.map(drop)
    }

    /// One person, and through which connector.
    ///
    /// # Errors
    /// When the store could not tell, or the record can not be read.
    pub async fn get(&self, tenant: &TenantId, id: Uuid, now: OffsetDateTime) -> Result<Option<(ConnectorId, MappedUser)>, StoreError> {
        let Some(entry) = self.store.get(&key(tenant, id), now).await? else { return Ok(None) };
        let record: PersonRecord = serde_json::from_slice(&entry.value).map_err(|e| StoreError::Unavailable(Box::new(e)))?;
        Ok(Some((record.connector, record.user.into())))
    }

    /// People of these connectors whose username, full name or e-mail address holds the text, without regard to case; at most
    /// `limit`, in no particular order.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn search(
        &self,
        tenant: &TenantId,
        of: impl Fn(&ConnectorId) -> bool + Send,
        text: &str,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Seen, StoreError> {
        let text = fold(text);
        self.read(tenant, of, |user| holds(user, &text), limit, now).await
    }

    /// People of these connectors who are exactly those that are meant: none, one, or two of them where there are more.
    ///
    /// # Errors
    /// When the store could not tell, or there are too many people to go through.
    pub(crate) async fn exactly(
        &self,
        tenant: &TenantId,
        of: impl Fn(&ConnectorId) -> bool + Send,
        means: impl Fn(&StoredUser) -> bool + Send,
        now: OffsetDateTime,
    ) -> Result<Vec<(ConnectorId, MappedUser)>, StoreError> {
        let seen = self.read(tenant, of, means, 2, now).await?;
        let each = |(id, users): (ConnectorId, Vec<_>)| users.into_iter().map(move |user| (id.clone(), user));
        let people: Vec<_> = seen.people.into_iter().flat_map(each).collect();
        if seen.truncated && people.len() < 2 {
            return Err(StoreError::Unavailable(format!("more than {MOST_READ} people have signed in to find one by their name").into()));
        }
        Ok(people)
    }

    async fn read(
        &self,
        tenant: &TenantId,
        of: impl Fn(&ConnectorId) -> bool + Send,
        fits: impl Fn(&StoredUser) -> bool + Send,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Seen, StoreError> {
        let partition = Partition::Tenant(tenant.clone());
        let (mut seen, mut count, mut read, mut cursor) = (Seen::default(), 0, 0, None);
        loop {
            let page = self.store.list(&partition, Kind::Person, cursor.as_deref(), PAGE, now).await?;
            read += page.entries.len();
            for (id, entry) in page.entries {
                let Ok(record) = serde_json::from_slice::<PersonRecord>(&entry.value) else {
                    // One broken record does not hide the others.
                    tracing::warn!(tenant.id = %tenant, user.id = id, "the record of a person who has signed in can not be read");
                    continue;
                };
                if !of(&record.connector) || !fits(&record.user) {
                    continue;
                }
                if count == limit {
                    seen.truncated = true;
                    return Ok(seen);
                }
                count += 1;
                seen.people.entry(record.connector).or_default().push(record.user.into());
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(seen);
            }
            if read >= MOST_READ {
                seen.truncated = true;
                return Ok(seen);
            }
            // Whoever else waits for this thread has a turn between two pages.
            tokio::task::yield_now().await;
        }
    }
}

fn holds(user: &StoredUser, text: &str) -> bool {
    let fields = [Some(&user.username), user.display_name.as_ref(), user.email.as_ref()];
    text.is_empty() || fields.into_iter().flatten().any(|field| fold(field).contains(text))
}

fn key(tenant: &TenantId, id: Uuid) -> Key {
    Key::new(tenant, Kind::Person, id.to_string())
}
