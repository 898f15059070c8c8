//! An LDAP directory: sign-in by search and bind, search and look-up within a tenant.
//!
//! This file owns the ports. Below it: `config` (how the configuration looks), `plan` (the same, checked), `connect` and
//! `pool` (connections), `filter` (the one place that escapes), `search` (one request and its pages), `claims` (an entry as
//! claims), `groups` (whose a group is, and a user's), `members` (groups by search, and who is in one).

mod claims;
mod config;
mod connect;
mod filter;
mod groups;
mod members;
mod plan;
mod pool;
mod search;

use std::sync::Arc;

use async_trait::async_trait;
use claims_mapping::{
    ClaimMappings, ClaimOrExpression, ConnectorId, MappingConfig, PrefixedClaimOrExpression, Subject, TenantScope, UpstreamUser,
};

use uuid::Uuid;

pub use self::config::{GroupSearchConfig, GroupsConfig, LdapConfig, MemberOfConfig, SearchScope, UserSearchConfig};
use self::{
    filter::{Attribute, Filter},
    groups::GroupReader,
    plan::{GroupPlan, Plan, UserPlan},
    pool::LdapPool,
    search::{Answer, End, Entry, Request, search},
};
use crate::{
    Connector, ConnectorError, Directory, Found, Groups, LoginName, Lookup, PasswordLogin, Proven, Secret, UserQuery, config::Context,
    names::folded,
};

/// The mapping of an `ldap` connector for the parts that its configuration does not give. There is no tenant rule in it.
#[must_use]
pub fn default_mapping() -> MappingConfig {
    let (prefixed, plain) = (PrefixedClaimOrExpression::of_claim, ClaimOrExpression::of_claim);
    MappingConfig {
        claim_mappings: ClaimMappings {
            username: prefixed("uid"),
            groups: prefixed("groups"),
            display_name: plain("displayName"),
            email: plain("mail"),
            ..ClaimMappings::default()
        },
        ..MappingConfig::default()
    }
}

/// Whether the entries of a directory can be joined by this attribute: it never changes, and is one person's only.
///
/// # Errors
/// Why not.
pub(crate) fn may_join_by(attribute: &str) -> Result<(), String> {
    plan::join_attribute(attribute).map(drop)
}

pub(crate) fn build(config: &LdapConfig, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
    let Plan { servers, account, timeout, connections, users, groups } = Plan::new(config, context.mapping, context.fixed_tenant)?;
    let servers = Arc::new(servers);
    let pool = |account| {
        LdapPool::new(Arc::clone(&servers), account, connections, timeout).map_err(|error| vec![("connections".to_owned(), error)])
    };
    let directory = Arc::new(LdapDirectory {
        id: context.id.clone(),
        fixed_tenant: context.fixed_tenant,
        searches: pool(account)?,
        binds: pool(None)?,
        users,
        groups,
    });
    let can_search_groups = directory.groups.as_ref().is_some_and(|plan| plan.base().is_some());
    Ok(Connector {
        password: Some(Arc::clone(&directory) as Arc<dyn PasswordLogin>),
        groups: can_search_groups.then(|| Arc::clone(&directory) as Arc<dyn Groups>),
        directory: Some(directory),
        ..Connector::without_ports(context.id.clone())
    })
}

/// The connector.
struct LdapDirectory {
    id: ConnectorId,
    fixed_tenant: bool,
    searches: LdapPool,
    binds: LdapPool,
    users: UserPlan,
    groups: Option<GroupPlan>,
}

/// The tenant in which to look.
#[derive(Clone, Copy)]
enum Within<'a> {
    /// The one that the directory calls so.
    Tenant(&'a str),
    /// The connector's own, or any: a sign-in that names none.
    Everywhere,
}

