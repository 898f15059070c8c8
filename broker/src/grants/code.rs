//! The authorization code (RFC 6749, 4.1, with PKCE S256 always, RFC 7636).

use claims_mapping::Identity;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Authentication, Client, Family, GrantError, Granted, Grants,
    handle::{CodeHandle, RefreshHandle, family_of},
    narrowing, seconds,
};
use crate::{
    config::GrantType,
    login::{AuthorizeRequest, Session, SignedIn, client_record},
    secret_text::{fingerprint, random_uuid},
    store::{Batch, Expect, Key, Kind, Outcome, StoreError},
};

/// What a client sends to exchange a code.
#[derive(Debug)]
pub struct CodeRequest {
    /// The code.
    pub code: String,
    /// The redirect URI of its authorization request.
    pub redirect_uri: Option<String>,
    /// PKCE's verifier.
    pub code_verifier: Option<String>,
    /// A narrower choice of the audiences that were asked for.
    pub resources: Vec<String>,
}

/// A code as it is stored; once used, its tombstone.
#[derive(Serialize, Deserialize)]
enum StoredCode {
    Live {
        client_id: String,
        redirect_uri: String,
        challenge: String,
        sid: Uuid,
        scopes: Vec<String>,
        audiences: Vec<String>,
        nonce: Option<String>,
        auth_time: i64,
    },
    /// Used, or burnt by a wrong try; names the family that it gave.
    Used { family: Option<Uuid> },
}

const NOT_GOOD: GrantError = GrantError::InvalidGrant("the code is unknown, expired, used, or not this client's");

