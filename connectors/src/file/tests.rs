use claims_mapping::{Mapping, Subject, TenantId, TenantLabel};

use super::*;

const ACME_JANE: &str = "11111111-1111-4111-8111-111111111111";

fn hash(password: &str) -> String {
    bcrypt::hash(password, 4).unwrap()
}

fn yaml() -> String {
    format!(
        "users:\n\
         - {{ id: {ACME_JANE}, username: Jane, tenant: acme, password: '{}', displayName: Jane Doe, email: jane@acme.example, groups: [staff] }}\n\
         - {{ id: j2, username: jane, tenant: globex, password: '{}', displayName: Jane Roe, email: jane@globex.example }}\n\
         - {{ id: b1, username: bob, tenant: acme, password: '{}', disabled: true }}\n\
         - {{ id: n1, username: nora, tenant: acme }}\n",
        hash("acme-pw"),
        hash("globex-pw"),
        hash("bob-pw"),
    )
}

fn source(text: &str) -> FileUsers {
    let users = Arc::new(ArcSwap::from_pointee(Users::parse(text, false).unwrap()));
    FileUsers { id: ConnectorId::parse("people").unwrap(), fixed_tenant: false, users, _watch: None }
}

fn tenant(id: &str) -> Arc<Tenant> {
    let id = TenantId::parse(id).unwrap();
    let label = TenantLabel::derived(&id);
    Arc::new(Tenant { display_name: id.to_string(), id, label, external_ids: [].into(), connectors: None, disabled: false })
}

async fn sign_in(source: &FileUsers, name: &str, of: Option<&str>, password: &str) -> Option<String> {
    let login = LoginName { name: name.to_owned(), tenant: of.map(tenant), ..LoginName::default() };
    source.authenticate(&login, &Secret::new(password.to_owned())).await.unwrap().map(|proven| proven.user.subject.to_string())
}

#[tokio::test]
async fn the_tenant_tells_same_named_users_apart() {
    let source = source(&yaml());
    assert_eq!(sign_in(&source, "jane", Some("acme"), "acme-pw").await.as_deref(), Some(ACME_JANE));
    assert_eq!(sign_in(&source, "JANE", Some("globex"), "globex-pw").await.as_deref(), Some("j2"));
    assert_eq!(sign_in(&source, "jane", Some("globex"), "acme-pw").await, None);
    assert_eq!(sign_in(&source, "jane", Some("initech"), "acme-pw").await, None);
}

#[tokio::test]
async fn t25_an_ambiguous_name_is_refused() {
    let source = source(&yaml());
    assert_eq!(sign_in(&source, "jane", None, "acme-pw").await, None);
    assert_eq!(sign_in(&source, "jane", None, "globex-pw").await, None);
}

#[tokio::test]
async fn t23_no_password_is_no_sign_in() {
    let source = source(&yaml());
    for bad in ["", " ", "\0", "acme-pw\0"] {
        assert_eq!(sign_in(&source, "jane", Some("acme"), bad).await, None, "{bad:?}");
    }
    assert_eq!(sign_in(&source, "bob", Some("acme"), "bob-pw").await, None, "disabled");
    assert_eq!(sign_in(&source, "nora", Some("acme"), "acme-pw").await, None, "no password, and nobody else's serves");
    assert_eq!(sign_in(&source, "nobody", Some("acme"), "acme-pw").await, None);
}

#[test]
fn unknown_and_disabled_names_cost_a_hash_too() {
    let users = Users::parse(&yaml(), false).unwrap();
    for name in ["nobody", "bob", "nora", ""] {
        let (hash, user) = users.sign_in(Some("acme"), name);
        assert!(hash.is_some() && user.is_none(), "{name}");
    }
    let (hash, _) = Users::parse("users: []", false).unwrap().sign_in(None, "nobody");
    assert!(hash.is_some());
}

#[tokio::test]
async fn claims_are_the_documented_ones() {
    let source = source(&yaml());
    let scope = TenantScope::of_verified_caller(tenant("acme"));
    let jane = Directory::get(&source, &scope, &Lookup::Subject(Subject::parse(ACME_JANE).unwrap())).await.unwrap().unwrap();
    assert_eq!(
        serde_json::Value::Object(jane.claims.as_map().clone()),
        serde_json::json!({
            "id": ACME_JANE, "username": "Jane", "tenant": "acme", "displayName": "Jane Doe", "email": "jane@acme.example",
            "email_verified": false, "groups": ["staff"], "roles": []
        })
    );
    assert_eq!(Directory::get(&source, &scope, &Lookup::Subject(Subject::parse("j2").unwrap())).await.unwrap(), None, "another tenant's");
    assert_eq!(Directory::get(&source, &scope, &Lookup::Subject(Subject::parse("b1").unwrap())).await.unwrap(), None, "disabled");
}

