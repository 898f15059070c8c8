//! Keystone's own tokens, shown to us by someone else: whose they are, if Keystone says that they are in force; and taking them back.

use std::sync::Arc;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    claims::Facts,
    config::{TokensConfig, Trusts},
    form::Form,
    people::People,
};
use crate::{
    Audiences, ConnectorError, Revocation, Secret, TokenAuthentication, TokenBounds, TokenRevocation, UnverifiedToken, Verdict,
    VerifiedToken,
};

/// The tokens of one Keystone.
pub(super) struct Tokens {
    pub(super) people: Arc<People>,
    pub(super) config: TokensConfig,
}

#[async_trait]
impl TokenAuthentication for Tokens {
    fn claims_to_be_ours(&self, token: UnverifiedToken<'_>) -> bool {
        Form::of(token.text()).is_some()
    }

    async fn authenticate(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Verdict, ConnectorError> {
        let refused = |why: &str| Ok(Verdict::Refused(why.to_owned()));
        let Some(form) = Form::of(token.text()) else { return refused("it has not the form of a Keystone token") };
        if !form.may_be_in_force(now) {
            return refused("it is not in force, by the time that it says itself");
        }
        let Some(body) = self.people.api.validate(token.text()).await? else {
            return refused("Keystone does not know it, or not any more");
        };
        let facts = Facts::of_token(&body)?;
        let Some(expires_at) = facts.expires_at().map(OffsetDateTime::unix_timestamp) else {
            return Err(ConnectorError::Unusable("keystone: a token: it does not say until when it is good".to_owned()));
        };
        if expires_at <= now.unix_timestamp() {
            return refused("it has expired");
        }
        if let Some(why) = self.why_not(&facts).await? {
            return refused(why);
        }
        // E-mail address and description are in a user's record only: they would cost one more question for each token.
        let facts = self.people.completed(facts).await?;
        let user = facts.into_user(&self.people.rules.system_roles)?;
        Ok(Verdict::Genuine(VerifiedToken { user, audiences: Audiences::Unbound, expires_at }))
    }

    fn bounds(&self) -> TokenBounds {
        TokenBounds {
            believed_seconds: self.config.cache_seconds,
            refused_seconds: self.config.refusal_seconds,
            in_flight: usize::try_from(self.config.in_flight).unwrap_or(1),
            asks_upstream: true,
        }
    }
}

impl Tokens {
    /// Why a token that is in force is not taken all the same.
    async fn why_not(&self, facts: &Facts) -> Result<Option<&'static str>, ConnectorError> {
        if !self.people.has(facts) {
            return Ok(Some("its user is of another domain than this connector's"));
        }
        if let Some(why) = facts.bound() {
            return Ok(Some(why));
        }
        // Keystone itself does not validate one for whoever does not enforce the rules.
        if facts.credential().is_some_and(|credential| credential.has_access_rules) {
            return Ok(Some("its application credential is for certain requests only (access rules)"));
        }
        let Some(trust) = facts.trust().filter(|trust| trust.impersonation) else { return Ok(None) };
        if self.people.rules.trusts == Trusts::Refuse {
            return Ok(Some("it is of a trust with impersonation (`trusts: refuse`): its bearer is not the person of whom it speaks"));
        }
        // `plan.rs` sees to it that there is a directory.
        let is_trustor = facts.subject().as_str() == trust.trustor_id;
        if !is_trustor || self.people.record(facts.domain(), &trust.trustee_id).await?.is_none() {
            return Ok(Some("it is of a trust with impersonation whose trustee is not of the trustor's domain"));
        }
        Ok(None)
    }
}

#[async_trait]
impl TokenRevocation for Tokens {
    async fn revoke(&self, caller: &Secret, token: UnverifiedToken<'_>) -> Result<Revocation, ConnectorError> {
        // Other tokens than Keystone's own are none of its business.
        if Form::of(caller.expose()).is_none() {
            return Ok(Revocation::CallerUnknown);
        }
        if Form::of(token.text()).is_none() {
            return Ok(Revocation::Unknown);
        }
        self.people.api.delete(caller, token.text()).await
    }
}
