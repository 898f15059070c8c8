//! `UserAPI`: one person, exactly, or a search of the caller's tenant. Whoever is of another tenant, disabled, or not there at all gets
//! one and the same answer; that it could not be told is another one, always.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use claims_mapping::{Identity, Tenant, TenantId, TenantScope, fold};
use connectors::ConnectorError;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Cs3, Cs3Caller, Cs3Error, Cs3Search, Cs3User, UserRef, caller::opaque_id, names::InstanceNames, texts};
use crate::{
    directory::{DirectoryError, KnownPerson, PersonBy, Search},
    tenancy::{Caller, InstanceLookup, NotYours},
};

/// The most characters of a claim's value.
const MOST_CHARACTERS: usize = 320;

impl From<NotYours> for Cs3Error {
    fn from(_: NotYours) -> Self {
        Self::NotFound
    }
}

/// By what a claim looks someone up.
enum Claim<'v> {
    Id(&'v str),
    /// The name that is unique over the instance.
    Username(&'v str),
    /// What is no one's over the instance, and can be asked for within a tenant only.
    Within(PersonBy),
}

impl<'v> Claim<'v> {
    fn parse(claim: &str, value: &'v str) -> Result<Self, Cs3Error> {
        if value.is_empty() || value.chars().take(MOST_CHARACTERS + 1).count() > MOST_CHARACTERS || value.chars().any(char::is_control) {
            return Err(Cs3Error::Invalid("the claim's value must be 1 to 320 characters without control characters"));
        }
        let number = || {
            let number = value.parse().ok().filter(|number: &i64| *number >= 0 && number.to_string() == value);
            number.ok_or(Cs3Error::Invalid("the claim's value must be a whole number"))
        };
        Ok(match claim {
            "userid" => Self::Id(value),
            "username" => Self::Username(value),
            "mail" => Self::Within(PersonBy::Mail(value.to_owned())),
            "uid" => Self::Within(PersonBy::UidNumber(number()?)),
            "gid" => Self::Within(PersonBy::GidNumber(number()?)),
            _ => return Err(Cs3Error::Invalid("the claim must be `userid`, `username`, `mail`, `uid` or `gid`")),
        })
    }
}

impl Cs3 {
    /// `GetUser`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn user(&self, caller: &Cs3Caller, who: &UserRef, skip_groups: bool, now: OffsetDateTime) -> Result<Cs3User, Cs3Error> {
        let person = self.referred(caller, who, now).await?;
        self.told(person, skip_groups, now).await
    }

    /// `GetUserByClaim`: `mail`, `username`, `userid`, `uid`, `gid`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn user_by_claim(
        &self,
        caller: &Cs3Caller,
        claim: &str,
        value: &str,
        skip_groups: bool,
        now: OffsetDateTime,
    ) -> Result<Cs3User, Cs3Error> {
        let person = match Claim::parse(claim, value)? {
            Claim::Id(id) => self.by_id(caller, opaque_id(id).ok_or(Cs3Error::NotFound)?, "", now).await?,
            Claim::Username(name) => self.by_username(caller, name, now).await?,
            Claim::Within(by) => {
                let user = self.user_only(caller, "a service account looks people up by `userid` or `username`")?;
                self.one(&user.scope(None, &self.admission.tenants)?, &by, now).await?
            }
        };
        self.told(person, skip_groups, now).await
    }

    /// `GetUserGroups`: the opaque ids.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn groups_of(&self, caller: &Cs3Caller, who: &UserRef, now: OffsetDateTime) -> Result<Vec<Uuid>, Cs3Error> {
        if matches!(caller, Cs3Caller::Tokenless(_)) {
            return Err(Cs3Error::NoToken);
        }
        let person = self.referred(caller, who, now).await?;
        self.groups_of_person(&person, now).await
    }

    /// `FindUsers`, sorted by username. The longest text goes to the directories, whose own attributes for searching say what it finds; what
    /// else there is must be part of the name, the display name or the e-mail address. A directory that does not answer takes nothing from
    /// the others, but where nobody was found it is not said that there is no one.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn find(&self, caller: &Cs3Caller, search: &Cs3Search, now: OffsetDateTime) -> Result<Vec<Cs3User>, Cs3Error> {
        let user = self.user_only(caller, "a service account may not search")?;
        let (longest, others) = texts::longest_and_others(&search.texts, self.config.search_least_characters)?;
        if search.is_empty {
            return Ok(Vec::new());
        }
        let scope = user.scope(None, &self.admission.tenants)?;
        let found = self.candidates(&scope, longest, now).await?;
        let mut named: Vec<_> = found.into_iter().filter_map(|person| Some((self.name(&person)?, person))).collect();
        named.retain(|(name, person)| others.iter().all(|text| is_part(text, name, &person.identity)));
        named.sort_by_cached_key(|(name, person)| (fold(name), person.identity.id().opaque_id()));
        named.dedup_by_key(|(_, person)| person.identity.id().opaque_id());
        named.truncate(self.config.results);
        if search.skip_groups {
            return Ok(named.into_iter().map(|(username, person)| Cs3User { person, username, groups: Vec::new() }).collect());
        }
        let found: Vec<_> = named.into_iter().map(|(_, person)| person.identity.clone()).collect();
        self.with_groups(&scope, &found, now).await
    }

    /// People whom a search found, with their groups, which it leaves out; whoever is gone meanwhile is left out.
    async fn with_groups(&self, scope: &TenantScope, found: &[Identity], now: OffsetDateTime) -> Result<Vec<Cs3User>, Cs3Error> {
        let people = self.people.with_groups(scope, found, now).await?;
        // All groups at once, so that those that were never given out are recorded in one batch.
        let names: BTreeSet<_> = people.iter().flat_map(|person| person.identity.groups()).collect();
        let names: Vec<_> = names.into_iter().cloned().collect();
        let ids = self.group_ids.ids_of(scope.tenant_id(), &names, now).await?;
        let ids: HashMap<_, _> = names.iter().zip(ids).collect();
        let told = |person: Arc<KnownPerson>| {
            let groups = person.identity.groups().iter().filter_map(|name| ids.get(name).copied()).collect();
            Some(Cs3User { username: self.name(&person)?, groups, person })
        };
        Ok(people.into_iter().filter_map(told).collect())
    }

    /// Those of a tenant whom a text finds: in its directories, or by their whole id or name.
    async fn candidates(&self, scope: &TenantScope, text: &str, now: OffsetDateTime) -> Result<Vec<Arc<KnownPerson>>, Cs3Error> {
        let exact = match (opaque_id(text), self.names.whose(text)) {
            (Some(id), _) => Some(PersonBy::Id(id)),
            (None, Some((tenant, username))) if tenant.id == *scope.tenant_id() => Some(PersonBy::Username(username.to_owned())),
            _ => None,
        };
        let search = Search { text: text.to_owned(), limit: usize::MAX, after: None };
        let page = self.people.search(scope, &search, now).await?;
        let known = |identity| Arc::new(KnownPerson { identity, tenant: Arc::clone(scope.tenant()) });
        let mut found: Vec<_> = page.people.into_iter().map(known).collect();
        if let Some(by) = exact {
            match self.people.person(scope, &by, now).await {
                Ok(person) => found.extend(person),
                // All directories have to know a name: one that is silent takes nothing from what the others found.
                Err(DirectoryError::Connector(ConnectorError::Unavailable(_))) if !found.is_empty() => {}
                Err(error) => return Err(error.into()),
            }
        }
        if found.is_empty() && !page.incomplete.is_empty() {
            let error = ConnectorError::Unavailable("no directory that answered has anyone".to_owned());
            return Err(DirectoryError::from(error).into());
        }
        Ok(found)
    }

    /// The person whom a request names, within what the caller may know.
    async fn referred(&self, caller: &Cs3Caller, who: &UserRef, now: OffsetDateTime) -> Result<Arc<KnownPerson>, Cs3Error> {
        if who.opaque_id.is_empty() {
            return Err(Cs3Error::Invalid("the user's `opaque_id` is empty"));
        }
        let id = opaque_id(&who.opaque_id).filter(|_| self.is_ours(&who.idp)).ok_or(Cs3Error::NotFound)?;
        self.by_id(caller, id, &who.tenant_id, now).await
    }

    /// The person with this id. A tenant that the request names narrows, and never widens.
    async fn by_id(&self, caller: &Cs3Caller, id: Uuid, named: &str, now: OffsetDateTime) -> Result<Arc<KnownPerson>, Cs3Error> {
        let scope = match caller {
            Cs3Caller::User(user) => user.scope(None, &self.admission.tenants)?,
            Cs3Caller::Link { owner } if owner.user() == id => owner.scope(None, &self.admission.tenants)?,
            Cs3Caller::Link { .. } => return Err(Cs3Error::NotFound),
            Cs3Caller::Service { lookup, .. } | Cs3Caller::Tokenless(lookup) => {
                let owner = self.admission.ids.owner(id, now).await?.ok_or(Cs3Error::NotFound)?;
                self.within(*lookup, &owner)?
            }
        };
        if !named.is_empty() && named != scope.tenant_id().as_str() {
            return Err(Cs3Error::NotFound);
        }
        self.one(&scope, &PersonBy::Id(id), now).await
    }

    /// The person with this name, which is unique over the instance and says their tenant.
    async fn by_username(&self, caller: &Cs3Caller, name: &str, now: OffsetDateTime) -> Result<Arc<KnownPerson>, Cs3Error> {
        let (tenant, username) = self.names.whose(name).ok_or(Cs3Error::NotFound)?;
        let by = PersonBy::Username(username.to_owned());
        let person = match caller {
            Cs3Caller::User(user) | Cs3Caller::Link { owner: user } if *user.tenant_id() != tenant.id => return Err(Cs3Error::NotFound),
            Cs3Caller::User(user) => self.one(&user.scope(None, &self.admission.tenants)?, &by, now).await?,
            // Only the owner is looked up, so that it does not show who else there is.
            Cs3Caller::Link { owner } => self.by_id(caller, owner.user(), "", now).await?,
            Cs3Caller::Service { lookup, .. } | Cs3Caller::Tokenless(lookup) => {
                self.one(&self.within(*lookup, &tenant.id)?, &by, now).await?
            }
        };
        // A directory may find people by more than what the mapping makes their name.
        let is_theirs = self.name(&person).is_some_and(|own| InstanceNames::are_one(&own, name));
        if is_theirs { Ok(person) } else { Err(Cs3Error::NotFound) }
    }

    /// The scope of the tenant that an id or a name is of, where it is on.
    fn within(&self, lookup: InstanceLookup, tenant: &TenantId) -> Result<TenantScope, Cs3Error> {
        let tenant: Arc<Tenant> = self.admission.tenants.enabled(tenant).ok_or(Cs3Error::NotFound)?;
        Ok(lookup.scope(&tenant))
    }

    async fn one(&self, scope: &TenantScope, by: &PersonBy, now: OffsetDateTime) -> Result<Arc<KnownPerson>, Cs3Error> {
        self.people.person(scope, by, now).await?.ok_or(Cs3Error::NotFound)
    }

    /// The caller, where they are a user; else why they may not.
    fn user_only<'c>(&self, caller: &'c Cs3Caller, service: &'static str) -> Result<&'c Caller, Cs3Error> {
        match caller {
            Cs3Caller::User(user) => Ok(user),
            Cs3Caller::Link { .. } => Err(Cs3Error::NotAllowed("a link shows its owner, and no one else")),
            Cs3Caller::Service { .. } => Err(Cs3Error::NotAllowed(service)),
            Cs3Caller::Tokenless(_) => Err(Cs3Error::NoToken),
        }
    }

    /// Someone as OpenCloud is told of them.
    async fn told(&self, person: Arc<KnownPerson>, skip_groups: bool, now: OffsetDateTime) -> Result<Cs3User, Cs3Error> {
        let username = self.name(&person).ok_or(Cs3Error::NotFound)?;
        let groups = if skip_groups { Vec::new() } else { self.groups_of_person(&person, now).await? };
        Ok(Cs3User { person, username, groups })
    }

    async fn groups_of_person(&self, person: &KnownPerson, now: OffsetDateTime) -> Result<Vec<Uuid>, Cs3Error> {
        Ok(self.group_ids.ids_of(&person.tenant.id, person.identity.groups(), now).await?)
    }

    /// Their name; `None` where they have none that could be used.
    fn name(&self, person: &KnownPerson) -> Option<String> {
        let name = self.names.of(&person.tenant, person.identity.username());
        if name.is_none() {
            let id = person.identity.id();
            tracing::warn!(
                tenant.id = %id.tenant_id(), user.id = %id.opaque_id(),
                "a username is too long to be made unique over the instance; the user is left out at the CS3 door"
            );
        }
        name
    }
}

/// Whether a text, case folded, is part of what people are found by.
fn is_part(text: &str, name: &str, person: &Identity) -> bool {
    let is_id = person.id().opaque_id().to_string() == text;
    is_id || [Some(name), person.display_name(), person.email()].into_iter().flatten().any(|value| fold(value).contains(text))
}
