//! Revocation (RFC 7009).

use time::OffsetDateTime;

use super::{Authentication, Family, GrantError, Grants, handle::RefreshHandle};
use crate::{
    standing::Judge,
    store::{Batch, Key, Kind},
    tokens::{Unverified, UnverifiedToken},
};

impl Grants {
    /// Revokes a token of this client: a refresh token with its family, an access token alone. A token that is unknown, or
    /// another client's, is left as it is, and the answer is the same (RFC 7009, 2.2).
    ///
    /// # Errors
    /// When the client is not who it says, or the store could not tell.
    pub async fn revoke(&self, who: &Authentication, token: &str, judge: &Judge, now: OffsetDateTime) -> Result<(), GrantError> {
        let client = self.clients.authenticate(who)?;
        if let Some(handle) = RefreshHandle::parse(token) {
            let entry = self.store.get(&super::family::key(&handle.tenant, handle.family), now).await?;
            let family = entry.and_then(|entry| serde_json::from_slice::<Family>(&entry.value).ok());
            if family.is_some_and(|family| family.client_id == client.id) {
                self.revoke_family(&handle.tenant, handle.family, "revoked by its client", now).await?;
            }
            return Ok(());
        }
        // Whatever stands in its way at this moment, a token that is revoked stays so.
        let claims = match judge.genuine(UnverifiedToken::new(token), now).await {
            Ok(claims) => Some(claims),
            Err(Unverified::Forged(_)) => None,
            Err(Unverified::Store(error)) => return Err(error.into()),
        };
        if let Some(claims) = claims.filter(|claims| claims.client_id == client.id) {
            let until = OffsetDateTime::from_unix_timestamp(claims.exp).ok();
            let key = Key::new(&claims.tenant_id, Kind::RevokedToken, claims.jti.to_string());
            self.store.commit(Batch::new().put(key, Vec::new(), until), now).await?;
        }
        Ok(())
    }
}
