//! Discovery (OpenID Connect Discovery 1.0, RFC 8414) and the public keys. It advertises only what works.

use std::sync::Arc;

use axum::{Json, extract::State, http::header, response::IntoResponse};
use serde_json::{Value, json};

use crate::App;

/// The scopes that people's claims go by, and the API's.
pub(crate) const SCOPES: [&str; 7] = ["openid", "profile", "email", "groups", "roles", "offline_access", "users.read"];

/// The one document, at both well-known places.
pub(crate) async fn openid(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "public, max-age=300")], Json(document(&app)))
}

/// The public keys (RFC 7517).
pub(crate) async fn jwks(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "public, max-age=300")], Json(app.keys.jwks()))
}

fn document(app: &App) -> Value {
    let at = |path: &str| format!("{}{path}", app.issuer);
    let client_authentication = ["client_secret_basic", "client_secret_post", "none"];
    json!({
        "issuer": app.issuer,
        "authorization_endpoint": at("/oauth2/authorize"),
        "token_endpoint": at("/oauth2/token"),
        "userinfo_endpoint": at("/oauth2/userinfo"),
        "jwks_uri": at("/oauth2/jwks"),
        "revocation_endpoint": at("/oauth2/revoke"),
        "end_session_endpoint": at("/oauth2/logout"),
        "backchannel_logout_supported": true,
        "backchannel_logout_session_supported": true,
        "scopes_supported": SCOPES,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": app.keys.algorithms(),
        "token_endpoint_auth_methods_supported": client_authentication,
        "revocation_endpoint_auth_methods_supported": client_authentication,
        "code_challenge_methods_supported": ["S256"],
        "prompt_values_supported": ["none", "login", "select_account"],
        "authorization_response_iss_parameter_supported": true,
        "claims_parameter_supported": false,
        "request_parameter_supported": false,
        "request_uri_parameter_supported": false,
        "claims_supported": [
            "iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "sid", "tenant_id",
            "preferred_username", "name", "email", "email_verified", "groups", "roles",
        ],
    })
}
