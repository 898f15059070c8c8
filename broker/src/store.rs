//! What must outlive a request: keys, sign-ins, codes, sessions, grants, the record of ids.
//!
//! It owns the shape of a key and what one atomic step is. It does not know what the values mean. Each backend passes the
//! conformance suite in `store/conformance.rs`.

mod backend;
mod changes;
pub mod conformance;
pub mod embedded;
mod formats;
mod lease;
mod limits;
mod peers;
mod record;
pub mod redis;
mod scan;
#[cfg(test)]
pub(crate) mod stand_in;

use std::fmt;

use async_trait::async_trait;
use claims_mapping::TenantId;
use time::OffsetDateTime;

pub use backend::{Backend, BackendError};
pub use formats::{Format, Release, Step, Turn, Versioned};
pub use lease::Lease;
pub(crate) use limits::Buckets;
pub use limits::{Bucket, InProcess, Limits, Rate};
pub use peers::{Alone, News, Peers, Topic};
pub use scan::{Kept, Scan, Scanned};

/// A part of the store within which a batch is atomic: one tenant's, or the system's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition {
    /// What belongs to no tenant: signing keys, browsers before their sign-in.
    System,
    /// One tenant's.
    Tenant(TenantId),
}

/// What a record is. The names are part of the stored form: they do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A signing key (system).
    SigningKey,
    /// A browser's session, by tower-sessions (system).
    Browser,
    /// A sign-in under way (system).
    Attempt,
    /// A signed-in session: who, until when (tenant).
    Session,
    /// An authorization code, or its tombstone (tenant).
    Code,
    /// A family of refresh tokens, with the one that is good now (tenant).
    Grant,
    /// An access token that was revoked before its end (tenant).
    RevokedToken,
    /// opaque_id → (connector, subject) (tenant).
    User,
    /// Which tenant an opaque_id belongs to (system).
    IdOwner,
    /// A key of our own for message authentication (system).
    MacKey,
    /// What readiness writes, to know that it can (system).
    Probe,
    /// A tenant that came into being because an operator's connector named it (system).
    CreatedTenant,
    /// A sign-in that is at its upstream's pages (system).
    Handshake,
    /// Why a sign-in was refused, under the number that its person was told (system).
    Refusal,
    /// What goes on at the upstream of a session, its refresh token sealed (tenant).
    UpstreamGrant,
    /// Which of our sessions an upstream's session or subject has (system).
    UpstreamSession,
    /// The id of a token that is good once, and was used (system).
    UsedToken,
    /// Someone who signed in through a connector without a directory (tenant).
    Person,
    /// A client that was given an ID token in a session (tenant).
    SessionClient,
    /// A sign-out that a client has not been told of yet (system).
    LogoutNotice,
    /// The key that seals what the store keeps for upstreams (system).
    SealingKey,
    /// The id of a group → its name (tenant).
    Group,
    /// Which tenant the id of a group belongs to (system).
    GroupOwner,
    /// A turn among replicas (system).
    Lease,
    /// A replica that is alive, and what it can read (system).
    Replica,
    /// In which format values are written (system).
    Format,
    /// A commit of which it is not known whether it was carried out, and whose caller was told so (tenant).
    Doubt,
    /// An upstream's token that was taken back through us (system).
    TakenBack,
    /// What a tenant that came into being is called, so that no two are called alike (system).
    TenantName,
}

