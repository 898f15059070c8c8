//! The durable record of who an opaque id is. It is written when a user is first returned, a batch for a page, and it is
//! authoritative: the same id for someone else is refused.

use std::{collections::HashMap, sync::Arc};

use claims_mapping::{ConnectorId, Identity, Subject, TenantId, UserId};
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Tenants;
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

/// The most people of whom it is known without a look at the store who they are.
const REMEMBERED: u64 = 100_000;
/// How often recording is tried again where others record the same people at the same moment. Each time someone has come further, so
/// that it takes as many as there are.
const TRIES: usize = 8;

/// The records. Each is in two parts: which tenant an id is of, over the whole instance, and who it is there. The first is written
/// first: an id of which there is no more than that is its tenant's, and nobody's yet.
pub struct IdRecords {
    store: Arc<dyn Store>,
    /// What is known to be recorded, as digests of (tenant, id, connector, subject): records never change.
    known: Cache<u128, ()>,
    /// Which tenant an id is of.
    owners: Cache<Uuid, TenantId>,
    /// Who it is there.
    records: Cache<(TenantId, Uuid), UserRecord>,
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
        Self { store, known: Cache::new(REMEMBERED), owners: Cache::new(REMEMBERED), records: Cache::new(REMEMBERED) }
    }

    /// Looks at the store again for all that is remembered: a server of it may have lost what it had answered.
    pub fn forget(&self) {
        self.known.invalidate_all();
        self.owners.invalidate_all();
        self.records.invalidate_all();
    }

    /// Records these people of one tenant, with one batch for their tenant's part and one for the instance's; those whose id belongs
    /// to someone else are dropped and audited.
    ///
    /// # Errors
    /// When the store could not tell, or others keep recording the same people at the same moment.
    pub async fn keep(
        &self,
        tenants: &Tenants,
        tenant: &TenantId,
        people: Vec<Identity>,
        now: OffsetDateTime,
    ) -> Result<Vec<Identity>, StoreError> {
        for _ in 0..TRIES {
            if let Some(owners) = self.try_keep(tenants, tenant, &people, now).await? {
                let kept = people.into_iter().zip(owners).filter_map(|(person, is_owner)| {
                    if is_owner {
                        self.known.insert(digest(&person), ());
                    } else {
                        refused(&person);
                    }
                    is_owner.then_some(person)
                });
                return Ok(kept.collect());
            }
        }
        Err(StoreError::Unavailable("the record of ids is contended".into()))
    }

    /// For each of these people, whether their id is theirs; `None` where another request recorded one of them meanwhile.
    async fn try_keep(
        &self,
        tenants: &Tenants,
        tenant: &TenantId,
        people: &[Identity],
        now: OffsetDateTime,
    ) -> Result<Option<Vec<bool>>, StoreError> {
        let (mut claims, mut records) = (Batch::new(), Batch::new());
        let mut first: HashMap<Uuid, UserRecord> = HashMap::new();
        let mut owners = Vec::with_capacity(people.len());
        for person in people {
            if self.known.contains_key(&digest(person)) {
                owners.push(true);
                continue;
            }
            let id = person.id().opaque_id();
            let record = UserRecord { connector: person.connector().clone(), subject: person.subject().clone() };
            if let Some(other) = first.get(&id) {
                owners.push(*other == record);
                continue;
            }
            let before = self.get(tenant, id, now).await?;
            // The owner is looked up even where there is a record: the stores of earlier versions had none for derived ids.
            let owner = self.owner(id, now).await?;
            let is_free = match &owner {
                Some(owner) => owner == tenant,
                None => before.is_some() || !self.is_of_another(tenants, person, now).await?,
            };
            let is_owner = is_free && before.as_ref().is_none_or(|before| *before == record);
            if is_owner && owner.is_none() {
                let key = Key::system(Kind::IdOwner, id.to_string());
                claims = claims.expect(key.clone(), Expect::Absent).put(key, tenant.as_str().as_bytes().to_vec(), None);
            }
            if is_owner && before.is_none() {
                let key = Key::new(tenant, Kind::User, id.to_string());
                let value = serde_json::to_vec(&record).map_err(|e| StoreError::Unavailable(Box::new(e)))?;
                records = records.expect(key.clone(), Expect::Absent).put(key, value, None);
            }
            if is_owner {
                first.insert(id, record);
            }
            owners.push(is_owner);
        }
        for batch in [claims, records] {
            if !batch.is_empty() && self.store.commit(batch, now).await? == Outcome::Conflict {
                return Ok(None);
            }
        }
        Ok(Some(owners))
    }

    /// Whether an id that an upstream gives is someone's of another tenant, whose record has no owner's beside it: such are the derived ids
    /// in the store of an earlier version, all of them UUIDs of version 5. Of other versions, and of ids that are derived here, none can be.
    async fn is_of_another(&self, tenants: &Tenants, person: &Identity, now: OffsetDateTime) -> Result<bool, StoreError> {
        let id = person.id();
        let own = || UserId::derived(id.idp().clone(), id.kind(), id.tenant_id(), person.connector().as_str(), person.subject().as_str());
        if id.opaque_id().get_version_num() != 5 || own() == *id {
            return Ok(false);
        }
        let others = tenants.ids().into_iter().filter(|tenant| tenant != id.tenant_id());
        let keys: Vec<_> = others.map(|tenant| Key::new(&tenant, Kind::User, id.opaque_id().to_string())).collect();
        Ok(self.store.present(&keys, now).await?.contains(&true))
    }

    /// Who an id of this tenant is.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn get(&self, tenant: &TenantId, id: Uuid, now: OffsetDateTime) -> Result<Option<UserRecord>, StoreError> {
        let place = (tenant.clone(), id);
        if let Some(record) = self.records.get(&place) {
            return Ok(Some(record));
        }
        let entry = self.store.get(&Key::new(tenant, Kind::User, id.to_string()), now).await?;
        let Some(entry) = entry else { return Ok(None) };
        let record: UserRecord = serde_json::from_slice(&entry.value).map_err(|e| StoreError::Unavailable(Box::new(e)))?;
        self.records.insert(place, record.clone());
        Ok(Some(record))
    }

    /// Which tenant an id is of. `None` also for a derived id in the store of an earlier version, until its person is seen again; no other
    /// tenant's directory can claim it meanwhile.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn owner(&self, id: Uuid, now: OffsetDateTime) -> Result<Option<TenantId>, StoreError> {
        if let Some(owner) = self.owners.get(&id) {
            return Ok(Some(owner));
        }
        let Some(entry) = self.store.get(&Key::system(Kind::IdOwner, id.to_string()), now).await? else { return Ok(None) };
        let text = String::from_utf8(entry.value).map_err(|e| StoreError::Unavailable(Box::new(e)))?;
        let owner = TenantId::parse(&text).map_err(|e| StoreError::Unavailable(Box::new(e)))?;
        self.owners.insert(id, owner.clone());
        Ok(Some(owner))
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

#[cfg(test)]
mod tests;
