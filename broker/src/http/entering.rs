//! The end of a sign-in, whichever way it went: what the browser gets, and what the operators learn.

use std::sync::Arc;

use axum::{
    http::{StatusCode, header},
    response::Response,
};
use claims_mapping::{Identity, UpstreamUser};
use tower_sessions::Session;

use super::{
    authorize::{Asked, answer_with_code, see_other},
    browser::{set_cookie, sign_in, signed_in},
    caller::Peer,
    instead::Instead,
    pages::{ErrorPage, Link, POLICY, render},
    way::{WAY_COOKIE, client, limits, look},
};
use crate::{
    App,
    branding::Look,
    login::{Admitted, Attempt, AttemptError, Entering, SignedIn, enter},
    metrics::Metrics,
    tenancy::Wired,
};

/// Someone about to go in: which way, in which attempt, from where.
pub(super) struct Entrance<'a> {
    pub(super) app: &'a App,
    pub(super) session: &'a Session,
    pub(super) peer: &'a Peer,
    pub(super) way: &'a Wired,
    pub(super) id: &'a str,
    pub(super) attempt: &'a Attempt,
}

impl Entrance<'_> {
    /// Whoever was proven and admitted goes in, where the application takes them, and on to where they came from. The browser
    /// remembers the way.
    pub(super) async fn go_in(&self, admitted: Admitted) -> Result<Response, Instead> {
        let (app, now) = (self.app, self.app.seams.clock.now());
        let Admitted { identity, mapped, user, upstream } = admitted;
        let (tenant, connector) = (identity.id().tenant_id(), identity.connector());
        if client(app, self.attempt)
            .is_some_and(|c| !c.takes_tenant(tenant) || !(c.takes_connector(connector) || c.takes_connector(&self.way.id)))
        {
            let reference = self.refused(Some(&user), "the application does not take people of this tenant, or of this connector").await;
            return Ok(self.not_for_you(reference));
        }
        let before = signed_in(self.session).await?;
        let entering = Entering { identity: &identity, mapped, upstream };
        let signed_in = enter((&app.attempts, self.id), &app.sessions, entering, before.as_ref(), now).await?;
        sign_in(self.session, signed_in.clone(), app).await?;
        self.audit_entered(&identity, &signed_in);
        let mut response = match &self.attempt.request {
            Some(request) => answer_with_code(app, request, &signed_in, Asked::JustNow, now).await?.ok_or(AttemptError::Gone)?,
            None => see_other("/account"),
        };
        if let Some(cookie) = set_cookie(app, WAY_COOKIE, &app.vouching.remember_way(self.way.id.as_str())) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        Ok(response)
    }

    /// Tells the operators of someone who was proven and does not get in, and gives the number for the person.
    pub(super) async fn refused(&self, user: Option<&UpstreamUser>, reason: &str) -> String {
        self.failed(("sign_in.refused", "refused"), user, reason).await
    }

    /// Tells them that it could not be told, and gives the number for the person.
    pub(super) async fn unavailable(&self, reason: &str) -> String {
        self.failed(("sign_in.unavailable", "unavailable"), None, reason).await
    }

    async fn failed(&self, (event, outcome): (&'static str, &'static str), user: Option<&UpstreamUser>, reason: &str) -> String {
        let said = user.map(|user| (&*self.way.mapping, user));
        let reference = self.app.refusals.record(&self.way.id, said, reason, self.app.seams.clock.now()).await;
        Metrics::ended(&self.app.metrics.sign_ins, outcome);
        tracing::warn!(target: "audit", event, connector.id = %self.way.id, client.address = %self.peer.address, reference, reason);
        reference
    }

    /// Logs what the person is told in full.
    pub(super) fn audit_refused(&self, event: &'static str, outcome: &'static str, reason: &str) {
        Metrics::ended(&self.app.metrics.sign_ins, outcome);
        tracing::warn!(target: "audit", event, connector.id = %self.way.id, client.address = %self.peer.address, reason);
    }

    fn audit_entered(&self, identity: &Identity, signed_in: &SignedIn) {
        Metrics::ended(&self.app.metrics.sign_ins, "ok");
        let client = self.attempt.request.as_ref().map(|r| r.client_id.as_str());
        tracing::info!(
            target: "audit", event = "sign_in", tenant.id = %signed_in.tenant, connector.id = %self.way.id,
            user.id = %identity.id().opaque_id(), client.address = %self.peer.address, client.id = client,
        );
    }

    /// The page for someone who was proven and does not get in.
    pub(super) fn not_for_you(&self, reference: String) -> Response {
        let page = ErrorPage {
            title: "You can not sign in here".to_owned(),
            what: format!("{} knows you, but your account there has no access to this application.", self.way.display_name),
            todo: format!("Ask {}, and tell them the number below.", support(&self.look())),
            next: Some(self.again()),
            reference: Some(reference),
        };
        render(self.look(), StatusCode::FORBIDDEN, &page, POLICY)
    }

    /// How the pages of this sign-in look.
    pub(super) fn look(&self) -> Arc<Look> {
        look(self.app, self.attempt)
    }

    /// The way on: to choose again, or, where there is nothing to choose, to be asked anew.
    pub(super) fn again(&self) -> Link {
        if self.has_other_ways() {
            return Link { name: "Choose how to sign in".to_owned(), href: other_ways(self.id) };
        }
        let anew = if self.way.password.is_none() { "&anew=true" } else { "" };
        Link { name: "Try again".to_owned(), href: format!("/login/{}?attempt={}{anew}", self.way.id, self.id) }
    }

    fn has_other_ways(&self) -> bool {
        self.app.ways.possible(limits(self.app, self.attempt)).count() > 1
    }
}

/// Whom people turn to.
pub(super) fn support(look: &Look) -> &str {
    look.support.as_deref().unwrap_or("the people who look after accounts in your organisation")
}

/// Where the other ways of an attempt are.
pub(super) fn other_ways(id: &str) -> String {
    format!("/login?attempt={id}&others=true")
}
