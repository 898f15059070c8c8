//! TokenReviews of Keystone tokens: those that are known against a bare handler under the same layers, and against themselves while
//! others show tokens that Keystone must be asked about and that are good for nothing.
//!
//! Keystone is a stand-in within this process, that answers each question after as long as a real one takes, and counts how many it
//! is asked at once.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use denizen::secret_text::fingerprint;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::{
    Effort,
    broker::{Broker, KUBERNETES, REVIEWER_TOKEN, now},
    figures::{Bound, Figure, Spread, Unit, grouped},
    load::{Load, Requests},
    machine::Cores,
    review::{CONNECTIONS, PATH, ROUTE, Turns, answer, approved, bare, body},
};

/// Good tokens.
const TOKENS: usize = 100;
/// Tokens that are good for nothing; each is shown once.
const INVALID: usize = 60_000;
/// Questions that may be under way at once, and how long Keystone takes for one.
const IN_FLIGHT: usize = 16;
const ANSWERS_AFTER: Duration = Duration::from_millis(20);
/// Connections on which the invalid tokens come: more than there are questions under way, so that some wait for a turn all the time.
const FLOODING: usize = 64;

/// Both measurements.
pub(crate) async fn measure(effort: &Effort, cores: &Cores, home: &Path) -> Result<Vec<Figure>> {
    let keystone = Keystone::start().await?;
    let connector = json!({
        "id": "cloud", "type": "keystone", "operatedBy": "operator", "tenants": "all", "url": format!("http://{}/v3", keystone.address),
        "serviceAccount": {"name": "denizen", "domain": {"id": "default"}, "password": "a password", "scope": {"system": "all"}},
        "userDirectory": false, "groups": false, "acceptTokens": true, "allowedNetworks": ["127.0.0.1"],
        "tokens": {"cacheSeconds": 3600, "refusalSeconds": 3600, "inFlight": IN_FLIGHT},
    });
    let tenants = json!([{"id": "acme", "displayName": "Acme Corporation"}]);
    let reviewer =
        json!({"id": "kubernetes", "bearerToken": REVIEWER_TOKEN, "audiences": [KUBERNETES], "upstreamTokens": [{"connector": "cloud"}]});
    let broker = Broker::start_with(home, &tenants, &json!([connector]), &json!({"reviewers": [reviewer]})).await?;
    let authorization = format!("Bearer {REVIEWER_TOKEN}");
    let requests = Requests { path: PATH, content_type: "application/json", authorization: Some(&authorization) };
    let load = Load { cores, folder: home, connections: CONNECTIONS, seconds: effort.seconds };
    let known = load.file("known", &requests, (0..TOKENS).map(|n| body(&token("good", n))))?;

    let said = answer(broker.address, &authorization, &token("good", 0)).await?;
    let floor = broker.serve_floor(Router::new().route(ROUTE, post(bare(said))))?;
    let mut repeated = Turns::default();
    for round in 0..=effort.rounds {
        let floor = load.round(floor, &known, true).await?;
        let before = approved(&broker);
        let own = load.round(broker.address, &known, true).await?;
        let authenticated = approved(&broker) - before;
        ensure!(authenticated >= own.answers, "of {} reviews only {authenticated} were good", own.answers);
        repeated.push(round, floor, own);
    }
    let asked = keystone.asked();
    ensure!(asked == TOKENS, "Keystone was asked {asked} times about {TOKENS} tokens");
    Ok(vec![
        repeated.figure("TokenReview, repeated Keystone token", 0.6),
        flood(effort, &load, &requests, &known, &broker, &keystone).await?,
    ])
}

