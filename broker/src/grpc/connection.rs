//! One connection at the CS3 door: how it came, how long it lasts, and how many there may be. It does not own calls.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;

use super::listen::Tls;
use crate::{
    cs3::Channel,
    http::patience::{PatientStream, ROOM_WITHIN},
};

/// The most connections of the socket, and of the address, at a time: neither takes the other's room.
const MOST_CONNECTIONS: usize = 1_024;
/// After what age a client is asked to come anew, so that clients spread over the instances there are.
pub(super) const AGE: Duration = Duration::from_secs(60);
/// After what age a connection is cut off, whoever still waits for whom. tonic 0.14 has a bound of its own for this, with which it asks no one to
/// come anew.
const AGE_AT_MOST: Duration = Duration::from_secs(100);
/// How long the handshake of TLS may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// How long the door waits after a connection that could not be taken: mostly, that there are too many open files.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) channel: Channel,
    /// Where they are; a socket has no such thing.
    pub(super) address: Option<SocketAddr>,
}

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection, which knows how it came.
pub(super) struct Connection {
    bytes: Box<dyn Bytes>,
    peer: Peer,
    end: Pin<Box<Sleep>>,
}

impl Connection {
    fn new(bytes: impl Bytes + 'static, peer: Peer) -> Self {
        Self { bytes: Box::new(bytes), peer, end: Box::pin(sleep(AGE_AT_MOST)) }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut this.bytes).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().bytes).poll_write(context, bytes)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().bytes).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().bytes).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().bytes).poll_shutdown(context)
    }
}

/// Where connections go that are ready for calls.
pub(super) type Ready = mpsc::Sender<io::Result<Connection>>;

/// Takes the socket's connections.
pub(super) async fn accept_at_socket(listener: UnixListener, ready: Ready) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Some((stream, _)) = taken(listener.accept().await).await else { continue };
        let (room, ready) = (Arc::clone(&room), ready.clone());
        tokio::spawn(async move {
            let Some(room) = has_room(room).await else { return };
            let peer = Peer { channel: Channel::Socket, address: None };
            _ = ready.send(Ok(Connection::new(PatientStream::new(stream, Some(room)), peer))).await;
        });
    }
}

/// Takes the address's connections.
pub(super) async fn accept_at_address(listener: TcpListener, tls: Option<Tls>, ready: Ready) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Some((stream, address)) = taken(listener.accept().await).await else { continue };
        let (room, tls, ready) = (Arc::clone(&room), tls.clone(), ready.clone());
        tokio::spawn(async move {
            let Some(room) = has_room(room).await else { return };
            // A client that fails its handshake is no trouble of ours.
            if let Some(connection) = greeted(stream, room, address, tls).await {
                _ = ready.send(Ok(connection)).await;
            }
        });
    }
}

/// What was accepted; nothing, after a pause, where that failed.
async fn taken<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "a connection at the CS3 door could not be taken");
            sleep(AFTER_FAILURE).await;
            None
        }
    }
}

async fn has_room(room: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    timeout(ROOM_WITHIN, room.acquire_owned()).await.ok()?.ok()
}

async fn greeted(stream: TcpStream, room: OwnedSemaphorePermit, address: SocketAddr, tls: Option<Tls>) -> Option<Connection> {
    let peer = Peer { channel: Channel::Address, address: Some(address) };
    stream.set_nodelay(true).ok()?;
    let stream = PatientStream::new(stream, Some(room));
    let Some(tls) = tls else { return Some(Connection::new(stream, peer)) };
    let stream = timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(tls.running()).accept(stream)).await.ok()?.ok()?;
    // A client that can not say so has no HTTP/2 to speak.
    (stream.get_ref().1.alpn_protocol() == Some(b"h2")).then(|| Connection::new(stream, peer))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::Instant,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_whatever_goes_on_in_it() {
        let (mut peer, stream) = duplex(64);
        let mut connection = Connection::new(stream, Peer { channel: Channel::Socket, address: None });
        let begun = Instant::now();
        let busy = tokio::spawn(async move {
            while peer.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let ended = loop {
            if let Err(error) = connection.read_u8().await {
                break error;
            }
        };
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= AGE_AT_MOST && begun.elapsed() < AGE_AT_MOST + Duration::from_secs(2), "{:?}", begun.elapsed());
        busy.abort();
    }
}
