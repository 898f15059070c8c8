//! The real OpenCloud finds the people of a real directory through the real Denizen: sign-in by its gateway, searches at its graph.
//!
//! Not here, for the OpenCloud that can be had (tests/README.md) has none of it: `OC_MULTI_TENANT_ENABLED`; its proxy, which takes
//! access tokens and gives roles, and whose sign-in is here the gateway's `Authenticate`, as the proxy calls it; calls of TenantAPI;
//! and its web. What these ask of Denizen is in `opencloud_provider` and in the suites of the doors, by actors that speak as they do.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::Instant;

use denizen_tests::{
    Answer, Broker, Configuration, OpenCloud, RevaToken,
    cs3::rpc::Code,
    folder, jwt, ports,
    process::PATIENCE,
    reva::{Refusal, Session},
    slapd::{
        Slapd,
        content::{ACME, GLOBEX, GROUPS, PEOPLE, READER, READER_PASSWORD, mail, person_dn, uuid},
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

const SECRET: &str = "the-jwt-secret-of-these-tests-0123456789";
/// An id that nobody has.
const NOBODY: &str = "cccccccc-0000-4000-8000-999999999999";

/// How OpenCloud reaches Denizen.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// `unix:` and a path.
    Socket,
    /// `dns:` and an address.
    Address,
}

/// A directory, Denizen before it, and OpenCloud before that. Those before end first.
struct Cloud {
    opencloud: OpenCloud,
    broker: Broker,
    slapd: Slapd,
    _socket: TempDir,
}

impl Cloud {
    /// `None` where OpenCloud is not built, which the actor has said then. Nothing of people is remembered, so that what changes shows at
    /// once.
    async fn start(way: Way) -> Option<Self> {
        let (socket, slapd) = (folder::new("socket"), Slapd::start().await);
        let (door, users) = match way {
            Way::Socket => {
                let path = socket.path().join("cs3.sock");
                (json!({"socket": {"path": path}}), format!("unix:{}", path.display()))
            }
            Way::Address => {
                let address = format!("127.0.0.1:{}", ports::free());
                (json!({"address": address, "tokenlessLookups": true}), format!("dns:{address}"))
            }
        };
        let broker = Broker::start(configuration(&slapd, door)).await;
        let opencloud = OpenCloud::start(&users, SECRET).await?;
        Some(Self { opencloud, broker, slapd, _socket: socket })
    }

    async fn sign_in(&self, name: &str) -> Session {
        self.opencloud.sign_in_by("username", name).await.unwrap_or_else(|refused| panic!("{name}: {refused:?}\n{}", self.opencloud.log()))
    }

    /// Why they can not, in CS3's code.
    async fn refused(&self, claim: &str, value: &str) -> Code {
        self.opencloud.sign_in_by(claim, value).await.expect_err("no sign-in").cs3()
    }

    /// Waits until OpenCloud, which looks for a lost Denizen only now and then, lets someone in again.
    async fn recovers(&self, id: &str) {
        let begun = Instant::now();
        while let Err(refused) = self.opencloud.sign_in(id).await {
            let is_absence = matches!(refused, Refusal::Cs3(Code::NotFound, _));
            assert!(!is_absence && begun.elapsed() < PATIENCE, "{refused:?}\n{}", self.opencloud.log());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

fn configuration(slapd: &Slapd, mut door: Value) -> Configuration {
    door["jwtSecret"] = SECRET.into();
    door["cache"] = json!({"seconds": 0, "graceSeconds": 0});
    let corp = json!({
        "id": "corp", "type": "ldap", "operatedBy": "operator", "tenants": ["acme", "globex"], "ids": "verbatim", "deadlineSeconds": 5,
        "url": slapd.ldaps_url(), "caFile": slapd.ca_path(), "bindDn": READER, "bindPassword": READER_PASSWORD,
        "userSearch": {"base": PEOPLE, "idAttribute": "openCloudUUID", "enabledFilter": "(!(openCloudUserEnabled=FALSE))"},
        "groups": {"memberOf": {"base": GROUPS}},
        "claimMappings": {
            "username": {"claim": "uid"}, "tenant": {"claim": "openCloudMemberOfSchool"}, "displayName": {"claim": "displayName"},
            "email": {"claim": "mail"}, "groups": {"claim": "groups"},
        },
    });
    Configuration::default()
        .with("/tenants", json!([{"id": "acme", "externalIds": {"corp": ACME}}, {"id": "globex", "externalIds": {"corp": GLOBEX}}]))
        .with("/connectors", json!([corp]))
        .with("/systemTenant", Value::Null)
        .with("/clients", json!([]))
        .with("/reviewers", json!([]))
        .with("/cs3", door)
}

/// That it is an error, and one that nobody takes for an absence or for a sign-out.
fn is_outage(answer: &Answer) -> bool {
    answer.status >= 500
}

#[tokio::test]
async fn two_tenants_over_the_unix_socket() {
    two_tenants(Way::Socket).await;
}

#[tokio::test]
async fn two_tenants_over_an_address() {
    two_tenants(Way::Address).await;
}

/// Attacks 1 and 2 among them: what is of the other tenant is as what is not there.
async fn two_tenants(way: Way) {
    let Some(cloud) = Cloud::start(way).await else { return };
    let opencloud = &cloud.opencloud;
    let (acme, globex) = (cloud.sign_in("jane@acme").await, cloud.sign_in("jane@globex").await);
    for (session, tenant, number, name) in [(&acme, "acme", 1, "Jane Doe"), (&globex, "globex", 2, "Jane Roe")] {
        let user = jwt::claims(&session.token)["user"].clone();
        let told = (&user["id"]["opaque_id"], &user["id"]["tenant_id"], &user["id"]["idp"], &user["username"], &user["display_name"]);
        let (id, username) = (json!(uuid(number)), json!(format!("jane@{tenant}")));
        assert_eq!(told, (&id, &json!(tenant), &json!(cloud.broker.issuer()), &username, &json!(name)), "{user}");
        assert_eq!(user["mail"], mail("jane", tenant));
        // The id is enough of itself, as the proxy has no more: the `sub` of the access token.
        let by_id = opencloud.sign_in(&uuid(number)).await.unwrap();
        assert_eq!(jwt::claims(&by_id.token)["user"]["id"], user["id"]);
    }
    let ids = |session: &Session| session.user.groups.clone();
    assert!(ids(&acme).iter().all(|id| !ids(&globex).contains(id)) && !ids(&acme).is_empty(), "both have a group `staff`; it is not one");

    // The same text: each finds their own, and who is disabled or of no tenant is nobody's.
    for (text, of_acme, of_globex) in [
        ("jane", vec![1], vec![2]),
        ("Doe", vec![1, 3], vec![]),
        ("Roe", vec![], vec![2, 4]),
        ("nils", vec![], vec![]),
        ("dora", vec![], vec![]),
    ] {
        for (session, numbers) in [(&acme, of_acme), (&globex, of_globex)] {
            let mut found = opencloud.found(&session.token, text).await;
            found.sort();
            assert_eq!(found, numbers.into_iter().map(uuid).collect::<Vec<_>>(), "{text} as {}", session.user.username);
        }
    }
    for (session, own, foreign) in [(&acme, 3, 4), (&globex, 4, 3)] {
        let person = opencloud.person(&session.token, &uuid(own)).await.expect(200).json();
        assert_eq!(person["id"], uuid(own), "{person}");
        let absent = opencloud.person(&session.token, NOBODY).await.expect(404);
        let theirs = opencloud.person(&session.token, &uuid(foreign)).await.expect(404);
        assert_eq!(theirs.json()["error"]["code"], absent.json()["error"]["code"]);
        assert!(opencloud.found(&session.token, &uuid(foreign)).await.is_empty(), "nor by their whole id");
    }

    // Groups of one name are two groups.
    let mut groups = Vec::new();
    for session in [&acme, &globex] {
        let found = opencloud.groups(&session.token, "staff").await.expect(200).json();
        let found = found["value"].as_array().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let id = found[0]["id"].as_str().unwrap().to_owned();
        assert!(session.user.groups.contains(&id), "it is what their token names");
        groups.push(id);
    }
    opencloud.group(&acme.token, &groups[0]).await.expect(200);
    opencloud.group(&acme.token, &groups[1]).await.expect(404);
}

#[tokio::test]
async fn who_is_unknown_disabled_or_of_no_tenant_does_not_sign_in() {
    let Some(cloud) = Cloud::start(Way::Socket).await else { return };
    let joe = cloud.sign_in("joe@acme").await;
    for (claim, value) in [
        ("userid", NOBODY),
        ("userid", "joe"),
        ("username", "joe"),
        ("username", "joe@globex"),
        ("username", "joe@initech"),
        ("username", "nobody@acme"),
        ("username", "dora@acme"),
        ("username", "nils@acme"),
        ("username", "zoe@acme"),
        ("username", "*@acme"),
    ] {
        assert_eq!(cloud.refused(claim, value).await, Code::NotFound, "{claim}:{value}");
    }
    // What is nobody's over the instance, is not for those without a token.
    assert_ne!(cloud.refused("mail", &mail("joe", "acme")).await, Code::Ok);

    let dn = person_dn("acme", "joe");
    cloud.slapd.modify(&dn, "openCloudUserEnabled", &["FALSE"]).await;
    assert_eq!(cloud.refused("userid", &uuid(3)).await, Code::NotFound);
    assert_eq!(cloud.refused("username", "joe@acme").await, Code::NotFound);
    let jane = cloud.sign_in("jane@acme").await;
    assert_eq!(cloud.opencloud.found(&jane.token, "Doe").await, [uuid(1)]);
    cloud.opencloud.person(&jane.token, &uuid(3)).await.expect(404);
    cloud.slapd.modify(&dn, "openCloudUserEnabled", &["TRUE"]).await;
    assert_eq!(cloud.opencloud.sign_in(&uuid(3)).await.unwrap().user.id, joe.user.id);
}

#[tokio::test]
async fn t02_a_token_that_claims_more_than_is_recorded_finds_nobody() {
    let Some(cloud) = Cloud::start(Way::Socket).await else { return };
    let jane = cloud.sign_in("jane@acme").await;
    let opencloud = &cloud.opencloud;
    let own = RevaToken::of_user(&jane.user);
    assert_eq!(opencloud.found(&own.sign(SECRET), "jane").await, [uuid(1)]);
    // OpenCloud takes these: they are signed with its secret.
    for (why, token) in [
        ("her id in the other tenant", own.clone().with("/user/id/tenant_id", "globex")),
        ("her id in a tenant that is none", own.clone().with("/user/id/tenant_id", "initech")),
        ("her id in no tenant", own.clone().tenantless()),
        ("an id that nobody has", own.clone().with("/user/id/opaque_id", NOBODY)),
        ("a service account", RevaToken::service_account("00000000-0000-4000-8000-00000000000a")),
    ] {
        let answer = opencloud.search(&token.sign(SECRET), "jane").await;
        assert!(answer.status >= 400 && !answer.text.contains(&uuid(1)) && !answer.text.contains(&uuid(2)), "{why}: {answer:?}");
    }
}

#[tokio::test]
async fn an_outage_of_denizen_is_an_error_and_never_an_absence() {
    for way in [Way::Socket, Way::Address] {
        let Some(mut cloud) = Cloud::start(way).await else { return };
        let jane = cloud.sign_in("jane@acme").await;
        cloud.broker.stop().await;
        for (claim, value) in [("userid", uuid(1)), ("username", "jane@acme".to_owned()), ("userid", NOBODY.to_owned())] {
            assert_eq!(cloud.refused(claim, &value).await, Code::Internal, "{way:?} {claim}:{value}");
        }
        let (search, person) = (cloud.opencloud.search(&jane.token, "jane").await, cloud.opencloud.person(&jane.token, &uuid(3)).await);
        assert!(is_outage(&search) && is_outage(&person), "{search:?} {person:?}");
        cloud.broker.restart().await;
        cloud.recovers(&uuid(1)).await;
        assert_eq!(cloud.opencloud.found(&jane.token, "jane").await, [uuid(1)], "{way:?}");
        assert_eq!(cloud.refused("userid", NOBODY).await, Code::NotFound);
    }
}

#[tokio::test]
async fn an_outage_of_the_directory_is_an_error_and_never_an_absence() {
    let Some(mut cloud) = Cloud::start(Way::Socket).await else { return };
    let jane = cloud.sign_in("jane@acme").await;
    // An id that was never given out is nobody's, whatever the directory says: joe's is, from here on.
    assert_eq!(cloud.opencloud.found(&jane.token, "joe").await, [uuid(3)]);
    cloud.slapd.stop();
    for (claim, value) in [("userid", uuid(1)), ("username", "jane@acme".to_owned())] {
        let refused = cloud.refused(claim, &value).await;
        assert!(refused != Code::NotFound && refused != Code::Ok, "{refused:?}");
    }
    let (search, person) = (cloud.opencloud.search(&jane.token, "jane").await, cloud.opencloud.person(&jane.token, &uuid(3)).await);
    assert!(is_outage(&search) && is_outage(&person), "{search:?} {person:?}");
    cloud.slapd.restart().await;
    cloud.recovers(&uuid(1)).await;
    assert_eq!(cloud.opencloud.found(&jane.token, "jane").await, [uuid(1)]);
}

#[tokio::test]
async fn a_tenant_that_is_disabled_has_nobody() {
    let Some(mut cloud) = Cloud::start(Way::Socket).await else { return };
    let (acme, globex) = (cloud.sign_in("jane@acme").await, cloud.sign_in("jane@globex").await);
    assert_eq!(cloud.opencloud.found(&globex.token, "jane").await, [uuid(2)]);
    cloud.broker.reconfigure(|configuration| configuration.set("/tenants/1/disabled", true)).await;
    cloud.recovers(&uuid(1)).await;
    for (claim, value) in [("userid", uuid(2)), ("username", "jane@globex".to_owned())] {
        assert_eq!(cloud.refused(claim, &value).await, Code::NotFound, "{claim}");
    }
    // The token is good to OpenCloud for a day.
    let (search, person) = (cloud.opencloud.search(&globex.token, "jane").await, cloud.opencloud.person(&globex.token, &uuid(2)).await);
    assert!(search.status >= 400 && person.status >= 400, "{search:?} {person:?}");
    assert_eq!(cloud.opencloud.found(&acme.token, "jane").await, [uuid(1)], "the other tenant's are as before");
    cloud.broker.reconfigure(|configuration| configuration.set("/tenants/1/disabled", false)).await;
    cloud.recovers(&uuid(2)).await;
    assert_eq!(cloud.opencloud.found(&globex.token, "jane").await, [uuid(2)]);
}
