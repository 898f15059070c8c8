//! `/login`: choose a way to sign in, and the form of the one that was chosen. Its submission is `http/password.rs`.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use time::OffsetDateTime;
use tower_sessions::Session;

use super::{
    authorize::see_other,
    browser::browser,
    instead::{Instead, shown},
    pages::{Choose, ErrorPage, Link, POLICY, render},
    parameters::{Parameters, Query},
    password::page,
};
use crate::{
    App,
    grants::Client,
    login::{Attempt, AttemptError},
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
    Ok(page(app, way, &id, &attempt, name, None))
}

/// The attempt that a request names, of this browser.
pub(super) async fn begun(
    app: &App,
    session: &Session,
    parameters: &Parameters,
    now: OffsetDateTime,
) -> Result<(String, Attempt), Instead> {
    let id = parameters.one("attempt")?.ok_or(AttemptError::Gone)?;
    let browser = browser(session, app).await?;
    let attempt = app.attempts.find(id, &browser.binding, now).await?;
    Ok((id.to_owned(), attempt))
}

pub(super) fn client<'a>(app: &'a App, attempt: &Attempt) -> Option<&'a Client> {
    attempt.request.as_ref().and_then(|r| app.grants.clients.get(&r.client_id))
}

pub(super) fn client_name(app: &App, attempt: &Attempt) -> Option<String> {
    client(app, attempt).map(|c| c.display_name.clone())
}

/// The connectors that may serve an attempt. Which tenants they serve is not looked at: a request with a tenant that there is
/// not must look like any other.
pub(super) fn ways<'a>(app: &'a App, attempt: &'a Attempt) -> impl Iterator<Item = &'a Arc<Wired>> {
    let client = client(app, attempt);
    app.admission.connectors().filter(move |way| way.password.is_some() && client.is_none_or(|c| c.takes_connector(&way.id)))
}

pub(super) fn way<'a>(app: &'a App, attempt: &'a Attempt, connector: &str) -> Result<&'a Wired, Instead> {
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
