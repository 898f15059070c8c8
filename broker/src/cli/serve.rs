//! `denizen serve`.

use std::{net::TcpListener, path::Path, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    App,
    config::{self, Loaded},
    http::{self, demo::Walk, server},
    seams::{Seams, SystemClock, SystemEntropy},
    store::{Store, embedded::Embedded},
};

pub(super) async fn run(path: &Path) -> anyhow::Result<ExitCode> {
    SystemEntropy::ready_early();
    let loaded = config::load(path)?;
    for warning in &loaded.warnings {
        tracing::warn!("{}", warning.line(&path.display().to_string()));
    }
    let listeners = (server::bind(loaded.config.listen.address)?, server::bind(loaded.config.listen.admin_address)?);
    let app = app(loaded).await?;
    tracing::info!(issuer = app.issuer, address = %listeners.0.local_addr()?, admin = %listeners.1.local_addr()?, "serving");
    serve(app, None, listeners, stopped()).await?;
    Ok(ExitCode::SUCCESS)
}

/// The program over a loaded configuration and the machine's own seams.
pub(super) async fn app(loaded: Loaded) -> anyhow::Result<Arc<App>> {
    let store: Arc<dyn Store> = match &loaded.config.store.file {
        None => {
            tracing::warn!("no store.file is configured: keys, sessions and tokens are lost at the end");
            Arc::new(Embedded::in_memory()?)
        }
        Some(path) => Arc::new(Embedded::open(path)?),
    };
    app_over(loaded, store).await
}

/// The same over a store that is open already.
pub(super) async fn app_over(loaded: Loaded, store: Arc<dyn Store>) -> anyhow::Result<Arc<App>> {
    let seams = Seams { clock: Arc::new(SystemClock), entropy: Arc::new(SystemEntropy), store };
    Ok(Arc::new(crate::build(loaded, seams).await?))
}

/// Serves until `stop` is done.
pub(super) async fn serve(
    app: Arc<App>,
    walk: Option<Walk>,
    (public, admin): (TcpListener, TcpListener),
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let doors = (http::public(&app, walk), http::admin(&app));
    server::serve(app, (public, doors.0), (admin, doors.1), stop).await.context("serving ended")
}

/// Done when someone asks the program to end, by SIGTERM or SIGINT.
pub(super) async fn stopped() {
    let (Ok(mut term), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}
