//! The authorization code (RFC 6749, 4.1, with PKCE S256 always, RFC 7636). One for which no one was given anything can be exchanged
//! again for a while (`grants/doubts.rs`).
//!
//! Earlier versions read a tombstone of this one as what they know, and take each code that was used as such; what they write says
//! of no code how it could be exchanged again.

use claims_mapping::Identity;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Authentication, Client, Family, GrantError, Granted, Grants, doubts,
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

/// The generation of a code's refresh token.
const FIRST: u64 = 1;
/// How often an exchange is begun anew where others write the same records.
const TRIES: usize = 4;

/// A code as it is stored; once used, its tombstone.
#[derive(Serialize, Deserialize)]
enum StoredCode {
    Live(Promise),
    /// Used, or burnt by a wrong try.
    Used {
        /// What it gave.
        family: Option<Uuid>,
        /// What is needed to exchange it again, where that was given to no one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<Again>,
    },
}

/// What a code stands for, and what must be proven by whoever exchanges it.
#[derive(Clone, Serialize, Deserialize)]
struct Promise {
    client_id: String,
    redirect_uri: String,
    challenge: String,
    sid: Uuid,
    scopes: Vec<String>,
    audiences: Vec<String>,
    nonce: Option<String>,
    auth_time: i64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Again {
    promise: Promise,
    /// Until when, in seconds since 1970: as long after its first use as a code is good.
    until: i64,
    /// The session that was written for the family, where it has one of its own.
    copy: Option<Uuid>,
}

/// What an exchange wrote that gave nothing to anyone. It dies with the next one.
struct Undelivered {
    family: Uuid,
    copy: Option<Uuid>,
    until: i64,
}

impl Promise {
    fn is_proven_by(&self, client: &Client, request: &CodeRequest) -> bool {
        self.client_id == client.id
            && request.redirect_uri.as_ref() == Some(&self.redirect_uri)
            && challenge_matches(&self.challenge, request.code_verifier.as_deref())
    }
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
        let stored = StoredCode::Live(Promise {
            client_id: request.client_id.clone(),
            redirect_uri: request.redirect_uri.clone(),
            challenge: request.code_challenge.clone(),
            sid: signed_in.sid,
            scopes: request.scopes.clone(),
            audiences: request.audiences.clone(),
            nonce: request.nonce.clone(),
            auth_time: session.auth_time,
        });
        let value = serde_json::to_vec(&stored).unwrap_or_default();
        let until = now + seconds(self.lifetimes.code_seconds);
        self.store.commit(Batch::new().put(key(&handle), value, Some(until)), now).await?;
        Ok(text)
    }

    /// Exchanges a code. It is consumed in the commit that writes what it gave; a second use, a use by another client or with
    /// another redirect URI revokes that.
    ///
    /// # Errors
    /// As [`GrantError`] says. Where the store could not tell, the code stays good.
    pub async fn exchange_code(&self, who: &Authentication, request: CodeRequest, now: OffsetDateTime) -> Result<Granted, GrantError> {
        let client = self.clients.authenticate(who)?;
        if !client.may(GrantType::AuthorizationCode) {
            return Err(GrantError::UnauthorizedClient);
        }
        let handle = CodeHandle::parse(&request.code).ok_or(NOT_GOOD)?;
        for _ in 0..TRIES {
            let entry = self.store.get(&key(&handle), now).await?.ok_or(NOT_GOOD)?;
            let (promise, undelivered) = match serde_json::from_slice(&entry.value).map_err(|_| NOT_GOOD)? {
                StoredCode::Live(promise) if promise.is_proven_by(client, &request) => (promise, None),
                StoredCode::Live(_) => {
                    self.burn(&handle, None, entry.version, now).await?;
                    return Err(GrantError::InvalidGrant("the code was given to another client, redirect_uri or code_challenge"));
                }
                StoredCode::Used { family: None, .. } => return Err(NOT_GOOD),
                // Whoever shows it twice at once finds this: nothing is left to be written.
                StoredCode::Used { family: Some(family), again: None } => {
                    self.revoke_family(&handle.tenant, family, "code used twice", now).await?;
                    return Err(NOT_GOOD);
                }
                StoredCode::Used { family: Some(family), again: Some(again) } => {
                    match self.again((client, &request), &handle, (family, again), now).await? {
                        Some((promise, undelivered)) => (promise, Some(undelivered)),
                        None => {
                            self.revoke_family(&handle.tenant, family, "code used twice", now).await?;
                            // Exchanged again meanwhile: then that is what was used twice.
                            if self.burn(&handle, Some(family), entry.version, now).await? == Outcome::Conflict {
                                continue;
                            }
                            return Err(NOT_GOOD);
                        }
                    }
                }
            };
            let version = entry.version;
            if let Some(granted) = self.exchange(client, &request, (&handle, promise, version), undelivered, now).await? {
                return Ok(granted);
            }
        }
        Err(GrantError::Unavailable("the code is contended".into()))
    }

