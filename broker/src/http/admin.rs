//! Health and metrics, on the admin listener.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{
    App,
    store::{Kind, Partition},
};

/// The program runs.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The program can serve: its store answers. Upstreams are not asked: one that is down must not take the others' users away.
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Response {
    match app.seams.store.list(&Partition::System, Kind::SigningKey, None, 1, app.seams.clock.now()).await {
        Ok(_) => "ready\n".into_response(),
        Err(error) => {
            tracing::error!(%error, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response()
        }
    }
}

/// The counts, as OpenMetrics text.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], app.metrics.text())
}
