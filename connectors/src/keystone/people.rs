//! People by their records, as the service account reads them: who is in force, and what would be said of them if they signed in now.
//! Search and look-up (`directory.rs`) and asking again (`renewal.rs`) stand on it.

use std::sync::Arc;

use claims_mapping::{ConnectorId, UpstreamUser};
use futures_util::future::try_join3;
use serde_json::Value;

use super::{
    api::{Api, Listed},
    assignments::{assignments_of, roles_on},
    auth::By,
    claims::{Domain, Facts, Scope},
    config::SignInScope,
    groups::{groups_by_id, groups_of},
    places,
    plan::{NamedProject, Rules, named_project},
};
use crate::ConnectorError;

/// The most users of a domain that are gone through one by one.
pub(super) const MOST_READ: usize = 1_000;
/// How many users or groups are asked for at once.
pub(super) const PAGE: usize = 200;

/// The users of a Keystone.
pub(super) struct People {
    pub(super) id: ConnectorId,
    pub(super) api: Api,
    pub(super) rules: Arc<Rules>,
}

impl People {
    /// A domain that is enabled, and whose users are this connector's.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn domain(&self, by: &By) -> Result<Option<Domain>, ConnectorError> {
        let ours = |domain: &Domain| self.rules.domain_id.as_ref().is_none_or(|only| *only == domain.id);
        Ok(places::domain(&self.api, by).await?.filter(ours))
    }

    /// Users of a domain: those that are enabled, with these conditions of Keystone's. Which of them are what they were asked for, is
    /// for the caller to see ([`is_of`]).
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn list(&self, domain: &Domain, conditions: &[(&str, &str)], most: usize) -> Result<Listed, ConnectorError> {
        let limit = most.min(PAGE).to_string();
        let mut query = vec![("domain_id", domain.id.as_str())];
        query.extend(conditions);
        query.push(("limit", &limit));
        self.api.list("users", &["users"], &query, "users", most).await
    }

    /// The record of an enabled user of a domain, by its id, letter for letter.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn record(&self, domain: &Domain, user_id: &str) -> Result<Option<Value>, ConnectorError> {
        const WHAT: &str = "a user";
        let is_it = |user: &Value| places::text(user, "id") == Some(user_id) && is_of(user, domain);
        let body = match self.api.get(WHAT, &["users", user_id], &[]).await {
            // To an account that may read one domain only, Keystone does not say that there is no such user. The domain's list does.
            Err(refused @ ConnectorError::Refused(_)) => {
                let listed = self.list(domain, &[("enabled", "true")], MOST_READ).await?;
                let listed_user = listed.items.into_iter().find(is_it);
                return if listed_user.is_none() && listed.truncated { Err(refused) } else { Ok(listed_user) };
            }
            answer => answer?,
        };
        let Some(mut body) = body else { return Ok(None) };
        places::member(WHAT, &mut body, "user").map(|user| Some(user).filter(is_it))
    }

    /// What a record says, with nothing that would have to be asked for besides.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn facts(record: &Value, domain: &Domain) -> Result<Facts, ConnectorError> {
        let facts = Facts::of_user(record)?;
        Ok(match &domain.name {
            Some(name) => facts.with_domain_name(name.clone()),
            None => facts,
        })
    }

    /// With groups and roles: those on `scope`, whose project and domain are in force. `None` where the user has no role there.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn with_roles(&self, facts: Facts, scope: Scope) -> Result<Option<Facts>, ConnectorError> {
        let roles = roles_on(&self.api, facts.subject().as_str(), &scope).await?;
        if roles.is_empty() && scope != Scope::Unscoped {
            return Ok(None);
        }
        self.completed(facts.with_scope(scope, roles)).await.map(Some)
    }

    /// What a token or a record says, with the groups, and the roles elsewhere, that the configuration asks for.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn completed(&self, facts: Facts) -> Result<Facts, ConnectorError> {
        let (user, domain) = (facts.subject().as_str(), facts.domain().id.as_str());
        let groups = async { if self.rules.groups { groups_of(&self.api, user, domain).await.map(Some) } else { Ok(None) } };
        let given = facts.federated_groups();
        let federated =
            async { if self.rules.groups && !given.is_empty() { groups_by_id(&self.api, given, domain).await } else { Ok(Vec::new()) } };
        let assignments = async {
            match self.rules.assignments {
                true => assignments_of(&self.api, user, self.rules.system_assignments).await.map(Some),
                false => Ok(None),
            }
        };
        let (groups, federated, assignments) = try_join3(groups, federated, assignments).await?;
        let mut facts = facts;
        if let Some(groups) = groups {
            facts = facts.with_groups(groups.into_iter().chain(federated).collect());
        }
        if let Some(assignments) = assignments {
            facts = facts.with_assignments(assignments);
        }
        Ok(facts)
    }

    /// What would be said of the user if they signed in now and named no project. Who has no role on what the configuration asks for could not sign
    /// in, and is shown as someone without roles.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn whole(&self, record: &Value, domain: &Domain) -> Result<UpstreamUser, ConnectorError> {
        let facts = Self::facts(record, domain)?;
        let scope = self.sign_in_scope(domain).await?.unwrap_or(Scope::Unscoped);
        let whole = match self.with_roles(facts.clone(), scope).await? {
            Some(whole) => whole,
            // A record is unscoped by itself.
            None => self.completed(facts).await?,
        };
        whole.into_user(&self.rules.system_roles)
    }

    /// What a sign-in asks for; `None` where it is no longer in force.
    async fn sign_in_scope(&self, own: &Domain) -> Result<Option<Scope>, ConnectorError> {
        let project = match &self.rules.scope {
            SignInScope::Unscoped | SignInScope::Ask => return Ok(Some(Scope::Unscoped)),
            SignInScope::Domain => return Ok(Some(Scope::Domain(own.clone()))),
            SignInScope::System => return Ok(Some(Scope::System)),
            SignInScope::Project(project) => project,
        };
        let wrong = |why| ConnectorError::Unusable(format!("keystone: the project of sign-ins: {why}"));
        let found = match named_project(project).map_err(wrong)? {
            NamedProject::Id(id) => places::project(&self.api, &id).await?,
            NamedProject::Name(name, None) => places::project_named(&self.api, &name, &own.id).await?,
            NamedProject::Name(name, Some(by)) => match places::domain(&self.api, &by).await? {
                Some(domain) => places::project_named(&self.api, &name, &domain.id).await?,
                None => None,
            },
        };
        Ok(found.map(Scope::Project))
    }
}

/// Whether a record is an enabled user's of this domain.
pub(super) fn is_of(user: &Value, domain: &Domain) -> bool {
    places::is_enabled(user) && places::text(user, "domain_id") == Some(domain.id.as_str())
}
