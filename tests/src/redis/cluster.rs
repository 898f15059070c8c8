//! A Cluster of three primaries, with or without a replica each.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    pair::{says, until},
    server::Server,
    store,
};
use crate::ports;

/// How many slots there are.
const SLOTS: u16 = 16_384;

/// The Cluster.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<Server>,
    replicas: u8,
}

impl RedisCluster {
    /// Three primaries, nothing else.
    pub async fn three() -> Self {
        Self::start(0).await
    }

    /// Three primaries with a replica each; nothing is written that no replica is there for.
    pub async fn three_with_replicas() -> Self {
        Self::start(1).await
    }

    async fn start(replicas: u8) -> Self {
        let mut servers = Vec::new();
        for _ in 0..3 * (1 + usize::from(replicas)) {
            let lines = format!(
                "cluster-enabled yes\ncluster-port {}\ncluster-announce-ip 127.0.0.1\ncluster-node-timeout 1000\nrepl-diskless-sync-delay 0\n\
                 min-replicas-to-write {replicas}\nmin-replicas-max-lag 2\n",
                ports::free(),
            );
            servers.push(Server::prepare("redis", &lines).start().await);
        }
        let cluster = Self { servers, replicas };
        cluster.join().await;
        cluster
    }

    /// The first three are the primaries of the first, second and last third of the slots.
    async fn join(&self) {
        let (first, ids) =
            (&self.servers[0], self.servers.iter().map(|server| server.cli(&["CLUSTER", "MYID"]).text()).collect::<Vec<_>>());
        for (index, server) in self.servers.iter().enumerate() {
            _ = server.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for (server, third) in self.servers.iter().zip(0..3) {
            let (begin, end) = (u32::from(SLOTS) * third / 3, u32::from(SLOTS) * (third + 1) / 3 - 1);
            _ = server.cli(&["CLUSTER", "ADDSLOTSRANGE", &begin.to_string(), &end.to_string()]);
        }
        let bus = first.cli(&["CONFIG", "GET", "cluster-port"]).parts()[1].text();
        for server in &self.servers[1..] {
            _ = server.cli(&["CLUSTER", "MEET", "127.0.0.1", &first.port().to_string(), &bus]);
        }
        let all = format!("cluster_known_nodes:{}", self.servers.len());
        until("the servers to know one another", || {
            let knows = |server: &Server| {
                says(server.try_cli(&["CLUSTER", "INFO"]), &all) && !says(server.try_cli(&["CLUSTER", "NODES"]), "handshake")
            };
            self.servers.iter().all(knows)
        })
        .await;
        for (server, id) in self.servers.iter().skip(3).zip(&ids) {
            _ = server.cli(&["CLUSTER", "REPLICATE", id]);
        }
        self.wait_until_whole().await;
    }

    /// The servers: three primaries, then their replicas in the same order; a failover changes that.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One of the servers, to kill it and to start it anew.
    pub fn server_mut(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }

    /// Which server is the primary of a slot, by the word of most servers. (One that is cut off, or has just come back, may still take
    /// itself for one.)
    ///
    /// # Panics
    /// When none is, or nobody answers.
    #[must_use]
    pub fn primary_of(&self, slot: u16) -> usize {
        let words: Vec<usize> = self.servers.iter().filter_map(|server| self.named_by(server, slot)).collect();
        let count = |index: &usize| words.iter().filter(|word| *word == index).count();
        words.iter().copied().max_by_key(count).expect("someone knows the slot's primary")
    }

    /// The slot of a key.
    #[must_use]
    pub fn slot_of(&self, key: &str) -> u16 {
        let asked = self.servers.iter().find_map(|server| server.try_cli(&["CLUSTER", "KEYSLOT", key]).ok());
        asked.expect("a server answers").text().parse().unwrap()
    }

    /// Waits until another server than this is the primary of a slot, by its own word and that of all that answer. How long it took.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn wait_for_failover(&self, slot: u16, from: usize) -> Duration {
        until("a failover", || {
            let words: Vec<usize> = self.servers.iter().filter_map(|server| self.named_by(server, slot)).collect();
            let next = words.first().copied().filter(|next| *next != from && words.iter().all(|word| word == next));
            next.is_some_and(|next| self.servers[next].info("replication", "role") == "master")
        })
        .await
    }

    /// Waits until every server is there and says that all is well. How long it took.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn wait_until_whole(&self) -> Duration {
        until("the Cluster to be whole", || {
            let is_well = |server: &Server| {
                says(server.try_cli(&["CLUSTER", "INFO"]), "cluster_state:ok")
                    && match server.info("replication", "role").as_str() {
                        "master" => server.info("replication", "connected_slaves") == self.replicas.to_string(),
                        _ => server.info("replication", "master_link_status") == "up",
                    }
            };
            let primaries = self.servers.iter().filter(|server| server.info("replication", "role") == "master").count();
            primaries == 3 && self.servers.iter().all(is_well)
        })
        .await
    }

    /// The section `store` of a configuration: two of the servers are named. Where there are replicas, one acknowledges what must not be lost.
    #[must_use]
    pub fn as_store(&self) -> Value {
        let some: Vec<String> = self.servers.iter().take(2).map(Server::address).collect();
        store(json!({"cluster": some, "acknowledgedBy": self.replicas}), self.servers[0].folder())
    }

    /// The primary of a slot by the word of one server (`CLUSTER SLOTS`: begin, end, [address, port, …], …).
    fn named_by(&self, server: &Server, slot: u16) -> Option<usize> {
        let ranges = server.try_cli(&["CLUSTER", "SLOTS"]).ok()?;
        let holds = |parts: &[super::Reply]| {
            let bound = |index: usize| parts.get(index).and_then(|part| part.text().parse::<u16>().ok());
            bound(0).is_some_and(|begin| begin <= slot) && bound(1).is_some_and(|end| slot <= end)
        };
        let range = ranges.parts().iter().find(|range| holds(range.parts()))?;
        let port = range.parts().get(2)?.parts().get(1)?.text();
        self.servers.iter().position(|server| server.port().to_string() == port)
    }
}
