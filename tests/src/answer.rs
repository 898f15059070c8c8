//! An HTTP answer, read to its end.

use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;
use url::Url;

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
    /// The address that gave it.
    pub url: Url,
}

impl Answer {
    /// Reads an answer to its end.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers, url) = (response.status().as_u16(), response.headers().clone(), response.url().clone());
        Ok(Self { status, headers, url, text: response.text().await? })
    }

    /// The body as JSON; `null` where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The member `error` of the body; empty where there is none.
    #[must_use]
    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Where the answer sends the browser.
    #[must_use]
    pub fn location(&self) -> Option<Url> {
        let text = self.headers.get(LOCATION)?.to_str().ok()?;
        Some(self.url.join(text).expect("a Location is an address"))
    }

    /// One header as text; empty where it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    /// The answer, if it has this status.
    ///
    /// # Panics
    /// When it has another; with the body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{} answered: {}", self.url.path(), self.text);
        self
    }
}
