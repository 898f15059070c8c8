//! A real headless Chromium at the real pages, by keyboard, as people use them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use denizen_tests::{
    Application, Authorization, Broker, Configuration,
    broker::program,
    chrome::{Chrome, Scripts},
    configuration::{hash_of, password_of},
    jwt, ports,
    process::Process,
};
use fantoccini::{Locator, key::Key};
use serde_json::json;

/// The whole way by keyboard: a wrong password first, then the right one, and back at the application with a code.
async fn signs_in(scripts: Scripts) {
    let broker = Broker::start(Configuration::default()).await;
    let mut application = Application::start().await;
    let request = application.request("web").with("tenant", "acme");
    let chrome = Chrome::start(scripts).await;
    chrome.open(&format!("{}{}", broker.issuer(), request.path())).await;
    let text = chrome.wait_for_text("The web application").await;
    assert!(text.contains("Name and password"), "{text}");
    assert_eq!(chrome.focus().await, "username", "one can type at once");
    chrome.type_keys("jane").await;
    chrome.press(Key::Tab).await;
    assert_eq!(chrome.focus().await, "password");
    chrome.type_keys("wrong").await;
    chrome.press(Key::Enter).await;

    chrome.wait_for_text("The user name or the password is wrong").await;
    let alert = chrome.client.find(Locator::Css("[role=alert]")).await.unwrap();
    assert!(alert.is_displayed().await.unwrap(), "the error is told to screen readers");
    let name = chrome.client.find(Locator::Id("username")).await.unwrap();
    assert_eq!(name.prop("value").await.unwrap().as_deref(), Some("jane"), "the name need not be typed again");
    assert_eq!(chrome.focus().await, "password");
    assert!(chrome.client.title().await.unwrap().starts_with("Error"));

    chrome.type_keys(&password_of("acme", "jane")).await;
    chrome.press(Key::Enter).await;
    let code = application.code().await;
    chrome.wait_for_text("You are back.").await;
    let tokens = broker.service().exchange(&request, &code).await;
    assert_eq!(jwt::claims(tokens.access())["tenant_id"], "acme");

    // Signed in: the second time no page is shown, and the account page knows who it is.
    chrome.open(&format!("{}{}", broker.issuer(), request.path())).await;
    application.code().await;
    chrome.open(&format!("{}/account", broker.issuer())).await;
    let text = chrome.wait_for_text("Sign out").await;
    for shown in ["Jane Jones", "Acme Corporation", "jane@acme.example", "staff", "admins"] {
        assert!(text.contains(shown), "{shown} is missing in\n{text}");
    }
    chrome.client.find(Locator::Css("form button")).await.unwrap().click().await.unwrap();
    chrome.wait_for_text("You are signed out").await;
    chrome.open(&format!("{}/account", broker.issuer())).await;
    chrome.wait_for_address(&format!("{}/login", broker.issuer())).await;
    assert!(!broker.log().contains("\"level\":\"ERROR\""), "{}", broker.log());
    chrome.close().await;
}

#[tokio::test]
async fn a_person_signs_in_by_keyboard() {
    signs_in(Scripts::On).await;
}

#[tokio::test]
async fn a_person_signs_in_without_script() {
    signs_in(Scripts::Off).await;
}

#[tokio::test]
async fn a_person_is_asked_before_an_application_signs_them_out_and_goes_back_to_it() {
    let mut application = Application::start().await;
    let bye = format!("http://127.0.0.1:{}/bye", application.port);
    let broker = Broker::start(Configuration::default().with_client("web", "postLogoutRedirectUris", json!([bye]))).await;
    let chrome = Chrome::start(Scripts::Off).await;
    chrome.open(&format!("{}{}", broker.issuer(), application.request("web").with("tenant", "acme").path())).await;
    chrome.wait_for_text("The web application").await;
    chrome.type_keys("jane").await;
    chrome.press(Key::Tab).await;
    chrome.type_keys(&password_of("acme", "jane")).await;
    chrome.press(Key::Enter).await;
    application.code().await;

    let ask = format!("{}/oauth2/logout?client_id=web&post_logout_redirect_uri={bye}&state=s", broker.issuer());
    chrome.open(&ask).await;
    let text = chrome.wait_for_text("Sign out?").await;
    assert!(text.contains("The web application") && text.contains("Jane Jones (Acme Corporation)"), "{text}");
    chrome.client.find(Locator::LinkText("Stay signed in")).await.unwrap().click().await.unwrap();
    chrome.wait_for_text("jane@acme.example").await;
    chrome.open(&ask).await;
    chrome.wait_for_text("Sign out?").await;
    chrome.client.find(Locator::Css("form button")).await.unwrap().click().await.unwrap();
    // The page's policy lets its form lead there.
    assert_eq!(chrome.wait_for_address(&bye).await.as_str(), format!("{bye}?state=s"));
    chrome.open(&format!("{}/account", broker.issuer())).await;
    chrome.wait_for_address(&format!("{}/login", broker.issuer())).await;
    chrome.close().await;
}

