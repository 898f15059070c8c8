//! A family of refresh tokens: what each of them and every access token of theirs stands and falls with.

use claims_mapping::TenantId;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{Client, GrantError, Grants, seconds};
use crate::store::{Batch, Expect, Key, Kind, Outcome, StoreError};

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
}

impl Family {
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
