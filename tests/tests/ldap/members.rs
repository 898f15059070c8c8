//! Groups by name and by search, and who is in them: as each person's own groups say.

use claims_mapping::TenantScope;
use connectors::{ConnectorError, Groups, UserQuery};
use denizen_tests::slapd::{
    Slapd,
    content::{ACME, GROUPS, group, group_dn, person, person_dn, uuid},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::*;

fn both_ways(nested: bool) -> [Value; 2] {
    [json!({ "memberOf": { "base": GROUPS }, "nested": nested }), json!({ "search": { "base": GROUPS }, "nested": nested })]
}

fn with(slapd: &Slapd, groups: &Value) -> Corp {
    Corp::new(slapd, |config| config["groups"] = groups.clone())
}

fn port(corp: &Corp) -> &dyn Groups {
    corp.connector.groups.as_deref().unwrap()
}

fn scope(tenant: &Arc<Tenant>) -> TenantScope {
    TenantScope::of_verified_caller(Arc::clone(tenant))
}

async fn members(corp: &Corp, tenant: &Arc<Tenant>, name: &str) -> Vec<String> {
    let found = port(corp).members(&scope(tenant), name, 1_000).await.unwrap();
    assert!(!found.truncated, "{name}");
    subjects(&found).iter().map(ToString::to_string).collect()
}

async fn found(corp: &Corp, tenant: &Arc<Tenant>, text: &str) -> Vec<String> {
    let found = port(corp).search(&scope(tenant), &UserQuery { text: text.to_owned(), limit: 100 }).await.unwrap();
    let mut names: Vec<_> = found.groups.into_iter().map(|group| group.name).collect();
    names.sort();
    names
}

fn people(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| uuid(*number)).collect()
}

#[tokio::test]
async fn t55_a_group_has_its_own_tenants_people_only() {
    let slapd = without_zoe().await;
    for config in both_ways(false) {
        let corp = with(&slapd, &config);
        let cases: [(_, &str, &[u32]); 8] = [
            (&corp.acme, "staff", &[1, 3]),
            (&corp.globex, "staff", &[2, 4]),
            // It lists jane of acme.
            (&corp.globex, "admins", &[4]),
            (&corp.acme, "admins", &[]),
            (&corp.acme, "inner", &[1]),
            (&corp.acme, "outer", &[]),
            (&corp.globex, "bridge", &[]),
            (&corp.acme, "nobody", &[]),
        ];
        for (tenant, name, expected) in cases {
            assert_eq!(members(&corp, tenant, name).await, people(expected), "{name} of {} {config}", tenant.id);
        }
        assert_eq!(found(&corp, &corp.acme, "").await, ["beyond", "inner", "outer", "staff"], "{config}");
        assert_eq!(found(&corp, &corp.globex, "").await, ["admins", "bridge", "owners", "staff"], "{config}");
        assert_eq!(found(&corp, &corp.acme, "TA").await, ["staff"], "without regard to case");
        assert!(found(&corp, &corp.acme, "own").await.is_empty(), "globex's");
        assert_eq!(port(&corp).get(&scope(&corp.acme), "owners").await.unwrap(), None);
    }
}

#[tokio::test]
async fn t28_nested_groups_agree_with_what_their_people_say() {
    let slapd = without_zoe().await;
    for nested in [false, true] {
        for config in both_ways(nested) {
            let corp = with(&slapd, &config);
            for tenant in [&corp.acme, &corp.globex] {
                let everyone = port(&corp).search(&scope(tenant), &UserQuery { text: String::new(), limit: 100 }).await.unwrap();
                let users = corp.directory().search(&scope(tenant), &UserQuery { text: String::new(), limit: 100 }).await.unwrap();
                for name in everyone.groups.iter().map(|group| &group.name) {
                    let mut expected = Vec::new();
                    for subject in subjects(&users) {
                        let user = corp.directory().get(&scope(tenant), &Lookup::Subject(subject.clone())).await.unwrap().unwrap();
                        if groups_of(&user).contains(name) {
                            expected.push(subject.to_string());
                        }
                    }
                    assert_eq!(members(&corp, tenant, name).await, expected, "{name} of {} {config}", tenant.id);
                }
            }
            let outer = if nested { people(&[1]) } else { Vec::new() };
            assert_eq!(members(&corp, &corp.acme, "outer").await, outer, "inner and outer hold each other: {config}");
            assert!(members(&corp, &corp.acme, "beyond").await.is_empty(), "it is reached over globex's `bridge` only: {config}");
        }
    }
}

