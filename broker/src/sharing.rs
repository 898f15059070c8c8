//! Whether one person may share with another: within a tenant, and where an operator made an exception. It answers yes, no, or could not
//! tell; it finds no one, and names no one.

use std::{collections::HashMap, sync::Arc};

use claims_mapping::{TenantId, TenantScope};
use futures_util::future::{join, join_all};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    config::{SharingConfig, SharingException},
    directory::{DirectoryError, People},
    tenancy::{Caller, Tenants},
};

/// The use case.
#[derive(Debug)]
pub struct Sharing {
    people: Arc<People>,
    tenants: Arc<Tenants>,
    /// With whose people, besides their own tenant's, those of a tenant may share.
    exceptions: HashMap<TenantId, Vec<TenantId>>,
}

impl Sharing {
    /// Sharing between these people, with the exceptions of the configuration.
    #[must_use]
    pub fn new(people: Arc<People>, tenants: Arc<Tenants>, config: &SharingConfig) -> Self {
        let mut exceptions: HashMap<TenantId, Vec<TenantId>> = HashMap::new();
        for SharingException { from, to } in &config.exceptions {
            exceptions.entry(from.clone()).or_default().push(to.clone());
        }
        Self { people, tenants, exceptions }
    }

    /// Whether `subject`, of the scope's tenant, may share with `target`: someone of the same tenant, or of one that an exception names.
    /// Whoever is absent, disabled or of another tenant is one and the same "no". All of the look-ups are made, whatever the first of them say, so that
    /// which of the two is missing does not show in how long it takes.
    ///
    /// # Errors
    /// When a store or directory on which the answer hangs could not tell: that is never "no".
    pub async fn allowed(&self, scope: &TenantScope, subject: Uuid, target: Uuid, now: OffsetDateTime) -> Result<bool, DirectoryError> {
        let others = self.exceptions.get(scope.tenant_id()).into_iter().flatten().filter_map(|to| self.tenants.enabled(to));
        let others: Vec<TenantScope> = others.map(|tenant| Caller::scope_of_sharing(&tenant)).collect();
        let own = join(self.people.get(scope, subject, now), self.people.get(scope, target, now));
        let elsewhere = join_all(others.iter().map(|other| self.people.get(other, target, now)));
        let ((subject, here), elsewhere) = join(own, elsewhere).await;
        let (subject, here) = (subject?.is_some(), here?.is_some());
        if subject && here {
            return Ok(true);
        }
        let mut there = false;
        for found in elsewhere {
            there |= found?.is_some();
        }
        Ok(subject && there)
    }
}
