//! The embedded store on redb: in memory, or one file that one process holds.
//!
//! This file owns opening and reading. `embedded/layout.rs` owns the stored form, `embedded/writer.rs` the one thread that
//! writes: it puts the batches that wait into one transaction, so that a flush of the disk is paid once for all of them.

#[cfg(test)]
mod crash;
mod layout;
#[cfg(test)]
mod looks;
mod writer;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD};
use redb::{
    Builder, Database, DatabaseError, Durability, ReadableDatabase as _, ReadableTableMetadata as _, StorageError,
    backends::InMemoryBackend,
};
use time::OffsetDateTime;

use self::writer::Writer;
use super::{Batch, Entry, Kept, Key, Kind, Listing, Mark, Outcome, Partition, Scan, Scanned, Store, StoreError, changes::Changes, record};

/// What redb may keep of the file in memory, in bytes.
const CACHE: usize = 8 << 20;
/// The same where the data is in memory anyway.
const CACHE_IN_MEMORY: usize = 512 << 10;
/// Below this many bytes a file is never compacted.
const COMPACT_FROM: u64 = 16 << 20;
/// Above this many used bytes compacting would hold up the start for too long.
const COMPACT_MOST: u64 = 256 << 20;
/// The most records in one page of a listing.
const LISTING_MOST: usize = 1_000;

/// Why a store's file can not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder of the file does not exist.
    #[error("{}: the folder does not exist; create it, owned by the user that Denizen runs as", .0.display())]
    FolderMissing(PathBuf),
    /// Another process has the file open.
    #[error("{}: another process has the store open; one file serves one Denizen", .0.display())]
    Locked(PathBuf),
    /// The file is something else.
    #[error("{}: this is not a store of Denizen", .0.display())]
    NotAStore(PathBuf),
    /// The file is a store of another version of Denizen or of the database below it.
    #[error("{}: the store has format {found}, this Denizen reads format {expected}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that it has.
        found: u64,
        /// The format that this program reads.
        expected: u64,
    },
    /// The user that Denizen runs as may not read and write the file, or not create it in its folder.
    #[error("{}: permission denied; the user that Denizen runs as must be able to read and write it", .0.display())]
    Permission(PathBuf),
    /// The file is damaged, or can not be read for another reason.
    #[error("{}: {source}", .path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The embedded store.
pub struct Embedded {
    database: Arc<Database>,
    changes: Arc<Changes>,
    writer: Writer,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded")
    }
}

impl Embedded {
    /// A store that is gone with the process.
    ///
    /// # Errors
    /// When there is no memory or no thread to be had.
    pub fn in_memory() -> Result<Self, StoreError> {
        let database = Builder::new().set_cache_size(CACHE_IN_MEMORY).create_with_backend(InMemoryBackend::new()).map_err(unavailable)?;
        layout::prepare(&database).map_err(unavailable)?;
        Self::start(database, Durability::None).map_err(unavailable)
    }

