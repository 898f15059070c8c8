//! Search and look-up among the users of one domain, which enters each of Keystone's queries, and is compared with each of its answers.
//!
//! Keystone finds users by a part of their name and by nothing else. It reads `%` and `_` in such a text as wildcards, leaves out what
//! follows a NUL, and knows the case of ASCII letters only, at least with SQLite. So it is asked for what is safe of a text, and what it finds is
//! compared with the whole text here.

use async_trait::async_trait;
use claims_mapping::{TenantScope, UpstreamUser};
use serde_json::Value;
use uuid::Uuid;

use super::{
    auth::{By, is_name},
    claims::Domain,
    may_join_by,
    people::{MOST_READ, People, is_of},
    places::{is_enabled, only, text},
    plan::Tenancy,
};
use crate::{ConnectorError, Directory, Found, Lookup, UserQuery, names::folded};

/// What no domain may stand for by being called so: the tenant of the operators.
const SYSTEM: &str = "system";
const ENABLED: (&str, &str) = ("enabled", "true");

impl People {
    /// The domain that is the scope's tenant; `None` where it is unknown or disabled.
    pub(super) async fn domain_of(&self, scope: &TenantScope) -> Result<Option<Domain>, ConnectorError> {
        let external_id = scope.external_id(&self.id);
        let wrong = |why: &str| Err(ConnectorError::Unusable(format!("keystone: {why}")));
        if self.rules.tenancy != Tenancy::Fixed {
            // Nothing is asked for without a domain: the answer would be everyone.
            if external_id.trim().is_empty() {
                return wrong("the tenant's externalIds entry for this connector is empty");
            }
            if external_id.eq_ignore_ascii_case(SYSTEM) || !is_name(external_id) {
                return Ok(None);
            }
        }
        let by = match (self.rules.tenancy, &self.rules.domain_id) {
            (Tenancy::DomainId, _) => By::Id(external_id.to_owned()),
            (Tenancy::DomainName, _) => By::Name(external_id.to_owned()),
            (Tenancy::Fixed, Some(domain_id)) => By::Id(domain_id.clone()),
            (Tenancy::Fixed, None) => return wrong("`domainId` is missing: it is not known of which domain the users are"),
            (Tenancy::Other, _) => return wrong("the tenant rule does not say which domain a tenant is"),
        };
        self.domain(&by).await
    }

    /// Users whose name holds this text.
    async fn found(&self, domain: &Domain, query: &UserQuery) -> Result<Found, ConnectorError> {
        let wanted = folded(&query.text);
        let asked = safe_part(&wanted);
        let conditions = match asked {
            "" => vec![ENABLED],
            part => vec![ENABLED, ("name__icontains", part)],
        };
        let mut most = query.limit.saturating_add(1).min(MOST_READ);
        loop {
            let listed = self.list(domain, &conditions, most).await?;
            let fits = |user: &&Value| is_of(user, domain) && text(user, "name").is_some_and(|name| folded(name).contains(&wanted));
            let mut users = Vec::new();
            for user in listed.items.iter().filter(fits) {
                match Self::facts(user, domain).and_then(|facts| facts.into_user(&[])) {
                    Ok(user) => users.push(user),
                    // One broken record does not hide the others.
                    Err(error) => tracing::warn!(connector.id = %self.id, %error, "a user is left out of a search"),
                }
            }
            let more = users.len() > query.limit;
            if more || !listed.truncated || most >= MOST_READ {
                users.truncate(query.limit);
                return Ok(Found { users, truncated: more || listed.truncated });
            }
            // Keystone found others than were meant: once more, among all that are gone through.
            most = MOST_READ;
        }
    }

    /// The one user of this name. Where Keystone takes case for a difference and knows the name as it is written, it is that one;
    /// else the one whose name differs in case only.
    async fn named(&self, domain: &Domain, name: &str) -> Result<Option<Value>, ConnectorError> {
        if !is_name(name) {
            return Ok(None);
        }
        let wanted = folded(name);
        let ours = |user: &Value| text(user, "domain_id") == Some(domain.id.as_str());
        let same = |user: &Value| ours(user) && text(user, "name").is_some_and(|name| folded(name) == wanted);
        let listed = self.list(domain, &[("name", name)], MOST_READ).await?;
        let mut users: Vec<_> = listed.items.into_iter().filter(same).collect();
        if users.is_empty() && !safe_part(&wanted).is_empty() {
            let listed = self.list(domain, &[("name__icontains", safe_part(&wanted))], MOST_READ).await?;
            if listed.truncated {
                return too_many("names are like this one");
            }
            users.extend(listed.items.into_iter().filter(same));
        } else if listed.truncated {
            return too_many("names are like this one");
        }
        Ok(only(users.into_iter()).filter(is_enabled))
    }

    /// The one user of this address: Keystone does not look for addresses, so that all users of the domain are gone through.
    async fn with_mail(&self, domain: &Domain, address: &str) -> Result<Option<Value>, ConnectorError> {
        if !is_name(address) {
            return Ok(None);
        }
        let wanted = folded(address);
        let listed = self.list(domain, &[ENABLED], MOST_READ).await?;
        if listed.truncated {
            return too_many("users are in the domain to find one by an address");
        }
        let has_it = |user: &Value| is_of(user, domain) && text(user, "email").is_some_and(|email| folded(email) == wanted);
        Ok(only(listed.items.into_iter().filter(has_it)))
    }

    /// The user of an id that someone who was proven elsewhere is said to have here.
    async fn joined(&self, domain: &Domain, attribute: &str, value: &str) -> Result<Option<Value>, ConnectorError> {
        may_join_by(attribute).map_err(|why| ConnectorError::Unusable(format!("keystone: join: {why}")))?;
        if !is_name(value) {
            return Ok(None);
        }
        // Keystone's own ids are UUIDs without hyphens.
        let id = Uuid::try_parse(value).map_or_else(|_| value.to_owned(), |uuid| uuid.simple().to_string());
        match self.record(domain, &id).await? {
            None if id != value => self.record(domain, value).await,
            found => Ok(found),
        }
    }
}

#[async_trait]
impl Directory for People {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError> {
        // No name holds a control character.
        if query.text.chars().any(char::is_control) {
            return Ok(Found::default());
        }
        match self.domain_of(scope).await? {
            Some(domain) => self.found(&domain, query).await,
            None => Ok(Found::default()),
        }
    }

    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        let Some(domain) = self.domain_of(scope).await? else { return Ok(None) };
        let record = match by {
            Lookup::Subject(subject) => self.record(&domain, subject.as_str()).await?,
            Lookup::Username(name) => self.named(&domain, name).await?,
            Lookup::Mail(address) => self.with_mail(&domain, address).await?,
            Lookup::Attribute { name, value } => self.joined(&domain, name, value).await?,
            // It can not be asked for anything but ids and names.
            Lookup::Number { .. } => None,
        };
        match record {
            Some(record) => self.whole(&record, &domain).await.map(Some),
            None => Ok(None),
        }
    }
}

/// The longest part of a folded text that Keystone takes as it is, whatever its database: ASCII without what escapes. A wildcard in it finds too
/// much, never too little.
pub(super) fn safe_part(folded: &str) -> &str {
    let escapes = |c: char| !c.is_ascii() || c == '\\';
    folded.split(escapes).fold("", |longest, part| if part.len() > longest.len() { part } else { longest })
}

fn too_many<T>(what: &str) -> Result<T, ConnectorError> {
    Err(ConnectorError::Unusable(format!("keystone: look-up: too many {what} (more than {MOST_READ})")))
}

#[cfg(test)]
mod tests;
