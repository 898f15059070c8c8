//! Good answers as they were rendered, so that the same request of the same reviewer need not be read and rendered again.
//!
//! It remembers what was said, and never that it still may be: that is judged at every use.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};

use super::Reviewer;
use crate::{
    slots::{Fingerprint, Slots},
    standing::Standing,
};

/// How many answers are remembered at most; about 2 KiB each.
const REMEMBERED: usize = 8_192;

/// Which request, of which reviewer. It holds no part of either.
#[derive(Debug, Clone, Copy)]
pub struct Request(Fingerprint);

impl Request {
    /// The bytes that this reviewer sent, in this form of the question.
    #[must_use]
    pub fn new(reviewer: &Reviewer, form: &str, body: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        for part in [reviewer.id.as_bytes(), form.as_bytes(), body] {
            // With its length, so that no two parts run together.
            context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(part);
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(context.finish().as_ref());
        Self(fingerprint)
    }
}

/// A good answer.
#[derive(Debug)]
pub struct Said {
    /// Whose token, as it was in force when it was said.
    pub standing: Standing,
    /// The answer as it goes over the wire.
    pub answer: Vec<u8>,
}

/// The answers.
pub(super) struct Remembered(Slots<Arc<Said>>);

impl std::fmt::Debug for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Remembered")
    }
}

impl Remembered {
    pub(super) fn new() -> Self {
        Self(Slots::new(REMEMBERED))
    }

    pub(super) fn get(&self, request: Request) -> Option<Arc<Said>> {
        self.0.get(&request.0)
    }

    pub(super) fn insert(&self, request: Request, said: Said) {
        self.0.insert(request.0, Arc::new(said));
    }
}
