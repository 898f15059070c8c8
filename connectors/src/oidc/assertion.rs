//! `private_key_jwt`: what Denizen signs to prove at a token endpoint who it is (OpenID Connect Core, 9). The key is `oidc/client_key.rs`'s.

use aws_lc_rs::digest;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde_json::json;
use time::OffsetDateTime;

use super::{client::unusable, client_key::ClientKey};
use crate::ConnectorError;

/// How long an assertion is good, in seconds.
const LIFE: i64 = 60;

/// What an assertion is made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occasion<'a> {
    pub(super) client_id: &'a str,
    /// The token endpoint that it is sent to; it is good nowhere else.
    pub(super) audience: &'a str,
    /// The code or refresh token that it goes with. Its id is made of it, so that it needs no randomness.
    pub(super) grant: &'a str,
    /// Tells two apart that are made for one grant at one time.
    pub(super) number: u64,
    pub(super) now: OffsetDateTime,
}

/// A signed assertion.
///
/// # Errors
/// When the key does not sign.
pub(super) fn assertion(key: &ClientKey, of: Occasion<'_>) -> Result<String, ConnectorError> {
    let iat = of.now.unix_timestamp();
    let mut id = digest::Context::new(&digest::SHA256);
    id.update(b"denizen client assertion");
    id.update(&of.number.to_be_bytes());
    id.update(&of.now.unix_timestamp_nanos().to_be_bytes());
    for part in [of.client_id, of.audience, of.grant] {
        id.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        id.update(part.as_bytes());
    }
    let jti = B64.encode(id.finish());
    let mut header = json!({"alg": key.algorithm().name(), "typ": "JWT"});
    if let (Some(kid), Some(header)) = (key.id(), header.as_object_mut()) {
        header.insert("kid".to_owned(), json!(kid));
    }
    let exp = iat.saturating_add(LIFE);
    let claims = json!({"iss": of.client_id, "sub": of.client_id, "aud": of.audience, "jti": jti, "iat": iat, "exp": exp});
    let message = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
    let signature = key.sign(message.as_bytes()).map_err(|_| unusable("the client's own key does not sign"))?;
    Ok(format!("{message}.{}", B64.encode(signature)))
}

#[cfg(test)]
pub(super) mod tests {
    use aws_lc_rs::{
        encoding::AsDer as _,
        rsa::{KeyPair as RsaKeyPair, KeySize},
        signature::{
            ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
        },
    };
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;
    use time::macros::datetime;

    use super::*;

    const OCCASION: Occasion<'_> = Occasion {
        client_id: "denizen",
        audience: "https://op.example/token",
        grant: "s3cret-grant",
        number: 1,
        now: datetime!(2026-11-21 12:00 UTC),
    };

    fn key(der: &[u8], id: Option<&str>) -> ClientKey {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        std::fs::write(&file, format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))).unwrap();
        ClientKey::read(&file, id.map(str::to_owned)).unwrap()
    }

    pub(in super::super) fn p256(id: Option<&str>) -> ClientKey {
        key(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap().to_pkcs8v1().unwrap().as_ref(), id)
    }

    pub(in super::super) fn parts(token: &str) -> (Value, Value, String, Vec<u8>) {
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (header, claims) = message.split_once('.').unwrap();
        let json = |part: &str| serde_json::from_slice(&B64.decode(part).unwrap()).unwrap();
        (json(header), json(claims), message.to_owned(), B64.decode(signature).unwrap())
    }

    #[test]
    fn an_assertion_says_who_to_whom_and_for_how_long_and_its_signature_holds() {
        let key = p256(Some("k1"));
        let (header, claims, message, signature) = parts(&assertion(&key, OCCASION).unwrap());
        assert_eq!(header, json!({"alg": "ES256", "typ": "JWT", "kid": "k1"}));
        let (iat, jti) = (OCCASION.now.unix_timestamp(), claims["jti"].clone());
        assert_eq!(
            claims,
            json!({"iss": "denizen", "sub": "denizen", "aud": "https://op.example/token", "jti": jti, "iat": iat, "exp": iat + 60})
        );
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public()).verify(message.as_bytes(), &signature).unwrap();

        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = rsa.as_der().unwrap();
        let key = self::key(der.as_ref(), None);
        let (header, _, message, signature) = parts(&assertion(&key, OCCASION).unwrap());
        assert_eq!(header, json!({"alg": "RS256", "typ": "JWT"}));
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public()).verify(message.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn no_two_assertions_have_one_id_and_none_tells_the_grant() {
        let key = p256(None);
        let claims = |of: Occasion<'_>| parts(&assertion(&key, of).unwrap()).1;
        let one = claims(OCCASION);
        for other in
            [Occasion { number: 2, ..OCCASION }, Occasion { grant: "other", ..OCCASION }, Occasion { client_id: "other", ..OCCASION }]
        {
            assert_ne!(one["jti"], claims(other)["jti"]);
        }
        assert!(!one.to_string().contains("s3cret"));
    }
}
