//! Reaching a server: which one, over TCP without delay, and with TLS whose host name always holds.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, LdapError, StdStream};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use rustls_platform_verifier::BuilderVerifierExt as _;
use url::{Host, Url};

use crate::{ConnectorError, Secret};

/// How long a server that failed is left alone while there are others.
const COOL_DOWN: Duration = Duration::from_secs(30);

/// How the bytes are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// TLS from the first byte (`ldaps`).
    Tls,
    /// TLS after the StartTLS operation (RFC 4511, 4.14), or no connection.
    StartTls,
    /// None, because the operator says so.
    Plain,
}

/// One server.
#[derive(Debug, Clone)]
pub(super) struct Server {
    url: Url,
    host: String,
    port: u16,
    protection: Protection,
}

impl Server {
    /// Checks an address.
    pub(super) fn parse(text: &str, start_tls: bool, allow_plain: bool) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        let protection = match (url.scheme(), start_tls, allow_plain) {
            ("ldaps", ..) => Protection::Tls,
            ("ldap", true, _) => Protection::StartTls,
            ("ldap", false, true) => Protection::Plain,
            ("ldap", false, false) => {
                return Err("it would send passwords in the clear: use ldaps, or `startTls: true`, or say `allowPlain: true`".to_owned());
            }
            _ => return Err("it must begin with ldaps:// or ldap://".to_owned()),
        };
        let rest = !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some();
        if rest || !url.username().is_empty() || url.password().is_some() {
            return Err("it may have a host and a port only".to_owned());
        }
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) if protection == Protection::Plain => address.to_string(),
            Some(Host::Ipv6(_)) => return Err("a server with TLS needs a name in place of an IPv6 address".to_owned()),
            _ => return Err("it has no host".to_owned()),
        };
        let port = url.port().unwrap_or(if protection == Protection::Tls { 636 } else { 389 });
        Ok(Self { url, host, port, protection })
    }

    /// Whether certificates matter.
    pub(super) const fn has_tls(&self) -> bool {
        !matches!(self.protection, Protection::Plain)
    }
}

