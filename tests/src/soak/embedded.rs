//! One broker on its embedded store, killed again and again under load.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    chance::Chance,
    checker::{Bounds, Verdict, judge},
    client::{Client, Pace},
    door::Door,
    history::Fault,
    people::{TENANTS, asker, configuration},
    plant::Plant,
};
use crate::Broker;

/// How long it may take after a start until as many were answered as there are clients; a kill comes then at the latest.
const AT_WORK: Duration = Duration::from_secs(5);

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Kills {
    /// How often the broker is killed.
    pub count: u32,
    /// How many clients there are.
    pub clients: u32,
    /// What they do.
    pub pace: Pace,
    /// How long things may take.
    pub bounds: Bounds,
    /// Is told how far it is.
    pub progress: fn(&str),
}

impl Kills {
    /// So many, under the load of forty who hardly rest.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self { count, clients: 40, pace: Pace { rest: Duration::from_millis(200), deeds: 12 }, bounds: Bounds::default(), progress: |_| () }
    }

    fn outage(&self) -> Duration {
        Duration::from_micros(self.bounds.outage)
    }
}

/// Kills the broker so often, at random moments, and judges all that was answered. Where a fault is planted
/// it ends as soon as that is seen.
pub async fn kill_again_and_again(kills: Kills, plant: Option<Plant>) -> Verdict {
    let (mut broker, door) = begin().await;
    let clients = come(&door, kills.clients, kills.pace);
    let mut chance = Chance::of(0);
    for kill in 1..=kills.count {
        // Long enough after the start that they are at work again: on a busy machine too.
        let enough = door.answered() + kills.clients as usize;
        tokio::time::sleep(Duration::from_millis(20 + chance.below(1500))).await;
        let waited = Instant::now();
        while door.answered() < enough && waited.elapsed() < AT_WORK {
            tokio::time::sleep(Duration::from_millis(1 + chance.below(50))).await;
        }
        if let Some(plant) = plant {
            door.falsify_one(plant);
        }
        let outage = (plant != Some(Plant::SilentKill)).then(|| door.faulty(Fault::BrokerKilled(0)));
        broker.kill();
        if plant == Some(Plant::LongOutage) {
            tokio::time::sleep(kills.outage() + Duration::from_secs(1)).await;
        }
        broker.restart().await;
        outage.into_iter().for_each(|outage| door.well_again(outage));
        (kills.progress)(&format!("kill {kill} of {}", kills.count));
        if plant.is_some_and(|plant| judged(&door, &kills.bounds).shows(plant.shows())) {
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    leave(&door, clients).await;
    judged(&door, &kills.bounds)
}

/// A broker on its embedded store, and the door to it.
pub(super) async fn begin() -> (Broker, Arc<Door>) {
    let broker = Broker::start_logging(configuration(), "warn,audit=off").await;
    let door = Arc::new(Door::new(broker.issuer(), vec![broker.issuer().to_owned()], TENANTS.to_vec()));
    (broker, door)
}

/// What all that was told comes to.
pub(super) fn judged(door: &Door, bounds: &Bounds) -> Verdict {
    let (history, outages) = door.told();
    judge(&history, &outages, bounds)
}

/// Lets the clients of a run come.
pub(super) fn come(door: &Arc<Door>, count: u32, pace: Pace) -> Vec<tokio::task::JoinHandle<()>> {
    (0..count).map(|number| tokio::spawn(Client::new(number, Arc::clone(door), asker(number), pace).live())).collect()
}

/// Ends it, once each has its answer.
pub(super) async fn leave(door: &Door, clients: Vec<tokio::task::JoinHandle<()>>) {
    door.end();
    for client in clients {
        client.await.expect("a client works to its end");
    }
}
