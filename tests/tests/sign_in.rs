//! Finding the way to sign in, and what is told of ways, tenants and refusals to whom.
#![expect(clippy::unwrap_used, reason = "tests")]

use denizen_tests::{
    Answer, Authorization, Broker, Browser, Configuration,
    broker::command,
    configuration::{hash_of, password_of},
    form::{Form, links},
};
use serde_json::{Value, json};

fn users(id: &str, tenant: &str, names: &[&str]) -> Value {
    let users: Vec<_> =
        names.iter().map(|name| json!({"id": format!("{id}-{name}"), "username": name, "password": hash_of(tenant, name)})).collect();
    json!({
        "id": id, "displayName": format!("The way {id}"), "type": "file", "operatedBy": "operator", "tenant": {"fixed": tenant}, "users": users,
    })
}

/// `people` serves acme and globex; initech and umbrella have ways of their own, hooli and the disabled `gone` have none that is
/// not everyone's.
fn several() -> Configuration {
    let mut configuration = Configuration::default();
    configuration.set("/tenants/0/emailDomains", json!(["acme.example"]));
    configuration.set("/tenants/-", json!({"id": "initech", "emailDomains": ["initech.example"], "hosts": ["initech.localhost"]}));
    configuration.set("/tenants/-", json!({"id": "umbrella", "emailDomains": ["umbrella.example"]}));
    configuration.set("/tenants/-", json!({"id": "hooli", "emailDomains": ["hooli.example"]}));
    configuration.set("/tenants/-", json!({"id": "gone", "emailDomains": ["gone.example"], "disabled": true}));
    configuration.set("/connectors/-", users("initech-people", "initech", &["ian"]));
    configuration.set("/connectors/-", users("umbrella-people", "umbrella", &["uma"]));
    configuration
}

/// A request of a client without limits.
fn console() -> Authorization {
    Authorization::new("console", "https://console.example/cb").with("scope", "openid")
}

/// The connector whose form a page is; empty where it is none.
fn form_of(page: &Answer) -> String {
    Form::of(&page.text).map(|form| form.action.trim_start_matches("/login").trim_start_matches('/').to_owned()).unwrap_or_default()
}

/// A page without what differs from attempt to attempt.
fn without_attempt(page: &Answer) -> (u16, String, String) {
    let mut text = page.text.clone();
    if let Some(form) = Form::of(&text) {
        for name in ["attempt", "csrf"] {
            let value = form.value(name).unwrap().to_owned();
            assert_eq!(value.len(), 43, "{name}");
            text = text.replace(&value, name);
        }
    }
    for link in links(&page.text) {
        if let Some((_, id)) = link.split_once("attempt=") {
            text = text.replace(id.split('&').next().unwrap(), "attempt");
        }
    }
    (page.status, page.header("content-security-policy").to_owned(), text)
}

async fn typed(browser: &mut Browser, text: &str) -> Answer {
    let page = browser.open(&console().path()).await;
    browser.submit(&page, &[("identifier", text)]).await
}

#[tokio::test]
async fn what_is_known_leads_to_the_way() {
    let broker = Broker::start(several()).await;
    let page = broker.browser().open(&console().path()).await.expect(200);
    assert!(page.text.contains("Name and password") && Form::of(&page.text).unwrap().value("identifier").is_some(), "{}", page.text);
    assert_eq!(form_of(&broker.browser().open(&console().with("tenant", "initech").path()).await), "initech-people");
    assert_eq!(form_of(&broker.browser().open(&console().with("login_hint", "ian@initech.example").path()).await), "initech-people");
    for text in ["ian@initech.example", "ian@initech", "initech", "INITECH.example"] {
        let page = typed(&mut broker.browser(), text).await.expect(200);
        assert_eq!(form_of(&page), "initech-people", "{text}");
        let name = if text.contains('@') { text } else { "" };
        assert_eq!(Form::of(&page.text).unwrap().value("username"), Some(name), "{text}");
    }
    let limited = Authorization::new("acme-only", "https://acme-only.example/cb");
    assert_eq!(form_of(&broker.browser().open(&limited.path()).await), "people", "a client's limits leave one way");
    let page = broker.browser().open("/login?tenant=umbrella").await;
    assert_eq!(form_of(&page), "umbrella-people", "the account page's sign-in takes a tenant too");
}

