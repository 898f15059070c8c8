//! Search and look-up within a domain.

use connectors::{UnverifiedToken, Verdict};
use denizen::seams::{Clock as _, SystemClock};
use denizen_tests::{
    directory_conformance::{Fixture, Lacks, conforms, tenant},
    keystone::{
        Api, Settings,
        fixtures::{DEFAULT, DENIZEN_ACME, DENIZEN_NARROW, ODD, ZOE},
    },
    slapd::content::{ACME_JANE_PASSWORD, GLOBEX_JANE_PASSWORD, ODD_NAMES, PASSWORD, mail},
};

use super::*;

/// Two domains with the people whom every directory of the tests has.
async fn people(admin: &Api) -> [String; 2] {
    let mut domains = Vec::new();
    let everyone: [(&str, &[&str]); 2] = [("acme", &["jane", "joe", "dora"]), ("globex", &["jane", "greta"])];
    for (name, people) in everyone {
        let domain =
            admin.create("/domains", "domain", &json!({"name": format!("{name} of all")})).await["id"].as_str().unwrap().to_owned();
        let group = admin.create("/groups", "group", &json!({"name": "staff", "domain_id": domain})).await;
        let odd = if name == "acme" { ODD_NAMES.as_slice() } else { &[] };
        for person in people.iter().chain(odd) {
            let password = match (name, *person) {
                ("acme", "jane") => ACME_JANE_PASSWORD,
                ("globex", "jane") => GLOBEX_JANE_PASSWORD,
                _ => PASSWORD,
            };
            let user = json!({
                "name": person, "domain_id": domain, "email": mail(person, name), "enabled": *person != "dora", "password": password,
            });
            let made = admin.create("/users", "user", &user).await;
            if *person == "jane" {
                admin.put(&format!("/groups/{}/users/{}", group["id"].as_str().unwrap(), made["id"].as_str().unwrap())).await;
            }
        }
        domains.push(domain);
    }
    domains.try_into().unwrap()
}

#[tokio::test]
async fn it_conforms_also_where_keystone_gives_three_at_a_time() {
    for list_limit in [None, Some(3)] {
        let Some(keystone) = Keystone::start_with(Settings { list_limit, ..Settings::default() }).await else { return };
        let cloud = Cloud::new(&keystone, |_| {});
        let [acme, globex] = people(&keystone.admin().await).await;
        conforms(&Fixture {
            connector: &cloud.connector,
            id_attribute: "id",
            acme: tenant("acme", &cloud.id, &acme),
            globex: tenant("globex", &cloud.id, &globex),
            lacks: Lacks { full_names: true, sign_in_anywhere: true },
        })
        .await;
    }
}

