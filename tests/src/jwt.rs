//! Tokens taken apart and put together wrongly, as an attacker does.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde_json::Value;

/// The claims of a token, unverified.
///
/// # Panics
/// When it is no JWT.
#[must_use]
pub fn claims(token: &str) -> Value {
    part(token, 1)
}

/// The header of a token.
///
/// # Panics
/// When it is no JWT.
#[must_use]
pub fn header(token: &str) -> Value {
    part(token, 0)
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).expect("a JWT has three parts");
    serde_json::from_slice(&B64.decode(part).unwrap()).unwrap()
}

/// The token with other claims, and the signature as it was.
#[must_use]
pub fn with_claims(token: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut claims = claims(token);
    edit(&mut claims);
    let parts: Vec<_> = token.split('.').collect();
    format!("{}.{}.{}", parts[0], B64.encode(claims.to_string()), parts[2])
}

/// The token with another header, and the signature as it was.
#[must_use]
pub fn with_header(token: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut header = header(token);
    edit(&mut header);
    let parts: Vec<_> = token.split('.').collect();
    format!("{}.{}.{}", B64.encode(header.to_string()), parts[1], parts[2])
}

/// A token of this header and these claims, signed by HMAC-SHA256 with this key.
#[must_use]
pub fn hmac(header: &Value, claims: &Value, key: &[u8]) -> String {
    let signed = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key);
    format!("{signed}.{}", B64.encode(aws_lc_rs::hmac::sign(&key, signed.as_bytes())))
}

/// A token of this header and these claims, signed with ES256 by a key of the attacker's own.
///
/// # Panics
/// When no key can be made.
#[must_use]
pub fn es256(header: &Value, claims: &Value) -> String {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let signed = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let signature = key.sign(&aws_lc_rs::rand::SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", B64.encode(signature))
}

/// A token of this header and these claims with a signature that no key made: cheap, for floods.
#[must_use]
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()), B64.encode([7; 256]))
}
