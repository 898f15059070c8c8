//! OpenID Connect providers: sign-in at their pages, their tokens, and the sign-outs that they tell of.
//!
//! This file owns the ports; `oidc/config.rs` how the configuration looks and what must hold of it.

mod config;

use claims_mapping::{ClaimMappings, ClaimOrExpression, MappingConfig, PrefixedClaimOrExpression};

pub use self::config::{AudienceMatchPolicy, ClientAuthentication, IssuerConfig, OidcConfig, UserInfo};
use crate::{Connector, config::Context};

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

pub(crate) fn build(_config: &OidcConfig, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
    Ok(Connector {
        id: context.id.clone(),
        password: None,
        directory: None,
        redirect: None,
        token: None,
        logout: None,
        watches: Vec::new(),
    })
}