#[tokio::test]
async fn t31_a_text_is_taken_as_it_is_and_finds_nobody_of_another_domain() {
    let Some(keystone) = Keystone::start().await else { return };
    let cloud = Cloud::new(&keystone, |_| {});
    let (acme, globex) = (keystone.domain("acme"), keystone.domain("globex"));
    let all = |names: &[&str]| {
        let mut names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        (names, false)
    };
    let injection = format!("jane&domain_id={globex}");
    for (text, expected) in [
        ("", [ODD, ZOE, "jane", "john"].as_slice()),
        ("J", &["jane", "john"]),
        ("%", &[ODD]),
        ("_", &[ODD]),
        ("*?_", &[ODD]),
        ("SÖHNE", &[ODD]),
        ("ångström", &[ZOE]),
        ("ZOË", &[ZOE]),
        ("zoe\u{308}", &[ZOE]),
        ("Ë", &[ZOE]),
        ("j%n", &[]),
        ("j_ne", &[]),
        ("jane\0", &[]),
        ("\0", &[]),
        ("gina", &[]),
        ("dora", &[]),
        ("Jones", &[]),
        ("../", &[]),
        ("&domain_id=", &[]),
        (&injection, &[]),
        ("jane#", &[]),
        ("jane%00", &[]),
        ("jane\\", &[]),
    ] {
        assert_eq!(cloud.search(acme, text, 10).await, all(expected), "{text:?}");
        let exact = expected.iter().find(|name| **name == text);
        let by_name = cloud.named(acme, text).await;
        assert_eq!(by_name.as_deref(), exact.map(|name| keystone.user("acme", name)), "{text:?}");
    }
    // What Keystone finds besides what was meant does not count as more.
    assert_eq!(cloud.search(acme, "_", 1).await, all(&[ODD]));
    assert!(cloud.search(acme, "j", 1).await.1);

    let (ours, theirs) = (keystone.user("acme", "jane"), keystone.user("globex", "jane"));
    assert_eq!(cloud.named(acme, "jane").await.as_deref(), Some(ours));
    assert_eq!(cloud.named(globex, "jane").await.as_deref(), Some(theirs));
    assert_eq!(cloud.named(acme, "ZOË ÅNGSTRÖM").await.as_deref(), Some(keystone.user("acme", ZOE)));
    assert_eq!(cloud.by_id(acme, theirs).await, None, "another domain's id is an unknown id");
    for id in ["..", ".", "../domains", "%2e%2e", "?domain_id=", keystone.user("acme", "dora"), &ours.to_uppercase()] {
        assert_eq!(cloud.by_id(acme, id).await, None, "{id}");
    }
    let with_hyphens = uuid::Uuid::parse_str(ours).unwrap().to_string();
    let joined = |attribute: &str, value: &str| Lookup::Attribute { name: attribute.to_owned(), value: value.to_owned() };
    assert_eq!(cloud.get(acme, joined("id", &with_hyphens)).await.map(|user| user.subject.to_string()).as_deref(), Some(ours));
    assert!(matches!(cloud.try_get(acme, joined("email", "jane@acme.example")).await, Err(ConnectorError::Unusable(_))));
}

#[tokio::test]
async fn a_name_that_differs_in_case_finds_one_person_or_nobody() {
    let Some(keystone) = Keystone::start().await else { return };
    let cloud = Cloud::new(&keystone, |_| {});
    let acme = keystone.domain("acme");
    let jane = keystone.user("acme", "jane").to_owned();
    assert_eq!(cloud.named(acme, "JANE").await.as_deref(), Some(jane.as_str()));
    // Keystone on this database takes case for a difference.
    let shouted = keystone.create_user("acme", "JANE").await;
    assert_eq!(cloud.named(acme, "jane").await, Some(jane.clone()));
    assert_eq!(cloud.named(acme, "JANE").await, Some(shouted.clone()));
    assert_eq!(cloud.named(acme, "Jane").await, None, "two are called so");
    keystone.disable_user(&shouted).await;
    assert_eq!(cloud.named(acme, "JANE").await, None, "who is disabled is not someone else");
    let admin = keystone.admin().await;
    admin.change(&format!("/users/{}", keystone.user("acme", "john")), "user", &json!({"email": "Jane@acme.example"})).await;
    assert_eq!(cloud.get(acme, Lookup::Mail("jane@acme.example".to_owned())).await, None, "two have this address");
}

