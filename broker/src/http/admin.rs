//! Health, metrics, and what was refused, on the admin listener.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::failure::{Failure, for_the_caller};
use crate::{App, readiness};

/// The program runs.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The program can serve, as `readiness.rs` says.
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Response {
    match readiness::ready(&*app.seams.store, app.seams.clock.now()).await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => {
            tracing::error!(%error, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "the store takes no writes\n").into_response()
        }
    }
}

/// The counts, as OpenMetrics text.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], app.metrics.text())
}

/// What was refused under a number.
pub(crate) async fn refusal(State(app): State<Arc<App>>, Path(reference): Path<String>) -> Response {
    match app.refusals.find(&reference, app.seams.clock.now()).await {
        Ok(Some(refusal)) => for_the_caller(refusal),
        Ok(None) => Failure::new(StatusCode::NOT_FOUND, "not_found", "nothing is kept under this number, or no longer").into_response(),
        Err(error) => {
            tracing::error!(%error, "a refusal could not be read");
            Failure::unavailable().into_response()
        }
    }
}
