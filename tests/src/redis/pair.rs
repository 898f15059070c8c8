//! A primary and its replica, both with a file, and three sentinels that name another primary when one is gone.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Reply, server::Server, store};
use crate::process::PATIENCE;

/// What the sentinels call the primary.
pub const SENTINEL_NAME: &str = "denizen";

/// The pair: nothing is written that no replica is there for (`min-replicas-to-write 1`).
#[derive(Debug)]
pub struct RedisPair {
    servers: [Server; 2],
    sentinels: [Server; 3],
}

impl RedisPair {
    /// Starts it, and waits until the replica has everything and the sentinels know one another. A primary that is silent for half a second
    /// is taken for gone.
    ///
    /// # Panics
    /// When Redis is not installed, or does not start.
    pub async fn start() -> Self {
        // What is cut off soon writes nothing any more; a replica has its primary's data at once.
        let lines = "min-replicas-to-write 1\nmin-replicas-max-lag 2\nrepl-diskless-sync-delay 0\nrepl-timeout 5\n";
        let primary = Server::prepare("redis", lines).start().await;
        let replica = Server::prepare("redis", &format!("{lines}replicaof 127.0.0.1 {}\n", primary.port())).start().await;
        let sentinel = async || {
            let name = SENTINEL_NAME;
            let lines = format!(
                "sentinel monitor {name} 127.0.0.1 {} 2\nsentinel down-after-milliseconds {name} 500\nsentinel failover-timeout {name} 2000\n",
                primary.port(),
            );
            let sentinel = Server::prepare_sentinel(&lines).start().await;
            be_quick(&sentinel);
            sentinel
        };
        let sentinels = [sentinel().await, sentinel().await, sentinel().await];
        let pair = Self { servers: [primary, replica], sentinels };
        pair.wait_until_whole().await;
        pair
    }

    /// Both servers; which of them is the primary changes.
    #[must_use]
    pub const fn servers(&self) -> &[Server; 2] {
        &self.servers
    }

    /// The sentinels.
    #[must_use]
    pub const fn sentinels(&self) -> &[Server; 3] {
        &self.sentinels
    }

    /// One of the servers, to kill it and to start it anew.
    pub fn server_mut(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }

    /// Which server the sentinels name: two of them at least.
    ///
    /// # Panics
    /// When they do not agree.
    #[must_use]
    pub fn primary_index(&self) -> usize {
        self.named().expect("two sentinels name the same one")
    }

    /// The server that the sentinels name.
    #[must_use]
    pub fn primary(&self) -> &Server {
        &self.servers[self.primary_index()]
    }

    /// The other one.
    #[must_use]
    pub fn replica(&self) -> &Server {
        &self.servers[1 - self.primary_index()]
    }

    /// `kill -9` of the primary: which one that was.
    pub fn kill_primary(&mut self) -> usize {
        let index = self.primary_index();
        self.servers[index].kill();
        index
    }

    /// Waits until the other server is the primary, by the word of two sentinels and its own. It takes no writes before it has a replica
    /// again. How long it took.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn wait_for_failover(&self, from: usize) -> Duration {
        let other = &self.servers[1 - from];
        until("a failover", || self.named() == Some(1 - from) && other.info("replication", "role") == "master").await
    }

    /// Waits until the primary has its replica, and all sentinels see both and one another. How long it took.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn wait_until_whole(&self) -> Duration {
        let is_whole = || {
            let Some(primary) = self.named() else { return false };
            let replica = self.servers[primary].info("replication", "slave0");
            let is_linked = self.servers[1 - primary].info("replication", "master_link_status") == "up";
            let agree = self.sentinels.iter().all(|sentinel| {
                let counts = |what: &str| sentinel.try_cli(&["SENTINEL", what, SENTINEL_NAME]).map_or(0, |reply| reply.parts().len());
                counts("SENTINELS") == 2 && counts("REPLICAS") == 1
            });
            is_linked && replica.contains("state=online") && agree
        };
        until("the pair to be whole", is_whole).await
    }

    /// Kills the primary, waits for the other, and starts the killed one anew, which becomes the replica.
    pub async fn fail_over(&mut self) {
        let killed = self.kill_primary();
        self.wait_for_failover(killed).await;
        self.servers[killed].restart().await;
        self.wait_until_whole().await;
    }

    /// How often another server has become the primary, by the log of the sentinel that saw most of it.
    #[must_use]
    pub fn failovers(&self) -> usize {
        self.sentinels.iter().map(|sentinel| sentinel.log().matches("+switch-master").count()).max().unwrap_or_default()
    }

    /// The section `store` of a configuration: what must not be lost is acknowledged by the replica.
    #[must_use]
    pub fn as_store(&self) -> Value {
        let addresses: Vec<String> = self.sentinels.iter().map(Server::address).collect();
        store(json!({"sentinel": {"addresses": addresses, "name": SENTINEL_NAME}}), self.sentinels[0].folder())
    }

    fn named(&self) -> Option<usize> {
        let ask = |sentinel: &Server| sentinel.try_cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SENTINEL_NAME]);
        let ports: Vec<String> = self.sentinels.iter().filter_map(|sentinel| Some(ask(sentinel).ok()?.parts().get(1)?.text())).collect();
        self.servers.iter().position(|server| ports.iter().filter(|port| **port == server.port().to_string()).count() >= 2)
    }
}

/// Sentinels look at servers every ten seconds, and give one that comes back eight until it must follow: too long for tests. (A shorter
/// `ping-period` would not do: they take no replica of which they have not heard for five of those.)
fn be_quick(sentinel: &Server) {
    let quick = ["SENTINEL", "DEBUG", "info-period", "300", "publish-period", "300", "election-timeout", "2000"];
    _ = sentinel.cli(&quick);
}

/// Waits for something, and says how long it took.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

/// Whether a reply is there and says this.
pub(super) fn says(reply: std::io::Result<Reply>, text: &str) -> bool {
    reply.is_ok_and(|reply| reply.text().contains(text))
}
