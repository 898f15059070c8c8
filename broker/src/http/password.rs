//! `POST /login/{connector}`: a name and a password, tried, and what the browser gets for it; as for a credential
//! (`http/credential.rs`).

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
    way::{client_name, limits, look, no_way, posted, way},
};
use crate::{
    App,
    login::{Admitted, Attempt, Guesser, PasswordSignIn, SignInError, Typed},
    tenancy::Wired,
};

/// The cookie that remembers which accounts have signed in on a browser.
pub(super) const KNOWN_COOKIE: &str = "denizen-known";

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
    let this = Entrance { app, session, peer, way: way(app, &attempt, connector)?, id: &id, attempt: &attempt };
    if this.way.password.is_none() {
        return Err(no_way());
    }
    let text = |name| parameters.one(name).map(Option::unwrap_or_default);
    let filled = Filled { name: text("username")?, domain: text("domain")?, project: text("project")? };
    let password = text("password")?;
    let again = |error| page(app, this.way, (&id, &attempt), &filled, Some(error));
    if filled.is_incomplete(this.way, attempt.tenant()) || password.is_empty() || password.len() > 1_024 {
        return Ok(again(PasswordError::Incomplete));
    }
    let typed = Typed {
        name: filled.name,
        password: Secret::new(password.to_owned()),
        domain: Some(filled.domain),
        project: Some(filled.project),
        tenant: attempt.tenant(),
        address: peer.address,
    };
    let known = cookie(headers, app, KNOWN_COOKIE);
    let guesser = app.password.guesser(this.way, &typed, |account| app.vouching.vouches(known, account));
    let result = app.password.sign_in(this.way, &typed, &guesser, app.seams.clock.now()).await;
    ended(&this, (known, &guesser), result, "wrong name or password", again).await
}

/// What someone filled in besides the password.
pub(super) struct Filled<'a> {
    pub(super) name: &'a str,
    pub(super) domain: &'a str,
    pub(super) project: &'a str,
}

impl Filled<'_> {
    /// Whether something is missing, or is no such text by its length.
    fn is_incomplete(&self, way: &Wired, tenant: Option<&str>) -> bool {
        let lacks_domain = PasswordSignIn::asks_domain(way, tenant) && self.domain.trim().is_empty() && !self.name.contains('@');
        let texts = [self.name, self.domain, self.project];
        self.name.trim().is_empty() || lacks_domain || texts.iter().any(|text| text.len() > 255)
    }
}

/// What the browser gets for a try: in, and the proof that this account has signed in on it; else the form again, with what to do,
/// or a page where the form would not help. `wrong` says in the log what may have been wrong.
pub(super) async fn ended(
    this: &Entrance<'_>,
    (known, guesser): (Option<&str>, &Guesser),
    result: Result<Admitted, SignInError>,
    wrong: &str,
    again: impl FnOnce(PasswordError) -> Response,
) -> Result<Response, Instead> {
    let error = match result {
        Ok(admitted) => {
            let mut response = this.go_in(admitted).await?;
            if let Some(cookie) = set_cookie(this.app, KNOWN_COOKIE, &this.app.vouching.remember(known, guesser.account())) {
                response.headers_mut().append(header::SET_COOKIE, cookie);
            }
            return Ok(response);
        }
        Err(error) => error,
    };
    Ok(match &error {
        SignInError::Wrong => {
            this.audit_refused("sign_in.refused", "refused", wrong);
            again(PasswordError::Wrong)
        }
        SignInError::Slowed(wait) => {
            this.audit_refused("sign_in.refused", "slowed", "too many failures");
            let seconds = u64::try_from(wait.whole_seconds()).unwrap_or_default() + 1;
            let mut response = again(PasswordError::Throttled { seconds });
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            response
        }
        SignInError::NotAdmitted { user, .. } => {
            let reference = this.refused(Some(user), &error.to_string()).await;
            this.not_for_you(reference)
        }
        SignInError::Upstream(_) | SignInError::Store(_) => {
            let reference = this.unavailable(&error.to_string()).await;
            again(PasswordError::Unavailable { reference })
        }
    })
}

/// The status of a form, empty or after a failed try.
pub(super) const fn status(error: Option<&PasswordError>) -> StatusCode {
    match error {
        None => StatusCode::OK,
        Some(PasswordError::Incomplete | PasswordError::Wrong) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(PasswordError::Throttled { .. }) => StatusCode::TOO_MANY_REQUESTS,
        Some(PasswordError::Unavailable { .. }) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The policy of such a form, which may lead back to the application.
pub(super) fn policy(attempt: &Attempt) -> String {
    let redirect_uri = attempt.request.as_ref().and_then(|r| Url::parse(&r.redirect_uri).ok());
    sign_in_policy(redirect_uri.as_ref())
}

/// The form, empty or after a failed try.
pub(super) fn page(app: &App, way: &Wired, (id, attempt): (&str, &Attempt), filled: &Filled<'_>, error: Option<PasswordError>) -> Response {
    let asks_project = way.password.as_ref().is_some_and(|port| port.asks().project);
    let page = Password {
        connector: way.display_name.clone(),
        client: client_name(app, attempt),
        tenant: None,
        tenant_known: attempt.tenant().is_some(),
        action: format!("/login/{}", way.id),
        csrf: attempt.csrf.clone(),
        attempt: id.to_owned(),
        name: filled.name.to_owned(),
        domain: PasswordSignIn::asks_domain(way, attempt.tenant()).then(|| filled.domain.to_owned()),
        project: asks_project.then(|| filled.project.to_owned()),
        error,
        credential: way.credential.is_some().then(|| format!("/login/{}/credential?attempt={id}", way.id)),
        other_ways: (app.ways.possible(limits(app, attempt)).count() > 1).then(|| other_ways(id)),
    };
    render(look(app, attempt), status(page.error.as_ref()), &page, &policy(attempt))
}
