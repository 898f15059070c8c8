//! What a test replaces: the clock, the source of randomness, the store and what goes with it. Below the front doors time is an
//! argument.

use std::{fmt, sync::Arc};

use time::OffsetDateTime;

use crate::store::{Alone, Backend, InProcess, Limits, Peers, Store};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now, UTC.
    fn now(&self) -> OffsetDateTime;
}

/// Gives bytes that no one can guess.
pub trait Entropy: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, bytes: &mut [u8]);
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the injected clock")]
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }
}

/// The operating system's generator, by aws-lc.
#[derive(Debug, Clone, Copy)]
pub struct SystemEntropy;

impl SystemEntropy {
    /// Readies the generator on a thread of its own. aws-lc measures the machine's jitter when it is first asked, for tens of
    /// milliseconds, in which the configuration can be read.
    pub fn ready_early() {
        let work = || Self.fill(&mut [0]);
        // Without a thread, whoever asks first waits.
        _ = std::thread::Builder::new().name("entropy".to_owned()).spawn(work);
    }
}

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the injected entropy")]
    #[expect(clippy::expect_used, reason = "a machine without randomness must not go on")]
    fn fill(&self, bytes: &mut [u8]) {
        aws_lc_rs::rand::fill(bytes).expect("the operating system gives random bytes");
    }
}

/// The replaceable parts of an [`App`](crate::App).
#[derive(Clone)]
pub struct Seams {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Keeps what must outlive a request.
    pub store: Arc<dyn Store>,
    /// Counts what is done too often.
    pub limits: Arc<dyn Limits>,
    /// The other replicas on the same store.
    pub peers: Arc<dyn Peers>,
}

impl Seams {
    /// The machine's own clock and randomness, over this store.
    #[must_use]
    pub fn of_machine(backend: Backend) -> Self {
        let Backend { store, limits, peers, .. } = backend;
        Self { clock: Arc::new(SystemClock), entropy: Arc::new(SystemEntropy), store, limits, peers }
    }

    /// Those of a process that has its store for itself.
    #[must_use]
    pub fn alone(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, store: Arc<dyn Store>) -> Self {
        Self { clock, entropy, store, limits: Arc::new(InProcess::default()), peers: Arc::new(Alone) }
    }
}

impl fmt::Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seams")
    }
}
