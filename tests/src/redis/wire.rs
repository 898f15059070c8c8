//! Redis' protocol (RESP2) as far as the actors speak it. It is not the client library that Denizen uses.

use std::{
    io::{self, BufRead as _, BufReader, Error, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

/// How long a server may take; a frozen one takes longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// There is none.
    Nothing,
    /// A refusal, with its code: `NOREPLICAS Not enough good replicas to write.`
    Refused(String),
    /// A number.
    Number(i64),
    /// Bytes, or a status.
    Bytes(Vec<u8>),
    /// Several.
    List(Vec<Reply>),
}

impl Reply {
    /// Bytes, a number or a refusal as text; of anything else, empty.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Refused(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Nothing | Self::List(_) => String::new(),
        }
    }

    /// The parts of a list; of anything else, none.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        if let Self::List(parts) = self { parts } else { &[] }
    }

    /// The bytes; of anything else, none.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        if let Self::Bytes(bytes) = self { bytes } else { &[] }
    }

    /// The answer, if it is no refusal.
    ///
    /// # Panics
    /// When it is one.
    #[track_caller]
    #[must_use]
    pub fn good(self) -> Self {
        assert!(!matches!(self, Self::Refused(_)), "Redis refuses: {}", self.text());
        self
    }
}

impl Connection {
    /// Connects to a loopback port in the clear.
    ///
    /// # Errors
    /// When nothing listens there.
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Waits for answers as long as it takes.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn wait_long(&self) -> io::Result<TcpStream> {
        self.stream.get_ref().set_read_timeout(None)?;
        self.stream.get_ref().try_clone()
    }

    /// Sends a command, and reads its answer.
    ///
    /// # Errors
    /// When the connection breaks, or the server takes too long.
    pub fn ask(&mut self, command: &[&[u8]]) -> io::Result<Reply> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)?;
        self.read()
    }

    /// Reads one answer.
    ///
    /// # Errors
    /// When the connection breaks, or the server takes too long.
    pub fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let Some(rest) = line.strip_suffix("\r\n") else { return Err(Error::from(io::ErrorKind::UnexpectedEof)) };
        let (form, rest) = rest.split_at_checked(1).ok_or_else(|| Error::other("an empty line"))?;
        let number = || rest.parse::<i64>().map_err(Error::other);
        match form {
            "+" => Ok(Reply::Bytes(rest.as_bytes().to_vec())),
            "-" => Ok(Reply::Refused(rest.to_owned())),
            ":" => Ok(Reply::Number(number()?)),
            "$" => usize::try_from(number()?).map_or(Ok(Reply::Nothing), |length| self.bytes(length)),
            "*" => usize::try_from(number()?).map_or(Ok(Reply::Nothing), |count| {
                let parts = (0..count).map(|_| self.read()).collect::<io::Result<_>>()?;
                Ok(Reply::List(parts))
            }),
            _ => Err(Error::other(line.clone())),
        }
    }

    fn bytes(&mut self, length: usize) -> io::Result<Reply> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Bytes(bytes))
    }
}
