//! The durable record of who an opaque id is. It is written when a user is first returned, a batch for a page, and it is
//! authoritative: the same id for someone else is refused.

use std::{collections::HashMap, sync::Arc};

use claims_mapping::{ConnectorId, IdScheme, Identity, Subject, TenantId};
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    secret_text::digest_of,
    store::{Batch, Expect, Key, Kind, Outcome, Store, StoreError},
};

/// Who an opaque id of a tenant is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRecord {
    /// Through which connector.
    pub connector: ConnectorId,
    /// As whom, at its upstream.
    pub subject: Subject,
}

/// The id belongs to someone else already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id {0} belongs to another user")]
pub struct IdTaken(pub Uuid);

/// The records.
pub struct IdRecords {
    store: Arc<dyn Store>,
    /// What is known to be recorded, as digests of (tenant, id, connector, subject): records never change.
    known: Cache<u128, ()>,
}

impl std::fmt::Debug for IdRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdRecords")
    }
}

impl IdRecords {
    /// The records of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Cache::new(100_000) }
    }

    /// Records these people of one tenant; those whose id belongs to someone else are dropped and audited.
    ///
    /// # Errors
    /// When the store could not tell, or others keep recording the same people at the same moment.
    pub async fn keep(
        &self,
        tenant: &TenantId,
        ids: IdScheme,
        people: Vec<Identity>,
        now: OffsetDateTime,
    ) -> Result<Vec<Identity>, StoreError> {
        for _ in 0..3 {
            if let Some(owners) = self.try_keep(tenant, ids, &people, now).await? {
                return Ok(people.into_iter().zip(owners).filter_map(|(person, owner)| owner.then_some(person)).collect());
            }
        }
        Err(StoreError::Unavailable("the record of ids is contended".into()))
    }

    /// For each of these people, whether their id is theirs; `None` where another request recorded one of them meanwhile.
    async fn try_keep(
        &self,
        tenant: &TenantId,
        ids: IdScheme,
        people: &[Identity],
        now: OffsetDateTime,
    ) -> Result<Option<Vec<bool>>, StoreError> {
        let mut batch = Batch::new();
        let mut first: HashMap<Uuid, UserRecord> = HashMap::new();
        let mut owners = Vec::with_capacity(people.len());
        for person in people {
            let id = person.id().opaque_id();
            let record = UserRecord { connector: person.connector().clone(), subject: person.subject().clone() };
            let is_owner = if self.known.contains_key(&digest(person)) {
                true
            } else if let Some(owner) = first.get(&id) {
                *owner == record
            } else if let Some(owner) = self.get(tenant, id, now).await? {
                owner == record
            } else if ids == IdScheme::Verbatim && !self.claim(tenant, id, now).await? {
                // A verbatim id is the upstream's own, and could be claimed in two tenants; a derived one holds its tenant.
                false
            } else {
                let key = Key::new(tenant, Kind::User, id.to_string());
                let value = serde_json::to_vec(&record).map_err(|e| StoreError::Unavailable(Box::new(e)))?;
                batch = batch.expect(key.clone(), Expect::Absent).put(key, value, None);
                true
            };
            if is_owner {
                first.insert(id, record);
            } else {
                refused(person);
            }
            owners.push(is_owner);
        }
        if !batch.is_empty() && self.store.commit(batch, now).await? == Outcome::Conflict {
            return Ok(None);
        }
        let kept = people.iter().zip(&owners).filter(|(_, is_owner)| **is_owner);
        kept.for_each(|(person, _)| self.known.insert(digest(person), ()));
        Ok(Some(owners))
    }

    /// Who an id of this tenant is.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn get(&self, tenant: &TenantId, id: Uuid, now: OffsetDateTime) -> Result<Option<UserRecord>, StoreError> {
        let entry = self.store.get(&Key::new(tenant, Kind::User, id.to_string()), now).await?;
        entry.map(|entry| serde_json::from_slice(&entry.value).map_err(|e| StoreError::Unavailable(Box::new(e)))).transpose()
    }

    /// Claims a verbatim id for a tenant, over the whole instance. Whoever comes first has it.
    async fn claim(&self, tenant: &TenantId, id: Uuid, now: OffsetDateTime) -> Result<bool, StoreError> {
        let key = Key::system(Kind::IdOwner, id.to_string());
        let batch = Batch::new().expect(key.clone(), Expect::Absent).put(key.clone(), tenant.as_str().as_bytes().to_vec(), None);
        if self.store.commit(batch, now).await? == Outcome::Committed {
            return Ok(true);
        }
        Ok(self.store.get(&key, now).await?.is_some_and(|entry| entry.value == tenant.as_str().as_bytes()))
    }
}

fn refused(person: &Identity) {
    tracing::warn!(
        target: "audit",
        event = "user.id_taken",
        tenant.id = %person.id().tenant_id(),
        connector.id = %person.connector(),
        user.id = %person.id().opaque_id(),
        "an upstream gives an id that belongs to another user; the user is left out"
    );
}

/// (tenant, connector, subject) and the id, in 128 bits.
fn digest(person: &Identity) -> u128 {
    let (tenant, connector, subject) = (person.id().tenant_id().as_str(), person.connector().as_str(), person.subject().as_str());
    let id = person.id().opaque_id();
    let whole = digest_of(&[tenant.as_bytes(), connector.as_bytes(), subject.as_bytes(), id.as_bytes()]);
    let mut half = [0; 16];
    half.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
    u128::from_be_bytes(half)
}
