use std::io::Write as _;

use serde_json::{Value, json};

use super::*;
use crate::oidc::stand_in::{build, config};

/// The paths of the faults of a sound configuration with one change, which is merged into it.
fn faults(change: Value) -> Vec<String> {
    fn merge(into: &mut Value, change: Value) {
        match change {
            Value::Object(members) => members.into_iter().for_each(|(name, value)| merge(&mut into[name], value)),
            other => *into = other,
        }
    }
    let mut whole = json!({"issuer": {"url": "https://sso.example", "audiences": ["api"]}, "clientId": "denizen", "acceptTokens": true});
    merge(&mut whole, change);
    build(&config(whole)).err().unwrap_or_default().into_iter().map(|(path, _)| path).collect()
}

#[test]
fn a_sound_configuration_has_no_fault() {
    for change in [
        json!({}),
        json!({"issuer": {"url": "https://sso.example/realms/a/"}}),
        json!({"issuer": {"url": "http://127.0.0.1:8080"}, "allowedNetworks": ["127.0.0.0/8"]}),
        json!({"issuer": {"url": "http://localhost:8080"}}),
        json!({"issuer": {"url": "http://[::1]:8080"}, "allowedNetworks": ["::1"]}),
        json!({"issuer": {"discoveryURL": "", "certificateAuthority": ""}}),
        json!({"issuer": {"discoveryURL": "https://elsewhere.example/document"}}),
        json!({"issuer": {"audiences": ["a", "b"], "audienceMatchPolicy": "MatchAny"}}),
        json!({"issuer": {"audiences": []}}),
        json!({"issuer": {"url": "https://sso.example/{tenantid}", "allowedTenantIds": ["a"]}}),
        json!({"clientSecret": "s"}),
        json!({"clientSecret": "s", "clientAuthentication": "client_secret_post"}),
        json!({"clientAuthentication": "none"}),
        json!({"extraParameters": {"acr_values": "2", "prompt": "login"}}),
        json!({"scopes": ["openid", "https://example.org/scope"]}),
        json!({"signingAlgorithms": ["RS256", "ES384", "EdDSA", "PS512"]}),
        json!({"clientId": null}),
    ] {
        assert_eq!(faults(change.clone()), Vec::<String>::new(), "{change}");
    }
}

#[test]
fn each_fault_is_named_by_its_place() {
    for (change, path) in [
        (json!({"issuer": {"url": ""}}), "issuer.url"),
        (json!({"issuer": {"url": "sso.example"}}), "issuer.url"),
        (json!({"issuer": {"url": "http://sso.example"}}), "issuer.url"),
        (json!({"issuer": {"url": "https://user@sso.example"}}), "issuer.url"),
        (json!({"issuer": {"url": "https://:p@sso.example"}}), "issuer.url"),
        (json!({"issuer": {"url": "https://sso.example?a=b"}}), "issuer.url"),
        (json!({"issuer": {"url": "https://sso.example#a"}}), "issuer.url"),
        (json!({"issuer": {"url": "https://10.0.0.1"}}), "issuer.url"),
        (json!({"issuer": {"url": "http://127.0.0.1"}}), "issuer.url"),
        (json!({"issuer": {"url": "https://169.254.169.254/"}}), "issuer.url"),
        (json!({"issuer": {"url": "https://{tenantid}.example", "allowedTenantIds": ["a"]}}), "issuer.url"),
        (json!({"issuer": {"url": "https://sso.example:{tenantid}", "allowedTenantIds": ["80"]}}), "issuer.url"),
        (json!({"issuer": {"url": "https://sso.example/{tenantid}/{tenantid}", "allowedTenantIds": ["a"]}}), "issuer.url"),
        (json!({"issuer": {"url": "https://sso.example/{tenantid}"}}), "issuer.allowedTenantIds"),
        (json!({"issuer": {"url": "https://sso.example/{tenantid}", "allowedTenantIds": ["a", "b"]}}), "issuer.discoveryURL"),
        (json!({"issuer": {"url": "https://sso.example/{tenantid}", "allowedTenantIds": ["a/b"]}}), "issuer.allowedTenantIds[0]"),
        (json!({"issuer": {"url": "https://sso.example/{tenantid}", "allowedTenantIds": [".."]}}), "issuer.allowedTenantIds[0]"),
        (json!({"issuer": {"allowedTenantIds": ["a"]}}), "issuer.allowedTenantIds"),
        (json!({"issuer": {"discoveryURL": "https://sso.example/"}}), "issuer.discoveryURL"),
        (json!({"issuer": {"discoveryURL": "http://sso.example/document"}}), "issuer.discoveryURL"),
        (json!({"issuer": {"discoveryURL": "https://sso.example/document?x=1"}}), "issuer.discoveryURL"),
        (json!({"issuer": {"audiences": ["a", "b"]}}), "issuer.audienceMatchPolicy"),
        (json!({"issuer": {"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"}}), "issuer.audiences[1]"),
        (json!({"issuer": {"audiences": [""]}}), "issuer.audiences[0]"),
        (json!({"issuer": {"audiences": []}, "clientId": null}), "issuer.audiences"),
        (json!({"issuer": {"certificateAuthority": "x"}}), "issuer.certificateAuthority"),
        (json!({"issuer": {"certificateAuthorityFile": "/nowhere/ca.pem"}}), "issuer.certificateAuthorityFile"),
        (json!({"clientId": null, "acceptTokens": false}), "clientId"),
        (json!({"clientId": ""}), "clientId"),
        (json!({"clientId": null, "clientSecret": "s"}), "clientSecret"),
        (json!({"clientSecret": ""}), "clientSecret"),
        (json!({"clientSecretFile": "/nowhere/secret"}), "clientSecretFile"),
        (json!({"privateKeyFile": "/nowhere/key"}), "privateKeyFile"),
        (json!({"privateKeyId": "k"}), "privateKeyId"),
        (json!({"clientAuthentication": "private_key_jwt"}), "clientAuthentication"),
        (json!({"clientAuthentication": "client_secret_basic"}), "clientAuthentication"),
        (json!({"clientAuthentication": "none", "clientSecret": "s"}), "clientAuthentication"),
        (json!({"signingAlgorithms": ["RS256", "HS256"]}), "signingAlgorithms[1]"),
        (json!({"signingAlgorithms": ["none"]}), "signingAlgorithms[0]"),
        (json!({"signingAlgorithms": ["RS256", "RS256"]}), "signingAlgorithms[1]"),
        (json!({"signingAlgorithms": []}), "signingAlgorithms"),
        (json!({"extraParameters": {"state": "x"}}), "extraParameters.state"),
        (json!({"extraParameters": {"max_age": "1"}}), "extraParameters.max_age"),
        (json!({"scopes": ["a b"]}), "scopes[0]"),
        (json!({"allowedNetworks": ["10.0.0.0/8", "all"]}), "allowedNetworks[1]"),
        (json!({"believedSeconds": 59}), "believedSeconds"),
        (json!({"believedSeconds": 31_622_401}), "believedSeconds"),
    ] {
        assert_eq!(faults(change.clone()), [path], "{change}");
    }
    let all =
        faults(json!({"issuer": {"url": "http://x.example", "audiences": [""]}, "signingAlgorithms": ["HS256"], "believedSeconds": 1}));
    assert_eq!(all, ["issuer.url", "issuer.audiences[0]", "signingAlgorithms[0]", "believedSeconds"], "all at once");
}

