//! How the configuration of a `keystone` connector looks. What must hold of it is checked in `plan.rs`.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ConfiguredSecret;

/// A Keystone (Identity API v3), and what Denizen is there.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeystoneConfig {
    /// The Identity API: `https://keystone.example:5000/v3`; plain http for loopback addresses only. Either this or `endpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The same for several regions, by their names; `region` says which.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, String>,
    /// The region whose endpoint is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The file of the authorities (PEM) that TLS trusts; those of the platform where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_file: Option<PathBuf>,
    /// Networks that are not public, and in which Keystone may be all the same: `10.0.0.0/8`, `127.0.0.1`.
    #[serde(default)]
    pub allowed_networks: Vec<String>,
    /// As whom Denizen asks about tokens and users.
    pub service_account: ServiceAccountConfig,
    /// What someone's sign-in asks for, and so of what their `roles` are; `unscoped`.
    #[serde(default)]
    pub scope: SignInScope,
    /// The only domain whose users are this connector's; all that the tenant rule takes where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_id: Option<String>,
    /// Whether users are searched, looked up and asked about again: the service account needs the role `reader` on the
    /// system, or on each domain. Without it, a sign-in is believed until the person's own token expires.
    #[serde(rename = "userDirectory", default = "yes")]
    pub directory: bool,
    /// Whether people's groups are read, which needs the same; as `userDirectory` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<bool>,
    /// Of a system-scoped token that has one of these roles, the claim `domain` is `system`: its bearer is of the operators'
    /// tenant, where `systemTenant.connectors` names this connector.
    #[serde(default)]
    pub system_roles: Vec<String>,
    /// What becomes of tokens of a trust with impersonation, which speak of the trustor and are the trustee's; `refuse`.
    #[serde(default)]
    pub trusts: Trusts,
    /// Whether Keystone's own tokens are taken in token reviews, by the reviewers whose `upstreamTokens` name this connector.
    #[serde(default)]
    pub accept_tokens: bool,
    /// How answers about tokens are kept.
    #[serde(default)]
    pub tokens: TokensConfig,
}

const fn yes() -> bool {
    true
}

/// The account by which Keystone is asked: a user with a password, or an application credential.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceAccountConfig {
    /// The user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user's domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Named>,
    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<ConfiguredSecret>,
    /// The file of that password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Where the user has the roles that are needed: `{ project: … }`, `{ domain: … }`, or `{ system: all }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<AccountScope>,
    /// Where it has the roles that reading people takes, as `scope`, where that is elsewhere: Keystone validates tokens several times
    /// faster for an account with the role `service` on a project than for one with `reader` on the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_scope: Option<AccountScope>,
    /// The id of an application credential, which has a scope of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential_id: Option<String>,
    /// Its secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential_secret: Option<ConfiguredSecret>,
    /// The file of that secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential_secret_file: Option<PathBuf>,
}

/// Where the service account has its roles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AccountScope {
    /// On the system.
    System(All),
    /// On a domain.
    Domain(Named),
    /// On a project.
    Project(ProjectName),
}

/// All of the system: Keystone knows no parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum All {
    /// All of it.
    All,
}

/// What a sign-in asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SignInScope {
    /// Nothing: there are no roles.
    #[default]
    Unscoped,
    /// The person's own domain: who has no role there can not sign in.
    Domain,
    /// The system, likewise.
    System,
    /// This project, likewise.
    Project(ProjectName),
    /// The project that the person names on the page; nothing where they name none.
    Ask,
}

/// Something by its id or its name, one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Named {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A project by its id, or by its name and its domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectName {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its domain, with the name; the domain of whoever signs in where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Named>,
}

/// What becomes of tokens of a trust with impersonation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Trusts {
    /// They are not taken: their bearer is not the person of whom they speak.
    #[default]
    Refuse,
    /// They are taken where trustor and trustee are of one domain, which needs `userDirectory: true`.
    Allow,
}

/// How answers about tokens are kept. A token that is revoked in Keystone itself is taken for `cacheSeconds` at most; one that is
/// revoked through Denizen is not taken from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TokensConfig {
    /// How long a good token is believed, in seconds, and never beyond its own time; 120.
    pub cache_seconds: u32,
    /// How long a refusal is, in seconds; 10.
    pub refusal_seconds: u32,
    /// Questions to Keystone about tokens that may be under way at once; 16. More wait, and in the end are told that it can not
    /// be told.
    pub in_flight: u32,
}

impl Default for TokensConfig {
    fn default() -> Self {
        Self { cache_seconds: 120, refusal_seconds: 10, in_flight: 16 }
    }
}
