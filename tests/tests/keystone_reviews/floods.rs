//! Many requests at once: what they are to Keystone, and to those whose tokens are known.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use denizen_tests::{
    Broker, Service,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    relay::{Manner, When},
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::{
    house::{House, TOKENS, reviewed, soon_good},
    stand_in::{StandIn, fernet},
};

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const MANY: u64 = 60_000;

fn body(token: &str) -> String {
    json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, "audiences": [KUBERNETES]}})
        .to_string()
}

/// A reviewer's connection that is kept, with as little of its own work as can be.
struct Wire {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Wire {
    async fn to(broker: &Broker) -> Self {
        let host = broker.issuer().strip_prefix("http://").unwrap().to_owned();
        let stream = TcpStream::connect(&host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), host }
    }

    /// The status, and whether the token is good.
    async fn ask(&mut self, token: &str) -> (u16, bool) {
        let body = body(token);
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {REVIEWER_TOKEN}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            assert_ne!(self.stream.read_line(&mut line).await.unwrap(), 0, "the broker hung up");
            let text = line.trim_end().to_ascii_lowercase();
            assert!(!text.starts_with("retry-after"), "the API server would repeat it");
            match text.split_once(' ') {
                _ if text.is_empty() => break,
                Some(("http/1.1", rest)) => status = rest[..3].parse().unwrap(),
                Some(("content-length:", rest)) => length = rest.parse().unwrap(),
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        (status, answer["status"]["authenticated"] == true)
    }
}

/// Asks about so many tokens over so many connections, and gives how many were answered with 200, and how many with 503. None may be
/// good.
async fn flood(broker: &Broker, connections: usize, count: u64, token: impl Fn(u64) -> String + Send + Sync + 'static) -> [u64; 2] {
    let (next, token) = (Arc::new(AtomicU64::new(0)), Arc::new(token));
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let (mut wire, next, token) = (Wire::to(broker).await, Arc::clone(&next), Arc::clone(&token));
        tasks.push(tokio::spawn(async move {
            let mut answers = [0; 2];
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return answers;
                }
                match wire.ask(&token(number)).await {
                    (200, false) => answers[0] += 1,
                    (503, false) => answers[1] += 1,
                    other => panic!("number {number}: {other:?}"),
                }
            }
        }));
    }
    let answers: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    [0, 1].map(|status| answers.iter().map(|answers: &[u64; 2]| answers[status]).sum())
}

/// The tokens one after the other, until it is told to end; how long each took, in order. Each must be good each time.
async fn good_all_the_while(broker: &Broker, tokens: Vec<String>, least: usize, end: Arc<AtomicBool>) -> Vec<Duration> {
    let mut wire = Wire::to(broker).await;
    let mut took = Vec::new();
    for token in tokens.iter().cycle() {
        if end.load(Ordering::Relaxed) && took.len() >= least {
            break;
        }
        let begun = Instant::now();
        assert_eq!(wire.ask(token).await, (200, true), "a token that is remembered is good all the while");
        took.push(begun.elapsed());
    }
    took.sort();
    took
}

fn p95(took: &[Duration]) -> Duration {
    took[took.len() * 95 / 100]
}

