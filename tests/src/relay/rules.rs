//! What a relay does with which requests.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use tokio::sync::watch;

use super::Seen;

/// An answer of the relay's own.
#[derive(Debug, Clone)]
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    /// One of this status, with this body. It is called JSON, whatever it is.
    ///
    /// # Panics
    /// When there is no such status.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        Self { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
    }

    /// The same with a header set.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        self
    }

    pub(super) fn response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// What it does with a request.
#[derive(Debug, Clone)]
pub enum Manner {
    /// Passes it on.
    PassOn,
    /// Answers by itself.
    Answer(Reply),
    /// Passes it on after this time.
    Delay(Duration),
    /// Holds it until the relay passes everything on.
    Hold,
    /// Breaks the connection without an answer.
    Break,
}

/// Which requests a rule is for.
#[derive(Debug, Clone)]
pub struct When {
    method: Option<Method>,
    path: Option<String>,
    left: Option<usize>,
}

impl When {
    /// All.
    #[must_use]
    pub const fn any() -> Self {
        Self { method: None, path: None, left: None }
    }

    /// Those for a path, whatever their query.
    #[must_use]
    pub fn path(path: &str) -> Self {
        Self { path: Some(path.to_owned()), ..Self::any() }
    }

    /// Only those of this method.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.parse().unwrap());
        self
    }

    /// Only the next so many.
    #[must_use]
    pub const fn next(mut self, count: usize) -> Self {
        self.left = Some(count);
        self
    }

    fn fits(&self, request: &Seen) -> bool {
        self.left != Some(0)
            && self.method.as_ref().is_none_or(|method| *method == request.method)
            && self.path.as_ref().is_none_or(|path| path == request.uri.path())
    }
}

/// What is done with one request.
#[derive(Debug)]
pub(super) enum Now {
    PassOn,
    Answer(Reply),
    Delay(Duration),
    /// Until the sender is gone.
    Hold(watch::Receiver<()>),
    Break,
}

/// All rules of a relay.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    when: When,
    manner: Manner,
    held: watch::Sender<()>,
}

impl Rules {
    pub(super) fn add(&mut self, when: When, manner: Manner) {
        self.0.push(Rule { when, manner, held: watch::Sender::new(()) });
    }

    /// What is to be done with a request, which is then counted. A rule that is used up stays: it may still hold some.
    pub(super) fn take(&mut self, request: &Seen) -> Now {
        let Some(rule) = self.0.iter_mut().rev().find(|rule| rule.when.fits(request)) else { return Now::PassOn };
        if let Some(left) = &mut rule.when.left {
            *left -= 1;
        }
        match &rule.manner {
            Manner::PassOn => Now::PassOn,
            Manner::Answer(reply) => Now::Answer(reply.clone()),
            Manner::Delay(time) => Now::Delay(*time),
            Manner::Hold => Now::Hold(rule.held.subscribe()),
            Manner::Break => Now::Break,
        }
    }
}
