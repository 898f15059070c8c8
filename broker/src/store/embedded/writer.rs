//! The one thread that writes. Batches that wait are carried out in one transaction, each by itself: the expectations of
//! each are held against what the ones before it left. No answer goes out before the transaction is committed.

use std::{
    error::Error,
    iter,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, Table};
use tokio::sync::{mpsc, oneshot};

use super::{layout, unavailable};
use crate::store::{
    Batch, Expect, Outcome, StoreError,
    changes::{Changes, Touched},
};

/// The most batches in one transaction.
const GROUP: usize = 256;
/// The most batches that wait before callers do.
const QUEUE: usize = 1_024;
/// For how long a transaction waits while more of them come.
const GATHERED_FOR: Duration = Duration::from_millis(2);

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

enum Job {
    Commit(Batch, i64, Answer<Outcome>),
    Sweep(i64, usize, Answer<usize>),
}

/// The way to the thread. When it is dropped, what was queued is finished first.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        database: Arc<Database>,
        changes: Arc<Changes>,
        durability: Durability,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let transaction = database.begin_read()?;
        let last = transaction.open_table(layout::META)?.get(layout::META_VERSION)?.map_or(0, |version| version.value());
        drop(transaction);
        let state = State { database, changes, durability, version: last };
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || state.run(jobs))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) async fn commit(&self, batch: Batch, now: i64) -> Result<Outcome, StoreError> {
        self.ask(|answer| Job::Commit(batch, now, answer)).await
    }

    pub(super) async fn sweep(&self, now: i64, limit: usize) -> Result<usize, StoreError> {
        self.ask(|answer| Job::Sweep(now, limit, answer)).await
    }

    async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(|| unavailable("the store is closed"))?;
        queue.send(job(answer)).await.map_err(|_| unavailable("the store's writer has ended"))?;
        answered.await.map_err(|_| unavailable("the store's writer has ended"))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the writer has been reported by its thread.
            let _ = thread.join();
        }
    }
}

/// What a job came to; kept until the transaction is committed.
enum Done {
    Commit(Outcome),
    Sweep(usize),
}

impl Job {
    /// Tells the caller. One that waits no longer is no fault.
    fn answer(self, done: Done) {
        match (self, done) {
            (Self::Commit(_, _, answer), Done::Commit(outcome)) => drop(answer.send(Ok(outcome))),
            (Self::Sweep(_, _, answer), Done::Sweep(swept)) => drop(answer.send(Ok(swept))),
            (job, _) => job.refuse("the answer is of another job"),
        }
    }

    fn refuse(self, reason: &str) {
        match self {
            Self::Commit(_, _, answer) => drop(answer.send(Err(unavailable(reason)))),
            Self::Sweep(_, _, answer) => drop(answer.send(Err(unavailable(reason)))),
        }
    }
}

/// Lets those who are about to write come first, where they wait for this very core: it is given away for as long as that brings more.
/// Where there is a core to spare, or nobody comes, it is back at once. The faster the disk, the fewer would come by themselves while
/// a transaction is under way, and each transaction has its price.
fn gather(jobs: &mut mpsc::Receiver<Job>, group: &mut Vec<Job>) {
    let begun = Instant::now();
    let mut before = 0;
    while before < group.len() && group.len() < GROUP && begun.elapsed() < GATHERED_FOR {
        before = group.len();
        thread::yield_now();
        group.extend(iter::from_fn(|| jobs.try_recv().ok()).take(GROUP - before));
    }
}

struct State {
    database: Arc<Database>,
    changes: Arc<Changes>,
    durability: Durability,
    /// The version that was given last. It only grows, also where a transaction fails.
    version: u64,
}

impl State {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut group = Vec::with_capacity(GROUP);
        while jobs.blocking_recv_many(&mut group, GROUP) > 0 {
            gather(&mut jobs, &mut group);
            match self.carry_out(&group) {
                Ok(done) => group.drain(..).zip(done).for_each(|(job, done)| job.answer(done)),
                Err(error) => {
                    tracing::error!(error = %error, "the store can not write");
                    let reason = error.to_string();
                    group.drain(..).for_each(|job| job.refuse(&reason));
                }
            }
        }
    }

    /// One transaction for the whole group. After an error none of the group may be taken for done.
    fn carry_out(&mut self, group: &[Job]) -> Result<Vec<Done>, redb::Error> {
        // Dropped last, when the transaction has ended; and before any answer.
        let mut touched = Touched::none(&self.changes);
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let before = self.version;
        let mut changed = false;
        let mut done = Vec::with_capacity(group.len());
        {
            let mut tables = Tables {
                records: transaction.open_table(layout::RECORDS)?,
                expiries: transaction.open_table(layout::EXPIRIES)?,
                touched: &mut touched,
            };
            for job in group {
                done.push(match job {
                    Job::Commit(batch, now, _) => {
                        let outcome = tables.commit(batch, *now, &mut self.version)?;
                        changed |= outcome == Outcome::Committed && !(batch.put.is_empty() && batch.delete.is_empty());
                        Done::Commit(outcome)
                    }
                    Job::Sweep(now, limit, _) => {
                        let swept = tables.sweep(*now, *limit)?;
                        changed |= swept > 0;
                        Done::Sweep(swept)
                    }
                });
            }
        }
        if !changed {
            transaction.abort()?;
            return Ok(done);
        }
        if self.version != before {
            transaction.open_table(layout::META)?.insert(layout::META_VERSION, self.version)?;
        }
        transaction.commit()?;
        Ok(done)
    }
}

