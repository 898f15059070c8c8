//! Groups by search and look-up, and who is in one: the way of `groups.rs` from its other end, so that the two agree. At every level a
//! group counts only if its own entry is of the tenant, and a member only if a search for the tenant's users finds them.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use claims_mapping::{Subject, TenantScope};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use ldap3::Scope;

use super::{
    LdapDirectory, Within,
    filter::{Attribute, Filter},
    groups::{AT_ONCE, BATCH, GroupReader, MOST_LEVELS, listed_by, unusable},
    plan::{Membership, is_by_name},
    search::{End, Entry, Request, search},
};
use crate::{ConnectorError, Found, FoundGroups, Groups, UpstreamGroup, UserQuery, names::folded};

/// The most groups whose names the directory takes for one name.
const MOST_ALIKE: usize = 100;
/// The most members, of whatever kind, that one group's are read of.
const MOST_READ: usize = 10_000;
/// The name of a group for people, and its address, as everyone's schema has them.
const DESCRIBED: [&str; 2] = ["displayName", "mail"];

impl LdapDirectory {
    fn reader<'a>(&'a self, within: Within<'a>) -> Option<GroupReader<'a>> {
        let tenant = match within {
            Within::Tenant(tenant) => Some(tenant),
            Within::Everywhere => None,
        };
        self.groups.as_ref().map(|plan| GroupReader { plan, pool: &self.searches, tenant })
    }

    /// A user's DN, as the server writes it, and what finds them among the tenant's users; `None` where there is no enabled user.
    async fn user_at(&self, dn: &str) -> Result<Option<(String, Filter)>, ConnectorError> {
        let id = &self.users.presentation.id;
        let attributes = [id.0.as_str().to_owned()];
        let request = Request { base: dn, scope: Scope::Base, filter: &self.users.filter, attributes: &attributes, most: 1 };
        let answer = self.searches.run("members", |ldap| search(ldap, &request)).await?;
        let Some(entry) = answer.entries.into_iter().next() else { return Ok(None) };
        let subject = match entry.values(id.0.as_str()) {
            [value] => id.text(value).and_then(|text| Subject::parse(&text).ok()),
            _ => None,
        };
        Ok(subject.and_then(|subject| id.filter(&subject)).map(|condition| (entry.dn, condition)))
    }
}

impl GroupReader<'_> {
    /// The one group that has this name, letter for letter, with these attributes besides; a directory takes more for the same.
    async fn named(&self, name: &str, more: &[&str]) -> Result<Option<Entry>, ConnectorError> {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Ok(None);
        }
        let answer = self.below_base(Some(Filter::equals(&self.plan.name, name)), MOST_ALIKE, more).await?;
        if answer.end != End::Complete {
            return Err(unusable("there are more groups of names like this one than are read"));
        }
        let mut same = answer.entries.into_iter().filter(|group| self.names(group).any(|own| own == name));
        let found = same.next();
        Ok(found.filter(|_| same.next().is_none()))
    }

    /// The DNs of a group and, where nested groups count, of those in it, as far as a group's own entry says what it is in.
    async fn with_inner(&self, group: Entry, member_of: &Attribute) -> Result<Vec<String>, ConnectorError> {
        let mut dns = vec![group.dn];
        let mut seen: HashSet<_> = dns.iter().map(|dn| dn.to_lowercase()).collect();
        let mut level = dns.clone();
        for depth in 0.. {
            if !self.plan.nested || level.is_empty() {
                break;
            }
            level = self.holding(member_of, &level, &mut seen).await?.into_iter().map(|group| group.dn).collect();
            if seen.len() > self.plan.most || depth == MOST_LEVELS {
                return Err(self.too_many());
            }
            dns.extend_from_slice(&level);
        }
        Ok(dns)
    }
}

/// The members of one group, as they are found.
struct Members<'a> {
    directory: &'a LdapDirectory,
    within: Within<'a>,
    limit: usize,
    /// The DNs of those who were found.
    seen: HashSet<String>,
    found: Found,
}

