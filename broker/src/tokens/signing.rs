//! Compact JWS (RFC 7515, 3.1), signed with a key that was parsed once.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde::Serialize;

use super::ring::KeyRing;
use crate::config::SigningAlgorithm;

/// What a token is, in its header's `typ`; one kind is never taken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenType {
    /// `at+jwt` (RFC 9068, 2.1).
    Access,
    /// `JWT` (OpenID Connect Core).
    Id,
    /// `logout+jwt` (OpenID Connect Back-Channel Logout 1.0, 2.4).
    Logout,
}

impl TokenType {
    pub(super) const fn typ(self) -> &'static str {
        match self {
            Self::Access => "at+jwt",
            Self::Id => "JWT",
            Self::Logout => "logout+jwt",
        }
    }
}

/// A token could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// There is no key for the algorithm.
    #[error("no {0:?} key is in force: add it to keys.algorithms")]
    NoKey(SigningAlgorithm),
    /// The library refused.
    #[error("the token could not be signed")]
    Sign,
}

impl KeyRing {
    /// Signs claims. `alias` writes the value of `tenant_id` under a second name; the name was proven not to be a registered
    /// one when the configuration was loaded. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// When no key is in force, or the library refuses.
    pub fn sign<T: Serialize>(
        &self,
        typ: TokenType,
        claims: &T,
        alias: Option<(&str, &str)>,
        algorithm: SigningAlgorithm,
        now: i64,
    ) -> Result<String, MintError> {
        let key = self.signing(algorithm, now).ok_or(MintError::NoKey(algorithm))?;
        let alg = match algorithm {
            SigningAlgorithm::Es256 => "ES256",
            SigningAlgorithm::Rs256 => "RS256",
            SigningAlgorithm::EdDsa => "EdDSA",
        };
        let header = format!(r#"{{"typ":"{}","alg":"{alg}","kid":"{}"}}"#, typ.typ(), key.kid);
        let mut payload = serde_json::to_vec(claims).map_err(|_| MintError::Sign)?;
        if let Some((name, value)) = alias {
            payload.pop();
            payload.push(b',');
            serde_json::to_writer(&mut payload, name).map_err(|_| MintError::Sign)?;
            payload.push(b':');
            serde_json::to_writer(&mut payload, value).map_err(|_| MintError::Sign)?;
            payload.push(b'}');
        }
        let mut token = String::with_capacity((header.len() + payload.len()) * 4 / 3 + 352);
        B64.encode_string(header, &mut token);
        token.push('.');
        B64.encode_string(payload, &mut token);
        let signature = key.sign(token.as_bytes()).ok_or(MintError::Sign)?;
        token.push('.');
        B64.encode_string(signature, &mut token);
        Ok(token)
    }
}
