//! A document of a provider's that is kept: fetched when it is first needed, fetched again ahead of its end by one task at a
//! time, and at a bounded rate, and kept in use while the provider is down.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwapOption;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use time::{Duration, OffsetDateTime};

use crate::ConnectorError;

/// How one kind of document is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// The least time between two fetches.
    pub(super) pause: Duration,
    /// For how long a document is used after the last fetch that worked, at most; `None` for as long as nothing newer is had.
    pub(super) afterlife: Option<Duration>,
}

/// What a fetch gives: the document, and for how long it is good.
pub(super) type Fetched<T> = Result<(T, Duration), ConnectorError>;
/// A fetch that has not begun.
pub(super) type Fetch<T> = BoxFuture<'static, Fetched<T>>;

type Flight<T> = Shared<BoxFuture<'static, Result<Arc<T>, ConnectorError>>>;

/// A document, and what is known of its fetches.
pub(super) struct Kept<T> {
    rules: Rules,
    /// What spreads the refreshes of many connectors over time.
    seed: u64,
    held: ArcSwapOption<Held<T>>,
    course: Mutex<Course<T>>,
}

struct Held<T> {
    value: Arc<T>,
    fetched_at: OffsetDateTime,
    refresh_at: OffsetDateTime,
    ends_at: OffsetDateTime,
}

struct Course<T> {
    /// The fetch that is under way.
    flight: Option<Flight<T>>,
    /// When the last one began.
    began_at: Option<OffsetDateTime>,
    /// Why the last one gave nothing.
    failure: Option<ConnectorError>,
}

/// Where a caller finds the document.
enum Way<T> {
    Here(Arc<T>),
    Failed(ConnectorError),
    /// Under way: the one that is still good meanwhile, if any.
    Coming(Flight<T>, Option<Arc<T>>),
}

