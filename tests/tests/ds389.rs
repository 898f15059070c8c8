//! The `ldap` connector against a real 389 Directory Server.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use claims_mapping::{ClaimOrExpression, ConnectorId, Mapping, Tenant, TenantScope};
use connectors::{
    Connector, ConnectorError, Lookup,
    config::{Context, Upstream},
};
use denizen_tests::{
    DirectoryServer389,
    directory_conformance::{Fixture, Lacks, by_number, conforms, is_found, subjects, tenant},
    ds389::Uuids,
    slapd::content::{ACME, GLOBEX, PEOPLE, READER, READER_PASSWORD, numbered_people, person_dn},
};
use serde_json::{Value, json};

struct Corp {
    connector: Connector,
    acme: Arc<Tenant>,
    globex: Arc<Tenant>,
}

impl Corp {
    /// The tenant is in `openCloudMemberOfSchool`.
    fn new(server: &DirectoryServer389, change: impl FnOnce(&mut Value)) -> Self {
        let mut config = json!({
            "type": "ldap", "url": server.ldaps_url(), "caFile": server.ca_path(), "bindDn": READER, "bindPassword": READER_PASSWORD,
            "userSearch": {"base": PEOPLE, "idAttribute": "openCloudUUID", "enabledFilter": "(!(openCloudUserEnabled=FALSE))"},
            "groups": {"memberOf": {}},
        });
        change(&mut config);
        let upstream: Upstream = serde_json::from_value(config).unwrap();
        let id = ConnectorId::parse("corp").unwrap();
        let mut mapping = upstream.default_mapping();
        "openCloudMemberOfSchool".clone_into(&mut mapping.claim_mappings.tenant.claim);
        mapping.claim_mappings.uid_number = ClaimOrExpression::of_claim("uidNumber");
        mapping.claim_mappings.gid_number = ClaimOrExpression::of_claim("gidNumber");
        let mapping = Mapping::compile(&mapping).unwrap();
        let connector = upstream.build(Context { id: &id, mapping: &mapping, fixed_tenant: false, issuer: None }).unwrap();
        Self { connector, acme: tenant("acme", &id, ACME), globex: tenant("globex", &id, GLOBEX) }
    }

    fn fixture(&self) -> Fixture<'_> {
        Fixture {
            connector: &self.connector,
            id_attribute: "openCloudUUID",
            acme: Arc::clone(&self.acme),
            globex: Arc::clone(&self.globex),
            lacks: Lacks::default(),
        }
    }
}

/// The connector leaves it to the mapping who is in two tenants.
async fn without_zoe(uuids: Uuids) -> DirectoryServer389 {
    let server = DirectoryServer389::start_with(uuids).await;
    server.delete(&format!("uid=zoe,{PEOPLE}")).await;
    server
}

#[tokio::test]
async fn the_ldap_connector_conforms() {
    let server = without_zoe(Uuids::AsTexts).await;
    conforms(&Corp::new(&server, |_| {}).fixture()).await;
    let start_tls = |config: &mut Value| {
        config["url"] = json!(server.ldap_url());
        config["startTls"] = json!(true);
    };
    conforms(&Corp::new(&server, start_tls).fixture()).await;
}

#[tokio::test]
async fn it_conforms_with_opencloud_s_own_schema() {
    conforms(&Corp::new(&without_zoe(Uuids::AsUuids).await, |_| {}).fixture()).await;
}

#[tokio::test]
async fn t25_numbers_find_one_person_of_the_tenant_or_nobody() {
    let server = without_zoe(Uuids::AsTexts).await;
    for person in numbered_people() {
        server.add(person).await;
    }
    by_number(&Corp::new(&server, |_| {}).fixture()).await;
}

#[tokio::test]
async fn whoever_is_disabled_is_found_by_nothing_until_they_are_not() {
    let server = without_zoe(Uuids::AsTexts).await;
    let corp = Corp::new(&server, |_| {});
    assert!(!is_found(&corp.fixture(), "dora", 7).await);
    for (values, found) in [(&["FALSE"][..], false), (&["TRUE"], true), (&["FALSE"], false), (&[], true)] {
        server.modify(&person_dn("acme", "joe"), "openCloudUserEnabled", values).await;
        assert_eq!(is_found(&corp.fixture(), "joe", 3).await, found, "{values:?}");
    }
}

#[tokio::test]
async fn what_the_server_cuts_short_is_said_to_be_so() {
    let server = without_zoe(Uuids::AsTexts).await;
    let corp = Corp::new(&server, |_| {});
    let fixture = corp.fixture();
    let everyone = subjects(&fixture.search(&fixture.acme, "o", 100).await);
    assert!(everyone.len() > 2);
    server.look_through_at_most(3).await;
    let found = fixture.search(&fixture.acme, "o", 100).await;
    assert!(found.truncated && found.users.len() < everyone.len());
    assert!(subjects(&found).iter().all(|subject| everyone.contains(subject)), "of the tenant");
    // One of three entries is not known to be the only one.
    let scope = TenantScope::of_verified_caller(Arc::clone(&fixture.acme));
    let found = corp.connector.directory.as_deref().unwrap().get(&scope, &Lookup::Mail("joe@acme.example".to_owned())).await;
    assert!(matches!(found, Err(ConnectorError::Unusable(_))), "{found:?}");
}

#[tokio::test]
async fn an_outage_is_not_an_absence() {
    let mut server = without_zoe(Uuids::AsTexts).await;
    let corp = Corp::new(&server, |_| {});
    let fixture = corp.fixture();
    let jane = fixture.named(&fixture.acme, "jane").await;
    assert!(jane.is_some());
    server.stop();
    let scope = TenantScope::of_verified_caller(Arc::clone(&fixture.acme));
    let lookup = Lookup::Username("jane".to_owned());
    let directory = corp.connector.directory.as_deref().unwrap();
    assert!(matches!(directory.get(&scope, &lookup).await, Err(ConnectorError::Unavailable(_))));
    server.restart().await;
    assert_eq!(fixture.named(&fixture.acme, "jane").await, jane);
}
