//! The configuration of an `oidc` connector, checked: every fault at once, each with its place. Reads the files that it names, and
//! does no other I/O.

use std::collections::{BTreeMap, BTreeSet};

use url::Url;

use super::{
    client_key::ClientKey,
    config::{AudienceMatchPolicy, ClientAuthentication, IssuerConfig, OidcConfig, UserInfo},
    issuer::{Issuer, PLACEHOLDER},
    keys::Algorithm,
};
use crate::{
    Secret,
    faults::Faults,
    http::{Http, Roots},
};

/// What Denizen says itself in an authorization request, so that nobody else can.
const OWN_PARAMETERS: [&str; 13] = [
    "client_id",
    "redirect_uri",
    "response_type",
    "response_mode",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "request",
    "request_uri",
    "login_hint",
    "max_age",
];

/// A checked configuration.
pub(super) struct Plan {
    pub(super) issuer: Issuer,
    /// Where the discovery document is.
    pub(super) document: Url,
    pub(super) algorithms: Vec<Algorithm>,
    /// For whom a token must be to be taken in a review.
    pub(super) audiences: Vec<String>,
    pub(super) http: Http,
    pub(super) accept_tokens: bool,
    pub(super) client: Option<ClientPlan>,
}

/// What Denizen is at the provider.
#[derive(Debug)]
pub(super) struct ClientPlan {
    pub(super) id: String,
    pub(super) proof: ClientProof,
    /// `openid` and the others, once each.
    pub(super) scopes: Vec<String>,
    pub(super) extra_parameters: BTreeMap<String, String>,
    pub(super) user_info: UserInfo,
    pub(super) believed_seconds: u64,
}

/// How it proves that (OpenID Connect Core, 9).
#[derive(Debug)]
pub(super) enum ClientProof {
    Public,
    Basic(Secret),
    Post(Secret),
    Key(ClientKey),
}

impl Plan {
    pub(super) fn new(config: &OidcConfig) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Faults::default();
        let networks = faults.networks(&config.allowed_networks);
        let http = Http::new("oidc", roots(&config.issuer, &mut faults), networks);
        let document = document(&config.issuer, &http, &mut faults);
        let audiences = audiences(config, &mut faults);
        let algorithms = algorithms(&config.signing_algorithms, &mut faults);
        let client = client(config, &mut faults);
        if config.client_id.is_none() && !config.accept_tokens {
            faults.add(
                "clientId",
                "it is missing; without one there is no sign-in, and `acceptTokens` is off, so that the connector has no use",
            );
        }
        match document {
            Some(document) if faults.is_empty() => {
                let issuer = Issuer::new(&config.issuer.url, &config.issuer.allowed_tenant_ids);
                Ok(Self { issuer, document, algorithms, audiences, http, accept_tokens: config.accept_tokens, client })
            }
            _ => Err(faults.into_list()),
        }
    }
}

fn roots(issuer: &IssuerConfig, faults: &mut Faults) -> Roots {
    let (path, text) = match (&issuer.certificate_authority, &issuer.certificate_authority_file) {
        (None, None) => return Roots::Platform,
        (Some(_), Some(_)) => ("issuer.certificateAuthority", Err("give the authorities themselves or their file, not both".to_owned())),
        (Some(text), None) if text.is_empty() => return Roots::Platform,
        (Some(text), None) => ("issuer.certificateAuthority", Ok(text.clone())),
        (None, Some(file)) => {
            let read = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
            ("issuer.certificateAuthorityFile", read)
        }
    };
    faults.check(path, text.and_then(|text| Roots::of_pem(&text))).unwrap_or(Roots::Platform)
}

