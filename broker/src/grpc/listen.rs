//! Where the CS3 door listens: a Unix socket, an address, or both; TLS by files. It does not own what connections may do.

use std::{net::SocketAddr, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};

use super::socket_file::{self, SocketError, SocketFile};
use crate::{
    config::{Cs3Config, Cs3Tls, TlsConfig},
    http::server::{self, ListenError},
};

/// The door can not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// The Unix socket can not be used.
    #[error("can not listen on the socket {path}")]
    Socket {
        /// Which.
        path: String,
        /// Why not.
        source: SocketError,
    },
    /// The address can not be used, or its TLS files.
    #[error(transparent)]
    Address(#[from] ListenError),
}

/// What the door listens on.
#[derive(Debug, Default)]
pub struct Listeners {
    pub(super) socket: Option<(UnixListener, SocketFile)>,
    pub(super) address: Option<(TcpListener, Option<Tls>)>,
}

impl Listeners {
    /// Takes the socket and the address. Port 0 takes a free one.
    ///
    /// # Errors
    /// When one is taken or can not be had, or a TLS file can not be used.
    pub async fn bind(config: &Cs3Config) -> Result<Self, DoorError> {
        let address = match config.address {
            None => None,
            Some(address) => {
                let tls = config.tls.as_ref().map(Tls::read).transpose()?;
                let listener = TcpListener::from_std(server::bind(address)?).map_err(ListenError::from)?;
                Some((listener, tls))
            }
        };
        let socket = match &config.socket {
            None => None,
            Some(socket) => Some(
                socket_file::bind(socket).await.map_err(|source| DoorError::Socket { path: socket.path.display().to_string(), source })?,
            ),
        };
        Ok(Self { socket, address })
    }

    /// The path of the socket.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(|(_, file)| file.path())
    }

    /// The address, with the port that it got.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// Whether the address has TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.address.as_ref().is_some_and(|(_, tls)| tls.is_some())
    }
}

/// TLS in force, and the files that it is read from.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    files: TlsConfig,
    running: Arc<ArcSwap<ServerConfig>>,
}

impl Tls {
    fn read(config: &Cs3Tls) -> Result<Self, ListenError> {
        let files =
            TlsConfig { certificate_file: config.certificate_file.clone(), key_file: config.key_file.clone(), client_ca_file: None };
        let running = Arc::new(ArcSwap::from_pointee(for_grpc(&files)?));
        Ok(Self { files, running })
    }

    /// What a new connection gets.
    pub(super) fn running(&self) -> Arc<ServerConfig> {
        self.running.load_full()
    }

    /// Reads the files again; broken ones leave what is in force.
    pub(super) fn read_again(&self) {
        match for_grpc(&self.files) {
            Ok(fresh) => {
                self.running.store(Arc::new(fresh));
                tracing::info!("the TLS files of the CS3 door were read again");
            }
            Err(error) => tracing::error!(%error, "the TLS files of the CS3 door can not be used; those in force stay"),
        }
    }
}

/// gRPC is HTTP/2, and nothing else.
fn for_grpc(files: &TlsConfig) -> Result<ServerConfig, ListenError> {
    let mut config = server::tls(files)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn broken_tls_files_leave_what_is_in_force() {
        crate::cli::install_providers();
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let config = Cs3Tls { certificate_file: folder.path().join("cert.pem"), key_file: folder.path().join("key.pem") };
        assert!(Tls::read(&config).is_err(), "there are none yet");
        fs::write(&config.certificate_file, made.cert.pem()).unwrap();
        fs::write(&config.key_file, made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::read(&config).unwrap();
        assert_eq!(tls.running().alpn_protocols, [b"h2".to_vec()]);
        let first = tls.running();
        fs::write(&config.key_file, "no key").unwrap();
        tls.read_again();
        assert!(Arc::ptr_eq(&first, &tls.running()));
        fs::write(&config.key_file, made.signing_key.serialize_pem()).unwrap();
        tls.read_again();
        assert!(!Arc::ptr_eq(&first, &tls.running()), "the new ones are for new connections");
    }
}
