//! The stored form: bytes of keys and values, and the tables.
//!
//! A key is the partition and the kind, each with its length before it, then the id as it is. So no two partitions run
//! together, and a range over one prefix is one kind of one partition in the order of the ids.

use redb::{Database, ReadableDatabase as _, TableDefinition, TableError};
use time::OffsetDateTime;

use crate::store::{Entry, Key, Kind, Partition};

/// The format that this program reads and writes.
pub(super) const FORMAT: u64 = 1;
/// Never: what stands for "no expiry".
pub(super) const NEVER: i64 = i64::MAX;

/// Key → version (8 bytes), expiry (8 bytes), value.
pub(super) const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// (expiry, key) → nothing, for each record that expires.
pub(super) const EXPIRIES: TableDefinition<'_, (i64, &[u8]), ()> = TableDefinition::new("expiries");
/// The format, and the version that was given last.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const META_FORMAT: &str = "format";
pub(super) const META_VERSION: &str = "version";

/// What kind of file this is.
pub(super) enum Format {
    /// It has no tables at all.
    New,
    /// Ours, as it should be.
    Current,
    /// Ours, of another format.
    Other(u64),
    /// A database of another program.
    Foreign,
}

/// Looks what kind of file this is.
pub(super) fn format_of(database: &Database) -> Result<Format, redb::Error> {
    let transaction = database.begin_read()?;
    match transaction.open_table(META) {
        Ok(meta) => Ok(match meta.get(META_FORMAT)?.map(|format| format.value()) {
            Some(FORMAT) => Format::Current,
            Some(other) => Format::Other(other),
            None => Format::Foreign,
        }),
        Err(TableError::TableDoesNotExist(_)) => {
            let empty = transaction.list_tables()?.next().is_none() && transaction.list_multimap_tables()?.next().is_none();
            Ok(if empty { Format::New } else { Format::Foreign })
        }
        Err(TableError::Storage(error)) => Err(error.into()),
        Err(_) => Ok(Format::Foreign),
    }
}

/// Makes the tables.
pub(super) fn prepare(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(EXPIRIES)?;
    transaction.open_table(META)?.insert(META_FORMAT, FORMAT)?;
    transaction.commit()?;
    Ok(())
}

/// Milliseconds since 1970; far times are the nearest that fits.
pub(super) fn moment(at: OffsetDateTime) -> i64 {
    let milliseconds = at.unix_timestamp_nanos().div_euclid(1_000_000);
    i64::try_from(milliseconds).unwrap_or(if milliseconds > 0 { NEVER } else { i64::MIN })
}

/// What all keys of one kind in one partition begin with.
pub(super) fn prefix(partition: &Partition, kind: Kind) -> Vec<u8> {
    let (tag, tenant) = match partition {
        Partition::System => (0, ""),
        Partition::Tenant(tenant) => (1, tenant.as_str()),
    };
    let mut bytes = Vec::with_capacity(96);
    bytes.push(tag);
    for part in [tenant, kind.as_str()] {
        // A tenant id has at most 255 characters of at most four bytes; a kind is one of ours.
        bytes.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

/// A key as it is stored.
pub(super) fn key(key: &Key) -> Vec<u8> {
    let mut bytes = prefix(key.partition(), key.kind());
    bytes.extend_from_slice(key.id().as_bytes());
    bytes
}

/// A value as it is stored.
pub(super) fn value(version: u64, expires_at: i64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + value.len());
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&expires_at.to_be_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// Version, expiry and value of what is stored; `None` where it is too short to be ours.
pub(super) fn parts(stored: &[u8]) -> Option<(u64, i64, &[u8])> {
    let (version, rest) = stored.split_first_chunk::<8>()?;
    let (expires_at, value) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*version), i64::from_be_bytes(*expires_at), value))
}

/// When the record expires, if it has not.
pub(super) fn live_until(stored: &[u8], now: i64) -> Option<i64> {
    parts(stored).map(|(_, expires_at, _)| expires_at).filter(|expires_at| now < *expires_at)
}

/// The record, if it has not expired.
pub(super) fn live(stored: &[u8], now: i64) -> Option<Entry> {
    let (version, expires_at, value) = parts(stored)?;
    (now < expires_at).then(|| Entry { value: value.to_vec(), version })
}
