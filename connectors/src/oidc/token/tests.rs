use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde_json::json;

use super::*;
use crate::oidc::stand_in::{NOW, Signer, StandIn, at, build, config, jwks};

/// A verifier of `https://sso.example` for the audience `denizen`, with these changes of its configuration.
fn verifier(changes: Value) -> TokenVerifier {
    let mut whole = json!({
        "issuer": {"url": "https://sso.example", "audiences": ["denizen"]}, "acceptTokens": true, "signingAlgorithms": ["ES256", "RS256"],
    });
    for (name, value) in changes.as_object().unwrap() {
        whole[name] = value.clone();
    }
    TokenVerifier::new(&config(whole)).unwrap()
}

fn claims() -> Value {
    json!({"iss": "https://sso.example", "aud": "denizen", "sub": "ada", "exp": NOW + 60})
}

fn with(changes: Value) -> Value {
    let mut whole = claims();
    for (name, value) in changes.as_object().unwrap() {
        whole[name] = value.clone();
    }
    whole.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    whole
}

fn verify(verifier: &TokenVerifier, keys: &[&Signer], token: &str) -> Result<VerifiedClaims, Refusal> {
    let keys = verifier.keys(jwks(keys).to_string().as_bytes()).unwrap();
    verifier.verify(UnverifiedToken::new(token), &keys, at(0))
}

#[test]
fn t18_the_algorithm_is_pinned_and_the_keys_own() {
    let (ec, rsa) = (Signer::es256("ec"), Signer::rs256("rsa"));
    let both = verifier(json!({}));
    for signer in [&ec, &rsa] {
        verify(&both, &[&ec, &rsa], &signer.token(&claims())).unwrap();
    }
    // Not pinned.
    let only = verifier(json!({"signingAlgorithms": ["ES256"]}));
    assert_eq!(verify(&only, &[&ec, &rsa], &rsa.token(&claims())).unwrap_err(), Refusal::Algorithm);
    // `none`, with and without a signature; names that differ in case only.
    for alg in ["none", "None", "", "HS256", "es256", "ES256K", "RS1"] {
        let token = ec.token_with(&json!({"alg": alg}), &claims());
        assert_eq!(verify(&both, &[&ec, &rsa], &token).unwrap_err(), Refusal::Algorithm, "{alg}");
        let bare = format!("{}.", token.rsplit_once('.').unwrap().0);
        assert_eq!(verify(&both, &[&ec, &rsa], &bare).unwrap_err(), Refusal::Algorithm, "{alg}");
    }
    // The public key as a shared secret.
    let head = json!({"alg": "HS256", "kid": "rsa"}).to_string();
    let signed = format!("{}.{}", B64.encode(head), B64.encode(claims().to_string()));
    let secret = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &rsa.public_der());
    let token = format!("{signed}.{}", B64.encode(aws_lc_rs::hmac::sign(&secret, signed.as_bytes())));
    assert_eq!(verify(&both, &[&ec, &rsa], &token).unwrap_err(), Refusal::Algorithm);
    // Another algorithm than the named key's.
    let token = ec.token_with(&json!({"kid": "rsa"}), &claims());
    assert_eq!(verify(&both, &[&ec, &rsa], &token).unwrap_err(), Refusal::Algorithm);
    // A key whose own `alg` is another.
    let mut set = jwks(&[&rsa]);
    set["keys"][0]["alg"] = "PS256".into();
    let keys = both.keys(set.to_string().as_bytes()).unwrap();
    assert!(both.verify(UnverifiedToken::new(&rsa.token(&claims())), &keys, at(0)).is_err());
    // A key that is too small or too large, also for who verifies with another library.
    for (bytes, taken) in [(64, 0), (128, 0), (255, 0), (256, 1), (1_024, 1), (1_025, 0)] {
        let set = json!({"keys": [{"kty": "RSA", "kid": "k", "n": B64.encode(vec![0xc5; bytes]), "e": "AQAB"}]});
        let keys = both.keys(set.to_string().as_bytes()).unwrap();
        assert_eq!(keys.json_for("https://sso.example", None)["keys"].as_array().unwrap().len(), taken, "{bytes}");
    }
    // A key for something else than signatures.
    for change in [json!({"use": "enc"}), json!({"key_ops": ["encrypt"]}), json!({"use": "sig", "key_ops": ["sign"]})] {
        let mut set = jwks(&[&ec]);
        set["keys"][0].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let keys = both.keys(set.to_string().as_bytes()).unwrap();
        assert_eq!(both.verify(UnverifiedToken::new(&ec.token(&claims())), &keys, at(0)).unwrap_err(), Refusal::UnknownKey, "{change}");
    }
}

