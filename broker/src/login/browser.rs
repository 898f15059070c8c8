//! tower-sessions' store over ours. A browser's record holds which sign-in it has and what its attempts are bound to; no
//! counter, no code, nothing that is used once.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tower_sessions::{
    SessionStore,
    session::{Id, Record},
    session_store::{Error, Result},
};

use crate::{
    seams::Clock,
    secret_text::fingerprint,
    store::{Batch, Expect, Key, Kind, Outcome, Store},
};

/// The browsers' records.
#[derive(Clone)]
pub struct BrowserStore {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl BrowserStore {
    /// The browsers' records in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    async fn write(&self, record: &Record, expect: Expect) -> Result<Outcome> {
        let value = serde_json::to_vec(record).map_err(|e| Error::Encode(e.to_string()))?;
        let batch = Batch::new().expect(key(&record.id), expect).put(key(&record.id), value, Some(record.expiry_date));
        self.store.commit(batch, self.clock.now()).await.map_err(|e| Error::Backend(e.to_string()))
    }
}

impl fmt::Debug for BrowserStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrowserStore")
    }
}

#[async_trait]
impl SessionStore for BrowserStore {
    async fn create(&self, record: &mut Record) -> Result<()> {
        while self.write(record, Expect::Absent).await? == Outcome::Conflict {
            record.id = Id::default();
        }
        Ok(())
    }

    /// A late save must not bring back what a sign-out deleted: it needs the record to be there, and is dropped where it is not.
    async fn save(&self, record: &Record) -> Result<()> {
        self.write(record, Expect::Present).await.map(drop)
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let entry = self.store.get(&key(id), self.clock.now()).await.map_err(|e| Error::Backend(e.to_string()))?;
        entry.map(|entry| serde_json::from_slice(&entry.value).map_err(|e| Error::Decode(e.to_string()))).transpose()
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        self.store.commit(Batch::new().delete(key(id)), self.clock.now()).await.map(drop).map_err(|e| Error::Backend(e.to_string()))
    }
}

/// The store sees no cookie's value.
fn key(id: &Id) -> Key {
    Key::system(Kind::Browser, fingerprint(&id.to_string()))
}
