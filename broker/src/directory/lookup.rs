//! One person, exactly, asked of the directories that could know them, side by side. Nothing is remembered here.
//!
//! A name may be known to several directories, and then it is nobody's: so that all of them have to answer. An id is of the one
//! connector that its record names.

use std::{collections::BTreeSet, sync::Arc};

use claims_mapping::{ConnectorId, Identity, MappedUser, Subject, TenantScope, fold};
use connectors::{ConnectorError, Lookup};
use futures_util::future::join_all;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{DirectoryError, PersonBy};
use crate::{
    store::StoreError,
    tenancy::{Admission, SignedInPeople, StoredUser, Wired},
};

/// The most bytes of a name or an address that is looked for.
const MOST_BYTES: usize = 1_024;

/// All connectors, and those who have signed in.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) admission: Arc<Admission>,
    pub(super) signed_in: SignedInPeople,
}

/// Someone who was found and admitted, their id recorded; and what their mapping gave.
#[derive(Debug)]
pub(super) struct FoundPerson {
    pub(super) identity: Identity,
    pub(super) mapped: MappedUser,
}

impl PersonBy {
    /// What one connector's directory is asked for; `None` where it can not be asked.
    fn at(&self, connector: &Wired) -> Option<Lookup> {
        let number = |attribute: Option<&str>, number| Some(Lookup::Number { attribute: attribute?.to_owned(), number });
        match self {
            Self::Id(_) => None,
            Self::Username(name) => Some(Lookup::Username(name.clone())),
            Self::Mail(address) => Some(Lookup::Mail(address.clone())),
            Self::UidNumber(uid) => number(connector.mapping.uid_number_claim(), *uid),
            Self::GidNumber(gid) => number(connector.mapping.gid_number_claim(), *gid),
        }
    }

    /// Whether anyone could be found by it.
    fn is_possible(&self) -> bool {
        match self {
            Self::Id(_) => true,
            Self::Username(text) | Self::Mail(text) => {
                !text.trim().is_empty() && text.len() <= MOST_BYTES && !text.chars().any(char::is_control)
            }
            Self::UidNumber(number) | Self::GidNumber(number) => *number >= 0,
        }
    }

    /// Whether the person is who was meant. A directory finds people by what they sign in with; the username is what the mapping made of
    /// that.
    fn means(&self, person: &Identity) -> bool {
        match self {
            Self::Id(id) => person.id().opaque_id() == *id,
            Self::Username(name) => fold(person.username()) == fold(name),
            // One of their addresses, of which the mapping gives one.
            Self::Mail(_) => true,
            Self::UidNumber(number) => person.uid_number() == Some(*number),
            Self::GidNumber(number) => person.gid_number() == Some(*number),
        }
    }

    /// The same of someone who has signed in.
    fn remembered(&self) -> impl Fn(&StoredUser) -> bool + Send {
        let folded = match self {
            Self::Username(text) | Self::Mail(text) => fold(text),
            Self::Id(_) | Self::UidNumber(_) | Self::GidNumber(_) => String::new(),
        };
        move |user| match self {
            Self::Id(_) => false,
            Self::Username(_) => fold(&user.username) == folded,
            Self::Mail(_) => user.email.as_deref().is_some_and(|email| fold(email) == folded),
            Self::UidNumber(number) => user.uid_number == Some(*number),
            Self::GidNumber(number) => user.gid_number == Some(*number),
        }
    }
}

impl Directories {
    /// The one person; `None` where there is none, or more than one.
    ///
    /// # Errors
    /// When the store, or one directory that might know them, could not tell.
    pub(super) async fn ask(&self, scope: &TenantScope, by: &PersonBy, now: OffsetDateTime) -> Result<Option<FoundPerson>, DirectoryError> {
        if !by.is_possible() {
            return Ok(None);
        }
        if let PersonBy::Id(id) = by { self.by_id(scope, *id, now).await } else { self.by_name(scope, by, now).await }
    }

