//! ID tokens that must not be taken, each beside the one that is.

use std::str::FromStr as _;

use aws_lc_rs::{digest, hmac};
use serde_json::json;

use super::*;
use crate::oidc::stand_in::{NOW, Signer, at};

const ISSUER: &str = "https://op.example";

fn header() -> Value {
    json!({"typ": "JWT"})
}

fn claims() -> Value {
    let now = NOW;
    json!({"iss": ISSUER, "sub": "ada", "aud": "denizen", "exp": now + 300, "iat": now, "nonce": "n1", "name": "Ada"})
}

fn with(mut of: Value, changes: Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => of.as_object_mut().unwrap().remove(name),
            value => of.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    of
}

fn keys(jwks: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": jwks }).to_string().as_bytes(), &Algorithm::ALL).unwrap()
}

fn held(token: &str, keys: &KeySet, expected: Expected<'_>) -> Result<Verified, IdTokenFault> {
    let token = CoreIdToken::from_str(token).map_err(|_| IdTokenFault::Broken)?;
    Unverified::read(&token)?.verify(keys, expected)
}

/// Holds a token of the right key against what a sign-in expects.
fn outcome(header: &Value, claims: &Value) -> Result<Verified, IdTokenFault> {
    let key = Signer::es256("k1");
    let (issuer, access_token) = (Issuer::new(ISSUER, &[]), Secret::new("at".to_owned()));
    held(&key.token_with(header, claims), &keys(&[key.jwk()]), expected(&issuer, &access_token))
}

fn expected<'a>(issuer: &'a Issuer, access_token: &'a Secret) -> Expected<'a> {
    Expected { issuer, client_id: "denizen", algorithms: &[Algorithm::Es256], nonce: Some("n1"), access_token, now: at(0) }
}

fn fault(changes: Value) -> Option<IdTokenFault> {
    outcome(&header(), &with(claims(), changes)).err()
}

#[test]
fn a_genuine_token_gives_its_claims() {
    let verified = outcome(&header(), &with(claims(), json!({"auth_time": 17, "groups": ["a"]}))).unwrap();
    assert_eq!((verified.sub.as_str(), verified.auth_time), ("ada", Some(17)));
    assert_eq!(verified.claims["groups"], json!(["a"]));
    assert!(
        outcome(&with(header(), json!({"typ": null, "jwk": {"kty": "oct"}, "jku": "https://evil.example", "x5u": "x"})), &claims()).is_ok()
    );
}

#[test]
fn t16_a_token_of_another_sign_in_is_refused() {
    assert_eq!(fault(json!({"nonce": "n2"})), Some(IdTokenFault::Nonce));
    assert_eq!(fault(json!({"nonce": null})), Some(IdTokenFault::Nonce));
    assert_eq!(fault(json!({"nonce": ""})), Some(IdTokenFault::Nonce));
}

#[test]
fn a_token_of_another_client_is_refused() {
    assert_eq!(fault(json!({"aud": "other"})), Some(IdTokenFault::Audience));
    assert_eq!(fault(json!({"aud": null})), Some(IdTokenFault::Audience));
    assert_eq!(fault(json!({"aud": ["denizen", "other"]})), Some(IdTokenFault::Audience));
    assert_eq!(fault(json!({"aud": ["denizen", "other"], "azp": "other"})), Some(IdTokenFault::Audience));
    assert_eq!(fault(json!({"azp": "other"})), Some(IdTokenFault::Audience));
    assert_eq!(fault(json!({"azp": ["denizen"]})), Some(IdTokenFault::Broken));
    assert_eq!(fault(json!({"aud": ["denizen", "other"], "azp": "denizen"})), None);
}

#[test]
fn times_are_held_against_the_injected_clock() {
    let now = NOW;
    assert_eq!(fault(json!({"exp": now})), Some(IdTokenFault::Time));
    assert_eq!(fault(json!({"exp": now - 1})), Some(IdTokenFault::Time));
    assert_eq!(fault(json!({"exp": now + 1})), None);
    assert_eq!(fault(json!({"exp": null})), Some(IdTokenFault::Broken));
    assert_eq!(fault(json!({"iat": now + 60})), None);
    assert_eq!(fault(json!({"iat": now + 61})), Some(IdTokenFault::Time));
    assert_eq!(fault(json!({"iat": null})), Some(IdTokenFault::Broken));
    assert_eq!(fault(json!({"nbf": now + 60})), None);
    assert_eq!(fault(json!({"nbf": now + 61})), Some(IdTokenFault::Time));
    assert_eq!(fault(json!({"nbf": "soon"})), Some(IdTokenFault::Broken));
}

#[test]
fn an_access_token_that_was_swapped_is_noticed() {
    let hash = |token: &str| B64.encode(&digest::digest(&digest::SHA256, token.as_bytes()).as_ref()[..16]);
    assert_eq!(fault(json!({"at_hash": hash("at")})), None);
    assert_eq!(fault(json!({"at_hash": hash("other")})), Some(IdTokenFault::AccessToken));
    assert_eq!(fault(json!({"at_hash": ""})), Some(IdTokenFault::AccessToken));
}

