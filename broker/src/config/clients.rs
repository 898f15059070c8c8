//! The applications, and the reviewers: how an application looks, and what must be so of both.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use claims_mapping::{ConnectorId, TenantId};
use connectors::{ConfiguredSecret, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    ReviewerConfig, SigningAlgorithm,
    check::{is_loopback, readable},
    load::Parts,
    places::{Places, element, join},
    tenants::{display_name, reference, unknown},
};

/// What a client may ask the token endpoint for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// A person at a browser.
    AuthorizationCode,
    /// Renewal; with the scope `offline_access` also after the sign-out.
    RefreshToken,
    /// The client itself.
    ClientCredentials,
}

/// One application.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConfig {
    /// Its `client_id`.
    pub id: String,
    /// Its name on the sign-in page.
    #[serde(default)]
    pub display_name: Option<String>,
    /// The secret of a confidential client; a client without one is public.
    #[serde(default)]
    pub secret: Option<ConfiguredSecret>,
    /// The file of that secret.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Exact addresses to return to; only the port of a loopback address may differ (RFC 8252, 7.3).
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// What it may ask the token endpoint for.
    #[serde(default = "ClientConfig::default_grants")]
    pub grant_types: BTreeSet<GrantType>,
    /// The scopes that it may ask for.
    #[serde(default = "ClientConfig::default_scopes")]
    pub scopes: BTreeSet<String>,
    /// Scopes that it is granted with `openid`, whether it asks for them or not: for an application that reads claims which it does not ask for.
    #[serde(default)]
    pub implied_scopes: BTreeSet<String>,
    /// The audiences that it may ask for by `resource` (RFC 8707); the first is the default, its own id where there is none.
    /// `${issuer}` stands for the issuer.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// The tenants whose people may sign in to it; all where absent.
    #[serde(default)]
    pub tenants: Option<BTreeSet<TenantId>>,
    /// The connectors through which they may; all where absent.
    #[serde(default)]
    pub connectors: Option<BTreeSet<ConnectorId>>,
    /// The tenant that the client itself acts in (`client_credentials`).
    #[serde(default)]
    pub tenant: Option<TenantId>,
    /// A second name for the claim `tenant_id` in its tokens.
    #[serde(default)]
    pub tenant_claim: Option<String>,
    /// The signature of its tokens.
    #[serde(default)]
    pub signing_algorithm: SigningAlgorithm,
    /// Exact addresses to return to after a sign-out (OpenID Connect RP-Initiated Logout 1.0); no port may differ.
    #[serde(default)]
    pub post_logout_redirect_uris: Vec<String>,
    /// Where it is told of sign-outs (OpenID Connect Back-Channel Logout 1.0); https, or http on loopback. Retried for some 75 minutes.
    #[serde(default)]
    pub backchannel_logout_uri: Option<Url>,
    /// Origins whose scripts may call discovery, JWKS, token, userinfo and the API.
    #[serde(default)]
    pub origins: BTreeSet<String>,
}

impl ClientConfig {
    fn default_grants() -> BTreeSet<GrantType> {
        [GrantType::AuthorizationCode, GrantType::RefreshToken].into()
    }
    fn default_scopes() -> BTreeSet<String> {
        ["openid", "profile", "email", "groups", "roles"].into_iter().map(str::to_owned).collect()
    }
}

/// Claims that have a meaning of their own (the registry of RFC 7519, RFC 9068, OpenID Connect Core) or that Denizen writes.
const REGISTERED: [&str; 53] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "name",
    "given_name",
    "family_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "profile",
    "picture",
    "website",
    "email",
    "email_verified",
    "gender",
    "birthdate",
    "zoneinfo",
    "locale",
    "phone_number",
    "phone_number_verified",
    "address",
    "updated_at",
    "azp",
    "nonce",
    "auth_time",
    "at_hash",
    "c_hash",
    "s_hash",
    "acr",
    "amr",
    "sub_jwk",
    "cnf",
    "events",
    "act",
    "scope",
    "client_id",
    "may_act",
    "sid",
    "groups",
    "roles",
    "entitlements",
    "authorization_details",
    "active",
    "token_type",
    "username",
    "tenant_id",
    "connector",
    "via",
    "typ",
];

/// The ids that clients and reviewers can refer to.
struct Known<'p> {
    tenants: BTreeSet<&'p str>,
    connectors: BTreeSet<&'p str>,
}

