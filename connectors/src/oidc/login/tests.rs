//! Whole sign-ins and renewals, with a provider on a loopback address that answers what each test wants.

use claims_mapping::{Mapping, MappingConfig};
use serde_json::json;
use tokio::runtime::Runtime;

use super::*;
use crate::{
    Connector,
    config::Context,
    oidc::{
        build,
        stand_in::{Answer, NOW, Signer, StandIn, at, config},
    },
};

struct Op {
    runtime: Runtime,
    stand_in: StandIn,
    url: String,
    key: Signer,
}

impl Op {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let key = Signer::es256("k1");
        let stand_in = runtime.block_on(StandIn::start(&[&key]));
        let op = Self { runtime, url: stand_in.issuer.clone(), stand_in, key };
        op.answers("/.well-known/openid-configuration", 200, op.metadata());
        op.answers("/me", 200, json!({"sub": "ada", "groups": ["staff"]}));
        op
    }

    /// The stand-in's, without the word that it names itself in its answers.
    fn metadata(&self) -> Value {
        let mut metadata = self.stand_in.document();
        metadata.as_object_mut().unwrap().remove("authorization_response_iss_parameter_supported");
        metadata
    }

    fn answers(&self, path: &str, status: u16, body: Value) {
        self.stand_in.answer(path, Answer::Plain(status, "Content-Type: application/json\r\n", body.to_string()));
    }

    /// How often a path was asked.
    fn asked(&self, path: &str) -> u32 {
        self.stand_in.count(path)
    }

    /// Grants tokens, with an ID token of these claims besides the usual ones; `null` takes one away.
    fn grants(&self, changes: Value) {
        self.grants_by(&self.key, changes);
    }

    fn grants_by(&self, key: &Signer, changes: Value) {
        let mut claims = json!({"iss": self.url, "sub": "ada", "aud": "denizen", "exp": NOW + 300, "iat": NOW, "nonce": handshake().nonce});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let id_token = key.token(&claims);
        self.answers("/token", 200, json!({"access_token": "at", "token_type": "Bearer", "refresh_token": "rt2", "id_token": id_token}));
    }

    /// A client whose mapping needs `sub` and `groups`.
    fn connector(&self, changes: Value) -> Connector {
        let mut entry = json!({
            "issuer": {"url": self.url}, "clientId": "denizen", "signingAlgorithms": ["ES256"], "allowedNetworks": ["127.0.0.1"],
        });
        for (name, value) in changes.as_object().unwrap() {
            entry[name] = value.clone();
        }
        let mapping: MappingConfig =
            serde_json::from_value(json!({"claimMappings": {"username": {"claim": "sub"}, "groups": {"claim": "groups"}}})).unwrap();
        let (id, mapping) = (ConnectorId::parse("op").unwrap(), Mapping::compile(&mapping).unwrap());
        let issuer = Url::parse("https://id.example/denizen/").unwrap();
        build(&config(entry), Context { id: &id, mapping: &mapping, fixed_tenant: true, issuer: Some(&issuer) }).unwrap()
    }

    fn login(&self) -> Arc<dyn RedirectLogin> {
        self.connector(json!({})).redirect.unwrap()
    }

    fn finish_with(&self, login: &Arc<dyn RedirectLogin>, wish: &Wish, callback: &Callback) -> Finished {
        self.runtime.block_on(login.finish(&handshake(), wish, callback, at(0)))
    }

    fn finish(&self) -> Finished {
        self.finish_with(&self.login(), &Wish::default(), &code())
    }

    fn renew(&self, changes: Value) -> Result<Option<Renewed>, ConnectorError> {
        let renewal = self.connector(changes).renewal.unwrap();
        self.runtime.block_on(renewal.renew(&Subject::parse("ada").unwrap(), &Secret::new("rt1".to_owned()), at(0)))
    }
}

type Finished = Result<Option<Proven>, ConnectorError>;

fn handshake() -> Handshake {
    let (state, nonce, code_verifier) = ("s".repeat(43), "n".repeat(43), "v".repeat(43));
    Handshake { state, nonce, code_verifier, begun_at: NOW - 20 }
}

fn code() -> Callback {
    Callback { code: Some("c0de".to_owned()), ..Callback::default() }
}

