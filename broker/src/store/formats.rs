//! The formats of stored values, so that a replica of the next version runs beside one of this.
//!
//! It owns the mark by which a value says its format, the steps from one format to the next, and the store around another one that goes
//! them. In which format is written, [`replicas`](crate::replicas) decides. What values mean, it does not know.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use super::{Batch, Entry, Key, Kind, Listing, Mark, Outcome, Partition, Store, StoreError};

/// The form that all stored values have at a time: a number, from 1 to 63, that grows where a version changes the form of a kind.
///
/// A value of a format after the first begins with a mark: one byte, 0x80 and the number. No text in UTF-8 begins with such a byte
/// (RFC 3629, 3), so that a value without one, as all stores before formats have them, is of the first. One of the first format that would
/// seem to be marked is marked, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Format(u8);

impl Format {
    /// The first one.
    pub const FIRST: Self = Self(1);
    const LAST: u8 = 63;
    const MARK: u8 = 0x80;

    /// The format of this number; of one outside 1 to 63, the nearest.
    #[must_use]
    pub const fn numbered(number: u8) -> Self {
        match number {
            0 => Self::FIRST,
            1..=Self::LAST => Self(number),
            _ => Self(Self::LAST),
        }
    }

    fn of_mark(byte: u8) -> Option<Self> {
        byte.checked_sub(Self::MARK).filter(|number| (1..=Self::LAST).contains(number)).map(Self)
    }

    /// Takes the mark off a value.
    fn taken_off(value: &mut Vec<u8>) -> Self {
        match value.first().copied().and_then(Self::of_mark) {
            None => Self::FIRST,
            Some(format) => {
                value.remove(0);
                format
            }
        }
    }

    /// Marks a value, where it needs it.
    fn put_on(self, value: &mut Vec<u8>) {
        if self > Self::FIRST || value.first().copied().and_then(Self::of_mark).is_some() {
            value.insert(0, Self::MARK | self.0);
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How a value becomes one of the next format, or of the one before; else why it can not, without anything of the value.
pub type Turn = fn(Value) -> Result<Value, &'static str>;

/// How the values of a kind, which are JSON, change from one format to the next.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The kind.
    pub kind: Kind,
    /// The format that the values have after it.
    pub to: Format,
    /// From the format before.
    pub up: Turn,
    /// Back to the format before. It may lose nothing that a replica of the version before needs.
    pub down: Turn,
}

/// What a version knows of stored values.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// Its name.
    pub version: &'static str,
    /// All steps up to the newest format that it reads, in their order. A step stays for as long as values of the format before it may be
    /// stored.
    pub steps: &'static [Step],
    /// What lies between the use cases and the store. Nothing does; a test that changes a form puts what the use cases do not know here.
    pub around: fn(Arc<dyn Store>) -> Arc<dyn Store>,
}

impl Release {
    /// This version.
    pub const THIS: Self = Self { version: env!("CARGO_PKG_VERSION"), steps: &[], around: |store| store };

    /// The newest format that it reads.
    #[must_use]
    pub fn reads(&self) -> Format {
        self.steps.iter().map(|step| step.to).max().unwrap_or(Format::FIRST)
    }
}

/// A store around another one: above it all values have the newest format, below it each says which it has.
pub struct Versioned {
    store: Arc<dyn Store>,
    steps: &'static [Step],
    reads: Format,
    /// The number of the format in which it writes. It only grows.
    writes: AtomicU8,
    /// The number of the format in which others write, where this program does not read it; else 0.
    left_behind_by: AtomicU8,
}

impl fmt::Debug for Versioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versioned").field("reads", &self.reads).field("writes", &self.writes()).finish_non_exhaustive()
    }
}

