//! An application's endpoint for back-channel logout: it keeps the logout tokens that it gets, and answers as the test says.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Form, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde::Deserialize;

use crate::{ports, process::PATIENCE};

/// How it answers one token.
#[derive(Debug, Clone)]
pub enum Reply {
    /// With this status.
    Status(u16),
    /// Not at all.
    Nothing,
    /// By sending the broker elsewhere.
    Redirect(String),
}

#[derive(Debug, Default)]
struct Inbox {
    tokens: Vec<String>,
    replies: VecDeque<Reply>,
}

/// The endpoint.
#[derive(Debug)]
pub struct LogoutReceiver {
    address: String,
    inbox: Arc<Mutex<Inbox>>,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Deserialize)]
struct Notice {
    logout_token: String,
}

impl LogoutReceiver {
    /// Starts it. It gives these answers in turn, and 200 after them.
    ///
    /// # Panics
    /// When it can not listen.
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let inbox = Arc::new(Mutex::new(Inbox { tokens: Vec::new(), replies: replies.into_iter().collect() }));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", ports::free())).await.unwrap();
        let address = format!("http://{}/logout?of=app", listener.local_addr().unwrap());
        let routes = Router::new().route("/logout", post(receive)).route("/backchannel_logout", post(receive));
        let routes = routes.with_state(Arc::clone(&inbox));
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, inbox, server }
    }

    /// Its address, for `backchannelLogoutUri`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its origin, for an application whose endpoint is `/backchannel_logout` there.
    ///
    /// # Panics
    /// Never: the address has a path.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.address.split("/logout").next().unwrap()
    }

    /// The tokens that it got so far.
    ///
    /// # Panics
    /// When a test has broken it.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.inbox.lock().unwrap().tokens.clone()
    }

    /// Waits until it has got so many tokens.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn wait_for(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        while self.tokens().len() < count {
            assert!(begun.elapsed() < PATIENCE, "{} of {count} logout tokens came", self.tokens().len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.tokens()
    }
}

impl Drop for LogoutReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(inbox): State<Arc<Mutex<Inbox>>>, Form(notice): Form<Notice>) -> Response {
    let reply = {
        let mut inbox = inbox.lock().unwrap();
        inbox.tokens.push(notice.logout_token);
        inbox.replies.pop_front().unwrap_or(Reply::Status(200))
    };
    match reply {
        Reply::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Reply::Nothing => std::future::pending().await,
        Reply::Redirect(to) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response(),
    }
}
