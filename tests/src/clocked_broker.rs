//! A broker in this process, on a port of its own, whose time a test sets, and whose store leaves commits in doubt. For what takes
//! longer than a test may, or what no real store does when it is asked to; all else is told by the real program, [`crate::Broker`].

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use denizen::{
    App, config,
    http::{self, server},
    seams::{Clock, Seams, SystemClock, SystemEntropy},
    store::{Batch, Entry, Key, Kind, Listing, Mark, Outcome, Partition, Store, StoreError, embedded::Embedded},
};
use serde_json::json;
use tempfile::TempDir;
use time::OffsetDateTime;

use crate::{Browser, Configuration, Service, broker::install_providers, folder, ports, process::PATIENCE};

/// A broker that listens, until the test ends.
pub struct ClockedBroker {
    issuer: String,
    ahead: Arc<Ahead>,
    store: Arc<Doubtful>,
    _folder: TempDir,
}

/// The time as it is, and some seconds more: what other servers sign is fresh at the beginning.
struct Ahead(AtomicI64);

impl Clock for Ahead {
    fn now(&self) -> OffsetDateTime {
        SystemClock.now() + time::Duration::seconds(self.0.load(Ordering::SeqCst))
    }
}

/// A store in memory that carries out every commit, and does not always say so.
struct Doubtful {
    store: Embedded,
    /// How many of the next commits are answered with an error.
    failing: AtomicUsize,
    /// How many of the next ones after that are never answered.
    silent: AtomicUsize,
}

impl Doubtful {
    fn one_of(count: &AtomicUsize) -> bool {
        count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

#[async_trait]
impl Store for Doubtful {
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError> {
        self.store.get(key, now).await
    }
    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError> {
        self.store.present(keys, now).await
    }
    async fn look(&self, keys: &[Key], now: OffsetDateTime) -> Result<(Vec<bool>, Option<Mark>), StoreError> {
        self.store.look(keys, now).await
    }
    fn is_as_seen(&self, mark: &Mark, now: OffsetDateTime) -> bool {
        self.store.is_as_seen(mark, now)
    }
    async fn commit(&self, batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        let outcome = self.store.commit(batch, now).await?;
        if Self::one_of(&self.failing) {
            return Err(StoreError::Unavailable("no answer came".into()));
        }
        if Self::one_of(&self.silent) {
            return std::future::pending().await;
        }
        Ok(outcome)
    }
    async fn list(
        &self,
        partition: &Partition,
        kind: Kind,
        cursor: Option<&str>,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Listing, StoreError> {
        self.store.list(partition, kind, cursor, limit, now).await
    }
    async fn sweep(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.store.sweep(now, limit).await
    }
}

impl ClockedBroker {
    /// Starts it over plain HTTP with a store in memory.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(configuration: Configuration) -> Self {
        install_providers();
        let folder = folder::new("broker");
        let port = ports::free();
        let issuer = format!("http://127.0.0.1:{port}");
        let text = configuration.with("/store", json!({})).text(&issuer, port, 0, folder.path());
        let loaded = config::load_text(&text, folder.path(), "test.yaml").unwrap_or_else(|faults| panic!("{faults}"));
        let ahead = Arc::new(Ahead(AtomicI64::new(0)));
        let store = Doubtful { store: Embedded::in_memory().unwrap(), failing: AtomicUsize::new(0), silent: AtomicUsize::new(0) };
        let store = Arc::new(store);
        let seams = Seams::alone(Arc::clone(&ahead) as _, Arc::new(SystemEntropy), Arc::clone(&store) as _);
        let app: Arc<App> = Arc::new(denizen::build(loaded, seams).await.unwrap());
        let bind = |port| server::bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let doors = ((bind(port), http::public(&app, None)), (bind(0), http::admin(&app)));
        // It ends with the test's runtime.
        drop(tokio::spawn(server::serve(app, doors.0, doors.1, std::future::pending())));
        Self { issuer, ahead, store, _folder: folder }
    }

    /// The issuer, and the address of every public door.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Time passes for the broker, and for no one else.
    pub fn pass(&self, seconds: i64) {
        self.ahead.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// The next commit is carried out, and answered with an error.
    pub fn fail_an_answer(&self) {
        self.store.failing.fetch_add(1, Ordering::SeqCst);
    }

    /// The next commit is carried out, and never answered.
    pub fn withhold_an_answer(&self) {
        self.store.silent.fetch_add(1, Ordering::SeqCst);
    }

    /// A new browser.
    #[must_use]
    pub fn browser(&self) -> Browser {
        Browser::new(http_client(), &self.issuer)
    }

    /// A peer that speaks to the doors for programs.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(http_client(), &self.issuer)
    }
}

fn http_client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE);
    client.tls_certs_only([]).build().unwrap()
}
