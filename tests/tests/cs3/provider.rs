//! People of a directory who also come by an OpenID provider joined with it: one id, whichever way they came first.

use denizen_tests::{
    Answer, Authorization, Browser, Configuration, OidcProvider, Tokens, Tools,
    browser::code,
    form::links,
    jwt,
    oidc_provider::{Settings, account},
    slapd::{
        Slapd,
        content::{ACME_JANE_PASSWORD, PASSWORD, uuid},
    },
};
use serde_json::{Value, json};

use super::{Door, id, of_slapd};

/// The first page of one of the two ways that are offered.
async fn way(browser: &mut Browser, request: &Authorization, connector: &str) -> Answer {
    let choice = browser.open(&request.path()).await;
    let way = links(&choice.text).into_iter().find(|link| link.contains(&format!("/login/{connector}"))).unwrap();
    browser.open(&way).await
}

/// Signs someone in at the provider.
async fn through(provider: &OidcProvider, door: &Door, login: &str) -> Tokens {
    let request = Authorization::new("at-sso", "http://127.0.0.1:4711/cb");
    let mut browser = door.broker.browser().visiting(provider.issuer());
    let page = way(&mut browser, &request, "sso").await;
    assert!(page.url.as_str().starts_with(provider.issuer()), "the browser is at {}: {}", page.url, page.text);
    let answer = provider.sign_in(&mut browser, &page, login).await;
    door.broker.service().exchange(&request, &code(&answer)).await
}

fn sub(tokens: &Tokens) -> String {
    jwt::claims(tokens.access())["sub"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn one_id_through_the_provider_and_through_the_directory() {
    let Some(tools) = Tools::find() else { return };
    let slapd = Slapd::start().await;
    let person = |sub: &str, login: &str, tenant: &str, number: u32| {
        let claims = json!({"tenant_id": tenant, "employee_id": uuid(number), "email": "someone@elsewhere.example"});
        account("sso", sub, login, &claims)
    };
    let accounts = vec![person("1", "jane.doe", "acme", 1), person("2", "joe.doe", "acme", 3), person("3", "greta.roe", "globex", 4)];
    let provider = OidcProvider::start(&tools, Settings::new("sso", accounts)).await;
    let mut sso = provider.connector("sso");
    sso["operatedBy"] = "operator".into();
    sso["tenants"] = json!(["acme", "globex"]);
    sso["directory"] = "corp".into();
    sso["join"] = json!({"claim": "employee_id", "attribute": "openCloudUUID"});
    let client: Value = json!({
        "id": "at-sso", "displayName": "The application", "redirectUris": ["http://127.0.0.1/cb"], "connectors": ["sso", "corp"],
        "scopes": ["openid", "profile", "email", "groups", "roles"],
    });
    let configuration: Configuration = of_slapd(&slapd).with("/connectors/-", sso.clone()).with("/clients/-", client);
    let door = Door::open(configuration, &json!({})).await;
    provider.register(&door.broker, &sso).await;
    let reva = door.socket().await;

    // First through the provider: OpenCloud's proxy then finds them by the token's `sub`.
    for (login, number, name) in [("jane.doe", 1, "jane@acme"), ("greta.roe", 4, "greta@globex")] {
        let tokens = through(&provider, &door, login).await;
        assert_eq!(sub(&tokens), uuid(number));
        let session = reva.sign_in(&sub(&tokens), super::SECRET).await.unwrap();
        assert_eq!(session.user.username, name, "by the directory's name, not the provider's");
        assert_eq!(door.session(name).await.user, session.user);
        assert!(!session.user.mail.contains("elsewhere"), "nor its address");
    }
    // First through the directory: a search, then the provider, then a password.
    let jane = door.session("jane@acme").await;
    assert_eq!(reva.search(&jane.token, "doe").await.unwrap(), ["jane@acme", "joe@acme"], "each is there once");
    let joe = door.session("joe@acme").await;
    assert_eq!(sub(&through(&provider, &door, "joe.doe").await), id(&joe));
    for (name, password, session) in [("joe@acme", PASSWORD, &joe), ("jane@acme", ACME_JANE_PASSWORD, &jane)] {
        let request = Authorization::new("at-sso", "http://127.0.0.1:4711/cb");
        let mut browser = door.broker.browser();
        let page = way(&mut browser, &request, "corp").await;
        let answer = browser.submit(&page, &[("username", name), ("password", password)]).await;
        assert_eq!(sub(&door.broker.service().exchange(&request, &code(&answer)).await), id(session), "by password");
    }
    assert_eq!(reva.search(&jane.token, "doe").await.unwrap(), ["jane@acme", "joe@acme"], "still once");
}
