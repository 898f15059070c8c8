//! Bounds, bad input and guessing: a clear error each time, nothing secret in the logs, and no one locked out by someone else.

use std::time::Duration;

use denizen_tests::{
    Answer, Authorization, Broker, Browser, Configuration,
    configuration::{REVIEWER_TOKEN, password_of, secret_of},
    jwt,
};
use serde_json::json;

async fn broker() -> Broker {
    Broker::start(Configuration::default()).await
}

#[tokio::test]
async fn a_body_of_ten_megabytes_is_too_large_at_every_door() {
    let broker = broker().await;
    let service = broker.service();
    let mut browser = broker.browser();
    let page = browser.open(&Authorization::web().path()).await;
    let doors = ["/oauth2/token", "/oauth2/revoke", "/oauth2/authorize", "/account", page.url.path()];
    for path in doors {
        for size in [300 << 10, 10 << 20] {
            let body = format!("client_id=web&attempt=x&token={}", "x".repeat(size));
            let request = service.http().post(service.at(path)).header("content-type", "application/x-www-form-urlencoded").body(body);
            match service.try_send(request).await {
                Ok(answer) => assert_eq!(answer.status, 413, "{path}: {}", answer.text),
                // It may hang up before the body is through; the smaller one it reads.
                Err(error) => assert!(size > 1 << 20, "{path}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn headers_and_addresses_are_bounded() {
    let broker = broker().await;
    let service = broker.service();
    let mut request = service.http().get(service.at("/account"));
    for i in 0..150 {
        request = request.header(format!("x-h{i}"), "x");
    }
    assert_eq!(service.try_send(request).await.map_or(431, |a| a.status), 431);
    let huge = service.http().get(service.at("/account")).header("cookie", "x".repeat(1 << 20));
    assert!(service.try_send(huge).await.map_or(431, |a| a.status) >= 400);
    let long = service.try_send(service.http().get(service.at(&format!("/{}", "x".repeat(60_000))))).await;
    assert!(matches!(long.map_or(414, |a| a.status), 404 | 414), "a long address is no door");
    service.get("/nothing/here").await.expect(404);
    assert!(service.get("/nothing/here").await.error() == "not_found");
    service.send(service.http().delete(service.at("/api/v1/users"))).await.expect(405);
    service.get("/account").await.expect(303);
}

#[tokio::test]
async fn bad_searches_say_what_is_wrong() {
    let broker = broker().await;
    let service = broker.service();
    let tokens = broker.tokens(&Authorization::for_search(broker.issuer()), "acme", "jane").await;
    let long = format!("search={}", "x".repeat(129));
    for query in [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=201",
        "limit=99999999999999999999",
        "pageToken=x",
        "pageToken=%00",
        "pageToken=AAAA",
        "limit=1&limit=2",
        "search=a&search=b",
        "filter=x",
        "%24search=x",
        &long,
    ] {
        let answer = service.get_as(tokens.access(), &format!("/api/v1/users?{query}")).await.expect(400);
        assert_eq!(answer.error(), "invalid_request", "{query}");
        assert!(answer.json()["error_description"].as_str().is_some_and(|d| d.len() > 10), "{}", answer.text);
    }
    let many = (0..100).map(|i| format!("a{i}=1")).collect::<Vec<_>>().join("&");
    service.get_as(tokens.access(), &format!("/api/v1/users?{many}")).await.expect(400);
    for text in ["*", "*)(uid=*", "\\", "\0", "%", "_", "' or '1'='1", "(((((", "🦀"] {
        assert_eq!(service.search(tokens.access(), "/api/v1/users", text).await, Vec::<String>::new(), "{text:?} is taken literally");
    }
    assert_eq!(service.search(tokens.access(), "/api/v1/users", "  jane  ").await, ["acme/jane"]);
}

#[tokio::test]
async fn t23_an_empty_or_blank_password_is_none() {
    let patient = json!({"accountBurst": 1000, "addressBurst": 1000, "spreadBurst": 1000});
    let broker = Broker::start(Configuration::default().with("/guessing", patient)).await;
    let request = Authorization::web().with("tenant", "acme");
    for password in ["", " ", "\0", "\0\0\0", "\t\n", &"x".repeat(5_000)] {
        for username in ["jane", "nobody", "", " ", "*", &"j".repeat(5_000)] {
            let answer = broker.browser().try_sign_in(&request, username, password).await;
            assert_eq!(answer.status, 422, "{username:?} {password:?}");
            assert!(answer.location().is_none());
        }
    }
}

#[tokio::test]
async fn an_unknown_name_and_a_wrong_password_look_alike() {
    let broker = broker().await;
    let request = Authorization::web().with("tenant", "acme");
    let mut pages = Vec::new();
    for username in ["jane", "nobody", "jane@globex", "jane@nowhere"] {
        let mut browser = broker.browser();
        let answer = browser.try_sign_in(&request, username, "wrong").await.expect(422);
        let attempt = denizen_tests::form::Form::of(&answer.text).unwrap();
        let neutral = [username, attempt.value("attempt").unwrap(), attempt.value("csrf").unwrap()];
        pages.push(neutral.iter().fold(answer.text.clone(), |text, part| text.replace(part, "_")));
    }
    assert!(pages.iter().all(|page| *page == pages[0]));
    let unknown_tenant = broker.browser().try_sign_in(&Authorization::web().with("tenant", "nowhere"), "jane", "wrong").await;
    assert_eq!(unknown_tenant.status, 422, "a tenant that there is not asks for a password like any other");
}

/// Guessing at jane's account through a proxy that says where the browser is.
struct Guesser<'a> {
    broker: &'a Broker,
    browser: Browser,
}

impl<'a> Guesser<'a> {
    fn at(broker: &'a Broker, address: &str) -> Self {
        let mut browser = broker.browser();
        browser.headers.push(("x-forwarded-for".to_owned(), address.to_owned()));
        Self { broker, browser }
    }

    async fn attempt(&mut self, username: &str, password: &str) -> Answer {
        let _ = self.broker;
        let request = Authorization::web().with("tenant", "acme").with("prompt", "login");
        self.browser.try_sign_in(&request, username, password).await
    }

    async fn guess(&mut self, username: &str) -> u16 {
        self.attempt(username, "wrong").await.status
    }
}

fn slowed() -> Configuration {
    Configuration::default().with("/listen", json!({"trustedProxies": ["127.0.0.1"]})).with(
        "/guessing",
        json!({
            "accountBurst": 3, "accountSeconds": 3600, "addressBurst": 6, "addressSeconds": 3600, "spreadBurst": 8, "spreadSeconds": 3600,
        }),
    )
}

#[tokio::test]
async fn guessing_at_one_account_is_slowed_under_all_its_names() {
    let broker = Broker::start(slowed()).await;
    let mut guesser = Guesser::at(&broker, "203.0.113.1");
    for name in ["jane", "JANE", " Jane "] {
        assert_eq!(guesser.guess(name).await, 422, "{name}");
    }
    let slow = guesser.attempt("jane", "wrong").await.expect(429);
    assert!(slow.header("retry-after").parse::<u64>().unwrap() > 0);
    for name in ["ｊａｎｅ", "jane@acme", "jAnE"] {
        assert_eq!(guesser.guess(name).await, 429, "{name}");
    }
    assert_eq!(guesser.attempt("jane", &password_of("acme", "jane")).await.status, 429, "the right password is not looked at either");
    // A new browser at the same address is the same guesser.
    assert_eq!(Guesser::at(&broker, "203.0.113.1").guess("jane").await, 429);
    // Everyone else goes on: another account there, the same account elsewhere.
    let alice = Guesser::at(&broker, "203.0.113.1").attempt("alice", &password_of("acme", "alice")).await;
    assert_eq!(alice.status, 303);
    let jane = Guesser::at(&broker, "203.0.113.2").attempt("jane", &password_of("acme", "jane")).await;
    assert_eq!(jane.status, 303);
}

#[tokio::test]
async fn guessing_from_one_address_is_slowed_over_all_accounts() {
    let broker = Broker::start(slowed()).await;
    let mut guesser = Guesser::at(&broker, "203.0.113.1");
    for i in 0..6 {
        assert_eq!(guesser.guess(&format!("nobody{i}")).await, 422);
    }
    assert_eq!(guesser.guess("nobody9").await, 429);
    // An address that the guesser makes up is not believed beyond the proxy's own word.
    let mut liar = broker.browser();
    liar.headers.push(("x-forwarded-for".to_owned(), "198.51.100.9, 203.0.113.1".to_owned()));
    let request = Authorization::web().with("tenant", "acme");
    assert_eq!(liar.try_sign_in(&request, "nobody9", "wrong").await.status, 429);
    assert_eq!(Guesser::at(&broker, "203.0.113.2").attempt("jane", &password_of("acme", "jane")).await.status, 303);
}

#[tokio::test]
async fn a_spread_attack_does_not_lock_the_owner_out() {
    let broker = Broker::start(slowed()).await;
    let mut owner = Guesser::at(&broker, "192.0.2.1");
    assert_eq!(owner.attempt("jane", &password_of("acme", "jane")).await.status, 303);
    for i in 0..8 {
        assert_eq!(Guesser::at(&broker, &format!("203.0.113.{i}")).guess("jane").await, 422);
    }
    assert_eq!(Guesser::at(&broker, "203.0.113.99").guess("jane").await, 429, "newcomers wait");
    assert_eq!(owner.attempt("jane", &password_of("acme", "jane")).await.status, 303, "her own browser does not");
    // Her mark is hers: it helps no other account, and no one makes one up.
    let mut thief = Guesser::at(&broker, "203.0.113.100");
    thief.browser.cookies.insert("denizen-known".to_owned(), "made-up.made-up".to_owned());
    assert_eq!(thief.guess("jane").await, 429);
}

#[tokio::test]
async fn a_hundred_tries_at_once_are_no_more_than_the_bucket_holds() {
    let broker = Broker::start(slowed()).await;
    let tries = (0..100).map(|_| {
        let mut guesser = Guesser::at(&broker, "203.0.113.1");
        async move { guesser.guess("jane").await }
    });
    let answers = futures_util::future::join_all(tries).await;
    assert_eq!(answers.iter().filter(|status| **status == 422).count(), 3);
    assert!(answers.iter().all(|status| matches!(status, 422 | 429)));
}

#[tokio::test]
async fn without_trusted_proxies_a_forwarded_address_is_not_believed() {
    let mut configuration = slowed();
    configuration.set("/listen/trustedProxies", json!([]));
    let broker = Broker::start(configuration).await;
    for i in 0..3 {
        assert_eq!(Guesser::at(&broker, &format!("203.0.113.{i}")).guess("jane").await, 422);
    }
    assert_eq!(Guesser::at(&broker, "203.0.113.77").guess("jane").await, 429);
}

#[tokio::test]
async fn nothing_secret_reaches_the_log() {
    let broker = broker().await;
    let service = broker.service();
    let mut browser = broker.browser();
    let request =
        Authorization::web().with("tenant", "acme").with("state", "state-of-the-application").with("nonce", "nonce-of-the-application");
    let mut secrets =
        vec![password_of("acme", "jane"), "a-wrong-password".to_owned(), REVIEWER_TOKEN.to_owned(), secret_of("acme-service")];
    browser.try_sign_in(&request, "jane", "a-wrong-password").await.expect(422);
    let code = browser.sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let tokens = service.exchange(&request, &code).await;
    service.try_exchange(&request, "a-code-that-was-made-up").await.expect(400);
    let next = service.refresh("web", tokens.refresh()).await;
    service.review(REVIEWER_TOKEN, next.access(), &[]).await;
    service.review_request(Some("a-wrong-reviewer-token"), "v1", &json!({})).await.expect(401);
    let own = service.client_credentials("acme-service").await;
    service.get_as(own.access(), "/api/v1/users?search=jane").await.expect(200);
    service.get_as(&jwt::with_claims(next.access(), |c| c["tenant_id"] = json!("globex")), "/api/v1/users").await.expect(401);
    service.get(&format!("/api/v1/users?access_token={}", next.access())).await.expect(401);
    service
        .token(&[("grant_type", "client_credentials"), ("client_id", "acme-service"), ("client_secret", "a-wrong-secret")])
        .await
        .expect(401);
    secrets.extend(browser.cookies.values().cloned());
    browser.sign_out().await.expect(200);

    for token in [&tokens, &next] {
        secrets.extend([token.access(), token.refresh(), token.id()].map(str::to_owned));
        secrets.push(token.access().rsplit('.').next().unwrap().to_owned());
    }
    let more = ["a-code-that-was-made-up", "a-wrong-reviewer-token", "a-wrong-secret", own.access(), &code, &request.verifier];
    secrets.extend(more.map(str::to_owned));
    secrets
        .extend(["state-of-the-application", "nonce-of-the-application", "jane@acme.example", "Jane Jones", "$argon2"].map(str::to_owned));
    // The store's own sweep aside, every line is written before its answer.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let log = broker.log();
    assert!(log.contains("sign_in") && log.contains("token.granted") && log.contains("review"), "there is an audit:\n{log}");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log");
    }
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "no JSON: {line}");
    }
}

