//! Keystone, OpenStack's identity service (Identity API v3): sign-in with name, domain and password or with an application
//! credential, its tokens, and its users within a domain.
//!
//! This file puts the ports together.

mod account;
mod api;
mod assignments;
mod auth;
mod claims;
mod config;
mod directory;
mod form;
mod groups;
mod members;
mod people;
mod places;
mod plan;
mod remembered;
mod renewal;
mod sign_in;
#[cfg(test)]
mod stand_in;
mod token;

use std::sync::Arc;

use claims_mapping::{ClaimMappings, ClaimOrExpression, MappingConfig, PrefixedClaimOrExpression};

pub use self::config::{AccountScope, All, KeystoneConfig, Named, ProjectName, ServiceAccountConfig, SignInScope, TokensConfig, Trusts};
use self::{account::Account, api::Api, people::People, plan::Plan, token::Tokens};
use crate::{Connector, CredentialLogin, Directory, Groups, PasswordLogin, Renewal, TokenAuthentication, TokenRevocation, config::Context};

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

pub(crate) fn build(config: &KeystoneConfig, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
    let plan = Plan::new(config, context.mapping, context.fixed_tenant)?;
    let Plan { server, proof, directory_proof, rules, accept_tokens, tokens } = plan;
    let account = |proof| Account::new(Arc::clone(&server), proof);
    let api = Api::new(Arc::clone(&server), account(proof), directory_proof.map(account));
    let people = Arc::new(People { id: context.id.clone(), api, rules: Arc::new(rules) });
    let tokens = accept_tokens.then(|| Arc::new(Tokens { people: Arc::clone(&people), config: tokens }));
    Ok(Connector {
        password: Some(Arc::clone(&people) as Arc<dyn PasswordLogin>),
        credential: Some(Arc::clone(&people) as Arc<dyn CredentialLogin>),
        directory: people.rules.directory.then(|| Arc::clone(&people) as Arc<dyn Directory>),
        // Without their groups being read, people have none.
        groups: (people.rules.directory && people.rules.groups).then(|| Arc::clone(&people) as Arc<dyn Groups>),
        renewal: Some(people as Arc<dyn Renewal>),
        token: tokens.clone().map(|port| port as Arc<dyn TokenAuthentication>),
        revocation: tokens.map(|port| port as Arc<dyn TokenRevocation>),
        ..Connector::without_ports(context.id.clone())
    })
}

#[cfg(test)]
mod tests;