impl Versioned {
    /// As a version knows it. It writes in the first format, until it is told of another one.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, release: &Release) -> Self {
        let writes = AtomicU8::new(Format::FIRST.0);
        Self { store, steps: release.steps, reads: release.reads(), writes, left_behind_by: AtomicU8::new(0) }
    }

    /// The newest format that it reads.
    #[must_use]
    pub const fn reads(&self) -> Format {
        self.reads
    }

    /// The format in which it writes.
    #[must_use]
    pub fn writes(&self) -> Format {
        Format(self.writes.load(Ordering::Relaxed))
    }

    /// From now on it writes in this format, or stays with a newer one. Whether it did so before. Where it can not read it, it answers
    /// nothing any more: what it does not understand, it must not change either.
    pub fn write_in(&self, format: Format) -> bool {
        if format > self.reads {
            return self.left_behind_by.swap(format.0, Ordering::Relaxed) == format.0;
        }
        self.writes.fetch_max(format.0, Ordering::Relaxed) >= format.0
    }

    /// Whether others write in a format that it does not read.
    #[must_use]
    pub fn is_left_behind(&self) -> bool {
        self.is_in_time().is_err()
    }

    fn is_in_time(&self) -> Result<(), StoreError> {
        match self.left_behind_by.load(Ordering::Relaxed) {
            0 => Ok(()),
            found => Err(StoreError::Newer { found: Format(found), reads: self.reads }),
        }
    }

    /// What is above for what is below.
    fn read(&self, kind: Kind, mut entry: Entry) -> Result<Entry, StoreError> {
        if kind.has_one_form() {
            return Ok(entry);
        }
        let found = Format::taken_off(&mut entry.value);
        if found > self.reads {
            return Err(StoreError::Newer { found, reads: self.reads });
        }
        let steps = self.steps.iter().filter(|step| step.kind == kind && step.to > found);
        turned(&mut entry.value, kind, steps.map(|step| step.up))?;
        Ok(entry)
    }

    /// What is below for what is above.
    fn write(&self, kind: Kind, value: &mut Vec<u8>, format: Format) -> Result<(), StoreError> {
        if kind.has_one_form() {
            return Ok(());
        }
        let steps = self.steps.iter().rev().filter(|step| step.kind == kind && step.to > format);
        turned(value, kind, steps.map(|step| step.down))?;
        format.put_on(value);
        Ok(())
    }
}

/// A value after these turns. One that is no JSON was broken before, and stays as it is.
fn turned(value: &mut Vec<u8>, kind: Kind, turns: impl Iterator<Item = Turn>) -> Result<(), StoreError> {
    let mut turns = turns.peekable();
    if turns.peek().is_none() {
        return Ok(());
    }
    let Ok(json) = serde_json::from_slice(value) else { return Ok(()) };
    let failed = |why| StoreError::Unavailable(format!("a {} can not be brought to another format: {why}", kind.as_str()).into());
    let json: Value = turns.try_fold(json, |json, turn| turn(json)).map_err(failed)?;
    *value = serde_json::to_vec(&json).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    Ok(())
}

#[async_trait]
impl Store for Versioned {
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError> {
        self.is_in_time()?;
        let entry = self.store.get(key, now).await?;
        entry.map(|entry| self.read(key.kind(), entry)).transpose()
    }

    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError> {
        self.is_in_time()?;
        self.store.present(keys, now).await
    }

    async fn look(&self, keys: &[Key], now: OffsetDateTime) -> Result<(Vec<bool>, Option<Mark>), StoreError> {
        self.is_in_time()?;
        self.store.look(keys, now).await
    }

    fn is_as_seen(&self, mark: &Mark, now: OffsetDateTime) -> bool {
        self.is_in_time().is_ok() && self.store.is_as_seen(mark, now)
    }

    async fn commit(&self, mut batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        self.is_in_time()?;
        let format = self.writes();
        for (key, value) in batch.written() {
            self.write(key.kind(), value, format)?;
        }
        self.store.commit(batch, now).await
    }

    async fn list(
        &self,
        partition: &Partition,
        kind: Kind,
        cursor: Option<&str>,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Listing, StoreError> {
        self.is_in_time()?;
        let Listing { entries, next } = self.store.list(partition, kind, cursor, limit, now).await?;
        let entries = entries.into_iter().map(|(id, entry)| self.read(kind, entry).map(|entry| (id, entry)));
        Ok(Listing { entries: entries.collect::<Result<_, _>>()?, next })
    }

    async fn sweep(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.store.sweep(now, limit).await
    }
}

#[cfg(test)]
mod tests {
    use claims_mapping::TenantId;
    use serde_json::json;

