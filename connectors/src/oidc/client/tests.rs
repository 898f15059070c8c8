//! What a provider gets to see of Denizen, and what its token endpoint's answers mean.

use std::{collections::BTreeMap, sync::Mutex};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use time::macros::datetime;

use super::*;
use crate::oidc::{
    assertion::tests::{p256, parts},
    config::UserInfo,
};

const NOW: OffsetDateTime = datetime!(2026-11-21 12:00 UTC);
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

fn client(proof: ClientProof, extra: &[(&str, &str)]) -> Client {
    let plan = ClientPlan {
        id: "denizen client".to_owned(),
        proof,
        scopes: ["openid", "profile", "groups"].map(str::to_owned).to_vec(),
        extra_parameters: extra.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        user_info: UserInfo::WhenNeeded,
        believed_seconds: 60,
    };
    Client::new(plan, Url::parse("https://id.example/login/op/callback").unwrap())
}

fn handshake() -> Handshake {
    let (state, nonce) = ("s".repeat(43), "n".repeat(43));
    Handshake { state, nonce, code_verifier: VERIFIER.to_owned(), begun_at: NOW.unix_timestamp() }
}

fn pairs(url: &Url) -> BTreeMap<String, String> {
    let pairs: Vec<_> = url.query_pairs().into_owned().collect();
    let map: BTreeMap<_, _> = pairs.iter().cloned().collect();
    assert_eq!(map.len(), pairs.len(), "a parameter is there twice");
    map
}

fn expected(more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let (state, nonce) = ("s".repeat(43), "n".repeat(43));
    let own = [
        ("response_type", "code"),
        ("client_id", "denizen client"),
        ("redirect_uri", "https://id.example/login/op/callback"),
        ("scope", "openid profile groups"),
        ("state", &state),
        ("nonce", &nonce),
        // RFC 7636, appendix B.
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method", "S256"),
    ];
    own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn t16_each_authorization_request_has_state_nonce_and_pkce() {
    let endpoint = Url::parse("https://op.example/authorize?p=policy").unwrap();
    let url = client(ClientProof::Public, &[]).authorize(&endpoint, &handshake(), &Wish::default()).unwrap();
    assert_eq!(url.as_str().split('?').next(), Some("https://op.example/authorize"));
    assert_eq!(pairs(&url), expected(&[("p", "policy")]));
    for broken in ["", "short", &"x".repeat(42), &"x".repeat(129)] {
        for which in 0..3 {
            let mut handshake = handshake();
            *[&mut handshake.state, &mut handshake.nonce, &mut handshake.code_verifier][which] = broken.to_owned();
            assert!(client(ClientProof::Public, &[]).authorize(&endpoint, &handshake, &Wish::default()).is_err());
        }
    }
}

#[test]
fn a_wish_is_passed_on_and_a_configured_prompt_yields_to_it() {
    let endpoint = Url::parse("https://op.example/authorize").unwrap();
    let client = client(ClientProof::Public, &[("prompt", "select_account"), ("acr_values", "gold"), ("domain_hint", "acme.example")]);
    let url = client.authorize(&endpoint, &handshake(), &Wish::default()).unwrap();
    assert_eq!(pairs(&url), expected(&[("prompt", "select_account"), ("acr_values", "gold"), ("domain_hint", "acme.example")]));
    let wish = Wish { login_hint: Some("ada@acme.example".to_owned()), anew: true, max_age: Some(300) };
    let url = client.authorize(&endpoint, &handshake(), &wish).unwrap();
    let asked = [
        ("prompt", "login"),
        ("acr_values", "gold"),
        ("domain_hint", "acme.example"),
        ("login_hint", "ada@acme.example"),
        ("max_age", "300"),
    ];
    assert_eq!(pairs(&url), expected(&asked));
}

/// A token endpoint that answers one thing, and keeps what it was asked.
struct Endpoint {
    answer: Result<(u16, String), ConnectorError>,
    asked: Mutex<Vec<http::Request<Vec<u8>>>>,
}

#[async_trait]
impl Exchange for Endpoint {
    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, ConnectorError> {
        self.asked.lock().unwrap().push(request);
        let (status, body) = self.answer.clone()?;
        let answer = http::Response::builder().status(status).header("content-type", "application/json");
        Ok(answer.body(body.into_bytes()).unwrap())
    }
}

fn ask(
    client: &Client,
    grant: Grant<'_>,
    answer: Result<(u16, String), ConnectorError>,
) -> (Result<Answer, ConnectorError>, http::Request<Vec<u8>>) {
    let endpoint = Endpoint { answer, asked: Mutex::default() };
    let url = Url::parse("https://op.example/token").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(client.tokens(&url, grant, NOW, &endpoint));
    let mut asked = endpoint.asked.into_inner().unwrap();
    assert_eq!(asked.len(), 1, "one request, never repeated");
    (answer, asked.remove(0))
}

fn granted() -> Result<(u16, String), ConnectorError> {
    Ok((200, json!({"access_token": "at", "token_type": "Bearer", "refresh_token": "rt"}).to_string()))
}

fn form(request: &http::Request<Vec<u8>>) -> BTreeMap<String, String> {
    assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), ("POST", "https://op.example/token"));
    assert_eq!(request.headers()["content-type"], "application/x-www-form-urlencoded");
    url::form_urlencoded::parse(request.body()).into_owned().collect()
}

fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const CODE: Grant<'static> = Grant::Code { code: "c0de", verifier: VERIFIER };
const EXCHANGE: [(&str, &str); 4] = [
    ("grant_type", "authorization_code"),
    ("code", "c0de"),
    ("code_verifier", VERIFIER),
    ("redirect_uri", "https://id.example/login/op/callback"),
];

#[test]
fn a_client_proves_who_it_is_in_the_configured_way_and_in_no_other() {
    let secret = || Secret::new("s3c ret:".to_owned());
    let (answer, request) = ask(&client(ClientProof::Basic(secret()), &[]), CODE, granted());
    let Answer::Tokens(tokens) = answer.unwrap() else { panic!("no tokens") };
    assert_eq!((tokens.access_token.expose(), tokens.refresh_token.as_ref().map(Secret::expose)), ("at", Some("rt")));
    // RFC 6749, 2.3.1: form-encoded before Basic.
    assert_eq!(request.headers()["authorization"], format!("Basic {}", STANDARD.encode("denizen+client:s3c+ret%3A")).as_str());
    assert_eq!(form(&request), fields(&EXCHANGE));

    let (_, request) = ask(&client(ClientProof::Post(secret()), &[]), CODE, granted());
    assert!(!request.headers().contains_key("authorization"));
    assert_eq!(form(&request), fields(&[&EXCHANGE[..], &[("client_id", "denizen client"), ("client_secret", "s3c ret:")]].concat()));

    let (_, request) = ask(&client(ClientProof::Public, &[]), CODE, granted());
    assert!(!request.headers().contains_key("authorization"));
    assert_eq!(form(&request), fields(&[&EXCHANGE[..], &[("client_id", "denizen client")]].concat()));

    let token = Secret::new("r3fresh".to_owned());
    let (_, request) = ask(&client(ClientProof::Public, &[]), Grant::Refresh(&token), granted());
    assert_eq!(form(&request), fields(&[("grant_type", "refresh_token"), ("refresh_token", "r3fresh"), ("client_id", "denizen client")]));
}

#[test]
fn a_client_with_a_key_signs_for_the_token_endpoint() {
    let key = p256(Some("k1"));
    let public = key.public().to_vec();
    let client = client(ClientProof::Key(key), &[]);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (_, request) = ask(&client, CODE, granted());
        assert!(!request.headers().contains_key("authorization"));
        let mut form = form(&request);
        let (_, claims, message, signature) = parts(&form.remove("client_assertion").unwrap());
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &public).verify(message.as_bytes(), &signature).unwrap();
        assert_eq!((claims["aud"].as_str(), claims["sub"].as_str()), (Some("https://op.example/token"), Some("denizen client")));
        ids.push(claims["jti"].clone());
        let more = [("client_id", "denizen client"), ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")];
        assert_eq!(form, fields(&[&EXCHANGE[..], &more].concat()));
    }
    assert_ne!(ids[0], ids[1]);
}

/// What an answer means, in a word.
fn meaning(answer: Result<(u16, String), ConnectorError>) -> (&'static str, String) {
    match ask(&client(ClientProof::Public, &[]), CODE, answer).0 {
        Ok(Answer::Tokens(_)) => ("tokens", String::new()),
        Ok(Answer::No) => ("no", String::new()),
        Err(ConnectorError::Unavailable(text)) => ("unavailable", text),
        Err(ConnectorError::Refused(text)) => ("refused", text),
        Err(ConnectorError::Unusable(text)) => ("unusable", text),
    }
}

#[test]
fn answers_that_are_no_tokens_are_told_apart_and_quote_nothing() {
    let error = |code: &str| json!({"error": code, "error_description": "of s3cret-ada", "error_uri": "https://s3cret"}).to_string();
    let cases = [
        (400, error("invalid_grant"), "no"),
        (400, error("interaction_required"), "no"),
        (403, error("access_denied"), "no"),
        (401, error("invalid_client"), "refused"),
        (400, error("unauthorized_client"), "refused"),
        (400, error("invalid_scope"), "refused"),
        (401, "<html>s3cret</html>".to_owned(), "refused"),
        (403, "s3cret".to_owned(), "refused"),
        (400, error("s3cret_error"), "unusable"),
        (400, "s3cret".to_owned(), "unusable"),
        (404, "s3cret".to_owned(), "unusable"),
        (400, error("temporarily_unavailable"), "unavailable"),
        (500, error("invalid_grant"), "unavailable"),
        (503, "s3cret".to_owned(), "unavailable"),
        (429, "s3cret".to_owned(), "unavailable"),
        (200, "s3cret".to_owned(), "unusable"),
        (200, "{}".to_owned(), "unusable"),
        (200, error("invalid_grant"), "unusable"),
        (200, json!({"access_token": "s3cret", "token_type": "DPoP"}).to_string(), "unusable"),
        (200, json!({"access_token": "s3cret", "token_type": "Bearer", "id_token": "s3cret"}).to_string(), "unusable"),
        (200, json!({"access_token": "s3cret", "token_type": "bearer"}).to_string(), "tokens"),
    ];
    for (status, body, expected) in cases {
        let (found, text) = meaning(Ok((status, body.clone())));
        assert_eq!(found, expected, "{status} {body}: {text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    assert_eq!(meaning(Err(ConnectorError::Unavailable("oidc: late".to_owned()))), ("unavailable", "oidc: late".to_owned()));
}
