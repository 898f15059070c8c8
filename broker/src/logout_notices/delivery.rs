//! Sends the notices of the outbox: a logout token to the client's `backchannelLogoutUri`, again where it does not arrive.
//!
//! One replica sends ([`Turn`]); the next one when that is gone. One that stands still in the middle leads to a client that is told twice, which
//! the protocol allows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt as _;
use tokio::{
    sync::Semaphore,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    Notice, Outbox,
    turn::{BEAT, Turn},
};
use crate::{
    grants::{Client, Clients},
    seams::{Clock, Entropy},
    secret_text::random_uuid,
    store::{Peers, Store, StoreError},
    tokens::{KeyRing, LogoutClaims, TokenType},
};

/// How long a client may take to answer.
const WITHIN: Duration = Duration::from_secs(5);
/// How many deliveries are under way at a time.
const AT_ONCE: usize = 8;
/// How many of them to one client.
const AT_ONCE_TO_ONE: usize = 2;
/// How long a logout token is good, in seconds: two minutes at most (Back-Channel Logout 1.0, 2.4).
const GOOD_SECONDS: i64 = 120;
/// How long to wait where the store could not tell.
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// How far apart two looks at the outbox are at least, where replicas tell of all that is written there.
const APART: Duration = Duration::from_millis(100);
/// The longest sleep: the clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What [`Deliveries`] works with.
#[derive(Clone)]
pub struct DeliveryParts {
    /// What is to be sent.
    pub outbox: Outbox,
    /// The applications.
    pub clients: Arc<Clients>,
    /// The signing keys.
    pub keys: Arc<KeyRing>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Denizen's issuer, as it stands in tokens.
    pub issuer: String,
    /// Where replicas take turns.
    pub store: Arc<dyn Store>,
    /// Whether there may be others.
    pub peers: Arc<dyn Peers>,
}

/// Sends notices.
pub struct Deliveries {
    parts: DeliveryParts,
    http: reqwest::Client,
    permits: Semaphore,
}

impl std::fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deliveries")
    }
}

/// The clients that are being told at this moment: one task for each.
#[derive(Default)]
struct Lanes {
    tasks: JoinSet<()>,
    clients: HashMap<Id, String>,
}

impl Lanes {
    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.clients.remove(&id);
    }
}

/// What came of one try.
enum Outcome {
    Told,
    /// The client says that the token is not good, or that it could not sign the person out.
    Refused,
    /// It did not arrive.
    Failed(String),
    /// The client is gone, or no longer wants to be told.
    Unwanted,
}

impl Deliveries {
    /// Deliveries of this outbox. They follow no redirect and use no proxy.
    ///
    /// # Errors
    /// When the HTTP client can not be made.
    pub fn new(parts: DeliveryParts) -> reqwest::Result<Self> {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().timeout(WITHIN).build()?;
        Ok(Self { parts, http, permits: Semaphore::new(AT_ONCE) })
    }

    /// Has what is in the outbox sent without delay: someone has written there.
    pub fn wake(&self) {
        self.parts.outbox.wake();
    }

    /// Sends what is due, and what becomes due, whenever it is this replica's turn, until it is told to stop; what is under way then
    /// ends first.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (store, clock) = (&*self.parts.store, &*self.parts.clock);
        if !self.parts.peers.may_be() {
            return self.send(&Arc::new(Turn::alone(&stop))).await;
        }
        let own = random_uuid(&*self.parts.entropy);
        while !stop.is_cancelled() {
            match Turn::take(store, own, clock, &stop).await {
                Ok(Some((turn, lease))) => {
                    let turn = Arc::new(turn);
                    tokio::join!(turn.keep(lease, store, clock), self.send(&turn));
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "it could not be told which replica sends the logout notices"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(BEAT) => {}
            }
        }
    }

    /// Sends as long as the turn is on.
    async fn send(self: &Arc<Self>, turn: &Arc<Turn>) {
        let mut lanes = Lanes::default();
        while turn.is_on() {
            let begun = Instant::now();
            let wait = self.take_up(&mut lanes, turn).await.unwrap_or_else(|error| {
                tracing::error!(%error, "the logout notices could not be read");
                STORE_PAUSE
            });
            tokio::select! {
                () = turn.over() => break,
                () = self.parts.outbox.woken() => tokio::time::sleep_until(begun + APART).await,
                Some(ended) = lanes.tasks.join_next_with_id() => lanes.ended(ended),
                () = tokio::time::sleep(wait) => {}
            }
        }
        turn.end();
        while lanes.tasks.join_next().await.is_some() {}
    }

