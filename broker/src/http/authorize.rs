//! `/oauth2/authorize` (RFC 6749, 3.1; OpenID Connect Core, 3.1.2): from a client's request to a code, or to a sign-in.
//!
//! Nothing redirects until client and redirect URI are proven to belong together; what is wrong before that is a page.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use time::OffsetDateTime;
use tower_sessions::Session;
use url::Url;
use uuid::Uuid;

use super::{
    browser::{begin, signed_in},
    caller::Peer,
    failure::Failure,
    pages::{ErrorPage, POLICY, render},
    parameters::{Form, Parameters, Query},
};
use crate::{
    App,
    config::GrantType,
    grants::{Client, GrantError},
    login::{AttemptError, AuthorizeRequest, SessionError, SignedIn, Wanted},
    tokens::UnverifiedToken,
};

/// How the client wants people to be asked (OpenID Connect Core, 3.1.2.1).
#[derive(Debug, Clone, Copy, Default)]
struct Asking {
    /// `prompt=none`: not at all.
    never: bool,
    /// `prompt=login` or `select_account`: anew.
    anew: bool,
    /// `prompt=select_account`: they want to choose.
    select: bool,
    /// `max_age`, in seconds.
    max_age: Option<u32>,
    /// `id_token_hint`: this person, or no one (`Some(None)`: a hint that is none of ours).
    person: Option<Option<Uuid>>,
}

/// `POST`: the same parameters in a form. A browser sends no cookie with a form from another site, so it is sent on to the same
/// request as a link, with which it does.
pub(crate) async fn authorize_by_form(Form(parameters): Form) -> Response {
    see_other(&format!("/oauth2/authorize?{}", parameters.encoded()))
}

pub(crate) async fn authorize(State(app): State<Arc<App>>, session: Session, peer: Peer, Query(parameters): Query) -> Response {
    let (client, redirect_uri) = match proven(&app, &parameters) {
        Ok(proven) => proven,
        Err(failure) => return refusal_page(&app, &failure),
    };
    let response = match decide(&app, &session, &peer, client, &redirect_uri, &parameters).await {
        Ok(response) => response,
        Err(failure) => {
            back(&redirect_uri, &app.issuer, &[("error", failure.error), ("error_description", &failure.description)], &parameters)
        }
    };
    if matches!(parameters.one("prompt"), Ok(Some(prompt)) if prompt.trim() == "none") { framed_by(client, response) } else { response }
}

/// An answer to `prompt=none`, which an application asks for in a frame of its own page: whose pages may hold it. It is a redirect
/// in every case; all that is shown to people can be framed by no one.
fn framed_by(client: &Client, mut response: Response) -> Response {
    let origins: Vec<_> = client.origins.iter().map(String::as_str).collect();
    let policy = format!("frame-ancestors {}", if origins.is_empty() { "'none'".to_owned() } else { origins.join(" ") });
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The client, and a redirect URI of its own: from here on, answers go there.
fn proven<'a>(app: &'a App, parameters: &Parameters) -> Result<(&'a Client, String), Failure> {
    let client =
        app.grants.clients.get(parameters.required("client_id")?).ok_or_else(|| Failure::bad_request("the client_id is unknown"))?;
    let uri = parameters.required("redirect_uri")?;
    if !client.redirects_to(uri) {
        return Err(Failure::bad_request("the redirect_uri is not registered for this client"));
    }
    // Two values of `state` could not be answered; the client must not be left to choose.
    parameters.one("state")?;
    Ok((client, uri.to_owned()))
}

async fn decide(
    app: &App,
    session: &Session,
    peer: &Peer,
    client: &Client,
    redirect_uri: &str,
    parameters: &Parameters,
) -> Result<Response, Failure> {
    let request = parse(client, redirect_uri, parameters)?;
    let now = app.seams.clock.now();
    let asking = asking(app, parameters, now).await?;
    if let Some(signed_in) = usable(app, session, client, &request, asking, now).await?
        && let Some(response) = answer_with_code(app, &request, &signed_in, Asked::Again, now).await?
    {
        return Ok(response);
    }
    if asking.never {
        return Err(Failure::new(StatusCode::BAD_REQUEST, "login_required", "the person must sign in"));
    }
    let login_hint = parameters.one("login_hint")?.filter(|hint| hint.len() <= 255).map(str::to_owned);
    let wanted = Wanted { tenant: None, login_hint, anew: asking.anew, select: asking.select, max_age: asking.max_age };
    let attempt = begin(app, session, peer.address, (Some(request), wanted), now).await.map_err(|error| match error {
        AttemptError::Slowed => {
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "temporarily_unavailable", "too many sign-ins are begun from this address")
        }
        AttemptError::Gone | AttemptError::Store(_) => Failure::unavailable(),
    })?;
    Ok(see_other(&format!("/login?attempt={attempt}")))
}

