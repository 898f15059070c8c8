//! Whether what a genuine token says is still so: its times, its tenant, its connector, its session and grant, revocation.
//! Judged at every use, also where the signature's result was remembered.

use std::sync::Arc;

use claims_mapping::Tenant;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    grants::Clients,
    store::{Key, Kind, Mark, Store, StoreError},
    tenancy::Admission,
    tokens::{AccessClaims, Forged, IdClaims, Unverified, UnverifiedToken, Verifier},
};

/// A token in force.
#[derive(Debug, Clone)]
pub struct Standing {
    /// What it says.
    pub claims: Arc<AccessClaims>,
    /// Its tenant, which is on.
    pub tenant: Arc<Tenant>,
    /// What the store's part of it depends on.
    mark: Option<Mark>,
}

/// A token that is not in force, or of which it could not be told. The reasons are for the audit log; to the sender, all
/// but the last are one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fallen {
    /// It is none of ours.
    #[error("forged: {0}")]
    Forged(#[from] Forged),
    /// Its time is over, or has not come.
    #[error("expired")]
    Expired,
    /// Its tenant is disabled or gone.
    #[error("its tenant is disabled or unknown")]
    Tenant,
    /// Its connector is disabled, or may no longer speak for the tenant.
    #[error("its connector is disabled or no longer speaks for the tenant")]
    Connector,
    /// Its client is gone, or no longer takes its tenant or connector.
    #[error("its client is gone, or no longer takes its tenant or connector")]
    Client,
    /// It, its session or its grant was ended.
    #[error("revoked")]
    Revoked,
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Unverified> for Fallen {
    fn from(unverified: Unverified) -> Self {
        match unverified {
            Unverified::Forged(forged) => Self::Forged(forged),
            Unverified::Store(error) => Self::Store(error),
        }
    }
}

/// Judges tokens.
pub struct Judge {
    verifier: Verifier,
    admission: Arc<Admission>,
    clients: Arc<Clients>,
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Judge")
    }
}

impl Judge {
    /// A judge of the tokens that this verifier knows.
    #[must_use]
    pub fn new(verifier: Verifier, admission: Arc<Admission>, clients: Arc<Clients>, store: Arc<dyn Store>) -> Self {
        Self { verifier, admission, clients, store }
    }

    /// What a genuine access token of ours says, in force or not.
    ///
    /// # Errors
    /// Why it is not one, or that it could not be told.
    pub async fn genuine(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Arc<AccessClaims>, Unverified> {
        self.verifier.verify(token, now).await
    }

    /// What a genuine ID token of ours says, in force or not; `None` where it is none of ours.
    ///
    /// # Errors
    /// When it could not be told.
    pub async fn id_token(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Option<IdClaims>, StoreError> {
        self.verifier.id_token(token, now).await
    }

    /// Whether a token is genuine and in force at this time.
    ///
    /// # Errors
    /// Why it is not, or that it could not be told.
    pub async fn judge(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Standing, Fallen> {
        let claims = self.verifier.verify(token, now).await?;
        let tenant = match self.admitted(&claims, now) {
            // The token is genuine: another replica may have made its tenant a moment ago.
            Err(Fallen::Tenant) if self.admission.tenants.enabled_anywhere(&claims.tenant_id, now).await?.is_some() => {
                self.admitted(&claims, now)?
            }
            admitted => admitted?,
        };
        let key = |kind, id: Uuid| Key::new(&tenant.id, kind, id.to_string());
        let must_stand = [claims.sid.map(|id| key(Kind::Session, id)), claims.grant_id.map(|id| key(Kind::Grant, id))];
        let mut keys = vec![key(Kind::RevokedToken, claims.jti)];
        keys.extend(must_stand.into_iter().flatten());
        let (present, mark) = self.store.look(&keys, now).await?;
        let is_revoked = present.first().copied().unwrap_or(true);
        if is_revoked || !present.iter().skip(1).all(|stands| *stands) {
            return Err(Fallen::Revoked);
        }
        Ok(Standing { claims, tenant, mark })
    }

    /// Whether a token that was in force surely still is, for the same tenant as it is described now. All is judged anew; only
    /// of the store it is asked whether anything that was seen there has changed. `false` says nothing: judge it.
    #[must_use]
    pub fn is_surely_still(&self, standing: &Standing, now: OffsetDateTime) -> bool {
        let is_same = self.admitted(&standing.claims, now).is_ok_and(|tenant| Arc::ptr_eq(&tenant, &standing.tenant));
        is_same && standing.mark.as_ref().is_some_and(|mark| self.store.is_as_seen(mark, now))
    }

    /// The tenant of a genuine token, where all but the store lets it stand.
    fn admitted(&self, claims: &AccessClaims, now: OffsetDateTime) -> Result<Arc<Tenant>, Fallen> {
        let seconds = now.unix_timestamp();
        // A token from a little in the future is another replica's whose clock is ahead; more than a minute is none of ours.
        if claims.exp <= seconds || claims.iat > seconds + 60 {
            return Err(Fallen::Expired);
        }
        let tenant = self.admission.tenants.enabled(&claims.tenant_id).ok_or(Fallen::Tenant)?;
        let client = self.clients.get(&claims.client_id).filter(|client| match &claims.connector {
            Some(connector) => client.takes_tenant(&tenant.id) && client.takes_connector(connector),
            None => client.tenant.as_ref() == Some(&tenant.id),
        });
        if client.is_none() {
            return Err(Fallen::Client);
        }
        if let Some(connector) = &claims.connector {
            let connector = self.admission.connector(connector.as_str()).ok_or(Fallen::Connector)?;
            if !connector.serves(&tenant) {
                return Err(Fallen::Connector);
            }
        }
        if let Some(via) = &claims.via {
            let via = self.admission.connector(via.as_str()).ok_or(Fallen::Connector)?;
            if !via.serves(&tenant) || Some(via.speaks_of()) != claims.connector.as_ref() {
                return Err(Fallen::Connector);
            }
        }
        Ok(tenant)
    }
}
