//! A tenant as the configuration describes it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ConnectorId, TenantId, TenantLabel};

/// One tenant. Which tenants there are, broker's tenancy knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its id, as in tokens, CS3 and paths.
    pub id: TenantId,
    /// Its label, as in Kubernetes, Arktos, host names and `name@label`.
    pub label: TenantLabel,
    /// Its name for people.
    pub display_name: String,
    /// What each connector calls it; where a connector has no entry it is called by its id.
    pub external_ids: BTreeMap<ConnectorId, String>,
    /// The connectors that may speak for it; `None` is every one whose own allow-list has the tenant.
    pub connectors: Option<BTreeSet<ConnectorId>>,
    /// Whether it is switched off: no identity, no token, no search, no review.
    pub disabled: bool,
}

impl Tenant {
    /// What a connector's upstream calls this tenant.
    #[must_use]
    pub fn external_id(&self, connector: &ConnectorId) -> &str {
        self.external_ids.get(connector).map_or_else(|| self.id.as_str(), String::as_str)
    }
}
