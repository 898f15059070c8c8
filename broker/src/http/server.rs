//! Listeners, TLS, and the graceful end.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::{Extension, Router};
use axum_server::{
    Handle,
    accept::Accept,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

use super::{
    caller::CertificateNames,
    patience::{PatientAcceptor, PatientStream},
};
use crate::{
    App,
    config::TlsConfig,
    hearing,
    store::{Store, StoreError},
};

/// How long requests under way may take after the end was asked for.
const GRACE: Duration = Duration::from_secs(10);
/// How long a client may take to send the head of a request, so that none holds a connection for nothing.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The most connections at the public doors at a time.
const MOST_CONNECTIONS: usize = 4_096;
/// The most expired records that one sweep removes: the store's writer does nothing else meanwhile.
const SWEPT_AT_ONCE: usize = 10_000;

/// The program could not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address can not be used.
    #[error("can not listen on {address}: {source}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A TLS file can not be used.
    #[error("TLS: {what}: {why}")]
    Tls {
        /// Which file.
        what: String,
        /// Why not.
        why: String,
    },
    /// The listener failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Takes an address. Port 0 takes a free one.
///
/// # Errors
/// When it is taken, or not ours.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let listener = TcpListener::bind(address).map_err(|source| ListenError::Bind { address, source })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves both doors until `stop` is done, then lets requests under way end.
///
/// # Errors
/// When TLS files can not be used, or a listener fails.
pub async fn serve(
    app: Arc<App>,
    public: (TcpListener, Router),
    admin: (TcpListener, Router),
    stop: impl Future<Output = ()>,
) -> Result<(), ListenError> {
    let (public_end, admin_end) = (Handle::new(), Handle::new());
    let tls =
        app.config.listen.tls.as_ref().map(|config| tls(config).map(|c| (RustlsConfig::from_config(Arc::new(c)), config))).transpose()?;
    let upkeep = tokio::spawn(upkeep(Arc::clone(&app)));
    let alive = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.replicas.run().await }
    });
    let stopping = CancellationToken::new();
    let deliveries = tokio::spawn(Arc::clone(&app.deliveries).run(stopping.clone()));
    let hearing = tokio::spawn(hearing::hear(Arc::clone(&app), stopping.clone()));
    let reload = tls.as_ref().map(|(running, config)| tokio::spawn(reload_on_hangup(running.clone(), TlsConfig::clone(config))));
    let admin_server = http(axum_server::from_tcp(admin.0)?.acceptor(PatientAcceptor::unbounded())).handle(admin_end.clone());
    let admin_server = admin_server.serve(admin.1.into_make_service());
    let service = public.1.into_make_service_with_connect_info::<SocketAddr>();
    let public_server = async {
        let server = axum_server::from_tcp(public.0)?;
        let patient = PatientAcceptor::bounded(MOST_CONNECTIONS);
        match tls {
            None => http(server.acceptor(patient)).handle(public_end.clone()).serve(service).await,
            Some((config, _)) => {
                let acceptor = WithCertificate(RustlsAcceptor::new(config).acceptor(patient));
                http(server.acceptor(acceptor)).handle(public_end.clone()).serve(service).await
            }
        }
    };
    let end = async {
        stop.await;
        tracing::info!("stopping");
        stopping.cancel();
        public_end.graceful_shutdown(Some(GRACE));
        admin_end.graceful_shutdown(Some(GRACE));
        Ok(())
    };
    let ended = tokio::try_join!(public_server, admin_server, end).map(drop);
    upkeep.abort();
    hearing.abort();
    // Also where a listener failed. What is under way ends within a delivery's own deadline; the rest stays in the store.
    stopping.cancel();
    if let Err(error) = deliveries.await {
        tracing::error!(%error, "the delivery of logout notices broke");
    }
    reload.inspect(tokio::task::JoinHandle::abort);
    // The last thing: until here it may have written.
    alive.abort();
    app.replicas.leave().await;
    ended.map_err(ListenError::from)
}

fn http<A>(mut server: axum_server::Server<SocketAddr, A>) -> axum_server::Server<SocketAddr, A> {
    let builder = server.http_builder();
    builder.http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_headers(100);
    builder.http2().timer(hyper_util::rt::TokioTimer::new()).max_concurrent_streams(100).keep_alive_interval(Duration::from_secs(30));
    server
}

/// Once a minute: keys are rotated, and what has expired is swept.
async fn upkeep(app: Arc<App>) {
    let mut minute = tokio::time::interval(Duration::from_secs(60));
    loop {
        minute.tick().await;
        let now = app.seams.clock.now();
        if let Err(error) = app.keys.rotate(now).await {
            tracing::error!(%error, "keys could not be rotated; those in force stay");
        }
        if let Err(error) = sweep(&*app.seams.store, now, SWEPT_AT_ONCE).await {
            tracing::error!(%error, "expired records could not be swept");
        }
    }
}

