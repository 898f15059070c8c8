//! The work that the expressions of one mapping may do for one person.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use cel::{
    ExecutionError,
    common::{
        types::{CelBytes, CelList, CelMap, CelOptional, CelString},
        value::Val,
    },
};

use super::LIMITS;

/// What a value costs besides its bytes, and one step of an evaluation.
pub(super) const NODE: i64 = 16;

/// What is left. It is shared with the functions of a context, which must be `Send`; one thread uses it at a time.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<AtomicI64>);

impl Budget {
    pub(super) fn full() -> Self {
        Self(Arc::new(AtomicI64::new(LIMITS.work)))
    }

    /// Pays. Once it has failed it fails for ever: operators such as `||` and the loop macros swallow errors, and must not go on
    /// to do work for nothing.
    pub(super) fn pay(&self, units: i64) -> Result<(), ExecutionError> {
        let left = self.left();
        let left = if left < 0 { left } else { left.saturating_sub(units.max(0)) };
        self.0.store(left, Ordering::Relaxed);
        if left < 0 { Err(ExecutionError::function_error("work", "no work left")) } else { Ok(()) }
    }

    /// Pays for a value, `times` over, and says what it weighs. No more of the value is looked at than can be paid for.
    pub(super) fn pay_for(&self, value: &dyn Val, times: i64) -> Result<i64, ExecutionError> {
        let most = self.left();
        let mut left = most;
        weigh(value, &mut left);
        let weight = most.saturating_sub(left);
        self.pay(weight.saturating_mul(times))?;
        Ok(weight)
    }

    pub(super) fn spent(&self) -> bool {
        self.left() < 0
    }

    fn left(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn bytes(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// Subtracts a value's nodes and bytes from `left`, and stops below zero.
fn weigh(value: &dyn Val, left: &mut i64) {
    *left = left.saturating_sub(NODE);
    if *left < 0 {
        return;
    }
    if let Some(text) = value.downcast_ref::<CelString>() {
        *left = left.saturating_sub(bytes(text.inner().len()));
    } else if let Some(list) = value.downcast_ref::<CelList>() {
        for item in list.inner() {
            weigh(item.as_ref(), left);
            if *left < 0 {
                return;
            }
        }
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        for (key, item) in map.inner() {
            weigh(key.inner(), left);
            weigh(item.as_ref(), left);
            // A map's entry is hashed, and has its share of the table.
            *left = left.saturating_sub(NODE * 2);
            if *left < 0 {
                return;
            }
        }
    } else if let Some(optional) = value.downcast_ref::<CelOptional>() {
        if let Some(item) = optional.inner() {
            weigh(item, left);
        }
    } else if let Some(raw) = value.downcast_ref::<CelBytes>() {
        *left = left.saturating_sub(bytes(raw.inner().len()));
    }
}