/// Why a sign-in can not be used; the text quotes nothing of what was wrong.
fn unusable_because(finished: Finished, why: &str) {
    match finished {
        Err(ConnectorError::Unusable(text)) => assert!(text.contains(why) && !text.contains("bob"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sign_in_gives_the_person_and_what_goes_on() {
    let op = Op::start();
    let login = op.login();
    let url = op.runtime.block_on(login.begin(&handshake(), &Wish::default(), at(0))).unwrap();
    assert!(url.as_str().starts_with(&format!("{}/authorize?", op.url)));
    assert!(url.query_pairs().any(|pair| pair == ("redirect_uri".into(), "https://id.example/denizen/login/op/callback".into())));

    op.grants(json!({"sid": "s1", "auth_time": 17, "_claim_names": {"x": "a"}, "_claim_sources": {"a": {"access_token": "s3cret"}}}));
    let proven = op.finish_with(&login, &Wish::default(), &code()).unwrap().unwrap();
    assert_eq!(proven.user.subject.as_str(), "ada");
    assert_eq!((proven.auth_time, proven.session.sid.as_deref()), (Some(17), Some("s1")));
    assert_eq!(proven.session.refresh_token.as_ref().map(Secret::expose), Some("rt2"));
    assert_eq!(proven.user.claims.get("groups"), Some(&json!(["staff"])), "from userinfo");
    assert_eq!(proven.user.claims.get("_claim_sources"), None);
    assert_eq!((op.asked("/token"), op.asked("/me")), (1, 1));
}

#[test]
fn t17_an_answer_of_another_issuer_is_refused_before_the_code_is_spent() {
    let op = Op::start();
    op.grants(json!({}));
    let from = |iss: Option<&str>| Callback { iss: iss.map(str::to_owned), ..code() };
    let login = op.login();
    unusable_because(op.finish_with(&login, &Wish::default(), &from(Some("https://bob.example"))), "RFC 9207");
    unusable_because(op.finish_with(&login, &Wish::default(), &from(Some(&format!("{}/", op.url)))), "RFC 9207");
    unusable_because(
        op.finish_with(&login, &Wish::default(), &Callback { error: Some("access_denied".to_owned()), ..from(Some("")) }),
        "RFC 9207",
    );
    assert_eq!(op.asked("/token"), 0);
    assert!(op.finish_with(&login, &Wish::default(), &from(Some(&op.url))).unwrap().is_some());
    assert!(op.finish_with(&login, &Wish::default(), &from(None)).unwrap().is_some());

    let mut metadata = op.metadata();
    metadata["authorization_response_iss_parameter_supported"] = json!(true);
    op.answers("/.well-known/openid-configuration", 200, metadata);
    let login = op.login();
    unusable_because(op.finish_with(&login, &Wish::default(), &from(None)), "without `iss`");
    unusable_because(
        op.finish_with(&login, &Wish::default(), &Callback { error: Some("access_denied".to_owned()), ..from(None) }),
        "without `iss`",
    );
    assert!(op.finish_with(&login, &Wish::default(), &from(Some(&op.url))).unwrap().is_some());
}

#[test]
fn errors_that_a_browser_brings_are_told_apart() {
    let op = Op::start();
    let login = op.login();
    let outcome = |error: &str| match op.finish_with(&login, &Wish::default(), &Callback { error: Some(error.to_owned()), ..code() }) {
        Ok(None) => "no".to_owned(),
        Ok(Some(_)) => "yes".to_owned(),
        Err(ConnectorError::Unavailable(_)) => "unavailable".to_owned(),
        Err(ConnectorError::Refused(text)) => text,
        Err(ConnectorError::Unusable(text)) => {
            assert!(!text.contains(error), "{text}");
            "unusable".to_owned()
        }
    };
    for error in ["access_denied", "login_required", "interaction_required", "account_selection_required", "consent_required"] {
        assert_eq!(outcome(error), "no");
    }
    for error in ["temporarily_unavailable", "server_error"] {
        assert_eq!(outcome(error), "unavailable");
    }
    for error in ["invalid_scope", "unauthorized_client"] {
        assert!(outcome(error).contains(&format!("`{error}`")));
    }
    assert_eq!(outcome("<script>"), "unusable");
    assert_eq!(op.asked("/token"), 0, "a code beside an error is not spent");
    unusable_because(op.finish_with(&login, &Wish::default(), &Callback::default()), "neither");
    unusable_because(
        op.finish_with(&login, &Wish::default(), &Callback { code: Some("x".repeat(9000)), ..Callback::default() }),
        "neither",
    );
}

#[test]
fn t15_userinfo_about_someone_else_ends_the_sign_in() {
    let op = Op::start();
    op.grants(json!({}));
    op.answers("/me", 200, json!({"sub": "bob", "groups": ["staff"]}));
    unusable_because(op.finish(), "someone else");
    op.answers("/me", 200, json!({"groups": ["staff"]}));
    unusable_because(op.finish(), "someone else");
    op.answers("/me", 401, json!({}));
    unusable_because(op.finish(), "does not take the access token");
    op.answers("/me", 503, json!({}));
    assert!(matches!(op.finish(), Err(ConnectorError::Unavailable(_))));
}

#[test]
fn userinfo_is_asked_as_configured() {
    let op = Op::start();
    op.grants(json!({"groups": ["guests"]}));
    let groups = |mode: &str| {
        let proven =
            op.finish_with(&op.connector(json!({ "userInfo": mode })).redirect.unwrap(), &Wish::default(), &code()).unwrap().unwrap();
        proven.user.claims.get("groups").cloned()
    };
    assert_eq!((groups("whenNeeded"), op.asked("/me")), (Some(json!(["guests"])), 0));
    assert_eq!((groups("always"), op.asked("/me")), (Some(json!(["guests"])), 1), "t12: the ID token's stays");
    op.grants(json!({}));
    assert_eq!((groups("never"), op.asked("/me")), (None, 1));
    assert_eq!((groups("whenNeeded"), op.asked("/me")), (Some(json!(["staff"])), 2));
    let mut metadata = op.metadata();
    metadata.as_object_mut().unwrap().remove("userinfo_endpoint");
    op.answers("/.well-known/openid-configuration", 200, metadata);
    assert_eq!(groups("whenNeeded"), None);
    unusable_because(
        op.finish_with(&op.connector(json!({"userInfo": "always"})).redirect.unwrap(), &Wish::default(), &code()),
        "names no userinfo",
    );
}

#[test]
fn t16_an_id_token_of_another_sign_in_or_none_is_refused() {
    let op = Op::start();
    for nonce in [json!("m".repeat(43)), json!(null)] {
        op.grants(json!({ "nonce": nonce }));
        unusable_because(op.finish(), "nonce");
    }
    op.answers("/token", 200, json!({"access_token": "at", "token_type": "Bearer"}));
    unusable_because(op.finish(), "no ID token");
    op.answers("/token", 400, json!({"error": "invalid_grant"}));
    unusable_because(op.finish(), "code");
    op.answers("/token", 401, json!({"error": "invalid_client"}));
    assert!(matches!(op.finish(), Err(ConnectorError::Refused(_))));
}

#[test]
fn keys_are_fetched_again_where_the_one_that_is_named_is_missing() {
    let op = Op::start();
    let login = op.login();
    op.grants(json!({}));
    op.answers("/keys", 200, json!({"keys": [Signer::es256("old").jwk()]}));
    unusable_because(op.finish_with(&login, &Wish::default(), &code()), "keys fits");
    let before = op.asked("/keys");
    unusable_because(op.finish_with(&login, &Wish::default(), &code()), "keys fits");
    assert_eq!(op.asked("/keys"), before, "not within ten seconds");
    op.answers("/keys", 200, json!({"keys": [op.key.jwk()]}));
    assert!(op.runtime.block_on(login.finish(&handshake(), &Wish::default(), &code(), at(11))).unwrap().is_some());
}

#[test]
fn keys_are_fetched_again_where_none_is_named_and_none_fits() {
    let op = Op::start();
    let login = op.login();
    op.grants_by(&Signer::es256("k1").without_kid(), json!({}));
    unusable_because(op.finish_with(&login, &Wish::default(), &code()), "signature");
    let rotated = Signer::es256("k1").without_kid();
    op.grants_by(&rotated, json!({}));
    op.answers("/keys", 200, json!({"keys": [rotated.jwk()]}));
    unusable_because(op.finish_with(&login, &Wish::default(), &code()), "signature");
    assert_eq!(op.asked("/keys"), 1, "not within ten seconds");
    assert!(op.runtime.block_on(login.finish(&handshake(), &Wish::default(), &code(), at(11))).unwrap().is_some());
}

#[test]
fn a_wish_for_a_recent_proof_is_held_against_auth_time() {
    let op = Op::start();
    let login = op.login();
    let begun = handshake().begun_at;
    let outcome = |auth_time: Value, anew: bool, max_age: Option<u32>| {
        op.grants(json!({ "auth_time": auth_time }));
        op.finish_with(&login, &Wish { anew, max_age, ..Wish::default() }, &code()).map(|proven| assert!(proven.is_some()))
    };
    assert!(outcome(json!(null), false, None).is_ok());
    assert!(outcome(json!(null), true, None).is_ok());
    assert!(outcome(json!(null), false, Some(300)).is_err());
    assert!(outcome(json!(begun - 360), false, Some(300)).is_ok());
    assert!(outcome(json!(begun - 361), false, Some(300)).is_err());
    assert!(outcome(json!(begun - 60), true, None).is_ok());
    assert!(outcome(json!(begun - 61), true, None).is_err());
    assert!(outcome(json!(begun - 61), true, Some(300)).is_err());
    assert!(outcome(json!(NOW + 61), false, None).is_err());
}

#[test]
fn a_renewal_gives_what_the_provider_says_now() {
    let op = Op::start();
    op.grants(json!({"nonce": null, "groups": ["new"]}));
    let renewed = op.renew(json!({})).unwrap().unwrap();
    assert_eq!(renewed.refresh_token.as_ref().map(Secret::expose), Some("rt2"));
    assert_eq!(renewed.user.unwrap().unwrap().claims.get("groups"), Some(&json!(["new"])));
    op.grants(json!({"nonce": "of the sign-in"}));
    assert_eq!(op.renew(json!({})).unwrap().unwrap().user.unwrap().unwrap().claims.get("groups"), Some(&json!(["staff"])));

    op.answers("/token", 200, json!({"access_token": "at", "token_type": "Bearer", "refresh_token": "rt1"}));
    let renewed = op.renew(json!({})).unwrap().unwrap();
    assert!(renewed.refresh_token.is_none(), "it is the same");
    let user = renewed.user.unwrap().unwrap();
    assert_eq!((user.subject.as_str(), user.claims.get("groups")), ("ada", Some(&json!(["staff"]))));
    assert_eq!(user.claims.get("iss"), Some(&json!(op.url)));
    assert!(op.renew(json!({"userInfo": "never"})).unwrap().unwrap().user.unwrap().is_none());
}

#[test]
fn t09_someone_who_is_no_longer_is_told_from_a_provider_that_can_not_tell() {
    let op = Op::start();
    op.answers("/token", 400, json!({"error": "invalid_grant"}));
    assert!(op.renew(json!({})).unwrap().is_none());
    op.answers("/token", 400, json!({"error": "interaction_required"}));
    assert!(op.renew(json!({})).unwrap().is_none());
    op.answers("/token", 401, json!({"error": "invalid_client"}));
    assert!(matches!(op.renew(json!({})), Err(ConnectorError::Refused(_))));
    op.answers("/token", 503, json!({"error": "invalid_grant"}));
    assert!(matches!(op.renew(json!({})), Err(ConnectorError::Unavailable(_))));
    op.answers("/token", 200, json!({"access_token": "at", "token_type": "Bearer"}));
    for status in [401, 403] {
        op.answers("/me", status, json!({}));
        assert!(op.renew(json!({})).unwrap().is_none());
    }
    op.answers("/token", 200, json!({"access_token": "at", "token_type": "Bearer", "refresh_token": "rt2"}));
    for status in [500, 404] {
        op.answers("/me", status, json!({}));
        let renewed = op.renew(json!({})).unwrap().unwrap();
        assert!(matches!(renewed.user, Err(ConnectorError::Unavailable(_) | ConnectorError::Unusable(_))));
        assert_eq!(renewed.refresh_token.as_ref().map(Secret::expose), Some("rt2"), "the old one is spent");
    }
}

#[test]
fn a_renewal_that_gives_someone_else_ends_it() {
    let op = Op::start();
    op.grants(json!({"sub": "bob", "groups": ["x"]}));
    assert!(op.renew(json!({})).unwrap().is_none());
    op.answers("/token", 200, json!({"access_token": "at", "token_type": "Bearer"}));
    op.answers("/me", 200, json!({"sub": "bob"}));
    assert!(op.renew(json!({})).unwrap().is_none());
    let error = |finished: Result<Option<Renewed>, ConnectorError>| finished.unwrap().unwrap().user.unwrap_err().to_string();
    op.grants(json!({"aud": "other", "groups": ["x"]}));
    assert!(error(op.renew(json!({}))).contains("another client"));
    op.grants_by(&Signer::es256("k1"), json!({"groups": ["x"]}));
    assert!(error(op.renew(json!({}))).contains("signature"));
    op.grants(json!({"groups": ["x"]}));
    assert!(error(op.renew(json!({"signingAlgorithms": ["RS256"]}))).contains("algorithm"));
}

#[test]
fn what_is_believed_without_a_refresh_token_is_configured() {
    let op = Op::start();
    assert_eq!(op.connector(json!({})).renewal.unwrap().believed_seconds(), 43_200);
    assert_eq!(op.connector(json!({"believedSeconds": 600})).renewal.unwrap().believed_seconds(), 600);
    assert!(
        op.connector(json!({"clientId": null, "acceptTokens": true, "issuer": {"url": op.url, "audiences": ["x"]}})).redirect.is_none()
    );
}
