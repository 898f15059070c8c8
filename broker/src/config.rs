//! The configuration: one YAML file, camelCase keys, unknown keys refused.
//!
//! This file owns the shape, but for that of an application (`config/clients.rs`) and of what OpenCloud needs
//! (`config/opencloud.rs`, `config/opencloud/preset.rs`). The way in is [`load`]: `config/tree.rs` reads the YAML with the place of
//! each value, `config/environment.rs` fills in `${NAME}`, `config/schema.rs` holds the tree against the shape, `config/check.rs`
//! holds what a shape can not say, with `config/clients.rs`, `config/joins.rs` and `config/upstream_tokens.rs`; `config/tenants.rs`
//! and `config/upstreams.rs` turn the entries into what tenancy uses. `config/authentication.rs` adds what kube-apiserver's own file
//! says.

mod authentication;
mod branding;
mod check;
mod clients;
mod cs3_groups;
mod environment;
mod faults;
mod joins;
mod keystone;
mod load;
mod opencloud;
mod places;
mod schema;
mod sharing;
mod store;
mod structure;
mod tenants;
#[cfg(test)]
mod tests;
mod tree;
mod upstream_tokens;
mod upstreams;

pub use clients::{ClientConfig, GrantType};
pub use faults::{Fault, Faults, Place};
pub use load::{Loaded, LoadedConnector, load, load_text};
pub use opencloud::{Cs3Cache, Cs3Config, Cs3Socket, Cs3Tls, Cs3Usernames, OpencloudConfig, Preset, SharingConfig, SharingException};
pub use schema::schema;
pub use store::{RedisConfig, RedisTls, SentinelConfig, StoreConfig};

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
};

use claims_mapping::{ConnectorId, IdScheme, MappingConfig, OperatedBy, TenantId, TenantLabel};
use connectors::{ConfiguredSecret, config::Upstream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// Seconds of the configuration as a duration.
pub(crate) fn seconds(n: u64) -> time::Duration {
    time::Duration::seconds(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The whole configuration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Denizen's own address, as applications and browsers see it: `https://id.example`. Plain http on loopback only. No path, query or fragment.
    pub issuer: Url,
    /// Where it listens.
    #[serde(default)]
    pub listen: Listen,
    /// What it keeps, and where.
    #[serde(default)]
    pub store: StoreConfig,
    /// The tenants.
    #[serde(default)]
    pub tenants: Vec<TenantConfig>,
    /// The tenant of the operators, `system`, where there is one.
    #[serde(default)]
    pub system_tenant: Option<SystemTenantConfig>,
    /// The tenant of users whose connector has no tenant rule at all; without it they are refused.
    #[serde(default)]
    pub default_tenant: Option<TenantId>,
    /// Whether a tenant that an operator's connector names, and that is not configured, comes into being.
    #[serde(default)]
    pub create_tenants: bool,
    /// Labels that no tenant may have, besides the reserved ones.
    #[serde(default)]
    pub reserved_labels: BTreeSet<String>,
    /// Where people and workloads come from.
    #[serde(default)]
    pub connectors: Vec<ConnectorConfig>,
    /// The applications.
    #[serde(default)]
    pub clients: Vec<ClientConfig>,
    /// Who may ask for token reviews.
    #[serde(default)]
    pub reviewers: Vec<ReviewerConfig>,
    /// How long what is issued holds.
    #[serde(default)]
    pub lifetimes: Lifetimes,
    /// How keys are made and rotated.
    #[serde(default)]
    pub keys: KeysConfig,
    /// How far guessing goes before it is slowed.
    #[serde(default)]
    pub guessing: GuessingConfig,
    /// The bounds of user search.
    #[serde(default)]
    pub search: SearchConfig,
    /// A file with kube-apiserver's own AuthenticationConfiguration (`apiserver.config.k8s.io`). Each `oidc` connector whose `issuer.url`
    /// is that of a `jwt` entry takes from it what its own entry here does not give.
    #[serde(default)]
    pub authentication_configuration: Option<PathBuf>,
    /// How the pages look.
    #[serde(default)]
    pub branding: Branding,
    /// What is kept of a sign-in that was refused.
    #[serde(default)]
    pub refusals: RefusalsConfig,
    /// The CS3 door, where OpenCloud asks for users.
    #[serde(default)]
    pub cs3: Option<Cs3Config>,
    /// Applications whose clients need not be written down in `clients`.
    #[serde(default)]
    pub presets: BTreeSet<Preset>,
    /// The OpenCloud that the preset `opencloud` is about.
    #[serde(default)]
    pub opencloud: Option<OpencloudConfig>,
    /// Who may share with whom, besides people of one tenant.
    #[serde(default)]
    pub sharing: SharingConfig,
}

/// How the pages look: the operator's name, logo and colours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Branding {
    /// The name beside the logo.
    pub name: Option<String>,
    /// The logo: an SVG or PNG file of at most 256 KiB.
    pub logo_file: Option<PathBuf>,
    /// The colour of buttons and links, as `#1a5fb4`.
    pub accent: Option<String>,
    /// The same where the page is dark; `accent` where absent.
    pub accent_dark: Option<String>,
    /// Whom people turn to when a sign-in fails: `the help desk, +49 30 1234`.
    pub support: Option<String>,
}

/// What is kept of a sign-in that was refused, under the number that its person was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RefusalsConfig {
    /// For how long, in seconds; 86,400 (a day).
    pub kept_seconds: u64,
    /// Whether the values of claims are kept too; without it only their kinds and lengths are.
    pub keep_claims: bool,
}

