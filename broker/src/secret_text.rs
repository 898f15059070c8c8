//! Texts that no one can guess, and the form in which they are stored: never themselves, always their fingerprint.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use uuid::Uuid;

use crate::seams::Entropy;

/// 256 random bits, base64url.
#[must_use]
pub fn random_text(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes);
    B64.encode(bytes)
}

/// A random UUID (RFC 9562, version 4).
#[must_use]
pub fn random_uuid(entropy: &dyn Entropy) -> Uuid {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// SHA-256, base64url: what is stored of a text that is a secret.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    B64.encode(digest(text.as_bytes()))
}

/// SHA-256.
#[must_use]
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    digest
}
