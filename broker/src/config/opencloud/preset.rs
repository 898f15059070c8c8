//! The preset `opencloud`: the four clients of an OpenCloud, made from its address, and what must be so for them.
//!
//! What a client may be otherwise, `config/clients.rs` checks; these are right by construction, and have what no client that is
//! written down may have: addresses with the scheme `oc`, which two of the apps are registered for.

use std::collections::BTreeSet;

use claims_mapping::OperatedBy;
use url::Url;

use super::{OpencloudConfig, Preset};
use crate::config::{
    ClientConfig, ConnectorConfig, GrantType, SigningAlgorithm,
    check::is_loopback,
    load::Parts,
    places::{Places, element, join},
};

/// The roles that OpenCloud knows, the mightiest first.
const ROLES: [&str; 4] = ["opencloudAdmin", "opencloudSpaceAdmin", "opencloudUser", "opencloudGuest"];
/// Those of them that reach beyond a tenant: all settings, all project spaces.
const ROLES_OVER_THE_INSTANCE: [&str; 2] = ["opencloudAdmin", "opencloudSpaceAdmin"];

/// What each of the four is: its id, its name, and where it may return to.
enum Kind {
    Web,
    /// On whichever port of loopback is free (RFC 8252, 7.3).
    Desktop,
    /// At an address of its own app.
    App(&'static str),
}

const CLIENTS: [(&str, &str, Kind); 4] = [
    ("web", "OpenCloud", Kind::Web),
    ("OpenCloudDesktop", "OpenCloud on the desktop", Kind::Desktop),
    ("OpenCloudAndroid", "OpenCloud for Android", Kind::App("oc://android.opencloud.eu")),
    ("OpenCloudIOS", "OpenCloud for iOS", Kind::App("oc://ios.opencloud.eu")),
];

/// Finds the faults of `presets` and `opencloud`, and gives the clients that they bring.
pub(in crate::config) fn check(parts: &Parts, places: &mut Places) -> Vec<ClientConfig> {
    if !parts.presets.contains(&Preset::Opencloud) {
        if places.has("opencloud") && !places.is_faulty("presets") {
            places.warning(
                "opencloud",
                "it says where OpenCloud is, and no client is made of it: add `presets: [opencloud]`, or leave it out",
            );
        }
        return Vec::new();
    }
    let here = element(&parts.root, "presets", "opencloud");
    for (path, _) in parts.clients.iter().filter(|(_, client)| CLIENTS.iter().any(|(id, ..)| *id == client.id)) {
        let message = format!("the preset `opencloud` ({}) brings a client with this id; give yours another", places.line_of(&here));
        places.fault(join(path, "id"), message);
    }
    for (path, connector) in parts.connectors.iter().filter(|(_, connector)| !connector.disabled) {
        roles(parts, path, connector, places);
    }
    let algorithms = &parts.keys.algorithms;
    let algorithm = algorithms.iter().copied().find(|algorithm| *algorithm != SigningAlgorithm::EdDsa);
    if algorithm.is_none() && !places.is_faulty("keys") {
        places.fault(&here, "OpenCloud takes no EdDSA signature of a logout token: add `ES256` or `RS256` to `keys.algorithms`");
    }
    let Some(opencloud) = &parts.opencloud else {
        if !places.is_faulty("opencloud") {
            places.fault(here, "it needs `opencloud: { url: … }`, the address of OpenCloud as browsers see it (its `OC_URL`)");
        }
        return Vec::new();
    };
    if let Some(message) = fault_of(&opencloud.url) {
        places.fault("opencloud.url", message);
        return Vec::new();
    }
    let origin = opencloud.url.origin().ascii_serialization();
    for (path, _) in parts.reviewers.iter().filter(|(_, reviewer)| reviewer.audiences.contains(&origin)) {
        let only = "it is OpenCloud's, and whoever has a token of OpenCloud's would be let in; give the reviewer an audience of its own";
        places.fault(element(&parts.root, &join(path, "audiences"), &origin), only);
    }
    algorithm.map(|algorithm| clients(opencloud, algorithm)).unwrap_or_default()
}

/// Why OpenCloud can not be there.
fn fault_of(url: &Url) -> Option<&'static str> {
    if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(url)) {
        Some("it must be https; plain http is for loopback addresses")
    } else if url.host().is_none() || !url.username().is_empty() || url.password().is_some() {
        Some("it must have a host, and neither user nor password")
    } else if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        Some("it must end after the host and its port: OpenCloud lives below no path")
    } else {
        None
    }
}