impl Default for RefusalsConfig {
    fn default() -> Self {
        Self { kept_seconds: 86_400, keep_claims: false }
    }
}

/// Where it listens.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Listen {
    /// Applications, browsers, reviewers: `127.0.0.1:5556`.
    #[schemars(extend("format" = "socket-address"))]
    pub address: SocketAddr,
    /// Health and metrics, on a listener of its own: `127.0.0.1:5558`. Keep it away from users.
    #[schemars(extend("format" = "socket-address"))]
    pub admin_address: SocketAddr,
    /// TLS for `address`; without it only loopback is served unless `behindProxy` says that TLS ends before Denizen.
    pub tls: Option<TlsConfig>,
    /// TLS ends at a proxy, and `address` can be reached through it alone.
    pub behind_proxy: bool,
    /// Networks whose `X-Forwarded-For` is believed, as addresses or prefixes (`10.0.0.0/8`).
    pub trusted_proxies: Vec<String>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 5556)),
            admin_address: SocketAddr::from(([127, 0, 0, 1], 5558)),
            tls: None,
            behind_proxy: false,
            trusted_proxies: Vec::new(),
        }
    }
}

/// TLS by files (PEM); read again on SIGHUP.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate chain, leaf first.
    pub certificate_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
    /// The authorities whose client certificates are believed (reviewers with `certificateName`).
    #[serde(default)]
    pub client_ca_file: Option<PathBuf>,
}

/// One tenant.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantConfig {
    /// Its permanent id.
    pub id: TenantId,
    /// Its DNS label; the id where that is one, else derived.
    #[serde(default)]
    pub label: Option<TenantLabel>,
    /// Its name for people; the id where there is none.
    #[serde(default)]
    pub display_name: Option<String>,
    /// What each connector's upstream calls it.
    #[serde(default)]
    #[schemars(extend("propertyNames" = { "$ref": "#/$defs/ConnectorId" }))]
    pub external_ids: BTreeMap<ConnectorId, String>,
    /// The connectors that may speak for it; all whose own rule allows it where absent.
    #[serde(default)]
    pub connectors: Option<BTreeSet<ConnectorId>>,
    /// The domains of its people's e-mail addresses: they lead to its ways to sign in, and prove nothing.
    #[serde(default)]
    pub email_domains: BTreeSet<String>,
    /// Host names, besides that of the issuer, at which Denizen is reached for this tenant: whoever begins there signs in to it.
    #[serde(default)]
    pub hosts: BTreeSet<String>,
    /// How the pages look to whoever signs in to it; what it does not say, the instance's own `branding` does.
    #[serde(default)]
    pub branding: Branding,
    /// Switched off at every door.
    #[serde(default)]
    pub disabled: bool,
}

