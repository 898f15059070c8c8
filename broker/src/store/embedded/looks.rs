//! That a look at records holds for as long as nothing of them has changed, and no longer.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64},
    },
    time::Duration as StdDuration,
};

use redb::{Builder, Durability, StorageBackend, backends::InMemoryBackend};
use time::{Duration, OffsetDateTime};

use super::{Embedded, layout};
use crate::store::{Batch, Key, Kind, Outcome, Store};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn key(id: &str) -> Key {
    Key::system(Kind::Attempt, id)
}

async fn put(store: &Embedded, id: &str, expires_at: Option<OffsetDateTime>) {
    assert_eq!(store.commit(Batch::new().put(key(id), vec![1], expires_at), NOW).await.unwrap(), Outcome::Committed);
}

#[tokio::test]
async fn what_changed_is_no_longer_as_seen() {
    let store = Embedded::in_memory().unwrap();
    put(&store, "a", None).await;
    let keys = [key("a"), key("b")];
    let seen = async || {
        let (present, mark) = store.look(&keys, NOW).await.unwrap();
        (present, mark.unwrap())
    };
    let (present, mark) = seen().await;
    assert_eq!(present, [true, false]);
    put(&store, "another", None).await;
    assert!(store.is_as_seen(&mark, NOW), "nothing of it has changed");
    store.commit(Batch::new().delete(key("a")), NOW).await.unwrap();
    assert!(!store.is_as_seen(&mark, NOW), "what was there is gone");
    let (present, mark) = seen().await;
    assert_eq!(present, [false, false]);
    put(&store, "b", None).await;
    assert!(!store.is_as_seen(&mark, NOW), "what was absent is there");
    let conflict = Batch::new().expect(key("b"), crate::store::Expect::Absent).delete(key("b"));
    let (_, mark) = seen().await;
    assert_eq!(store.commit(conflict, NOW).await.unwrap(), Outcome::Conflict);
    assert!(store.is_as_seen(&mark, NOW), "a conflict changes nothing");
}

#[tokio::test]
async fn time_ends_what_was_seen_in_both_directions() {
    let store = Embedded::in_memory().unwrap();
    put(&store, "lasting", None).await;
    put(&store, "short", Some(NOW + Duration::seconds(10))).await;
    put(&store, "over", Some(NOW + Duration::seconds(1))).await;
    let keys = [key("lasting"), key("short"), key("over")];
    let at = |seconds| NOW + Duration::seconds(seconds);
    let (present, mark) = store.look(&keys, at(5)).await.unwrap();
    assert_eq!(present, [true, true, false]);
    let mark = mark.unwrap();
    assert!(store.is_as_seen(&mark, at(5)) && store.is_as_seen(&mark, at(9)));
    assert!(!store.is_as_seen(&mark, at(10)), "the first has expired");
    assert!(!store.is_as_seen(&mark, at(4)), "for an earlier time it was not looked");
    // Swept by a clock that is ahead.
    assert_eq!(store.sweep(at(11), 100).await.unwrap(), 2);
    assert!(!store.is_as_seen(&mark, at(6)));
}

/// Storage whose writes can be made to fail.
#[derive(Debug)]
struct Failing(InMemoryBackend, Arc<AtomicBool>);

impl Failing {
    fn may_write(&self) -> io::Result<()> {
        let fails = self.1.load(std::sync::atomic::Ordering::SeqCst);
        if fails { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.may_write()?;
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.may_write()?;
        self.0.write(offset, data)
    }
}

#[tokio::test]
async fn what_failed_to_be_written_is_not_taken_for_unchanged() {
    let fails = Arc::new(AtomicBool::new(false));
    let database = Builder::new().create_with_backend(Failing(InMemoryBackend::new(), Arc::clone(&fails))).unwrap();
    layout::prepare(&database).unwrap();
    let store = Embedded::start(database, Durability::Immediate).unwrap();
    put(&store, "a", None).await;
    let (present, mark) = store.look(&[key("a")], NOW).await.unwrap();
    assert_eq!(present, [true]);
    let mark = mark.unwrap();
    fails.store(true, std::sync::atomic::Ordering::SeqCst);
    store.commit(Batch::new().delete(key("a")), NOW).await.unwrap_err();
    assert!(!store.is_as_seen(&mark, NOW), "it may be gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deletion_that_was_answered_is_never_overlooked() {
    use std::sync::atomic::Ordering::SeqCst;
    // Of each record: n once its n-th deletion was answered, -n from before its n-th writing on.
    let store = Arc::new(Embedded::in_memory().unwrap());
    let states: Arc<[AtomicI64]> = (0..3).map(|_| AtomicI64::new(0)).collect();
    let ended = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|reader| {
            let (store, states, ended) = (Arc::clone(&store), Arc::clone(&states), Arc::clone(&ended));
            tokio::spawn(async move {
                let (mut told, mut present_then_gone) = (0_u64, 0_u64);
                let name = format!("record-{reader}");
                while !ended.load(SeqCst) {
                    let (present, mark) = store.look(&[key(&name), key("never")], NOW).await.unwrap();
                    let mark = mark.unwrap();
                    for _ in 0..50 {
                        let before = states[reader].load(SeqCst);
                        let is_still = store.is_as_seen(&mark, NOW);
                        // Deleted before it was asked, and not written until after.
                        let gone = before > 0 && states[reader].load(SeqCst) == before;
                        assert!(!(gone && is_still && present[0]), "a deleted record is seen as present");
                        told += u64::from(is_still);
                        present_then_gone += u64::from(gone && present[0]);
                        if !is_still {
                            break;
                        }
                        std::hint::spin_loop();
                    }
                    tokio::task::yield_now().await;
                }
                (told, present_then_gone)
            })
        })
        .collect();
    let writers: Vec<_> = (0..3_usize)
        .map(|writer| {
            let (store, states) = (Arc::clone(&store), Arc::clone(&states));
            tokio::spawn(async move {
                let name = format!("record-{writer}");
                for n in 1..=2_000 {
                    states[writer].store(-n, SeqCst);
                    put(&store, &name, None).await;
                    tokio::task::yield_now().await;
                    store.commit(Batch::new().delete(key(&name)), NOW).await.unwrap();
                    states[writer].store(n, SeqCst);
                    if n % 16 == 0 {
                        tokio::time::sleep(StdDuration::from_micros(50)).await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    ended.store(true, SeqCst);
    let (mut told, mut met) = (0, 0);
    for reader in readers {
        let (one_told, one_met) = reader.await.unwrap();
        (told, met) = (told + one_told, met + one_met);
    }
    assert!(told > 0 && met > 0, "{told} times it was as seen, {met} times a deletion came in between: this tests nothing");
}