/// Finds the faults of `clients` and `reviewers`.
pub(super) fn check(parts: &Parts, places: &mut Places) {
    let known = Known { tenants: parts.declared_tenants(places), connectors: parts.declared("connectors") };
    let mut ids: HashMap<&str, &str> = HashMap::new();
    for (path, client) in &parts.clients {
        name(&client.id, &join(path, "id"), places);
        if let Some(other) = ids.insert(&client.id, path) {
            places.fault(join(path, "id"), format!("the client {} has this id already", places.line_of(other)));
        }
        one_client(parts, &known, path, client, places);
    }
    let mut ids: HashMap<&str, &str> = HashMap::new();
    for (path, reviewer) in &parts.reviewers {
        name(&reviewer.id, &join(path, "id"), places);
        if let Some(other) = ids.insert(&reviewer.id, path) {
            places.fault(join(path, "id"), format!("the reviewer {} has this id already", places.line_of(other)));
        }
        one_reviewer(parts, &known, path, reviewer, places);
    }
    same_credentials(parts, places);
}

/// An id of a client or reviewer: visible ASCII (RFC 6749, appendix A.1), here without blanks.
fn name(id: &str, path: &str, places: &mut Places) {
    if id.is_empty() || id.len() > 255 || !id.bytes().all(|b| b.is_ascii_graphic()) {
        places.fault(path, "it must be 1 to 255 visible ASCII characters without blanks");
    }
}

fn one_client(parts: &Parts, known: &Known<'_>, path: &str, client: &ClientConfig, places: &mut Places) {
    display_name(client.display_name.as_deref(), &join(path, "displayName"), places);
    let has_secret = secret(client.secret.as_ref(), client.secret_file.as_deref(), path, ["secret", "secretFile"], places);
    let grants = &client.grant_types;
    let has = |grant| grants.contains(&grant);
    if grants.is_empty() {
        places.fault(join(path, "grantTypes"), "name at least one, or leave it out");
    }
    if has(GrantType::AuthorizationCode) && client.redirect_uris.is_empty() {
        places.fault(path, "`redirectUris` is missing: `authorization_code` needs an address to return to");
    }
    if has(GrantType::RefreshToken) && !has(GrantType::AuthorizationCode) {
        places.fault(join(path, "grantTypes"), "`refresh_token` renews what `authorization_code` gave; name that too");
    }
    if has(GrantType::ClientCredentials) {
        if !has_secret {
            places.fault(join(path, "grantTypes"), "`client_credentials` needs a `secret` or `secretFile`");
        }
        if client.tenant.is_none() && !places.has(&join(path, "tenant")) {
            places.fault(join(path, "grantTypes"), "`client_credentials` needs `tenant`, the tenant that the client acts in");
        }
    }
    for (index, uri) in client.redirect_uris.iter().enumerate() {
        if let Some(message) = redirect_uri(uri) {
            places.fault(format!("{path}.redirectUris[{index}]"), message);
        }
    }
    for (index, uri) in client.post_logout_redirect_uris.iter().enumerate() {
        if let Some(message) = redirect_uri(uri) {
            places.fault(format!("{path}.postLogoutRedirectUris[{index}]"), message);
        }
    }
    if let Some(message) = client.backchannel_logout_uri.as_ref().and_then(backchannel_logout_uri) {
        places.fault(join(path, "backchannelLogoutUri"), message);
    }
    for scope in client.scopes.iter().filter(|scope| !is_scope(scope)) {
        places.fault(element(&parts.root, &join(path, "scopes"), scope), "a scope is visible ASCII without blanks, `\"` and `\\`");
    }
    for scope in &client.implied_scopes {
        let here = element(&parts.root, &join(path, "impliedScopes"), scope);
        if !is_scope(scope) {
            places.fault(here, "a scope is visible ASCII without blanks, `\"` and `\\`");
        } else if ["openid", "offline_access"].contains(&scope.as_str()) {
            places.fault(here, "an application asks for this one itself, or goes without");
        }
    }
    if !client.implied_scopes.is_empty() && !has(GrantType::AuthorizationCode) {
        places.fault(join(path, "impliedScopes"), "they speak of a person: `authorization_code` must be among the `grantTypes`");
    }
    for (index, audience) in client.audiences.iter().enumerate() {
        audience_name(audience, &format!("{path}.audiences[{index}]"), places);
    }
    let Known { tenants, connectors } = known;
    client.tenants.iter().flatten().for_each(|id| reference(parts, &join(path, "tenants"), id.as_str(), "tenant", tenants, places));
    client
        .connectors
        .iter()
        .flatten()
        .for_each(|id| reference(parts, &join(path, "connectors"), id.as_str(), "connector", connectors, places));
    if let Some(id) = client.tenant.as_ref().filter(|id| !tenants.contains(id.as_str())) {
        places.fault(join(path, "tenant"), unknown("tenant", id.as_str(), tenants));
    }
    if let Some(claim) = &client.tenant_claim {
        if REGISTERED.contains(&claim.as_str()) {
            places.fault(join(path, "tenantClaim"), "the claim of this name has another meaning; choose another name");
        } else if claim.is_empty() || claim.len() > 255 || !claim.bytes().all(|b| b.is_ascii_graphic()) {
            places.fault(join(path, "tenantClaim"), "it must be 1 to 255 visible ASCII characters without blanks");
        }
    }
    if !parts.keys.algorithms.contains(&client.signing_algorithm) && !places.is_faulty("keys") {
        places.fault(join(path, "signingAlgorithm"), "it must be one of `keys.algorithms`");
    }
    for origin in client.origins.iter().filter(|origin| !is_origin(origin)) {
        let here = element(&parts.root, &join(path, "origins"), origin);
        places.fault(here, "an origin is the scheme, host and port only, as `https://app.example`; https, or http on loopback");
    }
}

