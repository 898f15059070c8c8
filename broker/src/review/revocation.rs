//! Tokens of an upstream, taken back through Denizen.
//!
//! It owns who is asked, how many such questions are under way, and what is forgotten after which answer, at all replicas. Whether the caller may,
//! the upstream says. Anyone may ask, so that these questions get no more than a part of what the upstream is asked at once.

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::ConnectorId;
use connectors::{ConnectorError, Revocation, Secret, UnverifiedToken};
use time::OffsetDateTime;
use tokio::sync::Semaphore;

use super::upstream::{TakenBack, Upstreams};
use crate::{store::StoreError, tenancy::Admission};

/// Of the questions that an upstream is asked at once, at most one of so many is such a one.
const SHARE: usize = 4;

/// A token was not taken back, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRevoked {
    /// There is no such connector, or it takes back no tokens.
    #[error("no connector of this name takes tokens back")]
    NoConnector,
    /// The upstream knows no such token, or it can be none.
    #[error("the upstream knows no such token")]
    Unknown,
    /// The caller's own token is not in force, or it can be none.
    #[error("the caller's own token is not in force")]
    CallerUnknown,
    /// The upstream says that the caller may not.
    #[error("the caller may not")]
    Forbidden,
    /// It could not be told.
    #[error("the connector `{0}`: {1}")]
    CouldNotTell(ConnectorId, ConnectorError),
    /// The upstream has told, and not all replicas could be: they may believe the token for some more seconds.
    #[error("what the upstream said could not be told to all replicas: {0}")]
    Untold(StoreError),
}

/// The questions of this kind.
#[derive(Debug)]
pub(super) struct Revocations {
    admission: Arc<Admission>,
    turns: BTreeMap<ConnectorId, Arc<Semaphore>>,
}

impl Revocations {
    pub(super) fn new(admission: Arc<Admission>) -> Self {
        let taking = admission.connectors().filter(|connector| connector.revocation.is_some());
        let turns = taking.filter_map(|connector| {
            let most = connector.token.as_ref()?.bounds().in_flight / SHARE;
            Some((connector.id.clone(), Arc::new(Semaphore::new(most.max(1)))))
        });
        Self { turns: turns.collect(), admission }
    }

    /// Has the upstream take a token back, and forgets it: after that, and where the upstream says that it knows no such token. Where
    /// the caller's right is not proven nothing is forgotten, but for a caller's own token of which the upstream says the same.
    pub(super) async fn revoke(
        &self,
        upstreams: &Upstreams,
        connector: &str,
        caller: &Secret,
        token: UnverifiedToken<'_>,
        now: OffsetDateTime,
    ) -> Result<(), NotRevoked> {
        let connector = self.admission.connector(connector).ok_or(NotRevoked::NoConnector)?;
        let (Some(tokens), Some(port)) = (&connector.token, &connector.revocation) else { return Err(NotRevoked::NoConnector) };
        let own = UnverifiedToken::new(caller.expose());
        let may_be_one = |token: UnverifiedToken<'_>| token.text().len() <= UnverifiedToken::MAX_BYTES && tokens.claims_to_be_ours(token);
        // What can be no token of the upstream's, it does not hear of.
        if !may_be_one(own) {
            return Err(NotRevoked::CallerUnknown);
        }
        if !may_be_one(token) {
            return Err(NotRevoked::Unknown);
        }
        let untold = |error| NotRevoked::CouldNotTell(connector.id.clone(), error);
        let Some(Ok(turn)) = self.turns.get(&connector.id).map(|turns| Arc::clone(turns).try_acquire_owned()) else {
            return Err(untold(ConnectorError::Unavailable("too many tokens are being taken back".to_owned())));
        };
        let asking = upstreams.asking(&connector.id).ok_or(NotRevoked::NoConnector)?;
        let (records, id) = (upstreams.records.clone(), connector.id.clone());
        let (port, caller, token) = (Arc::clone(port), caller.clone(), Secret::new(token.text().to_owned()));
        // A task of its own: what the upstream has taken back is forgotten also where whoever wanted it goes away.
        let revoked = tokio::spawn(async move {
            let _turn = turn;
            let (own, token) = (UnverifiedToken::new(caller.expose()), UnverifiedToken::new(token.expose()));
            let revoked = asking.in_turn(port.revoke(&caller, token)).await?;
            let what = match revoked {
                Revocation::Revoked => TakenBack::token(token),
                Revocation::Unknown => TakenBack::text(token),
                Revocation::CallerUnknown => TakenBack::text(own),
                Revocation::Forbidden => return Ok((revoked, Ok(()))),
            };
            asking.forget(what, now);
            let told = records.tell(&id, &what).await;
            // The record is what the others rest on; of a text that is no token nothing is kept.
            let is_known = if revoked == Revocation::Revoked { records.keep(&id, &what, asking.believed(), now).await } else { told };
            Ok((revoked, is_known))
        });
        let stopped = |_| Err(ConnectorError::Unavailable("the question was stopped".to_owned()));
        let (revoked, is_known) = revoked.await.unwrap_or_else(stopped).map_err(untold)?;
        is_known.map_err(NotRevoked::Untold)?;
        match revoked {
            Revocation::Revoked => Ok(()),
            Revocation::Unknown => Err(NotRevoked::Unknown),
            Revocation::CallerUnknown => Err(NotRevoked::CallerUnknown),
            Revocation::Forbidden => Err(NotRevoked::Forbidden),
        }
    }
}
