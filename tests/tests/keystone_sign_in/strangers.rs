//! What strangers type: nothing of it is more than a wrong try, for it could be told, and no one else is to wait for it.

use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn t29_whatever_is_typed_is_wrong_and_no_outage() {
    let Some(keystone) = Keystone::start().await else { return };
    let broker = Broker::start(configuration(&keystone, &keystone.url())).await;
    let long = "x".repeat(255);
    let wide = "\u{1f600}".repeat(60);
    for (domain, name, password, project) in [
        ("acme", "jane", &*"p".repeat(73), ""),
        ("acme", "jane", &*"p".repeat(1_024), ""),
        ("acme", "jane", &*"\u{1f600}".repeat(30), ""),
        ("acme", "jane", "a\u{7f}\u{200b}", ""),
        ("acme", &long, "wrong", ""),
        ("acme", &wide, "wrong", ""),
        ("acme", "%", "wrong", ""),
        ("acme", "' or 1=1 --", "wrong", ""),
        (&long, "jane", "wrong", ""),
        (&wide, "jane", "wrong", ""),
        ("%", "jane", "wrong", ""),
        ("acme/../globex", "jane", "wrong", ""),
        ("acme", "jane", &*password_of("acme", "jane"), &long),
        ("acme", "jane", &*password_of("acme", "jane"), &wide),
        ("acme", "jane", &*password_of("acme", "jane"), "../admin"),
        ("acme", "jane", &*password_of("acme", "jane"), "0123456789abcdef0123456789abcdef"),
    ] {
        let fields = [("domain", domain), ("username", name), ("password", password), ("project", project)];
        let answer = tried(broker.browser(), None, &fields).await;
        assert_eq!(answer.status, 422, "{fields:?}: {}", answer.text);
    }
    for tenant in [&*long, &*wide, "ACME", "acme/", "%", "..", "système"] {
        let fields = [("username", "jane"), ("password", &*password_of("acme", "jane"))];
        assert_eq!(tried(broker.browser(), Some(tenant), &fields).await.status, 422, "{tenant}");
    }
    for (id, secret) in
        [(&*long, "wrong"), (&*wide, "wrong"), ("..", "wrong"), (&*keystone.fixtures().application_credential.id, &*"p".repeat(1_024))]
    {
        let answer = tried_credential(broker.browser(), None, (id, secret)).await;
        assert_eq!(answer.status, 422, "{id} {secret}: {}", answer.text);
    }
}

/// Where tenants are the domains of projects, a tenant does not say the domain in which someone's name is.
#[tokio::test]
async fn a_tenant_that_is_no_domain_of_people_is_asked_for_beside_the_domain() {
    let Some(keystone) = Keystone::start().await else { return };
    let mut configuration = configuration(&keystone, &keystone.url());
    let cloud = configuration.0["connectors"].as_array_mut().unwrap().iter_mut().find(|connector| connector["id"] == "cloud").unwrap();
    cloud["userDirectory"] = json!(false);
    cloud["claimMappings"] = json!({"tenant": {"claim": "project_domain_id"}});
    let broker = Broker::start(configuration).await;
    let password = password_of("acme", "jane");
    let fields = [("domain", "acme"), ("username", "jane"), ("password", &*password), ("project", "web")];
    for tenant in [None, Some("acme")] {
        let answer = tried(broker.browser(), tenant, &fields).await;
        assert_eq!(who(&tokens(&broker.service(), &answer).await).0, "acme", "{tenant:?}");
    }
    assert_eq!(alert(&tried(broker.browser(), Some("globex"), &fields).await).0, 422);
}

/// Keystone hashes the passwords of those alone whom it knows.
#[tokio::test]
async fn how_long_a_no_takes_does_not_say_who_there_is() {
    let Some(keystone) = Keystone::start().await else { return };
    let broker = Broker::start(configuration(&keystone, &keystone.url())).await;
    let step = Duration::from_millis(500);
    for (domain, name) in [("acme", "jane"), ("acme", "nobody"), ("nowhere", "jane"), ("acme", "dora"), ("Default", "olga")] {
        let mut browser = broker.browser();
        let page = form(&mut browser, None).await;
        let begun = Instant::now();
        browser.submit(&page, &[("domain", domain), ("username", name), ("password", "wrong")]).await.expect(422);
        assert!(begun.elapsed() >= step, "{name} of {domain}: {:?}", begun.elapsed());
    }
    let known = &*keystone.fixtures().application_credential.id;
    for id in [known, "0123456789abcdef0123456789abcdef"] {
        let begun = Instant::now();
        tried_credential(broker.browser(), None, (id, "wrong")).await.expect(422);
        assert!(begun.elapsed() >= step, "{id}: {:?}", begun.elapsed());
    }
}
