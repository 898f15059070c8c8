//! gRPC health: what `/readyz` says, for the whole and for each service. It does not own what being ready is (`readiness.rs`).

use std::{sync::Arc, time::Duration};

use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use super::messages::{group, tenant, user};
use crate::{App, readiness};

/// How often it is looked whether the program can serve.
const EVERY: Duration = Duration::from_secs(5);
/// Whose health there is; the empty name is the whole.
const SERVICES: [&str; 4] =
    ["", user::user_api_server::SERVICE_NAME, tenant::tenant_api_server::SERVICE_NAME, group::group_api_server::SERVICE_NAME];

/// Tells whoever asks.
#[derive(Debug, Clone)]
pub(super) struct Health {
    app: Arc<App>,
    reporter: HealthReporter,
}

impl Health {
    /// Not serving yet.
    pub(super) async fn new(app: Arc<App>) -> Self {
        let health = Self { app, reporter: HealthReporter::new() };
        health.say(ServingStatus::NotServing).await;
        health
    }

    /// The service.
    pub(super) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    /// Looks once; `was` is what it said before.
    pub(super) async fn look(&self, was: bool) -> bool {
        let ready = readiness::ready(&*self.app.seams.store, self.app.seams.clock.now()).await;
        match &ready {
            Ok(()) if !was => tracing::info!("the CS3 door serves"),
            Err(error) if was => tracing::error!(%error, "the CS3 door does not serve: the store takes no writes"),
            _ => {}
        }
        self.say(if ready.is_ok() { ServingStatus::Serving } else { ServingStatus::NotServing }).await;
        ready.is_ok()
    }

    /// Looks for as long as it is waited for.
    pub(super) async fn keep_looking(self, mut was: bool) {
        loop {
            tokio::time::sleep(EVERY).await;
            was = self.look(was).await;
        }
    }

    /// The end: whoever asks is told, and whoever watches is told and let go.
    pub(super) async fn ends(mut self) {
        self.say(ServingStatus::NotServing).await;
        for service in SERVICES {
            self.reporter.clear_service_status(service).await;
        }
    }

    async fn say(&self, status: ServingStatus) {
        for service in SERVICES {
            self.reporter.set_service_status(service, status).await;
        }
    }
}
