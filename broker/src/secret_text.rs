//! Texts that no one can guess, and the form in which they are stored: never themselves, always their fingerprint.

use aws_lc_rs::digest::{self, Context, Digest, SHA256};
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

/// SHA-256 over parts, each with its length before it, so that no two run together.
#[must_use]
pub fn digest_of(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part);
    }
    whole(context.finish())
}

/// SHA-256.
#[must_use]
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    whole(digest::digest(&SHA256, bytes))
}

fn whole(digest: Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