#[tokio::test]
async fn a_chosen_way_is_remembered_until_they_want_to_choose() {
    let broker = Broker::start(several()).await;
    let mut browser = broker.browser();
    let page = typed(&mut browser, "initech").await;
    let answer = browser.submit(&page, &[("username", "ian"), ("password", &password_of("initech", "ian"))]).await;
    assert!(answer.location().is_some_and(|l| l.query().unwrap().contains("code=")), "{}", answer.text);
    let cookie = answer.headers.get_all("set-cookie").iter().find(|c| c.to_str().unwrap().starts_with("denizen-way=")).unwrap();
    let cookie = cookie.to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && cookie.contains("Max-Age=31536000"), "{cookie}");
    browser.sign_out().await.expect(200);
    assert_eq!(form_of(&browser.open(&console().path()).await), "initech-people");
    for asks in [console().with("prompt", "select_account"), console().with("tenant", "acme")] {
        assert_ne!(form_of(&browser.open(&asks.path()).await), "initech-people");
    }
    let page = browser.open(&console().path()).await;
    let others = links(&page.text).into_iter().find(|link| link.contains("others")).unwrap();
    assert!(Form::of(&browser.open(&others).await.text).unwrap().value("identifier").is_some());
    // What someone wrote themselves is not believed.
    let forged = browser.cookies["denizen-way"].replace("initech-people", "umbrella-people");
    browser.cookies.insert("denizen-way".to_owned(), forged);
    assert!(Form::of(&browser.open(&console().path()).await.text).unwrap().value("identifier").is_some());
}

#[tokio::test]
async fn nothing_shows_which_tenants_there_are() {
    let broker = Broker::start(several()).await;
    let secret = ["initech", "umbrella", "hooli", "operators"];
    let page = broker.browser().open(&console().path()).await;
    let account = broker.browser().open("/login").await;
    for text in [&page.text, &account.text] {
        assert!(secret.iter().all(|name| !text.to_lowercase().contains(name)), "{text}");
    }
    let asked = async |tenant: &str| without_attempt(&broker.browser().open(&console().with("tenant", tenant).path()).await);
    let known = asked("hooli").await;
    assert_eq!(known.0, 200);
    for tenant in ["nobody", "gone", "HOOLI", "hooli.example", "*"] {
        assert_eq!(asked(tenant).await, known, "{tenant}");
    }
    let answered = async |text: &str| {
        let page = without_attempt(&typed(&mut broker.browser(), text).await);
        (page.0, page.1, page.2.replace(text, "typed"))
    };
    let known = answered("jane@hooli.example").await;
    for text in ["jane@nobody.example", "jane@gone.example", "jane@nobody", "jane@hooli"] {
        assert_eq!(answered(text).await, known, "{text}");
    }
    assert_eq!(answered("hooli").await, answered("nobody").await);
}

#[tokio::test]
async fn where_only_tenants_ways_are_the_unknown_leads_nowhere_and_says_so() {
    let mut configuration = several();
    configuration.set("/connectors/0/listed", false);
    let broker = Broker::start(configuration).await;
    let unknown = async |text: &str| {
        let page = typed(&mut broker.browser(), text).await.expect(422);
        assert!(page.text.contains("We do not know how you sign in with that"), "{}", page.text);
        let page = without_attempt(&page);
        (page.0, page.1, page.2.replace(text, "typed"))
    };
    let known = unknown("jane@hooli.example").await;
    for text in ["jane@nobody.example", "jane@gone.example", "nobody", "hooli"] {
        assert_eq!(unknown(text).await, known, "{text}");
    }
    let asked = async |tenant: &str| without_attempt(&broker.browser().open(&console().with("tenant", tenant).path()).await.expect(404));
    assert_eq!(asked("nobody").await, asked("hooli").await);
    // A slip is no end: the same page takes another try.
    let mut browser = broker.browser();
    let page = typed(&mut browser, "nobody").await;
    assert_eq!(form_of(&browser.submit(&page, &[("identifier", "ian@initech.example")]).await), "initech-people");
}

