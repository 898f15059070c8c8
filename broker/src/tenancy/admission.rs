//! From what a connector says to an identity: evaluate, find the tenant, admit, record the id.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use claims_mapping::{ConnectorId, ConnectorPolicy, Identity, MappedUser, Mapping, Rejection, Tenant, TenantId, UpstreamUser};
use connectors::{
    ConnectorError, CredentialLogin, Directory, Groups, LogoutNotices, PasswordLogin, RedirectLogin, Renewal, TokenAuthentication,
    TokenRevocation,
};
use time::OffsetDateTime;

use super::{IdRecords, IdTaken, Tenants};
use crate::store::StoreError;

/// A connector, its mapping and its policy, as the broker uses them.
pub struct Wired {
    /// Its permanent id.
    pub id: ConnectorId,
    /// Its name on the sign-in page.
    pub display_name: String,
    /// Whether it is switched off.
    pub disabled: bool,
    /// Whether it is a Keystone, whose tokens say where in OpenStack their bearer has rights.
    pub is_keystone: bool,
    /// What its claims become.
    pub mapping: Arc<Mapping>,
    /// What its users may become.
    pub policy: ConnectorPolicy,
    /// Sign-in with name and password.
    pub password: Option<Arc<dyn PasswordLogin>>,
    /// Users by search and look-up.
    pub directory: Option<Arc<dyn Directory>>,
    /// Groups by search and look-up.
    pub groups: Option<Arc<dyn Groups>>,
    /// Sign-in with an id and a secret that a person made for a program of theirs.
    pub credential: Option<Arc<dyn CredentialLogin>>,
    /// Sign-in at the upstream's own pages.
    pub redirect: Option<Arc<dyn RedirectLogin>>,
    /// Asking again about those who have signed in.
    pub renewal: Option<Arc<dyn Renewal>>,
    /// Tokens of the upstream itself.
    pub token: Option<Arc<dyn TokenAuthentication>>,
    /// Taking such tokens back.
    pub revocation: Option<Arc<dyn TokenRevocation>>,
    /// Sign-outs that the upstream tells of.
    pub logout: Option<Arc<dyn LogoutNotices>>,
    /// The directory whose people its users are.
    pub join: Option<Join>,
    /// Whether the sign-in page offers it to someone of whom nothing is known yet.
    pub listed: bool,
    /// How long one call of a port may take.
    pub within: Duration,
}

/// Whose people a connector's users are: those of a directory, found there by something that never changes.
#[derive(Debug, Clone)]
pub struct Join {
    /// The directory.
    pub directory: ConnectorId,
    /// The claim of the connector's user.
    pub claim: String,
    /// The directory's attribute that has the same value.
    pub attribute: String,
}

impl std::fmt::Debug for Wired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wired").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Wired {
    /// The connector whose people its users are: its own, or the directory that it is joined to.
    #[must_use]
    pub fn speaks_of(&self) -> &ConnectorId {
        self.join.as_ref().map_or(&self.id, |join| &join.directory)
    }

    /// Whether those who have signed in are its directory, because it has no other.
    #[must_use]
    pub fn remembers_people(&self) -> bool {
        self.directory.is_none() && self.join.is_none()
    }

    /// Whether it may speak for this tenant at all.
    #[must_use]
    pub fn serves(&self, tenant: &Tenant) -> bool {
        !self.disabled
            && self.policy.tenant_rule.admits(&tenant.id)
            && tenant.connectors.as_ref().is_none_or(|list| list.contains(&self.id))
    }
}

/// Someone is not admitted, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// No identity.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The id belongs to someone else.
    #[error(transparent)]
    IdTaken(#[from] IdTaken),
    /// The connector is switched off or gone.
    #[error("the connector `{0}` is disabled or not configured")]
    NoConnector(ConnectorId),
    /// A join has nothing to look for.
    #[error(
        "the claim `{0}`, by which the connector is joined to its directory, must be a text of 1 to 255 characters without control characters"
    )]
    JoinClaim(String),
    /// A join finds no one, or more than one.
    #[error("the directory `{directory}` has no one, or more than one, in that tenant whose `{attribute}` is the claim's value")]
    JoinNoOne {
        /// The directory.
        directory: ConnectorId,
        /// Its attribute.
        attribute: String,
    },
    /// The directory that the connector is joined to could not tell.
    #[error(transparent)]
    Directory(#[from] ConnectorError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AdmissionError {
    /// Whether it is no "no": whoever asks must answer "unavailable".
    #[must_use]
    pub const fn could_not_tell(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::Store(_))
    }
}

/// The way in.
#[derive(Debug)]
pub struct Admission {
    /// The tenants.
    pub tenants: Arc<Tenants>,
    /// Who has which id.
    pub ids: IdRecords,
    connectors: BTreeMap<ConnectorId, Arc<Wired>>,
}

impl Admission {
    /// The way in through these connectors.
    #[must_use]
    pub fn new(tenants: Arc<Tenants>, ids: IdRecords, connectors: Vec<Arc<Wired>>) -> Self {
        Self { tenants, ids, connectors: connectors.into_iter().map(|c| (c.id.clone(), c)).collect() }
    }

