//! The store on Redis, which several replicas share: one server, or one that Sentinel watches over, or a Cluster.
//!
//! This file owns what a call is: which server it goes to, within what time, and when it is tried again. `redis/layout.rs` owns the names
//! of keys, `redis/scripts.rs` the scripts and their calls, `redis/lanes.rs` the writing, `redis/line.rs` one connection that is kept
//! up, `redis/node.rs` one primary, `redis/fault.rs` what an error means, `redis/scan.rs` the way through all records;
//! `redis/connecting.rs` how a server is reached, `redis/topology.rs` and `redis/nodes.rs` which servers are the primaries,
//! `redis/watch.rs` and `redis/message.rs` what replicas hear of each other, `redis/recent.rs` what a server may not take back.

mod connecting;
mod fault;
mod lanes;
mod layout;
mod line;
mod message;
mod node;
mod nodes;
mod recent;
mod report;
mod scan;
mod scripts;
mod topology;
mod watch;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{Cmd, FromRedisValue as _, Value, cmd};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep, timeout_at};

pub use self::{connecting::ConnectError, report::ServerReport};
use self::{
    connecting::Connecting, fault::Fault, lanes::Acknowledged, layout::Layout, message::Change, node::Node, nodes::Nodes, scripts::Done,
    topology::Topology, watch::Watch,
};
use super::{Batch, Bucket, Entry, Key, Kind, Limits, Listing, Mark, Outcome, Partition, Peers, Store, StoreError, record};
use crate::{config::RedisConfig, outage::Trouble};

/// For how long a call waits for a connection where there is none.
const PATIENCE: Duration = Duration::from_millis(300);
/// The pauses between tries of one call: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// The most records in one page of a listing.
const LISTING_MOST: usize = 1_000;
/// The fewest ids that are read at once for one.
const LISTING_LEAST: usize = 100;

/// The store on Redis.
pub struct Redis {
    layout: Layout,
    nodes: Nodes<Node>,
    watch: Arc<Watch>,
    deadline: Duration,
    trouble: Trouble,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redis")
    }
}

impl Redis {
    /// Connects. Where no server is reachable within the deadline, it is no fault: calls are unavailable until one is.
    ///
    /// # Errors
    /// When what is configured can not be used.
    pub async fn connect(config: &RedisConfig) -> Result<Self, ConnectError> {
        let connecting = Arc::new(Connecting::new(config)?);
        let deadline = connecting.deadline();
        let by = config.acknowledged_by();
        let acknowledged = (by > 0).then_some(Acknowledged { by, within: deadline / 2 });
        let layout = Layout::new(&config.prefix, config.database);
        let topology = Topology::new(config, Arc::clone(&connecting))?;
        let watch = Arc::new(Watch::new(layout.channel(), topology.has_sentinels(), acknowledged.is_none()));
        let reaching = Arc::clone(&connecting);
        let nodes = Nodes::start(topology, connecting, Arc::clone(&watch), move |address, again| {
            Arc::new(Node::start(address.clone(), &reaching, again, acknowledged))
        });
        let until = Instant::now() + deadline;
        while Instant::now() < until {
            let nodes = nodes.all();
            if !nodes.is_empty() && nodes.iter().all(|node| node.is_open()) {
                break;
            }
            sleep(PAUSES.0).await;
        }
        Ok(Self { layout, nodes, watch, deadline, trouble: Trouble::default() })
    }

    /// The other replicas.
    #[must_use]
    pub fn peers(&self) -> Arc<dyn Peers> {
        Arc::<Watch>::clone(&self.watch)
    }

    /// Asks the primary of a slot. What was surely not done is asked again, and a question that changes nothing (`is_question`) once more
    /// where its connection broke; until the deadline, and where there is no connection for [`PATIENCE`] only.
    async fn at<T, F>(&self, slot: u16, is_question: bool, ask: impl Fn(Arc<Node>) -> F + Send) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send,
    {
        self.at_until(slot, is_question, self.until(), ask).await
    }

