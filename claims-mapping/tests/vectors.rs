//! Kubernetes' own cases of structured authentication, as far as they concern configuration and mapping.
//!
//! `DENIZEN_KUBERNETES_VECTORS` names a file with one JSON object on a line: `name`, `jwt` (an entry of `apiserver.config.k8s.io/v1`),
//! `token`, `claims` (a text), `jwks`, `algs`, `now` (Unix seconds), and one of `want`, `wantErr`, `wantInitErr`, `wantSkip`. A case is
//! left to the OpenID Connect connector where its own content says that its token, or the `issuer` part of its entry, is to be refused.
//! Without the variable a small sample of the same form is read.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use claims_mapping::{Claims, MappedUser, Mapping, MappingConfig, Rejection, Subject, UpstreamUser};
use jsonwebtoken::{Algorithm, DecodingKey, jwk::JwkSet};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

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

/// What became of a case.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Held,
    /// It is about the token or the issuer; why.
    NotMapping(&'static str),
}

impl Case {
    fn judge(&self) -> Result<Outcome, String> {
        let compiled = self.compile();
        if self.want_init_err.is_some() {
            return match (compiled, self.issuer_fault()) {
                (Err(_), _) => Ok(Outcome::Held),
                (Ok(_), Some(fault)) => Ok(Outcome::NotMapping(fault)),
                (Ok(_), None) => Err("the configuration was taken".to_owned()),
            };
        }
        let mapping = compiled.map_err(|faults| format!("the configuration was refused: {faults}"))?;
        let payload = self.payload().ok_or("the case has neither `claims` nor a token to read")?;
        if self.want_skip {
            return if self.other_issuer(&payload) {
                Ok(Outcome::NotMapping("issuer"))
            } else {
                Err("nothing says that it is not ours".to_owned())
            };
        }
        let fault = self.token_fault(&payload);
        let outcome = evaluate(&mapping, payload);
        match (&self.want, &self.want_err, fault, outcome) {
            (Some(want), None, None, Ok(user)) => compare(want, &user).map(|()| Outcome::Held),
            (Some(_), None, None, Err(rejection)) => Err(format!("refused: {rejection}")),
            (Some(_), None, Some(fault), _) => Err(format!("the token should be taken, and its {fault} is wrong")),
            (None, Some(_), Some(fault), _) => Ok(Outcome::NotMapping(fault)),
            (None, Some(_), None, Err(_)) => Ok(Outcome::Held),
            (None, Some(error), None, Ok(user)) => Err(format!("taken as {:?}, and should be refused: {error}", user.username)),
            _ => Err("the case must say exactly one of want, wantErr, wantInitErr and wantSkip".to_owned()),
        }
    }

    fn compile(&self) -> Result<Mapping, String> {
        let mut entry = self.jwt.clone();
        entry.as_object_mut().ok_or("`jwt` is no object")?.remove("issuer");
        let config: MappingConfig = serde_json::from_value(entry).map_err(|error| error.to_string())?;
        Mapping::compile(&config).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    fn part(&self, index: usize) -> Option<Value> {
        let part = self.token.as_deref()?.split('.').nth(index)?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    }

    fn payload(&self) -> Option<Value> {
        self.part(1).or_else(|| serde_json::from_str(self.claims.as_deref()?).ok())
    }

    fn issuer(&self, key: &str) -> &str {
        self.jwt["issuer"][key].as_str().unwrap_or_default()
    }

    fn other_issuer(&self, payload: &Value) -> bool {
        payload["iss"].as_str() != Some(self.issuer("url"))
    }

    fn algorithms(&self) -> Vec<&str> {
        if self.algs.is_empty() { vec!["RS256"] } else { self.algs.iter().map(String::as_str).collect() }
    }

    /// What of the `issuer` part, or of the algorithms beside the entry, is to be refused when loaded.
    fn issuer_fault(&self) -> Option<&'static str> {
        let bad_url = |text: &str| {
            !Url::parse(text).is_ok_and(|url| {
                url.scheme() == "https"
                    && url.username().is_empty()
                    && url.password().is_none()
                    && url.query().is_none()
                    && url.fragment().is_none()
            })
        };
        let audiences: Vec<_> = self.jwt["issuer"]["audiences"].as_array().cloned().unwrap_or_default();
        let distinct: BTreeSet<_> = audiences.iter().map(ToString::to_string).collect();
        let discovery = self.issuer("discoveryURL");
        if bad_url(self.issuer("url")) {
            Some("issuer URL")
        } else if !discovery.is_empty()
            && (bad_url(discovery) || discovery.trim_end_matches('/') == self.issuer("url").trim_end_matches('/'))
        {
            Some("discovery URL")
        } else if audiences.is_empty() || distinct.len() < audiences.len() || distinct.contains("\"\"") {
            Some("audiences")
        } else if audiences.len() > 1 && self.issuer("audienceMatchPolicy") != "MatchAny" {
            Some("audience policy")
        } else if self.algorithms().iter().any(|name| name.parse::<Algorithm>().is_err() || name.starts_with("HS")) {
            Some("algorithm")
        } else {
            None
        }
    }

