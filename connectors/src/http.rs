//! The one way to an upstream that speaks HTTP: bounded in time and size, to allowed addresses only, without redirects, proxies and cookies.
//!
//! It sends what it is given, and judges neither status nor content.

use std::{
    collections::HashMap,
    error::Error,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use reqwest::{
    Client, Request, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::sync::OnceCell;
use url::{Host, Url};

use crate::{ConnectorError, network::Networks};

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long an answer may take, from the first packet to its last byte.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// The largest answer that is read, in bytes.
pub(crate) const MOST_BYTES: usize = 512 * 1024;
const USER_AGENT: &str = concat!("Denizen/", env!("CARGO_PKG_VERSION"));

/// Whom TLS trusts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Roots {
    /// The platform's authorities.
    Platform,
    /// These, as PEM.
    Pem(Arc<str>),
}

impl Roots {
    /// # Errors
    /// When the text holds no certificate, or one that can not be an authority.
    pub(crate) fn of_pem(text: &str) -> Result<Self, String> {
        read_roots(text).map(|_| Self::Pem(text.into()))
    }

    fn tls(&self) -> Result<ClientConfig, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        Ok(match self {
            Self::Platform => {
                let unreadable = |error| format!("the platform's authorities can not be read: {error}");
                builder.with_platform_verifier().map_err(unreadable)?.with_no_client_auth()
            }
            Self::Pem(text) => builder.with_root_certificates(read_roots(text)?).with_no_client_auth(),
        })
    }
}

fn read_roots(text: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("it holds no certificate (PEM)".to_owned()) } else { Ok(roots) }
}

/// What clients are shared by.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Reach {
    roots: Roots,
    networks: Networks,
}

/// A client, made when it is first needed: reading the platform's authorities takes longer than all else that a connector does at start.
struct Lazy {
    reach: Reach,
    client: OnceCell<Client>,
}

/// The clients in use, so that a thousand connectors with the same authorities and networks have one pool and one set of roots.
static CLIENTS: LazyLock<Mutex<HashMap<Reach, Weak<Lazy>>>> = LazyLock::new(Mutex::default);

/// The bounded client of one upstream.
#[derive(Clone)]
pub(crate) struct Http {
    /// The connector's type, with which messages begin.
    kind: &'static str,
    lazy: Arc<Lazy>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

impl Http {
    /// The client for these authorities and networks. Does no I/O.
    pub(crate) fn new(kind: &'static str, roots: Roots, networks: Networks) -> Self {
        let reach = Reach { roots, networks };
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lazy) = clients.get(&reach).and_then(Weak::upgrade) {
            return Self { kind, lazy };
        }
        clients.retain(|_, client| client.strong_count() > 0);
        let lazy = Arc::new(Lazy { reach: reach.clone(), client: OnceCell::new() });
        clients.insert(reach, Arc::downgrade(&lazy));
        Self { kind, lazy }
    }

    /// Whether a request may go to this address, as far as the address itself says so: https (plain http to loopback only), and no
    /// literal of a network that is not allowed.
    ///
    /// # Errors
    /// What is wrong with it, for the operator.
    pub(crate) fn check(&self, url: &Url) -> Result<(), String> {
        check_scheme(url)?;
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            _ => None,
        };
        match literal {
            Some(address) if !self.lazy.reach.networks.allow(address) => Err(NotAllowed(address).to_string()),
            _ => Ok(()),
        }
    }

    /// Sends a request, and reads the whole answer, whatever its status short of a redirect.
    ///
    /// # Errors
    /// [`ConnectorError::Unavailable`] when there is no whole answer in time; [`ConnectorError::Unusable`] when the address is not allowed,
    /// the answer is a redirect, or too large.
    pub(crate) async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, ConnectorError> {
        self.send_to(None, request).await
    }

    /// The same, where messages have this address in place of the request's, whose path may hold what they must not.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn send_to(
        &self,
        server: Option<&Url>,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, ConnectorError> {
        let (parts, body) = request.into_parts();
        let url =
            Url::parse(&parts.uri.to_string()).map_err(|error| ConnectorError::Unusable(format!("{}: an address: {error}", self.kind)))?;
        let at = format!("{}: {}", self.kind, shown(server.unwrap_or(&url)));
        let unusable = |why: String| ConnectorError::Unusable(format!("{at}: {why}"));
        self.check(&url).map_err(unusable)?;
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        if !body.is_empty() {
            *request.body_mut() = Some(body.into());
        }
        let response = self.client().await?.execute(request).await.map_err(|error| failed(&at, &error))?;
        if response.status().is_redirection() {
            return Err(unusable(format!("it answers {}, and redirects are not followed", response.status().as_u16())));
        }
        read(&at, response).await
    }

    async fn client(&self) -> Result<&Client, ConnectorError> {
        let unavailable = |error: String| ConnectorError::Unavailable(format!("{}: no client can be made: {error}", self.kind));
        let make = || async {
            let reach = self.lazy.reach.clone();
            // The platform's authorities are many files.
            let made = tokio::task::spawn_blocking(move || make(reach)).await;
            made.map_err(|error| error.to_string()).flatten().map_err(unavailable)
        };
        self.lazy.client.get_or_try_init(make).await
    }
}

