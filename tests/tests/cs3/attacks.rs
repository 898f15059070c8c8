//! Attack rows on this door that need no directory: tokens that say too much, and requests that name what is not theirs.

use std::fs;

use denizen_tests::{
    Authorization, Configuration, Reva, RevaToken,
    broker::command,
    configuration::{KUBERNETES, OPENCLOUD_TOKEN, REVIEWER_TOKEN, hash_of},
    cs3::{
        rpc::Code,
        types::{Opaque, OpaqueEntry},
        user::{FindUsersRequest, GetUserByClaimRequest, UserId, user_api_client::UserApiClient},
    },
    jwt,
    reva::{Refusal, query, with},
};
use serde_json::{Value, json};
use tonic::{Code as GrpcCode, Request};

use super::{Door, NOBODY, SECRET, id, names};

/// That every call refuses a token that is not good, also those that need none.
async fn refused_everywhere(reva: &Reva, token: &str, known: &str, why: &str) {
    let token = Some(token);
    let refusals: [Refusal; 7] = [
        reva.find_users(token, &[]).await.unwrap_err(),
        reva.user(token, known).await.unwrap_err(),
        reva.user_by_claim(token, "userid", known).await.unwrap_err(),
        reva.user_by_claim(token, "mail", "jane@acme.example").await.unwrap_err(),
        reva.groups_of(token, known).await.unwrap_err(),
        reva.tenant(token, "acme").await.unwrap_err(),
        reva.find_groups(token, Default::default()).await.unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.grpc(), GrpcCode::PermissionDenied, "{why}");
    }
}

#[tokio::test]
async fn t01_an_empty_tenant_is_no_absent_filter() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    for reva in [door.socket().await, door.tcp().await] {
        let token = RevaToken::of_user(&jane.user);
        for (forged, why) in [
            (token.clone().tenantless(), "no tenant"),
            (token.clone().with("/user/id/tenant_id", ""), "an empty one"),
            (token.clone().with("/user/id/tenant_id", " "), "a blank one"),
            (token.clone().with("/user/id/tenant_id", "*"), "everyone's"),
            (token.clone().with("/user/id/tenant_id", "initech"), "an unknown one"),
            (token.clone().with("/user/id/tenant_id", "system"), "the operators'"),
        ] {
            refused_everywhere(&reva, &forged.sign(SECRET), id(&jane), why).await;
        }
        assert_eq!(reva.search(&token.sign(SECRET), "").await.unwrap().len(), 3, "with the tenant it is good");
        // Without a token the request's tenant may be empty, and the person's own is what is looked in.
        let user = reva.user(Some(&jane.token), id(&jane)).await.unwrap();
        assert_eq!(user.id.unwrap().tenant_id, "acme");
    }
    assert!(door.broker.log().contains("cs3.token_refused"), "it is audited");
}

#[tokio::test]
async fn t02_a_token_that_is_there_and_bad_is_never_ignored() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let good = RevaToken::of_user(&jane.user);
    let reva = door.socket().await;
    for (bad, why) in [
        (good.sign("another-secret-of-another-instance-01234"), "another secret"),
        (good.clone().by("none").sign(SECRET), "alg none"),
        (good.clone().by("HS384").sign(SECRET), "alg HS384"),
        (good.clone().by("HS512").sign(SECRET), "alg HS512"),
        (good.clone().expires_in(-60).sign(SECRET), "expired"),
        (good.clone().with("/aud", json!(["other"])).sign(SECRET), "another audience"),
        (good.clone().without("/aud").sign(SECRET), "no audience"),
        (good.clone().without("/exp").sign(SECRET), "no end"),
        (good.clone().unscoped().sign(SECRET), "no scope"),
        (good.clone().with("/user/id/type", 6).sign(SECRET), "someone of another cloud"),
        (good.clone().with("/user/id/idp", "https://elsewhere.example").sign(SECRET), "another provider's"),
        (good.clone().with("/user/id/opaque_id", NOBODY).sign(SECRET), "no one's id"),
        (String::new(), "an empty one"),
        ("garbage".to_owned(), "no JWT"),
    ] {
        refused_everywhere(&reva, &bad, id(&jane), why).await;
    }
    // Two, of which one is good.
    let mut request = with(Some(&jane.token), FindUsersRequest::default());
    request.metadata_mut().append("x-access-token", "garbage".parse().unwrap());
    assert_eq!(UserApiClient::new(reva.channel()).find_users(request).await.unwrap_err().code(), GrpcCode::PermissionDenied);
    // The same calls with the good one, and the look-ups with none.
    assert_eq!(reva.search(&good.sign(SECRET), "").await.unwrap().len(), 3);
    assert_eq!(reva.user(None, id(&jane)).await.unwrap(), jane.user);
    let signed = good.sign(SECRET);
    assert!(signed.split('.').skip(1).all(|part| !door.broker.log().contains(part)), "no token is in the log");
}

