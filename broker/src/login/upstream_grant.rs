//! What goes on at the upstream of a session: whom it proved, and what it can be asked again with.
//!
//! It owns the records, the asking, and when there is no need to ask. A record is written with the session that it belongs
//! to, and that session's offline copies share it. Renewals of one record are made one after the other, each to its end even
//! where whoever wanted it goes away: what the upstream gave in exchange is not lost. Where there are replicas they take turns by a lease, and
//! a token that the store did not take is kept under it until the store does. What ends with a refusal, sessions decide.

use std::{sync::Arc, time::Duration as StdDuration};

use claims_mapping::{ConnectorId, MappedUser, Subject, TenantId, UpstreamUser};
use connectors::{ConnectorError, Renewal, Renewed, Secret};
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

use super::{AtUpstream, SessionError, turns::Turns};
use crate::{
    config::seconds,
    sealing::{Sealing, SealingError},
    seams::Entropy,
    secret_text::random_uuid,
    store::{Batch, Expect, Key, Kind, Lease, Outcome, Peers, Store, StoreError},
    tenancy::{Admission, AdmissionError, StoredUser, Wired},
};

/// What was heard so lately is not asked for again.
const FRESH: Duration = Duration::seconds(30);
/// A record outlasts the sessions that it belongs to: a code may become an offline session up to ten minutes after the asking.
const MARGIN: Duration = Duration::minutes(15);
/// The most records of which a refresh token waits in memory for the store to take it.
const MOST_UNSAVED: u64 = 10_000;
/// How long someone waits for others who ask the same.
const PATIENCE: StdDuration = StdDuration::from_secs(20);
/// How often it is looked whether another replica is done.
const POLL: StdDuration = StdDuration::from_millis(75);
/// What a lease lasts longer than the calls that are made under it: the store's part.
const STORE_TIME: StdDuration = StdDuration::from_secs(5);
/// How long to wait before the store is asked again to take a refresh token, and for how long that goes on.
const SAVE_AGAIN: StdDuration = StdDuration::from_millis(200);
const SAVE_FOR: StdDuration = StdDuration::from_secs(120);

/// The form that is stored.
#[derive(Clone, Serialize, Deserialize)]
struct StoredGrant {
    /// The connector that they came through.
    via: ConnectorId,
    subject: Subject,
    /// Sealed.
    refresh_token: Option<String>,
    /// When they were proven there, or the upstream was last asked, in seconds since 1970.
    asked_at: i64,
    /// When they were proven there.
    proven_at: i64,
    /// What the upstream said last, where that was after the session began and the identity is its own.
    latest: Option<StoredUser>,
}

/// Whose sessions a record belongs to: whatever the upstream says must still be of them.
#[derive(Debug, Clone)]
pub(super) struct Whose {
    pub(super) tenant: TenantId,
    pub(super) connector: ConnectorId,
    pub(super) opaque_id: Uuid,
}

/// What is known of the person now.
#[derive(Debug)]
pub(super) enum Heard {
    /// Nothing: there is nothing to ask with.
    Nothing,
    /// That they still are; what they are has not changed since the session began.
    Still,
    /// What the upstream says of them.
    Upstream(Box<MappedUser>),
    /// What the directory that they are joined to says of them, at this moment.
    Directory(Box<MappedUser>),
}

/// A record that is about to be written, with the session that it belongs to.
pub(super) struct Begun {
    pub(super) id: Uuid,
    /// Until when what was said is believed, where there is nothing to ask again with.
    pub(super) believed_until: Option<OffsetDateTime>,
    pub(super) batch: Batch,
}

/// A record that says that its upstream is to be asked.
struct Due<'a> {
    key: Key,
    version: u64,
    grant: StoredGrant,
    via: &'a Wired,
    renewal: Arc<dyn Renewal>,
    token: Secret,
}

/// What a record says.
enum Known<'a> {
    Heard(Heard),
    Due(Box<Due<'a>>),
}

/// What the upstream gave and the store did not take.
struct Unsaved {
    batch: Batch,
}

