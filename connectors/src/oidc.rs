//! OpenID Connect providers: sign-in at their pages, their tokens, and the sign-outs that they tell of.
//!
//! This file puts the ports together. Below it: `config` (how the configuration looks), `plan` (the same, checked), `client_key`; `http` and
//! `network` (the one way to a provider), `kept` (documents that are fetched and kept), `discovery` (the provider: its document and its
//! keys), `keys`, `issuer`; `jws` (signatures), `token` and `logout` (two ports).

mod client_key;
mod config;
mod discovery;
mod http;
mod issuer;
mod jws;
mod kept;
mod keys;
mod logout;
mod network;
mod plan;
#[cfg(test)]
mod stand_in;
mod token;

use std::sync::Arc;

use claims_mapping::{ClaimMappings, ClaimOrExpression, MappingConfig, PrefixedClaimOrExpression};

pub use self::{
    config::{AudienceMatchPolicy, ClientAuthentication, IssuerConfig, OidcConfig, UserInfo},
    jws::Refusal,
    keys::{Algorithm, KeySet},
    token::{TokenVerifier, VerifiedClaims},
};
use self::{
    discovery::{Provider, Source},
    logout::Notices,
    plan::Plan,
    token::UpstreamTokens,
};
use crate::{Connector, LogoutNotices, RedirectLogin, TokenAuthentication, config::Context};

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

pub(crate) fn build(config: &OidcConfig, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
    let plan = Plan::new(config)?;
    let verifier = TokenVerifier::of(&plan);
    let Plan { issuer, document, algorithms, audiences: _, http, accept_tokens, client } = plan;
    let provider = Arc::new(Provider::new(context.id, Source { issuer, document, algorithms, http }));
    let token = accept_tokens.then(|| {
        Arc::new(UpstreamTokens { id: context.id.clone(), provider: Arc::clone(&provider), verifier }) as Arc<dyn TokenAuthentication>
    });
    let logout = client
        .as_ref()
        .map(|client| Arc::new(Notices { provider: Arc::clone(&provider), client_id: client.id.clone() }) as Arc<dyn LogoutNotices>);
    // The sign-in: `mod login`, a `login::Login` of the provider, the client, the mapping, and `context.issuer`.
    let redirect: Option<Arc<dyn RedirectLogin>> = None;
    Ok(Connector { id: context.id.clone(), password: None, directory: None, redirect, token, logout, watches: Vec::new() })
}