#[tokio::test]
async fn t24_names_are_letter_for_letter_and_two_of_one_name_are_none() {
    let slapd = without_zoe().await;
    let (jane, odd) = (person_dn("acme", "jane"), r"a*b(c)\d");
    let named = |dn: &str, names: &[&str]| {
        let (_, mut attributes) = group("acme", "x", ACME, std::slice::from_ref(&jane));
        attributes.retain(|(name, _)| *name != "cn");
        attributes.push(("cn", names.iter().map(|name| (*name).to_owned()).collect()));
        (dn.to_owned(), attributes)
    };
    slapd.add(named(&format!("cn=odd,ou=acme,{GROUPS}"), &["odd", odd])).await;
    slapd.add(named(&format!("cn=STAFF,{GROUPS}"), &["STAFF"])).await;
    slapd.add(named(&format!("cn=twin,{GROUPS}"), &["twin"])).await;
    slapd.add(named(&format!("cn=twin,ou=globex,{GROUPS}"), &["twin"])).await;
    for config in both_ways(false) {
        let corp = with(&slapd, &config);
        assert_eq!(members(&corp, &corp.acme, "staff").await, people(&[1, 3]), "{config}");
        assert_eq!(members(&corp, &corp.acme, "STAFF").await, people(&[1]), "{config}");
        assert_eq!(members(&corp, &corp.acme, odd).await, people(&[1]), "{config}");
        for name in ["Staff", " staff", "staff ", "sta*", "*", "", "\0", "staff)(cn=*", "twin", "staff\0"] {
            assert_eq!(port(&corp).get(&scope(&corp.acme), name).await.unwrap(), None, "{name:?} {config}");
            assert!(members(&corp, &corp.acme, name).await.is_empty(), "{name:?} {config}");
        }
        assert_eq!(found(&corp, &corp.acme, "*").await, [odd], "{config}");
        for text in ["**", ")(cn=*", "\0", "twin", r"\2a"] {
            assert!(found(&corp, &corp.acme, text).await.is_empty(), "{text:?} {config}");
        }
    }
}

#[tokio::test]
async fn members_are_users_and_as_many_as_are_wanted() {
    let slapd = without_zoe().await;
    let everyone: Vec<_> = (100..220).map(|n| (person_dn("acme", &format!("p{n}")), n)).collect();
    slapd.add_all(everyone.iter().map(|(dn, n)| person(dn, &format!("p{n}"), "Pat Pending", *n, &[ACME], PASSWORD))).await;
    let mut listed: Vec<_> = everyone.iter().map(|(dn, _)| dn.clone()).collect();
    // Someone who is disabled, of another tenant, no user, not there, no one.
    listed.extend([person_dn("acme", "dora"), person_dn("globex", "greta"), READER.to_owned(), person_dn("acme", "ghost")]);
    slapd.add(group("acme", "many", ACME, &listed)).await;
    for config in both_ways(true) {
        let corp = with(&slapd, &config);
        for (limit, expected, truncated) in [(119, 119, true), (1, 1, true), (121, 120, false)] {
            let found = port(&corp).members(&scope(&corp.acme), "many", limit).await.unwrap();
            assert_eq!((found.users.len(), found.truncated), (expected, truncated), "{limit} {config}");
            assert!(found.users.iter().all(|user| groups_of(user).is_empty()));
        }
        let some = port(&corp).search(&scope(&corp.acme), &UserQuery { text: String::new(), limit: 2 }).await.unwrap();
        assert_eq!((some.groups.len(), some.truncated), (2, true));
    }
    // Whoever is not where users are searched is none, whatever a group lists.
    slapd.modify(&person_dn("globex", "greta"), "openCloudMemberOfSchool", &[ACME]).await;
    for groups in both_ways(false) {
        let below = |config: &mut Value| {
            config["userSearch"]["base"] = format!("ou=acme,{PEOPLE}").into();
            config["groups"] = groups.clone();
        };
        let corp = Corp::new(&slapd, below);
        assert_eq!(members(&corp, &corp.acme, "many").await.len(), 120, "{groups}");
    }
}

#[tokio::test]
async fn groups_that_list_usernames() {
    let slapd = without_zoe().await;
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let attributes = vec![
        ("objectClass", texts(&["posixGroup", "openCloudEducationClass"])),
        ("cn", texts(&["posix"])),
        ("gidNumber", texts(&["7"])),
        ("memberUid", texts(&["jane", "JOE", "greta", "dora", "ghost", "a*b"])),
        ("openCloudMemberOfSchool", texts(&[ACME])),
    ];
    slapd.add((format!("cn=posix,ou=acme,{GROUPS}"), attributes)).await;
    let corp = with(&slapd, &json!({ "search": { "base": GROUPS, "memberAttribute": "memberUid" }, "filter": "(objectClass=posixGroup)" }));
    assert_eq!(members(&corp, &corp.acme, "posix").await, people(&[1, 10]), "`JOE` is not how joe is written, as in his own groups");
    let joe = corp.fixture().get(&corp.acme, Lookup::Username("joe".to_owned())).await.unwrap();
    assert!(groups_of(&joe).is_empty());
}

#[tokio::test]
async fn without_a_place_for_groups_there_are_none_to_ask_for_and_an_outage_is_none() {
    let mut slapd = Slapd::start().await;
    assert!(Corp::new(&slapd, |_| {}).connector.groups.is_none(), "`memberOf` says nothing of where groups are");
    let corps = both_ways(true).map(|config| with(&slapd, &config));
    slapd.delete(&group_dn("acme", "staff")).await;
    slapd.stop();
    for corp in &corps {
        let (port, scope) = (port(corp), scope(&corp.acme));
        let is_down = |error: Option<ConnectorError>| matches!(error, Some(ConnectorError::Unavailable(_)));
        assert!(is_down(port.get(&scope, "staff").await.err()));
        assert!(is_down(port.members(&scope, "staff", 10).await.err()));
        assert!(is_down(port.search(&scope, &UserQuery { text: String::new(), limit: 10 }).await.err()));
    }
}
