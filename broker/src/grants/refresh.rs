//! Refresh with rotation (RFC 9700, 4.14.2): each refresh token is good once, and an old one revokes its family.

use claims_mapping::Identity;
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

use super::{
    Authentication, Client, Family, GrantError, Granted, Grants, code::told_of_sign_out, family::key, handle::RefreshHandle, narrowing,
};
use crate::{
    config::GrantType,
    login::{Session, SignedIn},
    store::{Expect, Outcome},
};

/// What a client sends to renew.
#[derive(Debug)]
pub struct RefreshRequest {
    /// The refresh token.
    pub refresh_token: String,
    /// A narrower choice of the scopes; for this token only.
    pub scope: Option<String>,
    /// A narrower choice of the audiences; for this token only.
    pub resources: Vec<String>,
}

const NOT_GOOD: GrantError = GrantError::InvalidGrant("the refresh token is unknown, expired, used, revoked, or not this client's");

impl Grants {
    /// Exchanges a refresh token. The directory is asked again: someone who is disabled, gone, or of another tenant now loses
    /// the session.
    ///
    /// # Errors
    /// As [`GrantError`] says. Where a directory or the store could not tell, the refresh token stays good.
    pub async fn refresh(&self, who: &Authentication, request: RefreshRequest, now: OffsetDateTime) -> Result<Granted, GrantError> {
        let client = self.clients.authenticate(who)?;
        if !client.may(GrantType::RefreshToken) {
            return Err(GrantError::UnauthorizedClient);
        }
        let handle = RefreshHandle::parse(&request.refresh_token).ok_or(NOT_GOOD)?;
        let entry = self.store.get(&key(&handle.tenant, handle.family), now).await?.ok_or(NOT_GOOD)?;
        let mut family: Family = serde_json::from_slice(&entry.value).map_err(|_| NOT_GOOD)?;
        let is_current = family.current.as_ref().is_some_and(|c| c.as_bytes().ct_eq(handle.secret.as_bytes()).into());
        if is_current && family.refresh_until <= now.unix_timestamp() {
            return Err(NOT_GOOD);
        }
        if family.client_id != client.id || !is_current {
            self.revoke_family(&handle.tenant, handle.family, "refresh token used twice, or by another client", now).await?;
            return Err(NOT_GOOD);
        }
        family.keep_what_is_still_granted(client)?;
        let scopes = narrowing::scopes(&family.scopes, request.scope.as_deref(), client)?;
        let audiences = narrowing::audiences(&family.audiences, &request.resources)?;
        let signed_in = SignedIn { tenant: handle.tenant.clone(), sid: family.sid };
        let (refresh_token, current) = RefreshHandle::issue(&handle.tenant, handle.root, &*self.entropy);
        family.current = Some(current);
        family.refresh_until = self.refresh_until(now);
        let family_key = key(&handle.tenant, handle.family);
        for _ in 0..3 {
            let (session, identity) = self.renewed(&signed_in, client, now).await?;
            let mut batch = self.sessions.write(&signed_in, &session).expect(family_key.clone(), Expect::Version(entry.version)).put(
                family_key.clone(),
                serde_json::to_vec(&family).unwrap_or_default(),
                Some(now + self.family_lifetime()),
            );
            // A session that was prolonged meanwhile tells this client of its end too.
            if !session.offline
                && let Some((key, value, until)) = told_of_sign_out(client, &family, &identity, session.expires_at)
            {
                batch = batch.put(key, value, until);
            }
            let to = (handle.family, &family, session.via.as_ref());
            let granted = self.issue(client, &identity, to, (&scopes, &audiences), Some(refresh_token.clone()), now)?;
            if self.store.commit(batch, now).await? == Outcome::Committed {
                return Ok(granted);
            }
            // Another request used the refresh token at the same moment, and won; or only the session was written meanwhile.
            if self.store.get(&family_key, now).await?.is_none_or(|now| now.version != entry.version) {
                return Err(NOT_GOOD);
            }
        }
        Err(GrantError::Unavailable("the session is contended".into()))
    }

    async fn renewed(&self, signed_in: &SignedIn, client: &Client, now: OffsetDateTime) -> Result<(Session, Identity), GrantError> {
        let (mut session, identity) = self.sessions.renew(signed_in, now).await?;
        if !client.takes_tenant(identity.id().tenant_id()) || !client.takes_connector(identity.connector()) {
            return Err(NOT_GOOD);
        }
        if session.offline {
            session.extend(now + self.family_lifetime());
        }
        Ok((session, identity))
    }
}
