//! Asking again about someone who signed in earlier: whether Keystone would let them in now, as far as their record, their roles and
//! their application credential say so, and what it would say of them. The password is not asked for again.
//!
//! Where there is no directory to ask, the person's own token stands for them until it expires.

use std::collections::BTreeSet;

use async_trait::async_trait;
use claims_mapping::{Subject, UpstreamUser};
use serde_json::Value;
use time::{OffsetDateTime, PrimitiveDateTime, format_description::well_known::Iso8601};

use super::{
    auth::By,
    claims::{ApplicationCredential, Domain, Facts, Project, Scope},
    people::People,
    places::{self, member, required, text},
    remembered::Remembered,
};
use crate::{ConnectorError, Renewal, Renewed, Secret};

/// An application credential that is still good.
struct Credential {
    credential: ApplicationCredential,
    roles: BTreeSet<String>,
}

impl People {
    /// By the directory: `None` where anything that the sign-in stood on is gone.
    async fn still(&self, subject: &Subject, remembered: &Remembered, now: OffsetDateTime) -> Result<Option<UpstreamUser>, ConnectorError> {
        // Without a directory there was a token; with one, the domain was remembered.
        let Some(domain_id) = remembered.user_domain.as_ref().filter(|_| self.rules.directory) else { return Ok(None) };
        let Some(domain) = self.domain(&By::Id(domain_id.clone())).await? else { return Ok(None) };
        let Some(record) = self.record(&domain, subject.as_str()).await? else { return Ok(None) };
        let Some(scope) = self.scope_again(remembered, &domain).await? else { return Ok(None) };
        let credential = match (&remembered.application_credential, &scope) {
            (None, _) => None,
            (Some(id), Scope::Project(project)) => match self.credential(subject, id, project, now).await? {
                Some(credential) => Some(credential),
                None => return Ok(None),
            },
            // It is always for a project.
            (Some(_), _) => return Ok(None),
        };
        let facts = Self::facts(&record, &domain)?.with_methods(remembered.methods.clone());
        let Some(mut facts) = self.with_roles(facts, scope.clone()).await? else { return Ok(None) };
        if let Some(Credential { credential, roles }) = credential {
            // A credential has no role that its owner has lost.
            let roles: Vec<_> = facts.roles().iter().filter(|role| roles.contains(*role)).cloned().collect();
            if roles.is_empty() {
                return Ok(None);
            }
            facts = facts.with_scope(scope, roles).with_credential(credential);
        }
        facts.into_user(&self.rules.system_roles).map(Some)
    }

    /// What the sign-in asked for; `None` where it is no longer in force.
    async fn scope_again(&self, remembered: &Remembered, own: &Domain) -> Result<Option<Scope>, ConnectorError> {
        match (&remembered.project, remembered.domain, remembered.system) {
            (None, false, false) => Ok(Some(Scope::Unscoped)),
            (None, true, false) => Ok(Some(Scope::Domain(own.clone()))),
            (None, false, true) => Ok(Some(Scope::System)),
            (Some(id), false, false) => Ok(places::project(&self.api, id).await?.map(Scope::Project)),
            _ => Ok(None),
        }
    }

    /// An application credential of this user for this project: `None` where it is gone or has expired.
    async fn credential(
        &self,
        subject: &Subject,
        id: &str,
        project: &Project,
        now: OffsetDateTime,
    ) -> Result<Option<Credential>, ConnectorError> {
        const WHAT: &str = "an application credential";
        const MEMBER: &str = "application_credential";
        let path = ["users", subject.as_str(), "application_credentials", id];
        let Some(mut body) = self.api.get(WHAT, &path, &[]).await? else { return Ok(None) };
        let found = member(WHAT, &mut body, MEMBER)?;
        // Keystone gives anyone's credential by a path with anyone's id.
        if text(&found, "id") != Some(id)
            || text(&found, "user_id").is_some_and(|owner| owner != subject.as_str())
            || text(&found, "project_id") != Some(&project.id)
            || has_expired(&found, now)?
        {
            return Ok(None);
        }
        let roles = found.get("roles").and_then(Value::as_array).into_iter().flatten();
        let roles = roles.map(|role| required(WHAT, role, "name")).collect::<Result<_, _>>()?;
        let has_access_rules = found.get("access_rules").is_some_and(|rules| !rules.is_null());
        let credential = ApplicationCredential { id: id.to_owned(), name: text(&found, "name").map(str::to_owned), has_access_rules };
        Ok(Some(Credential { credential, roles }))
    }

    /// By the person's own token, which says what it said at the sign-in.
    async fn still_by_token(&self, subject: &Subject, token: &str) -> Result<Option<UpstreamUser>, ConnectorError> {
        let Some(body) = self.api.validate(token).await? else { return Ok(None) };
        let facts = Facts::of_token(&body)?;
        if facts.subject() != subject || !self.has(&facts) {
            return Ok(None);
        }
        self.completed(facts).await?.into_user(&self.rules.system_roles).map(Some)
    }
}

#[async_trait]
impl Renewal for People {
    async fn renew(&self, subject: &Subject, refresh_token: &Secret, now: OffsetDateTime) -> Result<Option<Renewed>, ConnectorError> {
        let Some(remembered) = Remembered::of(refresh_token) else { return Ok(None) };
        let user = match &remembered.token {
            Some(token) => self.still_by_token(subject, token).await?,
            None => self.still(subject, &remembered, now).await?,
        };
        Ok(user.map(|user| Renewed { user: Ok(Some(user)), refresh_token: None }))
    }

    /// Every sign-in leaves something to ask with.
    fn believed_seconds(&self) -> u64 {
        0
    }
}

/// Keystone writes this time without a zone, and means UTC.
fn has_expired(credential: &Value, now: OffsetDateTime) -> Result<bool, ConnectorError> {
    let Some(text) = credential.get("expires_at").filter(|at| !at.is_null()) else { return Ok(false) };
    let at = text.as_str().and_then(|text| PrimitiveDateTime::parse(text.trim_end_matches('Z'), &Iso8601::DEFAULT).ok());
    let unreadable = || ConnectorError::Unusable("keystone: an application credential: `expires_at` is no time".to_owned());
    Ok(at.ok_or_else(unreadable)?.assume_utc() <= now)
}