/// Checks both addresses, as Kubernetes does, and says where the discovery document is.
fn document(config: &IssuerConfig, http: &Http, faults: &mut Faults) -> Option<Url> {
    let ids = &config.allowed_tenant_ids;
    for (index, id) in ids.iter().enumerate() {
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) || id.starts_with('.') {
            faults.add(format!("issuer.allowedTenantIds[{index}]"), "it must be a tenant's id: letters, digits, `-`, `.` and `_`");
        }
    }
    let discovery = config.discovery_url.as_deref().filter(|text| !text.is_empty());
    match (config.url.matches(PLACEHOLDER).count(), ids.as_slice()) {
        (0, []) => {}
        (0, _) => faults.add("issuer.allowedTenantIds", format!("they are for an issuer with `{PLACEHOLDER}` in its `url` only")),
        (1, []) => faults.add("issuer.allowedTenantIds", format!("an issuer with `{PLACEHOLDER}` needs the ids that it may be")),
        (1, [_, _, ..]) if discovery.is_none() => {
            faults.add("issuer.discoveryURL", "an issuer of several tenants needs the address of the document that they share");
        }
        (1, _) => {}
        _ => faults.add("issuer.url", format!("it may have `{PLACEHOLDER}` once")),
    }
    // Any id will do for the form; the first is the one whose document is read where there is no other.
    let filled = config.url.replacen(PLACEHOLDER, ids.first().map_or("id", String::as_str), 1);
    let url = faults.check("issuer.url", address(&filled, http));
    if config.url.contains(PLACEHOLDER) && url.as_ref().is_some_and(|url| !in_path(&config.url, url)) {
        faults.add("issuer.url", format!("`{PLACEHOLDER}` may stand in its path only"));
    }
    match discovery {
        None => {
            let document = format!("{}/.well-known/openid-configuration", filled.trim_end_matches('/'));
            url.and_then(|_| faults.check("issuer.url", Url::parse(&document).map_err(|error| error.to_string())))
        }
        Some(text) => {
            if text.trim_end_matches('/') == config.url.trim_end_matches('/') {
                faults.add(
                    "issuer.discoveryURL",
                    "it must not be the issuer's `url` itself: leave it out, or give the document's whole address",
                );
            }
            let document = faults.check("issuer.discoveryURL", address(text, http));
            url.and(document)
        }
    }
}

/// Whether the placeholder stands behind scheme, host and port.
fn in_path(template: &str, url: &Url) -> bool {
    let origin = url.origin().ascii_serialization();
    template.get(..origin.len()).is_some_and(|start| start.eq_ignore_ascii_case(&origin)) && !origin.contains(PLACEHOLDER)
}

fn address(text: &str, http: &Http) -> Result<Url, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not have a user or a password".to_owned());
    }
    if url.query().is_some() {
        return Err("it must not have a query".to_owned());
    }
    if url.fragment().is_some() {
        return Err("it must not have a fragment".to_owned());
    }
    http.check(&url).map(|()| url)
}

fn audiences(config: &OidcConfig, faults: &mut Faults) -> Vec<String> {
    let given = &config.issuer.audiences;
    let mut seen = BTreeSet::new();
    for (index, audience) in given.iter().enumerate() {
        if audience.is_empty() {
            faults.add(format!("issuer.audiences[{index}]"), "it is empty");
        } else if !seen.insert(audience) {
            faults.add(format!("issuer.audiences[{index}]"), "it is there already");
        }
    }
    if given.len() > 1 && config.issuer.audience_match_policy != Some(AudienceMatchPolicy::MatchAny) {
        faults.add("issuer.audienceMatchPolicy", "more than one audience needs `MatchAny`");
    }
    match (given.as_slice(), &config.client_id) {
        ([], Some(client_id)) => vec![client_id.clone()],
        ([], None) => {
            if config.accept_tokens {
                faults.add(
                    "issuer.audiences",
                    "tokens are accepted, and nothing says for whom they must be: give audiences, or a `clientId`",
                );
            }
            Vec::new()
        }
        (given, _) => given.to_vec(),
    }
}

fn algorithms(names: &[String], faults: &mut Faults) -> Vec<Algorithm> {
    let mut algorithms = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match Algorithm::parse(name) {
            Some(algorithm) if algorithms.contains(&algorithm) => faults.add(format!("signingAlgorithms[{index}]"), "it is there already"),
            Some(algorithm) => algorithms.push(algorithm),
            None => {
                let known = Algorithm::ALL.map(Algorithm::name).join(", ");
                faults.add(format!("signingAlgorithms[{index}]"), format!("it must be one of {known}; shared secrets sign nothing here"));
            }
        }
    }
    if names.is_empty() {
        faults.add("signingAlgorithms", "at least one is needed");
    }
    algorithms
}

