//! `POST /apis/authentication.k8s.io/{version}/tokenreviews`: the API server's own path and form, so that kube-apiserver's
//! webhook and client-go work against Denizen as they are.
//!
//! A refusal is 200 with `authenticated: false` and no `error`: the API server caches that, and does not cache an error. What
//! could not be told is a plain 503 without `Retry-After`, which it does not repeat.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, Path, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::caller::{Peer, bearer};
use crate::{
    App,
    metrics::Metrics,
    review::{Extra, Good, Presented, Refused, Request as Asking, Reviewed, Reviewer, ReviewerError, Said},
    tokens::UnverifiedToken,
};

/// What is read of a review; everything else in it is left alone, as the API server leaves it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    spec: Option<Spec>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    token: String,
    #[serde(default)]
    audiences: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    kind: &'static str,
    api_version: &'a str,
    metadata: Metadata,
    status: Status<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<()>,
}

#[derive(Serialize)]
struct Status<'a> {
    authenticated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<User<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    audiences: &'a [String],
}

#[derive(Serialize)]
struct User<'a> {
    username: &'a str,
    uid: uuid::Uuid,
    groups: &'a [String],
    extra: &'a Extra,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
}

/// A request that can not be answered, as the API server's own `Status`.
struct NotReviewed(StatusCode, &'static str, String);

impl IntoResponse for NotReviewed {
    fn into_response(self) -> Response {
        let Self(status, reason, message) = self;
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status.as_u16(),
        });
        (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
    }
}

fn bad(message: impl Into<String>) -> NotReviewed {
    NotReviewed(StatusCode::BAD_REQUEST, "BadRequest", message.into())
}

fn could_not_tell() -> NotReviewed {
    NotReviewed(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "it could not be told just now".to_owned())
}

pub(crate) async fn review(State(app): State<Arc<App>>, Path(version): Path<String>, peer: Peer, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let reviewer = match reviewer(&app, &parts.headers, &peer).await {
        Ok(reviewer) => reviewer,
        Err(refused) => return refused.into_response(),
    };
    let body = match read(&version, Request::from_parts(parts, body)).await {
        Ok(body) => body,
        Err(refused) => return refused.into_response(),
    };
    let asking = Asking::new(reviewer, &version, &body);
    if let Some(said) = app.review.again(asking, app.seams.clock.now()) {
        approved(&app, reviewer, &said.tenant.id, said.user);
        return json_of(said.answer.clone());
    }
    match parse(&version, &body) {
        Ok(asked) => answer(&app, reviewer, &asked, asking).await,
        Err(refused) => refused.into_response(),
    }
}

async fn reviewer<'a>(app: &'a App, headers: &HeaderMap, peer: &Peer) -> Result<&'a Reviewer, NotReviewed> {
    let sends_credential = headers.contains_key(header::AUTHORIZATION);
    let presented =
        Presented { bearer: bearer(headers), certificate_names: &peer.certificate_names, is_local: peer.is_local && !sends_credential };
    app.reviewers.find(&presented, &app.judge, app.seams.clock.now()).await.map_err(|error| match error {
        ReviewerError::Unauthenticated => {
            tracing::warn!(target: "audit", event = "review.unauthenticated", client.address = %peer.address);
            NotReviewed(
                StatusCode::UNAUTHORIZED,
                "Unauthorized",
                "only configured reviewers may ask: show the credential of one".to_owned(),
            )
        }
        ReviewerError::CouldNotTell(_) => could_not_tell(),
    })
}

async fn read(version: &str, request: Request) -> Result<Bytes, NotReviewed> {
    if !matches!(version, "v1" | "v1beta1") {
        return Err(NotReviewed(StatusCode::NOT_FOUND, "NotFound", "there are v1 and v1beta1".to_owned()));
    }
    Bytes::from_request(request, &()).await.map_err(|rejection| match rejection.status() {
        status @ StatusCode::PAYLOAD_TOO_LARGE => {
            NotReviewed(status, "RequestEntityTooLarge", format!("the body is larger than {} bytes", super::MOST_BODY_BYTES))
        }
        _ => bad("the body could not be read"),
    })
}

