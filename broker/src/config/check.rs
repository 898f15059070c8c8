//! What a shape can not say of the issuer, the listeners, and the numbers.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::Path,
};

use url::{Host, Url};

use super::{
    load::Parts,
    places::{Places, join},
};

const DAY: u64 = 86_400;

/// Finds the faults of the sections that stand for themselves.
pub(super) fn check(parts: &Parts, places: &mut Places) {
    issuer(parts, places);
    listen(parts, places);
    super::store::check(parts, places);
    let Parts { lifetimes, keys, guessing, search, refusals, .. } = parts;
    let bounds: [(&str, u64, RangeInclusive<u64>); 18] = [
        ("lifetimes.attemptSeconds", lifetimes.attempt_seconds, 60..=DAY),
        ("lifetimes.codeSeconds", lifetimes.code_seconds, 1..=600),
        ("lifetimes.accessTokenSeconds", lifetimes.access_token_seconds, 1..=DAY),
        ("lifetimes.idTokenSeconds", lifetimes.id_token_seconds, 1..=DAY),
        ("lifetimes.refreshTokenSeconds", lifetimes.refresh_token_seconds, 1..=366 * DAY),
        ("lifetimes.sessionSeconds", lifetimes.session_seconds, 1..=366 * DAY),
        ("lifetimes.signedInPeopleSeconds", lifetimes.signed_in_people_seconds, 60..=3_660 * DAY),
        ("keys.rotationSeconds", keys.rotation_seconds, 60..=3_660 * DAY),
        ("keys.overlapSeconds", keys.overlap_seconds, 1..=366 * DAY),
        ("guessing.accountBurst", guessing.account_burst.into(), 1..=1_000_000),
        ("guessing.accountSeconds", guessing.account_seconds, 1..=DAY),
        ("guessing.addressBurst", guessing.address_burst.into(), 1..=1_000_000),
        ("guessing.addressSeconds", guessing.address_seconds, 1..=DAY),
        ("guessing.spreadBurst", guessing.spread_burst.into(), 1..=1_000_000),
        ("guessing.spreadSeconds", guessing.spread_seconds, 1..=DAY),
        ("refusals.keptSeconds", refusals.kept_seconds, 60..=31 * DAY),
        ("search.pageSizeMost", search.page_size_most as u64, 1..=1_000),
        ("search.resultsMost", search.results_most as u64, 1..=100_000),
    ];
    for (path, value, range) in bounds {
        within(path, value, &range, places);
    }
    within("search.pageSize", search.page_size as u64, &(1..=search.page_size_most as u64), places);
    if search.page_size_most > search.results_most {
        places.fault("search.resultsMost", "it must be at least `pageSizeMost`");
    }
    if keys.overlap_seconds > keys.rotation_seconds {
        places.fault("keys.overlapSeconds", "it must be at most `rotationSeconds`");
    }
    if keys.algorithms.is_empty() {
        places.fault("keys.algorithms", "name at least one algorithm");
    }
    for (path, connector) in &parts.connectors {
        within(&join(path, "deadlineSeconds"), connector.deadline_seconds, &(1..=60), places);
    }
}

/// Whether a number is within its bounds.
pub(super) fn within(path: &str, value: u64, range: &RangeInclusive<u64>, places: &mut Places) {
    if !range.contains(&value) {
        places.fault(path, format!("it must be {} to {}", range.start(), range.end()));
    }
}

fn issuer(parts: &Parts, places: &mut Places) {
    let Some(issuer) = &parts.issuer else { return };
    let fault = if issuer.scheme() != "https" && !(issuer.scheme() == "http" && is_loopback(issuer)) {
        "it must be https; plain http is for loopback addresses"
    } else if issuer.host().is_none() || !issuer.username().is_empty() || issuer.password().is_some() {
        "it must have a host, and neither user nor password"
    } else if issuer.path() != "/" || issuer.query().is_some() || issuer.fragment().is_some() {
        "it must end after the host and its port: no path, query or fragment"
    } else {
        return;
    };
    places.fault("issuer", fault);
}

/// Whether an address means this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

fn listen(parts: &Parts, places: &mut Places) {
    let listen = &parts.listen;
    if !listen.address.ip().is_loopback() && !places.has("listen.tls") && !listen.behind_proxy {
        places.fault(
            "listen.address",
            "passwords and tokens would cross the network in the clear: give `tls`, or `behindProxy: true` where TLS ends at a proxy",
        );
    }
    if overlap(listen.address, listen.admin_address) {
        places.fault("listen.adminAddress", "it must not be the same as `address`");
    }
    if !listen.admin_address.ip().is_loopback() {
        places.warning("listen.adminAddress", "metrics and health are open to whoever reaches this address");
    }
    for (index, proxy) in listen.trusted_proxies.iter().enumerate() {
        let here = format!("listen.trustedProxies[{index}]");
        match prefix(proxy) {
            None => places.fault(here, "it must be an IP address or a prefix, as `10.0.0.7` or `10.0.0.0/8`"),
            Some(0) => places.warning(here, "everyone may say which address they come from"),
            Some(_) => {}
        }
    }
    if listen.behind_proxy && listen.trusted_proxies.is_empty() {
        places.warning(
            "listen.behindProxy",
            "without `trustedProxies` everyone seems to come from the proxy's address, and shares its limits",
        );
    }
    if let Some(tls) = &listen.tls {
        let files = [
            ("certificateFile", Some(&tls.certificate_file)),
            ("keyFile", Some(&tls.key_file)),
            ("clientCaFile", tls.client_ca_file.as_ref()),
        ];
        for (key, path) in files {
            if let Some(path) = path {
                readable(path, &join("listen.tls", key), places);
            }
        }
    }
}

/// Whether one listener would take the other's place.
pub(super) fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.port() != 0 && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}

/// The length of a network's prefix; `None` where it is none.
fn prefix(text: &str) -> Option<u8> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let most = match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    match length {
        None => Some(most),
        Some(length) if !length.starts_with('+') => length.parse().ok().filter(|length| *length <= most),
        Some(_) => None,
    }
}

/// Whether a file can be read; its name stays out of the fault, it may be something else that went astray.
pub(super) fn readable(file: &Path, path: &str, places: &mut Places) -> Option<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) => {
            places.fault(path, format!("the file can not be read: {error}"));
            None
        }
    }
}
