//! A memory of bounded size, in which no tenant has more than its share: what was put there first is let go first.
//!
//! What it holds, for how long, and whether it may still be believed, is not known here.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use claims_mapping::TenantId;

/// Values by tenant and key. Looking takes no turn; putting and letting go are logarithmic.
pub(super) struct Shelves<K, V> {
    shelves: HashMap<TenantId, Shelf<K, V>>,
    /// All of them, in the order in which they were put.
    order: BTreeMap<u64, (TenantId, K)>,
    turn: u64,
    most: usize,
    most_of_tenant: usize,
}

struct Shelf<K, V> {
    held: HashMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
}

impl<K: Clone + Eq + Hash, V> Shelves<K, V> {
    /// Empty ones for so many values, and so many of one tenant.
    pub(super) fn new(most: usize, most_of_tenant: usize) -> Self {
        Self { shelves: HashMap::new(), order: BTreeMap::new(), turn: 0, most, most_of_tenant }
    }

    pub(super) fn get(&self, tenant: &TenantId, key: &K) -> Option<&V> {
        self.shelves.get(tenant)?.held.get(key).map(|(_, value)| value)
    }

    /// Puts a value, in place of the one of the same key; the oldest ones make room.
    pub(super) fn put(&mut self, tenant: &TenantId, key: K, value: V) {
        self.remove(tenant, &key);
        if self.most == 0 || self.most_of_tenant == 0 {
            return;
        }
        let own = self.shelves.get(tenant).filter(|shelf| shelf.held.len() >= self.most_of_tenant);
        if let Some(oldest) = own.and_then(|shelf| shelf.order.values().next()).cloned() {
            self.remove(tenant, &oldest);
        }
        if self.order.len() >= self.most {
            self.let_go();
        }
        self.turn = self.turn.saturating_add(1);
        let shelf = self.shelves.entry(tenant.clone()).or_insert_with(|| Shelf { held: HashMap::new(), order: BTreeMap::new() });
        shelf.order.insert(self.turn, key.clone());
        shelf.held.insert(key.clone(), (self.turn, value));
        self.order.insert(self.turn, (tenant.clone(), key));
    }

    pub(super) fn remove(&mut self, tenant: &TenantId, key: &K) -> Option<V> {
        let shelf = self.shelves.get_mut(tenant)?;
        let (turn, value) = shelf.held.remove(key)?;
        shelf.order.remove(&turn);
        self.order.remove(&turn);
        if shelf.held.is_empty() {
            self.shelves.remove(tenant);
        }
        Some(value)
    }

    /// Lets go of the oldest ones that are over, of so many at most.
    pub(super) fn sweep(&mut self, many: usize, is_over: impl Fn(&V) -> bool) {
        for _ in 0..many {
            let oldest = self.order.values().next().and_then(|(tenant, key)| self.get(tenant, key));
            if !oldest.is_some_and(&is_over) {
                return;
            }
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        if let Some((tenant, key)) = self.order.values().next().cloned() {
            self.remove(&tenant, &key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(id: &str) -> TenantId {
        TenantId::parse(id).unwrap()
    }

    #[test]
    fn no_tenant_pushes_another_out_of_its_share() {
        let mut shelves = Shelves::new(10, 3);
        let (a, b) = (tenant("a"), tenant("b"));
        for n in 0..2 {
            shelves.put(&a, n, n);
        }
        for n in 0..1_000 {
            shelves.put(&b, n, n);
        }
        assert_eq!([0, 1].map(|n| shelves.get(&a, &n).copied()), [Some(0), Some(1)]);
        assert_eq!([996, 997, 998, 999].map(|n| shelves.get(&b, &n).copied()), [None, Some(997), Some(998), Some(999)]);
        assert_eq!(shelves.order.len(), 5);
    }

    #[test]
    fn there_are_never_more_than_were_wished_for_and_the_oldest_go_first() {
        let mut shelves = Shelves::new(5, 3);
        for n in 0..100 {
            shelves.put(&tenant(&format!("t{}", n % 7)), n, n);
            assert!(shelves.order.len() <= 5);
        }
        let held: usize = shelves.shelves.values().map(|shelf| shelf.held.len()).sum();
        assert_eq!((held, shelves.order.len()), (5, 5));
        assert_eq!(shelves.get(&tenant("t1"), &99).copied(), Some(99));
        // What is put again is as new as any.
        let mut shelves = Shelves::new(2, 2);
        let a = tenant("a");
        for n in [1, 2, 1, 3] {
            shelves.put(&a, n, n);
        }
        assert_eq!([1, 2, 3].map(|n| shelves.get(&a, &n).is_some()), [true, false, true]);
        assert_eq!(shelves.remove(&a, &1), Some(1));
        shelves.sweep(9, |_| true);
        assert!(shelves.order.is_empty() && shelves.shelves.is_empty(), "nothing is left of anyone");
        let mut none = Shelves::new(0, 1);
        none.put(&a, 1, 1);
        assert_eq!(none.get(&a, &1), None);
    }
}
