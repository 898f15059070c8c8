//! A reverse proxy of the tests' own, before a server or in place of one: it counts what comes, and answers as a test wants it.
//!
//! It runs on a thread of its own, so that tests of several runtimes may share it, and a busy test does not hold it up.

mod rules;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, mpsc},
    thread,
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes};
use http::{HeaderMap, HeaderName, Method, Request, Response, Uri, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc as channel, oneshot},
    task::JoinSet,
};

use self::rules::Rules;
pub use self::rules::{Manner, Reply, When};
use crate::{ports, process::PATIENCE};

/// How many requests it remembers whole.
const REMEMBERED: usize = 1_000;
/// How much of a body it takes, in bytes.
const BODY: usize = 64 << 20;

/// The relay.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    shared: Arc<Shared>,
    commands: channel::UnboundedSender<Command>,
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

enum Upstream {
    Server(String, reqwest::Client),
    Handler(Box<dyn Fn(&Seen) -> Reply + Send + Sync>),
}

#[derive(Debug)]
struct Shared {
    upstream: Upstream,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Rules,
    counts: HashMap<(Method, String), usize>,
    in_flight: HashMap<String, InFlight>,
    seen: VecDeque<Seen>,
}

#[derive(Debug, Default, Clone, Copy)]
struct InFlight {
    now: usize,
    highest: usize,
}

#[derive(Debug)]
enum Command {
    Refuse(oneshot::Sender<()>),
    Listen(oneshot::Sender<()>),
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(address, _) => f.write_str(address),
            Self::Handler(_) => f.write_str("itself"),
        }
    }
}

impl Relay {
    /// One before the server at this address (`http://host:port`, without a path). The server sees the `Host` that the client sent.
    ///
    /// # Panics
    /// When it can not listen.
    #[must_use]
    pub fn before(address: &str) -> Self {
        crate::broker::install_providers();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).http1_only().no_gzip();
        let http = http.redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self::start(Upstream::Server(address.trim_end_matches('/').to_owned(), http))
    }

    /// One that asks nobody, and answers by itself.
    #[must_use]
    pub fn stand_in(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Upstream::Handler(Box::new(handler)))
    }

    fn start(upstream: Upstream) -> Self {
        let port = ports::free();
        let shared = Arc::new(Shared { upstream, state: Mutex::default() });
        let (commands, inbox) = channel::unbounded_channel();
        let (ready, is_ready) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(port, of_thread, inbox, ready));
        });
        is_ready.recv_timeout(PATIENCE).expect("it listens");
        Self { port, shared, commands }
    }

    /// Its address, without a path.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Does this with these requests from now on. Of several rules that fit a request, the latest holds.
    pub fn set(&self, when: When, manner: Manner) {
        self.state().rules.add(when, manner);
    }

    /// Passes everything on from now on, also what it held.
    pub fn pass_on(&self) {
        self.state().rules = Rules::default();
    }

    /// Holds every request until [`Self::pass_on`].
    pub fn freeze(&self) {
        self.set(When::any(), Manner::Hold);
    }

    /// Breaks every connection, and refuses new ones.
    ///
    /// # Panics
    /// When the relay has ended.
    pub async fn refuse(&self) {
        let (done, is_done) = oneshot::channel();
        self.commands.send(Command::Refuse(done)).unwrap();
        is_done.await.unwrap();
    }

    /// Listens again at the same address.
    ///
    /// # Panics
    /// When the address is taken meanwhile.
    pub async fn listen(&self) {
        let (done, is_done) = oneshot::channel();
        self.commands.send(Command::Listen(done)).unwrap();
        is_done.await.unwrap();
    }

    /// How many requests of this method came for a path (without its query) since [`Self::forget`].
    #[must_use]
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.state().counts.get(&(method.parse().unwrap(), path.to_owned())).copied().unwrap_or(0)
    }

    /// How many requests came since [`Self::forget`].
    #[must_use]
    pub fn total(&self) -> usize {
        self.state().counts.values().sum()
    }

    /// Every method and path that came since [`Self::forget`], with how often.
    #[must_use]
    pub fn counts(&self) -> HashMap<(Method, String), usize> {
        self.state().counts.clone()
    }

    /// The highest number of requests for a path that were here at once since [`Self::forget`].
    #[must_use]
    pub fn most_at_once(&self, path: &str) -> usize {
        self.state().in_flight.get(path).copied().unwrap_or_default().highest
    }

    /// How many requests for a path are here now.
    #[must_use]
    pub fn in_flight(&self, path: &str) -> usize {
        self.state().in_flight.get(path).copied().unwrap_or_default().now
    }

    /// The latest requests since [`Self::forget`], the first that came first; a thousand at most.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.iter().cloned().collect()
    }

    /// Counts from zero again.
    pub fn forget(&self) {
        let mut state = self.state();
        state.counts.clear();
        state.seen.clear();
        for in_flight in state.in_flight.values_mut() {
            in_flight.highest = in_flight.now;
        }
    }

    /// Waits until so many requests of this method came for a path.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn wait_for(&self, method: &str, path: &str, count: usize) {
        let begun = Instant::now();
        while self.count(method, path) < count {
            assert!(begun.elapsed() < PATIENCE, "{} of {count} requests came for {path}", self.count(method, path));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }
}