    /// A store in a file, which is created with mode 0600 where there is none. What [`Store::commit`] answers as committed
    /// is on disk. A file that is mostly free space is compacted first.
    ///
    /// # Errors
    /// When the file can not be used; the text says what to do.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.try_exists().map_err(|e| io_fault(path, e))? {
            create(path)?;
        }
        let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(|e| io_fault(path, e))?;
        let mut database = Builder::new().set_cache_size(CACHE).create_file(file).map_err(|e| database_fault(path, e))?;
        match layout::format_of(&database).map_err(|e| failed(path, e))? {
            layout::Format::Current => {}
            layout::Format::New => layout::prepare(&database).map_err(|e| failed(path, e))?,
            layout::Format::Foreign => return Err(OpenError::NotAStore(path.to_owned())),
            layout::Format::Other(found) => return Err(OpenError::Format { path: path.to_owned(), found, expected: layout::FORMAT }),
        }
        if pays_to_compact(path, &database).map_err(|e| failed(path, e))? {
            database.compact().map_err(|e| failed(path, e))?;
        }
        Self::start(database, Durability::Immediate).map_err(|e| failed(path, e))
    }

    fn start(database: Database, durability: Durability) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let database = Arc::new(database);
        let changes = Arc::new(Changes::new());
        let writer = Writer::start(Arc::clone(&database), Arc::clone(&changes), durability)?;
        Ok(Self { database, changes, writer })
    }

    fn read(&self, key: &Key, now: i64) -> Result<Option<Entry>, redb::Error> {
        let table = self.database.begin_read()?.open_table(layout::RECORDS)?;
        let stored = table.get(layout::key(key).as_slice())?;
        Ok(stored.and_then(|stored| layout::live(stored.value(), now)))
    }

    fn are_present(&self, keys: &[Key], now: i64) -> Result<(Vec<bool>, Mark), redb::Error> {
        let keys: Vec<_> = keys.iter().map(layout::key).collect();
        // Before the look: what changes after this, the mark does not know.
        let counts = keys.iter().map(|key| self.changes.count(key)).collect();
        let table = self.database.begin_read()?.open_table(layout::RECORDS)?;
        let (mut present, mut until) = (Vec::with_capacity(keys.len()), layout::NEVER);
        for key in keys {
            let expires_at = table.get(key.as_slice())?.and_then(|stored| layout::live_until(stored.value(), now));
            present.push(expires_at.is_some());
            until = until.min(expires_at.unwrap_or(layout::NEVER));
        }
        Ok((present, Mark { from: now, until, counts }))
    }

    /// Records in the order of their keys; the cursor is the key to go on with.
    fn all_from(&self, from: &[u8], limit: usize) -> Result<Scanned, redb::Error> {
        let table = self.database.begin_read()?.open_table(layout::RECORDS)?;
        let mut scanned = Scanned::default();
        for found in table.range(from..)? {
            let (key, value) = found?;
            if scanned.records.len() == limit {
                scanned.next = Some(URL_SAFE_NO_PAD.encode(key.value()));
                break;
            }
            let (Some(key), Some((version, expires_at, value))) = (layout::parse(key.value()), layout::parts(value.value())) else {
                continue;
            };
            scanned.records.push(Kept { key, value: value.to_vec(), expires_at: record::expiry(expires_at), version });
        }
        Ok(scanned)
    }

    fn page(&self, prefix: &[u8], cursor: Option<&str>, limit: usize, now: i64) -> Result<Listing, redb::Error> {
        let table = self.database.begin_read()?.open_table(layout::RECORDS)?;
        let mut from = prefix.to_vec();
        let mut listing = Listing::default();
        if let Some(cursor) = cursor {
            // The smallest key after the cursor's own.
            from.extend_from_slice(cursor.as_bytes());
            from.push(0);
        }
        for record in table.range(from.as_slice()..)? {
            let (key, value) = record?;
            let Some(id) = key.value().strip_prefix(prefix) else { break };
            let Some(entry) = layout::live(value.value(), now) else { continue };
            if listing.entries.len() == limit {
                listing.next = listing.entries.last().map(|(id, _)| id.clone());
                break;
            }
            listing.entries.push((String::from_utf8_lossy(id).into_owned(), entry));
        }
        Ok(listing)
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError> {
        self.read(key, layout::moment(now)).map_err(unavailable)
    }

    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError> {
        Ok(self.are_present(keys, layout::moment(now)).map_err(unavailable)?.0)
    }

    async fn look(&self, keys: &[Key], now: OffsetDateTime) -> Result<(Vec<bool>, Option<Mark>), StoreError> {
        let (present, mark) = self.are_present(keys, layout::moment(now)).map_err(unavailable)?;
        Ok((present, Some(mark)))
    }

    fn is_as_seen(&self, mark: &Mark, now: OffsetDateTime) -> bool {
        let now = layout::moment(now);
        (mark.from..mark.until).contains(&now) && mark.counts.iter().all(|counted| self.changes.is_still(*counted))
    }

    async fn commit(&self, batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        if batch.partition()?.is_none() {
            return Ok(Outcome::Committed);
        }
        self.writer.commit(batch, layout::moment(now)).await
    }

    async fn list(
        &self,
        partition: &Partition,
        kind: Kind,
        cursor: Option<&str>,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Listing, StoreError> {
        let prefix = layout::prefix(partition, kind);
        self.page(&prefix, cursor, limit.clamp(1, LISTING_MOST), layout::moment(now)).map_err(unavailable)
    }

    async fn sweep(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.writer.sweep(layout::moment(now), limit).await
    }
}

#[async_trait]
impl Scan for Embedded {
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, StoreError> {
        let from = match cursor {
            None => vec![],
            Some(cursor) => URL_SAFE_NO_PAD.decode(cursor).map_err(unavailable)?,
        };
        self.all_from(&from, limit.clamp(1, LISTING_MOST)).map_err(unavailable)
    }
}

/// Makes a new store under another name and links it into place, so that a crash half-way leaves no half a file behind.
fn create(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    if !folder.is_dir() {
        return Err(OpenError::FolderMissing(folder.to_owned()));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_fault(&new, e)),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&new).map_err(|e| io_fault(&new, e))?;
    let database = Builder::new().set_cache_size(CACHE).create_file(file).map_err(|e| database_fault(&new, e))?;
    layout::prepare(&database).map_err(|e| failed(&new, e))?;
    drop(database);
    match fs::hard_link(&new, path) {
        // Another process was first; its file is opened, or found locked, next.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        // Some file systems have no links.
        Err(_) => return fs::rename(&new, path).map_err(|e| io_fault(path, e)),
        Ok(()) => {}
    }
    fs::remove_file(&new).map_err(|e| io_fault(&new, e))?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| io_fault(folder, e))
}

