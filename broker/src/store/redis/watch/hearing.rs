//! The connection on which one primary is heard: the subscription, and a question every [`EVERY`] on the same connection, whose answers prove
//! that what was published before has been heard, and that the server is still the primary of what it was.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::{PushInfo, PushKind, RedisError, Value};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use super::{Primary, Watch};
use crate::store::{
    News,
    redis::connecting::{Address, Connecting, Unreached, says_primary},
};

/// How often a primary is asked.
const EVERY: Duration = Duration::from_millis(200);
/// Within how long it answers, or is not heard any longer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// How long it is waited before a connection is tried again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Hears one primary until it is dropped.
pub(in crate::store::redis) struct Hearing {
    primary: Arc<Primary>,
    task: JoinHandle<()>,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why a primary is no longer heard.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Unreached(#[from] Unreached),
    #[error("it does not answer: {0}")]
    Unanswered(#[from] RedisError),
    #[error("the connection was closed")]
    Closed,
    #[error("it is no longer the primary, or says that its Cluster is down")]
    Demoted,
}

impl Hearing {
    /// Begins to hear a primary. `resolve` is told when it was lost, so that it is asked where the primary is now.
    pub(in crate::store::redis) fn start(
        address: Address,
        is_cluster: bool,
        connecting: Arc<Connecting>,
        watch: Arc<Watch>,
        resolve: Arc<Notify>,
    ) -> Self {
        let primary = Arc::new(Primary::default());
        let task = tokio::spawn(keep(Way { address, is_cluster, connecting, watch, resolve }, Arc::clone(&primary)));
        Self { primary, task }
    }

    /// What is known of it.
    pub(in crate::store::redis) const fn primary(&self) -> &Arc<Primary> {
        &self.primary
    }
}

/// What it takes to hear a primary.
struct Way {
    address: Address,
    is_cluster: bool,
    connecting: Arc<Connecting>,
    watch: Arc<Watch>,
    resolve: Arc<Notify>,
}

async fn keep(way: Way, primary: Arc<Primary>) {
    let mut wait = AGAIN.0;
    loop {
        let Err(lost) = hear(&way, &primary).await;
        primary.is_heard.store(false, Ordering::Release);
        primary.proven.unset();
        if primary.connection.swap(None).is_some() {
            wait = AGAIN.0;
        }
        // After it: who took the counts before knew it as heard.
        way.watch.lose();
        tracing::debug!(server.address = %way.address, %lost, "a server of the store is not heard");
        way.resolve.notify_one();
        sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}

/// Hears until it is lost, and says why.
async fn hear(way: &Way, primary: &Primary) -> Result<Infallible, Lost> {
    let Way { address, is_cluster, connecting, watch, resolve } = way;
    let closed = Arc::new(Notify::new());
    let on_push = {
        let (watch, closed) = (Arc::clone(watch), Arc::clone(&closed));
        move |push: PushInfo| match push.kind {
            PushKind::Disconnection => closed.notify_one(),
            _ => watch.hear(&push),
        }
    };
    let mut connection = connecting.open_hearing(address, ANSWERS_WITHIN, on_push).await?;
    connection.subscribe(watch.channel.as_bytes()).await?;
    let mut question = redis::pipe();
    question.cmd("HELLO");
    if *is_cluster {
        question.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("NODES");
    }
    let mut owned: Option<Owned> = None;
    let mut is_settled = true;
    loop {
        let sent = Instant::now();
        // Should the question wait for the connection's buffer, it is sent later than it says: that is the safe side.
        let answers: Vec<Value> = question.query_async(&mut connection).await?;
        if !answers.first().is_some_and(says_primary) {
            return Err(Lost::Demoted);
        }
        if *is_cluster {
            let now = Owned::read(&answers).ok_or(Lost::Demoted)?;
            is_settled = !now.is_moving;
            if !is_settled || owned.as_ref().is_some_and(|before| *before != now) {
                // What it heard itself is still heard, but others may have been asked for the same.
                primary.is_heard.store(is_settled, Ordering::Release);
                watch.lose();
                resolve.notify_one();
            }
            owned = Some(now);
        }
        primary.proven.set(watch.micros(sent));
        primary.is_heard.store(is_settled, Ordering::Release);
        if primary.connection.load().is_none() {
            primary.connection.store(Some(Arc::new(connection.clone())));
            // From now on nothing is missed; what was before may have been.
            watch.say(News::Missed);
        }
        tokio::select! {
            () = closed.notified() => return Err(Lost::Closed),
            () = sleep_until(sent + EVERY) => {}
        }
    }
}

/// What a member of a Cluster says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Owned {
    id: String,
    /// When it last took over slots, as the Cluster counts.
    epoch: String,
    slots: Vec<String>,
    /// Whether some of them are on their way to another, or from there: then two serve them.
    is_moving: bool,
}

impl Owned {
    /// Reads `CLUSTER INFO` and `CLUSTER NODES`, the second and third answer; `None` where the member is no primary, or sees the
    /// Cluster as down.
    fn read(answers: &[Value]) -> Option<Self> {
        let text = |at: usize| answers.get(at).and_then(|value| redis::from_redis_value_ref::<String>(value).ok());
        let is_up = text(1)?.lines().any(|line| line.trim() == "cluster_state:ok");
        is_up.then(|| Self::parse(&text(2)?)).flatten()
    }

    /// Its own line: id, address, flags, primary, two times, epoch, state, slots.
    fn parse(nodes: &str) -> Option<Self> {
        let own = nodes
            .lines()
            .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
            .find(|fields| fields.get(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "myself")))?;
        let [id, _, flags, _, _, _, epoch, _, slots @ ..] = own.as_slice() else { return None };
        if !flags.split(',').any(|flag| flag == "master") {
            return None;
        }
        let is_moving = slots.iter().any(|slot| slot.starts_with('['));
        Some(Self {
            id: (*id).to_owned(),
            epoch: (*epoch).to_owned(),
            slots: slots.iter().map(|&slot| slot.to_owned()).collect(),
            is_moving,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_says_what_it_owns() {
        let other = "b 127.0.0.1:2@12 master - 0 1 3 connected 5461-16383";
        let owned = |line: &str| Owned::parse(&format!("{other}\n{line}\n"));
        let own = owned("a 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-5460").unwrap();
        assert_eq!((own.slots.as_slice(), own.is_moving), (["0-5460".to_owned()].as_slice(), false));
        assert_eq!(owned("a 127.0.0.1:1@11 myself,master - 9 9 1 connected 0-5460"), Some(own));
        assert!(owned("a 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-5460 [5->-b]").unwrap().is_moving);
        assert!(owned("a 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-5460 [9000-<-b]").unwrap().is_moving);
        assert_eq!(owned("a 127.0.0.1:1@11 myself,slave b 0 0 1 connected"), None);
        assert_eq!(Owned::parse(other), None);
    }
}
