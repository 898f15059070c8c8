//! What the log says where everything in the program says all that it can: no token, no password, nothing of a body of Keystone's.

use denizen_tests::{
    Authorization, Broker, Keystone, Relay, Service, Tokens,
    configuration::{password_of, secret_of},
    form::links,
    keystone::Scope,
    relay::{Manner, Reply, When},
};
use serde_json::json;

use super::{
    house::{TOKENS, accept_tokens, review, reviewed, soon_good},
    stand_in::fernet,
};

/// Something that Keystone says, and no one else.
const MARKS: [&str; 3] = ["mark-of-a-refusal", "mark-of-an-error", "mark-of-a-good-answer"];

/// What is given, of one answer.
fn given(answer: Reply, count: usize, method: &str, relay: &Relay) {
    relay.set(When::path(TOKENS).method(method).next(count), Manner::Answer(answer));
}

async fn door(service: &Service, caller: &str, token: &str) -> u16 {
    let request = service.http().delete(service.at("/keystone/cloud/v3/auth/tokens"));
    service.send(request.header("X-Auth-Token", caller).header("X-Subject-Token", token)).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_no_password_and_no_body_of_keystones_is_in_the_log_at_its_most_talkative() {
    let Some(keystone) = Keystone::start().await else { return };
    let relay = Relay::before(keystone.url().strip_suffix("/v3").unwrap());
    let mut configuration = keystone.configuration(keystone.connector_at("cloud", &format!("{}/v3", relay.address())));
    accept_tokens(&mut configuration);
    configuration.set("/connectors/2/trusts", "allow");
    let mut configuration = configuration.with_client("web", "connectors", json!(["cloud"]));
    configuration.set("/guessing", json!({"accountBurst": 100, "addressBurst": 100}));
    let broker = Broker::start_logging(configuration, "trace").await;
    let service = broker.service();

    // Tokens good and bad, of every kind.
    let fixtures = keystone.fixtures();
    let web = Scope::Project(keystone.project("acme", "web"));
    let (jane, john) = (keystone.token("acme", "jane", web).await, keystone.token("acme", "john", Scope::Unscoped).await);
    let revoked = keystone.token("globex", "jane", Scope::Unscoped).await;
    keystone.revoke(&revoked).await;
    let forged = fernet(1);
    let mut sent = vec![jane.clone(), john.clone(), revoked.clone(), forged.clone()];
    sent.push(keystone.token_of_application_credential(&fixtures.application_credential).await);
    sent.push(keystone.token_of_trust("acme", "john", &fixtures.trust).await);
    sent.push(keystone.token_of_federated_user("fred", Scope::Unscoped).await);
    sent.push(keystone.token("initech", "jane", Scope::Unscoped).await);
    for token in &sent {
        review(&service, token).await.expect(200);
        review(&service, token).await.expect(200);
    }
    assert_eq!(reviewed(&service, &jane).await["username"], "acme:jane");

    // Keystone quotes what it was asked about, and says secrets when it fails.
    let mut number = 100;
    for reply in [
        |token: &str| {
            Reply::new(404, json!({"error": {"message": format!("mark-of-a-refusal: token {token} not found"), "code": 404}}).to_string())
        },
        |token: &str| Reply::new(403, format!("mark-of-a-refusal {token}")),
        |token: &str| Reply::new(500, format!("<html>mark-of-an-error {token} and the database's password</html>")),
        |token: &str| Reply::new(200, format!("mark-of-an-error is no JSON: {token}")),
        |token: &str| Reply::new(200, json!({"token": {"user": "mark-of-an-error", "secret": token}}).to_string()),
        |token: &str| Reply::new(302, "mark-of-an-error").with_header("location", &format!("http://127.0.0.1:1/mark-of-an-error/{token}")),
        |token: &str| Reply::new(401, format!("mark-of-a-refusal {token}")).with_header("x-subject-token", token),
    ] {
        number += 1;
        let token = fernet(number);
        given(reply(&token), 2, "GET", &relay);
        given(Reply::new(500, format!("mark-of-an-error {token}")), 1, "DELETE", &relay);
        review(&service, &token).await;
        door(&service, &jane, &token).await;
        relay.pass_on();
        sent.push(token);
        let good = keystone.token("acme", "jane", Scope::Unscoped).await;
        soon_good(&service, &good).await;
        sent.push(good);
    }
    let mut body = keystone.validate(&jane).await.expect(200).json();
    body["token"]["mark-of-a-good-answer"] = json!("mark-of-a-good-answer");
    body["token"]["user"]["secret"] = json!("mark-of-a-good-answer");
    given(Reply::new(200, body.to_string()), 1, "GET", &relay);
    let good = keystone.token("acme", "jane", Scope::Unscoped).await;
    assert_eq!(reviewed(&service, &good).await["username"], "acme:jane");
    sent.push(good);

    // Tokens are taken back, rightly and not.
    for (caller, token, expected) in [(&john, &jane, 403), (&revoked, &jane, 401), (&jane, &revoked, 404), (&jane, &jane, 204)] {
        assert_eq!(door(&service, caller, token).await, expected);
    }

    // People sign in at the page, and are searched.
    let mut passwords = Vec::new();
    let scope = "openid profile email users.read offline_access";
    let request = Authorization::for_search(broker.issuer()).with("tenant", "acme").with("scope", scope);
    let wrong = "a-wrong-password-of-janes";
    broker.browser().try_sign_in(&request, "jane", wrong).await.expect(422);
    let credential = &fixtures.application_credential;
    for (secret, status) in [(wrong, 422), (credential.secret.as_str(), 303)] {
        let mut browser = broker.browser();
        let page = browser.open(&request.path()).await.expect(200);
        let link = links(&page.text).into_iter().find(|link| link.contains("/login/cloud/credential")).unwrap();
        let page = browser.open(&link).await.expect(200);
        browser.submit(&page, &[("credential_id", &credential.id), ("credential_secret", secret)]).await.expect(status);
    }
    let code = broker.browser().sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let tokens: Tokens = service.exchange(&request, &code).await;
    let found = service.search(tokens.access(), "/api/v1/users", "jo").await;
    assert!(found.contains(&"acme/john".to_owned()), "{found:?}");
    for text in ["o'hara", "\u{e5}ngstr\u{f6}m", "nobody"] {
        service.search(tokens.access(), "/api/v1/users", text).await;
    }
    service.refresh("web", tokens.refresh()).await;
    passwords.push(wrong.to_owned());
    for (domain, name) in [("acme", "jane"), ("acme", "john"), ("globex", "jane"), ("Default", "denizen"), ("Default", "admin")] {
        passwords.push(password_of(domain, name));
    }
    passwords.push(fixtures.application_credential.secret.clone());
    passwords.push(secret_of("backend"));

    // Those that Denizen itself was given.
    for seen in relay.seen() {
        for name in ["x-auth-token", "x-subject-token"] {
            sent.extend(seen.headers.get(name).map(|value| value.to_str().unwrap().to_owned()));
        }
    }
    sent.extend([tokens.access(), tokens.refresh(), tokens.id(), &code].map(str::to_owned));
    sent.sort();
    sent.dedup();
    assert!(sent.len() > 20, "{}", sent.len());

    let log = broker.log();
    // Everything in the program spoke: what speaks HTTP on both sides, too.
    for part in
        [r#""level":"TRACE""#, r#""target":"hyper_util::client"#, r#""target":"reqwest"#, "upstream_token.revoked", "review.refused"]
    {
        assert!(log.contains(part), "{part} is not in the log of {} lines", log.lines().count());
    }
    for secret in sent.iter().map(String::as_str).chain(passwords.iter().map(String::as_str)).chain(MARKS) {
        if let Some(line) = log.lines().find(|line| line.contains(secret)) {
            panic!("{secret} is in the log:\n{line}");
        }
        // Nor the greater part of a token, nor one in another writing.
        for part in (secret.len() > 60).then(|| [&secret[20..50], &secret[secret.len() - 40..secret.len() - 4]]).into_iter().flatten() {
            assert!(!log.contains(part), "a part of {secret}: {part}");
        }
    }
}
