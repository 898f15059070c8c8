//! `POST /login/{connector}`: a name and a password, tried, and what the browser gets for it.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use claims_mapping::{Identity, MappedUser};
use connectors::Secret;
use tower_sessions::Session;
use url::Url;

use super::{
    authorize::{Asked, answer_with_code, see_other},
    browser::{known_cookie, set_known_cookie, sign_in, signed_in},
    caller::Peer,
    instead::{Instead, shown},
    pages::{ErrorPage, POLICY, Password, PasswordError, render, sign_in_policy},
    parameters::{Form, Parameters},
    way::{begun, client, client_name, way, ways},
};
use crate::{
    App,
    login::{Attempt, AttemptError, Entering, SignInError, SignedIn, Typed, enter},
    metrics::Metrics,
    tenancy::Wired,
};

/// One try: at which form, of which attempt, from where.
struct Try<'a> {
    app: &'a App,
    session: &'a Session,
    peer: &'a Peer,
    way: &'a Wired,
    id: &'a str,
    attempt: &'a Attempt,
}

pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    session: Session,
    Path(connector): Path<String>,
    peer: Peer,
    headers: HeaderMap,
    Form(parameters): Form,
) -> Response {
    shown(tried(&app, &session, &connector, &peer, &headers, &parameters).await)
}

async fn tried(
    app: &App,
    session: &Session,
    connector: &str,
    peer: &Peer,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<Response, Instead> {
    let (id, attempt) = begun(app, session, parameters, app.seams.clock.now()).await?;
    if !attempt.csrf_matches(parameters.one("csrf")?.unwrap_or_default()) {
        return Err(AttemptError::Gone.into());
    }
    let this = Try { app, session, peer, way: way(app, &attempt, connector)?, id: &id, attempt: &attempt };
    let name = parameters.one("username")?.unwrap_or_default();
    let password = parameters.one("password")?.unwrap_or_default();
    if name.trim().is_empty() || password.is_empty() || name.len() > 255 || password.len() > 1_024 {
        return Ok(this.again(name, PasswordError::Incomplete));
    }
    let typed = Typed { name, password: Secret::new(password.to_owned()), tenant: attempt.tenant(), address: peer.address };
    let cookie = known_cookie(headers, app);
    let guesser = app.password.guesser(this.way, &typed, |account| app.vouching.vouches(cookie, account));
    let admitted = match app.password.sign_in(this.way, &typed, &guesser, app.seams.clock.now()).await {
        Ok(admitted) => admitted,
        Err(error) => return Ok(this.refused(name, &error)),
    };
    let mut response = this.go_in(admitted).await?;
    if let Some(cookie) = set_known_cookie(app, &app.vouching.remember(cookie, guesser.account())) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

impl Try<'_> {
    /// Whoever was proven and admitted goes in, where the application takes them, and on to where they came from.
    async fn go_in(&self, (identity, mapped): (Identity, MappedUser)) -> Result<Response, Instead> {
        let (app, now) = (self.app, self.app.seams.clock.now());
        let tenant = identity.id().tenant_id();
        if client(app, self.attempt).is_some_and(|c| !c.takes_tenant(tenant) || !c.takes_connector(&self.way.id)) {
            self.audit_refused("the client does not take this tenant", "refused");
            return Err(Instead::page(StatusCode::FORBIDDEN, &not_for_you(None), POLICY));
        }
        let before = signed_in(self.session).await?;
        let signed_in =
            enter((&app.attempts, self.id), &app.sessions, Entering { identity: &identity, mapped, upstream: None }, before.as_ref(), now)
                .await?;
        sign_in(self.session, signed_in.clone(), app).await?;
        self.audit_entered(&identity, &signed_in);
        match &self.attempt.request {
            Some(request) => Ok(answer_with_code(app, request, &signed_in, Asked::JustNow, now).await?.ok_or(AttemptError::Gone)?),
            None => Ok(see_other("/account")),
        }
    }

    /// The answer to a failed try: the form again, with what to do; or a page where the form would not help.
    fn refused(&self, name: &str, error: &SignInError) -> Response {
        match error {
            SignInError::Wrong => {
                self.audit_refused("wrong name or password", "refused");
                self.again(name, PasswordError::Wrong)
            }
            SignInError::Slowed(wait) => {
                self.audit_refused("too many failures", "slowed");
                let seconds = u64::try_from(wait.whole_seconds()).unwrap_or_default() + 1;
                let mut response = self.again(name, PasswordError::Throttled { seconds });
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
                response
            }
            SignInError::NotAdmitted(_) => {
                let reference = self.audit_failed("sign_in.refused", "refused", error);
                render(StatusCode::FORBIDDEN, &not_for_you(Some(reference)), POLICY)
            }
            SignInError::Upstream(_) | SignInError::Store(_) => {
                let reference = self.audit_failed("sign_in.unavailable", "unavailable", error);
                self.again(name, PasswordError::Unavailable { reference })
            }
        }
    }

    fn again(&self, name: &str, error: PasswordError) -> Response {
        page(self.app, self.way, self.id, self.attempt, name.to_owned(), Some(error))
    }

    fn audit_entered(&self, identity: &Identity, signed_in: &SignedIn) {
        Metrics::ended(&self.app.metrics.sign_ins, "ok");
        let client = self.attempt.request.as_ref().map(|r| r.client_id.as_str());
        tracing::info!(
            target: "audit", event = "sign_in", tenant.id = %signed_in.tenant, connector.id = %self.way.id,
            user.id = %identity.id().opaque_id(), client.address = %self.peer.address, client.id = client,
        );
    }

    fn audit_refused(&self, reason: &str, outcome: &'static str) {
        Metrics::ended(&self.app.metrics.sign_ins, outcome);
        tracing::warn!(target: "audit", event = "sign_in.refused", connector.id = %self.way.id, client.address = %self.peer.address, reason);
    }

    /// Logs what people are not told, under a number that they are told.
    fn audit_failed(&self, event: &'static str, outcome: &'static str, error: &SignInError) -> String {
        let reference: String = crate::secret_text::random_uuid(&*self.app.seams.entropy).simple().to_string().chars().take(12).collect();
        Metrics::ended(&self.app.metrics.sign_ins, outcome);
        tracing::warn!(
            target: "audit", event, connector.id = %self.way.id, client.address = %self.peer.address, reference, reason = %error,
        );
        reference
    }
}

fn not_for_you(reference: Option<String>) -> ErrorPage {
    let number = if reference.is_some() { "; tell them the reference number" } else { "" };
    ErrorPage {
        title: "You can not sign in here".to_owned(),
        what: "Your name and password are right, but your account has no access to this application.".to_owned(),
        todo: format!("Ask the people who look after accounts in your organisation{number}."),
        next: None,
        reference,
    }
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
        other_ways: (ways(app, attempt).count() > 1).then(|| format!("/login?attempt={id}")),
    };
    render(status, &page, &sign_in_policy(redirect_uri.as_ref()))
}