#[tokio::test]
async fn t55_groups_and_roles_are_those_of_the_own_domain_and_of_what_a_sign_in_asks_for() {
    let Some(keystone) = Keystone::start().await else { return };
    let (acme, web) = (keystone.domain("acme"), keystone.project("acme", "web").to_owned());
    let (jane, john) = (keystone.user("acme", "jane"), keystone.user("acme", "john"));

    let found = Cloud::new(&keystone, |_| {}).by_id(acme, jane).await.unwrap();
    // She is in globex' admins, too.
    assert_eq!(claim(&found, "groups"), json!(["staff"]));
    assert_eq!(claim(&found, "group_ids"), json!([keystone.group("acme", "staff")]));
    assert_eq!(claim(&found, "domain"), acme);
    assert_eq!(claim(&found, "user_domain_name"), "acme");
    assert_eq!(claim(&found, "email"), "jane@acme.example");
    assert_eq!((claim(&found, "scope"), claim(&found, "roles"), claim(&found, "projects")), (json!("unscoped"), json!([]), json!([])));

    let scoped = |scope: Value| Cloud::new(&keystone, |config| config["scope"] = scope);
    let by_project = scoped(json!({"project": {"id": web}}));
    let found = by_project.by_id(acme, jane).await.unwrap();
    assert_eq!(claim(&found, "roles"), json!(["auditor", "member", "reader"]), "her own, her group's and what they imply");
    assert_eq!((claim(&found, "project_id"), claim(&found, "project_domain_id")), (json!(web), json!(acme)));
    let by_name = scoped(json!({"project": {"name": "web"}}));
    assert_eq!(by_name.by_id(acme, jane).await, Some(found));
    let gina = by_project.by_id(keystone.domain("globex"), keystone.user("globex", "gina")).await.unwrap();
    assert_eq!((claim(&gina, "roles"), claim(&gina, "project_id")), (json!([]), Value::Null), "she has no role there");
    let found = scoped(json!("domain")).by_id(acme, jane).await.unwrap();
    assert_eq!((claim(&found, "roles"), claim(&found, "domain_name")), (json!(["reader"]), json!("acme")));

    // Olga has her role on the system; then John by a group, which is another domain's.
    let by_system = Cloud::new(&keystone, |config| {
        config["scope"] = json!("system");
        config["systemRoles"] = json!(["admin"]);
    });
    let olga = by_system.by_id(DEFAULT, keystone.user("Default", "olga")).await.unwrap();
    assert_eq!(claim(&olga, "domain"), "system");
    assert_eq!(claim(&olga, "roles"), json!(["admin", "manager", "member", "reader"]), "what admin implies");
    assert_eq!(claim(&by_system.by_id(acme, john).await.unwrap(), "scope"), "unscoped");
    let admin = keystone.admin().await;
    admin.grant_group(keystone.role("member"), keystone.group("globex", "staff"), Scope::System).await;
    keystone.add_to_group(keystone.group("globex", "staff"), john).await;
    let found = by_system.by_id(acme, john).await.unwrap();
    assert_eq!((claim(&found, "roles"), claim(&found, "domain")), (json!(["member", "reader"]), json!(acme)));
    let token = keystone.validate(&keystone.token("acme", "john", Scope::System).await).await.expect(200).json();
    let mut roles: Vec<_> = token["token"]["roles"].as_array().unwrap().iter().map(|role| role["name"].as_str().unwrap()).collect();
    roles.sort_unstable();
    assert_eq!(claim(&found, "roles"), json!(roles), "the same as of a token");
}

#[tokio::test]
async fn roles_anywhere_are_read_where_the_mapping_asks_for_them() {
    let Some(keystone) = Keystone::start().await else { return };
    let (acme, john) = (keystone.domain("acme"), keystone.user("acme", "john"));
    assert_eq!(claim(&Cloud::new(&keystone, |_| {}).by_id(acme, john).await.unwrap(), "project_roles"), Value::Null);
    let cloud = Cloud::new(&keystone, |config| config["claims"] = json!("project_roles"));
    let (ours, theirs) = (keystone.project("acme", "web"), keystone.project("globex", "web"));
    let mut expected = vec![format!("{ours}/reader"), format!("{ours}/auditor"), format!("{theirs}/member"), format!("{theirs}/reader")];
    expected.sort();
    let found = cloud.by_id(acme, john).await.unwrap();
    assert_eq!((claim(&found, "project_roles"), claim(&found, "system_roles")), (json!(expected), json!([])));
    // What is disabled, or of a domain that is, gives no role, though Keystone lists it.
    keystone.disable_project(ours).await;
    expected.retain(|role| role.starts_with(theirs));
    assert_eq!(claim(&cloud.by_id(acme, john).await.unwrap(), "project_roles"), json!(expected));
    keystone.disable_domain(keystone.domain("globex")).await;
    assert_eq!(claim(&cloud.by_id(acme, john).await.unwrap(), "project_roles"), json!([]));

    let (olga, with_system) = (keystone.user("Default", "olga"), Cloud::new(&keystone, |config| config["claims"] = json!("system_roles")));
    assert_eq!(claim(&with_system.by_id(DEFAULT, olga).await.unwrap(), "system_roles"), json!(["admin", "manager", "member", "reader"]));
}

