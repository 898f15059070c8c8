//! `kill -9` at any moment: what was answered is still true after the restart.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use denizen_tests::{Authorization, Broker, Configuration, Service, Tokens, browser::code, configuration::password_of, jwt};
use tokio::sync::Notify;

/// Counts answers, and tells when there are enough of them to pull the plug.
#[derive(Clone)]
struct Countdown {
    left: Arc<AtomicUsize>,
    over: Arc<Notify>,
}

impl Countdown {
    fn from(count: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(count)), over: Arc::new(Notify::new()) }
    }

    fn answered(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.over.notify_one();
        }
    }
}

/// What was answered to one who exchanges codes and refreshes until the broker is gone.
#[derive(Default)]
struct Answered {
    codes: Vec<(String, Tokens)>,
    /// Old refresh token, and what replaced it.
    rotated: Vec<(String, Tokens)>,
    /// Codes that were given and not used yet.
    unused: Vec<String>,
}

/// Works until the broker is gone.
async fn work(service: Service, request: Authorization, mut codes: VecDeque<String>, countdown: Countdown) -> Answered {
    let mut answered = exchange(&service, &request, &mut codes, &countdown).await;
    answered.unused.extend(codes);
    answered
}

/// Each code is exchanged, and its first refresh token is rotated every second time.
async fn exchange(service: &Service, request: &Authorization, codes: &mut VecDeque<String>, countdown: &Countdown) -> Answered {
    let mut answered = Answered::default();
    while let Some(code) = codes.pop_front() {
        let Ok(answer) = service.try_send(service.exchange_request(request, &code)).await else { return answered };
        let tokens = Tokens(answer.expect(200).json());
        countdown.answered();
        if codes.len().is_multiple_of(2) {
            answered.codes.push((code, tokens));
            continue;
        }
        let old = tokens.refresh().to_owned();
        answered.codes.push((code, tokens));
        let Ok(answer) = service.try_send(service.refresh_request("web", &old)).await else { return answered };
        answered.rotated.push((old, Tokens(answer.expect(200).json())));
        countdown.answered();
    }
    answered
}

#[tokio::test]
async fn t39_what_was_answered_before_kill_9_holds_after_it() {
    let mut broker = Broker::start(Configuration::default().with("/lifetimes", serde_json::json!({"codeSeconds": 600}))).await;
    let request = Authorization::web().with("tenant", "acme");
    let mut browser = broker.browser();
    let mut first = Some(browser.sign_in(&request, "jane", &password_of("acme", "jane")).await);
    // The moment of the kill differs from round to round: after so many answers, with other requests under way.
    for (round, count) in [1, 2, 7, 16, 30].into_iter().enumerate() {
        let countdown = Countdown::from(count);
        let mut workers = Vec::new();
        for _ in 0..4 {
            let mut codes = VecDeque::new();
            for _ in 0..12 {
                codes.push_back(match first.take() {
                    Some(code) => code,
                    None => code(&browser.get(&request.path()).await),
                });
            }
            workers.push(tokio::spawn(work(broker.service(), request.clone(), codes, countdown.clone())));
        }
        countdown.over.notified().await;
        broker.kill();
        let mut answered = Answered::default();
        for worker in workers {
            let part = worker.await.unwrap();
            answered.codes.extend(part.codes);
            answered.rotated.extend(part.rotated);
            answered.unused.extend(part.unused);
        }
        assert!(answered.codes.len() + answered.rotated.len() >= count);
        broker.restart().await;
        check(&broker, &request, &answered).await;
        assert_eq!(browser.get("/account").await.status, 200, "round {round}: the session is there");
    }
}