#[tokio::test]
async fn t46_the_form_that_finds_a_way_needs_its_token_and_its_browser() {
    let broker = Broker::start(several()).await;
    let mut browser = broker.browser();
    let page = browser.open(&console().path()).await;
    let form = Form::of(&page.text).unwrap();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let whole =
        [field("attempt", form.value("attempt").unwrap()), field("csrf", form.value("csrf").unwrap()), field("identifier", "initech")];
    broker.browser().post("/login", &whole).await.expect(400);
    let forged = [whole[0].clone(), field("csrf", "x"), whole[2].clone()];
    browser.post("/login", &forged).await.expect(400);
    browser.post("/login", &whole).await.expect(303);
}

#[tokio::test]
async fn a_tenants_host_sends_browsers_to_the_issuer_and_nowhere_else() {
    let broker = Broker::start(several()).await;
    let (port, http) = (broker.issuer().rsplit_once(':').unwrap().1.to_owned(), broker.http());
    let at = async |method: reqwest::Method, host: &str, path: &str| {
        let request = http.request(method, format!("{}{path}", broker.issuer())).header("host", format!("{host}:{port}"));
        Answer::read(request.send().await.unwrap()).await.unwrap()
    };
    let get = reqwest::Method::GET;
    for (path, to) in [
        ("/login", "/login?tenant=initech"),
        ("/account", "/account?tenant=initech"),
        ("/oauth2/authorize?client_id=console&state=a%26b", "/oauth2/authorize?client_id=console&state=a%26b&tenant=initech"),
        ("/login/people?attempt=x", "/login/people?attempt=x"),
        ("//evil.example/login", ""),
    ] {
        let answer = at(get.clone(), "initech.localhost", path).await;
        let location = answer.header("location");
        if to.is_empty() {
            assert!(location.is_empty() || location.starts_with(broker.issuer()), "{path}: {location}");
        } else {
            assert_eq!((answer.status, location), (303, format!("{}{to}", broker.issuer()).as_str()), "{path}");
        }
    }
    let posted = at(reqwest::Method::POST, "initech.localhost", "/login").await;
    assert_eq!((posted.status, posted.header("location")), (303, format!("{}/login?tenant=initech", broker.issuer()).as_str()));
    for host in ["127.0.0.1", "evil.example", "xinitech.localhost"] {
        let answer = at(get.clone(), host, "/login").await;
        assert!(answer.header("location").starts_with("/login?attempt="), "{host}: {}", answer.header("location"));
    }
    // All the way: whoever begins there is asked for that tenant.
    let page = broker.browser().open("/account?tenant=initech").await;
    assert_eq!(form_of(&page), "initech-people");
}

#[tokio::test]
async fn whoever_is_signed_in_to_another_tenant_than_the_account_page_names_signs_in_anew() {
    let broker = Broker::start(several()).await;
    let mut browser = broker.browser();
    let page = browser.open("/login?tenant=initech").await;
    browser.submit(&page, &[("username", "ian"), ("password", &password_of("initech", "ian"))]).await.expect(200);
    assert!(browser.open("/account?tenant=initech").await.text.contains("You are signed in."));
    assert_eq!(form_of(&browser.open("/account?tenant=umbrella").await), "umbrella-people");
}

