//! The store that the configuration names, opened.

use std::{fmt, sync::Arc};

use super::{
    Alone, InProcess, Limits, Peers, Scan, Store, StoreError,
    embedded::{Embedded, OpenError},
    redis::{ConnectError, Redis},
};
use crate::config::StoreConfig;

/// Why it can not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no memory or no thread to be had.
    #[error(transparent)]
    Memory(StoreError),
    /// The file can not be used.
    #[error(transparent)]
    File(#[from] OpenError),
    /// What is said of Redis can not be used. That it is not reachable is no such fault.
    #[error(transparent)]
    Redis(#[from] ConnectError),
}

/// A store, and what goes with it.
#[derive(Clone)]
pub struct Backend {
    /// Keeps records.
    pub store: Arc<dyn Store>,
    /// Counts what is done too often.
    pub limits: Arc<dyn Limits>,
    /// The other replicas on it.
    pub peers: Arc<dyn Peers>,
    /// Goes through all records.
    pub scan: Arc<dyn Scan>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl Backend {
    /// Opens it. Without a file and without Redis everything is in memory, and the log says so. A Redis that is
    /// not reachable is no fault: it is unavailable until it is.
    ///
    /// # Errors
    /// When what is configured can not be used.
    pub async fn open(config: &StoreConfig) -> Result<Self, BackendError> {
        if let Some(redis) = &config.redis {
            let redis = Redis::connect(redis).await?;
            redis.warn_of_losses().await;
            return Ok(Self::on_redis(redis));
        }
        Ok(Self::embedded(match &config.file {
            None => {
                tracing::warn!("no store.file is configured: keys, sessions and tokens are lost at the end");
                Embedded::in_memory().map_err(BackendError::Memory)?
            }
            Some(path) => Embedded::open(path)?,
        }))
    }

    /// A store of this process alone.
    #[must_use]
    pub fn embedded(store: Embedded) -> Self {
        let store = Arc::new(store);
        let (limits, peers) = (Arc::new(InProcess::default()), Arc::new(Alone));
        Self { store: Arc::<Embedded>::clone(&store), limits, peers, scan: store }
    }

    /// A store that replicas share.
    #[must_use]
    pub fn on_redis(redis: Redis) -> Self {
        let redis = Arc::new(redis);
        let peers = redis.peers();
        Self { store: Arc::<Redis>::clone(&redis), limits: Arc::<Redis>::clone(&redis), peers, scan: redis }
    }
}