#[tokio::test]
async fn t02_t03_another_tenants_person_is_as_absent_as_nobody() {
    let door = Door::of_file().await;
    let (jane, theirs, hank) = (door.session("jane@acme").await, door.session("jane@globex").await, door.session("hank@globex").await);
    for reva in [door.socket().await, door.tcp().await] {
        let token = Some(jane.token.as_str());
        let absent = format!("{:?}", reva.user(token, NOBODY).await.unwrap_err());
        assert!(absent.contains("NotFound"), "{absent}");
        for foreign in [&theirs, &hank] {
            let told = [
                reva.user(token, id(foreign)).await.map(|_| ()).unwrap_err(),
                reva.user_by_claim(token, "userid", id(foreign)).await.map(|_| ()).unwrap_err(),
                reva.user_by_claim(token, "username", &foreign.user.username).await.map(|_| ()).unwrap_err(),
                reva.user_by_claim(token, "mail", &foreign.user.mail).await.map(|_| ()).unwrap_err(),
                reva.groups_of(token, id(foreign)).await.map(|_| ()).unwrap_err(),
            ];
            for refusal in told {
                assert_eq!(format!("{refusal:?}"), absent);
            }
            assert!(reva.find_users(token, &[query(id(foreign))]).await.unwrap().is_empty());
            assert!(reva.find_users(token, &[query(&foreign.user.username)]).await.unwrap().is_empty());
            assert_eq!(reva.user(Some(&foreign.token), id(foreign)).await.unwrap(), foreign.user, "their own tenant sees them");
        }
    }
}

#[tokio::test]
async fn t12_a_tenant_that_is_injected_never_widens() {
    let door = Door::of_file().await;
    let (jane, hank) = (door.session("jane@acme").await, door.session("hank@globex").await);
    let reva = door.socket().await;
    let named = |session: &denizen_tests::reva::Session, tenant: &str| UserId {
        opaque_id: id(session).to_owned(),
        tenant_id: tenant.to_owned(),
        ..UserId::default()
    };
    for (token, who, tenant, found) in [
        (Some(&jane.token), &jane, "", true),
        (Some(&jane.token), &jane, "acme", true),
        (Some(&jane.token), &jane, "globex", false),
        (Some(&jane.token), &hank, "globex", false),
        (Some(&jane.token), &hank, "acme", false),
        (None, &hank, "globex", true),
        (None, &hank, "acme", false),
    ] {
        let told = reva.user_of(token.map(String::as_str), named(who, tenant)).await;
        match told {
            Ok(user) => assert!(found && user == who.user, "{tenant:?}"),
            Err(refusal) => assert!(!found && refusal.cs3() == Code::NotFound, "{tenant:?} {refusal:?}"),
        }
    }
    // In metadata and in the opaque map of a request.
    let entry = OpaqueEntry { decoder: "plain".to_owned(), value: b"globex".to_vec() };
    let map = ["tenant_id", "tenantId", "tenant"].map(|name| (name.to_owned(), entry.clone())).into_iter().collect();
    let filters = vec![query("")];
    let mut request: Request<_> = with(Some(&jane.token), FindUsersRequest { opaque: Some(Opaque { map }), filters, ..Default::default() });
    for header in ["x-tenant", "x-tenant-id", "tenant", "initiator-id"] {
        request.metadata_mut().insert(header, "globex".parse().unwrap());
    }
    let found = UserApiClient::new(reva.channel()).find_users(request).await.unwrap().into_inner().users;
    assert_eq!(names(&found), ["alice@acme", "bob@acme", "jane@acme"]);
    // A token of one tenant's person that says the other.
    let moved = RevaToken::of_user(&jane.user).with("/user/id/tenant_id", "globex").sign(SECRET);
    refused_everywhere(&reva, &moved, id(&jane), "the record says acme").await;
}

