//! Which scripts may call which doors: those of the origins that clients declare, and the doors that need no cookie. The
//! authorization endpoint and the pages are never among them (RFC 9700, 2.6).

use std::{collections::BTreeSet, time::Duration};

use axum::http::{HeaderName, HeaderValue, Method, header, request::Parts};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::App;

/// The layer for the doors that scripts may call.
pub(crate) fn of_clients(app: &App) -> CorsLayer {
    let origins: BTreeSet<String> = app.config.clients.iter().flat_map(|c| c.origins.iter().cloned()).collect();
    let known = move |origin: &HeaderValue, _: &Parts| origin.to_str().is_ok_and(|o| origins.contains(o));
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(known))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([header::WWW_AUTHENTICATE, HeaderName::from_static("x-request-id")])
        .max_age(Duration::from_secs(600))
}
