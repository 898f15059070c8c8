//! A user's groups, at every level only those whose own entry is of the user's tenant; and how a group's entry is found.

use std::collections::{BTreeSet, HashSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use ldap3::Scope;

use super::{
    filter::{Attribute, Filter},
    plan::{GroupPlan, GroupTenancy, Membership, is_by_name},
    pool::LdapPool,
    search::{Answer, End, Entry, Request, search},
};
use crate::ConnectorError;

/// The most levels of groups in groups.
pub(super) const MOST_LEVELS: usize = 32;
/// How many members one query asks for.
pub(super) const BATCH: usize = 50;
/// How many entries are read at once by their DNs.
pub(super) const AT_ONCE: usize = 4;

/// Reads groups of one tenant.
pub(super) struct GroupReader<'a> {
    pub(super) plan: &'a GroupPlan,
    pub(super) pool: &'a LdapPool,
    /// What the directory calls the tenant; `None` where all are of one.
    pub(super) tenant: Option<&'a str>,
}

impl GroupReader<'_> {
    /// The names of the user's groups, each once, in order; `username` is the first of the attributes that usernames are in.
    pub(super) async fn of(&self, user: &Entry, username: Option<&Attribute>) -> Result<Vec<String>, ConnectorError> {
        // Without a tenant no group is known to be of it.
        if self.tenant.is_none() && !matches!(self.plan.tenancy, GroupTenancy::Fixed) {
            return Ok(Vec::new());
        }
        let mut names = BTreeSet::new();
        let mut seen = HashSet::new();
        let mut level = match &self.plan.membership {
            Membership::MemberOf { attribute, .. } => listed_by(user, attribute),
            Membership::Search { member, .. } if is_by_name(member) => {
                username.and_then(|username| user.only(username.as_str())).map(str::to_owned).into_iter().collect()
            }
            Membership::Search { .. } => vec![user.dn.clone()],
        };
        for depth in 0.. {
            let groups = match &self.plan.membership {
                Membership::MemberOf { .. } => {
                    let fresh = level.iter().filter(|dn| seen.len() <= self.plan.most && seen.insert(dn.to_lowercase())).cloned();
                    self.at(fresh.collect(), &[]).await?
                }
                Membership::Search { member, .. } => self.holding(member, &level, &mut seen).await?,
            };
            if seen.len() > self.plan.most || depth == MOST_LEVELS {
                return Err(self.too_many());
            }
            names.extend(groups.iter().flat_map(|group| self.names(group)).map(str::to_owned));
            if !self.plan.nested || groups.is_empty() {
                break;
            }
            level = match &self.plan.membership {
                Membership::MemberOf { attribute, .. } => groups.iter().flat_map(|group| listed_by(group, attribute)).collect(),
                Membership::Search { .. } => groups.into_iter().map(|group| group.dn).collect(),
            };
        }
        Ok(names.into_iter().collect())
    }

    /// The names of a group's entry.
    pub(super) fn names<'e>(&self, group: &'e Entry) -> impl Iterator<Item = &'e str> {
        group.values(self.plan.name.as_str()).iter().filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// The groups with these DNs, as far as they are groups of the tenant, with these attributes besides.
    pub(super) async fn at(&self, dns: Vec<String>, more: &[&str]) -> Result<Vec<Entry>, ConnectorError> {
        let filter = &self.filter(None);
        let ask = |dn: String| async move { self.whole(self.ask(&dn, Scope::Base, filter, 1, more).await?) };
        let found = stream::iter(dns).map(ask).buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The groups below the base that have one of these values in an attribute, that were not seen yet, of the tenant.
    pub(super) async fn holding(
        &self,
        attribute: &Attribute,
        values: &[String],
        seen: &mut HashSet<String>,
    ) -> Result<Vec<Entry>, ConnectorError> {
        let mut groups = Vec::new();
        for batch in values.chunks(BATCH) {
            let any = batch.iter().map(|value| Filter::equals(attribute, value)).collect();
            let found = self.whole(self.below_base(Some(Filter::Or(any)), self.plan.most, &[]).await?)?;
            groups.extend(found.into_iter().filter(|group| seen.insert(group.dn.to_lowercase())));
        }
        Ok(groups)
    }

    /// The groups of the tenant below the base of which the condition holds, with these attributes besides.
    pub(super) async fn below_base(&self, condition: Option<Filter>, most: usize, more: &[&str]) -> Result<Answer, ConnectorError> {
        match self.plan.base().and_then(|base| base.of(self.tenant)) {
            Some(base) => self.ask(&base, Scope::Subtree, &self.filter(condition), most, more).await,
            None => Ok(nothing()),
        }
    }

    fn filter(&self, condition: Option<Filter>) -> Filter {
        let tenant = match (&self.plan.tenancy, self.tenant) {
            (GroupTenancy::Filter(template), Some(tenant)) => Some(template.of(tenant)),
            (GroupTenancy::Attribute(attribute), Some(tenant)) => Some(Filter::equals(attribute, tenant)),
            _ => None,
        };
        Filter::And([self.plan.filter.clone()].into_iter().chain(tenant).chain(condition).collect())
    }

    async fn ask(&self, base: &str, scope: Scope, filter: &Filter, most: usize, more: &[&str]) -> Result<Answer, ConnectorError> {
        let mut attributes = vec![self.plan.name.as_str().to_owned()];
        if let GroupTenancy::Attribute(attribute) = &self.plan.tenancy {
            attributes.push(attribute.as_str().to_owned());
        }
        if let (Membership::MemberOf { attribute, .. }, true) = (&self.plan.membership, self.plan.nested) {
            attributes.push(attribute.as_str().to_owned());
        }
        attributes.extend(more.iter().map(|name| (*name).to_owned()));
        let request = Request { base, scope, filter, attributes: &attributes, most };
        let mut answer = self.pool.run("groups", |ldap| search(ldap, &request)).await?;
        match (answer.end, scope) {
            (End::Complete | End::More | End::Limited, _) => {}
            // A group that is gone, or kept elsewhere, gives nothing; a base that is gone is a fault of the configuration,
            // save for that of a tenant without groups.
            (End::NoBase | End::Referral, Scope::Base) => return Ok(nothing()),
            (End::NoBase, _) if matches!(self.plan.tenancy, GroupTenancy::Base) => return Ok(nothing()),
            (End::NoBase, _) => return Err(unusable("the search base does not exist, or may not be read")),
            (End::Referral, _) => return Err(unusable("the server refers to another one, which is not followed")),
        }
        answer.entries.retain(|group| self.is_of_tenant(group));
        Ok(answer)
    }

    /// The groups of an answer that must not lack any.
    pub(super) fn whole(&self, answer: Answer) -> Result<Vec<Entry>, ConnectorError> {
        match answer.end {
            End::More => Err(self.too_many()),
            End::Limited => Err(unusable("the server's limits cut the answer off")),
            _ => Ok(answer.entries),
        }
    }

    pub(super) fn too_many(&self) -> ConnectorError {
        unusable(&format!("there are more, for one user or in one group, than groups.most ({}) allows", self.plan.most))
    }

    /// Once more on the answer: not every server's matching rules can be trusted with it.
    fn is_of_tenant(&self, group: &Entry) -> bool {
        match &self.plan.tenancy {
            GroupTenancy::Attribute(attribute) => group.only(attribute.as_str()) == self.tenant,
            _ => true,
        }
    }
}

/// The texts of an attribute.
pub(super) fn listed_by(entry: &Entry, attribute: &Attribute) -> Vec<String> {
    entry.values(attribute.as_str()).iter().filter_map(|value| String::from_utf8(value.clone()).ok()).collect()
}

const fn nothing() -> Answer {
    Answer { entries: Vec::new(), end: End::Complete }
}

pub(super) fn unusable(why: &str) -> ConnectorError {
    ConnectorError::Unusable(format!("ldap: groups: {why}"))
}