#[test]
fn faults_have_places_and_no_secrets() {
    let good = hash("x");
    let text = format!(
        "users:\n  - id: a\n    username: jane\n    tenant: t\n    password: '{good}'\n\
         \x20 - id: a\n    username: JANE\n    tenant: t\n    password: hunter2hunter2\n\
         \x20 - id: c\n    username: kim\n"
    );
    let faults = Users::parse(&text, false).map(|_| ()).unwrap_err();
    let seen: Vec<_> = faults.iter().map(|f| (f.place.as_str(), f.position)).collect();
    assert_eq!(
        seen,
        [
            ("users[1].id", Some((6, 5))),
            ("users[1].username", Some((6, 5))),
            ("users[1].password", Some((6, 5))),
            ("users[2].tenant", Some((10, 5)))
        ]
    );
    assert!(!format!("{faults:?}").contains("hunter2"));

    let broken = format!("users:\n  - id: a\n    username: [jane]\n    password: '{good}'\n    tenant: t\n");
    let faults = Users::parse(&broken, false).map(|_| ()).unwrap_err();
    assert_eq!(faults[0].position.map(|p| p.0), Some(3), "{faults:?}");
    assert!(!format!("{faults:?}").contains(&good));
    for text in ["", "people: []", "users: []\nmore: 1", "users:\n- {id: a, username: b, tenant: t, pasword: c}"] {
        assert!(Users::parse(text, false).is_err(), "{text}");
    }
    assert!(Users::parse("users: [{id: a, username: b, tenant: t}]", true).is_err(), "a tenant besides a fixed one");
    assert!(Users::parse("users: [{id: a, username: b}]", true).is_ok());
}

fn build_from(config: &FileConfig) -> Result<Connector, Vec<(String, String)>> {
    let mapping = Mapping::compile(&default_mapping()).unwrap();
    build(config, Context { id: &ConnectorId::parse("people").unwrap(), mapping: &mapping, fixed_tenant: false, issuer: None })
}

async fn finds(connector: &Connector, name: &str) -> bool {
    let scope = TenantScope::of_verified_caller(tenant("acme"));
    connector.directory.as_ref().unwrap().get(&scope, &Lookup::Username(name.to_owned())).await.unwrap().is_some()
}

async fn until_it_finds(connector: &Connector, name: &str) {
    for _ in 0..600 {
        if finds(connector, name).await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{name} did not appear");
}

#[tokio::test]
async fn a_change_is_loaded_and_a_broken_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.yaml");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("users: [{ id: a, username: ann, tenant: acme }]");
    let connector = build_from(&FileConfig { path: Some(path.clone()), users: None }).unwrap();
    assert!(finds(&connector, "ann").await);
    write("users: [{ id: a, username: ann, tenant: acme }, { id: b, username: ben, tenant: acme }]");
    until_it_finds(&connector, "ben").await;
    write("users: [{ id: a, username: ann");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(finds(&connector, "ann").await && finds(&connector, "ben").await, "a broken file changes nothing");
    write("users: [{ id: c, username: cid, tenant: acme }]");
    until_it_finds(&connector, "cid").await;
    assert!(!finds(&connector, "ann").await);
}

/// Kubernetes mounts a ConfigMap as `users.yaml -> ..data/users.yaml`, `..data -> ..2026_1`, and swaps `..data`.
#[cfg(unix)]
#[tokio::test]
async fn a_swapped_symbolic_link_is_followed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (version, user) in [("..1", "ann"), ("..2", "ben")] {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("users.yaml"), format!("users: [{{ id: {user}, username: {user}, tenant: acme }}]")).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/users.yaml", at("users.yaml")).unwrap();
    let connector = build_from(&FileConfig { path: Some(at("users.yaml")), users: None }).unwrap();
    assert!(finds(&connector, "ann").await);
    symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    until_it_finds(&connector, "ben").await;
}

#[tokio::test]
async fn users_may_stand_in_the_configuration() {
    let users = || Some(vec![serde_json::from_value(serde_json::json!({"id": "a", "username": "ann", "tenant": "acme"})).unwrap()]);
    let connector = build_from(&FileConfig { path: None, users: users() }).unwrap();
    assert!(finds(&connector, "ann").await);
    assert!(connector.watches.is_empty());
    assert!(build_from(&FileConfig::default()).is_err());
    assert!(build_from(&FileConfig { path: Some("x".into()), users: users() }).is_err());
    let missing = build_from(&FileConfig { path: Some("/nonexistent/users.yaml".into()), users: None }).unwrap_err();
    assert!(missing[0].1.starts_with("/nonexistent/users.yaml: "), "{missing:?}");
}

