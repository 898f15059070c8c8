//! `/api/v1/…users…` and `/api/v1/me`: people of one tenant, for whoever may read them.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Path, State},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::{Identity, TenantScope};
use serde::Serialize;
use uuid::Uuid;

use super::{
    caller::InForce,
    failure::{Failure, for_the_caller},
    parameters::{Parameters, Query},
};
use crate::{
    App,
    directory::{PeoplePage, Position, Search},
    login::SignedIn,
    metrics::Metrics,
    standing::Standing,
    tenancy::Caller,
};

/// A person as the API shows them. Never the upstream's own name for them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User {
    id: Uuid,
    tenant_id: String,
    username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// Where one person is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    users: Vec<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    incomplete: Vec<String>,
}

fn user(person: &Identity, with_groups: bool) -> User {
    User {
        id: person.id().opaque_id(),
        tenant_id: person.id().tenant_id().as_str().to_owned(),
        username: person.username().to_owned(),
        display_name: person.display_name().map(str::to_owned),
        email: person.email().map(str::to_owned),
        groups: with_groups.then(|| person.groups().to_vec()),
    }
}

/// The scope of a request: the token is for the API, allows reading users, and reaches the path's tenant.
pub(crate) fn scope(app: &App, standing: &Standing, target: Option<&String>) -> Result<(Caller, TenantScope), Failure> {
    for_the_api(app, standing)?;
    if !standing.claims.has_scope("users.read") {
        return Err(Failure::insufficient_scope("reading users needs the scope `users.read`"));
    }
    let caller = Caller::of(standing);
    let scope = caller.scope(target.map(String::as_str), &app.admission.tenants).map_err(|_| Failure::not_found())?;
    Ok((caller, scope))
}

/// The token is for the API.
pub(crate) fn for_the_api(app: &App, standing: &Standing) -> Result<(), Failure> {
    if standing.claims.aud.contains(&format!("{}/api", app.issuer)) {
        Ok(())
    } else {
        Err(Failure::invalid_token("the access token is for another audience than `<issuer>/api`"))
    }
}

/// `GET …/users?search=…`.
pub(crate) async fn search(
    State(app): State<Arc<App>>,
    InForce(standing): InForce,
    Path(path): Path<HashMap<String, String>>,
    Query(parameters): Query,
) -> Result<Response, Failure> {
    let (caller, scope) = scope(&app, &standing, path.get("tenant"))?;
    let search = parse(&app, &parameters)?;
    let page = find(&app, &caller, &scope, &search).await?;
    let users = page.people.iter().map(|person| user(person, false)).collect();
    let next_page_token = page.next.as_ref().map(page_token);
    let page = Page { users, next_page_token, truncated: page.truncated, incomplete: page.incomplete };
    Ok(for_the_caller(page))
}

/// Searches, counts and audits it.
pub(crate) async fn find(app: &App, caller: &Caller, scope: &TenantScope, search: &Search) -> Result<PeoplePage, Failure> {
    let found = app.people.search(scope, search, app.seams.clock.now()).await;
    let page = found.inspect_err(|error| {
        Metrics::ended(&app.metrics.searches, "unavailable");
        tracing::error!(%error, "users could not be searched");
    })?;
    Metrics::ended(&app.metrics.searches, if page.incomplete.is_empty() { "ok" } else { "incomplete" });
    tracing::info!(
        target: "audit", event = "search", tenant.id = %scope.tenant_id(), user.id = %caller.user(), caller.tenant.id = %caller.tenant_id(),
        found = page.people.len(),
    );
    Ok(page)
}

fn parse(app: &App, parameters: &Parameters) -> Result<Search, Failure> {
    parameters.only(&["search", "limit", "pageToken"])?;
    let bounds = app.people.bounds();
    let text = parameters.one("search")?.unwrap_or_default().trim().to_owned();
    if text.chars().count() > 128 {
        return Err(Failure::bad_request("`search` is longer than 128 characters"));
    }
    let limit = match parameters.one("limit")? {
        None => bounds.page_size,
        Some(text) => text
            .parse()
            .ok()
            .filter(|n| (1..=bounds.page_size_most).contains(n))
            .ok_or_else(|| Failure::bad_request(format!("`limit` must be a number from 1 to {}", bounds.page_size_most)))?,
    };
    let after = match parameters.one("pageToken")? {
        None => None,
        Some(token) => Some(position(token).ok_or_else(|| Failure::bad_request("`pageToken` must be the `nextPageToken` of an answer"))?),
    };
    Ok(Search { text, limit, after })
}

/// A page token is a place in the order of names. It opens nothing: each page is searched in the caller's own scope.
pub(crate) fn page_token(position: &Position) -> String {
    B64.encode(format!("{}{}", position.id.simple(), position.name))
}

/// The place of a page token; `None` where it is none of ours.
pub(crate) fn position(token: &str) -> Option<Position> {
    let text = String::from_utf8(B64.decode(token.get(..2_048).unwrap_or(token)).ok()?).ok()?;
    let (id, name) = text.split_at_checked(32)?;
    Some(Position { id: Uuid::try_parse(id).ok()?, name: name.to_owned() })
}

/// `GET …/users/{id}`.
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    InForce(standing): InForce,
    Path(path): Path<HashMap<String, String>>,
    Query(parameters): Query,
) -> Result<Response, Failure> {
    let (caller, scope) = scope(&app, &standing, path.get("tenant"))?;
    parameters.only(&[])?;
    let id = path.get("id").and_then(|id| Uuid::try_parse(id).ok()).ok_or_else(Failure::not_found)?;
    let person = get(&app, &caller, &scope, id).await?;
    Ok(for_the_caller(user(&person, true)))
}

/// Looks one person up, and audits it.
pub(crate) async fn get(app: &App, caller: &Caller, scope: &TenantScope, id: Uuid) -> Result<Identity, Failure> {
    let person = app.people.get(scope, id, app.seams.clock.now()).await?.ok_or_else(Failure::not_found)?;
    tracing::info!(
        target: "audit", event = "get", tenant.id = %scope.tenant_id(), user.id = %caller.user(), caller.tenant.id = %caller.tenant_id(), found = 1,
    );
    Ok(person)
}

/// `GET /api/v1/me`: needs the audience, and no scope: everyone may see themselves.
pub(crate) async fn me(State(app): State<Arc<App>>, InForce(standing): InForce) -> Result<Response, Failure> {
    for_the_api(&app, &standing)?;
    let claims = &standing.claims;
    let Some(identity) = person(&app, &standing).await? else {
        let service = User {
            id: claims.sub,
            tenant_id: claims.tenant_id.as_str().to_owned(),
            username: claims.preferred_username.clone(),
            display_name: None,
            email: None,
            groups: None,
        };
        return Ok(for_the_caller(service));
    };
    Ok(for_the_caller(user(&identity, true)))
}

/// The person whose token it is; `None` for a service, which is no one.
pub(crate) async fn person(app: &App, standing: &Standing) -> Result<Option<Identity>, Failure> {
    let Some(sid) = standing.claims.sid else { return Ok(None) };
    let signed_in = SignedIn { tenant: standing.tenant.id.clone(), sid };
    let (_, identity) = app.sessions.find(&signed_in, app.seams.clock.now()).await?;
    Ok(Some(identity))
}
