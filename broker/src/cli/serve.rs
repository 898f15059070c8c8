//! `denizen serve`.

use std::{net::TcpListener, path::Path, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    App,
    config::{self, Loaded},
    grpc,
    http::{self, demo::Walk, server},
    readiness,
    seams::{Clock as _, Seams, SystemClock, SystemEntropy},
    store::{Backend, Release, Store},
};

/// How long a store that does not take writes yet is left alone.
const STORE_PAUSE: std::time::Duration = std::time::Duration::from_millis(250);

pub(super) async fn run(path: &Path, release: &Release) -> anyhow::Result<ExitCode> {
    SystemEntropy::ready_early();
    let loaded = config::load(path)?;
    for warning in &loaded.warnings {
        tracing::warn!("{}", warning.line(&path.display().to_string()));
    }
    let listeners = (server::bind(loaded.config.listen.address)?, server::bind(loaded.config.listen.admin_address)?);
    let cs3 = match &loaded.config.cs3 {
        None => None,
        Some(config) => Some(grpc::Listeners::bind(config).await.context("the CS3 door can not be opened")?),
    };
    let app = app(loaded, release).await?;
    tracing::info!(issuer = app.issuer, address = %listeners.0.local_addr()?, admin = %listeners.1.local_addr()?, "serving");
    match cs3 {
        None => serve(app, None, listeners, stopped()).await?,
        Some(cs3) => serve_both(app, listeners, cs3, stopped()).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves HTTP and CS3 until `stop` is done, and ends both together.
async fn serve_both(
    app: Arc<App>,
    http: (TcpListener, TcpListener),
    cs3: grpc::Listeners,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (socket, address) = (cs3.socket().map(|path| path.display().to_string()), cs3.address().map(|address| address.to_string()));
    tracing::info!(socket, address, tls = cs3.has_tls(), "serving CS3");
    let ending = CancellationToken::new();
    let http = serve(Arc::clone(&app), None, http, ending.clone().cancelled_owned());
    let cs3 = async { grpc::serve(app, cs3, ending.clone()).await.context("serving CS3 ended") };
    let end = async {
        stop.await;
        ending.cancel();
        anyhow::Ok(())
    };
    tokio::try_join!(http, cs3, end).map(drop)
}

/// The program over a loaded configuration and the machine's own seams.
pub(super) async fn app(loaded: Loaded, release: &Release) -> anyhow::Result<Arc<App>> {
    let backend = Backend::open(&loaded.config.store).await?;
    if backend.peers.may_be() {
        until_it_takes_writes(&*backend.store).await;
    }
    app_over(loaded, backend, release).await
}

/// Waits for a store on other machines: a replica that starts while it fails over need not be started again.
async fn until_it_takes_writes(store: &dyn Store) {
    let mut is_told = false;
    while let Err(error) = readiness::ready(store, SystemClock.now()).await {
        if !is_told {
            tracing::warn!(%error, "waiting for the store");
        }
        is_told = true;
        tokio::time::sleep(STORE_PAUSE).await;
    }
}

/// The same over a store that is open already.
pub(super) async fn app_over(loaded: Loaded, backend: Backend, release: &Release) -> anyhow::Result<Arc<App>> {
    Ok(Arc::new(crate::build_as(release, loaded, Seams::of_machine(backend)).await?))
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
