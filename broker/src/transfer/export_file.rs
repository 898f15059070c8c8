//! An export as a file: a line of JSON for each record, between a line that says what it is and one that says that it is whole.
//!
//! While it is written it is called `….part`. After each page a line keeps the cursor, so that whoever begins again goes on from there. The
//! file holds secrets: sessions, and the signing keys where they are not sealed; it is its owner's only.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use claims_mapping::TenantId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::store::{Kept, Key, Kind, Partition};

/// The form of the file.
const FORM: u32 = 1;

/// A file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The machine says no.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is one already.
    #[error("{}: there is such a file already; take another name, or remove it", .0.display())]
    Exists(PathBuf),
    /// The one that broke off was begun with `--online`, and this is not, or the other way round.
    #[error("{}: the export that broke off was begun otherwise, with or without `--online`: go on with it so, or remove it", .0.display())]
    Otherwise(PathBuf),
    /// It is no export.
    #[error("{}: this is not an export of Denizen's store", .0.display())]
    Foreign(PathBuf),
    /// It is of a newer version.
    #[error("{}: the export has form {found}, this Denizen reads form {FORM}", .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Its form.
        found: u32,
    },
    /// Its end is missing.
    #[error("{}: the export is not whole: its last line is missing; export again", .0.display())]
    NotWhole(PathBuf),
    /// A line is broken.
    #[error("{}:{line}: {what}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
enum Line {
    /// The first one.
    Denizen {
        form: u32,
        begun_at: i64,
        /// Whether replicas may have been at work meanwhile.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        online: bool,
    },
    Record {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        tenant: Option<TenantId>,
        kind: String,
        id: String,
        value: String,
        /// In milliseconds since 1970; `None`: never.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        expires: Option<i64>,
    },
    /// So far the store was read.
    Cursor(String),
    /// The last one.
    End { records: usize },
}

/// An export that is being written.
#[derive(Debug)]
pub struct Writing {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
    records: usize,
}

impl Writing {
    /// Begins one, or goes on where an earlier one broke off: then from the cursor. `online`: replicas may be at work meanwhile.
    ///
    /// # Errors
    /// When there is such a file already, one that broke off was begun otherwise, or the machine says no.
    pub fn begin(path: &Path, online: bool, now: OffsetDateTime) -> Result<(Self, Option<String>), FileError> {
        if path.exists() {
            return Err(FileError::Exists(path.to_owned()));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".part");
        let part = PathBuf::from(name);
        let fault = |source| FileError::Io { path: part.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&part).map_err(fault)?;
        let Broken { records, cursor, length, online: was_online } = broken_off(&file, &part)?;
        if length > 0 && was_online != online {
            return Err(FileError::Otherwise(part));
        }
        // One that was there may have other rights. Whose it is not, can not change them, and writes nothing.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(fault)?;
        file.set_len(length).map_err(fault)?;
        file.seek(std::io::SeekFrom::End(0)).map_err(fault)?;
        let mut this = Self { path: path.to_owned(), file: BufWriter::new(file), records, part };
        if length == 0 {
            this.line(&Line::Denizen { form: FORM, begun_at: now.unix_timestamp(), online })?;
        }
        Ok((this, cursor))
    }

    /// How many records it has.
    #[must_use]
    pub const fn records(&self) -> usize {
        self.records
    }

    /// Writes a page, and from where it goes on; it is on disk afterwards.
    ///
    /// # Errors
    /// When the machine says no.
    pub fn page(&mut self, records: &[Kept], cursor: Option<&str>) -> Result<(), FileError> {
        for Kept { key, value, expires_at, .. } in records {
            let tenant = match key.partition() {
                Partition::System => None,
                Partition::Tenant(tenant) => Some(tenant.clone()),
            };
            let expires = expires_at.map(|at| i64::try_from(at.unix_timestamp_nanos().div_euclid(1_000_000)).unwrap_or(i64::MAX));
            let (kind, id) = (key.kind().as_str().to_owned(), key.id().to_owned());
            self.line(&Line::Record { tenant, kind, id, value: BASE64.encode(value), expires })?;
        }
        self.records += records.len();
        if let Some(cursor) = cursor {
            self.line(&Line::Cursor(cursor.to_owned()))?;
        }
        self.sync()
    }

    /// Ends it: from now on it has its name.
    ///
    /// # Errors
    /// When the machine says no.
    pub fn end(mut self) -> Result<usize, FileError> {
        self.line(&Line::End { records: self.records })?;
        self.sync()?;
        std::fs::rename(&self.part, &self.path).map_err(|source| FileError::Io { path: self.path.clone(), source })?;
        Ok(self.records)
    }

    /// Removes it: it is not to be gone on with.
    ///
    /// # Errors
    /// When the machine says no.
    pub fn give_up(self) -> Result<(), FileError> {
        std::fs::remove_file(&self.part).map_err(|source| FileError::Io { path: self.part.clone(), source })
    }

