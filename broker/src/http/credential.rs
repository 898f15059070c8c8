//! `/login/{connector}/credential`: the id and the secret of a credential that someone made for a program of theirs, asked for and
//! tried.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};
use connectors::Secret;
use tower_sessions::Session;

use super::{
    browser::cookie,
    caller::Peer,
    entering::Entrance,
    instead::{Instead, shown},
    pages::{Credential, PasswordError, render},
    parameters::{Form, Parameters, Query},
    password::{KNOWN_COOKIE, ended, policy, status},
    way::{begun, client_name, look, no_way, posted, way},
};
use crate::{
    App,
    login::{Attempt, CredentialSignIn, TypedCredential},
    tenancy::Wired,
};

/// `GET`: the form.
pub(crate) async fn form(
    State(app): State<Arc<App>>,
    session: Session,
    Path(connector): Path<String>,
    Query(parameters): Query,
) -> Response {
    shown(&app, asked(&app, &session, &connector, &parameters).await)
}

async fn asked(app: &App, session: &Session, connector: &str, parameters: &Parameters) -> Result<Response, Instead> {
    let (id, attempt) = begun(app, session, parameters, app.seams.clock.now()).await?;
    Ok(page(app, taking(app, &attempt, connector)?, (&id, &attempt), "", None))
}

/// `POST`: a try.
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
    let (id, attempt) = posted(app, session, parameters, app.seams.clock.now()).await?;
    let this = Entrance { app, session, peer, way: taking(app, &attempt, connector)?, id: &id, attempt: &attempt };
    let text = |name| parameters.one(name).map(Option::unwrap_or_default);
    let (credential, secret) = (text("credential_id")?, text("credential_secret")?);
    let again = |error| page(app, this.way, (&id, &attempt), credential, Some(error));
    if credential.trim().is_empty() || secret.is_empty() || credential.len() > 255 || secret.len() > 1_024 {
        return Ok(again(PasswordError::Incomplete));
    }
    let secret = Secret::new(secret.to_owned());
    let typed = TypedCredential { id: credential, secret, tenant: attempt.tenant(), address: peer.address };
    let known = cookie(headers, app, KNOWN_COOKIE);
    let guesser = CredentialSignIn::guesser(this.way, &typed, |account| app.vouching.vouches(known, account));
    let result = app.credential.sign_in(this.way, &typed, &guesser, app.seams.clock.now()).await;
    ended(&this, (known, &guesser), result, "wrong application credential", again).await
}

/// The connector, where it takes credentials.
fn taking<'a>(app: &'a App, attempt: &Attempt, connector: &str) -> Result<&'a Wired, Instead> {
    let way = way(app, attempt, connector)?;
    if way.credential.is_some() { Ok(way) } else { Err(no_way()) }
}

/// The form, empty or after a failed try.
fn page(app: &App, way: &Wired, (id, attempt): (&str, &Attempt), credential: &str, error: Option<PasswordError>) -> Response {
    let page = Credential {
        connector: way.display_name.clone(),
        client: client_name(app, attempt),
        tenant: None,
        action: format!("/login/{}/credential", way.id),
        csrf: attempt.csrf.clone(),
        attempt: id.to_owned(),
        id: credential.to_owned(),
        error,
        password: format!("/login/{}?attempt={id}", way.id),
    };
    render(look(app, attempt), status(page.error.as_ref()), &page, &policy(attempt))
}
