//! Reaching a server of Redis: TCP without delay, TLS, who we are there, and that it is a primary. It owns what a connection needs to
//! be opened, and not how long one is kept.

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use connectors::{ConfiguredSecret, Secret};
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue as _, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, RedisFuture,
    Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::fault::without_arguments;
use crate::config::{RedisConfig, RedisTls, SentinelConfig};

/// Why the configuration of a Redis can not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// An address is none.
    #[error("store.redis: `{0}` is no address; give `host:port`")]
    Address(String),
    /// No server is named, or of two kinds.
    #[error("store.redis: give exactly one of `address`, `sentinel` and `cluster`")]
    Servers,
    /// The password can not be read.
    #[error("store.redis: the password: {0}")]
    Password(String),
    /// TLS can not be set up.
    #[error("store.redis.tls: {0}")]
    Tls(String),
}

/// Why there is no connection to a server. Nothing was asked of it yet, so whatever was to be asked can be tried again.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Unreached {
    /// The network, or TLS, or no answer in time.
    #[error("{0} can not be reached: {1}")]
    Network(Address, String),
    /// It does not take us: user, password, rights, database.
    #[error("{0} refuses us: {1}; check `username`, `password` and `database` of `store.redis`, and the rights of the user")]
    Refused(Address, String),
    /// It follows another server.
    #[error("{0} is not a primary; name the one that is, or `sentinel` or `cluster`, which know it")]
    NotPrimary(Address),
    /// It lacks what the scripts need.
    #[error("{0} is Redis {1}, which is too old; Redis 7.0 or newer is needed")]
    TooOld(Address, String),
    /// What is ours can not be read: the password's file, the certificates.
    #[error("{0}")]
    Ours(String),
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// A host without brackets, and its port.
    pub(super) fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// `host:port`; an IPv6 address stands in brackets.
    pub(super) fn parse(text: &str) -> Result<Self, ConnectError> {
        let fault = || ConnectError::Address(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(fault)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if host.is_empty() || bare.is_none() && host.contains(':') {
            return Err(fault());
        }
        Ok(Self::new(bare.unwrap_or(host), port))
    }

    /// The host, without brackets.
    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Who we are at a server. A password in a file is read at each connection, so that it can be changed.
#[derive(Clone)]
struct Credentials {
    username: Option<String>,
    password: Option<ConfiguredSecret>,
    password_file: Option<PathBuf>,
}

impl Credentials {
    fn read(&self) -> Result<Option<Secret>, String> {
        Secret::read(self.password.as_ref(), self.password_file.as_deref())
    }
}

/// What a connection speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// A server that must be a primary.
    Primary,
    /// Any server of a Cluster, asked where the slots are.
    Member,
    /// A sentinel.
    Sentinel,
}

/// How servers are reached.
pub(super) struct Connecting {
    at_servers: Credentials,
    at_sentinels: Option<Credentials>,
    database: u8,
    tls: Option<Tls>,
    deadline: Duration,
}