impl Members<'_> {
    /// Whether no more are wanted, though there are more to look at.
    fn is_full(&mut self) -> bool {
        let is_full = self.found.users.len() >= self.limit;
        self.found.truncated |= is_full;
        is_full
    }

    /// Those of the tenant's users of whom one of the conditions holds, and who are members by what they are found with.
    async fn add(&mut self, conditions: Vec<Filter>, is_member: impl Fn(&Entry) -> bool) -> Result<(), ConnectorError> {
        if conditions.is_empty() {
            return Ok(());
        }
        let answer = self.directory.find("members", self.within, Some(Filter::Or(conditions)), self.limit).await?;
        self.found.truncated |= answer.end != End::Complete;
        for entry in answer.entries.iter().filter(|entry| is_member(entry)) {
            if !self.seen.insert(entry.dn.clone()) || self.is_full() {
                continue;
            }
            match self.directory.users.presentation.user(entry, Vec::new()) {
                Ok(user) => self.found.users.push(user),
                // One broken entry does not hide the others.
                Err(error) => tracing::warn!(connector.id = %self.directory.id, %error, "a user is left out of a group"),
            }
        }
        Ok(())
    }

    /// Those whose entries say that they are in one of these groups.
    async fn add_by_member_of(&mut self, groups: &[String], member_of: &Attribute) -> Result<(), ConnectorError> {
        for batch in groups.chunks(BATCH) {
            if self.is_full() {
                break;
            }
            self.add(batch.iter().map(|dn| Filter::equals(member_of, dn)).collect(), |_| true).await?;
        }
        Ok(())
    }

    /// Those with these usernames, letter for letter.
    async fn add_by_name(&mut self, names: &[String]) -> Result<(), ConnectorError> {
        let Some(username) = self.directory.users.usernames.first() else { return Ok(()) };
        for batch in names.chunks(BATCH) {
            if self.is_full() {
                break;
            }
            let is_member = |entry: &Entry| entry.only(username.as_str()).is_some_and(|own| batch.iter().any(|name| name == own));
            self.add(batch.iter().map(|name| Filter::equals(username, name)).collect(), is_member).await?;
        }
        Ok(())
    }

    /// Those whom the group lists by their DNs, and those of the groups that it lists.
    async fn add_by_dn(&mut self, reader: &GroupReader<'_>, group: Entry, member: &Attribute) -> Result<(), ConnectorError> {
        let (mut read, mut groups) = (HashSet::from([group.dn.to_lowercase()]), 1);
        let mut level = vec![group];
        for depth in 0.. {
            let fresh: Vec<_> = listed(&level, member)?.into_iter().filter(|dn| read.insert(dn.to_lowercase())).collect();
            level.clear();
            if fresh.is_empty() {
                break;
            }
            if depth > MOST_LEVELS {
                return Err(reader.too_many());
            }
            if read.len() > MOST_READ {
                self.found.truncated = true;
                break;
            }
            for batch in fresh.chunks(BATCH) {
                if self.is_full() {
                    return Ok(());
                }
                let others = self.add_listed(batch).await?;
                if reader.plan.nested {
                    level.extend(reader.at(others, &[member.as_str()]).await?);
                }
            }
            groups += level.len();
            if groups > reader.plan.most {
                return Err(reader.too_many());
            }
        }
        Ok(())
    }

    /// The users with these DNs; returned are those DNs that are no user's.
    async fn add_listed(&mut self, dns: &[String]) -> Result<Vec<String>, ConnectorError> {
        let directory = self.directory;
        let read = |dn: String| async move { directory.user_at(&dn).await };
        let users = stream::iter(dns.to_vec()).map(read).buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
        let others = dns.iter().zip(&users).filter(|(_, user)| user.is_none()).map(|(dn, _)| dn.clone()).collect();
        let (dns, conditions): (HashSet<_>, Vec<_>) = users.into_iter().flatten().unzip();
        // That there is an entry does not make it a user's of the tenant: the search for these does.
        self.add(conditions, |entry| dns.contains(&entry.dn)).await?;
        Ok(others)
    }
}

