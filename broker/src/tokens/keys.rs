//! One signing key: made, stored, read back, published. Its private half is sealed where the key to seal with is not in the store.

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::KeySize,
    signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, ParsedPublicKey, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use jsonwebtoken::jwk::Jwk;
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::{
    config::SigningAlgorithm,
    sealing::{Sealing, SealingError},
    secret_text::fingerprint,
    store::Kind,
};

/// A key could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The library refused.
    #[error("a {0:?} key could not be made")]
    Generate(SigningAlgorithm),
    /// What is stored is no key.
    #[error("the stored signing key `{0}` can not be read: it is damaged, or of a newer Denizen")]
    Stored(String),
    /// It can not be sealed or opened.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// Another replica has the turn to make keys and does not end it.
    #[error("another replica has been making the first signing keys for {0} seconds: look at its log, and start again")]
    Turn(u64),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

/// A key as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredKey {
    pub(super) algorithm: SigningAlgorithm,
    /// PKCS#8, DER, base64url; where it lies in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pkcs8: Option<Zeroizing<String>>,
    /// The same DER, sealed, and bound to the slot and to everything else that is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
    /// From when it signs, in seconds since 1970.
    pub(super) signs_from: i64,
    /// Until when it signs.
    pub(super) signs_until: i64,
    /// Until when it is published.
    pub(super) published_until: i64,
}

enum KeyPair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

/// A key that signs.
pub(super) struct SigningKey {
    pub(super) kid: String,
    pub(super) algorithm: SigningAlgorithm,
    pair: KeyPair,
    random: SystemRandom,
    pub(super) jwk: Jwk,
    pub(super) verifying: ParsedPublicKey,
    pub(super) signs_from: i64,
    pub(super) signs_until: i64,
}

