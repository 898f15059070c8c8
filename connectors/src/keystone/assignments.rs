//! The roles that someone has, by assignments that are in force: their own, their groups', inherited and implied ones.
//!
//! What Keystone's filters do not do is done here: a list for one scope may hold assignments of others, lists "in effect" hold those of
//! disabled projects, and never one on the system.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    api::Api,
    claims::{Assignment, Domain, Project, Scope},
    groups::group_ids_of,
    places::{is_enabled, required, text},
};
use crate::ConnectorError;

const WHAT: &str = "role assignments";
/// The most assignments, projects, domains and rules of implication that are read for one person.
const MOST: usize = 2_000;

/// All roles that a user has on projects and domains which are enabled, and on the system where that is asked for: it takes up to three more
/// requests, and the role `reader` on the system.
///
/// # Errors
/// When Keystone could not tell, or there are more than are read.
pub(super) async fn assignments_of(api: &Api, user_id: &str, system: bool) -> Result<Vec<Assignment>, ConnectorError> {
    let query = [("user.id", user_id), ("effective", ""), ("include_names", "")];
    let items = all(api, WHAT, &["role_assignments"], &query, "role_assignments").await?;
    let projects = all(api, "a user's projects", &["users", user_id, "projects"], &[("enabled", "true")], "projects").await?;
    let disabled = all(api, "domains", &["domains"], &[("enabled", "false")], "domains").await?;
    let projects: BTreeSet<_> = projects.iter().filter(|found| is_enabled(found)).filter_map(|found| text(found, "id")).collect();
    let disabled: BTreeSet<_> = disabled.iter().filter(|found| !is_enabled(found)).filter_map(|found| text(found, "id")).collect();
    let in_force = |scope: &Scope| match scope {
        Scope::Project(Project { id, domain, .. }) => {
            projects.contains(id.as_str()) && domain.as_ref().is_none_or(|domain| !disabled.contains(domain.id.as_str()))
        }
        Scope::Domain(domain) => !disabled.contains(domain.id.as_str()),
        Scope::System | Scope::Unscoped => false,
    };
    let mut assignments = Vec::new();
    for item in items {
        assignments.extend(assignment(&item, user_id)?.filter(|assignment| in_force(&assignment.scope)));
    }
    if system {
        let roles = system_roles_of(api, user_id).await?;
        assignments.extend(roles.into_iter().map(|role| Assignment { role, scope: Scope::System }));
    }
    Ok(assignments)
}

/// The roles that a user has on this project, this domain or the system, as a token of that scope would have them. Whether project and domain
/// are enabled must be known.
///
/// # Errors
/// When Keystone could not tell, or there are more than are read.
pub(super) async fn roles_on(api: &Api, user_id: &str, scope: &Scope) -> Result<BTreeSet<String>, ConnectorError> {
    let (filter, id) = match scope {
        Scope::Unscoped => return Ok(BTreeSet::new()),
        Scope::System => return system_roles_of(api, user_id).await,
        Scope::Project(project) => ("scope.project.id", project.id.as_str()),
        Scope::Domain(domain) => ("scope.domain.id", domain.id.as_str()),
    };
    let query = [("user.id", user_id), (filter, id), ("effective", ""), ("include_names", "")];
    let items = all(api, WHAT, &["role_assignments"], &query, "role_assignments").await?;
    let mut roles = BTreeSet::new();
    for item in items {
        roles.extend(assignment(&item, user_id)?.filter(|found| is_on(&found.scope, scope)).map(|found| found.role));
    }
    Ok(roles)
}

fn is_on(a: &Scope, b: &Scope) -> bool {
    match (a, b) {
        (Scope::Project(a), Scope::Project(b)) => a.id == b.id,
        (Scope::Domain(a), Scope::Domain(b)) => a.id == b.id,
        (Scope::System, Scope::System) => true,
        _ => false,
    }
}

