//! The private key with which Denizen signs as a client (`private_key_jwt`). What is signed is for who signs.

use std::{fmt, path::Path};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, RsaKeyPair},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

use super::keys::Algorithm;

/// The least RSA modulus, in bytes.
const LEAST_MODULUS: usize = 256;

/// A parsed key: P-256 signs ES256, RSA signs RS256.
pub(super) struct ClientKey {
    id: Option<String>,
    pair: Pair,
}

enum Pair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ClientKey {
    /// Reads a PEM file with one PKCS#8 key. `id` is the `kid` by which the provider knows it.
    ///
    /// # Errors
    /// When the file can not be read, or holds no such key. The text names the file.
    pub(super) fn read(file: &Path, id: Option<String>) -> Result<Self, String> {
        let der = PrivatePkcs8KeyDer::from_pem_file(file).map_err(|error| match error {
            rustls_pki_types::pem::Error::Io(error) => format!("{}: {error}", file.display()),
            _ => format!("{}: it holds no private key in PKCS#8 (`-----BEGIN PRIVATE KEY-----`)", file.display()),
        })?;
        let der = der.secret_pkcs8_der();
        let pair = if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, der) {
            Pair::Es256(pair)
        } else {
            let pair = RsaKeyPair::from_pkcs8(der).ok().filter(|pair| pair.public_modulus_len() >= LEAST_MODULUS);
            Pair::Rs256(pair.ok_or_else(|| format!("{}: it must be a P-256 key, or an RSA key of 2048 bits or more", file.display()))?)
        };
        Ok(Self { id, pair })
    }

    /// The `kid`.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// With which algorithm it signs.
    pub(super) const fn algorithm(&self) -> Algorithm {
        match self.pair {
            Pair::Es256(_) => Algorithm::Es256,
            Pair::Rs256(_) => Algorithm::Rs256,
        }
    }

    /// A JWS signature (RFC 7518, 3.3 and 3.4). What it draws at random is the signature's own.
    ///
    /// # Errors
    /// When the key can not sign, which no known key does.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, aws_lc_rs::error::Unspecified> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Es256(pair) => pair.sign(&random, message).map(|signature| signature.as_ref().to_vec()),
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature).map(|()| signature)
            }
        }
    }

    /// The public key as the verifier of [`Self::algorithm`] takes it.
    #[cfg(test)]
    pub(super) fn public(&self) -> &[u8] {
        use aws_lc_rs::signature::KeyPair as _;
        match &self.pair {
            Pair::Es256(pair) => pair.public_key().as_ref(),
            Pair::Rs256(pair) => pair.public_key().as_ref(),
        }
    }
}
