//! The stored form: bytes of keys, and the tables; the bytes of values are those of every store.
//!
//! A key is the partition and the kind, each with its length before it, then the id as it is. So no two partitions run
//! together, and a range over one prefix is one kind of one partition in the order of the ids.

use claims_mapping::TenantId;
use redb::{Database, ReadableDatabase as _, TableDefinition, TableError};

pub(super) use crate::store::record::{NEVER, live, live_until, moment, parts, value};
use crate::store::{Key, Kind, Partition};

/// The format that this program reads and writes.
pub(super) const FORMAT: u64 = 1;

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

/// The key that is stored so; `None` for one of a kind that there is not.
pub(super) fn parse(stored: &[u8]) -> Option<Key> {
    let (tag, rest) = stored.split_first()?;
    let part = |bytes: &[u8]| -> Option<(String, usize)> {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        Some((std::str::from_utf8(rest.get(..length)?).ok()?.to_owned(), 2 + length))
    };
    let (tenant, end) = part(rest)?;
    let rest = rest.get(end..)?;
    let (kind, end) = part(rest)?;
    let (kind, id) = (Kind::parse(&kind)?, std::str::from_utf8(rest.get(end..)?).ok()?);
    match tag {
        0 => Some(Key::system(kind, id)),
        _ => Some(Key::new(&TenantId::parse(&tenant).ok()?, kind, id)),
    }
}

/// A key as it is stored.
pub(super) fn key(key: &Key) -> Vec<u8> {
    let mut bytes = prefix(key.partition(), key.kind());
    bytes.extend_from_slice(key.id().as_bytes());
    bytes
}
