//! For how long a token that was good is taken, and what ends it: at once, or when what is remembered runs out.

use denizen_tests::{
    Answer, Keystone, Service,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    keystone::Scope,
};
use serde_json::{Value, json};

use super::house::{CACHE, CLOUD, House, REFUSAL, reviewed};

async fn delete(service: &Service, connector: &str, caller: Option<&str>, token: Option<&str>) -> Answer {
    let mut request = service.http().delete(service.at(&format!("/keystone/{connector}/v3/auth/tokens")));
    for (name, value) in [("X-Auth-Token", caller), ("X-Subject-Token", token)] {
        request = value.into_iter().fold(request, |request, value| request.header(name, value));
    }
    let answer = service.send(request).await;
    assert!(answer.headers.get("retry-after").is_none() && token.is_none_or(|token| !answer.text.contains(token)));
    answer
}

#[tokio::test]
async fn a_good_answer_and_a_refusal_are_kept_for_their_times_and_no_longer() {
    let Some(house) = House::clocked(|_, _| {}).await else { return };
    let (good, bad) = (house.jane().await, house.token("globex", "jane", "globex").await);
    house.keystone.revoke(&bad).await;
    for passed in [0, i64::from(REFUSAL) - 2] {
        house.broker.pass(passed);
        assert_eq!((house.reviewed(&good).await["username"].clone(), house.reviewed(&bad).await), (json!("acme:jane"), Value::Null));
        assert_eq!(house.asked()[0], 2, "each was asked about once");
    }
    house.broker.pass(3);
    assert_eq!((house.reviewed(&good).await["username"].clone(), house.reviewed(&bad).await), (json!("acme:jane"), Value::Null));
    assert_eq!(house.asked()[0], 3, "the refusal is asked for again");
    house.broker.pass(i64::from(CACHE));
    assert_eq!(house.reviewed(&good).await["username"], "acme:jane");
    assert_eq!(house.asked()[0], 4, "and so is the good one");
}

#[tokio::test]
async fn a_token_is_not_taken_beyond_its_own_end() {
    let settings = denizen_tests::keystone::Settings { token_seconds: 120, ..denizen_tests::keystone::Settings::default() };
    let Some(keystone) = Keystone::start_with(settings).await else { return };
    let mut configuration = keystone.configuration(keystone.connector("cloud"));
    super::house::accept_tokens(&mut configuration);
    let broker = denizen_tests::ClockedBroker::start(configuration).await;
    let service = broker.service();
    let token = keystone.token("acme", "jane", Scope::Unscoped).await;
    assert_eq!(reviewed(&service, &token).await["username"], "acme:jane");
    broker.pass(60);
    assert_eq!(reviewed(&service, &token).await["username"], "acme:jane");
    broker.pass(61);
    assert_eq!(reviewed(&service, &token).await, Value::Null, "by our clock it has expired, though Keystone would still vouch for it");
}

#[tokio::test]
async fn what_ends_at_keystone_ends_here_when_the_answer_runs_out() {
    let Some(house) = House::clocked(|_, _| {}).await else { return };
    let keystone = &house.keystone;
    let revoked = house.jane().await;
    let of_john = house.token("acme", "john", "acme").await;
    let of_credential = keystone.token_of_application_credential(&keystone.fixtures().application_credential).await;
    let of_globex = keystone.token("globex", "jane", Scope::Unscoped).await;
    let stays = house.jane().await;
    let all = [&revoked, &of_john, &of_credential, &of_globex, &stays];
    for token in all {
        assert!(house.reviewed(token).await.is_object());
    }
    keystone.revoke(&revoked).await;
    keystone.disable_user(keystone.user("acme", "john")).await;
    let credential = &keystone.fixtures().application_credential.id;
    keystone.delete_application_credential(keystone.user("acme", "jane"), credential).await;
    keystone.disable_domain(keystone.domain("globex")).await;
    for token in all {
        assert!(house.reviewed(token).await.is_object(), "it is remembered");
    }
    house.broker.pass(i64::from(CACHE) + 1);
    for (what, token) in
        [("revoked", &revoked), ("user disabled", &of_john), ("credential gone", &of_credential), ("domain disabled", &of_globex)]
    {
        assert_eq!(house.reviewed(token).await, Value::Null, "{what}");
    }
    assert_eq!(house.reviewed(&stays).await["username"], "acme:jane");
    // Those that are asked for the first time are refused at once.
    assert_eq!(
        house
            .reviewed(&{
                let token = house.jane().await;
                keystone.revoke(&token).await;
                token
            })
            .await,
        Value::Null
    );
    keystone.enable_domain(keystone.domain("globex")).await;
    house.broker.pass(i64::from(REFUSAL) + 1);
    assert_eq!(house.reviewed(&keystone.token("globex", "jane", Scope::Unscoped).await).await["username"], "globex:jane");
}

