//! A verified token or session becomes a caller, and a caller's tenant becomes a scope. Here, and nowhere else.

use std::sync::Arc;

use claims_mapping::{Tenant, TenantId, TenantScope};
use uuid::Uuid;

use super::Tenants;
use crate::standing::Standing;

/// Who asks, after their token was found genuine and in force.
#[derive(Debug, Clone)]
pub struct Caller {
    tenant: Arc<Tenant>,
    user: Uuid,
}

/// The right to look up one person of whatever tenant, exactly: by their id, or by their instance-wide name. OpenCloud's proxy has it,
/// which sends no token, and so have its service accounts; nobody searches with it.
#[derive(Debug, Clone, Copy)]
pub struct InstanceLookup(());

impl InstanceLookup {
    /// The right of whoever may open the socket, or has a service account's token: `cs3/caller.rs` says who.
    pub(crate) const fn of_instance() -> Self {
        Self(())
    }

    /// The scope of the tenant that the id or the name is of.
    #[must_use]
    pub fn scope(self, tenant: &Arc<Tenant>) -> TenantScope {
        TenantScope::of_verified_caller(Arc::clone(tenant))
    }
}

/// What is asked for is not the caller's to see, or is not there: the two are one and the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not found")]
pub struct NotYours;

impl Caller {
    /// The caller that a token in force stands for.
    #[must_use]
    pub fn of(standing: &Standing) -> Self {
        Self { tenant: Arc::clone(&standing.tenant), user: standing.claims.sub }
    }

    /// The caller whom OpenCloud's token names, after the durable record said that the id is of this tenant, which is on.
    #[must_use]
    pub(crate) const fn of_record(tenant: Arc<Tenant>, user: Uuid) -> Self {
        Self { tenant, user }
    }

    /// Their opaque id.
    #[must_use]
    pub const fn user(&self) -> Uuid {
        self.user
    }

    /// Their tenant's id.
    #[must_use]
    pub fn tenant_id(&self) -> &TenantId {
        &self.tenant.id
    }

    /// The scope of a path: a short one means the caller's own tenant, the system tenant's too; a full one names its target,
    /// which operators reach wherever it is on, and others only where it is their own.
    ///
    /// # Errors
    /// For a foreign, disabled or unknown tenant, all alike.
    pub fn scope(&self, target: Option<&str>, tenants: &Tenants) -> Result<TenantScope, NotYours> {
        let tenant = match target {
            None => Arc::clone(&self.tenant),
            Some(id) if id == self.tenant.id.as_str() => Arc::clone(&self.tenant),
            Some(id) if self.tenant.id.is_system() => TenantId::parse(id).ok().and_then(|id| tenants.enabled(&id)).ok_or(NotYours)?,
            Some(_) => return Err(NotYours),
        };
        Ok(TenantScope::of_verified_caller(tenant))
    }

    /// The scope of the tenant in which a session stands that is being renewed.
    #[must_use]
    pub fn scope_of_session(tenant: &Arc<Tenant>) -> TenantScope {
        TenantScope::of_verified_caller(Arc::clone(tenant))
    }

    /// The scope of a tenant with whose people an operator lets those of the caller's share: one id is looked up there, and never a text.
    #[must_use]
    pub(crate) fn scope_of_sharing(tenant: &Arc<Tenant>) -> TenantScope {
        TenantScope::of_verified_caller(Arc::clone(tenant))
    }

    /// The scope of a tenant whose directories an operator of the machine lists, so that the records of its people's ids are written.
    #[must_use]
    pub(crate) fn scope_of_reindex(tenant: &Arc<Tenant>) -> TenantScope {
        TenantScope::of_verified_caller(Arc::clone(tenant))
    }

    /// The scope of the tenant that an operator's connector gave to someone whom its upstream has just proven: within it they
    /// are looked up in the directory that the connector is joined to.
    #[must_use]
    pub fn scope_of_sign_in(tenant: &Arc<Tenant>) -> TenantScope {
        TenantScope::of_verified_caller(Arc::clone(tenant))
    }
}