#[test]
fn a_client_proves_itself_as_its_configuration_says() {
    let proof = |change: Value| {
        let mut whole = json!({"issuer": {"url": "https://sso.example"}, "clientId": "denizen"});
        whole.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Plan::new(&config(whole)).unwrap_or_else(|faults| panic!("{faults:?}")).client.unwrap().proof
    };
    assert!(matches!(proof(json!({})), ClientProof::Public));
    assert!(matches!(proof(json!({"clientSecret": "s"})), ClientProof::Basic(_)));
    assert!(matches!(proof(json!({"clientSecret": "s", "clientAuthentication": "client_secret_post"})), ClientProof::Post(_)));

    let pem = |der: &[u8], name: &str| {
        use base64::Engine as _;
        let body = base64::engine::general_purpose::STANDARD.encode(der);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "-----BEGIN {name}-----\n{body}\n-----END {name}-----\n").unwrap();
        file
    };
    use aws_lc_rs::{
        encoding::{AsDer as _, Pkcs8V1Der},
        rsa::KeySize,
        signature as s,
    };
    let p256 = s::EcdsaKeyPair::generate(&s::ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let p384 = s::EcdsaKeyPair::generate(&s::ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
    let rsa = s::RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let rsa: Pkcs8V1Der<'_> = rsa.as_der().unwrap();
    let (p256, p384) = (p256.to_pkcs8v1().unwrap(), p384.to_pkcs8v1().unwrap());
    let good = [(pem(p256.as_ref(), "PRIVATE KEY"), Algorithm::Es256), (pem(rsa.as_ref(), "PRIVATE KEY"), Algorithm::Rs256)];
    for (file, algorithm) in good {
        let ClientProof::Key(key) = proof(json!({"privateKeyFile": file.path(), "privateKeyId": "k-1"})) else { panic!() };
        assert_eq!((key.id(), key.algorithm()), (Some("k-1"), algorithm));
        let verifying: &'static dyn s::VerificationAlgorithm =
            if algorithm == Algorithm::Es256 { &s::ECDSA_P256_SHA256_FIXED } else { &s::RSA_PKCS1_2048_8192_SHA256 };
        s::UnparsedPublicKey::new(verifying, key.public()).verify(b"text", &key.sign(b"text").unwrap()).unwrap();
        let both = faults(json!({"privateKeyFile": file.path(), "clientSecret": "s"}));
        assert_eq!(both, ["privateKeyFile"]);
    }
    let wrong = [pem(p384.as_ref(), "PRIVATE KEY"), pem(rsa.as_ref(), "RSA PRIVATE KEY"), pem(b"x", "PRIVATE KEY")];
    for file in wrong {
        assert_eq!(faults(json!({"privateKeyFile": file.path()})), ["privateKeyFile"]);
    }
}

#[test]
fn a_thousand_connectors_are_made_in_no_time_and_share_their_client() {
    let begun = std::time::Instant::now();
    let connectors: Vec<_> = (0..1_000)
        .map(|number| {
            let url = format!("https://sso-{number}.example");
            build(&config(json!({"issuer": {"url": url}, "clientId": "denizen", "clientSecret": "s", "acceptTokens": true}))).unwrap()
        })
        .collect();
    let each = begun.elapsed() / 1_000;
    // A debug build; reading the platform's authorities would take milliseconds.
    assert!(each < std::time::Duration::from_millis(2), "{each:?}");
    eprintln!("{} connectors, {each:?} each", connectors.len());
}
