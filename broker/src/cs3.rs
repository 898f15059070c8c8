//! What OpenCloud asks about users, groups and tenants, before it is a message: who asks, what they may know, and the answer.
//!
//! It owns the meaning of OpenCloud's tokens (`cs3/token.rs`, `cs3/caller.rs`) and names (`cs3/names.rs`), and what each caller may know
//! (`cs3/users.rs`, `cs3/tenants.rs`, `cs3/groups.rs`). It does not own messages and statuses (`grpc/`), nor how people are found
//! (`directory.rs`).

mod caller;
mod groups;
mod names;
mod tenants;
#[cfg(test)]
mod tests;
mod texts;
mod token;
mod users;

use std::sync::Arc;

use connectors::Secret;
use uuid::Uuid;

pub use caller::{Channel, Cs3Caller};
pub(crate) use groups::group_prefix_of;
pub use groups::{Cs3GroupSearch, GroupIds};

use crate::{
    config::{Config, Cs3Config},
    directory::{DirectoryError, KnownPerson, People},
    store::StoreError,
    tenancy::Admission,
};
use names::InstanceNames;
use token::RevaTokens;

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

/// What the use cases are made of.
pub struct Cs3Parts<'a> {
    /// The tenants, and whose an id is.
    pub admission: Arc<Admission>,
    /// The people.
    pub people: Arc<People>,
    /// The ids of groups.
    pub group_ids: Arc<GroupIds>,
    /// The whole configuration.
    pub config: &'a Config,
}

/// The use cases.
#[derive(Debug)]
pub struct Cs3 {
    admission: Arc<Admission>,
    people: Arc<People>,
    group_ids: Arc<GroupIds>,
    names: InstanceNames,
    tokens: RevaTokens,
    /// Our issuer, the `idp` of everyone's id.
    issuer: String,
    config: Cs3Config,
}

impl Cs3 {
    /// The use cases over these parts; `None` where the configuration has no such door.
    ///
    /// # Errors
    /// Why the secret of OpenCloud's tokens can not be used.
    pub fn new(parts: Cs3Parts<'_>) -> Result<Option<Self>, String> {
        let Cs3Parts { admission, people, group_ids, config } = parts;
        let Some(cs3) = config.cs3.clone() else { return Ok(None) };
        let secret = Secret::read(cs3.jwt_secret.as_ref(), cs3.jwt_secret_file.as_deref())?.ok_or("there is none")?;
        Ok(Some(Self {
            group_ids,
            names: InstanceNames::new(cs3.usernames, Arc::clone(&admission.tenants), &config.tenants),
            tokens: RevaTokens::new(&secret),
            issuer: crate::issuer_text(&config.issuer),
            config: cs3,
            admission,
            people,
        }))
    }

    /// Our issuer, the `idp` of everyone's id.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }
}
