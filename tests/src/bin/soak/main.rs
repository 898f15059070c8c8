//! `tests/soak`: what was answered is held against all that comes after it, while brokers and the store's servers are killed.

use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use denizen_tests::soak::{
    embedded::{Kills, kill_again_and_again},
    replicated::Soak,
};

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
            let mut kills = Kills::new(count);
            kills.clients = arguments.clients.unwrap_or(kills.clients);
            runtime.block_on(kill_again_and_again(kills, None, |kill| told(&format!("kill {kill} of {count}"))))
        }
        None => {
            let time = Duration::from_secs(arguments.seconds);
            runtime.block_on(Soak::new(time, arguments.replicas, arguments.clients.unwrap_or(200)).run())
        }
    };
    told("");
    writeln!(std::io::stdout(), "{verdict}")?;
    Ok(if verdict.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How far it is, where someone looks on.
fn told(what: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        let _ = write!(terminal, "\r\x1b[K{what}");
    }
}