/// How long a known token takes while others are shown that are good for nothing, against how long it takes without them.
async fn flood(
    effort: &Effort,
    load: &Load<'_>,
    requests: &Requests<'_>,
    known: &Path,
    broker: &Broker,
    keystone: &Keystone,
) -> Result<Figure> {
    let seconds = effort.seconds * 3;
    let (load, flooding) = (Load { seconds, ..*load }, Load { seconds: seconds + 1, connections: FLOODING, ..*load });
    let part = INVALID / (effort.rounds + 1);
    let (mut ratios, mut quiet, mut flooded, mut rates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=effort.rounds {
        let file = flooding.file("invalid", requests, (round * part..(round + 1) * part).map(|n| body(&token("bad", n))))?;
        let alone = load.round(broker.address, known, true).await?;
        let measured = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            load.round(broker.address, known, true).await
        };
        let (beside, flood) = tokio::join!(measured, flooding.round(broker.address, &file, false));
        let (beside, flood) = (beside?, flood?);
        // The first one only warms both.
        if round > 0 {
            ratios.push(beside.p95_micros / alone.p95_micros);
            quiet.push(alone.p95_micros / 1e3);
            flooded.push(beside.p95_micros / 1e3);
            rates.push(flood.rate);
        }
    }
    let (invalid, most) = (keystone.asked() - TOKENS, keystone.most_at_once.load(Ordering::SeqCst));
    ensure!(most <= IN_FLIGHT, "Keystone was asked {most} questions at once, and {IN_FLIGHT} are configured");
    let [quiet, flooded, rate] = [quiet, flooded, rates].map(|rounds| Spread::new(rounds).median());
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let detail = format!(
        "95th of a hundred {flooded:.2} ms, without the others {quiet:.2} ms; {} invalid Fernet-like tokens came at {}/s, and Keystone was asked {most} \
         questions at once at most, of {IN_FLIGHT} configured",
        grouped(invalid as f64),
        grouped(rate)
    );
    let name = "Known Keystone tokens in a flood, p95";
    Ok(Figure { name, unit: Unit::Ratio, spread: Spread::new(ratios), bound: Bound::AtMost(1.5), detail })
}

/// A text that has the form of a Fernet token: version, time, vector, six blocks, signature.
fn token(kind: &str, number: usize) -> String {
    let mut bytes = vec![0x80];
    bytes.extend(1_700_000_000_u64.to_be_bytes());
    let rest = (0..4).flat_map(|part| fingerprint(&format!("{kind} {number} {part}")).into_bytes());
    bytes.extend(rest.take(16 + 6 * 16 + 32));
    B64.encode(bytes)
}

/// The stand-in.
struct Keystone {
    address: SocketAddr,
    state: Arc<Asked>,
}

impl std::ops::Deref for Keystone {
    type Target = Asked;
    fn deref(&self) -> &Asked {
        &self.state
    }
}

#[derive(Default)]
struct Asked {
    questions: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    good: std::sync::OnceLock<std::collections::HashMap<String, usize>>,
}

impl Asked {
    fn asked(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }
}

impl Keystone {
    async fn start() -> Result<Self> {
        let state = Arc::new(Asked::default());
        _ = state.good.set((0..TOKENS).map(|n| (token("good", n), n)).collect());
        let routes = Router::new().route("/v3/auth/tokens", get(validated).post(issued)).with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr().context("it listens")?;
        // It ends with the process.
        drop(tokio::spawn(async move { axum::serve(listener, routes).await }));
        Ok(Self { address, state })
    }
}

async fn issued() -> Response {
    (StatusCode::CREATED, [("x-subject-token", token("service", 0))], Json(said(usize::MAX))).into_response()
}

async fn validated(State(state): State<Arc<Asked>>, headers: HeaderMap) -> Response {
    state.questions.fetch_add(1, Ordering::SeqCst);
    state.most_at_once.fetch_max(state.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tokio::time::sleep(ANSWERS_AFTER).await;
    state.at_once.fetch_sub(1, Ordering::SeqCst);
    let shown = headers.get("x-subject-token").and_then(|token| token.to_str().ok()).unwrap_or_default();
    match state.good.get().and_then(|good| good.get(shown)) {
        Some(number) => Json(said(*number)).into_response(),
        None => {
            (StatusCode::NOT_FOUND, Json(json!({"error": {"code": 404, "title": "Not Found", "message": "no such token"}}))).into_response()
        }
    }
}

/// What Keystone says of a token with the scope of a project.
fn said(number: usize) -> Value {
    let time = |time: time::OffsetDateTime| time.format(&Rfc3339).unwrap_or_default();
    let domain = json!({"id": "acme", "name": "acme"});
    json!({"token": {
        "methods": ["password"], "audit_ids": [fingerprint(&number.to_string())],
        "issued_at": time(now()), "expires_at": time(now() + time::Duration::HOUR),
        "user": {"id": fingerprint(&format!("user {number}")), "name": format!("user{number:03}"), "domain": domain, "password_expires_at": null},
        "project": {"id": fingerprint("project"), "name": "apollo", "domain": domain},
        "roles": [{"id": fingerprint("member"), "name": "member"}, {"id": fingerprint("reader"), "name": "reader"}],
        "is_domain": false,
    }})
}
