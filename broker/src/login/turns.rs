//! Turns: what is done with one thing is done one after the other, in this process. A thing that no one waits for takes no room.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use uuid::Uuid;

/// Who is at which thing.
#[derive(Debug, Default, Clone)]
pub(super) struct Turns(Arc<Mutex<HashMap<Uuid, Arc<AsyncMutex<()>>>>>);

/// A turn at one thing; the next one begins when it is dropped. Whoever has one may hand it on to a task.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    id: Uuid,
    /// `None` while it waits.
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for its turn.
    pub(super) async fn take(&self, id: Uuid) -> Turn {
        // It is there before the waiting begins, so that whoever stops waiting is cleared away too.
        let mut turn = Turn { turns: self.clone(), id, guard: None };
        let own = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default());
        turn.guard = Some(own.lock_owned().await);
        turn
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guard = None;
        let mut all = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(&self.id).is_some_and(|own| Arc::strong_count(own) == 1) {
            all.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_after_the_other_and_nothing_is_left() {
        let turns = Turns::default();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let first = turns.take(one).await;
        let _other = turns.take(other).await;
        let second = tokio::time::timeout(Duration::from_millis(20), turns.take(one)).await;
        assert!(second.is_err(), "it waits, and stops waiting");
        drop(first);
        assert_eq!(turns.len(), 1, "only the other thing is left");
        let again = turns.take(one).await;
        drop((again, _other));
        assert_eq!(turns.len(), 0);
    }
}
