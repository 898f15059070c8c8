//! The names of keys and of the channel, and which slot of a Cluster they are in.
//!
//! `<prefix>:{<partition>}:<kind>:<id>` is a record, without the id the index of a kind that is listed, `…:expiries` when listed
//! records expire, `<prefix>:{l}:<id>` a bucket. What stands in braces is what a Cluster takes the slot from: so a partition, and all
//! buckets, are in one slot each.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use claims_mapping::TenantId;

use crate::store::{Key, Kind, Partition};

/// The slots of a Cluster.
pub(super) const SLOTS: u16 = 16_384;
/// The partition of the buckets.
const LIMITS: &str = "l";

/// What all names begin with.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    prefix: String,
    database: u8,
}

impl Layout {
    pub(super) fn new(prefix: &str, database: u8) -> Self {
        Self { prefix: prefix.to_owned(), database }
    }

    /// What all keys of a partition begin with.
    pub(super) fn base(&self, partition: &Partition) -> String {
        format!("{}:{{{}}}:", self.prefix, tag(partition))
    }

    /// The key of a record.
    pub(super) fn record(&self, key: &Key) -> Vec<u8> {
        self.of(key.partition(), key.kind(), key.id())
    }

    /// The same from its parts.
    pub(super) fn of(&self, partition: &Partition, kind: Kind, id: &str) -> Vec<u8> {
        format!("{}{}:{id}", self.base(partition), kind.as_str()).into_bytes()
    }

    /// The key of the index of a kind that is listed.
    pub(super) fn index(&self, partition: &Partition, kind: Kind) -> String {
        format!("{}{}", self.base(partition), kind.as_str())
    }

    /// The key of the expiries of a partition's listed records.
    pub(super) fn expiries(&self, partition: &Partition) -> String {
        format!("{}expiries", self.base(partition))
    }

    /// The key of a bucket.
    pub(super) fn bucket(&self, id: &str) -> Vec<u8> {
        format!("{}:{{{LIMITS}}}:{id}", self.prefix).into_bytes()
    }

    /// The channel on which replicas tell one another. Unlike keys, channels are the same in all databases of a server.
    pub(super) fn channel(&self) -> String {
        match self.database {
            0 => format!("{}:news", self.prefix),
            database => format!("{}:news:{database}", self.prefix),
        }
    }

    /// What the keys of records look like, as a pattern of SCAN.
    pub(super) fn pattern(&self) -> String {
        format!("{}:{{*", self.prefix)
    }

    /// The record that has this key; `None` for an index, a bucket, or what is of a newer version or another program.
    pub(super) fn parse(&self, key: &[u8]) -> Option<Key> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix(":{")?;
        let (tag, rest) = rest.split_once("}:")?;
        let (kind, id) = rest.split_once(':')?;
        let kind = Kind::parse(kind)?;
        match tag {
            "s" => Some(Key::system(kind, id)),
            tag => Some(Key::new(&TenantId::parse(&decoded(tag.strip_prefix("t:")?)?).ok()?, kind, id)),
        }
    }
}

/// Which slot a partition is in.
pub(super) fn slot(partition: &Partition) -> u16 {
    slot_of_tag(&tag(partition))
}

/// Which slot the buckets are in.
pub(super) fn slot_of_limits() -> u16 {
    slot_of_tag(LIMITS)
}

/// By what replicas tell one another which record they mean: as long as no one can find two records with one digest.
pub(super) fn told_as(record: &[u8]) -> [u8; 8] {
    let mut short = [0; 8];
    for (to, from) in short.iter_mut().zip(digest(&SHA256, record).as_ref()) {
        *to = *from;
    }
    short
}

fn tag(partition: &Partition) -> String {
    let Partition::Tenant(tenant) = partition else { return "s".to_owned() };
    let mut tag = "t:".to_owned();
    for byte in tenant.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            tag.push(char::from(byte));
        } else {
            // Writing to a text can not fail.
            _ = write!(tag, "%{byte:02X}");
        }
    }
    tag
}

fn decoded(tag: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(tag.len());
    let mut rest = tag.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let number = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
        bytes.push(u8::try_from(number).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// CRC16 (XMODEM) of what stands in the braces, as Redis Cluster's specification has it.
fn slot_of_tag(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of_tag("123456789"), 0x31C3);
        assert_eq!(slot_of_tag("foo"), 12_182);
        assert_eq!(slot_of_tag(""), 0);
    }

    #[test]
    fn t03_keys_are_told_apart_and_read_back() {
        let layout = Layout::new("denizen", 0);
        let mut seen = std::collections::HashSet::new();
        for tenant in ["acme", "a}b", "a{b", "a:b", "a%7Db", "ä", "s", "l", "A b"] {
            for id in ["", "x", "a:b", "}:person:", "\u{0}"] {
                let key = Key::new(&TenantId::parse(tenant).unwrap(), Kind::Person, id);
                let name = layout.record(&key);
                assert_eq!(layout.parse(&name).as_ref(), Some(&key));
                assert!(seen.insert(name), "{key:?}");
            }
        }
        assert_eq!(layout.record(&Key::system(Kind::Lease, "keys")), b"denizen:{s}:lease:keys");
        assert_eq!(layout.parse(b"denizen:{s}:lease:keys"), Some(Key::system(Kind::Lease, "keys")));
        for other in ["denizen:{s}:lease", "denizen:{s}:expiries", "denizen:{l}:lease:x", "denizen:{s}:newer:x", "other:{s}:lease:keys"] {
            assert_eq!(layout.parse(other.as_bytes()), None, "{other}");
        }
    }
}