async fn check(broker: &Broker, request: &Authorization, answered: &Answered) {
    let service = broker.service();
    // What was given is good.
    for code in &answered.unused {
        service.exchange(request, code).await;
    }
    let rotated: Vec<&str> = answered.rotated.iter().map(|(old, _)| old.as_str()).collect();
    for (_, tokens) in answered.codes.iter().chain(&answered.rotated) {
        service.userinfo(tokens.access()).await.expect(200);
    }
    // A rotated token is refused, and takes its family with it.
    for (old, next) in &answered.rotated {
        assert_eq!(service.try_refresh("web", old).await.expect(400).error(), "invalid_grant");
        service.userinfo(next.access()).await.expect(401);
        assert_eq!(service.try_refresh("web", next.refresh()).await.expect(400).error(), "invalid_grant");
    }
    // A used code is refused. Its refresh token was good until then, unless a refresh was under way when the plug was pulled.
    for (code, tokens) in &answered.codes {
        assert_eq!(service.try_exchange(request, code).await.expect(400).error(), "invalid_grant");
        if !rotated.contains(&tokens.refresh()) {
            service.userinfo(tokens.access()).await.expect(401);
        }
    }
}

#[tokio::test]
async fn t39_a_rotated_refresh_token_is_refused_after_a_restart() {
    let mut broker = Broker::start(Configuration::default()).await;
    let first = broker.tokens(&Authorization::web(), "acme", "jane").await;
    let second = broker.service().refresh("web", first.refresh()).await;
    broker.kill();
    broker.restart().await;
    let third = broker.service().refresh("web", second.refresh()).await;
    broker.kill();
    broker.restart().await;
    assert_eq!(broker.service().try_refresh("web", first.refresh()).await.expect(400).error(), "invalid_grant");
    assert_eq!(broker.service().try_refresh("web", third.refresh()).await.expect(400).error(), "invalid_grant");
}

#[tokio::test]
async fn ends_that_were_answered_stay_ends() {
    let mut broker = Broker::start(Configuration::default()).await;
    let request = Authorization::web().with("tenant", "acme");
    let mut browser = broker.browser();
    let code = browser.sign_in(&request, "jane", &password_of("acme", "jane")).await;
    let signed_out = broker.service().exchange(&request, &code).await;
    let revoked = broker.tokens(&Authorization::web(), "acme", "alice").await;
    let before = browser.clone();
    browser.sign_out().await.expect(200);
    broker.service().revoke("web", revoked.access()).await.expect(200);
    broker.kill();
    broker.restart().await;
    for tokens in [&signed_out, &revoked] {
        broker.service().userinfo(tokens.access()).await.expect(401);
    }
    let mut before = before;
    assert_eq!(before.get("/account").await.status, 303);
}

#[tokio::test]
async fn ids_stay_the_same_and_a_sign_in_under_way_goes_on() {
    let mut broker = Broker::start(Configuration::default()).await;
    let tokens = broker.tokens(&Authorization::for_search(broker.issuer()), "acme", "jane").await;
    let sub = jwt::claims(tokens.access())["sub"].as_str().unwrap().to_owned();
    let mut browser = broker.browser();
    let page = browser.open(&Authorization::web().with("tenant", "acme").path()).await;
    broker.kill();
    broker.restart().await;
    let answer = browser.submit(&page, &[("username", "jane"), ("password", &password_of("acme", "jane"))]).await;
    let again = broker.service().exchange(&Authorization::web(), &code(&answer)).await;
    assert_eq!(jwt::claims(again.access())["sub"], sub);
    broker.service().get_as(tokens.access(), &format!("/api/v1/users/{sub}")).await.expect(200);
}

#[tokio::test]
async fn a_store_has_one_broker_at_a_time() {
    let broker = Broker::start(Configuration::default()).await;
    let configuration = broker.folder().join("second.yaml");
    let text = std::fs::read_to_string(broker.folder().join("denizen.yaml")).unwrap();
    let mut second: serde_json::Value = serde_json::from_str(&text).unwrap();
    second["listen"] = serde_json::json!({"address": "127.0.0.1:0", "adminAddress": "127.0.0.1:0"});
    std::fs::write(&configuration, second.to_string()).unwrap();
    let said = denizen_tests::broker::command(&["serve", "--config", configuration.to_str().unwrap()]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("denizen.redb"), "it says which file: {}", said.err);
}
