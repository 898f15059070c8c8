//! Tokens with OpenCloud's own signature, and what they are not believed about.

use super::*;

/// Whether such a token is taken.
async fn taken(house: &House, id: Value, scope: &str) -> String {
    said(house.with(id, scope).await.map(|caller| match caller {
        Cs3Caller::User(_) => "user",
        Cs3Caller::Link { .. } => "link",
        Cs3Caller::Service { .. } => "service",
        Cs3Caller::Tokenless(_) => "tokenless",
    }))
}

fn changed(key: &str, value: Value) -> Value {
    let mut id = person(JANE, "acme");
    id[key] = value;
    id
}

#[tokio::test]
async fn t01_an_empty_tenant_is_no_tenant_and_never_all_of_them() {
    let house = House::new().await;
    let mut none = person(JANE, "acme");
    none.as_object_mut().unwrap().remove("tenant_id");
    for scope in ["user", "publicshare:abc"] {
        assert_eq!(taken(&house, person(JANE, ""), scope).await, "bad token");
        assert_eq!(taken(&house, none.clone(), scope).await, "bad token");
    }
}

#[tokio::test]
async fn t05_t10_a_tenant_that_is_not_that_of_the_record_is_refused() {
    let house = House::new().await;
    assert_eq!(taken(&house, person(JANE, "acme"), "user").await, "user");
    for tenant in ["globex", "Acme", "ACME", "acme ", "ａｃｍｅ", "a/b", "nowhere", "system", "0a1b", "Acme Ltd."] {
        assert_eq!(taken(&house, person(JANE, tenant), "user").await, "bad token", "{tenant}");
        assert_eq!(taken(&house, person(JANE, tenant), "publicshare:1").await, "bad token", "{tenant}");
    }
    assert_eq!(taken(&house, person(NOBODY, "acme"), "user").await, "bad token", "an id without a record");
    for id in [JANE.to_uppercase(), JANE.replace('-', ""), String::new(), "jane".to_owned()] {
        assert_eq!(taken(&house, person(&id, "acme"), "user").await, "bad token", "{id}");
    }
}

#[tokio::test]
async fn the_kind_of_user_and_the_provider_must_be_ours() {
    let house = House::new().await;
    for kind in [-1, 0, 2, 4, 5, 6, 7, 8, 9, 1_i64 << 40] {
        for scope in ["user", "publicshare:1", "lightweight"] {
            assert_eq!(taken(&house, changed("type", json!(kind)), scope).await, "bad token", "{kind}");
        }
    }
    for (idp, expected) in [
        ("", "user"),
        ("https://id.example/", "user"),
        ("https://sso.example", "bad token"),
        ("none", "bad token"),
        ("https://id.example.evil", "bad token"),
    ] {
        assert_eq!(taken(&house, changed("idp", json!(idp)), "user").await, expected, "{idp}");
    }
}

#[tokio::test]
async fn a_scope_says_whether_someone_is_themselves_or_has_a_link_of_theirs() {
    let house = House::new().await;
    for (scope, expected) in [
        ("user", "user"),
        ("user:1", "user"),
        ("publicshare:1", "link"),
        ("resourceinfo:1", "link"),
        ("lightweight", "link"),
        ("ocmshare:1", "link"),
        ("users", "bad token"),
        ("share:1", "bad token"),
        ("", "bad token"),
    ] {
        assert_eq!(taken(&house, person(JANE, "acme"), scope).await, expected, "{scope}");
    }
}

