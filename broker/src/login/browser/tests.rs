//! Many requests of one browser at once, at two replicas.

use std::sync::atomic::{AtomicUsize, Ordering};

use tower_sessions::{Expiry, Session};

use super::*;
use crate::store::stand_in::{Fate, StandIn, stand_in};

const LATER: OffsetDateTime = time::macros::datetime!(2100-01-01 00:00 UTC);

struct Still;

impl Clock for Still {
    fn now(&self) -> OffsetDateTime {
        crate::tests::NOW
    }
}

/// Two replicas on one store.
struct House {
    store: Arc<StandIn>,
    replicas: [Arc<BrowserStore>; 2],
}

impl House {
    fn new() -> Self {
        let store = stand_in();
        let replicas = [(); 2].map(|()| Arc::new(BrowserStore::new(Arc::clone(&store) as _, Arc::new(Still))));
        Self { store, replicas }
    }

    /// One more request of the browser with this cookie, at one of the replicas.
    fn request(&self, id: Option<Id>, n: usize) -> Session {
        Session::new(id, Arc::clone(&self.replicas[n % 2]), Some(Expiry::AtDateTime(LATER)))
    }

    /// A browser that has a record.
    async fn browser(&self) -> Id {
        let session = self.request(None, 0);
        session.insert("browser", "known").await.unwrap();
        session.save().await.unwrap();
        session.id().unwrap()
    }

    async fn data(&self, id: Id) -> Option<Data> {
        Some(self.replicas[0].read(&id).await.unwrap()?.0.data)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_that_was_acknowledged_is_lost() {
    let house = Arc::new(House::new());
    let id = house.browser().await;
    let counted = Arc::new(AtomicUsize::new(0));
    let requests = (0..64).map(|n| {
        let (house, counted) = (Arc::clone(&house), Arc::clone(&counted));
        tokio::spawn(async move {
            for turn in 0..4 {
                let session = house.request(Some(id), n);
                session.insert(&format!("own-{n}-{turn}"), n).await.unwrap();
                // Others come in between the load and the save.
                tokio::task::yield_now().await;
                session.save().await.unwrap();
                let session = house.request(Some(id), n + turn);
                let count: usize = session.get("count").await.unwrap().unwrap_or_default();
                session.insert("count", count + 1).await.unwrap();
                tokio::task::yield_now().await;
                if session.save().await.is_ok() {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
    });
    futures_util::future::join_all(requests).await.into_iter().for_each(|done| done.unwrap());
    let data = house.data(id).await.unwrap();
    assert_eq!(data.keys().filter(|name| name.starts_with("own-")).count(), 256, "each has its own");
    assert_eq!(data["count"], counted.load(Ordering::SeqCst), "no increment that was acknowledged is lost");
    assert!(counted.load(Ordering::SeqCst) > 0);
    assert_eq!((&data["browser"], data.contains_key(LOADED)), (&Value::from("known"), false));
}

#[tokio::test]
async fn what_was_deleted_stays_so() {
    let house = House::new();
    let id = house.browser().await;
    let late = house.request(Some(id), 0);
    late.insert("late", 1).await.unwrap();
    let moving = house.request(Some(id), 0);
    moving.insert("mine", 1).await.unwrap();
    house.request(Some(id), 1).flush().await.unwrap();
    late.save().await.unwrap();
    assert_eq!(house.data(id).await, None, "a late save brings nothing back");
    // One that goes on under a new id has what it says itself, and nothing of what was forgotten.
    moving.cycle_id().await.unwrap();
    moving.save().await.unwrap();
    assert_eq!(house.data(moving.id().unwrap()).await.unwrap(), Data::from([("mine".to_owned(), 1.into())]));
    house.request(Some(id), 0).flush().await.unwrap();
}

#[tokio::test]
async fn of_a_sign_out_and_a_new_id_at_one_replica_nothing_is_carried_on() {
    for sign_out_first in [true, false] {
        let house = House::new();
        let id = house.browser().await;
        let (moving, leaving) = (house.request(Some(id), 0), house.request(Some(id), 0));
        for session in [&moving, &leaving] {
            session.get_value("browser").await.unwrap();
        }
        if sign_out_first {
            leaving.flush().await.unwrap();
            moving.cycle_id().await.unwrap();
        } else {
            moving.cycle_id().await.unwrap();
            leaving.flush().await.unwrap();
        }
        moving.save().await.unwrap();
        assert_eq!(house.data(moving.id().unwrap()).await.unwrap(), Data::new());
    }
}

#[tokio::test]
async fn a_new_id_carries_on_what_others_wrote_meanwhile() {
    let house = House::new();
    let id = house.browser().await;
    let moving = house.request(Some(id), 0);
    moving.insert("browser", "signed in").await.unwrap();
    let other = house.request(Some(id), 1);
    other.insert("other", 1).await.unwrap();
    other.save().await.unwrap();
    moving.cycle_id().await.unwrap();
    moving.save().await.unwrap();
    let expected = Data::from([("browser".to_owned(), "signed in".into()), ("other".to_owned(), 1.into())]);
    assert_eq!(house.data(moving.id().unwrap()).await.unwrap(), expected);
    assert_eq!(house.data(id).await, None);
    let writes = house.store.commits.load(Ordering::SeqCst);
    moving.save().await.unwrap();
    assert_eq!(house.store.commits.load(Ordering::SeqCst), writes, "what is saved is not written again");
}

#[tokio::test]
async fn what_one_removes_another_does_not_bring_back() {
    let house = House::new();
    let id = house.browser().await;
    let (one, other) = (house.request(Some(id), 0), house.request(Some(id), 1));
    one.remove_value("browser").await.unwrap();
    other.insert("other", 1).await.unwrap();
    one.save().await.unwrap();
    other.save().await.unwrap();
    assert_eq!(house.data(id).await.unwrap(), Data::from([("other".to_owned(), 1.into())]));
    let (one, other) = (house.request(Some(id), 0), house.request(Some(id), 1));
    one.insert("other", 2).await.unwrap();
    other.insert("other", 3).await.unwrap();
    one.save().await.unwrap();
    assert!(other.save().await.is_err(), "both change the same: one is not acknowledged");
    assert_eq!(house.data(id).await.unwrap()["other"], 2);
}

#[tokio::test]
async fn a_sign_out_in_doubt_is_an_error_and_can_be_asked_for_again() {
    for fate in [Fate::Unanswered, Fate::Lost] {
        let house = House::new();
        let id = house.browser().await;
        house.store.will(Kind::Browser, fate);
        assert!(house.request(Some(id), 0).flush().await.is_err());
        house.request(Some(id), 1).flush().await.unwrap();
        assert_eq!(house.data(id).await, None);
    }
}
