//! Which tenants there are, and by what names.
//!
//! Tenants come into being while replicas run. Each holds the names that its tenant may be taken for, in the batch that makes it: of two that
//! look alike the store takes one. What another replica made is read again when that is heard, and looked up where it was missed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use claims_mapping::{ConnectorId, ConnectorPolicy, MappedUser, OperatedBy, Rejection, Tenant, TenantId, TenantLabel, TenantRule};
use moka::sync::Cache;
use time::{Duration, OffsetDateTime};

use crate::store::{Batch, Expect, Key, Kind, Outcome, Partition, Store, StoreError};

/// How long it is taken for true that the store knows no tenant of an id.
const UNKNOWN: Duration = Duration::MINUTE;
/// Of how many ids that is remembered.
const MOST_UNKNOWN: u64 = 10_000;

/// The tenants could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is stored is no tenant's name.
    #[error("a stored tenant can not be read")]
    Stored,
}

/// The tenants, by id, label and what connectors call them.
pub struct Tenants {
    index: ArcSwap<Index>,
    /// Whether a tenant that an operator's connector names, and that is not configured, comes into being.
    create: bool,
    /// Labels that no such tenant may have.
    reserved: BTreeSet<String>,
    store: Arc<dyn Store>,
    /// When the store was last asked for an id that it did not know, in seconds since 1970.
    unknown: Cache<TenantId, i64>,
    /// Those that clash with the configuration, which the log was told.
    clashing: Mutex<BTreeSet<TenantId>>,
}

#[derive(Default, Clone)]
struct Index {
    by_id: HashMap<TenantId, Arc<Tenant>>,
    by_label: HashMap<TenantLabel, TenantId>,
    by_external: HashMap<(ConnectorId, String), TenantId>,
    folded: HashMap<String, TenantId>,
}

impl Index {
    /// Whether a tenant that was not configured may stand beside those that there are: neither its id nor its label is taken,
    /// reserved, or looks like one that is.
    fn is_free(&self, tenant: &Tenant, reserved: &BTreeSet<String>) -> bool {
        !self.folded.contains_key(&tenant.id.folded())
            && !self.by_label.contains_key(&tenant.label)
            && !reserved.contains(tenant.label.as_str())
            && tenant.id.folded() != TenantId::system().folded()
    }

    fn add(&mut self, tenant: Tenant) {
        self.by_label.insert(tenant.label.clone(), tenant.id.clone());
        for (connector, external) in &tenant.external_ids {
            self.by_external.insert((connector.clone(), external.clone()), tenant.id.clone());
        }
        self.folded.insert(tenant.id.folded(), tenant.id.clone());
        self.by_id.insert(tenant.id.clone(), Arc::new(tenant));
    }
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenants").field("count", &self.index.load().by_id.len()).finish_non_exhaustive()
    }
}

