//! The configuration once it was checked: every name, filter and DN parsed, and the tenant's place in each query known.

use std::time::Duration;

use claims_mapping::Mapping;
use ldap3::Scope;

use super::{
    claims::{IdAttribute, Presentation},
    config::{GroupsConfig, LdapConfig, SearchScope, UserSearchConfig},
    connect::{Server, Servers, ServiceAccount, tls},
    filter::{Attribute, DnTemplate, Filter, FilterTemplate, OperatorFilter},
};
use crate::{Secret, faults::Faults};

/// Attributes that change or are given again, and so are nobody's id.
const NO_IDS: [&str; 7] = ["uid", "mail", "cn", "dn", "sAMAccountName", "userPrincipalName", "displayName"];
/// Attributes that are read without being named, and of which one value is text.
const USUAL: [&str; 4] = ["cn", "sn", "givenName", "displayName"];
/// Names that are no attribute of the entry, or must never become a claim.
const NO_CLAIMS: [&str; 5] = ["dn", "groups", "userPassword", "unicodePwd", "sambaNTPassword"];

/// Where a tenant's users are. All parts that are given hold at once; none is given where all users are of one tenant.
#[derive(Debug, Clone)]
pub(super) struct UserTenancy {
    pub(super) attribute: Option<Attribute>,
    pub(super) filter: Option<FilterTemplate>,
    pub(super) base: Option<DnTemplate>,
}

/// By what a group's entry is known to be of the user's tenant.
#[derive(Debug, Clone)]
pub(super) enum GroupTenancy {
    /// All are of one tenant.
    Fixed,
    /// It is below the tenant's base.
    Base,
    /// This filter holds of it.
    Filter(FilterTemplate),
    /// This attribute has the tenant as its only value.
    Attribute(Attribute),
}

/// Where the users are.
#[derive(Debug)]
pub(super) struct UserPlan {
    pub(super) base: String,
    pub(super) scope: Scope,
    /// What holds of every enabled user.
    pub(super) filter: Filter,
    pub(super) usernames: Vec<Attribute>,
    pub(super) searched: Vec<Attribute>,
    pub(super) mail: Attribute,
    /// From which the mapping reads numbers.
    pub(super) numbers: Vec<Attribute>,
    pub(super) tenancy: UserTenancy,
    pub(super) presentation: Presentation,
    /// What is asked of the server: the claims, and `memberOf`.
    pub(super) requested: Vec<String>,
}

/// How groups and members are tied.
#[derive(Debug, Clone)]
pub(super) enum Membership {
    /// The member lists the DNs of its groups; all groups are below the base, where it is known.
    MemberOf { attribute: Attribute, base: Option<DnTemplate> },
    /// The group lists its members below this base.
    Search { base: DnTemplate, member: Attribute },
}

/// Where the groups are.
#[derive(Debug)]
pub(super) struct GroupPlan {
    pub(super) membership: Membership,
    pub(super) filter: Filter,
    pub(super) name: Attribute,
    pub(super) tenancy: GroupTenancy,
    pub(super) nested: bool,
    pub(super) most: usize,
}

impl GroupPlan {
    /// Below what all groups are, where that is known.
    pub(super) const fn base(&self) -> Option<&DnTemplate> {
        match &self.membership {
            Membership::MemberOf { base, .. } => base.as_ref(),
            Membership::Search { base, .. } => Some(base),
        }
    }
}

/// Everything.
pub(super) struct Plan {
    pub(super) servers: Servers,
    pub(super) account: Option<ServiceAccount>,
    pub(super) timeout: Duration,
    pub(super) connections: usize,
    pub(super) users: UserPlan,
    pub(super) groups: Option<GroupPlan>,
}

