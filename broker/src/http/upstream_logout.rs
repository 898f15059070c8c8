//! `POST /login/{connector}/backchannel-logout` (OpenID Connect Back-Channel Logout 1.0, 2.5): an upstream tells of a sign-out.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    failure::Failure,
    parameters::{Form, Parameters},
};
use crate::{App, login::UpstreamLogoutError, tokens::UnverifiedToken};

pub(crate) async fn told(State(app): State<Arc<App>>, Path(connector): Path<String>, Form(parameters): Form) -> Result<Response, Failure> {
    end(&app, &connector, &parameters).await?;
    Ok((StatusCode::OK, [(header::CACHE_CONTROL, "no-store")]).into_response())
}

async fn end(app: &App, connector: &str, parameters: &Parameters) -> Result<(), Failure> {
    let token = UnverifiedToken::new(parameters.required("logout_token")?);
    let way = app.admission.connector(connector).ok_or_else(|| Failure::from(&UpstreamLogoutError::NotTaken))?;
    match app.upstream_logouts.told(way, token, app.seams.clock.now()).await {
        Ok(sessions) => {
            tracing::info!(target: "audit", event = "upstream_logout", connector.id = %way.id, sessions);
            Ok(())
        }
        Err(error) => {
            tracing::warn!(target: "audit", event = "upstream_logout.refused", connector.id = %way.id, reason = %error);
            Err(Failure::from(&error))
        }
    }
}

#[cfg(test)]
mod tests;
