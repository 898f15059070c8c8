//! The balancer: each request goes to the next replica, and what came is told. One for all clients of a run.

use std::{
    io::Write as _,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use reqwest::Client;

use super::{
    history::{Asker, Came, Deed, Fault, Id, Ids, Moment, Outage, Told, Whose},
    plant::{Falsifying, Plant},
};
use crate::Answer;

/// How long an answer may take. A broker answers within its own deadlines, which are far shorter.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a connection is kept that no one uses: a broker closes it after ten seconds, and what is sent at that moment is not answered.
const IDLE: Duration = Duration::from_secs(5);

/// How often the other end of a connection is asked whether it is there, and how often it may be silent: one that is gone without a word is
/// not waited for. A broker that is there and does not answer is.
const ASKED_EVERY: Duration = Duration::from_secs(1);
const MAY_BE_SILENT: u32 = 3;

/// The balancer.
#[derive(Debug)]
pub struct Door {
    http: Client,
    issuer: String,
    replicas: Vec<String>,
    tenants: Vec<&'static str>,
    next: AtomicUsize,
    ids: Mutex<Ids>,
    history: Mutex<Vec<Told>>,
    outages: Mutex<Vec<Outage>>,
    begun: Instant,
    counted: AtomicU64,
    answered: AtomicUsize,
    over: AtomicBool,
    falsifying: Mutex<Falsifying>,
}

impl Door {
    /// A door to the replicas of this issuer at these addresses, for people of these tenants.
    ///
    /// # Panics
    /// When there is no client.
    #[must_use]
    pub fn new(issuer: &str, replicas: Vec<String>, tenants: Vec<&'static str>) -> Self {
        crate::broker::install_providers();
        let client = Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .pool_idle_timeout(IDLE)
            .tcp_keepalive(ASKED_EVERY)
            .tcp_keepalive_interval(ASKED_EVERY)
            .tcp_keepalive_retries(MAY_BE_SILENT);
        Self {
            http: client.build().unwrap(),
            issuer: issuer.to_owned(),
            replicas,
            tenants,
            next: AtomicUsize::new(0),
            ids: Mutex::default(),
            history: Mutex::default(),
            outages: Mutex::default(),
            begun: Instant::now(),
            counted: AtomicU64::new(1),
            answered: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            falsifying: Mutex::default(),
        }
    }

    /// The HTTP client that all share.
    #[must_use]
    pub const fn http(&self) -> &Client {
        &self.http
    }

    /// The issuer, which is the same of all replicas.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// A number that no one else has.
    pub fn number(&self) -> Id {
        self.counted.fetch_add(1, Ordering::Relaxed)
    }

    /// What time it is.
    ///
    /// # Panics
    /// After half a million years.
    #[must_use]
    pub fn now(&self) -> Moment {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap()
    }

    /// The next replica in turn.
    pub fn replica(&self) -> (usize, &str) {
        let which = self.next.fetch_add(1, Ordering::Relaxed) % self.replicas.len();
        (which, &self.replicas[which])
    }

    /// Whether the clients are to end.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Tells the clients to end, each after the request that it is at.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Notes a request and its answer.
    ///
    /// # Panics
    /// When a client has broken it.
    pub fn tell(&self, told: Told) {
        self.answered.fetch_add(usize::from(told.came.is_told()), Ordering::Relaxed);
        self.history.lock().unwrap().push(told);
    }

    /// Notes that a fault is about to be made.
    ///
    /// # Panics
    /// When a client has broken it.
    pub fn faulty(&self, fault: Fault) -> usize {
        let mut outages = self.outages.lock().unwrap();
        outages.push(Outage { fault, from: self.now(), until: Moment::MAX, failovers: 0 });
        outages.len() - 1
    }

    /// Notes that all is well again.
    ///
    /// # Panics
    /// When a client has broken it.
    pub fn well_again(&self, outage: usize) {
        self.outages.lock().unwrap()[outage].until = self.now();
    }

    /// The same, of the store's primary, which became another so often.
    ///
    /// # Panics
    /// When a client has broken it.
    pub fn whole_again(&self, outage: usize, failovers: usize) {
        self.outages.lock().unwrap()[outage].failovers = failovers;
        self.well_again(outage);
    }

    /// How many answers there were that said how it stands.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// All that was told.
    ///
    /// # Panics
    /// When a client has broken it.
    #[must_use]
    pub fn told(&self) -> (Vec<Told>, Vec<Outage>) {
        (self.history.lock().unwrap().clone(), self.outages.lock().unwrap().clone())
    }

    /// Whose an answer is, that should name these.
    ///
    /// # Panics
    /// When a client has broken it.
    pub fn whose(&self, asker: &Asker, answer: &Answer, names: &[&str]) -> Whose {
        let text = with_what_tokens_say(answer);
        let whose = self.ids.lock().unwrap().whose(asker, &self.tenants, &text, names);
        if whose != Whose::Own {
            // All that there is to find out why: these people are no one's.
            _ = writeln!(std::io::stderr(), "{}'s {} got of {} what is not theirs: {text}", asker.tenant, asker.username, answer.url);
        }
        whose
    }

    /// From now on one answer is falsified. For showing that the checker sees it.
    ///
    /// # Panics
    /// When a client has broken it.
    pub fn falsify_one(&self, plant: Plant) {
        *self.falsifying.lock().unwrap() = Falsifying::Soon(plant);
    }

    /// The answer that a client gets for its own: that one, unless a fault is planted.
    pub(super) fn passed_on(&self, asker: &Asker, deed: &Deed, answer: Answer) -> Answer {
        self.falsifying.lock().unwrap().pass_on(asker, deed, answer)
    }
}

/// How an answer counts whose success has this status.
pub(super) fn came(answer: &Answer, good: u16) -> Came {
    match answer.status {
        status if status == good => Came::Good,
        400 | 401 => Came::Refused,
        503 => Came::Unavailable,
        status => Came::Odd(status),
    }
}

/// The text of an answer, and what the signed tokens in it say.
fn with_what_tokens_say(answer: &Answer) -> String {
    let mut text = answer.text.clone();
    for token in answer.text.split('"').filter(|part| part.starts_with("eyJ")) {
        if let Some(claims) = token.split('.').nth(1).and_then(|claims| B64.decode(claims).ok()) {
            text.push_str(&String::from_utf8_lossy(&claims));
        }
    }
    text
}