#[tokio::test]
async fn what_happens_is_audited_with_tenant_user_and_reason() {
    let broker = broker().await;
    let tokens = broker.tokens(&Authorization::for_search(broker.issuer()), "acme", "jane").await;
    let sub = jwt::claims(tokens.access())["sub"].clone();
    let service = broker.service();
    service.search(tokens.access(), "/api/v1/users", "").await;
    service.review(REVIEWER_TOKEN, tokens.access(), &[]).await;
    broker.browser().try_sign_in(&Authorization::web().with("tenant", "acme"), "jane", "wrong").await.expect(422);
    service.try_refresh("web", "nonsense").await.expect(400);
    let lines: Vec<serde_json::Value> = broker.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let find = |event: &str| {
        let found = lines.iter().find(|line| line["target"] == "audit" && line["event"] == event);
        found.unwrap_or_else(|| panic!("no {event} in\n{}", broker.log())).clone()
    };
    for event in ["sign_in", "token.granted", "search"] {
        let line = find(event);
        assert_eq!((&line["tenant.id"], &line["user.id"]), (&json!("acme"), &sub), "{line}");
    }
    for event in ["sign_in.refused", "review.refused", "token.refused"] {
        assert!(find(event)["reason"].is_string(), "{event} has no reason");
    }
    assert_eq!(find("review.refused")["reviewer.id"], "kubernetes");
}

#[tokio::test]
async fn health_and_metrics_are_on_their_own_listener() {
    let broker = broker().await;
    let service = broker.service();
    broker.tokens(&Authorization::web(), "acme", "jane").await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        service.get(path).await.expect(404);
        service.send(service.http().get(format!("{}{path}", broker.admin()))).await.expect(200);
    }
    let metrics = service.send(service.http().get(format!("{}/metrics", broker.admin()))).await;
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    assert!(metrics.text.ends_with("# EOF\n") && !metrics.text.contains("jane"), "{}", metrics.text);
    service.send(service.http().get(format!("{}/oauth2/jwks", broker.admin()))).await.expect(404);
}
