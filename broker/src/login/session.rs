//! A signed-in session: who, since when, until when. Everything that is issued in it falls with it.

use std::sync::Arc;

use claims_mapping::{ConnectorId, Identity, MappedUser, Rejection, Tenant, TenantId};
use connectors::{ConnectorError, Lookup};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    AtUpstream, Ending, Entering, UpstreamGrants,
    upstream_grant::{Begun, Heard, Whose},
};
use crate::{
    seams::Entropy,
    secret_text::{random_text, random_uuid},
    store::{Batch, Expect, Key, Kind, Outcome, Store, StoreError},
    tenancy::{Admission, AdmissionError, Caller, SignedInPeople, StoredUser},
};

/// What a browser's own session says of the signed-in one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedIn {
    /// The tenant, whose partition holds the session.
    pub tenant: TenantId,
    /// The session.
    pub sid: Uuid,
}

/// A session as it is stored. It keeps what the mapping gave, not an identity: each use admits it anew.
#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
    /// Whose person it is: the identity's connector.
    pub connector: ConnectorId,
    /// The connector whose upstream proved who they are, and may be asked about them again; another than `connector` where it is
    /// joined to a directory. `None` where there is only `connector`'s directory to ask.
    pub via: Option<ConnectorId>,
    /// What goes on at that upstream.
    pub upstream: Option<Uuid>,
    /// Until when what that upstream said is believed, where it gave nothing to ask again with, in seconds since 1970. The
    /// session and its offline copies end then.
    believed_until: Option<i64>,
    /// When the person proved who they are, in seconds since 1970.
    pub auth_time: i64,
    /// Whether that is known: an upstream may have a session of its own, and not say since when.
    #[serde(default)]
    pub is_time_known: bool,
    /// Until when, in seconds since 1970.
    pub expires_at: i64,
    /// Whether it outlives the sign-out (`offline_access`).
    pub offline: bool,
    /// Who it was when the session began. A renewal must find the same person.
    pub opaque_id: Uuid,
    /// Proves that the sign-out form was shown to this browser.
    pub csrf: String,
    user: StoredUser,
    /// The version of the record that it was read from: a write over another one is refused.
    #[serde(skip)]
    version: u64,
    /// Whether it differs from that record. One that does not is not written: many applications renew in one session at once.
    #[serde(skip)]
    changed: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("connector", &self.connector).field("opaque_id", &self.opaque_id).finish_non_exhaustive()
    }
}

impl Session {
    /// Lets it last until then, where the upstream's word is good for so long.
    pub fn extend(&mut self, until: OffsetDateTime) {
        self.expires_at = self.bounded(until);
        self.changed = true;
    }

    fn bounded(&self, until: OffsetDateTime) -> i64 {
        until.unix_timestamp().min(self.believed_until.unwrap_or(i64::MAX))
    }
}

/// A session is not there, or its person is no longer admitted, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// It ended.
    #[error("the session has ended")]
    Ended,
    /// Its person is no longer admitted, or is someone else, or of another tenant.
    #[error("the person of the session is no longer admitted: {0}")]
    NoLonger(AdmissionError),
    /// The directory no longer has its person, enabled, in that tenant.
    #[error("the directory no longer has the person in that tenant")]
    Vanished,
    /// The upstream that proved who they are no longer vouches for them.
    #[error("the upstream no longer vouches for the person: disabled, gone, signed out there, or consent withdrawn")]
    Refused,
    /// The upstream gave nothing to ask again with, and `believedSeconds` are over.
    #[error("the upstream gave nothing to ask again with, and its word is no longer believed")]
    NoLongerBelieved,
    /// What goes on at the upstream is not known any more, or not readable with the sealing key.
    #[error("what the upstream can be asked again with is gone, or was sealed with another key")]
    GrantLost,
    /// The directory, or the upstream, could not tell.
    #[error(transparent)]
    Directory(#[from] ConnectorError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SessionError {
    /// Whether the session has to end, and everything that was issued in it. Else it has ended, or it could not be told.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::NoLonger(_) | Self::Vanished | Self::Refused | Self::NoLongerBelieved | Self::GrantLost => true,
            Self::Ended | Self::Directory(_) | Self::Store(_) => false,
        }
    }

    /// Whether the upstream says that its person is gone from there, or from the tenant; not that something was switched off here.
    const fn says_gone(&self) -> bool {
        match self {
            Self::Vanished => true,
            Self::NoLonger(AdmissionError::Rejected(why)) => !matches!(why, Rejection::TenantDisabled | Rejection::ConnectorNotAllowed(_)),
            _ => false,
        }
    }
}

