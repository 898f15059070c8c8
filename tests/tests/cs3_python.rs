//! CS3's own Python package at the door of the running broker: it gets what our Rust client gets, over the socket and over TCP.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddr};

use denizen_tests::{
    Authority, Broker, Configuration, Cs3Python, Reva, RevaToken,
    cs3::{
        group::{FindGroupsRequest, Group},
        user::{User, UserId},
    },
    folder, ports,
    reva::query,
};
use serde_json::{Map, Value, json};

const SECRET: &str = "the-jwt-secret-of-these-tests-0123456789";

/// As Python shows it: what is empty is left out.
fn shown(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let parts = map.into_iter().map(|(name, value)| (name, shown(value)));
            let is_there =
                |value: &Value| !matches!(value, Value::String(text) if text.is_empty()) && *value != json!([]) && *value != json!(false);
            Value::Object(parts.filter(|(_, value)| is_there(value)).collect::<Map<_, _>>())
        }
        Value::Array(list) => list.into_iter().map(shown).collect(),
        other => other,
    }
}

fn of_id(id: &UserId) -> Value {
    json!({"idp": id.idp, "opaque_id": id.opaque_id, "type": "USER_TYPE_PRIMARY", "tenant_id": id.tenant_id})
}

fn of_user(user: &User) -> Value {
    shown(json!({
        "id": of_id(user.id.as_ref().unwrap()), "username": user.username, "mail": user.mail, "mail_verified": user.mail_verified,
        "display_name": user.display_name, "groups": user.groups,
    }))
}

fn of_group(group: &Group) -> Value {
    let id = group.id.as_ref().unwrap();
    shown(json!({
        "id": {"idp": id.idp, "opaque_id": id.opaque_id, "type": "GROUP_TYPE_REGULAR"}, "group_name": group.group_name, "mail": group.mail,
        "display_name": group.display_name, "members": group.members.iter().map(of_id).collect::<Vec<_>>(),
    }))
}