    use super::*;
    use crate::store::{conformance::Fresh, embedded::Embedded};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    /// `list` becomes `text` with 2, and `text` becomes `words` with 3.
    static STEPS: [Step; 2] = [
        Step { kind: Kind::Grant, to: Format::numbered(2), up: |v| renamed(v, "list", "text"), down: |v| renamed(v, "text", "list") },
        Step { kind: Kind::Grant, to: Format::numbered(3), up: |v| renamed(v, "text", "words"), down: |v| renamed(v, "words", "text") },
    ];

    fn renamed(mut value: Value, from: &str, to: &str) -> Result<Value, &'static str> {
        let object = value.as_object_mut().ok_or("it is no object")?;
        let part = object.remove(from).ok_or("a part is missing")?;
        object.insert(to.to_owned(), part);
        Ok(value)
    }

    fn of(store: &Arc<dyn Store>, steps: &'static [Step]) -> Versioned {
        Versioned::new(Arc::clone(store), &Release { steps, ..Release::THIS })
    }

    fn key(kind: Kind) -> Key {
        Key::new(&TenantId::parse("acme").unwrap(), kind, "1")
    }

    async fn put(store: &dyn Store, key: &Key, value: impl Into<Vec<u8>>) {
        store.commit(Batch::new().put(key.clone(), value.into(), None), NOW).await.unwrap();
    }

    async fn got(store: &dyn Store, key: &Key) -> Vec<u8> {
        store.get(key, NOW).await.unwrap().unwrap().value
    }

    async fn json(store: &dyn Store, key: &Key) -> Value {
        serde_json::from_slice(&got(store, key).await).unwrap()
    }

    fn store() -> Arc<dyn Store> {
        Arc::new(Embedded::in_memory().unwrap())
    }

    async fn around(steps: &'static [Step], writes: u8) -> Arc<dyn Store> {
        let versioned = of(&store(), steps);
        versioned.write_in(Format::numbered(writes));
        Arc::new(versioned)
    }

    crate::store_suite!(in_the_first_format, Fresh::new(|| Box::pin(around(&[], 1))));
    crate::store_suite!(between_formats, Fresh::new(|| Box::pin(around(&STEPS, 1))));
    crate::store_suite!(in_a_later_format, Fresh::new(|| Box::pin(around(&STEPS, 3))));

    #[tokio::test]
    async fn the_first_format_is_what_stores_have_held_before() {
        let (bare, key) = (store(), key(Kind::Grant));
        let versioned = of(&bare, &[]);
        for value in [&b"{\"a\":1}"[..], b"[]", b"\"text\"", b"", "é".as_bytes(), "acme".as_bytes(), b"\x80", b"\xc0"] {
            put(&*bare, &key, value).await;
            assert_eq!(got(&versioned, &key).await, value, "it is read");
            put(&versioned, &key, value).await;
            assert_eq!(got(&*bare, &key).await, value, "and written so: whoever goes back reads it");
        }
    }

    #[tokio::test]
    async fn bytes_that_would_seem_marked_are_no_format() {
        let (bare, grant) = (store(), key(Kind::Grant));
        let versioned = of(&bare, &[]);
        for first in 0..=u8::MAX {
            put(&versioned, &grant, vec![first, 1]).await;
            assert_eq!(got(&versioned, &grant).await, [first, 1]);
            for kind in Kind::ALL.into_iter().filter(|kind| kind.has_one_form()) {
                put(&*bare, &key(kind), vec![first, 2]).await;
                assert_eq!(got(&versioned, &key(kind)).await, [first, 2], "a key's own bytes");
                put(&versioned, &key(kind), vec![first, 3]).await;
                assert_eq!(got(&*bare, &key(kind)).await, [first, 3]);
            }
        }
    }

