//! Groups: whose they are, groups in groups, and very many.

use denizen_tests::{
    directory_conformance::groups,
    slapd::{
        Slapd,
        content::{self, ACME, GROUPS, person_dn},
    },
};
use serde_json::{Value, json};

use super::Corp;

async fn groups_of_jane(corp: &Corp) -> Vec<String> {
    groups(&corp.fixture().sign_in(Some(&corp.acme), "jane", content::ACME_JANE_PASSWORD).await.unwrap())
}

fn both_ways(nested: bool) -> [Value; 2] {
    [json!({ "memberOf": {}, "nested": nested }), json!({ "search": { "base": GROUPS }, "nested": nested })]
}

#[tokio::test]
async fn t55_another_tenants_group_never_shows() {
    let slapd = Slapd::start().await;
    for config in both_ways(false) {
        let corp = Corp::new(&slapd, |c| c["groups"] = config.clone());
        assert_eq!(groups_of_jane(&corp).await, ["inner", "staff"], "`admins` is globex's, and lists her: {config}");
        let theirs = corp.fixture().sign_in(Some(&corp.globex), "jane", content::GLOBEX_JANE_PASSWORD).await.unwrap();
        assert_eq!(groups(&theirs), ["owners", "staff"]);
        // The sign-in that names no tenant has the groups of the entry's own.
        let joe = corp.fixture().sign_in(None, "joe", content::PASSWORD).await.unwrap();
        assert_eq!(groups(&joe), ["staff"]);
    }
    // Not a group of two tenants, and not one of none.
    for values in [&[ACME, content::GLOBEX][..], &[]] {
        slapd.modify(&content::group_dn("acme", "staff"), "openCloudMemberOfSchool", values).await;
        for config in both_ways(false) {
            let corp = Corp::new(&slapd, |c| c["groups"] = config.clone());
            assert_eq!(groups_of_jane(&corp).await, ["inner"], "{values:?} {config}");
        }
    }
}

#[tokio::test]
async fn t28_circles_end_and_no_way_leads_over_another_tenant() {
    let slapd = Slapd::start().await;
    for config in both_ways(true) {
        let corp = Corp::new(&slapd, |c| c["groups"] = config.clone());
        // inner and outer hold each other; `beyond` is acme's, and reached only over globex's `bridge`.
        assert_eq!(groups_of_jane(&corp).await, ["inner", "outer", "staff"], "{config}");
    }
}

#[tokio::test]
async fn t28_five_thousand_groups_come_in_pages() {
    let slapd = Slapd::start().await;
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let jane = person_dn("acme", "jane");
    let group = |number: usize| {
        let name = format!("g{number:04}");
        let attributes = vec![
            ("objectClass", texts(&["groupOfUniqueNames", "openCloudEducationClass"])),
            ("cn", vec![name.clone()]),
            ("uniqueMember", vec![jane.clone()]),
            ("openCloudMemberOfSchool", texts(&[ACME])),
        ];
        (format!("cn={name},ou=acme,{GROUPS}"), attributes)
    };
    slapd.add_all((0..5_000).map(group)).await;
    let config = |most: usize| json!({ "search": { "base": GROUPS, "memberAttribute": "uniqueMember" }, "filter": "(objectClass=groupOfUniqueNames)", "most": most });
    let corp = Corp::new(&slapd, |c| c["groups"] = config(5_000));
    let found = groups_of_jane(&corp).await;
    assert_eq!((found.len(), found.first().map(String::as_str), found.last().map(String::as_str)), (5_000, Some("g0000"), Some("g4999")));
    // Who has more than may be is not signed in with some of them.
    let corp = Corp::new(&slapd, |c| c["groups"] = config(4_999));
    let result = corp.sign_in(Some(&corp.acme), "jane", content::ACME_JANE_PASSWORD).await;
    assert!(matches!(result, Err(connectors::ConnectorError::Unusable(_))), "{result:?}");
}

#[tokio::test]
async fn a_group_that_is_gone_gives_nothing() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    slapd.delete(&content::group_dn("acme", "staff")).await;
    assert_eq!(groups_of_jane(&corp).await, ["inner"]);
}
