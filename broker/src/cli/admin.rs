//! The admin listener of the Denizen that runs with a configuration, as commands reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A client that goes there and nowhere else: no proxy, no redirect, no TLS.
pub(super) fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).redirect(reqwest::redirect::Policy::none())
}

/// Where a listener of all addresses is reached from this machine.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
