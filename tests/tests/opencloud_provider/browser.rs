//! A real Chromium at OpenCloud's side: what its frames may hold, and whether its forms lead back to the apps.

use std::time::{Duration, Instant};

use denizen_tests::{
    Application, Authorization, Broker,
    chrome::{Chrome, Scripts},
    configuration::password_of,
};
use fantoccini::{Locator, key::Key};
use serde_json::{Value, json};
use url::Url;

use super::{app, configuration};

async fn sign_in(chrome: &Chrome, broker: &Broker, request: &Authorization) {
    chrome.open(&format!("{}{}", broker.issuer(), request.clone().with("tenant", "acme").path())).await;
    chrome.wait_for_text("OpenCloud").await;
    chrome.type_keys("jane").await;
    chrome.press(Key::Tab).await;
    chrome.type_keys(&password_of("acme", "jane")).await;
    chrome.press(Key::Enter).await;
}

/// Opens an address in a frame of the page, waits until something is loaded there, and says what it shows: its address and text.
async fn framed(chrome: &Chrome, address: &str) -> (Url, String) {
    let script = "document.querySelectorAll('iframe').forEach(old => old.remove()); const frame = document.createElement('iframe'); \
                  frame.onload = () => frame.dataset.loaded = '1'; frame.src = arguments[0]; document.body.append(frame);";
    chrome.client.execute(script, vec![json!(address)]).await.unwrap();
    let begun = Instant::now();
    while chrome.client.find(Locator::Css("iframe[data-loaded]")).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is loaded in the frame");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    chrome.client.clone().enter_frame(0).await.unwrap();
    let seen = chrome.client.execute("return [location.href, document.body.innerText]", Vec::new()).await.unwrap();
    chrome.client.clone().enter_parent_frame().await.unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (Url::parse(&text(&seen[0])).unwrap(), text(&seen[1]))
}

fn parameter(address: &Url, name: &str) -> Option<String> {
    address.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[tokio::test]
async fn a_frame_of_its_page_renews_silently_and_shows_no_sign_in() {
    let application = Application::start().await;
    let cloud = format!("http://127.0.0.1:{}", application.port);
    let broker = Broker::start(configuration(&cloud)).await;
    let request = Authorization::new("web", &format!("{cloud}/oidc-callback.html")).with("scope", "openid profile email");
    let silent = request.clone().with("redirect_uri", &format!("{cloud}/oidc-silent-redirect.html")).with("prompt", "none");
    let at = |request: &Authorization| format!("{}{}", broker.issuer(), request.path());
    let chrome = Chrome::start(Scripts::On).await;

    chrome.open(&format!("{cloud}/")).await;
    let (address, text) = framed(&chrome, &at(&silent)).await;
    assert_eq!((address.path(), parameter(&address, "error").as_deref()), ("/oidc-silent-redirect.html", Some("login_required")));
    assert!(text.contains("You are back."), "{text}");

    sign_in(&chrome, &broker, &request).await;
    chrome.wait_for_address(&format!("{cloud}/oidc-callback.html?code=")).await;
    // Two ports of one host are one site, so that the cookie comes along, as it does from cloud.example.com to id.example.com.
    chrome.open(&format!("{cloud}/")).await;
    let (address, text) = framed(&chrome, &at(&silent)).await;
    assert_eq!(address.path(), "/oidc-silent-redirect.html");
    assert!(text.contains("You are back."), "{text}");
    let tokens = broker.service().exchange(&silent, &parameter(&address, "code").unwrap()).await;
    broker.service().userinfo(tokens.access()).await.expect(200);

    // Everything that people see: not in a frame, whoever holds it.
    for path in [request.clone().with("prompt", "login").path(), "/account".to_owned(), "/login".to_owned()] {
        let (address, text) = framed(&chrome, &format!("{}{path}", broker.issuer())).await;
        assert_eq!(address.scheme(), "chrome-error", "{path} is shown: {text}");
    }
    // From another site no cookie comes along: that is what browsers do, and `login_required` is the answer.
    chrome.open(&format!("http://localhost:{}/", application.port)).await;
    let (address, _) = framed(&chrome, &at(&silent)).await;
    assert_eq!(parameter(&address, "error").as_deref(), Some("login_required"), "{address}");
    chrome.close().await;
}

#[tokio::test]
async fn the_form_leads_to_the_desktops_port() {
    let application = Application::start().await;
    let broker = Broker::start(configuration("https://cloud.example")).await;
    for host in ["127.0.0.1", "localhost"] {
        let chrome = Chrome::start(Scripts::Off).await;
        let home = format!("http://{host}:{}", application.port);
        sign_in(&chrome, &broker, &app("OpenCloudDesktop", &home)).await;
        chrome.wait_for_address(&format!("{home}/?code=")).await;
        chrome.wait_for_text("You are back.").await;
        chrome.close().await;
    }
}

/// Fills in the form of the page, and sends it; says what the page's policy kept it from, until nothing comes any more.
async fn sent(chrome: &Chrome, broker: &Broker, codes: usize) -> Value {
    let watch = "window.kept = []; document.addEventListener('securitypolicyviolation', e => kept.push(e.effectiveDirective));";
    chrome.client.execute(watch, Vec::new()).await.unwrap();
    chrome.client.find(Locator::Id("username")).await.unwrap().click().await.unwrap();
    chrome.type_keys("jane").await;
    chrome.press(Key::Tab).await;
    chrome.type_keys(&password_of("acme", "jane")).await;
    chrome.press(Key::Enter).await;
    let begun = Instant::now();
    while broker.log().matches("\"code.given\"").count() < codes {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", broker.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The answer is on its way; no app has the scheme here, so that the page stays whether it was let go or not.
    for _ in 0..20 {
        let kept = chrome.client.execute("return window.kept", Vec::new()).await.unwrap();
        if kept != json!([]) {
            return kept;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    json!([])
}

#[tokio::test]
async fn the_form_leads_to_an_app() {
    let broker = Broker::start(configuration("https://cloud.example")).await;
    let chrome = Chrome::start(Scripts::On).await;
    let at = |request: Authorization| format!("{}{}", broker.issuer(), request.with("tenant", "acme").path());
    let android = || at(app("OpenCloudAndroid", "oc://android.opencloud.eu"));
    chrome.open(&android()).await;
    chrome.wait_for_text("OpenCloud for Android").await;
    let hidden = "return ['attempt', 'csrf'].map(name => document.querySelector(`[name=${name}]`).value)";
    let values = chrome.client.execute(hidden, Vec::new()).await.unwrap();
    // First the other way round: that sign-in in a page whose policy names another address. The browser keeps it from the app.
    chrome.open(&at(app("OpenCloudDesktop", "http://127.0.0.1:1"))).await;
    chrome.wait_for_text("OpenCloud on the desktop").await;
    let exchange = "['attempt', 'csrf'].forEach((name, index) => document.querySelector(`[name=${name}]`).value = arguments[0][index])";
    chrome.client.execute(exchange, vec![values]).await.unwrap();
    assert_eq!(sent(&chrome, &broker, 1).await, json!(["form-action"]), "the browser holds the policy against the redirect");
    // Then in its own.
    chrome.open(&android()).await;
    chrome.wait_for_text("OpenCloud for Android").await;
    assert_eq!(sent(&chrome, &broker, 2).await, json!([]));
    chrome.close().await;
}