/// The roles on the system: the user's own, their groups', and what these imply, as Keystone puts them together for a token.
async fn system_roles_of(api: &Api, user_id: &str) -> Result<BTreeSet<String>, ConnectorError> {
    const SYSTEM: &str = "roles on the system";
    let own = all(api, SYSTEM, &["system", "users", user_id, "roles"], &[], "roles").await?;
    let groups = group_ids_of(api, user_id).await?;
    let mut ids = BTreeSet::new();
    let mut names = BTreeMap::new();
    for role in &own {
        ids.insert(named(&mut names, role)?);
    }
    if !groups.is_empty() {
        let groups: BTreeSet<_> = groups.into_iter().collect();
        // Who may read the list above may read all of this one.
        let query = [("scope.system", "all"), ("include_names", "")];
        for item in all(api, SYSTEM, &["role_assignments"], &query, "role_assignments").await? {
            let of_group = item.pointer("/group/id").and_then(Value::as_str).is_some_and(|id| groups.contains(id));
            if of_group && item.pointer("/scope/system/all") == Some(&Value::Bool(true)) {
                ids.insert(named(&mut names, item.get("role").unwrap_or(&Value::Null))?);
            }
        }
    }
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut implied: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for rule in all(api, "implied roles", &["role_inferences"], &[], "role_inferences").await? {
        let prior = named(&mut names, rule.get("prior_role").unwrap_or(&Value::Null))?;
        for role in rule.get("implies").and_then(Value::as_array).into_iter().flatten() {
            let role = named(&mut names, role)?;
            implied.entry(prior.clone()).or_default().push(role);
        }
    }
    let mut next: Vec<_> = ids.iter().cloned().collect();
    while let Some(id) = next.pop() {
        for role in implied.remove(&id).into_iter().flatten() {
            if ids.insert(role.clone()) {
                next.push(role);
            }
        }
    }
    Ok(ids.iter().filter_map(|id| names.get(id).cloned()).collect())
}

/// A role's id, whose name is kept in `names`.
fn named(names: &mut BTreeMap<String, String>, role: &Value) -> Result<String, ConnectorError> {
    let id = required("a role", role, "id")?;
    names.insert(id.clone(), required("a role", role, "name")?);
    Ok(id)
}

/// One assignment of this user's; `None` where it is another one's, or on what Denizen does not know.
fn assignment(item: &Value, user_id: &str) -> Result<Option<Assignment>, ConnectorError> {
    if item.pointer("/user/id").and_then(Value::as_str) != Some(user_id) {
        return Ok(None);
    }
    let role = required("a role", item.get("role").unwrap_or(&Value::Null), "name")?;
    let Some(scope) = item.get("scope") else { return Ok(None) };
    let scope = if let Some(project) = scope.get("project") {
        let domain = project.get("domain").map(domain).transpose()?;
        Scope::Project(Project { id: required("a project", project, "id")?, name: text(project, "name").map(str::to_owned), domain })
    } else if let Some(on) = scope.get("domain") {
        Scope::Domain(domain(on)?)
    } else if scope.pointer("/system/all") == Some(&Value::Bool(true)) {
        Scope::System
    } else {
        return Ok(None);
    };
    Ok(Some(Assignment { role, scope }))
}

fn domain(found: &Value) -> Result<Domain, ConnectorError> {
    Ok(Domain { id: required("a domain", found, "id")?, name: text(found, "name").map(str::to_owned) })
}

/// A whole list.
async fn all(
    api: &Api,
    what: &'static str,
    path: &[&str],
    query: &[(&str, &str)],
    member: &'static str,
) -> Result<Vec<Value>, ConnectorError> {
    let listed = api.list(what, path, query, member, MOST).await?;
    if listed.truncated {
        return Err(ConnectorError::Unusable(format!("keystone: {what}: there are more than are read ({MOST})")));
    }
    Ok(listed.items)
}
