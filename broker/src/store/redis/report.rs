//! What the primaries say of themselves: for `denizen store check`.

use std::time::Duration;

use redis::{FromRedisValue as _, cmd};
use tokio::time::Instant;

use super::{Redis, fault::Fault};
use crate::store::StoreError;

/// One primary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Where it is.
    pub address: String,
    /// Its version.
    pub version: String,
    /// How long it took to answer.
    pub answered_in: Duration,
    /// How many replicas it has that are in step.
    pub replicas: usize,
    /// Whether every write goes to its append-only file, and that could be written last.
    pub keeps_each_write: bool,
    /// What it throws away when its memory is full, where it has a bound.
    pub throws_away: Option<String>,
}

impl Redis {
    /// Asks each primary.
    ///
    /// # Errors
    /// When there is none, or one can not be asked.
    pub async fn report(&self) -> Result<Vec<ServerReport>, StoreError> {
        // Until the servers are known.
        self.at(0, true, |node| async move { node.ask(&cmd("PING")).await }).await?;
        let mut reports = Vec::new();
        for node in self.nodes.all() {
            let began = Instant::now();
            let answer = node.ask(&cmd("INFO")).await?;
            let answered_in = began.elapsed();
            let text = String::from_redis_value(answer).map_err(|_| Fault::Unanswered("INFO is no text".to_owned()))?;
            reports.push(ServerReport { address: node.address().to_string(), answered_in, ..read(&text) });
        }
        Ok(reports)
    }
}

impl Redis {
    /// Tells the log what the servers lose by how they are set up. Those that can not be asked now are passed over.
    pub(in crate::store) async fn warn_of_losses(&self) {
        for node in self.nodes.all().iter().filter(|node| node.is_open()) {
            let Ok(answer) = node.ask(&cmd("INFO")).await else { continue };
            let ServerReport { keeps_each_write, throws_away, .. } = read(&String::from_redis_value(answer).unwrap_or_default());
            let address = node.address();
            if !keeps_each_write {
                tracing::warn!(
                    server.address = %address,
                    "the store's server keeps no append-only file, or can not write it: after a restart of it tokens that were rotated or revoked would be \
                     good again; set `appendonly yes`"
                );
            }
            if let Some(policy) = throws_away {
                tracing::warn!(
                    server.address = %address,
                    policy,
                    "the store's server throws records away when its memory is full: set `maxmemory-policy noeviction`"
                );
            }
        }
    }
}

/// What `INFO` says.
fn read(info: &str) -> ServerReport {
    let of = |name: &str| info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    let in_step = |line: &&str| line.starts_with("slave") && line.contains("state=online");
    let policy = of("maxmemory_policy").filter(|policy| *policy != "noeviction" && of("maxmemory").is_some_and(|most| most != "0"));
    ServerReport {
        version: of("redis_version").unwrap_or("unknown").to_owned(),
        replicas: info.lines().filter(in_step).count(),
        keeps_each_write: of("aof_enabled") == Some("1") && of("aof_last_write_status") == Some("ok"),
        throws_away: policy.map(str::to_owned),
        ..ServerReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_info_says_is_read() {
        let info = "# Server\r\nredis_version:7.0.15\r\n# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
                    slave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=0\r\nslave1:ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0\r\n\
                    # Persistence\r\naof_enabled:1\r\naof_last_write_status:ok\r\n# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n";
        let read_as = read(info);
        assert_eq!((read_as.version.as_str(), read_as.replicas, read_as.keeps_each_write), ("7.0.15", 1, true));
        assert_eq!(read_as.throws_away.as_deref(), Some("allkeys-lru"));
        assert_eq!(read(&info.replace("maxmemory:1000", "maxmemory:0")).throws_away, None);
        assert!(!read(&info.replace("aof_enabled:1", "aof_enabled:0")).keeps_each_write);
    }
}