fn parse(client: &Client, redirect_uri: &str, parameters: &Parameters) -> Result<AuthorizeRequest, Failure> {
    let refuse = |error, why: &str| Err(Failure::new(StatusCode::BAD_REQUEST, error, why));
    if parameters.one("request")?.is_some() {
        return refuse("request_not_supported", "request objects are not supported");
    }
    if parameters.one("request_uri")?.is_some() {
        return refuse("request_uri_not_supported", "request objects are not supported");
    }
    if parameters.required("response_type")? != "code" {
        return refuse("unsupported_response_type", "response_type must be `code`");
    }
    if parameters.one("response_mode")?.is_some_and(|mode| mode != "query") {
        return refuse("invalid_request", "response_mode must be `query`");
    }
    if !client.may(GrantType::AuthorizationCode) {
        return refuse("unauthorized_client", "the client is not registered for the authorization code");
    }
    let challenge = parameters.one("code_challenge")?.ok_or_else(|| Failure::bad_request("PKCE is needed: send a code_challenge"))?;
    if parameters.one("code_challenge_method")? != Some("S256") {
        return refuse("invalid_request", "code_challenge_method must be S256");
    }
    if challenge.len() != 43 || !challenge.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        return refuse("invalid_request", "the code_challenge is not the base64url of a SHA-256");
    }
    let bounded = |name: &str, most: usize| match parameters.one(name)? {
        Some(text) if text.len() > most => Err(Failure::bad_request(format!("`{name}` is longer than {most} bytes"))),
        other => Ok(other.map(str::to_owned)),
    };
    let meaning = |error: GrantError| Failure::from(&error);
    Ok(AuthorizeRequest {
        client_id: client.id.clone(),
        redirect_uri: redirect_uri.to_owned(),
        scopes: client.with_implied(client.scopes_of(parameters.one("scope")?.unwrap_or_default()).map_err(meaning)?),
        state: bounded("state", 2_048)?,
        nonce: bounded("nonce", 512)?,
        code_challenge: challenge.to_owned(),
        audiences: client.audiences_of(&parameters.all("resource")).map_err(meaning)?,
        tenant: bounded("tenant", 255)?,
    })
}

async fn asking(app: &App, parameters: &Parameters, now: OffsetDateTime) -> Result<Asking, Failure> {
    let mut asking = Asking::default();
    for prompt in parameters.one("prompt")?.unwrap_or_default().split(' ').filter(|p| !p.is_empty()) {
        match prompt {
            "none" => asking.never = true,
            "login" => asking.anew = true,
            "select_account" => (asking.anew, asking.select) = (true, true),
            // There is nothing to consent to: the operator registers the applications.
            "consent" => {}
            _ => return Err(Failure::bad_request("a value of prompt is unknown")),
        }
    }
    if asking.never && (asking.anew || parameters.one("prompt")?.is_some_and(|prompt| prompt.trim() != "none")) {
        return Err(Failure::bad_request("prompt=none goes with no other"));
    }
    if let Some(hint) = parameters.one("id_token_hint")? {
        let hinted = app.judge.id_token(UnverifiedToken::new(hint), now).await.map_err(|_| Failure::unavailable())?;
        asking.person = Some(hinted.map(|claims| claims.sub));
    }
    if let Some(text) = parameters.one("max_age")? {
        asking.max_age = Some(text.parse().map_err(|_| Failure::bad_request("max_age must be a number of seconds"))?);
    }
    Ok(asking)
}

