//! The section `store`: what is kept, and where.

mod check;

use std::path::PathBuf;

use connectors::ConfiguredSecret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use check::check;

/// What it keeps, and where.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StoreConfig {
    /// The file of one process; without it and without `redis`, everything is in memory and is lost at the end.
    pub file: Option<PathBuf>,
    /// Redis, which several replicas share.
    pub redis: Option<RedisConfig>,
    /// A file with the key (32 bytes, as base64 or as 64 hexadecimal digits) that seals what the store must not show: the signing
    /// keys, and what upstreams gave us to ask them again with; `openssl rand -base64 32` makes one. Several keys, one a line: the first
    /// seals, all open. Needed with `redis`. Without it the signing keys lie in the store in the clear, and what seals the rest beside
    /// it. Where a key is gone that sealed the signing keys, Denizen does not start.
    pub sealing_key_file: Option<PathBuf>,
}

/// Redis 7 or newer: one server, or one that Sentinel watches over, or a Cluster. Give exactly one of `address`, `sentinel`, `cluster`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedisConfig {
    /// One server: `host:port`.
    #[serde(default)]
    pub address: Option<String>,
    /// A primary that Sentinel watches over.
    #[serde(default)]
    pub sentinel: Option<SentinelConfig>,
    /// Some servers of a Cluster, each `host:port`: the others are learnt from them.
    #[serde(default)]
    pub cluster: Vec<String>,
    /// The user (Redis ACL); the default user where there is none.
    #[serde(default)]
    pub username: Option<String>,
    /// The password.
    #[serde(default)]
    pub password: Option<ConfiguredSecret>,
    /// Or the file with it; it is read at each connection.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// TLS to the servers (and to Sentinel); without it the connection is in the clear.
    #[serde(default)]
    pub tls: Option<RedisTls>,
    /// The number of the database; a Cluster has 0 only.
    #[serde(default)]
    pub database: u8,
    /// What all keys and channels begin with, so that several programs may share a server.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// How many of a primary's replicas must have what must not be lost before it is answered (`WAIT`); without them it is answered 503.
    /// 1 with `sentinel` and `cluster`, 0 with `address`, where nothing else is said.
    #[serde(default)]
    pub acknowledged_by: Option<u8>,
    /// Within how many milliseconds the store answers, or is unavailable.
    #[serde(default = "deadline")]
    pub deadline_milliseconds: u64,
}

/// Sentinel, which says which server is the primary.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SentinelConfig {
    /// The sentinels, each `host:port`.
    pub addresses: Vec<String>,
    /// What they call the primary.
    pub name: String,
    /// The user at the sentinels.
    #[serde(default)]
    pub username: Option<String>,
    /// The password at the sentinels.
    #[serde(default)]
    pub password: Option<ConfiguredSecret>,
    /// Or the file with it.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
}

/// TLS to Redis.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedisTls {
    /// The authorities that are trusted, in PEM; those of the machine where there is none.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Our certificate, in PEM, where the servers ask for one.
    #[serde(default)]
    pub certificate_file: Option<PathBuf>,
    /// Its key, in PEM.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
}

impl RedisConfig {
    /// How many replicas must have what must not be lost.
    #[must_use]
    pub fn acknowledged_by(&self) -> u8 {
        self.acknowledged_by.unwrap_or(u8::from(self.address.is_none()))
    }
}

fn prefix() -> String {
    "denizen".to_owned()
}

const fn deadline() -> u64 {
    2_000
}
