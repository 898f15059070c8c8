//! Denizen as OpenCloud's identity provider, by `presets: [opencloud]` alone: what its proxy reads, what its web page does, and how
//! the desktop and mobile apps come back.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "opencloud_provider/browser.rs"]
mod browser;
#[path = "opencloud_provider/deployment.rs"]
mod deployment;
#[path = "opencloud_provider/directory.rs"]
mod directory;
#[path = "opencloud_provider/sign_out.rs"]
mod sign_out;

use denizen_tests::{
    Answer, Authorization, Broker, Browser, Configuration, Tokens,
    browser::{code, returned},
    configuration::{KUBERNETES, REVIEWER_TOKEN, hash_of, password_of},
    form::links,
    jwt,
};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::JwkSet};
use serde_json::{Value, json};
use uuid::Uuid;

const CLOUD: &str = "https://cloud.example";

/// Two tenants in the operator's directory, whose people are OpenCloud's users unless it says more of them; and a third tenant with
/// a provider of its own, which may give one role.
fn configuration(cloud: &str) -> Configuration {
    let mut configuration = Configuration::default()
        .with("/clients", json!([]))
        .with("/presets", json!(["opencloud"]))
        .with("/opencloud", json!({"url": cloud}))
        .with("/reviewers", json!([{"id": "kubernetes", "bearerToken": REVIEWER_TOKEN, "audiences": [KUBERNETES]}]))
        .with("/connectors/0/roles", json!(["opencloudAdmin", "opencloudUser"]))
        .with("/connectors/0/claimMappings", json!({"roles": {"expression": "claims.roles + ['opencloudUser']"}}));
    configuration.set("/tenants/-", json!({"id": "initech", "connectors": ["initech-own"]}));
    let own = json!({
        "id": "initech-own", "type": "file", "tenant": {"fixed": "initech"}, "roles": ["opencloudUser"],
        "users": [
            {"id": "i1", "username": "ines", "password": hash_of("initech", "ines"), "roles": ["opencloudAdmin", "opencloudUser"]},
            {"id": "i2", "username": "ivo", "password": hash_of("initech", "ivo"), "roles": ["opencloudAdmin"]},
        ],
    });
    configuration.set("/connectors/-", own);
    configuration
}

/// What OpenCloud's web page asks for, no more.
fn web(cloud: &str) -> Authorization {
    Authorization::new("web", &format!("{cloud}/oidc-callback.html")).with("scope", "openid profile email")
}

/// What an app asks for, that the desktop's and the mobile ones have in common.
fn app(client: &str, redirect_uri: &str) -> Authorization {
    Authorization::new(client, redirect_uri).with("scope", "openid offline_access email profile").with("prompt", "select_account consent")
}

async fn signed_in(broker: &Broker, request: &Authorization, tenant: &str, username: &str) -> (Browser, Tokens) {
    let mut browser = broker.browser();
    let request = request.clone().with("tenant", tenant);
    let answer = browser.try_sign_in(&request, username, &password_of(tenant, username)).await;
    let tokens = broker.service().exchange(&request, &code(&answer)).await;
    (browser, tokens)
}

/// A token as OpenCloud's proxy verifies it: by the keys of the discovery document, the `kid` of the header and the exact issuer.
async fn verified(broker: &Broker, token: &str) -> Value {
    let service = broker.service();
    let document = service.get("/.well-known/openid-configuration").await.expect(200).json();
    let keys = service.send(service.http().get(document["jwks_uri"].as_str().unwrap())).await.expect(200).json();
    let keys: JwkSet = serde_json::from_value(keys).unwrap();
    let header = jwt::header(token);
    let key = DecodingKey::from_jwk(keys.find(header["kid"].as_str().unwrap()).unwrap()).unwrap();
    let algorithm = header["alg"].as_str().unwrap().parse::<Algorithm>().unwrap();
    assert!(document["id_token_signing_alg_values_supported"].as_array().unwrap().contains(&header["alg"]));
    let mut validation = Validation::new(algorithm);
    validation.validate_aud = false;
    validation.set_issuer(&[document["issuer"].as_str().unwrap()]);
    jsonwebtoken::decode::<Value>(token, &key, &validation).unwrap().claims
}