#[tokio::test]
async fn going_back_after_the_end_gives_a_page_that_helps() {
    let broker = Broker::start(Configuration::default()).await;
    let mut browser = broker.browser();
    let form = browser.open(&Authorization::web().with("tenant", "acme").path()).await;
    let fields = [("username", "jane"), ("password", &*password_of("acme", "jane"))];
    assert!(browser.submit(&form, &fields).await.location().is_some());
    for page in [browser.open(form.url.as_str()).await, browser.submit(&form, &fields).await] {
        assert!(page.status == 400 && page.text.contains("You are signed in already"), "{}", page.text);
        assert!(links(&page.text).contains(&"/account".to_owned()));
    }
    browser.sign_out().await;
    let page = browser.open(form.url.as_str()).await.expect(400);
    assert!(page.text.contains("This sign-in is over"), "{}", page.text);
    // No way back from pages that no one was sent to.
    for path in ["/login/people/callback?code=x&state=y", "/login/nowhere/callback", "/login/people/callback?state=a&state=b"] {
        assert!([400, 404].contains(&browser.open(path).await.status), "{path}");
    }
}

#[tokio::test]
async fn t54_a_refused_sign_in_says_whom_to_turn_to_and_the_operator_finds_why() {
    let mut configuration = Configuration::default();
    let secret_name = "jane:the:unusual";
    configuration.set("/branding", json!({"support": "the help desk, +49 30 1234"}));
    configuration.set(
        "/connectors/0/users/-",
        json!({"id": "x1", "tenant": "acme", "username": "xavier", "displayName": secret_name, "password": hash_of("acme", "xavier")}),
    );
    let rule = "user.username != 'xavier'";
    configuration.set("/connectors/0/userValidationRules", json!([{"expression": rule, "message": "xavier may not"}]));
    let mut broker = Broker::start(configuration).await;
    let refused = async |broker: &Broker| {
        let request = Authorization::web().with("tenant", "acme");
        let page = broker.browser().try_sign_in(&request, "xavier", &password_of("acme", "xavier")).await.expect(403);
        assert!(page.text.contains("the help desk, +49 30 1234"), "{}", page.text);
        page.text.split("<code>").nth(1).unwrap().split("</code>").next().unwrap().to_owned()
    };
    let look = async |broker: &Broker, reference: &str| {
        let url = format!("{}/refusals/{reference}", broker.admin());
        Answer::read(broker.http().get(url).send().await.unwrap()).await.unwrap()
    };
    let reference = refused(&broker).await;
    assert!(broker.log().lines().any(|line| line.contains("sign_in.refused") && line.contains(&reference)), "the audit log has it");
    let refusal = look(&broker, &reference).await.expect(200);
    let value = refusal.json();
    assert_eq!((&value["reference"], &value["connector"]), (&json!(reference), &json!("people")));
    assert!(value["reason"].as_str().unwrap().contains("xavier may not"), "{value}");
    let step = value["steps"].as_array().unwrap().iter().find(|step| step["place"] == "claimMappings.username").unwrap();
    assert_eq!(step["saw"], json!({"username": "text of 6 characters"}));
    let rest = refusal.text.replace(rule, "").replace("xavier may not", "");
    assert!(!rest.contains("xavier") && !rest.contains("unusual"), "no claim's value is kept: {rest}");
    let config = broker.folder().join("denizen.yaml");
    let explain = |reference: &str| command(&["claims", "explain", "--config", config.to_str().unwrap(), "--reference", reference]);
    let said = explain(&reference);
    assert!(said.out.contains("xavier may not") && said.out.contains("text of 6 characters"), "{said:?}");
    let said = explain("000000000000");
    assert!(said.code != Some(0) && said.err.contains("nothing is kept under"), "{said:?}");
    broker.service().get(&format!("/refusals/{reference}")).await.expect(404);
    look(&broker, "000000000000").await.expect(404);
    broker.reconfigure(|configuration| configuration.set("/refusals", json!({"keepClaims": true}))).await;
    look(&broker, &reference).await.expect(200);
    let reference = refused(&broker).await;
    assert!(look(&broker, &reference).await.text.contains(r#""username":"xavier""#));
}
