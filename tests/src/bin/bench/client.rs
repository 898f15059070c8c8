//! One kept HTTP/1.1 connection, with as little around it as can be: what it costs counts as Denizen's.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    to: SocketAddr,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, to, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Asks with a bearer token, and gives the body of the answer, which must be a success.
    pub(crate) async fn get(&mut self, path: &str, token: &str) -> Result<&[u8]> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", self.to);
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the connection was closed");
            let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(self.buffer.get(..end).unwrap_or_default()).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).context("the answer has no length")?;
            let whole = end + 4 + length.trim().parse::<usize>()?;
            if self.buffer.len() >= whole {
                ensure!(head.starts_with("http/1.1 200"), "GET {path}: {head}");
                return self.buffer.get(end + 4..whole).context("the answer is whole");
            }
        }
    }
}
