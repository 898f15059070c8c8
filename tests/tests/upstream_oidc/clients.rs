//! How the broker proves to a provider who it is, and where it finds what it asks for.

use denizen_tests::{
    Authorization, Broker, OidcProvider, Tools,
    browser::code,
    jwt,
    oidc_provider::{Settings, account, client_key},
};
use serde_json::{Value, json};

use super::{House, configuration, providers, refused, request};

#[tokio::test]
async fn each_way_to_authenticate_a_client_works() {
    let Some(providers) = providers().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let (key, public) = client_key(folder.path(), "denizen-1");
    let ways = ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"];
    let connectors = ways.map(|way| {
        let mut connector = providers.acme.connector_apart(&way.replace('_', "-"));
        connector["tenant"] = json!({"fixed": "acme"});
        connector["clientAuthentication"] = way.into();
        if way == "private_key_jwt" {
            connector["privateKeyFile"] = key.to_string_lossy().into();
            connector["privateKeyId"] = "denizen-1".into();
        }
        if !way.starts_with("client_secret") {
            connector.as_object_mut().unwrap().remove("clientSecret");
        }
        connector
    });
    let broker = Broker::start(configuration(&connectors)).await;
    for connector in &connectors {
        let more = match connector["clientAuthentication"].as_str() {
            Some("private_key_jwt") => json!({"jwks": {"keys": [public]}, "token_endpoint_auth_signing_alg": "ES256"}),
            _ => Value::Null,
        };
        providers.acme.register_at(broker.issuer(), connector, &more).await;
    }
    let house = House { providers, broker };
    for connector in &connectors {
        let id = connector["id"].as_str().unwrap();
        assert_eq!(jwt::claims(house.sign_in(id, "jane").await.access())["connector"], id);
    }
}

#[tokio::test]
async fn a_client_that_the_provider_does_not_know_is_a_fault_and_never_a_no() {
    let Some(house) = House::start_with(|connectors| connectors.truncate(1)).await else { return };
    let mut changed = house.providers.acme.connector("acme-sso");
    changed["clientId"] = configured(&house, "/clientId");
    changed["clientSecret"] = "another".into();
    house.providers.acme.register(&house.broker, &changed).await;
    let answer = house.try_sign_in("acme-sso", "jane").await;
    assert!(answer.status >= 500 && answer.location().is_none(), "{}: {}", answer.status, answer.text);
}

fn configured(house: &House, key: &str) -> Value {
    let text = std::fs::read_to_string(house.broker.folder().join("denizen.yaml")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let connectors = all["connectors"].as_array().unwrap();
    connectors.iter().find(|connector| connector["id"] == "acme-sso").unwrap().pointer(key).unwrap().clone()
}

#[tokio::test]
async fn userinfo_is_asked_where_the_id_token_lacks_a_claim() {
    let Some(tools) = Tools::find() else { return };
    let accounts = vec![account("spare", "1", "rita", &json!({"tenant_id": "globex", "groups": ["staff"]}))];
    let provider = OidcProvider::start(&tools, Settings { claims_in_userinfo_only: true, ..Settings::new("spare", accounts) }).await;
    let connectors = ["asks", "never-asks"].map(|id| {
        let mut connector = provider.connector_apart(id);
        connector["operatedBy"] = "operator".into();
        connector["tenants"] = json!(["acme", "globex"]);
        if id == "never-asks" {
            connector["userInfo"] = "never".into();
        }
        connector
    });
    let broker = Broker::start(configuration(&connectors)).await;
    for connector in &connectors {
        provider.register(&broker, connector).await;
    }
    let sign_in = async |request: &Authorization| {
        let mut browser = broker.browser().visiting(provider.issuer());
        let page = browser.open(&request.path()).await;
        provider.sign_in(&mut browser, &page, "rita").await
    };
    let request = |connector: &str| request(broker.issuer(), connector);
    let tokens = broker.service().exchange(&request("asks"), &code(&sign_in(&request("asks")).await)).await;
    let claims = jwt::claims(tokens.access());
    assert_eq!((&claims["tenant_id"], &claims["groups"]), (&json!("globex"), &json!(["staff"])));
    assert_eq!(provider.count("/me").await, 1);
    // Without userinfo nothing says of which tenant she is.
    refused(&sign_in(&request("never-asks")).await);
    assert_eq!(provider.count("/me").await, 1);
}

#[tokio::test]
async fn a_provider_with_a_certificate_of_its_own_authority() {
    let Some(tools) = Tools::find() else { return };
    let accounts = vec![account("tls", "1", "tom", &json!({}))];
    let settings = Settings { tls: true, refresh_tokens_by_scope_only: true, ..Settings::new("tls", accounts) };
    let provider = OidcProvider::start(&tools, settings).await;
    let connectors = ["trusting", "wary"].map(|id| {
        let mut connector = provider.connector_apart(id);
        connector["tenant"] = json!({"fixed": "acme"});
        connector["scopes"] = json!(["profile", "offline_access"]);
        connector["extraParameters"] = json!({"prompt": "consent"});
        if id == "trusting" {
            connector["issuer"]["certificateAuthorityFile"] = provider.authority().to_string_lossy().into();
        }
        connector
    });
    let broker = Broker::start(configuration(&connectors)).await;
    for connector in &connectors {
        provider.register(&broker, connector).await;
    }
    let certificate = reqwest::Certificate::from_pem(&std::fs::read(provider.authority()).unwrap()).unwrap();
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).tls_certs_only([certificate]).build();
    let mut browser = denizen_tests::Browser::new(http.unwrap(), broker.issuer()).visiting(provider.issuer());
    let request = |connector: &str| request(broker.issuer(), connector);
    let page = browser.open(&request("trusting").path()).await;
    let page = provider.sign_in(&mut browser, &page, "tom").await;
    assert!(page.text.contains("Do you agree?"), "{}", page.text);
    let answer = browser.submit(&page, &[]).await;
    broker.service().exchange(&request("trusting"), &code(&answer)).await;
    // Its certificate is of no authority that this machine trusts.
    broker.browser().open(&request("wary").path()).await.expect(503);
}

#[tokio::test]
async fn t22_a_provider_at_a_private_address_is_asked_only_where_that_is_allowed() {
    let Some(tools) = Tools::find() else { return };
    // An address that stands in the configuration is refused when that is read; what a name stands for is known later.
    let provider = OidcProvider::start(&tools, Settings { named: true, ..Settings::new("private", Vec::new()) }).await;
    let connectors = [("allowed", json!(["127.0.0.0/8", "::1"])), ("elsewhere", json!(["10.0.0.0/8"]))].map(|(id, allowed)| {
        let mut connector = provider.connector_apart(id);
        connector["tenant"] = json!({"fixed": "acme"});
        connector["allowedNetworks"] = allowed;
        connector
    });
    let broker = Broker::start(configuration(&connectors)).await;
    let answer = broker.browser().open(&request(broker.issuer(), "elsewhere").path()).await;
    assert!(answer.status >= 500, "{}: {}", answer.status, answer.text);
    assert_eq!(provider.count("/.well-known/openid-configuration").await, 0);
    let answer = broker.browser().open(&request(broker.issuer(), "allowed").path()).await;
    assert!(answer.location().is_some_and(|next| next.as_str().starts_with(provider.issuer())), "{}: {}", answer.status, answer.text);
    assert_eq!(provider.count("/.well-known/openid-configuration").await, 1);
}
