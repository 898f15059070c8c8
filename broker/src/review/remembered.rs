//! Good answers as they were rendered, so that the same request of the same reviewer need not be read and rendered again.
//!
//! It remembers what was said, and never that it still may be: that is judged at every use.

use std::sync::Arc;

use claims_mapping::Tenant;
use uuid::Uuid;

use super::{Reviewer, upstream::Basis};
use crate::{
    secret_text::digest_of,
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
        Self(digest_of(&[reviewer.id.as_bytes(), form.as_bytes(), body]))
    }
}

/// What a good answer rests on, as it was when it was said.
#[derive(Debug)]
pub struct Ground(pub(super) Of);

/// Of a token of ours, or of an upstream's.
pub(super) enum Of {
    Own(Standing),
    Upstream(Basis),
}

impl std::fmt::Debug for Of {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own(_) => "Own",
            Self::Upstream(_) => "Upstream",
        })
    }
}

/// A good answer.
#[derive(Debug)]
pub struct Said {
    /// The tenant of the token's bearer.
    pub tenant: Arc<Tenant>,
    /// The bearer.
    pub user: Uuid,
    /// The answer as it goes over the wire.
    pub answer: Vec<u8>,
    /// What it rests on.
    pub ground: Ground,
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
