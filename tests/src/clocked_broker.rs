//! A broker in this process, on a port of its own, whose time a test sets. For what takes longer than a test may; all else is told
//! by the real program, [`crate::Broker`].

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use denizen::{
    App, config,
    http::{self, server},
    seams::{Clock, Seams, SystemClock, SystemEntropy},
    store::embedded::Embedded,
};
use serde_json::json;
use tempfile::TempDir;
use time::OffsetDateTime;

use crate::{Browser, Configuration, Service, broker::install_providers, folder, ports, process::PATIENCE};

/// A broker that listens, until the test ends.
pub struct ClockedBroker {
    issuer: String,
    ahead: Arc<Ahead>,
    _folder: TempDir,
}

/// The time as it is, and some seconds more: what other servers sign is fresh at the beginning.
struct Ahead(AtomicI64);

impl Clock for Ahead {
    fn now(&self) -> OffsetDateTime {
        SystemClock.now() + time::Duration::seconds(self.0.load(Ordering::SeqCst))
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
        let store = Arc::new(Embedded::in_memory().unwrap());
        let seams = Seams::alone(Arc::clone(&ahead) as _, Arc::new(SystemEntropy), store);
        let app: Arc<App> = Arc::new(denizen::build(loaded, seams).await.unwrap());
        let bind = |port| server::bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let doors = ((bind(port), http::public(&app, None)), (bind(0), http::admin(&app)));
        // It ends with the test's runtime.
        drop(tokio::spawn(server::serve(app, doors.0, doors.1, std::future::pending())));
        Self { issuer, ahead, _folder: folder }
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
