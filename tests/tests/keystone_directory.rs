//! The `keystone` connector as a directory, and asked again about those who signed in, against a real Keystone.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

#[path = "keystone_directory/groups.rs"]
mod groups;
#[path = "keystone_directory/renewal.rs"]
mod renewal;
#[path = "keystone_directory/search.rs"]
mod search;

use std::sync::Arc;

use claims_mapping::{ConnectorId, Mapping, Subject, Tenant, TenantScope, UpstreamUser};
use connectors::{
    Connector, ConnectorError, Directory, Found, Lookup, UserQuery,
    config::{Context, Upstream},
};
use denizen_tests::{
    Keystone,
    directory_conformance::tenant,
    keystone::{Scope, fixtures::DENIZEN},
};
use serde_json::{Value, json};

/// A connector, and the tenants as it knows them.
struct Cloud {
    connector: Connector,
    id: ConnectorId,
}

impl Cloud {
    /// Denizen's usual service account, a tenant's domain by its id; after a change.
    fn new(keystone: &Keystone, change: impl FnOnce(&mut Value)) -> Self {
        Self::with_tenants(keystone, "domain", false, change)
    }

    fn with_tenants(keystone: &Keystone, claim: &str, fixed_tenant: bool, change: impl FnOnce(&mut Value)) -> Self {
        let mut config = json!({
            "type": "keystone", "url": keystone.url(), "allowedNetworks": ["127.0.0.0/8"],
            "serviceAccount": account(keystone, DENIZEN, json!({"system": "all"})),
        });
        change(&mut config);
        let names = config.as_object_mut().unwrap().remove("claims");
        let upstream: Upstream = serde_json::from_value(config).unwrap();
        let id = ConnectorId::parse("cloud").unwrap();
        let mut mapping = upstream.default_mapping();
        mapping.claim_mappings.tenant.claim = claim.to_owned();
        if let Some(name) = names {
            mapping.claim_mappings.roles.claim = name.as_str().unwrap().to_owned();
        }
        let mapping = Mapping::compile(&mapping).unwrap();
        let connector = upstream.build(Context { id: &id, mapping: &mapping, fixed_tenant, issuer: None }).unwrap();
        Self { connector, id }
    }

    fn directory(&self) -> &dyn Directory {
        self.connector.directory.as_deref().expect("it has a directory")
    }

    /// The tenant `acme`, which Keystone calls so.
    fn tenant(&self, external_id: &str) -> Arc<Tenant> {
        tenant("acme", &self.id, external_id)
    }

    fn scope(&self, external_id: &str) -> TenantScope {
        TenantScope::of_verified_caller(self.tenant(external_id))
    }

    async fn try_search(&self, domain: &str, text: &str, limit: usize) -> Result<Found, ConnectorError> {
        self.directory().search(&self.scope(domain), &UserQuery { text: text.to_owned(), limit }).await
    }

    /// The names that a search finds, in order, and whether there are more.
    async fn search(&self, domain: &str, text: &str, limit: usize) -> (Vec<String>, bool) {
        let found = self.try_search(domain, text, limit).await.unwrap();
        let mut names: Vec<_> = found.users.iter().map(|user| claim(user, "user_name").as_str().unwrap().to_owned()).collect();
        names.sort();
        (names, found.truncated)
    }

    async fn try_get(&self, domain: &str, by: Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        self.directory().get(&self.scope(domain), &by).await
    }

    async fn get(&self, domain: &str, by: Lookup) -> Option<UpstreamUser> {
        self.try_get(domain, by).await.unwrap()
    }

    async fn named(&self, domain: &str, name: &str) -> Option<String> {
        self.get(domain, Lookup::Username(name.to_owned())).await.map(|user| user.subject.to_string())
    }

    async fn by_id(&self, domain: &str, id: &str) -> Option<UpstreamUser> {
        self.get(domain, Lookup::Subject(Subject::parse(id).unwrap())).await
    }
}

/// One of the service's own users.
fn account(keystone: &Keystone, name: &str, scope: Value) -> Value {
    let mut account = keystone.service_account(name, Scope::System);
    account["scope"] = scope;
    account
}

fn claim(user: &UpstreamUser, name: &str) -> Value {
    user.claims.get(name).cloned().unwrap_or_default()
}