impl Tenants {
    /// The configured tenants, and, where tenants may come into being, those that did earlier. `creation` holds the labels that
    /// none of those may have.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn open(
        configured: Vec<Tenant>,
        creation: Option<BTreeSet<String>>,
        store: Arc<dyn Store>,
        now: OffsetDateTime,
    ) -> Result<Self, RegistryError> {
        let mut index = Index::default();
        configured.into_iter().for_each(|tenant| index.add(tenant));
        let tenants = Self {
            index: ArcSwap::from_pointee(index),
            create: creation.is_some(),
            reserved: creation.unwrap_or_default(),
            store,
            unknown: Cache::new(MOST_UNKNOWN),
            clashing: Mutex::default(),
        };
        tenants.read_again(now).await?;
        Ok(tenants)
    }

    /// Takes up the tenants that came into being, here or at another replica, but for those that the configuration describes, or looks like.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn read_again(&self, now: OffsetDateTime) -> Result<(), RegistryError> {
        if !self.create {
            return Ok(());
        }
        let mut cursor = None;
        loop {
            let page = self.store.list(&Partition::System, Kind::CreatedTenant, cursor.as_deref(), 1_000, now).await?;
            let known = self.index.load();
            let ids = page.entries.iter().map(|(id, _)| TenantId::parse(id).map_err(|_| RegistryError::Stored));
            let fresh = ids.filter(|id| id.as_ref().map_or(true, |id| !known.by_id.contains_key(id))).collect::<Result<Vec<_>, _>>()?;
            drop(known);
            if !fresh.is_empty() {
                self.take_up(fresh);
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// One tenant that is on; where it is unknown, the store is asked whether another replica made it: for one id once a minute. The id
    /// must be one that we wrote somewhere, as in a genuine token.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn enabled_anywhere(&self, id: &TenantId, now: OffsetDateTime) -> Result<Option<Arc<Tenant>>, StoreError> {
        if !self.create || self.get(id).is_some() {
            return Ok(self.enabled(id));
        }
        let second = now.unix_timestamp();
        if self.unknown.get(id).is_some_and(|asked| (second - asked).abs() < UNKNOWN.whole_seconds()) {
            return Ok(None);
        }
        if self.store.get(&made(id), now).await?.is_none() {
            self.unknown.insert(id.clone(), second);
            return Ok(None);
        }
        self.take_up(vec![id.clone()]);
        // One that clashes with the configuration stays unknown.
        if self.get(id).is_none() {
            self.unknown.insert(id.clone(), second);
        }
        Ok(self.enabled(id))
    }

    /// Adds tenants that came into being, where they may stand beside those that there are.
    fn take_up(&self, ids: Vec<TenantId>) {
        let fresh: Vec<_> = ids.into_iter().map(created).collect();
        self.index.rcu(|index| {
            let mut index = Index::clone(index);
            for tenant in &fresh {
                if index.is_free(tenant, &self.reserved) {
                    index.add(tenant.clone());
                }
            }
            index
        });
        let index = self.index.load();
        let mut clashing = self.clashing.lock().unwrap_or_else(PoisonError::into_inner);
        for tenant in fresh.iter().filter(|tenant| !index.by_id.contains_key(&tenant.id)) {
            if clashing.insert(tenant.id.clone()) {
                tracing::error!(tenant.id = %tenant.id, "a tenant that came into being earlier clashes with another one, or with the configuration, and is no tenant now");
            }
        }
    }

    /// One tenant, disabled or not.
    #[must_use]
    pub fn get(&self, id: &TenantId) -> Option<Arc<Tenant>> {
        self.index.load().by_id.get(id).cloned()
    }

    /// One tenant that is on.
    #[must_use]
    pub fn enabled(&self, id: &TenantId) -> Option<Arc<Tenant>> {
        self.get(id).filter(|tenant| !tenant.disabled)
    }

    /// All tenants that are on, in the order of their ids.
    #[must_use]
    pub fn all_enabled(&self) -> Vec<Arc<Tenant>> {
        let mut all: Vec<_> = self.index.load().by_id.values().filter(|tenant| !tenant.disabled).cloned().collect();
        all.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
        all
    }

    /// The ids of all tenants, also of those that are off.
    #[must_use]
    pub fn ids(&self) -> Vec<TenantId> {
        self.index.load().by_id.keys().cloned().collect()
    }

    /// One tenant by its label.
    #[must_use]
    pub fn by_label(&self, label: &str) -> Option<Arc<Tenant>> {
        let index = self.index.load();
        index.by_label.get(label).and_then(|id| index.by_id.get(id)).cloned()
    }

    /// The tenant that someone means who types this as their domain at a connector: what its upstream calls the tenant, else the
    /// id, else the label, in any case.
    #[must_use]
    pub fn called(&self, connector: &ConnectorId, text: &str) -> Option<Arc<Tenant>> {
        let index = self.index.load();
        let external = index.by_external.get(&(connector.clone(), text.to_owned())).and_then(|id| index.by_id.get(id));
        let tenant = external.or_else(|| index.by_id.get(text)).cloned();
        drop(index);
        tenant.or_else(|| self.by_label(&text.to_lowercase()))
    }

    /// The tenant of a mapped user. Fails closed: no value, several values and unknown ones give none.
    ///
    /// # Errors
    /// A [`Rejection`], or `Err(Err(_))` where a new tenant could not be stored.
    pub async fn of_user(
        &self,
        user: &MappedUser,
        policy: &ConnectorPolicy,
        now: OffsetDateTime,
    ) -> Result<Arc<Tenant>, Result<Rejection, StoreError>> {
        match (self.known_of_user(user, policy), &policy.tenant_rule, user.tenant.as_slice()) {
            (Err(Rejection::UnknownTenant), TenantRule::Mapped(None), [external])
                if self.create && policy.operated_by == OperatedBy::Operator =>
            {
                match TenantId::parse(external) {
                    Ok(id) if !id.is_system() => self.create(id, now).await,
                    _ => Err(Ok(Rejection::UnknownTenant)),
                }
            }
            (known, ..) => known.map_err(Ok),
        }
    }

    /// The same among the tenants that there are: none comes into being.
    ///
    /// # Errors
    /// A [`Rejection`].
    pub fn known_of_user(&self, user: &MappedUser, policy: &ConnectorPolicy) -> Result<Arc<Tenant>, Rejection> {
        match &policy.tenant_rule {
            TenantRule::Fixed(id) | TenantRule::Default(id) => self.get(id).ok_or(Rejection::UnknownTenant),
            TenantRule::Mapped(_) => match user.tenant.as_slice() {
                [external] => self.named(&policy.connector, external).ok_or(Rejection::UnknownTenant),
                [] => Err(Rejection::NoTenant),
                _ => Err(Rejection::SeveralTenants),
            },
        }
    }

    /// Describes a tenant anew.
    #[cfg(test)]
    pub(crate) fn describe(&self, tenant: &Tenant) {
        self.index.rcu(|index| {
            let mut index = Index::clone(index);
            index.add(tenant.clone());
            index
        });
    }

    /// The tenant that a connector's upstream calls so: by `externalIds`, else the id as it is, but never a tenant that has
    /// another name there.
    fn named(&self, connector: &ConnectorId, external: &str) -> Option<Arc<Tenant>> {
        let index = self.index.load();
        if let Some(id) = index.by_external.get(&(connector.clone(), external.to_owned())) {
            return index.by_id.get(id).cloned();
        }
        index.by_id.get(external).filter(|tenant| !tenant.external_ids.contains_key(connector)).cloned()
    }

    /// The same, where no other tenant could be meant: one that came into being since may have an id that is another's name there.
    #[must_use]
    pub fn only_one_called(&self, connector: &ConnectorId, external: &str) -> Option<Arc<Tenant>> {
        let named = self.named(connector, external)?;
        let by_id = self.index.load().by_id.get(external).filter(|tenant| !tenant.external_ids.contains_key(connector)).cloned();
        by_id.is_none_or(|tenant| tenant.id == named.id).then_some(named)
    }

    async fn create(&self, id: TenantId, now: OffsetDateTime) -> Result<Arc<Tenant>, Result<Rejection, StoreError>> {
        let tenant = created(id.clone());
        // A look-alike of an existing tenant is nobody's, and neither is one whose label is taken or reserved.
        if !self.index.load().is_free(&tenant, &self.reserved) {
            return Err(Ok(Rejection::UnknownTenant));
        }
        let names = names(&tenant);
        let batch = Batch::new().put(made(&id), Vec::new(), None);
        let batch = names
            .iter()
            .fold(batch, |batch, name| batch.expect(name.clone(), Expect::Absent).put(name.clone(), id.as_str().as_bytes().to_vec(), None));
        match self.store.commit(batch, now).await.map_err(Err)? {
            Outcome::Committed => tracing::info!(target: "audit", event = "tenant.created", tenant.id = %id),
            // Another replica was first: with this one, or with one that looks alike.
            Outcome::Conflict if self.has_names(&id, &names, now).await.map_err(Err)? => {}
            Outcome::Conflict => return Err(Ok(Rejection::UnknownTenant)),
        }
        self.take_up(vec![id.clone()]);
        self.get(&id).ok_or(Ok(Rejection::UnknownTenant))
    }

    /// Whether these names are a tenant's own: another replica made the same one.
    async fn has_names(&self, id: &TenantId, names: &[Key], now: OffsetDateTime) -> Result<bool, StoreError> {
        for name in names {
            if self.store.get(name, now).await?.is_none_or(|entry| entry.value != id.as_str().as_bytes()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The record that a tenant came into being.
fn made(id: &TenantId) -> Key {
    Key::system(Kind::CreatedTenant, id.as_str())
}

/// What it must be alone with: its id without regard to case and the like, and its label.
fn names(tenant: &Tenant) -> [Key; 2] {
    [format!("id.{}", tenant.id.folded()), format!("label.{}", tenant.label)].map(|name| Key::system(Kind::TenantName, name))
}

fn created(id: TenantId) -> Tenant {
    Tenant {
        label: TenantLabel::derived(&id),
        display_name: id.as_str().to_owned(),
        id,
        external_ids: std::collections::BTreeMap::default(),
        connectors: None,
        disabled: false,
    }
}
