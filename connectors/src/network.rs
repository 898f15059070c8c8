//! Which addresses an upstream may have: public ones, and those of the networks that the operator allows. What an
//! attacker-controlled document or name could point to otherwise is inside: loopback, private networks, a cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One network, as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| "it must be an address or a network, as 10.0.0.0/8".to_owned())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let plain = |digits: &&str| !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit());
        let prefix = match prefix {
            None => most,
            Some(digits) => Some(digits)
                .filter(plain)
                .and_then(|digits| digits.parse().ok())
                .filter(|prefix| *prefix <= most)
                .ok_or_else(|| format!("what is after the `/` must be a number up to {most}"))?,
        };
        let start = masked(address, prefix);
        if start != address {
            return Err(format!("it has bits set after its prefix: write {start}/{prefix}"));
        }
        Ok(Self { address, prefix })
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

fn masked(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0))),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0))),
    }
}

/// The networks that are allowed besides the public ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Networks(Vec<Network>);

impl Networks {
    /// # Errors
    /// Every text that is no network, by its place in the list.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let (mut networks, mut faults) = (Vec::new(), Vec::new());
        for (index, text) in texts.iter().enumerate() {
            match Network::parse(text) {
                Ok(network) => networks.push(network),
                Err(fault) => faults.push((index, fault)),
            }
        }
        networks.sort_unstable();
        networks.dedup();
        if faults.is_empty() { Ok(Self(networks)) } else { Err(faults) }
    }

    /// Whether an upstream may be there.
    pub(crate) fn allow(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.0.iter().any(|network| network.contains(address))
    }
}

/// Whether an address is one of the public internet (IANA's special-purpose registries, RFC 6890). An IPv4 address inside an IPv6 one
/// counts as itself where a gateway would bring a packet there.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        // This network, private (RFC 1918), loopback, multicast, reserved and broadcast.
        [0 | 10 | 127 | 224..=255, ..]
            // Carrier-grade NAT (RFC 6598), link-local with the metadata services, private, private.
            | [100, 64..=127, ..] | [169, 254, ..] | [172, 16..=31, ..] | [192, 168, ..]
            // Protocol assignments, documentation, 6to4 relays, benchmarks.
            | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _]
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        // NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, ORCHID, benchmarks; documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast is 2000::/3: unspecified, loopback, unique-local, link-local, site-local and multicast are elsewhere.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn t22_addresses_that_are_not_public_are_told_apart() {
        let inside = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:a9fe:a9fe::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "::7f00:1",
            "3fff::1",
        ];
        let outside = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "193.0.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2001:4860::8888",
        ];
        for text in inside {
            assert!(!is_public(ip(text)), "{text}");
            assert!(!Networks::default().allow(ip(text)), "{text}");
        }
        for text in outside {
            assert!(is_public(ip(text)), "{text}");
        }
    }

    #[test]
    fn t22_a_network_is_allowed_as_it_is_written() {
        let networks = |texts: &[&str]| Networks::parse(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        let allowed = networks(&["10.1.0.0/16", "127.0.0.1", "fd00::/8"]).unwrap();
        for text in ["10.1.255.1", "127.0.0.1", "::ffff:10.1.0.1", "fd00::7", "9.9.9.9"] {
            assert!(allowed.allow(ip(text)), "{text}");
        }
        for text in ["10.2.0.1", "127.0.0.2", "::1", "fc00::1", "169.254.169.254", "64:ff9b::a01:1"] {
            assert!(!allowed.allow(ip(text)), "{text}");
        }
        assert!(networks(&["0.0.0.0/0"]).unwrap().allow(ip("10.0.0.1")));
        for wrong in ["", "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.1.0.0/8", "fd00::/129", "10.0.0.0/8/8"] {
            let faults = networks(&["127.0.0.1", wrong]).unwrap_err();
            assert_eq!(faults.first().map(|(index, _)| *index), Some(1), "{wrong}");
        }
    }
}
