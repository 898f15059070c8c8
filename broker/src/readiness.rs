//! Whether the program can serve: what `/readyz` says, and gRPC's health. It does not own how either says it.

use time::{Duration, OffsetDateTime};

use crate::store::{Batch, Key, Kind, Store, StoreError};

/// Whether the store takes a write. Upstreams are not asked: one that is down must not take the others' users away.
///
/// # Errors
/// When it takes none.
pub(crate) async fn ready(store: &dyn Store, now: OffsetDateTime) -> Result<(), StoreError> {
    let probe = Batch::new().put(Key::system(Kind::Probe, "readiness"), Vec::new(), Some(now + Duration::minutes(1)));
    store.commit(probe, now).await.map(drop)
}
