//! `GroupAPI`: groups by id, by name or by search, and who is in them. A group is of one tenant; one that is of another tenant, or not there
//! at all, gets one and the same answer, and that it could not be told is another one.
//!
//! A group is what [`Identity::groups`](claims_mapping::Identity::groups) has: whether someone is in it, their own identity says. Which groups
//! there are, and who else is in one, is asked of the connectors whose mapping leaves their names as they are (`groups/sources.rs`).

mod ids;
mod sources;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::{Identity, Tenant, TenantId, TenantScope, UserId, fold};
use connectors::{ConnectorError, UpstreamGroup};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use time::OffsetDateTime;
use uuid::Uuid;

pub use ids::GroupIds;
pub(crate) use sources::prefix_of as group_prefix_of;

use super::{Cs3, Cs3Caller, Cs3Error, Cs3Group, UserRef, caller::opaque_id, texts};
use crate::directory::{DirectoryError, PersonBy};
use sources::Sources;

/// The most members of one group, from one connector.
const MOST_MEMBERS: usize = 1_000;
/// The most groups of a search that are asked for their members.
const MOST_WITH_MEMBERS: usize = 20;
/// How many of these at once.
const AT_ONCE: usize = 4;

/// What a search for groups is for. All parts of it must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cs3GroupSearch {
    /// Texts that a group's name holds, each of them.
    pub texts: Vec<String>,
    /// Whether some filter asks for a kind of group that we have none of.
    pub is_empty: bool,
    /// Whether members are left out.
    pub skip_members: bool,
}

/// A group that a caller may know of, if there is one.
struct Asked {
    scope: TenantScope,
    name: String,
}

