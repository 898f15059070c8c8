//! Groups by search and look-up within a domain, and who is in one. The domain is in the query where Keystone takes one, and is compared with each
//! of its answers: its groups may hold anyone.

use async_trait::async_trait;
use claims_mapping::TenantScope;
use serde_json::Value;

use super::{
    auth::is_name,
    claims::Domain,
    directory::safe_part,
    groups::group,
    people::{MOST_READ, PAGE, People, is_of},
    places::{only, text},
};
use crate::{ConnectorError, Found, FoundGroups, Groups, UpstreamGroup, UserQuery, names::folded};

impl People {
    /// The names and ids of a domain's groups of which these conditions of Keystone's hold, and whether there are more.
    async fn groups_of_domain(
        &self,
        domain: &Domain,
        conditions: &[(&str, &str)],
    ) -> Result<(Vec<(String, String)>, bool), ConnectorError> {
        let limit = PAGE.to_string();
        let mut query = vec![("domain_id", domain.id.as_str())];
        query.extend(conditions);
        query.push(("limit", &limit));
        let listed = self.api.list("groups", &["groups"], &query, "groups", MOST_READ).await?;
        let mut groups = Vec::with_capacity(listed.items.len());
        for item in &listed.items {
            groups.extend(group(item, &domain.id)?.map(|group| (group.name, group.id)));
        }
        Ok((groups, listed.truncated))
    }

    /// The id of the one group of this name, letter for letter; a database of Keystone's takes more for the same.
    async fn group_named(&self, domain: &Domain, name: &str) -> Result<Option<String>, ConnectorError> {
        if !is_name(name) {
            return Ok(None);
        }
        let (groups, is_cut) = self.groups_of_domain(domain, &[("name", name)]).await?;
        if is_cut {
            return Err(ConnectorError::Unusable("keystone: groups: too many names are like this one".to_owned()));
        }
        Ok(only(groups.into_iter().filter(|(own, _)| own == name)).map(|(_, id)| id))
    }
}

#[async_trait]
impl Groups for People {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<FoundGroups, ConnectorError> {
        // No name holds a control character.
        if query.text.chars().any(char::is_control) {
            return Ok(FoundGroups::default());
        }
        let Some(domain) = self.domain_of(scope).await? else { return Ok(FoundGroups::default()) };
        let wanted = folded(&query.text);
        let conditions = match safe_part(&wanted) {
            "" => Vec::new(),
            part => vec![("name__icontains", part)],
        };
        let (groups, is_cut) = self.groups_of_domain(&domain, &conditions).await?;
        let mut hits = groups.into_iter().filter(|(name, _)| folded(name).contains(&wanted));
        let groups = hits.by_ref().take(query.limit).map(|(name, _)| UpstreamGroup { name, display_name: None, mail: None }).collect();
        Ok(FoundGroups { groups, truncated: is_cut || hits.next().is_some() })
    }

    async fn get(&self, scope: &TenantScope, name: &str) -> Result<Option<UpstreamGroup>, ConnectorError> {
        let Some(domain) = self.domain_of(scope).await? else { return Ok(None) };
        let id = self.group_named(&domain, name).await?;
        Ok(id.map(|_| UpstreamGroup { name: name.to_owned(), display_name: None, mail: None }))
    }

    async fn members(&self, scope: &TenantScope, name: &str, limit: usize) -> Result<Found, ConnectorError> {
        let Some(domain) = self.domain_of(scope).await? else { return Ok(Found::default()) };
        let Some(id) = self.group_named(&domain, name).await? else { return Ok(Found::default()) };
        let listed = self.api.list("a group's users", &["groups", &id, "users"], &[], "users", MOST_READ).await?;
        let mut found = Found { users: Vec::new(), truncated: listed.truncated };
        for user in listed.items.iter().filter(|user: &&Value| is_of(user, &domain) && text(user, "id").is_some()) {
            if found.users.len() == limit {
                found.truncated = true;
                break;
            }
            match Self::facts(user, &domain).and_then(|facts| facts.into_user(&[])) {
                Ok(user) => found.users.push(user),
                // One broken record does not hide the others.
                Err(error) => tracing::warn!(connector.id = %self.id, %error, "a user is left out of a group"),
            }
        }
        Ok(found)
    }
}
