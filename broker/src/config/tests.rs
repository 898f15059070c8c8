//! Each fault with its place, and that no fault tells a secret.

use std::path::Path;

use proptest::prelude::*;

use super::{Faults, Loaded, faults::Fault, load::load_with};

const ENVIRONMENT: [(&str, &str); 4] =
    [("SECRET", "hunter2-hunter2"), ("SECONDS", "90"), ("HOST", "id.example"), ("YAML", "x: [1, {y: ${SECRET}}]")];

fn lookup(name: &str) -> Option<Result<String, ()>> {
    if name == "BINARY" {
        return Some(Err(()));
    }
    ENVIRONMENT.iter().find(|(known, _)| *known == name).map(|(_, value)| Ok((*value).to_owned()))
}

fn load_in(text: &str, folder: &Path) -> Result<Loaded, Faults> {
    load_with(text, folder, "d.yaml", &lookup)
}

fn load(text: &str) -> Result<Loaded, Faults> {
    load_in(text, Path::new("/nowhere"))
}

/// The faults of a text that follows a right issuer, one per line.
fn faults(rest: &str) -> Vec<String> {
    let text = format!("issuer: https://id.example\n{rest}");
    let faults = load(&text).expect_err(&text);
    faults.to_string().lines().map(|line| line.strip_prefix("d.yaml:").unwrap().to_owned()).collect()
}

