//! A peer that speaks to the doors for programs: token endpoint, userinfo, search, reviews.

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use url::Url;

use crate::{Answer, Authorization, configuration::secret_of};

/// What the token endpoint gave.
#[derive(Debug, Clone)]
pub struct Tokens(pub Value);

impl Tokens {
    /// The access token.
    #[must_use]
    pub fn access(&self) -> &str {
        self.text("access_token")
    }

    /// The refresh token.
    #[must_use]
    pub fn refresh(&self) -> &str {
        self.text("refresh_token")
    }

    /// The ID token.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text("id_token")
    }

    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_else(|| panic!("no {name} was given"))
    }
}

/// The peer.
#[derive(Debug, Clone)]
pub struct Service {
    http: Client,
    issuer: String,
}

impl Service {
    /// A peer of the broker at this address.
    #[must_use]
    pub fn new(http: Client, issuer: &str) -> Self {
        Self { http, issuer: issuer.to_owned() }
    }

    /// The client beneath, for requests of another form.
    #[must_use]
    pub const fn http(&self) -> &Client {
        &self.http
    }

    /// The address of a path.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.issuer)
    }

    /// Sends a request.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        self.try_send(request).await.expect("the broker answers")
    }

    /// Sends a request to a broker that may be killed meanwhile.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn try_send(&self, request: RequestBuilder) -> reqwest::Result<Answer> {
        Answer::read(request.send().await?).await
    }

    /// Gets a path without a token.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.http.get(self.at(path))).await
    }

    /// Gets a path with an access token.
    pub async fn get_as(&self, token: &str, path: &str) -> Answer {
        self.send(self.http.get(self.at(path)).bearer_auth(token)).await
    }

    /// Asks the token endpoint, with nothing added.
    pub async fn token(&self, form: &[(&str, &str)]) -> Answer {
        self.send(self.token_request(form)).await
    }

    fn token_request(&self, form: &[(&str, &str)]) -> RequestBuilder {
        self.http.post(self.at("/oauth2/token")).form(form)
    }

    /// Exchanges a code as the public client of the request does.
    pub async fn try_exchange(&self, request: &Authorization, code: &str) -> Answer {
        self.send(self.exchange_request(request, code)).await
    }

    /// The request that exchanges a code.
    pub fn exchange_request(&self, request: &Authorization, code: &str) -> RequestBuilder {
        self.token_request(&[
            ("grant_type", "authorization_code"),
            ("client_id", request.get("client_id")),
            ("code", code),
            ("redirect_uri", request.get("redirect_uri")),
            ("code_verifier", &request.verifier),
        ])
    }

    /// The same, and the tokens that it gives.
    pub async fn exchange(&self, request: &Authorization, code: &str) -> Tokens {
        Tokens(self.try_exchange(request, code).await.expect(200).json())
    }

    /// Refreshes as a public client does.
    pub async fn try_refresh(&self, client: &str, refresh_token: &str) -> Answer {
        self.send(self.refresh_request(client, refresh_token)).await
    }

    /// The request that refreshes.
    pub fn refresh_request(&self, client: &str, refresh_token: &str) -> RequestBuilder {
        self.token_request(&[("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", refresh_token)])
    }

    /// The same, and the tokens that it gives.
    pub async fn refresh(&self, client: &str, refresh_token: &str) -> Tokens {
        Tokens(self.try_refresh(client, refresh_token).await.expect(200).json())
    }

    /// A confidential client's own token.
    pub async fn client_credentials(&self, client: &str) -> Tokens {
        let form = [("grant_type", "client_credentials"), ("client_id", client), ("client_secret", &secret_of(client))];
        Tokens(self.token(&form).await.expect(200).json())
    }

    /// Revokes a token as a public client does.
    pub async fn revoke(&self, client: &str, token: &str) -> Answer {
        self.send(self.http.post(self.at("/oauth2/revoke")).form(&[("client_id", client), ("token", token)])).await
    }

    /// Who the token's person is.
    pub async fn userinfo(&self, token: &str) -> Answer {
        self.get_as(token, "/oauth2/userinfo").await
    }

    /// Asks for a review: the status of the answer's review, as `kubernetes` does it.
    pub async fn review(&self, reviewer_token: &str, token: &str, audiences: &[&str]) -> Value {
        let body = json!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {"creationTimestamp": null},
            "spec": {"token": token, "audiences": audiences}, "status": {"user": {}},
        });
        let answer = self.review_request(Some(reviewer_token), "v1", &body).await.expect(200).json();
        assert!(!answer.to_string().contains(token), "a review never says the token");
        answer["status"].clone()
    }

    /// Sends a review as it is.
    pub async fn review_request(&self, reviewer_token: Option<&str>, version: &str, body: &Value) -> Answer {
        let request = self.http.post(self.at(&format!("/apis/authentication.k8s.io/{version}/tokenreviews"))).json(body);
        self.send(reviewer_token.into_iter().fold(request, RequestBuilder::bearer_auth)).await
    }

    /// Searches, and gives the usernames with their tenants: `acme/jane`, in the order of the answer.
    pub async fn search(&self, token: &str, path: &str, text: &str) -> Vec<String> {
        let mut address = Url::parse(&self.at(path)).unwrap();
        address.query_pairs_mut().append_pair("search", text);
        names(&self.send(self.http.get(address).bearer_auth(token)).await.expect(200))
    }
}

/// The people of an answer: `acme/jane`, in its order.
///
/// # Panics
/// When the answer has none.
#[must_use]
pub fn names(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let users = json["users"].as_array().unwrap_or_else(|| panic!("no users in {}", answer.text));
    users.iter().map(|u| format!("{}/{}", u["tenantId"].as_str().unwrap(), u["username"].as_str().unwrap())).collect()
}
