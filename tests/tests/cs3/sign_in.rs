//! Who OpenCloud's proxy signs in without a token, and whom the others of its parts may know with theirs.

use denizen_tests::{
    Authorization, Configuration, RevaToken,
    cs3::{rpc::Code, user::UserId},
    jwt,
    slapd::content::{ACME, GLOBEX, mail, uuid},
};
use serde_json::json;
use tonic::Code as GrpcCode;

use super::{Door, NOBODY, SECRET, id, names};

#[tokio::test]
async fn the_proxy_signs_in_people_of_two_tenants_by_id_and_by_name() {
    let door = Door::of_file().await;
    let proxy = door.socket().await;
    let mut ids = Vec::new();
    for (tenant, full_name) in [("acme", "Jane Jones"), ("globex", "Jane Joyce")] {
        // Denizen's `sub` is OpenCloud's `opaque_id`.
        let tokens = door.broker.tokens(&Authorization::web(), tenant, "jane").await;
        let sub = jwt::claims(tokens.access())["sub"].as_str().unwrap().to_owned();
        let session = proxy.sign_in(&sub, SECRET).await.unwrap();
        let user = session.user.clone();
        let expected = UserId { idp: door.broker.issuer().to_owned(), opaque_id: sub.clone(), r#type: 1, tenant_id: tenant.to_owned() };
        assert_eq!(user.id, Some(expected));
        assert_eq!((user.username.as_str(), user.display_name.as_str()), (format!("jane@{tenant}").as_str(), full_name));
        assert_eq!((user.mail.as_str(), user.mail_verified), (format!("jane@{tenant}.example").as_str(), true));
        assert_eq!(proxy.user_by_claim(None, "username", &format!("jane@{tenant}")).await.unwrap(), user);
        assert_eq!(proxy.user(None, &sub).await.unwrap(), user, "GetUser");
        // The token that the gateway makes of it is one that finds them, at the socket as at the address.
        for reva in [&proxy, &door.tcp().await] {
            assert_eq!(reva.user(Some(&session.token), &sub).await.unwrap(), user);
            assert_eq!(reva.groups_of(Some(&session.token), &sub).await.unwrap(), user.groups);
            assert_eq!(reva.search(&session.token, "jane").await.unwrap(), [format!("jane@{tenant}")]);
        }
        ids.push(sub);
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(proxy.user_by_claim(None, "username", "jane").await.unwrap_err().cs3(), Code::NotFound, "which jane?");
    assert_eq!(proxy.sign_in(NOBODY, SECRET).await.unwrap_err().cs3(), Code::NotFound);
    let counted = "denizen_cs3_calls_total{method=\"GetUserByClaim\",outcome=\"ok\"}";
    assert_eq!(door.count(counted).await, 4);
    assert!(!door.broker.log().contains("\"level\":\"ERROR\""));
}

#[tokio::test]
async fn names_can_end_in_the_tenants_domain() {
    let domains = Configuration::default().with("/tenants/0/emailDomains", json!(["acme.example"]));
    let door = Door::open(domains, &json!({"usernames": "domain"})).await;
    let jane = door.session("jane@acme.example").await;
    assert_eq!(jane.user.username, "jane@acme.example");
    assert_eq!(door.session("jane@globex").await.user.username, "jane@globex", "a tenant without a domain has its label");
    let other = door.socket().await.user_by_claim(None, "username", "jane@acme").await;
    assert_eq!(other.unwrap_err().cs3(), Code::NotFound, "only the form that is given out");
}

#[tokio::test]
async fn t02_a_call_without_a_token_finds_one_person_at_the_socket_and_no_one_elsewhere() {
    let door = Door::of_file().await;
    let (socket, tcp) = (door.socket().await, door.tcp().await);
    let jane = door.session("jane@acme").await;
    for (claim, value) in [("userid", id(&jane)), ("username", "jane@acme")] {
        assert_eq!(socket.user_by_claim(None, claim, value).await.unwrap(), jane.user);
        assert_eq!(tcp.user_by_claim(None, claim, value).await.unwrap_err().grpc(), GrpcCode::Unauthenticated, "{claim}");
        assert_eq!(tcp.user_by_claim(Some(&jane.token), claim, value).await.unwrap(), jane.user, "the address wants a token only");
    }
    assert_eq!(tcp.user(None, id(&jane)).await.unwrap_err().grpc(), GrpcCode::Unauthenticated);
    // What would search, or is no one's over the instance, needs a token at the socket, too.
    let open = Door::open(Configuration::default(), &json!({"tokenlessLookups": true})).await;
    let allowed = open.tcp().await;
    assert_eq!(allowed.user_by_claim(None, "username", "jane@acme").await.unwrap().username, "jane@acme");
    for reva in [&socket, &tcp, &allowed] {
        for (claim, value) in [("mail", "jane@acme.example"), ("uid", "1000"), ("gid", "100")] {
            assert_eq!(reva.user_by_claim(None, claim, value).await.unwrap_err().grpc(), GrpcCode::Unauthenticated, "{claim}");
        }
        let refused = [
            reva.find_users(None, &[]).await.unwrap_err().grpc(),
            reva.groups_of(None, id(&jane)).await.unwrap_err().grpc(),
            reva.tenant(None, "acme").await.unwrap_err().grpc(),
            reva.tenant_by_claim(None, "externalid", "acme").await.unwrap_err().grpc(),
            reva.group(None, &jane.user.groups[0]).await.unwrap_err().grpc(),
            reva.group_by_claim(None, "group_name", "staff@acme").await.unwrap_err().grpc(),
            reva.members(None, &jane.user.groups[0]).await.unwrap_err().grpc(),
            reva.has_member(None, &jane.user.groups[0], id(&jane)).await.unwrap_err().grpc(),
            reva.find_groups(None, Default::default()).await.unwrap_err().grpc(),
        ];
        assert_eq!(refused, [GrpcCode::Unauthenticated; 9]);
    }
}

#[tokio::test]
async fn notifications_know_one_person_of_any_tenant_and_search_nothing() {
    let door = Door::of_file().await;
    let (acme, globex) = (door.session("jane@acme").await, door.session("hank@globex").await);
    let service = RevaToken::service_account("e1a2f6a0-0000-4000-8000-00000000000f").sign(SECRET);
    let service = Some(service.as_str());
    for reva in [door.socket().await, door.tcp().await] {
        for session in [&acme, &globex] {
            assert_eq!(reva.user(service, id(session)).await.unwrap(), session.user);
            assert_eq!(reva.user_by_claim(service, "userid", id(session)).await.unwrap(), session.user);
            assert_eq!(reva.user_by_claim(service, "username", &session.user.username).await.unwrap(), session.user);
            assert_eq!(reva.groups_of(service, id(session)).await.unwrap(), session.user.groups);
            assert!(!session.user.groups.is_empty(), "or it shows nothing");
            let tenant = &session.user.id.as_ref().unwrap().tenant_id;
            let group = reva.group(service, &session.user.groups[0]).await.unwrap();
            assert!(group.group_name.ends_with(&format!("@{tenant}")), "{}", group.group_name);
            assert_eq!(reva.tenant(service, tenant).await.unwrap().id, *tenant);
        }
        let refused = [
            reva.find_users(service, &[]).await.unwrap_err().cs3(),
            reva.find_groups(service, Default::default()).await.unwrap_err().cs3(),
            reva.user_by_claim(service, "mail", "jane@acme.example").await.unwrap_err().cs3(),
            reva.user_by_claim(service, "uid", "1000").await.unwrap_err().cs3(),
        ];
        assert_eq!(refused, [Code::PermissionDenied; 4]);
        assert_eq!(reva.user(service, NOBODY).await.unwrap_err().cs3(), Code::NotFound);
    }
    // One that has a tenant, or someone's id, is none of OpenCloud's.
    let reva = door.tcp().await;
    for forged in [
        RevaToken::service_account("notifications").with("/user/id/tenant_id", "acme"),
        RevaToken::service_account(id(&acme)),
        RevaToken::service_account("notifications").with("/user/id/idp", "https://id.example"),
    ] {
        let refusal = reva.user(Some(&forged.sign(SECRET)), id(&globex)).await.unwrap_err();
        assert_eq!(refusal.grpc(), GrpcCode::PermissionDenied, "{}", forged.claims());
    }
}

#[tokio::test]
async fn a_links_visitor_knows_its_owner_only() {
    let door = Door::of_file().await;
    let (jane, alice) = (door.session("jane@acme").await, door.session("alice@acme").await);
    let visitor = RevaToken::of_user(&jane.user).scoped("publicshare:share-1", &json!({"token": "link"}), 3).sign(SECRET);
    let visitor = Some(visitor.as_str());
    let reva = door.tcp().await;
    assert_eq!(reva.user(visitor, id(&jane)).await.unwrap(), jane.user);
    assert_eq!(reva.user_by_claim(visitor, "username", "jane@acme").await.unwrap(), jane.user);
    assert_eq!(reva.groups_of(visitor, id(&jane)).await.unwrap(), jane.user.groups);
    for (value, claim) in [(id(&alice), "userid"), ("alice@acme", "username"), ("hank@globex", "username"), (NOBODY, "userid")] {
        assert_eq!(reva.user_by_claim(visitor, claim, value).await.unwrap_err().cs3(), Code::NotFound, "{value}");
    }
    let refused = [
        reva.find_users(visitor, &[]).await.unwrap_err().cs3(),
        reva.user_by_claim(visitor, "mail", "jane@acme.example").await.unwrap_err().cs3(),
        reva.tenant(visitor, "acme").await.unwrap_err().cs3(),
        reva.group(visitor, &jane.user.groups[0]).await.unwrap_err().cs3(),
        reva.find_groups(visitor, Default::default()).await.unwrap_err().cs3(),
    ];
    assert_eq!(refused, [Code::PermissionDenied; 5]);
    // The owner's own token does all of that.
    assert_eq!(names(&reva.find_users(Some(&jane.token), &[]).await.unwrap()).len(), 3);
    assert_eq!(reva.user(Some(&jane.token), id(&alice)).await.unwrap(), alice.user);
}

#[tokio::test]
async fn tenants_by_their_ids_here_and_elsewhere() {
    let (_slapd, door) = Door::of_directory_with(json!({"externalIdsOf": "corp"})).await;
    let jane = door.session("jane@acme").await;
    let service = RevaToken::service_account("notifications").sign(SECRET);
    let reva = door.socket().await;
    for token in [&jane.token, &service] {
        let acme = reva.tenant(Some(token), "acme").await.unwrap();
        assert_eq!((acme.id.as_str(), acme.name.as_str(), acme.external_id.as_str()), ("acme", "Acme Corporation", ACME));
        assert_eq!(reva.tenant_by_claim(Some(token), "externalid", ACME).await.unwrap(), acme);
        assert_eq!(reva.tenant_by_claim(Some(token), "id", "acme").await.unwrap(), acme);
    }
    assert_eq!(reva.tenant_by_claim(Some(&service), "externalid", GLOBEX).await.unwrap().id, "globex");
    let absent = reva.tenant(Some(&jane.token), "initech").await.unwrap_err();
    for refusal in [reva.tenant(Some(&jane.token), "globex").await, reva.tenant_by_claim(Some(&jane.token), "externalid", GLOBEX).await] {
        assert_eq!(format!("{:?}", refusal.unwrap_err()), format!("{absent:?}"), "a foreign tenant is as absent");
    }
    assert_eq!(reva.tenant_by_claim(Some(&service), "externalid", "acme").await.unwrap_err().cs3(), Code::NotFound, "its own id is none");
    assert_eq!(reva.tenant_by_claim(Some(&service), "externalid", "").await.unwrap_err().cs3(), Code::InvalidArgument);
}

#[tokio::test]
async fn by_mail_and_numbers_within_the_callers_tenant() {
    let mut people = Configuration::default();
    let numbers = [(1000, 100), (1001, 100), (1002, 101), (1000, 100), (1003, 102)];
    for (index, (uid, gid)) in numbers.into_iter().enumerate() {
        people.set(&format!("/connectors/0/users/{index}/uidNumber"), uid);
        people.set(&format!("/connectors/0/users/{index}/gidNumber"), gid);
    }
    // The same address twice in one tenant is no one's.
    people.set("/connectors/0/users/2/email", "alice@acme.example");
    let door = Door::open(people, &json!({})).await;
    let (acme, globex) = (door.session("jane@acme").await, door.session("jane@globex").await);
    assert_eq!((acme.user.uid_number, acme.user.gid_number), (1000, 100));
    let reva = door.tcp().await;
    let found = async |token: &str, claim: &str, value: &str| {
        reva.user_by_claim(Some(token), claim, value).await.map(|user| user.username).map_err(|refusal| refusal.cs3())
    };
    for session in [&acme, &globex] {
        assert_eq!(found(&session.token, "mail", &session.user.mail).await, Ok(session.user.username.clone()));
        assert_eq!(found(&session.token, "uid", "1000").await, Ok(session.user.username.clone()), "each tenant's own 1000");
    }
    assert_eq!(found(&acme.token, "gid", "101").await, Ok("bob@acme".to_owned()));
    for (claim, value) in [("gid", "100"), ("mail", "alice@acme.example"), ("mail", "jane@globex.example"), ("uid", "1003"), ("uid", "7")] {
        assert_eq!(found(&acme.token, claim, value).await, Err(Code::NotFound), "{claim} {value}");
    }
    for (claim, value) in [("uid", "01000"), ("uid", "-1"), ("uid", "1000 "), ("displayname", "Jane"), ("", "jane")] {
        assert_eq!(found(&acme.token, claim, value).await, Err(Code::InvalidArgument), "{claim} {value:?}");
    }
    assert_eq!(found(&globex.token, "gid", "100").await, Ok("jane@globex".to_owned()), "one person there has it");
}

#[tokio::test]
async fn ids_are_an_operators_directorys_own_and_derived_elsewhere() {
    let (_slapd, door) = Door::of_directory().await;
    let reva = door.socket().await;
    for (name, number, tenant) in [("jane@acme", 1, "acme"), ("jane@globex", 2, "globex"), ("joe@acme", 3, "acme")] {
        let session = door.session(name).await;
        assert_eq!(id(&session), uuid(number), "{name}");
        assert_eq!(session.user.mail, mail(name.split('@').next().unwrap(), tenant));
        assert!(!session.user.mail_verified, "a directory verifies none");
        let shouted = reva.user(None, &uuid(number).to_uppercase()).await;
        assert_eq!(shouted.unwrap_err().cs3(), Code::NotFound, "in the one form that is given out");
    }
    let of_file = Door::of_file().await;
    let jane = of_file.session("jane@acme").await;
    let derived = uuid::Uuid::parse_str(id(&jane)).unwrap();
    assert_eq!(derived.get_version_num(), 5);
    assert_eq!(id(&of_file.session("jane@acme").await), id(&jane), "the same each time");
}