impl StoredKey {
    /// Makes a key for a slot. RSA keys have 2,048 bits.
    pub(super) fn generate(
        algorithm: SigningAlgorithm,
        [signs_from, signs_until, published_until]: [OffsetDateTime; 3],
        slot: &str,
        sealing: &Sealing,
    ) -> Result<Self, KeyError> {
        let failed = |_| KeyError::Generate(algorithm);
        let der: Zeroizing<Vec<u8>> = Zeroizing::new(match algorithm {
            SigningAlgorithm::Es256 => EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING)
                .and_then(|pair| pair.to_pkcs8v1())
                .map_err(failed)?
                .as_ref()
                .to_vec(),
            SigningAlgorithm::EdDsa => Ed25519KeyPair::generate().and_then(|pair| pair.to_pkcs8()).map_err(failed)?.as_ref().to_vec(),
            SigningAlgorithm::Rs256 => {
                let der: Pkcs8V1Der<'static> = RsaKeyPair::generate(KeySize::Rsa2048).and_then(|pair| pair.as_der()).map_err(failed)?;
                der.as_ref().to_vec()
            }
        });
        let key = Self {
            algorithm,
            pkcs8: None,
            sealed: None,
            signs_from: signs_from.unix_timestamp(),
            signs_until: signs_until.unix_timestamp(),
            published_until: published_until.unix_timestamp(),
        };
        key.with(&der, slot, sealing)
    }

    /// The same key as it is to be stored now.
    fn with(self, der: &[u8], slot: &str, sealing: &Sealing) -> Result<Self, KeyError> {
        if !sealing.lies_outside() {
            return Ok(Self { pkcs8: Some(Zeroizing::new(B64.encode(der))), sealed: None, ..self });
        }
        let sealed = sealing.seal(der, &[Kind::SigningKey.as_str(), slot, &self.said()])?;
        Ok(Self { pkcs8: None, sealed: Some(sealed), ..self })
    }

    /// The same key sealed anew; `None` where it lies as it should.
    pub(super) fn anew(&self, slot: &str, sealing: &Sealing) -> Result<Option<Self>, KeyError> {
        let (der, lies_as_it_should) = self.der(slot, sealing)?;
        if lies_as_it_should {
            return Ok(None);
        }
        let Self { algorithm, signs_from, signs_until, published_until, .. } = *self;
        Self { algorithm, pkcs8: None, sealed: None, signs_from, signs_until, published_until }.with(&der, slot, sealing).map(Some)
    }

    /// Whether it lies in the clear.
    pub(super) const fn is_in_the_clear(&self) -> bool {
        self.pkcs8.is_some()
    }

    /// What the seal is bound to besides the slot.
    fn said(&self) -> String {
        format!("{:?} {} {} {}", self.algorithm, self.signs_from, self.signs_until, self.published_until)
    }

    /// The private half, and whether it lies as it is to be stored now.
    fn der(&self, slot: &str, sealing: &Sealing) -> Result<(Zeroizing<Vec<u8>>, bool), KeyError> {
        let (bad, what) = (|| KeyError::Stored(slot.to_owned()), || format!("the signing key `{slot}`"));
        match (&self.pkcs8, &self.sealed) {
            (Some(clear), None) => {
                sealing.believes_in_the_clear(what)?;
                Ok((Zeroizing::new(B64.decode(clear.as_bytes()).map_err(|_| bad())?), !sealing.lies_outside()))
            }
            (None, Some(sealed)) => {
                let unsealed = sealing.unlock(sealed, &[Kind::SigningKey.as_str(), slot, &self.said()], what)?;
                Ok((unsealed.text, unsealed.is_by_first))
            }
            (Some(_), Some(_)) | (None, None) => Err(bad()),
        }
    }

    /// Reads the key back, and says whether it lies as it is to be stored now. Its `kid` is its RFC 7638 thumbprint, so it names the
    /// key material and nothing else.
    pub(super) fn open(&self, stored_as: &str, sealing: &Sealing) -> Result<(SigningKey, bool), KeyError> {
        let bad = || KeyError::Stored(stored_as.to_owned());
        let (der, lies_as_it_should) = self.der(stored_as, sealing)?;
        let (pair, public, verifying) = match self.algorithm {
            SigningAlgorithm::Es256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, &der).map_err(|_| bad())?;
                // An uncompressed point: 0x04, x, y (SEC 1, 2.3.3).
                let point = pair.public_key().as_ref();
                let (x, y) = (point.get(1..33).ok_or_else(bad)?, point.get(33..65).ok_or_else(bad)?);
                let public = json!({"crv": "P-256", "kty": "EC", "x": B64.encode(x), "y": B64.encode(y)});
                let verifying = ParsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                (KeyPair::Es256(pair), public, verifying)
            }
            SigningAlgorithm::EdDsa => {
                let pair = Ed25519KeyPair::from_pkcs8(&der).map_err(|_| bad())?;
                let public = json!({"crv": "Ed25519", "kty": "OKP", "x": B64.encode(pair.public_key().as_ref())});
                let verifying = ParsedPublicKey::new(&signature::ED25519, pair.public_key());
                (KeyPair::EdDsa(pair), public, verifying)
            }
            SigningAlgorithm::Rs256 => {
                let pair = RsaKeyPair::from_pkcs8(&der).map_err(|_| bad())?;
                let key = pair.public_key();
                let (n, e) = (key.modulus().big_endian_without_leading_zero(), key.exponent().big_endian_without_leading_zero());
                let public = json!({"e": B64.encode(e), "kty": "RSA", "n": B64.encode(n)});
                let verifying = ParsedPublicKey::new(&signature::RSA_PKCS1_2048_8192_SHA256, key);
                (KeyPair::Rs256(pair), public, verifying)
            }
        };
        // RFC 7638, 3: the required members in lexicographic order, no white space; serde_json's map keeps them so.
        let kid = fingerprint(&public.to_string());
        let mut jwk = public;
        if let Some(members) = jwk.as_object_mut() {
            members.insert("kid".to_owned(), json!(kid));
            members.insert("use".to_owned(), json!("sig"));
            members.insert("alg".to_owned(), json!(self.algorithm));
        }
        let jwk: Jwk = serde_json::from_value(jwk).map_err(|_| bad())?;
        let verifying = verifying.map_err(|_| bad())?;
        let key = SigningKey {
            kid,
            algorithm: self.algorithm,
            pair,
            random: SystemRandom::new(),
            jwk,
            verifying,
            signs_from: self.signs_from,
            signs_until: self.signs_until,
        };
        Ok((key, lies_as_it_should))
    }
}

impl SigningKey {
    /// The signature of a message, as JWS wants it (RFC 7518, 3.3 and 3.4; RFC 8037, 3.1).
    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match &self.pair {
            KeyPair::Es256(pair) => Some(pair.sign(&self.random, message).ok()?.as_ref().to_vec()),
            KeyPair::EdDsa(pair) => Some(pair.sign(message).as_ref().to_vec()),
            KeyPair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &self.random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}