    #[tokio::test]
    async fn steps_lead_up_at_reading_and_down_at_writing() {
        let (bare, key) = (store(), key(Kind::Grant));
        let (one, two, three) = (of(&bare, &[]), of(&bare, &STEPS[..1]), of(&bare, &STEPS));
        let forms = [json!({"list": 1, "k": 2}), json!({"text": 1, "k": 2}), json!({"words": 1, "k": 2})];
        // As long as the first format is written, all understand each other.
        for (writer, form) in [(&one, &forms[0]), (&two, &forms[1]), (&three, &forms[2])] {
            put(writer, &key, form.to_string()).await;
            assert_eq!(json(&*bare, &key).await, forms[0]);
            assert_eq!(
                (json(&one, &key).await, json(&two, &key).await, json(&three, &key).await),
                (forms[0].clone(), forms[1].clone(), forms[2].clone())
            );
        }
        three.write_in(Format::numbered(2));
        put(&three, &key, forms[2].to_string()).await;
        let stored = got(&*bare, &key).await;
        assert_eq!((stored[0], serde_json::from_slice::<Value>(&stored[1..]).unwrap()), (0x82, forms[1].clone()));
        assert_eq!((json(&two, &key).await, json(&three, &key).await), (forms[1].clone(), forms[2].clone()));
        three.write_in(Format::numbered(3));
        three.write_in(Format::FIRST);
        assert_eq!(three.writes(), Format::numbered(3), "it never goes back");
        put(&three, &key, forms[2].to_string()).await;
        assert_eq!(got(&*bare, &key).await[0], 0x83);
        assert_eq!(json(&three, &key).await, forms[2]);
    }

    #[tokio::test]
    async fn what_a_newer_version_wrote_is_neither_there_nor_not_there() {
        let bare = store();
        let (old, next) = (of(&bare, &STEPS[..1]), of(&bare, &STEPS));
        next.write_in(Format::numbered(3));
        // Also kinds that no step changes: what the newer version means by them is not known either.
        for kind in [Kind::Grant, Kind::Session, Kind::RevokedToken, Kind::Person] {
            put(&next, &key(kind), r#"{"words": 1}"#).await;
            let newer =
                |error| matches!(error, StoreError::Newer { found, reads } if (found, reads) == (Format::numbered(3), Format::numbered(2)));
            assert!(newer(old.get(&key(kind), NOW).await.unwrap_err()));
            assert!(newer(old.list(key(kind).partition(), kind, None, 10, NOW).await.unwrap_err()));
        }
    }

    #[tokio::test]
    async fn who_is_left_behind_answers_nothing() {
        let bare = store();
        let (old, key) = (of(&bare, &[]), key(Kind::Session));
        put(&old, &key, "{}").await;
        let (_, mark) = old.look(std::slice::from_ref(&key), NOW).await.unwrap();
        assert!(!old.write_in(Format::numbered(2)));
        assert!(old.write_in(Format::numbered(2)), "it is known already");
        let newer = |error| matches!(error, StoreError::Newer { .. });
        assert!(newer(old.get(&key, NOW).await.unwrap_err()));
        assert!(newer(old.present(std::slice::from_ref(&key), NOW).await.unwrap_err()));
        assert!(newer(old.look(std::slice::from_ref(&key), NOW).await.unwrap_err()));
        assert!(newer(old.list(key.partition(), Kind::Session, None, 1, NOW).await.unwrap_err()));
        assert!(newer(old.commit(Batch::new().delete(key.clone()), NOW).await.unwrap_err()));
        assert!(!old.is_as_seen(&mark.unwrap(), NOW));
        assert_eq!(got(&*bare, &key).await, b"{}");
    }

    #[tokio::test]
    async fn a_value_that_a_step_can_not_take_could_not_be_told() {
        let (bare, key) = (store(), key(Kind::Grant));
        let versioned = of(&bare, &STEPS);
        put(&*bare, &key, r#"{"other": "secret"}"#).await;
        let error = versioned.get(&key, NOW).await.unwrap_err().to_string();
        assert!(error.contains("a part is missing") && !error.contains("secret"), "{error}");
        assert!(versioned.commit(Batch::new().put(key.clone(), b"{}".to_vec(), None), NOW).await.is_err(), "nothing half is written");
        put(&*bare, &key, "no JSON").await;
        assert_eq!(got(&versioned, &key).await, b"no JSON", "what was broken is left to whoever reads it");
    }

    #[test]
    fn formats_stay_within_a_mark() {
        assert_eq!([0, 1, 63, 64, 255].map(Format::numbered), [1, 1, 63, 63, 63].map(Format));
        assert_eq!(Release::THIS.reads(), Format::FIRST);
        assert!(Release::THIS.steps.is_sorted_by_key(|step| step.to));
    }
}
