//! The HTTP meaning of every refusal, in one place. Texts say what is wrong and what to do; none quotes what was sent.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{
    directory::DirectoryError,
    grants::GrantError,
    login::{SessionError, UpstreamLogoutError},
    standing::Fallen,
};

/// An answer as JSON, for whoever asked and no cache.
pub(crate) fn for_the_caller(body: impl serde::Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// A refusal as JSON: OAuth's form (RFC 6749, 5.2), which the REST API shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) error: &'static str,
    pub(crate) description: String,
    /// The scheme to ask for, with a 401.
    challenge: Option<&'static str>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, error: &'static str, description: impl Into<String>) -> Self {
        Self { status, error, description: description.into(), challenge: None }
    }
    pub(crate) fn bad_request(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", description)
    }
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here that this token may see")
    }
    pub(crate) fn not_supported(description: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_supported", description)
    }
    pub(crate) fn unavailable() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", "it could not be told just now; try again")
    }
    /// RFC 6750, 3.
    pub(crate) fn no_token() -> Self {
        Self {
            challenge: Some("Bearer"),
            ..Self::new(StatusCode::UNAUTHORIZED, "invalid_token", "send an access token in the header `Authorization: Bearer`")
        }
    }
    pub(crate) fn invalid_token(description: &'static str) -> Self {
        Self { challenge: Some(r#"Bearer error="invalid_token""#), ..Self::new(StatusCode::UNAUTHORIZED, "invalid_token", description) }
    }
    pub(crate) fn insufficient_scope(description: &'static str) -> Self {
        Self {
            challenge: Some(r#"Bearer error="insufficient_scope""#),
            ..Self::new(StatusCode::FORBIDDEN, "insufficient_scope", description)
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({"error": self.error, "error_description": self.description});
        let mut response = (self.status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response();
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        // Doors whose refusals have another form read it there.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Fallen> for Failure {
    /// One answer, whatever is wrong with a token: why is in the audit log.
    fn from(fallen: Fallen) -> Self {
        match fallen {
            Fallen::Store(_) => Self::unavailable(),
            Fallen::Forged(_) | Fallen::Expired | Fallen::Tenant | Fallen::Connector | Fallen::Client | Fallen::Revoked => {
                Self::invalid_token("the access token is not in force")
            }
        }
    }
}

impl From<DirectoryError> for Failure {
    fn from(_: DirectoryError) -> Self {
        Self::unavailable()
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Ended
            | SessionError::NoLonger(_)
            | SessionError::Vanished
            | SessionError::Refused
            | SessionError::NoLongerBelieved
            | SessionError::GrantLost => Self::invalid_token("the access token is not in force"),
            SessionError::Directory(_) | SessionError::Store(_) => Self::unavailable(),
        }
    }
}

impl From<&GrantError> for Failure {
    fn from(error: &GrantError) -> Self {
        let bad = |code, description: &str| Self::new(StatusCode::BAD_REQUEST, code, description);
        match error {
            GrantError::Client(_) => {
                let failure = Self::new(StatusCode::UNAUTHORIZED, "invalid_client", "client authentication failed");
                Self { challenge: Some(r#"Basic realm="denizen""#), ..failure }
            }
            GrantError::InvalidGrant(why) => bad("invalid_grant", why),
            GrantError::Session(_) => bad("invalid_grant", "the session has ended, or its person is no longer admitted"),
            GrantError::InvalidScope(why) => bad("invalid_scope", why),
            GrantError::InvalidTarget(why) => bad("invalid_target", why),
            GrantError::UnauthorizedClient => bad("unauthorized_client", "the client is not registered for this grant type"),
            GrantError::Mint(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "the token could not be made"),
            GrantError::Unavailable(_) => Self::unavailable(),
        }
    }
}

impl From<&UpstreamLogoutError> for Failure {
    fn from(error: &UpstreamLogoutError) -> Self {
        match error {
            UpstreamLogoutError::NotTaken => Self::bad_request("no logout token is taken here"),
            UpstreamLogoutError::Invalid => Self::bad_request("the logout token is not valid"),
            UpstreamLogoutError::Replayed => Self::bad_request("the logout token was used before"),
            UpstreamLogoutError::More | UpstreamLogoutError::Upstream(_) | UpstreamLogoutError::Store(_) => Self::unavailable(),
        }
    }
}