    /// When a call that begins now ends at the latest.
    fn until(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// The same for one of several questions of a call, which end together.
    async fn at_until<T, F>(&self, slot: u16, is_question: bool, until: Instant, ask: impl Fn(Arc<Node>) -> F + Send) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let began = Instant::now();
        let (mut pause, longest) = PAUSES;
        let mut may_repeat = is_question;
        loop {
            let asked = match self.nodes.of(slot) {
                Some(node) => {
                    let asked_at = Instant::now();
                    timeout_at(until, ask(Arc::clone(&node))).await.unwrap_or_else(|_| {
                        // Not where it was given the last moments only.
                        if asked_at.elapsed() >= self.deadline / 2 {
                            node.is_silent();
                        }
                        Err(Fault::Unanswered(format!("not within {} ms", self.deadline.as_millis())))
                    })
                }
                None => {
                    let why = self.nodes.trouble();
                    Err(Fault::Unreachable(why.unwrap_or_else(|| "no server is known to be the primary".to_owned())))
                }
            };
            let fault = match asked {
                Ok(answer) => {
                    if let Some(calls) = self.trouble.end() {
                        tracing::warn!(calls, "the store is available again");
                    }
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            if fault.asks_to_resolve() {
                self.nodes.again();
            }
            let repeats = match fault {
                Fault::Unanswered(_) => std::mem::take(&mut may_repeat),
                _ => fault.is_surely_undone(),
            };
            let patience = if matches!(fault, Fault::Unreachable(_)) { (began + PATIENCE).min(until) } else { until };
            if !repeats || Instant::now() + pause >= patience {
                if self.trouble.meet(Instant::now()) {
                    tracing::error!(%fault, "the store is unavailable");
                }
                return Err(fault);
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Asks one question, which changes nothing.
    async fn question(&self, slot: u16, command: Cmd, until: Instant) -> Result<Value, Fault> {
        let command = Arc::new(command);
        self.at_until(slot, true, until, |node| {
            let command = Arc::clone(&command);
            async move { node.ask(&command).await }
        })
        .await
    }

    /// What is stored under some keys of one slot, seen at one moment.
    async fn stored(&self, slot: u16, keys: &[Vec<u8>], until: Instant) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        let floors: Vec<u64> = keys.iter().map(|key| self.floor(key)).collect();
        let mut command = cmd("MGET");
        command.arg(keys);
        let stored = Vec::<Option<Vec<u8>>>::from_redis_value(self.question(slot, command, until).await?).map_err(|_| no_such_answer())?;
        if stored.len() != keys.len() {
            return Err(no_such_answer());
        }
        Ok(floors.into_iter().zip(stored).map(|(floor, stored)| stored.filter(|stored| !self.has_come_back(floor, stored))).collect())
    }

    /// The lowest version of a record that the server has not lost, to be taken before it is asked.
    fn floor(&self, key: &[u8]) -> u64 {
        self.watch.recent().map_or(0, |recent| recent.floor(layout::told_as(key)))
    }

    /// Whether this is what the server lost a change of: it counts as absent.
    fn has_come_back(&self, floor: u64, stored: &[u8]) -> bool {
        let version = record::parts(stored).map_or(0, |(version, ..)| version);
        self.watch.recent().is_some_and(|recent| recent.is_lost(floor, version))
    }

    /// Until when each of these records is there; `None` for one that is not. Those of one partition are seen at one moment.
    async fn live_until(&self, keys: &[Key], now: i64) -> Result<Vec<Option<i64>>, Fault> {
        let mut partitions: Vec<&Partition> = keys.iter().map(Key::partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let (mut live, until) = (vec![None; keys.len()], self.until());
        for partition in partitions {
            let (places, names): (Vec<_>, Vec<_>) = keys
                .iter()
                .enumerate()
                .filter(|(_, key)| key.partition() == partition)
                .map(|(place, key)| (place, self.layout.record(key)))
                .unzip();
            let stored = self.stored(layout::slot(partition), &names, until).await?;
            for (place, stored) in places.into_iter().zip(stored) {
                if let Some(live) = live.get_mut(place) {
                    *live = stored.and_then(|stored| record::live_until(&stored, now));
                }
            }
        }
        Ok(live)
    }

    /// Carries a batch out that has keys, all of one partition.
    async fn carry_out(&self, batch: &Batch, partition: &Partition, now: OffsetDateTime) -> Result<Outcome, Fault> {
        let recent = self.watch.recent();
        let is_named = |kind: Kind| kind.is_watched() || recent.is_some() && !kind.may_be_lost();
        let Some(call) = scripts::commit(&self.layout, batch, now, is_named, |name| self.floor(name)) else {
            return Ok(Outcome::Committed);
        };
        let call = Arc::new(call);
        let must_be_kept = batch.changed().any(|key| !key.kind().may_be_lost());
        let done = self
            .at(layout::slot(partition), false, |node| {
                let call = Arc::clone(&call);
                async move { node.commit(call, must_be_kept).await }
            })
            .await;
        if !done.as_ref().is_ok_and(|done| done.outcome == Outcome::Conflict) {
            self.note(batch, done.as_ref().ok());
        }
        Ok(done?.outcome)
    }

    /// What this replica's own batch changed, or may have: known here before it is answered.
    fn note(&self, batch: &Batch, done: Option<&Done>) {
        let noted = |key: &Key, change: Option<Change>| {
            let digest = layout::told_as(&self.layout.record(key));
            if let (Some(recent), Some(change), false) = (self.watch.recent(), change, key.kind().may_be_lost()) {
                recent.note(digest, change);
            }
            self.watch.touch(&digest);
        };
        for key in &batch.delete {
            noted(key, done.map(|done| Change::Deleted(done.time)));
        }
        for ((key, ..), place) in batch.put.iter().zip(1..) {
            noted(key, done.map(|done| Change::Written(done.time.saturating_add(place))));
        }
    }

    async fn try_buckets(&self, buckets: &[Bucket], takes: bool, now: OffsetDateTime) -> Result<Result<(), time::Duration>, Fault> {
        let call = Arc::new(scripts::limits(&self.layout, buckets, takes, now));
        let asked = self.at(layout::slot_of_limits(), false, |node| {
            let call = Arc::clone(&call);
            async move {
                match node.ask(&call.command(false)).await {
                    Err(Fault::NoScript) => node.ask(&call.command(true)).await,
                    answer => answer,
                }
            }
        });
        scripts::taken(asked.await?)
    }
}

#[async_trait]
impl Store for Redis {
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError> {
        let name = self.layout.record(key);
        let floor = self.floor(&name);
        let mut command = cmd("GET");
        command.arg(name);
        let answer = self.question(layout::slot(key.partition()), command, self.until()).await?;
        let stored = Option::<Vec<u8>>::from_redis_value(answer).map_err(|_| no_such_answer())?;
        Ok(stored.filter(|stored| !self.has_come_back(floor, stored)).and_then(|stored| record::live(&stored, record::moment(now))))
    }

    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError> {
        Ok(self.live_until(keys, record::moment(now)).await?.iter().map(Option::is_some).collect())
    }

    async fn look(&self, keys: &[Key], now: OffsetDateTime) -> Result<(Vec<bool>, Option<Mark>), StoreError> {
        let digests: Vec<_> = keys.iter().map(|key| layout::told_as(&self.layout.record(key))).collect();
        // Before the look: what changes after this, the mark does not know.
        let counts = self.watch.before_look(&digests);
        let from = record::moment(now);
        let live = self.live_until(keys, from).await?;
        let until = live.iter().flatten().copied().min().unwrap_or(record::NEVER);
        let is_watched = keys.iter().all(|key| key.kind().is_watched());
        let mark = counts.filter(|_| is_watched).map(|counts| Mark { from, until, counts });
        Ok((live.iter().map(Option::is_some).collect(), mark))
    }

    fn is_as_seen(&self, mark: &Mark, now: OffsetDateTime) -> bool {
        (mark.from..mark.until).contains(&record::moment(now)) && self.watch.is_as_counted(&mark.counts)
    }

    async fn commit(&self, batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError> {
        let Some(partition) = batch.partition()? else { return Ok(Outcome::Committed) };
        Ok(self.carry_out(&batch, partition, now).await?)
    }

    async fn list(
        &self,
        partition: &Partition,
        kind: Kind,
        cursor: Option<&str>,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Listing, StoreError> {
        if !kind.is_listed() {
            return Err(StoreError::Unavailable(format!("records of {} are not listed", kind.as_str()).into()));
        }
        let (slot, index, limit) = (layout::slot(partition), self.layout.index(partition, kind), limit.clamp(1, LISTING_MOST));
        let now = record::moment(now);
        let mut listing = Listing::default();
        let (mut after, until) = (cursor.map(str::to_owned), self.until());
        // Some of them have expired, and are left in the index for a while.
        let ids_at_once = (limit + 1).max(LISTING_LEAST);
        loop {
            let mut command = cmd("ZRANGEBYLEX");
            command.arg(&index).arg(after.as_ref().map_or_else(|| "-".to_owned(), |id| format!("({id}"))).arg("+");
            command.arg("LIMIT").arg(0).arg(ids_at_once);
            let answer = self.question(slot, command, until).await?;
            let ids = Vec::<String>::from_redis_value(answer).map_err(|_| no_such_answer())?;
            let Some(last) = ids.last().cloned() else { return Ok(listing) };
            let is_end = ids.len() < ids_at_once;
            let names: Vec<_> = ids.iter().map(|id| self.layout.of(partition, kind, id)).collect();
            for (id, stored) in ids.into_iter().zip(self.stored(slot, &names, until).await?) {
                let Some(entry) = stored.and_then(|stored| record::live(&stored, now)) else { continue };
                if listing.entries.len() == limit {
                    listing.next = listing.entries.last().map(|(id, _)| id.clone());
                    return Ok(listing);
                }
                listing.entries.push((id, entry));
            }
            if is_end {
                return Ok(listing);
            }
            after = Some(last);
        }
    }

    /// Records leave by themselves.
    async fn sweep(&self, _now: OffsetDateTime, _limit: usize) -> Result<usize, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl Limits for Redis {
    async fn take(&self, buckets: &[Bucket], now: OffsetDateTime) -> Result<Result<(), time::Duration>, StoreError> {
        if buckets.is_empty() {
            return Ok(Ok(()));
        }
        Ok(self.try_buckets(buckets, true, now).await?)
    }

    async fn give_back(&self, buckets: &[Bucket], now: OffsetDateTime) -> Result<(), StoreError> {
        if buckets.is_empty() {
            return Ok(());
        }
        Ok(self.try_buckets(buckets, false, now).await.map(drop)?)
    }
}

fn no_such_answer() -> Fault {
    Fault::Unanswered("an answer of another form".to_owned())
}
