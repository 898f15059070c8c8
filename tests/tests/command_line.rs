//! The command line and the files of `deploy/`: what is good loads, and what is wrong is said, all of it, with its place.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use denizen_tests::{
    Authority, Configuration,
    broker::{Said, command, program},
    configuration::hash,
};
use serde_json::json;
use tempfile::TempDir;

fn check(path: &Path) -> Said {
    command(&["config", "check", "--config", path.to_str().unwrap()])
}

fn check_text(text: &str) -> Said {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("denizen.yaml");
    fs::write(&path, text).unwrap();
    check(&path)
}

fn everything(said: &Said) -> String {
    format!("{}{}", said.out, said.err)
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy")
}

/// A copy of a configuration, with every file that it names under `/etc`, `/var` or `/run` made in a folder of the test's.
fn staged(path: &Path, folder: &Path) -> PathBuf {
    let authority = Authority::new("examples");
    let files = authority.server(folder, "tls", &["id.example.com"]);
    let text = fs::read_to_string(path).unwrap();
    let mut staged = String::new();
    for line in text.lines() {
        let Some(at) = ["/etc/", "/var/", "/run/"].iter().find_map(|root| line.find(root)) else {
            staged.push_str(&format!("{line}\n"));
            continue;
        };
        let (before, rest) = line.split_at(at);
        let end = rest.find([' ', ',', '"', '}', ']']).unwrap_or(rest.len());
        let (file, after) = rest.split_at(end);
        let name = folder.join(file.rsplit('/').next().unwrap());
        match name.extension().and_then(|e| e.to_str()) {
            Some("crt") if file.ends_with("tls.crt") => assert_eq!(name, files.certificate),
            Some("crt") => _ = authority.write(&name),
            Some("pem") => _ = fs::copy(&files.key, &name).unwrap(),
            Some("key" | "redb" | "sock") => {}
            None if file.ends_with("sealing-key") => fs::write(&name, "5e".repeat(32)).unwrap(),
            _ => fs::write(&name, "a-secret-in-a-file\n").unwrap(),
        }
        staged.push_str(&format!("{before}{}{after}\n", name.display()));
    }
    let copy = folder.join("staged.yaml");
    fs::write(&copy, staged).unwrap();
    copy
}

#[test]
fn every_example_configuration_loads() {
    let mut count = 0;
    for folder in fs::read_dir(deploy()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|e| e == "yaml") && fs::read_to_string(&file).unwrap().contains("\nissuer:") {
                let scratch = TempDir::new().unwrap();
                let said = check(&staged(&file, scratch.path()));
                assert_eq!(said.code, Some(0), "{}: {}", file.display(), everything(&said));
                count += 1;
            }
        }
    }
    assert!(count > 0, "there is an example");
}

#[test]
fn the_systemd_unit_starts_what_there_is() {
    let unit = fs::read_to_string(deploy().join("systemd/denizen.service")).unwrap();
    for key in ["ExecStartPre", "ExecStart"] {
        let line = unit.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).unwrap();
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("/usr/local/bin/denizen"));
        // With `--help` at its end the command line is read, and nothing is started.
        let output = program().args(words).arg("--help").output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    if let Ok(output) =
        std::process::Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(deploy().join("systemd/denizen.service")).output()
    {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for line in said.lines().filter(|line| line.contains("denizen.service")) {
            assert!(line.contains("not executable") || line.contains("No such file"), "{line}");
        }
    }
}

#[test]
fn a_good_configuration_passes_the_check() {
    let folder = TempDir::new().unwrap();
    let said = check_text(&Configuration::default().text("http://127.0.0.1:5556", 5556, 5558, folder.path()));
    assert_eq!(said.code, Some(0), "{}", everything(&said));
}

#[test]
fn every_fault_is_said_at_once_with_its_place_and_no_secret() {
    let text = r#"issuer: http://id.example
listn: {}
tenants:
  - { id: "a/b" }
  - { id: globex, label: kubeadm }
  - { id: GLOBEX }
connectors:
  - id: people
    type: file
    tenants: [globex, nobody]
    users:
      - { id: "1", tenant: globex, username: jane, password: "plain-text-password" }
  - id: people
    type: carrier-pigeon
clients:
  - { id: web, redirectUris: ["http://127.0.0.1/cb#f"], secret: "a-secret-of-a-client", audiences: 7 }
lifetimes: { codeSeconds: soon }
"#;
    let said = check_text(text);
    assert_eq!(said.code, Some(1));
    let all = everything(&said);
    for place in [":1:", ":2:", ":4:", ":5:", ":14:", ":16:", ":17:"] {
        assert!(all.contains(&format!("denizen.yaml{place}")), "nothing is said of line {place}\n{all}");
    }
    for secret in ["plain-text-password", "a-secret-of-a-client"] {
        assert!(!all.contains(secret), "{all}");
    }
}

