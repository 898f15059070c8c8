//! The OpenID provider, as applications meet it: requests, codes, tokens, renewal, revocation.

use denizen_tests::{
    Authorization, Broker, Configuration, Tokens,
    browser::{code, returned},
    configuration::{KUBERNETES, OPENCLOUD, password_of, secret_of},
    form::Form,
    jwt,
};
use serde_json::{Value, json};

async fn broker() -> Broker {
    Broker::start(Configuration::default()).await
}

async fn jane(broker: &Broker) -> Tokens {
    broker.tokens(&Authorization::web(), "acme", "jane").await
}

#[tokio::test]
async fn discovery_advertises_what_works_and_nothing_else() {
    let broker = broker().await;
    let service = broker.service();
    let document = service.get("/.well-known/openid-configuration").await.expect(200).json();
    assert_eq!(service.get("/.well-known/oauth-authorization-server").await.expect(200).json(), document);
    assert_eq!(document["issuer"], broker.issuer());
    for (name, value) in document.as_object().unwrap() {
        let Some(address) = value.as_str().filter(|_| name.ends_with("_endpoint") || name == "jwks_uri") else { continue };
        assert!(address.starts_with(broker.issuer()), "{name} is {address}");
        let answer = service.send(service.http().get(address)).await;
        assert_ne!(answer.status, 404, "{name} is not there");
    }
    for absent in
        ["registration_endpoint", "introspection_endpoint", "device_authorization_endpoint", "pushed_authorization_request_endpoint"]
    {
        assert!(document.get(absent).is_none(), "{absent} is advertised");
    }
    assert_eq!(document["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(document["authorization_response_iss_parameter_supported"], true);
    assert_eq!(
        (&document["backchannel_logout_supported"], &document["backchannel_logout_session_supported"]),
        (&json!(true), &json!(true))
    );
    let keys = service.get("/oauth2/jwks").await.expect(200).json();
    for key in keys["keys"].as_array().unwrap() {
        assert!(key.get("d").is_none() && key.get("p").is_none(), "a private key is public");
    }
}

#[tokio::test]
async fn a_code_becomes_tokens_that_carry_the_tenant() {
    let broker = broker().await;
    let request = Authorization::web().with("tenant", "acme").with("scope", "openid profile email groups roles offline_access");
    let answer = broker.browser().try_sign_in(&request, "jane", &password_of("acme", "jane")).await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!((returned(&answer, "state").as_str(), returned(&answer, "iss").as_str()), ("the-state", broker.issuer()));
    let given = broker.service().try_exchange(&request, &code(&answer)).await.expect(200);
    assert_eq!(given.header("cache-control"), "no-store");
    let tokens = Tokens(given.json());
    assert_eq!(tokens.0["token_type"], "Bearer");

    let access = jwt::claims(tokens.access());
    assert_eq!(jwt::header(tokens.access())["typ"], "at+jwt");
    assert_eq!(access["iss"], broker.issuer());
    assert_eq!(access["aud"], KUBERNETES);
    assert_eq!(
        (&access["tenant_id"], &access["preferred_username"], &access["connector"]),
        (&json!("acme"), &json!("jane"), &json!("people"))
    );
    assert_eq!(access["groups"], json!(["staff", "admins"]));

    let id = jwt::claims(tokens.id());
    assert_eq!(
        (&id["aud"], &id["nonce"], &id["sub"], &id["tenant_id"]),
        (&json!("web"), &json!("the-nonce"), &access["sub"], &json!("acme"))
    );
    assert_eq!((&id["email"], &id["email_verified"]), (&json!("jane@acme.example"), &json!(true)));

    let info = broker.service().userinfo(tokens.access()).await.expect(200).json();
    assert_eq!((&info["sub"], &info["tenant_id"], &info["name"]), (&access["sub"], &json!("acme"), &json!("Jane Jones")));
}

#[tokio::test]
async fn a_token_says_no_more_than_its_scopes() {
    let broker = broker().await;
    let tokens = broker.tokens(&Authorization::web().with("scope", "openid"), "acme", "jane").await;
    let info = broker.service().userinfo(tokens.access()).await.expect(200).json();
    for absent in ["name", "email", "groups", "roles", "preferred_username"] {
        assert!(info.get(absent).is_none(), "{absent} is told without its scope");
    }
    let tokens = broker.tokens(&Authorization::web().with("scope", "profile"), "acme", "jane").await;
    assert!(tokens.0.get("id_token").is_none(), "an ID token without `openid`");
    broker.service().userinfo(tokens.access()).await.expect(403);
}

#[tokio::test]
async fn t33_a_redirect_uri_that_is_not_registered_redirects_nowhere() {
    let broker = broker().await;
    let crooked = [
        "http://127.0.0.1/cb/",
        "http://127.0.0.1/CB",
        "http://127.0.0.1/cb?x=1",
        "http://127.0.0.1/cb#f",
        "http://127.0.0.1/cbx",
        "http://127.0.0.1/",
        "http://127.0.0.1/x/../cb",
        "http://127.0.0.1/..;/cb",
        "http://127.0.0.1/%63b",
        "http://127.0.0.1/%252fcb",
        "http://127.0.0.1@evil.example/cb",
        "http://127.0.0.1:80@evil.example/cb",
        "http://evil.example/cb",
        "https://127.0.0.1/cb",
        "http://localhost/cb",
        "http://127.0.0.1.evil.example/cb",
        "//127.0.0.1/cb",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://127.0.0.1:4711\\@evil.example/cb",
        " http://127.0.0.1/cb",
        "http://127.0.0.1/cb\r\nX: y",
        "",
    ];
    for uri in crooked {
        let answer = broker.browser().get(&Authorization::web().with("redirect_uri", uri).path()).await;
        assert_eq!(answer.status, 400, "{uri:?} was taken");
        assert!(answer.location().is_none(), "{uri:?} redirects");
        assert!(answer.header("content-type").starts_with("text/html"), "people are shown a page");
    }
    let http = Authorization::new("backend", "http://backend.example/cb");
    assert_eq!(broker.browser().get(&http.path()).await.status, 400, "https is not http");
    for request in [
        Authorization::web().without("redirect_uri"),
        Authorization::web().with("client_id", "nobody"),
        Authorization::web().without("client_id"),
    ] {
        let answer = broker.browser().get(&request.path()).await.expect(400);
        assert!(answer.location().is_none());
    }
    let twice = Authorization::web().add("redirect_uri", "http://evil.example/cb");
    assert!(broker.browser().get(&twice.path()).await.expect(400).location().is_none());
    // Only the port may differ, and only on loopback.
    assert!(broker.browser().get(&Authorization::new("web", "http://127.0.0.1:1/cb").path()).await.location().is_some());
}

#[tokio::test]
async fn a_wrong_request_is_answered_at_the_application() {
    let broker = broker().await;
    let web = Authorization::web;
    let cases = [
        (web().with("response_type", "token"), "unsupported_response_type"),
        (web().without("response_type"), "invalid_request"),
        (web().with("response_mode", "fragment"), "invalid_request"),
        (web().with("scope", "openid everything"), "invalid_scope"),
        (web().with("resource", "https://other.example"), "invalid_target"),
        (web().with("prompt", "never"), "invalid_request"),
        (web().with("prompt", "none login"), "invalid_request"),
        (web().with("max_age", "soon"), "invalid_request"),
        (web().with("request", "x.y.z"), "request_not_supported"),
        (web().with("request_uri", "https://x.example"), "request_uri_not_supported"),
        (web().add("scope", "openid"), "invalid_request"),
        (web().with("nonce", &"n".repeat(600)), "invalid_request"),
        (web().with("code_challenge", "short"), "invalid_request"),
        (web().with("prompt", "none"), "login_required"),
    ];
    for (request, error) in cases {
        let answer = broker.browser().get(&request.path()).await;
        assert_eq!(answer.status, 303, "{error}: {}", answer.text);
        assert_eq!(answer.location().unwrap().host_str(), Some("127.0.0.1"));
        assert_eq!(returned(&answer, "error"), error, "{:?}", answer.location());
        assert_eq!((returned(&answer, "state").as_str(), returned(&answer, "iss").as_str()), ("the-state", broker.issuer()));
        assert!(!returned(&answer, "error_description").is_empty());
    }
}

#[tokio::test]
async fn t34_a_sign_in_goes_on_in_the_browser_that_began_it_alone() {
    let broker = broker().await;
    let mut victim = broker.browser();
    let page = victim.open(&Authorization::web().with("tenant", "acme").path()).await;
    let fields = [("username", "jane"), ("password", &password_of("acme", "jane"))];
    let mut stranger = broker.browser();
    let answer = stranger.submit(&page, &fields).await;
    assert_eq!(answer.status, 400, "another browser finished it");
    assert!(answer.location().is_none());
    assert_eq!(stranger.get(page.url.as_str()).await.status, 400, "another browser sees the form");
    // A stranger with a sign-in of their own under way is still a stranger.
    let own = stranger.open(&Authorization::web().path()).await;
    let csrf = Form::of(&own.text).unwrap().value("csrf").unwrap().to_owned();
    assert_eq!(stranger.submit(&page, &[fields[0], fields[1], ("csrf", &csrf)]).await.status, 400);
    // A form that was made elsewhere has no token of this one.
    assert_eq!(victim.submit(&page, &[fields[0], fields[1], ("csrf", "guess")]).await.status, 400);
    assert_eq!(victim.submit(&page, &[fields[0], fields[1], ("csrf", "")]).await.status, 400);
    assert!(!code(&victim.submit(&page, &fields).await).is_empty(), "its own browser goes on");
    assert_eq!(victim.submit(&page, &fields).await.status, 400, "a sign-in is used once");
}

#[tokio::test]
async fn t35_a_code_used_twice_takes_back_what_it_gave() {
    let broker = broker().await;
    let (service, request) = (broker.service(), Authorization::web().with("tenant", "acme"));
    let code = broker.browser().sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let tokens = service.exchange(&request, &code).await;
    service.userinfo(tokens.access()).await.expect(200);
    assert_eq!(service.try_exchange(&request, &code).await.expect(400).error(), "invalid_grant");
    service.userinfo(tokens.access()).await.expect(401);
    assert_eq!(service.try_refresh("web", tokens.refresh()).await.expect(400).error(), "invalid_grant");
}

#[tokio::test]
async fn t35_a_code_belongs_to_its_client_and_its_redirect_uri() {
    let broker = broker().await;
    let service = broker.service();
    let request = Authorization::web().with("tenant", "acme");
    let password = password_of("acme", "jane");
    let mut browser = broker.browser();
    for wrong in [
        request.clone().with("client_id", "acme-only"),
        request.clone().with("redirect_uri", "http://127.0.0.1:4712/cb"),
        request.clone().without("redirect_uri"),
    ] {
        let code = browser.sign_in(&request, "jane", &password).await;
        assert_eq!(service.try_exchange(&wrong, &code).await.expect(400).error(), "invalid_grant");
        // Whoever had the code wrongly may have it still.
        assert_eq!(service.try_exchange(&request, &code).await.expect(400).error(), "invalid_grant");
    }
    assert_eq!(service.try_exchange(&request, "never-given").await.expect(400).error(), "invalid_grant");
}

#[tokio::test]
async fn t36_pkce_can_be_neither_dropped_nor_plain() {
    let broker = broker().await;
    let service = broker.service();
    let web = || Authorization::web().with("tenant", "acme");
    for request in [
        web().without("code_challenge").without("code_challenge_method"),
        web().without("code_challenge"),
        web().without("code_challenge_method"),
        web().with("code_challenge_method", "plain"),
        web().with("code_challenge", "").with("code_challenge_method", "S256"),
    ] {
        let answer = broker.browser().get(&request.path()).await.expect(303);
        assert_eq!(returned(&answer, "error"), "invalid_request", "{:?}", answer.location());
    }
    // The confidential client too.
    let answer = broker.browser().get(&Authorization::backend().without("code_challenge").path()).await.expect(303);
    assert_eq!(returned(&answer, "error"), "invalid_request");
    let mut browser = broker.browser();
    for verifier in ["", "wrong", &"v".repeat(43), &denizen_tests::authorization::challenge(&web().verifier)] {
        let code = browser.sign_in(&web(), "jane", &password_of("acme", "jane")).await;
        let mut thief = web();
        verifier.clone_into(&mut thief.verifier);
        assert_eq!(service.try_exchange(&thief, &code).await.expect(400).error(), "invalid_grant");
    }
}

#[tokio::test]
async fn t37_an_old_refresh_token_revokes_its_family() {
    let broker = broker().await;
    let service = broker.service();
    let first = jane(&broker).await;
    let second = service.refresh("web", first.refresh()).await;
    assert_ne!(first.refresh(), second.refresh());
    let third = service.refresh("web", second.refresh()).await;
    service.userinfo(third.access()).await.expect(200);
    assert_eq!(service.try_refresh("web", first.refresh()).await.expect(400).error(), "invalid_grant");
    assert_eq!(service.try_refresh("web", third.refresh()).await.expect(400).error(), "invalid_grant", "the family is revoked");
    for tokens in [&first, &second, &third] {
        service.userinfo(tokens.access()).await.expect(401);
    }
}

#[tokio::test]
async fn t37_a_refresh_token_is_its_clients_alone() {
    let broker = broker().await;
    let service = broker.service();
    let tokens = jane(&broker).await;
    assert_eq!(service.try_refresh("acme-only", tokens.refresh()).await.expect(400).error(), "invalid_grant");
    for wrong in ["", "nonsense", tokens.access()] {
        let answer = service.try_refresh("web", wrong).await.expect(400);
        assert!(matches!(answer.error().as_str(), "invalid_grant" | "invalid_request"), "{}", answer.text);
    }
}

#[tokio::test]
async fn t38_of_fifty_refreshes_at_once_one_wins() {
    let broker = broker().await;
    let tokens = jane(&broker).await;
    let service = broker.service();
    let tries = (0..50).map(|_| service.try_refresh("web", tokens.refresh()));
    let answers = futures_util::future::join_all(tries).await;
    assert_eq!(answers.iter().filter(|a| a.status == 200).count(), 1);
    for answer in answers.iter().filter(|a| a.status != 200) {
        assert_eq!((answer.status, answer.error().as_str()), (400, "invalid_grant"));
    }
}

#[tokio::test]
async fn t40_nothing_is_widened_afterwards() {
    let broker = broker().await;
    let service = broker.service();
    let request = Authorization::web().with("scope", "openid profile");
    let tokens = broker.tokens(&request, "acme", "jane").await;
    let refresh = |name, value| {
        let (service, token) = (service.clone(), tokens.refresh().to_owned());
        async move { service.token(&[("grant_type", "refresh_token"), ("client_id", "web"), ("refresh_token", &token), (name, value)]).await }
    };
    assert_eq!(refresh("scope", "openid profile email").await.expect(400).error(), "invalid_scope");
    assert_eq!(refresh("resource", OPENCLOUD).await.expect(400).error(), "invalid_target");
    let narrow = Tokens(refresh("scope", "openid").await.expect(200).json());
    assert_eq!(jwt::claims(narrow.access())["scope"], "openid", "a narrower choice is granted");
    let full = service.refresh("web", narrow.refresh()).await;
    assert_eq!(jwt::claims(full.access())["scope"], "openid profile", "for that one token only");

    let own = [("grant_type", "client_credentials"), ("client_id", "acme-service"), ("client_secret", "secret-of-acme-service")];
    let with = |name, value| [own[0], own[1], own[2], (name, value)];
    assert_eq!(service.token(&with("scope", "users.read everything")).await.expect(400).error(), "invalid_scope");
    assert_eq!(service.token(&with("scope", "openid")).await.expect(400).error(), "invalid_scope");
    assert_eq!(service.token(&with("resource", KUBERNETES)).await.expect(400).error(), "invalid_target");
}

#[tokio::test]
async fn t46_the_session_id_changes_at_the_sign_in() {
    let broker = broker().await;
    let mut browser = broker.browser();
    let page = browser.open(&Authorization::web().with("tenant", "acme").path()).await;
    let before = browser.clone();
    let answer = browser.submit(&page, &[("username", "jane"), ("password", &password_of("acme", "jane"))]).await;
    assert!(!code(&answer).is_empty());
    assert_ne!(before.cookies, browser.cookies);
    for cookie in answer.headers.get_all("set-cookie") {
        let text = cookie.to_str().unwrap();
        assert!(text.contains("HttpOnly") && text.contains("SameSite=Lax"), "{text}");
    }
    browser.get("/account").await.expect(200);
    let mut fixed = before.clone();
    assert_eq!(fixed.get("/account").await.status, 303, "whoever knew the old id is not signed in");
    // The sign-out, too, belongs to the page that showed it.
    assert_eq!(browser.post("/account", &[("csrf".to_owned(), "guess".to_owned())]).await.status, 400);
    browser.get("/account").await.expect(200);
}

#[tokio::test]
async fn one_session_answers_as_far_as_it_may() {
    let broker = broker().await;
    let mut browser = broker.browser();
    let web = Authorization::web;
    browser.sign_in(&web().with("tenant", "acme"), "jane", &password_of("acme", "jane")).await;
    assert!(!code(&browser.get(&web().with("prompt", "none").path()).await).is_empty());
    assert!(!code(&browser.get(&Authorization::backend().path()).await).is_empty(), "another application, the same sign-in");
    assert!(!code(&browser.get(&web().with("max_age", "600").path()).await).is_empty());
    let asks = |answer: &denizen_tests::Answer| answer.location().is_some_and(|l| l.path().starts_with("/login"));
    for request in
        [web().with("prompt", "login"), web().with("prompt", "select_account"), web().with("max_age", "0"), web().with("tenant", "globex")]
    {
        assert!(asks(&browser.get(&request.path()).await), "{request:?} must ask again");
    }
    let across = web().with("prompt", "none").with("tenant", "globex");
    assert_eq!(returned(&browser.get(&across.path()).await, "error"), "login_required");
    let mut other = broker.browser();
    other.sign_in(&web().with("tenant", "globex"), "jane", &password_of("globex", "jane")).await;
    let foreign = Authorization::new("acme-only", "https://acme-only.example/cb").with("prompt", "none");
    assert_eq!(returned(&other.get(&foreign.path()).await, "error"), "login_required", "the client does not take that tenant");
}

#[tokio::test]
async fn a_client_of_one_tenant_takes_no_other() {
    let broker = broker().await;
    let request = Authorization::new("acme-only", "https://acme-only.example/cb");
    let answer = broker.browser().try_sign_in(&request.clone().with("tenant", "globex"), "jane", &password_of("globex", "jane")).await;
    assert!(answer.location().is_none() && answer.status >= 400, "{:?}", answer.location());
    let code = broker.browser().sign_in(&request.clone().with("tenant", "acme"), "jane", &password_of("acme", "jane")).await;
    let tokens = broker.service().exchange(&request, &code).await;
    assert_eq!(jwt::claims(tokens.access())["aud"], "acme-only", "without audiences, the client's own id");
}

#[tokio::test]
async fn a_sign_out_ends_what_was_given_in_the_session() {
    let broker = broker().await;
    let (service, mut browser) = (broker.service(), broker.browser());
    let plain = Authorization::web().with("tenant", "acme");
    let offline = plain.clone().with("scope", "openid profile offline_access");
    let code = browser.sign_in(&plain, "jane", &password_of("acme", "jane")).await;
    let tokens = service.exchange(&plain, &code).await;
    let code = denizen_tests::browser::code(&browser.get(&offline.path()).await);
    let kept = service.exchange(&offline, &code).await;
    let before = browser.clone();
    browser.sign_out().await.expect(200);
    for mut browser in [browser, before] {
        assert_eq!(browser.get("/account").await.status, 303);
        assert_eq!(returned(&browser.get(&plain.clone().with("prompt", "none").path()).await, "error"), "login_required");
    }
    service.userinfo(tokens.access()).await.expect(401);
    assert_eq!(service.try_refresh("web", tokens.refresh()).await.expect(400).error(), "invalid_grant");
    service.refresh("web", kept.refresh()).await;
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once() {
    let broker = broker().await;
    let service = broker.service();
    let tokens = jane(&broker).await;
    // Someone else's client learns nothing, and ends nothing.
    service.revoke("acme-only", tokens.access()).await;
    service.userinfo(tokens.access()).await.expect(200);
    service.revoke("web", tokens.access()).await.expect(200);
    service.userinfo(tokens.access()).await.expect(401);
    let tokens = jane(&broker).await;
    service.revoke("web", tokens.refresh()).await.expect(200);
    service.userinfo(tokens.access()).await.expect(401);
    assert_eq!(service.try_refresh("web", tokens.refresh()).await.expect(400).error(), "invalid_grant");
    service.revoke("web", "nonsense").await.expect(200);
}

#[tokio::test]
async fn a_service_has_a_token_of_its_own() {
    let broker = broker().await;
    let service = broker.service();
    let tokens = service.client_credentials("acme-service").await;
    assert!(tokens.0.get("refresh_token").is_none() && tokens.0.get("id_token").is_none());
    let claims = jwt::claims(tokens.access());
    assert_eq!(
        (&claims["tenant_id"], &claims["client_id"], &claims["scope"]),
        (&json!("acme"), &json!("acme-service"), &json!("users.read"))
    );
    assert!(claims.get("sid").is_none() && claims.get("connector").is_none());
    service.userinfo(tokens.access()).await.expect(403);
    let own = [("grant_type", "client_credentials")];
    let basic = service.http().post(service.at("/oauth2/token")).basic_auth("acme-service", Some(secret_of("acme-service"))).form(&own);
    service.send(basic).await.expect(200);
}

#[tokio::test]
async fn clients_prove_who_they_are() {
    let broker = broker().await;
    let service = broker.service();
    let own = |client, secret| [("grant_type", "client_credentials"), ("client_id", client), ("client_secret", secret)];
    for (client, secret) in [("acme-service", "wrong"), ("nobody", "secret-of-nobody"), ("web", "a secret for a public client")] {
        let answer = service.token(&own(client, secret)).await.expect(401);
        assert_eq!(answer.error(), "invalid_client");
        assert!(answer.header("www-authenticate").starts_with("Basic"));
    }
    let without = [("grant_type", "client_credentials"), ("client_id", "acme-service")];
    assert_eq!(service.token(&without).await.expect(401).error(), "invalid_client");
    let public = [("grant_type", "client_credentials"), ("client_id", "web")];
    assert_eq!(service.token(&public).await.expect(400).error(), "unauthorized_client");
    let both = service.http().post(service.at("/oauth2/token")).basic_auth("acme-service", Some("secret-of-acme-service"));
    assert_eq!(service.send(both.form(&own("acme-service", "secret-of-acme-service"))).await.expect(400).error(), "invalid_request");
    // A confidential client's code is worth nothing without its secret.
    let request = Authorization::backend().with("tenant", "acme");
    let mut browser = broker.browser();
    let code = browser.sign_in(&request, "jane", &password_of("acme", "jane")).await;
    assert_eq!(service.try_exchange(&request, &code).await.expect(401).error(), "invalid_client");
    let basic = service.exchange_request(&request, &code).basic_auth("backend", Some(secret_of("backend")));
    service.send(basic).await.expect(200);
}

#[tokio::test]
async fn the_token_endpoint_says_what_is_wrong() {
    let broker = broker().await;
    let service = broker.service();
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("client_id", "web")], "invalid_request"),
        (&[("client_id", "web"), ("grant_type", "password"), ("username", "jane"), ("password", "x")], "unsupported_grant_type"),
        (&[("client_id", "web"), ("grant_type", "authorization_code")], "invalid_request"),
        (&[("client_id", "web"), ("grant_type", "refresh_token")], "invalid_request"),
        (&[("grant_type", "authorization_code"), ("code", "x")], "invalid_request"),
        (&[("client_id", "web"), ("client_id", "web"), ("grant_type", "refresh_token")], "invalid_request"),
    ];
    for (form, error) in cases {
        let answer = service.token(form).await.expect(400);
        assert_eq!(answer.error(), error);
        assert!(answer.json()["error_description"].is_string());
    }
    service.get("/oauth2/token").await.expect(405);
    let json = service.http().post(service.at("/oauth2/token")).json(&json!({"grant_type": "refresh_token"}));
    service.send(json).await.expect(415);
}