#[tokio::test]
async fn numbers_find_whoever_alone_has_them_in_their_tenant() {
    let source = source(
        "users:\n\
         - { id: a, username: ann, tenant: acme, uidNumber: 1000, gidNumber: 100 }\n\
         - { id: b, username: bea, tenant: acme, uidNumber: 1001, gidNumber: 100 }\n\
         - { id: c, username: cleo, tenant: globex, uidNumber: 1000, gidNumber: 7 }\n\
         - { id: d, username: dora, tenant: globex, uidNumber: 1002, disabled: true }\n\
         - { id: e, username: eve, tenant: globex }\n",
    );
    let by = async |of: &str, attribute: &str, number| {
        let lookup = Lookup::Number { attribute: attribute.to_owned(), number };
        let found = Directory::get(&source, &scope(of), &lookup).await.unwrap();
        found.map(|user| user.subject.to_string())
    };
    assert_eq!(by("acme", "uidNumber", 1000).await.as_deref(), Some("a"));
    assert_eq!(by("globex", "uidNumber", 1000).await.as_deref(), Some("c"));
    assert_eq!(by("globex", "gidNumber", 7).await.as_deref(), Some("c"));
    assert_eq!(by("acme", "gidNumber", 100).await, None, "t25: two have it");
    assert_eq!(by("globex", "uidNumber", 1002).await, None, "disabled");
    assert_eq!(by("acme", "id", 1000).await, None, "no number of theirs");
    let ann = Directory::get(&source, &scope("acme"), &Lookup::Username("ann".to_owned())).await.unwrap().unwrap();
    let mapped = Mapping::compile(&default_mapping()).unwrap().evaluate(&ann).unwrap();
    assert_eq!((mapped.uid_number, mapped.gid_number), (Some(1000), Some(100)));
    let Err(faults) = Users::parse("users: [{ id: a, username: ann, uidNumber: -1 }]", true) else { panic!() };
    assert_eq!(faults.into_iter().map(|fault| fault.place).collect::<Vec<_>>(), ["users[0].uidNumber"]);
}

fn scope(of: &str) -> TenantScope {
    TenantScope::of_verified_caller(tenant(of))
}

fn names(found: &FoundGroups) -> Vec<&str> {
    found.groups.iter().map(|group| group.name.as_str()).collect()
}

#[tokio::test]
async fn groups_are_those_that_a_tenants_users_name() {
    let source = source(&format!(
        "users:\n\
         - {{ id: {ACME_JANE}, username: jane, tenant: acme, groups: [Staff, staff, staff, admins] }}\n\
         - {{ id: j2, username: joe, tenant: acme, groups: [staff] }}\n\
         - {{ id: j3, username: jane, tenant: globex, groups: [staff, owners] }}\n\
         - {{ id: b1, username: bob, tenant: acme, groups: [staff, gone], disabled: true }}\n"
    ));
    let source: &dyn Groups = &source;
    let (acme, globex) = (scope("acme"), scope("globex"));
    let query = |text: &str, limit| UserQuery { text: text.to_owned(), limit };
    assert_eq!(names(&source.search(&acme, &query("", 10)).await.unwrap()), ["Staff", "admins", "staff"], "`gone` has nobody who is on");
    assert_eq!(names(&source.search(&acme, &query("STA", 10)).await.unwrap()), ["Staff", "staff"]);
    assert_eq!(names(&source.search(&acme, &query("own", 10)).await.unwrap()), Vec::<&str>::new(), "globex's");
    assert_eq!(names(&source.search(&scope("initech"), &query("", 10)).await.unwrap()), Vec::<&str>::new());
    for (limit, truncated) in [(2, true), (3, false)] {
        let found = source.search(&acme, &query("", limit)).await.unwrap();
        assert_eq!((found.groups.len(), found.truncated), (limit, truncated));
    }
    assert_eq!(source.get(&acme, "staff").await.unwrap().map(|group| group.name).as_deref(), Some("staff"));
    for name in ["STAFF", "staff ", "", "owners", "gone", "*"] {
        assert_eq!(source.get(&acme, name).await.unwrap(), None, "{name:?}");
        assert!(source.members(&acme, name, 10).await.unwrap().users.is_empty(), "{name:?}");
    }
    let members = async |scope: &TenantScope, name: &str, limit: usize| {
        let found = source.members(scope, name, limit).await.unwrap();
        (found.users.iter().map(|user| user.subject.to_string()).collect::<Vec<_>>(), found.truncated)
    };
    assert_eq!(members(&acme, "staff", 10).await, (vec![ACME_JANE.to_owned(), "j2".to_owned()], false));
    assert_eq!(members(&acme, "Staff", 10).await, (vec![ACME_JANE.to_owned()], false));
    assert_eq!(members(&globex, "staff", 10).await, (vec!["j3".to_owned()], false));
    assert_eq!(members(&acme, "staff", 1).await, (vec![ACME_JANE.to_owned()], true));
}
