//! tower-sessions' store over ours. A browser's record holds which sign-in it has and what its attempts are bound to; no
//! counter, no code, nothing that is used once.
//!
//! Requests of one browser run at once, at several replicas. What a request loaded goes with the record while it is in memory (under
//! [`LOADED`]), so that a save knows what this request changed, entry by entry, and puts that onto what is there by then. An
//! entry that another request has changed too is an error: no change that was acknowledged is lost. So a request saves a record that
//! it loaded once, as tower-sessions does at its end; one that it made, it may save again. What was deleted stays so:
//! a save of it is dropped, and a new id carries on only what was there when the old one was deleted by this very request. Replicas of
//! earlier versions write over what is there; the stored form is the same.

use std::{collections::HashMap, fmt, sync::Arc};

use async_trait::async_trait;
use moka::{ops::compute::Op, sync::Cache};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use tower_sessions::{
    SessionStore,
    session::{Id, Record},
    session_store::{Error, Result},
};
use uuid::Uuid;

use super::turns::Turns;
use crate::{
    seams::Clock,
    secret_text::fingerprint,
    store::{Batch, Expect, Key, Kind, Outcome, Store, StoreError},
};

type Data = HashMap<String, Value>;

/// The entry, never stored, that says what a request loaded.
const LOADED: &str = "denizen.loaded";
/// How often a write is begun anew where others write the same record.
const TRIES: usize = 64;
/// How many deleted records are remembered until their new id is written, each for a minute at most.
const MOST_DELETED: u64 = 10_000;
const DELETED_FOR: std::time::Duration = std::time::Duration::from_secs(60);

/// The browsers' records.
#[derive(Clone)]
pub struct BrowserStore {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Of those that begin anew, by their record: of all at once, only one gets on at each try.
    turns: Turns,
    /// What was in a record that this process has deleted; `None` where it was deleted by more than one request.
    deleted: Cache<Id, Option<Data>>,
}

/// What a request loaded.
#[derive(Serialize, Deserialize)]
struct Loaded {
    id: String,
    /// `None` where this request wrote it, and does not know.
    version: Option<u64>,
    until: OffsetDateTime,
    data: Data,
}

impl Loaded {
    fn of(record: &Record, version: Option<u64>) -> Self {
        Self { id: record.id.to_string(), version, until: record.expiry_date, data: record.data.clone() }
    }

    /// Goes with the record from here on.
    fn put_into(&self, record: &mut Record) -> Result<()> {
        let value = serde_json::to_value(self).map_err(|e| Error::Encode(e.to_string()))?;
        record.data.insert(LOADED.to_owned(), value);
        Ok(())
    }

    /// A record as it is stored, and what was loaded of it; `None` where it was not loaded, or emptied.
    fn split(record: &Record) -> (Record, Option<Self>) {
        let mut own = record.clone();
        let loaded = own.data.remove(LOADED).and_then(|loaded| serde_json::from_value(loaded).ok());
        (own, loaded)
    }

    /// Puts what `own` changed since the load onto what is there. Whether no one else has changed one of those entries, be it to the
    /// same: two that count on from one number count once.
    fn put_changes(&self, own: &Data, there: &mut Data) -> bool {
        let mut alone = true;
        let added = own.keys().filter(|name| !self.data.contains_key(*name));
        for name in self.data.keys().chain(added) {
            let (before, after) = (self.data.get(name), own.get(name));
            if before == after {
                continue;
            }
            let now = there.get(name);
            alone &= now == before;
            match after {
                Some(value) => _ = there.insert(name.clone(), value.clone()),
                None => _ = there.remove(name),
            }
        }
        alone
    }
}

