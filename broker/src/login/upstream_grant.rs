//! What goes on at the upstream of a session: whom it proved, and what it can be asked again with.
//!
//! It owns the records, the asking, and when there is no need to ask. A record is written with the session that it belongs
//! to, and that session's offline copies share it. Renewals of one record are made one after the other, each to its end even
//! where whoever wanted it goes away: what the upstream gave in exchange is not lost. What ends with a refusal, sessions decide.

use std::sync::Arc;

use claims_mapping::{ConnectorId, MappedUser, Subject, TenantId};
use connectors::{Renewal, Renewed, Secret};
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{AtUpstream, SessionError, turns::Turns};
use crate::{
    config::seconds,
    sealing::{Sealing, SealingError},
    seams::Entropy,
    secret_text::random_uuid,
    store::{Batch, Expect, Key, Kind, Outcome, Store, StoreError},
    tenancy::{Admission, AdmissionError, StoredUser},
};

/// What was heard so lately is not asked for again.
const FRESH: Duration = Duration::seconds(30);
/// A record outlasts the sessions that it belongs to: a code may become an offline session up to ten minutes after the asking.
const MARGIN: Duration = Duration::minutes(15);
/// The most records of which a refresh token waits in memory for the store to take it.
const MOST_UNSAVED: u64 = 10_000;

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

/// The records.
pub struct UpstreamGrants {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    sealing: Sealing,
    admission: Arc<Admission>,
    kept: Duration,
    turns: Turns,
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
        longest_session: Duration,
    ) -> Self {
        let kept = longest_session + MARGIN;
        Self { store, entropy, sealing, admission, kept, turns: Turns::default(), unsaved: Cache::new(MOST_UNSAVED) }
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
        let turn = self.turns.take(id).await;
        let this = Arc::clone(self);
        let asking = async move {
            let _turn = turn;
            let heard = this.ask_in_turn(id, &whose, now).await;
            if heard.as_ref().is_err_and(SessionError::is_final) {
                // The other sessions that share it find nothing, and end too.
                if let Err(error) = this.store.commit(Batch::new().delete(key(&whose.tenant, id)), now).await {
                    tracing::error!(%error, "what went on at an upstream could not be forgotten");
                }
            }
            heard
        };
        let stopped = |_| Err(StoreError::Unavailable("the renewal was stopped".into()).into());
        tokio::spawn(asking).await.unwrap_or_else(stopped)
    }

    async fn ask_in_turn(&self, id: Uuid, whose: &Whose, now: OffsetDateTime) -> Result<Heard, SessionError> {
        let key = key(&whose.tenant, id);
        let entry = self.store.get(&key, now).await?.ok_or(SessionError::GrantLost)?;
        let mut grant: StoredGrant = serde_json::from_slice(&entry.value).map_err(|_| SessionError::GrantLost)?;
        let gone = || SessionError::NoLonger(AdmissionError::NoConnector(grant.via.clone()));
        let via = self.admission.connector(grant.via.as_str()).ok_or_else(gone)?;
        let renewal = via.renewal.as_ref().ok_or_else(gone)?;
        let Some(sealed) = &grant.refresh_token else {
            let until = grant.proven_at.saturating_add(self.believed(&grant.via).whole_seconds());
            return if now.unix_timestamp() < until { Ok(Heard::Nothing) } else { Err(SessionError::NoLongerBelieved) };
        };
        if (now.unix_timestamp() - grant.asked_at).abs() < FRESH.whole_seconds() {
            return Ok(grant.stands());
        }
        let token = match self.unsaved.get(&id).filter(|(version, _)| *version == entry.version) {
            Some((_, token)) => token,
            None => self.unseal(&whose.tenant, &grant.via, id, sealed).ok_or(SessionError::GrantLost)?,
        };
        let Renewed { user, refresh_token } = renew(&**renewal, &grant.subject, &token, now).await?;
        let heard = match user {
            Err(error) => Err(error.into()),
            Ok(None) => Ok(grant.stands()),
            Ok(Some(user)) if user.subject != grant.subject => Err(SessionError::Vanished),
            Ok(Some(user)) => match self.admission.person_behind(via, &user, now).await {
                Ok((identity, _)) if !whose.is(&identity) => Err(SessionError::Vanished),
                Ok((_, mapped)) if via.join.is_some() => Ok(Heard::Directory(Box::new(mapped))),
                Ok((_, mapped)) => Ok(Heard::Upstream(Box::new(mapped))),
                Err(error) => Err(error.into()),
            },
        };
        match &heard {
            Err(error) if error.is_final() => return heard,
            // Nothing was learnt that can be used; a token that was spent must be replaced all the same.
            Err(_) if refresh_token.is_none() => return heard,
            Err(_) => {}
            Ok(Heard::Upstream(mapped)) => (grant.latest, grant.asked_at) = (Some((**mapped).clone().into()), now.unix_timestamp()),
            Ok(_) => grant.asked_at = now.unix_timestamp(),
        }
        let token = refresh_token.unwrap_or(token);
        grant.refresh_token = Some(self.seal(&whose.tenant, &grant.via, id, &token).map_err(unsealable)?);
        let batch = self.write(Batch::new().expect(key.clone(), Expect::Version(entry.version)), &key, &grant, now);
        match self.store.commit(batch, now).await {
            Ok(Outcome::Committed) => {
                self.unsaved.invalidate(&id);
                heard
            }
            // It has ended meanwhile, or another replica asked: the record says which the next time.
            Ok(Outcome::Conflict) => Err(StoreError::Unavailable("what goes on at the upstream was written meanwhile".into()).into()),
            Err(error) => {
                self.unsaved.insert(id, (entry.version, token));
                Err(error.into())
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
