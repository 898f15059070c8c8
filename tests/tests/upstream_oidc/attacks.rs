//! What an attacker tries with a provider in between. Each test shows that the honest way works, too.

use denizen_tests::{
    Answer, Browser,
    browser::{code, returned},
    jwt,
    oidc_provider::account,
};
use serde_json::{Value, json};
use url::Url;

use super::{House, is_signed_out, refused};

/// Signs in as far as the provider's answer, which is not delivered: the address of the broker to which the browser was sent.
async fn answer_of(house: &House, browser: &mut Browser, connector: &str, login: &str) -> Url {
    let page = browser.open(&house.request(connector).path()).await;
    let provider = house.providers.at(&page);
    browser.submit_until(&page, &provider.fields(login), house.broker.issuer()).await
}

fn with(address: &Url, name: &str, value: Option<&str>) -> Url {
    let mut changed = address.clone();
    let kept: Vec<_> = address.query_pairs().into_owned().filter(|(n, _)| n != name).collect();
    changed.query_pairs_mut().clear().extend_pairs(kept).extend_pairs(value.map(|value| (name, value)));
    changed
}

fn parameter(address: &Url, name: &str) -> String {
    address.query_pairs().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no {name} in {address}")).1.into_owned()
}

/// Delivers an answer, and shows that it signs no one in.
async fn is_refused(browser: &mut Browser, address: &Url) -> Answer {
    let answer = browser.open(address.as_str()).await;
    refused(&answer);
    is_signed_out(browser).await;
    answer
}

#[tokio::test]
async fn t05_t18_an_id_token_that_was_edited_is_refused() {
    let Some(house) = House::start().await else { return };
    let provider = &house.providers.shared;
    let lies = [
        json!({"idToken": {"tenant_id": "globex"}}),
        json!({"idToken": {"sub": "2"}}),
        json!({"idTokenHeader": {"alg": "none"}, "noSignature": true}),
        json!({"idTokenHeader": {"alg": "HS256"}}),
        json!({"idTokenHeader": {"jku": "https://evil.example/keys"}, "idToken": {"tenant_id": "globex"}}),
        json!({"idTokenHeader": {"kid": "../../../../dev/null"}}),
        json!({"idTokenHeader": {"crit": ["exp"]}}),
    ];
    let mut lena = account("shared", "lena", "lena", &json!({"tenant_id": "acme"}));
    provider.set(&lena).await;
    assert_eq!(jwt::claims(house.sign_in("shared-sso", "lena").await.access())["tenant_id"], "acme");
    for lie in lies {
        lena["lies"] = lie.clone();
        provider.set(&lena).await;
        let answer = house.try_sign_in("shared-sso", "lena").await;
        assert!(answer.location().is_none() && answer.status >= 400, "{lie}: {} {}", answer.status, answer.text);
    }
}

#[tokio::test]
async fn t06_the_address_of_a_victim_in_another_tenant_gives_nothing() {
    let Some(house) = House::start().await else { return };
    let mallory = json!({"email": "jane@acme.example", "email_verified": true, "preferred_username": "jane"});
    house.providers.globex.set(&account("globex", "mallory", "mallory", &mallory)).await;
    house
        .providers
        .shared
        .set(&account("shared", "mallory", "mallory", &json!({"tenant_id": "globex", "email": "jane@acme.example"})))
        .await;
    let victim = jwt::claims(house.sign_in("acme-sso", "jane").await.access());
    for connector in ["globex-sso", "shared-sso"] {
        let claims = jwt::claims(house.sign_in(connector, "mallory").await.access());
        assert_eq!(claims["tenant_id"], "globex");
        assert_ne!(claims["sub"], victim["sub"]);
    }
}