/// What came of asking.
type Asked = (Result<Heard, SessionError>, Option<Unsaved>);

/// The records.
pub struct UpstreamGrants {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    sealing: Sealing,
    admission: Arc<Admission>,
    kept: Duration,
    turns: Turns,
    peers: Arc<dyn Peers>,
    /// This replica, among those that take turns.
    own: Uuid,
    /// Refresh tokens that an upstream gave and the store did not take, with the version of the record that each replaces.
    unsaved: Cache<Uuid, (u64, Secret)>,
}

impl std::fmt::Debug for UpstreamGrants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UpstreamGrants")
    }
}

impl UpstreamGrants {
    /// Records that are kept at least so long after the upstream was last asked: as long as the longest session.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        sealing: Sealing,
        admission: Arc<Admission>,
        peers: Arc<dyn Peers>,
        longest_session: Duration,
    ) -> Self {
        let kept = longest_session + MARGIN;
        let own = random_uuid(&*entropy);
        Self { store, entropy, sealing, admission, kept, turns: Turns::default(), peers, own, unsaved: Cache::new(MOST_UNSAVED) }
    }

    /// The record of someone who goes in now.
    pub(super) fn begin(&self, tenant: &TenantId, at: &AtUpstream, now: OffsetDateTime) -> Result<Begun, SealingError> {
        let id = random_uuid(&*self.entropy);
        let token = at.session.refresh_token.as_ref();
        let grant = StoredGrant {
            via: at.connector.clone(),
            subject: at.subject.clone(),
            refresh_token: token.map(|token| self.seal(tenant, &at.connector, id, token)).transpose()?,
            asked_at: now.unix_timestamp(),
            proven_at: now.unix_timestamp(),
            latest: None,
        };
        let believed_until = token.is_none().then(|| now + self.believed(&at.connector));
        // Where the upstream is believed for longer than any session lasts, offline sessions are renewed until then.
        let until = believed_until.map_or(now, |until| until - self.kept + MARGIN).max(now);
        Ok(Begun { id, believed_until, batch: self.write(Batch::new(), &key(tenant, id), &grant, until) })
    }

    /// How long a connector's upstream is believed that gave nothing to ask again with; not at all where it is gone.
    fn believed(&self, via: &ConnectorId) -> Duration {
        let port = self.admission.connector(via.as_str()).and_then(|via| via.renewal.as_ref());
        port.map_or(Duration::ZERO, |port| seconds(port.believed_seconds()))
    }

    /// Asks the upstream again, where there is something to ask with and it was not asked just now.
    ///
    /// # Errors
    /// That the session has to end, or that it could not be told: [`SessionError::is_final`] says which.
    pub(super) async fn ask(self: &Arc<Self>, id: Uuid, whose: Whose, now: OffsetDateTime) -> Result<Heard, SessionError> {
        // Whoever goes away while they wait asks nothing: only what has begun goes on without them.
        let turn = timeout(PATIENCE, self.turns.take(id)).await.map_err(|_| others_ask())?;
        let this = Arc::clone(self);
        let (tell, mut told) = oneshot::channel();
        tokio::spawn(async move {
            let _turn = turn;
            this.ask_in_turn(id, &whose, now, tell).await;
        });
        (&mut told).await.unwrap_or_else(|_| Err(StoreError::Unavailable("the renewal was stopped".into()).into()))
    }

    /// Asks, in turn also among replicas, and tells what came of it.
    async fn ask_in_turn(&self, id: Uuid, whose: &Whose, now: OffsetDateTime, tell: oneshot::Sender<Result<Heard, SessionError>>) {
        let begun = Instant::now();
        let due = match self.known(id, whose, now).await {
            Ok(Known::Due(due)) => due,
            Ok(Known::Heard(heard)) => return drop(tell.send(Ok(heard))),
            Err(error) => return drop(tell.send(Err(self.ended(error, &key(&whose.tenant, id), None, now).await))),
        };
        if !self.peers.may_be() {
            let (heard, unsaved) = self.ask_upstream(id, whose, *due, now).await;
            drop(tell.send(heard));
            if let Some(unsaved) = unsaved {
                self.save(id, unsaved, None, now).await;
            }
            return;
        }
        let lasts = due.via.within * 2 + STORE_TIME;
        let lease = match self.lease(id, (lasts, due.via.within), (now, begun), &tell).await {
            Ok(lease) => lease,
            Err(error) => return drop(tell.send(Err(error))),
        };
        // Whoever had the turn before may have asked.
        let (heard, unsaved) = match self.known(id, whose, now).await {
            Ok(Known::Due(due)) => self.ask_upstream(id, whose, *due, now).await,
            Ok(Known::Heard(heard)) => (Ok(heard), None),
            Err(error) => (Err(self.ended(error, &key(&whose.tenant, id), None, now).await), None),
        };
        drop(tell.send(heard));
        let lease = match unsaved {
            Some(unsaved) => self.save(id, unsaved, Some((lease, lasts)), now).await,
            None => Some(lease),
        };
        if let Some(lease) = lease
            && let Err(error) = lease.give_back(&*self.store, now + begun.elapsed()).await
        {
            tracing::debug!(%error, "the turn at an upstream's grant could not be given back; it ends by itself");
        }
    }

    /// Waits for the turn among replicas, as long as somebody waits for what comes of it.
    async fn lease(
        &self,
        id: Uuid,
        (lasts, patience): (StdDuration, StdDuration),
        (now, begun): (OffsetDateTime, Instant),
        tell: &oneshot::Sender<Result<Heard, SessionError>>,
    ) -> Result<Lease, SessionError> {
        let name = format!("upstream-grant.{id}");
        while begun.elapsed() <= patience + POLL && !tell.is_closed() {
            let lasts = Duration::try_from(lasts).unwrap_or(Duration::MINUTE);
            if let Some(lease) = Lease::take(&*self.store, &name, self.own, lasts, now + begun.elapsed()).await? {
                return Ok(lease);
            }
            sleep(POLL).await;
        }
        Err(others_ask())
    }

    /// What the record says.
    async fn known(&self, id: Uuid, whose: &Whose, now: OffsetDateTime) -> Result<Known<'_>, SessionError> {
        let key = key(&whose.tenant, id);
        let entry = self.store.get(&key, now).await?.ok_or(SessionError::GrantLost)?;
        let grant: StoredGrant = serde_json::from_slice(&entry.value).map_err(|_| SessionError::GrantLost)?;
        let gone = || SessionError::NoLonger(AdmissionError::NoConnector(grant.via.clone()));
        let via = self.admission.connector(grant.via.as_str()).ok_or_else(gone)?;
        let renewal = Arc::clone(via.renewal.as_ref().ok_or_else(gone)?);
        let Some(sealed) = &grant.refresh_token else {
            let until = grant.proven_at.saturating_add(self.believed(&grant.via).whole_seconds());
            return if now.unix_timestamp() < until { Ok(Known::Heard(Heard::Nothing)) } else { Err(SessionError::NoLongerBelieved) };
        };
        if (now.unix_timestamp() - grant.asked_at).abs() < FRESH.whole_seconds() {
            return Ok(Known::Heard(grant.stands()));
        }
        let token = match self.unsaved.get(&id).filter(|(version, _)| *version == entry.version) {
            Some((_, token)) => token,
            None => self.unseal(&whose.tenant, &grant.via, id, sealed).ok_or(SessionError::GrantLost)?,
        };
        Ok(Known::Due(Box::new(Due { key, version: entry.version, grant, via, renewal, token })))
    }

    async fn ask_upstream(&self, id: Uuid, whose: &Whose, due: Due<'_>, now: OffsetDateTime) -> Asked {
        let Due { key, version, mut grant, via, renewal, token } = due;
        let (heard, refresh_token) = match renew(&*renewal, &grant.subject, &token, now).await {
            Ok(Renewed { user, refresh_token }) => (self.heard(user, whose, &grant, via, now).await, refresh_token),
            Err(error) => (Err(error), None),
        };
        match heard {
            Err(error) if error.is_final() => return (Err(self.ended(error, &key, Some(version), now).await), None),
            // Nothing was learnt that can be used; a token that was spent must be replaced all the same.
            Err(_) if refresh_token.is_none() => return (heard, None),
            Err(_) => {}
            Ok(Heard::Upstream(ref mapped)) => (grant.latest, grant.asked_at) = (Some((**mapped).clone().into()), now.unix_timestamp()),
            Ok(_) => grant.asked_at = now.unix_timestamp(),
        }
        let token = refresh_token.unwrap_or(token);
        match self.seal(&whose.tenant, &grant.via, id, &token) {
            Ok(sealed) => grant.refresh_token = Some(sealed),
            Err(error) => return (Err(unsealable(error)), None),
        }
        let batch = self.write(Batch::new().expect(key.clone(), Expect::Version(version)), &key, &grant, now);
        match self.store.commit(batch.clone(), now).await {
            Ok(Outcome::Committed) => {
                self.unsaved.invalidate(&id);
                (heard, None)
            }
            // It has ended meanwhile, or another replica asked: the record says which the next time.
            Ok(Outcome::Conflict) => (Err(written_meanwhile()), None),
            Err(error) => {
                self.unsaved.insert(id, (version, token));
                (Err(error.into()), Some(Unsaved { batch }))
            }
        }
    }

    /// What the upstream's answer says of the person.
    async fn heard(
        &self,
        user: Result<Option<UpstreamUser>, ConnectorError>,
        whose: &Whose,
        grant: &StoredGrant,
        via: &Wired,
        now: OffsetDateTime,
    ) -> Result<Heard, SessionError> {
        match user {
            Err(error) => Err(error.into()),
            Ok(None) => Ok(grant.stands()),
            Ok(Some(user)) if user.subject != grant.subject => Err(SessionError::Vanished),
            Ok(Some(user)) => match self.admission.person_behind(via, &user, now).await {
                Ok((identity, _)) if !whose.is(&identity) => Err(SessionError::Vanished),
                Ok((_, mapped)) if via.join.is_some() => Ok(Heard::Directory(Box::new(mapped))),
                Ok((_, mapped)) => Ok(Heard::Upstream(Box::new(mapped))),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Keeps on until the store has taken a refresh token, holding the turn: whoever asked with the one before would spend a spent one.
    async fn save(
        &self,
        id: Uuid,
        Unsaved { batch }: Unsaved,
        mut lease: Option<(Lease, StdDuration)>,
        now: OffsetDateTime,
    ) -> Option<Lease> {
        let (begun, mut prolonged) = (Instant::now(), Instant::now());
        while begun.elapsed() < SAVE_FOR {
            sleep(SAVE_AGAIN).await;
            let now = now + begun.elapsed();
            // Where it can not be prolonged the store takes nothing either; where it was lost the expectation below still holds.
            if let Some((held, lasts)) = lease.take_if(|(_, lasts)| prolonged.elapsed() > *lasts / 3) {
                let kept = held.clone().prolong(&*self.store, Duration::try_from(lasts).unwrap_or(Duration::MINUTE), now).await;
                (lease, prolonged) = (kept.unwrap_or(Some(held)).map(|held| (held, lasts)), Instant::now());
            }
            match self.store.commit(batch.clone(), now).await {
                // After a conflict the record is what counts: ours, where an earlier try was carried out after all.
                Ok(Outcome::Committed | Outcome::Conflict) => {
                    self.unsaved.invalidate(&id);
                    return lease.map(|(lease, _)| lease);
                }
                Err(_) => {}
            }
        }
        tracing::error!("the store has not taken an upstream's refresh token for two minutes; this replica alone has it");
        lease.map(|(lease, _)| lease)
    }

    /// What a final error leads to: the other sessions that share the record find nothing, and end too. Where the record is another than the one
    /// that was asked with, a replica has saved a newer token meanwhile, and nothing has ended.
    async fn ended(&self, error: SessionError, key: &Key, asked_with: Option<u64>, now: OffsetDateTime) -> SessionError {
        if !error.is_final() {
            return error;
        }
        let batch = Batch::new().delete(key.clone());
        let batch = asked_with.into_iter().fold(batch, |batch, version| batch.expect(key.clone(), Expect::Version(version)));
        let is_another = match self.store.commit(batch, now).await {
            Ok(Outcome::Committed) => return error,
            Ok(Outcome::Conflict) => self.store.get(key, now).await.map(|entry| entry.is_some()),
            Err(error) => Err(error),
        };
        match is_another {
            Ok(false) => error,
            Ok(true) => written_meanwhile(),
            Err(untold) => {
                tracing::error!(error = %untold, "what went on at an upstream could not be forgotten");
                error
            }
        }
    }

    /// The batch that says that a session which outlives the sign-out needs the record, until then.
    pub(super) fn needed_offline(&self, tenant: &TenantId, id: Uuid, until: Option<OffsetDateTime>) -> Batch {
        Batch::new().put(offline_key(tenant, id), Vec::new(), until)
    }

    /// Forgets a record whose session has ended, unless one that outlives the sign-out needs it. It is a tidying up: where
    /// the store can not tell, the record is gone when its time is over.
    pub(super) async fn forget(&self, tenant: &TenantId, id: Uuid, now: OffsetDateTime) {
        let batch = Batch::new().expect(offline_key(tenant, id), Expect::Absent).delete(key(tenant, id));
        if let Err(error) = self.store.commit(batch, now).await {
            tracing::warn!(%error, "what went on at an upstream could not be forgotten");
        }
    }

    fn write(&self, batch: Batch, key: &Key, grant: &StoredGrant, from: OffsetDateTime) -> Batch {
        batch.put(key.clone(), serde_json::to_vec(grant).unwrap_or_default(), Some(from + self.kept))
    }

    fn seal(&self, tenant: &TenantId, via: &ConnectorId, id: Uuid, token: &Secret) -> Result<String, SealingError> {
        self.sealing.seal(token.expose().as_bytes(), &bound_to(tenant, via, &id.to_string()))
    }

    fn unseal(&self, tenant: &TenantId, via: &ConnectorId, id: Uuid, sealed: &str) -> Option<Secret> {
        let text = self.sealing.unseal(sealed, &bound_to(tenant, via, &id.to_string()))?;
        std::str::from_utf8(&text).ok().map(|text| Secret::new(text.to_owned()))
    }
}

impl StoredGrant {
    /// What was heard last.
    fn stands(&self) -> Heard {
        self.latest.clone().map_or(Heard::Still, |user| Heard::Upstream(Box::new(user.into())))
    }
}

impl Whose {
    fn is(&self, identity: &claims_mapping::Identity) -> bool {
        let id = identity.id();
        id.tenant_id() == &self.tenant && id.opaque_id() == self.opaque_id && identity.connector() == &self.connector
    }
}

async fn renew(port: &dyn Renewal, subject: &Subject, token: &Secret, now: OffsetDateTime) -> Result<Renewed, SessionError> {
    port.renew(subject, token, now).await?.ok_or(SessionError::Refused)
}

/// That someone else is asking the upstream of the same session.
fn others_ask() -> SessionError {
    StoreError::Unavailable("the upstream is being asked for the same person already, and has not answered".into()).into()
}

fn written_meanwhile() -> SessionError {
    StoreError::Unavailable("what goes on at the upstream was written meanwhile".into()).into()
}

fn unsealable(error: SealingError) -> SessionError {
    StoreError::Unavailable(Box::new(error)).into()
}

/// What a sealed refresh token is bound to.
fn bound_to<'p>(tenant: &'p TenantId, via: &'p ConnectorId, id: &'p str) -> [&'p str; 4] {
    [Kind::UpstreamGrant.as_str(), tenant.as_str(), via.as_str(), id]
}

fn key(tenant: &TenantId, id: Uuid) -> Key {
    Key::new(tenant, Kind::UpstreamGrant, id.to_string())
}

fn offline_key(tenant: &TenantId, id: Uuid) -> Key {
    Key::new(tenant, Kind::UpstreamGrant, format!("{id}.offline"))
}
