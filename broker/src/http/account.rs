//! `/account`: who is signed in, and the way out.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use subtle::ConstantTimeEq as _;
use tower_sessions::Session;
use url::form_urlencoded;

use super::{
    authorize::see_other,
    browser::{forget, moment, sign_in_gone, signed_in},
    failure::Failure,
    instead::{Instead, shown},
    pages::{Account, POLICY, SignedOut, render},
    parameters::{Form, Parameters, Query},
};
use crate::{App, login::SessionError};

/// `GET /`: there is nothing here but the account.
pub(crate) async fn home() -> Response {
    see_other("/account")
}

/// `GET /account`; with `tenant`, that of the person in this tenant.
pub(crate) async fn show(State(app): State<Arc<App>>, session: Session, Query(parameters): Query) -> Response {
    shown(&app, account(&app, &session, &parameters).await)
}

async fn account(app: &App, session: &Session, parameters: &Parameters) -> Result<Response, Instead> {
    let tenant = parameters.one("tenant")?;
    let sign_in = match tenant {
        None => "/login".to_owned(),
        Some(tenant) => format!("/login?{}", form_urlencoded::Serializer::new(String::new()).append_pair("tenant", tenant).finish()),
    };
    let signed_in = signed_in(session).await?.filter(|signed_in| tenant.is_none_or(|tenant| signed_in.tenant.as_str() == tenant));
    let Some(signed_in) = signed_in else { return Ok(see_other(&sign_in)) };
    let (stored, identity) = match app.sessions.find(&signed_in, app.seams.clock.now()).await {
        Ok(found) => found,
        Err(error @ (SessionError::Store(_) | SessionError::Directory(_))) => return Err(error.into()),
        Err(_) => return Ok(see_other(&sign_in)),
    };
    let tenant = app.admission.tenants.get(&signed_in.tenant).map_or_else(String::new, |t| t.display_name.clone());
    let connector = app.admission.connector(stored.connector.as_str()).map_or_else(String::new, |c| c.display_name.clone());
    let page = Account {
        display_name: identity.display_name().unwrap_or_else(|| identity.username()).to_owned(),
        username: identity.username().to_owned(),
        tenant,
        email: identity.email().map(str::to_owned),
        groups: identity.groups().to_vec(),
        roles: identity.roles().to_vec(),
        since: moment(stored.auth_time),
        connector,
        sign_out: "/account".to_owned(),
        csrf: stored.csrf,
    };
    Ok(render(app.looks.of(Some(signed_in.tenant.as_str())), StatusCode::OK, &page, POLICY))
}

/// `POST /account`: sign out. Everything that was issued in the session falls with it, but what asked for `offline_access`.
pub(crate) async fn sign_out(State(app): State<Arc<App>>, session: Session, Form(parameters): Form) -> Response {
    shown(&app, end(&app, &session, &parameters).await)
}

async fn end(app: &App, session: &Session, parameters: &Parameters) -> Result<Response, Instead> {
    end_as_confirmed(app, session, parameters).await?;
    Ok(signed_out(app))
}

/// The page after a sign-out.
pub(crate) fn signed_out(app: &App) -> Response {
    render(app.looks.of(None), StatusCode::OK, &SignedOut { sign_in: "/login?prompt=select_account".to_owned() }, POLICY)
}

/// Ends the session of the browser, which a form of ours must have been shown to. Whether it had one.
///
/// # Errors
/// The page instead: the form belongs to another session, or it could not be told.
pub(crate) async fn end_as_confirmed(app: &App, session: &Session, parameters: &Parameters) -> Result<bool, Instead> {
    let now = app.seams.clock.now();
    let signed_in = signed_in(session).await?;
    if let Some(signed_in) = &signed_in {
        let csrf = match app.sessions.load(signed_in, now).await {
            Ok(stored) => Some(stored.csrf),
            Err(error @ (SessionError::Store(_) | SessionError::Directory(_))) => return Err(error.into()),
            Err(_) => None,
        };
        let sent = parameters.one("csrf")?.unwrap_or_default();
        if csrf.is_some_and(|kept| !bool::from(kept.as_bytes().ct_eq(sent.as_bytes()))) {
            return Err(Instead::page(StatusCode::BAD_REQUEST, sign_in_gone()));
        }
        if app.sessions.end(signed_in, now).await.map_err(|_| Failure::unavailable())? {
            tracing::info!(target: "audit", event = "sign_out", tenant.id = %signed_in.tenant, session.id = %signed_in.sid);
        }
    }
    forget(session).await?;
    Ok(signed_in.is_some())
}
