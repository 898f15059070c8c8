//! A provider on this machine, for unit tests: it answers what it is told to, counts what it is asked, and signs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use aws_lc_rs::{
    encoding::AsDer as _,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::{ConnectorId, Mapping, MappingConfig};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::Url;

use super::OidcConfig;
use crate::{Connector, config::Context};

pub(crate) const NOW: i64 = 1_800_000_000;

pub(crate) fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(NOW + seconds).unwrap()
}

/// What is answered at a path.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Status, further header lines, body.
    Plain(u16, &'static str, String),
    /// More than anyone reads, with no length said.
    Endless,
    /// Nothing.
    Silent,
}

impl Answer {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Plain(200, "Content-Type: application/json\r\n", value.to_string())
    }
}

type Answers = Arc<Mutex<HashMap<String, Answer>>>;
type Counts = Arc<Mutex<BTreeMap<String, u32>>>;

/// The provider.
pub(crate) struct StandIn {
    pub(crate) issuer: String,
    answers: Answers,
    counts: Counts,
}

impl StandIn {
    /// Starts one that has a discovery document and these keys.
    pub(crate) async fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (answers, counts) = (Answers::default(), Counts::default());
        let (served, counted) = (Arc::clone(&answers), Arc::clone(&counts));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served), Arc::clone(&counted)));
            }
        });
        let provider = Self { issuer, answers, counts };
        provider.answer("/.well-known/openid-configuration", Answer::json(&provider.document()));
        provider.answer("/keys", Answer::json(&jwks(keys)));
        provider
    }

    pub(crate) fn document(&self) -> Value {
        let issuer = &self.issuer;
        json!({
            "issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"), "userinfo_endpoint": format!("{issuer}/me"),
            "authorization_response_iss_parameter_supported": true,
        })
    }

    pub(crate) fn answer(&self, path: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// From now on every path answers 503.
    pub(crate) fn stop(&self) {
        for answer in self.answers.lock().unwrap().values_mut() {
            *answer = Answer::Plain(503, "", String::new());
        }
    }

    /// How often a path was asked for.
    pub(crate) fn count(&self, path: &str) -> u32 {
        self.counts.lock().unwrap().get(path).copied().unwrap_or_default()
    }

    /// A connector for this provider: accepts tokens, is the client `denizen`.
    pub(crate) fn config(&self) -> OidcConfig {
        config(json!({
            "issuer": {"url": self.issuer}, "clientId": "denizen", "acceptTokens": true, "signingAlgorithms": ["ES256"],
            "allowedNetworks": ["127.0.0.1"],
        }))
    }

    pub(crate) fn connector(&self) -> Connector {
        build(&self.config()).unwrap()
    }
}

pub(crate) fn config(value: Value) -> OidcConfig {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn build(config: &OidcConfig) -> Result<Connector, Vec<(String, String)>> {
    let mapping = MappingConfig { claim_mappings: super::default_mapping().claim_mappings, ..MappingConfig::default() };
    let mapping = Mapping::compile(&mapping).unwrap();
    let issuer = Url::parse("https://denizen.example").unwrap();
    let id = ConnectorId::parse("sso").unwrap();
    super::build(config, Context { id: &id, mapping: &mapping, fixed_tenant: true, issuer: Some(&issuer) })
}

async fn serve(mut stream: TcpStream, answers: Answers, counts: Counts) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut request).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    // Closing with something unread would take the answer away again.
    let mut rest = vec![0; length.unwrap_or(0_usize).saturating_sub(body.len())];
    if stream.read_exact(&mut rest).await.is_err() {
        return;
    }
    let path = request.split([' ', '?']).nth(1).unwrap().to_owned();
    *counts.lock().unwrap().entry(path.clone()).or_default() += 1;
    let answer = answers.lock().unwrap().get(&path).cloned().unwrap_or(Answer::Plain(404, "", r#"{"error": {"code": 404}}"#.to_owned()));
    // Whoever asked may be gone.
    let _ = match answer {
        Answer::Plain(status, headers, body) => {
            let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await
        }
        Answer::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n").await;
            while stream.write_all(&[b' '; 65_536]).await.is_ok() {}
            Ok(())
        }
        Answer::Silent => std::future::pending().await,
    };
}

enum Pair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

/// A key of a provider's.
pub(crate) struct Signer {
    kid: Option<&'static str>,
    pair: Pair,
}

impl Signer {
    pub(crate) fn es256(kid: &'static str) -> Self {
        Self { kid: Some(kid), pair: Pair::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()) }
    }

    pub(crate) fn rs256(kid: &'static str) -> Self {
        Self { kid: Some(kid), pair: Pair::Rs256(RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap()) }
    }

    pub(crate) fn without_kid(self) -> Self {
        Self { kid: None, ..self }
    }

    pub(crate) fn alg(&self) -> &'static str {
        match self.pair {
            Pair::Es256(_) => "ES256",
            Pair::Rs256(_) => "RS256",
        }
    }

    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Es256(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "use": "sig", "x": B64.encode(&point[1..33]), "y": B64.encode(&point[33..])})
            }
            Pair::Rs256(pair) => {
                let (n, e) = (pair.public_key().modulus(), pair.public_key().exponent());
                let text = |number: aws_lc_rs::rsa::PublicKeyComponents<Vec<u8>>| (B64.encode(number.n), B64.encode(number.e));
                let (n, e) = text(aws_lc_rs::rsa::PublicKeyComponents {
                    n: n.big_endian_without_leading_zero().to_vec(),
                    e: e.big_endian_without_leading_zero().to_vec(),
                });
                json!({"kty": "RSA", "n": n, "e": e})
            }
        };
        if let Some(kid) = self.kid {
            jwk["kid"] = kid.into();
        }
        jwk
    }

    /// The public key as a file would hold it: what a confused verifier takes for a shared secret.
    pub(crate) fn public_der(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Es256(pair) => pair.public_key().as_der().map(|der| der.as_ref().to_vec()).unwrap(),
            Pair::Rs256(pair) => pair.public_key().as_der().map(|der| der.as_ref().to_vec()).unwrap(),
        }
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({}), claims)
    }

    /// A token whose header has these members besides, or in place of, the usual ones; null takes one out.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let mut whole = json!({"alg": self.alg(), "kid": self.kid});
        for (name, value) in header.as_object().unwrap() {
            whole[name] = value.clone();
        }
        whole.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let signed = format!("{}.{}", B64.encode(whole.to_string()), B64.encode(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Es256(pair) => pair.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{signed}.{}", B64.encode(signature))
    }
}

pub(crate) fn jwks(keys: &[&Signer]) -> Value {
    json!({"keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>()})
}
