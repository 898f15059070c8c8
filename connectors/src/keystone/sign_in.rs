//! Sign-in with name, domain and password, and with an application credential: one question to Keystone, whose answer must be about
//! whom it was asked.
//!
//! The tokens that it gives are not taken back: see [`super::api::Api::issue`].

use async_trait::async_trait;
use claims_mapping::Tenant;

use super::{
    auth::{self, By, Wanted, is_name},
    claims::{Facts, Scope},
    config::SignInScope,
    people::People,
    plan::{NamedProject, Tenancy, named_project},
    remembered::Remembered,
};
use crate::{Asks, AsksDomain, ConnectorError, CredentialLogin, LoginName, PasswordLogin, Proven, Secret, UpstreamSession, names::folded};

/// The longest password or secret that is sent, in bytes.
const MOST_SECRET: usize = 4_096;

#[async_trait]
impl PasswordLogin for People {
    fn asks(&self) -> Asks {
        let domain = match (&self.rules.domain_id, self.rules.tenancy) {
            (Some(_), _) => AsksDomain::Never,
            (None, Tenancy::Other) => AsksDomain::Always,
            (None, Tenancy::DomainId | Tenancy::DomainName | Tenancy::Fixed) => AsksDomain::WithoutTenant,
        };
        Asks { domain, project: self.rules.scope == SignInScope::Ask }
    }

    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<Proven>, ConnectorError> {
        if !is_sendable(password) || !is_name(&login.name) {
            return Ok(None);
        }
        let Some(domain) = self.domain_typed(login)? else { return Ok(None) };
        let Some(wanted) = self.wanted(login, &domain)? else { return Ok(None) };
        let Some(issued) = self.api.issue(auth::password(&login.name, &domain, password, &wanted)).await? else { return Ok(None) };
        let facts = Facts::of_token(&issued.body)?;
        if !is_of(facts.scope(), &wanted) {
            return Err(ConnectorError::Unusable("keystone: a sign-in: the answer is about something else than what was asked".to_owned()));
        }
        // Some databases leave case, blanks and accents out when they compare: one account would have any number of names, each
        // with guesses of its own. It is a "no" like every other, or it would tell that the password is right.
        let is_so_called = |name: Option<&str>, typed: &str| name.is_some_and(|name| folded(name) == folded(typed));
        let is_there = match &domain {
            By::Id(id) => facts.domain().id == *id,
            By::Name(typed) => is_so_called(facts.domain().name.as_deref(), typed),
        };
        if !is_there {
            tracing::warn!(connector.id = %self.id, "a sign-in: Keystone answers about another domain than it was asked about; are the tenants' externalIds written as there?");
        }
        if !is_there || !is_so_called(Some(facts.name()), &login.name) {
            return Ok(None);
        }
        self.proven(facts, issued.token).await
    }
}

#[async_trait]
impl CredentialLogin for People {
    async fn authenticate(&self, id: &str, secret: &Secret) -> Result<Option<Proven>, ConnectorError> {
        if !is_sendable(secret) || !is_name(id) {
            return Ok(None);
        }
        let Some(issued) = self.api.issue_for_credential(auth::application_credential(id, secret)).await? else { return Ok(None) };
        let facts = Facts::of_token(&issued.body)?;
        match facts.credential() {
            // As with a name that is compared loosely.
            Some(credential) if credential.id != id => Ok(None),
            None => Err(ConnectorError::Unusable("keystone: a sign-in: the answer names no application credential".to_owned())),
            // It would be good for more here than where it comes from.
            Some(credential) if credential.has_access_rules => Ok(None),
            Some(_) => self.proven(facts, issued.token).await,
        }
    }
}

impl People {
    /// Whether a user is this connector's.
    pub(super) fn has(&self, facts: &Facts) -> bool {
        self.rules.domain_id.as_ref().is_none_or(|only| *only == facts.domain().id)
    }