fn client(config: &OidcConfig, faults: &mut Faults) -> Option<ClientPlan> {
    if !(60..=31_622_400).contains(&config.believed_seconds) {
        faults.add("believedSeconds", "it must be from 60 (a minute) to 31622400 (a year)");
    }
    for name in config.extra_parameters.keys() {
        if name.is_empty() {
            faults.add("extraParameters", "a parameter has no name");
        } else if OWN_PARAMETERS.contains(&name.as_str()) {
            faults.add(format!("extraParameters.{name}"), "Denizen says this itself in each request");
        }
    }
    let mut scopes = vec!["openid".to_owned()];
    for (index, scope) in config.scopes.iter().enumerate() {
        // RFC 6749, 3.3.
        if scope.is_empty() || !scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e)) {
            faults.add(format!("scopes[{index}]"), "it must be one scope: visible characters without blanks, quotes and backslashes");
        } else if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    let Some(id) = config.client_id.clone() else {
        let needless = [
            ("clientSecret", config.client_secret.is_some()),
            ("clientSecretFile", config.client_secret_file.is_some()),
            ("privateKeyFile", config.private_key_file.is_some()),
            ("privateKeyId", config.private_key_id.is_some()),
            ("clientAuthentication", config.client_authentication.is_some()),
        ];
        for (path, _) in needless.into_iter().filter(|(_, given)| *given) {
            faults.add(path, "it belongs to a client, and there is no `clientId`");
        }
        return None;
    };
    if id.is_empty() || id.chars().any(char::is_control) {
        faults.add("clientId", "it is empty, or holds control characters");
    }
    Some(ClientPlan {
        id,
        proof: proof(config, faults)?,
        scopes,
        extra_parameters: config.extra_parameters.clone(),
        user_info: config.user_info,
        believed_seconds: config.believed_seconds,
    })
}

fn proof(config: &OidcConfig, faults: &mut Faults) -> Option<ClientProof> {
    let secret = Secret::read(config.client_secret.as_ref(), config.client_secret_file.as_deref());
    let secret_path = if config.client_secret.is_some() { "clientSecret" } else { "clientSecretFile" };
    let secret = faults.check(secret_path, secret)?;
    let key = match &config.private_key_file {
        Some(file) => Some(faults.check("privateKeyFile", ClientKey::read(file, config.private_key_id.clone()))?),
        None => None,
    };
    if key.is_none() && config.private_key_id.is_some() {
        faults.add("privateKeyId", "there is no `privateKeyFile` whose id it could be");
    }
    use ClientAuthentication as By;
    let mut wrong = |path: &str, message: &str| {
        faults.add(path, message);
        None
    };
    match (config.client_authentication, secret, key) {
        (_, Some(_), Some(_)) => wrong("privateKeyFile", "give a secret or a key, not both"),
        (None | Some(By::None), None, None) => Some(ClientProof::Public),
        (None | Some(By::ClientSecretBasic), Some(secret), None) => Some(ClientProof::Basic(secret)),
        (Some(By::ClientSecretPost), Some(secret), None) => Some(ClientProof::Post(secret)),
        (None | Some(By::PrivateKeyJwt), None, Some(key)) => Some(ClientProof::Key(key)),
        (Some(By::ClientSecretBasic | By::ClientSecretPost), None, _) => {
            wrong("clientAuthentication", "it needs `clientSecret` or `clientSecretFile`")
        }
        (Some(By::PrivateKeyJwt), _, None) => wrong("clientAuthentication", "it needs `privateKeyFile`"),
        (Some(By::None), ..) => wrong("clientAuthentication", "it is `none`, and there is a secret or a key"),
    }
}

#[cfg(test)]
mod tests;
