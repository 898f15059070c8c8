//! `denizen config import …`: what is given, the order of the steps, and where what comes of them goes. Nothing is written before
//! all of it is made, and no file is overwritten.

mod configuration;
mod documents;
mod flags;
mod manifest;
mod rbac;
mod report;
mod subjects;

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use claims_mapping::ConnectorId;
use clap::{Args, Subcommand, ValueEnum};
use url::Url;

use self::{
    configuration::Wanted,
    report::Report,
    subjects::{Rule, Subjects, Tenant},
};

/// The largest file that is read, in bytes.
const MOST: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// From k8s-keystone-auth: its flags become a configuration, and RBAC's subjects the names that Denizen gives. Contacts no one.
    /// 0: all of it was translated; 2: what could be was, and the report says what was not; 1: nothing was written.
    KeystoneAuth(Box<KeystoneAuth>),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct KeystoneAuth {
    /// A tenant by its label, and the id of its domain in Keystone. One for each domain.
    #[arg(long = "tenant", value_name = "LABEL=DOMAIN_ID", required = true)]
    tenants: Vec<Tenant>,
    /// Denizen's own address, as applications and browsers will see it; to be filled in later where absent.
    #[arg(long)]
    issuer: Option<Url>,
    /// The permanent id of the connector: part of every user's own.
    #[arg(long, default_value = "keystone")]
    connector: ConnectorId,
    /// The audience that kube-apiserver stands for: its `--api-audiences`, or its `--service-account-issuer` without them.
    #[arg(long, default_value = "https://kubernetes.default.svc")]
    audience: String,
    /// The manifest of k8s-keystone-auth (Deployment, DaemonSet, Pod …), in place of its flags.
    #[arg(long, conflicts_with = "flags")]
    manifest: Option<PathBuf>,
    /// The container in the manifest; the one whose image is k8s-keystone-auth where absent.
    #[arg(long, requires = "manifest")]
    container: Option<String>,
    /// The file for the configuration, which must not exist; standard output where absent.
    #[arg(long)]
    output: Option<PathBuf>,
    /// A file with RoleBindings and ClusterRoleBindings, alone, in lists or among others; `-` reads standard input. More than one may be given.
    #[arg(long)]
    rbac: Vec<PathBuf>,
    /// The file for the bindings with the new names, which must not exist; standard output where absent.
    #[arg(long, requires = "rbac")]
    rbac_output: Option<PathBuf>,
    /// Whose name it is, where there are several tenants: `alice=acme`, `group:staff=acme,globex`; nothing after the `=` keeps it as it is.
    #[arg(long = "subject", value_name = "[user:|group:]NAME=LABEL[,LABEL]")]
    subjects: Vec<Rule>,
    /// A file of such lines; `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    subjects_file: Option<PathBuf>,
    /// The file for the report, which must not exist; standard error where absent.
    #[arg(long)]
    report: Option<PathBuf>,
    /// How the report is written.
    #[arg(long, value_enum, default_value = "text")]
    report_format: ReportFormat,
    /// The flags of k8s-keystone-auth, after `--`.
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReportFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::KeystoneAuth(asked) = command;
    let has_flags = asked.manifest.is_some() || !asked.flags.is_empty();
    if !has_flags && asked.rbac.is_empty() {
        bail!("nothing to import: give k8s-keystone-auth's flags after `--`, its manifest by --manifest, or bindings by --rbac");
    }
    if has_flags && asked.output.is_none() && !asked.rbac.is_empty() && asked.rbac_output.is_none() {
        bail!("configuration and bindings would both go to standard output: give --output or --rbac-output");
    }
    let subjects = Subjects::new(&asked.tenants, rules(asked)?)?;
    let mut report = Report::default();
    let configuration = if has_flags { Some(configuration(asked, &mut report)?) } else { None };
    let bindings = bindings(asked, &subjects, &mut report)?;
    let told = match asked.report_format {
        ReportFormat::Text => report.to_string(),
        ReportFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
    };
    for path in [&asked.output, &asked.rbac_output, &asked.report].into_iter().flatten() {
        if path.try_exists().with_context(|| path.display().to_string())? {
            bail!("{}: it exists, and nothing is overwritten; nothing was written", path.display());
        }
    }
    let output = asked.output.as_deref().filter(|_| has_flags).map(create).transpose()?;
    let rbac_output = asked.rbac_output.as_deref().map(create).transpose()?;
    let report_file = asked.report.as_deref().map(create).transpose()?;
    if let Some(text) = configuration {
        write(output, &mut std::io::stdout(), &text)?;
    }
    if let Some(text) = bindings {
        write(rbac_output, &mut std::io::stdout(), &text)?;
    }
    write(report_file, &mut std::io::stderr(), &told)?;
    Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// The rules of the command line and of the file.
fn rules(asked: &KeystoneAuth) -> anyhow::Result<Vec<Rule>> {
    let mut rules = asked.subjects.clone();
    let Some(path) = &asked.subjects_file else { return Ok(rules) };
    for (index, line) in read(path)?.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            rules.push(line.parse().with_context(|| format!("{}:{}", path.display(), index + 1))?);
        }
    }
    Ok(rules)
}

fn configuration(asked: &KeystoneAuth, report: &mut Report) -> anyhow::Result<String> {
    let given = match &asked.manifest {
        Some(path) => manifest::flags(&read(path)?, asked.container.as_deref(), report).with_context(|| path.display().to_string())?,
        None => flags::parse(&asked.flags),
    };
    let wanted = Wanted { issuer: asked.issuer.as_ref(), connector: &asked.connector, audience: &asked.audience, tenants: &asked.tenants };
    Ok(configuration::write(&given, &wanted, report))
}

/// All files' bindings as one text of several documents; `None` where no file was given.
fn bindings(asked: &KeystoneAuth, subjects: &Subjects, report: &mut Report) -> anyhow::Result<Option<String>> {
    let mut whole: Option<String> = None;
    for path in &asked.rbac {
        let name = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() };
        let text = rbac::rewrite(&name, &read(path)?, subjects, report).with_context(|| name.clone())?;
        whole = Some(match whole {
            None => text,
            Some(mut whole) => {
                if !whole.ends_with('\n') {
                    whole.push('\n');
                }
                if !text.starts_with("---") {
                    whole.push_str("---\n");
                }
                whole + &text
            }
        });
    }
    Ok(whole)
}

/// What a file holds, the whole of it or an error; `-` reads standard input.
fn read(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(MOST + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(MOST + 1).read_to_string(&mut text))
    };
    let length = read.with_context(|| name.to_string())?;
    if u64::try_from(length).unwrap_or(u64::MAX) > MOST {
        bail!("{name}: it is larger than {} MiB", MOST >> 20);
    }
    Ok(text)
}

fn create(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path).with_context(|| format!("{}: not written", path.display()))
}

fn write(file: Option<File>, otherwise: &mut dyn std::io::Write, text: &str) -> anyhow::Result<()> {
    match file {
        Some(mut file) => file.write_all(text.as_bytes())?,
        // Not so for a pipe whose reader has gone: half a configuration is not one.
        None => otherwise.write_all(text.as_bytes()).and_then(|()| otherwise.flush())?,
    }
    Ok(())
}
