//! What stands around every door: request ids, logs, counts, deadlines, bounds.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
    timeout::TimeoutLayer,
};
use tower_sessions::{SessionManagerLayer, cookie::SameSite};
use tracing::Instrument as _;

use super::{
    MOST_BODY_BYTES,
    browser::{cookie_name, is_https},
    failure::Failure,
    instead::shown,
};
use crate::{App, login::BrowserStore, metrics::Door};

/// tower-sessions over our store. SameSite is Lax: an upstream's answer comes from another site.
pub(crate) fn browser_sessions(app: &App) -> SessionManagerLayer<BrowserStore> {
    let store = BrowserStore::new(Arc::clone(&app.seams.store), Arc::clone(&app.seams.clock));
    SessionManagerLayer::new(store)
        .with_name(cookie_name(app, "denizen"))
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_secure(is_https(app))
        .with_path("/")
}

/// On an answer: a door gave it, and not tower-sessions in its stead.
#[derive(Debug, Clone, Copy)]
struct Answered;

/// Marks what a door answers.
pub(crate) async fn answered(mut response: Response) -> Response {
    response.extensions_mut().insert(Answered);
    response
}

/// tower-sessions itself answers 500 where a session could not be kept. The store is away then: a try again may do.
pub(crate) async fn session_not_kept(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let is_a_door = response.extensions().get::<Answered>().is_some();
    if is_a_door || response.status() != StatusCode::INTERNAL_SERVER_ERROR {
        return response;
    }
    shown(&app, Err(Failure::unavailable().into()))
}

/// The layers around every public door.
pub(crate) fn around(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    let id = HeaderName::from_static("x-request-id");
    routes.layer(
        ServiceBuilder::new()
            .layer(SetRequestIdLayer::new(id.clone(), MakeRequestUuid))
            .layer(PropagateRequestIdLayer::new(id))
            .layer(from_fn_with_state(Arc::clone(app), observe))
            .layer(CatchPanicLayer::new())
            .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(30)))
            .layer(DefaultBodyLimit::max(MOST_BODY_BYTES)),
    )
}

/// One span and one count for each request. The span names the route and never the address: a query holds codes and states.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begun = app.seams.clock.now();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok()).unwrap_or_default();
    let span = tracing::info_span!("request", http.route = route, http.method = %request.method(), request.id = id);
    let mut response = next.run(request).instrument(span).await;
    app.metrics.requests.get_or_create(&Door { route, status: response.status().as_u16() }).inc();
    app.metrics.seconds.observe((app.seams.clock.now() - begun).as_seconds_f64());
    if is_https(&app) {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

/// A path that is no door: a page for people, JSON for programs.
pub(crate) async fn nothing_here(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let failure = Failure::new(StatusCode::NOT_FOUND, "not_found", "there is no such path");
    let reads_html = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).is_some_and(|accept| accept.contains("text/html"));
    if reads_html { shown(&app, Err(failure.into())) } else { failure.into_response() }
}

/// A door that is asked in a way that it does not know.
pub(crate) async fn wrong_method() -> Response {
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", "this path does not take that method").into_response()
}
