//! The end of a session, whoever ends it: its person at the account page or through an application, an upstream, a renewal that
//! finds them gone, someone else who signs in on the same browser.
//!
//! First the notices for its clients are written, then the session ends, and everything that was issued in it falls with it. What
//! asked for `offline_access` lives in a copy of its own and goes on. Sending the notices is
//! [`logout_notices`](crate::logout_notices)' business.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{SignedIn, session_key};
use crate::{
    logout_notices::{Notice, Outbox},
    secret_text::fingerprint,
    store::{Batch, Expect, Key, Kind, Outcome, Partition, Store, StoreError},
};

/// A client that was given an ID token in a session, and wants to be told of its end.
#[derive(Serialize, Deserialize)]
struct SessionClient {
    client_id: String,
    sub: Uuid,
}

/// The record of such a client, until `expires_at` in seconds since 1970.
pub(crate) fn client_record(session: &SignedIn, client_id: &str, sub: Uuid, expires_at: i64) -> (Key, Vec<u8>, Option<OffsetDateTime>) {
    let key = Key::new(&session.tenant, Kind::SessionClient, format!("{}{}", prefix(session), fingerprint(client_id)));
    let value = serde_json::to_vec(&SessionClient { client_id: client_id.to_owned(), sub }).unwrap_or_default();
    (key, value, OffsetDateTime::from_unix_timestamp(expires_at).ok())
}

fn prefix(session: &SignedIn) -> String {
    format!("{}.", session.sid)
}

/// Ends sessions.
#[derive(Clone)]
pub struct Ending {
    store: Arc<dyn Store>,
    outbox: Outbox,
}

impl std::fmt::Debug for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ending")
    }
}

impl Ending {
    /// The end of the sessions in this store; the notices go into this outbox.
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, outbox: Outbox) -> Self {
        Self { store, outbox }
    }

    /// Ends a session. Whether this call did it: one that has ended already is no error.
    ///
    /// # Errors
    /// When the store could not tell. Clients may have been told already; asked again, it goes on.
    pub async fn end(&self, session: &SignedIn, now: OffsetDateTime) -> Result<bool, StoreError> {
        let mut told = BTreeSet::new();
        self.tell(session, &mut told, now).await?;
        let key = session_key(session);
        let batch = Batch::new().expect(key.clone(), Expect::Present).delete(key);
        let ended = self.store.commit(batch, now).await? == Outcome::Committed;
        // A code may have been exchanged since the look. From here on none is: that needs the session.
        self.tell(session, &mut told, now).await?;
        if !told.is_empty() {
            let records = told.into_iter().map(|id| Key::new(&session.tenant, Kind::SessionClient, id));
            self.store.commit(records.fold(Batch::new(), Batch::delete), now).await?;
        }
        self.outbox.wake();
        Ok(ended)
    }

    /// Writes the notices for the session's clients, but for those that were told.
    async fn tell(&self, session: &SignedIn, told: &mut BTreeSet<String>, now: OffsetDateTime) -> Result<(), StoreError> {
        let (partition, prefix) = (Partition::Tenant(session.tenant.clone()), prefix(session));
        let mut cursor = Some(prefix.clone());
        while let Some(after) = cursor {
            let page = self.store.list(&partition, Kind::SessionClient, Some(&after), 100, now).await?;
            cursor = page.next.filter(|next| next.starts_with(&prefix));
            let mut notices = Vec::new();
            for (id, entry) in page.entries.into_iter().take_while(|(id, _)| id.starts_with(&prefix)) {
                let client = serde_json::from_slice::<SessionClient>(&entry.value).ok();
                if let Some(SessionClient { client_id, sub }) = client.filter(|_| told.insert(id)) {
                    notices.push(Notice { tenant: session.tenant.clone(), client_id, sid: session.sid, sub, attempts: 0 });
                }
            }
            self.outbox.put(&notices, now).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use claims_mapping::TenantId;

    use super::*;
    use crate::store::embedded::Embedded;

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
    }

    async fn session(store: &dyn Store, tenant: &str, sid: u128, clients: &[&str]) -> SignedIn {
        let session = SignedIn { tenant: TenantId::parse(tenant).unwrap(), sid: Uuid::from_u128(sid) };
        let mut batch = Batch::new().put(session_key(&session), b"{}".to_vec(), None);
        for client in clients {
            let (key, value, until) = client_record(&session, client, Uuid::from_u128(7), now().unix_timestamp() + 60);
            batch = batch.put(key, value, until);
        }
        store.commit(batch, now()).await.unwrap();
        session
    }

    #[tokio::test]
    async fn its_clients_are_told_once_and_no_others() {
        let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
        let outbox = Outbox::new(Arc::clone(&store));
        let ending = Ending::new(Arc::clone(&store), outbox.clone());
        let many: Vec<String> = (0..130).map(|i| format!("client-{i:03}")).collect();
        let mine = session(&*store, "acme", 1, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
        session(&*store, "acme", 2, &["other-session"]).await;
        session(&*store, "globex", 1, &["other-tenant"]).await;
        assert!(ending.end(&mine, now()).await.unwrap());
        assert!(store.get(&session_key(&mine), now()).await.unwrap().is_none());
        let due = outbox.due(now()).await.unwrap().notices;
        let mut told: Vec<_> = due.iter().map(|(_, notice)| notice.client_id.clone()).collect();
        told.sort();
        assert_eq!(told, many);
        assert!(due.iter().all(|(_, n)| n.sid == mine.sid && n.tenant == mine.tenant && n.sub == Uuid::from_u128(7)));
        assert!(!ending.end(&mine, now()).await.unwrap(), "it has ended already");
        assert_eq!(outbox.due(now()).await.unwrap().notices.len(), many.len(), "no one is told again");
    }
}
