//! `/login`: choose a way to sign in, and sign in with name and password.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use connectors::Secret;
use time::OffsetDateTime;
use tower_sessions::Session;
use url::Url;

use super::{
    authorize::{answer_with_code, see_other},
    browser::{browser, known_cookie, set_known_cookie, sign_in, signed_in},
    caller::Peer,
    instead::{Instead, shown},
    pages::{Choose, ErrorPage, Link, POLICY, Password, PasswordError, render, sign_in_policy},
    parameters::{Form, Parameters, Query},
};
use crate::{
    App,
    login::{Attempt, AttemptError, SignInError, Typed},
    metrics::Metrics,
    tenancy::Wired,
};

/// `GET /login`: the ways there are; straight to the one where there is only one.
pub(crate) async fn choose(State(app): State<Arc<App>>, session: Session, Query(parameters): Query) -> Response {
    shown(choose_way(&app, &session, &parameters).await)
}

async fn choose_way(app: &App, session: &Session, parameters: &Parameters) -> Result<Response, Instead> {
    let now = app.seams.clock.now();
    let browser = browser(session, app).await?;
    let (id, attempt) = match parameters.one("attempt")? {
        Some(id) => (id.to_owned(), app.attempts.find(id, &browser.binding, now).await?),
        None => {
            let id = app.attempts.begin(&browser.binding, None, None, now).await.map_err(AttemptError::Store)?;
            let attempt = app.attempts.find(&id, &browser.binding, now).await?;
            (id, attempt)
        }
    };
    let ways: Vec<_> = ways(app, &attempt).map(|way| Link { name: way.display_name.clone(), href: form_address(way, &id) }).collect();
    match ways.as_slice() {
        [] => Err(no_way()),
        [only] => Ok(see_other(&only.href)),
        _ => Ok(render(StatusCode::OK, &Choose { client: client_name(app, &attempt), tenant: None, ways }, POLICY)),
    }
}

/// `GET /login/{connector}`: the form.
pub(crate) async fn form(
    State(app): State<Arc<App>>,
    session: Session,
    Path(connector): Path<String>,
    Query(parameters): Query,
) -> Response {
    shown(show_form(&app, &session, &connector, &parameters).await)
}

async fn show_form(app: &App, session: &Session, connector: &str, parameters: &Parameters) -> Result<Response, Instead> {
    let (id, attempt) = begun(app, session, parameters, app.seams.clock.now()).await?;
    let way = way(app, &attempt, connector)?;
    let name = attempt.login_hint.clone().unwrap_or_default();
    Ok(password_page(app, way, &id, &attempt, name, None))
}

/// `POST /login/{connector}`: name and password.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    session: Session,
    Path(connector): Path<String>,
    peer: Peer,
    headers: HeaderMap,
    Form(parameters): Form,
) -> Response {
    shown(try_password(&app, &session, &connector, &peer, &headers, &parameters).await)
}

