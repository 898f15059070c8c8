//! `/graph/v1.0/…`: the people of the caller's tenant in LibreGraph's form, as OpenCloud's web and others who speak Graph ask for them.
//!
//! Who may ask, and what is found, is as in `users.rs`. `graph/query.rs` owns what is understood of OData, `graph/render.rs` the
//! form of people, `graph/refusal.rs` that of refusals.

mod query;
mod refusal;
mod render;

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
    response::Response,
};
use claims_mapping::{Identity, TenantScope};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use uuid::Uuid;

pub(crate) use self::refusal::in_its_form;
use self::{query::Shown, render::Person};
use super::{
    caller::InForce,
    failure::{Failure, for_the_caller},
    parameters::Query,
    users,
};
use crate::{
    App,
    directory::{DirectoryError, PeoplePage, PersonBy},
};

/// How many people are asked for at once for their groups.
const GROUPS_AT_ONCE: usize = 8;

/// `GET /graph/v1.0/users?$search="…"`.
pub(crate) async fn users(State(app): State<Arc<App>>, InForce(standing): InForce, Query(parameters): Query) -> Result<Response, Failure> {
    let (caller, scope) = users::scope(&app, &standing, None)?;
    let asked = query::list(&parameters, app.people.bounds())?;
    // All of a directory are members; guests and people of other clouds are OpenCloud's own.
    let mut page = if asked.members { users::find(&app, &caller, &scope, &asked.search).await? } else { PeoplePage::default() };
    // Graph has no word for "some directories did not answer": no one found there is not "there is no one".
    if page.people.is_empty() && !page.incomplete.is_empty() {
        return Err(Failure::unavailable());
    }
    if asked.shown.groups {
        page.people = with_groups(&app, &scope, page.people).await?;
    }
    let people = described(&app, &page.people, &asked.shown).await?;
    Ok(for_the_caller(render::page(&app.issuer, &people, &page, &parameters, &asked.shown)))
}

/// What is said of people; the ids of their groups are recorded as they are given out.
async fn described<'p>(app: &App, people: &'p [Identity], shown: &Shown) -> Result<Vec<Person<'p>>, Failure> {
    let mut described = Vec::with_capacity(people.len());
    for identity in people {
        let mut person = Person::from(identity);
        if shown.groups {
            let ids = app.group_ids.ids_of(identity.id().tenant_id(), identity.groups(), app.seams.clock.now()).await;
            person.groups = ids.map_err(DirectoryError::from)?.into_iter().zip(identity.groups()).collect();
        }
        described.push(person);
    }
    Ok(described)
}

/// The same people with their groups, which a search leaves out; whoever has gone meanwhile is left out.
async fn with_groups(app: &App, scope: &TenantScope, people: Vec<Identity>) -> Result<Vec<Identity>, DirectoryError> {
    let now = app.seams.clock.now();
    let ids: Vec<Uuid> = people.iter().map(|person| person.id().opaque_id()).collect();
    let whole = stream::iter(ids.into_iter().map(|id| app.people.get(scope, id, now))).buffered(GROUPS_AT_ONCE);
    whole.try_filter_map(|person| std::future::ready(Ok(person))).try_collect().await
}

/// `GET /graph/v1.0/users/{id}`: by id, or by the username within the caller's tenant.
pub(crate) async fn user(
    State(app): State<Arc<App>>,
    InForce(standing): InForce,
    path: Result<Path<String>, PathRejection>,
    Query(parameters): Query,
) -> Result<Response, Failure> {
    let (caller, scope) = users::scope(&app, &standing, None)?;
    let shown = query::one(&parameters)?;
    // Bytes that are no text call no one.
    let Path(called) = path.map_err(|_| Failure::not_found())?;
    let id = id_of(&app, &scope, &called).await?.ok_or_else(Failure::not_found)?;
    let person = [users::get(&app, &caller, &scope, id).await?];
    let people = described(&app, &person, &shown).await?;
    Ok(for_the_caller(people.iter().map(|person| render::user(&app.issuer, person, &shown)).next()))
}

/// The id that a path names: an id itself, or the one of a username. No username has the form of an id.
async fn id_of(app: &App, scope: &TenantScope, called: &str) -> Result<Option<Uuid>, DirectoryError> {
    if let Ok(id) = Uuid::try_parse(called) {
        return Ok(Some(id));
    }
    if called.is_empty() || called.chars().count() > 255 || called.chars().any(char::is_control) {
        return Ok(None);
    }
    let person = app.people.person(scope, &PersonBy::Username(called.to_owned()), app.seams.clock.now()).await?;
    Ok(person.map(|person| person.identity.id().opaque_id()))
}

/// `GET /graph/v1.0/me`.
pub(crate) async fn me(State(app): State<Arc<App>>, InForce(standing): InForce, Query(parameters): Query) -> Result<Response, Failure> {
    users::for_the_api(&app, &standing)?;
    let shown = query::one(&parameters)?;
    let person = users::person(&app, &standing).await?;
    let service = person.is_none().then(|| Person::from(&*standing.claims));
    let people = described(&app, person.as_slice(), &shown).await?;
    Ok(for_the_caller(people.iter().chain(&service).map(|person| render::user(&app.issuer, person, &shown)).next()))
}

/// What else Graph has.
pub(crate) async fn nothing_here() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "not_found", "of Graph there are /graph/v1.0/users, /graph/v1.0/users/{id} and /graph/v1.0/me")
}