/// Whether at least half of a large file is free, and what is used can be moved within a moment.
fn pays_to_compact(path: &Path, database: &Database) -> Result<bool, redb::Error> {
    let size = fs::metadata(path)?.len();
    if size < COMPACT_FROM {
        return Ok(false);
    }
    let transaction = database.begin_read()?;
    let mut used = 0;
    for stats in [transaction.open_table(layout::RECORDS)?.stats()?, transaction.open_table(layout::EXPIRIES)?.stats()?] {
        used += stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
    }
    Ok(used <= size / 2 && used <= COMPACT_MOST)
}

fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Unavailable(source.into())
}

fn failed(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> OpenError {
    OpenError::Failed { path: path.to_owned(), source: source.into() }
}

fn io_fault(path: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => OpenError::Permission(path.to_owned()),
        io::ErrorKind::IsADirectory => OpenError::NotAStore(path.to_owned()),
        _ => failed(path, error),
    }
}

fn database_fault(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked(path.to_owned()),
        DatabaseError::UpgradeRequired(found) => {
            OpenError::Format { path: path.to_owned(), found: u64::from(found), expected: layout::FORMAT }
        }
        // So redb says that the file does not begin as its files do.
        DatabaseError::Storage(StorageError::Io(e)) if e.kind() == io::ErrorKind::InvalidData => OpenError::NotAStore(path.to_owned()),
        DatabaseError::Storage(StorageError::Io(e)) => io_fault(path, e),
        other => failed(path, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance::{Fresh, Opening};

    fn opened(store: Embedded) -> Opening {
        let store: Arc<dyn Store> = Arc::new(store);
        Box::pin(std::future::ready(store))
    }

    crate::store_suite!(in_memory, Fresh::new(|| opened(Embedded::in_memory().unwrap())));
    crate::store_suite!(file, {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("denizen.db");
        Fresh::reopening(folder, move || opened(Embedded::open(&path).unwrap()))
    });

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Embedded::open(&folder.path().join("absent/denizen.db")).unwrap_err();
        assert!(matches!(&error, OpenError::FolderMissing(path) if path.ends_with("absent")), "{error}");
    }

    #[test]
    fn a_second_holder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("denizen.db");
        let held = Embedded::open(&path).unwrap();
        assert!(matches!(Embedded::open(&path), Err(OpenError::Locked(_))));
        drop(held);
        Embedded::open(&path).unwrap();
    }

    #[test]
    fn another_file_is_not_a_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("denizen.db");
        fs::write(&path, "a letter to a friend, long enough to hold a header").unwrap();
        assert!(matches!(Embedded::open(&path), Err(OpenError::NotAStore(_))));
        assert_eq!(fs::read(&path).unwrap().len(), 50);
        assert!(matches!(Embedded::open(folder.path()), Err(OpenError::NotAStore(_))));

        let foreign = folder.path().join("foreign.db");
        let database = Database::create(&foreign).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(redb::TableDefinition::<u64, u64>::new("theirs")).unwrap();
        transaction.commit().unwrap();
        drop(database);
        assert!(matches!(Embedded::open(&foreign), Err(OpenError::NotAStore(_))));
    }

    #[test]
    fn another_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("denizen.db");
        drop(Embedded::open(&path).unwrap());
        let database = Database::create(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(layout::META).unwrap().insert(layout::META_FORMAT, 99).unwrap();
        transaction.commit().unwrap();
        drop(database);
        assert!(matches!(Embedded::open(&path), Err(OpenError::Format { found: 99, .. })));
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("denizen.db");
        drop(Embedded::open(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the store is left");
    }

    #[tokio::test]
    async fn a_file_of_mostly_free_space_shrinks_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("denizen.db");
        let now = OffsetDateTime::UNIX_EPOCH;
        let key = |n: usize| Key::system(Kind::Browser, format!("{n:04}"));
        let store = Embedded::open(&path).unwrap();
        for n in 0..48 {
            store.commit(Batch::new().put(key(n), vec![7; 1 << 20], None), now).await.unwrap();
        }
        // The last ones stay: they lie at the end of the file, which redb can not cut off then.
        for n in 0..46 {
            store.commit(Batch::new().delete(key(n)), now).await.unwrap();
        }
        drop(store);
        let before = fs::metadata(&path).unwrap().len();
        let store = Embedded::open(&path).unwrap();
        let after = fs::metadata(&path).unwrap().len();
        assert!(before >= COMPACT_FROM && after < before / 2, "{before} bytes before, {after} after");
        assert_eq!(store.get(&key(47), now).await.unwrap().unwrap().value.len(), 1 << 20);
    }
}
