//! A turn among replicas: one of them holds it, until it gives it back or its time is over.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{Batch, Expect, Key, Kind, Outcome, Store, StoreError};

/// A lease that this replica holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    key: Key,
    holder: Uuid,
    version: u64,
}

impl Lease {
    /// Takes the lease of this name for so long; `None` while another holds it.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn take(
        store: &dyn Store,
        name: &str,
        holder: Uuid,
        lasts: Duration,
        now: OffsetDateTime,
    ) -> Result<Option<Self>, StoreError> {
        let key = Key::system(Kind::Lease, name);
        let batch = Batch::new().expect(key.clone(), Expect::Absent).put(key.clone(), holder.as_bytes().to_vec(), Some(now + lasts));
        if store.commit(batch, now).await? == Outcome::Conflict {
            return Ok(None);
        }
        Self::read(store, key, holder, now).await
    }

    async fn read(store: &dyn Store, key: Key, holder: Uuid, now: OffsetDateTime) -> Result<Option<Self>, StoreError> {
        let entry = store.get(&key, now).await?.filter(|entry| entry.value == holder.as_bytes());
        Ok(entry.map(|entry| Self { key, holder, version: entry.version }))
    }

    /// Holds it for so long from now; `None` where it was lost meanwhile.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn prolong(self, store: &dyn Store, lasts: Duration, now: OffsetDateTime) -> Result<Option<Self>, StoreError> {
        let Self { key, holder, version } = self;
        let batch =
            Batch::new().expect(key.clone(), Expect::Version(version)).put(key.clone(), holder.as_bytes().to_vec(), Some(now + lasts));
        if store.commit(batch, now).await? == Outcome::Conflict {
            return Ok(None);
        }
        Self::read(store, key, holder, now).await
    }

    /// The batch, carried out only while this lease is held: who lost it without knowing changes nothing. The batch must be of the
    /// system's partition, as leases are.
    #[must_use]
    pub fn fence(&self, batch: Batch) -> Batch {
        batch.expect(self.key.clone(), Expect::Version(self.version))
    }

    /// Gives it back, where it is still held.
    ///
    /// # Errors
    /// When the store could not tell; then its time ends it.
    pub async fn give_back(self, store: &dyn Store, now: OffsetDateTime) -> Result<(), StoreError> {
        store.commit(Batch::new().expect(self.key.clone(), Expect::Version(self.version)).delete(self.key), now).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::Embedded;

    #[tokio::test]
    async fn one_holds_it_until_its_time_is_over_or_it_is_given_back() {
        let store = Embedded::in_memory().unwrap();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        let take = |who, when| Lease::take(&store, "keys", who, Duration::seconds(10), at(when));
        let held = take(one, 0).await.unwrap().unwrap();
        assert_eq!(take(other, 9).await.unwrap(), None);
        let held = held.prolong(&store, Duration::seconds(10), at(9)).await.unwrap().unwrap();
        assert_eq!(take(other, 18).await.unwrap(), None);
        let lost = take(other, 19).await.unwrap().unwrap();
        assert_eq!(held.clone().prolong(&store, Duration::seconds(10), at(19)).await.unwrap(), None, "it was lost");
        let write = |lease: &Lease| lease.fence(Batch::new().put(Key::system(Kind::Probe, "x"), Vec::new(), None));
        assert_eq!(store.commit(write(&held), at(19)).await.unwrap(), Outcome::Conflict, "and what it fences is not written");
        assert_eq!(store.commit(write(&lost), at(19)).await.unwrap(), Outcome::Committed);
        held.give_back(&store, at(19)).await.unwrap();
        assert_eq!(take(one, 20).await.unwrap(), None, "what is lost can not be given back");
        lost.give_back(&store, at(20)).await.unwrap();
        assert!(take(one, 20).await.unwrap().is_some());
    }
}