/// The tenant of the operators, whose id is `system`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SystemTenantConfig {
    /// Its label downstream, where `system` itself is reserved.
    pub label: TenantLabel,
    /// The connectors whose users may be operators; each must be `operatedBy: operator`.
    pub connectors: BTreeSet<ConnectorId>,
    /// What each connector's upstream calls it.
    #[serde(default)]
    #[schemars(extend("propertyNames" = { "$ref": "#/$defs/ConnectorId" }))]
    pub external_ids: BTreeMap<ConnectorId, String>,
}

/// One connector: what is common to all, then what its `type` needs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorConfig {
    /// Its permanent id; part of every user's own.
    pub id: ConnectorId,
    /// Its name on the sign-in page.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Whom its upstream answers to.
    #[serde(default)]
    pub operated_by: OperatedBy,
    /// The one tenant of all its users.
    #[serde(default)]
    pub tenant: Option<FixedTenant>,
    /// The tenants that its mapping may yield.
    #[serde(default)]
    pub tenants: Option<TenantList>,
    /// Whether ids are derived or the upstream's own.
    #[serde(default)]
    pub ids: IdScheme,
    /// The roles that its users may have.
    #[serde(default)]
    pub roles: BTreeSet<String>,
    /// Whether it is switched off.
    #[serde(default)]
    pub disabled: bool,
    /// Whether the sign-in page offers it to people of whom nothing is known yet. Without it: not where it serves one tenant
    /// only, and there are others.
    #[serde(default)]
    pub listed: Option<bool>,
    /// The connector whose people its users are, found there by `join`. Operators' connectors only.
    #[serde(default)]
    pub directory: Option<ConnectorId>,
    /// How its users are found in `directory`.
    #[serde(default)]
    pub join: Option<JoinConfig>,
    /// Seconds that one call to it may take; 5.
    #[serde(default = "ConnectorConfig::default_deadline")]
    pub deadline_seconds: u64,
    /// The mapping. Each type has a default of its own for the parts that are not given.
    #[serde(flatten)]
    pub mapping: MappingConfig,
    /// The part that depends on the type.
    #[serde(flatten)]
    pub upstream: Upstream,
}

impl ConnectorConfig {
    const fn default_deadline() -> u64 {
        5
    }
}

/// A claim and an attribute with the same value, which never changes and is one person's only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinConfig {
    /// The claim of the connector's user: a text. Not their e-mail address, nor a name: these change hands.
    pub claim: String,
    /// The directory's attribute with the same text, letter for letter; UUIDs in any writing. `id` in a file.
    pub attribute: String,
}

/// `tenant: { fixed: acme }`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FixedTenant {
    /// The tenant.
    pub fixed: TenantId,
}

/// `tenants: all`, or a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TenantList {
    /// Every configured tenant, and `system` only where `systemTenant.connectors` names the connector.
    All(AllTenants),
    /// These.
    These(BTreeSet<TenantId>),
}

/// The word `all`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllTenants {
    /// Every configured tenant, and `system` only where `systemTenant.connectors` names the connector.
    All,
}

/// A signature algorithm (RFC 7518, RFC 8037).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SigningAlgorithm {
    /// ECDSA on P-256.
    #[default]
    #[serde(rename = "ES256")]
    Es256,
    /// RSA PKCS#1 v1.5.
    #[serde(rename = "RS256")]
    Rs256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// Who may ask for token reviews, about what.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewerConfig {
    /// Its name in the audit log.
    pub id: String,
    /// A bearer token that it sends.
    #[serde(default)]
    pub bearer_token: Option<ConfiguredSecret>,
    /// The file of that token.
    #[serde(default)]
    pub bearer_token_file: Option<PathBuf>,
    /// The common name or DNS name of its client certificate, by `listen.tls.clientCaFile`.
    #[serde(default)]
    pub certificate_name: Option<String>,
    /// The client whose `client_credentials` tokens (audience `<issuer>/review`) it sends.
    #[serde(default)]
    pub client: Option<String>,
    /// The audiences that it stands for; at least one.
    pub audiences: BTreeSet<String>,
    /// The tenants whose tokens it takes; all but `system` where absent.
    #[serde(default)]
    pub tenants: Option<BTreeSet<TenantId>>,
    /// The connectors whose users it takes; all where absent.
    #[serde(default)]
    pub connectors: Option<BTreeSet<ConnectorId>>,
    /// How names are written.
    #[serde(default)]
    pub format: ReviewFormat,
    /// Upstreams whose own tokens it takes, beside Denizen's: none where absent.
    #[serde(default)]
    pub upstream_tokens: Vec<UpstreamTokens>,
}

