//! What Keystone is asked, one request at a time, and what its answers mean: yes, no, or "could not tell".
//!
//! No answer of Keystone's, no token and no id gets into an error: its refusals repeat what they were asked about.

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::Value;
use url::Url;

use super::account::{Account, Held};
use crate::{ConnectorError, Revocation, Secret, http::Http};

const CALLER: &str = "x-auth-token";
const SUBJECT: &str = "x-subject-token";
/// The most pages that one list is read from.
const MOST_PAGES: usize = 20;

/// Where a Keystone is, and how it is reached. It knows no account.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// The address, up to and with `/v3`.
    pub(super) base: Url,
    pub(super) http: Http,
}

/// A Keystone, asked as the service account.
#[derive(Clone)]
pub(super) struct Api {
    server: Arc<Server>,
    account: Arc<Account>,
    /// The account as which people, groups and the like are read.
    reader: Arc<Account>,
}

/// A token that Keystone gave for a proof.
pub(super) struct Issued {
    pub(super) token: Secret,
    /// What it says: the member `token` of the answer.
    pub(super) body: Value,
}

/// Items of a list.
pub(super) struct Listed {
    pub(super) items: Vec<Value>,
    /// Whether there are, or may be, more.
    pub(super) truncated: bool,
}

impl Api {
    /// People are read as the second account, where there is one; tokens are validated as the first.
    pub(super) fn new(server: Arc<Server>, account: Arc<Account>, reader: Option<Arc<Account>>) -> Self {
        Self { server, reader: reader.unwrap_or_else(|| Arc::clone(&account)), account }
    }

    /// A document: `None` where there is none. The segments of the path may be any text; what can be none is not there.
    ///
    /// # Errors
    /// When Keystone could not tell. `what` is what is asked for, in words: `a user`.
    pub(super) async fn get(&self, what: &'static str, path: &[&str], query: &[(&str, &str)]) -> Result<Option<Value>, ConnectorError> {
        // No path leads to what has no name, and `..` is no name.
        let Some(url) = self.server.url(path, query) else { return Ok(None) };
        let answer = self.ask(&self.reader, what, &url, None).await?;
        match answer.status() {
            StatusCode::OK => json(what, answer.body()).map(Some),
            StatusCode::NOT_FOUND => own(what, &answer).map(|()| None),
            status => Err(failed(what, status)),
        }
    }

    /// The items of a list, from as many pages as it takes: at most `most`. Of the address of a next page only what the query does not
    /// say already is taken, so that no page leads elsewhere. `member` is the list's name in the answer.
    ///
    /// # Errors
    /// When Keystone could not tell, which is also so where it knows no such list.
    pub(super) async fn list(
        &self,
        what: &'static str,
        path: &[&str],
        query: &[(&str, &str)],
        member: &'static str,
        most: usize,
    ) -> Result<Listed, ConnectorError> {
        let no_list = || unusable(what, "there is no such list");
        let first = self.server.url(path, query).ok_or_else(no_list)?;
        let (mut items, mut url) = (Vec::new(), first.clone());
        for _ in 0..MOST_PAGES {
            let answer = self.ask(&self.reader, what, &url, None).await?;
            let mut page = match answer.status() {
                StatusCode::OK => json(what, answer.body())?,
                StatusCode::NOT_FOUND => return Err(no_list()),
                status => return Err(failed(what, status)),
            };
            let Some(Value::Array(found)) = page.get_mut(member).map(Value::take) else {
                return Err(unusable(what, "the list is missing"));
            };
            items.extend(found);
            let next = match page.pointer("/links/next") {
                None | Some(Value::Null) => None,
                Some(Value::String(next)) => {
                    Some(continued(&first, query, next).ok_or_else(|| unusable(what, "the next page has no address"))?)
                }
                Some(_) => return Err(unusable(what, "the next page has no address")),
            };
            let cut = page.get("truncated") == Some(&Value::Bool(true));
            match next {
                _ if items.len() > most => {
                    items.truncate(most);
                    return Ok(Listed { items, truncated: true });
                }
                None => return Ok(Listed { items, truncated: cut }),
                Some(next) if next == url => return Err(unusable(what, "a page leads to itself")),
                Some(_) if items.len() == most => return Ok(Listed { items, truncated: true }),
                Some(next) => url = next,
            }
        }
        Ok(Listed { items, truncated: true })
    }