/// The attributes of a list.
fn attributes(faults: &mut Faults, path: &str, names: &[String]) -> Vec<Attribute> {
    let parsed = names.iter().enumerate().map(|(i, name)| faults.check(&format!("{path}[{i}]"), Attribute::parse(name)));
    parsed.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// The same where there must be one.
fn required(faults: &mut Faults, path: &str, names: &[String]) -> Vec<Attribute> {
    if names.is_empty() {
        faults.add(path, "give at least one attribute");
    }
    attributes(faults, path, names)
}

impl Plan {
    /// Checks the configuration.
    pub(super) fn new(config: &LdapConfig, mapping: &Mapping, fixed_tenant: bool) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Faults::default();
        let timeout = seconds(&mut faults, "operationTimeoutSeconds", config.operation_timeout_seconds);
        let servers = servers(config, &mut faults);
        let account = account(config, &mut faults);
        if !(1..=1000).contains(&config.connections) {
            faults.add("connections", "it must be within 1 and 1000");
        }
        let users = users(config, mapping, fixed_tenant, &mut faults);
        let groups = match (&config.groups, &users) {
            (Some(groups), Some(users)) => Some(group_plan(groups, users, fixed_tenant, &mut faults)),
            _ => None,
        };
        match (servers, timeout, users, groups) {
            (Some(servers), Some(timeout), Some(users), groups @ (None | Some(Some(_)))) if faults.is_empty() => {
                Ok(Self { servers, account, timeout, connections: config.connections, users, groups: groups.flatten() })
            }
            _ => Err(faults.into_list()),
        }
    }
}

fn seconds(faults: &mut Faults, path: &str, seconds: f32) -> Option<Duration> {
    if !(0.01..=600.0).contains(&seconds) {
        faults.add(path, "it must be within 0.01 and 600 seconds");
        return None;
    }
    Some(Duration::from_secs_f32(seconds))
}

fn servers(config: &LdapConfig, faults: &mut Faults) -> Option<Servers> {
    let timeout = seconds(faults, "connectTimeoutSeconds", config.connect_timeout_seconds);
    let parse = |text: &String| Server::parse(text, config.start_tls, config.allow_plain);
    let servers: Vec<_> = match (&config.url, config.urls.as_slice()) {
        (Some(url), []) => faults.check("url", parse(url)).into_iter().collect(),
        (None, [_, ..]) => {
            let parsed = config.urls.iter().enumerate().map(|(i, url)| faults.check(&format!("urls[{i}]"), parse(url)));
            parsed.collect::<Vec<_>>().into_iter().flatten().collect()
        }
        _ => {
            faults.add("url", "give either `url` or `urls`");
            return None;
        }
    };
    let tls = if servers.iter().any(Server::has_tls) { Some(faults.check("caFile", tls(config.ca_file.as_deref()))?) } else { None };
    Some(Servers::new(servers, tls, timeout?))
}

fn account(config: &LdapConfig, faults: &mut Faults) -> Option<ServiceAccount> {
    let password = faults.check("bindPassword", Secret::read(config.bind_password.as_ref(), config.bind_password_file.as_deref()))?;
    match (&config.bind_dn, password) {
        (None, None) => None,
        // A DN without a password is an anonymous bind that looks like a real one (RFC 4513, 5.1.2).
        (Some(_), None) => {
            faults.add("bindPassword", "give the password of `bindDn`, here or by `bindPasswordFile`");
            None
        }
        (dn, Some(_)) if dn.as_deref().is_none_or(str::is_empty) => {
            faults.add("bindDn", "give the DN that the password is for");
            None
        }
        (dn, Some(password)) => dn.clone().map(|dn| ServiceAccount { dn, password }),
    }
}

