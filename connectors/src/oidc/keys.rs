//! A provider's keys: a JSON Web Key Set (RFC 7517), each key parsed once for the algorithms that it may verify.
//!
//! A key that is not for signatures, of an unknown kind, or malformed is left out; it does not spoil the others.

use std::{collections::BTreeSet, fmt};

use aws_lc_rs::{
    encoding::AsDer as _,
    rsa::PublicKeyComponents,
    signature::{self, ParsedPublicKey, VerificationAlgorithm},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde::Deserialize;
use serde_json::{Value, json};

use super::issuer::PLACEHOLDER;

/// A signature algorithm (RFC 7518, 3.1, and RFC 8037); none with a shared secret, and not `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "RFC 7518 has their names")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub(super) const ALL: [Self; 9] =
        [Self::Rs256, Self::Rs384, Self::Rs512, Self::Ps256, Self::Ps384, Self::Ps512, Self::Es256, Self::Es384, Self::EdDsa];

    /// Its name in a header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::EdDsa => &signature::ED25519,
        }
    }
}

/// The least and the largest RSA modulus, in bytes (RFC 7518, 3.3): what verifies may take others.
const LEAST_MODULUS: usize = 256;
const MOST_MODULUS: usize = 1_024;

/// One key as it stands in a set. What a header of a token says of keys is never read.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    /// For whose tokens, where a set serves several issuers: Microsoft's member.
    issuer: Option<String>,
}

struct Key {
    /// As it stands in the set.
    json: Value,
    kid: Option<String>,
    issuer: Option<String>,
    verifying: Vec<(Algorithm, ParsedPublicKey)>,
}

impl Key {
    /// `None` where it verifies nothing that is asked for.
    fn parse(value: &Value, algorithms: &BTreeSet<Algorithm>) -> Option<Self> {
        let jwk = Jwk::deserialize(value).ok()?;
        let verifies = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !verifies {
            return None;
        }
        let (bytes, fitting) = jwk.material()?;
        let own = |algorithm: &Algorithm| jwk.alg.as_deref().is_none_or(|alg| alg == algorithm.name());
        let verifying: Vec<_> = fitting
            .iter()
            .filter(|algorithm| algorithms.contains(algorithm) && own(algorithm))
            .filter_map(|algorithm| Some((*algorithm, ParsedPublicKey::new(algorithm.verification(), &bytes).ok()?)))
            .collect();
        if verifying.is_empty() { None } else { Some(Self { json: value.clone(), kid: jwk.kid, issuer: jwk.issuer, verifying }) }
    }

    fn serves(&self, iss: &str, tenant: Option<&str>) -> bool {
        match (&self.issuer, tenant) {
            (Some(issuer), Some(tenant)) => issuer.replace(PLACEHOLDER, tenant) == iss,
            // A provider of one tenant may show the set that all of them share.
            (Some(issuer), None) => issuer.contains(PLACEHOLDER) || issuer == iss,
            (None, _) => true,
        }
    }
}

impl Jwk {
    /// The public key, and the algorithms of its kind.
    fn material(&self) -> Option<(Vec<u8>, &'static [Algorithm])> {
        let decoded = |part: &Option<String>| B64.decode(part.as_deref()?).ok();
        let point = |length: usize| {
            let (x, y) = (decoded(&self.x)?, decoded(&self.y)?);
            // Uncompressed (SEC 1, 2.3.3).
            (x.len() == length && y.len() == length).then(|| [vec![4], x, y].concat())
        };
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", None) => {
                let number = |part| Some(decoded(part)?.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<_>>());
                let n = number(&self.n).filter(|n| LEAST_MODULUS <= n.len() && n.len() <= MOST_MODULUS)?;
                let components = PublicKeyComponents { n, e: number(&self.e)? };
                Some((components.as_der().ok()?.as_ref().to_vec(), Algorithm::ALL.get(..6)?))
            }
            ("EC", Some("P-256")) => Some((point(32)?, &[Algorithm::Es256])),
            ("EC", Some("P-384")) => Some((point(48)?, &[Algorithm::Es384])),
            ("OKP", Some("Ed25519")) => Some((decoded(&self.x)?, &[Algorithm::EdDsa])),
            _ => None,
        }
    }
}

/// Why no key verifies a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unverified {
    /// No key is named so, or, where none is named, none fits: a newer set may have it.
    UnknownKey,
    /// The key is there, and is not for this algorithm.
    Algorithm,
    /// The key says no.
    Signature,
}

/// The keys of one provider that verify signatures.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.kid)).finish()
    }
}

impl KeySet {
    /// The most keys that a set may have.
    pub const MOST: usize = 100;
    /// The most keys that are tried for a token that names none.
    const MOST_TRIED: usize = 16;

    /// Takes the keys of a JSON Web Key Set that verify one of these algorithms.
    ///
    /// # Errors
    /// When it is none, or has more than [`Self::MOST`] keys. The text has no content of it.
    pub fn parse(json: &[u8], algorithms: &[Algorithm]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Jwks {
            keys: Vec<Value>,
        }
        let Jwks { keys } = serde_json::from_slice(json).map_err(|_| "it is no JSON Web Key Set".to_owned())?;
        if keys.len() > Self::MOST {
            return Err(format!("it has more than {} keys", Self::MOST));
        }
        let algorithms = algorithms.iter().copied().collect();
        Ok(Self { keys: keys.iter().filter_map(|value| Key::parse(value, &algorithms)).collect() })
    }

    /// The same keys as a JSON Web Key Set, without those that were left out and those of another issuer than `iss`.
    pub(super) fn json_for(&self, iss: &str, tenant: Option<&str>) -> Value {
        let serving = self.keys.iter().filter(|key| key.serves(iss, tenant)).map(|key| key.json.clone());
        json!({ "keys": serving.collect::<Vec<_>>() })
    }

    /// Whether a key is named so.
    pub(super) fn has(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }

    /// Whether one of the keys made a signature: the one that is named, or any where none is. The algorithm must be the key's own.
    /// `tenant` is the provider's tenant for which `iss` stands, where the issuer is templated.
    pub(super) fn verify(&self, by: &SignedBy<'_>, signed: &[u8], signature: &[u8]) -> Result<(), Unverified> {
        let named = |key: &&Key| by.kid.is_none_or(|kid| key.kid.as_deref() == Some(kid)) && key.serves(by.iss, by.tenant);
        let mut found = by.kid.is_none().then_some(Unverified::UnknownKey);
        for key in self.keys.iter().filter(named).take(Self::MOST_TRIED) {
            match key.verifying.iter().find(|(algorithm, _)| *algorithm == by.algorithm) {
                None => found = found.or(Some(Unverified::Algorithm)),
                Some((_, key)) if key.verify_sig(signed, signature).is_ok() => return Ok(()),
                Some(_) => found = by.kid.map(|_| Unverified::Signature).or(found),
            }
        }
        Err(found.unwrap_or(Unverified::UnknownKey))
    }
}

/// Who is said to have signed.
pub(super) struct SignedBy<'a> {
    pub(super) kid: Option<&'a str>,
    pub(super) algorithm: Algorithm,
    pub(super) iss: &'a str,
    pub(super) tenant: Option<&'a str>,
}
