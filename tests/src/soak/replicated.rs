//! Replicas over a primary and its replica under sentinels, where brokers and primaries are killed and primaries stand still.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::Mutex,
    time::{Instant, sleep, sleep_until},
};

use super::{
    checker::{Bounds, Verdict},
    client::Pace,
    door::Door,
    embedded::{come, judged, leave},
    history::{Fault, SECOND},
    people::{TENANTS, configuration},
    restoring::{Restorer, Restoring},
};
use crate::{redis::RedisPair, replicas::Replicas};

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// How long.
    pub time: Duration,
    /// How many brokers.
    pub replicas: usize,
    /// How many clients.
    pub clients: u32,
    /// What they do.
    pub pace: Pace,
    /// How long things may take.
    pub bounds: Bounds,
    /// What is done to the store behind everyone's back, so that the checker is seen to see it.
    pub restoring: Option<Restoring>,
    /// Is told what is done to whom.
    pub progress: fn(&str),
}

/// How often a broker is killed.
const BETWEEN_KILLS: Duration = Duration::from_secs(20);
/// How long a primary stands still.
const FROZEN: Duration = Duration::from_secs(3);

impl Soak {
    /// So long, with this load. An outage of Redis is a failover of a busy machine: the bound is for that, and a broker's start.
    #[must_use]
    pub fn new(time: Duration, replicas: usize, clients: u32) -> Self {
        let pace = Pace { rest: Duration::from_secs(3), deeds: 12 };
        let bounds = Bounds { outage: 25 * SECOND, ..Bounds::default() };
        Self { time, replicas, clients, pace, bounds, restoring: None, progress: |_| () }
    }

    /// Runs it: the primary is killed after a third and two thirds of the time, and stands still between that. Where records are put back,
    /// that is all that is done, until it is seen.
    ///
    /// # Panics
    /// When a server does not start, or Redis does not become whole again.
    pub async fn run(self) -> Verdict {
        let pair = RedisPair::start().await;
        let store = pair.as_store();
        let replicas =
            Replicas::start_logging(self.replicas, configuration().with("/store", store), "warn,denizen::store=debug,audit=off").await;
        let door = Arc::new(Door::new(replicas.issuer(), replicas.addresses(), TENANTS.to_vec()));
        let clients = come(&door, self.clients, self.pace);
        let until = Instant::now() + self.time;
        // A broker is not started while the store is away: it would end, and be started again until the store is there.
        let calm = Arc::new(Mutex::new(()));
        let (brokers_door, brokers_calm) = (Arc::clone(&door), Arc::clone(&calm));
        let brokers = async {
            if self.restoring.is_some() { replicas } else { self.kill_brokers(replicas, brokers_door, brokers_calm, until).await }
        };
        let (redis_door, plan) = (Arc::clone(&door), self);
        // Redis is watched by calls that hold their thread.
        let redis = tokio::task::spawn_blocking(move || Handle::current().block_on(plan.trouble_redis(pair, redis_door, calm, until)));
        let (replicas, pair) = tokio::join!(brokers, redis);
        leave(&door, clients).await;
        drop((replicas, pair.expect("Redis is troubled and made whole")));
        judged(&door, &self.bounds)
    }

    async fn trouble_redis(self, mut pair: RedisPair, door: Arc<Door>, calm: Arc<Mutex<()>>, until: Instant) -> RedisPair {
        let begun = Instant::now();
        if let Some(kind) = self.restoring {
            let mut restoring = Restorer::new(kind);
            while Instant::now() < until && !judged(&door, &self.bounds).shows(kind.shows()) {
                for _ in 0..10 {
                    restoring.once(pair.primary());
                    sleep(Duration::from_millis(100)).await;
                }
            }
            return pair;
        }
        // Sixths of the time: still, killed, still, killed, still.
        for sixth in 1..=5_u32 {
            sleep_until(begun + self.time * sixth / 6).await;
            let _held = calm.lock().await;
            let before = pair.failovers();
            let is_killed = sixth.is_multiple_of(2);
            let outage = door.faulty(if is_killed { Fault::PrimaryKilled } else { Fault::PrimaryFrozen });
            (self.progress)(if is_killed { "the primary is killed" } else { "the primary stands still" });
            if is_killed {
                pair.fail_over().await;
            } else {
                let frozen = pair.primary_index();
                pair.servers()[frozen].freeze();
                sleep(FROZEN).await;
                pair.servers()[frozen].thaw();
                pair.wait_until_whole().await;
            }
            door.whole_again(outage, pair.failovers() - before);
            (self.progress)("Redis is whole");
        }
        sleep_until(until).await;
        pair
    }

    async fn kill_brokers(self, mut replicas: Replicas, door: Arc<Door>, calm: Arc<Mutex<()>>, until: Instant) -> Replicas {
        let mut next = Instant::now() + BETWEEN_KILLS / 2;
        for which in (0..replicas.count()).cycle() {
            if next + BETWEEN_KILLS / 4 > until {
                break;
            }
            sleep_until(next).await;
            next += BETWEEN_KILLS;
            let outage = door.faulty(Fault::BrokerKilled(which));
            (self.progress)(&format!("replica {which} is killed"));
            replicas.kill(which);
            sleep(Duration::from_millis(500)).await;
            let held = calm.lock().await;
            replicas.restart(which).await;
            drop(held);
            door.well_again(outage);
            (self.progress)(&format!("replica {which} is ready"));
        }
        sleep_until(until).await;
        replicas
    }
}
