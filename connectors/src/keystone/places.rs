//! Domains and projects, and whether they are in force: what is disabled is as good as gone.

use serde_json::Value;

use super::{
    api::Api,
    auth::By,
    claims::{Domain, Project},
};
use crate::ConnectorError;

/// A domain that is enabled.
///
/// # Errors
/// When Keystone could not tell.
pub(super) async fn domain(api: &Api, by: &By) -> Result<Option<Domain>, ConnectorError> {
    const WHAT: &str = "a domain";
    let found = match by {
        By::Id(id) => {
            let found = api.get(WHAT, &["domains", id], &[]).await?;
            found.map(|mut body| member(WHAT, &mut body, "domain")).transpose()?.filter(|found| text(found, "id") == Some(id))
        }
        By::Name(name) => {
            let listed = api.list(WHAT, &["domains"], &[("name", name)], "domains", 2).await?;
            only(listed.items.into_iter().filter(|found| text(found, "name") == Some(name)))
        }
    };
    found
        .filter(is_enabled)
        .map(|found| Ok(Domain { id: required(WHAT, &found, "id")?, name: Some(required(WHAT, &found, "name")?) }))
        .transpose()
}

/// A project that is enabled, in a domain that is.
///
/// # Errors
/// When Keystone could not tell.
pub(super) async fn project(api: &Api, id: &str) -> Result<Option<Project>, ConnectorError> {
    const WHAT: &str = "a project";
    let Some(mut body) = api.get(WHAT, &["projects", id], &[]).await? else { return Ok(None) };
    let found = member(WHAT, &mut body, "project")?;
    if text(&found, "id") != Some(id) { Ok(None) } else { in_force(api, &found).await }
}

/// The same by its name in a domain.
///
/// # Errors
/// When Keystone could not tell.
pub(super) async fn project_named(api: &Api, name: &str, domain_id: &str) -> Result<Option<Project>, ConnectorError> {
    let listed = api.list("a project", &["projects"], &[("name", name), ("domain_id", domain_id)], "projects", 2).await?;
    let is_it = |found: &Value| text(found, "name") == Some(name) && text(found, "domain_id") == Some(domain_id);
    match only(listed.items.into_iter().filter(is_it)) {
        Some(found) => in_force(api, &found).await,
        None => Ok(None),
    }
}

async fn in_force(api: &Api, project: &Value) -> Result<Option<Project>, ConnectorError> {
    const WHAT: &str = "a project";
    if !is_enabled(project) {
        return Ok(None);
    }
    let Some(domain) = domain(api, &By::Id(required(WHAT, project, "domain_id")?)).await? else { return Ok(None) };
    Ok(Some(Project { id: required(WHAT, project, "id")?, name: Some(required(WHAT, project, "name")?), domain: Some(domain) }))
}

/// What Keystone switches on and off. Whatever is not plainly on is off.
pub(super) fn is_enabled(found: &Value) -> bool {
    found.get("enabled") == Some(&Value::Bool(true))
}

pub(super) fn text<'a>(found: &'a Value, name: &str) -> Option<&'a str> {
    found.get(name).and_then(Value::as_str)
}

pub(super) fn required(what: &str, found: &Value, name: &str) -> Result<String, ConnectorError> {
    let missing = || ConnectorError::Unusable(format!("keystone: {what}: `{name}` is missing, or no text"));
    text(found, name).filter(|text| !text.is_empty()).map(str::to_owned).ok_or_else(missing)
}

/// The document within an answer.
pub(super) fn member(what: &str, body: &mut Value, name: &str) -> Result<Value, ConnectorError> {
    match body.get_mut(name).map(Value::take) {
        Some(found @ Value::Object(_)) => Ok(found),
        _ => Err(ConnectorError::Unusable(format!("keystone: {what}: `{name}` is missing from the answer"))),
    }
}

/// The one item of a list; `None` where there is none, or more than one.
pub(super) fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    if items.next().is_some() { None } else { Some(first) }
}