/// Streams of HTTP/2: the broker takes a hundred on a connection.
async fn at_once(broker: &Broker, count: usize, token: &str) -> Vec<(u16, Value)> {
    let body = body(token);
    let address = broker.service().at(PATH);
    let clients: Vec<_> = (0..count.div_ceil(100))
        .map(|_| {
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).http2_prior_knowledge();
            client.timeout(Duration::from_secs(60)).build().unwrap()
        })
        .collect();
    let ask = async |number: usize| {
        let request = clients[number / 100].post(&address).bearer_auth(REVIEWER_TOKEN).header("content-type", "application/json");
        let answer = request.body(body.clone()).send().await.unwrap();
        assert!(answer.headers().get("retry-after").is_none());
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap()["status"]["user"]["username"].clone())
    };
    join_all((0..count).map(ask)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t52_ten_thousand_requests_for_one_new_token_are_one_question() {
    let Some(house) = House::with(|_, configuration| configuration.set("/connectors/2/deadlineSeconds", 30)).await else { return };
    let (good, bad) = (house.jane().await, fernet(1));
    assert!(house.reviewed(&house.token("globex", "jane", "globex").await).await.is_object(), "the service account has its token");
    for (token, expected) in [(&good, json!("acme:jane")), (&bad, Value::Null)] {
        house.relay.set(When::path(TOKENS).method("GET"), Manner::Delay(Duration::from_secs(3)));
        house.relay.forget();
        let begun = Instant::now();
        let answers = at_once(&house.broker, 10_000, token).await;
        println!("10,000 at once: {:?}", begun.elapsed());
        assert!(
            answers.iter().all(|answer| *answer == (200, expected.clone())),
            "{:?}",
            answers.iter().find(|answer| answer.1 != expected)
        );
        assert_eq!(house.asked(), [1, 0]);
        house.relay.pass_on();
    }
}

/// One that a Kubernetes of another cluster, or of before its keys were changed, gave to a pod.
fn service_account_token(number: u64) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(json!({"alg": "RS256", "kid": "kFe9-mqkZPHR3Ge9GqfZ2WyKJ4J5sPrgBgGn4F7ZrTI"}));
    let claims = part(json!({
        "aud": [KUBERNETES], "exp": 4_000_000_000_u64, "iat": 1_700_000_000, "iss": KUBERNETES, "jti": format!("{number:032x}"),
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "default", "uid": "0b29a5a6-6c2d-4a0e-8a4c-0f5b8c0d7a1e"}},
        "sub": "system:serviceaccount:default:default",
    }));
    format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode([7; 256]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t52_sixty_thousand_service_account_tokens_are_no_question() {
    let stand_in = StandIn::start();
    let broker = Broker::start_logging(stand_in.configuration(), "warn").await;
    let begun = Instant::now();
    let answers = flood(&broker, 64, MANY, service_account_token).await;
    println!("60,000 ServiceAccount tokens: {:?}", begun.elapsed());
    assert_eq!(answers, [MANY, 0], "each is refused");
    assert_eq!(stand_in.relay.total(), 0, "{:?}", stand_in.relay.counts());
    // It is there, and would have been asked.
    assert_eq!(reviewed(&broker.service(), &stand_in.good(1)).await["username"], "acme:jane");
    assert_eq!((stand_in.relay.count("POST", TOKENS), stand_in.relay.count("GET", TOKENS)), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t52_sixty_thousand_forged_tokens_are_so_many_questions_at_once_and_delay_no_one_who_is_known() {
    const IN_FLIGHT: usize = 16;
    const EACH: Duration = Duration::from_millis(10);
    // More ask at once than may wait, which are sixteen for each question.
    const ASKERS: usize = 400;
    let stand_in = StandIn::start();
    let mut configuration = stand_in.configuration();
    configuration.set("/connectors/2/tokens/inFlight", IN_FLIGHT);
    let broker = Broker::start_logging(configuration, "warn").await;
    let service: Service = broker.service();
    let good: Vec<_> = (MANY..MANY + 20).map(|number| stand_in.good(number)).collect();
    for token in &good {
        assert_eq!(reviewed(&service, token).await["username"], "acme:jane");
    }
    let quiet = good_all_the_while(&broker, good.clone(), 2_000, Arc::new(AtomicBool::new(true))).await;

    stand_in.relay.set(When::path(TOKENS).method("GET"), Manner::Delay(EACH));
    stand_in.relay.forget();
    let (end, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let forged = async {
        let answers = flood(&broker, ASKERS, MANY, fernet).await;
        end.store(true, Ordering::Relaxed);
        answers
    };
    let ([refused, untold], busy) = tokio::join!(forged, good_all_the_while(&broker, good.clone(), 1, Arc::clone(&end)));
    let (took, asked, most) = (begun.elapsed(), stand_in.relay.count("GET", TOKENS), stand_in.relay.most_at_once(TOKENS));
    println!(
        "60,000 forged tokens in {took:?}: {refused} refused, {untold} not told, {asked} questions, {most} at once; good tokens: {} reviews, p95 {:?} (quiet: {:?})",
        busy.len(),
        p95(&busy),
        p95(&quiet)
    );
    assert_eq!(refused + untold, MANY);
    assert!(most <= IN_FLIGHT, "{most} questions at once");
    assert_eq!(most, IN_FLIGHT, "there were enough of them for the bound to matter");
    assert!(untold > 0 && refused > 0, "there were more than could wait, and some were told");
    let turns = took.as_millis() / EACH.as_millis() + 1;
    assert!(u128::try_from(asked).unwrap() <= turns * IN_FLIGHT as u128, "{asked} questions in {turns} turns");
    assert!(asked as u64 >= refused, "a refusal is Keystone's own");
    assert!(busy.len() > 100, "those that are known were answered meanwhile, {} times", busy.len());
    // Then all is as before.
    stand_in.relay.pass_on();
    soon_good(&service, &stand_in.good(MANY + 100)).await;
}

#[tokio::test]
async fn t52_forged_tokens_shown_again_are_not_asked_about_again() {
    let stand_in = StandIn::start();
    let broker = Broker::start(stand_in.configuration()).await;
    let mut wire = Wire::to(&broker).await;
    for _ in 0..20 {
        for number in 0..50 {
            assert_eq!(wire.ask(&fernet(number)).await, (200, false));
        }
    }
    assert_eq!(stand_in.relay.count("GET", TOKENS), 50);
}
