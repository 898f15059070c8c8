//! An authorization request, right unless a test makes it wrong.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use url::Url;

/// PKCE's challenge of a verifier (RFC 7636, 4.2).
#[must_use]
pub fn challenge(verifier: &str) -> String {
    B64.encode(digest(&SHA256, verifier.as_bytes()))
}

/// The parameters of a request, in order.
#[derive(Debug, Clone)]
pub struct Authorization {
    /// PKCE's verifier, which the client keeps.
    pub verifier: String,
    parameters: Vec<(String, String)>,
}

impl Authorization {
    /// A request of this client for this redirect URI, with the scopes `openid profile email groups roles`.
    #[must_use]
    pub fn new(client: &str, redirect_uri: &str) -> Self {
        let verifier = B64.encode(digest(&SHA256, format!("{client} {redirect_uri}").as_bytes()));
        let request = Self { parameters: Vec::new(), verifier };
        let challenge = challenge(&request.verifier);
        request
            .with("response_type", "code")
            .with("client_id", client)
            .with("redirect_uri", redirect_uri)
            .with("scope", "openid profile email groups roles")
            .with("state", "the-state")
            .with("nonce", "the-nonce")
            .with("code_challenge", &challenge)
            .with("code_challenge_method", "S256")
    }

    /// A request of the public client `web`.
    #[must_use]
    pub fn web() -> Self {
        Self::new("web", "http://127.0.0.1:4711/cb")
    }

    /// A request of `web` for a token that may search at this issuer.
    #[must_use]
    pub fn for_search(issuer: &str) -> Self {
        Self::web().with("scope", "openid profile email users.read").add("resource", &format!("{issuer}/api"))
    }

    /// A request of the confidential client `backend`.
    #[must_use]
    pub fn backend() -> Self {
        Self::new("backend", "https://backend.example/cb")
    }

    /// Sets a parameter.
    #[must_use]
    pub fn with(self, name: &str, value: &str) -> Self {
        self.without(name).add(name, value)
    }

    /// Adds a parameter, also where there is one of that name.
    #[must_use]
    pub fn add(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a parameter out.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.parameters.retain(|(n, _)| n != name);
        self
    }

    /// One parameter; empty where it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.parameters.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()).unwrap_or_default()
    }

    /// The path and query to open in a browser.
    #[must_use]
    pub fn path(&self) -> String {
        let mut url = Url::parse("http://x/oauth2/authorize").unwrap();
        url.query_pairs_mut().extend_pairs(&self.parameters);
        format!("{}?{}", url.path(), url.query().unwrap())
    }
}