    /// What a used code is exchanged for again: by whoever proves the same as the first time, where that was given to no one.
    async fn again(
        &self,
        (client, request): (&Client, &CodeRequest),
        handle: &CodeHandle,
        (family, Again { promise, until, copy }): (Uuid, Again),
        now: OffsetDateTime,
    ) -> Result<Option<(Promise, Undelivered)>, StoreError> {
        let may = now.unix_timestamp() < until
            && promise.is_proven_by(client, request)
            && self.doubts.is_undelivered(&handle.tenant, &family.to_string(), now).await?;
        if may {
            tracing::warn!(
                target: "audit", event = "grant.repeated", tenant.id = %handle.tenant, client.id = client.id, grant.id = %family,
            );
        }
        Ok(may.then_some((promise, Undelivered { family, copy, until })))
    }

    /// The tokens for a code; `None` where it was written meanwhile, or the session has ended.
    async fn exchange(
        &self,
        client: &Client,
        request: &CodeRequest,
        (handle, promise, version): (&CodeHandle, Promise, u64),
        undelivered: Option<Undelivered>,
        now: OffsetDateTime,
    ) -> Result<Option<Granted>, GrantError> {
        let Promise { client_id, sid, scopes, audiences, nonce, auth_time, .. } = promise.clone();
        let tenant = &handle.tenant;
        let mut signed_in = SignedIn { tenant: tenant.clone(), sid };
        let session_key = crate::login::session_key(&signed_in);
        let (session, identity) = self.sessions.find(&signed_in, now).await?;
        if !client.takes_tenant(identity.id().tenant_id()) || !client.takes_connector(identity.connector()) {
            return Err(NOT_GOOD);
        }
        let mut batch = Batch::new();
        if scopes.iter().any(|s| s == "offline_access") && client.may(GrantType::RefreshToken) {
            (signed_in, batch) = self.sessions.offline_copy(&session, tenant, self.family_lifetime(), now);
        }
        let copied_from = (signed_in.sid != sid).then_some(sid);
        let copy = copied_from.map(|_| signed_in.sid);
        let again_until = undelivered.as_ref().map_or((now + seconds(self.lifetimes.code_seconds)).unix_timestamp(), |before| before.until);
        if let Some(before) = undelivered {
            batch = batch.delete(super::family::key(tenant, before.family)).delete(doubts::key(tenant, &before.family.to_string()));
            if let Some(copy) = before.copy {
                batch = batch.delete(crate::login::session_key(&SignedIn { tenant: tenant.clone(), sid: copy }));
            }
        }
        let root = random_uuid(&*self.entropy);
        let family_id = family_of(root);
        let (refresh_token, current) = self.first_refresh_token(client, handle, root);
        let mut family = Family {
            client_id,
            sid: signed_in.sid,
            copied_from,
            scopes,
            audiences,
            nonce,
            auth_time,
            generation: current.as_ref().map(|_| FIRST),
            current,
            refresh_until: self.refresh_until(now),
            previous: None,
        };
        family.keep_what_is_still_granted(client)?;
        let chosen = narrowing::audiences(&family.audiences, &request.resources)?;
        let until = now + self.family_lifetime();
        let again = Again { promise, until: again_until, copy };
        batch = batch
            .expect(session_key, Expect::Present)
            .expect(key(handle), Expect::Version(version))
            .put(key(handle), tombstone(Some(family_id), Some(again)), Some(until))
            .put(super::family::key(tenant, family_id), serde_json::to_vec(&family).unwrap_or_default(), Some(until));
        if let Some((key, value, until)) = told_of_sign_out(client, &family, &identity, session.expires_at) {
            batch = batch.put(key, value, until);
        }
        // Signed before the commit: what is answered as issued is never lost to a failure in between.
        let to = (family_id, &family, session.via.as_ref());
        let granted = self.issue(client, &identity, to, (&family.scopes, &chosen), refresh_token, now)?;
        let outcome = self.doubts.commit((tenant, &family_id.to_string()), batch, now).await?;
        Ok((outcome == Outcome::Committed).then_some(granted))
    }

    fn first_refresh_token(&self, client: &Client, handle: &CodeHandle, root: Uuid) -> (Option<String>, Option<String>) {
        if !client.may(GrantType::RefreshToken) {
            return (None, None);
        }
        let (text, fingerprint) = RefreshHandle::issue(&handle.tenant, root, FIRST, &*self.entropy);
        (Some(text), Some(fingerprint))
    }

    /// Leaves nothing to exchange it with; a second use still names what it gave.
    async fn burn(&self, handle: &CodeHandle, family: Option<Uuid>, version: u64, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        let until = now + family.map_or_else(|| seconds(self.lifetimes.code_seconds), |_| self.family_lifetime());
        let batch = Batch::new().expect(key(handle), Expect::Version(version)).put(key(handle), tombstone(family, None), Some(until));
        self.store.commit(batch, now).await
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

fn tombstone(family: Option<Uuid>, again: Option<Again>) -> Vec<u8> {
    serde_json::to_vec(&StoredCode::Used { family, again }).unwrap_or_default()
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