fn users(config: &LdapConfig, mapping: &Mapping, fixed_tenant: bool, faults: &mut Faults) -> Option<UserPlan> {
    let search = &config.user_search;
    let at = |field: &str| format!("userSearch.{field}");
    let base = faults.check(&at("base"), plain_dn(&search.base));
    let mut filters = vec![faults.check(&at("filter"), OperatorFilter::parse(&search.filter)).map(Filter::Operator)];
    if let Some(enabled) = &search.enabled_filter {
        filters.push(faults.check(&at("enabledFilter"), OperatorFilter::parse(enabled)).map(Filter::Operator));
    }
    let id = faults.check(&at("idAttribute"), Attribute::parse(&search.id_attribute));
    if id.as_ref().is_some_and(|id| NO_IDS.iter().any(|no| id.is(no))) {
        faults.add(at("idAttribute"), "it must be immutable and never given again, as entryUUID and objectGUID are");
    }
    let usernames = required(faults, &at("usernameAttributes"), &search.username_attributes);
    let searched = required(faults, &at("searchAttributes"), &search.search_attributes);
    let mail = faults.check(&at("mailAttribute"), Attribute::parse(&search.mail_attribute));
    let more = attributes(faults, &at("attributes"), &search.attributes);
    let single_valued = attributes(faults, &at("singleValued"), &search.single_valued);
    for (index, attribute) in more.iter().enumerate().filter(|(_, a)| NO_CLAIMS.iter().any(|no| a.is(no))) {
        faults.add(at(&format!("attributes[{index}]")), format!("`{}` can not be read", attribute.as_str()));
    }
    let tenancy = user_tenancy(search, mapping.tenant_claim(), fixed_tenant, faults);
    let (base, id, mail, tenancy) = (base?, id?, mail?, tenancy?);

    // A claim that no attribute can have is not looked up by.
    let is_readable = |claim: &&str| !NO_CLAIMS.iter().any(|no| no.eq_ignore_ascii_case(claim));
    let numbers = [mapping.uid_number_claim(), mapping.gid_number_claim()].into_iter().flatten().filter(is_readable);
    let numbers: Vec<_> = numbers.filter_map(|claim| Attribute::parse(claim).ok()).collect();
    let mut single: Vec<Attribute> = usernames.iter().chain(&single_valued).chain(&numbers).cloned().collect();
    single.extend([id.clone(), mail.clone()]);
    single.extend(USUAL.iter().filter_map(|name| Attribute::parse(name).ok()));
    let mut attributes: Vec<String> = Vec::new();
    for attribute in single.iter().chain(&searched).chain(&more).chain(&tenancy.attribute) {
        if !attributes.iter().any(|known| attribute.is(known)) {
            attributes.push(attribute.as_str().to_owned());
        }
    }
    let mut requested = attributes.clone();
    if let Some(member_of) = config.groups.as_ref().and_then(|g| g.member_of.as_ref()) {
        requested.push(member_of.attribute.clone());
    }
    let single = single.iter().map(|a| a.as_str().to_owned()).collect();
    Some(UserPlan {
        base,
        scope: match search.scope {
            SearchScope::Subtree => Scope::Subtree,
            SearchScope::OneLevel => Scope::OneLevel,
        },
        filter: Filter::And(filters.into_iter().flatten().collect()),
        usernames,
        searched,
        mail,
        numbers,
        tenancy,
        presentation: Presentation { id: IdAttribute(id), attributes, single },
        requested,
    })
}

/// An attribute by which someone who was proven elsewhere is found here.
pub(super) fn join_attribute(name: &str) -> Result<Attribute, String> {
    let attribute = Attribute::parse(name)?;
    if NO_IDS.iter().chain(&NO_CLAIMS).any(|no| attribute.is(no)) {
        return Err(format!(
            "`{name}` changes, is given again, or can not be read: join by an attribute that never changes and is one person's only"
        ));
    }
    Ok(attribute)
}

fn plain_dn(text: &str) -> Result<String, String> {
    DnTemplate::parse(text)?.of(None).ok_or_else(|| "`{tenant}` belongs into tenantBase".to_owned())
}

fn user_tenancy(search: &UserSearchConfig, tenant_claim: Option<&str>, fixed_tenant: bool, faults: &mut Faults) -> Option<UserTenancy> {
    let filter = search.tenant_filter.as_ref().map(|text| faults.check("userSearch.tenantFilter", FilterTemplate::parse(text)));
    let base = search.tenant_base.as_ref().map(|text| {
        let template = DnTemplate::parse(text).and_then(|t| if t.has_tenant() { Ok(t) } else { Err("it must hold `{tenant}`".to_owned()) });
        faults.check("userSearch.tenantBase", template)
    });
    if fixed_tenant {
        if filter.is_some() || base.is_some() {
            faults.add("userSearch", "leave tenantFilter and tenantBase out: the connector's tenant is fixed");
        }
        return Some(UserTenancy { attribute: None, filter: None, base: None });
    }
    // A claim that no attribute can have (`dn`, `groups`, a dotted path) does not narrow a search.
    let attribute = tenant_claim.filter(|claim| !NO_CLAIMS.contains(claim)).and_then(|claim| Attribute::parse(claim).ok());
    if attribute.is_none() && filter.is_none() && base.is_none() {
        faults.add(
            "userSearch",
            "the directory can not be asked for one tenant's users: map `tenant: { claim: … }` to one of their attributes, or give \
             `tenantFilter` or `tenantBase`, or fix the connector's tenant",
        );
        return None;
    }
    Some(UserTenancy { attribute, filter: filter.flatten(), base: base.flatten() })
}

