//! Which sign-in is under way in a browser, and the ways that it may take.

use std::sync::Arc;

use axum::http::StatusCode;
use time::OffsetDateTime;
use tower_sessions::Session;

use super::{
    browser::binding,
    instead::Instead,
    pages::{ErrorPage, POLICY},
    parameters::Parameters,
};
use crate::{
    App,
    grants::Client,
    login::{Attempt, AttemptError},
    tenancy::Wired,
};

/// The attempt that a request names, of this browser.
pub(super) async fn begun(
    app: &App,
    session: &Session,
    parameters: &Parameters,
    now: OffsetDateTime,
) -> Result<(String, Attempt), Instead> {
    let id = parameters.one("attempt")?.ok_or(AttemptError::Gone)?;
    let binding = binding(session).await?.ok_or(AttemptError::Gone)?;
    let attempt = app.attempts.find(id, &binding, now).await?;
    // The application may be gone since.
    let known = attempt.request.is_none() || client(app, &attempt).is_some();
    if known { Ok((id.to_owned(), attempt)) } else { Err(no_way()) }
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

/// The page where there is none.
pub(super) fn no_way() -> Instead {
    let page = ErrorPage {
        title: "There is no such way to sign in".to_owned(),
        what: "No way to sign in is set up for this application under this address.".to_owned(),
        todo: "Go back to the application and sign in from there.".to_owned(),
        next: None,
        reference: None,
    };
    Instead::page(StatusCode::NOT_FOUND, &page, POLICY)
}