fn parse(version: &str, body: &[u8]) -> Result<Asked, NotReviewed> {
    // The parser's own message quotes nothing but its place: the body holds a token.
    let asked: Asked = serde_json::from_slice(body)
        .map_err(|e| bad(format!("the body is not a TokenReview in JSON (line {}, column {})", e.line(), e.column())))?;
    if asked.kind != "TokenReview" {
        return Err(bad("`kind` must be TokenReview"));
    }
    if asked.api_version.strip_prefix("authentication.k8s.io/") != Some(version) {
        return Err(bad(format!("`apiVersion` must be authentication.k8s.io/{version} on this path")));
    }
    if asked.spec.as_ref().is_none_or(|spec| spec.token.is_empty()) {
        return Err(bad("`spec.token` is missing"));
    }
    Ok(asked)
}

async fn answer(app: &App, reviewer: &Reviewer, asked: &Asked, asking: Asking) -> Response {
    let Some(spec) = &asked.spec else { return bad("`spec` is missing").into_response() };
    let audiences = spec.audiences.as_deref().unwrap_or_default();
    let result = app.review.review(reviewer, UnverifiedToken::new(&spec.token), audiences, app.seams.clock.now()).await;
    match result {
        Ok(Good { reviewed, tenant, ground }) => {
            approved(app, reviewer, &tenant.id, reviewed.uid);
            let answer = good(&asked.api_version, &reviewed, !audiences.is_empty());
            app.review.remember(asking, Said { tenant, user: reviewed.uid, answer: answer.clone(), ground });
            json_of(answer)
        }
        Err((Refused::CouldNotTell(error), _)) => {
            Metrics::ended(&app.metrics.reviews, "unavailable");
            if error.is_told_once() {
                tracing::debug!(%error, "a token could not be reviewed");
            } else {
                tracing::error!(%error, "a token could not be reviewed");
            }
            could_not_tell().into_response()
        }
        Err((refused, tenant)) => {
            Metrics::ended(&app.metrics.reviews, "refused");
            let tenant = tenant.as_ref().map(claims_mapping::TenantId::as_str);
            tracing::info!(target: "audit", event = "review.refused", reviewer.id = reviewer.id, tenant.id = tenant, reason = %refused);
            let status = Status { authenticated: false, user: None, audiences: &[] };
            json_of(wrap(&asked.api_version, status))
        }
    }
}

/// Counts and tells a good answer.
fn approved(app: &App, reviewer: &Reviewer, tenant: &claims_mapping::TenantId, user: uuid::Uuid) {
    Metrics::ended(&app.metrics.reviews, "ok");
    tracing::info!(target: "audit", event = "review", reviewer.id = reviewer.id, tenant.id = %tenant, user.id = %user);
}

fn good(api_version: &str, reviewed: &Reviewed, named_audiences: bool) -> Vec<u8> {
    let user = User {
        username: &reviewed.username,
        uid: reviewed.uid,
        groups: &reviewed.groups,
        extra: &reviewed.extra,
        tenant: reviewed.tenant.as_ref().map(claims_mapping::TenantLabel::as_str),
    };
    let audiences = if named_audiences { reviewed.audiences.as_slice() } else { &[] };
    wrap(api_version, Status { authenticated: true, user: Some(user), audiences })
}

/// The version is the request's own: the API server knows no other in its answer.
fn wrap(api_version: &str, status: Status<'_>) -> Vec<u8> {
    let answer = Answer { kind: "TokenReview", api_version, metadata: Metadata { creation_timestamp: None }, status };
    // Texts and lists of them: there is nothing in it that JSON could not say.
    serde_json::to_vec(&answer).unwrap_or_default()
}

fn json_of(answer: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], answer).into_response()
}
