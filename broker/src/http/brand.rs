//! `/brand/{hash}`: the operator's and the tenants' logos and colours.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::App;

/// A picture that came from an operator's file: it is shown, and may do nothing, also where it is opened by itself.
pub(crate) async fn serve(State(app): State<Arc<App>>, Path(hash): Path<String>) -> Response {
    let Some(picture) = app.looks.picture(&hash) else { return StatusCode::NOT_FOUND.into_response() };
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(picture.media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"),
        ),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ];
    (headers, picture.content.clone()).into_response()
}