#[tokio::test]
async fn a_cache_time_of_seconds_ends_by_the_machines_own_clock() {
    let Some(house) = House::with(|_, configuration| {
        configuration.set(&format!("{CLOUD}/tokens"), json!({"cacheSeconds": 1, "refusalSeconds": 1}));
    })
    .await
    else {
        return;
    };
    let token = house.jane().await;
    assert_eq!(house.reviewed(&token).await["username"], "acme:jane");
    house.keystone.revoke(&token).await;
    let begun = std::time::Instant::now();
    while house.reviewed(&token).await.is_object() {
        assert!(begun.elapsed().as_secs() < 20, "it is taken for a second more, and no longer");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn who_is_taken_back_through_denizen_is_refused_at_once() {
    let Some(house) = House::clocked(|_, _| {}).await else { return };
    let (service, keystone) = (&house.service, &house.keystone);
    let (jane, other, john) = (house.jane().await, house.jane().await, house.token("acme", "john", "acme").await);
    for token in [&jane, &other, &john] {
        assert!(house.reviewed(token).await.is_object());
    }
    // Who shows no token, or one that is none, may nothing; no right to another's token comes from one's own.
    for caller in [None, Some("gAAAAABnothing"), Some("x")] {
        delete(service, "cloud", caller, Some(&jane)).await.expect(401);
    }
    delete(service, "cloud", Some(&john), Some(&jane)).await.expect(403);
    for (connector, subject) in [("cloud", Some("gAAAAABnothing")), ("cloud", None), ("people", Some(&*jane)), ("nowhere", Some(&*jane))] {
        delete(service, connector, Some(&jane), subject).await.expect(404);
    }
    assert!(house.reviewed(&jane).await.is_object(), "nothing was taken back");

    delete(service, "cloud", Some(&jane), Some(&jane)).await.expect(204);
    assert_eq!(house.reviewed(&jane).await, Value::Null);
    keystone.validate(&jane).await.expect(404);
    assert_eq!(house.reviewed(&other).await["username"], "acme:jane", "her other token is another one");
    // It stays so, whatever is remembered.
    house.broker.pass(i64::from(CACHE) + 1);
    assert_eq!(house.reviewed(&jane).await, Value::Null);
    // Whoever may revoke at Keystone may do so here.
    let admin = keystone.token("Default", "admin", Scope::System).await;
    delete(service, "cloud", Some(&admin), Some(&john)).await.expect(204);
    assert_eq!(house.reviewed(&john).await, Value::Null);
    delete(service, "cloud", Some(&admin), Some(&john)).await.expect(404);
}

#[tokio::test]
async fn t11_a_tenant_that_is_not_mapped_disabled_or_not_the_reviewers_is_refused_at_once() {
    let Some(mut house) = House::start().await else { return };
    // Keystone's domain is nobody's here.
    let initech = house.token("initech", "jane", "initech").await;
    assert_eq!(house.reviewed(&initech).await, Value::Null);
    let operator = house.keystone.token("Default", "olga", Scope::Unscoped).await;
    assert_eq!(house.reviewed(&operator).await, Value::Null);
    let (acme, globex) = (house.jane().await, house.token("globex", "jane", "globex").await);
    let expect = async |house: &House, is_globex: bool, why: &str| {
        let service = house.broker.service();
        assert_eq!(reviewed(&service, &globex).await["username"] == "globex:jane", is_globex, "{why}");
        assert_eq!(reviewed(&service, &acme).await["username"], "acme:jane", "{why}");
    };
    expect(&house, true, "both are").await;
    house.broker.reconfigure(|c| c.set("/tenants/1/disabled", true)).await;
    expect(&house, false, "the tenant is disabled").await;
    house.broker.reconfigure(|c| c.set("/tenants/1/disabled", false)).await;
    expect(&house, true, "it is enabled again").await;
    house.broker.reconfigure(|c| c.set("/reviewers/0/tenants", json!(["acme"]))).await;
    expect(&house, false, "the reviewer is acme's").await;
    house
        .broker
        .reconfigure(|c| {
            c.set("/reviewers/0/tenants", json!(["acme", "globex"]));
            c.set(&format!("{CLOUD}/tenants"), json!(["acme"]));
        })
        .await;
    expect(&house, false, "the connector is acme's").await;
    house
        .broker
        .reconfigure(|c| {
            c.set(&format!("{CLOUD}/tenants"), json!(["acme", "globex"]));
            c.set("/tenants/1/externalIds/cloud", "0123456789abcdef0123456789abcdef");
        })
        .await;
    expect(&house, false, "globex is another domain").await;
}

#[tokio::test]
async fn t03_a_domain_that_becomes_another_tenants_takes_no_one_along() {
    let Some(mut house) = House::start().await else { return };
    let jane = house.jane().await;
    let before = house.reviewed(&jane).await;
    assert_eq!(before["username"], "acme:jane");
    // By mistake both domains change hands.
    let (acme, globex) = (house.keystone.domain("acme").to_owned(), house.keystone.domain("globex").to_owned());
    house
        .broker
        .reconfigure(|c| {
            c.set("/tenants/0/externalIds/cloud", globex);
            c.set("/tenants/1/externalIds/cloud", acme);
        })
        .await;
    let after = reviewed(&house.broker.service(), &jane).await;
    assert!(after.is_null() || (after["username"] == "globex:jane" && after["uid"] != before["uid"]), "{after}");
}

#[tokio::test]
async fn a_connector_for_one_domain_takes_no_other() {
    let Some(house) = House::with(|keystone, configuration| {
        configuration.set(&format!("{CLOUD}/domainId"), keystone.domain("acme"));
        configuration.set(&format!("{CLOUD}/tenant"), json!({"fixed": "acme"}));
        configuration.0["connectors"][2].as_object_mut().unwrap().remove("tenants");
    })
    .await
    else {
        return;
    };
    assert_eq!(house.reviewed(&house.jane().await).await["username"], "acme:jane");
    assert_eq!(house.reviewed(&house.token("acme", "john", "globex").await).await["username"], "acme:john");
    for domain in ["globex", "initech"] {
        assert_eq!(house.reviewed(&house.token(domain, "jane", domain).await).await, Value::Null, "{domain}");
    }
}

#[tokio::test]
async fn a_connector_that_is_disabled_is_not_asked() {
    let Some(mut house) = House::start().await else { return };
    let jane = house.jane().await;
    assert!(house.reviewed(&jane).await.is_object());
    house.broker.reconfigure(|c| c.set(&format!("{CLOUD}/disabled"), true)).await;
    house.relay.forget();
    let service = house.broker.service();
    assert_eq!(service.review(REVIEWER_TOKEN, &jane, &[KUBERNETES]).await["authenticated"], false);
    delete(&service, "cloud", Some(&jane), Some(&jane)).await.expect(404);
    assert_eq!(house.relay.total(), 0);
}
