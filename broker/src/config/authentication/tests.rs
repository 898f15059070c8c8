//! What the file lends, where its faults are told, and the texts about names.

use std::{fs, path::Path};

use tempfile::TempDir;

use crate::config::{Fault, Faults, Loaded, load};

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

/// Loads a configuration beside a file of this content.
fn loaded(file: &str, connectors: &str) -> (TempDir, Result<Loaded, Faults>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("auth.yaml"), file).unwrap();
    let text = format!(
        "issuer: https://id.example\nauthenticationConfiguration: auth.yaml\ntenants: [{{id: Acme Corporation, label: acme}}, {{id: b}}]\nconnectors:\n{connectors}"
    );
    fs::write(folder.path().join("d.yaml"), text).unwrap();
    let loaded = load(&folder.path().join("d.yaml"));
    (folder, loaded)
}

fn lines(folder: &Path, list: &[Fault]) -> String {
    let lines: Vec<_> = list.iter().map(|fault| fault.line("d.yaml")).collect();
    lines.join("\n").replace(&format!("{}/", folder.display()), "")
}

fn faults(file: &str, connectors: &str) -> String {
    let (folder, loaded) = loaded(file, connectors);
    lines(folder.path(), loaded.unwrap_err().list())
}

fn warnings(file: &str, connectors: &str) -> String {
    let (folder, loaded) = loaded(file, connectors);
    lines(folder.path(), &loaded.unwrap().warnings)
}

const SSO: &str =
    "  - {id: sso, type: oidc, tenant: {fixed: Acme Corporation}, acceptTokens: true, issuer: {url: 'https://sso.example'}}\n";

fn entry(mappings: &str) -> String {
    format!("{HEAD}jwt:\n  - issuer: {{url: 'https://sso.example', audiences: [kube]}}\n    claimMappings:\n{mappings}")
}

#[test]
fn a_connector_takes_what_its_own_entry_does_not_give() {
    let file = format!(
        "{HEAD}jwt:
  - issuer: {{url: 'https://sso.example', discoveryURL: 'https://inside.example/d', audiences: [kube, other], audienceMatchPolicy: MatchAny}}
    claimValidationRules: [{{claim: hd, requiredValue: acme.example}}]
    claimMappings:
      username: {{claim: upn, prefix: ''}}
      groups: {{claim: teams, prefix: ''}}
      uid: {{claim: oid}}
      extra: [{{key: acme.example/department, valueExpression: claims.department}}]
    userValidationRules: [{{expression: \"!user.username.startsWith('x')\", message: no x}}]
"
    );
    let own = "  - {id: sso, type: oidc, tenant: {fixed: b}, acceptTokens: true, issuer: {url: 'https://sso.example'}, claimMappings: {groups: {claim: own}}}\n";
    let (_folder, loaded) = loaded(&file, own);
    let loaded = loaded.unwrap();
    let config = &loaded.connectors[0].config;
    insta::assert_json_snapshot!(serde_json::json!({"mapping": config.mapping, "upstream": config.upstream}));
}

#[test]
fn the_files_faults_have_their_place_in_it() {
    let file = format!(
        "{HEAD}jwt:
  - issuer: {{url: 'https://sso.example', audiences: [kube]}}
    claimMappings:
      username: {{expression: 'claims.a +'}}
      extra: [{{key: K, valueExpression: claims.b}}]
  - issuer: {{url: 'https://other.example', audiences: [kube]}}
    claimMappings: {{username: {{claim: sub, prefix: ''}}}}
  - issuer: {{url: 'https://sso.example', audiences: [kube]}}
    claimMappings: {{username: {{claim: sub, prefix: ''}}}}
  - issuer: {{url: 'https://x.example', audience: kube}}
    claimMapping: {{}}
"
    );
    insta::assert_snapshot!(faults(&file, SSO));
}

#[test]
fn no_rule_of_the_file_is_dropped_in_silence() {
    let rules = "    claimValidationRules: [{claim: hd, requiredValue: acme.example}]\n    userValidationRules: [{expression: \"user.username != 'x'\", message: no x}]\n";
    let file = format!("{}{rules}", entry("      username: {claim: sub, prefix: ''}\n"));
    let with = |own: &str| SSO.replace("acceptTokens", &format!("{own}, acceptTokens"));
    let found = faults(&file, &with("claimValidationRules: [{claim: team, requiredValue: x}]"));
    let fault = "connectors[0].claimValidationRules: these stand in place of the `claimValidationRules` that auth.yaml has for this issuer";
    assert!(found.lines().count() == 1 && found.contains(fault), "{found}");
    let found = faults(&file, &with("userValidationRules: [{expression: 'true', message: all}]"));
    assert!(found.lines().count() == 1 && found.contains("connectors[0].userValidationRules: these stand"), "{found}");
    // Those that are there besides are the operator's to choose.
    let more = "claimValidationRules: [{claim: team, requiredValue: x}, {claim: hd, requiredValue: acme.example}]";
    assert!(loaded(&file, &with(more)).1.is_ok());
    assert!(loaded(&file, SSO).1.is_ok());
}

#[test]
fn another_kind_of_file_is_refused() {
    insta::assert_snapshot!(faults("apiVersion: v1\nkind: Config\nusers: []\n", SSO));
    insta::assert_snapshot!(faults("jwt: [", SSO));
    let many: String = (0..65)
        .map(|n| {
            format!(
                "  - {{issuer: {{url: 'https://s{n}.example', audiences: [k]}}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}}}\n"
            )
        })
        .collect();
    assert!(faults(&format!("{HEAD}jwt:\n{many}"), SSO).contains("auth.yaml:4:3: jwt: the API server takes at most 64 entries"));
    let absent = "issuer: https://id.example\nauthenticationConfiguration: nowhere.yaml\n";
    let absent = crate::config::load_text(absent, Path::new("/nowhere"), "d.yaml").unwrap_err().to_string();
    assert_eq!(absent, "d.yaml:2:30: authenticationConfiguration: the file can not be read: No such file or directory (os error 2)");
}

#[test]
fn names_that_come_out_otherwise_are_told_with_examples() {
    let plain = entry("      username: {claim: sub, prefix: ''}\n      groups: {claim: groups, prefix: 'sso-'}\n      uid: {claim: sub}\n");
    insta::assert_snapshot!(warnings(&plain, SSO));
    let colons = entry("      username: {claim: sub, prefix: 'oidc:'}\n      groups: {claim: groups, prefix: 'oidc:'}\n");
    insta::assert_snapshot!(warnings(&colons, SSO));
    let mapped = SSO.replace("tenant: {fixed: Acme Corporation}", "tenants: [b]");
    insta::assert_snapshot!(warnings(&entry("      username: {expression: claims.sub}\n"), &mapped));
    // What the connector gives itself is what counts.
    let own = SSO.replace("acceptTokens", "claimMappings: {username: {claim: sub, prefix: ''}}, acceptTokens");
    insta::assert_snapshot!(warnings(&entry("      username: {claim: sub, prefix: 'oidc:'}\n"), &own));
    let off = SSO.replace("acceptTokens: true", "clientId: denizen");
    insta::assert_snapshot!(warnings(&format!("{plain}anonymous: {{enabled: true}}\n"), &off));
}
