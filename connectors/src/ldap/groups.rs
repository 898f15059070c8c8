//! A user's groups, at every level only those whose own entry is of the user's tenant.

use std::collections::{BTreeSet, HashSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use ldap3::Scope;

use super::{
    filter::{Attribute, Filter},
    plan::{GroupPlan, GroupTenancy, Membership, is_by_name},
    pool::LdapPool,
    search::{End, Entry, Request, search},
};
use crate::ConnectorError;

/// The most levels of groups in groups.
const MOST_LEVELS: usize = 32;
/// How many members one query asks for.
const BATCH: usize = 50;
/// How many groups are read at once by their DNs.
const AT_ONCE: usize = 4;

/// Reads groups for one user.
pub(super) struct GroupReader<'a> {
    pub(super) plan: &'a GroupPlan,
    pub(super) pool: &'a LdapPool,
    /// What the directory calls the user's tenant; `None` where all are of one.
    pub(super) tenant: Option<&'a str>,
    /// The first of the attributes that usernames are in.
    pub(super) username: Option<&'a Attribute>,
}

impl GroupReader<'_> {
    /// The names of the user's groups, each once, in order.
    pub(super) async fn of(&self, user: &Entry) -> Result<Vec<String>, ConnectorError> {
        // Without a tenant no group is known to be of it.
        if self.tenant.is_none() && !matches!(self.plan.tenancy, GroupTenancy::Fixed) {
            return Ok(Vec::new());
        }
        let mut names = BTreeSet::new();
        let mut seen = HashSet::new();
        let mut level = match &self.plan.membership {
            Membership::MemberOf(attribute) => self.listed_by(user, attribute),
            Membership::Search { member, .. } if is_by_name(member) => {
                self.username.and_then(|username| user.only(username.as_str())).map(str::to_owned).into_iter().collect()
            }
            Membership::Search { .. } => vec![user.dn.clone()],
        };
        for depth in 0.. {
            let groups = match &self.plan.membership {
                Membership::MemberOf(_) => self.read(&level, &mut seen).await?,
                Membership::Search { base, member } => self.holding(base.of(self.tenant), member, &level, &mut seen).await?,
            };
            if seen.len() > self.plan.most || depth == MOST_LEVELS {
                return Err(ConnectorError::Unusable(format!(
                    "ldap: groups: a user has more than groups.most ({}) allows",
                    self.plan.most
                )));
            }
            names.extend(
                groups
                    .iter()
                    .flat_map(|group| group.values(self.plan.name.as_str()))
                    .filter_map(|name| std::str::from_utf8(name).ok().map(str::to_owned)),
            );
            if !self.plan.nested || groups.is_empty() {
                break;
            }
            level = match &self.plan.membership {
                Membership::MemberOf(attribute) => groups.iter().flat_map(|group| self.listed_by(group, attribute)).collect(),
                Membership::Search { .. } => groups.into_iter().map(|group| group.dn).collect(),
            };
        }
        Ok(names.into_iter().collect())
    }

    fn listed_by(&self, member: &Entry, attribute: &Attribute) -> Vec<String> {
        member.values(attribute.as_str()).iter().filter_map(|dn| String::from_utf8(dn.clone()).ok()).collect()
    }

    /// The groups with these DNs that were not seen yet, as far as they are groups of the tenant.
    async fn read(&self, dns: &[String], seen: &mut HashSet<String>) -> Result<Vec<Entry>, ConnectorError> {
        let fresh: Vec<_> = dns.iter().filter(|dn| seen.len() <= self.plan.most && seen.insert(dn.to_lowercase())).cloned().collect();
        let filter = &self.filter(None);
        let ask = |dn: String| async move { self.ask(&dn, Scope::Base, filter, 1).await };
        let found = stream::iter(fresh).map(ask).buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The groups below the base that list one of the members, that were not seen yet, of the tenant.
    async fn holding(
        &self,
        base: Option<String>,
        member: &Attribute,
        members: &[String],
        seen: &mut HashSet<String>,
    ) -> Result<Vec<Entry>, ConnectorError> {
        let mut groups = Vec::new();
        let Some(base) = base else { return Ok(groups) };
        for batch in members.chunks(BATCH) {
            let any = batch.iter().map(|name| Filter::equals(member, name)).collect();
            let found = self.ask(&base, Scope::Subtree, &self.filter(Some(Filter::Or(any))), self.plan.most).await?;
            groups.extend(found.into_iter().filter(|group| seen.insert(group.dn.to_lowercase())));
        }
        Ok(groups)
    }

    fn filter(&self, members: Option<Filter>) -> Filter {
        let tenant = match (&self.plan.tenancy, self.tenant) {
            (GroupTenancy::Filter(template), Some(tenant)) => Some(template.of(tenant)),
            (GroupTenancy::Attribute(attribute), Some(tenant)) => Some(Filter::equals(attribute, tenant)),
            _ => None,
        };
        Filter::And([self.plan.filter.clone()].into_iter().chain(tenant).chain(members).collect())
    }

    async fn ask(&self, base: &str, scope: Scope, filter: &Filter, most: usize) -> Result<Vec<Entry>, ConnectorError> {
        let mut attributes = vec![self.plan.name.as_str().to_owned()];
        if let GroupTenancy::Attribute(attribute) = &self.plan.tenancy {
            attributes.push(attribute.as_str().to_owned());
        }
        if let (Membership::MemberOf(attribute), true) = (&self.plan.membership, self.plan.nested) {
            attributes.push(attribute.as_str().to_owned());
        }
        let request = Request { base, scope, filter, attributes: &attributes, most };
        let answer = self.pool.run("groups", |ldap| search(ldap, &request)).await?;
        match (answer.end, scope) {
            (End::Complete, _) => {}
            // A group that is gone, or kept elsewhere, gives nothing; a base that is gone is a fault of the configuration,
            // save for that of a tenant without groups.
            (End::NoBase | End::Referral, Scope::Base) => return Ok(Vec::new()),
            (End::NoBase, _) if matches!(self.plan.tenancy, GroupTenancy::Base) => return Ok(Vec::new()),
            (End::NoBase, _) => return Err(unusable("the search base does not exist, or may not be read")),
            (End::Referral, _) => return Err(unusable("the server refers to another one, which is not followed")),
            (End::More, _) => return Err(unusable("a user has more than groups.most allows")),
            (End::Limited, _) => return Err(unusable("the server's limits cut the answer off")),
        }
        Ok(answer.entries.into_iter().filter(|group| self.is_of_tenant(group)).collect())
    }

    /// Once more on the answer: not every server's matching rules can be trusted with it.
    fn is_of_tenant(&self, group: &Entry) -> bool {
        match &self.plan.tenancy {
            GroupTenancy::Attribute(attribute) => group.only(attribute.as_str()) == self.tenant,
            _ => true,
        }
    }
}

fn unusable(why: &str) -> ConnectorError {
    ConnectorError::Unusable(format!("ldap: groups: {why}"))
}
