//! `denizen store check`: whether the store can be used, and what it may lose.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Context as _;
use time::OffsetDateTime;

use super::super::say;
use crate::{
    config::{self, RedisConfig, StoreConfig},
    readiness, replicas,
    store::{
        Backend, Store,
        embedded::{Embedded, OpenError},
        redis::{Redis, ServerReport},
    },
};

/// Says it all, and at the end what is wrong.
pub(super) async fn run(path: &Path, now: OffsetDateTime) -> anyhow::Result<ExitCode> {
    let store = config::load(path)?.config.store;
    let wrong = match &store {
        StoreConfig { redis: Some(redis), .. } => of_redis(redis, now).await?,
        StoreConfig { file: Some(file), .. } => of_file(file, now).await?,
        _ => {
            say("store: in memory; everything is lost at the end");
            Vec::new()
        }
    };
    for line in &wrong {
        say(format!("WRONG: {line}"));
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn of_file(file: &Path, now: OffsetDateTime) -> anyhow::Result<Vec<String>> {
    say(format!("store: the file {}, for one process; what is answered is on disk", file.display()));
    if !file.try_exists()? {
        say("it is not there yet, and is made at the first start");
        return Ok(Vec::new());
    }
    match Embedded::open(file) {
        Ok(embedded) => of_records(&*Backend::embedded(embedded).store, now).await?,
        Err(OpenError::Locked(_)) => say("a Denizen is at work on it"),
        Err(error) => return Err(error.into()),
    }
    Ok(Vec::new())
}

async fn of_redis(config: &RedisConfig, now: OffsetDateTime) -> anyhow::Result<Vec<String>> {
    let redis = Redis::connect(config).await?;
    say(format!("store: Redis, {}", kind(config)));
    let servers = redis.report().await.context("Redis can not be asked")?;
    let mut wrong = Vec::new();
    for server in &servers {
        say(format!("  {}", described(server)));
        wrong.extend(faults(config, server));
    }
    readiness::ready(&redis, now).await.context("Redis takes no write")?;
    of_records(&redis, now).await?;
    say(match config.acknowledged_by() {
        0 => "may be lost: what a server has not on disk when it fails; see deploy/redis/README.md".to_owned(),
        by => format!(
            "may be lost: nothing that was answered, as long as not a primary and {} fail together",
            if by == 1 { "its replica".to_owned() } else { format!("{by} replicas") }
        ),
    });
    Ok(wrong)
}

async fn of_records(store: &dyn Store, now: OffsetDateTime) -> anyhow::Result<()> {
    if let Some((written, _)) = replicas::written(store, now).await? {
        say(format!("written in format {} since Denizen {}", written.format, written.by));
    }
    let live = replicas::live(store, now).await?;
    say(format!("replicas of Denizen at work: {}", live.len()));
    for replica in live {
        say(format!("  {} version {}, reads formats up to {}, since {}", replica.id, replica.version, replica.reads, replica.started_at));
    }
    Ok(())
}

fn kind(config: &RedisConfig) -> String {
    match (&config.sentinel, config.cluster.is_empty()) {
        (Some(sentinel), _) => format!("whose primary Sentinel calls `{}`", sentinel.name),
        (None, false) => "a Cluster".to_owned(),
        (None, true) => "one server".to_owned(),
    }
}

fn described(server: &ServerReport) -> String {
    let ServerReport { address, version, answered_in, replicas, keeps_each_write, .. } = server;
    let file = if *keeps_each_write { "append-only file on" } else { "no append-only file" };
    let of_it = if *replicas == 1 { "replica" } else { "replicas" };
    format!("{address}: Redis {version}, primary, {replicas} {of_it} in step, {file}, answered in {:.1} ms", millis(*answered_in))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// What must not be so.
fn faults(config: &RedisConfig, server: &ServerReport) -> Vec<String> {
    let ServerReport { address, version, replicas, keeps_each_write, throws_away, .. } = server;
    let mut wrong = Vec::new();
    if version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major < 7) {
        wrong.push(format!("{address}: Redis {version} is too old; 7.0 or newer is needed"));
    }
    if !keeps_each_write {
        wrong.push(format!(
            "{address}: it keeps no append-only file, or can not write it: after a restart tokens that were rotated or revoked would be good again; set `appendonly yes`"
        ));
    }
    if *replicas < usize::from(config.acknowledged_by()) {
        wrong.push(format!(
            "{address}: {replicas} replicas are in step and `acknowledgedBy` is {}: everything that must not be lost is answered 503",
            config.acknowledged_by()
        ));
    }
    if let Some(policy) = throws_away {
        wrong.push(format!("{address}: it throws records away when its memory is full (`maxmemory-policy {policy}`); set `noeviction`"));
    }
    wrong
}
