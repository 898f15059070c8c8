//! One call: who asks, by when it must be answered, what is counted and audited, and how an error is told.

use std::{sync::Arc, time::Duration};

use time::OffsetDateTime;
use tokio::time::timeout;
use tonic::{Request, metadata::MetadataMap};
use tracing::Instrument as _;

use super::{
    connection::Peer,
    messages::rpc::{Code, Status},
    metadata,
    status::{self, Told},
};
use crate::{
    App,
    cs3::{Channel, Cs3, Cs3Caller, Cs3Error},
    metrics::Called,
};

/// How long a use case may take. Directories have deadlines of their own, which are shorter as configured; this one is behind them.
const WITHIN: Duration = Duration::from_secs(20);

/// A call under way.
pub(super) struct Call<'a> {
    app: &'a App,
    method: &'static str,
    metadata: MetadataMap,
    peer: Peer,
    /// When it began.
    pub(super) now: OffsetDateTime,
}

impl<'a> Call<'a> {
    /// Takes a request apart.
    pub(super) fn begin<T>(app: &'a Arc<App>, method: &'static str, request: Request<T>) -> (Self, T) {
        let (metadata, extensions, message) = request.into_parts();
        // A connection that does not say how it came has the fewest rights.
        let peer = extensions.get().copied().unwrap_or(Peer { channel: Channel::Address, address: None });
        (Self { app, method, metadata, peer, now: app.seams.clock.now() }, message)
    }

    /// The use cases, and who asks. The first thing that a call does: a bad token is refused whatever else there is.
    pub(super) async fn caller(&self) -> Result<(&'a Cs3, Cs3Caller), Cs3Error> {
        // Of what else is wrong with a token, the use case tells the audit log.
        let token = metadata::token(&self.metadata).inspect_err(|error| {
            if let Cs3Error::BadToken(reason) = error {
                tracing::info!(target: "audit", event = "cs3.token_refused", reason);
            }
        })?;
        let cs3 = self.app.cs3.as_ref().ok_or(Cs3Error::NotAllowed("the door is not configured"))?;
        let caller = cs3.caller(token, self.peer.channel, self.now).await?;
        Ok((cs3, caller))
    }

    /// Does the work of the call: the status to answer with, and the answer where there is one.
    pub(super) async fn end<T>(
        &self,
        work: impl Future<Output = Result<T, Cs3Error>> + Send,
    ) -> Result<(Status, Option<T>), tonic::Status> {
        let trace = metadata::trace(&self.metadata);
        let door = match self.peer.channel {
            Channel::Socket => "cs3 socket",
            Channel::Address => "cs3 address",
        };
        let address = self.peer.address.map(|address| tracing::field::display(address.ip()));
        let span = tracing::info_span!("call", rpc.method = self.method, door, client.address = address, request.id = trace);
        let (outcome, told) = async {
            match timeout(WITHIN, work).await {
                Ok(Ok(answer)) => ("ok", Ok((status::status(Code::Ok, String::new(), trace), Some(answer)))),
                Ok(Err(error)) => self.told(&error, trace),
                Err(_) => {
                    tracing::error!("a call was not answered within {} s", WITHIN.as_secs());
                    let late = status::status(Code::Unavailable, "it could not be told in time".to_owned(), trace);
                    ("unavailable", Ok((late, None)))
                }
            }
        }
        .instrument(span)
        .await;
        self.app.metrics.cs3_calls.get_or_create(&Called { method: self.method, outcome }).inc();
        self.app.metrics.cs3_seconds.observe((self.app.seams.clock.now() - self.now).as_seconds_f64());
        told
    }

    fn told<T>(&self, error: &Cs3Error, trace: &str) -> (&'static str, Result<(Status, Option<T>), tonic::Status>) {
        match error {
            Cs3Error::NotAllowed(reason) => tracing::warn!(target: "audit", event = "cs3.refused", reason),
            Cs3Error::Store(error) => tracing::error!(%error, "a call could not be answered"),
            // Of a directory's troubles the log is told once, by its breaker. The others are no one's but the caller's.
            Cs3Error::Directory(_) | Cs3Error::NoToken | Cs3Error::BadToken(_) | Cs3Error::NotFound | Cs3Error::Invalid(_) => {}
        }
        let (told, outcome) = status::meaning(error);
        let told = match told {
            Told::Grpc(code) => Err(tonic::Status::new(code, status::text(error))),
            Told::Cs3(code) => Ok((status::status(code, status::text(error), trace), None)),
        };
        (outcome, told)
    }

    /// One line for a search, as the REST API has it. What stands around it says that it came by this door.
    pub(super) fn audit_search(caller: &Cs3Caller, found: usize) {
        if let Cs3Caller::User(caller) = caller {
            tracing::info!(
                target: "audit", event = "search", tenant.id = %caller.tenant_id(), user.id = %caller.user(),
                caller.tenant.id = %caller.tenant_id(), found,
            );
        }
    }

    /// Who renders needs the program's own name.
    pub(super) fn issuer(&self) -> &'a str {
        &self.app.issuer
    }

    /// The fewest characters of a search.
    pub(super) fn least_characters(&self) -> usize {
        self.app.config.cs3.as_ref().map_or(0, |config| config.search_least_characters)
    }
}
