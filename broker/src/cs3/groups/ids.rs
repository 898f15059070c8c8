//! The ids of groups. CS3's name no tenant, so a record of each id that was given out says of which tenant, and which group, it is.
//!
//! An id follows from tenant and name, so that its records never change, and whoever writes them first writes the same.

use std::{fmt, sync::Arc};

use claims_mapping::{GroupId, TenantId};
use moka::sync::Cache;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{Batch, Key, Kind, Store, StoreError};

/// The most ids that are known without a look at the store.
const REMEMBERED: u64 = 100_000;
/// The most groups of one batch.
const BATCH: usize = 1_000;

/// The records.
pub struct GroupIds {
    store: Arc<dyn Store>,
    /// `<tenant>/<name>` → the id, of groups that are surely recorded. A tenant's id holds no `/`.
    recorded: Cache<String, Uuid>,
}

impl fmt::Debug for GroupIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupIds")
    }
}

impl GroupIds {
    /// The records of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, recorded: Cache::new(REMEMBERED) }
    }

    /// Looks at the store again for all that is remembered: a server of it may have lost what it had answered.
    pub fn forget(&self) {
        self.recorded.invalidate_all();
    }

    /// The ids of these groups of one tenant, in the same order. What was not given out before is recorded first, so that
    /// [`GroupIds::find`] knows every id that anyone has. Names must be those of [`Identity::groups`](claims_mapping::Identity::groups).
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn ids_of(&self, tenant: &TenantId, names: &[String], now: OffsetDateTime) -> Result<Vec<Uuid>, StoreError> {
        let mut ids = Vec::with_capacity(names.len());
        let mut fresh: Vec<(String, &str, Uuid)> = Vec::new();
        let prefix = format!("{tenant}/");
        let mut place = prefix.clone();
        for name in names {
            place.truncate(prefix.len());
            place.push_str(name);
            let id = self.recorded.get(&place).unwrap_or_else(|| {
                let id = GroupId::derived(tenant, name).opaque_id();
                fresh.push((place.clone(), name, id));
                id
            });
            ids.push(id);
        }
        for groups in fresh.chunks(BATCH) {
            self.record(tenant, groups, now).await?;
        }
        for (place, _, id) in fresh {
            self.recorded.insert(place, id);
        }
        Ok(ids)
    }

    /// Which group of which tenant an id is; `None` for one that was never given out.
    ///
    /// # Errors
    /// When the store could not tell, or a record can not be read.
    pub async fn find(&self, id: Uuid, now: OffsetDateTime) -> Result<Option<(TenantId, String)>, StoreError> {
        let Some(owner) = self.text(&Key::system(Kind::GroupOwner, id.to_string()), now).await? else { return Ok(None) };
        let tenant = TenantId::parse(&owner).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        let name = self.text(&Key::new(&tenant, Kind::Group, id.to_string()), now).await?;
        Ok(name.map(|name| (tenant, name)))
    }

    /// Writes the records that are not there yet. The tenant's own come last: where one is, the owner's is.
    async fn record(&self, tenant: &TenantId, groups: &[(String, &str, Uuid)], now: OffsetDateTime) -> Result<(), StoreError> {
        let keys: Vec<_> = groups.iter().map(|(_, _, id)| Key::new(tenant, Kind::Group, id.to_string())).collect();
        let present = self.store.present(&keys, now).await?;
        let (mut owners, mut names) = (Batch::new(), Batch::new());
        for (((_, name, id), key), _) in groups.iter().zip(keys).zip(present).filter(|(_, is_present)| !is_present) {
            owners = owners.put(Key::system(Kind::GroupOwner, id.to_string()), tenant.as_str().as_bytes().to_vec(), None);
            names = names.put(key, name.as_bytes().to_vec(), None);
        }
        if !names.is_empty() {
            self.store.commit(owners, now).await?;
            self.store.commit(names, now).await?;
        }
        Ok(())
    }

    async fn text(&self, key: &Key, now: OffsetDateTime) -> Result<Option<String>, StoreError> {
        let entry = self.store.get(key, now).await?;
        entry.map(|entry| String::from_utf8(entry.value).map_err(|error| StoreError::Unavailable(Box::new(error)))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{store::stand_in::stand_in, tests::NOW};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn an_id_that_was_given_out_is_found_again_after_a_restart_too() {
        let store = stand_in();
        let (acme, globex) = (TenantId::parse("acme").unwrap(), TenantId::parse("globex").unwrap());
        let ids = GroupIds::new(Arc::clone(&store) as Arc<dyn Store>);
        let ours = ids.ids_of(&acme, &names(&["staff", "owners/eu"]), NOW).await.unwrap();
        let theirs = ids.ids_of(&globex, &names(&["staff"]), NOW).await.unwrap();
        assert_ne!(ours[0], theirs[0], "a tenant's staff are not another's");
        let again = GroupIds::new(store);
        assert_eq!(again.find(ours[1], NOW).await.unwrap(), Some((acme.clone(), "owners/eu".to_owned())));
        assert_eq!(again.find(theirs[0], NOW).await.unwrap(), Some((globex, "staff".to_owned())));
        let never = GroupId::derived(&acme, "never").opaque_id();
        assert_eq!(again.find(never, NOW).await.unwrap(), None, "it was never given out");
    }

    #[tokio::test]
    async fn what_is_known_to_be_recorded_costs_the_store_nothing() {
        let store = stand_in();
        let acme = TenantId::parse("acme").unwrap();
        let count = || (store.reads.load(Ordering::SeqCst), store.commits.load(Ordering::SeqCst));
        let ids = GroupIds::new(Arc::clone(&store) as Arc<dyn Store>);
        let many: Vec<_> = (0..2_500).map(|number| format!("g{number}")).collect();
        let first = ids.ids_of(&acme, &many, NOW).await.unwrap();
        assert_eq!(count(), (3, 6), "a look and a batch of each partition for a thousand groups");
        assert_eq!(ids.ids_of(&acme, &many, NOW).await.unwrap(), first);
        assert_eq!(count(), (3, 6));
        // After a restart there is a look, and nothing to write.
        let again = GroupIds::new(Arc::clone(&store) as Arc<dyn Store>);
        assert_eq!(again.ids_of(&acme, &many, NOW).await.unwrap(), first);
        assert_eq!(count(), (6, 6));
        assert_eq!(ids.ids_of(&acme, &[], NOW).await.unwrap(), Vec::<Uuid>::new());
    }

    #[tokio::test]
    async fn a_name_twice_is_one_group() {
        let ids = GroupIds::new(stand_in());
        let acme = TenantId::parse("acme").unwrap();
        let found = ids.ids_of(&acme, &names(&["staff", "staff"]), NOW).await.unwrap();
        assert_eq!(found[0], found[1]);
    }
}
