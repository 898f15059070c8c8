//! The provider's userinfo (OpenID Connect Core, 5.3): when it is asked, and what of its answer counts.
//!
//! It adds to what an ID token says and changes nothing of it. That the answer is about the same person is checked here, and nowhere else.

use std::collections::BTreeSet;

use http::{
    HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use serde_json::{Map, Value};
use url::Url;

use super::{
    UserInfo,
    client::{is_busy, unusable},
};
use crate::{ConnectorError, Secret};

/// Claims that say something of a token, not of a person: an ID token's own, which userinfo never gives (OpenID Connect Core, 2; RFC 7519, 4.1).
const OF_THE_TOKEN: [&str; 15] =
    ["iss", "aud", "exp", "iat", "nbf", "jti", "nonce", "azp", "at_hash", "c_hash", "s_hash", "acr", "amr", "auth_time", "sid"];

/// What the endpoint says.
#[derive(Debug)]
pub(super) enum Answer {
    Claims(Map<String, Value>),
    /// It does not take the access token.
    No,
}

/// When userinfo is asked.
#[derive(Debug)]
pub(super) struct Need {
    when: UserInfo,
    /// The claims that the mapping names; `None` where it may use any.
    named: Option<BTreeSet<String>>,
}

impl Need {
    pub(super) fn new(when: UserInfo, named: Option<BTreeSet<&str>>) -> Self {
        Self { when, named: named.map(|names| names.into_iter().map(str::to_owned).collect()) }
    }

    /// Whether it is asked beside an ID token that says `claims`.
    pub(super) fn beside(&self, claims: &Map<String, Value>) -> bool {
        match (self.when, &self.named) {
            (UserInfo::Always, _) | (UserInfo::WhenNeeded, None) => true,
            (UserInfo::WhenNeeded, Some(named)) => {
                named.iter().any(|name| !claims.contains_key(name) && !OF_THE_TOKEN.contains(&name.as_str()))
            }
            (UserInfo::Never, _) => false,
        }
    }

    /// Whether it is asked where there is no ID token: it is then all that can tell.
    pub(super) fn alone(&self) -> bool {
        self.when != UserInfo::Never
    }

    /// Whether a sign-in fails where the provider has no userinfo.
    pub(super) fn is_strict(&self) -> bool {
        self.when == UserInfo::Always
    }
}

/// The request, with the access token that came with the ID token.
///
/// # Errors
/// When the access token can not stand in a header.
pub(super) fn request(endpoint: &Url, access_token: &Secret) -> Result<http::Request<Vec<u8>>, ConnectorError> {
    let broken = || unusable("the access token can not be sent to userinfo");
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", access_token.expose())).map_err(|_| broken())?;
    bearer.set_sensitive(true);
    http::Request::builder()
        .method(Method::GET)
        .uri(endpoint.as_str())
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(AUTHORIZATION, bearer)
        .body(Vec::new())
        .map_err(|_| broken())
}

/// Reads the answer.
///
/// # Errors
/// When it is none.
pub(super) fn read(response: &http::Response<Vec<u8>>) -> Result<Answer, ConnectorError> {
    let status = response.status();
    if is_busy(status) {
        return Err(ConnectorError::Unavailable(format!("oidc: userinfo answers with status {}", status.as_u16())));
    }
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(Answer::No);
    }
    if status != StatusCode::OK {
        return Err(ConnectorError::Unusable(format!("oidc: userinfo answers with status {}", status.as_u16())));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/jwt")) {
        return Err(unusable(
            "userinfo answers with a signed or encrypted token; register the client for plain JSON (no `userinfo_signed_response_alg`)",
        ));
    }
    serde_json::from_slice(response.body())
        .map(Answer::Claims)
        .map_err(|_| unusable("userinfo answers with something else than a JSON object"))
}

/// What userinfo says about `sub`, and about a person at all.
///
/// # Errors
/// When it is about someone else (OpenID Connect Core, 5.3.2).
pub(super) fn about(mut answer: Map<String, Value>, sub: &str) -> Result<Map<String, Value>, ConnectorError> {
    if answer.get("sub").and_then(Value::as_str) != Some(sub) {
        return Err(unusable("userinfo is about someone else than the ID token, or does not say about whom (`sub`)"));
    }
    answer.retain(|name, _| !OF_THE_TOKEN.contains(&name.as_str()));
    Ok(answer)
}

