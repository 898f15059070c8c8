//! Real Redis servers: one alone, one with TLS and an ACL, a primary with a replica under three sentinels, a Cluster. They are killed,
//! frozen and started anew on what they kept.

mod cluster;
mod monitor;
mod pair;
mod server;
mod wire;

use std::{
    fs,
    path::{Path, PathBuf},
};

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

pub use self::{
    cluster::RedisCluster,
    monitor::Monitor,
    pair::{RedisPair, SENTINEL_NAME},
    server::Server,
    wire::{Connection, Reply},
};
use crate::{Authority, authority::Files};

/// The user that Denizen is, where the default user is off.
pub const USER: &str = "denizen";
/// The password of [`USER`].
pub const PASSWORD: &str = "password-of-denizen-at-redis";
/// The least that [`USER`] may do for everything to work: its keys, its channel, and these commands (a rule of Redis' ACL).
pub const RIGHTS: &str = "~denizen:* &denizen:* -@all +get +getrange +mget +set +del +scan +zadd +zrem +zrangebylex +zrangebyscore +time \
                          +eval +evalsha +script|load +publish +subscribe +ping +wait +info +select +cluster|slots +cluster|info \
                          +cluster|nodes";

/// One server, in the clear or over TLS.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    tls: Option<Tls>,
}

#[derive(Debug)]
struct Tls {
    authority: Authority,
    port: u16,
    ca: PathBuf,
    client: Files,
}

impl Redis {
    /// Starts one server that writes each change to its file (`appendonly yes`, `appendfsync everysec`).
    pub async fn single() -> Self {
        Self::with("").await
    }

    /// Starts one with more lines of configuration.
    ///
    /// # Panics
    /// When redis-server is not installed, or does not start.
    pub async fn with(lines: &str) -> Self {
        Self { server: Server::prepare("redis", lines).start().await, tls: None }
    }

    /// Starts one with TLS, which asks for certificates, and an ACL: the default user is off, and [`USER`] has [`RIGHTS`] and nothing else.
    ///
    /// # Panics
    /// When redis-server is not installed, or does not start.
    pub async fn tls() -> Self {
        let prepared = Server::prepare_closed("redis", &format!("user {USER} on >{PASSWORD} {RIGHTS}\n"));
        let folder = prepared.folder();
        let authority = Authority::new("Redis of the tests");
        let ca = authority.write(&folder.join("ca.crt"));
        let own = authority.server(folder, "server", &["localhost", "127.0.0.1"]);
        let client = authority.client(folder, USER);
        fs::write(folder.join("password"), PASSWORD).unwrap();
        let port = crate::ports::free();
        let lines = format!(
            "tls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients yes\n",
            own.certificate.display(),
            own.key.display(),
            ca.display(),
        );
        let server = prepared.with(&lines).start().await;
        Self { server, tls: Some(Tls { authority, port, ca, client }) }
    }

    /// The server: its faults, and what it says.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// The same, to kill it and to start it anew.
    pub const fn server_mut(&mut self) -> &mut Server {
        &mut self.server
    }

    /// The authority of its certificate.
    ///
    /// # Panics
    /// When it is in the clear.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.tls.as_ref().expect("it was started with TLS").authority
    }

    /// The section `store` of a configuration.
    #[must_use]
    pub fn as_store(&self) -> Value {
        let redis = match &self.tls {
            None => json!({"address": self.server.address()}),
            Some(tls) => json!({
                "address": format!("localhost:{}", tls.port),
                "username": USER,
                "passwordFile": self.server.folder().join("password"),
                "tls": {"caFile": tls.ca, "certificateFile": tls.client.certificate, "keyFile": tls.client.key},
            }),
        };
        store(redis, self.server.folder())
    }
}

/// A section `store`: this `redis`, and the sealing key of a folder, which is made where there is none.
fn store(redis: Value, folder: &Path) -> Value {
    json!({"redis": redis, "sealingKeyFile": sealing_key(folder)})
}

/// The file of a sealing key in a folder; it is made where there is none.
///
/// # Panics
/// When it can not be written.
#[must_use]
pub fn sealing_key(folder: &Path) -> PathBuf {
    let path = folder.join("sealing.key");
    if !path.exists() {
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).unwrap();
        fs::write(&path, STANDARD.encode(key)).unwrap();
    }
    path
}
