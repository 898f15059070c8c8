//! A provider, as its discovery document (OpenID Connect Discovery, 3) and its key set describe it. Nothing is asked before it is needed.
//!
//! When documents are fetched, and how long they are kept, is `kept.rs`'; what a key verifies, `keys.rs`'.

use std::sync::Arc;

use claims_mapping::ConnectorId;
use futures_util::FutureExt as _;
use http::{Request, StatusCode, header};
use serde::Deserialize;
use time::{Duration, OffsetDateTime};
use url::Url;

use super::{
    issuer::Issuer,
    kept::{Fetch, Fetched, Kept, Rules},
    keys::{Algorithm, KeySet},
};
use crate::{
    ConnectorError,
    http::{Http, check_scheme},
};

const METADATA: Rules = Rules { pause: Duration::seconds(5), afterlife: None };
const METADATA_LIFE: Duration = Duration::hours(1);
const KEYS: Rules = Rules { pause: Duration::seconds(10), afterlife: Some(Duration::hours(24)) };
/// For how long keys are good: as their `max-age` says within these bounds, else the last.
const KEYS_LIFE: (Duration, Duration, Duration) = (Duration::minutes(5), Duration::hours(24), Duration::hours(1));

/// What is known of a provider when it is configured.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) issuer: Issuer,
    pub(super) document: Url,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) http: Http,
}

/// A provider.
pub(super) struct Provider {
    source: Arc<Source>,
    metadata: Arc<Kept<Metadata>>,
    keys: Arc<Kept<KeySet>>,
}

impl Provider {
    /// Does no I/O.
    pub(super) fn new(id: &ConnectorId, source: Source) -> Self {
        Self { source: Arc::new(source), metadata: Kept::new(METADATA, id.as_str()), keys: Kept::new(KEYS, id.as_str()) }
    }

    pub(super) fn issuer(&self) -> &Issuer {
        &self.source.issuer
    }

    /// The signatures that are taken from it.
    pub(super) fn algorithms(&self) -> &[Algorithm] {
        &self.source.algorithms
    }

    /// The way to it.
    pub(super) fn http(&self) -> &Http {
        &self.source.http
    }

    /// What its discovery document says: an hour old at most, or older while the provider is down.
    ///
    /// # Errors
    /// When there is none yet. A fetch that failed is repeated every 5 s at most; in between the answer comes at once.
    pub(super) async fn metadata(&self, now: OffsetDateTime) -> Result<Arc<Metadata>, ConnectorError> {
        let source = Arc::clone(&self.source);
        self.metadata.get(now, || fetch_metadata(source).boxed()).await
    }

    /// Its keys, with the one that is named, if it has it: where it is missing they are fetched again, every 10 s at most.
    ///
    /// # Errors
    /// When there are none, or the one that is named is missing and the provider can not be asked for it.
    pub(super) async fn keys(&self, kid: Option<&str>, now: OffsetDateTime) -> Result<Arc<KeySet>, ConnectorError> {
        let keys = self.keys.get(now, || self.fetch_keys(now)).await?;
        if kid.is_none_or(|kid| keys.has(kid)) { Ok(keys) } else { self.keys_anew(now).await }
    }

    /// Its keys, fetched again where that was not done within the last 10 s: for who misses one.
    ///
    /// # Errors
    /// When the provider can not be asked: then nobody can tell whether the key is its.
    pub(super) async fn keys_anew(&self, now: OffsetDateTime) -> Result<Arc<KeySet>, ConnectorError> {
        self.keys.renewed(now, || self.fetch_keys(now)).await
    }

    fn fetch_keys(&self, now: OffsetDateTime) -> Fetch<KeySet> {
        let (source, metadata) = (Arc::clone(&self.source), Arc::clone(&self.metadata));
        async move {
            let asked = Arc::clone(&source);
            let metadata = metadata.get(now, || fetch_metadata(asked).boxed()).await?;
            fetch_keys(&source, &metadata.jwks_uri).await
        }
        .boxed()
    }
}

/// What a discovery document says, checked.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Where the keys are.
    jwks_uri: Url,
    authorization_endpoint: Endpoint,
    token_endpoint: Endpoint,
    userinfo_endpoint: Endpoint,
    /// Whether it says who answers at the end of a sign-in (RFC 9207, 3).
    pub(super) sends_iss: bool,
}

/// An address that only some need: absent, or not to be used and why.
type Endpoint = Option<Result<Url, String>>;

