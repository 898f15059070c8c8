//! Sign-in at an upstream's own pages: `GET /login/{connector}` sends the browser there, `GET /login/{connector}/callback` is
//! where it comes back to.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use connectors::{Callback, ConnectorError};
use tower_sessions::Session;

use super::{
    authorize::see_other,
    browser::binding,
    caller::Peer,
    entering::{Entrance, support},
    instead::{Instead, shown},
    pages::{ErrorPage, Link, POLICY, render},
    parameters::{Parameters, Query},
    way::{gone, limits, no_way, over, with_client},
};
use crate::{
    App,
    login::{AttemptError, RedirectError},
};

/// On to the upstream's pages. `anew=true` has it ask again whoever is signed in there.
pub(super) async fn sent(entrance: &Entrance<'_>, parameters: &Parameters) -> Result<Response, Instead> {
    let app = entrance.app;
    let browser = binding(entrance.session).await?.ok_or(AttemptError::Gone)?;
    let mut wish = entrance.attempt.wish();
    wish.anew |= parameters.one("anew")?.is_some();
    let now = app.seams.clock.now();
    match app.redirect.begin(entrance.way, (&browser, entrance.peer.address), entrance.id, &wish, now).await {
        Ok(address) => Ok(see_other(address.as_str())),
        Err(error) => stopped(entrance, error).await,
    }
}

/// `GET /login/{connector}/callback`.
pub(crate) async fn callback(
    State(app): State<Arc<App>>,
    session: Session,
    Path(connector): Path<String>,
    peer: Peer,
    Query(parameters): Query,
) -> Response {
    shown(&app, back(&app, &session, &connector, &peer, &parameters).await)
}

async fn back(app: &App, session: &Session, connector: &str, peer: &Peer, parameters: &Parameters) -> Result<Response, Instead> {
    let now = app.seams.clock.now();
    let way = app.admission.connector(connector).filter(|way| way.redirect.is_some()).ok_or_else(no_way)?;
    let text = |name| parameters.one(name).map(|value| value.map(str::to_owned));
    let callback = Callback { code: text("code")?, iss: text("iss")?, error: text("error")? };
    let state = parameters.one("state")?.unwrap_or_default();
    let Some(browser) = binding(session).await? else { return Err(gone(app, session).await) };
    let sent = match app.redirect.arrived(way, state, &browser, now).await {
        Ok(sent) => sent,
        Err(error) => return Err(over(app, session, error).await),
    };
    let attempt = match app.attempts.find(&sent.attempt, &browser, now).await {
        Ok(attempt) => with_client(app, attempt)?,
        Err(error) => return Err(over(app, session, error).await),
    };
    if !app.ways.possible(limits(app, &attempt)).any(|possible| possible.id == way.id) {
        return Err(no_way());
    }
    let entrance = Entrance { app, session, peer, way, id: &sent.attempt, attempt: &attempt };
    match app.redirect.finish(way, (&sent, &attempt), &callback, now).await {
        Ok(admitted) => entrance.go_in(admitted).await,
        Err(error) => stopped(&entrance, error).await,
    }
}

/// What someone sees who did not get in: what happened, and the way on.
async fn stopped(entrance: &Entrance<'_>, error: RedirectError) -> Result<Response, Instead> {
    let name = &entrance.way.display_name;
    let reason = error.to_string();
    // An answer that can not be used is worth no second try: someone must act.
    let status = match error {
        RedirectError::Upstream(ConnectorError::Refused(_) | ConnectorError::Unusable(_)) => StatusCode::BAD_GATEWAY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    match error {
        RedirectError::Declined => {
            entrance.audit_refused("sign_in.declined", "refused", &reason);
            Ok(render(entrance.look(), StatusCode::FORBIDDEN, &declined(name, entrance.again()), POLICY))
        }
        RedirectError::NotAdmitted { user, .. } | RedirectError::OtherTenant { user } => {
            let reference = entrance.refused(Some(&user), &reason).await;
            Ok(entrance.not_for_you(reference))
        }
        RedirectError::Upstream(_) | RedirectError::Store(_) | RedirectError::Attempt(AttemptError::Store(_)) => {
            let reference = entrance.unavailable(&reason).await;
            let page = unavailable(name, entrance.again(), support(&entrance.look()), reference);
            Ok(render(entrance.look(), status, &page, POLICY))
        }
        RedirectError::Attempt(error @ (AttemptError::Gone | AttemptError::Slowed)) => {
            Err(over(entrance.app, entrance.session, error).await)
        }
        RedirectError::NoPages => Err(no_way()),
    }
}

fn declined(connector: &str, next: Link) -> ErrorPage {
    ErrorPage {
        title: "You did not sign in".to_owned(),
        what: format!("{connector} did not sign you in: the sign-in was cancelled there, or you may not use it."),
        todo: "Try again, or go back to the application.".to_owned(),
        next: Some(next),
        reference: None,
    }
}

fn unavailable(connector: &str, next: Link, support: &str, reference: String) -> ErrorPage {
    ErrorPage {
        title: "Sign-in does not work at the moment".to_owned(),
        what: format!("{connector} could not be asked who you are, or its answer could not be used."),
        todo: format!("Try again in a minute. If it stays like this, ask {support}."),
        next: Some(next),
        reference: Some(reference),
    }
}
