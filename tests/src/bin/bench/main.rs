//! `tests/bench`: what Denizen costs beside the bare work, each figure against a floor that is measured in the same run, in
//! rounds that take turns.
//!
//! The broker is the real one, on a store in a file, with its log at the level `info` written to a file, as production has it.
//! It and its floors run on one half of the cores, the load on the other. TokenReviews and code exchanges come over HTTP/1.1
//! connections that are kept, by wrk.

mod broker;
mod calls;
mod client;
mod drawing;
mod exchange;
mod figures;
mod keystone;
mod load;
mod machine;
mod minting;
mod opencloud;
mod process;
mod review;
mod search;
mod upstream;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use denizen::log::LogWriter;

use self::{
    broker::Broker,
    calls::Calls,
    figures::{Figure, Markdown, Table},
    load::Load,
    machine::Cores,
};

/// How long it is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// Seconds of one round of load.
    pub(crate) seconds: u64,
}

/// What is measured, by the names that `--only` takes.
const PARTS: [&str; 8] = ["process", "minting", "review", "exchange", "keystone", "opencloud", "search", "upstream"];

struct Arguments {
    check: bool,
    effort: Effort,
    only: Vec<String>,
    svg: PathBuf,
    markdown: Option<PathBuf>,
}

fn arguments() -> Result<Arguments> {
    let mut parsed = Arguments {
        check: false,
        effort: Effort { rounds: 9, seconds: 2 },
        only: PARTS.map(str::to_owned).to_vec(),
        svg: "tests/bench.svg".into(),
        markdown: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--check" => parsed.check = true,
            "--quick" => parsed.effort = Effort { rounds: 3, seconds: 1 },
            "--only" => parsed.only = value()?.split(',').map(str::to_owned).collect(),
            "--svg" => parsed.svg = value()?.into(),
            "--markdown" => parsed.markdown = Some(value()?.into()),
            _ => bail!("{argument} is unknown; known are --check, --quick, --only, --svg, --markdown"),
        }
    }
    if let Some(unknown) = parsed.only.iter().find(|name| !PARTS.contains(&name.as_str())) {
        bail!("--only {unknown}: known are {}", PARTS.join(", "));
    }
    Ok(parsed)
}

fn main() -> Result<ExitCode> {
    let arguments = arguments()?;
    let begin = std::env::current_exe()?;
    // Beside the program: a folder for temporary files may be in memory, where nothing is ever flushed to a disk.
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(begin.parent().context("a program is in a folder")?)?;
    denizen::cli::install_providers();
    log(folder.path())?;
    let mut figures = Vec::new();
    if arguments.only.iter().any(|part| part == "process") {
        told("how the program starts and rests");
        figures.extend(process::measure(&arguments.effort, folder.path())?);
    }
    let cores = Cores::part()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let measured = runtime.block_on(within(&arguments, &cores, folder.path()))?;
    // What is first in the list of bounds is first in the table.
    figures.splice(0..0, measured);
    let held = figures.iter().all(Figure::holds);
    let place = format!("{} Cores serving: {}, loading: {}.", machine::told(), cores.serving.len(), cores.loading.len());
    fs::write(&arguments.svg, drawing::draw(&figures, &place))?;
    if let Some(path) = &arguments.markdown {
        fs::write(path, format!("{place}\n\n{}", Markdown(&figures)))?;
    }
    writeln!(std::io::stdout(), "{}\n{place}\nDrawn to {}.", Table(&figures), arguments.svg.display())?;
    Ok(if held || !arguments.check { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn within(arguments: &Arguments, cores: &Cores, folder: &Path) -> Result<Vec<Figure>> {
    let (effort, wants) = (&arguments.effort, |name: &str| arguments.only.iter().any(|part| part == name));
    let mut figures = Vec::new();
    if wants("review") || wants("minting") || wants("exchange") {
        let home = folder.join("two-tenants");
        fs::create_dir(&home)?;
        let (tenants, connectors) = broker::two_tenants();
        let broker = Broker::start(&home, &tenants, &connectors).await?;
        let people = broker.people().await?;
        let has_load = Load::is_possible();
        if wants("review") && has_load {
            told("token reviews");
            figures.extend(review::measure(effort, cores, folder, &broker, &people).await?);
        }
        if wants("minting") {
            told("minting");
            figures.push(minting::measure(effort, &broker, &people)?);
        }
        if wants("exchange") && has_load {
            told("code exchanges");
            figures.extend(exchange::measure(effort, cores, folder, &broker, &people).await?);
        }
    }
    if wants("keystone") && Load::is_possible() {
        told("reviews of Keystone tokens");
        let home = folder.join("keystone");
        fs::create_dir(&home)?;
        figures.extend(keystone::measure(effort, cores, &home).await?);
    }
    if wants("opencloud") && Calls::is_possible() {
        told("what OpenCloud asks at each request");
        let home = folder.join("opencloud");
        fs::create_dir(&home)?;
        figures.extend(opencloud::measure(effort, cores, &home).await?);
    }
    if wants("search") && Path::new("/usr/sbin/slapd").exists() {
        told("searches; the directory is filled first");
        let home = folder.join("directory");
        fs::create_dir(&home)?;
        figures.extend(search::measure(effort, cores, &home).await?);
    }
    if wants("upstream") {
        told("sign-ins among 1,000 connectors");
        figures.extend(upstream::among_many(effort, &folder.join("connectors")).await?);
        told("sign-ins beside a silent provider");
        figures.extend(upstream::measure(effort, &folder.join("upstream")).await?);
    }
    Ok(figures)
}

/// Says what goes on, on standard error; one that is closed is no fault.
fn told(what: &str) {
    _ = writeln!(std::io::stderr(), "measuring {what} …");
}

/// The log as `denizen serve` writes it: one line an event, from `info` on; here to a file, which the rounds empty.
fn log(folder: &Path) -> Result<()> {
    let file = fs::File::options().create(true).append(true).open(folder.join(load::LOG))?;
    let filter = tracing_subscriber::EnvFilter::new("info");
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(LogWriter::start(file)?).init();
    Ok(())
}
