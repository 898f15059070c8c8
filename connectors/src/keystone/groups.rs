//! A user's groups: only those of the user's own domain. Keystone lets anyone's groups hold anyone, so that a group of another
//! domain would speak for people who are not its domain's.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::{
    api::Api,
    claims::Group,
    places::{member, required, text},
};
use crate::ConnectorError;

/// The most groups that someone may be in.
const MOST_GROUPS: usize = 1_000;
/// The most groups that are read one by one.
const MOST_FEDERATED: usize = 100;
/// How many of these at once.
const AT_ONCE: usize = 4;

/// The groups of a user that are of this domain.
///
/// # Errors
/// When Keystone could not tell, or there are more than are read.
pub(super) async fn groups_of(api: &Api, user_id: &str, user_domain_id: &str) -> Result<Vec<Group>, ConnectorError> {
    let mut groups = Vec::new();
    for item in all_groups_of(api, user_id).await? {
        groups.extend(group(&item, user_domain_id)?);
    }
    Ok(groups)
}

/// The ids of all groups of a user, of whatever domain.
///
/// # Errors
/// As [`groups_of`].
pub(super) async fn group_ids_of(api: &Api, user_id: &str) -> Result<Vec<String>, ConnectorError> {
    all_groups_of(api, user_id).await?.iter().map(|group| required("a user's groups", group, "id")).collect()
}

/// Those of these groups that are of this domain: a federated user's, whose token names them by their ids.
///
/// # Errors
/// As [`groups_of`].
pub(super) async fn groups_by_id(api: &Api, ids: &[String], user_domain_id: &str) -> Result<Vec<Group>, ConnectorError> {
    const WHAT: &str = "a group";
    if ids.len() > MOST_FEDERATED {
        return Err(ConnectorError::Unusable(format!("keystone: a federated user's groups: there are more than {MOST_FEDERATED}")));
    }
    let read = async |id: &String| match api.get(WHAT, &["groups", id], &[]).await? {
        Some(mut body) => group(&member(WHAT, &mut body, "group")?, user_domain_id).map(|found| found.filter(|found| found.id == *id)),
        None => Ok(None),
    };
    stream::iter(ids.iter().map(read)).buffered(AT_ONCE).try_filter_map(async |group| Ok(group)).try_collect().await
}

async fn all_groups_of(api: &Api, user_id: &str) -> Result<Vec<Value>, ConnectorError> {
    const WHAT: &str = "a user's groups";
    let listed = api.list(WHAT, &["users", user_id, "groups"], &[], "groups", MOST_GROUPS).await?;
    if listed.truncated {
        return Err(ConnectorError::Unusable(format!("keystone: {WHAT}: there are more than are read ({MOST_GROUPS})")));
    }
    Ok(listed.items)
}

/// The group, where it is of this domain.
///
/// # Errors
/// When it has no id or no name.
pub(super) fn group(found: &Value, domain_id: &str) -> Result<Option<Group>, ConnectorError> {
    if text(found, "domain_id") != Some(domain_id) {
        return Ok(None);
    }
    Ok(Some(Group { id: required("a group", found, "id")?, name: required("a group", found, "name")? }))
}