/// Each row: the text after the issuer (so that it begins at line 2), and every fault of it.
#[track_caller]
fn check(rows: &[(&str, &[&str])]) {
    let mut wrong = String::new();
    for (text, expected) in rows {
        let found = faults(text);
        if found != *expected {
            wrong += &format!("{text}\n  found:\n    {}\n  expected:\n    {}\n", found.join("\n    "), expected.join("\n    "));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

const USERS: &str = "users: [{id: u1, username: ann}]";

#[test]
fn texts_that_are_no_yaml() {
    check(&[
        ("listen: [1\nkeys: x\n", &["3:5: this is not YAML: look at the indentation, and at quotes, brackets and colons here and before"]),
        ("clients: *nothing\n", &["2:10: the alias has no anchor; a text that begins with `*` stands in quotes"]),
        ("search: {}\nsearch: {}\nlissten: {}\n", &["3:1: the key is given twice; keep one", "4:1: lissten: unknown key; is it `listen`?"]),
        ("---\nissuer: x\n", &["3:1: the file holds more than one YAML document; keep one"]),
    ]);
    assert_eq!(load("").unwrap_err().to_string(), "d.yaml:1:1: it must be keys with values");
    assert_eq!(load("- 1").unwrap_err().to_string(), "d.yaml:1:1: it must be keys with values");
    assert_eq!(load("{}").unwrap_err().to_string(), "d.yaml:1:1: `issuer` is missing");
}

#[test]
fn domains_hosts_and_refusals() {
    let host = "it must be a host name in lower case, without port or final dot; an international one as `xn--…`";
    check(&[
        (
            "tenants:\n- {id: acme, emailDomains: [acme.example, Acme.example, jane@acme.example]}\n- {id: globex, emailDomains: [acme.example, globex]}\n",
            &[
                &format!("3:43: tenants[0].emailDomains[1]: {host}"),
                &format!("3:57: tenants[0].emailDomains[2]: {host}"),
                "4:31: tenants[1].emailDomains[0]: the tenant at line 3 has it already",
                "4:45: tenants[1].emailDomains[1]: a domain without a dot would be taken for a tenant's label",
            ],
        ),
        (
            "tenants:\n- {id: acme, hosts: [id.example, acme.id.example, 'acme.id.example:8443']}\n- {id: globex, hosts: [acme.id.example]}\n",
            &[
                "3:22: tenants[0].hosts[0]: it is the issuer's own host, where all tenants are",
                &format!("3:51: tenants[0].hosts[2]: {host}"),
                "4:24: tenants[1].hosts[0]: the tenant at line 3 has it already",
            ],
        ),
        ("refusals: {keptSeconds: 59}\n", &["2:25: refusals.keptSeconds: it must be 60 to 2678400"]),
        ("refusals: {keptSeconds: 2678401}\n", &["2:25: refusals.keptSeconds: it must be 60 to 2678400"]),
    ]);
    load("issuer: https://id.example\ntenants: [{id: acme, emailDomains: [xn--bcher-kva.example], hosts: [acme.id.example]}]\n").unwrap();
}

#[test]
fn keys_and_kinds() {
    check(&[
        ("isuer: x\n", &["2:1: isuer: unknown key; is it `issuer`?"]),
        ("store:\n  folder: x\n", &["3:3: store.folder: unknown key; known here are `file`, `redis`, `sealingKeyFile`"]),
        (
            "\"not a key: hunter2\": x\n",
            &[
                "2:1: …: unknown key; known here are `authenticationConfiguration`, `branding`, `clients`, `connectors`, `createTenants`, `cs3`, `defaultTenant`, `guessing`, `issuer`, `keys`, `lifetimes`, `listen`, `opencloud`, `presets`, `refusals`, `reservedLabels`, `reviewers`, `search`, `sharing`, `store`, `systemTenant`, `tenants`",
            ],
        ),
        ("tenants:\n  acme: {}\n", &["3:3: tenants: it must be a list"]),
        ("tenants:\n", &["2:8: tenants: it must be a list"]),
        ("tenants: [{label: acme}]\n", &["2:11: tenants[0]: `id` is missing"]),
        ("tenants:\n  - id: 7\n", &["3:9: tenants[0].id: it must be a text; put it in quotes"]),
        ("search: {pageSize: many}\n", &["2:20: search.pageSize: it must be a whole number"]),
        ("search: {pageSize: -1}\n", &["2:20: search.pageSize: it must be at least 0"]),
        ("guessing: {accountBurst: 4294967296}\n", &["2:26: guessing.accountBurst: it must be at most 4294967295"]),
        ("createTenants: yes\n", &["2:16: createTenants: it must be `true` or `false`"]),
        ("keys: {algorithms: [HS256]}\n", &["2:21: keys.algorithms[0]: it must be `ES256`, `RS256` or `EdDSA`"]),
        (
            "listen: {address: localhost}\n",
            &["2:19: listen.address: it must be an IP address and a port, as `127.0.0.1:5556` or `[::]:5556`"],
        ),
        ("tenants:\n  - id: a/b\n", &["3:9: tenants[0].id: it holds a character that is not allowed: no `/` and no control characters"]),
        (
            "tenants:\n  - id: a\n    label: Acme\n",
            &["4:12: tenants[0].label: it holds a character that is not allowed: lower-case letters, digits and inner hyphens only"],
        ),
        ("tenants:\n  - id: a\n    label: kubeadm\n", &["4:12: tenants[0].label: the name is reserved"]),
        (
            "tenants: [{id: a, externalIds: {A_B: x}}]\n",
            &[
                "2:33: tenants[0].externalIds.A_B: it holds a character that is not allowed: lower-case letters, digits and inner hyphens only",
            ],
        ),
    ]);
    assert_eq!(
        load("issuer: id.example").unwrap_err().to_string(),
        "d.yaml:1:9: issuer: it must be an address with its scheme, as `https://id.example`"
    );
}

#[test]
fn the_environment() {
    check(&[
        ("clients:\n  - id: ${NONE}\n", &["3:9: clients[0].id: the environment variable NONE is not set"]),
        ("clients: [{id: \"a${BINARY}\"}]\n", &["2:16: clients[0].id: the environment variable BINARY is not UTF-8"]),
        (
            "clients: [{id: \"a${no end\"}]\n",
            &[
                "2:16: clients[0].id: `${` begins the name of an environment variable and ends with `}`: letters, digits and `_`; write `$${` for `${` itself",
            ],
        ),
        ("search: {pageSize: \"${HOST}\"}\n", &["2:20: search.pageSize: it must be a whole number"]),
    ]);
    let text = "issuer: https://${HOST}/\nlifetimes: {codeSeconds: \"${SECONDS}\"}\nclients:\n  - {id: app, secret: \"${YAML}\", redirectUris: ['https://a.example/'], audiences: ['${issuer}/api'], displayName: 'a $${HOST} b'}\n";
    let loaded = load(text).unwrap();
    assert_eq!(loaded.config.issuer.as_str(), "https://id.example/");
    assert_eq!(loaded.config.lifetimes.code_seconds, 90);
    let client = &loaded.config.clients[0];
    assert_eq!(client.audiences, ["https://id.example/api"]);
    assert_eq!(client.display_name.as_deref(), Some("a ${HOST} b"));
    let secret = connectors::Secret::read(client.secret.as_ref(), None).unwrap().unwrap();
    assert_eq!(secret.expose(), "x: [1, {y: ${SECRET}}]", "what is filled in is not looked through again");
}

#[test]
fn the_issuer() {
    let fault = |issuer: &str| load(&format!("issuer: {issuer}\n")).map(|_| ()).map_err(|faults| faults.list()[0].message.clone());
    for good in [
        "https://id.example",
        "https://id.example/",
        "https://id.example:8443",
        "http://127.0.0.1:5556",
        "http://localhost:5556",
        "http://[::1]",
    ] {
        assert_eq!(fault(good), Ok(()), "{good}");
    }
    for bad in ["http://id.example", "ftp://127.0.0.1", "http://127.0.0.1.evil.example"] {
        assert_eq!(fault(bad).unwrap_err(), "it must be https; plain http is for loopback addresses", "{bad}");
    }
    for bad in ["https://id.example/a", "https://id.example?a", "'https://id.example#a'"] {
        assert_eq!(fault(bad).unwrap_err(), "it must end after the host and its port: no path, query or fragment", "{bad}");
    }
    assert_eq!(fault("https://me:pw@id.example").unwrap_err(), "it must have a host, and neither user nor password");
}

#[test]
fn listeners() {
    check(&[
        (
            "listen:\n  address: 0.0.0.0:5556\n",
            &[
                "3:12: listen.address: passwords and tokens would cross the network in the clear: give `tls`, or `behindProxy: true` where TLS ends at a proxy",
            ],
        ),
        (
            "listen: {address: '127.0.0.1:1', adminAddress: '127.0.0.1:1'}\n",
            &["2:48: listen.adminAddress: it must not be the same as `address`"],
        ),
        (
            "listen: {trustedProxies: [10.0.0.1, 10.0.0.0/33, proxy]}\n",
            &[
                "2:37: listen.trustedProxies[1]: it must be an IP address or a prefix, as `10.0.0.7` or `10.0.0.0/8`",
                "2:50: listen.trustedProxies[2]: it must be an IP address or a prefix, as `10.0.0.7` or `10.0.0.0/8`",
            ],
        ),
        (
            "listen:\n  address: 0.0.0.0:1\n  tls: {certificateFile: absent.pem, keyFile: /absent.pem}\n",
            &[
                "4:26: listen.tls.certificateFile: the file can not be read: No such file or directory (os error 2)",
                "4:47: listen.tls.keyFile: the file can not be read: No such file or directory (os error 2)",
            ],
        ),
    ]);
    let loaded = load("issuer: https://id.example\nlisten: {address: '0.0.0.0:1', behindProxy: true}\n").unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert_eq!(loaded.warnings[0].path, "listen.behindProxy");
}

#[test]
fn numbers() {
    check(&[
        (
            "lifetimes:\n  codeSeconds: 0\n  accessTokenSeconds: 86401\n",
            &["3:16: lifetimes.codeSeconds: it must be 1 to 600", "4:23: lifetimes.accessTokenSeconds: it must be 1 to 86400"],
        ),
        ("keys: {rotationSeconds: 100, overlapSeconds: 101}\n", &["2:46: keys.overlapSeconds: it must be at most `rotationSeconds`"]),
        ("keys: {algorithms: []}\n", &["2:20: keys.algorithms: name at least one algorithm"]),
        (
            "search: {pageSize: 201, resultsMost: 199}\n",
            &["2:20: search.pageSize: it must be 1 to 200", "2:38: search.resultsMost: it must be at least `pageSizeMost`"],
        ),
        ("guessing: {spreadSeconds: 0}\n", &["2:27: guessing.spreadSeconds: it must be 1 to 86400"]),
    ]);
}

#[test]
fn tenants() {
    check(&[
        ("tenants:\n  - id: acme\n  - id: acme\n", &["4:9: tenants[1].id: the tenant at line 3 has this id already"]),
        (
            "tenants:\n  - id: acme\n  - id: ＡＣＭＥ\n    label: other\n",
            &["4:9: tenants[1].id: the tenant at line 3 has an id that looks the same (only case or width differ)"],
        ),
        (
            "tenants:\n  - id: System\n",
            &["3:9: tenants[0].id: `system`, however it is written, is the tenant of the operators; it stands under `systemTenant`"],
        ),
        (
            "tenants:\n  - {id: acme}\n  - {id: b, label: acme}\n",
            &["4:20: tenants[1].label: the tenant at line 3 has this label already; give it another `label`"],
        ),
        (
            "tenants:\n  - {id: b, label: acme}\n  - {id: acme}\n",
            &["4:10: tenants[1].id: the tenant at line 3 has this label already; give it another `label`"],
        ),
        (
            "reservedLabels: [ops]\ntenants: [{id: ops}]\n",
            &["3:16: tenants[0].id: its label is one of `reservedLabels`; give it another `label`"],
        ),
        (
            "tenants: [{id: a, displayName: ' '}]\n",
            &["2:32: tenants[0].displayName: it must be 1 to 255 characters, not all blank, without control characters"],
        ),
        ("tenants: [{id: a, connectors: [none]}]\n", &["2:32: tenants[0].connectors[0]: no connector has this id"]),
        ("tenants: [{id: a, externalIds: {none: x}}]\n", &["2:39: tenants[0].externalIds.none: no connector has this id"]),
        ("defaultTenant: acme\ntenants: [{id: a}, {id: b}]\n", &["2:16: defaultTenant: no tenant has this id"]),
        (
            "defaultTenant: system\nsystemTenant: {label: ops, connectors: [none]}\n",
            &[
                "2:16: defaultTenant: no one becomes an operator by default; name another tenant",
                "3:41: systemTenant.connectors[0]: no connector has this id",
            ],
        ),
        (
            "systemTenant: {label: ops, connectors: []}\n",
            &["2:40: systemTenant.connectors: name the connectors whose users may be operators"],
        ),
    ]);
}

/// A `file` connector of an operator with users of its own, and what else it says.
fn connector(rest: &str) -> String {
    format!("tenants: [{{id: a}}, {{id: b}}]\nconnectors:\n  - id: corp\n    type: file\n    {USERS}\n{rest}")
}

#[test]
fn connectors_of_no_or_another_shape() {
    check(&[
        ("connectors:\n  - {id: corp}\n", &["3:5: connectors[0]: `type` is missing: `file`, `keystone`, `ldap` or `oidc`"]),
        ("connectors:\n  - {id: corp, type: oracle}\n", &["3:22: connectors[0].type: it must be `file`, `keystone`, `ldap` or `oidc`"]),
        (
            "defaultTenant: a\ntenants: [{id: a}]\nconnectors:\n  - {id: corp, type: file, users: [], bindDn: x}\n",
            &[
                "5:39: connectors[0].bindDn: unknown key; known here are `claimMappings`, `claimValidationRules`, `deadlineSeconds`, `directory`, `disabled`, `displayName`, `id`, `ids`, `join`, `listed`, `operatedBy`, `path`, `roles`, `tenant`, `tenants`, `type`, `userValidationRules`, `users`",
            ],
        ),
        (
            "defaultTenant: a\ntenants: [{id: a}]\nconnectors:\n  - {id: corp, type: file, users: [], claimMappings: {user_name: {claim: x}, groups: {clam: x}}}\n",
            &[
                "5:55: connectors[0].claimMappings.user_name: unknown key; is it `username`?",
                "5:87: connectors[0].claimMappings.groups.clam: unknown key; is it `claim`?",
            ],
        ),
        (
            "connectors:\n  - {id: corp, type: file, users: [], tenants: some}\n",
            &["3:48: connectors[0].tenants: it must be `all` or a list"],
        ),
        ("connectors:\n  - {id: corp, type: file, users: [], tenant: a}\n", &["3:47: connectors[0].tenant: it must be keys with values"]),
        (
            "defaultTenant: a\ntenants: [{id: a}]\nconnectors:\n  - {id: corp, type: file, users: [], deadlineSeconds: 61}\n",
            &["5:56: connectors[0].deadlineSeconds: it must be 1 to 60"],
        ),
    ]);
}

#[test]
fn tenants_of_connectors() {
    let row = |rest: &str| faults(&connector(rest));
    let no_tenant = "4:5: connectors[0]: no tenant: give `tenant: { fixed: … }`, or `tenants` with `claimMappings.tenant`, or `defaultTenant` for all such connectors";
    assert_eq!(row(""), [no_tenant]);
    assert_eq!(row("    tenant: {fixed: c}\n"), ["7:21: connectors[0].tenant.fixed: no tenant has this id"]);
    assert_eq!(
        row("    tenant: {fixed: a}\n    tenants: [a]\n"),
        ["8:14: connectors[0].tenants: give either `tenant` (all users are of one tenant) or `tenants` (the mapping says which)"]
    );
    assert_eq!(
        row("    tenant: {fixed: a}\n    claimMappings: {tenant: {claim: x}}\n"),
        ["8:29: connectors[0].claimMappings.tenant: all users are of the tenant that `tenant.fixed` names; leave one of the two out"]
    );
    assert_eq!(
        row("    claimMappings: {tenant: {claim: x}}\n"),
        [
            "7:29: connectors[0].claimMappings.tenant: a tenant that is read from the user needs the allow-list `tenants`: a list of tenants, or `all`"
        ]
    );
    let users = row("    tenants: [a, c]\n");
    assert!(users.contains(&"7:18: connectors[0].tenants[1]: no tenant has this id".to_owned()), "{users:?}");
    let users = row("    tenants: []\n");
    assert!(users.contains(&"7:14: connectors[0].tenants: name at least one tenant, or `all`".to_owned()), "{users:?}");
    let closed = "tenants: [{id: a, connectors: []}]\nconnectors:\n  - {id: corp, type: file, users: [], tenant: {fixed: a}}\n";
    assert_eq!(
        faults(closed),
        ["4:55: connectors[0].tenant.fixed: the tenant's own list of connectors, at line 2, does not have this one"]
    );
}

#[test]
fn what_only_an_operators_connector_may() {
    let system = "systemTenant: {label: ops, connectors: [corp]}\nconnectors:\n  - id: corp\n    type: file\n    users: []\n";
    check(&[
        (
            &format!("{system}    tenant: {{fixed: system}}\n"),
            &[
                "2:41: systemTenant.connectors[0]: only a connector with `operatedBy: operator` may speak for the system tenant",
                "7:21: connectors[0].tenant.fixed: only a connector with `operatedBy: operator` may give the system tenant",
            ],
        ),
        (
            &format!("{system}    tenants: all\n    ids: verbatim\n"),
            &[
                "2:41: systemTenant.connectors[0]: only a connector with `operatedBy: operator` may speak for the system tenant",
                "7:14: connectors[0].tenants: only a connector with `operatedBy: operator` may speak for all tenants; list them",
                "8:10: connectors[0].ids: only a connector with `operatedBy: operator` may keep its upstream's ids; leave it out",
            ],
        ),
        (
            &format!("{system}    tenants: [system]\n"),
            &[
                "2:41: systemTenant.connectors[0]: only a connector with `operatedBy: operator` may speak for the system tenant",
                "7:15: connectors[0].tenants[0]: only a connector with `operatedBy: operator` may give the system tenant",
            ],
        ),
        (
            &format!("{system}    operatedBy: operator\n    tenant: {{fixed: a}}\ntenants: [{{id: a}}]\n"),
            &[
                "2:41: systemTenant.connectors[0]: the connector's own tenant rule never gives `system`; put `system` there, or leave the connector out here",
            ],
        ),
        (
            &connector("    tenant: {fixed: a}\n    roles: ['a:b']\n"),
            &["8:13: connectors[0].roles[0]: a role is not blank, and has no `:` and no control characters"],
        ),
    ]);
    let loaded = load(&format!("issuer: https://id.example\n{}", connector("    tenant: {fixed: a}\n    roles: [admin]\n"))).unwrap();
    assert_eq!(loaded.warnings.iter().map(|w| w.path.as_str()).collect::<Vec<_>>(), ["connectors[0].roles"]);
}

#[test]
fn names_at_connectors_name_one_tenant() {
    let text = |tenants: &str| format!("connectors: [{{id: corp, type: file, users: [], tenants: [a]}}]\ntenants:\n{tenants}");
    check(&[
        (
            &text("  - {id: a, externalIds: {corp: x}}\n  - {id: b, externalIds: {corp: x}}\n"),
            &["5:33: tenants[1].externalIds.corp: the tenant at line 4 has this name at the connector already"],
        ),
        (
            &text("  - {id: a, externalIds: {corp: b}}\n  - {id: b}\n"),
            &[
                "4:33: tenants[0].externalIds.corp: it is the id of the tenant at line 5, which has no name of its own at the connector; give that one a name too",
            ],
        ),
        (
            &text("  - {id: a, externalIds: {corp: ''}}\n"),
            &["4:33: tenants[0].externalIds.corp: it must be 1 to 255 characters without control characters"],
        ),
    ]);
}

#[test]
fn connectors_on_one_upstream() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("users.yaml"), "users: []\n").unwrap();
    let load = |a: &str, b: &str| {
        let text = format!(
            "issuer: https://id.example\ntenants: [{{id: a}}, {{id: b}}]\nconnectors:\n  - {{id: one, type: file, path: users.yaml, {a}}}\n  - {{id: two, type: file, path: ./users.yaml, {b}}}\n"
        )
        .replace("./users.yaml", "users.yaml");
        load_in(&text, folder.path()).map(|_| ()).map_err(|faults| faults.list().iter().map(|f| f.line("d")).collect::<Vec<_>>())
    };
    let fault = "d:5:5: connectors[1]: it has the same upstream as the connector at line 4, and no rule tells their users apart: give each `tenants` of its own with a tenant that is read from the user, or `claimValidationRules`, or another base, filter or `domainId`";
    assert_eq!(load("tenant: {fixed: a}", "tenant: {fixed: b}").unwrap_err(), [fault]);
    assert_eq!(load("tenants: [a, b]", "tenants: [b]").unwrap_err(), [fault]);
    assert_eq!(load("tenants: [a]", "tenants: [b]"), Ok(()));
    assert_eq!(load("tenant: {fixed: a}", "tenant: {fixed: b}, disabled: true"), Ok(()));
    let rule = |group| format!("claimValidationRules: [{{claim: team, requiredValue: {group}}}]");
    assert_eq!(load(&format!("tenant: {{fixed: a}}, {}", rule("x")), &format!("tenant: {{fixed: b}}, {}", rule("y"))), Ok(()));
    assert_eq!(
        load(&format!("tenant: {{fixed: a}}, {}", rule("x")), &format!("tenant: {{fixed: b}}, {}", rule("x"))).unwrap_err(),
        [fault]
    );
}

#[test]
fn connectors_on_one_issuer() {
    let load = |a: &str, b: &str| {
        let sso = |id: &str, url: &str, rest: &str| {
            format!("  - {{id: {id}, type: oidc, clientId: denizen, issuer: {{url: '{url}'}}, operatedBy: operator, {rest}}}\n")
        };
        let (a, b) = (sso("one", "https://sso.example", a), sso("two", "https://sso.example/", b));
        let faults = load(&format!("issuer: https://id.example\ntenants: [{{id: a}}, {{id: b}}]\nconnectors:\n{a}{b}")).err();
        faults.map(|faults| faults.list().iter().map(|fault| (fault.path.clone(), fault.place.unwrap().line)).collect::<Vec<_>>())
    };
    assert_eq!(load("tenant: {fixed: a}", "tenant: {fixed: b}"), Some(vec![("connectors[1]".to_owned(), 5)]));
    assert_eq!(load("tenants: [a]", "tenants: [b]"), None);
}

#[test]
fn joins() {
    let rows = |sso: &str, corp: &str| {
        let text = format!(
            "tenants: [{{id: a}}, {{id: b}}]\nconnectors:\n  - {{id: sso, type: oidc, clientId: denizen, issuer: {{url: 'https://sso.example'}}, {sso}}}\n  - {{id: corp, {corp}}}\n  - {{id: other, type: oidc, clientId: denizen, issuer: {{url: 'https://other.example'}}, tenants: [a]}}\n"
        );
        match load(&format!("issuer: https://id.example\n{text}")) {
            Ok(loaded) => loaded.warnings.into_iter().map(|warning| format!("warning: {}: {}", warning.path, warning.message)).collect(),
            Err(faults) => faults.list().iter().map(|fault| format!("{}: {}", fault.path, fault.message)).collect::<Vec<_>>(),
        }
    };
    let file = "type: file, operatedBy: operator, tenants: all, users: []";
    let ldap = "type: ldap, operatedBy: operator, tenants: all, url: 'ldaps://x.example', claimMappings: {tenant: {claim: ou}}, userSearch: {base: dc=x}";
    let sso = |rest: &str| format!("operatedBy: operator, tenants: all, {rest}");
    let by = |claim: &str, attribute: &str| sso(&format!("directory: corp, join: {{claim: {claim}, attribute: {attribute}}}"));
    let none: [&str; 0] = [];
    assert_eq!(rows(&by("sub", "id"), file), none);
    assert_eq!(rows(&by("sub", "openCloudExternalID"), ldap), none);
    assert_eq!(
        rows(&sso("directory: corp"), file),
        ["connectors[0].directory: `join` says how its users are found there; give both, or neither"]
    );
    assert_eq!(
        rows(&sso("join: {claim: sub, attribute: id}"), file),
        ["connectors[0].join: `directory` says where its users are found; give both, or neither"]
    );
    assert_eq!(
        rows("tenants: [a], directory: corp, join: {claim: sub, attribute: id}", file),
        ["connectors[0].directory: only a connector with `operatedBy: operator` may say that its users are another's people"],
        "t56"
    );
    assert_eq!(
        rows(&by("sub", "id"), "type: file, tenants: [a, b], users: []").first().map(String::as_str),
        Some("connectors[0].directory: only a connector with `operatedBy: operator` may be joined: its people's ids decide who signs in")
    );
    for claim in ["email", "preferred_username", "''"] {
        let fault = "connectors[0].join.claim: it must be a claim that never changes and is one person's only, as an id is: an address or a name changes hands";
        assert_eq!(rows(&by(claim, "id"), file), [fault], "t06: {claim}");
    }
    for attribute in ["mail", "uid", "userPassword", "CN"] {
        let fault = format!(
            "connectors[0].join.attribute: `{attribute}` changes, is given again, or can not be read: join by an attribute that never changes and is one person's only"
        );
        assert_eq!(rows(&by("sub", attribute), ldap), [fault], "t06");
    }
    assert_eq!(
        rows(&by("sub", "email"), file),
        ["connectors[0].join.attribute: users of a file are joined by `id`: nothing else of theirs never changes"]
    );
    let to = |directory: &str| sso(&format!("directory: {directory}, join: {{claim: sub, attribute: id}}"));
    assert_eq!(rows(&to("none"), file), ["connectors[0].directory: no connector has this id"]);
    assert_eq!(rows(&to("sso"), file), ["connectors[0].directory: it is the connector itself; leave it out"]);
    assert_eq!(rows(&to("other"), file), ["connectors[0].directory: that connector has no directory"]);
    let chained = format!("{file}, directory: sso, join: {{claim: sub, attribute: id}}");
    assert_eq!(
        rows(&by("sub", "id"), &chained),
        [
            "connectors[0].directory: that connector is itself joined to another",
            "connectors[1].directory: its users are in a directory of its own; only an `oidc` connector is joined to another",
            "connectors[1].directory: that connector has no directory",
        ]
    );
    let fixed =
        |tenant: &str| format!("operatedBy: operator, tenant: {{fixed: {tenant}}}, directory: corp, join: {{claim: sub, attribute: id}}");
    let only_b = "type: file, operatedBy: operator, tenants: [b], users: []";
    assert_eq!(
        rows(&fixed("a"), only_b),
        ["connectors[0].directory: no tenant of this connector's can be one of that one's, so that no one could sign in"]
    );
    assert_eq!(rows(&fixed("b"), only_b), none);
    assert_eq!(
        rows(&by("sub", "id"), only_b),
        [
            "warning: connectors[0].directory: that connector may not speak for all of this one's tenants: people of the others can not sign in"
        ]
    );
}

#[test]
fn the_sealing_key() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        std::fs::write(folder.path().join("key"), text).unwrap();
        let faults = load_in("issuer: https://id.example\nstore: {sealingKeyFile: key}\n", folder.path()).err();
        faults.map(|faults| faults.to_string())
    };
    assert_eq!(load("q83vq83vq83vq83vq83vq83vq83vq83vq83vq83vq80=\n"), None);
    let fault = load("hunter2-hunter2").unwrap();
    assert_eq!(
        fault,
        "d.yaml:2:25: store.sealingKeyFile: a sealing key is 32 bytes, as base64 or as 64 hexadecimal digits, one a line; `openssl rand -base64 32` makes one"
    );
    check(&[(
        "store: {sealingKeyFile: absent}\n",
        &["2:25: store.sealingKeyFile: the file can not be read: No such file or directory (os error 2)"],
    )]);
}

