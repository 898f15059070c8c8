//! Free loopback ports.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

/// Below the range from which Linux gives ports to outgoing connections, so that none of those takes one of ours between
/// the look and the server's own bind.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that nothing listens on. No other call in this process gets the same one; each process begins elsewhere.
#[must_use]
pub fn free() -> u16 {
    let begin = u16::try_from(std::process::id() * 61 % u32::from(COUNT)).unwrap();
    loop {
        let port = FIRST + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
