//! An application on a port of its own that takes whatever comes back: for browsers that follow redirects by themselves.

use axum::{Router, response::Html};
use tokio::{net::TcpListener, sync::mpsc};
use url::Url;

use crate::{Authorization, ports, process::PATIENCE};

/// The application. It ends with the test.
#[derive(Debug)]
pub struct Application {
    /// Its port on loopback.
    pub port: u16,
    called: mpsc::UnboundedReceiver<Url>,
}

impl Application {
    /// Starts it.
    ///
    /// # Panics
    /// When its port is taken.
    pub async fn start() -> Self {
        let port = ports::free();
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let (calls, called) = mpsc::unbounded_channel();
        let answer = move |uri: http::Uri| {
            let calls = calls.clone();
            async move {
                if uri.path() == "/cb" {
                    calls.send(Url::parse(&format!("http://127.0.0.1:{port}{uri}")).unwrap()).unwrap();
                }
                Html("<title>The application</title>You are back.")
            }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        Self { port, called }
    }

    /// Its request as this client.
    #[must_use]
    pub fn request(&self, client: &str) -> Authorization {
        Authorization::new(client, &format!("http://127.0.0.1:{}/cb", self.port))
    }

    /// The code of the next call of the redirect URI.
    ///
    /// # Panics
    /// When it is not called in time, or without a code.
    pub async fn code(&mut self) -> String {
        let called = tokio::time::timeout(PATIENCE, self.called.recv()).await.expect("the application is called").unwrap();
        called.query_pairs().find(|(name, _)| name == "code").expect("a code came back").1.into_owned()
    }
}