#[tokio::test]
async fn service_accounts_are_no_users() {
    let house = House::new().await;
    let account = |key: &str, value: Value| {
        let mut id = json!({"idp": "none", "opaque_id": SERVICE, "type": 3});
        id[key] = value;
        id
    };
    assert_eq!(taken(&house, account("idp", json!("none")), "user").await, "service");
    assert_eq!(taken(&house, account("idp", json!("")), "user").await, "service");
    assert_eq!(taken(&house, account("opaque_id", json!("service-user-id")), "user").await, "service");
    for (key, value) in [
        ("tenant_id", json!("acme")),
        ("idp", json!("https://id.example")),
        ("opaque_id", json!("")),
        ("opaque_id", json!(JANE)),
        ("opaque_id", json!(JANE.to_uppercase())),
        ("opaque_id", json!(JANE.replace('-', ""))),
        ("opaque_id", json!("a\nb")),
        ("opaque_id", json!("x".repeat(256))),
    ] {
        assert_eq!(taken(&house, account(key, value.clone()), "user").await, "bad token", "{key}={value}");
    }
    for scope in ["publicshare:1", "lightweight", "admin"] {
        assert_eq!(taken(&house, account("idp", json!("none")), scope).await, "bad token", "{scope}");
    }
}

#[tokio::test]
async fn t11_tenant_and_connector_are_judged_at_each_call() {
    let house = House::new().await;
    let off = house.changed(|configuration| configuration["tenants"][0]["disabled"] = json!(true)).await;
    assert_eq!(taken(&off, person(JANE, "acme"), "user").await, "bad token");
    assert_eq!(taken(&off, person(GUS, "globex"), "user").await, "user", "the others stay");
    let off = house.changed(|configuration| configuration["connectors"][0]["disabled"] = json!(true)).await;
    assert_eq!(taken(&off, person(JANE, "acme"), "user").await, "bad token");
    let off = house.changed(|configuration| configuration["tenants"][0]["connectors"] = json!(["annex"])).await;
    assert_eq!(taken(&off, person(JANE, "acme"), "user").await, "bad token");
    assert_eq!(taken(&house, person(JANE, "acme"), "user").await, "user");
}

#[tokio::test]
async fn t04_a_record_of_an_id_in_another_tenant_makes_no_one_of_that_tenant() {
    let house = House::new().await;
    // An id of acme's that a directory gives to someone of globex later: whoever had it first has it.
    let again = house.changed(|configuration| {
        let users = configuration["connectors"][0]["users"].as_array_mut().unwrap();
        users.retain(|user| user["id"] != JOE);
        users.push(json!({"id": JOE, "username": "mallory", "tenant": "9f8e"}));
    });
    let again = again.await;
    let gus = again.user(GUS, "globex").await;
    assert_eq!(again.found(&gus, &[""]).await.unwrap(), ["gus@globex"]);
    assert_eq!(taken(&again, person(JOE, "globex"), "user").await, "bad token");
    assert_eq!(again.by_id(&gus, JOE, "").await, "not found");
    let socket = again.caller(None, Channel::Socket).await.unwrap();
    assert_eq!(again.by_claim(&socket, "userid", JOE).await, "not found", "nor is he shown as acme's");
}

#[tokio::test]
async fn a_store_that_can_not_tell_refuses_no_one() {
    let house = House::new().await;
    let id = Uuid::parse_str(JANE).unwrap();
    // A record that can not be read is no "no".
    let key = Key::system(Kind::IdOwner, id.to_string());
    house.store.commit(crate::store::Batch::new().put(key, b"a/b".to_vec(), None), NOW).await.unwrap();
    let again = house.changed(|_| {}).await;
    let socket = again.caller(None, Channel::Socket).await.unwrap();
    assert_eq!(again.by_claim(&socket, "userid", JANE).await, "could not tell");
}

#[tokio::test]
async fn times_are_those_of_the_call() {
    let house = House::new().await;
    let token = minted(&token::tests::payload(NOW, &person(JANE, "acme"), "user"));
    let at = |after: i64| {
        let (house, token) = (&house, &token);
        async move { said(house.cs3.caller(Some(token), Channel::Address, NOW + Duration::seconds(after)).await.map(|_| "ok")) }
    };
    assert_eq!((at(86_404).await.as_str(), at(86_405).await.as_str(), at(-6).await.as_str()), ("ok", "bad token", "bad token"));
}
