//! A signed-in session: who, since when, until when. Everything that is issued in it falls with it.

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::{ConnectorId, Identity, MappedUser, Rejection, Subject, Tenant, TenantId};
use connectors::{ConnectorError, Lookup};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{Ending, Entering};
use crate::{
    seams::Entropy,
    secret_text::{random_text, random_uuid},
    store::{Batch, Expect, Key, Kind, Outcome, Store, StoreError},
    tenancy::{Admission, AdmissionError, Caller},
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
    /// Through which connector.
    pub connector: ConnectorId,
    /// When the person proved who they are, in seconds since 1970.
    pub auth_time: i64,
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
    /// Lets it last until then.
    pub fn extend(&mut self, until: OffsetDateTime) {
        self.expires_at = until.unix_timestamp();
        self.changed = true;
    }
}

/// [`MappedUser`] in its stored form.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredUser {
    subject: Subject,
    username: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
    tenant: Vec<String>,
    roles: Vec<String>,
    display_name: Option<String>,
    email: Option<String>,
    email_verified: bool,
}

impl From<MappedUser> for StoredUser {
    fn from(user: MappedUser) -> Self {
        let MappedUser { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified } = user;
        Self { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified }
    }
}

impl From<StoredUser> for MappedUser {
    fn from(user: StoredUser) -> Self {
        let StoredUser { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified } = user;
        Self { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified }
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
    /// The directory could not tell.
    #[error(transparent)]
    Directory(#[from] ConnectorError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The sessions.
#[derive(Clone)]
pub struct Sessions {
    pub(super) store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    admission: Arc<Admission>,
    pub(super) lifetime: Duration,
    ending: Ending,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

impl Sessions {
    /// Sessions that last so long from the sign-in, and how they end.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>, admission: Arc<Admission>, lifetime: Duration, ending: Ending) -> Self {
        Self { store, entropy, admission, lifetime, ending }
    }

    /// Begins a session for someone who has just been admitted. In a browser that the same person is signed in on, that
    /// session goes on, with a new time of authentication; someone else's ends.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn begin(&self, entering: Entering<'_>, before: Option<&SignedIn>, now: OffsetDateTime) -> Result<SignedIn, StoreError> {
        let Entering { identity, mapped, .. } = entering;
        let mut same = None;
        if let Some(before) = before {
            match self.load(before, now).await {
                Ok(session) if session.opaque_id == identity.id().opaque_id() && &before.tenant == identity.id().tenant_id() => {
                    same = Some((before.clone(), session.version));
                }
                Ok(_) => drop(self.end(before, now).await?),
                Err(SessionError::Store(error)) => return Err(error),
                Err(_) => {}
            }
        }
        let session = Session {
            connector: identity.connector().clone(),
            auth_time: now.unix_timestamp(),
            expires_at: (now + self.lifetime).unix_timestamp(),
            offline: false,
            opaque_id: identity.id().opaque_id(),
            csrf: random_text(&*self.entropy),
            user: mapped.into(),
            version: 0,
            changed: true,
        };
        if let Some((before, version)) = same
            && self.store.commit(self.write(&before, &Session { version, ..session.clone() }), now).await? == Outcome::Committed
        {
            return Ok(before);
        }
        // A new one; also where the session before was ended at this very moment: what was ended stays so.
        let signed_in = SignedIn { tenant: identity.id().tenant_id().clone(), sid: random_uuid(&*self.entropy) };
        let (key, value, until) = record(&signed_in.tenant, signed_in.sid, &session);
        self.store.commit(Batch::new().put(key, value, until), now).await?;
        Ok(signed_in)
    }

    /// A session that stands, and its person as admitted at this moment.
    ///
    /// # Errors
    /// When it ended, its tenant or connector was switched off, or it could not be told.
    pub async fn find(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<(Session, Identity), SessionError> {
        let session = self.load(signed_in, now).await?;
        let identity = self.admit(&session, signed_in, session.user.clone().into(), now).await?;
        Ok((session, identity))
    }

    /// The same, after asking the connector's directory again: someone who was disabled, deleted or moved to another tenant
    /// is no longer there, and the session ends. A directory that could not tell ends nothing.
    ///
    /// # Errors
    /// As [`Self::find`], and when the directory could not tell.
    pub async fn renew(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<(Session, Identity), SessionError> {
        let renewed = self.ask_again(signed_in, now).await;
        if let Err(SessionError::NoLonger(_) | SessionError::Vanished) = &renewed {
            // Everything that was issued in the session falls with it.
            self.end(signed_in, now).await?;
        }
        renewed
    }

    async fn ask_again(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<(Session, Identity), SessionError> {
        let mut session = self.load(signed_in, now).await?;
        let gone = || SessionError::NoLonger(AdmissionError::NoConnector(session.connector.clone()));
        let connector = self.admission.connector(session.connector.as_str()).ok_or_else(gone)?;
        let tenant = self.tenant(signed_in).ok_or(SessionError::NoLonger(Rejection::TenantDisabled.into()))?;
        let mapped: MappedUser = match &connector.directory {
            None => session.user.clone().into(),
            Some(directory) => {
                let by = Lookup::Subject(session.user.subject.clone());
                let found = directory.get(&Caller::scope_of_session(&tenant), &by).await?.ok_or(SessionError::Vanished)?;
                connector.mapping.evaluate(&found).map_err(|e| SessionError::NoLonger(e.into()))?
            }
        };
        let identity = self.admit(&session, signed_in, mapped.clone(), now).await?;
        let user = StoredUser::from(mapped);
        session.changed |= user != session.user;
        session.user = user;
        Ok((session, identity))
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
        let copy = Session { offline: true, expires_at: (now + lifetime).unix_timestamp(), ..session.clone() };
        let (key, value, until) = record(&signed_in.tenant, signed_in.sid, &copy);
        (signed_in, Batch::new().put(key, value, until))
    }

    /// The batch that writes a renewed session back. It fails where the session has ended meanwhile and, if there is something
    /// to write, where it was written.
    #[must_use]
    pub fn write(&self, signed_in: &SignedIn, session: &Session) -> Batch {
        if !session.changed {
            return Batch::new().expect(key(&signed_in.tenant, signed_in.sid), Expect::Present);
        }
        let (key, value, until) = record(&signed_in.tenant, signed_in.sid, session);
        Batch::new().expect(key.clone(), Expect::Version(session.version)).put(key, value, until)
    }

    /// Ends a session, and tells its clients ([`Ending`]). One that has ended already is no error.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn end(&self, signed_in: &SignedIn, now: OffsetDateTime) -> Result<bool, StoreError> {
        self.ending.end(signed_in, now).await
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
        let identity = match self.admission.readmit(connector, mapped, now).await {
            Ok(identity) => identity,
            Err(AdmissionError::Store(error)) => return Err(error.into()),
            Err(error) => return Err(SessionError::NoLonger(error)),
        };
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
