//! `denizen claims …`.

mod reference;
mod token;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use claims_mapping::{Claims, ConnectorId, Explanation, Identity, Rejection, Subject, TenantRule, UpstreamUser};
use clap::{Args, Subcommand};

use super::say;
use crate::config::{Loaded, LoadedConnector};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show what each step of a connector's mapping sees and gives: for a set of claims, for a token of the connector's upstream,
    /// or as it was at a sign-in that was refused. The claims' values are printed. 0: the person is admitted, or the refusal
    /// was found; 1: not so.
    Explain(Explain),
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The configuration.
    #[arg(long, env = "DENIZEN_CONFIG")]
    config: PathBuf,
    /// The connector whose mapping is asked; for a token the one of its issuer, or the only Keystone,
    /// where absent.
    #[arg(long)]
    connector: Option<ConnectorId>,
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// A file with the claims as a JSON object; `-` reads standard input.
    #[arg(long, requires = "connector")]
    claims: Option<PathBuf>,
    /// A token of an upstream whose connector has `acceptTokens: true`: a JWT, or a token of a Keystone. `-` reads it from standard
    /// input, so that it stands in no list of processes. The upstream is asked for its keys, or about the token; Denizen need not run.
    #[arg(long, value_name = "TOKEN|-")]
    token: Option<String>,
    /// The number that a person was told whose sign-in was refused. The running Denizen is asked, at `listen.adminAddress`.
    #[arg(long, conflicts_with = "connector")]
    reference: Option<String>,
}

pub(super) async fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Explain(Explain { config, connector, source }) = command;
    let loaded = crate::config::load(config)?;
    match source {
        Source { claims: Some(path), .. } => {
            let entry = find(&loaded, connector.as_ref().context("which connector's mapping? name it by --connector")?)?;
            let user = read(path)?;
            Ok(told(&loaded, entry, Explanation::default(), &user))
        }
        Source { token: Some(token), .. } => {
            let text = if token == "-" { super::read(Path::new("-"))? } else { token.clone() };
            token::explain(&loaded, connector.as_ref(), text.trim()).await
        }
        Source { reference: Some(reference), .. } => reference::explain(&loaded.config, reference).await,
        Source { .. } => anyhow::bail!("give --claims, --token or --reference"),
    }
}

/// One connector of the configuration.
fn find<'l>(loaded: &'l Loaded, id: &ConnectorId) -> anyhow::Result<&'l LoadedConnector> {
    let known = || loaded.connectors.iter().map(|c| c.config.id.as_str()).take(50).collect::<Vec<_>>().join(", ");
    let entry = loaded.connectors.iter().find(|c| c.config.id == *id);
    entry.with_context(|| format!("there is no connector `{id}`; there are: {}", known()))
}

/// Shows the steps before the mapping, those of the mapping, and the admission.
fn told(loaded: &Loaded, entry: &LoadedConnector, mut steps: Explanation, user: &UpstreamUser) -> ExitCode {
    steps.steps.extend(entry.mapping.explain(user).steps);
    say(steps);
    if let Some(directory) = &entry.config.directory {
        say(format_args!("not asked here: whom of `{directory}` this person is"));
    }
    if entry.config.disabled {
        say("not so while the connector is `disabled`");
    }
    match admit(loaded, entry, user) {
        Ok(identity) => {
            say(format_args!(
                "admitted: {} of tenant {}, id {}",
                identity.username(),
                identity.id().tenant_id(),
                identity.id().opaque_id()
            ));
            ExitCode::SUCCESS
        }
        Err(rejection) => {
            say(format_args!("refused: {rejection}"));
            ExitCode::FAILURE
        }
    }
}

/// The claims of a file. The subject, which the claims do not say, is their `sub`, `id` or `user_id`, or a stand-in.
fn read(path: &Path) -> anyhow::Result<UpstreamUser> {
    let text = super::read(path)?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|e| anyhow::anyhow!("{}: not JSON at line {}, column {}", path.display(), e.line(), e.column()))?;
    let claims = Claims::new(value).with_context(|| path.display().to_string())?;
    let named =
        ["sub", "id", "entryUUID", "user_id"].iter().find_map(|name| claims.get(name)?.as_str().and_then(|s| Subject::parse(s).ok()));
    let subject = named.map_or_else(|| Subject::parse("00000000-0000-0000-0000-000000000000"), Ok)?;
    Ok(UpstreamUser { subject, claims })
}

/// The same decisions as at a sign-in, over the configured tenants alone.
fn admit(loaded: &Loaded, entry: &LoadedConnector, user: &UpstreamUser) -> Result<Identity, Rejection> {
    let mapped = entry.mapping.evaluate(user)?;
    let id = &entry.config.id;
    let tenant = match &entry.policy.tenant_rule {
        TenantRule::Fixed(fixed) | TenantRule::Default(fixed) => loaded.tenants.iter().find(|t| t.id == *fixed),
        TenantRule::Mapped(_) => match mapped.tenant.as_slice() {
            [] => return Err(Rejection::NoTenant),
            [external] => loaded.tenants.iter().find(|t| t.external_id(id) == external),
            _ => return Err(Rejection::SeveralTenants),
        },
    };
    Identity::admit(mapped, tenant.ok_or(Rejection::UnknownTenant)?, &entry.policy)
}
