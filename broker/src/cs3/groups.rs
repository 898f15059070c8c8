//! Groups: their ids, which name no tenant, and who is in them.

mod ids;

use claims_mapping::UserId;
use time::OffsetDateTime;

pub use ids::GroupIds;

use super::{Cs3, Cs3Caller, Cs3Error, Cs3Group, UserRef};

/// What a search for groups is for. All parts of it must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cs3GroupSearch {
    /// Texts that a group's name holds, each of them.
    pub texts: Vec<String>,
    /// Whether some filter asks for a kind of group that we have none of.
    pub is_empty: bool,
    /// Whether members are left out.
    pub skip_members: bool,
}

impl Cs3 {
    /// `GetGroup`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn group(&self, _caller: &Cs3Caller, _id: &str, _skip_members: bool, _now: OffsetDateTime) -> Result<Cs3Group, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `GetGroupByClaim`: `group_name`, and the id as `group_id`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn group_by_claim(
        &self,
        _caller: &Cs3Caller,
        _claim: &str,
        _value: &str,
        _skip_members: bool,
        _now: OffsetDateTime,
    ) -> Result<Cs3Group, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `GetMembers`.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn members(&self, _caller: &Cs3Caller, _id: &str, _now: OffsetDateTime) -> Result<Vec<UserId>, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `HasMember`: whoever is not of the group's tenant is none.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn has_member(&self, _caller: &Cs3Caller, _id: &str, _who: &UserRef, _now: OffsetDateTime) -> Result<bool, Cs3Error> {
        Err(Cs3Error::NotFound)
    }

    /// `FindGroups`, sorted by name.
    ///
    /// # Errors
    /// As [`Cs3Error`] says.
    pub async fn find_groups(
        &self,
        _caller: &Cs3Caller,
        _search: &Cs3GroupSearch,
        _now: OffsetDateTime,
    ) -> Result<Vec<Cs3Group>, Cs3Error> {
        Err(Cs3Error::NotFound)
    }
}
