//! `denizen config …`.

mod import;

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;

use super::say;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Say everything that is wrong with a configuration, with line and column. Contacts no upstream.
    Check {
        /// The configuration.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
    },
    /// Print the configuration's JSON Schema, for editors.
    Schema,
    /// Make a configuration from that of another program.
    #[command(subcommand)]
    Import(import::Command),
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check { config } => {
            let loaded = crate::config::load(config)?;
            let file = config.display().to_string();
            loaded.warnings.iter().for_each(|warning| say(format_args!("warning: {}", warning.line(&file))));
            let (tenants, connectors) = (loaded.tenants.len(), loaded.connectors.len());
            let (clients, reviewers) = (loaded.config.clients.len(), loaded.config.reviewers.len());
            say(format_args!("{file}: in order ({tenants} tenants, {connectors} connectors, {clients} clients, {reviewers} reviewers)"));
        }
        Command::Import(command) => return import::run(command),
        Command::Schema => say(serde_json::to_string_pretty(&crate::config::schema())?),
    }
    Ok(ExitCode::SUCCESS)
}
