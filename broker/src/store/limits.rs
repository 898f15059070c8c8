//! Counts of what is done too often: buckets that refill with time. It owns what a bucket is, and the counts of a process that is
//! alone; on a shared store the counts hold across replicas. What is counted, and how often is too often, the use cases say.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use time::{Duration, OffsetDateTime};

use super::StoreError;

/// How large a bucket is, and how fast it refills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    burst: i32,
    each: Duration,
}

impl Rate {
    /// So many places, of which one comes free so often.
    #[must_use]
    pub fn new(burst: u32, each: Duration) -> Self {
        Self { burst: i32::try_from(burst).unwrap_or(i32::MAX).min(100_000), each }
    }

    /// The places.
    #[must_use]
    pub const fn burst(&self) -> i32 {
        self.burst
    }

    /// How often one comes free.
    #[must_use]
    pub const fn each(&self) -> Duration {
        self.each
    }

    /// Until when a bucket is paid once one more place of it is taken (the generic cell rate algorithm).
    ///
    /// # Errors
    /// How long to wait, where there is none.
    fn after(&self, paid_until: OffsetDateTime, now: OffsetDateTime) -> Result<OffsetDateTime, Duration> {
        let next = paid_until.max(now) + self.each;
        let wait = next - (now + self.each * self.burst);
        if wait.is_positive() { Err(wait) } else { Ok(next) }
    }
}

/// One bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// What is counted in it: no name, address or token as it is, for it may be kept outside.
    pub id: String,
    /// Its size.
    pub rate: Rate,
}

/// Counts over all replicas.
#[async_trait]
pub trait Limits: Send + Sync {
    /// Takes a place in each of these buckets, or in none.
    ///
    /// # Errors
    /// When it could not be told. The inner one: how long to wait, where one of them has no place.
    async fn take(&self, buckets: &[Bucket], now: OffsetDateTime) -> Result<Result<(), Duration>, StoreError>;

    /// Gives a place back in each of them.
    ///
    /// # Errors
    /// When it could not be told; then the places come free with time.
    async fn give_back(&self, buckets: &[Bucket], now: OffsetDateTime) -> Result<(), StoreError>;
}

/// The counts of a process that is alone.
#[derive(Debug, Default)]
pub struct InProcess(Mutex<HashMap<String, OffsetDateTime>>);

#[async_trait]
impl Limits for InProcess {
    async fn take(&self, buckets: &[Bucket], now: OffsetDateTime) -> Result<Result<(), Duration>, StoreError> {
        let mut paid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = |paid: &HashMap<String, OffsetDateTime>, bucket: &Bucket| paid.get(&bucket.id).copied().unwrap_or(now);
        let taken: Result<Vec<_>, _> = buckets.iter().map(|bucket| bucket.rate.after(until(&paid, bucket), now)).collect();
        Ok(taken.map(|taken| {
            for (bucket, next) in buckets.iter().zip(taken) {
                make_room(&mut paid, &bucket.id, now);
                paid.insert(bucket.id.clone(), next);
            }
        }))
    }

    async fn give_back(&self, buckets: &[Bucket], _now: OffsetDateTime) -> Result<(), StoreError> {
        let mut paid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for bucket in buckets {
            if let Some(until) = paid.get_mut(&bucket.id) {
                *until -= bucket.rate.each;
            }
        }
        Ok(())
    }
}

/// Buckets of one size by key, of this process alone, for what each replica bounds for itself.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    paid_until: Mutex<HashMap<K, OffsetDateTime>>,
    rate: Rate,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Buckets of this size, in which one place comes free so often.
    pub(crate) fn refilling(burst: u32, each: Duration) -> Self {
        Self { paid_until: Mutex::default(), rate: Rate::new(burst, each) }
    }

    /// Takes a place; where there is none, says how long to wait.
    pub(crate) fn take(&self, key: K, now: OffsetDateTime) -> Result<(), Duration> {
        let mut paid = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut paid, &key, now);
        let until = paid.entry(key).or_insert(now);
        *until = self.rate.after(*until, now)?;
        Ok(())
    }
}

/// The most keys that are counted. Beyond them those that are paid up are forgotten, then the ones nearest to it.
const MOST_KEYS: usize = 50_000;

fn make_room<K: Hash + Eq>(paid: &mut HashMap<K, OffsetDateTime>, key: &K, now: OffsetDateTime) {
    if paid.len() < MOST_KEYS || paid.contains_key(key) {
        return;
    }
    paid.retain(|_, until| *until > now);
    if paid.len() >= MOST_KEYS {
        let mut ends: Vec<_> = paid.values().copied().collect();
        let middle = ends.len() / 2;
        let (_, median, _) = ends.select_nth_unstable(middle);
        let median = *median;
        paid.retain(|_, until| *until > median);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    crate::limits_suite!(in_process, (Arc::new(InProcess::default()), ()));

    #[test]
    fn keys_are_bounded() {
        let buckets = Buckets::refilling(3, Duration::seconds(30));
        for i in 0..(MOST_KEYS * 2) {
            buckets.take(i, OffsetDateTime::UNIX_EPOCH).unwrap();
        }
        assert!(buckets.paid_until.lock().unwrap().len() <= MOST_KEYS);
    }
}
