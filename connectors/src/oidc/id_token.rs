//! What must hold of an ID token that a token endpoint gave (OpenID Connect Core, 3.1.3.7 and 12.2), over the crate's verifier.
//!
//! The crate takes any algorithm that a provider offers, reads the system's clock, and leaves `azp`, `nbf` and `at_hash` to its caller:
//! all of that is settled here. Where keys come from is not.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::{
    AccessToken, AccessTokenHash, ClaimsVerificationError, ClientId, IssuerUrl, Nonce, SignatureVerificationError,
    core::{CoreIdToken, CoreIdTokenVerifier, CoreJsonWebKeySet, CoreJwsSigningAlgorithm},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::{
    issuer::Issuer,
    jws::seconds,
    keys::{Algorithm, KeySet},
};
use crate::{ConnectorError, Secret};

/// How far a provider's clock may be ahead of ours, in seconds. It is not granted to `exp`.
pub(super) const LEEWAY: i64 = 60;

/// What an ID token is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a Issuer,
    pub(super) client_id: &'a str,
    /// The only signatures that are taken, whatever the provider and the token say.
    pub(super) algorithms: &'a [Algorithm],
    /// That of the handshake; `None` where the token answers no request of a browser.
    pub(super) nonce: Option<&'a str>,
    /// The access token that came with it.
    pub(super) access_token: &'a Secret,
    pub(super) now: OffsetDateTime,
}

/// An ID token as it came.
pub(super) struct Unverified<'a> {
    token: &'a CoreIdToken,
    /// The key that it names.
    pub(super) kid: Option<String>,
    /// What it says.
    pub(super) claims: Map<String, Value>,
}

/// What a genuine ID token says.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) claims: Map<String, Value>,
    pub(super) sub: String,
    /// In seconds since 1970.
    pub(super) auth_time: Option<i64>,
}

/// Why an ID token is not taken. It quotes nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum IdTokenFault {
    #[error("it is broken")]
    Broken,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for another client, or for others besides and not issued to this one (`aud`, `azp`)")]
    Audience,
    #[error("it is not signed, or by an algorithm that `signingAlgorithms` does not have")]
    Algorithm,
    #[error("none of the provider's keys fits it")]
    Key,
    #[error("it names no key, and the provider has several")]
    AmbiguousKey,
    #[error("its signature does not hold")]
    Signature,
    #[error("it has expired, or was issued in the future; compare the clocks")]
    Time,
    #[error("its nonce is not that of this sign-in")]
    Nonce,
    #[error("it belongs to another access token (`at_hash`)")]
    AccessToken,
    #[error("its header has `crit`, `cty` or a `typ` that an ID token does not have")]
    Header,
}

impl From<IdTokenFault> for ConnectorError {
    fn from(fault: IdTokenFault) -> Self {
        Self::Unusable(format!("oidc: the ID token is not taken: {fault}"))
    }
}

impl From<ClaimsVerificationError> for IdTokenFault {
    fn from(error: ClaimsVerificationError) -> Self {
        match error {
            ClaimsVerificationError::Expired(_) => Self::Time,
            ClaimsVerificationError::InvalidAudience(_) => Self::Audience,
            ClaimsVerificationError::InvalidIssuer(_) => Self::Issuer,
            ClaimsVerificationError::InvalidNonce(_) => Self::Nonce,
            ClaimsVerificationError::Unsupported(_) => Self::Header,
            ClaimsVerificationError::SignatureVerification(error) => error.into(),
            _ => Self::Broken,
        }
    }
}

impl From<SignatureVerificationError> for IdTokenFault {
    fn from(error: SignatureVerificationError) -> Self {
        match error {
            SignatureVerificationError::AmbiguousKeyId(_) => Self::AmbiguousKey,
            SignatureVerificationError::DisallowedAlg(_)
            | SignatureVerificationError::NoSignature
            | SignatureVerificationError::UnsupportedAlg(_) => Self::Algorithm,
            SignatureVerificationError::NoMatchingKey | SignatureVerificationError::InvalidKey(_) => Self::Key,
            _ => Self::Signature,
        }
    }
}

impl<'a> Unverified<'a> {
    /// Reads a token, and believes nothing of it.
    ///
    /// # Errors
    /// When it is no JSON.
    pub(super) fn read(token: &'a CoreIdToken) -> Result<Self, IdTokenFault> {
        #[derive(Deserialize)]
        struct Header {
            kid: Option<String>,
        }
        let text = token.to_string();
        let mut parts = text.split('.').map(|part| B64.decode(part).map_err(|_| IdTokenFault::Broken));
        let mut part = || parts.next().unwrap_or(Err(IdTokenFault::Broken));
        let (header, claims) = (part()?, part()?);
        let Header { kid } = serde_json::from_slice(&header).map_err(|_| IdTokenFault::Broken)?;
        let claims = serde_json::from_slice(&claims).map_err(|_| IdTokenFault::Broken)?;
        Ok(Self { token, kid, claims })
    }