    fn line(&mut self, line: &Line) -> Result<(), FileError> {
        let mut write = || {
            serde_json::to_writer(&mut self.file, line)?;
            self.file.write_all(b"\n")
        };
        write().map_err(|source| FileError::Io { path: self.part.clone(), source })
    }

    fn sync(&mut self) -> Result<(), FileError> {
        let mut sync = || {
            self.file.flush()?;
            self.file.get_ref().sync_data()
        };
        sync().map_err(|source| FileError::Io { path: self.part.clone(), source })
    }
}

/// What an earlier try left that can be gone on from.
#[derive(Default)]
struct Broken {
    records: usize,
    cursor: Option<String>,
    /// Up to here the file is good, in bytes.
    length: u64,
    online: bool,
}

fn broken_off(file: &File, path: &Path) -> Result<Broken, FileError> {
    let fault = |source| FileError::Io { path: path.to_owned(), source };
    let mut reader = BufReader::new(file);
    let (mut good, mut text) = (Broken::default(), String::new());
    let (mut at, mut records, mut is_online) = (0, 0, false);
    loop {
        text.clear();
        let read = match reader.read_line(&mut text) {
            Ok(0) => return Ok(good),
            Ok(read) => read as u64,
            // Half a character: torn where it broke off.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Ok(good),
            Err(error) => return Err(fault(error)),
        };
        if at == 0 && !matches!(serde_json::from_str(&text), Ok(Line::Denizen { form: FORM, .. })) {
            // Only what is ours is written over.
            return if text.ends_with('\n') { Err(FileError::Foreign(path.to_owned())) } else { Ok(good) };
        }
        at += read;
        match serde_json::from_str(&text) {
            Ok(Line::Record { .. }) => records += 1,
            Ok(Line::Cursor(cursor)) if text.ends_with('\n') => {
                good = Broken { records, cursor: Some(cursor), length: at, online: is_online };
            }
            Ok(Line::Denizen { online, .. }) => is_online = online,
            Ok(Line::Cursor(_) | Line::End { .. }) => {}
            Err(_) => return Ok(good),
        }
    }
}

/// A whole export, to be read.
#[derive(Debug)]
pub struct Reading {
    path: PathBuf,
    lines: std::io::Lines<BufReader<File>>,
    line: usize,
    /// When it was begun: what the store was like after that, it does not know.
    pub begun_at: OffsetDateTime,
    /// Whether replicas may have been at work while it was written.
    pub is_online: bool,
    /// How many records it has.
    pub records: usize,
}