impl LdapDirectory {
    /// What this directory calls the tenant; it enters every query.
    fn within<'a>(&self, external_id: &'a str) -> Result<Within<'a>, ConnectorError> {
        if self.fixed_tenant {
            return Ok(Within::Everywhere);
        }
        // An empty value in a filter could match everyone.
        if external_id.is_empty() {
            return Err(ConnectorError::Unusable("ldap: the tenant's externalIds entry for this connector is empty".to_owned()));
        }
        Ok(Within::Tenant(external_id))
    }

    async fn find(&self, what: &'static str, within: Within<'_>, condition: Option<Filter>, most: usize) -> Result<Answer, ConnectorError> {
        self.find_with(what, within, condition, most, &self.users.requested).await
    }

    async fn find_with(
        &self,
        what: &'static str,
        within: Within<'_>,
        condition: Option<Filter>,
        most: usize,
        attributes: &[String],
    ) -> Result<Answer, ConnectorError> {
        let tenancy = &self.users.tenancy;
        let mut filters = vec![self.users.filter.clone()];
        let mut base = self.users.base.clone();
        if let Within::Tenant(tenant) = within {
            filters.extend(tenancy.attribute.as_ref().map(|attribute| Filter::equals(attribute, tenant)));
            filters.extend(tenancy.filter.as_ref().map(|template| template.of(tenant)));
            base = tenancy.base.as_ref().and_then(|template| template.of(Some(tenant))).unwrap_or(base);
        }
        filters.extend(condition);
        let filter = Filter::And(filters);
        let request = Request { base: &base, scope: self.users.scope, filter: &filter, attributes, most };
        let answer = self.searches.run_within(self.searches.timeout_of(most), what, |ldap| search(ldap, &request)).await?;
        let unusable = |why: &str| Err(ConnectorError::Unusable(format!("ldap: {what}: {why}")));
        match answer.end {
            End::NoBase if tenancy.base.is_some() && matches!(within, Within::Tenant(_)) => {
                Ok(Answer { entries: Vec::new(), end: End::Complete })
            }
            End::NoBase => unusable("the search base does not exist, or may not be read"),
            End::Referral => unusable("the server refers to another one, which is not followed"),
            End::Complete | End::More | End::Limited => Ok(answer),
        }
    }

    /// The one entry of which the condition holds; `None` where there is none, or more than one.
    async fn find_one(&self, what: &'static str, within: Within<'_>, condition: Filter) -> Result<Option<Entry>, ConnectorError> {
        let answer = self.find(what, within, Some(condition), 1).await?;
        Self::only(what, answer)
    }

    fn only(what: &'static str, mut answer: Answer) -> Result<Option<Entry>, ConnectorError> {
        match answer.end {
            End::Complete => Ok(answer.entries.pop()),
            End::Limited => Err(ConnectorError::Unusable(format!("ldap: {what}: the server's limits cut the answer off"))),
            _ => Ok(None),
        }
    }

    /// The one entry that has the value in one of the attributes, letter for letter but for case. A directory's own rules
    /// leave out what they hold for insignificant (RFC 4518, 2.2 and 2.6: blanks, NUL, invisible characters), so that one
    /// account would have any number of names, each with guesses of its own.
    async fn find_named(
        &self,
        what: &'static str,
        within: Within<'_>,
        attributes: &[Attribute],
        value: &str,
    ) -> Result<Option<Entry>, ConnectorError> {
        if value.is_empty() || value.chars().any(char::is_control) {
            return Ok(None);
        }
        let condition = Filter::Or(attributes.iter().map(|attribute| Filter::equals(attribute, value)).collect());
        let entry = self.find_one(what, within, condition).await?;
        let name = folded(value);
        let has_it = |entry: &Entry| {
            attributes.iter().flat_map(|a| entry.values(a.as_str())).any(|v| std::str::from_utf8(v).is_ok_and(|v| folded(v) == name))
        };
        Ok(entry.filter(has_it))
    }

    /// The one entry that has the value in an attribute, letter for letter: a join takes whoever it finds for someone who was
    /// proven elsewhere, and what a directory holds for the same may be two people there. The id is compared as ids are, and
    /// UUIDs in any writing.
    async fn find_joined(&self, within: Within<'_>, name: &str, value: &str) -> Result<Option<Entry>, ConnectorError> {
        const WHAT: &str = "join";
        let attribute = plan::join_attribute(name).map_err(|why| ConnectorError::Unusable(format!("ldap: {WHAT}: {why}")))?;
        if value.is_empty() || value.chars().any(char::is_control) {
            return Ok(None);
        }
        let id = &self.users.presentation.id;
        if id.0.is(name) {
            let condition = Subject::parse(value).ok().and_then(|subject| id.filter(&subject));
            let Some(condition) = condition else { return Ok(None) };
            let found = self.find_one(WHAT, within, condition).await?;
            let has_it = |entry: &Entry| entry.values(name).iter().any(|v| id.text(v).is_some_and(|text| is_same_id(&text, value)));
            return Ok(found.filter(has_it));
        }
        let mut attributes = self.users.requested.clone();
        if !attributes.iter().any(|known| attribute.is(known)) {
            attributes.push(name.to_owned());
        }
        let answer = self.find_with(WHAT, within, Some(Filter::equals(&attribute, value)), 1, &attributes).await?;
        let has_it = |entry: &Entry| entry.values(name).iter().any(|v| std::str::from_utf8(v).is_ok_and(|v| is_same_id(v, value)));
        Ok(Self::only(WHAT, answer)?.filter(has_it))
    }

    /// The one entry that has this number, and no other, in one of the attributes that the mapping reads numbers from.
    async fn find_numbered(&self, within: Within<'_>, name: &str, number: i64) -> Result<Option<Entry>, ConnectorError> {
        let Some(attribute) = self.users.numbers.iter().find(|attribute| attribute.is(name)) else { return Ok(None) };
        let number = number.to_string();
        let entry = self.find_one("look-up", within, Filter::equals(attribute, &number)).await?;
        Ok(entry.filter(|entry| entry.only(attribute.as_str()) == Some(&*number)))
    }

    /// The user with their groups. Where no tenant was asked for, it is the one of the user's own entry.
    async fn whole(&self, within: Within<'_>, entry: &Entry) -> Result<UpstreamUser, ConnectorError> {
        let groups = match &self.groups {
            Some(plan) => {
                let tenant = match within {
                    Within::Tenant(tenant) => Some(tenant),
                    Within::Everywhere => self.users.tenancy.attribute.as_ref().and_then(|attribute| entry.only(attribute.as_str())),
                };
                GroupReader { plan, pool: &self.searches, tenant }.of(entry, self.users.usernames.first()).await?
            }
            None => Vec::new(),
        };
        self.users.presentation.user(entry, groups)
    }

    /// Whether the password is the entry's. The connection is one for binds, and nothing else is ever done on it.
    async fn bind(&self, dn: &str, password: &Secret) -> Result<bool, ConnectorError> {
        let result = self.binds.run("bind", |mut ldap| async move { ldap.simple_bind(dn, password.expose()).await }).await?;
        match result.rc {
            0 => Ok(true),
            // No such entry any more; no password; a wrong one.
            32 | 48 | 49 => Ok(false),
            // How 389-ds answers for an account that is locked or switched off.
            code @ (19 | 53) => {
                tracing::info!(connector.id = %self.id, result_code = code, "the directory is unwilling to sign this account in");
                Ok(false)
            }
            code @ (51 | 52 | 80) => Err(ConnectorError::Unavailable(format!("ldap: bind: result code {code}"))),
            code => Err(ConnectorError::Refused(format!("ldap: bind: result code {code}"))),
        }
    }
}