/// Adds what `claims` does not have.
pub(super) fn add(claims: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        claims.entry(name).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("no object") };
        map
    }

    fn response(status: u16, kind: &str, body: &str) -> http::Response<Vec<u8>> {
        http::Response::builder().status(status).header(CONTENT_TYPE, kind).body(body.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn t15_userinfo_about_someone_else_is_refused() {
        for wrong in [json!({"sub": "bob"}), json!({}), json!({"sub": null}), json!({"sub": ["ada"]}), json!({"sub": "Ada"})] {
            assert!(matches!(about(map(wrong.clone()), "ada"), Err(ConnectorError::Unusable(_))), "{wrong}");
        }
        assert!(about(map(json!({"sub": "ada"})), "ada").is_ok());
    }

    #[test]
    fn t12_userinfo_overrides_no_claim_and_says_nothing_of_the_token() {
        let mut claims = map(json!({"sub": "ada", "iss": "https://op.example", "tenant_id": "acme", "email": null}));
        let answer = map(json!({
            "sub": "ada", "iss": "https://evil.example", "tenant_id": "globex", "email": "ada@globex.example", "name": "Ada",
            "aud": "x", "exp": 1, "iat": 1, "nbf": 1, "nonce": "n", "azp": "x", "at_hash": "x", "c_hash": "x", "acr": "gold", "amr": ["mfa"],
            "auth_time": 1, "sid": "s", "jti": "j",
        }));
        add(&mut claims, about(answer, "ada").unwrap());
        assert_eq!(
            Value::Object(claims),
            json!({"sub": "ada", "iss": "https://op.example", "tenant_id": "acme", "email": null, "name": "Ada"})
        );
    }

    #[test]
    fn userinfo_is_asked_where_a_named_claim_is_missing() {
        let need = |when, named: Option<&[&str]>| Need::new(when, named.map(|names| names.iter().copied().collect()));
        let claims = map(json!({"sub": "ada", "name": "Ada"}));
        assert!(!need(UserInfo::WhenNeeded, Some(&["name", "sub"])).beside(&claims));
        assert!(need(UserInfo::WhenNeeded, Some(&["name", "groups"])).beside(&claims));
        assert!(!need(UserInfo::WhenNeeded, Some(&["name", "acr"])).beside(&claims), "userinfo never gives acr");
        assert!(need(UserInfo::WhenNeeded, None).beside(&claims), "an expression may look at any claim");
        assert!(need(UserInfo::Always, Some(&["name"])).beside(&claims));
        assert!(!need(UserInfo::Never, None).beside(&claims));
        assert!(!need(UserInfo::Never, None).alone() && need(UserInfo::WhenNeeded, Some(&[])).alone());
    }

    #[test]
    fn answers_that_are_none_are_told_apart() {
        assert!(matches!(read(&response(200, "application/json; charset=utf-8", r#"{"sub":"a"}"#)), Ok(Answer::Claims(_))));
        for status in [401, 403] {
            assert!(matches!(read(&response(status, "application/json", "{}")), Ok(Answer::No)));
        }
        for status in [500, 503, 429] {
            assert!(matches!(read(&response(status, "application/json", "{}")), Err(ConnectorError::Unavailable(_))));
        }
        let faults = [(200, "application/json", "[]"), (200, "application/jwt", "a.b.c"), (302, "text/html", ""), (404, "text/html", "no")];
        for (status, kind, body) in faults {
            let Err(ConnectorError::Unusable(text)) = read(&response(status, kind, body)) else { panic!("{status} {kind}") };
            assert_eq!(text.contains("plain JSON"), kind == "application/jwt");
        }
    }

    #[test]
    fn the_access_token_goes_into_the_header_only() {
        let endpoint = Url::parse("https://op.example/userinfo").unwrap();
        let request = request(&endpoint, &Secret::new("s3cret".to_owned())).unwrap();
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer s3cret");
        assert!(!format!("{request:?}").contains("s3cret") && request.body().is_empty());
        assert!(super::request(&endpoint, &Secret::new("s3\ncret".to_owned())).is_err());
    }
}