/// Whether there is a secret, right or wrong.
fn secret(value: Option<&ConfiguredSecret>, file: Option<&Path>, path: &str, [key, file_key]: [&str; 2], places: &mut Places) -> bool {
    match (value, file) {
        (Some(_), Some(_)) => places.fault(join(path, file_key), format!("give either `{key}` or `{file_key}`")),
        (Some(_), None) if Secret::read(value, None).is_err() => places.fault(join(path, key), "the secret is empty"),
        (None, Some(file)) => {
            let text = readable(file, &join(path, file_key), places);
            if text.is_some_and(|text| text.trim_end_matches(['\r', '\n']).is_empty()) {
                places.fault(join(path, file_key), "the file is empty");
            }
        }
        _ => {}
    }
    [key, file_key].iter().any(|key| places.has(&join(path, key)))
}

/// Why an address can not be one to return to (RFC 6749, 3.1.2; RFC 8252, 7).
fn redirect_uri(uri: &str) -> Option<&'static str> {
    let Ok(url) = Url::parse(uri) else { return Some("it must be a whole address, as `https://app.example/callback`") };
    if uri.contains('*') {
        return Some("it is compared as it stands, so that `*` matches nothing; list each address");
    }
    if uri.contains('#') {
        return Some("it must not have a fragment");
    }
    if !uri.bytes().all(|b| b.is_ascii_graphic()) || uri.contains('\\') {
        return Some("it must be visible ASCII without blanks and `\\`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("it must not have a user or password");
    }
    match url.scheme() {
        "https" if url.has_host() => None,
        "http" if is_loopback(&url) => None,
        "http" => Some("plain http is for loopback addresses; use https"),
        scheme if scheme.contains('.') => None,
        _ => Some("the scheme must be https, http on loopback, or a private one with a dot in it, as `com.example.app` (RFC 8252, 7.1)"),
    }
}

/// Why logout tokens can not be sent there (OpenID Connect Back-Channel Logout 1.0, 2.2).
fn backchannel_logout_uri(url: &Url) -> Option<&'static str> {
    match url.scheme() {
        _ if url.fragment().is_some() => Some("it must not have a fragment"),
        _ if !url.username().is_empty() || url.password().is_some() => Some("it must not have a user or password"),
        "https" => None,
        "http" if is_loopback(url) => None,
        "http" => Some("plain http is for loopback addresses; use https"),
        _ => Some("the scheme must be https, or http on loopback"),
    }
}

/// RFC 6749, 3.3.
fn is_scope(scope: &str) -> bool {
    !scope.is_empty() && scope.len() <= 255 && scope.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
}

fn is_origin(origin: &str) -> bool {
    Url::parse(origin).is_ok_and(|url| {
        (url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url)) && url.origin().ascii_serialization() == origin
    })
}

