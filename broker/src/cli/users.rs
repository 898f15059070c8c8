//! `denizen users …`.

use std::{io::BufRead as _, process::ExitCode};

use anyhow::Context as _;
use clap::Subcommand;
use connectors::{Secret, file};

use super::say;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Read a password from standard input (one line) and print its argon2id hash, for `password` in a users file.
    HashPassword,
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::HashPassword = command;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("standard input")?;
    let password = Secret::new(line.trim_end_matches(['\r', '\n']).to_owned());
    say(file::hash_password(&password)?);
    Ok(ExitCode::SUCCESS)
}