#[tokio::test]
async fn a_domain_that_is_unknown_disabled_or_called_system_has_nobody() {
    let Some(keystone) = Keystone::start().await else { return };
    let acme = keystone.domain("acme").to_owned();
    let (by_id, by_name) = (Cloud::new(&keystone, |_| {}), Cloud::with_tenants(&keystone, "user_domain_name", false, |_| {}));
    let only = Cloud::with_tenants(&keystone, "", true, |config| config["domainId"] = json!(acme));
    let jane = Some(keystone.user("acme", "jane").to_owned());
    assert_eq!(by_name.named("acme", "jane").await, jane);
    assert_eq!(only.named("whatever", "jane").await, jane);
    for (cloud, domain) in [
        (&by_id, "no-such-domain"),
        (&by_id, "acme"),
        (&by_id, "../users"),
        (&by_id, "system"),
        (&by_id, ".."),
        (&by_name, "no such domain"),
        (&by_name, "ACME"),
        (&by_name, "system"),
        (&by_name, "%"),
        (&by_name, &acme),
    ] {
        assert_eq!(cloud.named(domain, "jane").await, None, "{domain}");
        assert_eq!(cloud.search(domain, "", 10).await, (Vec::new(), false), "{domain}");
    }
    for cloud in [&by_id, &by_name] {
        for domain in ["", " "] {
            assert!(matches!(cloud.try_search(domain, "", 10).await, Err(ConnectorError::Unusable(_))), "{domain:?}");
        }
    }
    // A domain can be given that name, and is no tenant of the operators' by it.
    keystone.admin().await.create("/domains", "domain", &json!({"name": "system"})).await;
    assert_eq!(by_name.search("system", "", 10).await, (Vec::new(), false));
    keystone.rename_domain(keystone.domain("acme"), "acme of old").await;
    assert_eq!((by_name.named("acme", "jane").await, by_id.named(&acme, "jane").await), (None, jane));
    keystone.disable_domain(keystone.domain("acme")).await;
    for (cloud, domain) in [(&by_id, acme.as_str()), (&by_name, "acme of old"), (&only, "whatever")] {
        assert_eq!(cloud.named(domain, "jane").await, None, "{domain}");
        assert_eq!(cloud.search(domain, "", 10).await, (Vec::new(), false), "{domain}");
    }
}

