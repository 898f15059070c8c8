//! Telling a genuine token from a forgery. Results are remembered; what a genuine token says is judged anew each time.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use jsonwebtoken::{Algorithm, Validation};
use moka::sync::Cache;
use serde::{Deserialize, de::DeserializeOwned};
use uuid::Uuid;

use super::{
    claims::{AccessClaims, IdClaims},
    ring::KeyRing,
    signing::TokenType,
};
use crate::config::SigningAlgorithm;

/// A token as someone sent it. It prints its length only.
#[derive(Clone, Copy)]
pub struct UnverifiedToken<'a>(&'a str);

impl<'a> UnverifiedToken<'a> {
    /// The longest token that is looked at, in bytes.
    pub const MAX_BYTES: usize = 32 * 1024;

    /// Takes a token.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self(text)
    }
}

impl fmt::Debug for UnverifiedToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnverifiedToken({} bytes)", self.0.len())
    }
}

/// The token is not one of ours. The reason is for the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forged {
    /// It is no compact JWS, or too long.
    #[error("it is not a JWT of ours")]
    Malformed,
    /// The header has a member that our tokens do not have (`crit`, `jwk`, `jku`, `x5u`, …), or lacks one.
    #[error("its header is not one of ours")]
    Header,
    /// It is another kind of token than the one that is asked for.
    #[error("it is not an access token")]
    Type,
    /// No key of ours has its `kid`.
    #[error("its key is unknown")]
    UnknownKey,
    /// The algorithm is not the key's.
    #[error("its algorithm is not that of its key")]
    Algorithm,
    /// The signature, or what was signed, is not ours.
    #[error("its signature is not valid")]
    Signature,
    /// Another issuer's.
    #[error("it names another issuer")]
    Issuer,
}

/// The three members that our headers have, and no other: an unknown one is refused, not ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    typ: String,
    alg: SigningAlgorithm,
    kid: String,
}

/// Verifies access tokens of ours.
pub struct Verifier {
    keys: Arc<KeyRing>,
    issuer: String,
    genuine: Cache<[u8; 32], Arc<AccessClaims>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier of this issuer's tokens.
    #[must_use]
    pub fn new(keys: Arc<KeyRing>, issuer: String) -> Self {
        // Genuine tokens only, so that a flood of forgeries pushes nothing out; about 1 KiB each.
        Self { keys, issuer, genuine: Cache::new(10_000) }
    }

    /// What a genuine access token of ours says: signature, type, algorithm and issuer are right. Its times and everything
    /// that may change are not judged here.
    ///
    /// # Errors
    /// Why it is not one.
    pub fn verify(&self, token: UnverifiedToken<'_>) -> Result<Arc<AccessClaims>, Forged> {
        let text = token.0;
        if text.len() > UnverifiedToken::MAX_BYTES {
            return Err(Forged::Malformed);
        }
        let mut fingerprint = [0; 32];
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        fingerprint.copy_from_slice(digest.as_ref());
        if let Some(claims) = self.genuine.get(&fingerprint) {
            return Ok(claims);
        }
        let claims: Arc<AccessClaims> = Arc::new(self.verify_signature(text, TokenType::Access)?);
        if claims.iss != self.issuer {
            return Err(Forged::Issuer);
        }
        self.genuine.insert(fingerprint, Arc::clone(&claims));
        Ok(claims)
    }

    /// The subject of a genuine ID token of ours, whatever its times: a hint (OpenID Connect Core, 3.1.2.1).
    #[must_use]
    pub fn id_token_subject(&self, token: UnverifiedToken<'_>) -> Option<Uuid> {
        let text = Some(token.0).filter(|text| text.len() <= UnverifiedToken::MAX_BYTES)?;
        let claims: IdClaims = self.verify_signature(text, TokenType::Id).ok()?;
        (claims.iss == self.issuer).then_some(claims.sub)
    }

    fn verify_signature<T: DeserializeOwned + Clone>(&self, text: &str, typ: TokenType) -> Result<T, Forged> {
        let (header, _) = text.split_once('.').ok_or(Forged::Malformed)?;
        let header = B64.decode(header).map_err(|_| Forged::Malformed)?;
        let header: Header = serde_json::from_slice(&header).map_err(|_| Forged::Header)?;
        if header.typ != typ.typ() {
            return Err(Forged::Type);
        }
        let verified = self.keys.with_verifying(&header.kid, |key, algorithm| {
            if algorithm != header.alg {
                return Err(Forged::Algorithm);
            }
            jsonwebtoken::decode::<T>(text, key, &signature_only(algorithm)).map_err(|_| Forged::Signature)
        });
        Ok(verified.ok_or(Forged::UnknownKey)??.claims)
    }
}

/// The library judges the signature alone: its clock is not ours, and its defaults take a future `nbf`.
fn signature_only(algorithm: SigningAlgorithm) -> Validation {
    let mut validation = Validation::new(match algorithm {
        SigningAlgorithm::Es256 => Algorithm::ES256,
        SigningAlgorithm::Rs256 => Algorithm::RS256,
        SigningAlgorithm::EdDsa => Algorithm::EdDSA,
    });
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}