#[tokio::test]
async fn t06_an_address_is_looked_for_in_its_callers_tenant_and_links_no_one() {
    let door = Door::open(Configuration::default().with("/connectors/0/users/4/email", "jane@acme.example"), &json!({})).await;
    let (jane, hank) = (door.session("jane@acme").await, door.session("hank@globex").await);
    assert_ne!(id(&jane), id(&hank));
    let reva = door.socket().await;
    for session in [&jane, &hank] {
        assert_eq!(reva.user_by_claim(Some(&session.token), "mail", "jane@acme.example").await.unwrap(), session.user);
        assert_eq!(reva.search(&session.token, "jane@acme.example").await.unwrap(), [session.user.username.as_str()]);
    }
    // In a token it says nothing either.
    let claims = RevaToken::of_user(&hank.user).with("/user/username", "jane@acme").with("/user/mail", "jane@acme.example").sign(SECRET);
    assert_eq!(reva.search(&claims, "").await.unwrap(), ["hank@globex", "jane@globex"]);
    assert_eq!(reva.user_by_claim(None, "mail", "jane@acme.example").await.unwrap_err().grpc(), GrpcCode::Unauthenticated);
}

#[tokio::test]
async fn t11_a_disabled_tenant_is_refused_at_once_and_its_neighbour_notices_nothing() {
    let mut door = Door::of_file().await;
    let (jane, hank) = (door.session("jane@acme").await, door.session("hank@globex").await);
    let service = RevaToken::service_account("notifications").sign(SECRET);
    door.broker.reconfigure(|c| c.set("/tenants/0/disabled", true)).await;
    let reva = door.socket().await;
    refused_everywhere(&reva, &jane.token, id(&jane), "its tenant is off").await;
    for token in [None, Some(service.as_str())] {
        assert_eq!(reva.user(token, id(&jane)).await.unwrap_err().cs3(), Code::NotFound);
        assert_eq!(reva.user_by_claim(token, "username", "jane@acme").await.unwrap_err().cs3(), Code::NotFound);
    }
    assert_eq!(reva.tenant(Some(&service), "acme").await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.group(Some(&service), &jane.user.groups[0]).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.search(&hank.token, "").await.unwrap(), ["hank@globex", "jane@globex"]);
    // On again, the same token is good again; with the connector off instead, it is not.
    door.broker.reconfigure(|c| c.set("/tenants/0/disabled", false)).await;
    let reva = door.socket().await;
    assert_eq!(reva.user(Some(&jane.token), id(&jane)).await.unwrap(), jane.user);
    door.broker.reconfigure(|c| c.set("/connectors/0/tenants", json!(["globex"]))).await;
    let reva = door.socket().await;
    refused_everywhere(&reva, &jane.token, id(&jane), "its connector speaks for the tenant no more").await;
    assert_eq!(reva.user(None, id(&jane)).await.unwrap_err().cs3(), Code::NotFound);
}

