//! One person, exactly, from what is remembered of them where that is fresh.

use std::sync::Arc;

use claims_mapping::{Identity, Tenant, TenantScope};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{DirectoryError, People};

/// By what one person is looked up; always exact.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PersonBy {
    /// The opaque id.
    Id(Uuid),
    /// The username within the tenant.
    Username(String),
    /// The e-mail address.
    Mail(String),
    /// The POSIX user number.
    UidNumber(i64),
    /// The POSIX number of the user's own group.
    GidNumber(i64),
}

/// Someone whom a directory knew a moment ago. That their tenant and connector are on was checked now.
#[derive(Debug)]
pub struct KnownPerson {
    /// Who.
    pub identity: Identity,
    /// Their tenant.
    pub tenant: Arc<Tenant>,
}

impl People {
    /// One person of the scope's tenant; `None` where there is none, or more than one. What is remembered of them answers for as long as
    /// `cs3.cache` says.
    ///
    /// # Errors
    /// When the store or the directory could not tell: that is never "none".
    pub async fn person(
        &self,
        scope: &TenantScope,
        by: &PersonBy,
        now: OffsetDateTime,
    ) -> Result<Option<Arc<KnownPerson>>, DirectoryError> {
        let PersonBy::Id(id) = by else { return Ok(None) };
        let identity = self.get(scope, *id, now).await?;
        Ok(identity.map(|identity| Arc::new(KnownPerson { identity, tenant: Arc::clone(scope.tenant()) })))
    }
}
