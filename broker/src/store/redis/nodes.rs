//! The map from slots to primaries, and the task that makes it anew: every so often, and at once when someone found it wrong. It owns for
//! how long what speaks to a primary lives, and that each primary is heard before anything is asked of it.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    sync::Notify,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::{
    connecting::{Address, Connecting},
    topology::{Primary, Resolved, Topology},
    watch::{Hearing, Watch},
};

/// How far apart two questions are at least.
const APART: Duration = Duration::from_millis(50);

/// Makes what speaks to a primary, given what it is to tell when it finds the map wrong.
type Starting<N> = Box<dyn Fn(&Address, &Arc<Notify>) -> Arc<N> + Send + Sync>;

/// The primaries, each with what speaks to it (`N`).
pub(super) struct Nodes<N> {
    shared: Arc<Shared<N>>,
    task: AbortHandle,
}

struct Shared<N> {
    topology: Topology,
    connecting: Arc<Connecting>,
    watch: Arc<Watch>,
    start: Starting<N>,
    map: ArcSwap<Map<N>>,
    again: Arc<Notify>,
    trouble: Mutex<Option<String>>,
}

struct Map<N> {
    held: Vec<Arc<Held<N>>>,
    /// In the order of the slots, with the place in `held`.
    slots: Vec<(RangeInclusive<u16>, usize)>,
}

struct Held<N> {
    address: Address,
    node: Arc<N>,
    hearing: Hearing,
}

impl<N> Drop for Nodes<N> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<N: Send + Sync + 'static> Nodes<N> {
    /// Begins to ask where the primaries are; `start` makes what speaks to one of them.
    pub(super) fn start(
        topology: Topology,
        connecting: Arc<Connecting>,
        watch: Arc<Watch>,
        start: impl Fn(&Address, &Arc<Notify>) -> Arc<N> + Send + Sync + 'static,
    ) -> Self {
        let map = ArcSwap::from_pointee(Map { held: Vec::new(), slots: Vec::new() });
        let again = Arc::new(Notify::new());
        let shared = Arc::new(Shared { topology, connecting, watch, start: Box::new(start), map, again, trouble: Mutex::default() });
        let task = tokio::spawn(Arc::clone(&shared).keep()).abort_handle();
        Self { shared, task }
    }

    /// The primary of a slot; `None` while it is not known.
    pub(super) fn of(&self, slot: u16) -> Option<Arc<N>> {
        let map = self.shared.map.load();
        let place = map.slots.partition_point(|(range, _)| *range.end() < slot);
        let (range, held) = map.slots.get(place)?;
        range.contains(&slot).then(|| map.held.get(*held).map(|held| Arc::clone(&held.node)))?
    }

    /// Every primary.
    pub(super) fn all(&self) -> Vec<Arc<N>> {
        self.shared.map.load().held.iter().map(|held| Arc::clone(&held.node)).collect()
    }

    /// The map was found wrong: asks again at once.
    pub(super) fn again(&self) {
        self.shared.again.notify_one();
    }

    /// Why the map could not be made anew, the last time; `None` where it could.
    pub(super) fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<N: Send + Sync + 'static> Shared<N> {
    async fn keep(self: Arc<Self>) {
        loop {
            match self.topology.primaries().await {
                Ok(resolved) => self.take(resolved),
                Err(unresolved) => *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(unresolved.to_string()),
            }
            sleep(APART).await;
            // Elapsed or told: either way it is time.
            _ = timeout(self.topology.every(), self.again.notified()).await;
        }
    }

    fn take(&self, resolved: Resolved) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let Resolved { primaries, confirmed } = resolved;
        let old = self.map.load_full();
        let is_same = primaries.len() == old.held.len()
            && primaries.iter().zip(&old.held).all(|(primary, held)| primary.address == held.address)
            && old.slots == slots_of(&primaries);
        if !is_same {
            let held: Vec<_> = primaries.iter().map(|primary| self.held(primary, &old)).collect();
            // First what is heard, then what is asked: no look at a primary that is not among those that are heard.
            self.watch.set_primaries(held.iter().map(|held| Arc::clone(held.hearing.primary())).collect());
            self.map.store(Arc::new(Map { held, slots: slots_of(&primaries) }));
            let addresses: Vec<_> = primaries.iter().map(|primary| primary.address.to_string()).collect();
            tracing::info!(primaries = addresses.join(", "), "the store's primaries");
        }
        if let Some(asked) = confirmed {
            self.watch.confirm(asked);
        }
    }

    /// What there is for this primary already, or a new one.
    fn held(&self, primary: &Primary, old: &Map<N>) -> Arc<Held<N>> {
        if let Some(held) = old.held.iter().find(|held| held.address == primary.address) {
            return Arc::clone(held);
        }
        let address = primary.address.clone();
        let hearing = Hearing::start(
            address.clone(),
            self.topology.is_cluster(),
            Arc::clone(&self.connecting),
            Arc::clone(&self.watch),
            Arc::clone(&self.again),
        );
        Arc::new(Held { node: (self.start)(&address, &self.again), address, hearing })
    }
}

fn slots_of(primaries: &[Primary]) -> Vec<(RangeInclusive<u16>, usize)> {
    let mut slots: Vec<_> =
        primaries.iter().enumerate().flat_map(|(place, primary)| primary.slots.iter().map(move |range| (range.clone(), place))).collect();
    slots.sort_by_key(|(range, _)| *range.start());
    slots
}