    /// Sends what is due now, and waits for the answers.
    ///
    /// # Errors
    /// When the store could not tell what is due.
    pub async fn send_due(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut lanes = Lanes::default();
        self.take_up(&mut lanes, &Arc::new(Turn::alone(&CancellationToken::new()))).await?;
        while lanes.tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// Begins to send what is due to clients that are not being told already, and says how long to sleep.
    async fn take_up(self: &Arc<Self>, lanes: &mut Lanes, turn: &Arc<Turn>) -> Result<Duration, StoreError> {
        let due = self.parts.outbox.due(self.parts.clock.now()).await?;
        let mut by_client: BTreeMap<String, Vec<(String, Notice)>> = BTreeMap::new();
        for (id, notice) in due.notices {
            by_client.entry(notice.client_id.clone()).or_default().push((id, notice));
        }
        for (client, notices) in by_client {
            if !lanes.clients.values().any(|busy| *busy == client) {
                let task = lanes.tasks.spawn(Arc::clone(self).send_all(notices, Arc::clone(turn)));
                lanes.clients.insert(task.id(), client);
            }
        }
        Ok(due.next.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP))
    }

    /// Sends the notices of one client.
    async fn send_all(self: Arc<Self>, notices: Vec<(String, Notice)>, turn: Arc<Turn>) {
        futures_util::stream::iter(notices)
            .for_each_concurrent(AT_ONCE_TO_ONE, |(id, notice)| {
                let (this, turn) = (&self, &turn);
                async move {
                    let Ok(_permit) = this.permits.acquire().await else { return };
                    if !turn.is_on() {
                        return;
                    }
                    let outcome = this.tell(&notice).await;
                    if let Err(error) = this.keep(&id, &notice, outcome).await {
                        tracing::error!(%error, client.id = notice.client_id, "what came of a logout notice could not be kept; it is sent again");
                        // It is due still: not at once, or a store that fails is asked without a pause.
                        tokio::time::sleep(STORE_PAUSE).await;
                    }
                }
            })
            .await;
    }

    async fn tell(&self, notice: &Notice) -> Outcome {
        let client = self.parts.clients.get(&notice.client_id);
        let Some((client, uri)) = client.and_then(|client| client.backchannel_logout_uri.as_ref().map(|uri| (client, uri))) else {
            return Outcome::Unwanted;
        };
        match self.token(notice, client) {
            Ok(token) => self.post(uri, &token).await,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn token(&self, notice: &Notice, client: &Client) -> Result<String, crate::tokens::MintError> {
        let iat = self.parts.clock.now().unix_timestamp();
        let claims = LogoutClaims {
            iss: self.parts.issuer.clone(),
            sub: notice.sub,
            aud: client.id.clone(),
            iat,
            exp: iat + GOOD_SECONDS,
            jti: random_uuid(&*self.parts.entropy),
            sid: notice.sid,
            events: crate::tokens::LogoutEvents::default(),
        };
        self.parts.keys.sign(TokenType::Logout, &claims, None, client.algorithm, iat)
    }

    /// The answer's body is not read.
    async fn post(&self, uri: &Url, token: &str) -> Outcome {
        match self.http.post(uri.clone()).form(&[("logout_token", token)]).send().await {
            Ok(answer) => match answer.status().as_u16() {
                200 | 204 => Outcome::Told,
                400 => Outcome::Refused,
                status => Outcome::Failed(format!("it answered {status}")),
            },
            Err(error) => Outcome::Failed(error.without_url().to_string()),
        }
    }

    async fn keep(&self, id: &str, notice: &Notice, outcome: Outcome) -> Result<(), StoreError> {
        let (outbox, now) = (&self.parts.outbox, self.parts.clock.now());
        let what = match outcome {
            Outcome::Failed(why) => {
                let next = outbox.postpone(id, notice, now).await?;
                tracing::warn!(
                    client.id = notice.client_id,
                    tries = notice.attempts + 1,
                    again_in_seconds = next,
                    "a client could not be told of a sign-out: {why}"
                );
                if next.is_some() {
                    return Ok(());
                }
                "given up"
            }
            Outcome::Told => "told",
            Outcome::Refused => "refused",
            Outcome::Unwanted => "unwanted",
        };
        outbox.settle(id, now).await?;
        tracing::info!(
            target: "audit", event = "logout_notice", tenant.id = %notice.tenant, session.id = %notice.sid, client.id = notice.client_id,
            user.id = %notice.sub, result = what,
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests;
