//! The front doors. This file is THE route table; each module below extracts, calls one use case, and renders.

pub(crate) mod account;
pub(crate) mod admin;
pub(crate) mod assets;
pub(crate) mod authorize;
pub(crate) mod brand;
pub(crate) mod browser;
pub(crate) mod callback;
pub(crate) mod caller;
pub(crate) mod cors;
pub(crate) mod credential;
pub(crate) mod demo;
pub(crate) mod entering;
pub(crate) mod failure;
pub(crate) mod graph;
pub(crate) mod hosts;
pub(crate) mod instead;
pub(crate) mod keystone;
pub(crate) mod layers;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod metadata;
pub(crate) mod pages;
pub(crate) mod parameters;
pub(crate) mod password;
pub(crate) mod patience;
pub(crate) mod reindex;
pub mod server;
pub(crate) mod shares;
pub(crate) mod token;
pub(crate) mod token_review;
pub(crate) mod upstream_logout;
pub(crate) mod userinfo;
pub(crate) mod users;
pub(crate) mod way;

use std::sync::Arc;

use axum::{
    Router,
    middleware::{from_fn_with_state, map_response},
    routing::{any, delete, get, post},
};

use crate::App;

/// The largest body that any door takes, in bytes.
pub const MOST_BODY_BYTES: usize = 256 * 1024;

/// The doors for applications, browsers and reviewers.
pub fn public(app: &Arc<App>, demo: Option<demo::Walk>) -> Router {
    let browsers = Router::new()
        .route("/", get(account::home))
        .route("/oauth2/authorize", get(authorize::authorize).post(authorize::authorize_by_form))
        .route("/oauth2/logout", get(logout::logout).post(logout::logout_by_form))
        .route("/login", get(login::choose).post(login::find))
        .route("/login/{connector}", get(login::begin).post(password::submit))
        .route("/login/{connector}/callback", get(callback::callback))
        .route("/login/{connector}/credential", get(credential::form).post(credential::submit))
        .route("/account", get(account::show).post(account::sign_out))
        .layer(map_response(layers::answered))
        .layer(layers::browser_sessions(app))
        .layer(from_fn_with_state(Arc::clone(app), layers::session_not_kept));
    let browsers = hosts::sent_on(browsers, app);
    let scripts = Router::new()
        .route("/.well-known/openid-configuration", get(metadata::openid))
        .route("/.well-known/oauth-authorization-server", get(metadata::openid))
        .route("/oauth2/jwks", get(metadata::jwks))
        .route("/oauth2/token", post(token::token))
        .route("/oauth2/revoke", post(token::revoke))
        .route("/oauth2/userinfo", get(userinfo::userinfo).post(userinfo::userinfo))
        .route("/api/v1/me", get(users::me))
        .route("/api/v1/users", get(users::search))
        .route("/api/v1/users/{id}", get(users::one))
        .route("/api/v1/tenants/{tenant}/users", get(users::search))
        .route("/api/v1/tenants/{tenant}/users/{id}", get(users::one))
        .route("/api/v1/shares:check", post(shares::check))
        .route("/api/v1/tenants/{tenant}/shares:check", post(shares::check))
        // Within the layer: a browser asks by `OPTIONS`, a method of none of them, and the layer answers it.
        .method_not_allowed_fallback(layers::wrong_method)
        .layer(cors::of_clients(app));
    let graph = Router::new()
        .route("/graph/v1.0/me", get(graph::me))
        .route("/graph/v1.0/users", get(graph::users))
        .route("/graph/v1.0/users/{id}", get(graph::user))
        .route("/graph/{*rest}", any(graph::nothing_here))
        .method_not_allowed_fallback(layers::wrong_method)
        .layer(from_fn_with_state(Arc::clone(app), graph::in_its_form))
        .layer(cors::of_clients(app));
    let others = Router::new()
        .route("/login/{connector}/backchannel-logout", post(upstream_logout::told))
        .route("/keystone/{connector}/v3/auth/tokens", delete(keystone::take_back))
        .route("/apis/authentication.k8s.io/{version}/tokenreviews", post(token_review::review))
        .route(assets::ROUTE, get(assets::serve))
        .route("/brand/{hash}", get(brand::serve));
    let routes =
        browsers.merge(scripts).merge(graph).merge(others).fallback(layers::nothing_here).method_not_allowed_fallback(layers::wrong_method);
    let routes = demo.map(demo::routes).into_iter().fold(routes, Router::merge);
    layers::around(routes, app).with_state(Arc::clone(app))
}

/// The layers of every public door around other routes: the benchmarks' floor stands under the same ones.
#[doc(hidden)]
pub fn with_layers(routes: Router<Arc<App>>, app: &Arc<App>) -> Router {
    layers::around(routes, app).with_state(Arc::clone(app))
}

/// The doors for the machine's own operators, on a listener of their own.
pub fn admin(app: &Arc<App>) -> Router {
    let routes = Router::new()
        .route("/healthz", get(admin::healthz))
        .route("/readyz", get(admin::readyz))
        .route("/metrics", get(admin::metrics))
        .route("/refusals/{reference}", get(admin::refusal))
        .route("/v1/directory:reindex", post(reindex::reindex))
        .fallback(layers::nothing_here);
    routes.with_state(Arc::clone(app))
}