    /// What of the token itself is to be refused, before any mapping.
    fn token_fault(&self, payload: &Value) -> Option<&'static str> {
        let wanted: Vec<_> = self.jwt["issuer"]["audiences"].as_array().cloned().unwrap_or_default();
        let given = match &payload["aud"] {
            Value::Array(given) => given.clone(),
            one => vec![one.clone()],
        };
        if self.other_issuer(payload) {
            Some("issuer")
        } else if !given.iter().any(|audience| wanted.contains(audience)) {
            Some("audience")
        } else if payload["exp"].as_f64().is_none_or(|exp| exp < self.now as f64)
            || payload["nbf"].as_f64().is_some_and(|nbf| nbf > self.now as f64)
        {
            Some("time")
        } else {
            self.token.as_deref().and_then(|token| self.signature_fault(token))
        }
    }

    fn signature_fault(&self, token: &str) -> Option<&'static str> {
        let Some(header) = self.part(0) else { return Some("form") };
        let name = header["alg"].as_str().unwrap_or_default();
        let Some(algorithm) = name.parse::<Algorithm>().ok().filter(|_| self.algorithms().contains(&name)) else {
            return Some("algorithm");
        };
        let Some((signed, signature)) = token.rsplit_once('.') else { return Some("form") };
        let Ok(keys) = serde_json::from_value::<JwkSet>(self.jwks.clone()) else { return Some("key set") };
        let named = |key: &&jsonwebtoken::jwk::Jwk| header["kid"].is_null() || key.common.key_id.as_deref() == header["kid"].as_str();
        let good = keys.keys.iter().filter(named).any(|key| {
            let key = DecodingKey::from_jwk(key);
            key.is_ok_and(|key| jsonwebtoken::crypto::verify(signature, signed.as_bytes(), &key, algorithm).unwrap_or(false))
        });
        if good { None } else { Some("signature") }
    }
}

fn evaluate(mapping: &Mapping, payload: Value) -> Result<MappedUser, Rejection> {
    let subject = Subject::parse(payload["sub"].as_str().unwrap_or("someone")).unwrap();
    let user = UpstreamUser { subject, claims: Claims::new(payload)? };
    let outcome = mapping.evaluate(&user);
    // The explanation walks the same way: its last step fails where the mapping does, and no other.
    let steps = mapping.explain(&user).steps;
    assert!(steps.iter().rev().skip(1).all(|step| step.gave.is_ok()), "{steps:?}");
    let last = steps.last().expect("the username is always a step");
    assert_eq!(last.gave.as_ref().err(), outcome.as_ref().err().map(ToString::to_string).as_ref());
    outcome
}

fn compare(want: &Want, user: &MappedUser) -> Result<(), String> {
    let got = (user.username.as_str(), user.uid.as_str(), &user.groups, &user.extra);
    let groups = want.groups.clone().unwrap_or_default();
    let extra = want.extra.clone().unwrap_or_default();
    let wanted = (want.name.as_str(), want.uid.as_str(), &groups, &extra);
    if got == wanted { Ok(()) } else { Err(format!("gave {got:?}\n      not {wanted:?}")) }
}

/// How many cases hold, and how many are left to others, by reason.
type Counts = (usize, BTreeMap<&'static str, usize>);

fn run(text: &str) -> Result<Counts, String> {
    // The process's own choice of a crypto library; a second test in the same process finds it made.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    let (mut held, mut others, mut failures) = (0, BTreeMap::new(), Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Case>(line) {
            Err(error) => failures.push(format!("line {}: {error}", number + 1)),
            Ok(case) => match case.judge() {
                Ok(Outcome::Held) => held += 1,
                Ok(Outcome::NotMapping(why)) => *others.entry(why).or_insert(0) += 1,
                Err(failure) => failures.push(format!("line {} ({}): {failure}", number + 1, case.name)),
            },
        }
    }
    if failures.is_empty() {
        Ok((held, others))
    } else {
        Err(format!("{held} cases hold, {} do not:\n  {}", failures.len(), failures.join("\n  ")))
    }
}

#[test]
fn kubernetes_vectors_hold() {
    let Some(path) = std::env::var_os(VARIABLE) else {
        eprintln!("nothing to read: {VARIABLE} is not set; it names the file of Kubernetes' cases. Only the sample is checked.");
        return sample_vectors_hold();
    };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{VARIABLE}={}: {error}", path.display()));
    let (held, others) = run(&text).unwrap_or_else(|failures| panic!("{}: {failures}", path.display()));
    eprintln!("{}: {held} cases hold; left to the OpenID Connect connector: {others:?}", path.display());
    assert!(held > 0, "the file has no case that concerns the mapping");
}

#[test]
fn sample_vectors_hold() {
    let (held, others) = run(include_str!("sample.jsonl")).unwrap();
    assert_eq!((held, others.values().sum::<usize>()), (5, 4), "{others:?}");
}

#[test]
fn vectors_that_do_not_hold_are_found() {
    let wrong = include_str!("sample.jsonl").replace("corp-ada", "ada").replace("'x'", "x").replace("\"level\\\":2", "\"level\\\":3");
    let failures = run(&wrong).unwrap_err();
    assert!(failures.starts_with("3 cases hold, 2 do not"), "{failures}");
}
