//! `tests/soak`: what was answered is held against all that comes after it, while brokers and the store's servers are killed.

use std::{io::Write as _, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use denizen::seams::{Clock as _, SystemClock};
use denizen_tests::soak::{
    embedded::{Kills, kill_again_and_again},
    replicated::Soak,
};
use time::format_description::well_known::Rfc3339;

struct Arguments {
    seconds: u64,
    replicas: usize,
    clients: Option<u32>,
    embedded_kills: Option<u32>,
}

fn arguments() -> Result<Arguments> {
    let mut parsed = Arguments { seconds: 600, replicas: 3, clients: None, embedded_kills: None };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().with_context(|| format!("{argument} needs a number"));
        match argument.as_str() {
            "--seconds" => parsed.seconds = value()?.parse()?,
            "--replicas" => parsed.replicas = value()?.parse()?,
            "--clients" => parsed.clients = Some(value()?.parse()?),
            "--embedded-kills" => parsed.embedded_kills = Some(value()?.parse()?),
            _ => bail!("{argument} is unknown; known are --seconds, --replicas, --clients, --embedded-kills"),
        }
    }
    Ok(parsed)
}

fn main() -> Result<ExitCode> {
    let arguments = arguments()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let verdict = match arguments.embedded_kills {
        Some(count) => {
            let mut kills = Kills { progress: told, ..Kills::new(count) };
            kills.clients = arguments.clients.unwrap_or(kills.clients);
            runtime.block_on(kill_again_and_again(kills, None))
        }
        None => {
            let time = Duration::from_secs(arguments.seconds);
            let soak = Soak { progress: told, ..Soak::new(time, arguments.replicas, arguments.clients.unwrap_or(200)) };
            runtime.block_on(soak.run())
        }
    };
    writeln!(std::io::stdout(), "{verdict}")?;
    Ok(if verdict.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How far it is, with the time as the servers' logs have it.
fn told(what: &str) {
    let now = SystemClock.now().format(&Rfc3339).unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "{now} {what}");
}
