//! The command line.

mod admin;
mod claims;
mod config;
mod demo;
mod directory;
mod serve;
mod store;
mod token;
mod users;
mod walk;

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    log::{FlushedAtEnd, LogWriter},
    store::Release,
};

/// A multi-tenant identity broker.
#[derive(Debug, Parser)]
#[command(name = "denizen", version, about, max_term_width = 100)]
struct Arguments {
    /// How log lines are written to standard error.
    #[arg(long, global = true, value_enum, default_value = "text", env = "DENIZEN_LOG_FORMAT")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve, as a configuration says.
    Serve {
        /// The configuration, in YAML.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
    },
    /// Serve two tenants with people of a file, and a page that walks a newcomer through.
    Demo {
        /// Where to listen, on this machine only.
        #[arg(long, default_value = "127.0.0.1:5556")]
        address: SocketAddr,
        /// Walk the same way by itself over HTTP, print each step, and end: 0 where all of it held, else 1.
        #[arg(long)]
        once: bool,
    },
    /// Look after the configuration.
    #[command(subcommand)]
    Config(config::Command),
    /// Look into claims mapping.
    #[command(subcommand)]
    Claims(claims::Command),
    /// Ask about tokens.
    #[command(subcommand)]
    Token(token::Command),
    /// Look after what is known of directories.
    #[command(subcommand)]
    Directory(directory::Command),
    /// Look after what is kept: check it, export it, import it, move it.
    #[command(subcommand)]
    Store(store::Command),
    /// Look after users of a file.
    #[command(subcommand)]
    Users(users::Command),
}

/// Runs the command that the arguments name. 0: it went well; 1: it did not; 2: the arguments are wrong, or an
/// import left something to be done.
#[must_use]
pub fn main() -> ExitCode {
    main_as(&Release::THIS)
}

/// The same, as a version that knows other formats of stored values: the next one, in a test.
#[must_use]
pub fn main_as(release: &Release) -> ExitCode {
    let arguments = Arguments::parse();
    // The demo talks to a newcomer; its log is for those who ask for it.
    let level = match arguments.command {
        Command::Demo { .. } => "error",
        Command::Directory(_) | Command::Store(_) => "warn",
        _ => "info",
    };
    let end = match log(arguments.log_format, level) {
        Ok(writer) => FlushedAtEnd(writer),
        Err(error) => return failed(&anyhow::Error::new(error).context("the log can not be started")),
    };
    install_providers();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let done = runtime.block_on(async {
        match arguments.command {
            Command::Serve { config } => serve::run(&config, release).await,
            Command::Demo { address, once: false } => demo::run(address, release).await,
            Command::Demo { once: true, .. } => demo::once(release).await,
            Command::Config(command) => config::run(&command),
            Command::Claims(command) => claims::run(&command).await,
            Command::Token(command) => token::run(&command).await,
            Command::Directory(command) => directory::run(&command, release).await,
            Command::Store(command) => store::run(&command).await,
            Command::Users(command) => users::run(&command),
        }
    });
    // What is said of the end comes after the log.
    end.0.flush();
    done.unwrap_or_else(|error| failed(&error))
}

/// rustls and jsonwebtoken each need to be told once which cryptography to use.
pub fn install_providers() {
    // An error means that it was told before, to the same effect.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "denizen: {error:#}");
    ExitCode::FAILURE
}

/// What a file holds; `-` reads standard input, of at most 1 MiB.
fn read(path: &Path) -> anyhow::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path).with_context(|| path.display().to_string());
    }
    let mut text = String::new();
    std::io::stdin().take(1 << 20).read_to_string(&mut text).context("standard input")?;
    Ok(text)
}

/// Writes to standard output; a reader that has gone away is no error.
fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn log(format: LogFormat, level: &str) -> std::io::Result<LogWriter> {
    use tracing_subscriber::{EnvFilter, fmt};
    // tower-sessions calls each cookie of a session that is over suspicious: one line for whoever sends any.
    let filter = EnvFilter::try_from_env("DENIZEN_LOG").unwrap_or_else(|_| EnvFilter::new(format!("{level},tower_sessions_core=error")));
    let writer = LogWriter::start(std::io::stderr())?;
    writer.flush_at_panics();
    let lines = fmt().with_env_filter(filter).with_writer(writer.clone());
    match format {
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).init(),
    }
    Ok(writer)
}