/// The tokens of one upstream that a reviewer takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpstreamTokens {
    /// The connector; it must have `acceptTokens: true`.
    pub connector: ConnectorId,
    /// Of the connector's audiences, those whose tokens are meant for this reviewer; at least one. Keystone's tokens name none: with a
    /// `keystone` connector it is left out, and each of its tokens stands for the reviewer's own audiences.
    #[serde(default)]
    pub audiences: BTreeSet<String>,
    /// With a `keystone` connector: what a review says besides, in the way of another authenticator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<Compatibility>,
}

/// An authenticator whose answers are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compatibility {
    /// The project's id is one of the groups, and `extra` has the keys below `alpha.kubernetes.io/identity`.
    #[serde(rename = "k8s-keystone-auth")]
    K8sKeystoneAuth,
}

/// How names are written in a review's answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewFormat {
    /// `<label>:<name>`.
    #[default]
    Kubernetes,
    /// The same, and the field `tenant` (Arktos).
    Arktos,
}

/// How long what is issued holds, in seconds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Lifetimes {
    /// A sign-in under way; 1,800.
    pub attempt_seconds: u64,
    /// An authorization code; 60.
    pub code_seconds: u64,
    /// An access token; 600. It is also how long someone whom an upstream has disabled, or moved to another tenant, stays in at
    /// most, and 30 seconds more where several applications share their session: an upstream is asked again when one of ours
    /// is renewed. Where an upstream gives nothing to ask again with, its connector's `believedSeconds` say how long.
    pub access_token_seconds: u64,
    /// An ID token; 600.
    pub id_token_seconds: u64,
    /// A refresh token since its last use; 1,209,600 (14 days).
    pub refresh_token_seconds: u64,
    /// A signed-in browser session, from the sign-in; 43,200 (12 hours).
    pub session_seconds: u64,
    /// Someone who signed in through a connector without a directory can be found so long after they were last seen;
    /// 7,776,000 (90 days).
    pub signed_in_people_seconds: u64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            attempt_seconds: 1_800,
            code_seconds: 60,
            access_token_seconds: 600,
            id_token_seconds: 600,
            refresh_token_seconds: 1_209_600,
            session_seconds: 43_200,
            signed_in_people_seconds: 7_776_000,
        }
    }
}

/// How keys are made and rotated, in seconds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeysConfig {
    /// How long one key signs; 2,592,000 (30 days).
    pub rotation_seconds: u64,
    /// How long before it signs a key is published, and how long after its last signature (besides the longest token's
    /// life); 86,400.
    pub overlap_seconds: u64,
    /// The algorithms for which keys are kept; ES256. Clients may only ask for these.
    pub algorithms: BTreeSet<SigningAlgorithm>,
}

impl Default for KeysConfig {
    fn default() -> Self {
        Self { rotation_seconds: 2_592_000, overlap_seconds: 86_400, algorithms: [SigningAlgorithm::Es256].into() }
    }
}

/// How far guessing goes before it is slowed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GuessingConfig {
    /// Failures for one account from one address (IPv6: one /64) before each further one waits; 5.
    pub account_burst: u32,
    /// Seconds until one more is allowed; 30.
    pub account_seconds: u64,
    /// Failures from one address over all accounts; 30.
    pub address_burst: u32,
    /// Seconds until one more is allowed; 10.
    pub address_seconds: u64,
    /// Failures for one account over all addresses, from browsers that it has not signed in on before; 100.
    pub spread_burst: u32,
    /// Seconds until one more is allowed; 60.
    pub spread_seconds: u64,
}

impl Default for GuessingConfig {
    fn default() -> Self {
        Self { account_burst: 5, account_seconds: 30, address_burst: 30, address_seconds: 10, spread_burst: 100, spread_seconds: 60 }
    }
}

/// The bounds of user search.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Users on one page where the caller does not say; 50.
    pub page_size: usize,
    /// The most users on one page; 200.
    pub page_size_most: usize,
    /// The most users that one connector is asked for; 1,000.
    pub results_most: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { page_size: 50, page_size_most: 200, results_most: 1_000 }
    }
}