#[tokio::test]
async fn a_person_chooses_a_way_to_sign_in() {
    let mut configuration = Configuration::default().with_client("web", "connectors", json!(["people", "globex-own"]));
    configuration.set(
        "/connectors/-",
        json!({
            "id": "globex-own", "displayName": "Globex <staff>", "type": "file", "tenant": {"fixed": "globex"},
            "users": [{"id": "x1", "username": "ines", "displayName": "Ines <b>Ivers</b>", "password": hash_of("globex", "ines")}],
        }),
    );
    let broker = Broker::start(configuration).await;
    let mut application = Application::start().await;
    let chrome = Chrome::start(Scripts::On).await;
    let request = application.request("web");
    chrome.open(&format!("{}{}", broker.issuer(), request.path())).await;
    let text = chrome.wait_for_text("Choose how you sign in").await;
    assert!(text.contains("Globex <staff>"), "names are text, not markup: {text}");
    for _ in 0..10 {
        let active = chrome.client.active_element().await.unwrap();
        if active.tag_name().await.unwrap() == "a" && active.text().await.unwrap().contains("Globex <staff>") {
            break;
        }
        chrome.press(Key::Tab).await;
    }
    chrome.press(Key::Enter).await;
    chrome.wait_for_text("With your account at Globex <staff>").await;
    // And back, and there again.
    chrome.client.find(Locator::LinkText("Other ways to sign in")).await.unwrap().click().await.unwrap();
    chrome.wait_for_text("Choose how you sign in").await;
    chrome.client.find(Locator::Css("a[href*='/globex-own']")).await.unwrap().click().await.unwrap();
    chrome.wait_for_text("With your account at Globex <staff>").await;
    chrome.type_keys("ines").await;
    chrome.press(Key::Tab).await;
    chrome.type_keys(&password_of("globex", "ines")).await;
    chrome.press(Key::Enter).await;
    let tokens = broker.service().exchange(&request, &application.code().await).await;
    assert_eq!(jwt::claims(tokens.access())["connector"], "globex-own");
    chrome.open(&format!("{}/account", broker.issuer())).await;
    let text = chrome.wait_for_text("Sign out").await;
    assert!(text.contains("Ines <b>Ivers</b>"), "{text}");
    chrome.close().await;
}

#[tokio::test]
async fn pages_fit_a_narrow_screen_and_load_nothing_from_elsewhere() {
    let broker = Broker::start(Configuration::default()).await;
    let chrome = Chrome::start(Scripts::On).await;
    chrome.client.set_window_size(360, 740).await.unwrap();
    let request = Authorization::web().with("redirect_uri", "http://evil.example/").path();
    for path in ["/login", &Authorization::web().path(), &request] {
        chrome.open(&format!("{}{path}", broker.issuer())).await;
        let script = "return [document.documentElement.scrollWidth <= window.innerWidth, performance.getEntriesByType('resource').map(e => e.name), \
                      document.documentElement.lang, document.querySelectorAll('h1, main').length > 0, \
                      [...document.querySelectorAll('input:not([type=hidden])')].every(i => i.labels.length > 0)]";
        let seen = chrome.client.execute(script, Vec::new()).await.unwrap();
        assert_eq!((&seen[0], &seen[2], &seen[3], &seen[4]), (&json!(true), &json!("en"), &json!(true), &json!(true)), "{path}: {seen}");
        let resources = seen[1].as_array().unwrap();
        assert!(!resources.is_empty() && resources.iter().all(|r| r.as_str().unwrap().starts_with(broker.issuer())), "{seen}");
    }
    chrome.close().await;
}

#[tokio::test]
async fn a_newcomer_walks_through_the_demo() {
    let port = ports::free();
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut demo = Process::start(program().args(["demo", "--address", &address]), &folder.path().join("log"));
    demo.wait_for_port(port).await;
    demo.wait_until(async || demo_says(&folder.path().join("log"), &format!("http://{address}/demo"))).await;
    walk(port).await;
}

fn demo_says(log: &std::path::Path, text: &str) -> bool {
    std::fs::read_to_string(log).unwrap().contains(text)
}

async fn walk(port: u16) {
    let chrome = Chrome::start(Scripts::On).await;
    chrome.open(&format!("http://127.0.0.1:{port}/demo")).await;
    chrome.wait_for_text("Jane Joyce").await;
    // `jane` of Acme: the page hands over the name, and the person types the password that it shows.
    chrome.client.find(Locator::Css("[data-hint='jane@acme']")).await.unwrap().click().await.unwrap();
    chrome.wait_for_text("The demo").await;
    assert_eq!(chrome.focus().await, "password");
    chrome.type_keys("jane-of-acme").await;
    chrome.press(Key::Enter).await;
    chrome.wait_for_address(&format!("http://127.0.0.1:{port}/demo")).await;
    chrome.wait_for_text("tenant_id acme").await;

    let press = async |id: &str| chrome.client.find(Locator::Id(id)).await.unwrap().click().await.unwrap();
    let log = async |step: u8, wanted: &str| {
        let begun = std::time::Instant::now();
        loop {
            let text = chrome.client.find(Locator::Id(&format!("log-{step}"))).await.unwrap().text().await.unwrap();
            if text.contains(wanted) {
                return text;
            }
            assert!(begun.elapsed().as_secs() < 20, "step {step} does not show {wanted:?}:\n{text}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    chrome.client.find(Locator::Css("#search button[type=submit]")).await.unwrap().click().await.unwrap();
    let found = log(3, "\"users\"").await;
    assert!(found.contains("alice") && !found.contains("hank") && !found.contains("globex"), "{found}");
    press("foreign").await;
    log(3, "404").await;
    press("review-good").await;
    log(4, "\"username\": \"acme:jane\"").await;
    press("review-forged").await;
    log(4, "\"authenticated\": false").await;
    chrome.close().await;
}
