//! What OpenCloud needs of the configuration: the CS3 door, its clients by one word, and who may share with whom.

pub(super) mod cs3;
pub(super) mod preset;

use std::{net::SocketAddr, path::PathBuf};

use claims_mapping::{ConnectorId, TenantId};
use connectors::ConfiguredSecret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// The CS3 door: OpenCloud's users provider over gRPC.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cs3Config {
    /// A Unix socket: whoever may open it is taken for an OpenCloud of this instance. `socket`, `address`, or both.
    #[serde(default)]
    pub socket: Option<Cs3Socket>,
    /// An address: `127.0.0.1:9144`.
    #[serde(default)]
    #[schemars(extend("format" = "socket-address"))]
    pub address: Option<SocketAddr>,
    /// TLS for `address`; without it only loopback is served unless `allowPlain` says otherwise.
    #[serde(default)]
    pub tls: Option<Cs3Tls>,
    /// Whether `address` may be served without TLS on a network that is private.
    #[serde(default)]
    pub allow_plain: bool,
    /// OpenCloud's `OC_JWT_SECRET`: whoever has it is every user of every tenant here. At least 16 bytes.
    #[serde(default)]
    pub jwt_secret: Option<ConfiguredSecret>,
    /// The file of that secret.
    #[serde(default)]
    pub jwt_secret_file: Option<PathBuf>,
    /// Whether look-ups without a token are answered at `address` too, as they are at the socket: OpenCloud's proxy sends none. Whoever
    /// reaches the address can then look up people of every tenant whose id or instance-wide name they know.
    #[serde(default)]
    pub tokenless_lookups: bool,
    /// How names become unique over the instance.
    #[serde(default)]
    pub usernames: Cs3Usernames,
    /// The connector whose `externalIds` are the `external_id`s of tenants; their own ids where absent.
    #[serde(default)]
    pub external_ids_of: Option<ConnectorId>,
    /// Whether gRPC reflection is served, which lists the services to whoever asks.
    #[serde(default)]
    pub reflection: bool,
    /// The fewest characters of a search; 0, where an empty one lists the tenant.
    #[serde(default)]
    pub search_least_characters: usize,
    /// The most people or groups of one answer; 200. What there is beyond is left out, for OpenCloud shows any other answer as an error.
    #[serde(default = "Cs3Config::default_results")]
    pub results: usize,
    /// What is remembered of people.
    #[serde(default)]
    pub cache: Cs3Cache,
}

impl Cs3Config {
    const fn default_results() -> usize {
        200
    }
}

/// A Unix socket.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cs3Socket {
    /// Its path: `/run/denizen/cs3.sock`. What is left there of an earlier run is replaced.
    pub path: PathBuf,
    /// Who may open it, in octal digits: `"0660"`.
    #[serde(default = "Cs3Socket::default_mode")]
    pub mode: String,
    /// The group that it is given to, by name or number; Denizen's own where absent.
    #[serde(default)]
    pub group: Option<String>,
}

impl Cs3Socket {
    fn default_mode() -> String {
        "0660".to_owned()
    }
}

/// TLS by files (PEM).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cs3Tls {
    /// The certificate chain, leaf first.
    pub certificate_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// How names become unique over the instance, as OpenCloud needs them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cs3Usernames {
    /// `<username>@<label of the tenant>`.
    #[default]
    Label,
    /// `<username>@<first e-mail domain of the tenant>`; the label where it has none.
    Domain,
}

/// What is remembered of people, so that OpenCloud's look-up at each request does not reach the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cs3Cache {
    /// How long, in seconds; 30. Whoever a directory has disabled stays in that long. 0 asks each time.
    pub seconds: u64,
    /// How much longer, in seconds, while the directory does not answer; 600. 0 makes its outage OpenCloud's.
    pub grace_seconds: u64,
    /// The most people; 100,000.
    pub entries: usize,
    /// The most of one tenant; 10,000.
    pub entries_per_tenant: usize,
}

impl Default for Cs3Cache {
    fn default() -> Self {
        Self { seconds: 30, grace_seconds: 600, entries: 100_000, entries_per_tenant: 10_000 }
    }
}

/// Applications whose clients need not be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// OpenCloud's four: `web`, `OpenCloudDesktop`, `OpenCloudAndroid`, `OpenCloudIOS`.
    Opencloud,
}

/// The OpenCloud whose clients the preset describes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpencloudConfig {
    /// Its address, as browsers see it (`OC_URL`): `https://cloud.example`.
    pub url: Url,
}

/// Who may share with whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SharingConfig {
    /// What is allowed besides sharing within a tenant.
    pub exceptions: Vec<SharingException>,
}

/// People of one tenant may share with people of another: one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharingException {
    /// Whose people share.
    pub from: TenantId,
    /// With whose.
    pub to: TenantId,
}
