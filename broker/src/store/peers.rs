//! What replicas on one store tell each other. Nothing of it is kept, and some of it may be missed: whoever hears that is told so, and
//! reads the store again.

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{Kind, StoreError};

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// An upstream's token was taken back.
    TokenTakenBack,
}

impl Topic {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenTakenBack => "token-taken-back",
        }
    }

    /// The topic of this name; `None` for one of a newer version.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::TokenTakenBack].into_iter().find(|topic| topic.as_str() == name)
    }
}

/// What is heard, also of what this replica did itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Records of this kind were written or deleted; only for kinds that [are told of](Kind::is_told).
    Changed(Kind),
    /// Someone told this.
    Told(Topic, Vec<u8>),
    /// Something may have been missed: everything may have changed.
    Missed,
}

/// The way to the other replicas.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Whether there may be others. Where not, what needs turns among replicas needs none.
    fn may_be(&self) -> bool;

    /// Tells all replicas, this one too.
    ///
    /// # Errors
    /// When it could not be told.
    async fn tell(&self, topic: Topic, text: &[u8]) -> Result<(), StoreError>;

    /// What is told from now on. Whoever is slow to take it gets [`broadcast::error::RecvError::Lagged`], which means
    /// [`News::Missed`].
    fn hear(&self) -> broadcast::Receiver<News>;
}

/// A process that has its store for itself: there is no one to tell, and nothing to hear.
#[derive(Debug, Clone, Copy)]
pub struct Alone;

#[async_trait]
impl Peers for Alone {
    fn may_be(&self) -> bool {
        false
    }
    async fn tell(&self, _topic: Topic, _text: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    /// A channel that is closed.
    fn hear(&self) -> broadcast::Receiver<News> {
        broadcast::channel(1).1
    }
}
