//! The applications: who they are, and what they may ask for.

use std::collections::{BTreeSet, HashMap};

use claims_mapping::{ConnectorId, TenantId};
use connectors::Secret;
use subtle::ConstantTimeEq as _;
use url::{Host, Url};

use super::GrantError;
use crate::{
    config::{ClientConfig, GrantType, SigningAlgorithm},
    login::Limits,
    secret_text::fingerprint,
};

/// How a client says who it is.
pub struct Authentication {
    /// Its `client_id`.
    pub id: String,
    /// Its secret, by `client_secret_basic` or `client_secret_post`.
    pub secret: Option<Secret>,
}

impl std::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authentication").field("secret", &self.secret).finish_non_exhaustive()
    }
}

/// A client did not prove who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Unknown, wrong secret, no secret where one is needed, or one where none is registered: one answer for all.
    #[error("client authentication failed")]
    Unauthenticated,
}

/// One application.
#[derive(Clone)]
pub struct Client {
    /// Its `client_id`.
    pub id: String,
    /// Its name for people.
    pub display_name: String,
    /// The fingerprint of its secret; `None` for a public client.
    secret: Option<String>,
    redirect_uris: Vec<String>,
    post_logout_redirect_uris: Vec<String>,
    /// Where it is told of sign-outs.
    pub backchannel_logout_uri: Option<Url>,
    grant_types: BTreeSet<GrantType>,
    /// The scopes that it may ask for.
    pub scopes: BTreeSet<String>,
    implied_scopes: BTreeSet<String>,
    /// Origins whose scripts may call the doors for scripts, and whose pages may frame an answer to `prompt=none`.
    pub origins: BTreeSet<String>,
    /// The audiences that it may ask for; the first is the default.
    pub audiences: Vec<String>,
    tenants: Option<BTreeSet<TenantId>>,
    connectors: Option<BTreeSet<ConnectorId>>,
    /// The tenant that the client itself acts in.
    pub tenant: Option<TenantId>,
    /// A second name for the claim `tenant_id`.
    pub tenant_claim: Option<String>,
    /// The signature of its tokens.
    pub algorithm: SigningAlgorithm,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Client {
    /// A client as it is configured, its secret read.
    ///
    /// # Errors
    /// When the secret can not be read.
    pub fn new(config: &ClientConfig) -> Result<Self, String> {
        let secret = Secret::read(config.secret.as_ref(), config.secret_file.as_deref())?;
        let audiences = if config.audiences.is_empty() { vec![config.id.clone()] } else { config.audiences.clone() };
        Ok(Self {
            id: config.id.clone(),
            display_name: config.display_name.clone().unwrap_or_else(|| config.id.clone()),
            secret: secret.map(|secret| fingerprint(secret.expose())),
            redirect_uris: config.redirect_uris.clone(),
            post_logout_redirect_uris: config.post_logout_redirect_uris.clone(),
            backchannel_logout_uri: config.backchannel_logout_uri.clone(),
            grant_types: config.grant_types.clone(),
            scopes: config.scopes.clone(),
            implied_scopes: config.implied_scopes.clone(),
            origins: config.origins.clone(),
            audiences,
            tenants: config.tenants.clone(),
            connectors: config.connectors.clone(),
            tenant: config.tenant.clone(),
            tenant_claim: config.tenant_claim.clone(),
            algorithm: config.signing_algorithm,
        })
    }

    /// Whether it has no secret.
    #[must_use]
    pub const fn is_public(&self) -> bool {
        self.secret.is_none()
    }

    /// Whether it may use this grant type.
    #[must_use]
    pub fn may(&self, grant: GrantType) -> bool {
        self.grant_types.contains(&grant)
    }

    /// Whether people of this tenant may sign in to it.
    #[must_use]
    pub fn takes_tenant(&self, tenant: &TenantId) -> bool {
        self.tenants.as_ref().is_none_or(|list| list.contains(tenant))
    }

    /// The one tenant whose people may, where it is one only.
    #[must_use]
    pub fn only_tenant(&self) -> Option<&TenantId> {
        self.tenants.as_ref().filter(|list| list.len() == 1)?.first()
    }

    /// Whether they may do so through this connector.
    #[must_use]
    pub fn takes_connector(&self, connector: &ConnectorId) -> bool {
        self.connectors.as_ref().is_none_or(|list| list.contains(connector))
    }

    /// How far it limits who signs in to it, and how.
    #[must_use]
    pub const fn limits(&self) -> Limits<'_> {
        Limits { tenants: self.tenants.as_ref(), connectors: self.connectors.as_ref() }
    }

