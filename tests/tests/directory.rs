//! The main job on a real directory: sign-in against slapd at the real pages, a token, a review, a search; and what becomes of
//! all of it when the directory changes, or does not answer.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use denizen_tests::{
    Authorization, Broker, Configuration, Tokens,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    jwt,
    slapd::{
        Slapd,
        content::{
            ACME, ACME_JANE_PASSWORD, GLOBEX, GLOBEX_JANE_PASSWORD, GROUPS, PASSWORD, PEOPLE, READER, READER_PASSWORD, mail, person,
            person_dn, uuid,
        },
    },
};
use serde_json::{Value, json};

/// OpenCloud's multi-tenant deployment: one operator's directory, the tenant in `openCloudMemberOfSchool`, ids as they are.
fn corp(slapd: &Slapd) -> Value {
    json!({
        "id": "corp", "displayName": "The directory", "type": "ldap", "operatedBy": "operator", "tenants": "all", "ids": "verbatim",
        "url": slapd.ldaps_url(), "caFile": slapd.ca_path(), "bindDn": READER, "bindPassword": READER_PASSWORD, "deadlineSeconds": 2,
        "userSearch": {
            "base": PEOPLE, "idAttribute": "openCloudUUID", "enabledFilter": "(!(openCloudUserEnabled=FALSE))",
            "usernameAttributes": ["uid", "mail"],
        },
        "groups": { "search": { "base": GROUPS }, "nested": true },
        "claimMappings": {
            "username": {"claim": "uid"}, "tenant": {"claim": "openCloudMemberOfSchool"}, "groups": {"claim": "groups"},
            "displayName": {"claim": "displayName"}, "email": {"claim": "mail"},
        },
    })
}

fn configuration(slapd: &Slapd) -> Configuration {
    let mut clients = Configuration::default().0["clients"].clone();
    for client in clients.as_array_mut().unwrap() {
        client.as_object_mut().unwrap().remove("connectors");
    }
    Configuration::default()
        .with("/connectors", json!([corp(slapd)]))
        .with("/systemTenant", Value::Null)
        .with("/tenants/0/externalIds", json!({"corp": ACME}))
        .with("/tenants/1/externalIds", json!({"corp": GLOBEX}))
        .with("/clients", clients.as_array().unwrap().iter().filter(|c| c["tenant"] != "system").cloned().collect::<Value>())
}

async fn start() -> (Slapd, Broker) {
    let slapd = Slapd::start().await;
    let broker = Broker::start(configuration(&slapd)).await;
    (slapd, broker)
}

/// A request whose token is for Kubernetes and for searching.
fn request(broker: &Broker) -> Authorization {
    let scopes = "openid profile email groups offline_access users.read";
    Authorization::web().with("scope", scopes).add("resource", KUBERNETES).add("resource", &format!("{}/api", broker.issuer()))
}

async fn sign_in(broker: &Broker, name: &str, password: &str) -> Tokens {
    let request = request(broker);
    let code = broker.browser().sign_in(&request, name, password).await;
    broker.service().exchange(&request, &code).await
}

async fn refused(broker: &Broker, name: &str, password: &str) -> u16 {
    broker.browser().try_sign_in(&request(broker), name, password).await.status
}

#[tokio::test]
async fn the_whole_way_for_two_tenants() {
    let (_slapd, broker) = start().await;
    let service = broker.service();
    let ways = [
        ("acme", ACME_JANE_PASSWORD, "Jane Doe", uuid(1), GLOBEX_JANE_PASSWORD),
        ("globex", GLOBEX_JANE_PASSWORD, "Jane Roe", uuid(2), ACME_JANE_PASSWORD),
    ];
    for (tenant, password, full_name, id, others) in ways {
        let name = format!("jane@{tenant}");
        assert_eq!(refused(&broker, &name, others).await, 422, "the other jane's password is a wrong one");
        let tokens = sign_in(&broker, &name, password).await;
        let claims = jwt::claims(tokens.access());
        assert_eq!((&claims["tenant_id"], &claims["sub"], &claims["connector"]), (&json!(tenant), &json!(id), &json!("corp")));
        let info = service.userinfo(tokens.access()).await.expect(200).json();
        assert_eq!(
            (&info["name"], &info["email"], &info["email_verified"]),
            (&json!(full_name), &json!(mail("jane", tenant)), &json!(false))
        );
        let review = service.review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await;
        assert_eq!(review["user"]["username"], format!("{tenant}:jane"));
        assert_eq!(review["user"]["uid"], id);
        let groups: Vec<_> = review["user"]["groups"].as_array().unwrap().iter().map(|g| g.as_str().unwrap().to_owned()).collect();
        assert!(groups.contains(&format!("{tenant}:staff")), "{groups:?}");
        assert!(groups.iter().all(|g| g.starts_with(&format!("{tenant}:"))), "{groups:?}");
        let found = service.search(tokens.access(), "/api/v1/users", "jane").await;
        assert_eq!(found, [format!("{tenant}/jane")]);
        let everyone = service.search(tokens.access(), "/api/v1/users", "").await;
        assert!(everyone.iter().all(|name| name.starts_with(&format!("{tenant}/"))), "{everyone:?}");
        assert!(!everyone.iter().any(|name| name.contains("dora")), "a disabled account is not found");
    }
}