#[tokio::test]
async fn the_proxy_finds_what_it_reads_though_the_web_page_asks_for_less() {
    let broker = Broker::start(configuration(CLOUD)).await;
    let service = broker.service();
    let document = service.get("/.well-known/openid-configuration").await.expect(200).json();
    assert_eq!(document["issuer"], broker.issuer(), "OC_OIDC_ISSUER, to the letter");
    assert!(document.get("registration_endpoint").is_none());
    for needed in ["jwks_uri", "userinfo_endpoint", "authorization_endpoint", "token_endpoint", "end_session_endpoint"] {
        assert!(document[needed].as_str().unwrap().starts_with(broker.issuer()), "{needed}");
    }

    // As the page does it: without a word of tenants. One way is offered, and a field for those who have another.
    let (mut browser, request) = (broker.browser(), web(CLOUD));
    let page = browser.open(&request.path()).await.expect(200);
    assert!(page.text.contains("OpenCloud"), "{}", page.text);
    let people = links(&page.text).into_iter().find(|link| link.starts_with("/login/people")).unwrap();
    let page = browser.open(&people).await.expect(200);
    let answer = browser.submit(&page, &[("username", "alice"), ("password", &password_of("acme", "alice"))]).await;
    assert!(answer.header("location").starts_with("https://cloud.example/oidc-callback.html?code="), "{}", answer.text);
    let tokens = service.exchange(&request, &code(&answer)).await;
    assert_eq!(tokens.0["scope"], "openid profile email roles", "what was granted beyond what was asked for is said (RFC 6749, 3.3)");

    let claims = verified(&broker, tokens.access()).await;
    let id = claims["sub"].as_str().unwrap();
    assert!(Uuid::parse_str(id).is_ok() && id == id.to_lowercase(), "the opaque id");
    assert_eq!((&claims["tenant_id"], &claims["roles"], &claims["aud"]), (&json!("acme"), &json!(["opencloudUser"]), &json!(CLOUD)));
    assert!(claims["sid"].is_string() && claims["exp"].is_i64() && claims["iss"] == broker.issuer(), "{claims}");

    let info = service.userinfo(tokens.access()).await.expect(200).json();
    let wanted = json!({
        "sub": id, "tenant_id": "acme", "roles": ["opencloudUser"], "preferred_username": "alice", "name": "Alice Archer",
        "email": "alice@acme.example", "email_verified": true,
    });
    assert_eq!(info, wanted, "and no groups, which no one asked for");
    let of_id = verified(&broker, tokens.id()).await;
    assert_eq!((&of_id["sub"], &of_id["sid"], &of_id["roles"]), (&claims["sub"], &claims["sid"], &json!(["opencloudUser"])));
    assert!(!broker.log().contains("\"level\":\"ERROR\""), "{}", broker.log());
}

#[tokio::test]
async fn everyone_has_a_role_and_the_mightier_ones_go_by_the_allow_list() {
    let broker = Broker::start(configuration(CLOUD)).await;
    for (tenant, username, roles) in [
        ("acme", "jane", json!(["opencloudAdmin", "opencloudUser"])),
        ("acme", "bob", json!(["opencloudUser"])),
        ("globex", "hank", json!(["opencloudUser"])),
    ] {
        let (_, tokens) = signed_in(&broker, &web(CLOUD), tenant, username).await;
        let info = broker.service().userinfo(tokens.access()).await.expect(200).json();
        assert_eq!((&info["roles"], &info["tenant_id"]), (&roles, &json!(tenant)), "{username}");
        assert_eq!(jwt::claims(tokens.access())["roles"], roles);
    }
}

#[tokio::test]
async fn t54_a_tenants_own_provider_makes_no_administrator() {
    let broker = Broker::start(configuration(CLOUD)).await;
    for (username, roles) in [("ines", json!(["opencloudUser"])), ("ivo", json!([]))] {
        let (_, tokens) = signed_in(&broker, &web(CLOUD), "initech", username).await;
        let info = broker.service().userinfo(tokens.access()).await.expect(200).json();
        assert_eq!((&info["roles"], &info["tenant_id"]), (&roles, &json!("initech")), "{username}");
        assert!(!jwt::claims(tokens.access()).to_string().contains("opencloudAdmin"));
    }
}

