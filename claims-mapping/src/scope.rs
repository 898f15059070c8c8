//! The one tenant that a search or a look-up may see.

use std::sync::Arc;

use crate::{ConnectorId, Tenant, TenantId};

/// The tenant within which a directory is asked, and outside of which nothing is shown. A verified token or session
/// becomes one in broker's `tenancy/caller.rs` and nowhere else; a test holds that.
#[derive(Debug, Clone)]
pub struct TenantScope(Arc<Tenant>);

impl TenantScope {
    /// The scope of one tenant. There is none of "all".
    #[must_use]
    pub const fn of_verified_caller(tenant: Arc<Tenant>) -> Self {
        Self(tenant)
    }

    /// The tenant's id.
    #[must_use]
    pub fn tenant_id(&self) -> &TenantId {
        &self.0.id
    }

    /// The tenant.
    #[must_use]
    pub const fn tenant(&self) -> &Arc<Tenant> {
        &self.0
    }

    /// What this connector's upstream calls the tenant; it enters the upstream's own query.
    #[must_use]
    pub fn external_id(&self, connector: &ConnectorId) -> &str {
        self.0.external_id(connector)
    }
}
