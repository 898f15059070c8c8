//! `/oauth2/token` and `/oauth2/revoke`: who is the client, which grant, what comes of it.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use connectors::Secret;

use super::{
    failure::Failure,
    parameters::{Form, Parameters},
};
use crate::{
    App,
    grants::{Authentication, Clients, CodeRequest, GrantError, Granted, RefreshRequest},
    metrics::Metrics,
};

/// `POST /oauth2/token` (RFC 6749, 3.2).
pub(crate) async fn token(State(app): State<Arc<App>>, headers: HeaderMap, Form(parameters): Form) -> Response {
    let outcome = match authentication(&app.grants.clients, &headers, &parameters) {
        Ok(who) => grant(&app, &who, &parameters).await.map_err(|failure| (failure, Some(who.id))),
        Err(failure) => Err((failure, None)),
    };
    match outcome {
        Ok(granted) => {
            Metrics::ended(&app.metrics.grants, "ok");
            ([(header::CACHE_CONTROL, "no-store"), (header::PRAGMA, "no-cache")], Json(granted)).into_response()
        }
        Err((failure, client)) => {
            Metrics::ended(&app.metrics.grants, if failure.status.is_server_error() { "unavailable" } else { "refused" });
            // The id was sent by someone who may not be who they say; it is logged only where it is a client's.
            let client = client.filter(|id| app.grants.clients.get(id).is_some());
            tracing::warn!(target: "audit", event = "token.refused", client.id = client, error = failure.error, reason = failure.description);
            failure.into_response()
        }
    }
}

async fn grant(app: &App, who: &Authentication, parameters: &Parameters) -> Result<Granted, Failure> {
    let now = app.seams.clock.now();
    let owned = |name: &str| parameters.one(name).map(|v| v.map(str::to_owned));
    let grant_type = parameters.required("grant_type")?;
    let result: Result<Granted, GrantError> = match grant_type {
        "authorization_code" => {
            let request = CodeRequest {
                code: parameters.required("code")?.to_owned(),
                redirect_uri: owned("redirect_uri")?,
                code_verifier: owned("code_verifier")?,
                resources: parameters.all("resource"),
            };
            app.grants.exchange_code(who, request, now).await
        }
        "refresh_token" => {
            let request = RefreshRequest {
                refresh_token: parameters.required("refresh_token")?.to_owned(),
                scope: owned("scope")?,
                resources: parameters.all("resource"),
            };
            app.grants.refresh(who, request, now).await
        }
        "client_credentials" => {
            app.grants.client_credentials(who, parameters.one("scope")?.unwrap_or_default(), &parameters.all("resource"), now)
        }
        _ => return Err(Failure::new(StatusCode::BAD_REQUEST, "unsupported_grant_type", "the grant_type is not supported")),
    };
    let granted = result.map_err(|error| {
        if matches!(error, GrantError::Unavailable(_) | GrantError::Mint(_) | GrantError::Session(_)) && !error.is_outage() {
            tracing::warn!(%error, "a token was not granted");
        }
        Failure::from(&error)
    })?;
    let to = &granted.subject;
    tracing::info!(
        target: "audit", event = "token.granted", tenant.id = %to.tenant, user.id = %to.user, client.id = who.id, grant = grant_type,
    );
    Ok(granted)
}

/// `POST /oauth2/revoke` (RFC 7009).
pub(crate) async fn revoke(State(app): State<Arc<App>>, headers: HeaderMap, Form(parameters): Form) -> Result<StatusCode, Failure> {
    let who = authentication(&app.grants.clients, &headers, &parameters)?;
    let token = parameters.required("token")?;
    let done = app.grants.revoke(&who, token, &app.judge, app.seams.clock.now()).await;
    done.map(|()| StatusCode::OK).map_err(|error| Failure::from(&error))
}

/// How the client says who it is: in the header, or in the body, and never in both (RFC 6749, 2.3).
fn authentication(clients: &Clients, headers: &HeaderMap, parameters: &Parameters) -> Result<Authentication, Failure> {
    let secret = parameters.one("client_secret")?;
    let Some(header) = headers.get(header::AUTHORIZATION) else {
        let id = parameters.required("client_id")?.to_owned();
        return Ok(Authentication { id, secret: secret.map(|s| Secret::new(s.to_owned())) });
    };
    let invalid = || Failure::from(&GrantError::Client(crate::grants::ClientError::Unauthenticated));
    let (scheme, credentials) = header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(invalid)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(invalid());
    }
    let decoded = STANDARD.decode(credentials.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(invalid)?;
    let raw = decoded.split_once(':').ok_or_else(invalid)?;
    let named = parameters.one("client_id")?;
    let candidates: Vec<_> = basic(raw).into_iter().filter(|candidate| named.is_none_or(|named| named == candidate.id)).collect();
    if secret.is_some() || candidates.is_empty() {
        return Err(Failure::bad_request("say who the client is in the header or in the body, not in both"));
    }
    let (right, wrong): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| clients.authenticate(candidate).is_ok());
    right.into_iter().chain(wrong).next().ok_or_else(invalid)
}

/// What the two halves of a Basic header may mean. Both are form-encoded before they are joined (RFC 6749, 2.3.1), so that is
/// the first reading; many clients (Authlib, curl) send them as they are, `+` and `%` too. An empty password is no secret: so a
/// public client names itself.
fn basic((id, password): (&str, &str)) -> [Authentication; 2] {
    let decode = |text: &str| {
        let only_key = text.replace('&', "%26").replace('=', "%3D");
        url::form_urlencoded::parse(only_key.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
    };
    let secret = |text: String| Some(text).filter(|text| !text.is_empty()).map(Secret::new);
    [
        Authentication { id: decode(id), secret: secret(decode(password)) },
        Authentication { id: id.to_owned(), secret: secret(password.to_owned()) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(joined: &str) -> [(String, Option<String>); 2] {
        basic(joined.split_once(':').unwrap()).map(|who| (who.id, who.secret.map(|secret| secret.expose().to_owned())))
    }

    #[test]
    fn the_encoded_reading_comes_first_and_the_raw_one_second() {
        let who = |id: &str, secret: Option<&str>| (id.to_owned(), secret.map(str::to_owned));
        assert_eq!(read("a%2Bb:c%25d+e"), [who("a+b", Some("c%d e")), who("a%2Bb", Some("c%25d+e"))]);
        assert_eq!(read("app:a&b=c:d"), [who("app", Some("a&b=c:d")), who("app", Some("a&b=c:d"))]);
        assert_eq!(read("app:"), [who("app", None), who("app", None)]);
    }
}