    /// The person of an id, as its record names them.
    pub(super) async fn by_id(&self, scope: &TenantScope, id: Uuid, now: OffsetDateTime) -> Result<Option<FoundPerson>, DirectoryError> {
        let Some(record) = self.admission.ids.get(scope.tenant_id(), id, now).await? else { return Ok(None) };
        self.by_record(scope, id, (&record.connector, &record.subject), now).await
    }

    /// The same where the record is known: it never changes.
    pub(super) async fn by_record(
        &self,
        scope: &TenantScope,
        id: Uuid,
        (connector, subject): (&ConnectorId, &Subject),
        now: OffsetDateTime,
    ) -> Result<Option<FoundPerson>, DirectoryError> {
        let Some(connector) = self.admission.connector(connector.as_str()).filter(|c| c.serves(scope.tenant())) else { return Ok(None) };
        let mapped = match &connector.directory {
            Some(directory) => {
                let user = directory.get(scope, &Lookup::Subject(subject.clone())).await?;
                user.and_then(|user| connector.mapping.evaluate(&user).ok())
            }
            None if connector.remembers_people() => {
                let seen = self.signed_in.get(scope.tenant_id(), id, now).await?;
                seen.filter(|(through, _)| *through == connector.id).map(|(_, mapped)| mapped)
            }
            None => None,
        };
        let Some(mapped) = mapped else { return Ok(None) };
        let found = self.admitted(connector, mapped, scope, now).await?;
        Ok(found.filter(|found| PersonBy::Id(id).means(&found.identity)))
    }

    /// The one person who has this name, address or number, over all connectors of the tenant.
    async fn by_name(&self, scope: &TenantScope, by: &PersonBy, now: OffsetDateTime) -> Result<Option<FoundPerson>, DirectoryError> {
        let serving = || self.admission.connectors().filter(|c| c.serves(scope.tenant()));
        let asked = serving().filter_map(|c| Some((c, c.directory.as_ref()?, by.at(c)?)));
        let answers = join_all(asked.map(|(c, directory, lookup)| async move { (c, directory.get(scope, &lookup).await) })).await;
        let mut known: Vec<(&Arc<Wired>, MappedUser)> = Vec::new();
        let mut untold: Option<ConnectorError> = None;
        for (connector, answer) in answers {
            match answer {
                Ok(user) => known.extend(user.and_then(|user| connector.mapping.evaluate(&user).ok()).map(|mapped| (connector, mapped))),
                // What an operator must see to is told before an outage, which passes.
                Err(error) if untold.as_ref().is_none_or(is_outage) => untold = Some(error),
                Err(_) => {}
            }
        }
        if let Some(error) = untold {
            return Err(error.into());
        }
        let remembering: BTreeSet<_> = serving().filter(|c| c.remembers_people()).map(|c| &c.id).collect();
        if !remembering.is_empty() {
            let seen = self.signed_in.exactly(scope.tenant_id(), |id| remembering.contains(id), by.remembered(), now).await?;
            let through = |(id, mapped): (ConnectorId, _)| self.admission.connector(id.as_str()).map(|connector| (connector, mapped));
            known.extend(seen.into_iter().filter_map(through));
        }
        let mut only = None;
        for (connector, mapped) in known {
            let found = self.admitted(connector, mapped, scope, now).await?.filter(|found| by.means(&found.identity));
            match (found, &only) {
                (Some(_), Some(_)) => return Ok(None),
                (Some(found), None) => only = Some(found),
                (None, _) => {}
            }
        }
        Ok(only)
    }

    async fn admitted(
        &self,
        connector: &Wired,
        mapped: MappedUser,
        scope: &TenantScope,
        now: OffsetDateTime,
    ) -> Result<Option<FoundPerson>, StoreError> {
        let mut admitted = self.admission.admit_known(connector, vec![mapped.clone()], scope.tenant_id(), now).await?;
        Ok(admitted.pop().map(|identity| FoundPerson { identity, mapped }))
    }
}

/// Whether a directory did not answer, and may again.
pub(super) const fn is_outage(error: &ConnectorError) -> bool {
    matches!(error, ConnectorError::Unavailable(_))
}
