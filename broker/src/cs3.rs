//! What OpenCloud asks about users, groups and tenants, before it is a message: who asks, what they may know, and the answer.
//!
//! It owns the meaning of OpenCloud's tokens and names. It does not own messages and statuses (`grpc/`), nor how people are found
//! (`directory.rs`).

mod caller;
mod groups;
mod names;
mod token;

use std::sync::Arc;

use claims_mapping::Tenant;
use time::OffsetDateTime;
use uuid::Uuid;

pub use caller::{Channel, Cs3Caller};
pub(crate) use groups::group_prefix_of;
pub use groups::{Cs3GroupSearch, GroupIds};

use crate::{
    config::Cs3Config,
    directory::{DirectoryError, KnownPerson, People},
    store::StoreError,
    tenancy::Admission,
};

/// Why there is no answer. What each is as a gRPC status and a CS3 code, the door says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cs3Error {
    /// The call needs a token, and has none.
    #[error("the call needs a token in `x-access-token`")]
    NoToken,
    /// There is a token, and it is not good.
    #[error("the token is not good: {0}")]
    BadToken(&'static str),
    /// The token is good, and does not allow the call.
    #[error("not allowed: {0}")]
    NotAllowed(&'static str),
    /// What is asked for is not there, or not theirs to see.
    #[error("not found")]
    NotFound,
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// A directory could not tell.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whom a request names.
#[derive(Debug, Clone)]
pub struct UserRef {
    /// The opaque id, as it was sent.
    pub opaque_id: String,
    /// The `idp`, as it was sent; may be empty.
    pub idp: String,
    /// The tenant, as it was sent; may be empty. It never widens what the caller may see.
    pub tenant_id: String,
}

/// One person as OpenCloud is told of them.
#[derive(Debug, Clone)]
pub struct Cs3User {
    /// Who.
    pub person: Arc<KnownPerson>,
    /// The name that is unique over the instance.
    pub username: String,
    /// The opaque ids of their groups; empty where they were not asked for.
    pub groups: Vec<Uuid>,
}

/// What a search is for. All parts of it must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cs3Search {
    /// Texts that a person's searched attributes hold, each of them.
    pub texts: Vec<String>,
    /// Whether some filter asks for a kind of user that we have none of.
    pub is_empty: bool,
    /// Whether groups are left out.
    pub skip_groups: bool,
}

/// A group as OpenCloud is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cs3Group {
    /// Its opaque id.
    pub id: Uuid,
    /// Its name, unique over the instance.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
    /// Its e-mail address.
    pub mail: Option<String>,
    /// The opaque ids of its people, and their tenant; empty where they were not asked for.
    pub members: Vec<claims_mapping::UserId>,
}

/// The use cases.
#[derive(Debug)]
pub struct Cs3 {
    admission: Arc<Admission>,
    people: Arc<People>,
    group_ids: GroupIds,
    config: Cs3Config,
}

impl Cs3 {
    /// The use cases over these parts.
    #[must_use]
    pub fn new(admission: Arc<Admission>, people: Arc<People>, group_ids: GroupIds, config: Cs3Config) -> Self {
        Self { admission, people, group_ids, config }
    }

    /// Who asks.
    ///
    /// # Errors
    /// Where there is a token and it is not good, there is none where one is needed, or it could not be told.
    pub async fn caller(&self, _token: Option<&str>, _channel: Channel, _now: OffsetDateTime) -> Result<Cs3Caller, Cs3Error> {
        Err(Cs3Error::NoToken)
    }

    /// `GetUser`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn user(&self, _caller: &Cs3Caller, _who: &UserRef, _skip_groups: bool, _now: OffsetDateTime) -> Result<Cs3User, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `GetUserByClaim`: `mail`, `username`, `userid`, `uid`, `gid`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn user_by_claim(
        &self,
        _caller: &Cs3Caller,
        _claim: &str,
        _value: &str,
        _skip_groups: bool,
        _now: OffsetDateTime,
    ) -> Result<Cs3User, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `GetUserGroups`: the opaque ids.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn groups_of(&self, _caller: &Cs3Caller, _who: &UserRef, _now: OffsetDateTime) -> Result<Vec<Uuid>, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `FindUsers`, sorted by username.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn find(&self, _caller: &Cs3Caller, _search: &Cs3Search, _now: OffsetDateTime) -> Result<Vec<Cs3User>, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `GetTenant`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub fn tenant(&self, _caller: &Cs3Caller, _id: &str) -> Result<Arc<Tenant>, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `GetTenantByClaim`: `id`, `externalid`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub fn tenant_by_claim(&self, _caller: &Cs3Caller, _claim: &str, _value: &str) -> Result<Arc<Tenant>, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// What OpenCloud knows as a tenant's external id.
    #[must_use]
    pub fn external_id<'t>(&self, tenant: &'t Tenant) -> &'t str {
        self.config.external_ids_of.as_ref().map_or(tenant.id.as_str(), |connector| tenant.external_id(connector))
    }
}