impl Metadata {
    /// Where browsers are sent.
    pub(super) fn authorization_endpoint(&self) -> Result<&Url, ConnectorError> {
        endpoint(&self.authorization_endpoint, "authorization_endpoint")
    }

    /// Where codes and refresh tokens are exchanged.
    pub(super) fn token_endpoint(&self) -> Result<&Url, ConnectorError> {
        endpoint(&self.token_endpoint, "token_endpoint")
    }

    /// Where more claims are, if it has one.
    pub(super) fn userinfo_endpoint(&self) -> Result<Option<&Url>, ConnectorError> {
        self.userinfo_endpoint.as_ref().map(|_| endpoint(&self.userinfo_endpoint, "userinfo_endpoint")).transpose()
    }
}

fn endpoint<'a>(endpoint: &'a Endpoint, name: &str) -> Result<&'a Url, ConnectorError> {
    let unusable = |why: &str| ConnectorError::Unusable(format!("oidc: discovery: {name}: {why}"));
    match endpoint {
        Some(Ok(url)) => Ok(url),
        Some(Err(why)) => Err(unusable(why)),
        None => Err(unusable("the document does not have it")),
    }
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

async fn fetch_metadata(source: Arc<Source>) -> Fetched<Metadata> {
    let (body, _) = fetch(&source.http, &source.document, "discovery").await?;
    let unusable = |why: String| ConnectorError::Unusable(format!("oidc: discovery: {why}"));
    // A parser's own words may quote the document.
    let document: Document = serde_json::from_slice(&body)
        .map_err(|_| unusable("the answer is no discovery document (it needs `issuer` and `jwks_uri`)".into()))?;
    if !source.issuer.is_named_by(&document.issuer) {
        return Err(unusable("the document names another `issuer` than `issuer.url`, which must be equal to the last character".into()));
    }
    let asked = |text: &String| parse(text).and_then(|url| source.http.check(&url).map(|()| url));
    // The browser goes there, from wherever it is.
    let visited = |text: &String| parse(text).and_then(|url| check_scheme(&url).map(|()| url));
    let metadata = Metadata {
        jwks_uri: asked(&document.jwks_uri).map_err(|why| unusable(format!("jwks_uri: {why}")))?,
        authorization_endpoint: document.authorization_endpoint.as_ref().map(visited),
        token_endpoint: document.token_endpoint.as_ref().map(asked),
        userinfo_endpoint: document.userinfo_endpoint.as_ref().map(asked),
        sends_iss: document.authorization_response_iss_parameter_supported,
    };
    Ok((metadata, METADATA_LIFE))
}

fn parse(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| error.to_string())
}

async fn fetch_keys(source: &Source, jwks_uri: &Url) -> Fetched<KeySet> {
    let (body, max_age) = fetch(&source.http, jwks_uri, "keys").await?;
    let keys = KeySet::parse(&body, &source.algorithms).map_err(|why| ConnectorError::Unusable(format!("oidc: keys: {why}")))?;
    let (least, most, default) = KEYS_LIFE;
    Ok((keys, max_age.map_or(default, |age| age.clamp(least, most))))
}

/// A document, and how long its server says that it is good.
async fn fetch(http: &Http, url: &Url, what: &str) -> Result<(Vec<u8>, Option<Duration>), ConnectorError> {
    let request = Request::get(url.as_str()).header(header::ACCEPT, "application/json").body(Vec::new());
    let request = request.map_err(|error| ConnectorError::Unusable(format!("oidc: {what}: {error}")))?;
    let response = http.send(request).await?;
    match response.status() {
        StatusCode::OK => {
            let max_age = response.headers().get(header::CACHE_CONTROL).and_then(|value| max_age(value.to_str().ok()?));
            Ok((response.into_body(), max_age))
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(ConnectorError::Unavailable(format!("oidc: {what}: the provider answers {}", status.as_u16())))
        }
        status => Err(ConnectorError::Unusable(format!("oidc: {what}: the provider answers {}", status.as_u16()))),
    }
}

/// `max-age` of a `Cache-Control` (RFC 9111, 5.2.2); none at all where it is not to be kept.
fn max_age(value: &str) -> Option<Duration> {
    let directives = || value.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    if directives().any(|directive| directive == "no-store" || directive == "no-cache") {
        return Some(Duration::ZERO);
    }
    let seconds = directives().find_map(|directive| directive.strip_prefix("max-age=").map(|age| age.trim_matches('"').to_owned()))?;
    seconds.parse::<u32>().ok().map(|seconds| Duration::seconds(i64::from(seconds)))
}

#[cfg(test)]
mod tests;