#[tokio::test]
async fn t57_a_token_for_opencloud_is_worth_nothing_to_kubernetes() {
    let broker = Broker::start(configuration(CLOUD)).await;
    let (_, tokens) = signed_in(&broker, &web(CLOUD), "acme", "jane").await;
    for audiences in [&[][..], &[KUBERNETES], &[CLOUD]] {
        assert_eq!(broker.service().review(REVIEWER_TOKEN, tokens.access(), audiences).await, json!({"authenticated": false}));
    }
    broker.service().get_as(tokens.access(), "/api/v1/users").await.expect(401);
    broker.service().userinfo(tokens.access()).await.expect(200);
}

#[tokio::test]
async fn its_page_may_call_what_it_calls_and_never_the_authorization_endpoint() {
    let broker = Broker::start(configuration(CLOUD)).await;
    let service = broker.service();
    let ask = async |method: &str, path: &str, origin: &str| {
        let request = service.http().request(method.parse().unwrap(), service.at(path)).header("origin", origin);
        let request = request.header("access-control-request-method", "POST").header("access-control-request-headers", "authorization");
        service.send(request).await.header("access-control-allow-origin").to_owned()
    };
    let doors =
        [("GET", "/.well-known/openid-configuration"), ("GET", "/oauth2/jwks"), ("POST", "/oauth2/token"), ("GET", "/oauth2/userinfo")];
    for (method, path) in doors {
        for method in [method, "OPTIONS"] {
            assert_eq!(ask(method, path, CLOUD).await, CLOUD, "{method} {path}");
            for other in
                ["https://evil.example", "http://cloud.example", "https://cloud.example.evil.example", "null", "oc://android.opencloud.eu"]
            {
                assert_eq!(ask(method, path, other).await, "", "{method} {path} {other}");
            }
        }
    }
    for path in ["/oauth2/authorize", "/oauth2/logout", "/login", "/account"] {
        for method in ["GET", "OPTIONS"] {
            assert_eq!(ask(method, path, CLOUD).await, "", "{method} {path}");
        }
    }
}

/// Whose pages may hold an answer: the directive, and the older header.
fn framing(answer: &Answer) -> (&str, &str) {
    let policy = answer.header("content-security-policy");
    let directive = policy.split(';').map(str::trim).find(|directive| directive.starts_with("frame-ancestors"));
    (directive.unwrap_or_default(), answer.header("x-frame-options"))
}

#[tokio::test]
async fn silent_renewal_answers_in_a_frame_and_nothing_else_does() {
    let broker = Broker::start(configuration(CLOUD)).await;
    let silent = web(CLOUD).with("redirect_uri", "https://cloud.example/oidc-silent-redirect.html").with("prompt", "none");
    let unframed = ("frame-ancestors 'none'", "DENY");
    let mut nobody = broker.browser();
    let answer = nobody.get(&silent.path()).await.expect(303);
    assert!(answer.header("location").starts_with("https://cloud.example/oidc-silent-redirect.html?error=login_required"), "{answer:?}");
    assert_eq!((framing(&answer), returned(&answer, "state").as_str()), (("frame-ancestors https://cloud.example", ""), "the-state"));

    let (mut jane, tokens) = signed_in(&broker, &web(CLOUD), "acme", "jane").await;
    let hinted = silent.clone().with("id_token_hint", tokens.id());
    for silent in [&silent, &hinted] {
        let answer = jane.get(&silent.path()).await.expect(303);
        assert!(answer.header("location").starts_with("https://cloud.example/oidc-silent-redirect.html?code="), "{answer:?}");
        assert_eq!(framing(&answer), ("frame-ancestors https://cloud.example", ""));
        let renewed = broker.service().exchange(silent, &code(&answer)).await;
        assert_eq!(jwt::claims(renewed.access())["roles"], json!(["opencloudAdmin", "opencloudUser"]));
        assert_eq!(jwt::claims(renewed.id())["sid"], jwt::claims(tokens.id())["sid"]);
    }
    // Where no page of the application's has an origin, none may frame it.
    let app = app("OpenCloudAndroid", "oc://android.opencloud.eu").with("prompt", "none");
    assert_eq!(framing(&jane.get(&app.path()).await.expect(303)), ("frame-ancestors 'none'", ""));
    // What people see is framed by no one: the sign-in, also when it is asked for in the frame's own request, and what is refused.
    for path in [
        web(CLOUD).path(),
        silent.clone().with("prompt", "login").path(),
        silent.clone().with("client_id", "nobody").path(),
        silent.clone().with("redirect_uri", "https://evil.example/").path(),
        "/login".to_owned(),
        "/oauth2/logout".to_owned(),
    ] {
        let page = broker.browser().open(&path).await;
        assert_eq!((framing(&page), page.location()), (unframed, None), "{path}: {}", page.text);
    }
    assert_eq!(framing(&jane.open("/account").await.expect(200)), unframed);
}

