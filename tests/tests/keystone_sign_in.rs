//! People of a real Keystone at the real pages: whose domain, whose password, whose application credential; and what becomes of their
//! sessions when Keystone says otherwise later.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "keystone_sign_in/colleagues.rs"]
mod colleagues;
#[path = "keystone_sign_in/strangers.rs"]
mod strangers;

use denizen_tests::{
    Answer, Application, Authorization, Broker, Browser, Configuration, Keystone, Relay, Service, Tokens,
    browser::code,
    chrome::{Chrome, Scripts},
    clocked_broker::ClockedBroker,
    configuration::password_of,
    form::{Form, links},
    jwt,
    keystone::Scope,
};
use fantoccini::{Locator, key::Key};
use serde_json::{Value, json};

/// The tenants acme and globex, known by the ids of their domains, and `initech-inc`, whose domain Keystone calls `initech`. The
/// application `web` takes people of the cloud alone.
fn configuration(keystone: &Keystone, url: &str) -> Configuration {
    let mut connector = keystone.connector_at("cloud", url);
    connector["tenants"] = json!(["acme", "globex", "initech-inc"]);
    connector["roles"] = json!(["member", "reader"]);
    connector["scope"] = json!("ask");
    let initech = json!({"id": "initech-inc", "displayName": "Initech", "externalIds": {"cloud": keystone.domain("initech")}});
    let configuration = keystone.configuration(connector).with("/tenants/-", initech);
    configuration.with("/guessing", json!({"accountBurst": 100, "addressBurst": 100})).with_client("web", "connectors", json!(["cloud"]))
}

/// The form of a new sign-in.
async fn form(browser: &mut Browser, tenant: Option<&str>) -> Answer {
    let request = tenant.into_iter().fold(Authorization::web(), |request, tenant| request.with("tenant", tenant));
    browser.open(&request.path()).await.expect(200)
}

/// Fills in the form of a new sign-in.
async fn tried(mut browser: Browser, tenant: Option<&str>, fields: &[(&str, &str)]) -> Answer {
    let page = form(&mut browser, tenant).await;
    browser.submit(&page, fields).await
}

/// Signs in with an application credential, by the link on the page.
async fn tried_credential(mut browser: Browser, tenant: Option<&str>, (id, secret): (&str, &str)) -> Answer {
    let page = form(&mut browser, tenant).await;
    let link = links(&page.text).into_iter().find(|link| link.contains("/login/cloud/credential")).unwrap();
    let page = browser.open(&link).await.expect(200);
    browser.submit(&page, &[("credential_id", id), ("credential_secret", secret)]).await
}

async fn tokens(service: &Service, answer: &Answer) -> Tokens {
    service.exchange(&Authorization::web(), &code(answer)).await
}

/// What the page says of a failed try, which is that and nothing else.
fn alert(answer: &Answer) -> (u16, String) {
    let alert = answer.text.split_once("role=\"alert\">").and_then(|(_, rest)| rest.split_once("</div>"));
    (answer.status, alert.unwrap_or_else(|| panic!("no alert ({}): {}", answer.status, answer.text)).0.to_owned())
}

/// Someone's tenant, subject and roles, as an access token has them.
fn who(tokens: &Tokens) -> (String, String, Value) {
    let claims = jwt::claims(tokens.access());
    assert_eq!(claims["connector"], "cloud");
    (claims["tenant_id"].as_str().unwrap().to_owned(), claims["sub"].as_str().unwrap().to_owned(), claims["roles"].clone())
}

