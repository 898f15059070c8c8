//! `/oauth2/userinfo` (OpenID Connect Core, 5.3): who the token's person is now, as far as its scopes go.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Serialize;
use uuid::Uuid;

use super::{
    caller::InForce,
    failure::{Failure, for_the_caller},
};
use crate::{App, login::SignedIn, tokens::Profile};

#[derive(Serialize)]
struct UserInfo {
    sub: Uuid,
    #[serde(flatten)]
    profile: Profile,
}

pub(crate) async fn userinfo(State(app): State<Arc<App>>, InForce(standing): InForce) -> Result<Response, Failure> {
    let claims = &standing.claims;
    if !claims.has_scope("openid") {
        return Err(Failure::insufficient_scope("userinfo needs the scope `openid`"));
    }
    let sid = claims.sid.ok_or_else(|| Failure::insufficient_scope("the token is no person's"))?;
    let signed_in = SignedIn { tenant: standing.tenant.id.clone(), sid };
    let (_, identity) = app.sessions.find(&signed_in, app.seams.clock.now()).await?;
    let info = UserInfo { sub: claims.sub, profile: Profile::of(&identity, |scope| claims.has_scope(scope)) };
    Ok(for_the_caller(info))
}