#[tokio::test]
async fn a_renewal_keeps_the_roles_also_where_it_names_the_scopes_that_were_asked_for() {
    let broker = Broker::start(configuration(CLOUD)).await;
    let (_, tokens) = signed_in(&broker, &web(CLOUD), "acme", "alice").await;
    let renewed = broker.service().refresh("web", tokens.refresh()).await;
    assert_eq!(jwt::claims(renewed.access())["roles"], json!(["opencloudUser"]));

    let (mut browser, tokens) = signed_in(&broker, &app("OpenCloudDesktop", "http://127.0.0.1:4711"), "acme", "alice").await;
    browser.sign_out().await.expect(200);
    let mut refresh_token = tokens.refresh().to_owned();
    for scope in ["openid offline_access email profile", "openid profile email"] {
        let form =
            [("grant_type", "refresh_token"), ("client_id", "OpenCloudDesktop"), ("refresh_token", &refresh_token), ("scope", scope)];
        let renewed = Tokens(broker.service().token(&form).await.expect(200).json());
        assert_eq!(jwt::claims(renewed.access())["roles"], json!(["opencloudUser"]), "{scope}");
        let info = broker.service().userinfo(renewed.access()).await.expect(200).json();
        assert_eq!(info["roles"], json!(["opencloudUser"]), "{scope}");
        renewed.refresh().clone_into(&mut refresh_token);
    }
    // Without `openid` there is no person to say more of.
    let form =
        [("grant_type", "refresh_token"), ("client_id", "OpenCloudDesktop"), ("refresh_token", &refresh_token), ("scope", "profile")];
    assert_eq!(broker.service().token(&form).await.expect(200).json()["scope"], "profile");
}

#[tokio::test]
async fn t40_what_is_not_the_clients_is_not_implied() {
    let broker = Broker::start(configuration(CLOUD)).await;
    for scope in ["openid groups", "openid offline_access", "openid users.read"] {
        let answer = broker.browser().get(&web(CLOUD).with("scope", scope).path()).await.expect(303);
        assert_eq!(returned(&answer, "error"), "invalid_scope", "{scope}");
    }
    let answer = broker.browser().get(&web(CLOUD).add("resource", KUBERNETES).path()).await.expect(303);
    assert_eq!(returned(&answer, "error"), "invalid_target");
    let (_, tokens) = signed_in(&broker, &web(CLOUD).with("scope", "openid roles"), "acme", "alice").await;
    assert_eq!(tokens.0["scope"], "openid roles", "it may ask for it as well");
}

#[tokio::test]
async fn the_desktop_comes_back_to_any_port_of_loopback() {
    let broker = Broker::start(configuration(CLOUD)).await;
    for (address, origin) in [
        ("http://127.0.0.1:53112", "http://127.0.0.1:53112"),
        ("http://127.0.0.1:53112/", "http://127.0.0.1:53112"),
        ("http://localhost:9999", "http://localhost:9999"),
        ("http://localhost:9999/", "http://localhost:9999"),
        ("http://127.0.0.1", "http://127.0.0.1"),
    ] {
        let request = app("OpenCloudDesktop", address).with("tenant", "acme");
        let mut browser = broker.browser();
        let page = browser.open(&request.path()).await.expect(200);
        assert!(page.header("content-security-policy").contains(&format!("form-action 'self' {origin};")), "{address}: {page:?}");
        let answer = browser.submit(&page, &[("username", "jane"), ("password", &password_of("acme", "jane"))]).await.expect(303);
        assert!(answer.header("location").starts_with(&format!("{origin}/?code=")), "{address}: {}", answer.header("location"));
        let tokens = broker.service().exchange(&request, &code(&answer)).await;
        broker.service().userinfo(tokens.access()).await.expect(200);
        broker.service().refresh("OpenCloudDesktop", tokens.refresh()).await;
    }
}