    /// Whether an answer may go there: byte for byte a registered address (RFC 9700, 2.1); of a loopback address the port may
    /// differ, and nothing else (RFC 8252, 7.3).
    #[must_use]
    pub fn redirects_to(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|registered| registered == uri || differ_in_loopback_port(registered, uri))
    }

    /// Whether a browser may go there after a sign-out: byte for byte a registered address (RP-Initiated Logout 1.0, 3.1). No port
    /// may differ: an application that listens on whichever port is free has no need to be returned to.
    #[must_use]
    pub fn returns_after_sign_out_to(&self, uri: &str) -> bool {
        self.post_logout_redirect_uris.iter().any(|registered| registered == uri)
    }

    /// Whether it may have this scope, asked for or not.
    #[must_use]
    pub fn may_have(&self, scope: &str) -> bool {
        self.scopes.contains(scope) || self.implied_scopes.contains(scope)
    }

    /// These scopes, and with `openid` among them those that go with it for this client.
    #[must_use]
    pub fn with_implied(&self, mut scopes: Vec<String>) -> Vec<String> {
        if scopes.iter().any(|scope| scope == "openid") {
            let implied: Vec<_> = self.implied_scopes.iter().filter(|scope| !scopes.contains(scope)).cloned().collect();
            scopes.extend(implied);
        }
        scopes
    }

    /// The scopes of a request: what was asked for, where the client may have it all.
    ///
    /// # Errors
    /// `invalid_scope` where it may not.
    pub fn scopes_of(&self, asked: &str) -> Result<Vec<String>, GrantError> {
        let mut scopes = Vec::new();
        for scope in asked.split(' ').filter(|s| !s.is_empty()) {
            if !self.may_have(scope) {
                return Err(GrantError::InvalidScope("a scope is unknown, or the client is not registered for it"));
            }
            if !scopes.iter().any(|s| s == scope) {
                scopes.push(scope.to_owned());
            }
        }
        Ok(scopes)
    }

    /// The audiences of a request (RFC 8707): those of `resource`, where the client may have them all; else its first one.
    ///
    /// # Errors
    /// `invalid_target` where it may not.
    pub fn audiences_of(&self, resources: &[String]) -> Result<Vec<String>, GrantError> {
        if resources.is_empty() {
            return Ok(self.audiences.first().cloned().into_iter().collect());
        }
        let mut audiences = Vec::new();
        for resource in resources {
            if !self.audiences.contains(resource) {
                return Err(GrantError::InvalidTarget("a resource is unknown, or the client is not registered for it"));
            }
            if !audiences.contains(resource) {
                audiences.push(resource.clone());
            }
        }
        Ok(audiences)
    }
}

/// `http`, a loopback literal or `localhost` on both sides, and equal in everything but the port. The two are compared as
/// text, with the port cut out of each, so that no parser's repair of a path, `@` or escape makes them equal.
fn differ_in_loopback_port(registered: &str, uri: &str) -> bool {
    let is_loopback = |text: &str| {
        Url::parse(text).is_ok_and(|url| {
            url.scheme() == "http"
                && match url.host() {
                    Some(Host::Ipv4(ip)) => ip.is_loopback(),
                    Some(Host::Ipv6(ip)) => ip.is_loopback(),
                    Some(Host::Domain(name)) => name == "localhost",
                    None => false,
                }
        })
    };
    let without_port = |text: &str| {
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => authority,
        };
        Some((host.to_owned(), path.to_owned()))
    };
    is_loopback(registered) && is_loopback(uri) && without_port(registered).is_some_and(|r| Some(r) == without_port(uri))
}

/// The applications, by `client_id`.
#[derive(Debug)]
pub struct Clients(HashMap<String, Client>);

impl Clients {
    /// These.
    #[must_use]
    pub fn new(clients: Vec<Client>) -> Self {
        Self(clients.into_iter().map(|c| (c.id.clone(), c)).collect())
    }

    /// One by its id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Client> {
        self.0.get(id)
    }

    /// The client that proves who it is. A public one does so by naming itself: PKCE and the redirect URI protect it.
    ///
    /// # Errors
    /// One error, whatever is wrong.
    pub fn authenticate(&self, authentication: &Authentication) -> Result<&Client, ClientError> {
        let client = self.get(&authentication.id).ok_or(ClientError::Unauthenticated)?;
        let right = match (&client.secret, &authentication.secret) {
            (None, None) => true,
            (Some(kept), Some(sent)) => kept.as_bytes().ct_eq(fingerprint(sent.expose()).as_bytes()).into(),
            _ => false,
        };
        if right { Ok(client) } else { Err(ClientError::Unauthenticated) }
    }
}

#[cfg(test)]
mod tests {
    use super::differ_in_loopback_port as same;

    #[test]
    fn t33_only_the_port_of_a_loopback_address_may_differ() {
        assert!(same("http://127.0.0.1/cb", "http://127.0.0.1:4711/cb"));
        assert!(same("http://[::1]/cb", "http://[::1]:4711/cb"));
        assert!(same("http://localhost:1/cb", "http://localhost:2/cb"));
        assert!(same("http://localhost", "http://localhost:2") && same("http://127.0.0.1/", "http://127.0.0.1:2/"));
        for evil in
            ["http://localhost:2/", "http://localhost:2?x", "http://localhost:2#x", "http://localhost:2x", "http://localhost:@evil.example"]
        {
            assert!(!same("http://localhost", evil), "{evil}");
        }
        for evil in [
            "http://127.0.0.1:4711/cb/",
            "http://127.0.0.1:4711/CB",
            "http://127.0.0.1:4711/cb?x=1",
            "http://127.0.0.1:4711/cb#f",
            "http://127.0.0.1:4711/x/../cb",
            "http://127.0.0.1:4711/%63b",
            "http://127.0.0.1@evil.example/cb",
            "http://127.0.0.1:80@evil.example/cb",
            "http://localhost:4711/cb",
            "https://127.0.0.1:4711/cb",
            "http://127.0.0.1.evil.example/cb",
            "http://2130706433:4711/cb",
            "http://127.0.0.1:4711\\@evil.example/cb",
        ] {
            assert!(!same("http://127.0.0.1/cb", evil), "{evil}");
        }
        assert!(!same("http://app.example/cb", "http://app.example:81/cb"));
    }
}