    /// A connector that is on.
    #[must_use]
    pub fn connector(&self, id: &str) -> Option<&Arc<Wired>> {
        self.connectors.get(id).filter(|c| !c.disabled)
    }

    /// The connectors that are on, in the order of their ids.
    pub fn connectors(&self) -> impl Iterator<Item = &Arc<Wired>> {
        self.connectors.values().filter(|c| !c.disabled)
    }

    /// Maps and admits one person who has just proven who they are, and records their id. What the mapping gave is returned
    /// beside the identity, so that a session can keep it and be judged anew later. Where the connector is joined to a
    /// directory, both are the directory's.
    ///
    /// # Errors
    /// Why there is no identity, or that it could not be told.
    pub async fn admit(
        &self,
        connector: &Wired,
        user: &UpstreamUser,
        now: OffsetDateTime,
    ) -> Result<(Identity, MappedUser), AdmissionError> {
        let (identity, mapped) = self.person_behind(connector, user, now).await?;
        let (tenant, id) = (identity.id().tenant_id().clone(), identity.id().opaque_id());
        let kept = self.ids.keep(&self.tenants, &tenant, vec![identity], now).await?;
        let identity = kept.into_iter().next().ok_or(IdTaken(id))?;
        Ok((identity, mapped))
    }

    /// The same, and nothing is recorded: who someone is whom the upstream speaks of again.
    ///
    /// # Errors
    /// Why there is no identity, or that it could not be told.
    pub async fn person_behind(
        &self,
        connector: &Wired,
        user: &UpstreamUser,
        now: OffsetDateTime,
    ) -> Result<(Identity, MappedUser), AdmissionError> {
        let mapped = connector.mapping.evaluate(user)?;
        if let Some(join) = &connector.join {
            return self.joined(connector, join, user, &mapped, now).await;
        }
        let identity = self.readmit(connector, mapped.clone(), now).await?;
        Ok((identity, mapped))
    }

    /// Admits someone whose mapping was evaluated earlier: tenant, connector and allow-lists are those of this moment.
    ///
    /// # Errors
    /// Why there is no identity, or that it could not be told.
    pub async fn readmit(&self, connector: &Wired, mapped: MappedUser, now: OffsetDateTime) -> Result<Identity, AdmissionError> {
        let tenant = self.tenant_of(connector, &mapped, now).await?;
        Ok(Identity::admit(mapped, &tenant, &connector.policy)?)
    }

    /// Whether [`Admission::readmit`] would surely give the same identity in the same tenant, as it is described now. `false` says
    /// nothing: admit anew. Whose an id is need not be asked again: those records never change.
    #[must_use]
    pub fn surely_readmits(&self, connector: &Wired, mapped: &MappedUser, tenant: &Arc<Tenant>) -> bool {
        let known = self.tenants.known_of_user(mapped, &connector.policy);
        connector.serves(tenant) && !tenant.disabled && known.is_ok_and(|known| Arc::ptr_eq(&known, tenant))
    }

    /// The tenant that the connector's rule gives someone.
    pub(super) async fn tenant_of(
        &self,
        connector: &Wired,
        mapped: &MappedUser,
        now: OffsetDateTime,
    ) -> Result<Arc<Tenant>, AdmissionError> {
        self.tenants.of_user(mapped, &connector.policy, now).await.map_err(|e| match e {
            Ok(rejection) => AdmissionError::Rejected(rejection),
            Err(store) => AdmissionError::Store(store),
        })
    }

    /// Maps and admits what a directory found, within one tenant: whoever is of another is dropped, whatever the upstream's
    /// query said.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn admit_found(
        &self,
        connector: &Wired,
        found: Vec<UpstreamUser>,
        tenant: &TenantId,
        now: OffsetDateTime,
    ) -> Result<Vec<Identity>, StoreError> {
        let mapped = found.iter().filter_map(|user| connector.mapping.evaluate(user).ok()).collect();
        self.admit_known(connector, mapped, tenant, now).await
    }

    /// The same for people whose mapping was evaluated earlier.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn admit_known(
        &self,
        connector: &Wired,
        known: Vec<MappedUser>,
        tenant: &TenantId,
        now: OffsetDateTime,
    ) -> Result<Vec<Identity>, StoreError> {
        let mut people = Vec::with_capacity(known.len());
        for mapped in known {
            match self.readmit(connector, mapped, now).await {
                Ok(identity) if identity.id().tenant_id() == tenant => people.push(identity),
                Ok(_) => tracing::warn!(
                    target: "audit", event = "search.foreign", tenant.id = %tenant, connector.id = %connector.id,
                    "a directory returned a user of another tenant; the user is left out"
                ),
                Err(AdmissionError::Store(error)) => return Err(error),
                Err(error) => tracing::debug!(connector.id = %connector.id, %error, "a directory's user is not admitted"),
            }
        }
        self.ids.keep(&self.tenants, tenant, people, now).await
    }
}