/// Whoever has none of OpenCloud's roles is answered 500 there, so that it is said here whose people that would be; and who may
/// hand out those that reach beyond a tenant.
fn roles(parts: &Parts, path: &str, connector: &ConnectorConfig, places: &mut Places) {
    let list = join(path, "roles");
    if connector.operated_by == OperatedBy::Tenant {
        for role in ROLES_OVER_THE_INSTANCE.into_iter().filter(|role| connector.roles.contains(*role)) {
            let only = "the role reaches over all tenants of OpenCloud, and only a connector with `operatedBy: operator` may give it";
            places.fault(element(&parts.root, &list, role), only);
        }
    }
    // Whoever is joined to a directory has the directory's roles.
    if connector.directory.is_some() {
        return;
    }
    let default = "`claimMappings: { roles: { expression: '[\"opencloudUser\"]' } }` gives it to everyone";
    let answers = "OpenCloud answers 500 to whoever has none of its roles";
    if !ROLES.iter().any(|role| connector.roles.contains(*role)) {
        let message = format!("{answers}, and no one of this connector can have one: `roles: [opencloudUser]` allows it, and {default}");
        places.warning(list, message);
        return;
    }
    let (own, by_type) = (&connector.mapping.claim_mappings.roles, connector.upstream.default_mapping().claim_mappings.roles);
    if [own, &by_type].iter().all(|rule| rule.claim.is_empty() && rule.expression.is_empty()) {
        places.warning(join(path, "claimMappings.roles"), format!("{answers}, and nothing here gives one: {default}"));
    }
}

/// The four clients, all public: PKCE protects them. OpenCloud asks for `openid profile email` and reads `roles` as well.
fn clients(opencloud: &OpencloudConfig, algorithm: SigningAlgorithm) -> Vec<ClientConfig> {
    let origin = opencloud.url.origin().ascii_serialization();
    let at = |path: &str| format!("{origin}{path}");
    let set = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>();
    let person = ["openid", "profile", "email"];
    let offline = ["openid", "profile", "email", "offline_access"];
    let client = |(id, name, kind): (&str, &str, Kind)| {
        let base = ClientConfig {
            id: id.to_owned(),
            display_name: Some(name.to_owned()),
            secret: None,
            secret_file: None,
            redirect_uris: Vec::new(),
            grant_types: [GrantType::AuthorizationCode, GrantType::RefreshToken].into(),
            scopes: set(&offline),
            implied_scopes: set(&["roles"]),
            audiences: vec![origin.clone()],
            tenants: None,
            connectors: None,
            tenant: None,
            tenant_claim: None,
            signing_algorithm: algorithm,
            post_logout_redirect_uris: Vec::new(),
            backchannel_logout_uri: None,
            origins: BTreeSet::new(),
        };
        match kind {
            Kind::Web => ClientConfig {
                redirect_uris: ["/", "/oidc-callback.html", "/oidc-silent-redirect.html"].map(at).into(),
                scopes: set(&person),
                post_logout_redirect_uris: vec![at("/")],
                backchannel_logout_uri: Url::parse(&at("/backchannel_logout")).ok(),
                origins: [origin.clone()].into(),
                ..base
            },
            Kind::Desktop => {
                let hosts = ["http://127.0.0.1", "http://127.0.0.1/", "http://localhost", "http://localhost/"];
                ClientConfig { redirect_uris: hosts.map(str::to_owned).into(), ..base }
            }
            Kind::App(address) => {
                ClientConfig { redirect_uris: vec![address.to_owned()], post_logout_redirect_uris: vec![address.to_owned()], ..base }
            }
        }
    };
    CLIENTS.map(client).into()
}

#[cfg(test)]
mod tests;
