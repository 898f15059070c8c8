//! Kubernetes' own cases of structured authentication, token and all: configuration, issuer, signature, audience, time, mapping.
//!
//! `DENIZEN_KUBERNETES_VECTORS` names a file with one JSON object on a line: `name`, `jwt` (an entry of `apiserver.config.k8s.io/v1`),
//! `token` (or `claims`, a text, and no token where the configuration is to be refused), `jwks`, `algs`, `now` (Unix seconds), and one of
//! `want`, `wantErr`, `wantInitErr`, `wantSkip`. Without the variable a small sample of the same form is run, whose tokens are signed
//! here.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{collections::BTreeMap, path::Path};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::{ConnectorId, MappedUser, Mapping, MappingConfig, Rejection, Subject, UpstreamUser};
use connectors::{
    UnverifiedToken,
    config::{Context, Upstream},
    oidc::{OidcConfig, TokenVerifier},
};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

const VARIABLE: &str = "DENIZEN_KUBERNETES_VECTORS";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    jwt: Value,
    token: Option<String>,
    claims: Option<String>,
    #[serde(default)]
    jwks: Value,
    #[serde(default)]
    algs: Vec<String>,
    #[serde(default)]
    now: i64,
    want: Option<Want>,
    want_err: Option<String>,
    want_init_err: Option<String>,
    #[serde(default)]
    want_skip: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Want {
    name: String,
    #[serde(rename = "UID")]
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

/// What a connector makes of a token.
enum Outcome {
    /// Its configuration is refused.
    NoConnector(String),
    /// It says that the token is not its own.
    NotOurs,
    /// It is its own, and refused.
    Refused(String),
    Mapped(Box<MappedUser>),
}

impl Case {
    fn judge(&self) -> Result<(), String> {
        let wanted = [self.want.is_some(), self.want_err.is_some(), self.want_init_err.is_some(), self.want_skip];
        if wanted.into_iter().filter(|wanted| *wanted).count() != 1 {
            return Err("it must say exactly one of want, wantErr, wantInitErr and wantSkip".to_owned());
        }
        match (self.outcome()?, &self.want) {
            (Outcome::Mapped(user), Some(want)) => compare(want, &user),
            (Outcome::Refused(_), _) if self.want_err.is_some() => Ok(()),
            (Outcome::NoConnector(_), _) if self.want_init_err.is_some() => Ok(()),
            (Outcome::NotOurs, _) if self.want_skip => Ok(()),
            (Outcome::Mapped(user), None) => Err(format!("taken as {:?}, and is not to be", user.username)),
            (Outcome::Refused(why), _) => Err(format!("refused: {why}")),
            (Outcome::NoConnector(why), _) => Err(format!("the configuration is refused: {why}")),
            (Outcome::NotOurs, _) => Err("left to others".to_owned()),
        }
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let (config, mapping) = match self.connector() {
            Ok(connector) => connector,
            Err(why) => return Ok(Outcome::NoConnector(why)),
        };
        let signed = self.signed();
        let (token, jwks) = signed.as_ref().map(|(token, jwks)| (token.as_str(), jwks)).ok_or("the case has neither token nor claims")?;
        let verifier = TokenVerifier::new(&config).map_err(|faults| format!("{faults:?}"))?;
        let token = UnverifiedToken::new(token);
        if !verifier.claims_to_be_ours(token) {
            return Ok(Outcome::NotOurs);
        }
        let keys = verifier.keys(jwks.to_string().as_bytes())?;
        let now = OffsetDateTime::from_unix_timestamp(self.now).map_err(|error| error.to_string())?;
        let claims = match verifier.verify(token, &keys, now) {
            Ok(verified) => verified.claims,
            Err(refusal) => return Ok(Outcome::Refused(refusal.to_string())),
        };
        // Kubernetes has no subject besides the username; Denizen admits nobody without one, after the mapping.
        let subject = Subject::parse(claims.get("sub").and_then(Value::as_str).unwrap_or("someone")).map_err(|error| error.to_string())?;
        Ok(match evaluate(&mapping, &UpstreamUser { subject, claims }) {
            Ok(user) => Outcome::Mapped(Box::new(user)),
            Err(rejection) => Outcome::Refused(rejection.to_string()),
        })
    }

    /// The connector that the entry describes, made as the program makes it.
    fn connector(&self) -> Result<(OidcConfig, Mapping), String> {
        let mut entry = self.jwt.clone();
        let issuer = entry.as_object_mut().ok_or("`jwt` is no object")?.remove("issuer").ok_or("`issuer` is missing")?;
        let mapping: MappingConfig = serde_json::from_value(entry).map_err(|error| error.to_string())?;
        let mapping = Mapping::compile(&mapping).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        // The cases' discovery servers are on the machine that made them; none is asked.
        let mut config = json!({"issuer": issuer, "acceptTokens": true, "allowedNetworks": ["0.0.0.0/0", "::/0"]});
        if !self.algs.is_empty() {
            config["signingAlgorithms"] = self.algs.clone().into();
        }
        let config: OidcConfig = serde_json::from_value(config).map_err(|error| error.to_string())?;
        let context = Context { id: &ConnectorId::parse("upstream").unwrap(), mapping: &mapping, fixed_tenant: true, issuer: None };
        let connector = Upstream::Oidc(Box::new(config.clone())).build(context).map_err(|faults| format!("{faults:?}"))?;
        let port = connector.token.ok_or("the connector takes no tokens")?;
        if let Some((token, _)) = self.signed() {
            let verifier = TokenVerifier::new(&config).map_err(|faults| format!("{faults:?}"))?;
            let token = UnverifiedToken::new(&token);
            assert_eq!(port.claims_to_be_ours(token), verifier.claims_to_be_ours(token), "the port and the verifier agree");
        }
        Ok((config, mapping))
    }

    /// The token and the keys; signed here where the case has claims only.
    fn signed(&self) -> Option<(String, Value)> {
        match (&self.token, &self.claims) {
            (Some(token), _) if !token.is_empty() => Some((token.clone(), self.jwks.clone())),
            (_, Some(claims)) => Some(sign(claims)),
            _ => None,
        }
    }
}

fn evaluate(mapping: &Mapping, user: &UpstreamUser) -> Result<MappedUser, Rejection> {
    let outcome = mapping.evaluate(user);
    // The explanation walks the same way: its last step fails where the mapping does, and no other.
    let steps = mapping.explain(user).steps;
    assert!(steps.iter().rev().skip(1).all(|step| step.gave.is_ok()), "{steps:?}");
    let last = steps.last().expect("the username is always a step");
    assert_eq!(last.gave.as_ref().err(), outcome.as_ref().err().map(ToString::to_string).as_ref());
    outcome
}

/// Signs with a key of this moment.
fn sign(claims: &str) -> (String, Value) {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = pair.public_key().as_ref();
    let jwks = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": B64.encode(&point[1..33]), "y": B64.encode(&point[33..])}]});
    let signed = format!("{}.{}", B64.encode(r#"{"alg":"ES256","kid":"k"}"#), B64.encode(claims));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    (format!("{signed}.{}", B64.encode(signature)), jwks)
}

fn compare(want: &Want, user: &MappedUser) -> Result<(), String> {
    let got = (user.username.as_str(), user.uid.as_str(), &user.groups, &user.extra);
    let groups = want.groups.clone().unwrap_or_default();
    let extra = want.extra.clone().unwrap_or_default();
    let wanted = (want.name.as_str(), want.uid.as_str(), &groups, &extra);
    if got == wanted { Ok(()) } else { Err(format!("gave {got:?}\n      not {wanted:?}")) }
}

/// How many cases hold; or, if any does not, which and why.
fn run(text: &str) -> Result<usize, String> {
    let (mut held, mut failures) = (0, Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Case>(line) {
            Err(error) => failures.push(format!("line {}: {error}", number + 1)),
            Ok(case) => match case.judge() {
                Ok(()) => held += 1,
                Err(failure) => failures.push(format!("line {} ({}): {failure}", number + 1, case.name)),
            },
        }
    }
    if failures.is_empty() { Ok(held) } else { Err(format!("{held} cases hold, {} do not:\n  {}", failures.len(), failures.join("\n  "))) }
}

fn run_file(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{VARIABLE}={}: {error}", path.display()));
    run(&text).unwrap_or_else(|failures| panic!("{}: {failures}", path.display()))
}

#[test]
fn kubernetes_vectors_hold() {
    let Some(path) = std::env::var_os(VARIABLE) else {
        eprintln!("nothing to read: {VARIABLE} is not set; it names the file of Kubernetes' cases. Only the sample is checked.");
        return sample_vectors_hold();
    };
    let held = run_file(Path::new(&path));
    eprintln!("{}: all {held} cases hold", Path::new(&path).display());
    assert!(held > 0, "the file has no case");
}

#[test]
fn sample_vectors_hold() {
    assert_eq!(run(include_str!("sample.jsonl")).unwrap(), 21);
}

#[test]
fn vectors_that_do_not_hold_are_found() {
    let sample = include_str!("sample.jsonl");
    for (number, line) in sample.lines().enumerate() {
        let mut case: Value = serde_json::from_str(line).unwrap();
        let members = case.as_object_mut().unwrap();
        let taken = members.remove("want");
        let wrong = if taken.is_some() { json!("refused") } else { json!({"Name": "ada", "UID": "", "Groups": null, "Extra": null}) };
        for name in ["wantErr", "wantInitErr", "wantSkip"] {
            members.remove(name);
        }
        members.insert(if taken.is_some() { "wantErr" } else { "want" }.to_owned(), wrong);
        let failures = run(&case.to_string()).expect_err(&format!("line {}", number + 1));
        assert!(failures.starts_with("0 cases hold, 1 do not"), "{failures}");
        // Another user than the one that comes out.
        if let Some(mut want) = taken {
            let members = case.as_object_mut().unwrap();
            members.remove("wantErr");
            want["Name"] = "eve".into();
            members.insert("want".to_owned(), want);
            run(&case.to_string()).expect_err(&format!("line {}", number + 1));
        }
    }
    assert!(run("{}").is_err() && run("nonsense").is_err());
}
