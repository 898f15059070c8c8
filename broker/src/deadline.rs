//! A deadline around every call of a connector's ports, and the breaker that it stands behind, put there once.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use claims_mapping::{Subject, TenantScope, UpstreamUser};
use connectors::{
    Asks, Callback, ConnectorError, CredentialLogin, Directory, Found, FoundGroups, Groups, Handshake, LoginName, LogoutNotice,
    LogoutNotices, Lookup, PasswordLogin, Proven, RedirectLogin, Renewal, Renewed, Revocation, Secret, TokenAuthentication, TokenBounds,
    TokenRevocation, UnverifiedToken, UpstreamGroup, UserQuery, Verdict, Wish,
};
use time::OffsetDateTime;
use url::Url;

use crate::breaker::Breaker;

/// How long a directory may take to list a whole tenant: nobody waits for it but the operator who asked.
const EVERYONE_WITHIN: Duration = Duration::from_mins(10);

/// A port, how long one call of it may take, and the breaker that counts what is late.
pub struct Deadline<P: ?Sized> {
    within: Duration,
    port: Arc<P>,
    breaker: Option<Arc<Breaker>>,
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
        Self { within, port, breaker: None }
    }

    /// Puts it behind a breaker.
    #[must_use]
    pub fn behind(self, breaker: &Arc<Breaker>) -> Self {
        Self { breaker: Some(Arc::clone(breaker)), ..self }
    }

    async fn bound<T>(&self, call: impl Future<Output = Result<T, ConnectorError>>) -> Result<T, ConnectorError> {
        self.bound_by(self.within, call).await
    }

    async fn bound_by<T>(&self, time: Duration, call: impl Future<Output = Result<T, ConnectorError>>) -> Result<T, ConnectorError> {
        let call = within(time, call);
        match &self.breaker {
            Some(breaker) => breaker.guard(call).await,
            None => call.await,
        }
    }
}

async fn within<T>(time: Duration, call: impl Future<Output = Result<T, ConnectorError>>) -> Result<T, ConnectorError> {
    let late = |_| ConnectorError::Unavailable(format!("no answer within {} s", time.as_secs()));
    tokio::time::timeout(time, call).await.map_err(late)?
}

#[async_trait]
impl PasswordLogin for Deadline<dyn PasswordLogin> {
    fn asks(&self) -> Asks {
        self.port.asks()
    }
    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<Proven>, ConnectorError> {
        self.bound(self.port.authenticate(login, password)).await
    }
}

#[async_trait]
impl CredentialLogin for Deadline<dyn CredentialLogin> {
    async fn authenticate(&self, id: &str, secret: &Secret) -> Result<Option<Proven>, ConnectorError> {
        self.bound(self.port.authenticate(id, secret)).await
    }
}

#[async_trait]
impl Directory for Deadline<dyn Directory> {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError> {
        self.bound(self.port.search(scope, query)).await
    }
    async fn everyone(&self, scope: &TenantScope, most: usize) -> Result<Found, ConnectorError> {
        self.bound_by(EVERYONE_WITHIN, self.port.everyone(scope, most)).await
    }
    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        self.bound(self.port.get(scope, by)).await
    }
}

#[async_trait]
impl Groups for Deadline<dyn Groups> {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<FoundGroups, ConnectorError> {
        self.bound(self.port.search(scope, query)).await
    }
    async fn get(&self, scope: &TenantScope, name: &str) -> Result<Option<UpstreamGroup>, ConnectorError> {
        self.bound(self.port.get(scope, name)).await
    }
    async fn members(&self, scope: &TenantScope, name: &str, limit: usize) -> Result<Found, ConnectorError> {
        self.bound(self.port.members(scope, name, limit)).await
    }
}

#[async_trait]
impl RedirectLogin for Deadline<dyn RedirectLogin> {
    async fn begin(&self, handshake: &Handshake, wish: &Wish, now: OffsetDateTime) -> Result<Url, ConnectorError> {
        self.bound(self.port.begin(handshake, wish, now)).await
    }
    async fn finish(
        &self,
        handshake: &Handshake,
        wish: &Wish,
        callback: &Callback,
        now: OffsetDateTime,
    ) -> Result<Option<Proven>, ConnectorError> {
        self.bound(self.port.finish(handshake, wish, callback, now)).await
    }
}

#[async_trait]
impl Renewal for Deadline<dyn Renewal> {
    async fn renew(&self, subject: &Subject, refresh_token: &Secret, now: OffsetDateTime) -> Result<Option<Renewed>, ConnectorError> {
        // Some calls, one after the other; and what was shown at the first is spent, so that stopping early loses the sign-in.
        self.bound_by(self.within * 4, self.port.renew(subject, refresh_token, now)).await
    }
    fn believed_seconds(&self) -> u64 {
        self.port.believed_seconds()
    }
}

#[async_trait]
impl TokenAuthentication for Deadline<dyn TokenAuthentication> {
    fn claims_to_be_ours(&self, token: UnverifiedToken<'_>) -> bool {
        self.port.claims_to_be_ours(token)
    }
    async fn authenticate(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Verdict, ConnectorError> {
        self.bound(self.port.authenticate(token, now)).await
    }
    fn bounds(&self) -> TokenBounds {
        self.port.bounds()
    }
}

#[async_trait]
impl TokenRevocation for Deadline<dyn TokenRevocation> {
    async fn revoke(&self, caller: &Secret, token: UnverifiedToken<'_>) -> Result<Revocation, ConnectorError> {
        self.bound(self.port.revoke(caller, token)).await
    }
}

#[async_trait]
impl LogoutNotices for Deadline<dyn LogoutNotices> {
    async fn verify(&self, logout_token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Option<LogoutNotice>, ConnectorError> {
        self.bound(self.port.verify(logout_token, now)).await
    }
}