#[tokio::test]
async fn t27_a_search_is_bounded_in_filters_texts_and_size() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let reva = door.tcp().await;
    let token = Some(jane.token.as_str());
    assert_eq!(names(&reva.find_users(token, &vec![query("a"); 16]).await.unwrap()), ["alice@acme", "bob@acme", "jane@acme"]);
    assert_eq!(reva.find_users(token, &vec![query("a"); 17]).await.unwrap_err().cs3(), Code::InvalidArgument);
    assert!(reva.search(&jane.token, &"a".repeat(128)).await.unwrap().is_empty());
    assert_eq!(reva.search(&jane.token, &"a".repeat(129)).await.unwrap_err().cs3(), Code::InvalidArgument);
    let nested = format!("{}uid=jane{}", "(&".repeat(30), ")".repeat(30));
    assert!(reva.search(&jane.token, &nested).await.unwrap().is_empty(), "it is a text");
    assert_eq!(reva.find_users(token, &vec![query("a"); 30_000]).await.unwrap_err().grpc(), GrpcCode::OutOfRange);
    let long = reva.user_by_claim(token, "mail", &"a".repeat(2_000)).await;
    assert_eq!(long.unwrap_err().cs3(), Code::InvalidArgument);
    assert_eq!(reva.search(&jane.token, "jane").await.unwrap(), ["jane@acme"], "the connection goes on");
}

#[tokio::test]
async fn t53_a_label_that_kubernetes_keeps_ends_no_name_here() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("denizen.yaml");
    let cs3 = json!({"socket": {"path": folder.path().join("cs3.sock")}, "jwtSecret": SECRET});
    for (label, code) in [("kubeadm", 1), ("system", 1), ("kubernetes", 1), ("a@b", 1), ("acme.example", 1), ("acme-2", 0)] {
        let configuration = Configuration::default().with("/cs3", cs3.clone()).with("/tenants/0/label", label);
        fs::write(&path, configuration.text("http://127.0.0.1:1", 1, 2, folder.path())).unwrap();
        let said = command(&["config", "check", "--config", path.to_str().unwrap()]);
        assert_eq!(said.code, Some(code), "{label:?}: {}{}", said.out, said.err);
    }
    // A group of that name is the tenant's own still, and says so.
    let grand = Configuration::default().with("/connectors/0/users/0/groups", json!(["cluster-admins", "system:masters"]));
    let door = Door::open(grand, &json!({})).await;
    let jane = door.session("jane@acme").await;
    assert_eq!(jane.user.groups.len(), 1, "`system:masters` is left out");
    let group = door.socket().await.group(Some(&jane.token), &jane.user.groups[0]).await.unwrap();
    assert_eq!(group.group_name, "cluster-admins@acme");
}

#[tokio::test]
async fn t54_roles_do_not_pass_this_door() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let told = format!("{:?}", jane.user);
    assert!(!told.contains("opencloudAdmin") && !told.contains("editor") && jane.user.opaque.is_none(), "{told}");
    // Nor does what a token says of roles and groups count for anything.
    let claims = json!([{"name": "opencloudAdmin"}]);
    let alice = door.session("alice@acme").await;
    let grand = RevaToken::of_user(&alice.user).with("/user/groups", json!(jane.user.groups)).with("/user/opaque", claims).sign(SECRET);
    let reva = door.socket().await;
    assert_eq!(reva.groups_of(Some(&grand), id(&alice)).await.unwrap(), alice.user.groups);
    assert_ne!(alice.user.groups, jane.user.groups);
    assert_eq!(reva.user(Some(&grand), id(&alice)).await.unwrap(), alice.user);
}

#[tokio::test]
async fn t56_a_tenants_own_upstream_can_not_take_anothers_id() {
    let uuid = "7f0c3f4e-0a3a-4c53-9c57-3f6f2f1f0a01";
    let person = |id: &str, tenant: Option<&str>, username: &str| {
        let mut person = json!({"id": id, "username": username, "password": hash_of("any", username)});
        if let Some(tenant) = tenant {
            person["tenant"] = json!(tenant);
        }
        person
    };
    let mut configuration = Configuration::default();
    configuration.set("/connectors/0/ids", "verbatim");
    configuration.set("/connectors/0/users", json!([person(uuid, Some("acme"), "jane"), person(NOBODY, Some("globex"), "hank")]));
    let own: Value = json!({
        "id": "globex-own", "type": "file", "operatedBy": "tenant", "ids": "derived", "tenant": {"fixed": "globex"},
        "users": [person(uuid, None, "mallory")],
    });
    configuration.set("/connectors/-", own);
    let door = Door::open(configuration, &json!({})).await;
    // Whichever of them is asked for first.
    let mallory = door.session("mallory@globex").await;
    let jane = door.session("jane@acme").await;
    assert_eq!(id(&jane), uuid);
    assert_ne!(id(&mallory), uuid);
    let reva = door.socket().await;
    assert_eq!(reva.user(None, uuid).await.unwrap().username, "jane@acme");
    let forged = RevaToken::of_user(&mallory.user).with("/user/id/opaque_id", uuid).sign(SECRET);
    refused_everywhere(&reva, &forged, id(&mallory), "the record's owner stays").await;
    assert_eq!(reva.search(&mallory.token, "").await.unwrap(), ["hank@globex", "mallory@globex"]);
}