/// Removes everything that has expired, in parts, so that other writers come between them.
async fn sweep(store: &dyn Store, now: OffsetDateTime, at_once: usize) -> Result<(), StoreError> {
    while store.sweep(now, at_once).await? >= at_once {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Reads the TLS files again at SIGHUP; broken ones leave what is in force.
async fn reload_on_hangup(running: RustlsConfig, config: TlsConfig) {
    let Ok(mut hangup) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) else { return };
    while hangup.recv().await.is_some() {
        match tls(&config) {
            Ok(fresh) => {
                running.reload_from_config(Arc::new(fresh));
                tracing::info!("the TLS files were read again");
            }
            Err(error) => tracing::error!(%error, "the TLS files can not be used; those in force stay"),
        }
    }
}

/// What the TLS files say, for HTTP.
///
/// # Errors
/// Where one can not be used.
pub(crate) fn tls(config: &TlsConfig) -> Result<ServerConfig, ListenError> {
    let wrong = |path: &Path, why: String| ListenError::Tls { what: path.display().to_string(), why };
    let certificates = |path: &Path| {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        read.map_err(|e| wrong(path, e.to_string()))
            .and_then(|list| if list.is_empty() { Err(wrong(path, "it holds no certificate in PEM".to_owned())) } else { Ok(list) })
    };
    let chain = certificates(&config.certificate_file)?;
    let key = PrivateKeyDer::from_pem_file(&config.key_file).map_err(|e| wrong(&config.key_file, e.to_string()))?;
    let builder = match &config.client_ca_file {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|e| wrong(path, e.to_string()))?;
            }
            // People's browsers have no certificate; reviewers prove theirs where their configuration asks for one.
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build();
            ServerConfig::builder().with_client_cert_verifier(verifier.map_err(|e| wrong(path, e.to_string()))?)
        }
    };
    let mut tls = builder.with_single_cert(chain, key).map_err(|e| wrong(&config.certificate_file, e.to_string()))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

/// Puts the names of a verified client certificate into each request of its connection.
#[derive(Clone)]
struct WithCertificate(RustlsAcceptor<PatientAcceptor>);

impl<S: Send + 'static> Accept<TcpStream, S> for WithCertificate {
    type Stream = TlsStream<PatientStream<TcpStream>>;
    type Service = axum::middleware::AddExtension<S, CertificateNames>;
    type Future = futures_util::future::BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let accepted = self.0.accept(stream, service);
        Box::pin(async move {
            let (stream, service) = accepted.await?;
            let names = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|leaf| names(leaf)).unwrap_or_default();
            Ok((stream, Extension(CertificateNames(names.into())).layer(service)))
        })
    }
}

/// The common name and the DNS names of a certificate.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else { return Vec::new() };
    let common = certificate.subject().iter_common_name().filter_map(|cn| cn.as_str().ok()).map(str::to_owned);
    let dns = certificate.subject_alternative_name().ok().flatten().into_iter().flat_map(|san| {
        san.value.general_names.iter().filter_map(|name| match name {
            x509_parser::extensions::GeneralName::DNSName(dns) => Some((*dns).to_owned()),
            _ => None,
        })
    });
    common.chain(dns).collect()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::{Instant, timeout},
    };

    use super::*;
    use crate::store::{Batch, Key, Kind, embedded::Embedded};

    #[tokio::test]
    async fn silent_sockets_do_not_hold_a_connection() {
        for said in ["", "PRI * HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n"] {
            let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let mut socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            socket.write_all(said.as_bytes()).await.unwrap();
            let server = http(axum_server::from_tcp(listener).unwrap().acceptor(PatientAcceptor::unbounded()));
            // From here on the clock runs ahead whenever all wait.
            tokio::time::pause();
            let server = tokio::spawn(server.serve(Router::new().into_make_service()));
            let begun = Instant::now();
            let mut answer = Vec::new();
            let ended = timeout(Duration::from_secs(600), socket.read_to_end(&mut answer)).await;
            assert!(ended.is_ok(), "{said:?}: it is still open");
            assert!(begun.elapsed() <= Duration::from_secs(61), "{said:?}: {:?}", begun.elapsed());
            server.abort();
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn a_sweep_goes_on_until_nothing_expired_is_left() {
        let store = Embedded::in_memory().unwrap();
        let now = OffsetDateTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let expired = Some(now + Duration::from_secs(1));
        let batch = (0..25).fold(Batch::new(), |batch, i| batch.put(Key::system(Kind::Attempt, format!("{i}")), Vec::new(), expired));
        let batch = batch.put(Key::system(Kind::Attempt, "lasting"), Vec::new(), None);
        store.commit(batch, now).await.unwrap();
        let later = now + Duration::from_secs(1);
        sweep(&store, later, 10).await.unwrap();
        assert_eq!(store.sweep(later, 100).await.unwrap(), 0, "three sweeps removed all");
        assert!(store.get(&Key::system(Kind::Attempt, "lasting"), later).await.unwrap().is_some());
    }
}
