//! Telling a genuine token from a forgery. Results are remembered; what a genuine token says is judged anew each time.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
pub use connectors::UnverifiedToken;
use serde::{Deserialize, de::DeserializeOwned};
use time::OffsetDateTime;

use super::{
    claims::{AccessClaims, IdClaims},
    ring::KeyRing,
    signing::TokenType,
};
use crate::{config::SigningAlgorithm, secret_text::digest, slots::Slots, store::StoreError};

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
    /// It is signed by us, and does not say what an access token says.
    #[error("its claims are not those of an access token")]
    Claims,
    /// Another issuer's.
    #[error("it names another issuer")]
    Issuer,
}

/// A token was not verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unverified {
    /// It is none of ours.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// Its key is unknown here, and the store could not tell whether another replica has made it.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// Genuine tokens only, so that a flood of forgeries pushes nothing out; about 1 KiB each.
    genuine: Slots<Arc<AccessClaims>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// How many genuine tokens are remembered at most.
const REMEMBERED: usize = 16_384;

impl Verifier {
    /// A verifier of this issuer's tokens.
    #[must_use]
    pub fn new(keys: Arc<KeyRing>, issuer: String) -> Self {
        Self { keys, issuer, genuine: Slots::new(REMEMBERED) }
    }

    /// What a genuine access token of ours says: signature, type, algorithm and issuer are right. Its times and everything
    /// that may change are not judged here.
    ///
    /// # Errors
    /// Why it is not one, or that it could not be told.
    pub async fn verify(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Arc<AccessClaims>, Unverified> {
        match self.verify_at_hand(token) {
            Err(Forged::UnknownKey) if self.has_its_key_after_all(token, now).await? => Ok(self.verify_at_hand(token)?),
            outcome => Ok(outcome?),
        }
    }

    async fn has_its_key_after_all(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<bool, StoreError> {
        let header = token.text().split_once('.').and_then(|(header, _)| header_of(header).ok());
        let Some(Header { kid, .. }) = header else { return Ok(false) };
        self.keys.is_there_after_all(&kid, now).await
    }

    /// The same with the keys at hand.
    fn verify_at_hand(&self, token: UnverifiedToken<'_>) -> Result<Arc<AccessClaims>, Forged> {
        let text = token.text();
        if text.len() > UnverifiedToken::MAX_BYTES {
            return Err(Forged::Malformed);
        }
        let fingerprint = digest(text.as_bytes());
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

    /// What a genuine ID token of ours says, whatever its times: a hint (OpenID Connect Core, 3.1.2.1). `None` where it is none of ours.
    ///
    /// # Errors
    /// When it could not be told.
    pub async fn id_token(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Option<IdClaims>, StoreError> {
        if token.text().len() > UnverifiedToken::MAX_BYTES {
            return Ok(None);
        }
        let verify = || self.verify_signature::<IdClaims>(token.text(), TokenType::Id);
        let claims = match verify() {
            Err(Forged::UnknownKey) if self.has_its_key_after_all(token, now).await? => verify().ok(),
            outcome => outcome.ok(),
        };
        Ok(claims.filter(|claims| claims.iss == self.issuer))
    }

    /// The claims of a compact JWS (RFC 7515, 5.2) of ours of this type. The key's own algorithm verifies: the header's must
    /// agree with it, and chooses nothing.
    fn verify_signature<T: DeserializeOwned>(&self, text: &str, typ: TokenType) -> Result<T, Forged> {
        let (signed, signature) = text.rsplit_once('.').ok_or(Forged::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Forged::Malformed)?;
        let header = header_of(header)?;
        if header.typ != typ.typ() {
            return Err(Forged::Type);
        }
        let key = self.keys.verifying(&header.kid).ok_or(Forged::UnknownKey)?;
        if key.algorithm != header.alg {
            return Err(Forged::Algorithm);
        }
        key.verifying.verify_sig(signed.as_bytes(), &decoded(signature)?).map_err(|_| Forged::Signature)?;
        serde_json::from_slice(&decoded(payload)?).map_err(|_| Forged::Claims)
    }
}

fn header_of(part: &str) -> Result<Header, Forged> {
    serde_json::from_slice(&decoded(part)?).map_err(|_| Forged::Header)
}

fn decoded(part: &str) -> Result<Vec<u8>, Forged> {
    B64.decode(part).map_err(|_| Forged::Malformed)
}
