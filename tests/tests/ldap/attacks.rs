//! The rows of the attack list that concern the directory's content.

use std::sync::Arc;

use claims_mapping::Subject;
use connectors::Lookup;
use denizen_tests::{
    directory_conformance::groups,
    slapd::{
        Slapd,
        content::{self, ACME, ODD_NAMES, PASSWORD, PEOPLE, person, person_dn, uuid},
    },
};
use serde_json::json;

use super::Corp;

#[tokio::test]
async fn t23_no_password_reaches_no_server() {
    let mut slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    slapd.stop();
    for password in ["", " ", "\t\r\n ", "\0", "\0\0", "open sesame\0"] {
        assert_eq!(corp.sign_in(Some(&corp.acme), "joe", password).await.unwrap(), None, "{password:?}");
    }
    assert!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.is_err(), "any other password is sent to the server, which is gone");
}

#[tokio::test]
async fn t24_odd_names_are_taken_literally_in_group_filters_too() {
    let slapd = Slapd::start().await;
    let members: Vec<_> = ODD_NAMES.iter().map(|uid| person_dn("acme", uid)).collect();
    slapd.add(content::group("acme", "odd", ACME, &members)).await;
    let search = json!({ "search": { "base": content::GROUPS } });
    let by_uid = json!({ "search": { "base": content::GROUPS, "memberAttribute": "memberUid" }, "filter": "(objectClass=posixGroup)" });
    let posix = |name: &str, number: &str, uids: &[&str]| {
        let texts = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        let attributes = vec![
            ("objectClass", texts(&["posixGroup", "openCloudEducationClass"])),
            ("cn", texts(&[name])),
            ("gidNumber", texts(&[number])),
            ("memberUid", texts(uids)),
            ("openCloudMemberOfSchool", texts(&[ACME])),
        ];
        (format!("cn={name},ou=acme,{}", content::GROUPS), attributes)
    };
    slapd.add(posix("starred", "1", &["a*b"])).await;
    slapd.add(posix("other", "2", &["axb", "joe"])).await;
    for (config, name, expected) in [
        (&search, "a*b", vec!["odd"]),
        (&search, "p(q", vec!["odd"]),
        (&search, "r)s", vec!["odd"]),
        (&search, r"back\slash", vec!["odd"]),
        (&by_uid, "a*b", vec!["starred"]),
        (&by_uid, "joe", vec!["other"]),
        (&by_uid, "p(q", vec![]),
    ] {
        let corp = Corp::new(&slapd, |c| c["groups"] = config.clone());
        let user = corp.sign_in(Some(&corp.acme), name, PASSWORD).await.unwrap().unwrap();
        assert_eq!(groups(&user), expected, "{name}");
    }
}

#[tokio::test]
async fn t25_two_entries_are_no_one() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    assert!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().is_some());
    slapd.add(person(&format!("uid=joe,{PEOPLE}"), "joe", "Second Joe", 90, &[ACME], PASSWORD)).await;
    assert_eq!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap(), None);
    assert_eq!(corp.sign_in(None, "joe", PASSWORD).await.unwrap(), None);
    assert_eq!(corp.fixture().named(&corp.acme, "joe").await, None);
    assert!(
        corp.fixture().get(&corp.acme, Lookup::Subject(Subject::parse(&uuid(3)).unwrap())).await.is_some(),
        "the id is still one person's"
    );
}

#[tokio::test]
async fn t58_a_name_given_again_is_another_person() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |config| config["userSearch"]["idAttribute"] = "entryUUID".into());
    let first = corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().unwrap().subject;
    let dn = person_dn("acme", "joe");
    slapd.delete(&dn).await;
    assert_eq!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap(), None, "the connections that are kept see it too");
    slapd.add(person(&dn, "joe", "Joe the Second", 3, &[ACME], PASSWORD)).await;
    let second = corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().unwrap().subject;
    assert_ne!(first, second);
    assert_eq!(corp.fixture().get(&corp.acme, Lookup::Subject(first)).await, None);
}

#[tokio::test]
async fn a_user_without_an_id_is_unusable_and_does_not_hide_others() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    slapd.modify(&person_dn("acme", "joe"), "openCloudUUID", &[]).await;
    assert!(matches!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await, Err(connectors::ConnectorError::Unusable(_))));
    let found = corp.fixture().search(&corp.acme, "doe", 10).await;
    assert_eq!(found.users.iter().map(|u| u.subject.to_string()).collect::<Vec<_>>(), [uuid(1)]);
}

/// People's binds and the account's searches never share a connection: only the account may read here, so a search on a
/// connection that someone has signed in on would find nothing.
#[tokio::test]
async fn searches_never_run_as_the_person_who_signed_in() {
    let slapd = Slapd::start().await;
    let corp = Arc::new(Corp::new(&slapd, |config| config["connections"] = 2.into()));
    let tasks: Vec<_> = (0..40)
        .map(|turn| {
            let corp = Arc::clone(&corp);
            tokio::spawn(async move {
                if turn % 2 == 0 {
                    let password = if turn % 4 == 0 { PASSWORD } else { "wrong" };
                    assert_eq!(corp.sign_in(Some(&corp.acme), "joe", password).await.unwrap().is_some(), turn % 4 == 0);
                } else {
                    assert!(corp.finds_joe().await.unwrap());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
