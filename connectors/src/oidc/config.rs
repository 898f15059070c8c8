//! How the configuration of an `oidc` connector looks.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ConfiguredSecret;

/// A provider, and what Denizen is there.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcConfig {
    /// The provider: the `issuer` of a `jwt` entry of Kubernetes' AuthenticationConfiguration.
    pub issuer: IssuerConfig,
    /// Denizen's client id at the provider. Without one there is no sign-in through it, and its tokens alone are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret of that client; a client without secret and key is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<ConfiguredSecret>,
    /// The file of that secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_file: Option<PathBuf>,
    /// The private key (PEM, PKCS#8: P-256 or RSA) that signs for that client (`private_key_jwt`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key_file: Option<PathBuf>,
    /// The `kid` by which the provider knows that key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key_id: Option<String>,
    /// How the client proves who it is; `private_key_jwt` where there is a key, else `client_secret_basic`, else `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_authentication: Option<ClientAuthentication>,
    /// The scopes to ask for besides `openid`; `profile` and `email`. Add `offline_access` where the provider wants it for
    /// a refresh token.
    #[serde(default = "OidcConfig::default_scopes")]
    pub scopes: Vec<String>,
    /// More parameters of the authorization request: `acr_values`, `domain_hint`, `prompt`. Those that Denizen sends itself
    /// can not be given.
    #[serde(default)]
    pub extra_parameters: BTreeMap<String, String>,
    /// The signatures that are taken (RFC 7518): RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA; RS256.
    #[serde(default = "OidcConfig::default_algorithms")]
    pub signing_algorithms: Vec<String>,
    /// Whether the provider's userinfo is asked at a sign-in.
    #[serde(default)]
    pub user_info: UserInfo,
    /// Whether the provider's own tokens are taken in token reviews, by the reviewers whose `upstreamTokens` name this connector.
    #[serde(default)]
    pub accept_tokens: bool,
    /// Networks that are not public, and in which the provider may be all the same: `10.0.0.0/8`, `127.0.0.1`.
    #[serde(default)]
    pub allowed_networks: Vec<String>,
    /// Seconds for which a sign-in is believed where the provider gave no refresh token to ask again with; 43,200 (12 hours). So long, at
    /// most, someone stays in whom the provider has disabled since. Then their session ends, and every token that was issued in it.
    #[serde(default = "OidcConfig::default_believed")]
    pub believed_seconds: u64,
}

impl OidcConfig {
    fn default_scopes() -> Vec<String> {
        ["profile", "email"].map(str::to_owned).to_vec()
    }
    fn default_algorithms() -> Vec<String> {
        vec!["RS256".to_owned()]
    }
    const fn default_believed() -> u64 {
        43_200
    }
}

/// The `issuer` of a `jwt` entry of `apiserver.config.k8s.io/v1` AuthenticationConfiguration, and what a broker needs besides.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IssuerConfig {
    /// The provider's `iss`, byte for byte; https (plain http for loopback addresses only). `{tenantid}` in it stands for the token's own claim
    /// `tid`, which must be one of `allowedTenantIds`.
    pub url: String,
    /// Where its discovery document is, if not at `<url>/.well-known/openid-configuration`.
    #[serde(default, rename = "discoveryURL", skip_serializing_if = "Option::is_none")]
    pub discovery_url: Option<String>,
    /// The authorities (PEM, here) that TLS trusts; those of the platform where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
    /// The file of those authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_file: Option<PathBuf>,
    /// The audiences of tokens that are taken in reviews; `clientId` where absent.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// `MatchAny`, which more than one audience needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience_match_policy: Option<AudienceMatchPolicy>,
    /// What `{tenantid}` may be.
    #[serde(default)]
    pub allowed_tenant_ids: Vec<String>,
}

/// Which audiences a token must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AudienceMatchPolicy {
    /// One of them is enough.
    MatchAny,
}

/// How a client proves who it is (OpenID Connect Core, 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// HTTP Basic.
    ClientSecretBasic,
    /// In the form.
    ClientSecretPost,
    /// By a signature.
    PrivateKeyJwt,
    /// Not at all: PKCE protects the code.
    None,
}

/// When the provider's userinfo is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UserInfo {
    /// Where the mapping names a claim that the ID token does not have.
    #[default]
    WhenNeeded,
    /// At each sign-in and renewal.
    Always,
    /// Never.
    Never,
}