impl Cs3 {
    /// `GetGroup`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn group(&self, caller: &Cs3Caller, id: &str, skip_members: bool, now: OffsetDateTime) -> Result<Cs3Group, Cs3Error> {
        let asked = self.group_of_id(caller, id, now).await?;
        self.told_of_group(&asked, skip_members, now).await
    }

    /// `GetGroupByClaim`: `group_name`, as it is over the instance; the id as `group_id` or `groupid`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn group_by_claim(
        &self,
        caller: &Cs3Caller,
        claim: &str,
        value: &str,
        skip_members: bool,
        now: OffsetDateTime,
    ) -> Result<Cs3Group, Cs3Error> {
        let asked = match claim {
            "group_id" | "groupid" => self.group_of_id(caller, value, now).await?,
            "group_name" => self.group_of_name(caller, value)?,
            _ => return Err(Cs3Error::Invalid("the claim must be `group_name` or `group_id`")),
        };
        self.told_of_group(&asked, skip_members, now).await
    }

    /// `GetMembers`: at most 1,000 through each connector.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn members(&self, caller: &Cs3Caller, id: &str, now: OffsetDateTime) -> Result<Vec<UserId>, Cs3Error> {
        let asked = self.group_of_id(caller, id, now).await?;
        Ok(self.told_of_group(&asked, false, now).await?.members)
    }

    /// `HasMember`: by the person's own groups. Whoever is not of the group's tenant is in none of its groups.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn has_member(&self, caller: &Cs3Caller, id: &str, who: &UserRef, now: OffsetDateTime) -> Result<bool, Cs3Error> {
        let Asked { scope, name } = self.group_of_id(caller, id, now).await?;
        if who.opaque_id.is_empty() {
            return Err(Cs3Error::Invalid("the user's `opaque_id` is empty"));
        }
        let is_elsewhere = !who.tenant_id.is_empty() && who.tenant_id != scope.tenant_id().as_str();
        let Some(user) = opaque_id(&who.opaque_id).filter(|_| !is_elsewhere && self.is_ours(&who.idp)) else { return Ok(false) };
        let person = self.people.person(&scope, &PersonBy::Id(user), now).await?;
        Ok(person.is_some_and(|person| person.identity.groups().contains(&name)))
    }

    /// `FindGroups` of the caller's tenant, sorted by name. A directory that does not answer takes nothing from the others, but where no group
    /// was found it is not said that there is none. Of more than 20 groups the members are left out, which are asked for one group at a time.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn find_groups(&self, caller: &Cs3Caller, search: &Cs3GroupSearch, now: OffsetDateTime) -> Result<Vec<Cs3Group>, Cs3Error> {
        may_ask(caller)?;
        let Cs3Caller::User(user) = caller else { return Err(Cs3Error::NotAllowed("a service account may not search")) };
        let (longest, others) = texts::longest_and_others(&search.texts, self.config.search_least_characters)?;
        if search.is_empty {
            return Ok(Vec::new());
        }
        let scope = self.scope_of_groups(caller, user.tenant_id())?;
        let (found, trouble) = Sources::of(&self.admission, &scope).search(&scope, longest, self.config.results).await;
        if let (true, Some(error)) = (found.is_empty(), trouble) {
            return Err(unknown(error));
        }
        let mut groups: BTreeMap<String, UpstreamGroup> = BTreeMap::new();
        for (name, group) in found {
            let folded = fold(&name);
            if Identity::group_fault(&name).is_none() && others.iter().all(|text| folded.contains(text)) {
                groups.entry(name).or_insert(group);
            }
        }
        let names: Vec<_> = groups.keys().take(self.config.results).cloned().collect();
        let with_members = !search.skip_members && names.len() <= MOST_WITH_MEMBERS;
        let ids = self.group_ids.ids_of(scope.tenant_id(), &names, now).await?;
        if !with_members {
            let told = |((name, group), id): ((String, UpstreamGroup), Uuid)| told(scope.tenant(), id, &name, &group, Vec::new());
            return Ok(groups.into_iter().zip(ids).map(told).collect());
        }
        let asked: Vec<_> = names.into_iter().map(|name| Asked { scope: scope.clone(), name }).collect();
        let told = asked.into_iter().map(|asked| async move {
            match self.told_of_group(&asked, false, now).await {
                // It has gone since.
                Err(Cs3Error::NotFound) => Ok(None),
                told => told.map(Some),
            }
        });
        stream::iter(told).buffered(AT_ONCE).try_filter_map(async |group| Ok(group)).try_collect().await
    }

    /// The group with this id, within what the caller may know; whether it is still there, the connectors say.
    async fn group_of_id(&self, caller: &Cs3Caller, id: &str, now: OffsetDateTime) -> Result<Asked, Cs3Error> {
        may_ask(caller)?;
        if id.is_empty() {
            return Err(Cs3Error::Invalid("the group's `opaque_id` is empty"));
        }
        let id = opaque_id(id).ok_or(Cs3Error::NotFound)?;
        let (tenant, name) = self.group_ids.find(id, now).await?.ok_or(Cs3Error::NotFound)?;
        Ok(Asked { scope: self.scope_of_groups(caller, &tenant)?, name })
    }

    /// The group with this name, which is unique over the instance and says its tenant.
    fn group_of_name(&self, caller: &Cs3Caller, name: &str) -> Result<Asked, Cs3Error> {
        may_ask(caller)?;
        let (name, label) = name.rsplit_once('@').ok_or(Cs3Error::NotFound)?;
        let tenant = self.admission.tenants.by_label(label).ok_or(Cs3Error::NotFound)?;
        Ok(Asked { scope: self.scope_of_groups(caller, &tenant.id)?, name: name.to_owned() })
    }

    /// The scope of a group's tenant: a user's own, and any that is on for a service account, which asks for one group.
    fn scope_of_groups(&self, caller: &Cs3Caller, tenant: &TenantId) -> Result<TenantScope, Cs3Error> {
        match caller {
            Cs3Caller::User(user) if user.tenant_id() == tenant => {
                user.scope(None, &self.admission.tenants).map_err(|_| Cs3Error::NotFound)
            }
            Cs3Caller::Service { lookup, .. } => {
                let tenant = self.admission.tenants.enabled(tenant).ok_or(Cs3Error::NotFound)?;
                Ok(lookup.scope(&tenant))
            }
            _ => Err(Cs3Error::NotFound),
        }
    }

    /// A group as OpenCloud is told of it. One of the same name through two connectors is one group: its people are those of both, and
    /// are told only where both could tell.
    async fn told_of_group(&self, asked: &Asked, skip_members: bool, now: OffsetDateTime) -> Result<Cs3Group, Cs3Error> {
        let Asked { scope, name } = asked;
        if Identity::group_fault(name).is_some() {
            return Err(Cs3Error::NotFound);
        }
        let sources = Sources::of(&self.admission, scope);
        let (known, trouble) = sources.get(scope, name).await;
        match (known.first(), trouble) {
            (_, Some(error)) if !skip_members || known.is_empty() => return Err(unknown(error)),
            (None, _) => return Err(Cs3Error::NotFound),
            (Some(_), _) => {}
        }
        let mut members = BTreeMap::new();
        if !skip_members {
            for (source, found) in sources.members(scope, &known, MOST_MEMBERS).await.map_err(unknown)? {
                let people = self.admission.admit_found(source.connector, found.users, scope.tenant_id(), now).await?;
                members.extend(people.into_iter().map(|person| (person.id().opaque_id(), person.id().clone())));
            }
        }
        let ids = self.group_ids.ids_of(scope.tenant_id(), std::slice::from_ref(name), now).await?;
        let (id, (_, group)) = ids.first().zip(known.first()).ok_or(Cs3Error::NotFound)?;
        Ok(told(scope.tenant(), *id, name, group, members.into_values().collect()))
    }
}

/// Who may ask for groups at all: users, and service accounts.
const fn may_ask(caller: &Cs3Caller) -> Result<(), Cs3Error> {
    match caller {
        Cs3Caller::User(_) | Cs3Caller::Service { .. } => Ok(()),
        Cs3Caller::Link { .. } => Err(Cs3Error::NotAllowed("a link shows no groups")),
        Cs3Caller::Tokenless(_) => Err(Cs3Error::NoToken),
    }
}

fn told(tenant: &Arc<Tenant>, id: Uuid, name: &str, group: &UpstreamGroup, members: Vec<UserId>) -> Cs3Group {
    Cs3Group {
        id,
        name: format!("{name}@{}", tenant.label),
        display_name: group.display_name.clone().unwrap_or_else(|| name.to_owned()),
        mail: group.mail.clone(),
        members,
    }
}

fn unknown(error: ConnectorError) -> Cs3Error {
    DirectoryError::from(error).into()
}