    /// Someone whom Keystone proved, and what it can be asked with again.
    async fn proven(&self, facts: Facts, token: Secret) -> Result<Option<Proven>, ConnectorError> {
        if !self.has(&facts) {
            return Ok(None);
        }
        let mut remembered = Remembered {
            application_credential: facts.credential().map(|credential| credential.id.clone()),
            methods: facts.methods().to_vec(),
            ..Remembered::default()
        };
        match facts.scope() {
            Scope::Unscoped => {}
            Scope::Project(project) => remembered.project = Some(project.id.clone()),
            Scope::Domain(_) => remembered.domain = true,
            Scope::System => remembered.system = true,
        }
        let mut facts = facts;
        if self.rules.directory {
            remembered.user_domain = Some(facts.domain().id.clone());
            // Whoever is gone or disabled since a moment ago is no one any more.
            let Some(record) = self.record(facts.domain(), facts.subject().as_str()).await? else { return Ok(None) };
            facts = facts.with_record(&record)?;
        } else {
            remembered.token = Some(token.expose().to_owned());
        }
        let user = self.completed(facts).await?.into_user(&self.rules.system_roles)?;
        let session = UpstreamSession { sid: None, refresh_token: Some(remembered.to_secret()) };
        Ok(Some(Proven { user, auth_time: None, session }))
    }

    /// The domain in which someone signs in; `None` where nothing says so, or it is not this connector's.
    fn domain_typed(&self, login: &LoginName) -> Result<Option<By>, ConnectorError> {
        let own = self.rules.domain_id.as_ref();
        let tenant = |tenant: &Tenant| {
            let external_id = tenant.external_id(&self.id);
            if is_name(external_id) {
                return Ok(external_id.to_owned());
            }
            Err(ConnectorError::Unusable("keystone: the tenant's externalIds entry for this connector is no domain".to_owned()))
        };
        Ok(match (&login.tenant, self.rules.tenancy) {
            // Which tenant, the client's request may have said: of the ids that a database takes for the same, all but those of
            // other case are left out here, and those are one account where guesses are counted.
            (Some(known), Tenancy::DomainId) => {
                Some(tenant(known)?).filter(|id| id.is_ascii() && own.is_none_or(|own| own == id)).map(By::Id)
            }
            // That it is the connector's own is seen in the answer.
            (Some(known), Tenancy::DomainName) => Some(By::Name(tenant(known)?)),
            _ => match (own, &login.domain) {
                (Some(own), _) => Some(By::Id(own.clone())),
                (None, Some(typed)) if is_name(typed) => Some(By::Name(typed.clone())),
                (None, _) => None,
            },
        })
    }

    /// What the sign-in is for; `None` where no project can be called what was typed.
    fn wanted(&self, login: &LoginName, own: &By) -> Result<Option<Wanted>, ConnectorError> {
        Ok(Some(match &self.rules.scope {
            SignInScope::Unscoped => Wanted::Unscoped,
            SignInScope::Domain => Wanted::Domain(own.clone()),
            SignInScope::System => Wanted::System,
            SignInScope::Project(project) => {
                let wrong = |why| ConnectorError::Unusable(format!("keystone: the project of sign-ins: {why}"));
                match named_project(project).map_err(wrong)? {
                    NamedProject::Id(id) => Wanted::ProjectById(id),
                    NamedProject::Name(name, domain) => Wanted::Project { name, domain: domain.unwrap_or_else(|| own.clone()) },
                }
            }
            SignInScope::Ask => match login.project.as_deref().filter(|project| !project.is_empty()) {
                None => Wanted::Unscoped,
                Some(id) if is_id(id) => Wanted::ProjectById(id.to_owned()),
                Some(name) if is_name(name) => Wanted::Project { name: name.to_owned(), domain: own.clone() },
                Some(_) => return Ok(None),
            },
        }))
    }
}

fn is_sendable(secret: &Secret) -> bool {
    secret.is_plausible_password() && secret.expose().len() <= MOST_SECRET
}

/// How Keystone writes the ids that it makes.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a token is for what was asked for.
fn is_of(scope: &Scope, wanted: &Wanted) -> bool {
    match (scope, wanted) {
        (Scope::Unscoped, Wanted::Unscoped) | (Scope::System, Wanted::System) => true,
        (Scope::Project(project), Wanted::ProjectById(id)) => project.id == *id,
        (Scope::Project(project), Wanted::Project { name, .. }) => {
            project.name.as_deref().is_some_and(|found| folded(found) == folded(name))
        }
        (Scope::Domain(domain), Wanted::Domain(By::Id(id))) => domain.id == *id,
        (Scope::Domain(domain), Wanted::Domain(By::Name(name))) => {
            domain.name.as_deref().is_some_and(|found| folded(found) == folded(name))
        }
        _ => false,
    }
}
