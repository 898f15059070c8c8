//! Carries the records of one store to another, by a file or at once.
//!
//! It owns what is carried, what is left, and that nothing is overwritten: a record that is there already stays as it is. So whatever broke
//! off is simply begun again. The values it does not read.

pub mod export_file;

use time::OffsetDateTime;

use crate::store::{Batch, Expect, Kept, Kind, Outcome, Scan, Scanned, Store, StoreError};

/// How many records are read and written at once.
pub const PAGE: usize = 500;

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// All that a store needs to go on from where it stood. Only from a store on which nobody has worked since: what was used or ended
    /// there later would be good again.
    Everything,
    /// Only what can not bring anything back: keys, ids, people, tenants.
    Lasting,
}

impl Selection {
    /// Whether records of this kind are carried.
    #[must_use]
    pub const fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Everything => !matches!(kind, Kind::Lease | Kind::Replica | Kind::Probe),
            Self::Lasting => kind.is_lasting(),
        }
    }
}

/// What became of the records so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Written.
    pub written: usize,
    /// There already, and left as they are.
    pub there: usize,
    /// Expired, or of a kind that is not carried.
    pub left: usize,
}

impl Tally {
    /// All together.
    #[must_use]
    pub const fn all(&self) -> usize {
        self.written + self.there + self.left
    }

    /// And these too.
    pub const fn add(&mut self, other: Self) {
        self.written += other.written;
        self.there += other.there;
        self.left += other.left;
    }
}

/// Carries all records from one store to another, and tells how it goes after each page.
///
/// # Errors
/// When one of the stores could not tell. What was written stays; begin again.
pub async fn copy(
    from: &dyn Scan,
    to: &dyn Store,
    selection: Selection,
    now: OffsetDateTime,
    mut tell: impl FnMut(Tally),
) -> Result<Tally, StoreError> {
    let mut tally = Tally::default();
    let mut cursor = None;
    loop {
        let Scanned { records, next } = from.scan(cursor.as_deref(), PAGE).await?;
        tally.add(write(to, &records, selection, now).await?);
        tell(tally);
        match next {
            None => return Ok(tally),
            next => cursor = next,
        }
    }
}

/// Writes records that are not there yet.
///
/// # Errors
/// When the store could not tell. What was written stays.
pub async fn write(to: &dyn Store, records: &[Kept], selection: Selection, now: OffsetDateTime) -> Result<Tally, StoreError> {
    let mut tally = Tally::default();
    let is_wanted = |record: &&Kept| selection.takes(record.key.kind()) && record.expires_at.is_none_or(|until| now < until);
    let wanted: Vec<_> = records.iter().filter(is_wanted).collect();
    tally.left = records.len() - wanted.len();
    for run in wanted.chunk_by(|one, next| one.key.partition() == next.key.partition()) {
        let all = run.iter().fold(Batch::new(), |batch, record| batch.and(absent(record)));
        if to.commit(all, now).await? == Outcome::Committed {
            tally.written += run.len();
            continue;
        }
        // Some are there.
        for record in run {
            match to.commit(absent(record), now).await? {
                Outcome::Committed => tally.written += 1,
                Outcome::Conflict => tally.there += 1,
            }
        }
    }
    Ok(tally)
}

fn absent(record: &Kept) -> Batch {
    let Kept { key, value, expires_at, .. } = record;
    Batch::new().expect(key.clone(), Expect::Absent).put(key.clone(), value.clone(), *expires_at)
}

#[cfg(test)]
mod tests {
    use claims_mapping::TenantId;
    use time::Duration;

    use super::*;
    use crate::store::{Key, embedded::Embedded};

    const NOW: OffsetDateTime = time::macros::datetime!(2026-11-21 08:00 UTC);

    fn session(n: usize) -> Key {
        Key::new(&TenantId::parse(&format!("t{}", n % 3)).unwrap(), Kind::Session, format!("{n:05}"))
    }

    /// Sessions in three tenants, a key, an expired code, and a lease.
    async fn filled() -> Embedded {
        let store = Embedded::in_memory().unwrap();
        for n in 0..1_200 {
            store.commit(Batch::new().put(session(n), n.to_string().into(), Some(NOW + Duration::hours(1))), NOW).await.unwrap();
        }
        let batch = Batch::new()
            .put(Key::system(Kind::SigningKey, "k"), b"key".to_vec(), None)
            .put(Key::system(Kind::Lease, "l"), b"lease".to_vec(), None)
            .put(Key::system(Kind::UsedToken, "old"), b"x".to_vec(), Some(NOW - Duration::hours(1)));
        store.commit(batch, NOW - Duration::hours(2)).await.unwrap();
        store
    }

    #[tokio::test]
    async fn everything_is_carried_and_nothing_is_overwritten() {
        let (from, to) = (filled().await, Embedded::in_memory().unwrap());
        to.commit(Batch::new().put(session(7), b"newer".to_vec(), None), NOW).await.unwrap();
        let mut told = Vec::new();
        let tally = copy(&from, &to, Selection::Everything, NOW, |tally| told.push(tally.all())).await.unwrap();
        assert_eq!(tally, Tally { written: 1_200, there: 1, left: 2 });
        assert!(told.len() >= 3 && told.is_sorted() && told.last() == Some(&1_203), "{told:?}");
        for n in (0..1_200).filter(|n| *n != 7) {
            assert_eq!(to.get(&session(n), NOW).await.unwrap().unwrap().value, n.to_string().as_bytes());
            assert!(to.get(&session(n), NOW + Duration::hours(1)).await.unwrap().is_none(), "it expires as it did");
        }
        assert_eq!(to.get(&session(7), NOW).await.unwrap().unwrap().value, b"newer");
        let again = copy(&from, &to, Selection::Everything, NOW, |_| {}).await.unwrap();
        assert_eq!(again, Tally { written: 0, there: 1_201, left: 2 }, "begun again, it writes nothing");
    }

    #[tokio::test]
    async fn what_lasts_brings_no_session_back() {
        let (from, to) = (filled().await, Embedded::in_memory().unwrap());
        let tally = copy(&from, &to, Selection::Lasting, NOW, |_| {}).await.unwrap();
        assert_eq!(tally, Tally { written: 1, there: 0, left: 1_202 });
        assert!(to.get(&Key::system(Kind::SigningKey, "k"), NOW).await.unwrap().is_some());
    }

    #[test]
    fn nothing_that_lasts_can_be_used_up() {
        for kind in
            [Kind::Code, Kind::Grant, Kind::Session, Kind::UsedToken, Kind::Handshake, Kind::Attempt, Kind::Browser, Kind::UpstreamGrant]
        {
            assert!(!Selection::Lasting.takes(kind), "{kind:?}");
        }
    }
}
