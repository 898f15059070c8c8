//! What the preset brings, and what it asks for.

use std::path::Path;

use crate::config::{Faults, Loaded, SigningAlgorithm, load_text};

const GOOD: &str = "presets: [opencloud]\nopencloud: {url: 'https://cloud.example'}\n";
const ADMITS: &str = "roles: [opencloudUser], claimMappings: {username: {claim: username}, roles: {expression: '[\"opencloudUser\"]'}}";

fn load(rest: &str) -> Result<Loaded, Faults> {
    load_text(&format!("issuer: https://id.example\n{rest}"), Path::new("/nowhere"), "d.yaml")
}

/// Every fault, without the file's name.
#[track_caller]
fn faults(rest: &str) -> Vec<String> {
    let faults = load(rest).expect_err(rest);
    faults.list().iter().map(|fault| fault.line("d.yaml").strip_prefix("d.yaml:").unwrap().to_owned()).collect()
}

/// The warnings, as path and text.
#[track_caller]
fn warnings(rest: &str) -> Vec<(String, String)> {
    load(rest).unwrap().warnings.into_iter().map(|warning| (warning.path, warning.message)).collect()
}

#[test]
fn the_four_clients_come_of_the_address() {
    let loaded = load(GOOD).unwrap();
    assert_eq!(loaded.warnings, []);
    let clients = loaded.config.clients;
    let ids: Vec<_> = clients.iter().map(|client| client.id.as_str()).collect();
    assert_eq!(ids, ["web", "OpenCloudDesktop", "OpenCloudAndroid", "OpenCloudIOS"]);
    let [web, desktop, android, ios] = clients.try_into().unwrap();
    let at = |path: &str| format!("https://cloud.example{path}");
    assert_eq!(web.redirect_uris, ["/", "/oidc-callback.html", "/oidc-silent-redirect.html"].map(at));
    assert_eq!(web.post_logout_redirect_uris, [at("/")]);
    assert_eq!(web.backchannel_logout_uri.as_ref().unwrap().as_str(), at("/backchannel_logout"));
    assert_eq!(Vec::from_iter(&web.origins), [&at("")]);
    assert!(!web.scopes.contains("offline_access"));
    assert_eq!(desktop.redirect_uris, ["http://127.0.0.1", "http://127.0.0.1/", "http://localhost", "http://localhost/"]);
    assert_eq!(android.redirect_uris, ["oc://android.opencloud.eu"]);
    assert_eq!(ios.redirect_uris, ["oc://ios.opencloud.eu"]);
    for client in [&web, &desktop, &android, &ios] {
        assert!(client.secret.is_none() && client.secret_file.is_none(), "public");
        assert_eq!(Vec::from_iter(&client.implied_scopes), ["roles"]);
        assert_eq!(client.audiences, [at("")]);
        assert_eq!(client.signing_algorithm, SigningAlgorithm::Es256);
    }
    for client in [&desktop, &android, &ios] {
        assert!(client.scopes.contains("offline_access") && client.origins.is_empty() && client.backchannel_logout_uri.is_none());
    }
    let on_loopback = load("presets: [opencloud]\nopencloud: {url: 'http://127.0.0.1:9200'}\n").unwrap();
    assert_eq!(on_loopback.config.clients[0].post_logout_redirect_uris, ["http://127.0.0.1:9200/"]);
    assert!(load("opencloud: {url: 'https://cloud.example'}\n").unwrap().config.clients.is_empty(), "without the preset there are none");
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    assert_eq!(
        faults("presets: [opencloud]\n"),
        ["2:11: presets[0]: it needs `opencloud: { url: … }`, the address of OpenCloud as browsers see it (its `OC_URL`)"]
    );
    assert_eq!(faults("presets: [nextcloud]\n"), ["2:11: presets[0]: it must be `opencloud`"]);
    let url = |url: &str| faults(&format!("presets: [opencloud]\nopencloud: {{url: '{url}'}}\n"));
    let root = "3:18: opencloud.url: it must end after the host and its port: OpenCloud lives below no path";
    for (given, message) in [
        ("http://cloud.example", "3:18: opencloud.url: it must be https; plain http is for loopback addresses"),
        ("oc://cloud.example", "3:18: opencloud.url: it must be https; plain http is for loopback addresses"),
        ("https://jane@cloud.example", "3:18: opencloud.url: it must have a host, and neither user nor password"),
        ("https://cloud.example/files", root),
        ("https://cloud.example/?x", root),
        ("https://cloud.example/#x", root),
    ] {
        assert_eq!(url(given), [message], "{given}");
    }
    assert_eq!(
        faults(&format!("{GOOD}clients: [{{id: web, redirectUris: ['https://a.example']}}]\n")),
        ["4:16: clients[0].id: the preset `opencloud` (at line 2) brings a client with this id; give yours another"]
    );
    assert_eq!(
        warnings("opencloud: {url: 'https://cloud.example'}\n")[0].0,
        "opencloud",
        "an address that nothing is made of deserves a look"
    );
}