fn make(reach: Reach) -> Result<Client, String> {
    let Reach { roots, networks } = reach;
    Client::builder()
        .tls_backend_preconfigured(roots.tls()?)
        .dns_resolver(Arc::new(Resolver { networks, lookups: Lookups::default() }))
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        // What comes is what is counted.
        .no_gzip()
        .connect_timeout(CONNECT_WITHIN)
        .timeout(ANSWER_WITHIN)
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(8)
        .user_agent(USER_AGENT)
        .build()
        .map_err(|error| described(&error))
}

async fn read(at: &str, mut response: Response) -> Result<http::Response<Vec<u8>>, ConnectorError> {
    let too_large = || ConnectorError::Unusable(format!("{at}: the answer is larger than {MOST_BYTES} bytes"));
    // What it says of itself; the count below is what holds.
    if response.content_length().is_some_and(|length| length > MOST_BYTES as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(at, &error))? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    let mut whole = http::Response::new(body);
    *whole.status_mut() = response.status();
    *whole.headers_mut() = std::mem::take(response.headers_mut());
    Ok(whole)
}

/// Whether an address is https, or plain http to this very machine.
///
/// # Errors
/// What is wrong with it, for the operator.
pub(crate) fn check_scheme(url: &Url) -> Result<(), String> {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == LOCALHOST,
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err("it has no host".to_owned()),
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback => Ok(()),
        "http" => Err("it must be https (plain http is for loopback addresses only)".to_owned()),
        _ => Err("it must be https".to_owned()),
    }
}

/// An address for a message: scheme, host and path, without what may hold a secret.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn failed(at: &str, error: &reqwest::Error) -> ConnectorError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(not_allowed) = inner.downcast_ref::<NotAllowed>() {
            return ConnectorError::Unusable(format!("{at}: {not_allowed}"));
        }
        cause = inner.source();
    }
    let why = if error.is_timeout() { "no answer in time".to_owned() } else { described(error) };
    ConnectorError::Unavailable(format!("{at}: {why}"))
}

/// The innermost cause of an error, which has no address in it.
fn described(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if cause.is::<reqwest::Error>() { "the request failed".to_owned() } else { cause.to_string() }
}

const LOCALHOST: &str = "localhost";

/// A name had no address that is allowed.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not a public address; where the upstream may be there, name its network in `allowedNetworks`")]
struct NotAllowed(IpAddr);

/// What a name was looked up to.
type Lookup = Shared<BoxFuture<'static, Result<Arc<[SocketAddr]>, Arc<io::Error>>>>;

/// The lookups under way, one for each name. Each holds a thread of those that the whole program shares, for as long as the name's
/// servers like and whoever has given up meanwhile: many sign-ins at one slow name must not use them all.
#[derive(Clone, Default)]
struct Lookups(Arc<Mutex<HashMap<String, Lookup>>>);

impl Lookups {
    /// The lookup of this name that is under way, or this one.
    fn join<A: Iterator<Item = SocketAddr>>(&self, name: &str, ask: impl Future<Output = io::Result<A>> + Send + 'static) -> Lookup {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lookup) = under_way.get(name) {
            return lookup.clone();
        }
        let end = End { lookups: self.clone(), name: name.to_owned() };
        // A task of its own: as the thread stays taken, so does the name.
        let task = tokio::spawn(async move {
            let _end = end;
            ask.await.map(Iterator::collect::<Arc<[SocketAddr]>>).map_err(Arc::new)
        });
        let lookup = task.map(|done| done.unwrap_or_else(|error| Err(Arc::new(io::Error::other(error))))).boxed().shared();
        under_way.insert(name.to_owned(), lookup.clone());
        lookup
    }
}

/// Ends a lookup, however it ends.
struct End {
    lookups: Lookups,
    name: String,
}

