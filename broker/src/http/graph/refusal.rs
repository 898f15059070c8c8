//! Refusals in Graph's form, also those that stand before the handlers: what another door would have said, said so that clients of Graph read it.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::Response,
};
use serde_json::json;
use time::format_description::well_known::Rfc3339;
use tower_http::request_id::RequestId;

use super::super::failure::Failure;
use crate::App;

/// Renders every [`Failure`] that comes out of these routes anew.
pub(crate) async fn in_its_form(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok()).unwrap_or_default().to_owned();
    let mut response = next.run(request).await;
    let Some(failure) = response.extensions_mut().remove::<Failure>() else { return response };
    let date = app.seams.clock.now().replace_nanosecond(0).ok().and_then(|now| now.format(&Rfc3339).ok()).unwrap_or_default();
    let body = json!({"error": {
        "code": code(failure.status), "message": failure.description, "innererror": {"date": date, "request-id": id},
    }});
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body.to_string()))
}

/// The word that Graph has for a status.
fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "unauthenticated",
        StatusCode::FORBIDDEN => "accessDenied",
        StatusCode::NOT_FOUND => "itemNotFound",
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => "notSupported",
        StatusCode::SERVICE_UNAVAILABLE => "serviceNotAvailable",
        status if status.is_client_error() => "invalidRequest",
        _ => "generalException",
    }
}