    /// Holds the token against the keys of its issuer and what is expected of it.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub(super) fn verify(&self, keys: &KeySet, expected: Expected<'_>) -> Result<Verified, IdTokenFault> {
        let now: DateTime<Utc> = DateTime::from_timestamp(expected.now.unix_timestamp(), 0).ok_or(IdTokenFault::Time)?;
        let latest = now + TimeDelta::seconds(LEEWAY);
        let iss = self.issuer(expected.issuer)?;
        let keys: CoreJsonWebKeySet =
            serde_json::from_value(keys.json_for(iss, expected.issuer.tenant_of(iss))).map_err(|_| IdTokenFault::Key)?;
        let issuer = IssuerUrl::new(iss.to_owned()).map_err(|_| IdTokenFault::Issuer)?;
        let issued_to = self.claims.get("azp").map(Value::as_str);
        if issued_to.is_some_and(|azp| azp != Some(expected.client_id)) {
            return Err(IdTokenFault::Audience);
        }
        // Further audiences are for the provider to give, where it says that the token was issued to this client.
        let is_ours = issued_to.is_some();
        let verifier = CoreIdTokenVerifier::new_public_client(ClientId::new(expected.client_id.to_owned()), issuer, keys)
            .set_allowed_algs(expected.algorithms.iter().copied().map(known))
            .set_other_audience_verifier_fn(move |_| is_ours)
            .set_time_fn(move || now)
            .set_issue_time_verifier_fn(move |issued| if issued > latest { Err(String::new()) } else { Ok(()) });
        let claims = match expected.nonce {
            Some(nonce) => self.token.claims(&verifier, &Nonce::new(nonce.to_owned())),
            None => self.token.claims(&verifier, |_: Option<&Nonce>| Ok(())),
        }?;
        if seconds(&self.claims, "nbf").map_err(|_| IdTokenFault::Broken)?.is_some_and(|from| from > latest.timestamp()) {
            return Err(IdTokenFault::Time);
        }
        if let Some(hash) = claims.access_token_hash() {
            let (algorithm, key) = (self.token.signing_alg()?, self.token.signing_key(&verifier)?);
            let access_token = AccessToken::new(expected.access_token.expose().to_owned());
            if AccessTokenHash::from_token(&access_token, algorithm, key).map_err(|_| IdTokenFault::AccessToken)? != *hash {
                return Err(IdTokenFault::AccessToken);
            }
        }
        let (sub, auth_time) = (claims.subject().as_str().to_owned(), claims.auth_time().map(|at| at.timestamp()));
        // The crate and this file have each read the payload; a name that stands there twice must not be two values.
        if self.claims.get("sub").and_then(Value::as_str) != Some(&sub) || sub.is_empty() {
            return Err(IdTokenFault::Broken);
        }
        Ok(Verified { claims: self.claims.clone(), sub, auth_time })
    }

    /// The `iss` that the token names, where that is one of the provider's. With a templated issuer its `tid` is the one that the `iss`
    /// stands for.
    fn issuer(&self, expected: &Issuer) -> Result<&str, IdTokenFault> {
        let text = |name| self.claims.get(name).and_then(Value::as_str);
        let iss = text("iss").filter(|iss| expected.accepts(iss)).ok_or(IdTokenFault::Issuer)?;
        match expected.tenant_of(iss) {
            Some(tenant) if text("tid") != Some(tenant) => Err(IdTokenFault::Issuer),
            _ => Ok(iss),
        }
    }
}

/// The crate's name of an algorithm.
const fn known(algorithm: Algorithm) -> CoreJwsSigningAlgorithm {
    match algorithm {
        Algorithm::Rs256 => CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
        Algorithm::Rs384 => CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
        Algorithm::Rs512 => CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
        Algorithm::Ps256 => CoreJwsSigningAlgorithm::RsaSsaPssSha256,
        Algorithm::Ps384 => CoreJwsSigningAlgorithm::RsaSsaPssSha384,
        Algorithm::Ps512 => CoreJwsSigningAlgorithm::RsaSsaPssSha512,
        Algorithm::Es256 => CoreJwsSigningAlgorithm::EcdsaP256Sha256,
        Algorithm::Es384 => CoreJwsSigningAlgorithm::EcdsaP384Sha384,
        Algorithm::EdDsa => CoreJwsSigningAlgorithm::EdDsa,
    }
}

#[cfg(test)]
mod tests;
