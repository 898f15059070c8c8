//! Who is found by their POSIX numbers, and who is disabled.

use denizen_tests::{
    directory_conformance::{by_number, is_found},
    slapd::{
        Slapd,
        content::{ACME_JANE_PASSWORD, numbered_people, person_dn, uuid},
    },
};

use super::{Corp, configured};

#[tokio::test]
async fn t25_numbers_find_one_person_of_the_tenant_or_nobody() {
    let slapd = Slapd::start().await;
    slapd.add_all(numbered_people()).await;
    let corp = Corp::new(&slapd, |_| {});
    by_number(&corp.fixture()).await;
    // And so where the tenant stands in a filter.
    let by_filter = configured(&slapd, |config| {
        config["userSearch"]["tenantFilter"] = "(ou={tenant})".into();
        config["groups"]["tenantFilter"] = "(ou:dn:={tenant})".into();
    });
    by_number(&Corp::build(&by_filter, None, false, ("acme", "globex")).unwrap().fixture()).await;

    // What they are looked up by is what the mapping makes of them.
    let pia = corp.fixture().get(&corp.acme, connectors::Lookup::Username("pia".to_owned())).await.unwrap();
    let mapped = corp.mapping.evaluate(&pia).unwrap();
    assert_eq!((mapped.uid_number, mapped.gid_number), (Some(5001), Some(500)));
}

#[tokio::test]
async fn whoever_is_disabled_is_found_by_nothing_until_they_are_not() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    let fixture = corp.fixture();
    assert!(!is_found(&fixture, "dora", 7).await);
    assert!(is_found(&fixture, "jane", 1).await);
    let dn = person_dn("acme", "jane");
    slapd.modify(&dn, "openCloudUserEnabled", &["FALSE"]).await;
    assert!(!is_found(&fixture, "jane", 1).await);
    assert_eq!(corp.sign_in(Some(&corp.acme), "jane", ACME_JANE_PASSWORD).await.unwrap(), None);
    // Whoever is not said to be disabled is not.
    for values in [&["TRUE"][..], &[]] {
        slapd.modify(&dn, "openCloudUserEnabled", values).await;
        assert!(is_found(&fixture, "jane", 1).await, "{values:?}");
    }
    let jane = corp.sign_in(Some(&corp.acme), "jane", ACME_JANE_PASSWORD).await.unwrap().unwrap();
    assert_eq!(jane.subject.as_str(), uuid(1));
}