#[tokio::test]
async fn t10_no_tenant_two_tenants_and_other_writings_are_no_identity() {
    let Some(house) = House::start().await else { return };
    let tenants = [
        Value::Null,
        json!(""),
        json!(["acme", "globex"]),
        json!(["acme", "acme"]),
        json!([]),
        json!("ACME"),
        json!(" acme"),
        json!("acme\u{0}"),
        json!("initech"),
        json!("system"),
        json!({"id": "acme"}),
        json!(true),
    ];
    for tenant in tenants {
        house.providers.shared.set(&account("shared", "nell", "nell", &json!({"tenant_id": tenant}))).await;
        let mut browser = house.browser();
        let answer = house.try_sign_in_with(&mut browser, &house.request("shared-sso"), "nell").await;
        assert!(answer.location().is_none(), "{tenant} signs in");
        refused(&answer);
        is_signed_out(&mut browser).await;
    }
    house.providers.shared.set(&account("shared", "nell", "nell", &json!({"tenant_id": "acme"}))).await;
    house.sign_in("shared-sso", "nell").await;
}

#[tokio::test]
async fn t12_nobody_but_the_id_token_says_of_which_tenant_someone_is() {
    let Some(house) = House::start_with(|connectors| connectors[2]["userInfo"] = "always".into()).await else { return };
    // A tenant's own provider says that its people are another's.
    house.providers.acme.set(&account("acme", "ivan", "ivan", &json!({"tenant_id": "globex"}))).await;
    assert_eq!(jwt::claims(house.sign_in("acme-sso", "ivan").await.access())["tenant_id"], "acme");
    // Userinfo says something else than the ID token.
    let mut ivan = account("shared", "ivan", "ivan", &json!({"tenant_id": "acme"}));
    ivan["lies"] = json!({"userinfo": {"tenant_id": "globex", "groups": ["admins"]}});
    house.providers.shared.set(&ivan).await;
    let answer = house.try_sign_in("shared-sso", "ivan").await;
    let tokens = house.service().exchange(&house.request("shared-sso"), &code(&answer)).await;
    assert_eq!(jwt::claims(tokens.access())["tenant_id"], "acme");
    // The request names another tenant, by parameter or by scope.
    let mut browser = house.browser();
    let crooked = house.request("shared-sso").with("tenant", "globex");
    let answer = house.try_sign_in_with(&mut browser, &crooked, "sue-acme").await;
    refused(&answer);
    is_signed_out(&mut browser).await;
    let crooked = house.request("shared-sso").with("scope", "openid tenant:globex");
    let answer = house.browser().open(&crooked.path()).await;
    assert_eq!(returned(&answer, "error"), "invalid_scope");
}

#[tokio::test]
async fn t15_userinfo_about_someone_else_is_refused() {
    let Some(house) = House::start_with(|connectors| connectors[0]["userInfo"] = "always".into()).await else { return };
    let mut olaf = account("acme", "olaf", "olaf", &json!({}));
    house.providers.acme.set(&olaf).await;
    house.sign_in("acme-sso", "olaf").await;
    olaf["lies"] = json!({"userinfo": {"sub": "1"}});
    house.providers.acme.set(&olaf).await;
    let answer = house.try_sign_in("acme-sso", "olaf").await;
    assert!(answer.location().is_none() && answer.status >= 400, "{}: {}", answer.status, answer.text);
}

#[tokio::test]
async fn t17_the_answer_of_one_provider_is_worth_nothing_at_anothers_door() {
    let Some(house) = House::start().await else { return };
    let (acme, globex) = (house.providers.acme.issuer(), house.providers.globex.issuer());
    // Both sign-ins are under way in one browser. The mixed answer goes to acme's door.
    let mixes: [fn(&Url, &Url) -> Url; 4] = [
        // The code of the other, with all else right.
        |ours, theirs| with(ours, "code", Some(&parameter(theirs, "code"))),
        // The state of the other, too.
        |ours, theirs| with(&with(ours, "code", Some(&parameter(theirs, "code"))), "state", Some(&parameter(theirs, "state"))),
        // The other's whole answer.
        |ours, theirs| {
            let mut mixed = theirs.clone();
            mixed.set_path(ours.path());
            mixed
        },
        // Our state with the other's code, and who answers as it is.
        |ours, theirs| with(&with(theirs, "state", Some(&parameter(ours, "state"))), "x", Some(ours.path())),
    ];
    for mix in mixes {
        let mut browser = house.browser();
        let ours = answer_of(&house, &mut browser, "acme-sso", "jane").await;
        let theirs = answer_of(&house, &mut browser, "globex-sso", "jane").await;
        assert_eq!((parameter(&ours, "iss"), parameter(&theirs, "iss")), (acme.to_owned(), globex.to_owned()));
        is_refused(&mut browser, &mix(&ours, &theirs)).await;
    }
    for iss in [Some(globex), Some("https://evil.example"), Some(""), None] {
        let mut browser = house.browser();
        let ours = answer_of(&house, &mut browser, "acme-sso", "jane").await;
        is_refused(&mut browser, &with(&ours, "iss", iss)).await;
    }
    // As it came, it is good.
    let mut browser = house.browser();
    let ours = answer_of(&house, &mut browser, "acme-sso", "jane").await;
    assert!(!code(&browser.open(ours.as_str()).await).is_empty());
}

