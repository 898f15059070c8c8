//! A provider's own tokens, shown to us by someone else: whose they are, if they are genuine, in time, and for us.

use std::sync::Arc;

use async_trait::async_trait;
use claims_mapping::{Claims, ConnectorId, Subject, UpstreamUser};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::{
    config::OidcConfig,
    discovery::Provider,
    issuer::Issuer,
    jws::{Expected, Refusal, UnverifiedJws, audiences, in_time},
    keys::{Algorithm, KeySet},
    logout::is_logout_token,
    plan,
};
use crate::{Audiences, ConnectorError, TokenAuthentication, UnverifiedToken, Verdict, VerifiedToken};

/// What is taken besides tokens without a type: ID tokens, and access tokens (RFC 9068). Never a logout token.
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

/// Verifies the tokens of one provider, without I/O.
#[derive(Debug)]
pub struct TokenVerifier {
    issuer: Issuer,
    algorithms: Vec<Algorithm>,
    audiences: Vec<String>,
}

/// What a genuine token says. There may be no `sub` in it.
#[derive(Debug, Clone)]
pub struct VerifiedClaims {
    /// All claims, without the sources of distributed ones (OpenID Connect Core, 5.6.2), which may hold credentials.
    pub claims: Claims,
    /// Those of its audiences that the configuration names.
    pub audiences: Vec<String>,
    /// Until when, in seconds since 1970.
    pub expires_at: i64,
}

impl TokenVerifier {
    /// The verifier of a connector with this configuration.
    ///
    /// # Errors
    /// Every fault, as (path relative to the connector's entry, message).
    pub fn new(config: &OidcConfig) -> Result<Self, Vec<(String, String)>> {
        plan::Plan::new(config).map(|plan| Self::of(&plan))
    }

    pub(super) fn of(plan: &plan::Plan) -> Self {
        Self { issuer: plan.issuer.clone(), algorithms: plan.algorithms.clone(), audiences: plan.audiences.clone() }
    }

    /// Whether a token says that it is this provider's. Proves nothing.
    #[must_use]
    pub fn claims_to_be_ours(&self, token: UnverifiedToken<'_>) -> bool {
        token.unverified_issuer().is_some_and(|iss| self.issuer.accepts(&iss))
    }

    /// The provider's keys as this verifier can use them.
    ///
    /// # Errors
    /// When they are no JSON Web Key Set, or too many.
    pub fn keys(&self, json: &[u8]) -> Result<KeySet, String> {
        KeySet::parse(json, &self.algorithms)
    }

    /// What a genuine token says: the signature is of one of the keys, by an algorithm that is taken; issuer, audience and times
    /// are right.
    ///
    /// # Errors
    /// Why it is not taken. Only [`Refusal::UnknownKey`] may be different with newer keys.
    pub fn verify(&self, token: UnverifiedToken<'_>, keys: &KeySet, now: OffsetDateTime) -> Result<VerifiedClaims, Refusal> {
        let jws = UnverifiedJws::parse(token)?;
        // What is not for us, or over, is refused before any key is asked for.
        let expires_at = in_time(jws.unverified_claims(), now)?;
        let given = audiences(jws.unverified_claims());
        let audiences: Vec<_> = self.audiences.iter().filter(|audience| given.contains(&audience.as_str())).cloned().collect();
        if audiences.is_empty() {
            return Err(Refusal::Audience);
        }
        let expected = Expected { issuer: &self.issuer, algorithms: &self.algorithms, types: &TYPES };
        let mut claims = jws.verify(&expected, keys)?;
        // With a template the token itself must say of which tenant it is.
        if self.issuer.is_template() && !claims.get("tid").is_some_and(Value::is_string) {
            return Err(Refusal::Issuer);
        }
        if is_logout_token(&claims) {
            return Err(Refusal::Type);
        }
        claims.remove("_claim_sources");
        let claims = Claims::new(Value::Object(claims)).map_err(|_| Refusal::Claims)?;
        Ok(VerifiedClaims { claims, audiences, expires_at })
    }

    /// Who the claims are about.
    pub(super) fn subject(&self, claims: &Map<String, Value>) -> Option<Subject> {
        subject(&self.issuer, claims)
    }
}

/// Who the claims are about: `sub`, which with a templated issuer is unique in the provider's tenant only, so `<tid>/<sub>`.
pub(super) fn subject(issuer: &Issuer, claims: &Map<String, Value>) -> Option<Subject> {
    let text = |name| claims.get(name).and_then(Value::as_str);
    let sub = text("sub").filter(|sub| !sub.is_empty())?;
    match issuer.tenant_of(text("iss")?) {
        Some(tenant) => Subject::parse(&format!("{tenant}/{sub}")).ok(),
        None => Subject::parse(sub).ok(),
    }
}

/// Says which claims the provider keeps elsewhere (OpenID Connect Core, 5.6.2): they are left out.
pub(super) fn warn_of_distributed_claims(id: &ConnectorId, claims: &Claims) {
    let Some(Value::Object(names)) = claims.get("_claim_names") else { return };
    for name in names.keys().take(8) {
        let name: String = name.chars().take(64).collect();
        tracing::warn!(connector.id = %id, claim = ?name, "the provider keeps this claim elsewhere, and it is left out: have it put into the token");
    }
}

/// The port.
pub(super) struct UpstreamTokens {
    pub(super) id: ConnectorId,
    pub(super) provider: Arc<Provider>,
    pub(super) verifier: TokenVerifier,
}

#[async_trait]
impl TokenAuthentication for UpstreamTokens {
    fn claims_to_be_ours(&self, token: UnverifiedToken<'_>) -> bool {
        self.verifier.claims_to_be_ours(token)
    }

    async fn authenticate(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Verdict, ConnectorError> {
        let verified = with_keys(&self.provider, now, |keys| self.verifier.verify(token, keys, now)).await?;
        let VerifiedClaims { claims, audiences, expires_at } = match verified {
            Ok(verified) => verified,
            Err(refusal) => return Ok(Verdict::Refused(refusal.to_string())),
        };
        let Some(subject) = self.verifier.subject(claims.as_map()) else {
            return Ok(Verdict::Refused("it has no `sub` that can be one".to_owned()));
        };
        warn_of_distributed_claims(&self.id, &claims);
        let audiences = Audiences::Named(audiences);
        Ok(Verdict::Genuine(VerifiedToken { user: UpstreamUser { subject, claims }, audiences, expires_at }))
    }
}

/// Verifies with the keys that are here, and, where one is missing, with newer ones. What is refused whatever the keys is refused
/// while the provider is down, too.
pub(super) async fn with_keys<T>(
    provider: &Provider,
    now: OffsetDateTime,
    verify: impl Fn(&KeySet) -> Result<T, Refusal>,
) -> Result<Result<T, Refusal>, ConnectorError> {
    let unknown = match provider.keys(None, now).await {
        Ok(keys) => match verify(&keys) {
            Err(Refusal::UnknownKey) => provider.keys_anew(now).await,
            outcome => return Ok(outcome),
        },
        Err(error) => Err(error),
    };
    match unknown {
        Ok(keys) => Ok(verify(&keys)),
        Err(error) => match verify(&KeySet::default()) {
            Err(refusal) if refusal != Refusal::UnknownKey => Ok(Err(refusal)),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests;