/// A connection that ends when its last clone is dropped, answered or not.
#[derive(Clone)]
pub(super) struct Connection {
    commands: MultiplexedConnection,
    _driver: Arc<Driver>,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    /// Subscribes to a channel; answered when the server has confirmed it.
    pub(super) async fn subscribe(&mut self, channel: &[u8]) -> Result<(), RedisError> {
        self.commands.subscribe(channel).await
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.commands.req_packed_command(cmd)
    }
    fn req_packed_commands<'a>(&'a mut self, pipeline: &'a Pipeline, offset: usize, count: usize) -> RedisFuture<'a, Vec<Value>> {
        self.commands.req_packed_commands(pipeline, offset, count)
    }
    fn get_db(&self) -> i64 {
        self.commands.get_db()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connecting {
    /// # Errors
    /// When what is configured can not be used.
    pub(super) fn new(config: &RedisConfig) -> Result<Self, ConnectError> {
        let RedisConfig { username, password, password_file, database, tls, deadline_milliseconds, sentinel, .. } = config;
        let at_servers = Credentials { username: username.clone(), password: password.clone(), password_file: password_file.clone() };
        let at_sentinels = sentinel.as_ref().map(|SentinelConfig { username, password, password_file, .. }| Credentials {
            username: username.clone(),
            password: password.clone(),
            password_file: password_file.clone(),
        });
        for credentials in at_sentinels.iter().chain([&at_servers]) {
            credentials.read().map_err(ConnectError::Password)?;
        }
        let tls = tls.clone().map(Tls::new).transpose().map_err(ConnectError::Tls)?;
        Ok(Self { at_servers, at_sentinels, database: *database, tls, deadline: Duration::from_millis(*deadline_milliseconds) })
    }

    /// Within how long a server answers, or does not.
    pub(super) const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// A connection to a primary that hears: what the server says unasked is given away in the order in which it comes, and before
    /// the answer to any later command.
    pub(super) async fn open_hearing(
        &self,
        address: &Address,
        answers_within: Duration,
        on_push: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Connection, Unreached> {
        let heard = move |info: PushInfo| -> Result<(), ()> {
            on_push(info);
            Ok(())
        };
        let config = self.config().set_response_timeout(Some(answers_within)).set_push_sender(heard);
        self.opened(address, Peer::Primary, config).await
    }

    /// A connection to any member of a Cluster.
    pub(super) async fn open_member(&self, address: &Address) -> Result<Connection, Unreached> {
        self.opened(address, Peer::Member, self.config()).await
    }

    /// A connection to a sentinel.
    pub(super) async fn open_sentinel(&self, address: &Address) -> Result<Connection, Unreached> {
        self.opened(address, Peer::Sentinel, self.config()).await
    }

    fn config(&self) -> AsyncConnectionConfig {
        // The buffer is what waits to be written; callers wait when it is full.
        AsyncConnectionConfig::new().set_response_timeout(Some(self.deadline)).set_pipeline_buffer_size(512)
    }

    async fn opened(&self, address: &Address, peer: Peer, config: AsyncConnectionConfig) -> Result<Connection, Unreached> {
        let network = |why: String| Unreached::Network(address.clone(), why);
        let opening = self.open_within(address, peer, config);
        timeout(self.deadline, opening).await.map_err(|_| network(format!("no answer within {} ms", self.deadline.as_millis())))?
    }

    async fn open_within(&self, address: &Address, peer: Peer, config: AsyncConnectionConfig) -> Result<Connection, Unreached> {
        let network = |why: &dyn fmt::Display| Unreached::Network(address.clone(), why.to_string());
        let info = self.info(peer).map_err(Unreached::Ours)?;
        let tcp = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(|e| network(&e))?;
        tcp.set_nodelay(true).map_err(|e| network(&e))?;
        let stream: Pin<Box<dyn Stream>> = match &self.tls {
            None => Box::pin(tcp),
            Some(tls) => {
                let config = tls.config().map_err(Unreached::Ours)?;
                let name = ServerName::try_from(address.host.clone()).map_err(|e| network(&e))?;
                Box::pin(TlsConnector::from(config).connect(name, tcp).await.map_err(|e| network(&e))?)
            }
        };
        let (commands, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await.map_err(|e| said(address, &e))?;
        let driver = Arc::new(Driver(tokio::spawn(driver).abort_handle()));
        let mut connection = Connection { commands, _driver: driver };
        if peer == Peer::Primary {
            // It needs no rights beyond the connection.
            let hello = redis::cmd("HELLO").query_async(&mut connection).await.map_err(|e| said(address, &e))?;
            if let Some(version) = too_old(&hello) {
                return Err(Unreached::TooOld(address.clone(), version));
            }
            if !says_primary(&hello) {
                return Err(Unreached::NotPrimary(address.clone()));
            }
        }
        Ok(connection)
    }

    fn info(&self, peer: Peer) -> Result<RedisConnectionInfo, String> {
        let credentials = if peer == Peer::Sentinel { self.at_sentinels.as_ref() } else { Some(&self.at_servers) };
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        // A sentinel has no databases.
        if peer != Peer::Sentinel {
            info = info.set_protocol(ProtocolVersion::RESP3).set_db(self.database.into());
        }
        let Some(credentials) = credentials else { return Ok(info) };
        if let Some(username) = &credentials.username {
            info = info.set_username(username);
        }
        if let Some(password) = credentials.read()? {
            info = info.set_password(password.expose());
        }
        Ok(info)
    }
}

/// Whether a server is a primary, by its answer to `HELLO`.
pub(super) fn says_primary(hello: &Value) -> bool {
    field_of(hello, "role").is_some_and(|role| role == "master")
}

/// The version of a Redis before 7, which knows no `#!lua`. Of other servers we know no numbers: they take the scripts, or say so.
fn too_old(hello: &Value) -> Option<String> {
    let version = field_of(hello, "version").filter(|_| field_of(hello, "server").is_some_and(|server| server == "redis"))?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major < 7).then_some(version)
}

fn field_of(hello: &Value, name: &str) -> Option<String> {
    let mut fields = hello.as_map_iter()?;
    let value = fields.find_map(|(own, value)| (String::from_redis_value_ref(own).ok()? == name).then(|| value.clone()))?;
    String::from_redis_value(value).ok()
}

/// What came instead of a connection, in words that hold no secret.
fn said(address: &Address, error: &RedisError) -> Unreached {
    let text = without_arguments(&error.to_string()).to_owned();
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "ERR") => Unreached::Refused(address.clone(), text),
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => Unreached::Refused(address.clone(), text),
        _ => Unreached::Network(address.clone(), text),
    }
}

/// What TLS trusts and shows. Files are read at each connection, so that certificates can be renewed.
struct Tls {
    files: RedisTls,
    /// Where there are no files.
    platform: Option<Arc<ClientConfig>>,
}

impl Tls {
    fn new(files: RedisTls) -> Result<Self, String> {
        let has_files = files.ca_file.is_some() || files.certificate_file.is_some();
        let first = configured(&files)?;
        Ok(Self { files, platform: (!has_files).then_some(first) })
    }

    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        self.platform.as_ref().map_or_else(|| configured(&self.files), |config| Ok(Arc::clone(config)))
    }
}

