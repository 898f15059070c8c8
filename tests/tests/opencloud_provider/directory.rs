//! The deployment of `deploy/opencloud` on a real directory: `sub` is the directory's own id, and the example's mapping gives the roles.

use std::path::Path;

use denizen_tests::{
    Broker,
    slapd::{
        Slapd,
        content::{ACME, ACME_JANE_PASSWORD, GLOBEX, GROUPS, PASSWORD, PEOPLE, READER, READER_PASSWORD, mail, uuid},
    },
};
use serde_json::{Value, json};

use super::{CLOUD, app, code, configuration, web};

/// The expression of the example, with someone of the test's directory in the place of the one that it names.
fn roles(administrator: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/opencloud/denizen.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("roles: { expression:")).unwrap();
    let expression = line.split('"').nth(1).unwrap();
    let named = expression.split('\'').nth(1).unwrap();
    assert!(uuid::Uuid::parse_str(named).is_ok(), "{expression}");
    expression.replace(named, administrator)
}

#[tokio::test]
async fn the_example_gives_the_directorys_ids_and_a_role_to_everyone() {
    let slapd = Slapd::start().await;
    let corp = json!({
        "id": "corp", "type": "ldap", "operatedBy": "operator", "tenants": ["acme", "globex"], "ids": "verbatim",
        "url": slapd.ldaps_url(), "caFile": slapd.ca_path(), "bindDn": READER, "bindPassword": READER_PASSWORD,
        "userSearch": {
            "base": PEOPLE, "idAttribute": "openCloudUUID", "filter": "(objectClass=openCloudUser)",
            "enabledFilter": "(!(openCloudUserEnabled=FALSE))", "usernameAttributes": ["uid", "mail"],
        },
        "groups": {"search": {"base": GROUPS}, "nested": true},
        "claimMappings": {
            "username": {"claim": "uid"}, "tenant": {"claim": "openCloudMemberOfSchool"}, "displayName": {"claim": "displayName"},
            "email": {"claim": "mail"}, "groups": {"claim": "groups"}, "roles": {"expression": roles(&uuid(1))},
        },
        "roles": ["opencloudAdmin", "opencloudUser"],
    });
    let configuration = configuration(CLOUD)
        .with("/tenants", json!([{"id": "acme", "externalIds": {"corp": ACME}}, {"id": "globex", "externalIds": {"corp": GLOBEX}}]))
        .with("/connectors", json!([corp]))
        .with("/systemTenant", Value::Null);
    let broker = Broker::start(configuration).await;
    let desktop = app("OpenCloudDesktop", "http://127.0.0.1:4711");
    for (request, name, password, number, tenant, role) in [
        (web(CLOUD), mail("jane", "acme"), ACME_JANE_PASSWORD, 1, "acme", "opencloudAdmin"),
        (desktop, "joe".to_owned(), PASSWORD, 3, "acme", "opencloudUser"),
        (web(CLOUD), "greta".to_owned(), PASSWORD, 4, "globex", "opencloudUser"),
    ] {
        let answer = broker.browser().try_sign_in(&request, &name, password).await;
        let tokens = broker.service().exchange(&request, &code(&answer)).await;
        let info = broker.service().userinfo(tokens.access()).await.expect(200).json();
        let told = (&info["sub"], &info["tenant_id"], &info["roles"]);
        assert_eq!(told, (&json!(uuid(number)), &json!(tenant), &json!([role])), "{name}");
    }
    assert_eq!(broker.browser().try_sign_in(&web(CLOUD), "nils", PASSWORD).await.location(), None, "no tenant, no identity");
}
