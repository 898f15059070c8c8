//! `/oauth2/logout` (OpenID Connect RP-Initiated Logout 1.0): an application sends a person here to sign out.
//!
//! An ID token of this browser's own session shows that its application may end it. Whatever else comes, anyone may have sent: the
//! person is asked, and nothing ends before they have answered. Nothing redirects but to an address that is registered for the client.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use time::OffsetDateTime;
use tower_sessions::Session;
use url::Url;

use super::{
    account::{end_as_confirmed, signed_out},
    authorize::{refusal_page, see_other},
    browser::{forget, signed_in},
    failure::Failure,
    instead::{Instead, shown},
    pages::{SignOut, render, sign_in_policy},
    parameters::{Form, Parameters, Query},
};
use crate::{
    App,
    grants::Client,
    login::{Session as StoredSession, SessionError, SignedIn},
    tokens::{IdClaims, UnverifiedToken},
};

/// What an application asked for, proven as far as it can be.
struct Asked<'a> {
    /// The application: proven by the hint, or only named.
    client: Option<&'a Client>,
    /// A genuine ID token of ours, of whichever session.
    hint: Option<IdClaims>,
    /// Where to go afterwards: an address of the client's own.
    uri: Option<&'a str>,
    state: Option<&'a str>,
}

/// `GET`.
pub(crate) async fn logout(State(app): State<Arc<App>>, session: Session, Query(parameters): Query) -> Response {
    shown(&app, answer(&app, &session, &parameters).await)
}

/// `POST`: the person's own answer, which has the `csrf` of our form; else an application's form. With that a browser sends no
/// cookie, so it is sent on to the same request as a link, with which it does.
pub(crate) async fn logout_by_form(State(app): State<Arc<App>>, session: Session, Form(parameters): Form) -> Response {
    if matches!(parameters.one("csrf"), Ok(None)) {
        return see_other(&format!("/oauth2/logout?{}", parameters.encoded()));
    }
    shown(&app, confirmed(&app, &session, &parameters).await)
}

async fn answer(app: &App, session: &Session, parameters: &Parameters) -> Result<Response, Instead> {
    let asked = match Asked::of(app, parameters).await {
        Ok(asked) => asked,
        Err(failure) => return Ok(refusal_page(app, &failure)),
    };
    let now = app.seams.clock.now();
    let Some((signed_in, stored)) = here(app, session, now).await? else {
        return Ok(if asked.hint.is_some() { asked.end(app) } else { signed_out(app) });
    };
    if !asked.is_hinted_at(&signed_in, &stored) {
        return Ok(question(app, &asked, &signed_in, stored, now).await);
    }
    if app.sessions.end(&signed_in, now).await.map_err(|_| Failure::unavailable())? {
        let client = asked.client.map(|client| &client.id);
        tracing::info!(target: "audit", event = "sign_out", tenant.id = %signed_in.tenant, session.id = %signed_in.sid, client.id = client);
    }
    forget(session).await?;
    Ok(asked.end(app))
}

async fn confirmed(app: &App, session: &Session, parameters: &Parameters) -> Result<Response, Instead> {
    let asked = match Asked::of(app, parameters).await {
        Ok(asked) => asked,
        Err(failure) => return Ok(refusal_page(app, &failure)),
    };
    let was_signed_in = end_as_confirmed(app, session, parameters).await?;
    Ok(if was_signed_in { asked.end(app) } else { signed_out(app) })
}

/// The session of this browser, where it has one that stands.
async fn here(app: &App, session: &Session, now: OffsetDateTime) -> Result<Option<(SignedIn, StoredSession)>, Instead> {
    let Some(signed_in) = signed_in(session).await? else { return Ok(None) };
    match app.sessions.load(&signed_in, now).await {
        Ok(stored) => Ok(Some((signed_in, stored))),
        Err(error @ (SessionError::Store(_) | SessionError::Directory(_))) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// The page that asks. What it says of the person is a courtesy: it does without.
async fn question(app: &App, asked: &Asked<'_>, signed_in: &SignedIn, stored: StoredSession, now: OffsetDateTime) -> Response {
    let person = app.sessions.find(signed_in, now).await.ok().map(|(_, identity)| {
        let tenant = app.admission.tenants.get(&signed_in.tenant).map(|tenant| format!(" ({})", tenant.display_name));
        format!("{}{}", identity.display_name().unwrap_or_else(|| identity.username()), tenant.unwrap_or_default())
    });
    let client = asked.client.map(|client| client.id.clone());
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let fields = [("client_id", client), ("post_logout_redirect_uri", owned(asked.uri)), ("state", owned(asked.state))];
    let page = SignOut {
        client: asked.client.map(|client| client.display_name.clone()),
        person,
        csrf: stored.csrf,
        fields: fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
    };
    render(
        app.looks.of(Some(signed_in.tenant.as_str())),
        StatusCode::OK,
        &page,
        &sign_in_policy(asked.uri.and_then(|uri| Url::parse(uri).ok()).as_ref()),
    )
}

impl<'a> Asked<'a> {
    async fn of(app: &'a App, parameters: &'a Parameters) -> Result<Self, Failure> {
        let hint = match parameters.one("id_token_hint")? {
            Some(hint) => {
                let told = app.judge.id_token(UnverifiedToken::new(hint), app.seams.clock.now()).await;
                told.map_err(|_| Failure::unavailable())?
            }
            None => None,
        };
        let named = parameters.one("client_id")?;
        if let (Some(hint), Some(named)) = (&hint, named)
            && hint.aud != named
        {
            return Err(Failure::bad_request("the client_id is not the one that the id_token_hint was given to"));
        }
        let client = hint.as_ref().map(|hint| hint.aud.as_str()).or(named).and_then(|id| app.grants.clients.get(id));
        if named.is_some() && client.is_none() {
            return Err(Failure::bad_request("the client_id is unknown"));
        }
        let uri = parameters.one("post_logout_redirect_uri")?;
        if uri.is_some_and(|uri| !client.is_some_and(|client| client.returns_after_sign_out_to(uri))) {
            let why = "the post_logout_redirect_uri is not registered for the client that a valid id_token_hint or a client_id names";
            return Err(Failure::bad_request(why));
        }
        let state = parameters.one("state")?;
        if state.is_some_and(|state| state.len() > 2_048) {
            return Err(Failure::bad_request("`state` is longer than 2048 bytes"));
        }
        Ok(Self { client, hint, uri, state })
    }

    /// Whether the hint was given in this very session.
    fn is_hinted_at(&self, signed_in: &SignedIn, stored: &StoredSession) -> bool {
        self.hint.as_ref().is_some_and(|hint| {
            hint.sid == signed_in.sid && hint.sub == stored.opaque_id && hint.profile.tenant_id.as_ref() == Some(&signed_in.tenant)
        })
    }

    /// Back to the application, where it said to which address of its own; else the page that says that it is done.
    fn end(&self, app: &App) -> Response {
        let Some(uri) = self.uri else { return signed_out(app) };
        let Some(state) = self.state else { return see_other(uri) };
        match Url::parse(uri) {
            Ok(mut address) => {
                address.query_pairs_mut().append_pair("state", state);
                see_other(address.as_str())
            }
            Err(_) => signed_out(app),
        }
    }
}
