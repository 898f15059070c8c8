//! Sign-in at a provider's pages: where the browser goes, and what its answer proves.
//!
//! This file owns the order of the checks; `oidc/client.rs` what is asked of the token endpoint, `oidc/id_token.rs` what must hold of an ID
//! token, `oidc/userinfo.rs` what userinfo adds, `oidc/renewal.rs` how someone is asked about again. Nothing here follows the browser's word:
//! all that it brings is held against the handshake or comes from the token endpoint.

use std::sync::Arc;

use async_trait::async_trait;
use claims_mapping::{Claims, ConnectorId, Subject, UpstreamUser};
use openidconnect::core::CoreIdToken;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use url::Url;

use super::{
    client::{self, Client, Grant, Tokens, unusable},
    discovery::{Metadata, Provider},
    id_token::{Expected, IdTokenFault, LEEWAY, Unverified, Verified},
    token::{subject, warn_of_distributed_claims},
    userinfo::{self, Need},
};
use crate::{Callback, ConnectorError, Handshake, Proven, RedirectLogin, Renewal, Renewed, Secret, UpstreamSession, Wish};

/// The longest code that is sent on, in bytes.
const MOST_CODE: usize = 8 * 1024;

/// The port.
pub(super) struct SignIn {
    pub(super) id: ConnectorId,
    pub(super) provider: Arc<Provider>,
    pub(super) client: Client,
    pub(super) need: Need,
    pub(super) believed_seconds: u64,
}

#[async_trait]
impl RedirectLogin for SignIn {
    async fn begin(&self, handshake: &Handshake, wish: &Wish, now: OffsetDateTime) -> Result<Url, ConnectorError> {
        let metadata = self.provider.metadata(now).await?;
        self.client.authorize(metadata.authorization_endpoint()?, handshake, wish)
    }

    async fn finish(
        &self,
        handshake: &Handshake,
        wish: &Wish,
        callback: &Callback,
        now: OffsetDateTime,
    ) -> Result<Option<Proven>, ConnectorError> {
        let metadata = self.provider.metadata(now).await?;
        check_answerer(callback.iss.as_deref(), metadata.sends_iss, |iss| self.provider.issuer().accepts(iss))?;
        if let Some(error) = &callback.error {
            return declined(error).map(|()| None);
        }
        let code = callback.code.as_deref().filter(|code| !code.is_empty() && code.len() <= MOST_CODE);
        let code = code.ok_or_else(|| unusable("the browser came back with neither a code nor an error"))?;
        let grant = Grant::Code { code, verifier: &handshake.code_verifier };
        let client::Answer::Tokens(tokens) = self.tokens(&metadata, grant, now).await? else {
            return Err(unusable("the token endpoint does not take the code: it was used before, has expired, or is another client's"));
        };
        let id_token = tokens.id_token.as_ref().ok_or_else(|| unusable("the token endpoint gave no ID token"))?;
        let verified = self.verified(id_token, &tokens.access_token, Some(&handshake.nonce), now).await?;
        if callback.iss.as_deref().is_some_and(|iss| verified.claims.get("iss").and_then(Value::as_str) != Some(iss)) {
            return Err(unusable("the browser came back from another issuer than the ID token's (RFC 9207)"));
        }
        check_auth_time(verified.auth_time, wish, handshake.begun_at, now)?;
        let (auth_time, sid) = (verified.auth_time, text(&verified.claims, "sid"));
        let subject = self.subject(&verified.claims)?;
        let claims = match self.gathered(&metadata, verified, &tokens).await? {
            Gathered::Claims(claims) => claims,
            Gathered::NotGiven => return Err(unusable("userinfo does not take the access token that the token endpoint gave just now")),
        };
        let user = UpstreamUser { subject, claims };
        Ok(Some(Proven { user, auth_time, session: UpstreamSession { sid, refresh_token: tokens.refresh_token } }))
    }
}

#[async_trait]
impl Renewal for SignIn {
    async fn renew(&self, subject: &Subject, refresh_token: &Secret, now: OffsetDateTime) -> Result<Option<Renewed>, ConnectorError> {
        self.renewed(subject, refresh_token, now).await
    }

    fn believed_seconds(&self) -> u64 {
        self.believed_seconds
    }
}

/// What an ID token and userinfo say together.
pub(super) enum Gathered {
    Claims(Claims),
    /// Userinfo does not take the access token.
    NotGiven,
}

impl SignIn {
    /// Asks the token endpoint, once.
    pub(super) async fn tokens(
        &self,
        metadata: &Metadata,
        grant: Grant<'_>,
        now: OffsetDateTime,
    ) -> Result<client::Answer, ConnectorError> {
        self.client.tokens(metadata.token_endpoint()?, grant, now, self.provider.http()).await
    }

