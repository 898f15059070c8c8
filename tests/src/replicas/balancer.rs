//! The balancer: one address for several brokers. It gives each request to the next one that says that it is ready, or to the one that the
//! request names in a header; where none is ready, to any that takes the connection. It sends no request twice: one that broke is
//! answered 502.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{ports, process::PATIENCE};

/// In a request, the broker that is to answer, by its number; in an answer, the one that did.
pub static REPLICA: HeaderName = HeaderName::from_static("x-replica");

/// How often each is asked whether it is ready, and how long it may take.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(1_500));
/// The largest body, in bytes.
const BODY: usize = 16 << 20;

/// The balancer. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Balancer {
    address: String,
    shared: Arc<Shared>,
    _alive: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    brokers: Mutex<Vec<Arc<Behind>>>,
    turn: AtomicUsize,
    http: reqwest::Client,
}

/// A broker behind it.
#[derive(Debug)]
struct Behind {
    index: usize,
    address: String,
    ready: String,
    is_ready: AtomicBool,
    is_left_out: AtomicBool,
}

impl Balancer {
    pub(super) fn start() -> Self {
        let port = ports::free();
        // No connection is kept: what an ended broker's would do is no business of the tests.
        let http =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).http1_only().no_gzip().pool_max_idle_per_host(0).timeout(PATIENCE);
        let http = http.redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let shared = Arc::new(Shared { brokers: Mutex::default(), turn: AtomicUsize::new(0), http });
        let (alive, ends) = oneshot::channel::<()>();
        let (listens, listening) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
                listens.send(()).unwrap();
                let router = Router::new().fallback(pass_on).with_state(Arc::clone(&of_thread));
                tokio::select! {
                    served = axum::serve(listener, router) => served.unwrap(),
                    () = look(&of_thread) => {}
                    _ = ends => {}
                }
            });
        });
        listening.recv_timeout(PATIENCE).expect("it listens");
        Self { address: format!("http://127.0.0.1:{port}"), shared, _alive: alive }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Stands before these from now on, which are ready: each its public and its admin address.
    pub(super) fn serve(&self, brokers: Vec<(String, String)>) {
        let behind = brokers.into_iter().enumerate().map(|(index, (address, admin))| {
            let ready = format!("{admin}/readyz");
            Arc::new(Behind { index, address, ready, is_ready: true.into(), is_left_out: false.into() })
        });
        *self.shared.brokers.lock().unwrap() = behind.collect();
    }

    /// Gives one no more requests.
    pub(super) fn leave_out(&self, index: usize) {
        self.shared.one(index).is_left_out.store(true, Ordering::SeqCst);
    }

    /// Gives it requests again.
    pub(super) fn take_in(&self, index: usize) {
        self.shared.one(index).is_left_out.store(false, Ordering::SeqCst);
    }

    /// Waits until it gives one requests.
    pub(super) async fn wait_for(&self, index: usize) {
        let begun = Instant::now();
        while !self.shared.one(index).is_ready.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < PATIENCE, "replica {index} is not ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Shared {
    fn one(&self, index: usize) -> Arc<Behind> {
        Arc::clone(&self.brokers.lock().unwrap()[index])
    }

    /// Those to try, in order: the ready ones, or all.
    fn candidates(&self) -> Vec<Arc<Behind>> {
        let all = self.brokers.lock().unwrap().clone();
        let taken: Vec<_> = all.into_iter().filter(|one| !one.is_left_out.load(Ordering::SeqCst)).collect();
        let ready: Vec<_> = taken.iter().filter(|one| one.is_ready.load(Ordering::SeqCst)).cloned().collect();
        let mut some = if ready.is_empty() { taken } else { ready };
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % some.len().max(1);
        some.rotate_left(first);
        some
    }
}

/// Asks each again and again whether it is ready.
async fn look(shared: &Shared) {
    loop {
        let all = shared.brokers.lock().unwrap().clone();
        let ask = all.iter().map(|one| async {
            let answer = shared.http.get(&one.ready).timeout(LOOK.1).send().await;
            one.is_ready.store(answer.is_ok_and(|answer| answer.status().is_success()), Ordering::SeqCst);
        });
        futures_util::future::join_all(ask).await;
        tokio::time::sleep(LOOK.0).await;
    }
}

async fn pass_on(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(Body::new(body), BODY).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let wanted = parts.headers.remove(&REPLICA).and_then(|value| value.to_str().ok()?.parse().ok());
    parts.headers.remove(header::CONNECTION);
    let candidates = wanted.map_or_else(|| shared.candidates(), |index| vec![shared.one(index)]);
    for one in candidates {
        let request = shared.http.request(parts.method.clone(), format!("{}{}", one.address, parts.uri));
        match request.headers(parts.headers.clone()).body(body.clone()).send().await {
            Ok(answer) => return give(one.index, answer).await,
            // Nothing was sent: the next one may have it.
            Err(error) if error.is_connect() => {}
            Err(_) => return broken(one.index),
        }
    }
    (StatusCode::BAD_GATEWAY, "no replica takes the connection").into_response()
}

async fn give(index: usize, answer: reqwest::Response) -> Response {
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    let Ok(body) = answer.bytes().await else { return broken(index) };
    headers.insert(&REPLICA, HeaderValue::from(index));
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn broken(index: usize) -> Response {
    (StatusCode::BAD_GATEWAY, [(REPLICA.clone(), index.to_string())], "the replica broke the connection").into_response()
}
