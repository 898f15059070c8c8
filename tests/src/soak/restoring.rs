//! A Redis that brings back what was: its records are put back to what they first were, behind the back of the brokers. So the checker is
//! seen to see it.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use super::checker::Kind;
use crate::redis::{Connection, Server};

/// Which records do not stay what they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restoring {
    /// Codes: their tombstones become what they were.
    Codes,
    /// Families of refresh tokens: each as it was first seen.
    Families,
    /// Sessions, and their browsers' records: those that were ended are there again.
    Sessions,
    /// Revocations: they go.
    Revocations,
    /// Sessions that are good: they go.
    Losses,
}

impl Restoring {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Codes, Self::Families, Self::Sessions, Self::Revocations, Self::Losses];

    /// What the checker must say of it.
    #[must_use]
    pub const fn shows(self) -> &'static [Kind] {
        match self {
            Self::Codes => &[Kind::CodeUsedTwice],
            Self::Families => &[Kind::OldRefreshToken, Kind::FamilyAlive],
            Self::Sessions => &[Kind::SessionAlive, Kind::BrowserAlive],
            Self::Revocations => &[Kind::RevokedAlive],
            Self::Losses => &[Kind::Lost],
        }
    }

    /// The names of its kinds in the store's keys.
    const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Codes => &["code"],
            Self::Families => &["grant"],
            Self::Sessions => &["session", "browser"],
            Self::Revocations => &["revoked-token"],
            Self::Losses => &["session"],
        }
    }

    const fn takes_away(self) -> bool {
        matches!(self, Self::Revocations | Self::Losses)
    }
}

/// Does it, again and again.
#[derive(Debug)]
pub(super) struct Restorer {
    what: Restoring,
    first: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Restorer {
    pub(super) const fn new(what: Restoring) -> Self {
        Self { what, first: BTreeMap::new() }
    }

    /// Puts back what has changed, or takes away what is there.
    pub(super) fn once(&mut self, primary: &Server) {
        let mut connection = primary.connect().unwrap();
        let keys: BTreeSet<Vec<u8>> = self.what.kinds().iter().flat_map(|kind| keys(&mut connection, kind)).collect();
        if self.what.takes_away() {
            for key in keys {
                _ = connection.ask(&[b"DEL", &key]).unwrap().good();
            }
            return;
        }
        for key in keys {
            let Entry::Vacant(first) = self.first.entry(key) else { continue };
            let value = connection.ask(&[b"GET", first.key()]).unwrap().good().bytes().to_vec();
            if !value.is_empty() {
                first.insert(value);
            }
        }
        for (key, value) in &self.first {
            _ = connection.ask(&[b"SET", key, value, b"PX", b"600000"]).unwrap().good();
        }
    }
}

/// The keys of a kind: `denizen:{partition}:kind:id`.
fn keys(connection: &mut Connection, kind: &str) -> Vec<Vec<u8>> {
    let (pattern, mut cursor, mut keys) = (format!("*}}:{kind}:*"), b"0".to_vec(), Vec::new());
    loop {
        let page = connection.ask(&[b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"5000"]).unwrap().good();
        keys.extend(page.parts()[1].parts().iter().map(|key| key.bytes().to_vec()));
        cursor = page.parts()[0].bytes().to_vec();
        if cursor == b"0" {
            return keys;
        }
    }
}
