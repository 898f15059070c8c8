//! TokenReviews against a bare handler under the same layers, that answers the same bytes.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use axum::{
    Router,
    body::Bytes,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use denizen::metrics::Ended;
use serde_json::{Value, json};

use super::{
    Effort,
    broker::{Broker, KUBERNETES, Person, REVIEWER_TOKEN},
    figures::{Bound, Figure, Spread, Unit, grouped},
    load::{Load, Requests, Round},
    machine::Cores,
};

pub(crate) const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
pub(crate) const ROUTE: &str = "/apis/authentication.k8s.io/{version}/tokenreviews";
pub(crate) const CONNECTIONS: usize = 32;

pub(crate) fn body(token: &str) -> String {
    json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {"creationTimestamp": null},
        "spec": {"token": token, "audiences": [KUBERNETES]}, "status": {"user": {}},
    })
    .to_string()
}

/// Both measurements, in rounds that take turns.
pub(crate) async fn measure(effort: &Effort, cores: &Cores, folder: &Path, broker: &Broker, people: &[Person]) -> Result<Vec<Figure>> {
    let authorization = format!("Bearer {REVIEWER_TOKEN}");
    let requests = Requests { path: PATH, content_type: "application/json", authorization: Some(&authorization) };
    let load = Load { cores, folder, connections: CONNECTIONS, seconds: effort.seconds };
    let first = people.first().context("someone has signed in")?;
    let answer = answer(broker.address, &authorization, &first.token).await?;
    let bare = broker.serve_floor(Router::new().route(ROUTE, post(bare(answer.clone()))))?;
    let checking = broker.serve_floor(Router::new().route(ROUTE, post(checking(answer, public_key(broker)?))))?;

    let known = load.file("known", &requests, people.iter().map(|person| body(&person.token)))?;
    let mut repeated = Turns::default();
    for round in 0..=effort.rounds {
        let floor = load.round(bare, &known, true).await?;
        let before = approved(broker);
        let own = load.round(broker.address, &known, true).await?;
        let authenticated = approved(broker) - before;
        ensure!(authenticated >= own.answers, "of {} reviews only {authenticated} were good", own.answers);
        repeated.push(round, floor, own);
    }
    let mut fresh = Turns::default();
    // More than a round takes: each is sent once.
    let mut most: f64 = 15_000.0;
    for round in 0..=effort.rounds {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let many = (most * effort.seconds as f64) as usize;
        let bodies = (0..many).zip(people.iter().cycle()).map(|(_, person)| broker.new_token(person).map(|token| body(&token)));
        let file = load.file("new", &requests, bodies.collect::<Result<Vec<_>>>()?)?;
        let floor = load.round(checking, &file, true).await?;
        let before = approved(broker);
        let own = load.round(broker.address, &file, false).await?;
        let authenticated = approved(broker) - before;
        ensure!(authenticated >= own.answers, "of {} reviews only {authenticated} were good", own.answers);
        most = most.max(own.rate * 2.0);
        fresh.push(round, floor, own);
    }
    Ok(vec![repeated.figure("TokenReview, repeated own token", 0.6), fresh.figure("TokenReview, new tokens", 0.7)])
}

/// What both sides did, round for round.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    floor: Vec<Round>,
    own: Vec<Round>,
}

impl Turns {
    /// Takes a round up; the first one only warms both sides.
    pub(crate) fn push(&mut self, round: usize, floor: Round, own: Round) {
        if round > 0 {
            self.floor.push(floor);
            self.own.push(own);
        }
    }
    /// The ratio of the rates.
    pub(crate) fn figure(&self, name: &'static str, bound: f64) -> Figure {
        let of = |rounds: &[Round], f: fn(&Round) -> f64| Spread::new(rounds.iter().map(f).collect()).median();
        let ratios = self.floor.iter().zip(&self.own).map(|(floor, own)| own.rate / floor.rate).collect();
        let detail = format!(
            "Denizen {}/s, floor {}/s; processor time for each: {:.1} µs, floor {:.1} µs",
            grouped(of(&self.own, |r| r.rate)),
            grouped(of(&self.floor, |r| r.rate)),
            of(&self.own, |r| r.cpu_micros),
            of(&self.floor, |r| r.cpu_micros),
        );
        Figure { name, unit: Unit::Ratio, spread: Spread::new(ratios), bound: Bound::AtLeast(bound), detail }
    }
}

/// The answer to one review, which must be a good one.
pub(crate) async fn answer(to: SocketAddr, authorization: &str, token: &str) -> Result<Bytes> {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    let request = client.post(format!("http://{to}{PATH}")).header(header::AUTHORIZATION, authorization);
    let answer =
        request.header(header::CONTENT_TYPE, "application/json").body(body(token)).send().await?.error_for_status()?.bytes().await?;
    let told: Value = serde_json::from_slice(&answer)?;
    ensure!(told.pointer("/status/authenticated") == Some(&json!(true)), "the review of a good token was answered {told}");
    Ok(answer)
}

pub(crate) fn approved(broker: &Broker) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = broker.app.metrics.reviews.get_or_create(&Ended { outcome: "ok" }).get() as f64;
    count
}

fn public_key(broker: &Broker) -> Result<Vec<u8>> {
    let keys = serde_json::to_value(broker.app.keys.jwks())?;
    let part = |name: &str| -> Result<Vec<u8>> {
        let text = keys.pointer(&format!("/keys/0/{name}")).and_then(Value::as_str).context("the key is one of P-256")?;
        Ok(B64.decode(text)?)
    };
    // An uncompressed point (SEC 1, 2.3.3).
    Ok([vec![4], part("x")?, part("y")?].concat())
}

fn said(answer: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], answer).into_response()
}

pub(crate) fn bare(answer: Bytes) -> impl Fn(Bytes) -> std::future::Ready<Response> + Clone + Send + Sync + 'static {
    move |_body| std::future::ready(said(answer.clone()))
}

fn checking(answer: Bytes, key: Vec<u8>) -> impl Fn(Bytes) -> std::future::Ready<Response> + Clone + Send + Sync + 'static {
    let key = Arc::new(UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key));
    move |body| {
        let good = token(&body).and_then(|token| {
            let (message, signature) = token.rsplit_once('.')?;
            key.verify(message.as_bytes(), &B64.decode(signature).ok()?).ok()
        });
        std::future::ready(if good.is_some() { said(answer.clone()) } else { StatusCode::BAD_REQUEST.into_response() })
    }
}

/// The token of a review, without reading the JSON around it.
fn token(body: &Bytes) -> Option<&str> {
    let (_, rest) = std::str::from_utf8(body).ok()?.split_once(r#""token":""#)?;
    Some(rest.split_once('"')?.0)
}
