//! How the configuration of an `ldap` connector looks. What must hold of it is checked in `plan.rs`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ConfiguredSecret;

/// How the directory is reached, and what its attributes mean.
///
/// Every attribute that the mapping names must be read: the id, username, search, mail and tenant attributes are, those of
/// `uidNumber` and `gidNumber` where the mapping reads a plain claim, and `cn`, `sn`, `givenName` and `displayName`; list others in `userSearch.attributes`. `claims.dn` is the entry's DN and
/// `claims.groups` the names of the groups.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LdapConfig {
    /// The server: `ldaps://host[:port]` or `ldap://host[:port]`. Either this or `urls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Several servers with the same content, the preferred one first; one that fails is left alone for 30 s.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Whether `ldap://` is protected by StartTLS. A server that refuses it is not used.
    #[serde(default)]
    pub start_tls: bool,
    /// Whether `ldap://` without protection is allowed: passwords then cross the network in the clear.
    #[serde(default)]
    pub allow_plain: bool,
    /// The authorities (PEM) that TLS trusts; those of the platform where absent. The host name always has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The DN of the account that searches; searches are anonymous without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_dn: Option<String>,
    /// The password of that account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_password: Option<ConfiguredSecret>,
    /// The file of that password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_password_file: Option<PathBuf>,
    /// Seconds until a server that does not take a connection is given up; 2.
    #[serde(default = "LdapConfig::default_connect_timeout")]
    pub connect_timeout_seconds: f32,
    /// Seconds until a server that does not answer an operation is given up; 4.
    #[serde(default = "LdapConfig::default_operation_timeout")]
    pub operation_timeout_seconds: f32,
    /// The most connections for searches, and as many again for sign-ins; 8.
    #[serde(default = "LdapConfig::default_connections")]
    pub connections: usize,
    /// Where the users are.
    pub user_search: UserSearchConfig,
    /// Where the groups are; users have none without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupsConfig>,
}

impl LdapConfig {
    const fn default_connect_timeout() -> f32 {
        2.0
    }
    const fn default_operation_timeout() -> f32 {
        4.0
    }
    const fn default_connections() -> usize {
        8
    }
}

/// Where the users are, and which of their attributes means what.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserSearchConfig {
    /// The DN below which all users are.
    pub base: String,
    /// What an entry must be to be a user: `(objectClass=inetOrgPerson)`.
    #[serde(default = "UserSearchConfig::default_filter")]
    pub filter: String,
    /// How deep below the base.
    #[serde(default)]
    pub scope: SearchScope,
    /// The immutable, never re-used id: `entryUUID`, `objectGUID` (given as a UUID), `openCloudUUID`, …
    #[serde(default = "UserSearchConfig::default_id")]
    pub id_attribute: String,
    /// The attributes that hold the name to sign in with, any of them: `[uid]`, `[uid, mail]`.
    #[serde(default = "UserSearchConfig::default_username")]
    pub username_attributes: Vec<String>,
    /// The attributes that a search looks into.
    #[serde(default = "UserSearchConfig::default_search")]
    pub search_attributes: Vec<String>,
    /// The attribute with the e-mail address.
    #[serde(default = "UserSearchConfig::default_mail")]
    pub mail_attribute: String,
    /// More attributes to read, for the mapping.
    #[serde(default)]
    pub attributes: Vec<String>,
    /// More attributes of which one value is given as text, not as a list of one.
    #[serde(default)]
    pub single_valued: Vec<String>,
    /// What holds of users who are not switched off: `(!(openCloudUserEnabled=FALSE))`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled_filter: Option<String>,
    /// What holds of a tenant's users, where the mapping does not read the tenant from an attribute: `(ou={tenant})`.
    /// `{tenant}` is what the connector calls the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_filter: Option<String>,
    /// The DN below which a tenant's users are: `ou={tenant},dc=example`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_base: Option<String>,
}

impl UserSearchConfig {
    fn default_filter() -> String {
        "(objectClass=inetOrgPerson)".to_owned()
    }
    fn default_id() -> String {
        "entryUUID".to_owned()
    }
    fn default_username() -> Vec<String> {
        vec!["uid".to_owned()]
    }
    fn default_search() -> Vec<String> {
        ["uid", "displayName", "mail"].into_iter().map(str::to_owned).collect()
    }
    fn default_mail() -> String {
        "mail".to_owned()
    }
}

/// How deep a search goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SearchScope {
    /// Everything below the base.
    #[default]
    Subtree,
    /// The entries right below the base.
    OneLevel,
}

/// Where the groups are: `memberOf` or `search`. A group counts only if its own entry is of the user's tenant.
///
/// Where the tenant is known by `tenantFilter` or `tenantBase` only, a sign-in that does not name a tenant has no groups.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupsConfig {
    /// The user's entry lists them. Each is read, for its name and its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_of: Option<MemberOfConfig>,
    /// The groups' entries list the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<GroupSearchConfig>,
    /// What an entry must be to be a group: `(objectClass=groupOfNames)`.
    #[serde(default = "GroupsConfig::default_filter")]
    pub filter: String,
    /// The attribute with the group's name.
    #[serde(default = "GroupsConfig::default_name")]
    pub name_attribute: String,
    /// The attribute with the group's tenant; the users' where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_attribute: Option<String>,
    /// What holds of a tenant's groups; the users' `tenantFilter` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_filter: Option<String>,
    /// Whether the groups of groups count too.
    #[serde(default)]
    pub nested: bool,
    /// The most groups of one user; who has more can not sign in. 10,000.
    #[serde(default = "GroupsConfig::default_most")]
    pub most: usize,
}

impl GroupsConfig {
    fn default_filter() -> String {
        "(objectClass=groupOfNames)".to_owned()
    }
    fn default_name() -> String {
        "cn".to_owned()
    }
    const fn default_most() -> usize {
        10_000
    }
}

/// The user's entry lists the groups.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberOfConfig {
    /// The attribute with the groups' DNs.
    #[serde(default = "MemberOfConfig::default_attribute")]
    pub attribute: String,
    /// The DN below which all groups are, so that groups can be searched and asked for their members; without it they are known by
    /// the people who are in them only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

impl MemberOfConfig {
    fn default_attribute() -> String {
        "memberOf".to_owned()
    }
}

/// The groups' entries list the user.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupSearchConfig {
    /// The DN below which the groups are; `{tenant}` in it makes it one for each tenant. `userSearch.tenantBase` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The attribute with the members: their DNs, or their usernames where it is `memberUid`.
    #[serde(default = "GroupSearchConfig::default_member")]
    pub member_attribute: String,
}

impl GroupSearchConfig {
    fn default_member() -> String {
        "member".to_owned()
    }
}