impl Drop for End {
    fn drop(&mut self) {
        self.lookups.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// Resolves names to addresses that are allowed, each time a connection is made: a name may change its mind after a check.
struct Resolver {
    networks: Networks,
    lookups: Lookups,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (networks, lookups) = (self.networks.clone(), self.lookups.clone());
        Box::pin(async move {
            let local = name.as_str() == LOCALHOST;
            let asked = name.as_str().to_owned();
            let found = lookups.join(name.as_str(), async move { look_up(&asked).await }).await?;
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in found.iter().copied() {
                if networks.allow(address.ip()) && (!local || address.ip().is_loopback()) {
                    allowed.push(address);
                } else {
                    refused = Some(NotAllowed(address.ip()));
                }
            }
            match refused {
                Some(refused) if allowed.is_empty() => Err(refused.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

async fn look_up(name: &str) -> io::Result<std::vec::IntoIter<SocketAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.collect::<Vec<_>>().into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oidc::stand_in::{Answer, StandIn};

    fn http(networks: &[&str]) -> Http {
        let networks = networks.iter().map(ToString::to_string).collect::<Vec<_>>();
        Http::new("oidc", Roots::Platform, Networks::parse(&networks).unwrap())
    }

    fn get(url: &str) -> http::Request<Vec<u8>> {
        http::Request::get(url).body(Vec::new()).unwrap()
    }

    #[test]
    fn connectors_with_the_same_reach_share_a_client() {
        let (one, same, other) = (http(&["10.1.0.0/16", "10.2.0.0/16"]), http(&["10.2.0.0/16", "10.1.0.0/16"]), http(&["10.3.0.0/16"]));
        assert!(Arc::ptr_eq(&one.lazy, &same.lazy) && !Arc::ptr_eq(&one.lazy, &other.lazy));
    }

    #[tokio::test]
    async fn any_status_but_a_redirect_is_an_answer_and_messages_have_no_query() {
        let stand_in = StandIn::start(&[]).await;
        stand_in.answer("/token", Answer::Plain(401, "X-Trace: 7\r\n", "{}".to_owned()));
        let answer = http(&["127.0.0.1"]).send(get(&format!("{}/token?code=secret", stand_in.issuer))).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().as_slice()), (401, b"{}".as_slice()));
        assert_eq!(answer.headers()["x-trace"], "7");
        stand_in.answer("/token", Answer::Plain(302, "Location: /x\r\n", String::new()));
        let error = http(&["127.0.0.1"]).send(get(&format!("{}/token?code=secret", stand_in.issuer))).await.unwrap_err().to_string();
        assert!(error.contains("302") && !error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn t22_no_request_leaves_for_an_address_that_is_not_allowed() {
        let stand_in = StandIn::start(&[]).await;
        let port = stand_in.issuer.rsplit(':').next().unwrap();
        for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433", "localhost"] {
            for scheme in ["http", "https"] {
                let error = http(&[]).send(get(&format!("{scheme}://{host}:{port}/keys"))).await.unwrap_err();
                assert!(matches!(error, ConnectorError::Unusable(_)), "{scheme} {host}: {error}");
            }
        }
        assert_eq!(stand_in.count("/keys"), 0);
        assert!(http(&["127.0.0.1"]).send(get(&format!("http://localhost:{port}/keys"))).await.is_ok());
    }

    #[tokio::test]
    async fn a_slow_name_is_looked_up_once_at_a_time_whoever_gives_up() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (lookups, asked, go_on) = (Lookups::default(), Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
        let join = |name: &str| {
            let (asked, go_on) = (Arc::clone(&asked), Arc::clone(&go_on));
            lookups.join(name, async move {
                asked.fetch_add(1, Ordering::SeqCst);
                go_on.notified().await;
                Ok([SocketAddr::from(([192, 0, 2, 1], 0))].into_iter())
            })
        };
        for _ in 0..100 {
            drop(join("slow.example"));
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1, "those who gave up have left their lookup to the others");
        let (one, other) = (join("slow.example"), join("other.example"));
        tokio::task::yield_now().await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        go_on.notify_waiters();
        assert_eq!((one.await.unwrap().len(), other.await.unwrap().len()), (1, 1));
        // What was found is not kept: a name may change its mind.
        let _again = join("slow.example");
        tokio::task::yield_now().await;
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_server_without_tls_is_no_https_server() {
        let stand_in = StandIn::start(&[]).await;
        let port = stand_in.issuer.rsplit(':').next().unwrap();
        let error = http(&["127.0.0.1"]).send(get(&format!("https://127.0.0.1:{port}/keys"))).await.unwrap_err();
        assert!(matches!(&error, ConnectorError::Unavailable(why) if !why.contains("no client")), "{error}");
        assert_eq!(stand_in.count("/keys"), 0);
    }

    #[tokio::test]
    async fn tls_trusts_the_authorities_that_are_given_and_no_others() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let (server, other) = (made("127.0.0.1"), made("127.0.0.1"));
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![server.cert.der().clone()], server.signing_key.serialize_der().try_into().unwrap())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://127.0.0.1:{}/keys", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").await;
                let _ = stream.shutdown().await;
            }
        });
        let networks = || Networks::parse(&["127.0.0.1".to_owned()]).unwrap();
        let asked = async |roots: Roots| Http::new("oidc", roots, networks()).send(get(&url)).await;
        assert_eq!(asked(Roots::of_pem(&server.cert.pem()).unwrap()).await.unwrap().body(), b"ok");
        for roots in [Roots::of_pem(&other.cert.pem()).unwrap(), Roots::Platform] {
            let error = asked(roots).await.unwrap_err();
            assert!(matches!(&error, ConnectorError::Unavailable(why) if why.contains("certificate")), "{error}");
        }
        assert!(Roots::of_pem("").is_err() && Roots::of_pem(&server.signing_key.serialize_pem()).is_err());
    }
}
