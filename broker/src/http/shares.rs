//! `POST …/shares:check`: whether one person may share with another.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State, rejection::JsonRejection},
    http::StatusCode,
    response::Response,
};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::{
    caller::InForce,
    failure::{Failure, for_the_caller},
    parameters::body_failure,
    users,
};
use crate::App;

/// Two people, by their opaque ids.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// Who wants to share.
    subject: Uuid,
    /// With whom.
    target: Uuid,
}

/// The tenant is the caller's own; operators name another in the path.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    InForce(standing): InForce,
    Path(path): Path<HashMap<String, String>>,
    body: Result<Json<Asked>, JsonRejection>,
) -> Result<Response, Failure> {
    let (caller, scope) = users::scope(&app, &standing, path.get("tenant"))?;
    let Json(Asked { subject, target }) = body.map_err(|rejection| wrong_body(&rejection))?;
    let allowed = app.sharing.allowed(&scope, subject, target, app.seams.clock.now()).await?;
    tracing::info!(
        target: "audit", event = "share.check", tenant.id = %scope.tenant_id(), user.id = %caller.user(), caller.tenant.id = %caller.tenant_id(),
        allowed,
    );
    Ok(for_the_caller(json!({"allowed": allowed})))
}

fn wrong_body(rejection: &JsonRejection) -> Failure {
    match rejection {
        JsonRejection::BytesRejection(rejection) => body_failure(rejection.status()),
        JsonRejection::MissingJsonContentType(_) => {
            Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request", "send the body as application/json")
        }
        _ => Failure::bad_request("the body must be `{\"subject\": \"…\", \"target\": \"…\"}`, each the id of a person, and nothing else"),
    }
}