/// What groups list as their members.
fn listed(groups: &[Entry], member: &Attribute) -> Result<Vec<String>, ConnectorError> {
    // Active Directory gives the members of a large group in ranges, each under a name of its own.
    let is_part = |name: &str| name.split_once(';').is_some_and(|(name, _)| member.is(name));
    if groups.iter().flat_map(|group| &group.attributes).any(|(name, _)| is_part(name)) {
        return Err(unusable("the server gives a part of a group's members only: let `groups.memberOf` say who is in a group"));
    }
    Ok(groups.iter().flat_map(|group| listed_by(group, member)).filter(|dn| !dn.trim().is_empty()).collect())
}

#[async_trait]
impl Groups for LdapDirectory {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<FoundGroups, ConnectorError> {
        let within = self.within(scope.external_id(&self.id))?;
        let Some(reader) = self.reader(within) else { return Ok(FoundGroups::default()) };
        // No name holds a control character, and a directory would take NUL for nothing at all, which every name has.
        if query.text.chars().any(char::is_control) {
            return Ok(FoundGroups::default());
        }
        let condition = Filter::Contains(reader.plan.name.clone(), query.text.clone());
        let answer = reader.below_base(Some(condition), query.limit, &DESCRIBED).await?;
        let text = folded(&query.text);
        let mut groups: BTreeMap<&str, Option<UpstreamGroup>> = BTreeMap::new();
        for entry in &answer.entries {
            for name in reader.names(entry).filter(|name| folded(name).contains(&text)) {
                // Two groups of one name are none.
                groups.entry(name).and_modify(|group| *group = None).or_insert_with(|| Some(described(entry, name)));
            }
        }
        let mut groups: Vec<_> = groups.into_values().flatten().collect();
        let truncated = answer.end != End::Complete || groups.len() > query.limit;
        groups.truncate(query.limit);
        Ok(FoundGroups { groups, truncated })
    }

    async fn get(&self, scope: &TenantScope, name: &str) -> Result<Option<UpstreamGroup>, ConnectorError> {
        let within = self.within(scope.external_id(&self.id))?;
        let Some(reader) = self.reader(within) else { return Ok(None) };
        Ok(reader.named(name, &DESCRIBED).await?.map(|entry| described(&entry, name)))
    }

    async fn members(&self, scope: &TenantScope, name: &str, limit: usize) -> Result<Found, ConnectorError> {
        let within = self.within(scope.external_id(&self.id))?;
        let Some(reader) = self.reader(within) else { return Ok(Found::default()) };
        let listed_in = match &reader.plan.membership {
            Membership::MemberOf { .. } => None,
            Membership::Search { member, .. } => Some(member.as_str()),
        };
        let Some(group) = reader.named(name, listed_in.as_slice()).await? else { return Ok(Found::default()) };
        let mut members = Members { directory: self, within, limit, seen: HashSet::new(), found: Found::default() };
        match &reader.plan.membership {
            Membership::MemberOf { attribute, .. } => {
                members.add_by_member_of(&reader.with_inner(group, attribute).await?, attribute).await?;
            }
            Membership::Search { member, .. } if is_by_name(member) => {
                members.add_by_name(&listed(&[group], member)?).await?;
            }
            Membership::Search { member, .. } => members.add_by_dn(&reader, group, member).await?,
        }
        Ok(members.found)
    }
}

fn described(entry: &Entry, name: &str) -> UpstreamGroup {
    let [display_name, mail] = DESCRIBED.map(|attribute| entry.only(attribute).map(str::to_owned));
    UpstreamGroup { name: name.to_owned(), display_name, mail }
}
