//! `DELETE /keystone/{connector}/v3/auth/tokens`: a token of a Keystone is taken back there (Identity API v3, "Revoke token"), and
//! is refused here at once, before what is remembered of it runs out.
//!
//! Headers, statuses and the form of errors are Keystone's own, so that its clients need another address only. Who may, Keystone
//! judges by the caller's own token.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use connectors::Secret;
use serde_json::json;

use super::caller::Peer;
use crate::{App, review::NotRevoked, tokens::UnverifiedToken};

/// A refusal in Keystone's form.
pub(crate) struct Fault(StatusCode, &'static str);

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let Self(status, message) = self;
        let body = json!({"error": {"code": status.as_u16(), "title": status.canonical_reason(), "message": message}});
        let answer = (status, [(header::CACHE_CONTROL, "no-store")], Json(body));
        // A 401 asks for something (RFC 9110, 11.6.1); the scheme is Keystone's.
        if status == StatusCode::UNAUTHORIZED {
            return ([(header::WWW_AUTHENTICATE, "Keystone")], answer).into_response();
        }
        answer.into_response()
    }
}

impl From<NotRevoked> for Fault {
    fn from(error: NotRevoked) -> Self {
        match error {
            NotRevoked::NoConnector | NotRevoked::Unknown => Self(StatusCode::NOT_FOUND, "there is no such token"),
            NotRevoked::CallerUnknown => {
                Self(StatusCode::UNAUTHORIZED, "send a token of your own that is in force in the header `X-Auth-Token`")
            }
            NotRevoked::Forbidden => Self(StatusCode::FORBIDDEN, "your own token does not give the right to take this one back"),
            NotRevoked::CouldNotTell(..) | NotRevoked::Untold(_) => {
                Self(StatusCode::SERVICE_UNAVAILABLE, "it could not be told just now whether the token was taken back; try again")
            }
        }
    }
}

pub(crate) async fn take_back(
    State(app): State<Arc<App>>,
    Path(connector): Path<String>,
    peer: Peer,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let caller = Secret::new(token(&headers, "x-auth-token").to_owned());
    let subject = UnverifiedToken::new(token(&headers, "x-subject-token"));
    let taken_back = app.review.revoke(&connector, &caller, subject, app.seams.clock.now()).await;
    // Which connectors there are is no secret of the log's; what else was written in the address stays out of it.
    let connector = app.admission.connector(&connector).map(|connector| connector.id.as_str());
    match taken_back {
        Ok(()) => {
            tracing::info!(target: "audit", event = "upstream_token.revoked", connector.id = connector, client.address = %peer.address);
            Ok((StatusCode::NO_CONTENT, [(header::CACHE_CONTROL, "no-store")]).into_response())
        }
        Err(error) => {
            let address = peer.address;
            // While a Keystone is down anyone could fill the log.
            if matches!(error, NotRevoked::CouldNotTell(..) | NotRevoked::Untold(_)) {
                tracing::debug!(connector.id = connector, %error, "a token could not be taken back");
            } else {
                tracing::info!(
                    target: "audit", event = "upstream_token.not_revoked", connector.id = connector, client.address = %address, reason = %error
                );
            }
            Err(error.into())
        }
    }
}

/// The token of a header; empty, which is none, where there is no such header, more than one, or no token in it.
fn token<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let mut given = headers.get_all(name).iter();
    let only = given.next().filter(|_| given.next().is_none());
    only.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