#[test]
fn t18_keys_in_a_header_and_critical_extensions_are_not_followed() {
    let (known, forger) = (Signer::es256("k1"), Signer::es256("k1"));
    let it = verifier(json!({}));
    for header in [
        json!({"jwk": forger.jwk()}),
        json!({"jku": "https://evil.example/keys"}),
        json!({"x5u": "https://evil.example/chain"}),
        json!({"x5c": ["MIIB"]}),
        json!({"kid": "../../../../dev/null"}),
        json!({"kid": null, "jwk": forger.jwk()}),
    ] {
        assert!(verify(&it, &[&known], &forger.token_with(&header, &claims())).is_err(), "{header}");
    }
    for crit in [json!(["b64"]), json!(["exp"]), json!([]), json!("x"), json!(["urn:example:unknown"])] {
        let token = known.token_with(&json!({"crit": crit, "b64": false, "exp": 1}), &claims());
        assert_eq!(verify(&it, &[&known], &token).unwrap_err(), Refusal::Critical, "{crit}");
    }
    let null = format!("{}.{}.{}", B64.encode(r#"{"alg":"ES256","crit":null}"#), B64.encode(claims().to_string()), B64.encode("x"));
    assert_eq!(verify(&it, &[&known], &null).unwrap_err(), Refusal::Critical);
    let twice = format!("{}.{}.{}", B64.encode(r#"{"alg":"none","alg":"ES256"}"#), B64.encode(claims().to_string()), B64.encode("x"));
    assert_eq!(verify(&it, &[&known], &twice).unwrap_err(), Refusal::Malformed);
    assert!(verify(&it, &[&known], &known.token_with(&json!({"jku": "https://evil.example"}), &claims())).is_ok(), "it is not looked at");
}

#[test]
fn t18_a_token_of_another_type_is_refused() {
    let key = Signer::es256("k1");
    let it = verifier(json!({}));
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt", "AT+JWT"] {
        assert!(verify(&it, &[&key], &key.token_with(&json!({"typ": typ}), &claims())).is_ok(), "{typ}");
    }
    for typ in ["logout+jwt", "application/logout+jwt", "secevent+jwt", "dpop+jwt", "", "JWT "] {
        assert_eq!(verify(&it, &[&key], &key.token_with(&json!({"typ": typ}), &claims())).unwrap_err(), Refusal::Type, "{typ}");
    }
    // A logout token without a type is no credential.
    let events = json!({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}});
    assert_eq!(verify(&it, &[&key], &key.token(&with(events))).unwrap_err(), Refusal::Type);
}

#[test]
fn t08_another_issuers_key_signs_nothing_here() {
    let (ours, theirs) = (Signer::es256("k1"), Signer::es256("k1"));
    let other = verifier(json!({"issuer": {"url": "https://other.example", "audiences": ["denizen"]}}));
    let token = theirs.token(&with(json!({"iss": "https://sso.example"})));
    assert_eq!(verify(&verifier(json!({})), &[&ours], &token).unwrap_err(), Refusal::Signature);
    assert!(!other.claims_to_be_ours(UnverifiedToken::new(&token)));
    assert_eq!(verify(&other, &[&theirs], &token).unwrap_err(), Refusal::Issuer);
}

const TEMPLATE: &str = "https://login.example/{tenantid}/v2.0";

fn templated() -> TokenVerifier {
    verifier(json!({"issuer": {
        "url": TEMPLATE, "discoveryURL": "https://login.example/common/discovery", "audiences": ["denizen"],
        "allowedTenantIds": ["t-1", "t-2"],
    }}))
}

#[test]
fn t07_a_templated_issuer_takes_the_tenants_that_are_allowed() {
    let key = Signer::es256("k1");
    let it = templated();
    let of = |iss: &str, tid: Value| with(json!({"iss": format!("https://login.example/{iss}/v2.0"), "tid": tid}));
    let one = verify(&it, &[&key], &key.token(&of("t-1", json!("t-1")))).unwrap();
    let two = verify(&it, &[&key], &key.token(&of("t-2", json!("t-2")))).unwrap();
    assert_eq!(it.subject(one.claims.as_map()).unwrap().as_str(), "t-1/ada");
    assert_eq!(it.subject(two.claims.as_map()).unwrap().as_str(), "t-2/ada");
    for (iss, tid) in [
        ("t-3", json!("t-3")),
        ("t-1", json!("t-2")),
        ("t-1", json!("t-3")),
        ("t-3", json!("t-1")),
        ("t-1", json!(null)),
        ("t-1", json!(["t-1"])),
        ("{tenantid}", json!("{tenantid}")),
        ("{tenantid}", json!("t-1")),
        ("T-1", json!("T-1")),
        ("", json!("")),
        ("x/../t-1", json!("t-1")),
        ("common", json!("t-1")),
    ] {
        let token = key.token(&of(iss, tid.clone()));
        assert_eq!(verify(&it, &[&key], &token).unwrap_err(), Refusal::Issuer, "{iss} {tid}");
    }
}

#[test]
fn t08_in_a_shared_key_set_a_key_of_one_tenant_does_not_sign_for_another() {
    let (shared, first) = (Signer::es256("shared"), Signer::es256("first"));
    let it = templated();
    let mut set = jwks(&[&shared, &first]);
    set["keys"][0]["issuer"] = TEMPLATE.into();
    set["keys"][1]["issuer"] = "https://login.example/t-1/v2.0".into();
    let keys = it.keys(set.to_string().as_bytes()).unwrap();
    let of = |tid: &str| with(json!({"iss": format!("https://login.example/{tid}/v2.0"), "tid": tid}));
    let outcome = |signer: &Signer, tid: &str| it.verify(UnverifiedToken::new(&signer.token(&of(tid))), &keys, at(0));
    assert!(outcome(&shared, "t-1").is_ok() && outcome(&shared, "t-2").is_ok() && outcome(&first, "t-1").is_ok());
    assert_eq!(outcome(&first, "t-2").unwrap_err(), Refusal::UnknownKey);
    // The same where the connector is for one of the tenants, and the provider shows the keys of all.
    let one = verifier(json!({"issuer": {"url": "https://login.example/t-2/v2.0", "audiences": ["denizen"]}}));
    let outcome = |signer: &Signer| one.verify(UnverifiedToken::new(&signer.token(&of("t-2"))), &keys, at(0));
    assert!(outcome(&shared).is_ok());
    assert_eq!(outcome(&first).unwrap_err(), Refusal::UnknownKey);
}

#[test]
fn audiences_and_times_are_held_as_kubernetes_does() {
    let key = Signer::es256("k1");
    let it = verifier(json!({"issuer": {
        "url": "https://sso.example", "audiences": ["denizen", "api"], "audienceMatchPolicy": "MatchAny"}}));
    let outcome = |changes: Value| verify(&it, &[&key], &key.token(&with(changes)));
    assert_eq!(outcome(json!({"aud": ["x", "api", "denizen"]})).unwrap().audiences, ["denizen", "api"]);
    for aud in [json!("x"), json!([]), json!(["x"]), json!(null), json!(7), json!(["denizen", 7]), json!({"denizen": 1}), json!("denizen ")]
    {
        assert_eq!(outcome(json!({"aud": aud})).unwrap_err(), Refusal::Audience, "{aud}");
    }
    for exp in [json!(NOW - 1), json!(null), json!(0), json!(-1), json!(i64::MAX), json!(1e300)] {
        assert_eq!(outcome(json!({"exp": exp})).unwrap_err(), Refusal::Expired, "{exp}");
    }
    assert_eq!(outcome(json!({"exp": (NOW + 60).to_string()})).unwrap_err(), Refusal::Claims);
    assert_eq!(outcome(json!({"exp": NOW as f64 + 0.5})).unwrap().expires_at, NOW);
    assert!(outcome(json!({"nbf": NOW + 299})).is_ok());
    assert_eq!(outcome(json!({"nbf": NOW + 301})).unwrap_err(), Refusal::NotYet);
    assert_eq!(outcome(json!({"nbf": "soon"})).unwrap_err(), Refusal::Claims);
}

#[test]
fn what_is_no_token_is_refused() {
    let key = Signer::es256("k1");
    let it = verifier(json!({}));
    let good = key.token(&claims());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = signed.split_once('.').unwrap();
    let large = key.token(&with(json!({"pad": "x".repeat(40_000)})));
    let deep = key.token(&with(json!({"deep": serde_json::from_str::<Value>(&format!("{}{}", "[".repeat(60), "]".repeat(60))).unwrap()})));
    for wrong in [
        String::new(),
        "..".to_owned(),
        signed.to_owned(),
        format!("{good}.x"),
        format!("{header}..{signature}"),
        format!("{good}="),
        format!("{header}.{payload}x.{signature}"),
        format!("{header}.{}.{signature}", B64.encode("[]")),
        format!(" {good}"),
        large,
        deep,
    ] {
        assert!(verify(&it, &[&key], &wrong).is_err(), "{wrong:.60}");
    }
    let other = key.token(&with(json!({"sub": "eve"})));
    let spliced = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
    assert_eq!(verify(&it, &[&key], &spliced).unwrap_err(), Refusal::Signature);
}

#[tokio::test]
async fn a_token_is_authenticated_once_its_keys_are_here_whatever_becomes_of_the_provider() {
    let key = Signer::es256("k1");
    let stand_in = StandIn::start(&[&key]).await;
    let token = stand_in.connector().token.unwrap();
    let claims = |changes: Value| {
        let mut whole = with(json!({"iss": stand_in.issuer, "exp": NOW + 3_600}));
        whole.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        whole
    };
    let text = key.token(&claims(json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"access_token": "secret"}}})));
    let good = UnverifiedToken::new(&text);
    assert!(token.claims_to_be_ours(good));
    let Verdict::Genuine(first) = token.authenticate(good, at(0)).await.unwrap() else { panic!("it is genuine") };
    assert_eq!(
        (first.user.subject.as_str(), first.audiences, first.expires_at),
        ("ada", Audiences::Named(vec!["denizen".to_owned()]), NOW + 3_600)
    );
    assert!(first.user.claims.get("_claim_sources").is_none());
    stand_in.stop();
    for second in 1..600 {
        assert!(matches!(token.authenticate(good, at(second)).await.unwrap(), Verdict::Genuine(_)));
    }
    assert_eq!(stand_in.count("/keys"), 1);
    assert!(matches!(token.authenticate(good, at(3_601)).await.unwrap(), Verdict::Refused(_)), "expired");
    // Nobody: no subject, or one that can not be.
    for sub in [json!(null), json!(""), json!(7), json!("x".repeat(256)), json!("a\nb")] {
        let text = key.token(&claims(json!({"sub": sub})));
        assert!(matches!(token.authenticate(UnverifiedToken::new(&text), at(1)).await.unwrap(), Verdict::Refused(_)), "{sub}");
    }
}

