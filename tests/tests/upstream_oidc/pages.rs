//! What people do with their browsers on the way: several tabs, the back button, second thoughts; and a real Chromium.

use denizen_tests::{
    Application,
    browser::code,
    chrome::{Chrome, Scripts},
    jwt,
};
use fantoccini::key::Key;

use super::{House, refused};

#[tokio::test]
async fn sign_ins_in_several_tabs_do_not_disturb_each_other() {
    let Some(house) = House::start().await else { return };
    let mut browser = house.browser();
    let ways = [("acme-sso", "jane"), ("shared-sso", "sue-acme"), ("acme-sso", "jane")];
    let mut tabs = Vec::new();
    for (connector, login) in ways {
        tabs.push((connector, login, browser.open(&house.request(connector).path()).await));
    }
    // The last one first.
    for (connector, login, page) in tabs.iter().rev() {
        let answer = house.providers.at(page).sign_in(&mut browser, page, login).await;
        let tokens = house.service().exchange(&house.request(connector), &code(&answer)).await;
        assert_eq!(jwt::claims(tokens.access())["connector"], *connector);
    }
}

#[tokio::test]
async fn someone_who_goes_back_at_the_provider_can_try_again() {
    let Some(house) = House::start().await else { return };
    let mut browser = house.browser();
    let page = browser.open(&house.request("acme-sso").path()).await;
    let (_, second) = page.text.split_once("</form>").unwrap();
    let answer = browser.submit(&denizen_tests::Answer { text: second.to_owned(), ..page.clone() }, &[]).await;
    refused(&answer);
    let again = browser.open(&house.request("acme-sso").path()).await;
    assert!(!code(&house.providers.at(&again).sign_in(&mut browser, &again, "jane").await).is_empty());
}

#[tokio::test]
async fn a_person_signs_in_at_the_provider_in_chromium_and_goes_back() {
    let Some(house) = House::start().await else { return };
    let mut application = Application::start().await;
    let request = application.request("at-acme-sso");
    let chrome = Chrome::start(Scripts::Off).await;
    chrome.open(&format!("{}{}", house.broker.issuer(), request.path())).await;
    chrome.wait_for_text("Sign in at the provider").await;
    assert_eq!(chrome.focus().await, "login");
    chrome.type_keys("jane").await;
    chrome.press(Key::Tab).await;
    chrome.type_keys(house.providers.acme.password("jane")).await;
    chrome.press(Key::Enter).await;
    chrome.wait_for_text("You are back.").await;
    let tokens = house.broker.service().exchange(&request, &application.code().await).await;
    assert_eq!(jwt::claims(tokens.access())["tenant_id"], "acme");
    chrome.open(&format!("{}/account", house.broker.issuer())).await;
    chrome.wait_for_text("jane of acme").await;
    // Twice back: the provider's page, which is over. Whatever it leads to is a page, and not an error dump.
    for _ in 0..2 {
        chrome.client.back().await.unwrap();
    }
    let text = chrome.text().await;
    assert!(!text.is_empty() && !text.contains("{\""), "{text}");
    chrome.close().await;
}