fn audience_name(audience: &str, path: &str, places: &mut Places) {
    if audience.is_empty() || audience.len() > 2_048 || !audience.bytes().all(|b| b.is_ascii_graphic()) {
        places.fault(path, "an audience is visible ASCII without blanks");
    }
}

fn one_reviewer(parts: &Parts, known: &Known<'_>, path: &str, reviewer: &ReviewerConfig, places: &mut Places) {
    let keys = ["bearerToken", "bearerTokenFile"];
    let has_token = secret(reviewer.bearer_token.as_ref(), reviewer.bearer_token_file.as_deref(), path, keys, places);
    let has_credential = has_token || ["certificateName", "client"].iter().any(|key| places.has(&join(path, key)));
    if reviewer.audiences.is_empty() {
        places.fault(join(path, "audiences"), "name at least one audience that the reviewer stands for");
    }
    for audience in &reviewer.audiences {
        audience_name(audience, &element(&parts.root, &join(path, "audiences"), audience), places);
    }
    let listen = &parts.listen;
    if !has_credential && (!listen.address.ip().is_loopback() || listen.behind_proxy || !listen.trusted_proxies.is_empty()) {
        places.fault(
            path,
            "a reviewer without a credential is for a loopback `listen.address` without a proxy; give `bearerToken`, `bearerTokenFile`, `certificateName` or `client`",
        );
    }
    if let Some(name) = &reviewer.certificate_name {
        let here = join(path, "certificateName");
        if name.trim().is_empty() {
            places.fault(&here, "it is blank");
        }
        if !places.has("listen.tls.clientCaFile") {
            places.fault(here, "it needs `listen.tls.clientCaFile`, the authority that such certificates are from");
        }
    }
    if let Some(id) = &reviewer.client {
        let here = join(path, "client");
        if !parts.declared("clients").contains(id.as_str()) {
            places.fault(here, "no client has this id");
        } else if let Some((_, client)) = parts.clients.iter().find(|(_, client)| client.id == *id) {
            if !client.grant_types.contains(&GrantType::ClientCredentials) {
                places.fault(&here, "the client has no `client_credentials` among its `grantTypes`");
            }
            let wanted = parts.issuer.as_ref().map(|issuer| format!("{}/review", issuer.as_str().trim_end_matches('/')));
            if wanted.is_some_and(|wanted| !client.audiences.contains(&wanted)) {
                places.fault(here, "the client needs the audience `${issuer}/review` among its `audiences`");
            }
        }
    }
    let Known { tenants, connectors } = known;
    reviewer.tenants.iter().flatten().for_each(|id| reference(parts, &join(path, "tenants"), id.as_str(), "tenant", tenants, places));
    let listed = reviewer.connectors.iter().flatten();
    listed.for_each(|id| reference(parts, &join(path, "connectors"), id.as_str(), "connector", connectors, places));
}

/// A credential that two reviewers share would always mean the first.
fn same_credentials(parts: &Parts, places: &mut Places) {
    let mut before: Vec<&(String, ReviewerConfig)> = Vec::new();
    for entry in &parts.reviewers {
        let (path, reviewer) = entry;
        let has_none = |path: &str| {
            let keys = ["bearerToken", "bearerTokenFile", "certificateName", "client"];
            !keys.iter().any(|key| places.has(&join(path, key)))
        };
        let mut shared = BTreeSet::new();
        for (other, earlier) in before.iter().map(|(path, reviewer)| (path, reviewer)) {
            let pairs = [
                ("bearerToken", reviewer.bearer_token.is_some() && reviewer.bearer_token == earlier.bearer_token),
                ("bearerTokenFile", reviewer.bearer_token_file.is_some() && reviewer.bearer_token_file == earlier.bearer_token_file),
                ("certificateName", reviewer.certificate_name.is_some() && reviewer.certificate_name == earlier.certificate_name),
                ("client", reviewer.client.is_some() && reviewer.client == earlier.client),
                ("", has_none(path) && has_none(other)),
            ];
            shared.extend(pairs.into_iter().filter(|(_, same)| *same).map(|(key, _)| (key, places.line_of(other))));
        }
        for (key, line) in shared {
            if key.is_empty() {
                places.fault(path, format!("the reviewer {line} has no credential either; only one can be without"));
            } else {
                places.fault(join(path, key), format!("the reviewer {line} has the same; each needs its own"));
            }
        }
        before.push(entry);
    }
}