fn group_plan(config: &GroupsConfig, users: &UserPlan, fixed_tenant: bool, faults: &mut Faults) -> Option<GroupPlan> {
    let membership = match (&config.member_of, &config.search) {
        (Some(member_of), None) => {
            let attribute = faults.check("groups.memberOf.attribute", Attribute::parse(&member_of.attribute));
            let plain = |text| {
                plain_dn(text)
                    .map_err(|_| "it is not a DN that is the same for all tenants".to_owned())
                    .and_then(|dn| DnTemplate::parse(&dn))
            };
            let base = member_of.base.as_deref().map(|text| faults.check("groups.memberOf.base", plain(text)));
            attribute.map(|attribute| Membership::MemberOf { attribute, base: base.flatten() })
        }
        (None, Some(search)) => {
            let base = match (&search.base, &users.tenancy.base) {
                (Some(base), _) => faults.check("groups.search.base", DnTemplate::parse(base)),
                (None, Some(base)) => Some(base.clone()),
                (None, None) => faults.check("groups.search.base", Err("give the DN below which the groups are".to_owned())),
            };
            let member = faults.check("groups.search.memberAttribute", Attribute::parse(&search.member_attribute));
            base.zip(member).map(|(base, member)| Membership::Search { base, member })
        }
        _ => faults.check("groups", Err("give either `memberOf` or `search`".to_owned())),
    };
    if config.nested && matches!(&membership, Some(Membership::Search { member, .. }) if is_by_name(member)) {
        faults.add("groups.nested", "groups that list usernames can not hold groups");
    }
    if config.most == 0 {
        faults.add("groups.most", "it must be at least 1");
    }
    let own_filter = config.tenant_filter.as_ref().map(|text| faults.check("groups.tenantFilter", FilterTemplate::parse(text)));
    let own_attribute = config.tenant_attribute.as_ref().map(|name| faults.check("groups.tenantAttribute", Attribute::parse(name)));
    let has_base = matches!(&membership, Some(Membership::Search { base, .. }) if base.has_tenant());
    if fixed_tenant && (has_base || own_filter.is_some() || own_attribute.is_some()) {
        faults.add("groups", "leave the tenant out: the connector's tenant is fixed");
    }
    let tenancy = if fixed_tenant {
        Some(GroupTenancy::Fixed)
    } else if let Some(filter) = own_filter {
        filter.map(GroupTenancy::Filter)
    } else if let Some(attribute) = own_attribute {
        attribute.map(GroupTenancy::Attribute)
    } else if has_base {
        Some(GroupTenancy::Base)
    } else if let Some(filter) = &users.tenancy.filter {
        Some(GroupTenancy::Filter(filter.clone()))
    } else if let Some(attribute) = &users.tenancy.attribute {
        Some(GroupTenancy::Attribute(attribute.clone()))
    } else {
        faults.check(
            "groups",
            Err("the groups' tenant is not known: give `tenantAttribute`, `tenantFilter`, or `{tenant}` in `search.base`".to_owned()),
        )
    };
    let filter = faults.check("groups.filter", OperatorFilter::parse(&config.filter)).map(Filter::Operator);
    let name = faults.check("groups.nameAttribute", Attribute::parse(&config.name_attribute));
    Some(GroupPlan { membership: membership?, filter: filter?, name: name?, tenancy: tenancy?, nested: config.nested, most: config.most })
}

/// Whether a group lists its members by username, as RFC 2307 has it, and not by DN.
pub(super) fn is_by_name(member: &Attribute) -> bool {
    member.is("memberUid")
}