impl<T: Send + Sync + 'static> Kept<T> {
    pub(super) fn new(rules: Rules, name: &str) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let course = Mutex::new(Course { flight: None, began_at: None, failure: None });
        Arc::new(Self { rules, seed: hasher.finish(), held: ArcSwapOption::empty(), course })
    }

    /// The document, which `fetch` brings where it must be fetched. One that is about to end is given at once, and
    /// fetched in the background. One that has ended is fetched first, and used all the same where that fails.
    ///
    /// # Errors
    /// Why there is none: what the fetch met, or, within the pause after it, the last one.
    pub(super) async fn get(self: &Arc<Self>, now: OffsetDateTime, fetch: impl FnOnce() -> Fetch<T>) -> Result<Arc<T>, ConnectorError> {
        let held = self.held.load();
        if let Some(held) = held.as_ref().filter(|held| now < held.refresh_at && now >= held.fetched_at) {
            return Ok(Arc::clone(&held.value));
        }
        let usable = held.as_ref().filter(|held| self.rules.afterlife.is_none_or(|most| now < held.fetched_at + most));
        match self.way(now, usable.map(AsRef::as_ref), fetch) {
            Way::Here(value) => Ok(value),
            Way::Failed(error) => Err(error),
            Way::Coming(flight, None) => flight.await,
            Way::Coming(flight, Some(old)) => Ok(flight.await.unwrap_or(old)),
        }
    }

    /// The document after one more fetch, where the pause since the last one is over; else as it is. For who misses something in it.
    ///
    /// # Errors
    /// When the last fetch gave nothing: then nobody can tell whether it is still missing.
    pub(super) async fn renewed(self: &Arc<Self>, now: OffsetDateTime, fetch: impl FnOnce() -> Fetch<T>) -> Result<Arc<T>, ConnectorError> {
        let flight = {
            let mut course = self.course();
            match self.flight(&mut course, now, fetch) {
                Some(flight) => flight,
                None => return course.failure.clone().map_or_else(|| self.value().ok_or_else(nothing), Err),
            }
        };
        flight.await
    }

    fn way(self: &Arc<Self>, now: OffsetDateTime, usable: Option<&Held<T>>, fetch: impl FnOnce() -> Fetch<T>) -> Way<T> {
        let mut course = self.course();
        // Another caller may have brought it since.
        if let Some(held) = self.held.load().as_ref().filter(|held| now < held.refresh_at && now >= held.fetched_at) {
            return Way::Here(Arc::clone(&held.value));
        }
        let failed_before = course.failure.clone();
        let flight = self.flight(&mut course, now, fetch);
        drop(course);
        match (usable, flight, failed_before) {
            // While the provider is down nobody waits to hear it again.
            (Some(held), _, Some(_)) | (Some(held), None, None) => Way::Here(Arc::clone(&held.value)),
            (Some(held), Some(_), None) if now < held.ends_at => Way::Here(Arc::clone(&held.value)),
            (Some(held), Some(flight), None) => Way::Coming(flight, Some(Arc::clone(&held.value))),
            (None, Some(flight), _) => Way::Coming(flight, None),
            (None, None, failure) => Way::Failed(failure.unwrap_or_else(nothing)),
        }
    }

    /// The fetch that is under way, or a new one; `None` where the last one began less than the pause ago.
    fn flight(self: &Arc<Self>, course: &mut Course<T>, now: OffsetDateTime, fetch: impl FnOnce() -> Fetch<T>) -> Option<Flight<T>> {
        if let Some(flight) = &course.flight {
            return Some(flight.clone());
        }
        // A clock that was set back does not stop fetches for long.
        if course.began_at.is_some_and(|began_at| (now - began_at).abs() < self.rules.pause) {
            return None;
        }
        course.began_at = Some(now);
        // A task of its own: a caller who gives up does not take the fetch along.
        let task = tokio::spawn(Arc::clone(self).land(now, fetch()));
        let ended = |task: Result<_, tokio::task::JoinError>| task.unwrap_or_else(|_| Err(nothing()));
        let flight = task.map(ended).boxed().shared();
        course.flight = Some(flight.clone());
        Some(flight)
    }

    async fn land(self: Arc<Self>, now: OffsetDateTime, fetch: Fetch<T>) -> Result<Arc<T>, ConnectorError> {
        let fetched = std::panic::AssertUnwindSafe(fetch).catch_unwind().await.unwrap_or_else(|_| Err(nothing()));
        let mut course = self.course();
        course.flight = None;
        match fetched {
            Ok((value, life)) => {
                let value = Arc::new(value);
                // Between 80 and 95 of 100 parts of its life, evenly.
                let share = 800 + self.mixed(now) % 150;
                let ahead = life * i32::try_from(share).unwrap_or(800) / 1_000;
                let held = Held { value: Arc::clone(&value), fetched_at: now, refresh_at: now + ahead, ends_at: now + life };
                self.held.store(Some(Arc::new(held)));
                course.failure = None;
                Ok(value)
            }
            Err(error) => {
                course.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    fn mixed(&self, now: OffsetDateTime) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, now.unix_timestamp()).hash(&mut hasher);
        hasher.finish()
    }

    fn value(&self) -> Option<Arc<T>> {
        self.held.load().as_ref().map(|held| Arc::clone(&held.value))
    }

    fn course(&self) -> MutexGuard<'_, Course<T>> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nothing() -> ConnectorError {
    ConnectorError::Unavailable("oidc: the fetch ended without an answer".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const RULES: Rules = Rules { pause: Duration::seconds(10), afterlife: Some(Duration::hours(24)) };

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_700_000_000 + seconds).unwrap()
    }

    /// Fetches that are counted; the document is the count.
    struct Source(Arc<AtomicU32>);

    impl Source {
        fn fetch(&self, works: bool) -> impl FnOnce() -> Fetch<u32> + use<> {
            let count = Arc::clone(&self.0);
            move || {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                async move {
                    tokio::task::yield_now().await;
                    if works { Ok((number, Duration::hours(1))) } else { Err(ConnectorError::Unavailable("down".to_owned())) }
                }
                .boxed()
            }
        }
        fn count(&self) -> u32 {
            self.0.load(Ordering::SeqCst)
        }
    }

    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_document_is_fetched_once_and_refreshed_ahead_of_its_end_without_waiting() {
        let (kept, source) = (Kept::new(RULES, "a"), Source(Arc::default()));
        let all = futures_util::future::join_all((0..50).map(|_| kept.get(at(0), source.fetch(true)))).await;
        assert!(all.into_iter().all(|value| *value.unwrap() == 1));
        assert_eq!(*kept.get(at(2_800), source.fetch(true)).await.unwrap(), 1, "80 of 100 parts of the life are not over");
        assert_eq!(source.count(), 1);
        assert_eq!(*kept.get(at(3_500), source.fetch(true)).await.unwrap(), 1, "the old one is given at once");
        settle().await;
        assert_eq!(*kept.get(at(3_501), source.fetch(true)).await.unwrap(), 2);
        // Long after its end it is fetched first.
        assert_eq!(*kept.get(at(20_000), source.fetch(true)).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn refreshes_of_many_connectors_are_spread() {
        let mut moments = std::collections::BTreeSet::new();
        for name in 0..40 {
            let (kept, source) = (Kept::new(RULES, &format!("connector-{name}")), Source(Arc::default()));
            kept.get(at(0), source.fetch(true)).await.unwrap();
            let refresh_at = kept.held.load_full().unwrap().refresh_at;
            assert!(refresh_at >= at(2_880) && refresh_at <= at(3_420), "{refresh_at}");
            moments.insert(refresh_at);
        }
        assert!(moments.len() > 20, "{moments:?}");
    }

    #[tokio::test]
    async fn a_document_outlives_its_provider_for_a_day_at_a_bounded_rate() {
        let (kept, source) = (Kept::new(RULES, "a"), Source(Arc::default()));
        kept.get(at(0), source.fetch(true)).await.unwrap();
        for second in 4_000..4_100 {
            assert_eq!(*kept.get(at(second), source.fetch(false)).await.unwrap(), 1);
            settle().await;
        }
        assert!((10..=12).contains(&source.count()), "{}", source.count());
        let day = 24 * 3_600;
        assert_eq!(*kept.get(at(day - 1), source.fetch(false)).await.unwrap(), 1);
        assert!(kept.get(at(day + 1), source.fetch(false)).await.is_err());
        assert!(kept.get(at(day + 20), source.fetch(true)).await.is_ok());
    }

    #[tokio::test]
    async fn after_a_failure_the_answer_comes_at_once_until_the_pause_is_over() {
        let (kept, source) = (Kept::new(RULES, "a"), Source(Arc::default()));
        for second in 0..10 {
            assert!(kept.get(at(second), source.fetch(false)).await.is_err());
        }
        assert_eq!(source.count(), 1);
        assert_eq!(*kept.get(at(10), source.fetch(true)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn t19_who_misses_something_fetches_at_a_bounded_rate() {
        let (kept, source) = (Kept::new(RULES, "a"), Source(Arc::default()));
        kept.get(at(0), source.fetch(true)).await.unwrap();
        for second in 0..30 {
            let all = (0..100).map(|_| kept.renewed(at(second), source.fetch(true)));
            assert!(futures_util::future::join_all(all).await.iter().all(Result::is_ok));
        }
        assert_eq!(source.count(), 3, "at 0, 10 and 20");
        for second in 30..50 {
            assert!(kept.renewed(at(second), source.fetch(false)).await.is_err(), "what is missing can not be told");
            assert!(kept.get(at(second), source.fetch(false)).await.is_ok(), "what is there is used");
        }
        assert_eq!(source.count(), 5);
    }

    #[tokio::test]
    async fn a_caller_who_gives_up_does_not_take_the_fetch_along() {
        let (kept, source) = (Kept::new(RULES, "a"), Source(Arc::default()));
        assert!(kept.get(at(0), source.fetch(true)).now_or_never().is_none());
        settle().await;
        assert_eq!(*kept.get(at(1), source.fetch(true)).await.unwrap(), 1);
    }
}