    /// What a token says, the member `token` of the answer: `None` where it is not in force. Tokens that have expired are never asked for.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn validate(&self, token: &str) -> Result<Option<Value>, ConnectorError> {
        const WHAT: &str = "a token";
        // What can not be sent is no token.
        let (Some(url), Some(subject)) = (self.server.url(&["auth", "tokens"], &[("nocatalog", "")]), secret_header(token)) else {
            return Ok(None);
        };
        let answer = self.ask(&self.account, WHAT, &url, Some(&subject)).await?;
        match answer.status() {
            StatusCode::OK => said(WHAT, answer.body()).map(Some),
            StatusCode::NOT_FOUND => own(WHAT, &answer).map(|()| None),
            status => Err(failed(WHAT, status)),
        }
    }

    /// A token for what someone proves themselves with (`auth` of the request): `None` where it is not right.
    ///
    /// What is issued here is not taken back when it is of no more use: each token that is revoked is a row by which Keystone
    /// tests every other one, and a token that nobody has kept harms nobody until it expires.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn issue(&self, auth: Value) -> Result<Option<Issued>, ConnectorError> {
        self.server.issue("a sign-in", auth, &[StatusCode::UNAUTHORIZED]).await
    }

    /// The same for an application credential, of which Keystone says that there is none (404) where it does not know the id.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn issue_for_credential(&self, auth: Value) -> Result<Option<Issued>, ConnectorError> {
        self.server.issue("a sign-in", auth, &[StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND]).await
    }

    /// Takes a token back by the right of whoever asks.
    ///
    /// # Errors
    /// When Keystone could not tell.
    pub(super) async fn delete(&self, caller: &Secret, token: &str) -> Result<Revocation, ConnectorError> {
        const WHAT: &str = "taking a token back";
        let Some(caller) = secret_header(caller.expose()) else { return Ok(Revocation::CallerUnknown) };
        let (Some(url), Some(subject)) = (self.server.url(&["auth", "tokens"], &[]), secret_header(token)) else {
            return Ok(Revocation::Unknown);
        };
        let answer = self.server.send(Method::DELETE, &url, &[(CALLER, &caller), (SUBJECT, &subject)], Vec::new()).await?;
        let no = match answer.status() {
            StatusCode::NO_CONTENT => return Ok(Revocation::Revoked),
            StatusCode::NOT_FOUND => Revocation::Unknown,
            StatusCode::UNAUTHORIZED => Revocation::CallerUnknown,
            StatusCode::FORBIDDEN => Revocation::Forbidden,
            status => return Err(failed(WHAT, status)),
        };
        own(WHAT, &answer).map(|()| no)
    }

    /// Asks as the service account: once more with a new token where Keystone no longer takes the one at hand.
    async fn ask(
        &self,
        account: &Arc<Account>,
        what: &'static str,
        url: &Url,
        subject: Option<&HeaderValue>,
    ) -> Result<Response<Vec<u8>>, ConnectorError> {
        let held = account.token().await?;
        let answer = self.ask_with(&held, url, subject).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let held = account.another(&held).await?;
        let answer = self.ask_with(&held, url, subject).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        Err(account.refused(&held, format!("keystone: {what}: it does not take the service account's new token (401)")))
    }

    async fn ask_with(&self, held: &Held, url: &Url, subject: Option<&HeaderValue>) -> Result<Response<Vec<u8>>, ConnectorError> {
        let mut headers = vec![(CALLER, held.header())];
        headers.extend(subject.map(|subject| (SUBJECT, subject)));
        self.server.send(Method::GET, url, &headers, Vec::new()).await
    }
}

impl Server {
    /// The address of a document: `None` where a segment is none of a path.
    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Option<Url> {
        // Servers take an encoded `/` for one that parts segments.
        if path.iter().any(|segment| matches!(*segment, "" | "." | "..") || segment.contains('/')) {
            return None;
        }
        let mut url = self.base.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(path);
        with_query(&mut url, query.iter().copied());
        Some(url)
    }

