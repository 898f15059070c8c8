//! A deadline around every call of a connector's ports, put there once.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use claims_mapping::{TenantScope, UpstreamUser};
use connectors::{ConnectorError, Directory, Found, LoginName, Lookup, PasswordLogin, Secret, UserQuery};

/// A port, and how long one call of it may take.
pub struct Deadline<P: ?Sized> {
    within: Duration,
    port: Arc<P>,
}

impl<P: ?Sized> std::fmt::Debug for Deadline<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deadline").field("within", &self.within).finish_non_exhaustive()
    }
}

impl<P: ?Sized> Deadline<P> {
    /// Puts a deadline around a port.
    #[must_use]
    pub const fn new(port: Arc<P>, within: Duration) -> Self {
        Self { within, port }
    }

    async fn bound<T>(&self, call: impl Future<Output = Result<T, ConnectorError>>) -> Result<T, ConnectorError> {
        let late = |_| ConnectorError::Unavailable(format!("no answer within {} s", self.within.as_secs()));
        tokio::time::timeout(self.within, call).await.map_err(late)?
    }
}

#[async_trait]
impl PasswordLogin for Deadline<dyn PasswordLogin> {
    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<UpstreamUser>, ConnectorError> {
        self.bound(self.port.authenticate(login, password)).await
    }
}

#[async_trait]
impl Directory for Deadline<dyn Directory> {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError> {
        self.bound(self.port.search(scope, query)).await
    }
    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        self.bound(self.port.get(scope, by)).await
    }
}