async fn try_password(
    app: &App,
    session: &Session,
    connector: &str,
    peer: &Peer,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<Response, Instead> {
    let now = app.seams.clock.now();
    let (id, attempt) = begun(app, session, parameters, now).await?;
    if !attempt.csrf_matches(parameters.one("csrf")?.unwrap_or_default()) {
        return Err(AttemptError::Gone.into());
    }
    let way = way(app, &attempt, connector)?;
    let name = parameters.one("username")?.unwrap_or_default();
    let password = parameters.one("password")?.unwrap_or_default();
    let again = |error| password_page(app, way, &id, &attempt, name.to_owned(), Some(error));
    if name.trim().is_empty() || password.is_empty() || name.len() > 255 || password.len() > 1_024 {
        return Ok(again(PasswordError::Incomplete));
    }
    let typed = Typed { name, password: Secret::new(password.to_owned()), tenant: attempt.tenant(), address: peer.address };
    let guesser = app.password.guesser(way, &typed, |account| app.vouching.vouches(known_cookie(headers, app), account));
    let (identity, mapped) = match app.password.sign_in(way, &typed, &guesser, now).await {
        Ok(admitted) => admitted,
        Err(error) => return Ok(refused(app, way, peer, &error, again)),
    };
    let takes = client(app, &attempt).is_none_or(|c| c.takes_tenant(identity.id().tenant_id()) && c.takes_connector(&way.id));
    if !takes {
        audit_refused(app, way, peer, "the client does not take this tenant", "refused");
        return Err(Instead::page(StatusCode::FORBIDDEN, &not_for_you(), POLICY));
    }
    app.attempts.consume(&id, now).await?;
    let before = signed_in(session).await?;
    let signed_in = app.sessions.begin(&identity, mapped, before.as_ref(), now).await.map_err(AttemptError::Store)?;
    sign_in(session, signed_in.clone(), app).await?;
    Metrics::ended(&app.metrics.sign_ins, "ok");
    tracing::info!(
        target: "audit", event = "sign_in", tenant.id = %signed_in.tenant, connector.id = %way.id, user.id = %identity.id().opaque_id(),
        client.address = %peer.address, client.id = attempt.request.as_ref().map(|r| r.client_id.as_str()),
    );
    let mut response = match &attempt.request {
        Some(request) => answer_with_code(app, request, &signed_in, now).await?.ok_or(AttemptError::Gone)?,
        None => see_other("/account"),
    };
    if let Some(cookie) = set_known_cookie(app, &app.vouching.remember(known_cookie(headers, app), guesser.account())) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// The answer to a failed try: the form again, with what to do.
fn refused(app: &App, way: &Wired, peer: &Peer, error: &SignInError, again: impl FnOnce(PasswordError) -> Response) -> Response {
    let reference = || crate::secret_text::random_uuid(&*app.seams.entropy).simple().to_string().chars().take(12).collect::<String>();
    match error {
        SignInError::Wrong => {
            audit_refused(app, way, peer, "wrong name or password", "refused");
            again(PasswordError::Wrong)
        }
        SignInError::Slowed(wait) => {
            audit_refused(app, way, peer, "too many failures", "slowed");
            let seconds = u64::try_from(wait.whole_seconds()).unwrap_or_default() + 1;
            let mut response = again(PasswordError::Throttled { seconds });
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            response
        }
        SignInError::NotAdmitted(why) => {
            let reference = reference();
            Metrics::ended(&app.metrics.sign_ins, "refused");
            tracing::warn!(
                target: "audit", event = "sign_in.refused", connector.id = %way.id, client.address = %peer.address, reference, reason = %why,
            );
            render(StatusCode::FORBIDDEN, &ErrorPage { reference: Some(reference), ..not_for_you() }, POLICY)
        }
        SignInError::Upstream(_) | SignInError::Store(_) => {
            let reference = reference();
            Metrics::ended(&app.metrics.sign_ins, "unavailable");
            tracing::error!(
                target: "audit", event = "sign_in.unavailable", connector.id = %way.id, client.address = %peer.address, reference, %error,
            );
            again(PasswordError::Unavailable { reference })
        }
    }
}

fn audit_refused(app: &App, way: &Wired, peer: &Peer, reason: &str, outcome: &'static str) {
    Metrics::ended(&app.metrics.sign_ins, outcome);
    tracing::warn!(target: "audit", event = "sign_in.refused", connector.id = %way.id, client.address = %peer.address, reason);
}

fn not_for_you() -> ErrorPage {
    ErrorPage {
        title: "You can not sign in here".to_owned(),
        what: "Your name and password are right, but your account has no access to this application.".to_owned(),
        todo: "Ask the people who look after accounts in your organisation; tell them the reference number.".to_owned(),
        next: None,
        reference: None,
    }
}

/// The attempt that a request names, of this browser.
async fn begun(app: &App, session: &Session, parameters: &Parameters, now: OffsetDateTime) -> Result<(String, Attempt), Instead> {
    let id = parameters.one("attempt")?.ok_or(AttemptError::Gone)?;
    let browser = browser(session, app).await?;
    let attempt = app.attempts.find(id, &browser.binding, now).await?;
    Ok((id.to_owned(), attempt))
}

fn client<'a>(app: &'a App, attempt: &Attempt) -> Option<&'a crate::grants::Client> {
    attempt.request.as_ref().and_then(|r| app.grants.clients.get(&r.client_id))
}

fn client_name(app: &App, attempt: &Attempt) -> Option<String> {
    client(app, attempt).map(|c| c.display_name.clone())
}

/// The connectors that may serve an attempt. Which tenants they serve is not looked at: a request with a tenant that there is
/// not must look like any other.
fn ways<'a>(app: &'a App, attempt: &'a Attempt) -> impl Iterator<Item = &'a Arc<Wired>> {
    let client = client(app, attempt);
    app.admission.connectors().filter(move |way| way.password.is_some() && client.is_none_or(|c| c.takes_connector(&way.id)))
}

fn way<'a>(app: &'a App, attempt: &'a Attempt, connector: &str) -> Result<&'a Wired, Instead> {
    ways(app, attempt).find(|way| way.id.as_str() == connector).map(Arc::as_ref).ok_or_else(no_way)
}

fn no_way() -> Instead {
    let page = ErrorPage {
        title: "There is no such way to sign in".to_owned(),
        what: "No way to sign in is set up for this application under this address.".to_owned(),
        todo: "Go back to the application and sign in from there.".to_owned(),
        next: None,
        reference: None,
    };
    Instead::page(StatusCode::NOT_FOUND, &page, POLICY)
}

fn form_address(way: &Wired, attempt: &str) -> String {
    format!("/login/{}?attempt={attempt}", way.id)
}

fn password_page(app: &App, way: &Wired, id: &str, attempt: &Attempt, name: String, error: Option<PasswordError>) -> Response {
    let status = match &error {
        None => StatusCode::OK,
        Some(PasswordError::Incomplete | PasswordError::Wrong) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(PasswordError::Throttled { .. }) => StatusCode::TOO_MANY_REQUESTS,
        Some(PasswordError::Unavailable { .. }) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let redirect_uri = attempt.request.as_ref().and_then(|r| Url::parse(&r.redirect_uri).ok());
    let page = Password {
        connector: way.display_name.clone(),
        client: client_name(app, attempt),
        tenant: None,
        tenant_known: attempt.tenant().is_some(),
        action: format!("/login/{}", way.id),
        csrf: attempt.csrf.clone(),
        attempt: id.to_owned(),
        name,
        error,
        other_ways: (ways(app, attempt).count() > 1).then(|| format!("/login?attempt={id}")),
    };
    render(status, &page, &sign_in_policy(redirect_uri.as_ref())).into_response()
}