#[tokio::test]
async fn t43_what_has_expired_is_refused() {
    let lifetimes = json!({"codeSeconds": 1, "accessTokenSeconds": 1, "refreshTokenSeconds": 3600});
    let broker = Broker::start(Configuration::default().with("/lifetimes", lifetimes)).await;
    let (service, mut browser) = (broker.service(), broker.browser());
    let request = Authorization::web().with("tenant", "acme");
    let first = browser.sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let second = code(&browser.get(&request.path()).await);
    let tokens = service.exchange(&request, &first).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(service.try_exchange(&request, &second).await.expect(400).error(), "invalid_grant");
    service.userinfo(tokens.access()).await.expect(401);
    service.refresh("web", tokens.refresh()).await;
}

#[tokio::test]
async fn audiences_are_those_that_were_asked_for() {
    let broker = broker().await;
    let api = format!("{}/api", broker.issuer());
    let request = Authorization::web().add("resource", &api).add("resource", KUBERNETES).with("tenant", "acme");
    let code = broker.browser().sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let tokens = broker.service().exchange(&request, &code).await;
    assert_eq!(jwt::claims(tokens.access())["aud"], json!([api, KUBERNETES]));
    let narrow = [("grant_type", "refresh_token"), ("client_id", "web"), ("refresh_token", tokens.refresh()), ("resource", KUBERNETES)];
    let narrow = broker.service().token(&narrow).await.expect(200).json();
    assert_eq!(jwt::claims(narrow["access_token"].as_str().unwrap())["aud"], KUBERNETES);
}