#[tokio::test]
async fn t20_t34_an_answer_is_good_once_and_in_its_own_browser() {
    let Some(house) = House::start().await else { return };
    let mut browser = house.browser();
    let answer = answer_of(&house, &mut browser, "acme-sso", "jane").await;
    // In another browser, with nothing, or with a sign-in of its own under way.
    let mut other = house.browser();
    is_refused(&mut other, &answer).await;
    let own = answer_of(&house, &mut other, "acme-sso", "jane").await;
    is_refused(&mut other, &answer).await;
    is_refused(&mut other, &with(&own, "state", Some(&parameter(&answer, "state")))).await;
    // A state that is guessed, or none.
    for state in [Some("guess"), Some(""), None] {
        is_refused(&mut house.browser(), &with(&answer, "state", state)).await;
    }
    // None of that took anything from the browser whose answer it is.
    assert!(!code(&browser.open(answer.as_str()).await).is_empty());
}

#[tokio::test]
async fn t20_an_answer_that_was_used_says_so_and_takes_nothing_away() {
    let Some(house) = House::start().await else { return };
    let mut browser = house.browser();
    let answer = answer_of(&house, &mut browser, "acme-sso", "jane").await;
    assert!(!code(&browser.open(answer.as_str()).await).is_empty());
    let again = browser.open(answer.as_str()).await;
    refused(&again);
    assert!(again.text.contains("<h1") || again.text.contains("role=\"alert\""), "a page that helps: {}", again.text);
    browser.get("/account").await.expect(200);
}

#[tokio::test]
async fn t46_the_session_id_changes_at_the_sign_in() {
    let Some(house) = House::start().await else { return };
    let mut browser = house.browser();
    let answer = answer_of(&house, &mut browser, "acme-sso", "jane").await;
    let before = browser.clone();
    assert!(!code(&browser.open(answer.as_str()).await).is_empty());
    assert_ne!(before.cookies, browser.cookies);
    browser.get("/account").await.expect(200);
    is_signed_out(&mut before.clone()).await;
}

#[tokio::test]
async fn t54_a_provider_gives_only_the_roles_that_its_connector_may() {
    let Some(house) = House::start_with(|connectors| connectors[0]["roles"] = json!(["editor"])).await else { return };
    let roles = json!({"roles": ["opencloudAdmin", "editor", "admin"], "groups": ["system:masters", "staff"]});
    for provider in [&house.providers.acme, &house.providers.globex] {
        provider.set(&account(if std::ptr::eq(provider, &house.providers.acme) { "acme" } else { "globex" }, "rob", "rob", &roles)).await;
    }
    for (connector, allowed) in [("acme-sso", json!(["editor"])), ("globex-sso", json!([]))] {
        let answer = house.try_sign_in(connector, "rob").await;
        if answer.location().is_some() {
            let claims = jwt::claims(house.service().exchange(&house.request(connector), &code(&answer)).await.access());
            assert_eq!(claims.get("roles").cloned().unwrap_or_else(|| json!([])), allowed, "{connector}");
        } else {
            panic!("{connector}: {} {}", answer.status, answer.text);
        }
    }
}
