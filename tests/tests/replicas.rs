//! Three replicas over one Redis: what one does, all know; what one loses, the others have; and what Redis' absence costs.
#![expect(clippy::indexing_slicing, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use denizen_tests::{
    Answer, Authorization, Browser, Configuration, Redis, RedisPair, Replicas, Service, Tokens,
    browser::code,
    configuration::{KUBERNETES, REVIEWER_TOKEN, password_of, secret_of},
    jwt,
    redis::{PASSWORD, USER},
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Three replicas on one server.
async fn three() -> (Redis, Replicas) {
    let redis = Redis::single().await;
    let replicas = Replicas::start(3, on(redis.as_store())).await;
    (redis, replicas)
}

fn on(store: Value) -> Configuration {
    Configuration::default().with("/store", store)
}

fn web() -> Authorization {
    Authorization::web().with("tenant", "acme")
}

/// What a review says: `None` where it could not be told (503).
async fn review(service: &Service, token: &str) -> Option<bool> {
    let body =
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, "audiences": [KUBERNETES]}});
    let answer = service.review_request(Some(REVIEWER_TOKEN), "v1", &body).await;
    match answer.status {
        503 => None,
        200 => answer.json()["status"]["authenticated"].as_bool(),
        _ => panic!("{}: {}", answer.status, answer.text),
    }
}

#[tokio::test]
async fn what_one_began_another_goes_on_with() {
    let (_redis, replicas) = three().await;
    let keys: BTreeSet<String> =
        join_all((0..3).map(async |i| replicas.service_at(i).get("/oauth2/jwks").await.expect(200).text)).await.into_iter().collect();
    assert_eq!(keys.len(), 1, "those that started at once have the same keys: {keys:?}");

    // The page of one, the password at another, the code at the third.
    let mut browser = replicas.browser_at(0);
    let page = browser.open(&web().path()).await;
    Replicas::send_to(&mut browser, 1);
    let answer = browser.submit(&page, &[("username", "jane"), ("password", &password_of("acme", "jane"))]).await;
    assert_eq!(answer.header("x-replica"), "1");
    let tokens = replicas.service_at(2).exchange(&web(), &code(&answer)).await;
    let sub = jwt::claims(tokens.access())["sub"].clone();
    for i in 0..3 {
        let service = replicas.service_at(i);
        assert_eq!(review(&service, tokens.access()).await, Some(true), "replica {i}");
        assert_eq!(service.userinfo(tokens.access()).await.expect(200).json()["sub"], sub);
        Replicas::send_to(&mut browser, i);
        assert_eq!(browser.get("/account").await.status, 200, "she is signed in at {i}");
    }
    // Each refresh at the next one.
    let mut last = tokens;
    for i in [1, 0, 2, 2, 1] {
        last = replicas.service_at(i).refresh("web", last.refresh()).await;
        assert_eq!(review(&replicas.service_at((i + 1) % 3), last.access()).await, Some(true));
    }
    // Someone who signs in elsewhere is the same person.
    let again = replicas.tokens(&Authorization::web(), "acme", "jane").await;
    assert_eq!(jwt::claims(again.access())["sub"], sub);
    let other = replicas.tokens(&Authorization::web(), "globex", "jane").await;
    assert_ne!(jwt::claims(other.access())["sub"], sub);
}