#[test]
fn connectors_on_one_directory() {
    let load = |a: &str, b: &str| {
        let directory = |id: &str, tenant: &str, rest: &str| {
            format!("  - {{id: {id}, type: ldap, allowPlain: true, tenant: {{fixed: {tenant}}}, {rest}}}\n")
        };
        let (a, b) = (directory("one", "a", a), directory("two", "b", b));
        let faults = load(&format!("issuer: https://id.example\ntenants: [{{id: a}}, {{id: b}}]\nconnectors:\n{a}{b}")).err();
        faults.map(|faults| faults.list().iter().map(|fault| (fault.path.clone(), fault.place.unwrap().line)).collect::<Vec<_>>())
    };
    let search = |base: &str| format!("userSearch: {{base: '{base}'}}");
    let shared = Some(vec![("connectors[1]".to_owned(), 5)]);
    let at = |url: &str, base: &str| format!("url: '{url}', {}", search(base));
    assert_eq!(load(&at("ldap://x.example", "dc=x"), &at("ldap://x.example/", "DC=x")), shared);
    assert_eq!(load(&at("ldap://x.example", "dc=x"), &at("ldap://x.example", "ou=b, dc=x")), shared, "one base is below the other");
    assert_eq!(
        load(&at("ldap://x.example", "dc=x"), &format!("urls: ['ldap://y.example', 'ldap://x.example'], {}", search("dc=x"))),
        shared
    );
    assert_eq!(load(&at("ldap://x.example", "ou=a,dc=x"), &at("ldap://x.example", "ou=b,dc=x")), None);
    assert_eq!(load(&at("ldap://x.example", "dc=x"), &at("ldap://y.example", "dc=x")), None);
    assert_eq!(load(&at("ldap://x.example", "dc=x"), "url: 'ldap://x.example', userSearch: {base: dc=x, filter: '(ou=b)'}"), None);
}