fn configured(files: &RedisTls) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.ca_file {
        Some(path) => builder.with_root_certificates(roots(path)?),
        None => builder.with_platform_verifier().map_err(|error| format!("the machine's authorities can not be read: {error}"))?,
    };
    let config = match (&files.certificate_file, &files.key_file) {
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{}: {error}", key.display()))?;
            builder.with_client_auth_cert(chain(certificate)?, key).map_err(|error| format!("{}: {error}", certificate.display()))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let told = |error| format!("{}: {error}", path.display());
    let chain: Vec<_> = CertificateDer::pem_file_iter(path).map_err(told)?.collect::<Result<_, _>>().map_err(told)?;
    if chain.is_empty() { Err(format!("{}: it holds no certificate", path.display())) } else { Ok(chain) }
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_told_alike() {
        for text in ["redis.example:6379", "127.0.0.1:1", "[::1]:6379"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("[::1]:6379").unwrap().host(), "::1");
        for text in ["redis.example", ":6379", "::1:6379", "a:0", "a:70000", ""] {
            Address::parse(text).unwrap_err();
        }
    }

    #[test]
    fn a_primary_is_told_by_its_hello() {
        let hello = |role: &str| {
            let text = |text: &str| Value::BulkString(text.into());
            Value::Map(vec![(text("server"), text("redis")), (text("role"), text(role))])
        };
        assert!(says_primary(&hello("master")));
        assert!(!says_primary(&hello("replica")));
        assert!(!says_primary(&Value::Nil));
    }

    #[test]
    fn a_redis_that_is_too_old_is_told_by_its_hello() {
        let found = |server: &str, version: &str| {
            let text = |text: &str| Value::BulkString(text.into());
            too_old(&Value::Map(vec![(text("server"), text(server)), (text("version"), text(version)), (text("role"), text("master"))]))
        };
        assert_eq!(found("redis", "6.2.14").as_deref(), Some("6.2.14"));
        for (server, version) in [("redis", "7.0.15"), ("redis", "10.1"), ("valkey", "8.0.1"), ("another", "1.2"), ("redis", "unstable")] {
            assert_eq!(found(server, version), None, "{server} {version}");
        }
        assert_eq!(too_old(&Value::Nil), None);
    }
}