#[tokio::test]
async fn t57_tokens_of_opencloud_and_of_denizen_are_not_one_another() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let reva = door.tcp().await;
    // Denizen's own tokens, for whatever audience, are none here.
    let search = door.broker.tokens(&Authorization::for_search(door.broker.issuer()), "acme", "jane").await;
    let kubernetes = door.broker.tokens(&Authorization::web().add("resource", KUBERNETES), "acme", "jane").await;
    for token in [search.access(), search.id(), kubernetes.access()] {
        assert_eq!(jwt::claims(token)["sub"], id(&jane), "it is hers");
        refused_everywhere(&reva, token, id(&jane), "a token of Denizen's").await;
    }
    // And OpenCloud's is none at Denizen's other doors, also where the review names no audience.
    let service = door.broker.service();
    for (reviewer, audiences) in [(REVIEWER_TOKEN, [].as_slice()), (REVIEWER_TOKEN, &[KUBERNETES]), (OPENCLOUD_TOKEN, &[])] {
        assert_eq!(service.review(reviewer, &jane.token, audiences).await, json!({"authenticated": false}));
    }
    assert_eq!(service.review(REVIEWER_TOKEN, kubernetes.access(), &[]).await["authenticated"], true);
    for path in ["/api/v1/users", "/api/v1/me", "/graph/v1.0/users", "/oauth2/userinfo"] {
        service.get_as(&jane.token, path).await.expect(401);
    }
    service.get_as(search.access(), "/api/v1/users").await.expect(200);
    assert_eq!(reva.search(&jane.token, "jane").await.unwrap(), ["jane@acme"]);
}

#[tokio::test]
async fn a_secret_that_is_short_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("denizen.yaml");
    for (secret, code) in [("", 1), ("tiny-secret", 1), ("fifteen-bytes-0", 1), (SECRET, 0)] {
        let cs3 = json!({"socket": {"path": folder.path().join("cs3.sock")}, "jwtSecret": secret});
        fs::write(&path, Configuration::default().with("/cs3", cs3).text("http://127.0.0.1:1", 1, 2, folder.path())).unwrap();
        let said = command(&["config", "check", "--config", path.to_str().unwrap()]);
        assert_eq!(said.code, Some(code), "{secret:?}: {}{}", said.out, said.err);
        assert!(secret.is_empty() || !format!("{}{}", said.out, said.err).contains(secret), "it is not told");
    }
}

#[tokio::test]
async fn t24_names_and_texts_are_taken_literally() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let mut client = UserApiClient::new(door.socket().await.channel());
    for (claim, value) in [("username", "*@acme"), ("username", "j*@acme"), ("username", "*)(uid=*@acme"), ("username", "jane@*")] {
        let request = GetUserByClaimRequest { claim: claim.to_owned(), value: value.to_owned(), ..Default::default() };
        let told = client.get_user_by_claim(request).await.unwrap().into_inner();
        assert_eq!((told.status.unwrap().code(), told.user), (Code::NotFound, None), "{value}");
    }
    let reva = door.socket().await;
    for text in ["*", "j*", "%", "_", "\\", "\u{0}", ".*"] {
        assert!(reva.search(&jane.token, text).await.unwrap().is_empty(), "{text:?}");
    }
    assert_eq!(reva.search(&jane.token, "jane").await.unwrap(), ["jane@acme"]);
}