    /// Verifies an ID token with the provider's keys, which are fetched again where they do not have the one that it names.
    pub(super) async fn verified(
        &self,
        token: &CoreIdToken,
        access_token: &Secret,
        nonce: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<Verified, ConnectorError> {
        let token = Unverified::read(token)?;
        let (issuer, algorithms, client_id) = (self.provider.issuer(), self.provider.algorithms(), self.client.id());
        let expected = Expected { issuer, client_id, algorithms, nonce, access_token, now };
        let keys = self.provider.keys(token.kid.as_deref(), now).await?;
        match token.verify(&keys, expected) {
            // Where no key is named, the one that is meant may be newer than those that are here.
            Err(IdTokenFault::Key | IdTokenFault::Signature) if token.kid.is_none() => {
                let keys = self.provider.keys_anew(now).await?;
                Ok(token.verify(&keys, expected)?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Who someone is whose verified claims these are.
    pub(super) fn subject(&self, claims: &Map<String, Value>) -> Result<Subject, ConnectorError> {
        subject(self.provider.issuer(), claims).ok_or_else(|| unusable("the ID token's `sub` (or `tid`) can not be a subject"))
    }

    /// What the ID token says, with what userinfo adds where it is asked.
    pub(super) async fn gathered(&self, metadata: &Metadata, verified: Verified, tokens: &Tokens) -> Result<Gathered, ConnectorError> {
        let Verified { mut claims, sub, .. } = verified;
        if self.need.beside(&claims) {
            match metadata.userinfo_endpoint()? {
                Some(endpoint) => match self.userinfo(endpoint, &tokens.access_token).await? {
                    userinfo::Answer::Claims(more) => userinfo::add(&mut claims, userinfo::about(more, &sub)?),
                    userinfo::Answer::No => return Ok(Gathered::NotGiven),
                },
                None if self.need.is_strict() => return Err(unusable("`userInfo: always`, and the provider's metadata names no userinfo")),
                None => {}
            }
        }
        self.claims(claims).map(Gathered::Claims)
    }

    pub(super) async fn userinfo(&self, endpoint: &Url, access_token: &Secret) -> Result<userinfo::Answer, ConnectorError> {
        userinfo::read(&self.provider.http().send(userinfo::request(endpoint, access_token)?).await?)
    }

    /// The claims as they are handed on: without the sources of those that are kept elsewhere (OpenID Connect Core, 5.6.2).
    pub(super) fn claims(&self, mut claims: Map<String, Value>) -> Result<Claims, ConnectorError> {
        claims.remove("_claim_sources");
        let claims = Claims::new(Value::Object(claims)).map_err(|fault| unusable(&fault.to_string()))?;
        warn_of_distributed_claims(&self.id, &claims);
        Ok(claims)
    }
}

fn text(claims: &Map<String, Value>, name: &str) -> Option<String> {
    claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Whether the browser comes from this provider (RFC 9207, 2.4), be it with a code or an error.
fn check_answerer(iss: Option<&str>, names_itself: bool, of_us: impl Fn(&str) -> bool) -> Result<(), ConnectorError> {
    match iss {
        Some(iss) if of_us(iss) => Ok(()),
        Some(_) => Err(unusable("the browser came back from another issuer (RFC 9207)")),
        None if names_itself => Err(unusable("the browser came back without `iss`, which this provider always sends (RFC 9207)")),
        None => Ok(()),
    }
}

/// What an error that the browser brought means: `Ok` where the person declined or may not. Only a registered code is told again.
fn declined(error: &str) -> Result<(), ConnectorError> {
    match error {
        "access_denied" | "login_required" | "interaction_required" | "account_selection_required" | "consent_required" => Ok(()),
        "temporarily_unavailable" | "server_error" => Err(ConnectorError::Unavailable(format!("oidc: the provider says `{error}`"))),
        "invalid_request"
        | "invalid_scope"
        | "invalid_target"
        | "invalid_request_object"
        | "invalid_request_uri"
        | "registration_not_supported"
        | "request_not_supported"
        | "request_uri_not_supported"
        | "unauthorized_client"
        | "unmet_authentication_requirements"
        | "unsupported_response_type" => Err(ConnectorError::Refused(format!(
            "oidc: the provider says `{error}`: check the client's registration there, and what it asks for"
        ))),
        _ => Err(unusable("the browser came back with an error that is not registered")),
    }
}

/// Whether the person proved who they are as lately as was asked. It is held against the time at which the browser left, as the provider
/// held it.
fn check_auth_time(auth_time: Option<i64>, wish: &Wish, begun_at: i64, now: OffsetDateTime) -> Result<(), ConnectorError> {
    let earliest = begun_at.saturating_sub(LEEWAY);
    match (auth_time, wish.max_age) {
        (Some(at), _) if at > now.unix_timestamp().saturating_add(LEEWAY) => {
            Err(unusable("the ID token's `auth_time` is in the future; compare the clocks"))
        }
        (Some(at), _) if wish.anew && at < earliest => Err(unusable("the provider did not ask the person anew (`auth_time`)")),
        (Some(at), Some(most)) if at < earliest.saturating_sub(most.into()) => {
            Err(unusable("the person proved who they are longer ago than was asked for (`auth_time`)"))
        }
        (None, Some(_)) => {
            Err(unusable("the ID token does not say when the person proved who they are (`auth_time`), which `max_age` asks for"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
