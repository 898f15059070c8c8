//! The `file` connector does what every directory has to do.

use claims_mapping::{ConnectorId, Mapping};
use connectors::{
    Secret,
    config::{Context, Upstream},
    file::{FileConfig, hash_password},
};
use denizen_tests::{
    directory_conformance::{Fixture, Lacks, conforms, tenant},
    slapd::content::{ACME_JANE_PASSWORD, GLOBEX_JANE_PASSWORD, ODD_NAMES, PASSWORD, mail},
};
use serde_json::json;

#[tokio::test]
async fn the_file_connector_conforms() {
    let user = |id: &str, name: &str, full_name: &str, tenant: &str, password: &str| {
        json!({
            "id": id, "username": name, "displayName": full_name, "tenant": tenant, "email": mail(name, tenant), "groups": ["staff"],
            "password": hash_password(&Secret::new(password.to_owned())).unwrap(), "disabled": name == "dora"
        })
    };
    let mut users = vec![
        user("1", "jane", "Jane Doe", "acme", ACME_JANE_PASSWORD),
        user("2", "jane", "Jane Roe", "globex", GLOBEX_JANE_PASSWORD),
        user("3", "joe", "Joe Doe", "acme", PASSWORD),
        user("4", "greta", "Greta Roe", "globex", PASSWORD),
        user("7", "dora", "Dora Disabled Doe", "acme", PASSWORD),
    ];
    users.extend(ODD_NAMES.iter().enumerate().map(|(n, name)| user(&format!("odd-{n}"), name, &format!("Odd {name}"), "acme", PASSWORD)));
    // JSON is YAML.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.yaml");
    std::fs::write(&path, json!({ "users": users }).to_string()).unwrap();

    let id = ConnectorId::parse("people").unwrap();
    let upstream = Upstream::File(FileConfig { path: Some(path), users: None });
    let mapping = Mapping::compile(&upstream.default_mapping()).unwrap();
    let connector = upstream.build(Context { id: &id, mapping: &mapping, fixed_tenant: false, issuer: None }).unwrap();
    let (acme, globex) = (tenant("acme", &id, "acme"), tenant("globex", &id, "globex"));
    conforms(&Fixture { connector: &connector, id_attribute: "id", acme, globex, lacks: Lacks::default() }).await;
}
