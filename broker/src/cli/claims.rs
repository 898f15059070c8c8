//! `denizen claims …`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use claims_mapping::{Claims, ConnectorId, Identity, Rejection, Subject, TenantRule, UpstreamUser};
use clap::Subcommand;

use super::say;
use crate::config::{Loaded, LoadedConnector};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show what each step of a connector's mapping sees and gives for a set of claims. The claims' values are printed.
    Explain {
        /// The configuration.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
        /// The connector whose mapping is asked.
        #[arg(long)]
        connector: ConnectorId,
        /// A file with the claims as a JSON object; `-` reads standard input.
        #[arg(long)]
        claims: PathBuf,
    },
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Explain { config, connector, claims } = command;
    let loaded = crate::config::load(config)?;
    let known = || loaded.connectors.iter().map(|c| c.config.id.as_str()).collect::<Vec<_>>().join(", ");
    let entry = loaded.connectors.iter().find(|c| c.config.id == *connector);
    let entry = entry.with_context(|| format!("there is no connector `{connector}`; there are: {}", known()))?;
    let user = read(claims)?;
    say(entry.mapping.explain(&user));
    match admit(&loaded, entry, &user) {
        Ok(identity) => {
            say(format_args!(
                "admitted: {} of tenant {}, id {}",
                identity.username(),
                identity.id().tenant_id(),
                identity.id().opaque_id()
            ));
            Ok(ExitCode::SUCCESS)
        }
        Err(rejection) => {
            say(format_args!("refused: {rejection}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The claims of a file. The subject, which the claims do not say, is their `sub` or `id`, or a stand-in.
fn read(path: &Path) -> anyhow::Result<UpstreamUser> {
    let text = super::read(path)?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|e| anyhow::anyhow!("{}: not JSON at line {}, column {}", path.display(), e.line(), e.column()))?;
    let claims = Claims::new(value).with_context(|| path.display().to_string())?;
    let named = ["sub", "id", "entryUUID"].iter().find_map(|name| claims.get(name)?.as_str().and_then(|s| Subject::parse(s).ok()));
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
