//! All that a store keeps, record by record: for exports and moves. What becomes of it is the use case's.

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{Key, StoreError};

/// A record as it lies in the store, expired or not.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept {
    /// Where it stands: partition, kind, id.
    pub key: Key,
    /// The bytes.
    pub value: Vec<u8>,
    /// When it is gone; `None`: never.
    pub expires_at: Option<OffsetDateTime>,
    /// The version that its last write gave it.
    pub version: u64,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("key", &self.key).field("bytes", &self.value.len()).field("version", &self.version).finish()
    }
}

/// Some records, in no order that means anything.
#[derive(Debug, Clone, Default)]
pub struct Scanned {
    /// The records.
    pub records: Vec<Kept>,
    /// Where to go on; `None` at the end.
    pub next: Option<String>,
}

/// Goes through all records.
#[async_trait]
pub trait Scan: Send + Sync {
    /// About `limit` records (at least 1, at most 1,000) from `cursor` on; none may come while there is more. A record that is there
    /// all the time comes at least once; one that is written or deleted meanwhile may come or not, and some come twice. A cursor
    /// is good in another process too.
    ///
    /// # Errors
    /// When the store can not tell, or the cursor is none of its own.
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, StoreError>;
}