impl Kind {
    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SigningKey => "signing-key",
            Self::Browser => "browser",
            Self::Attempt => "attempt",
            Self::Session => "session",
            Self::Code => "code",
            Self::Grant => "grant",
            Self::RevokedToken => "revoked-token",
            Self::User => "user",
            Self::IdOwner => "id-owner",
            Self::MacKey => "mac-key",
            Self::Probe => "probe",
            Self::CreatedTenant => "created-tenant",
            Self::Handshake => "handshake",
            Self::Refusal => "refusal",
            Self::UpstreamGrant => "upstream-grant",
            Self::UpstreamSession => "upstream-session",
            Self::UsedToken => "used-token",
            Self::Person => "person",
            Self::SessionClient => "session-client",
            Self::LogoutNotice => "logout-notice",
            Self::SealingKey => "sealing-key",
            Self::Group => "group",
            Self::GroupOwner => "group-owner",
            Self::Lease => "lease",
            Self::Replica => "replica",
            Self::Format => "format",
            Self::Doubt => "doubt",
            Self::TakenBack => "taken-back",
            Self::TenantName => "tenant-name",
        }
    }

    /// Every kind.
    pub const ALL: [Self; 29] = [
        Self::SigningKey,
        Self::Browser,
        Self::Attempt,
        Self::Session,
        Self::Code,
        Self::Grant,
        Self::RevokedToken,
        Self::User,
        Self::IdOwner,
        Self::MacKey,
        Self::Probe,
        Self::CreatedTenant,
        Self::Handshake,
        Self::Refusal,
        Self::UpstreamGrant,
        Self::UpstreamSession,
        Self::UsedToken,
        Self::Person,
        Self::SessionClient,
        Self::LogoutNotice,
        Self::SealingKey,
        Self::Group,
        Self::GroupOwner,
        Self::Lease,
        Self::Replica,
        Self::Format,
        Self::Doubt,
        Self::TakenBack,
        Self::TenantName,
    ];

    /// The kind of this stored name; `None` for one of a newer version.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether its records are listed ([`Store::list`]): a shared store keeps an index of those kinds only.
    #[must_use]
    pub const fn is_listed(self) -> bool {
        matches!(
            self,
            Self::SigningKey
                | Self::CreatedTenant
                | Self::UpstreamSession
                | Self::Person
                | Self::SessionClient
                | Self::LogoutNotice
                | Self::Replica
        )
    }

    /// Whether what was answered of it may be lost with a server of the store: then someone begins again, and nothing that was used or
    /// ended comes back.
    #[must_use]
    pub const fn may_be_lost(self) -> bool {
        matches!(self, Self::Attempt | Self::Probe | Self::Refusal | Self::Lease | Self::Replica)
    }

    /// Whether it is kept for good and is neither used up nor ended: an older copy of it brings nothing back that was over.
    #[must_use]
    pub const fn is_lasting(self) -> bool {
        matches!(
            self,
            Self::SigningKey
                | Self::MacKey
                | Self::SealingKey
                | Self::User
                | Self::IdOwner
                | Self::Person
                | Self::CreatedTenant
                | Self::Group
                | Self::GroupOwner
                | Self::Format
        )
    }

    /// Whether reviews rest on it: replicas remember what they saw of it, and are told when it changes ([`Store::look`]).
    #[must_use]
    pub const fn is_watched(self) -> bool {
        matches!(self, Self::Session | Self::Grant | Self::RevokedToken | Self::TakenBack)
    }

    /// Whether its values have one form for ever, which each version reads: the bytes of keys, turns, and what replicas tell by which
    /// formats may be written. Where another form is needed, so is another kind or id.
    #[must_use]
    pub const fn has_one_form(self) -> bool {
        matches!(self, Self::MacKey | Self::SealingKey | Self::Lease | Self::Replica | Self::Format)
    }

    /// Whether all replicas are told that records of it changed ([`News::Changed`]).
    #[must_use]
    pub const fn is_told(self) -> bool {
        matches!(self, Self::SigningKey | Self::CreatedTenant | Self::LogoutNotice | Self::Format)
    }
}

/// Where a record stands. [`Key::new`] and [`Key::system`] are the only ways to one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    partition: Partition,
    kind: Kind,
    id: String,
}

impl Key {
    /// A record of a tenant.
    #[must_use]
    pub fn new(tenant: &TenantId, kind: Kind, id: impl Into<String>) -> Self {
        Self { partition: Partition::Tenant(tenant.clone()), kind, id: id.into() }
    }
    /// A record of no tenant.
    #[must_use]
    pub fn system(kind: Kind, id: impl Into<String>) -> Self {
        Self { partition: Partition::System, kind, id: id.into() }
    }
    /// Its partition.
    #[must_use]
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }
    /// What the record is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }
    /// Its id within the kind.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A stored value, and the version that its last write gave it.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The bytes.
    pub value: Vec<u8>,
    /// Grows with each write of the record; never given twice to it.
    pub version: u64,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("bytes", &self.value.len()).field("version", &self.version).finish()
    }
}

/// What must hold of a record for a batch to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// There is none (or it has expired).
    Absent,
    /// There is one.
    Present,
    /// There is one, and it is still of this version.
    Version(u64),
}

