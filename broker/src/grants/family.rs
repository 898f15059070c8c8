//! A family of refresh tokens: what each of them and every access token of theirs stands and falls with.
//!
//! Earlier versions keep the record without generation and predecessor. One of them that rotates leaves both out again: then
//! nothing is concluded from a generation, a doubt of before is over (strictly: what is not current was used), and the next rotation
//! counts on from the token that was shown.

use claims_mapping::TenantId;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{Client, GrantError, Grants, handle::RefreshHandle, seconds};
use crate::{
    seams::Entropy,
    store::{Batch, Expect, Key, Kind, Outcome, StoreError},
};

/// A family of refresh tokens, as it is stored. Access tokens name it, and fall with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Family {
    pub(super) client_id: String,
    pub(super) sid: Uuid,
    /// The browser's session, where `sid` is a copy of it that outlives it (`offline_access`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) copied_from: Option<Uuid>,
    pub(super) scopes: Vec<String>,
    pub(super) audiences: Vec<String>,
    pub(super) nonce: Option<String>,
    pub(super) auth_time: i64,
    /// The fingerprint of the one refresh token that is good; `None` where none was given.
    pub(super) current: Option<String>,
    /// Until when that one is good, in seconds since 1970.
    pub(super) refresh_until: i64,
    /// The how-manieth that one is; it grows with each rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    /// The one for which that one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Previous>,
}

/// A refresh token that was rotated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Previous {
    /// Its fingerprint.
    pub(super) fingerprint: String,
    /// Until when it was good, in seconds since 1970.
    pub(super) until: i64,
}

/// What a refresh token that is shown is to its family.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The one that is good.
    Current,
    /// It was that, and its time is over.
    Expired,
    /// The direct predecessor of the current one, whose fingerprint this is: good where that one was given to no one.
    Predecessor(String),
    /// Of a later generation than the current one.
    Later,
    /// Used before, or never given.
    Other,
}

impl Family {
    /// What this token is to it.
    pub(super) fn shown(&self, handle: &RefreshHandle, now: OffsetDateTime) -> Shown {
        let is = |fingerprint: &String| bool::from(fingerprint.as_bytes().ct_eq(handle.secret.as_bytes()));
        let now = now.unix_timestamp();
        let Some(current) = &self.current else { return Shown::Other };
        if is(current) {
            return if now < self.refresh_until { Shown::Current } else { Shown::Expired };
        }
        if self.previous.as_ref().is_some_and(|previous| is(&previous.fingerprint) && now < previous.until) {
            return Shown::Predecessor(current.clone());
        }
        let is_later = handle.generation.zip(self.generation).is_some_and(|(shown, current)| current < shown);
        if is_later { Shown::Later } else { Shown::Other }
    }

    /// The next refresh token, for the one that was shown; it is the current one now, good until then.
    pub(super) fn rotate(&mut self, shown: &RefreshHandle, until: i64, entropy: &dyn Entropy) -> String {
        let of_current = Previous { fingerprint: shown.secret.clone(), until: self.refresh_until };
        // One that is shown again keeps its time.
        let again = self.previous.take().filter(|previous| previous.fingerprint == shown.secret);
        let generation = self.generation.or(shown.generation).unwrap_or_default().saturating_add(1);
        let (token, fingerprint) = RefreshHandle::issue(&shown.tenant, shown.root, generation, entropy);
        self.previous = Some(again.unwrap_or(of_current));
        (self.current, self.generation, self.refresh_until) = (Some(fingerprint), Some(generation), until);
        token
    }

    /// The session that ID tokens name: the browser's, which is the one that a sign-out ends.
    pub(super) fn shown_sid(&self) -> Uuid {
        self.copied_from.unwrap_or(self.sid)
    }

    /// What a client may no longer have, it is no longer given.
    pub(super) fn keep_what_is_still_granted(&mut self, client: &Client) -> Result<(), GrantError> {
        let had_scopes = !self.scopes.is_empty();
        self.scopes.retain(|scope| client.may_have(scope));
        if had_scopes && self.scopes.is_empty() {
            return Err(GrantError::InvalidScope("the client is no longer registered for any of the scopes"));
        }
        self.audiences.retain(|audience| client.audiences.contains(audience));
        if self.audiences.is_empty() {
            return Err(GrantError::InvalidTarget("the client is no longer registered for any of the audiences"));
        }
        Ok(())
    }
}

/// Where a family stands.
pub(super) fn key(tenant: &TenantId, family: Uuid) -> Key {
    Key::new(tenant, Kind::Grant, family.to_string())
}

impl Grants {
    /// Ends a family: its refresh token and every access token that names it.
    pub(super) async fn revoke_family(
        &self,
        tenant: &TenantId,
        family: Uuid,
        why: &'static str,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let key = key(tenant, family);
        let batch = Batch::new().expect(key.clone(), Expect::Present).delete(key);
        if self.store.commit(batch, now).await? == Outcome::Committed {
            tracing::warn!(target: "audit", event = "grant.revoked", tenant.id = %tenant, grant.id = %family, reason = why);
        }
        Ok(())
    }

    /// Until when a refresh token that is given now is good.
    pub(super) fn refresh_until(&self, now: OffsetDateTime) -> i64 {
        (now + seconds(self.lifetimes.refresh_token_seconds)).unix_timestamp()
    }

    /// A family is kept as long as whichever of its tokens ends last.
    pub(super) fn family_lifetime(&self) -> Duration {
        seconds(self.lifetimes.refresh_token_seconds.max(self.lifetimes.access_token_seconds))
    }
}
