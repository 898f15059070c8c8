//! Who is at the other end: the address, the certificate, the bearer token.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
};

use super::failure::Failure;
use crate::{App, standing::Standing, tokens::UnverifiedToken};

/// The names in the client certificate of a connection, where one was shown and verified.
#[derive(Debug, Clone)]
pub(crate) struct CertificateNames(pub(crate) Arc<[String]>);

/// What a proxy adds. One of them is enough to know that the sender may be anywhere.
const OF_PROXIES: [HeaderName; 6] = [
    header::VIA,
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Where a request comes from.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The address of the client: that of the connection, or the one that a trusted proxy names.
    pub(crate) address: IpAddr,
    /// Whether it comes from this machine, and no header tells of a proxy.
    pub(crate) is_local: bool,
    /// The names in its certificate.
    pub(crate) certificate_names: Arc<[String]>,
}

impl FromRequestParts<Arc<App>> for Peer {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let connection = parts.extensions.get::<ConnectInfo<SocketAddr>>().ok_or_else(Failure::unavailable)?.0.ip().to_canonical();
        let names = parts.extensions.get::<CertificateNames>().map_or_else(Arc::default, |names| Arc::clone(&names.0));
        Ok(Self {
            address: forwarded_for(connection, &parts.headers, &app.config.listen.trusted_proxies),
            is_local: connection.is_loopback() && !OF_PROXIES.iter().any(|name| parts.headers.contains_key(name)),
            certificate_names: names,
        })
    }
}

/// The client's address: from the right, the first one of `X-Forwarded-For` that is no trusted proxy. What stands further to
/// the left, anyone may have written.
fn forwarded_for(connection: IpAddr, headers: &HeaderMap, trusted: &[String]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| contains(network, address));
    let mut address = connection;
    // A line with bytes that are no text counts too: what its proxy put on the right of them is still true.
    let lines: Vec<_> = headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes).map(String::from_utf8_lossy).collect();
    for hop in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        if !is_trusted(address) {
            break;
        }
        match hop_address(hop.trim()) {
            Some(hop) => address = hop.to_canonical(),
            None => break,
        }
    }
    address
}

/// The address of a hop, which some proxies write with the port: `192.0.2.1:5555`, `[2001:db8::1]:443`, `[2001:db8::1]`.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    hop.parse().ok().or_else(with_port).or_else(bracketed)
}

/// Whether `10.0.0.0/8` or `10.1.2.3` holds an address.
fn contains(network: &str, address: IpAddr) -> bool {
    let (base, prefix) = network.split_once('/').unwrap_or((network, ""));
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let Ok(base) = base.parse::<IpAddr>() else { return false };
    let ((base, width), (address, other)) = (bits(base), bits(address));
    let prefix: u32 = if prefix.is_empty() { width } else { prefix.parse().unwrap_or(u32::MAX) };
    let mask = if prefix == 0 { 0 } else { u128::MAX << (128 - prefix.min(128)) };
    width == other && prefix <= width && base & mask == address & mask
}

/// The bearer token of a request, in the header (RFC 6750, 2.1): never in a query, which is logged.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let (scheme, token) = line.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

/// The access token of a request, in force.
pub(crate) struct InForce(pub(crate) Standing);

impl FromRequestParts<Arc<App>> for InForce {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let token = bearer(&parts.headers).ok_or_else(Failure::no_token)?;
        match app.judge.judge(UnverifiedToken::new(token), app.seams.clock.now()).await {
            Ok(standing) => Ok(Self(standing)),
            Err(fallen) => {
                tracing::info!(target: "audit", event = "token.refused", reason = %fallen);
                Err(fallen.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let headers = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            headers
        };
        let trusted = vec!["10.0.0.0/8".to_owned(), "::1".to_owned()];
        let of =
            |connection: &str, lines: &[&'static str]| forwarded_for(connection.parse().unwrap(), &headers(lines), &trusted).to_string();
        assert_eq!(of("192.0.2.9", &["203.0.113.1"]), "192.0.2.9");
        assert_eq!(of("10.1.1.1", &["203.0.113.1"]), "203.0.113.1");
        assert_eq!(of("10.1.1.1", &["198.51.100.7, 203.0.113.1"]), "203.0.113.1");
        assert_eq!(of("10.1.1.1", &["198.51.100.7", "203.0.113.1, 10.2.2.2"]), "203.0.113.1");
        assert_eq!(of("10.1.1.1", &["nonsense"]), "10.1.1.1");
        assert_eq!(of("::1", &["2001:db8::1"]), "2001:db8::1");
        for (hop, address) in [
            ("192.0.2.1:5555", "192.0.2.1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
            ("203.0.113.1, 10.2.2.2:80", "203.0.113.1"),
        ] {
            assert_eq!(of("10.1.1.1", &[hop]), address, "{hop}");
        }
        for hop in ["[192.0.2.1]", "192.0.2.1:x", "192.0.2.1:99999", "[2001:db8::1", "2001:db8::1]:1", "", "[]"] {
            assert_eq!(of("10.1.1.1", &[hop]), "10.1.1.1", "{hop}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_hide_nothing_on_their_right() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", HeaderValue::from_bytes(b"\xff\xfe, 203.0.113.1").unwrap());
        let of = |headers: &HeaderMap| forwarded_for("10.1.1.1".parse().unwrap(), headers, &["10.0.0.0/8".to_owned()]).to_string();
        assert_eq!(of(&headers), "203.0.113.1");
        headers.append("x-forwarded-for", HeaderValue::from_bytes(b"192.0.2.7\xe9").unwrap());
        assert_eq!(of(&headers), "10.1.1.1", "nor is what stands further left believed past them");
    }

    #[test]
    fn prefixes_are_bits() {
        let within = |network: &str, address: &str| contains(network, address.parse().unwrap());
        assert!(within("10.0.0.0/8", "10.255.0.1") && !within("10.0.0.0/8", "11.0.0.1"));
        assert!(within("0.0.0.0/0", "192.0.2.1") && !within("0.0.0.0/0", "::1"));
        assert!(within("2001:db8::/32", "2001:db8:ffff::1") && !within("2001:db8::/32", "2001:db9::1"));
        assert!(!within("10.0.0.0/99", "10.0.0.1") && !within("x", "10.0.0.1"));
    }
}