#[test]
fn t18_the_algorithm_is_the_pinned_one_and_the_keys_own() {
    let key = Signer::es256("k1");
    let (issuer, access_token) = (Issuer::new(ISSUER, &[]), Secret::new("at".to_owned()));
    let expected = expected(&issuer, &access_token);
    let set = keys(&[key.jwk()]);
    let held = |token: &str, expected| held(token, &set, expected).err();
    let unsigned =
        |alg: &str| format!("{}.{}.", B64.encode(json!({"alg": alg, "kid": "k1"}).to_string()), B64.encode(claims().to_string()));
    assert_eq!(held(&unsigned("none"), expected), Some(IdTokenFault::Algorithm));
    for alg in ["None", "NONE", "nOnE"] {
        assert_eq!(held(&unsigned(alg), expected), Some(IdTokenFault::Broken), "{alg}");
    }
    // The public key as a shared secret.
    let message = unsigned("HS256").trim_end_matches('.').to_owned();
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key.public_der()), message.as_bytes());
    assert_eq!(held(&format!("{message}.{}", B64.encode(mac.as_ref())), expected), Some(IdTokenFault::Algorithm));
    // A good token, and an operator who pinned another algorithm, whatever the provider offers.
    let good = key.token_with(&header(), &claims());
    assert_eq!(held(&good, expected), None);
    assert_eq!(held(&good, Expected { algorithms: &[Algorithm::Rs256, Algorithm::EdDsa], ..expected }), Some(IdTokenFault::Algorithm));
    // The right algorithm of the wrong kind of key.
    assert_eq!(
        held(&key.token_with(&json!({"alg": "RS256"}), &claims()), Expected { algorithms: &Algorithm::ALL, ..expected }),
        Some(IdTokenFault::Key)
    );
    let edited = good.replacen(&B64.encode(claims().to_string()), &B64.encode(with(claims(), json!({"sub": "bob"})).to_string()), 1);
    assert_ne!(edited, good);
    assert_eq!(held(&edited, expected), Some(IdTokenFault::Signature));
}

#[test]
fn t18_headers_that_say_more_are_refused() {
    for (changes, expected) in [
        (json!({"crit": ["exp"]}), IdTokenFault::Header),
        (json!({"crit": "exp"}), IdTokenFault::Broken),
        (json!({"typ": "at+jwt"}), IdTokenFault::Header),
        (json!({"typ": "logout+jwt"}), IdTokenFault::Header),
        (json!({"cty": "JWT"}), IdTokenFault::Header),
        (json!({"kid": "../../dev/null"}), IdTokenFault::Key),
        (json!({"kid": 1}), IdTokenFault::Broken),
    ] {
        assert_eq!(outcome(&with(header(), changes.clone()), &claims()).err(), Some(expected), "{changes}");
    }
}

#[test]
fn t08_another_issuers_key_or_name_is_refused() {
    let (own, other, second) = (Signer::es256("k1"), Signer::es256("k1"), Signer::es256("k2"));
    let (issuer, access_token) = (Issuer::new(ISSUER, &[]), Secret::new("at".to_owned()));
    let expected = expected(&issuer, &access_token);
    assert_eq!(held(&other.token_with(&header(), &claims()), &keys(&[own.jwk()]), expected).err(), Some(IdTokenFault::Signature));
    for iss in [json!("https://op.example/"), json!("https://OP.example"), json!("https://evil.example"), json!([ISSUER])] {
        assert!(matches!(fault(json!({ "iss": iss })), Some(IdTokenFault::Issuer | IdTokenFault::Broken)), "{iss}");
    }
    let without_kid = own.token_with(&json!({"kid": null}), &claims());
    assert_eq!(held(&without_kid, &keys(&[own.jwk()]), expected).err(), None);
    assert_eq!(held(&without_kid, &keys(&[own.jwk(), second.jwk()]), expected).err(), Some(IdTokenFault::AmbiguousKey));
}

#[test]
fn t07_a_templated_issuer_is_filled_with_an_allowed_tenant_that_the_token_names() {
    let key = Signer::es256("k1");
    let access_token = Secret::new("at".to_owned());
    let issuer = Issuer::new("https://op.example/{tenantid}/v2.0", &["t1".to_owned(), "t2".to_owned()]);
    let outcome = |jwk: Value, iss: &str, tid: Value| {
        let token = key.token_with(&header(), &with(claims(), json!({"iss": iss, "tid": tid})));
        held(&token, &keys(&[jwk]), expected(&issuer, &access_token)).err()
    };
    assert_eq!(outcome(key.jwk(), "https://op.example/t1/v2.0", json!("t1")), None);
    for (iss, tid) in [
        ("https://op.example/t1/v2.0", json!("t2")),
        ("https://op.example/t1/v2.0", json!(null)),
        ("https://op.example/t3/v2.0", json!("t3")),
        ("https://op.example/{tenantid}/v2.0", json!("t1")),
        ("https://op.example/{tenantid}/v2.0", json!("{tenantid}")),
    ] {
        assert_eq!(outcome(key.jwk(), iss, tid.clone()), Some(IdTokenFault::Issuer), "{iss} {tid}");
    }
    let of = |issuer: &str| with(key.jwk(), json!({ "issuer": issuer }));
    assert_eq!(outcome(of("https://op.example/{tenantid}/v2.0"), "https://op.example/t1/v2.0", json!("t1")), None);
    assert_eq!(outcome(of("https://op.example/t2/v2.0"), "https://op.example/t1/v2.0", json!("t1")), Some(IdTokenFault::Key));
}

#[test]
fn faults_quote_nothing() {
    let error = ConnectorError::from(fault(json!({"aud": "s3cret", "sub": "s3cret"})).unwrap());
    assert!(matches!(&error, ConnectorError::Unusable(text) if !text.contains("s3cret")), "{error}");
}