#[test]
fn what_is_no_configuration_is_refused_in_words() {
    for text in [
        "",
        "issuer",
        "[]",
        "{",
        "issuer: http://127.0.0.1:1\nissuer: http://127.0.0.1:2\n",
        "\t:",
        "a: &x [*x]",
        "issuer: ${NOT_SET_ANYWHERE}",
    ] {
        let said = check_text(text);
        assert_eq!(said.code, Some(1), "{text:?} is taken: {}", everything(&said));
        assert!(!everything(&said).trim().is_empty() && !everything(&said).contains("panicked"), "{text:?}");
    }
    let absent = command(&["config", "check", "--config", "/nowhere/denizen.yaml"]);
    assert_eq!(absent.code, Some(1));
    assert!(everything(&absent).contains("/nowhere/denizen.yaml"));
    assert_eq!(command(&["config", "check"]).code, Some(2));
}

#[test]
fn a_wrong_configuration_is_not_served() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("denizen.yaml");
    let text = Configuration::default().with("/surplus", 1).text("http://127.0.0.1:1", 1, 2, folder.path());
    fs::write(&path, text).unwrap();
    let said = command(&["serve", "--config", path.to_str().unwrap()]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("surplus"), "{}", said.err);
}

#[test]
fn the_schema_is_one_for_editors() {
    let schema = command(&["config", "schema"]).json();
    assert!(schema["$schema"].is_string());
    for key in ["issuer", "tenants", "connectors", "clients", "reviewers", "lifetimes"] {
        assert!(schema["properties"].get(key).is_some(), "{key} is missing");
    }
    assert_eq!(schema["additionalProperties"], json!(false));
}

#[test]
fn the_demo_walks_by_itself() {
    let said = command(&["demo", "--once"]);
    assert_eq!(said.code, Some(0), "{}", everything(&said));
    for shown in ["acme", "globex", "acme:", "authenticated"] {
        assert!(said.out.contains(shown), "{shown} is not shown:\n{}", said.out);
    }
}

#[test]
fn claims_are_explained() {
    let folder = TempDir::new().unwrap();
    let (path, claims) = (folder.path().join("denizen.yaml"), folder.path().join("claims.json"));
    fs::write(&path, Configuration::default().text("http://127.0.0.1:1", 1, 2, folder.path())).unwrap();
    let explain = |value: serde_json::Value| {
        fs::write(&claims, value.to_string()).unwrap();
        let (path, claims) = (path.to_str().unwrap(), claims.to_str().unwrap());
        command(&["claims", "explain", "--config", path, "--connector", "people", "--claims", claims])
    };
    let good = explain(json!({"id": "a1", "username": "jane", "tenant": "acme", "groups": ["staff"]}));
    assert_eq!(good.code, Some(0), "{}", everything(&good));
    assert!(good.out.contains("jane") && good.out.contains("acme"), "{}", good.out);
    let none = explain(json!({"id": "a1", "username": "jane"}));
    assert_eq!(none.code, Some(1), "without a tenant there is no identity: {}", none.out);
}