#[tokio::test]
async fn a_provider_that_was_never_reached_can_not_tell_and_what_is_over_is_refused_all_the_same() {
    let key = Signer::es256("k1");
    let stand_in = StandIn::start(&[&key]).await;
    stand_in.stop();
    let token = stand_in.connector().token.unwrap();
    let text = |exp: i64| key.token(&with(json!({"iss": stand_in.issuer, "exp": exp})));
    let error = token.authenticate(UnverifiedToken::new(&text(NOW + 60)), at(0)).await.unwrap_err();
    assert!(matches!(error, ConnectorError::Unavailable(_)), "{error}");
    assert!(matches!(token.authenticate(UnverifiedToken::new(&text(NOW - 60)), at(0)).await.unwrap(), Verdict::Refused(_)));
}

#[tokio::test]
async fn t19_a_key_without_a_name_is_found_after_a_change_of_keys() {
    let (old, new) = (Signer::es256("old").without_kid(), Signer::es256("new").without_kid());
    let stand_in = StandIn::start(&[&old]).await;
    let token = stand_in.connector().token.unwrap();
    let text = |signer: &Signer| signer.token(&with(json!({"iss": stand_in.issuer, "exp": NOW + 3_600})));
    assert!(matches!(token.authenticate(UnverifiedToken::new(&text(&old)), at(0)).await.unwrap(), Verdict::Genuine(_)));
    stand_in.answer("/keys", crate::oidc::stand_in::Answer::json(&jwks(&[&old, &new])));
    assert!(matches!(token.authenticate(UnverifiedToken::new(&text(&new)), at(11)).await.unwrap(), Verdict::Genuine(_)));
    for _ in 0..50 {
        let forged = Signer::es256("x").without_kid();
        assert!(matches!(token.authenticate(UnverifiedToken::new(&text(&forged)), at(12)).await.unwrap(), Verdict::Refused(_)));
    }
    assert_eq!(stand_in.count("/keys"), 2);
}

#[test]
fn tokens_are_not_taken_unless_the_configuration_says_so() {
    let mut config = config(json!({"issuer": {"url": "https://sso.example"}, "clientId": "denizen"}));
    let connector = build(&config).unwrap();
    assert!(connector.token.is_none() && connector.logout.is_some());
    config.accept_tokens = true;
    assert!(build(&config).unwrap().token.is_some());
    config.client_id = None;
    config.issuer.audiences = vec!["api".to_owned()];
    let connector = build(&config).unwrap();
    assert!(connector.token.is_some() && connector.logout.is_none() && connector.redirect.is_none());
}