impl Reading {
    /// Opens an export, and looks whether it is whole.
    ///
    /// # Errors
    /// When it is none, is not whole, or can not be read.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let fault = |source| FileError::Io { path: path.to_owned(), source };
        let open = || File::open(path).map(|file| BufReader::new(file).lines()).map_err(fault);
        let mut lines = open()?;
        let first = lines.next().and_then(Result::ok).and_then(|line| serde_json::from_str(&line).ok());
        let begun = match first {
            Some(Line::Denizen { form: FORM, begun_at, online }) => {
                OffsetDateTime::from_unix_timestamp(begun_at).ok().map(|begun_at| (begun_at, online))
            }
            Some(Line::Denizen { form, .. }) => return Err(FileError::Form { path: path.to_owned(), found: form }),
            _ => None,
        };
        let (begun_at, is_online) = begun.ok_or_else(|| FileError::Foreign(path.to_owned()))?;
        let last = lines.try_fold(None, |_, line| line.map(Some)).map_err(fault)?;
        let Some(Line::End { records }) = last.and_then(|line| serde_json::from_str(&line).ok()) else {
            return Err(FileError::NotWhole(path.to_owned()));
        };
        Ok(Self { path: path.to_owned(), lines: open()?, line: 0, begun_at, is_online, records })
    }

    /// The next records, at most so many; none at the end.
    ///
    /// # Errors
    /// When a line is broken, or can not be read.
    pub fn page(&mut self, most: usize) -> Result<Vec<Kept>, FileError> {
        let mut records = Vec::new();
        while records.len() < most {
            let Some(line) = self.lines.next() else { break };
            self.line += 1;
            let line = line.map_err(|source| FileError::Io { path: self.path.clone(), source })?;
            let wrong = |what: String| FileError::Line { path: self.path.clone(), line: self.line, what };
            // What serde says of a broken line may quote it.
            let line = serde_json::from_str(&line).map_err(|_| wrong("this line is broken".to_owned()))?;
            let Line::Record { tenant, kind, id, value, expires } = line else { continue };
            let kind = Kind::parse(&kind).ok_or_else(|| wrong(format!("records of the kind `{kind}` are of a newer Denizen")))?;
            let key = match &tenant {
                Some(tenant) => Key::new(tenant, kind, id),
                None => Key::system(kind, id),
            };
            let value = BASE64.decode(value).map_err(|_| wrong("the value is not base64".to_owned()))?;
            let expires_at = expires.and_then(|at| OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000).ok());
            records.push(Kept { key, value, expires_at, version: 0 });
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);

    fn record(n: usize) -> Kept {
        let key = match n % 2 {
            0 => Key::system(Kind::SigningKey, format!("é{n}")),
            _ => Key::new(&TenantId::parse("acme").unwrap(), Kind::Session, n.to_string()),
        };
        Kept { key, value: vec![u8::try_from(n % 256).unwrap(); n], expires_at: n.is_multiple_of(3).then_some(NOW), version: 0 }
    }

    fn page(range: std::ops::Range<usize>) -> Vec<Kept> {
        range.map(record).collect()
    }

    fn read(path: &Path) -> Vec<Kept> {
        let mut reading = Reading::open(path).unwrap();
        assert_eq!(reading.begun_at, NOW);
        let mut all = Vec::new();
        loop {
            let page = reading.page(7).unwrap();
            if page.is_empty() {
                assert_eq!(all.len(), reading.records);
                return all;
            }
            all.extend(page);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        let (mut writing, cursor) = Writing::begin(&path, false, NOW).unwrap();
        assert_eq!(cursor, None);
        writing.page(&page(0..10), Some("a")).unwrap();
        writing.page(&page(10..15), None).unwrap();
        assert_eq!(writing.end().unwrap(), 15);
        assert_eq!(read(&path), page(0..15));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(matches!(Writing::begin(&path, false, NOW), Err(FileError::Exists(_))));
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
    }

    #[test]
    fn what_broke_off_at_any_byte_is_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let (path, part) = (folder.path().join("export"), folder.path().join("export.part"));
        let (mut writing, _) = Writing::begin(&path, false, NOW).unwrap();
        writing.page(&page(0..4), Some("4")).unwrap();
        writing.page(&page(4..8), Some("8")).unwrap();
        drop(writing);
        let whole = fs::read(&part).unwrap();
        let mut cursors = std::collections::BTreeSet::new();
        for length in 0..=whole.len() {
            fs::write(&part, &whole[..length]).unwrap();
            let (mut writing, cursor) = Writing::begin(&path, false, NOW).unwrap();
            let from = cursor.as_deref().map_or(0, |cursor| cursor.parse().unwrap());
            cursors.insert(from);
            writing.page(&page(from..9), None).unwrap();
            writing.end().unwrap();
            assert_eq!(read(&path), page(0..9), "cut at {length}");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(cursors.into_iter().collect::<Vec<_>>(), [0, 4, 8]);
    }

    #[cfg(unix)]
    #[test]
    fn what_was_there_with_other_rights_becomes_its_owners_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (path, part) = (folder.path().join("export"), folder.path().join("export.part"));
        fs::write(&part, "").unwrap();
        fs::set_permissions(&part, fs::Permissions::from_mode(0o644)).unwrap();
        let (mut writing, _) = Writing::begin(&path, false, NOW).unwrap();
        assert_eq!(fs::metadata(&part).unwrap().permissions().mode() & 0o777, 0o600, "before any secret is in it");
        writing.page(&page(0..4), None).unwrap();
        writing.end().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_was_written_while_replicas_worked_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        let (mut writing, _) = Writing::begin(&path, true, NOW).unwrap();
        writing.page(&page(0..4), Some("4")).unwrap();
        drop(writing);
        assert!(matches!(Writing::begin(&path, false, NOW), Err(FileError::Otherwise(_))), "half of it is of another kind");
        let (writing, cursor) = Writing::begin(&path, true, NOW).unwrap();
        assert_eq!(cursor.as_deref(), Some("4"));
        writing.end().unwrap();
        assert!(Reading::open(&path).unwrap().is_online);
    }

    #[test]
    fn what_is_no_export_or_not_whole_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            Reading::open(&path).unwrap_err()
        };
        assert!(matches!(refused(""), FileError::Foreign(_)));
        assert!(matches!(refused("a letter\n"), FileError::Foreign(_)));
        assert!(matches!(refused("{\"denizen\":{\"form\":9,\"begunAt\":0}}\n"), FileError::Form { found: 9, .. }));
        assert!(matches!(refused("{\"denizen\":{\"form\":1,\"begunAt\":0}}\n"), FileError::NotWhole(_)));
        let text = "{\"denizen\":{\"form\":1,\"begunAt\":0}}\n{\"record\":{\"kind\":\"from-the-future\",\"id\":\"\",\"value\":\"\"}}\n{\"end\":{\"records\":1}}\n";
        fs::write(&path, text).unwrap();
        let error = Reading::open(&path).unwrap().page(9).unwrap_err().to_string();
        assert!(error.contains(":2:") && error.contains("newer"), "{error}");
        fs::write(folder.path().join("other.part"), "a letter\n").unwrap();
        assert!(matches!(Writing::begin(&folder.path().join("other"), false, NOW), Err(FileError::Foreign(_))), "it is not written over");
    }
}