#[test]
fn faults_of_mappings_and_connectors_have_their_place() {
    let found = faults(&connector("    tenant: {fixed: a}\n    claimMappings:\n      username:\n        expression: 'claims.a +'\n"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("10:21: connectors[0].claimMappings.username.expression: "), "{found:?}");
    let found = faults("tenants: [{id: a}]\nconnectors:\n  - {id: corp, type: file, tenant: {fixed: a}, path: absent.yaml}\n");
    assert_eq!(found, ["4:54: connectors[0].path: …: No such file or directory (os error 2)"], "it might be a secret that went astray");
    let found = faults(
        "tenants: [{id: a}]\nconnectors:\n  - {id: c, type: ldap, tenant: {fixed: a}, url: 'ldap://x.example', userSearch: {base: dc=x}}\n",
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found,
        ["4:50: connectors[0].url: it would send passwords in the clear: use ldaps, or `startTls: true`, or say `allowPlain: true`"]
    );
}

#[test]
fn clients() {
    let client = |rest: &str| format!("tenants: [{{id: a}}]\nclients:\n  - {{id: app, {rest}}}\n");
    let web = |rest: &str| client(&format!("redirectUris: ['https://a.example/'], {rest}"));
    let row = |text: String| faults(&text);
    assert_eq!(row(client("")), ["4:5: clients[0]: `redirectUris` is missing: `authorization_code` needs an address to return to"]);
    assert_eq!(row(web("grantTypes: []")), ["4:65: clients[0].grantTypes: name at least one, or leave it out"]);
    assert_eq!(
        row(web("grantTypes: [refresh_token]")),
        ["4:65: clients[0].grantTypes: `refresh_token` renews what `authorization_code` gave; name that too"]
    );
    assert_eq!(
        row(client("grantTypes: [client_credentials]")),
        [
            "4:27: clients[0].grantTypes: `client_credentials` needs `tenant`, the tenant that the client acts in",
            "4:27: clients[0].grantTypes: `client_credentials` needs a `secret` or `secretFile`",
        ]
    );
    assert_eq!(row(web("secret: ''")), ["4:61: clients[0].secret: the secret is empty"]);
    assert_eq!(row(web("secret: x, secretFile: /y")), ["4:76: clients[0].secretFile: give either `secret` or `secretFile`"]);
    assert_eq!(
        row(web("secretFile: absent")),
        ["4:65: clients[0].secretFile: the file can not be read: No such file or directory (os error 2)"]
    );
    assert_eq!(row(web("scopes: [openid, 'a b']")), ["4:70: clients[0].scopes[1]: a scope is visible ASCII without blanks, `\"` and `\\`"]);
    assert_eq!(
        row(web("impliedScopes: ['a b', roles, openid]")),
        [
            "4:69: clients[0].impliedScopes[0]: a scope is visible ASCII without blanks, `\"` and `\\`",
            "4:83: clients[0].impliedScopes[2]: an application asks for this one itself, or goes without",
        ]
    );
    assert_eq!(
        row(client("tenant: a, secret: x, grantTypes: [client_credentials], impliedScopes: [roles]")),
        ["4:86: clients[0].impliedScopes: they speak of a person: `authorization_code` must be among the `grantTypes`"]
    );
    assert_eq!(row(web("audiences: ['']")), ["4:65: clients[0].audiences[0]: an audience is visible ASCII without blanks"]);
    assert_eq!(row(web("tenants: [b]")), ["4:63: clients[0].tenants[0]: no tenant has this id"]);
    assert_eq!(row(web("connectors: [b]")), ["4:66: clients[0].connectors[0]: no connector has this id"]);
    assert_eq!(row(web("tenant: b")), ["4:61: clients[0].tenant: no tenant has this id"]);
    for registered in ["sub", "tenant_id", "groups", "azp", "exp"] {
        assert_eq!(
            row(web(&format!("tenantClaim: {registered}"))),
            ["4:66: clients[0].tenantClaim: the claim of this name has another meaning; choose another name"]
        );
    }
    assert_eq!(row(web("signingAlgorithm: RS256")), ["4:71: clients[0].signingAlgorithm: it must be one of `keys.algorithms`"]);
    for origin in ["https://a.example/", "http://a.example", "'*'", "'null'", "https://a.example:443"] {
        let found = row(web(&format!("origins: ['https://b.example', {origin}]")));
        assert_eq!(
            found,
            [
                "4:84: clients[0].origins[1]: an origin is the scheme, host and port only, as `https://app.example`; https, or http on loopback"
            ],
            "{origin}"
        );
    }
    assert_eq!(
        row("clients:\n  - {id: a, redirectUris: ['https://a.example']}\n  - {id: a, redirectUris: ['https://a.example']}\n".to_owned()),
        ["4:10: clients[1].id: the client at line 3 has this id already",]
    );
    assert_eq!(
        row("clients:\n  - {id: a b, redirectUris: ['https://a.example']}\n".to_owned()),
        ["3:10: clients[0].id: it must be 1 to 255 visible ASCII characters without blanks",]
    );
}

#[test]
fn addresses_of_a_sign_out() {
    let client = |rest: &str| format!("clients:\n  - {{id: app, redirectUris: ['https://a.example/'], {rest}}}\n");
    for good in [
        "postLogoutRedirectUris: ['https://a.example/bye?x=1', 'http://127.0.0.1/bye', 'com.example.app:/bye']",
        "backchannelLogoutUri: 'https://a.example/logout?x=1'",
        "backchannelLogoutUri: 'http://127.0.0.1:7/logout'",
        "backchannelLogoutUri: 'http://localhost/logout'",
    ] {
        assert!(load(&format!("issuer: https://id.example\n{}", client(good))).is_ok(), "{good}");
    }
    for (bad, why) in
        [("https://a.example/#x", "it must not have a fragment"), ("http://a.example", "plain http is for loopback addresses; use https")]
    {
        let found = faults(&client(&format!("postLogoutRedirectUris: ['https://a.example/', '{bad}']")));
        assert_eq!(found, [format!("3:100: clients[0].postLogoutRedirectUris[1]: {why}")], "{bad}");
    }
    for (bad, why) in [
        ("http://a.example/logout", "plain http is for loopback addresses; use https"),
        ("https://a.example/logout#x", "it must not have a fragment"),
        ("https://a:b@a.example/logout", "it must not have a user or password"),
        ("com.example.app:/logout", "the scheme must be https, or http on loopback"),
    ] {
        let found = faults(&client(&format!("backchannelLogoutUri: '{bad}'")));
        assert_eq!(found, [format!("3:75: clients[0].backchannelLogoutUri: {why}")], "{bad}");
    }
}

#[test]
fn t33_redirect_uris() {
    let fault = |uri: &str| {
        let text = format!("issuer: https://id.example\nclients: [{{id: a, redirectUris: [\"{}\"]}}]\n", uri.replace('\\', "\\\\"));
        load(&text).map(|_| ()).map_err(|faults| {
            assert_eq!(faults.list().len(), 1, "{faults}");
            assert!(faults.to_string().starts_with("d.yaml:2:34: clients[0].redirectUris[0]: "), "{faults}");
        })
    };
    for good in [
        "https://a.example",
        "https://a.example/cb?x=1",
        "http://127.0.0.1/cb",
        "http://[::1]:7/cb",
        "http://localhost/cb",
        "com.example.app:/cb",
    ] {
        assert_eq!(fault(good), Ok(()), "{good}");
    }
    for bad in [
        "a.example/cb",
        "/cb",
        "http://a.example/cb",
        "https://*.example/cb",
        "https://a.example/*",
        "https://a.example/#",
        "https://a.example/cb#x",
        "javascript:alert(1)",
        "myapp:/cb",
        "oc://android.opencloud.eu",
        "https://u@a.example/",
        "https://u:p@a.example/",
        "https://a.example\\@b.example/",
        "https://a.example/ x",
        "http://127.0.0.1.evil.example/",
        "data:text/html,x",
        "",
    ] {
        assert_eq!(fault(bad), Err(()), "{bad}");
    }
}

#[test]
fn reviewers() {
    let client = "clients: [{id: app, redirectUris: ['https://a.example']}]\n";
    check(&[
        (
            "reviewers: [{id: k, audiences: []}]\n",
            &["2:32: reviewers[0].audiences: name at least one audience that the reviewer stands for"],
        ),
        ("reviewers: [{id: k}]\n", &["2:13: reviewers[0]: `audiences` is missing"]),
        (
            "listen: {address: '0.0.0.0:1', behindProxy: true}\nreviewers: [{id: k, audiences: [a]}]\n",
            &[
                "3:13: reviewers[0]: a reviewer without a credential is for a loopback `listen.address` without a proxy; give `bearerToken`, `bearerTokenFile`, `certificateName` or `client`",
            ],
        ),
        (
            "listen: {trustedProxies: [10.0.0.0/8]}\nreviewers: [{id: k, audiences: [a]}]\n",
            &[
                "3:13: reviewers[0]: a reviewer without a credential is for a loopback `listen.address` without a proxy; give `bearerToken`, `bearerTokenFile`, `certificateName` or `client`",
            ],
        ),
        (
            "reviewers: [{id: k, audiences: [a], certificateName: k}]\n",
            &["2:54: reviewers[0].certificateName: it needs `listen.tls.clientCaFile`, the authority that such certificates are from"],
        ),
        (
            &format!("{client}reviewers: [{{id: k, audiences: [a], client: other}}]\n"),
            &["3:45: reviewers[0].client: no client has this id"],
        ),
        (
            &format!("{client}reviewers: [{{id: k, audiences: [a], client: app}}]\n"),
            &[
                "3:45: reviewers[0].client: the client has no `client_credentials` among its `grantTypes`",
                "3:45: reviewers[0].client: the client needs the audience `${issuer}/review` among its `audiences`",
            ],
        ),
        (
            "reviewers:\n  - {id: k, audiences: [a]}\n  - {id: k, audiences: [a]}\n",
            &[
                "4:5: reviewers[1]: the reviewer at line 3 has no credential either; only one can be without",
                "4:10: reviewers[1].id: the reviewer at line 3 has this id already",
            ],
        ),
        (
            "reviewers:\n  - {id: k, audiences: [a], bearerToken: same}\n  - {id: l, audiences: [a], bearerToken: same}\n",
            &["4:42: reviewers[1].bearerToken: the reviewer at line 3 has the same; each needs its own"],
        ),
        (
            "reviewers: [{id: k, audiences: [a], tenants: [x], connectors: [y]}]\n",
            &["2:47: reviewers[0].tenants[0]: no tenant has this id", "2:64: reviewers[0].connectors[0]: no connector has this id"],
        ),
    ]);
}

#[test]
fn ten_faults_are_all_told_at_once() {
    let found = faults(
        "listen: {address: '0.0.0.0:1'}
unknown: 1
defaultTenant: nobody
tenants:
  - {id: a, label: acme}
  - {id: A, label: acme}
  - {id: b, labels: x}
connectors:
  - {id: corp, type: file, users: [], tenant: {fixed: b}, ids: verbatim}
clients:
  - {id: app, redirectUris: ['http://a.example']}
  - {id: app2, secret: 12, redirectUris: ['https://a.example']}
lifetimes: {codeSeconds: 0}
",
    );
    let starts = [
        "2:19: listen.address: ",
        "3:1: unknown: ",
        "4:16: defaultTenant: ",
        "7:10: tenants[1].id: ",
        "7:20: tenants[1].label: ",
        "8:13: tenants[2].labels: ",
        "10:64: connectors[0].ids: ",
        "12:30: clients[0].redirectUris[0]: ",
        "13:24: clients[1].secret: ",
        "14:26: lifetimes.codeSeconds: ",
    ];
    assert_eq!(found.len(), starts.len(), "{}", found.join("\n"));
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

const WHOLE: &str = "issuer: https://${HOST}
listen: {address: '127.0.0.1:5556', adminAddress: '127.0.0.1:5558', trustedProxies: [10.0.0.0/8]}
store: {file: data/denizen.db}
tenants:
  - {id: acme, label: acme, displayName: Acme Ltd., externalIds: {corp: '0042'}}
  - {id: Beta & Söhne, connectors: [corp]}
systemTenant: {label: ops, connectors: [corp]}
defaultTenant: acme
reservedLabels: [internal]
connectors:
  - id: corp
    type: file
    operatedBy: operator
    displayName: Corporate
    tenants: all
    roles: [admin]
    claimMappings:
      username: {expression: claims.username}
      tenant: {claim: tenant}
    claimValidationRules: [{claim: kind, requiredValue: person}]
    users: [{id: u1, username: ann, tenant: '0042', displayName: Ann, email: ann@acme.example}]
  - {id: plain, type: file, users: [{id: u1, username: ann}]}
  - id: directory
    type: ldap
    operatedBy: operator
    tenants: [acme]
    ids: verbatim
    url: ldap://ldap.example.com
    startTls: false
    allowPlain: true
    bindDn: cn=denizen,dc=example
    bindPassword: another-password
    connections: 4
    operationTimeoutSeconds: 1.5
    claimMappings: {tenant: {claim: ou}, groups: {expression: 'claims.groups'}}
    userSearch: {base: 'ou=people,dc=example', filter: (objectClass=person), idAttribute: entryUUID, usernameAttributes: [uid, mail], enabledFilter: (!(x=y))}
    groups: {memberOf: {attribute: memberOf}, nameAttribute: cn}
clients:
  - id: app
    displayName: App
    secret: ${SECRET}
    redirectUris: [https://app.example/cb]
    grantTypes: [authorization_code, refresh_token, client_credentials]
    scopes: [openid, users.read]
    audiences: ['${issuer}/api', '${issuer}/review']
    tenants: [acme]
    connectors: [corp]
    tenant: acme
    tenantClaim: org
    signingAlgorithm: ES256
    origins: [https://app.example]
reviewers:
  - {id: kube, bearerToken: another-secret, audiences: [https://kube.example], tenants: [acme], connectors: [corp], format: arktos}
  - {id: app, client: app, audiences: [x]}
lifetimes: {codeSeconds: 60}
keys: {algorithms: [ES256, EdDSA]}
";

#[test]
fn a_whole_configuration_loads() {
    let loaded = load_in(WHOLE, Path::new("/etc/denizen")).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(loaded.config.store.file.as_deref(), Some(Path::new("/etc/denizen/data/denizen.db")));
    let tenants: Vec<_> = loaded.tenants.iter().map(|tenant| (tenant.id.as_str(), tenant.label.as_str())).collect();
    assert_eq!((tenants[0], tenants[2]), (("acme", "acme"), ("system", "ops")));
    assert!(tenants[1].1.starts_with("t-"));
    let rules: Vec<_> = loaded.connectors.iter().map(|connector| connector.policy.tenant_rule.clone()).collect();
    let acme = claims_mapping::TenantId::parse("acme").unwrap();
    assert_eq!(
        rules,
        [
            claims_mapping::TenantRule::Mapped(None),
            claims_mapping::TenantRule::Default(acme.clone()),
            claims_mapping::TenantRule::Mapped(Some([acme].into())),
        ]
    );
    assert_eq!(loaded.connectors[0].mapping.tenant_claim(), Some("tenant"));
    assert!(!loaded.connectors[1].mapping.has_tenant_rule(), "the type's own tenant rule is left out where there is none");
    assert_eq!(loaded.warnings, Vec::<Fault>::new());
    assert!(!format!("{loaded:?}").contains("hunter2"), "Debug shows no secret");
}

#[test]
fn files_are_read_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("denizen.yaml");
    let missing = super::load(&path).unwrap_err().to_string();
    assert_eq!(missing, format!("{}: No such file or directory (os error 2)", path.display()));
    std::fs::write(&path, b"issuer: \xff").unwrap();
    assert_eq!(super::load(&path).unwrap_err().to_string(), format!("{}: it is not UTF-8", path.display()));
    std::fs::write(folder.path().join("secret"), "s3cret\n").unwrap();
    std::fs::write(&path, "issuer: https://id.example\nclients: [{id: a, redirectUris: ['https://a.example'], secretFile: secret}]\n")
        .unwrap();
    let loaded = super::load(&path).unwrap();
    assert_eq!(loaded.config.clients[0].secret_file.as_deref(), Some(folder.path().join("secret").as_path()));
}

#[test]
fn the_schema_is_closed() {
    let schema = super::schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["$defs"]["ConnectorConfig"]["unevaluatedProperties"], false);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        let is_open = definition.get("properties").is_some()
            && definition.get("additionalProperties").is_none()
            && definition.get("unevaluatedProperties").is_none();
        assert!(!is_open, "{name}");
    }
}

/// The lines of `WHOLE`, and where in each a value stands.
fn scalars() -> Vec<(usize, usize)> {
    let value = |line: &str, at: usize| {
        let (before, after) = line.split_at(at);
        let is_key = after.split_once([',', '}', ']']).map_or(after, |(token, _)| token).contains(": ") || after.trim_end().ends_with(':');
        !is_key && (before.ends_with(": ") || before.ends_with('[') || before.ends_with(", ")) && !after.starts_with(['[', '{'])
    };
    let mut found = Vec::new();
    let mut start = 0;
    for line in WHOLE.split_inclusive('\n') {
        found.extend(line.char_indices().filter(|(at, _)| value(line, *at)).map(|(at, _)| (start + at, end(line, at) + start)));
        start += line.len();
    }
    found
}

fn end(line: &str, at: usize) -> usize {
    let rest = line.split_at(at).1;
    let stop =
        if let Some(quoted) = rest.strip_prefix('\'') { quoted.find('\'').unwrap() + 2 } else { rest.find([',', ']', '\n']).unwrap() };
    let rest = rest.split_at(stop).0;
    // The braces of a variable are a part of the value.
    at + if rest.starts_with('\'') || rest.contains("${") { stop } else { rest.find('}').unwrap_or(stop) }
}

#[test]
fn every_scalar_of_the_whole_is_found() {
    let texts: Vec<_> = scalars().into_iter().map(|(from, to)| WHOLE.get(from..to).unwrap()).collect();
    assert!(texts.len() > 60, "{texts:?}");
    for expected in ["https://${HOST}", "'0042'", "${SECRET}", "another-secret", "claims.username", "Beta & Söhne", "arktos", "60"] {
        assert!(texts.contains(&expected), "{expected} in {texts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A canary in the place of any values, in any dress, shows in no fault.
    #[test]
    fn no_fault_tells_a_value(
        places in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        dress in prop::sample::select(vec!["@", "'@'", "\"@\"", "@/x", "http://@.example", "'${@'", "'@:@'", "*@", "!@ x", "'x @ y'", "@ + 1", "/@", "{@: 1}", "[@]", "'$argon2id$@'", "'@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@'"]),
    ) {
        let scalars = scalars();
        let mut at: Vec<_> = places.iter().map(|place| *place.get(&scalars)).collect();
        at.sort_unstable();
        at.dedup();
        let mut text = WHOLE.to_owned();
        for (from, to) in at.into_iter().rev() {
            text.replace_range(from..to, &dress.replace('@', "canary-Zx81q"));
        }
        if let Err(faults) = load(&text) {
            let told = format!("{faults} {faults:?}");
            prop_assert!(!told.to_lowercase().contains("canary-zx81q"), "{text}\n{told}");
        }
    }
}

#[test]
fn exceptions_of_sharing() {
    let tenants = "tenants: [{id: acme}, {id: globex}]\n";
    check(&[
        (
            &format!(
                "{tenants}sharing:\n  exceptions:\n  - {{from: acme, to: globx}}\n  - {{from: system, to: acme}}\n  - {{from: acme, to: system}}\n"
            ),
            &[
                "5:22: sharing.exceptions[0].to: no tenant has this id; is it `globex`?",
                "6:12: sharing.exceptions[1].from: operators share with no one, and no one with them; name another tenant",
                "7:22: sharing.exceptions[2].to: operators share with no one, and no one with them; name another tenant",
            ],
        ),
        (
            &format!(
                "{tenants}sharing:\n  exceptions:\n  - {{from: acme, to: acme}}\n  - {{from: acme, to: globex}}\n  - {{from: globex, to: acme}}\n  - {{from: acme, to: globex}}\n"
            ),
            &[
                "5:22: sharing.exceptions[0].to: people of one tenant may share with each other in any case; leave the exception out",
                "8:5: sharing.exceptions[3]: the exception at line 6 says the same; leave one of them out",
            ],
        ),
        (
            &format!("{tenants}sharing: {{exceptions: [{{from: acme}}], everyone: true}}\n"),
            &["3:24: sharing.exceptions[0]: `to` is missing", "3:39: sharing.everyone: unknown key; known here are `exceptions`"],
        ),
    ]);
    let loaded = load("issuer: https://id.example\ntenants: [{id: acme}, {id: globex, disabled: true}]\nsharing: {exceptions: [{from: acme, to: globex}]}\n").unwrap();
    assert_eq!(
        loaded
            .warnings
            .iter()
            .filter(|warning| warning.line("d.yaml").contains("sharing.exceptions[0].to: the tenant is disabled"))
            .count(),
        1
    );
    // A tenant that may come into being need not be there yet.
    load("issuer: https://id.example\ncreateTenants: true\nsharing: {exceptions: [{from: one, to: other}]}\n").unwrap();
}
