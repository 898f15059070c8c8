//! Sign-outs that upstreams tell of (OpenID Connect Back-Channel Logout 1.0): which of our sessions are meant, and their end.
//!
//! It owns the index from an upstream's sessions and subjects to ours. What makes a logout token genuine, the connector knows.

use claims_mapping::{ConnectorId, Subject};
use connectors::{ConnectorError, LogoutNotice, UnverifiedToken};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{AtUpstream, Sessions, SignedIn};
use crate::{
    secret_text::fingerprint,
    store::{Batch, Expect, Key, Kind, Partition, StoreError},
    tenancy::Wired,
};

/// The most sessions that one notice ends. Where there are more, the upstream is told to come again.
const MOST_SESSIONS: usize = 1_000;

/// One of our sessions, as an upstream knows it.
#[derive(Serialize, Deserialize)]
struct Indexed {
    ours: SignedIn,
    subject: Subject,
    /// The upstream's own session, where it said so.
    sid: Option<String>,
}

/// By what an upstream names a session.
#[derive(Clone, Copy)]
enum By<'a> {
    Sid(&'a str),
    Subject(&'a Subject),
}

impl By<'_> {
    /// What the ids of its entries begin with. Neither a connector's id nor the names in the middle have a line break.
    fn prefix(self, connector: &ConnectorId) -> String {
        let text = match self {
            Self::Sid(sid) => format!("{connector}\nsid\n{sid}"),
            Self::Subject(subject) => format!("{connector}\nsub\n{}", subject.as_str()),
        };
        format!("{}.", fingerprint(&text))
    }

    fn key(self, connector: &ConnectorId, ours: Uuid) -> Key {
        Key::system(Kind::UpstreamSession, format!("{}{ours}", self.prefix(connector)))
    }
}

/// Writes down what an upstream calls a session that has just begun.
///
/// # Errors
/// When the store could not tell. The session must not stay then: the upstream could not end it.
pub(super) async fn remember(sessions: &Sessions, at: &AtUpstream, ours: &SignedIn, now: OffsetDateTime) -> Result<(), StoreError> {
    let entry = Indexed { ours: ours.clone(), subject: at.subject.clone(), sid: at.session.sid.clone() };
    let value = serde_json::to_vec(&entry).unwrap_or_default();
    let until = Some(now + sessions.lifetime);
    let mut batch = Batch::new().put(By::Subject(&at.subject).key(&at.connector, ours.sid), value.clone(), until);
    if let Some(sid) = &at.session.sid {
        batch = batch.put(By::Sid(sid).key(&at.connector, ours.sid), value, until);
    }
    sessions.store.commit(batch, now).await.map(drop)
}

/// A logout token is refused, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamLogoutError {
    /// The connector takes none.
    #[error("the connector takes no logout tokens")]
    NotTaken,
    /// It is not genuine, or no logout token.
    #[error("the logout token is not valid")]
    Invalid,
    /// It was used before.
    #[error("the logout token was used before")]
    Replayed,
    /// There are more sessions than are ended at once; some were.
    #[error("more sessions are to end than are ended at once")]
    More,
    /// The upstream's keys could not be had.
    #[error(transparent)]
    Upstream(#[from] ConnectorError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The use case.
#[derive(Debug, Clone)]
pub struct UpstreamLogouts(Sessions);

impl UpstreamLogouts {
    /// Ends these sessions.
    #[must_use]
    pub const fn new(sessions: Sessions) -> Self {
        Self(sessions)
    }

    /// Ends the sessions that a logout token of this upstream means, and says how many stood.
    ///
    /// A token is good once. It is marked as used when everything is done: one that could not be carried out may come again, and
    /// to end a session twice changes nothing.
    ///
    /// # Errors
    /// As [`UpstreamLogoutError`] says.
    pub async fn told(&self, way: &Wired, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<usize, UpstreamLogoutError> {
        let port = way.logout.as_ref().ok_or(UpstreamLogoutError::NotTaken)?;
        if token.text().len() > UnverifiedToken::MAX_BYTES {
            return Err(UpstreamLogoutError::Invalid);
        }
        let notice = port.verify(token, now).await?.ok_or(UpstreamLogoutError::Invalid)?;
        let used = Key::system(Kind::UsedToken, fingerprint(&format!("{}\n{}", way.id, notice.jti)));
        let store = &self.0.store;
        if store.get(&used, now).await?.is_some() {
            return Err(UpstreamLogoutError::Replayed);
        }
        let ended = self.end(&way.id, &notice, now).await?;
        let until = OffsetDateTime::from_unix_timestamp(notice.expires_at).ok();
        store.commit(Batch::new().expect(used.clone(), Expect::Absent).put(used, Vec::new(), until), now).await?;
        Ok(ended)
    }

    async fn end(&self, connector: &ConnectorId, notice: &LogoutNotice, now: OffsetDateTime) -> Result<usize, UpstreamLogoutError> {
        let mut meant = Vec::new();
        match (&notice.sid, &notice.subject) {
            (None, None) => return Err(UpstreamLogoutError::Invalid),
            (None, Some(subject)) => meant = self.under(connector, By::Subject(subject), now).await?,
            (Some(sid), subject) => {
                for entry in self.under(connector, By::Sid(sid), now).await? {
                    let is_theirs = subject.as_ref().is_none_or(|subject| *subject == entry.subject);
                    if is_theirs && self.is_still(connector, &entry, now).await? {
                        meant.push(entry);
                    }
                }
                // Of a session whose upstream did not say what it calls it, no one can say that it is another one.
                if let Some(subject) = subject {
                    meant.extend(self.under(connector, By::Subject(subject), now).await?.into_iter().filter(|entry| entry.sid.is_none()));
                }
            }
        }
        let is_all = meant.len() < MOST_SESSIONS;
        let mut ended = 0;
        for Indexed { ours, subject, sid } in meant {
            ended += usize::from(self.0.end(&ours, now).await?);
            let mut batch = Batch::new().delete(By::Subject(&subject).key(connector, ours.sid));
            if let Some(sid) = &sid {
                batch = batch.delete(By::Sid(sid).key(connector, ours.sid));
            }
            self.0.store.commit(batch, now).await?;
        }
        if is_all { Ok(ended) } else { Err(UpstreamLogoutError::More) }
    }

    /// Whether the upstream's session is still the one that ours came from: a later sign-in in the same browser may have been
    /// through another.
    async fn is_still(&self, connector: &ConnectorId, entry: &Indexed, now: OffsetDateTime) -> Result<bool, StoreError> {
        let latest = self.0.store.get(&By::Subject(&entry.subject).key(connector, entry.ours.sid), now).await?;
        let latest = latest.and_then(|latest| serde_json::from_slice::<Indexed>(&latest.value).ok());
        Ok(latest.is_none_or(|latest| latest.sid == entry.sid))
    }

    async fn under(&self, connector: &ConnectorId, by: By<'_>, now: OffsetDateTime) -> Result<Vec<Indexed>, StoreError> {
        let prefix = by.prefix(connector);
        let page = self.0.store.list(&Partition::System, Kind::UpstreamSession, Some(&prefix), MOST_SESSIONS, now).await?;
        let ours = page.entries.into_iter().take_while(|(id, _)| id.starts_with(&prefix));
        Ok(ours.filter_map(|(_, entry)| serde_json::from_slice(&entry.value).ok()).collect())
    }
}