#[tokio::test]
async fn scripts_of_registered_origins_may_call_and_no_others() {
    let broker = broker().await;
    let service = broker.service();
    let allowed = |path: &'static str, origin: &'static str| {
        let service = service.clone();
        async move {
            service
                .send(service.http().get(service.at(path)).header("origin", origin))
                .await
                .header("access-control-allow-origin")
                .to_owned()
        }
    };
    for path in ["/.well-known/openid-configuration", "/oauth2/jwks", "/oauth2/userinfo", "/api/v1/users"] {
        assert_eq!(allowed(path, "https://app.example").await, "https://app.example", "{path}");
        assert_eq!(allowed(path, "https://evil.example").await, "", "{path}");
        assert_eq!(allowed(path, "null").await, "", "{path}");
        // A browser asks beforehand whether it may send the header.
        for origin in ["https://app.example", "https://evil.example"] {
            let ask = service.http().request("OPTIONS".parse().unwrap(), service.at(path)).header("origin", origin);
            let ask = ask.header("access-control-request-method", "GET").header("access-control-request-headers", "authorization");
            let said = service.send(ask).await.expect(200);
            assert!(said.header("access-control-allow-headers").contains("authorization"), "{path}");
            assert_eq!(said.header("access-control-allow-origin") == origin, origin == "https://app.example", "{path} {origin}");
        }
    }
    for path in ["/oauth2/authorize", "/login", "/account"] {
        assert_eq!(allowed(path, "https://app.example").await, "", "{path}");
    }
}

