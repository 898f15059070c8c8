//! Which sign-in is under way in a browser, and what it knows of the ways that it may take.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use claims_mapping::TenantId;
use time::OffsetDateTime;
use tower_sessions::Session;

use super::{
    browser::{binding, cookie, sign_in_gone, signed_in},
    instead::Instead,
    pages::{ErrorPage, Link},
    parameters::Parameters,
};
use crate::{
    App,
    branding::Look,
    grants::Client,
    login::{Attempt, AttemptError, Limits},
    tenancy::Wired,
};

/// The cookie that remembers through which connector a browser signed in.
pub(super) const WAY_COOKIE: &str = "denizen-way";

/// The attempt that a request names, of this browser.
pub(super) async fn begun(
    app: &App,
    session: &Session,
    parameters: &Parameters,
    now: OffsetDateTime,
) -> Result<(String, Attempt), Instead> {
    let (Some(id), Some(binding)) = (parameters.one("attempt")?, binding(session).await?) else { return Err(gone(app, session).await) };
    match app.attempts.find(id, &binding, now).await {
        Ok(attempt) => Ok((id.to_owned(), with_client(app, attempt)?)),
        Err(error) => Err(over(app, session, error).await),
    }
}

/// The same, of a form that was shown to this browser.
pub(super) async fn posted(
    app: &App,
    session: &Session,
    parameters: &Parameters,
    now: OffsetDateTime,
) -> Result<(String, Attempt), Instead> {
    let (id, attempt) = begun(app, session, parameters, now).await?;
    if attempt.csrf_matches(parameters.one("csrf")?.unwrap_or_default()) { Ok((id, attempt)) } else { Err(gone(app, session).await) }
}

/// An attempt whose application is still there.
pub(super) fn with_client(app: &App, attempt: Attempt) -> Result<Attempt, Instead> {
    let known = attempt.request.is_none() || client(app, &attempt).is_some();
    if known { Ok(attempt) } else { Err(no_way()) }
}

pub(super) fn client<'a>(app: &'a App, attempt: &Attempt) -> Option<&'a Client> {
    attempt.request.as_ref().and_then(|r| app.grants.clients.get(&r.client_id))
}

/// How the pages of a sign-in look: as the tenant says that is asked for, or whose application it is.
pub(super) fn look(app: &App, attempt: &Attempt) -> Arc<Look> {
    let only = || client(app, attempt)?.only_tenant().map(TenantId::as_str);
    app.looks.of(attempt.tenant().or_else(only))
}

pub(super) fn client_name(app: &App, attempt: &Attempt) -> Option<String> {
    client(app, attempt).map(|c| c.display_name.clone())
}

/// How far the attempt's application limits its ways.
pub(super) fn limits<'a>(app: &'a App, attempt: &Attempt) -> Limits<'a> {
    client(app, attempt).map(Client::limits).unwrap_or_default()
}

/// A connector that may serve an attempt. Which tenants it serves is not looked at: a request with a tenant that there is not
/// must look like any other.
pub(super) fn way<'a>(app: &'a App, attempt: &Attempt, connector: &str) -> Result<&'a Wired, Instead> {
    let mut possible = app.ways.possible(limits(app, attempt));
    possible.find(|way| way.id.as_str() == connector).map(AsRef::as_ref).ok_or_else(no_way)
}

/// The connector that this browser signed in through before.
pub(super) fn remembered<'a>(app: &'a App, headers: &'a HeaderMap) -> Option<&'a str> {
    app.vouching.way(cookie(headers, app, WAY_COOKIE)?)
}

/// The page for an attempt that can not go on.
pub(super) async fn over(app: &App, session: &Session, error: AttemptError) -> Instead {
    match error {
        AttemptError::Gone => gone(app, session).await,
        AttemptError::Slowed | AttemptError::Store(_) => error.into(),
    }
}

/// The page for a sign-in that is over: after the end of it, mostly, for someone who went back. Whoever is signed in is told so.
pub(super) async fn gone(app: &App, session: &Session) -> Instead {
    let signed_in = match signed_in(session).await {
        Ok(Some(signed_in)) => app.sessions.find(&signed_in, app.seams.clock.now()).await.is_ok(),
        Ok(None) | Err(_) => false,
    };
    let page = if signed_in { signed_in_already() } else { sign_in_gone() };
    Instead::page(StatusCode::BAD_REQUEST, page)
}

fn signed_in_already() -> ErrorPage {
    ErrorPage {
        title: "You are signed in already".to_owned(),
        what: "This page belongs to a sign-in that is over; you need it no more.".to_owned(),
        todo: "Go back to the application and open it again: it knows you now.".to_owned(),
        next: Some(Link { name: "My account".to_owned(), href: "/account".to_owned() }),
        reference: None,
    }
}

/// The page where there is none.
pub(super) fn no_way() -> Instead {
    let page = ErrorPage {
        title: "There is no such way to sign in".to_owned(),
        what: "No way to sign in is set up for this application under this address.".to_owned(),
        todo: "Go back to the application and sign in from there.".to_owned(),
        next: None,
        reference: None,
    };
    Instead::page(StatusCode::NOT_FOUND, page)
}
