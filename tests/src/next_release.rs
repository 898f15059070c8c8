//! The next version of Denizen: this one, and one change of a stored form. It is what `broker/README.md`, "Changing a stored form", takes
//! for its example.
//!
//! From format 2 on, a family of refresh tokens has its scopes as one text, `scope`, and no list `scopes`. In a version of its own the use
//! cases would know that; those of this program do not, so that `Knowing` stands between them and the store.

use std::sync::Arc;

use async_trait::async_trait;
use denizen::store::{Batch, Entry, Format, Key, Kind, Listing, Mark, Outcome, Partition, Release, Step, Store, StoreError};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// What the next version knows.
pub static NEXT: Release = Release {
    version: "0.2.0-next",
    steps: &[Step { kind: Kind::Grant, to: Format::numbered(2), up: to_text, down: to_list }],
    around: |store| Arc::new(Knowing(store)),
};

fn to_text(mut family: Value) -> Result<Value, &'static str> {
    let object = family.as_object_mut().ok_or("a family is no object")?;
    let scopes = object.remove("scopes").ok_or("a family has no scopes")?;
    let scopes: Vec<_> = scopes.as_array().ok_or("its scopes are no list")?.iter().filter_map(Value::as_str).collect();
    object.insert("scope".to_owned(), scopes.join(" ").into());
    Ok(family)
}

fn to_list(mut family: Value) -> Result<Value, &'static str> {
    let object = family.as_object_mut().ok_or("a family is no object")?;
    let scope = object.remove("scope").ok_or("a family has no scope")?;
    let scopes: Vec<_> = scope.as_str().ok_or("its scope is no text")?.split_whitespace().collect();
    object.insert("scopes".to_owned(), json!(scopes));
    Ok(family)
}

/// The use cases of the next version, as far as they differ: they read and write families with a text.
struct Knowing(Arc<dyn Store>);

fn changed(kind: Kind, value: &mut Vec<u8>, change: fn(Value) -> Result<Value, &'static str>) -> Result<(), StoreError> {
    if kind == Kind::Grant {
        let unread = |why: &str| StoreError::Unavailable(format!("the next version does not know this family: {why}").into());
        let family = serde_json::from_slice(value).map_err(|_| unread("it is no JSON"))?;
        *value = change(family).map_err(unread)?.to_string().into_bytes();
    }
    Ok(())
}

#[async_trait]
impl Store for Knowing {
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError> {
        let mut entry = self.0.get(key, now).await?;
        entry.iter_mut().try_for_each(|entry| changed(key.kind(), &mut entry.value, to_list))?;
        Ok(entry)
    }
    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError> {
        self.0.present(keys, now).await
    }
    async fn look(&self, keys: &[Key], now: OffsetDateTime) -> Result<(Vec<bool>, Option<Mark>), StoreError> {
        self.0.look(keys, now).await
    }
    fn is_as_seen(&self, mark: &Mark, now: OffsetDateTime) -> bool {
        self.0.is_as_seen(mark, now)
    }
    async fn commit(&self, mut batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        batch.written().try_for_each(|(key, value)| changed(key.kind(), value, to_text))?;
        self.0.commit(batch, now).await
    }
    async fn list(
        &self,
        partition: &Partition,
        kind: Kind,
        cursor: Option<&str>,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Listing, StoreError> {
        let mut listing = self.0.list(partition, kind, cursor, limit, now).await?;
        listing.entries.iter_mut().try_for_each(|(_, entry)| changed(kind, &mut entry.value, to_list))?;
        Ok(listing)
    }
    async fn sweep(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        self.0.sweep(now, limit).await
    }
}
