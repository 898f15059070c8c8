//! The registry: which connectors there are, and how one is made from its configuration.

use claims_mapping::{ConnectorId, Mapping, MappingConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use url::Url;

use crate::{Connector, file, keystone, ldap, oidc};

/// The part of a connector's configuration that depends on its `type`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Upstream {
    /// Users from a YAML file.
    File(file::FileConfig),
    /// An LDAP directory.
    Ldap(Box<ldap::LdapConfig>),
    /// An OpenID provider.
    Oidc(Box<oidc::OidcConfig>),
    /// A Keystone.
    Keystone(Box<keystone::KeystoneConfig>),
}

/// What a connector is told of its surroundings when it is made.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Its permanent name.
    pub id: &'a ConnectorId,
    /// The claim that the tenant is read from, where the mapping reads it from a plain one.
    pub mapping: &'a Mapping,
    /// Whether all users of this upstream are of one tenant (`tenant: { fixed }`, or the default tenant stands in), so that no
    /// tenant filter is needed.
    pub fixed_tenant: bool,
    /// Denizen's own address, below which browsers come back (`/login/{id}/callback`); `None` where the configuration has a fault there.
    pub issuer: Option<&'a Url>,
}

impl Upstream {
    /// The mapping for the parts that a connector's configuration does not give. A tenant rule in it falls away where the
    /// connector's tenant is fixed.
    #[must_use]
    pub fn default_mapping(&self) -> MappingConfig {
        match self {
            Self::File(_) => file::default_mapping(),
            Self::Ldap(_) => ldap::default_mapping(),
            Self::Oidc(_) => oidc::default_mapping(),
            Self::Keystone(_) => keystone::default_mapping(),
        }
    }

    /// Makes the connector. Does no network I/O; reads files that the configuration names.
    ///
    /// # Errors
    /// Every fault, as (path relative to the connector's entry, message).
    pub fn build(&self, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
        match self {
            Self::File(config) => file::build(config, context),
            Self::Ldap(config) => ldap::build(config, context),
            Self::Oidc(config) => oidc::build(config, context),
            Self::Keystone(config) => keystone::build(config, context),
        }
    }

    /// Whether its people can be found by this attribute, by someone who was proven at another upstream (`join`): it never
    /// changes, and is one person's only.
    ///
    /// # Errors
    /// Why not.
    pub fn may_join_by(&self, attribute: &str) -> Result<(), String> {
        match self {
            Self::File(_) => file::may_join_by(attribute),
            Self::Ldap(_) => ldap::may_join_by(attribute),
            Self::Oidc(_) => Err("an OpenID provider is no directory".to_owned()),
            Self::Keystone(_) => keystone::may_join_by(attribute),
        }
    }

    /// Whether it has a directory of its own, in which people are searched and looked up.
    #[must_use]
    pub fn has_directory(&self) -> bool {
        match self {
            Self::File(_) | Self::Ldap(_) => true,
            Self::Oidc(_) => false,
            Self::Keystone(config) => config.directory,
        }
    }
}