    /// A token for a proof; `None` where it is not right, which is what the answers `wrong` mean.
    pub(super) async fn issue(&self, what: &'static str, auth: Value, wrong: &[StatusCode]) -> Result<Option<Issued>, ConnectorError> {
        let url = self.url(&["auth", "tokens"], &[("nocatalog", "")]).ok_or_else(|| unusable(what, "it has no address"))?;
        let body = serde_json::json!({ "auth": auth }).to_string().into_bytes();
        let answer = self.send(Method::POST, &url, &[], body).await?;
        match answer.status() {
            StatusCode::CREATED => {}
            status if wrong.contains(&status) => return own(what, &answer).map(|()| None),
            status => return Err(failed(what, status)),
        }
        let token = answer.headers().get(SUBJECT).and_then(|token| token.to_str().ok()).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| unusable(what, "the answer has no token"))?;
        Ok(Some(Issued { token: Secret::new(token.to_owned()), body: said(what, answer.body())? }))
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &[(&'static str, &HeaderValue)],
        body: Vec<u8>,
    ) -> Result<Response<Vec<u8>>, ConnectorError> {
        let mut request = Request::builder().method(method).uri(url.as_str()).header(header::ACCEPT, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(body).map_err(|_| ConnectorError::Unusable("keystone: the request can not be written".to_owned()))?;
        // The paths of people are made of their ids.
        self.http.send_to(Some(&self.base), request).await
    }
}

/// A token as a header that does not print itself; `None` where it can be none.
pub(super) fn secret_header(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(token).ok().filter(|_| !token.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}

fn with_query<'a>(url: &mut Url, query: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut query = query.into_iter().peekable();
    if query.peek().is_some() {
        // A key of Keystone's without a value is written without `=`.
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in query {
            if value.is_empty() {
                text.append_key_only(name);
            } else {
                text.append_pair(name, value);
            }
        }
        url.set_query(Some(&text.finish()));
    }
}

/// The address of a next page: what was asked for, and what `next` says besides.
fn continued(first: &Url, query: &[(&str, &str)], next: &str) -> Option<Url> {
    let next = first.join(next).ok()?;
    let more: Vec<_> = next.query_pairs().filter(|(name, _)| !query.iter().any(|(own, _)| own == name)).collect();
    let mut url = first.clone();
    url.set_query(None);
    with_query(&mut url, query.iter().copied().chain(more.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))));
    Some(url)
}

fn json(what: &str, body: &[u8]) -> Result<Value, ConnectorError> {
    // The parser's message holds no text of the document's, and is left out all the same.
    serde_json::from_slice(body).map_err(|_| unusable(what, "the answer is no JSON"))
}

/// Whether a "no" is Keystone's own, and not that of a proxy which has lost the way to it: its errors repeat the status.
fn own(what: &str, answer: &Response<Vec<u8>>) -> Result<(), ConnectorError> {
    let status = answer.status().as_u16();
    let code = serde_json::from_slice::<Value>(answer.body()).ok().and_then(|body| body.pointer("/error/code").and_then(Value::as_u64));
    if code == Some(status.into()) {
        return Ok(());
    }
    Err(unusable(what, &format!("it answers {status}, and not as Keystone does: check the address, and what stands before Keystone")))
}

/// What an answer says of a token.
fn said(what: &str, body: &[u8]) -> Result<Value, ConnectorError> {
    let mut answer = json(what, body)?;
    match answer.get_mut("token").map(Value::take) {
        Some(token @ Value::Object(_)) => Ok(token),
        _ => Err(unusable(what, "the answer says nothing of a token")),
    }
}

fn unusable(what: &str, why: &str) -> ConnectorError {
    ConnectorError::Unusable(format!("keystone: {what}: {why}"))
}

/// What a status means that is neither yes nor no.
fn failed(what: &str, status: StatusCode) -> ConnectorError {
    let code = status.as_u16();
    match status {
        StatusCode::FORBIDDEN => ConnectorError::Refused(format!(
            "keystone: {what}: it is forbidden (403): give the service account the role that this needs (`service` for tokens, `reader` on the system for people)"
        )),
        StatusCode::UNAUTHORIZED => ConnectorError::Refused(format!("keystone: {what}: the service account is not taken (401)")),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            ConnectorError::Unavailable(format!("keystone: {what}: it answers {code}"))
        }
        status if status.is_server_error() => ConnectorError::Unavailable(format!("keystone: {what}: it answers {code}")),
        _ => unusable(what, &format!("it answers {code}")),
    }
}

#[cfg(test)]
mod tests;
