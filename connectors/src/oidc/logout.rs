//! Sign-outs that a provider tells of (OpenID Connect Back-Channel Logout 1.0): whether a logout token is genuine, and whom it concerns.

use std::sync::Arc;

use async_trait::async_trait;
use claims_mapping::ConnectorId;
use serde_json::{Map, Value};
use time::{Duration, OffsetDateTime};

use super::{
    discovery::Provider,
    jws::{Expected, Refusal, UnverifiedJws, audiences, in_time, seconds},
    keys::KeySet,
    token::{subject, with_keys},
};
use crate::{ConnectorError, LogoutNotice, LogoutNotices, UnverifiedToken};

/// The member of `events` that makes a logout token (2.4).
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// `logout+jwt` is recommended; older providers say `JWT`, or nothing (2.4).
const TYPES: [&str; 2] = ["logout+jwt", "jwt"];
/// How old a notice may be: its `jti` must be remembered that long.
const MOST_AGE: Duration = Duration::minutes(10);
/// How far its `iat` may lie ahead, for clocks that differ.
const MOST_AHEAD: Duration = Duration::minutes(1);
/// The longest `jti` and `sid`, in characters.
const MOST_TEXT: usize = 255;

/// Whether claims are those of a logout token, which is no one's credential.
pub(super) fn is_logout_token(claims: &Map<String, Value>) -> bool {
    claims.get("events").and_then(Value::as_object).is_some_and(|events| events.contains_key(EVENT))
}

/// The port.
pub(super) struct Notices {
    pub(super) id: ConnectorId,
    pub(super) provider: Arc<Provider>,
    pub(super) client_id: String,
}

#[async_trait]
impl LogoutNotices for Notices {
    async fn verify(&self, logout_token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Option<LogoutNotice>, ConnectorError> {
        let verified = with_keys(&self.provider, now, |keys| self.notice(logout_token, keys, now)).await?;
        match verified {
            Ok(notice) => Ok(Some(notice)),
            Err(refusal) => {
                tracing::info!(connector.id = %self.id, why = %refusal, "a logout token is not taken");
                Ok(None)
            }
        }
    }
}

impl Notices {
    /// The steps of section 2.6.
    fn notice(&self, token: UnverifiedToken<'_>, keys: &KeySet, now: OffsetDateTime) -> Result<LogoutNotice, Refusal> {
        let jws = UnverifiedJws::parse(token)?;
        let expires_at = in_time(jws.unverified_claims(), now)?;
        if !audiences(jws.unverified_claims()).contains(&self.client_id.as_str()) {
            return Err(Refusal::Audience);
        }
        let issuer = self.provider.issuer();
        let claims = jws.verify(&Expected { issuer, algorithms: self.provider.algorithms(), types: &TYPES }, keys)?;
        if !claims.get("events").is_some_and(|events| events.get(EVENT).is_some_and(Value::is_object)) || claims.contains_key("nonce") {
            return Err(Refusal::Type);
        }
        let issued_at = seconds(&claims, "iat")?.and_then(|iat| OffsetDateTime::from_unix_timestamp(iat).ok()).ok_or(Refusal::Claims)?;
        if issued_at > now + MOST_AHEAD {
            return Err(Refusal::NotYet);
        }
        if now - issued_at > MOST_AGE {
            return Err(Refusal::Expired);
        }
        let jti = text(&claims, "jti")?.ok_or(Refusal::Claims)?;
        let sid = text(&claims, "sid")?;
        let subject = match claims.get("sub") {
            None => None,
            // A subject that can not be read must not turn a notice about one person's session into one about no one's.
            Some(_) => Some(subject(issuer, &claims).ok_or(Refusal::Claims)?),
        };
        if subject.is_none() && sid.is_none() {
            return Err(Refusal::Claims);
        }
        let forgotten_at = (issued_at + MOST_AGE).unix_timestamp() + 1;
        Ok(LogoutNotice { subject, sid, jti, expires_at: expires_at.saturating_add(1).min(forgotten_at) })
    }
}

fn text(claims: &Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.chars().take(MOST_TEXT + 1).count() <= MOST_TEXT => Ok(Some(text.clone())),
        Some(_) => Err(Refusal::Claims),
    }
}

#[cfg(test)]
mod tests;