#[tokio::test]
async fn pythons_stubs_get_the_same_over_both_ways() {
    let files = folder::new("cs3-python");
    let (path, address) = (files.path().join("cs3.sock"), SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free())));
    let Some(by_socket) = Cs3Python::find(&format!("unix:{}", path.display())) else { return };
    let authority = Authority::new("OpenCloud's");
    let made = authority.server(files.path(), "cs3", &["localhost"]);
    let tls = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let cs3 = |address: SocketAddr| json!({"address": address.to_string(), "jwtSecret": SECRET});
    let mut plain = cs3(address);
    plain["socket"] = json!({"path": path, "mode": "0600"});
    let mut secured = cs3(tls);
    secured["tls"] = json!({"certificateFile": made.certificate, "keyFile": made.key});
    let _plain = Broker::start(Configuration::default().with("/cs3", plain)).await;
    let _secured = Broker::start(Configuration::default().with("/cs3", secured)).await;
    let by_address = Cs3Python::find(&format!("dns:{address}")).unwrap();

    let reva = Reva::socket(&path).await.unwrap();
    let jane = reva.user_by_claim(None, "username", "jane@acme").await.unwrap();
    let token = RevaToken::of_user(&jane).sign(SECRET);
    let token = Some(token.as_str());
    let id = jane.id.as_ref().unwrap().opaque_id.clone();
    let everyone = reva.find_users(token, &[query("")]).await.unwrap();
    assert_eq!((everyone.len(), everyone[2].groups.len()), (3, 2));
    let groups = reva.find_groups(token, FindGroupsRequest::default()).await.unwrap();
    let group = reva.group(token, &jane.groups[0]).await.unwrap();
    assert!(groups.len() == 2 && !group.members.is_empty());

    let ok = |told: &denizen_tests::cs3_python::Outcome| {
        assert_eq!((told.grpc.as_str(), told.code.as_deref()), ("OK", Some("CODE_OK")), "{told:?}");
    };
    for python in [&by_socket, &by_address] {
        let told = python.call(token, "user", "GetUser", &json!({"user_id": {"opaque_id": id}}));
        ok(&told);
        assert_eq!(told.answer["user"], of_user(&jane));
        for (claim, value) in [("username", "jane@acme"), ("userid", id.as_str()), ("mail", "jane@acme.example")] {
            let told = python.call(token, "user", "GetUserByClaim", &json!({"claim": claim, "value": value}));
            ok(&told);
            assert_eq!(told.answer["user"], of_user(&jane), "{claim}");
        }
        let told = python.call(token, "user", "FindUsers", &json!({"filters": [{"type": "TYPE_QUERY", "query": "\"\""}]}));
        ok(&told);
        assert_eq!(told.answer["users"], everyone.iter().map(of_user).collect::<Value>());
        let filters =
            json!({"filters": [{"type": "TYPE_QUERY", "query": "jane"}, {"type": "TYPE_USERTYPE", "usertype": "USER_TYPE_FEDERATED"}]});
        let told = python.call(token, "user", "FindUsers", &filters);
        ok(&told);
        assert!(told.answer.get("users").is_none(), "{told:?}");
        let told = python.call(token, "user", "GetUserGroups", &json!({"user_id": {"opaque_id": id}}));
        assert_eq!(told.answer["groups"], json!(jane.groups));
        let told = python.call(token, "tenant", "GetTenant", &json!({"tenant_id": "acme"}));
        ok(&told);
        assert_eq!(told.answer["tenant"], json!({"id": "acme", "name": "Acme Corporation", "external_id": "acme"}));
        let told = python.call(token, "tenant", "GetTenantByClaim", &json!({"claim": "externalid", "value": "acme"}));
        assert_eq!(told.answer["tenant"]["id"], "acme");
        let told = python.call(token, "group", "FindGroups", &json!({}));
        ok(&told);
        assert_eq!(told.answer["groups"], groups.iter().map(of_group).collect::<Value>());
        let told = python.call(token, "group", "GetGroup", &json!({"group_id": {"opaque_id": jane.groups[0]}}));
        ok(&told);
        assert_eq!(told.answer["group"], of_group(&group));
        let member = json!({"group_id": {"opaque_id": jane.groups[0]}, "user_id": {"opaque_id": id}});
        assert_eq!(python.call(token, "group", "HasMember", &member).answer["ok"], true);

        // And what is refused.
        let told = python.call(token, "user", "GetUser", &json!({"user_id": {"opaque_id": "00000000-0000-4000-8000-000000000000"}}));
        assert_eq!((told.grpc.as_str(), told.code.as_deref()), ("OK", Some("CODE_NOT_FOUND")));
        assert_eq!(python.call(None, "user", "FindUsers", &json!({})).grpc, "UNAUTHENTICATED");
        assert_eq!(python.call(Some("garbage"), "user", "GetUser", &json!({"user_id": {"opaque_id": id}})).grpc, "PERMISSION_DENIED");
    }
    let look_up = json!({"claim": "username", "value": "jane@acme"});
    assert_eq!(by_socket.call(None, "user", "GetUserByClaim", &look_up).answer["user"], of_user(&jane));
    assert_eq!(by_address.call(None, "user", "GetUserByClaim", &look_up).grpc, "UNAUTHENTICATED");

    let target = format!("dns:localhost:{}", tls.port());
    let trusting = Cs3Python::find(&target).unwrap().trusting(authority.certificate());
    assert_eq!(trusting.call(None, "user", "GetUserByClaim", &look_up).grpc, "UNAUTHENTICATED", "it is spoken to, and needs a token");
    let other = Cs3Python::find(&target).unwrap().trusting(Authority::new("another").certificate());
    assert_eq!(other.call(None, "user", "GetUserByClaim", &look_up).grpc, "UNAVAILABLE");
}
