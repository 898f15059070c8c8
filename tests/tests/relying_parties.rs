//! Other people's OpenID libraries as relying parties of the broker: npm's openid-client, PyPI's Authlib, and Apache's
//! mod_auth_openidc. Each signs in by code and PKCE, renews, asks who it is, signs out, and hears of sign-outs elsewhere.
#![expect(clippy::indexing_slicing, reason = "tests")]

use denizen_tests::{
    Answer, Broker, Browser, Configuration, Tools,
    apache::Address,
    configuration::password_of,
    process::PATIENCE,
    relying_party::{Application, Library},
};
use serde_json::{Value, json};

async fn broker(clients: &[Value]) -> Broker {
    let mut configuration = Configuration::default();
    for client in clients {
        configuration.set("/clients/-", client.clone());
    }
    Broker::start_tls(configuration).await
}

/// Opens an application's page that leads to the broker, and signs in there where a form is shown.
async fn sign_in(browser: &mut Browser, address: &str, tenant: &str, username: &str) -> Answer {
    let page = browser.open(address).await;
    if page.text.contains("name=\"password\"") {
        let (name, _) = username.split_once('@').unwrap_or((username, ""));
        return browser.submit(&page, &[("username", username), ("password", &password_of(tenant, name))]).await;
    }
    page
}

async fn json_of(browser: &mut Browser, address: &str) -> Value {
    browser.open(address).await.expect(200).json()
}