struct Tables<'t, 'c> {
    records: Table<'t, &'static [u8], &'static [u8]>,
    expiries: Table<'t, (i64, &'static [u8]), ()>,
    touched: &'t mut Touched<'c>,
}

impl Tables<'_, '_> {
    fn commit(&mut self, batch: &Batch, now: i64, version: &mut u64) -> Result<Outcome, redb::Error> {
        for (key, expect) in &batch.expect {
            let stored = self.records.get(layout::key(key).as_slice())?;
            let found = stored.as_ref().and_then(|stored| layout::parts(stored.value())).filter(|(_, expires_at, _)| now < *expires_at);
            let holds = match expect {
                Expect::Absent => found.is_none(),
                Expect::Present => found.is_some(),
                Expect::Version(expected) => found.is_some_and(|(version, ..)| version == *expected),
            };
            if !holds {
                return Ok(Outcome::Conflict);
            }
        }
        for key in &batch.delete {
            self.remove(&layout::key(key))?;
        }
        for (key, value, expires_at) in &batch.put {
            *version += 1;
            self.put(&layout::key(key), *version, expires_at.map_or(layout::NEVER, layout::moment), value)?;
        }
        Ok(Outcome::Committed)
    }

    fn put(&mut self, key: &[u8], version: u64, expires_at: i64, value: &[u8]) -> Result<(), redb::Error> {
        self.touched.add(key);
        let stored = layout::value(version, expires_at, value);
        let old = self.records.insert(key, stored.as_slice())?.and_then(|old| layout::parts(old.value()).map(|(_, expiry, _)| expiry));
        if old == Some(expires_at) {
            return Ok(());
        }
        self.forget_expiry(key, old)?;
        if expires_at != layout::NEVER {
            self.expiries.insert((expires_at, key), ())?;
        }
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), redb::Error> {
        self.touched.add(key);
        let old = self.records.remove(key)?.and_then(|old| layout::parts(old.value()).map(|(_, expiry, _)| expiry));
        self.forget_expiry(key, old)
    }

    fn forget_expiry(&mut self, key: &[u8], old: Option<i64>) -> Result<(), redb::Error> {
        if let Some(old) = old.filter(|old| *old != layout::NEVER) {
            self.expiries.remove((old, key))?;
        }
        Ok(())
    }

    /// Walks the expiries from the earliest on. A record counts only if it says itself that it has expired.
    fn sweep(&mut self, now: i64, limit: usize) -> Result<usize, redb::Error> {
        let mut due = Vec::new();
        for entry in self.expiries.iter()?.take(limit) {
            let (entry, ()) = entry.map(|(key, value)| (key, value.value()))?;
            let (expires_at, key) = entry.value();
            if now < expires_at {
                break;
            }
            due.push((expires_at, key.to_vec()));
        }
        let mut swept = 0;
        for (expires_at, key) in due {
            self.expiries.remove((expires_at, key.as_slice()))?;
            let expired =
                self.records.get(key.as_slice())?.and_then(|stored| layout::parts(stored.value()).map(|(_, expiry, _)| expiry <= now));
            if expired == Some(true) {
                self.touched.add(&key);
                self.records.remove(key.as_slice())?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_meanwhile_is_gathered_in_its_order_and_no_more_than_fits() {
        let (queue, mut jobs) = mpsc::channel(QUEUE);
        let sweep = |limit| Job::Sweep(0, limit, oneshot::channel().0);
        let mut group = vec![sweep(0)];
        gather(&mut jobs, &mut group);
        assert_eq!(group.len(), 1, "nobody came");
        (1..=GROUP + 10).for_each(|n| queue.try_send(sweep(n)).ok().unwrap());
        gather(&mut jobs, &mut group);
        let came = group.iter().map(|job| if let Job::Sweep(_, n, _) = job { *n } else { usize::MAX });
        assert!(came.eq(0..GROUP), "the others are of the next transaction");
        assert_eq!(jobs.len(), 11);
    }
}
