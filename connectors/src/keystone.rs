//! Keystone, OpenStack's identity service (Identity API v3): sign-in with name, domain and password or with an application
//! credential, its tokens, and its users within a domain.
//!
//! This file puts the ports together.

mod account;
mod api;
mod auth;
mod claims;
mod config;
mod form;
mod plan;
mod remembered;

use claims_mapping::{ClaimMappings, ClaimOrExpression, MappingConfig, PrefixedClaimOrExpression};

pub use self::config::{AccountScope, KeystoneConfig, Named, ProjectName, ServiceAccountConfig, SignInScope, TokensConfig, Trusts};
use crate::{Connector, config::Context};

/// The mapping of a `keystone` connector for the parts that its configuration does not give. The tenant is the user's domain.
#[must_use]
pub fn default_mapping() -> MappingConfig {
    let (prefixed, plain) = (PrefixedClaimOrExpression::of_claim, ClaimOrExpression::of_claim);
    MappingConfig {
        claim_mappings: ClaimMappings {
            username: prefixed("user_name"),
            groups: prefixed("groups"),
            tenant: plain("domain"),
            roles: plain("roles"),
            display_name: plain("display_name"),
            email: plain("email"),
            ..ClaimMappings::default()
        },
        ..MappingConfig::default()
    }
}

/// Whether users can be joined by this attribute: only `id` never changes, and is one person's only.
///
/// # Errors
/// Why not.
pub(crate) fn may_join_by(attribute: &str) -> Result<(), String> {
    if attribute == "id" { Ok(()) } else { Err("a user of Keystone can be joined by `id` only, which never changes".to_owned()) }
}

pub(crate) fn build(_config: &KeystoneConfig, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
    Ok(Connector::without_ports(context.id.clone()))
}