impl BrowserStore {
    /// The browsers' records in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let deleted = Cache::builder().max_capacity(MOST_DELETED).time_to_live(DELETED_FOR).build();
        Self { store, clock, turns: Turns::default(), deleted }
    }

    async fn read(&self, id: &Id) -> Result<Option<(Record, u64)>> {
        let Some(entry) = self.store.get(&key(id), self.clock.now()).await.map_err(backend)? else { return Ok(None) };
        let record = serde_json::from_slice(&entry.value).map_err(|e| Error::Decode(e.to_string()))?;
        Ok(Some((record, entry.version)))
    }

    async fn write(&self, record: &Record, expect: Expect) -> Result<Outcome> {
        let value = serde_json::to_vec(record).map_err(|e| Error::Encode(e.to_string()))?;
        let batch = Batch::new().expect(key(&record.id), expect).put(key(&record.id), value, Some(record.expiry_date));
        self.store.commit(batch, self.clock.now()).await.map_err(backend)
    }

    /// Deletes a record, and remembers what was in it for the new id that may follow.
    async fn take_out(&self, id: &Id) -> Result<()> {
        for _ in 0..TRIES {
            let Some((record, version)) = self.read(id).await? else {
                // Another request has deleted it: what was in it is no one's to carry on.
                self.deleted.insert(*id, None);
                return Ok(());
            };
            let batch = Batch::new().expect(key(id), Expect::Version(version)).delete(key(id));
            if self.store.commit(batch, self.clock.now()).await.map_err(backend)? == Outcome::Committed {
                // Whoever found it gone meanwhile has said so, and that stays.
                self.deleted.entry(*id).and_compute_with(|there| if there.is_none() { Op::Put(Some(record.data)) } else { Op::Nop });
                return Ok(());
            }
        }
        self.delete_unread(id).await
    }

    /// Deletes a record that can not be read, or is written without end.
    async fn delete_unread(&self, id: &Id) -> Result<()> {
        self.deleted.insert(*id, None);
        self.store.commit(Batch::new().delete(key(id)), self.clock.now()).await.map(drop).map_err(backend)
    }
}

impl fmt::Debug for BrowserStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrowserStore")
    }
}

#[async_trait]
impl SessionStore for BrowserStore {
    /// A new record; also where what was loaded goes on under a new id.
    async fn create(&self, record: &mut Record) -> Result<()> {
        let (mut own, loaded) = Loaded::split(record);
        if let Some(loaded) = loaded {
            let before = loaded.id.parse::<Id>().ok().and_then(|before| self.deleted.remove(&before)).flatten();
            // What others have written until the end of the old id goes on too, but for what this request says itself.
            let mut there = before.unwrap_or_default();
            loaded.put_changes(&own.data, &mut there);
            own.data = there;
        }
        while self.write(&own, Expect::Absent).await? == Outcome::Conflict {
            own.id = Id::default();
        }
        let loaded = Loaded::of(&own, None);
        *record = own;
        loaded.put_into(record)
    }

    /// A late save must not bring back what a sign-out deleted: it is dropped.
    async fn save(&self, record: &Record) -> Result<()> {
        let (own, loaded) = Loaded::split(record);
        let Some(loaded) = loaded else {
            // It was emptied: what this request says is all that is to be there.
            return self.write(&own, Expect::Present).await.map(drop);
        };
        if loaded.data == own.data && loaded.until == own.expiry_date {
            return Ok(());
        }
        if let Some(version) = loaded.version
            && self.write(&own, Expect::Version(version)).await? == Outcome::Committed
        {
            return Ok(());
        }
        let _turn = self.turns.take(Uuid::from_u128(own.id.0.cast_unsigned())).await;
        for _ in 0..TRIES {
            let Some((mut there, version)) = self.read(&own.id).await? else { return Ok(()) };
            if !loaded.put_changes(&own.data, &mut there.data) {
                return Err(Error::Backend("another request has changed the same of the browser's session".to_owned()));
            }
            if loaded.until != own.expiry_date {
                there.expiry_date = own.expiry_date;
            }
            if self.write(&there, Expect::Version(version)).await? == Outcome::Committed {
                return Ok(());
            }
        }
        Err(Error::Backend("too many requests write the browser's session at once".to_owned()))
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let Some((mut record, version)) = self.read(id).await? else { return Ok(None) };
        Loaded::of(&record, Some(version)).put_into(&mut record)?;
        Ok(Some(record))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        match self.take_out(id).await {
            Err(Error::Decode(_)) => self.delete_unread(id).await,
            done => done,
        }
    }
}

fn backend(error: StoreError) -> Error {
    Error::Backend(error.to_string())
}

/// The store sees no cookie's value.
fn key(id: &Id) -> Key {
    Key::system(Kind::Browser, fingerprint(&id.to_string()))
}

#[cfg(test)]
mod tests;
