//! `denizen directory …`.

mod progress;
mod running;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use claims_mapping::{ConnectorId, TenantId};
use clap::Subcommand;
use tokio::sync::mpsc::{Sender, channel};

use self::progress::Progress;
use super::serve;
use crate::{
    config::{self, Loaded},
    directory::{Told, Wanted},
    store::{
        Backend,
        embedded::{Embedded, OpenError},
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List all people of the directories and record their ids, as a search does for those it finds. It may be run at any time, and again. 0: all
    /// lists were had; 1: some were not, which are named.
    ///
    /// Where Denizen runs, it does the work, asked at its `listen.adminAddress`; else this command does, as the user that Denizen runs as.
    Reindex {
        /// The configuration.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
        /// The id of one tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// The id of one connector.
        #[arg(long)]
        connector: Option<String>,
        /// Say how it goes in JSON, one object a line.
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Reindex { config, tenant, connector, json } = command;
    let wanted = Wanted {
        tenant: tenant.as_deref().map(TenantId::parse).transpose().context("--tenant")?,
        connector: connector.as_deref().map(ConnectorId::parse).transpose().context("--connector")?,
    };
    let (tell, mut told) = channel(64);
    let progress = async {
        let mut progress = Progress::new(*json);
        while let Some(told) = told.recv().await {
            progress.show(&told)?;
        }
        Ok(progress.ended())
    };
    // Where showing it fails, the work ends too: nobody listens any more.
    let (done, shown) = tokio::join!(reindex(config, &wanted, tell), progress);
    let (): () = done?;
    let shown: anyhow::Result<Option<bool>> = shown;
    match shown? {
        Some(true) => Ok(ExitCode::SUCCESS),
        Some(false) => Ok(ExitCode::FAILURE),
        None => bail!("it broke off before its end; what was recorded stays, run it again"),
    }
}

async fn here(loaded: Loaded, backend: Backend, wanted: &Wanted, tell: Sender<Told>) -> anyhow::Result<()> {
    let app = serve::app_over(loaded, backend).await?;
    let plan = app.reindex.plan(wanted)?;
    plan.run(app.seams.clock.now(), tell).await;
    Ok(())
}

/// Does it here, or has the running Denizen do it.
async fn reindex(path: &Path, wanted: &Wanted, tell: Sender<Told>) -> anyhow::Result<()> {
    let loaded = config::load(path)?;
    let admin = loaded.config.listen.admin_address;
    if loaded.config.store.redis.is_some() {
        let backend = Backend::open(&loaded.config.store).await?;
        return here(loaded, backend, wanted, tell).await;
    }
    let Some(file) = loaded.config.store.file.clone() else {
        let alone = "no `store.file` is configured, so that only a running Denizen has records";
        return running::reindex(admin, wanted, tell).await.context(alone);
    };
    if !file.try_exists().unwrap_or(true) {
        bail!("{}: there is no store yet; start Denizen once, and run this again", file.display());
    }
    match Embedded::open(&file) {
        Ok(store) => here(loaded, Backend::embedded(store), wanted, tell).await,
        Err(OpenError::Locked(_)) => {
            running::reindex(admin, wanted, tell).await.context("the store is in use, so that the running Denizen is asked")
        }
        Err(error) => Err(error.into()),
    }
}