#[test]
fn a_hashed_password_is_one_that_the_file_connector_takes() {
    use std::{io::Write as _, process::Stdio};
    let mut child = program().args(["users", "hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.trim().starts_with("$argon2id$"), "{text}");
    let mut configuration = Configuration::default();
    configuration.set("/connectors/0/users/0/password", text.trim());
    let folder = TempDir::new().unwrap();
    assert_eq!(check_text(&configuration.text("http://127.0.0.1:1", 1, 2, folder.path())).code, Some(0));
    configuration.set("/connectors/0/users/0/password", hash("x").replace("$argon2id$", "$argon2x$"));
    assert_eq!(check_text(&configuration.text("http://127.0.0.1:1", 1, 2, folder.path())).code, Some(1));
}

const FLAGS: [&str; 7] = [
    "--keystone-url=https://keystone.example:5000/v3",
    "--keystone-ca-file=ca.crt",
    "--tls-cert-file=tls.crt",
    "--tls-private-key-file",
    "tls.key",
    "--listen=127.0.0.1:8443",
    "--keystone-policy-file=/etc/policy.json",
];

fn import(arguments: &[&str]) -> Said {
    command(&[&["config", "import", "keystone-auth", "--tenant", "acme=0a1b2c", "--tenant", "globex=default"], arguments].concat())
}

#[test]
fn an_imported_configuration_wants_its_blanks_filled_in_and_then_passes() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let output = at("denizen.yaml");
    let (path, issuer) = (output.to_str().unwrap().to_owned(), ["--issuer", "https://id.example.com", "--output"]);
    let said = import(&[&issuer[..], &[&path, "--"], &FLAGS].concat());
    assert_eq!(said.code, Some(2), "a policy can not be translated: {}", everything(&said));
    for told in ["--keystone-url: connectors[0].url", "--keystone-policy-file: NOT TRANSLATED: "] {
        assert!(said.err.contains(told), "{told}: {}", said.err);
    }
    let authority = Authority::new("import");
    let files = authority.server(folder.path(), "tls", &["id.example.com"]);
    assert_eq!((files.certificate, files.key), (at("tls.crt"), at("tls.key")));
    assert_eq!(authority.write(&at("ca.crt")), at("ca.crt"));
    let blanks = [
        ("KEYSTONE_SERVICE_USER", "denizen".to_owned()),
        ("KEYSTONE_SERVICE_USER_DOMAIN_ID", "default".to_owned()),
        ("KEYSTONE_SERVICE_PASSWORD_FILE", at("password").display().to_string()),
        ("KUBE_APISERVER_TOKEN_FILE", at("token").display().to_string()),
    ];
    fs::write(at("password"), "a-password-of-a-service\n").unwrap();
    fs::write(at("token"), "a-token-of-an-api-server\n").unwrap();
    let blank = check(&output);
    assert_eq!(blank.code, Some(1));
    for (name, _) in &blanks {
        assert!(everything(&blank).contains(&format!("the environment variable {name} is not set")), "{}", everything(&blank));
    }
    let text = fs::read_to_string(&output).unwrap();
    let filled = blanks.iter().fold(text.clone(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value));
    fs::write(at("filled.yaml"), filled).unwrap();
    let good = check(&at("filled.yaml"));
    assert_eq!(good.code, Some(0), "{}", everything(&good));
    assert!(good.out.contains("2 tenants, 1 connectors, 0 clients, 1 reviewers"), "{}", good.out);
    // Nothing is overwritten.
    let again = import(&[&issuer[..], &[&path, "--"], &FLAGS].concat());
    assert_eq!((again.code, fs::read_to_string(&output).unwrap()), (Some(1), text));
}

#[test]
fn bindings_get_the_new_names_and_a_report_for_programs() {
    const PROJECT: &str = "423d41d3a02f4b77b4a9bbfbc3a1b3c6";
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let binding = format!(
        "# by hand\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: view\n  namespace: web\nsubjects:\n- kind: User\n  name: alice # a comment\n- kind: Group\n  name: {PROJECT}\n- kind: Group\n  name: system:masters\n"
    );
    fs::write(at("rbac.yaml"), &binding).unwrap();
    let (rbac, report) = (at("rbac.yaml"), at("report.json"));
    let said = import(&["--rbac", &rbac, "--subject", "alice=globex", "--report", &report, "--report-format", "json"]);
    assert_eq!(said.code, Some(0), "{}", everything(&said));
    let expected = binding
        .replace("name: alice #", "name: \"globex:alice\" #")
        .replace(&format!("  name: {PROJECT}\n"), &format!("  name: \"acme:{PROJECT}\"\n- kind: Group\n  name: \"globex:{PROJECT}\"\n"));
    assert_eq!(said.out, expected);
    let told: serde_json::Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let told: Vec<_> =
        told["subjects"].as_array().unwrap().iter().map(|s| (s["line"].clone(), s["outcome"].clone(), s["becomes"].clone())).collect();
    let projects = json!([format!("acme:{PROJECT}"), format!("globex:{PROJECT}")]);
    assert_eq!(
        told,
        [
            (json!(9), json!("translated"), json!(["globex:alice"])),
            (json!(11), json!("translated"), projects),
            (json!(13), json!("kept"), json!([]))
        ]
    );
    fs::write(at("subjects"), "# whose they are\n\nuser:alice=acme\ngroup:423d41d3a02f4b77b4a9bbfbc3a1b3c6=acme\n").unwrap();
    let narrow = import(&["--rbac", &rbac, "--subjects-file", &at("subjects")]);
    assert_eq!((narrow.code, narrow.out.contains("globex:")), (Some(0), false), "{}", everything(&narrow));
    assert!(narrow.out.contains("\"acme:alice\" # a comment") && narrow.out.contains(&format!("\"acme:{PROJECT}\"")), "{}", narrow.out);
    // Whose alice it is is not guessed: she stays, and it is said.
    let open = import(&["--rbac", &rbac]);
    assert_eq!(open.code, Some(2));
    assert!(open.out.contains("  name: alice # a comment\n") && open.err.contains("User alice: NOT TRANSLATED"), "{}", everything(&open));
    for wrong in [&["--rbac", "/nowhere.yaml"][..], &[], &["--rbac", &rbac, "--", "--listen=:1"]] {
        let said = import(wrong);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{wrong:?}");
    }
}
