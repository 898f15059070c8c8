//! `POST /login/{connector}`: a name and a password, tried, and what the browser gets for it.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use connectors::Secret;
use tower_sessions::Session;
use url::Url;

use super::{
    browser::{cookie, set_cookie},
    caller::Peer,
    entering::{Entrance, other_ways},
    instead::{Instead, shown},
    pages::{Password, PasswordError, render, sign_in_policy},
    parameters::{Form, Parameters},
    way::{begun, client_name, gone, limits, look, no_way, way},
};
use crate::{
    App,
    login::{Attempt, SignInError, Typed},
    tenancy::Wired,
};

/// The cookie that remembers which accounts have signed in on a browser.
const KNOWN_COOKIE: &str = "denizen-known";

pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    session: Session,
    Path(connector): Path<String>,
    peer: Peer,
    headers: HeaderMap,
    Form(parameters): Form,
) -> Response {
    shown(&app, tried(&app, &session, &connector, (&peer, &headers), &parameters).await)
}

async fn tried(
    app: &App,
    session: &Session,
    connector: &str,
    (peer, headers): (&Peer, &HeaderMap),
    parameters: &Parameters,
) -> Result<Response, Instead> {
    let (id, attempt) = begun(app, session, parameters, app.seams.clock.now()).await?;
    if !attempt.csrf_matches(parameters.one("csrf")?.unwrap_or_default()) {
        return Err(gone(app, session).await);
    }
    let this = Entrance { app, session, peer, way: way(app, &attempt, connector)?, id: &id, attempt: &attempt };
    if this.way.password.is_none() {
        return Err(no_way());
    }
    let name = parameters.one("username")?.unwrap_or_default();
    let password = parameters.one("password")?.unwrap_or_default();
    if name.trim().is_empty() || password.is_empty() || name.len() > 255 || password.len() > 1_024 {
        return Ok(again(&this, name, PasswordError::Incomplete));
    }
    let typed = Typed { name, password: Secret::new(password.to_owned()), tenant: attempt.tenant(), address: peer.address };
    let known = cookie(headers, app, KNOWN_COOKIE);
    let guesser = app.password.guesser(this.way, &typed, |account| app.vouching.vouches(known, account));
    let admitted = match app.password.sign_in(this.way, &typed, &guesser, app.seams.clock.now()).await {
        Ok(admitted) => admitted,
        Err(error) => return Ok(refused(&this, name, &error).await),
    };
    let mut response = this.go_in(admitted).await?;
    if let Some(cookie) = set_cookie(app, KNOWN_COOKIE, &app.vouching.remember(known, guesser.account())) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// The answer to a failed try: the form again, with what to do; or a page where the form would not help.
async fn refused(this: &Entrance<'_>, name: &str, error: &SignInError) -> Response {
    match error {
        SignInError::Wrong => {
            this.audit_refused("sign_in.refused", "refused", "wrong name or password");
            again(this, name, PasswordError::Wrong)
        }
        SignInError::Slowed(wait) => {
            this.audit_refused("sign_in.refused", "slowed", "too many failures");
            let seconds = u64::try_from(wait.whole_seconds()).unwrap_or_default() + 1;
            let mut response = again(this, name, PasswordError::Throttled { seconds });
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            response
        }
        SignInError::NotAdmitted { user, .. } => {
            let reference = this.refused(Some(user), &error.to_string()).await;
            this.not_for_you(reference)
        }
        SignInError::Upstream(_) | SignInError::Store(_) => {
            let reference = this.unavailable(&error.to_string()).await;
            again(this, name, PasswordError::Unavailable { reference })
        }
    }
}

fn again(this: &Entrance<'_>, name: &str, error: PasswordError) -> Response {
    page(this.app, this.way, this.id, this.attempt, name.to_owned(), Some(error))
}

/// The form, empty or after a failed try.
pub(super) fn page(app: &App, way: &Wired, id: &str, attempt: &Attempt, name: String, error: Option<PasswordError>) -> Response {
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
        other_ways: (app.ways.possible(limits(app, attempt)).count() > 1).then(|| other_ways(id)),
    };
    render(look(app, attempt), status, &page, &sign_in_policy(redirect_uri.as_ref()))
}