/// Ends when the relay is dropped.
async fn serve(port: u16, shared: Arc<Shared>, mut inbox: channel::UnboundedReceiver<Command>, ready: mpsc::Sender<()>) {
    let bind = async || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let mut listener = Some(bind().await);
    ready.send(()).unwrap();
    let mut connections = JoinSet::new();
    loop {
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = inbox.recv() => match command {
                None => return,
                Some(Command::Refuse(done)) => {
                    listener = None;
                    connections.shutdown().await;
                    _ = done.send(());
                }
                Some(Command::Listen(done)) => {
                    if listener.is_none() {
                        listener = Some(bind().await);
                    }
                    _ = done.send(());
                }
            },
            Ok((stream, _)) = accept => {
                let shared = Arc::clone(&shared);
                _ = stream.set_nodelay(true);
                connections.spawn(async move {
                    let service = service_fn(move |request| handle(Arc::clone(&shared), request));
                    let server = auto::Builder::new(TokioExecutor::new());
                    // A connection that breaks is the client's business, or what the test wants.
                    _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// An error breaks the connection.
async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let _guard = Guard::new(&shared, path.clone());
    let body = axum::body::to_bytes(Body::new(body), BODY).await.map_err(|_| Broken)?;
    let seen = Seen { method: parts.method, uri: parts.uri, headers: parts.headers, body };
    let manner = {
        let mut state = shared.state.lock().unwrap();
        *state.counts.entry((seen.method.clone(), path)).or_default() += 1;
        if state.seen.len() == REMEMBERED {
            state.seen.pop_front();
        }
        state.seen.push_back(seen.clone());
        state.rules.take(&seen)
    };
    match manner {
        rules::Now::PassOn => {}
        rules::Now::Answer(reply) => return Ok(reply.response()),
        rules::Now::Delay(time) => tokio::time::sleep(time).await,
        rules::Now::Hold(mut until) => while until.changed().await.is_ok() {},
        rules::Now::Break => return Err(Broken),
    }
    match &shared.upstream {
        Upstream::Handler(handler) => Ok(handler(&seen).response()),
        Upstream::Server(address, http) => forward(address, http, seen).await,
    }
}

async fn forward(address: &str, http: &reqwest::Client, seen: Seen) -> Result<Response<Body>, Broken> {
    let mut headers = seen.headers;
    drop_hop_by_hop(&mut headers);
    let request = http.request(seen.method, format!("{address}{}", seen.uri)).headers(headers).body(seen.body);
    // To the client, a server that is not there looks as it would without the relay.
    let answer = request.send().await.map_err(|_| Broken)?;
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    drop_hop_by_hop(&mut headers);
    let mut response = Response::new(Body::from(answer.bytes().await.map_err(|_| Broken)?));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, HeaderName::from_static("keep-alive")] {
        headers.remove(name);
    }
}

/// A request that is here; also one whose client goes away meanwhile ends.
struct Guard {
    shared: Arc<Shared>,
    path: String,
}

impl Guard {
    fn new(shared: &Arc<Shared>, path: String) -> Self {
        let mut state = shared.state.lock().unwrap();
        let in_flight = state.in_flight.entry(path.clone()).or_default();
        in_flight.now += 1;
        in_flight.highest = in_flight.highest.max(in_flight.now);
        Self { shared: Arc::clone(shared), path }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Ok(mut state) = self.shared.state.lock()
            && let Some(in_flight) = state.in_flight.get_mut(&self.path)
        {
            in_flight.now -= 1;
        }
    }
}

/// The connection is to break.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the test wants this connection broken")
    }
}

impl std::error::Error for Broken {}