#[tokio::test]
async fn the_mobile_apps_come_back_by_their_own_scheme() {
    let broker = Broker::start(configuration(CLOUD)).await;
    for (client, address) in [("OpenCloudAndroid", "oc://android.opencloud.eu"), ("OpenCloudIOS", "oc://ios.opencloud.eu")] {
        let request = app(client, address).with("tenant", "globex");
        let mut browser = broker.browser();
        let page = browser.open(&request.path()).await.expect(200);
        // A policy can name no host of such an address; the browser holds it against the redirect that answers the form.
        assert!(page.header("content-security-policy").contains("form-action 'self' oc:;"), "{page:?}");
        let answer = browser.submit(&page, &[("username", "hank"), ("password", &password_of("globex", "hank"))]).await.expect(303);
        assert!(answer.header("location").starts_with(&format!("{address}?code=")), "{}", answer.header("location"));
        let tokens = broker.service().exchange(&request, &code(&answer)).await;
        let info = broker.service().userinfo(tokens.access()).await.expect(200).json();
        assert_eq!((&info["tenant_id"], &info["roles"]), (&json!("globex"), &json!(["opencloudUser"])));
        broker.service().refresh(client, tokens.refresh()).await;
    }
}

#[tokio::test]
async fn t33_no_address_but_the_apps_own_is_taken() {
    let broker = Broker::start(configuration(CLOUD)).await;
    let refused = [
        ("OpenCloudAndroid", "oc://ios.opencloud.eu"),
        ("OpenCloudAndroid", "oc://android.opencloud.eu/"),
        ("OpenCloudAndroid", "oc://android.opencloud.eu?x=1"),
        ("OpenCloudAndroid", "oc://android.opencloud.eu.evil.example"),
        ("OpenCloudAndroid", "oc://evil@android.opencloud.eu"),
        ("OpenCloudAndroid", "OC://android.opencloud.eu"),
        ("OpenCloudAndroid", "https://android.opencloud.eu"),
        ("OpenCloudIOS", "oc:ios.opencloud.eu"),
        ("OpenCloudDesktop", "http://127.0.0.1:4711/callback"),
        ("OpenCloudDesktop", "http://127.0.0.1:4711?x=1"),
        ("OpenCloudDesktop", "http://127.0.0.1:4711/?x=1"),
        ("OpenCloudDesktop", "http://127.0.0.1:4711#x"),
        ("OpenCloudDesktop", "http://localhost:4711@evil.example"),
        ("OpenCloudDesktop", "http://localhost.evil.example:4711"),
        ("OpenCloudDesktop", "http://127.0.0.2:4711"),
        ("OpenCloudDesktop", "http://[::1]:4711"),
        ("OpenCloudDesktop", "https://localhost:4711"),
        ("OpenCloudDesktop", "oc://android.opencloud.eu"),
        ("web", "http://127.0.0.1:4711"),
        ("web", "https://cloud.example"),
        ("web", "https://cloud.example/oidc-callback.html?x=1"),
        ("web", "https://cloud.example:8443/oidc-callback.html"),
        ("web", "https://evil.example/oidc-callback.html"),
    ];
    for (client, address) in refused {
        let answer = broker.browser().get(&app(client, address).path()).await;
        assert_eq!((answer.status, answer.header("location")), (400, ""), "{client} {address}");
    }
    // PKCE is asked of each of the four.
    for (client, address) in
        [("web", "https://cloud.example/"), ("OpenCloudDesktop", "http://localhost:1"), ("OpenCloudIOS", "oc://ios.opencloud.eu")]
    {
        let answer = broker.browser().get(&app(client, address).with("scope", "openid").without("code_challenge").path()).await.expect(303);
        assert_eq!(returned(&answer, "error"), "invalid_request", "{client}");
    }
}
