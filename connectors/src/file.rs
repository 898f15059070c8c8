//! Users from a YAML file: the embedded default.
//!
//! This file owns the ports; `file/users.rs` what a users file says, `file/password.rs` the hashes, `file/watch.rs` how a
//! change is noticed.

mod password;
mod users;
mod watch;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use claims_mapping::{
    ClaimMappings, ClaimOrExpression, ConnectorId, MappingConfig, PrefixedClaimOrExpression, Tenant, TenantScope, UpstreamUser,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    password::{HashError, hash_password},
    users::FileUser,
};
use self::{
    users::{Fault, Users},
    watch::Watch,
};
use crate::{
    Connector, ConnectorError, Directory, Found, FoundGroups, Groups, LoginName, Lookup, PasswordLogin, Proven, Secret, UpstreamGroup,
    UserQuery, config::Context,
};

/// Where the users stand: in a file of their own, or here.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileConfig {
    /// The YAML file, whose root has the key `users`; read again when it changes. Either this or `users`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The users themselves, where there is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<FileUser>>,
}

/// The mapping of a `file` connector for the parts that its configuration does not give. Where the connector's tenant is
/// fixed the tenant rule falls away.
#[must_use]
pub fn default_mapping() -> MappingConfig {
    let (prefixed, plain) = (PrefixedClaimOrExpression::of_claim, ClaimOrExpression::of_claim);
    MappingConfig {
        claim_mappings: ClaimMappings {
            username: prefixed("username"),
            groups: prefixed("groups"),
            tenant: plain("tenant"),
            roles: plain("roles"),
            display_name: plain("displayName"),
            email: plain("email"),
            email_verified: plain("email_verified"),
            uid_number: plain("uidNumber"),
            gid_number: plain("gidNumber"),
            ..ClaimMappings::default()
        },
        ..MappingConfig::default()
    }
}

/// Whether the users of a file can be joined by this: of what it says of people, only the id never changes.
pub(crate) fn may_join_by(attribute: &str) -> Result<(), String> {
    if attribute == "id" { Ok(()) } else { Err("users of a file are joined by `id`: nothing else of theirs never changes".to_owned()) }
}

pub(crate) fn build(config: &FileConfig, context: Context<'_>) -> Result<Connector, Vec<(String, String)>> {
    let (users, watch) = match (&config.path, &config.users) {
        (Some(path), None) => {
            let refused = |faults: Vec<String>| faults.into_iter().map(|fault| ("path".to_owned(), fault)).collect::<Vec<_>>();
            let text = read(path).map_err(|fault| refused(vec![fault]))?;
            let users = parse(path, &text, context.fixed_tenant).map_err(refused)?;
            let users = Arc::new(ArcSwap::from_pointee(users));
            let watch = Watch::start(path.clone(), text, context.id.clone(), context.fixed_tenant, &users);
            (users, watch)
        }
        (None, Some(users)) => {
            let users = Users::new(users.iter().map(|user| (None, user.clone())), context.fixed_tenant)
                .map_err(|faults| faults.into_iter().map(|f| (f.place, f.message)).collect::<Vec<_>>())?;
            (Arc::new(ArcSwap::from_pointee(users)), None)
        }
        _ => return Err(vec![("path".to_owned(), "give either `path` or `users`".to_owned())]),
    };
    let source = Arc::new(FileUsers { id: context.id.clone(), fixed_tenant: context.fixed_tenant, users, _watch: watch });
    Ok(Connector {
        password: Some(Arc::clone(&source) as Arc<dyn PasswordLogin>),
        groups: Some(Arc::clone(&source) as Arc<dyn Groups>),
        directory: Some(source),
        watches: config.path.iter().cloned().collect(),
        ..Connector::without_ports(context.id.clone())
    })
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Checks the text of a users file; the faults name file, line and column.
fn parse(path: &Path, text: &str, fixed_tenant: bool) -> Result<Users, Vec<String>> {
    let file = path.display();
    Users::parse(text, fixed_tenant).map_err(|faults| {
        let line = |Fault { place, message, position }: Fault| match position {
            Some((line, column)) => format!("{file}:{line}:{column}: {place}: {message}"),
            None => format!("{file}: {place}: {message}"),
        };
        faults.into_iter().map(line).collect()
    })
}

/// The connector.
struct FileUsers {
    id: ConnectorId,
    fixed_tenant: bool,
    users: Arc<ArcSwap<Users>>,
    _watch: Option<Watch>,
}

impl FileUsers {
    /// The tenant that users must have; `None` where all have the same.
    fn filter<'a>(&self, tenant: &'a Tenant) -> Option<&'a str> {
        (!self.fixed_tenant).then(|| tenant.external_id(&self.id))
    }
}

#[async_trait]
impl PasswordLogin for FileUsers {
    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<Proven>, ConnectorError> {
        if !password.is_plausible_password() {
            return Ok(None);
        }
        let (hash, user) = self.users.load().sign_in(login.tenant.as_deref().and_then(|t| self.filter(t)), &login.name);
        let Some(hash) = hash else { return Ok(None) };
        Ok(if password::verify(hash, password).await? { user.map(Proven::from) } else { None })
    }
}

#[async_trait]
impl Directory for FileUsers {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError> {
        Ok(self.users.load().search(self.filter(scope.tenant()), query))
    }

    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        Ok(self.users.load().get(self.filter(scope.tenant()), by))
    }
}

/// The groups that users name: there is no group without someone in it.
#[async_trait]
impl Groups for FileUsers {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<FoundGroups, ConnectorError> {
        Ok(self.users.load().groups(self.filter(scope.tenant()), query))
    }

    async fn get(&self, scope: &TenantScope, name: &str) -> Result<Option<UpstreamGroup>, ConnectorError> {
        let is_there = self.users.load().has_group(self.filter(scope.tenant()), name);
        Ok(is_there.then(|| UpstreamGroup { name: name.to_owned(), display_name: None, mail: None }))
    }

    async fn members(&self, scope: &TenantScope, name: &str, limit: usize) -> Result<Found, ConnectorError> {
        Ok(self.users.load().members(self.filter(scope.tenant()), name, limit))
    }
}

#[cfg(test)]
mod tests;
