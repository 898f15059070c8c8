//! Connections that are kept: one pool for searches, with the service account's identity, and one for the binds of
//! people, so that no search ever runs as the person who signed in last.

use std::{sync::Arc, time::Duration};

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use ldap3::{Ldap, LdapError};

use super::{
    connect::{Connection, Servers, ServiceAccount, described, is_broken},
    search::PAGE,
};
use crate::ConnectorError;

pub(super) struct Connections {
    servers: Arc<Servers>,
    account: Option<ServiceAccount>,
}

impl Manager for Connections {
    type Type = Connection;
    type Error = ConnectorError;

    async fn create(&self) -> Result<Connection, ConnectorError> {
        self.servers.connect(self.account.as_ref()).await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<ConnectorError> {
        if connection.ldap.is_closed() || self.servers.failed_since(connection) {
            return Err(RecycleError::message("the connection is closed, or its server has failed"));
        }
        Ok(())
    }
}

/// A pool, and the bounds of one operation on it.
pub(super) struct LdapPool {
    pool: Pool<Connections>,
    servers: Arc<Servers>,
    timeout: Duration,
}

/// A connection in use. One whose operation did not end is thrown away: its answer may still come.
struct Lease {
    object: Option<Object<Connections>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

impl LdapPool {
    /// At most `size` connections; `timeout` bounds one operation.
    pub(super) fn new(servers: Arc<Servers>, account: Option<ServiceAccount>, size: usize, timeout: Duration) -> Result<Self, String> {
        let manager = Connections { servers: Arc::clone(&servers), account };
        let pool = Pool::builder(manager).max_size(size).build().map_err(|error| error.to_string())?;
        Ok(Self { pool, servers, timeout })
    }

    /// Runs one operation, `what` for errors. A connection that broke while it lay in the pool is replaced and the
    /// operation tried again; one that does not answer in time is given up together with its server's good name.
    pub(super) async fn run<T, F>(&self, what: &'static str, operation: impl Fn(Ldap) -> F) -> Result<T, ConnectorError>
    where
        F: Future<Output = Result<T, LdapError>>,
    {
        self.run_within(self.timeout, what, operation).await
    }

    /// The same, with a bound of its own: a list of many pages takes longer than an answer.
    pub(super) async fn run_within<T, F>(
        &self,
        timeout: Duration,
        what: &'static str,
        operation: impl Fn(Ldap) -> F,
    ) -> Result<T, ConnectorError>
    where
        F: Future<Output = Result<T, LdapError>>,
    {
        loop {
            let object = self.get(what).await?;
            let kept = Object::metrics(&object).recycle_count > 0;
            let mut lease = Lease { object: Some(object) };
            let Some(connection) = lease.object.as_mut() else {
                return Err(ConnectorError::Unavailable(format!("ldap: {what}: there is no connection")));
            };
            match tokio::time::timeout(timeout, operation(connection.ldap.clone())).await {
                Ok(Ok(value)) => {
                    drop(lease.object.take());
                    return Ok(value);
                }
                Ok(Err(error)) if kept && is_broken(&error) => {
                    tracing::debug!(operation = what, error = %described(&error), "a kept LDAP connection was broken");
                }
                Ok(Err(error)) => return Err(ConnectorError::Unavailable(format!("ldap: {what}: {}", described(&error)))),
                Err(_) => {
                    self.servers.failed(connection);
                    return Err(ConnectorError::Unavailable(format!("ldap: {what}: no answer within {} s", timeout.as_secs_f32())));
                }
            }
        }
    }

    /// The bound of a list of at most so many entries: each further page may take as long as an answer.
    pub(super) fn timeout_of(&self, most: usize) -> Duration {
        self.timeout.saturating_mul(u32::try_from(most / PAGE).unwrap_or(u32::MAX).saturating_add(1))
    }

    async fn get(&self, what: &'static str) -> Result<Object<Connections>, ConnectorError> {
        match tokio::time::timeout(self.servers.patience() + self.timeout, self.pool.get()).await {
            Ok(Ok(object)) => Ok(object),
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(_)) => Err(ConnectorError::Unavailable(format!("ldap: {what}: there is no connection"))),
            Err(_) => Err(ConnectorError::Unavailable(format!("ldap: {what}: all connections are busy"))),
        }
    }
}