impl From<AdmissionError> for SessionError {
    fn from(error: AdmissionError) -> Self {
        match error {
            AdmissionError::Store(error) => Self::Store(error),
            AdmissionError::Directory(error) => Self::Directory(error),
            error => Self::NoLonger(error),
        }
    }
}

/// The sessions.
#[derive(Clone)]
pub struct Sessions {
    pub(super) store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    admission: Arc<Admission>,
    grants: Arc<UpstreamGrants>,
    people: SignedInPeople,
    ending: Ending,
    pub(super) lifetime: Duration,
}

/// What [`Sessions`] works with.
pub struct SessionParts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The way in.
    pub admission: Arc<Admission>,
    /// What goes on at upstreams.
    pub grants: Arc<UpstreamGrants>,
    /// Those who have signed in through connectors without a directory.
    pub people: SignedInPeople,
    /// How sessions end.
    pub ending: Ending,
    /// How long a session lasts from the sign-in.
    pub lifetime: Duration,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

impl Sessions {
    /// Sessions over these parts.
    #[must_use]
    pub fn new(parts: SessionParts) -> Self {
        let SessionParts { store, entropy, admission, grants, people, ending, lifetime } = parts;
        Self { store, entropy, admission, grants, people, ending, lifetime }
    }

    /// Begins a session for someone who has just been admitted. In a browser that the same person is signed in on, that
    /// session goes on, with a new time of authentication; someone else's ends.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn begin(&self, entering: Entering<'_>, before: Option<&SignedIn>, now: OffsetDateTime) -> Result<SignedIn, StoreError> {
        let Entering { identity, mapped, upstream } = entering;
        let mut same = None;
        if let Some(before) = before {
            match self.load(before, now).await {
                Ok(session) if session.opaque_id == identity.id().opaque_id() && &before.tenant == identity.id().tenant_id() => {
                    same = Some((before.clone(), session));
                }
                Ok(_) => drop(self.end(before, now).await?),
                Err(SessionError::Store(error)) => return Err(error),
                Err(_) => {}
            }
        }
        let tenant = identity.id().tenant_id();
        let remembers = self.admission.connector(identity.connector().as_str()).is_some_and(|own| own.remembers_people());
        let mut with = if remembers { self.people.seen(identity, &mapped, now).await? } else { Batch::new() };
        let mut session = self.beginning(identity, mapped, upstream.as_ref(), now);
        if let Some(at) = &upstream {
            let Begun { id, believed_until, batch } =
                self.grants.begin(tenant, at, now).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
            (session.upstream, session.believed_until) = (Some(id), believed_until.map(OffsetDateTime::unix_timestamp));
            session.expires_at = session.bounded(now + self.lifetime);
            with = with.and(batch);
        }
        if let Some((signed_in, before)) = same {
            let going_on = Session { version: before.version, ..session.clone() };
            if self.store.commit(self.write(&signed_in, &going_on).and(with.clone()), now).await? == Outcome::Committed {
                if let Some(grant) = before.upstream {
                    self.grants.forget(tenant, grant, now).await;
                }
                return Ok(signed_in);
            }
        }
        // A new one; also where the session before was ended at this very moment: what was ended stays so.
        let signed_in = SignedIn { tenant: tenant.clone(), sid: random_uuid(&*self.entropy) };
        let (key, value, until) = record(tenant, signed_in.sid, &session);
        self.store.commit(with.put(key, value, until), now).await?;
        Ok(signed_in)
    }

    fn beginning(&self, identity: &Identity, mapped: MappedUser, upstream: Option<&AtUpstream>, now: OffsetDateTime) -> Session {
        let seconds = now.unix_timestamp();
        Session {
            connector: identity.connector().clone(),
            via: upstream.map(|at| at.connector.clone()),
            upstream: None,
            believed_until: None,
            // An upstream whose clock is ahead does not make anyone's proof younger than it can be.
            auth_time: upstream.and_then(|at| at.auth_time).map_or(seconds, |at| at.clamp(0, seconds)),
            is_time_known: upstream.is_none_or(|at| at.auth_time.is_some()),
            expires_at: (now + self.lifetime).unix_timestamp(),
            offline: false,
            opaque_id: identity.id().opaque_id(),
            csrf: random_text(&*self.entropy),
            user: mapped.into(),
            version: 0,
            changed: true,
        }
    }

    /// A session that stands, and its person as admitted at this moment.
    ///
    /// # Errors
    /// When it ended, its tenant or connector was switched off, or it could not be told.
    pub async fn find(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<(Session, Identity), SessionError> {
        let session = self.load(signed_in, now).await?;
        let identity = self.admit(&session, signed_in, session.user.clone().into(), now).await?;
        let tenant = self.tenant(signed_in).ok_or(SessionError::NoLonger(Rejection::TenantDisabled.into()))?;
        self.way_stands(&session, &tenant)?;
        Ok((session, identity))
    }

    /// The same, after asking again: the upstream that proved who they are, and the connector's directory. Someone who was
    /// disabled, deleted or moved to another tenant is no longer there, and the session ends. Who could not tell ends nothing.
    ///
    /// # Errors
    /// As [`Self::find`], and when an upstream could not tell.
    pub async fn renew(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<(Session, Identity), SessionError> {
        let session = self.load(signed_in, now).await?;
        let (connector, id, asked) = (session.connector.clone(), session.opaque_id, session.upstream);
        let renewed = self.ask_again(session, signed_in, now).await;
        if let Err(error) = &renewed
            && error.is_final()
        {
            // Whoever proved who they are while an older proof was asked about has a session that rests on the new one.
            if self.load(signed_in, now).await.is_ok_and(|session| session.upstream != asked) {
                return Err(StoreError::Unavailable("the person has signed in anew meanwhile".into()).into());
            }
            if error.says_gone() && self.admission.connector(connector.as_str()).is_some_and(|own| own.remembers_people()) {
                self.people.gone(&signed_in.tenant, id, now).await?;
            }
            // Everything that was issued in the session falls with it.
            if self.end(signed_in, now).await? {
                tracing::warn!(
                    target: "audit", event = "session.revoked", tenant.id = %signed_in.tenant, connector.id = %connector, user.id = %id,
                    session.id = %signed_in.sid, reason = %error,
                );
            }
        }
        renewed
    }

    async fn ask_again(
        &self,
        mut session: Session,
        signed_in: &SignedIn,
        now: OffsetDateTime,
    ) -> Result<(Session, Identity), SessionError> {
        let gone = || SessionError::NoLonger(AdmissionError::NoConnector(session.connector.clone()));
        let connector = self.admission.connector(session.connector.as_str()).ok_or_else(gone)?;
        let tenant = self.tenant(signed_in).ok_or(SessionError::NoLonger(Rejection::TenantDisabled.into()))?;
        self.way_stands(&session, &tenant)?;
        let whose = Whose { tenant: signed_in.tenant.clone(), connector: session.connector.clone(), opaque_id: session.opaque_id };
        let heard = match session.upstream {
            Some(grant) => self.grants.ask(grant, whose, now).await?,
            None => Heard::Nothing,
        };
        // What its own upstream says when it is asked about the sign-in is more than its directory can say; of someone who came
        // through another connector the directory is asked besides.
        let is_own = session.via.as_ref() == Some(&session.connector);
        let mapped: MappedUser = match (heard, &connector.directory) {
            (Heard::Directory(mapped) | Heard::Upstream(mapped), _) => *mapped,
            (Heard::Still, _) if is_own => session.user.clone().into(),
            (Heard::Still | Heard::Nothing, Some(directory)) => {
                let by = Lookup::Subject(session.user.subject.clone());
                let found = directory.get(&Caller::scope_of_session(&tenant), &by).await?.ok_or(SessionError::Vanished)?;
                connector.mapping.evaluate(&found).map_err(|e| SessionError::NoLonger(e.into()))?
            }
            (Heard::Still | Heard::Nothing, None) => session.user.clone().into(),
        };
        let identity = self.admit(&session, signed_in, mapped.clone(), now).await?;
        if connector.remembers_people() {
            let seen = self.people.seen(&identity, &mapped, now).await?;
            if !seen.is_empty() {
                self.store.commit(seen, now).await?;
            }
        }
        let user = StoredUser::from(mapped);
        session.changed |= user != session.user;
        session.user = user;
        Ok((session, identity))
    }

    /// The connector whose upstream proved who they are is still on, may still speak for the tenant, and its people are still
    /// those of the session's connector.
    fn way_stands(&self, session: &Session, tenant: &Tenant) -> Result<(), SessionError> {
        let Some(id) = &session.via else { return Ok(()) };
        let via = self.admission.connector(id.as_str()).ok_or_else(|| SessionError::NoLonger(AdmissionError::NoConnector(id.clone())))?;
        if via.serves(tenant) && via.speaks_of() == &session.connector {
            return Ok(());
        }
        Err(SessionError::NoLonger(Rejection::ConnectorNotAllowed(id.clone()).into()))
    }

    /// [`Self::renew`], and what came of it kept.
    ///
    /// # Errors
    /// As [`Self::renew`].
    pub async fn renew_and_keep(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<(Session, Identity), SessionError> {
        let (session, identity) = self.renew(signed_in, now).await?;
        match self.store.commit(self.write(signed_in, &session), now).await? {
            Outcome::Committed => Ok((session, identity)),
            // Renewed by another request meanwhile, or ended: the record says which.
            Outcome::Conflict => self.find(signed_in, now).await,
        }
    }

    /// The record of a session that goes on beyond the sign-out, for the grant that asked for it.
    #[must_use]
    pub fn offline_copy(&self, session: &Session, tenant: &TenantId, lifetime: Duration, now: OffsetDateTime) -> (SignedIn, Batch) {
        let signed_in = SignedIn { tenant: tenant.clone(), sid: random_uuid(&*self.entropy) };
        let copy = Session { offline: true, expires_at: session.bounded(now + lifetime), ..session.clone() };
        let (key, value, until) = record(&signed_in.tenant, signed_in.sid, &copy);
        let batch = self.needed(&signed_in.tenant, &copy, until).put(key, value, until);
        (signed_in, batch)
    }

    /// The batch that says that an offline session needs what goes on at its upstream.
    fn needed(&self, tenant: &TenantId, session: &Session, until: Option<OffsetDateTime>) -> Batch {
        let grant = session.upstream.filter(|_| session.offline);
        grant.map_or_else(Batch::new, |grant| self.grants.needed_offline(tenant, grant, until))
    }

    /// The batch that writes a renewed session back. It fails where the session has ended meanwhile and, if there is something
    /// to write, where it was written.
    #[must_use]
    pub fn write(&self, signed_in: &SignedIn, session: &Session) -> Batch {
        if !session.changed {
            return Batch::new().expect(key(&signed_in.tenant, signed_in.sid), Expect::Present);
        }
        let (key, value, until) = record(&signed_in.tenant, signed_in.sid, session);
        let needed = self.needed(&signed_in.tenant, session, until);
        needed.expect(key.clone(), Expect::Version(session.version)).put(key, value, until)
    }

    /// Ends a session, and tells its clients ([`Ending`]). One that has ended already is no error; whatever was left undone then is
    /// done now.
    ///
    /// # Errors
    /// When the store could not tell: it may have ended. Asked again, it goes on.
    pub async fn end(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<bool, StoreError> {
        let entry = self.store.get(&key(&signed_in.tenant, signed_in.sid), now).await?;
        if !self.ending.end(signed_in, now).await? {
            return Ok(false);
        }
        let session = entry.and_then(|entry| serde_json::from_slice::<Session>(&entry.value).ok());
        if let Some(grant) = session.filter(|session| !session.offline).and_then(|session| session.upstream) {
            self.grants.forget(&signed_in.tenant, grant, now).await;
        }
        Ok(true)
    }

    fn tenant(&self, signed_in: &SignedIn) -> Option<Arc<Tenant>> {
        self.admission.tenants.enabled(&signed_in.tenant)
    }

    /// A session that stands, whether or not its person would still be admitted: what is needed to end it.
    ///
    /// # Errors
    /// When it ended, or it could not be told.
    pub async fn load(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<Session, SessionError> {
        let entry = self.store.get(&key(&signed_in.tenant, signed_in.sid), now).await?.ok_or(SessionError::Ended)?;
        let session: Session = serde_json::from_slice(&entry.value).map_err(|_| SessionError::Ended)?;
        Ok(Session { version: entry.version, ..session })
    }

    async fn admit(
        &self,
        session: &Session,
        signed_in: &SignedIn,
        mapped: MappedUser,
        now: OffsetDateTime,
    ) -> Result<Identity, SessionError> {
        let gone = || SessionError::NoLonger(AdmissionError::NoConnector(session.connector.clone()));
        let connector = self.admission.connector(session.connector.as_str()).ok_or_else(gone)?;
        let identity = self.admission.readmit(connector, mapped, now).await?;
        if identity.id().tenant_id() != &signed_in.tenant || identity.id().opaque_id() != session.opaque_id {
            return Err(SessionError::Vanished);
        }
        Ok(identity)
    }
}

/// Where a session stands.
#[must_use]
pub(crate) fn key(tenant: &TenantId, sid: Uuid) -> Key {
    Key::new(tenant, Kind::Session, sid.to_string())
}

fn record(tenant: &TenantId, sid: Uuid, session: &Session) -> (Key, Vec<u8>, Option<OffsetDateTime>) {
    let until = OffsetDateTime::from_unix_timestamp(session.expires_at).ok();
    (key(tenant, sid), serde_json::to_vec(session).unwrap_or_default(), until)
}