/// Asks again and again until the answer is as it should be.
async fn becomes(browser: &mut Browser, address: &str, wanted: impl Fn(&Answer) -> bool) {
    let begun = std::time::Instant::now();
    loop {
        let answer = browser.get(address).await;
        if wanted(&answer) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{address} still answers {}: {}", answer.status, answer.text);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn works_with(library: Library) {
    let Some(tools) = Tools::find() else { return };
    let application = Application::new(library);
    let mut broker = broker(&[application.client()]).await;
    let party = application.start(&tools, &broker).await;
    let mut browser = broker.browser().visiting(&party.at("/"));
    let claims = sign_in(&mut browser, &party.at("/login"), "acme", "jane").await.expect(200).json()["claims"].clone();
    assert_eq!(
        (&claims["iss"], &claims["tenant_id"], &claims["preferred_username"], &claims["groups"]),
        (&json!(broker.issuer()), &json!("acme"), &json!("jane"), &json!(["staff", "admins"]))
    );
    let me = json_of(&mut browser, &party.at("/me")).await;
    assert_eq!((&me["userinfo"]["sub"], &me["userinfo"]["tenant_id"]), (&claims["sub"], &json!("acme")));
    assert_eq!((&me["userinfo"]["name"], &me["userinfo"]["email"]), (&json!("Jane Jones"), &json!("jane@acme.example")));
    for _ in 0..2 {
        assert_eq!(json_of(&mut browser, &party.at("/refresh")).await, json!({"renewed": true, "rotated": true}));
    }
    // What the library holds now is what the broker takes, also after a restart.
    broker.restart().await;
    assert_eq!(json_of(&mut browser, &party.at("/refresh")).await["renewed"], true);
    assert_eq!(json_of(&mut browser, &party.at("/me")).await["userinfo"]["sub"], claims["sub"]);

    // Signed out from the application, by its ID token: no question is asked, and the broker's own session is over.
    let goodbye = browser.open(&party.at("/logout")).await.expect(200);
    assert_eq!(goodbye.json(), json!({"goodbye": true, "state": "gone"}), "at {}", goodbye.url);
    assert_eq!(json_of(&mut browser, &party.at("/me")).await["signedIn"], false);
    let page = browser.open(&party.at("/login")).await;
    assert!(page.text.contains("name=\"password\""), "the broker asks again: {}", page.text);
    assert!(!broker.log().contains("\"level\":\"ERROR\""), "{}", broker.log());
}

#[tokio::test]
async fn openid_client_signs_in_renews_and_signs_out() {
    works_with(Library::OpenidClient).await;
}

#[tokio::test]
async fn authlib_signs_in_renews_and_signs_out() {
    works_with(Library::Authlib).await;
}

#[tokio::test]
async fn mod_auth_openidc_lets_the_people_of_one_tenant_in() {
    let address = Address::new();
    let broker = broker(&[address.client()]).await;
    let apache = address.start(&broker).await;
    let new_browser = || broker.browser().visiting(&apache.at("/"));
    let hook = |query: &str| apache.at(&format!("/cb?{query}"));
    let mut browser = new_browser();
    let page = sign_in(&mut browser, &apache.at("/protected"), "acme", "jane@acme").await;
    assert_eq!(page.status, 200, "{}\n{}", page.text, apache.log());
    let info = json_of(&mut browser, &hook("info=json")).await;
    assert_eq!((&info["id_token"]["tenant_id"], &info["userinfo"]["tenant_id"]), (&json!("acme"), &json!("acme")));
    assert_eq!((&info["id_token"]["sub"], &info["userinfo"]["name"]), (&info["userinfo"]["sub"], &json!("Jane Jones")));

    let mut hers = new_browser();
    let page = sign_in(&mut hers, &apache.at("/protected"), "globex", "jane@globex").await;
    assert!([401, 403].contains(&page.status), "the other jane is of another tenant: {}", page.status);
    assert_eq!(json_of(&mut hers, &hook("info=json")).await["id_token"]["tenant_id"], "globex", "and she did sign in");

    // The module renews when its own page asks, which it does with the access token as a proof.
    let access = info["access_token"].as_str().unwrap();
    let refresh = hook(&format!("refresh={}&access_token={access}", apache.at("/protected")));
    assert_eq!(browser.open(&refresh).await.status, 200, "{}", apache.log());
    let renewed = json_of(&mut browser, &hook("info=json")).await;
    assert_ne!(renewed["access_token"], info["access_token"], "{}", apache.log());
    assert_ne!(renewed["refresh_token"], info["refresh_token"]);

    let goodbye = browser.open(&hook(&format!("logout={}", apache.at("/goodbye")))).await.expect(200);
    assert_eq!(goodbye.url.path(), "/goodbye", "at {}", goodbye.url);
    let page = browser.open(&apache.at("/protected")).await;
    assert!(page.text.contains("name=\"password\""), "both sessions are over: {}", page.text);
    assert_eq!(hers.open(&hook("info=json")).await.expect(200).json()["id_token"]["tenant_id"], "globex", "hers is not");
}

#[tokio::test]
async fn a_sign_out_at_one_application_is_told_to_the_others() {
    let Some(tools) = Tools::find() else { return };
    let (first, second, third) = (Application::new(Library::OpenidClient), Application::new(Library::Authlib), Address::new());
    let broker = broker(&[first.client(), second.client(), third.client()]).await;
    let (first, second, third) = (first.start(&tools, &broker).await, second.start(&tools, &broker).await, third.start(&broker).await);
    let visiting = |browser: Browser| browser.visiting(&first.at("/")).visiting(&second.at("/")).visiting(&third.at("/"));
    let everywhere = [first.at("/login"), second.at("/login"), third.at("/protected")];
    let (mut browser, mut other) = (visiting(broker.browser()), visiting(broker.browser()));
    for (browser, username) in [(&mut browser, "jane"), (&mut other, "alice")] {
        for application in &everywhere {
            sign_in(browser, application, "acme", username).await.expect(200);
        }
    }
    browser.open(&first.at("/logout")).await.expect(200);
    becomes(&mut browser, &second.at("/me"), |answer| answer.json()["signedIn"] == false).await;
    becomes(&mut browser, &third.at("/cb?info=json"), |answer| answer.status != 200).await;
    // Someone else's sessions go on.
    assert_eq!(json_of(&mut other, &second.at("/me")).await["signedIn"], true);
    other.get(&third.at("/protected")).await.expect(200);
}