#[tokio::test]
async fn t29_an_account_that_may_not_read_is_refused_and_nobody_is_said_to_be_unknown() {
    let Some(keystone) = Keystone::start().await else { return };
    let (acme, globex) = (keystone.domain("acme"), keystone.domain("globex"));
    let narrow = Cloud::new(&keystone, |config| {
        config["serviceAccount"] = account(&keystone, DENIZEN_NARROW, json!({"project": {"id": keystone.project("Default", "service")}}));
    });
    let one = Cloud::new(&keystone, |config| {
        config["serviceAccount"] = account(&keystone, DENIZEN_ACME, json!({"domain": {"id": acme}}));
    });
    let jane = |domain: &str| Lookup::Subject(Subject::parse(keystone.user(domain, "jane")).unwrap());
    for (cloud, name) in [(&narrow, "acme"), (&one, "globex")] {
        let domain = keystone.domain(name);
        for by in [jane(name), Lookup::Username("jane".to_owned()), Lookup::Mail("jane@acme.example".to_owned())] {
            let answer = cloud.try_get(domain, by).await;
            assert!(matches!(answer, Err(ConnectorError::Refused(_))), "{answer:?}");
        }
        assert!(matches!(cloud.try_search(domain, "", 10).await, Err(ConnectorError::Refused(_))));
    }
    // To an account of one domain Keystone answers 403 also of what is not there.
    assert_eq!(one.named(acme, "jane").await.as_deref(), Some(keystone.user("acme", "jane")));
    assert_eq!(claim(&one.by_id(acme, keystone.user("acme", "jane")).await.unwrap(), "groups"), json!(["staff"]));
    for id in ["no-such-user", keystone.user("globex", "jane"), keystone.user("acme", "dora")] {
        assert_eq!(one.by_id(acme, id).await, None, "{id}");
    }
    assert_eq!(one.search(acme, "jan", 10).await.0, ["jane"]);
    assert!(matches!(one.try_search(globex, "jan", 10).await, Err(ConnectorError::Refused(_))));
}

#[tokio::test]
async fn many_users_are_gone_through_page_by_page() {
    let settings = Settings { list_limit: Some(7), ..Settings::default() };
    let Some(keystone) = Keystone::start_with(settings).await else { return };
    let (cloud, acme, admin) = (Cloud::new(&keystone, |_| {}), keystone.domain("acme"), keystone.admin().await);
    for number in 0..40 {
        admin.create("/users", "user", &json!({"name": format!("person-{number:02}"), "domain_id": acme})).await;
    }
    admin.create("/users", "user", &json!({"name": "zz_top", "domain_id": acme, "email": "top@acme.example"})).await;
    let (names, truncated) = cloud.search(acme, "person", 40).await;
    assert_eq!((names.len(), truncated), (40, false));
    let (names, truncated) = cloud.search(acme, "person", 39).await;
    assert_eq!((names.len(), truncated), (39, true));
    assert_eq!(cloud.search(acme, "n-07", 10).await, (vec!["person-07".to_owned()], false));
    // Keystone takes `_` for any letter: all of them are gone through.
    assert_eq!(cloud.search(acme, "_", 10).await, (vec![ODD.to_owned(), "zz_top".to_owned()], false));
    let found = cloud.get(acme, Lookup::Mail("TOP@acme.example".to_owned())).await.unwrap();
    assert_eq!(claim(&found, "user_name"), "zz_top");
}

/// What the examples of `deploy/` have: tokens by the role `service` on a project, people by `reader` on the system.
#[tokio::test]
async fn people_are_read_in_a_scope_of_their_own() {
    let Some(keystone) = Keystone::start().await else { return };
    let service = json!({"project": {"name": "service", "domain": {"id": "default"}}});
    let acme = keystone.domain("acme");
    let one = Cloud::new(&keystone, |config| config["serviceAccount"]["scope"] = service.clone());
    let error = one.try_search(acme, "jane", 10).await.unwrap_err();
    assert!(matches!(error, ConnectorError::Refused(_)), "{error}");
    let both = Cloud::new(&keystone, |config| {
        config["serviceAccount"]["scope"] = service;
        config["serviceAccount"]["directoryScope"] = json!({"system": "all"});
        config["acceptTokens"] = json!(true);
    });
    assert_eq!(both.search(acme, "jane", 10).await, (vec!["jane".to_owned()], false));
    let token = keystone.token("acme", "jane", Scope::Unscoped).await;
    let now = SystemClock.now();
    let verdict = both.connector.token.as_ref().unwrap().authenticate(UnverifiedToken::new(&token), now).await;
    let Ok(Verdict::Genuine(verified)) = verdict else { panic!("{verdict:?}") };
    assert_eq!(claim(&verified.user, "groups"), json!(["staff"]));
}