#[tokio::test]
async fn t31_the_domain_is_typed_known_or_part_of_the_name_and_one_name_in_two_domains_is_two_people() {
    let Some(keystone) = Keystone::start().await else { return };
    let broker = Broker::start(configuration(&keystone, &keystone.url())).await;
    let asked = form(&mut broker.browser(), None).await;
    assert!(asked.text.contains(r#"autocomplete="organization""#), "{}", asked.text);
    let known = form(&mut broker.browser(), Some("acme")).await;
    assert_eq!(Form::of(&known.text).unwrap().value("domain"), None, "it is known: {}", known.text);

    let mut people = Vec::new();
    for (tenant, domain) in [("acme", "acme"), ("globex", "globex"), ("initech-inc", "initech")] {
        let password = password_of(domain, "jane");
        let [at_tenant, at_domain] = [tenant, domain].map(|place| format!("jane@{place}"));
        let field = |place: &str| vec![("domain", place.to_owned()), ("username", "jane".to_owned())];
        let mut found = Vec::new();
        for (requested, fields) in [
            (None, field(tenant)),
            (None, field(&tenant.to_uppercase())),
            (None, field(domain)),
            (None, field(keystone.domain(domain))),
            (None, vec![("username", at_tenant.clone())]),
            (None, vec![("username", at_domain)]),
            (None, vec![("username", at_tenant), ("domain", tenant.to_owned())]),
            (Some(tenant), vec![("username", "jane".to_owned())]),
        ] {
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).chain([("password", &*password)]).collect();
            let answer = tried(broker.browser(), requested, &fields).await;
            found.push(who(&tokens(&broker.service(), &answer).await));
        }
        assert!(found.iter().all(|one| *one == found[0]) && found[0].0 == tenant, "{found:?}");
        people.push(found[0].1.clone());
    }
    assert!(people[0] != people[1] && people[1] != people[2] && people[0] != people[2], "{people:?}");

    // The project's roles, where one is named; whoever is a member is a reader, too.
    let jane = [("domain", "acme"), ("username", "jane"), ("password", &*password_of("acme", "jane"))];
    let answer = tried(broker.browser(), None, &[jane.as_slice(), &[("project", "web")]].concat()).await;
    assert_eq!(who(&tokens(&broker.service(), &answer).await).2, json!(["member", "reader"]));
    assert_eq!(alert(&tried(broker.browser(), None, &[jane.as_slice(), &[("project", "no-such")]].concat()).await).0, 422);
    // A domain that is no tenant: the password is right, and there is no identity.
    let olga = [("domain", "Default"), ("username", "olga"), ("password", &*password_of("Default", "olga"))];
    let refused = tried(broker.browser(), None, &olga).await.expect(403);
    assert!(refused.text.contains("You can not sign in here"), "{}", refused.text);
}

#[tokio::test]
async fn whatever_is_wrong_gets_one_answer_and_t23_what_is_no_password_never_reaches_keystone() {
    let Some(keystone) = Keystone::start().await else { return };
    let relay = Relay::before(keystone.url().trim_end_matches("/v3"));
    let broker = Broker::start(configuration(&keystone, &format!("{}/v3", relay.address()))).await;
    let (right, dora) = (password_of("acme", "jane"), password_of("acme", "dora"));
    let tried = async |tenant, domain, name, password: &str| {
        tried(broker.browser(), tenant, &[("domain", domain), ("username", name), ("password", password)]).await
    };
    let wrong = alert(&tried(None, "acme", "jane", "wrong").await);
    assert_eq!(wrong.0, 422);
    assert!(wrong.1.contains("The domain, the user name or the password is wrong."), "{}", wrong.1);
    for (domain, name, password) in [
        ("acme", "nobody", &*right),
        ("acme", "dora", &*dora),
        ("globex", "jane", &*right),
        ("Globex", "jane", &*right),
        ("nowhere", "jane", &*right),
        ("initech", "jane", &*right),
        ("", "jane@nowhere", &*right),
        ("acme\u{7}", "jane", &*right),
    ] {
        assert_eq!(alert(&tried(None, domain, name, password).await), wrong, "{name} of {domain}");
    }
    // The same where the tenant is known, be it there or not. Whoever is of another one is no one.
    let wrong = alert(&tried(Some("acme"), "", "jane", "wrong").await);
    for tenant in ["globex", "nowhere", "system", "no/tenant", keystone.domain("acme")] {
        assert_eq!(alert(&tried(Some(tenant), "acme", "jane", &right).await), wrong, "{tenant}");
    }
    relay.forget();
    for password in ["", " ", "\t \n", "\0", "\0\0\0\0"] {
        assert_eq!(tried(None, "acme", "jane", password).await.status, 422, "{password:?}");
    }
    // A domain is missing, and that is said without asking.
    let incomplete = alert(&tried(None, " ", "jane", &right).await);
    assert!(incomplete.1.contains("Enter your domain"), "{}", incomplete.1);
    assert_eq!(relay.count("POST", "/v3/auth/tokens"), 0, "{:?}", relay.counts());
    assert!(!code(&tried(None, "acme", "jane", &right).await).is_empty());
    assert!(relay.count("POST", "/v3/auth/tokens") > 0);
    assert!(!broker.log().contains(&right), "no password in the log");
}

/// A session of acme's jane on a broker whose time a test sets.
async fn entered(broker: &ClockedBroker, project: &str) -> Tokens {
    let password = password_of("acme", "jane");
    let fields = [("domain", "acme"), ("username", "jane"), ("password", &*password), ("project", project)];
    let entered = tokens(&broker.service(), &tried(broker.browser(), None, &fields).await).await;
    // Nothing has changed yet.
    broker.pass(60);
    let refreshed = broker.service().refresh("web", entered.refresh()).await;
    assert_eq!(who(&refreshed), who(&entered));
    broker.pass(60);
    refreshed
}

async fn refused(broker: &ClockedBroker, tokens: &Tokens) {
    let answer = broker.service().try_refresh("web", tokens.refresh()).await.expect(400);
    assert_eq!(answer.error(), "invalid_grant");
    broker.service().userinfo(tokens.access()).await.expect(401);
}

#[tokio::test]
async fn t30_who_is_disabled_or_loses_the_project_gets_no_more_tokens() {
    let Some(keystone) = Keystone::start().await else { return };
    let broker = ClockedBroker::start(configuration(&keystone, &keystone.url())).await;
    let (jane, web) = (keystone.user("acme", "jane").to_owned(), keystone.project("acme", "web").to_owned());

    let (with_project, without) = (entered(&broker, "web").await, entered(&broker, "").await);
    assert_eq!((who(&with_project).2, who(&with_project).1), (json!(["member", "reader"]), who(&without).1));
    keystone.remove_role("member", &jane, Scope::Project(&web)).await;
    keystone.remove_from_group(keystone.group("acme", "staff"), &jane).await;
    refused(&broker, &with_project).await;
    let without = broker.service().refresh("web", without.refresh()).await;
    keystone.grant("member", &jane, Scope::Project(&web)).await;

    broker.pass(60);
    keystone.disable_user(&jane).await;
    refused(&broker, &without).await;
    keystone.enable_user(&jane).await;
    // What has ended stays so, and she may come again.
    assert_eq!(broker.service().try_refresh("web", without.refresh()).await.expect(400).error(), "invalid_grant");

    let again = entered(&broker, "").await;
    keystone.disable_domain(keystone.domain("acme")).await;
    refused(&broker, &again).await;
    keystone.enable_domain(keystone.domain("acme")).await;
    let again = entered(&broker, "web").await;
    keystone.delete_user(&jane).await;
    refused(&broker, &again).await;
}

#[tokio::test]
async fn t11_a_tenant_that_is_disabled_here_gets_nothing_whatever_keystone_says() {
    let Some(keystone) = Keystone::start().await else { return };
    let mut broker = Broker::start(configuration(&keystone, &keystone.url())).await;
    let fields = |domain| [("domain", domain), ("username", "jane")];
    let (acme, globex) = (password_of("acme", "jane"), password_of("globex", "jane"));
    let sign_in = async |broker: &Broker, domain, password: &str| {
        tried(broker.browser(), None, &[fields(domain).as_slice(), &[("password", password)]].concat()).await
    };
    let of_acme = tokens(&broker.service(), &sign_in(&broker, "acme", &acme).await).await;
    let of_globex = tokens(&broker.service(), &sign_in(&broker, "globex", &globex).await).await;
    broker.reconfigure(|configuration| configuration.set("/tenants/0/disabled", true)).await;
    let answer = broker.service().try_refresh("web", of_acme.refresh()).await.expect(400);
    assert_eq!(answer.error(), "invalid_grant");
    broker.service().userinfo(of_acme.access()).await.expect(401);
    for domain in ["acme", keystone.domain("acme")] {
        sign_in(&broker, domain, &acme).await.expect(403);
    }
    broker.service().refresh("web", of_globex.refresh()).await;
    assert!(!code(&sign_in(&broker, "globex", &globex).await).is_empty());
}

#[tokio::test]
async fn an_application_credential_signs_its_maker_in_until_it_is_deleted() {
    let Some(keystone) = Keystone::start().await else { return };
    let broker = ClockedBroker::start(configuration(&keystone, &keystone.url())).await;
    let credential = keystone.fixtures().application_credential.clone();
    let right = (&*credential.id, &*credential.secret);
    let with_password = who(&entered(&broker, "").await).1;
    for tenant in [None, Some("acme")] {
        let answer = tried_credential(broker.browser(), tenant, right).await;
        let (tenant, subject, roles) = who(&tokens(&broker.service(), &answer).await);
        assert_eq!((&*tenant, &subject, roles), ("acme", &with_password, json!(["member", "reader"])), "she is herself, with its roles");
    }
    let wrong = alert(&tried_credential(broker.browser(), None, (right.0, "wrong")).await);
    assert!(wrong.0 == 422 && wrong.1.contains("The ID or the secret is wrong"), "{wrong:?}");
    for (tenant, credential) in [
        (None, ("0123456789abcdef0123456789abcdef", right.1)),
        (None, ("web", right.1)),
        (Some("globex"), right),
        (Some("nowhere"), right),
        (Some("system"), right),
    ] {
        assert_eq!(alert(&tried_credential(broker.browser(), tenant, credential).await), wrong, "{tenant:?}");
    }
    let missing = alert(&tried_credential(broker.browser(), None, (right.0, "")).await);
    assert!(missing.1.contains("Enter the ID and the secret"), "{missing:?}");

    // t46: the form is this browser's own.
    let mut browser = broker.browser();
    let page = form(&mut browser, None).await;
    let link = links(&page.text).into_iter().find(|link| link.contains("credential")).unwrap();
    let page = browser.open(&link).await.expect(200);
    let mut fields = Form::of(&page.text).unwrap();
    fields.fill("credential_id", right.0);
    fields.fill("credential_secret", right.1);
    broker.browser().post("/login/cloud/credential", &fields.fields).await.expect(400);
    let mut forged = fields.clone();
    forged.fill("csrf", "x");
    browser.post("/login/cloud/credential", &forged.fields).await.expect(400);
    browser.post("/login/cloud/credential", &fields.fields).await.expect(303);

    let tokens = tokens(&broker.service(), &tried_credential(broker.browser(), None, right).await).await;
    broker.pass(60);
    let tokens = broker.service().refresh("web", tokens.refresh()).await;
    keystone.delete_application_credential(keystone.user("acme", "jane"), right.0).await;
    broker.pass(60);
    refused(&broker, &tokens).await;
    assert_eq!(alert(&tried_credential(broker.browser(), None, right).await), wrong);
}

#[tokio::test]
async fn a_keystone_that_can_not_be_asked_is_no_wrong_password_and_ends_nothing() {
    let Some(mut keystone) = Keystone::start().await else { return };
    let broker = ClockedBroker::start(configuration(&keystone, &keystone.url())).await;
    let jane = entered(&broker, "web").await;
    keystone.stop();
    let fields = [("domain", "acme"), ("username", "jane"), ("password", &*password_of("acme", "jane"))];
    let told = alert(&tried(broker.browser(), None, &fields).await);
    assert!(told.0 == 503 && told.1.contains("Your password could not be checked"), "{told:?}");
    let credential = keystone.fixtures().application_credential.clone();
    let told = alert(&tried_credential(broker.browser(), None, (&credential.id, &credential.secret)).await);
    assert!(told.0 == 503 && told.1.contains("The application credential could not be checked"), "{told:?}");
    let answer = broker.service().try_refresh("web", jane.refresh()).await.expect(503);
    assert_ne!(answer.error(), "invalid_grant");
    broker.service().userinfo(jane.access()).await.expect(200);
    keystone.restart().await;
    let refreshed = broker.service().refresh("web", jane.refresh()).await;
    assert_eq!(who(&refreshed), who(&jane));
}

#[tokio::test]
async fn a_person_of_a_cloud_signs_in_by_keyboard() {
    let Some(keystone) = Keystone::start().await else { return };
    let broker = Broker::start(configuration(&keystone, &keystone.url())).await;
    let mut application = Application::start().await;
    let request = application.request("web");
    let chrome = Chrome::start(Scripts::On).await;
    chrome.open(&format!("{}{}", broker.issuer(), request.path())).await;
    chrome.wait_for_text("Domain").await;
    picture(&chrome, "domain").await;
    assert_eq!(chrome.focus().await, "domain", "one can type at once");
    for (id, text) in [("domain", "initech"), ("username", "jane"), ("password", "wrong")] {
        assert_eq!(chrome.focus().await, id);
        chrome.type_keys(text).await;
        if id != "password" {
            chrome.press(Key::Tab).await;
        }
    }
    chrome.press(Key::Enter).await;
    chrome.wait_for_text("The domain, the user name or the password is wrong").await;
    picture(&chrome, "domain-wrong").await;
    assert_eq!(chrome.focus().await, "password");
    for (id, value) in [("domain", "initech"), ("username", "jane"), ("password", "")] {
        let field = chrome.client.find(Locator::Id(id)).await.unwrap();
        assert_eq!(field.prop("value").await.unwrap().as_deref(), Some(value), "{id}");
    }
    // To the other form and back.
    chrome.client.find(Locator::LinkText("Use an application credential")).await.unwrap().click().await.unwrap();
    chrome.wait_for_text("The ID, not the name that you gave it.").await;
    picture(&chrome, "credential").await;
    assert_eq!(chrome.focus().await, "credential-id");
    chrome.type_keys("no-such").await;
    chrome.press(Key::Tab).await;
    chrome.type_keys("wrong").await;
    chrome.press(Key::Enter).await;
    chrome.wait_for_text("The ID or the secret is wrong").await;
    picture(&chrome, "credential-wrong").await;
    assert_eq!(chrome.focus().await, "credential-secret");
    chrome.client.find(Locator::LinkText("Use your user name and password")).await.unwrap().click().await.unwrap();
    chrome.wait_for_text("Domain").await;
    chrome.type_keys("initech").await;
    for text in ["jane", &*password_of("initech", "jane")] {
        chrome.press(Key::Tab).await;
        chrome.type_keys(text).await;
    }
    chrome.press(Key::Enter).await;
    let tokens = broker.service().exchange(&request, &application.code().await).await;
    assert_eq!(who(&tokens).0, "initech-inc");
    chrome.close().await;
}

/// The page fits a wide and a narrow screen. Where `DENIZEN_PICTURES` names a folder, pictures are put there, in both colour schemes.
async fn picture(chrome: &Chrome, name: &str) {
    for width in [1280, 390] {
        chrome.client.set_window_size(width, 1_024).await.unwrap();
        let script = "return [document.documentElement.scrollWidth <= window.innerWidth, \
                      [...document.querySelectorAll('input:not([type=hidden])')].every(i => i.labels.length > 0)]";
        assert_eq!(chrome.client.execute(script, Vec::new()).await.unwrap(), json!([true, true]), "{name} at {width}");
        let Some(folder) = std::env::var_os("DENIZEN_PICTURES").map(std::path::PathBuf::from) else { continue };
        for scheme in ["light", "dark"] {
            chrome.prefer(scheme).await;
            std::fs::write(folder.join(format!("{name}-{width}-{scheme}.png")), chrome.client.screenshot().await.unwrap()).unwrap();
        }
        chrome.prefer("light").await;
    }
}