#[test]
fn logout_tokens_are_signed_as_opencloud_takes_them() {
    assert_eq!(
        faults(&format!("{GOOD}keys: {{algorithms: [EdDSA]}}\n")),
        ["2:11: presets[0]: OpenCloud takes no EdDSA signature of a logout token: add `ES256` or `RS256` to `keys.algorithms`"]
    );
    for (algorithms, algorithm) in
        [("EdDSA, RS256", SigningAlgorithm::Rs256), ("EdDSA, ES256", SigningAlgorithm::Es256), ("RS256, ES256", SigningAlgorithm::Es256)]
    {
        let clients = load(&format!("{GOOD}keys: {{algorithms: [{algorithms}]}}\n")).unwrap().config.clients;
        assert!(clients.iter().all(|client| client.signing_algorithm == algorithm), "{algorithms}");
    }
}

#[test]
fn whoever_would_have_no_role_is_told_of() {
    let people =
        |rest: &str| format!("{GOOD}tenants: [{{id: a}}]\nconnectors: [{{id: corp, type: file, tenant: {{fixed: a}}, users: []{rest}}}]\n");
    let none = warnings(&people(""));
    assert_eq!(none.len(), 1, "{none:?}");
    assert_eq!(none[0].0, "connectors[0].roles");
    assert!(none[0].1.contains("500") && none[0].1.contains("roles: [opencloudUser]"), "{none:?}");
    assert_eq!(warnings(&people(", operatedBy: operator, roles: [opencloudUser]")), [], "a file says who has which");
    assert_eq!(warnings(&people(&format!(", operatedBy: operator, {ADMITS}"))), []);
    assert_eq!(warnings(&people(", disabled: true")), []);
    assert_eq!(warnings("tenants: [{id: a}]\nconnectors: [{id: corp, type: file, tenant: {fixed: a}, users: []}]\n"), [], "no preset");
    let ldap = "type: ldap, operatedBy: operator, url: 'ldaps://a.example', tenant: {fixed: a}, userSearch: {base: 'dc=a'}";
    let directory = |rest: &str| warnings(&format!("{GOOD}tenants: [{{id: a}}]\nconnectors: [{{id: corp, {ldap}{rest}}}]\n"));
    assert_eq!(directory(", roles: [opencloudUser]")[0].0, "connectors[0].claimMappings.roles", "an entry has no roles of its own");
    assert_eq!(directory(", roles: [opencloudUser], claimMappings: {roles: {expression: '[\"opencloudUser\"]'}}"), []);
}

#[test]
fn t54_a_tenants_own_connector_gives_no_role_over_the_instance() {
    let people = |roles: &str| {
        format!("{GOOD}tenants: [{{id: a}}]\nconnectors:\n- {{id: corp, type: file, tenant: {{fixed: a}}, users: [], roles: [{roles}]}}\n")
    };
    let only = "the role reaches over all tenants of OpenCloud, and only a connector with `operatedBy: operator` may give it";
    for role in ["opencloudAdmin", "opencloudSpaceAdmin"] {
        assert_eq!(faults(&people(&format!("opencloudUser, {role}"))), [format!("6:80: connectors[0].roles[1]: {only}")]);
    }
    assert!(load(&people("opencloudUser, opencloudGuest")).is_ok());
}

#[test]
fn t57_no_reviewer_stands_for_opencloud() {
    let reviewer =
        |audience: &str| format!("{GOOD}reviewers: [{{id: kube, bearerToken: 0123456789abcdef, audiences: [kube, '{audience}']}}]\n");
    assert_eq!(
        faults(&reviewer("https://cloud.example")),
        [
            "4:73: reviewers[0].audiences[1]: it is OpenCloud's, and whoever has a token of OpenCloud's would be let in; give the reviewer an audience of its own"
        ]
    );
    assert!(load(&reviewer("https://cloud.example:8443")).is_ok());
}