/// What TLS trusts: the authorities of a PEM file, or those of the platform.
pub(super) fn tls(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let Some(path) = ca_file else {
        let builder = builder.with_platform_verifier().map_err(|error| format!("the platform's authorities can not be read: {error}"))?;
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let file = path.display();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| format!("{file}: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.map_err(|error| format!("{file}: {error}"))?).map_err(|error| format!("{file}: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("{file}: it holds no certificate"));
    }
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// The identity under which is searched.
pub(super) struct ServiceAccount {
    pub(super) dn: String,
    pub(super) password: Secret,
}

impl ServiceAccount {
    async fn bind(&self, ldap: &mut Ldap) -> Result<(), ConnectorError> {
        let what = "ldap: bind of the service account";
        let broken = |error| ConnectorError::Unavailable(format!("{what}: {}", described(&error)));
        match ldap.simple_bind(&self.dn, self.password.expose()).await.map_err(broken)?.rc {
            0 => Ok(()),
            code @ (51 | 52) => Err(ConnectorError::Unavailable(format!("{what}: result code {code}"))),
            code => Err(ConnectorError::Refused(format!("{what}: result code {code}"))),
        }
    }
}

/// An error in words that hold no DN and no value: a server's diagnostic text may quote either.
pub(super) fn described(error: &LdapError) -> String {
    match error {
        LdapError::LdapResult { result } => format!("result code {}", result.rc),
        error if is_broken(error) => "the connection was closed".to_owned(),
        other => other.to_string(),
    }
}

/// Whether the connection itself failed, so that the server may never have seen the operation.
pub(super) const fn is_broken(error: &LdapError) -> bool {
    matches!(
        error,
        LdapError::Io { .. }
            | LdapError::OpSend { .. }
            | LdapError::ResultRecv { .. }
            | LdapError::IdScrubSend { .. }
            | LdapError::EndOfStream
    )
}

/// An open connection, and the server that it is to.
pub(super) struct Connection {
    pub(super) ldap: Ldap,
    server: usize,
    opened: Instant,
}

/// The servers of one directory, in the operator's order; a server that failed is skipped for a while.
pub(super) struct Servers {
    servers: Vec<Server>,
    failures: Mutex<Vec<Option<Instant>>>,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
}

impl Servers {
    /// `timeout` bounds one connection, from the first packet to the end of the handshakes.
    pub(super) fn new(servers: Vec<Server>, tls: Option<Arc<ClientConfig>>, timeout: Duration) -> Self {
        Self { failures: Mutex::new(vec![None; servers.len()]), servers, tls, timeout }
    }

    /// How long it takes at most until every server was tried.
    pub(super) fn patience(&self) -> Duration {
        self.timeout.saturating_mul(u32::try_from(self.servers.len()).unwrap_or(u32::MAX))
    }

    /// Opens a connection to the first server that takes one, and binds it where there is an account.
    pub(super) async fn connect(&self, account: Option<&ServiceAccount>) -> Result<Connection, ConnectorError> {
        let mut failed = ConnectorError::Unavailable("ldap: there is no server".to_owned());
        for index in self.order() {
            let Some(server) = self.servers.get(index) else { continue };
            let attempt = async {
                let mut ldap = self.open(server).await?;
                if let Some(account) = account {
                    account.bind(&mut ldap).await?;
                }
                Ok(ldap)
            };
            let late = || ConnectorError::Unavailable(format!("ldap: {}:{} does not answer in time", server.host, server.port));
            match tokio::time::timeout(self.timeout, attempt).await.unwrap_or_else(|_| Err(late())) {
                Ok(ldap) => {
                    self.mark(index, None);
                    return Ok(Connection { ldap, server: index, opened: Instant::now() });
                }
                Err(error) => {
                    tracing::warn!(server.address = %server.host, server.port = server.port, %error, "an LDAP server can not be used");
                    self.mark(index, Some(Instant::now()));
                    // An answer that says what an operator must do is worth more than silence from another server.
                    if !matches!(failed, ConnectorError::Refused(_)) {
                        failed = error;
                    }
                }
            }
        }
        Err(failed)
    }

    /// The server behind a connection did not answer.
    pub(super) fn failed(&self, connection: &Connection) {
        self.mark(connection.server, Some(Instant::now()));
    }

    /// Whether the server has failed since this connection was opened, so that the connection is not to be trusted.
    pub(super) fn failed_since(&self, connection: &Connection) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(connection.server).copied().flatten().is_some_and(|at| at >= connection.opened)
    }

    fn mark(&self, server: usize, failure: Option<Instant>) {
        if let Some(slot) = self.failures.lock().unwrap_or_else(PoisonError::into_inner).get_mut(server) {
            *slot = failure;
        }
    }

    /// Those that have not failed of late, then the others.
    fn order(&self) -> Vec<usize> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cooling = |index: &usize| failures.get(*index).copied().flatten().is_some_and(|at| at.elapsed() < COOL_DOWN);
        let (last, first): (Vec<_>, Vec<_>) = (0..self.servers.len()).partition(cooling);
        first.into_iter().chain(last).collect()
    }

    async fn open(&self, server: &Server) -> Result<Ldap, ConnectorError> {
        let address = format!("{}:{}", server.host, server.port);
        let unreachable = |error: std::io::Error| ConnectorError::Unavailable(format!("ldap: {address}: {error}"));
        let stream = tokio::net::TcpStream::connect((server.host.as_str(), server.port)).await.map_err(unreachable)?;
        // Without it small writes wait for the peer's delayed acknowledgements, 40 ms at a time.
        stream.set_nodelay(true).map_err(unreachable)?;
        let stream = stream.into_std().map_err(unreachable)?;
        let mut settings = LdapConnSettings::new().set_std_stream(StdStream::Tcp(stream));
        if let (true, Some(tls)) = (server.has_tls(), &self.tls) {
            settings = settings.set_config(Arc::clone(tls)).set_starttls(server.protection == Protection::StartTls);
        } else if server.has_tls() {
            return Err(ConnectorError::Refused("ldap: TLS is asked for and not configured".to_owned()));
        }
        let (connection, ldap) = LdapConnAsync::from_url_with_settings(settings, &server.url).await.map_err(|error| match error {
            LdapError::LdapResult { result } => ConnectorError::Refused(format!(
                "ldap: {address} refuses StartTLS (result code {}); there is no fallback to plain",
                result.rc
            )),
            other => ConnectorError::Unavailable(format!("ldap: {address}: {other}")),
        })?;
        tokio::spawn(async move {
            if let Err(error) = connection.drive().await {
                tracing::debug!(%error, "an LDAP connection ended");
            }
        });
        Ok(ldap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let parse = |text: &str, start_tls, plain| Server::parse(text, start_tls, plain).map(|s| (s.host, s.port, s.protection));
        assert_eq!(parse("ldaps://ldap.example", false, false), Ok(("ldap.example".into(), 636, Protection::Tls)));
        assert_eq!(parse("ldaps://ldap.example:3269/", false, true), Ok(("ldap.example".into(), 3269, Protection::Tls)));
        assert_eq!(parse("ldap://127.0.0.1", true, false), Ok(("127.0.0.1".into(), 389, Protection::StartTls)));
        assert_eq!(parse("ldap://h", true, true).map(|s| s.2), Ok(Protection::StartTls), "never plain where StartTLS is asked for");
        assert_eq!(parse("ldap://[::1]:1389", false, true), Ok(("::1".into(), 1389, Protection::Plain)));
        for bad in [
            "ldap://h",
            "ldaps://",
            "ldaps:",
            "ldaps:///dc=x",
            "ldaps://h/dc=x",
            "ldaps://h?x",
            "ldaps://u:p@h",
            "https://h",
            "h",
            "ldapi:///x",
            "ldaps://[::1]",
        ] {
            assert!(parse(bad, false, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_failed_server_comes_last_until_it_has_cooled_down() {
        let server = |text| Server::parse(text, false, true).unwrap();
        let servers = Servers::new(vec![server("ldap://a"), server("ldap://b"), server("ldap://c")], None, Duration::from_secs(1));
        assert_eq!(servers.order(), [0, 1, 2]);
        servers.mark(0, Some(Instant::now()));
        assert_eq!(servers.order(), [1, 2, 0]);
        servers.mark(0, None);
        assert_eq!(servers.order(), [0, 1, 2]);
    }

    #[test]
    fn authorities_come_from_a_file_with_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        assert!(tls(Some(&path)).unwrap_err().contains("ca.pem"));
        std::fs::write(&path, "nothing").unwrap();
        assert!(tls(Some(&path)).unwrap_err().contains("no certificate"));
    }
}