#[tokio::test]
async fn a_search_finds_the_same_at_every_replica() {
    let (_redis, replicas) = three().await;
    let tokens = replicas.tokens(&Authorization::for_search(replicas.issuer()), "acme", "jane").await;
    let mut ids = BTreeSet::new();
    for i in 0..3 {
        let service = replicas.service_at(i);
        assert_eq!(service.search(tokens.access(), "/api/v1/users", "jane").await, ["acme/jane"], "and never globex/jane");
        assert_eq!(service.search(tokens.access(), "/api/v1/users", "").await, ["acme/alice", "acme/bob", "acme/jane"]);
        let found = service.get_as(tokens.access(), "/api/v1/users?search=bob").await.expect(200).json();
        ids.insert(found["users"][0]["id"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(ids.len(), 1, "one person has one id: {ids:?}");
    let id = ids.first().cloned().unwrap_or_default();
    for i in 0..3 {
        replicas.service_at(i).get_as(tokens.access(), &format!("/api/v1/users/{id}")).await.expect(200);
    }
}

/// Asks one replica for reviews of a token until it has said no for a while: how long after `ended` its last yes came, and how many
/// answers there were. After a no comes no yes.
async fn when_it_says_no(service: &Service, token: &str, ended: &tokio::sync::watch::Receiver<Option<Instant>>) -> (Duration, usize) {
    let (mut last_yes, mut first_no, mut answers) = (None, None::<Instant>, 0);
    while first_no.is_none_or(|at| at.elapsed() < Duration::from_millis(300)) {
        let asked = Instant::now();
        answers += 1;
        match review(service, token).await {
            Some(true) => {
                assert!(first_no.is_none(), "what has ended lives again");
                last_yes = Some(Instant::now());
            }
            Some(false) => first_no = first_no.or(Some(asked)),
            None => {}
        }
        let since = *ended.borrow();
        assert!(since.is_none_or(|at| first_no.is_some() || at.elapsed() < Duration::from_secs(10)), "it never says no");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let ended = ended.borrow().expect("it said no before the end");
    (last_yes.map_or(Duration::ZERO, |yes| yes.saturating_duration_since(ended)), answers)
}

/// Ends something at one replica while all are asked, and gives how late each of them still said yes.
async fn lateness(replicas: &Replicas, token: &str, end: impl AsyncFnOnce()) -> Vec<Duration> {
    for i in 0..3 {
        assert_eq!(review(&replicas.service_at(i), token).await, Some(true), "replica {i} knows it");
    }
    let (ended, has_ended) = tokio::sync::watch::channel(None);
    let ask = (0..3).map(|i| {
        let (service, has_ended, token) = (replicas.service_at(i), has_ended.clone(), token.to_owned());
        tokio::spawn(async move { when_it_says_no(&service, &token, &has_ended).await })
    });
    let asking: Vec<_> = ask.collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    // They see it from the moment on at which it is answered; a no before that is right, too.
    let begun = Instant::now();
    ended.send_replace(Some(begun));
    end().await;
    ended.send_replace(Some(Instant::now()));
    join_all(asking).await.into_iter().map(|asked| asked.map(|(late, _)| late).unwrap_or(Duration::MAX)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_at_one_replica_ends_at_all_within_a_second() {
    let (_redis, replicas) = three().await;
    let mut late = Vec::new();
    for round in 0..9 {
        let at = round % 3;
        let mut browser = replicas.browser_at(at);
        let code = browser.sign_in(&web(), "jane", &password_of("acme", "jane")).await;
        let tokens = replicas.service().exchange(&web(), &code).await;
        late.extend(lateness(&replicas, tokens.access(), async || _ = browser.sign_out().await.expect(200)).await);
    }
    tell("a sign-out", &late);
    let mut late = Vec::new();
    for at in [0, 1, 2] {
        let tokens = replicas.tokens(&Authorization::web(), "acme", "alice").await;
        let service = replicas.service_at(at);
        late.extend(lateness(&replicas, tokens.access(), async || _ = service.revoke("web", tokens.access()).await.expect(200)).await);
    }
    tell("a token taken back", &late);
    let mut late = Vec::new();
    for at in [0, 1, 2] {
        let first = replicas.tokens(&Authorization::web(), "acme", "bob").await;
        let second = replicas.service_at(at).refresh("web", first.refresh()).await;
        let service = replicas.service_at((at + 1) % 3);
        let reuse = async || assert_eq!(service.try_refresh("web", first.refresh()).await.expect(400).error(), "invalid_grant");
        late.extend(lateness(&replicas, second.access(), reuse).await);
    }
    tell("a family whose old token was shown", &late);
}

fn tell(what: &str, late: &[Duration]) {
    let mut sorted = late.to_vec();
    sorted.sort();
    println!(
        "{what}: last yes came after the answer, in {} cases, by: median {:?}, highest {:?}",
        sorted.len(),
        sorted[sorted.len() / 2],
        sorted.last()
    );
    assert!(sorted.iter().all(|late| *late <= Duration::from_secs(1)), "{what}: {sorted:?}");
}

#[tokio::test]
async fn t35_a_code_shown_to_all_replicas_at_once_is_good_once() {
    let (_redis, replicas) = three().await;
    for _ in 0..5 {
        let code = replicas.browser().sign_in(&web(), "jane", &password_of("acme", "jane")).await;
        let tries = (0..9).map(|i| {
            let (service, code) = (replicas.service_at(i % 3), code.clone());
            async move { service.try_exchange(&web(), &code).await }
        });
        let answers = join_all(tries).await;
        let good: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(good.len(), 1, "{:?}", statuses(&answers));
        assert!(answers.iter().filter(|a| a.status != 200).all(|a| a.error() == "invalid_grant"), "{:?}", statuses(&answers));
        // The others took back what it gave, at every replica.
        let tokens = Tokens(good[0].json());
        for i in 0..3 {
            replicas.service_at(i).userinfo(tokens.access()).await.expect(401);
            assert_eq!(replicas.service_at(i).try_refresh("web", tokens.refresh()).await.expect(400).error(), "invalid_grant");
        }
    }
}

fn statuses(answers: &[Answer]) -> Vec<(u16, String)> {
    answers.iter().map(|answer| (answer.status, answer.error())).collect()
}

#[tokio::test]
async fn t38_of_fifty_refreshes_at_once_over_all_replicas_one_wins() {
    let (_redis, replicas) = three().await;
    let tokens = replicas.tokens(&Authorization::web(), "acme", "jane").await;
    let tries = (0..50).map(|i| {
        let (service, token) = (replicas.service_at(i % 3), tokens.refresh().to_owned());
        async move { service.try_refresh("web", &token).await }
    });
    let answers = join_all(tries).await;
    assert_eq!(answers.iter().filter(|a| a.status == 200).count(), 1, "{:?}", statuses(&answers));
    assert!(answers.iter().filter(|a| a.status != 200).all(|a| a.error() == "invalid_grant"), "{:?}", statuses(&answers));
}

#[tokio::test]
async fn t39_a_rotated_token_is_refused_everywhere_after_restarts_of_everything() {
    let (mut redis, mut replicas) = three().await;
    let first = replicas.tokens(&Authorization::web(), "acme", "jane").await;
    let second = replicas.service_at(0).refresh("web", first.refresh()).await;
    let ended = replicas.browser().sign_in(&web(), "alice", &password_of("acme", "alice")).await;
    let ended = replicas.service_at(1).exchange(&web(), &ended).await;
    replicas.service_at(1).revoke("web", ended.refresh()).await.expect(200);
    redis.server_mut().kill();
    for i in 0..3 {
        replicas.kill(i);
    }
    redis.server_mut().restart().await;
    for i in 0..3 {
        replicas.restart(i).await;
    }
    let third = replicas.service_at(1).refresh("web", second.refresh()).await;
    assert_eq!(replicas.service_at(2).try_refresh("web", first.refresh()).await.expect(400).error(), "invalid_grant");
    for i in 0..3 {
        let service = replicas.service_at(i);
        assert_eq!(service.try_refresh("web", third.refresh()).await.expect(400).error(), "invalid_grant", "the family fell with it");
        assert_eq!(review(&service, third.access()).await, Some(false));
        assert_eq!(review(&service, ended.access()).await, Some(false), "what was revoked stays revoked");
    }
}

#[tokio::test]
async fn guessing_is_counted_over_all_replicas() {
    let redis = Redis::single().await;
    let slowed = json!({
        "accountBurst": 4, "accountSeconds": 3600, "addressBurst": 100, "addressSeconds": 3600, "spreadBurst": 100, "spreadSeconds": 3600,
    });
    let replicas = Replicas::start(3, on(redis.as_store()).with("/guessing", slowed)).await;
    let guess = async |at: usize, name: &str, password: &str| replicas.browser_at(at).try_sign_in(&web(), name, password).await;
    for at in [0, 1, 2, 0] {
        assert_eq!(guess(at, "jane", "wrong").await.status, 422);
    }
    for at in [0, 1, 2] {
        let slow = guess(at, "jane", "wrong").await.expect(429);
        assert!(slow.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0));
        assert_eq!(guess(at, "jane", &password_of("acme", "jane")).await.status, 429, "the right one is not looked at either");
    }
    assert_eq!(guess(1, "alice", &password_of("acme", "alice")).await.status, 303, "everyone else goes on");
    let at_once = (0..30).map(|i| guess(i % 3, "bob", "wrong"));
    let answers = join_all(at_once).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 422).count(), 4, "{:?}", statuses(&answers));
}

/// Someone at the balancer.
struct Client {
    http: reqwest::Client,
    issuer: String,
    service: Service,
    name: &'static str,
}

impl Client {
    /// Signs in, as often as it takes.
    async fn sign_in(&self) -> Tokens {
        loop {
            let mut browser = Browser::new(self.http.clone(), &self.issuer);
            let answer = browser.try_sign_in(&web(), self.name, &password_of("acme", self.name)).await;
            if answer.status == 303 {
                let answer = self.service.try_exchange(&web(), &code(&answer)).await;
                if answer.status == 200 {
                    return Tokens(answer.json());
                }
            }
        }
    }
}

/// What a client saw that refreshes and reviews, and tries again what was not answered.
#[derive(Default, Debug)]
struct Worked {
    good: usize,
    tried_again: usize,
    signed_in_anew: usize,
}

async fn work(client: Client, mut tokens: Tokens, over: CancellationToken) -> Worked {
    let service = &client.service;
    let mut worked = Worked::default();
    let mut is_in_doubt = false;
    while !over.is_cancelled() {
        let answer = service.try_send(service.refresh_request("web", tokens.refresh())).await;
        match answer.map(|answer| (answer.status, answer)) {
            Ok((200, answer)) => {
                tokens = Tokens(answer.json());
                worked.good += 1;
                is_in_doubt = false;
            }
            // The answer to an earlier try was lost with the replica: it may have been carried out.
            Ok((400, answer)) if is_in_doubt => {
                assert_eq!(answer.error(), "invalid_grant");
                worked.signed_in_anew += 1;
                tokens = client.sign_in().await;
                is_in_doubt = false;
            }
            Ok((502, _)) | Err(_) => {
                is_in_doubt = true;
                worked.tried_again += 1;
                continue;
            }
            Ok((503, _)) => {
                worked.tried_again += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            Ok((status, answer)) => panic!("{status}: {}", answer.text),
        }
        let body = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": tokens.access()}});
        let answer = service.review_request(Some(REVIEWER_TOKEN), "v1", &body).await;
        match answer.status {
            200 => assert_eq!(answer.json()["status"]["authenticated"], true, "a living token is good: {}", answer.text),
            502 | 503 => worked.tried_again += 1,
            status => panic!("{status}: {}", answer.text),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    worked
}

/// Lets six clients work while something is done to the replicas.
async fn meanwhile(replicas: &mut Replicas, deed: impl AsyncFnOnce(&mut Replicas)) -> Worked {
    let over = CancellationToken::new();
    let mut working = Vec::new();
    for i in 0..6 {
        let name = ["jane", "alice", "bob"][i % 3];
        let tokens = replicas.tokens(&Authorization::web(), "acme", name).await;
        let client = Client { http: replicas.http(), issuer: replicas.issuer().to_owned(), service: replicas.service(), name };
        working.push(tokio::spawn(work(client, tokens, over.clone())));
    }
    deed(replicas).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    over.cancel();
    let mut all = Worked::default();
    for worked in join_all(working).await {
        let worked = worked.expect("a client saw what it must not");
        all.good += worked.good;
        all.tried_again += worked.tried_again;
        all.signed_in_anew += worked.signed_in_anew;
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_costs_nobody_anything() {
    let (_redis, mut replicas) = three().await;
    let worked = meanwhile(&mut replicas, async |replicas| {
        for i in 0..3 {
            replicas.restart_in_order(i).await;
        }
    })
    .await;
    println!("a rolling restart: {worked:?}");
    assert!(worked.good > 30 && worked.signed_in_anew == 0, "{worked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_replica_costs_a_retry() {
    let (_redis, mut replicas) = three().await;
    let before = replicas.browser().sign_in(&web(), "jane", &password_of("acme", "jane")).await;
    let before = replicas.service_at(0).exchange(&web(), &before).await;
    let worked = meanwhile(&mut replicas, async |replicas| {
        replicas.kill(0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        replicas.restart(0).await;
        replicas.kill(1);
        replicas.kill(2);
        tokio::time::sleep(Duration::from_secs(1)).await;
        replicas.restart(2).await;
    })
    .await;
    println!("three lost replicas: {worked:?}");
    assert!(worked.good > 30 && worked.signed_in_anew <= 6, "{worked:?}");
    // Only the third and the first are there, and what the lost ones gave is good.
    let next = replicas.service().refresh("web", before.refresh()).await;
    assert_eq!(review(&replicas.service(), next.access()).await, Some(true));
}

/// Asks until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

/// What is promised while Redis does not answer: 503 or a right answer within the deadline, and nobody is ready.
async fn away(replicas: &Replicas, tokens: &Tokens, browser: &Browser) {
    for i in 0..3 {
        until("not ready", async || !replicas.is_ready(i).await).await;
        let service = replicas.service_at(i);
        service.send(service.http().get(format!("{}/healthz", replicas.broker(i).admin()))).await.expect(200);
        // A mark holds for one second: after it, nobody says yes from memory.
        until("no yes from memory", async || review(&service, tokens.access()).await.is_none()).await;
        let begun = Instant::now();
        assert_eq!(service.try_refresh("web", tokens.refresh()).await.expect(503).error(), "temporarily_unavailable");
        service.userinfo(tokens.access()).await.expect(503);
        let mut browser = browser.clone();
        Replicas::send_to(&mut browser, i);
        assert_eq!(browser.get("/account").await.status, 503, "she is not told that she is signed out");
        assert!(begun.elapsed() < Duration::from_secs(9), "each answer comes within the deadline: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn while_redis_is_away_it_is_503_and_then_it_works() {
    let (mut redis, replicas) = three().await;
    let mut browser = replicas.browser();
    let code = browser.sign_in(&web(), "jane", &password_of("acme", "jane")).await;
    let tokens = replicas.service().exchange(&web(), &code).await;
    redis.server_mut().kill();
    away(&replicas, &tokens, &browser).await;
    redis.server_mut().restart().await;
    for i in 0..3 {
        println!("ready again after {:?}", until("ready", async || replicas.is_ready(i).await).await);
        assert_eq!(review(&replicas.service_at(i), tokens.access()).await, Some(true), "the same token is good again");
    }
    let next = replicas.service().refresh("web", tokens.refresh()).await;
    assert_eq!(browser.get("/account").await.status, 200, "her session is what it was");

    redis.server().freeze();
    away(&replicas, &next, &browser).await;
    redis.server().thaw();
    for i in 0..3 {
        until("ready", async || replicas.is_ready(i).await).await;
        until("a yes", async || review(&replicas.service_at(i), next.access()).await == Some(true)).await;
    }
    assert_eq!(browser.get("/account").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t39_what_was_answered_holds_after_failovers() {
    let mut pair = RedisPair::start().await;
    let replicas = Replicas::start(3, on(pair.as_store())).await;
    let mut browser = replicas.browser();
    let used = browser.sign_in(&web(), "jane", &password_of("acme", "jane")).await;
    let mut first = replicas.service().exchange(&web(), &used).await;
    for round in 0..2 {
        let old = replicas.tokens(&Authorization::web(), "acme", "bob").await;
        let new = replicas.service().refresh("web", old.refresh()).await;
        let gone = replicas.tokens(&Authorization::web(), "acme", "alice").await;
        replicas.service().revoke("web", gone.refresh()).await.expect(200);
        let out = replicas.tokens(&Authorization::web(), "globex", "jane").await;
        replicas.service().revoke("web", out.access()).await.expect(200);
        pair.fail_over().await;
        for i in 0..3 {
            println!("{round}: ready {:?} after the failover", until("ready", async || replicas.is_ready(i).await).await);
        }
        for i in 0..3 {
            let service = replicas.service_at(i);
            assert_eq!(review(&service, gone.access()).await, Some(false), "what was revoked");
            assert_eq!(review(&service, out.access()).await, Some(false), "what was taken back");
            assert_eq!(review(&service, first.access()).await, Some(true), "what was given");
        }
        assert_eq!(browser.get("/account").await.status, 200);
        first = replicas.service().refresh("web", first.refresh()).await;
        assert_eq!(replicas.service().try_refresh("web", old.refresh()).await.expect(400).error(), "invalid_grant");
        assert_eq!(replicas.service().try_refresh("web", new.refresh()).await.expect(400).error(), "invalid_grant");
    }
    assert_eq!(replicas.service().try_exchange(&web(), &used).await.expect(400).error(), "invalid_grant");
    assert_eq!(review(&replicas.service(), first.access()).await, Some(false), "and it takes back what it gave");
}

/// What replicas do by themselves now and then: it is not a review's.
fn is_of_a_review(command: &str) -> bool {
    !["replica", "lease", "probe", "format", "signing_key", "signing-key"].iter().any(|kind| command.contains(&format!(":{kind}")))
}

#[tokio::test]
async fn a_review_costs_one_round_trip_and_a_repeated_one_none() {
    let redis = Redis::single().await;
    let replicas = Replicas::start(2, on(redis.as_store())).await;
    let service = Service::new(replicas.http(), &replicas.broker(0).address());
    let mut tokens = Vec::new();
    for _ in 0..10 {
        tokens.push(replicas.tokens(&Authorization::web(), "acme", "jane").await);
    }
    // The connections are there, and whatever is looked up once is known.
    assert_eq!(review(&service, tokens[0].access()).await, Some(true));
    let monitor = redis.server().monitor();
    for token in &tokens[1..] {
        _ = monitor.take(redis.server());
        assert_eq!(review(&service, token.access()).await, Some(true));
        let asked: Vec<String> = monitor.take(redis.server()).into_iter().filter(|line| is_of_a_review(line)).collect();
        assert!(asked.len() <= 1, "a new token costs one round trip at most: {asked:#?}");
    }
    redis.server().forget_commands();
    _ = monitor.take(redis.server());
    let begun = Instant::now();
    for _ in 0..20 {
        for token in &tokens {
            assert_eq!(review(&service, token.access()).await, Some(true));
        }
    }
    let asked: Vec<String> = monitor.take(redis.server()).into_iter().filter(|line| is_of_a_review(line)).collect();
    println!("200 repeated reviews in {:?}; INFO commandstats: {:?}", begun.elapsed(), redis.server().commands());
    assert!(asked.is_empty(), "a repeated review asks nothing: {asked:#?}");
}

#[tokio::test]
async fn nothing_secret_is_in_the_log_or_in_redis() {
    let redis = Redis::tls().await;
    let store = redis.as_store();
    let replicas = Replicas::start_logging(3, on(store.clone()), "trace").await;
    let sealing = std::fs::read_to_string(store["sealingKeyFile"].as_str().unwrap_or_default()).unwrap_or_default();
    assert_eq!(sealing.len(), 44);
    let mut secrets = vec![
        password_of("acme", "jane"),
        "a-wrong-password".to_owned(),
        REVIEWER_TOKEN.to_owned(),
        secret_of("acme-service"),
        PASSWORD.to_owned(),
        sealing.clone(),
    ];
    let mut browser = replicas.browser();
    browser.try_sign_in(&web(), "jane", "a-wrong-password").await.expect(422);
    let used = browser.sign_in(&web(), "jane", &password_of("acme", "jane")).await;
    let tokens = replicas.service().exchange(&web(), &used).await;
    let next = replicas.service().refresh("web", tokens.refresh()).await;
    let unused = code(&browser.get(&web().path()).await);
    for i in 0..3 {
        assert_eq!(review(&replicas.service_at(i), next.access()).await, Some(true));
    }
    let gone = replicas.tokens(&Authorization::web(), "acme", "alice").await;
    replicas.service().revoke("web", gone.access()).await.expect(200);
    let own = replicas.service().client_credentials("acme-service").await;
    replicas.service().search(own.access(), "/api/v1/users", "jane").await;
    secrets.extend([used, unused, own.access().to_owned()]);
    secrets.extend(browser.cookies.values().cloned());
    for token in [&tokens, &next, &gone] {
        secrets.extend([token.access(), token.refresh()].map(str::to_owned));
        // Of a token each part that makes it good.
        secrets.push(token.access().rsplit('.').next().unwrap_or_default().to_owned());
        secrets.push(token.refresh().rsplit('.').next().unwrap_or_default().to_owned());
    }
    let log = replicas.log();
    for secret in &secrets {
        assert!(!log.contains(secret.as_str()), "{secret} is in the log");
    }

    let contents = redis.server().contents();
    assert!(contents.len() > 10, "{} keys", contents.len());
    let key = STANDARD.decode(&sealing).unwrap_or_default();
    // A private key for ES256 begins like this in DER (PKCS #8, RFC 5208), or it is a JWK with a member `d`.
    let private: [&[u8]; 5] = [&[0x30, 0x81, 0x87, 0x02, 0x01, 0x00], b"MIGHAgEA", b"PRIVATE KEY", b"\"d\":", &key];
    let mut shown = Vec::new();
    for (name, values) in &contents {
        for bytes in values.iter().chain([name]) {
            let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            let packed = STANDARD.decode(bytes).or_else(|_| URL_SAFE_NO_PAD.decode(bytes)).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            shown.extend(secrets.iter().filter(|secret| holds(secret.as_bytes())).map(|secret| (name.clone(), secret.clone())));
            if private.iter().any(|part| holds(part)) || packed.windows(key.len()).any(|window| window == key) {
                shown.push((name, "a private key".to_owned()));
            }
        }
    }

    // And the user of these replicas needed no right that it does not have.
    let refused: Vec<_> = redis.server().refused().into_iter().filter(|(user, _)| user == USER).collect();
    println!("commands: {:?}", redis.server().commands().keys().collect::<Vec<_>>());
    assert!(refused.is_empty(), "{refused:?}");
    assert!(shown.is_empty(), "Redis shows: {shown:#?}");
}
