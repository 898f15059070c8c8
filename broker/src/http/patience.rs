//! How long a connection may stand still, and how many there may be.
//!
//! The HTTP server bounds the head of a request and the handshake of TLS, and not the time before it knows which version of HTTP
//! is spoken, nor a client that reads no answer. So the bound is here, beneath both: on the bytes of the connection.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::accept::Accept;
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep, timeout},
};

/// How long a connection may move no byte in a direction that is waited for. A request lasts at most 30 s, and HTTP/2 sends
/// a ping every 30 s, so that no client that is there is cut off.
const STILL_AT_MOST: Duration = Duration::from_secs(60);
/// How long a connection waits for room when there are as many as there may be.
pub(crate) const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Sets `TCP_NODELAY`, and makes a [`PatientStream`] of each connection.
#[derive(Clone)]
pub(super) struct PatientAcceptor {
    room: Option<Arc<Semaphore>>,
}

impl PatientAcceptor {
    /// For any number of connections.
    pub(super) const fn unbounded() -> Self {
        Self { room: None }
    }

    /// For so many connections at a time. One more waits 5 s for the end of another, and is then closed.
    pub(super) fn bounded(connections: usize) -> Self {
        Self { room: Some(Arc::new(Semaphore::new(connections))) }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for PatientAcceptor {
    type Stream = PatientStream<TcpStream>;
    type Service = S;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let room = self.room.clone();
        Box::pin(async move {
            stream.set_nodelay(true)?;
            let room = match room {
                None => None,
                Some(room) => Some(timeout(ROOM_WITHIN, room.acquire_owned()).await?.map_err(io::Error::other)?),
            };
            Ok((PatientStream::new(stream, room), service))
        })
    }
}

/// A stream whose reads and writes fail with `TimedOut` after [`STILL_AT_MOST`] without a byte. It gives its room back at its end.
pub(crate) struct PatientStream<S> {
    stream: S,
    reads: Stillness,
    writes: Stillness,
    _room: Option<OwnedSemaphorePermit>,
}

impl<S> PatientStream<S> {
    /// Around a connection, with the room that it takes.
    pub(crate) fn new(stream: S, room: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, reads: Stillness::default(), writes: Stillness::default(), _room: room }
    }
}

/// How long one direction has been waited for.
#[derive(Default)]
struct Stillness {
    /// Made at the first wait; most writes never wait.
    end: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl Stillness {
    /// Passes an outcome on, and counts the time while there is none.
    fn bound<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waits = false;
            return outcome;
        }
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(STILL_AT_MOST)));
        if !self.waits {
            self.waits = true;
            end.as_mut().reset(Instant::now() + STILL_AT_MOST);
        }
        end.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.reads.bound(context, outcome)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.writes.bound(context, outcome)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.writes.bound(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        net::TcpListener,
    };

    use super::*;

    const ALMOST: Duration = Duration::from_secs(59);

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_given_up_and_each_byte_begins_anew() {
        let (mut peer, stream) = duplex(64);
        let mut stream = PatientStream::new(stream, None);
        for _ in 0..3 {
            // The clock of the test stands still but for what is waited for.
            let byte = async {
                sleep(ALMOST).await;
                peer.write_all(b"x").await.unwrap();
            };
            let (read, ()) = tokio::join!(stream.read_u8(), byte);
            assert_eq!(read.unwrap(), b'x');
        }
        let begun = Instant::now();
        assert_eq!(stream.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let waited = begun.elapsed();
        assert!(waited >= STILL_AT_MOST && waited < STILL_AT_MOST + Duration::from_secs(1), "{waited:?}");
        drop(peer);
        assert_eq!(stream.read_u8().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_no_one_reads_in_does_not_count() {
        let (mut peer, stream) = duplex(64);
        let mut stream = PatientStream::new(stream, None);
        assert!(timeout(ALMOST, stream.read_u8()).await.is_err());
        peer.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        sleep(STILL_AT_MOST * 10).await;
        assert!(timeout(ALMOST, stream.read_u8()).await.is_err(), "it still waits");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (mut peer, stream) = duplex(4);
        let mut stream = PatientStream::new(stream, None);
        stream.write_all(b"full").await.unwrap();
        assert_eq!(stream.write_all(b"more").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut bytes = [0; 4];
        peer.read_exact(&mut bytes).await.unwrap();
        stream.write_all(b"more").await.unwrap();
    }

    #[tokio::test]
    async fn one_connection_too_many_waits_for_room_and_is_then_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connections = Vec::new();
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            connections.push(listener.accept().await.unwrap().0);
        }
        tokio::time::pause();
        let acceptor = PatientAcceptor::bounded(1);
        let mut accept = || acceptor.accept(connections.pop().unwrap(), ());
        let (first, ()) = accept().await.unwrap();
        assert!(first.stream.nodelay().unwrap());
        assert_eq!(accept().await.err().map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
        let third = tokio::spawn(accept());
        sleep(ROOM_WITHIN / 2).await;
        assert!(!third.is_finished());
        drop(first);
        third.await.unwrap().unwrap();
    }
}