#[async_trait]
impl PasswordLogin for LdapDirectory {
    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<Proven>, ConnectorError> {
        if !password.is_plausible_password() {
            return Ok(None);
        }
        let within = match &login.tenant {
            Some(tenant) => self.within(tenant.external_id(&self.id))?,
            None => Within::Everywhere,
        };
        let Some(entry) = self.find_named("sign-in", within, &self.users.usernames, &login.name).await? else { return Ok(None) };
        // A bind without a DN is an anonymous one, whatever the password.
        if entry.dn.is_empty() || !self.bind(&entry.dn, password).await? {
            return Ok(None);
        }
        self.whole(within, &entry).await.map(|user| Some(user.into()))
    }
}

#[async_trait]
impl Directory for LdapDirectory {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError> {
        let within = self.within(scope.external_id(&self.id))?;
        // No name holds a control character, and a directory would take NUL for nothing at all, which everyone has.
        if query.text.chars().any(char::is_control) {
            return Ok(Found::default());
        }
        let text = |text: &String| Filter::Or(self.users.searched.iter().map(|a| Filter::Contains(a.clone(), text.clone())).collect());
        let condition = Some(&query.text).filter(|text| !text.is_empty()).map(text);
        let answer = self.find("search", within, condition, query.limit).await?;
        let mut users = Vec::with_capacity(answer.entries.len());
        for entry in &answer.entries {
            match self.users.presentation.user(entry, Vec::new()) {
                Ok(user) => users.push(user),
                // One broken entry does not hide the others.
                Err(error) => tracing::warn!(connector.id = %self.id, %error, "a user is left out of a search"),
            }
        }
        Ok(Found { users, truncated: answer.end != End::Complete })
    }

    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        let within = self.within(scope.external_id(&self.id))?;
        let entry = match by {
            Lookup::Subject(subject) => match self.users.presentation.id.filter(subject) {
                Some(condition) => self.find_one("look-up", within, condition).await?,
                None => None,
            },
            Lookup::Username(name) => self.find_named("look-up", within, &self.users.usernames, name).await?,
            Lookup::Mail(address) => self.find_named("look-up", within, std::slice::from_ref(&self.users.mail), address).await?,
            Lookup::Attribute { name, value } => self.find_joined(within, name, value).await?,
            Lookup::Number { attribute, number } => self.find_numbered(within, attribute, *number).await?,
        };
        let Some(entry) = entry else { return Ok(None) };
        self.whole(within, &entry).await.map(Some)
    }
}

/// Whether two texts are one id: letter for letter, and where both are UUIDs, in whatever writing.
fn is_same_id(a: &str, b: &str) -> bool {
    a == b || Uuid::try_parse(a).is_ok_and(|a| Uuid::try_parse(b).is_ok_and(|b| a == b))
}

#[cfg(test)]
mod tests;
