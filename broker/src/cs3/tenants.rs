//! `TenantAPI`: which tenants there are, to those who may know. One that is disabled is not there.

use std::sync::Arc;

use claims_mapping::{Tenant, TenantId};

use super::{Cs3, Cs3Caller, Cs3Error};

impl Cs3 {
    /// `GetTenant`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub fn tenant(&self, caller: &Cs3Caller, id: &str) -> Result<Arc<Tenant>, Cs3Error> {
        may_ask(caller)?;
        if id.is_empty() {
            return Err(Cs3Error::Invalid("the tenant's id is empty"));
        }
        let tenant = TenantId::parse(id).ok().and_then(|id| self.admission.tenants.get(&id));
        shown(caller, tenant)
    }

    /// `GetTenantByClaim`: `id`, `externalid`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub fn tenant_by_claim(&self, caller: &Cs3Caller, claim: &str, value: &str) -> Result<Arc<Tenant>, Cs3Error> {
        may_ask(caller)?;
        match claim {
            "id" => self.tenant(caller, value),
            "externalid" if value.is_empty() => Err(Cs3Error::Invalid("the claim's value is empty")),
            "externalid" => match &self.config.external_ids_of {
                Some(connector) => shown(caller, self.admission.tenants.only_one_called(connector, value)),
                None => self.tenant(caller, value),
            },
            _ => Err(Cs3Error::Invalid("the claim must be `id` or `externalid`")),
        }
    }

    /// What OpenCloud knows as a tenant's external id.
    #[must_use]
    pub fn external_id<'t>(&self, tenant: &'t Tenant) -> &'t str {
        self.config.external_ids_of.as_ref().map_or(tenant.id.as_str(), |connector| tenant.external_id(connector))
    }
}

fn may_ask(caller: &Cs3Caller) -> Result<(), Cs3Error> {
    match caller {
        Cs3Caller::User(_) | Cs3Caller::Service { .. } => Ok(()),
        Cs3Caller::Link { .. } => Err(Cs3Error::NotAllowed("a link shows no tenants")),
        Cs3Caller::Tokenless(_) => Err(Cs3Error::NoToken),
    }
}

/// The tenant, where it is on and the caller's to see.
fn shown(caller: &Cs3Caller, tenant: Option<Arc<Tenant>>) -> Result<Arc<Tenant>, Cs3Error> {
    let is_theirs = |tenant: &Tenant| match caller {
        Cs3Caller::User(user) => *user.tenant_id() == tenant.id,
        Cs3Caller::Service { .. } => true,
        Cs3Caller::Link { .. } | Cs3Caller::Tokenless(_) => false,
    };
    tenant.filter(|tenant| !tenant.disabled && is_theirs(tenant)).ok_or(Cs3Error::NotFound)
}
