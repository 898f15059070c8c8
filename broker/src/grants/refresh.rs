//! Refresh with rotation (RFC 9700, 4.14.2): each refresh token is good once, and an old one revokes its family. One whose successor
//! was given to no one is good once more (`grants/doubts.rs`).

use claims_mapping::Identity;
use time::OffsetDateTime;

use super::{
    Authentication, Client, Family, GrantError, Granted, Grants,
    code::told_of_sign_out,
    doubts,
    family::{Shown, key},
    handle::RefreshHandle,
    narrowing,
};
use crate::{
    config::GrantType,
    login::{Session, SignedIn},
    store::{Expect, Outcome},
};

/// How often an exchange is begun anew where others write the same records.
const TRIES: usize = 4;

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
        let (tenant, mut met) = (&handle.tenant, None);
        for _ in 0..TRIES {
            let entry = self.store.get(&key(tenant, handle.family), now).await?.ok_or(NOT_GOOD)?;
            let family: Family = serde_json::from_slice(&entry.value).map_err(|_| NOT_GOOD)?;
            let is_its = family.client_id == client.id;
            let undelivered = match family.shown(&handle, now) {
                Shown::Current if is_its => None,
                Shown::Expired => return Err(NOT_GOOD),
                Shown::Predecessor(current) if is_its && self.doubts.is_undelivered(tenant, &current, now).await? => Some(current),
                // Another request used it at the same moment, and won.
                _ if met.is_some_and(|version| version != entry.version) => return Err(NOT_GOOD),
                shown => {
                    let why = if shown == Shown::Later {
                        "a refresh token of a later generation than the store has: it lost a rotation"
                    } else {
                        "refresh token used twice, or by another client"
                    };
                    self.revoke_family(tenant, handle.family, why, now).await?;
                    return Err(NOT_GOOD);
                }
            };
            if undelivered.is_some() {
                tracing::warn!(
                    target: "audit", event = "grant.repeated", tenant.id = %tenant, client.id = client.id, grant.id = %handle.family,
                );
            }
            match self.rotate(client, &request, (&handle, family, entry.version), undelivered.as_deref(), now).await? {
                Some(granted) => return Ok(granted),
                None => met = Some(entry.version),
            }
        }
        Err(GrantError::Unavailable("the session is contended".into()))
    }

    /// The next tokens of a family; `None` where the family or the session was written meanwhile, or has ended.
    async fn rotate(
        &self,
        client: &Client,
        request: &RefreshRequest,
        (handle, mut family, version): (&RefreshHandle, Family, u64),
        undelivered: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<Option<Granted>, GrantError> {
        family.keep_what_is_still_granted(client)?;
        let scopes = narrowing::scopes(&family.scopes, request.scope.as_deref(), client)?;
        let audiences = narrowing::audiences(&family.audiences, &request.resources)?;
        let signed_in = SignedIn { tenant: handle.tenant.clone(), sid: family.sid };
        let refresh_token = family.rotate(handle, self.refresh_until(now), &*self.entropy);
        let (session, identity) = self.renewed(&signed_in, client, now).await?;
        let family_key = key(&handle.tenant, handle.family);
        let mut batch = self.sessions.write(&signed_in, &session).expect(family_key.clone(), Expect::Version(version)).put(
            family_key,
            serde_json::to_vec(&family).unwrap_or_default(),
            Some(now + self.family_lifetime()),
        );
        if let Some(undelivered) = undelivered {
            batch = batch.delete(doubts::key(&handle.tenant, undelivered));
        }
        // A session that was prolonged meanwhile tells this client of its end too.
        if !session.offline
            && let Some((key, value, until)) = told_of_sign_out(client, &family, &identity, session.expires_at)
        {
            batch = batch.put(key, value, until);
        }
        let to = (handle.family, &family, session.via.as_ref());
        let granted = self.issue(client, &identity, to, (&scopes, &audiences), Some(refresh_token), now)?;
        let successor = family.current.as_deref().unwrap_or_default();
        let outcome = self.doubts.commit((&handle.tenant, successor), batch, now).await?;
        Ok((outcome == Outcome::Committed).then_some(granted))
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