/// Changes that happen together or not at all, in one partition. Deletions come first: a record that is both deleted and
/// written is there afterwards.
#[derive(Clone, Default)]
pub struct Batch {
    pub(crate) expect: Vec<(Key, Expect)>,
    pub(crate) put: Vec<(Key, Vec<u8>, Option<OffsetDateTime>)>,
    pub(crate) delete: Vec<Key>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Whether it changes nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }
    /// Carry it out only if this holds.
    #[must_use]
    pub fn expect(mut self, key: Key, expect: Expect) -> Self {
        self.expect.push((key, expect));
        self
    }
    /// And this too.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.expect.extend(other.expect);
        self.put.extend(other.put);
        self.delete.extend(other.delete);
        self
    }
    /// Write a record; it is gone at `expires_at` (`None`: never).
    #[must_use]
    pub fn put(mut self, key: Key, value: Vec<u8>, expires_at: Option<OffsetDateTime>) -> Self {
        self.put.push((key, value, expires_at));
        self
    }
    /// The partition that all its keys are of; `None` where it names none.
    ///
    /// # Errors
    /// [`StoreError::SpansPartitions`].
    pub fn partition(&self) -> Result<Option<&Partition>, StoreError> {
        let expected = self.expect.iter().map(|(key, _)| key);
        let mut partitions = expected.chain(self.changed()).map(Key::partition);
        let first = partitions.next();
        if partitions.any(|other| Some(other) != first) { Err(StoreError::SpansPartitions) } else { Ok(first) }
    }
    /// The records that it writes or deletes.
    pub fn changed(&self) -> impl Iterator<Item = &Key> {
        self.put.iter().map(|(key, ..)| key).chain(&self.delete)
    }
    /// What is written, to be changed by a store that lies around another one.
    pub fn written(&mut self) -> impl Iterator<Item = (&Key, &mut Vec<u8>)> {
        self.put.iter_mut().map(|(key, value, _)| (&*key, value))
    }
    /// Delete a record; one that is absent is no error.
    #[must_use]
    pub fn delete(mut self, key: Key) -> Self {
        self.delete.push(key);
        self
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let put: Vec<_> = self.put.iter().map(|(key, ..)| key).collect();
        f.debug_struct("Batch").field("expect", &self.expect).field("put", &put).field("delete", &self.delete).finish()
    }
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is carried out and, where the store is durable, on disk.
    Committed,
    /// An expectation did not hold; nothing was changed.
    Conflict,
}

/// The store could not tell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It failed, or is not reachable.
    #[error("the store is unavailable: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A batch named keys of two partitions: a fault of the program.
    #[error("a batch spans partitions")]
    SpansPartitions,
    /// What is stored was written by a newer version, so that it is not known what it says.
    #[error(
        "the store has values of format {found}, and this Denizen reads formats up to {reads}: run the version that wrote them, or a later one"
    )]
    Newer {
        /// Its format.
        found: Format,
        /// The newest format that this program reads.
        reads: Format,
    },
}

/// What a look at some records depends on: by it a store tells later, without looking again, that nothing of it has changed.
#[derive(Debug, Clone)]
pub struct Mark {
    /// From when the look holds, in milliseconds since 1970.
    from: i64,
    /// Until when it holds: then the first of the records expires.
    until: i64,
    /// Of each record, what counts its changes, and how many there had been before it was looked at.
    counts: Vec<(usize, u64)>,
}

/// One page of a listing.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The records, in the order of their ids.
    pub entries: Vec<(String, Entry)>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// Keeps records. Expired ones are as absent, at once; they are swept away later.
#[async_trait]
pub trait Store: Send + Sync {
    /// One record.
    async fn get(&self, key: &Key, now: OffsetDateTime) -> Result<Option<Entry>, StoreError>;

    /// Which of these records there are, all seen at one moment, and none of them read.
    async fn present(&self, keys: &[Key], now: OffsetDateTime) -> Result<Vec<bool>, StoreError>;

    /// The same, and by what [`Store::is_as_seen`] tells whether it is still so; `None` from a store that others write to.
    async fn look(&self, keys: &[Key], now: OffsetDateTime) -> Result<(Vec<bool>, Option<Mark>), StoreError> {
        Ok((self.present(keys, now).await?, None))
    }

    /// Whether [`Store::present`] would surely answer now as it did under this mark. `false` says nothing: ask it.
    fn is_as_seen(&self, _mark: &Mark, _now: OffsetDateTime) -> bool {
        false
    }

    /// Carries a batch out, atomically. What is answered as committed is still so after a crash where the store is durable.
    async fn commit(&self, batch: Batch, now: OffsetDateTime) -> Result<Outcome, StoreError>;

    /// Records of one kind that [is listed](Kind::is_listed), in the order of their ids (as bytes), after the id `cursor`, at most `limit` (at least 1, at most 1,000).
    async fn list(
        &self,
        partition: &Partition,
        kind: Kind,
        cursor: Option<&str>,
        limit: usize,
        now: OffsetDateTime,
    ) -> Result<Listing, StoreError>;

    /// Removes what has expired, at most `limit` records, and says how many. A store whose records leave by themselves has nothing to
    /// remove.
    async fn sweep(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError>;
}
