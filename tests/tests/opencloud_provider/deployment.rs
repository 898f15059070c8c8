//! The files of `deploy/opencloud`: they say the same of the same thing, and OpenCloud knows every name.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

/// The names that OpenCloud 7 reads, of those that matter here.
const KNOWN: [&str; 24] = [
    "GATEWAY_GROUPS_ENDPOINT",
    "GATEWAY_USERS_ENDPOINT",
    "GRAPH_ASSIGN_DEFAULT_USER_ROLE",
    "GRAPH_IDENTITY_BACKEND",
    "GRAPH_USERNAME_MATCH",
    "GROUPS_DRIVER",
    "OC_ADMIN_USER_ID",
    "OC_EXCLUDE_RUN_SERVICES",
    "OC_GRPC_CLIENT_TLS_MODE",
    "OC_JWT_SECRET",
    "OC_MULTI_TENANT_ENABLED",
    "OC_OIDC_ISSUER",
    "OC_URL",
    "PROXY_AUTOPROVISION_ACCOUNTS",
    "PROXY_CSP_CONFIG_FILE_LOCATION",
    "PROXY_OIDC_REWRITE_WELLKNOWN",
    "PROXY_ROLE_ASSIGNMENT_DRIVER",
    "PROXY_TENANT_ID_MAPPING_ENABLED",
    "PROXY_TENANT_OIDC_CLAIM",
    "PROXY_TLS",
    "PROXY_USER_CS3_CLAIM",
    "PROXY_USER_OIDC_CLAIM",
    "SETTINGS_SETUP_DEFAULT_ASSIGNMENTS",
    "WEB_OIDC_CLIENT_ID",
];

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/opencloud").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The environment, each name once.
fn environment() -> BTreeMap<String, String> {
    let text = text("opencloud.env");
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect();
    let pairs: BTreeMap<_, _> = lines.iter().map(|line| line.split_once('=').unwrap()).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    assert_eq!(pairs.len(), lines.len(), "a name is given twice");
    pairs
}

#[test]
fn the_environment_has_known_names_and_no_secret() {
    let environment = environment();
    let unknown: Vec<_> = environment.keys().filter(|name| !KNOWN.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let missing: Vec<_> = KNOWN.iter().filter(|name| !environment.contains_key(**name) && **name != "OC_JWT_SECRET").collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!environment.contains_key("OC_JWT_SECRET"), "it is handed over as a secret");
}

#[test]
fn the_files_agree() {
    let (environment, denizen, compose, csp) = (environment(), yaml("denizen.yaml"), yaml("compose.yaml"), yaml("csp.yaml"));
    let cloud = &environment["OC_URL"];
    assert_eq!(
        (&denizen["opencloud"]["url"], &denizen["issuer"]),
        (&Value::from(cloud.as_str()), &Value::from(environment["OC_OIDC_ISSUER"].as_str()))
    );
    assert_eq!(environment["PROXY_TENANT_OIDC_CLAIM"], "tenant_id", "the claim that Denizen's tokens have");
    let socket = denizen["cs3"]["socket"]["path"].as_str().unwrap();
    for name in ["GATEWAY_USERS_ENDPOINT", "GATEWAY_GROUPS_ENDPOINT"] {
        assert_eq!(environment[name], format!("unix:{socket}"));
    }
    for service in ["denizen", "opencloud"] {
        let volumes = compose["services"][service]["volumes"].as_array().unwrap();
        let folder = Path::new(socket).parent().unwrap().to_str().unwrap();
        assert!(volumes.iter().any(|volume| volume == &format!("socket:{folder}")), "{service}: {volumes:?}");
        assert!(compose["services"][service]["secrets"].as_array().unwrap().contains(&Value::from("oc-jwt-secret")), "{service}");
    }
    let secret = "/run/secrets/oc-jwt-secret";
    assert_eq!(denizen["cs3"]["jwtSecretFile"], secret);
    assert!(text("compose.yaml").contains(&format!("cat {secret}")));
    assert_eq!(denizen["listen"]["trustedProxies"][0], compose["networks"]["cloud"]["ipam"]["config"][0]["subnet"]);
    for name in [cloud, &environment["OC_OIDC_ISSUER"]] {
        let host = url::Url::parse(name).unwrap().host_str().unwrap().to_owned();
        assert!(compose["services"]["proxy"]["networks"]["cloud"]["aliases"].as_array().unwrap().contains(&Value::from(host.as_str())));
        assert!(compose["configs"]["caddyfile"]["content"].as_str().unwrap().contains(&format!("{host} {{")));
    }
    for directive in ["connect-src", "frame-src"] {
        let sources = csp["directives"][directive].as_array().unwrap();
        assert!(sources.contains(&Value::from(format!("{}/", environment["OC_OIDC_ISSUER"]))) && sources.contains(&Value::from("'self'")));
    }
    let location = format!("./csp.yaml:{}:ro", environment["PROXY_CSP_CONFIG_FILE_LOCATION"]);
    assert!(compose["services"]["opencloud"]["volumes"].as_array().unwrap().contains(&Value::from(location)));
}

#[test]
fn opencloud_is_initialized_without_a_question() {
    let command = yaml("compose.yaml")["services"]["opencloud"]["command"][0].as_str().unwrap().to_owned();
    let init = command.lines().find(|line| line.contains("opencloud init")).unwrap();
    // Unanswered, it would ask about certificates again and again.
    assert!(init.contains("--insecure=no"), "{init}");
}

#[test]
fn no_secret_gets_into_the_image() {
    let ignored = text("../Containerfile.dockerignore");
    assert!(ignored.lines().any(|line| line == "deploy"), "{ignored}");
}

#[test]
fn every_image_is_pinned() {
    let containers = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/Containerfile");
    let text = fs::read_to_string(containers).unwrap();
    let bases = text.lines().filter_map(|line| line.strip_prefix("FROM ")).map(|line| line.split(' ').next().unwrap().to_owned());
    let compose = yaml("compose.yaml");
    let services = compose["services"].as_object().unwrap().values().map(|service| service["image"].as_str().unwrap().to_owned());
    for image in bases.chain(services) {
        let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{image} has no tag"));
        assert!(tag != "latest" && !tag.contains('/'), "{image}");
    }
}