impl Grants {
    /// A code for a request that was proven and a person who has signed in.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn give_code(
        &self,
        request: &AuthorizeRequest,
        signed_in: &SignedIn,
        session: &Session,
        now: OffsetDateTime,
    ) -> Result<String, StoreError> {
        let (text, handle) = CodeHandle::issue(&signed_in.tenant, &*self.entropy);
        let stored = StoredCode::Live {
            client_id: request.client_id.clone(),
            redirect_uri: request.redirect_uri.clone(),
            challenge: request.code_challenge.clone(),
            sid: signed_in.sid,
            scopes: request.scopes.clone(),
            audiences: request.audiences.clone(),
            nonce: request.nonce.clone(),
            auth_time: session.auth_time,
        };
        let value = serde_json::to_vec(&stored).unwrap_or_default();
        let until = now + seconds(self.lifetimes.code_seconds);
        self.store.commit(Batch::new().put(key(&handle), value, Some(until)), now).await?;
        Ok(text)
    }

    /// Exchanges a code. It is consumed in the commit that writes what it gave; a second use, a use by another client or with
    /// another redirect URI revokes that.
    ///
    /// # Errors
    /// As [`GrantError`] says. Where the store could not tell, nothing was consumed.
    pub async fn exchange_code(&self, who: &Authentication, request: CodeRequest, now: OffsetDateTime) -> Result<Granted, GrantError> {
        let client = self.clients.authenticate(who)?;
        if !client.may(GrantType::AuthorizationCode) {
            return Err(GrantError::UnauthorizedClient);
        }
        let handle = CodeHandle::parse(&request.code).ok_or(NOT_GOOD)?;
        let entry = self.store.get(&key(&handle), now).await?.ok_or(NOT_GOOD)?;
        let stored: StoredCode = serde_json::from_slice(&entry.value).map_err(|_| NOT_GOOD)?;
        let StoredCode::Live { client_id, redirect_uri, challenge, sid, scopes, audiences, nonce, auth_time } = stored else {
            return Err(self.used_again(&stored, &handle, now).await?);
        };
        let proven = client_id == client.id && request.redirect_uri.as_ref() == Some(&redirect_uri);
        if !proven || !challenge_matches(&challenge, request.code_verifier.as_deref()) {
            self.burn(&handle, entry.version, now).await?;
            return Err(GrantError::InvalidGrant("the code was given to another client, redirect_uri or code_challenge"));
        }
        let mut signed_in = SignedIn { tenant: handle.tenant.clone(), sid };
        let session_key = crate::login::session_key(&signed_in);
        let (session, identity) = self.sessions.find(&signed_in, now).await?;
        if !client.takes_tenant(identity.id().tenant_id()) || !client.takes_connector(identity.connector()) {
            return Err(NOT_GOOD);
        }
        let mut batch = Batch::new();
        if scopes.iter().any(|s| s == "offline_access") && client.may(GrantType::RefreshToken) {
            (signed_in, batch) = self.sessions.offline_copy(&session, &handle.tenant, self.family_lifetime(), now);
        }
        let root = random_uuid(&*self.entropy);
        let family_id = family_of(root);
        let (refresh_token, current) = self.first_refresh_token(client, &handle, root);
        let refresh_until = self.refresh_until(now);
        let copied_from = (signed_in.sid != sid).then_some(sid);
        let mut family = Family { client_id, sid: signed_in.sid, copied_from, scopes, audiences, nonce, auth_time, current, refresh_until };
        family.keep_what_is_still_granted(client)?;
        let chosen = narrowing::audiences(&family.audiences, &request.resources)?;
        let until = now + self.family_lifetime();
        batch = batch
            .expect(session_key, Expect::Present)
            .expect(key(&handle), Expect::Version(entry.version))
            .put(key(&handle), tombstone(Some(family_id)), Some(until))
            .put(super::family::key(&handle.tenant, family_id), serde_json::to_vec(&family).unwrap_or_default(), Some(until));
        if let Some((key, value, until)) = told_of_sign_out(client, &family, &identity, session.expires_at) {
            batch = batch.put(key, value, until);
        }
        // Signed before the commit: what is answered as issued is never lost to a failure in between.
        let to = (family_id, &family, session.via.as_ref());
        let granted = self.issue(client, &identity, to, (&family.scopes, &chosen), refresh_token, now)?;
        match self.store.commit(batch, now).await? {
            Outcome::Committed => Ok(granted),
            Outcome::Conflict => {
                let entry = self.store.get(&key(&handle), now).await?.ok_or(NOT_GOOD)?;
                let stored: StoredCode = serde_json::from_slice(&entry.value).map_err(|_| NOT_GOOD)?;
                Err(self.used_again(&stored, &handle, now).await?)
            }
        }
    }

    fn first_refresh_token(&self, client: &Client, handle: &CodeHandle, root: Uuid) -> (Option<String>, Option<String>) {
        if !client.may(GrantType::RefreshToken) {
            return (None, None);
        }
        let (text, fingerprint) = RefreshHandle::issue(&handle.tenant, root, &*self.entropy);
        (Some(text), Some(fingerprint))
    }

    async fn burn(&self, handle: &CodeHandle, version: u64, now: OffsetDateTime) -> Result<(), StoreError> {
        let until = now + seconds(self.lifetimes.code_seconds);
        let batch = Batch::new().expect(key(handle), Expect::Version(version)).put(key(handle), tombstone(None), Some(until));
        self.store.commit(batch, now).await.map(drop)
    }

    async fn used_again(&self, stored: &StoredCode, handle: &CodeHandle, now: OffsetDateTime) -> Result<GrantError, StoreError> {
        if let StoredCode::Used { family: Some(family) } = stored {
            self.revoke_family(&handle.tenant, *family, "code used twice", now).await?;
        }
        Ok(NOT_GOOD)
    }
}

/// The record by which a client that was given an ID token is told when the session ends; none where it does not ask for it.
pub(super) fn told_of_sign_out(
    client: &Client,
    family: &Family,
    identity: &Identity,
    expires_at: i64,
) -> Option<(Key, Vec<u8>, Option<OffsetDateTime>)> {
    let wants = client.backchannel_logout_uri.is_some() && family.scopes.iter().any(|scope| scope == "openid");
    let session = SignedIn { tenant: identity.id().tenant_id().clone(), sid: family.shown_sid() };
    wants.then(|| client_record(&session, &client.id, identity.id().opaque_id(), expires_at))
}

fn tombstone(family: Option<Uuid>) -> Vec<u8> {
    serde_json::to_vec(&StoredCode::Used { family }).unwrap_or_default()
}

fn key(handle: &CodeHandle) -> Key {
    Key::new(&handle.tenant, Kind::Code, handle.id.clone())
}

/// Whether a verifier of 43 to 128 unreserved characters hashes to the challenge (RFC 7636, 4.1 and 4.6).
fn challenge_matches(challenge: &str, verifier: Option<&str>) -> bool {
    let Some(verifier) = verifier else { return false };
    let unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    if !(43..=128).contains(&verifier.len()) || !verifier.bytes().all(unreserved) {
        return false;
    }
    fingerprint(verifier).as_bytes().ct_eq(challenge.as_bytes()).into()
}