#[tokio::test]
async fn t32_an_address_is_not_verified_because_a_directory_has_it() {
    let (_slapd, broker) = start().await;
    let tokens = sign_in(&broker, "jane@acme", ACME_JANE_PASSWORD).await;
    assert_eq!(jwt::claims(tokens.id())["email_verified"], json!(false));
}

#[tokio::test]
async fn t06_the_mail_address_finds_its_own_tenant_only() {
    let (slapd, broker) = start().await;
    // Someone of globex claims the address of a victim in acme.
    slapd.modify(&person_dn("globex", "greta"), "mail", &["joe@acme.example"]).await;
    let greta = sign_in(&broker, "greta@globex", PASSWORD).await;
    assert_eq!(jwt::claims(greta.access())["sub"], uuid(4), "the key is the subject; the address links nothing");
    let in_acme = request(&broker).with("tenant", "acme");
    let code = broker.browser().sign_in(&in_acme, "joe@acme.example", PASSWORD).await;
    assert_eq!(jwt::claims(broker.service().exchange(&in_acme, &code).await.access())["sub"], uuid(3));
    assert_eq!(refused(&broker, "joe@acme.example", PASSWORD).await, 422, "two have the address, and no tenant is named");
}

#[tokio::test]
async fn t10_no_tenant_and_two_tenants_are_no_identity() {
    let (_slapd, broker) = start().await;
    for name in ["nils", "zoe"] {
        assert_eq!(refused(&broker, name, PASSWORD).await, 403, "{name}");
        for tenant in ["acme", "globex"] {
            assert!([403, 422].contains(&refused(&broker, &format!("{name}@{tenant}"), PASSWORD).await), "{name}@{tenant}");
        }
    }
    let jane = sign_in(&broker, "jane@acme", ACME_JANE_PASSWORD).await;
    for name in ["nils", "zoe"] {
        assert_eq!(broker.service().search(jane.access(), "/api/v1/users", name).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn t10_a_tenant_that_changes_ends_the_session_at_the_refresh() {
    let (slapd, broker) = start().await;
    let tokens = sign_in(&broker, "joe@acme", PASSWORD).await;
    let tokens = broker.service().refresh("web", tokens.refresh()).await;
    slapd.modify(&person_dn("acme", "joe"), "openCloudMemberOfSchool", &[GLOBEX]).await;
    let answer = broker.service().try_refresh("web", tokens.refresh()).await.expect(400);
    assert_eq!(answer.error(), "invalid_grant");
    assert_eq!(broker.service().review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await["authenticated"], false);
    slapd.modify(&person_dn("acme", "joe"), "openCloudMemberOfSchool", &[ACME]).await;
    broker.service().try_refresh("web", tokens.refresh()).await.expect(400);
}

#[tokio::test]
async fn t30_someone_disabled_is_refused_at_the_refresh() {
    let (slapd, broker) = start().await;
    let tokens = sign_in(&broker, "joe@acme", PASSWORD).await;
    slapd.modify(&person_dn("acme", "joe"), "openCloudUserEnabled", &["FALSE"]).await;
    assert_eq!(broker.service().try_refresh("web", tokens.refresh()).await.expect(400).error(), "invalid_grant");
    assert_eq!(refused(&broker, "joe@acme", PASSWORD).await, 422);
}

#[tokio::test]
async fn a_refresh_brings_new_groups() {
    let (slapd, broker) = start().await;
    let tokens = sign_in(&broker, "greta@globex", PASSWORD).await;
    assert!(!jwt::claims(tokens.access())["groups"].as_array().unwrap().contains(&json!("owners")));
    let owners = format!("cn=owners,ou=globex,{GROUPS}");
    slapd.modify(&owners, "member", &[&person_dn("globex", "greta")]).await;
    let renewed = broker.service().refresh("web", tokens.refresh()).await;
    assert!(jwt::claims(renewed.access())["groups"].as_array().unwrap().contains(&json!("owners")));
}

#[tokio::test]
async fn t23_t24_passwords_and_names_are_taken_literally() {
    let (_slapd, broker) = start().await;
    for password in ["", " ", "   ", "\0", "\0\0"] {
        assert_eq!(refused(&broker, "joe@acme", password).await, 422, "{password:?}");
    }
    for name in ["*", "j*", "*)(uid=*", "joe)(|(uid=*", "\\6aoe", "joe\0", "uid=joe", ")", "a*"] {
        assert_eq!(refused(&broker, &format!("{name}@acme"), PASSWORD).await, 422, "{name:?}");
    }
    // They are names, too.
    assert_eq!(jwt::claims(sign_in(&broker, "a*b@acme", PASSWORD).await.access())["preferred_username"], "a*b");
    let jane = sign_in(&broker, "jane@acme", ACME_JANE_PASSWORD).await;
    let service = broker.service();
    assert_eq!(service.search(jane.access(), "/api/v1/users", "*").await, ["acme/a*b"]);
    assert_eq!(service.search(jane.access(), "/api/v1/users", ")(uid=*").await, Vec::<String>::new());
    assert_eq!(service.search(jane.access(), "/api/v1/users", "\\").await, ["acme/back\\slash"]);
}

#[tokio::test]
async fn t55_another_tenants_group_never_shows() {
    let (_slapd, broker) = start().await;
    let tokens = sign_in(&broker, "jane@acme", ACME_JANE_PASSWORD).await;
    let claims = jwt::claims(tokens.access());
    let groups = claims["groups"].as_array().unwrap();
    assert!(groups.contains(&json!("staff")) && groups.contains(&json!("outer")), "{groups:?}");
    for foreign in ["admins", "bridge", "beyond"] {
        assert!(!groups.contains(&json!(foreign)), "{foreign}: {groups:?}");
    }
}

#[tokio::test]
async fn t04_t56_an_id_stays_with_its_first_owner() {
    let (slapd, broker) = start().await;
    let joe = sign_in(&broker, "joe@acme", PASSWORD).await;
    assert_eq!(jwt::claims(joe.access())["sub"], uuid(3));
    // The entry goes, and comes again in the other tenant under the same id.
    slapd.delete(&person_dn("acme", "joe")).await;
    slapd.add(person(&person_dn("globex", "joe"), "joe", "Joe Again", 3, &[GLOBEX], PASSWORD)).await;
    assert_eq!(refused(&broker, "joe@globex", PASSWORD).await, 403);
    let greta = sign_in(&broker, "greta@globex", PASSWORD).await;
    assert_eq!(broker.service().search(greta.access(), "/api/v1/users", "joe").await, Vec::<String>::new());
    assert!(broker.log().contains("user.id_taken"));
}

#[tokio::test]
async fn t58_a_name_that_is_used_again_is_someone_else() {
    let (slapd, broker) = start().await;
    let before = sign_in(&broker, "joe@acme", PASSWORD).await;
    slapd.delete(&person_dn("acme", "joe")).await;
    slapd.add(person(&person_dn("acme", "joe"), "joe", "Another Joe", 90, &[ACME], PASSWORD)).await;
    let after = sign_in(&broker, "joe@acme", PASSWORD).await;
    assert_ne!(jwt::claims(before.access())["sub"], jwt::claims(after.access())["sub"]);
    assert_eq!(broker.service().try_refresh("web", before.refresh()).await.expect(400).error(), "invalid_grant");
}

#[tokio::test]
async fn t28_a_directory_that_does_not_answer_is_unavailable_and_never_no() {
    let (slapd, broker) = start().await;
    let service = broker.service();
    let jane = sign_in(&broker, "jane@acme", ACME_JANE_PASSWORD).await;
    slapd.freeze();
    let page = broker.browser().try_sign_in(&request(&broker), "joe@acme", PASSWORD).await.expect(503);
    assert!(page.text.contains("role=\"alert\""), "the page says what is wrong");
    let answer = service.get_as(jane.access(), "/api/v1/users?search=jo").await.expect(200).json();
    assert_eq!((&answer["users"], &answer["incomplete"]), (&json!([]), &json!(["corp"])));
    service.get_as(jane.access(), &format!("/api/v1/users/{}", uuid(1))).await.expect(503);
    assert_eq!(service.try_refresh("web", jane.refresh()).await.expect(503).error(), "temporarily_unavailable");
    assert_eq!(service.review(REVIEWER_TOKEN, jane.access(), &[KUBERNETES]).await["authenticated"], true, "what was issued holds");
    slapd.thaw();
    // The refresh token was not used up.
    let mut renewed = service.try_refresh("web", jane.refresh()).await;
    for _ in 0..50 {
        if renewed.status == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        renewed = service.try_refresh("web", jane.refresh()).await;
    }
    renewed.expect(200);
}

#[tokio::test]
async fn t03_a_foreign_id_is_as_absent() {
    let (_slapd, broker) = start().await;
    let service = broker.service();
    let (acme, globex) =
        (sign_in(&broker, "jane@acme", ACME_JANE_PASSWORD).await, sign_in(&broker, "jane@globex", GLOBEX_JANE_PASSWORD).await);
    service.get_as(acme.access(), &format!("/api/v1/users/{}", uuid(1))).await.expect(200);
    let foreign = service.get_as(acme.access(), &format!("/api/v1/users/{}", uuid(2))).await.expect(404);
    let absent = service.get_as(acme.access(), &format!("/api/v1/users/{}", uuid(77))).await.expect(404);
    assert_eq!(foreign.text, absent.text);
    service.get_as(globex.access(), &format!("/api/v1/users/{}", uuid(2))).await.expect(200);
}