#[tokio::test]
async fn a_client_may_have_its_own_name_for_the_tenant_and_another_signature() {
    let configuration = Configuration::default()
        .with("/keys", json!({"algorithms": ["ES256", "RS256", "EdDSA"]}))
        .with_client("web", "tenantClaim", "org")
        .with_client("web", "signingAlgorithm", "RS256")
        .with_client("backend", "signingAlgorithm", "EdDSA");
    let broker = Broker::start(configuration).await;
    let tokens = jane(&broker).await;
    let claims = jwt::claims(tokens.access());
    assert_eq!((&claims["org"], &claims["tenant_id"]), (&json!("acme"), &json!("acme")));
    assert_eq!(jwt::header(tokens.access())["alg"], "RS256");
    assert_eq!(jwt::header(tokens.id())["alg"], "RS256");
    broker.service().userinfo(tokens.access()).await.expect(200);
    let keys = broker.service().get("/oauth2/jwks").await.expect(200).json();
    let kinds: Vec<&Value> = keys["keys"].as_array().unwrap().iter().map(|k| &k["kty"]).collect();
    for kind in ["EC", "RSA", "OKP"] {
        assert!(kinds.iter().any(|k| *k == kind), "no {kind} key is published");
    }
}

#[tokio::test]
async fn keys_and_tokens_outlive_a_restart() {
    let mut broker = broker().await;
    let tokens = jane(&broker).await;
    let keys = broker.service().get("/oauth2/jwks").await.expect(200).json();
    assert!(broker.stop().await.success(), "it ends gracefully");
    broker.restart().await;
    assert_eq!(broker.service().get("/oauth2/jwks").await.expect(200).json(), keys);
    broker.service().userinfo(tokens.access()).await.expect(200);
    broker.service().refresh("web", tokens.refresh()).await;
}
