//! OpenID Connect providers: sign-in at their pages, their tokens, and the sign-outs that they tell of.
//!
//! This file puts the ports together. Below it: `config` (how the configuration looks), `plan` (the same, checked), `client_key`; `kept` (documents that are fetched and kept), `discovery` (the provider: its document and its
//! keys), `keys`, `issuer`; `jws` (signatures), `token` and `logout` (two ports). The third port is `login`: `client` (what is asked of the
//! provider, with `assertion`), `id_token` (what must hold of its answer), `userinfo`, `renewal`.

mod assertion;
mod client;
mod client_key;
mod config;
mod discovery;
mod id_token;
mod issuer;
mod jws;
mod kept;
mod keys;
mod login;
mod logout;
mod plan;
mod renewal;
#[cfg(test)]
pub(crate) mod stand_in;
mod token;
mod userinfo;

use std::sync::Arc;

use claims_mapping::{ClaimMappings, ClaimOrExpression, ConnectorId, MappingConfig, PrefixedClaimOrExpression};
use url::Url;

use self::{
    client::Client,
    discovery::{Provider, Source},
    login::SignIn,
    logout::Notices,
    plan::Plan,
    token::UpstreamTokens,
    userinfo::Need,
};
pub use self::{
    config::{AudienceMatchPolicy, ClientAuthentication, IssuerConfig, OidcConfig, UserInfo},
    jws::Refusal,
    keys::{Algorithm, KeySet},
    token::{TokenVerifier, VerifiedClaims},
};
use crate::{Connector, LogoutNotices, RedirectLogin, Renewal, TokenAuthentication, config::Context};

/// The mapping of an `oidc` connector for the parts that its configuration does not give: the standard claims (OpenID Connect
/// Core, 5.1), and `groups`, `roles`, `tenant_id` as Denizen's own tokens name them.
#[must_use]
pub fn default_mapping() -> MappingConfig {
    let (prefixed, plain) = (PrefixedClaimOrExpression::of_claim, ClaimOrExpression::of_claim);
    MappingConfig {
        claim_mappings: ClaimMappings {
            username: prefixed("preferred_username"),
            groups: prefixed("groups"),
            tenant: plain("tenant_id"),
            roles: plain("roles"),
            display_name: plain("name"),
            email: plain("email"),
            email_verified: plain("email_verified"),
            ..ClaimMappings::default()
        },
        ..MappingConfig::default()
    }
}

/// Where browsers come back: one address for each connector, so that one provider's answer is never taken for another's (RFC 9700, 4.4.2).
fn redirect_uri(issuer: &Url, id: &ConnectorId) -> Url {
    let mut url = issuer.clone();
    url.set_path(&format!("{}/login/{id}/callback", issuer.path().trim_end_matches('/')));
    url
}

pub(crate) fn build(config: &OidcConfig, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
    let plan = Plan::new(config)?;
    let verifier = TokenVerifier::of(&plan);
    let Plan { issuer, document, algorithms, audiences: _, http, accept_tokens, client } = plan;
    let provider = Arc::new(Provider::new(context.id, Source { issuer, document, algorithms, http }));
    let token = accept_tokens.then(|| {
        Arc::new(UpstreamTokens { id: context.id.clone(), provider: Arc::clone(&provider), verifier }) as Arc<dyn TokenAuthentication>
    });
    let logout = client.as_ref().map(|client| {
        Arc::new(Notices { id: context.id.clone(), provider: Arc::clone(&provider), client_id: client.id.clone() })
            as Arc<dyn LogoutNotices>
    });
    let sign_in = client.zip(context.issuer).map(|(client, issuer)| {
        let need = Need::new(client.user_info, context.mapping.claim_names());
        let believed_seconds = client.believed_seconds;
        let client = Client::new(client, redirect_uri(issuer, context.id));
        Arc::new(SignIn { id: context.id.clone(), provider, client, need, believed_seconds })
    });
    Ok(Connector {
        redirect: sign_in.clone().map(|port| port as Arc<dyn RedirectLogin>),
        renewal: sign_in.map(|port| port as Arc<dyn Renewal>),
        token,
        logout,
        ..Connector::without_ports(context.id.clone())
    })
}
