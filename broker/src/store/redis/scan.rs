//! The way through all records: `SCAN` at one primary after the other, in the order of their lowest slots.
//!
//! A cursor of `SCAN` means something to the one server process that gave it. So ours names the process; where another answers (after a
//! failover, or a restart) its part begins once more. Slots that are moved between servers meanwhile may be missed.

use std::sync::Arc;

use async_trait::async_trait;
use redis::{FromRedisValue as _, Value};

use super::{Redis, fault::Fault, layout::SLOTS, no_such_answer, node::Node};
use crate::store::{Kept, Scan, Scanned, StoreError, record};

/// Where a scan stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    /// The lowest slot of the primary.
    slot: u16,
    /// Which process it was, and its own cursor; `None` at the beginning of its part.
    at: Option<(String, u64)>,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let slot = parts.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        let at = match parts.next() {
            None => None,
            Some(process) => Some((process.to_owned(), parts.next()?.parse().ok()?)),
        };
        parts.next().is_none().then_some(Self { slot, at })
    }

    fn text(&self) -> String {
        match &self.at {
            None => self.slot.to_string(),
            Some((process, at)) => format!("{}/{process}/{at}", self.slot),
        }
    }
}

#[async_trait]
impl Scan for Redis {
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, StoreError> {
        let Some(cursor) = cursor.map_or(Some(Cursor { slot: 0, at: None }), Cursor::parse) else {
            return Err(StoreError::Unavailable("the cursor is none of this store".into()));
        };
        let scanned = self
            .at(cursor.slot, true, |node| {
                let cursor = cursor.clone();
                async move {
                    let (records, at) = self.part(&node, cursor.at, limit.clamp(1, 1_000)).await?;
                    let next = at.map(|at| Cursor { slot: cursor.slot, at: Some(at) }).or_else(|| self.after(cursor.slot));
                    Ok(Scanned { records, next: next.map(|next| next.text()) })
                }
            })
            .await?;
        Ok(scanned)
    }
}

impl Redis {
    /// Some records of one primary, and where to go on in it.
    async fn part(&self, node: &Node, at: Option<(String, u64)>, limit: usize) -> Result<(Vec<Kept>, Option<(String, u64)>), Fault> {
        let process = process(node).await?;
        let from = at.filter(|(before, _)| *before == process).map_or(0, |(_, at)| at);
        let mut scan = redis::cmd("SCAN");
        scan.arg(from).arg("MATCH").arg(self.layout.pattern()).arg("COUNT").arg(limit).arg("TYPE").arg("string");
        let (next, names) = <(u64, Vec<Vec<u8>>)>::from_redis_value(node.ask(&scan).await?).map_err(|_| no_such_answer())?;
        let (keys, names): (Vec<_>, Vec<_>) = names.into_iter().filter_map(|name| Some((self.layout.parse(&name)?, name))).unzip();
        let mut records = Vec::with_capacity(keys.len());
        if !names.is_empty() {
            // Not one MGET: they are in several slots.
            let mut pipe = redis::pipe();
            for name in &names {
                pipe.cmd("GET").arg(name);
            }
            for ((key, name), stored) in keys.into_iter().zip(names).zip(node.ask_all(&pipe).await?) {
                let Value::BulkString(stored) = stored else { continue };
                if self.has_come_back(&name, &stored) {
                    continue;
                }
                let Some((version, expires_at, value)) = record::parts(&stored) else { continue };
                records.push(Kept { key, value: value.to_vec(), expires_at: record::expiry(expires_at), version });
            }
        }
        Ok((records, (next != 0).then_some((process, next))))
    }

    /// The beginning of the next primary's part, after the one that begins with this slot.
    fn after(&self, slot: u16) -> Option<Cursor> {
        let mut seen: Vec<Arc<Node>> = (0..=slot).filter_map(|slot| self.nodes.of(slot)).collect();
        seen.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let is_new = |node: &Arc<Node>| !seen.iter().any(|known| known.address() == node.address());
        // One that no primary is known of is not passed over: whoever asks there waits for it, or hears that the store is unavailable.
        (slot + 1..SLOTS).find(|slot| self.nodes.of(*slot).is_none_or(|node| is_new(&node))).map(|slot| Cursor { slot, at: None })
    }
}

/// Which process a server is: another after each start.
async fn process(node: &Node) -> Result<String, Fault> {
    let mut info = redis::cmd("INFO");
    info.arg("server");
    let text = String::from_redis_value(node.ask(&info).await?).map_err(|_| no_such_answer())?;
    text.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::to_owned).ok_or_else(no_such_answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_were_written() {
        for cursor in [Cursor { slot: 0, at: None }, Cursor { slot: 16_383, at: Some(("abc".to_owned(), u64::MAX)) }] {
            assert_eq!(Cursor::parse(&cursor.text()), Some(cursor));
        }
        for broken in ["", "x", "16384", "1/a", "1/a/b", "1/a/1/1"] {
            assert_eq!(Cursor::parse(broken), None, "{broken}");
        }
    }
}
