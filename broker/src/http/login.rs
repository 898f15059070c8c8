//! `/login`: choose a way to sign in, and the form of the one that was chosen. Its submission is `http/password.rs`.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use tower_sessions::Session;

use super::{
    authorize::see_other,
    browser::browser,
    caller::Peer,
    instead::{Instead, shown},
    pages::{Choose, Link, POLICY, render},
    parameters::{Parameters, Query},
    password::page,
    way::{begun, client_name, no_way, way, ways},
};
use crate::{App, tenancy::Wired};

/// `GET /login`: the ways there are; straight to the one where there is only one.
pub(crate) async fn choose(State(app): State<Arc<App>>, session: Session, peer: Peer, Query(parameters): Query) -> Response {
    shown(choose_way(&app, &session, &peer, &parameters).await)
}

async fn choose_way(app: &App, session: &Session, peer: &Peer, parameters: &Parameters) -> Result<Response, Instead> {
    let now = app.seams.clock.now();
    if parameters.one("attempt")?.is_none() {
        let browser = browser(session, app).await?;
        let id = app.attempts.begin((&browser.binding, peer.address), None, None, now).await?;
        return Ok(see_other(&format!("/login?attempt={id}")));
    }
    let (id, attempt) = begun(app, session, parameters, now).await?;
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

fn form_address(way: &Wired, attempt: &str) -> String {
    format!("/login/{}?attempt={attempt}", way.id)
}