/// The browser's session, where it may answer this request: its tenant and connector are the client's, its tenant is the one
/// that is asked for, and it is young enough.
async fn usable(
    app: &App,
    session: &Session,
    client: &Client,
    request: &AuthorizeRequest,
    asking: Asking,
    now: OffsetDateTime,
) -> Result<Option<SignedIn>, Failure> {
    let Some(signed_in) = signed_in(session).await?.filter(|_| !asking.anew) else { return Ok(None) };
    let (stored, identity) = match app.sessions.find(&signed_in, now).await {
        Ok(found) => found,
        Err(SessionError::Store(_) | SessionError::Directory(_)) => return Err(Failure::unavailable()),
        Err(_) => return Ok(None),
    };
    let since = now.unix_timestamp() - stored.auth_time;
    let young = asking.max_age.map(i64::from).is_none_or(|age| stored.is_time_known && since < age.max(1) && age > 0);
    let tenant = identity.id().tenant_id();
    let asked_for = request.tenant.as_deref().is_none_or(|t| t == tenant.as_str());
    let is_person = asking.person.is_none_or(|person| person == Some(identity.id().opaque_id()));
    let fits = young && is_person && asked_for && client.takes_tenant(tenant) && client.takes_connector(identity.connector());
    Ok(fits.then_some(signed_in))
}

/// How lately a session's person was seen upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// They have just signed in.
    JustNow,
    /// Earlier: the directory is asked again, and whoever is gone, disabled or of another tenant loses the session.
    Again,
}

/// Answers a request with a code for a session; `None` where the session has ended.
///
/// # Errors
/// When the store or the directory could not tell.
pub(crate) async fn answer_with_code(
    app: &App,
    request: &AuthorizeRequest,
    signed_in: &SignedIn,
    asked: Asked,
    now: OffsetDateTime,
) -> Result<Option<Response>, Failure> {
    let found = match asked {
        Asked::JustNow => app.sessions.find(signed_in, now).await,
        Asked::Again => app.sessions.renew_and_keep(signed_in, now).await,
    };
    let (session, identity) = match found {
        Ok(found) => found,
        Err(SessionError::Store(_) | SessionError::Directory(_)) => return Err(Failure::unavailable()),
        Err(error) => {
            tracing::info!(target: "audit", event = "session.ended", tenant.id = %signed_in.tenant, session.id = %signed_in.sid, reason = %error);
            return Ok(None);
        }
    };
    let code = app.grants.give_code(request, signed_in, &session, now).await.map_err(|_| Failure::unavailable())?;
    tracing::info!(
        target: "audit", event = "code.given", tenant.id = %signed_in.tenant, user.id = %identity.id().opaque_id(), client.id = request.client_id,
    );
    let state = request.state.as_deref().map(|state| ("state", state));
    let pairs: Vec<_> = [("code", code.as_str())].into_iter().chain(state).collect();
    Ok(Some(redirect(&request.redirect_uri, &app.issuer, &pairs)))
}

/// An answer to the client, with its `state`.
fn back(redirect_uri: &str, issuer: &str, pairs: &[(&str, &str)], parameters: &Parameters) -> Response {
    let state = parameters.one("state").ok().flatten().map(|state| ("state", state));
    redirect(redirect_uri, issuer, &pairs.iter().copied().chain(state).collect::<Vec<_>>())
}

/// An answer to the client, with `iss` (RFC 9207). 303: a posted form is not posted on (RFC 9700, 4.12).
fn redirect(redirect_uri: &str, issuer: &str, pairs: &[(&str, &str)]) -> Response {
    let Ok(mut uri) = Url::parse(redirect_uri) else { return StatusCode::BAD_REQUEST.into_response() };
    uri.query_pairs_mut().extend_pairs(pairs).append_pair("iss", issuer);
    see_other(uri.as_str())
}

/// 303, and nothing is kept or told on the way.
pub(crate) fn see_other(location: &str) -> Response {
    let Ok(location) = HeaderValue::from_str(location) else { return StatusCode::BAD_REQUEST.into_response() };
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// The page for a request that nothing may be redirected for.
pub(crate) fn refusal_page(app: &App, failure: &Failure) -> Response {
    let page = ErrorPage {
        title: "This application's request can not be used".to_owned(),
        what: format!("What the application sent is not in order: {}.", failure.description),
        todo: "Go back to the application and try again; if it happens again, tell the people who run it.".to_owned(),
        next: None,
        reference: None,
    };
    render(app.looks.of(None), failure.status, &page, POLICY)
}
