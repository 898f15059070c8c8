//! What this replica does about what it hears of the others.
//!
//! It owns the list: which news leads to what. What is only set down in memory is done at once; what reads the store is an errand of
//! its own, so that a store which is slow keeps no news waiting. Who was told may have missed something: then all errands are due.

use std::{fmt::Display, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, broadcast::error::RecvError},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    App,
    store::{Kind, News, Topic},
};

/// How often an errand is run that nothing has made due.
const EVERY: Duration = Duration::from_secs(60);
/// How long one that failed waits.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that is read again from the store when it is due; however often it becomes due meanwhile, once.
#[derive(Default)]
struct Errand(Notify);

/// All of them.
#[derive(Default)]
struct Errands {
    tenants: Errand,
    keys: Errand,
}

/// Hears until it is told to stop. A process that has its store for itself hears nothing.
pub async fn hear(app: Arc<App>, stop: CancellationToken) {
    if !app.seams.peers.may_be() {
        return;
    }
    let errands = Errands::default();
    // What was said between the start and this moment was missed.
    let heard = listen(&app, &errands);
    let keys = errands.keys.run("the signing keys", || async { app.keys.read_again(app.seams.clock.now()).await });
    let tenants = errands.tenants.run("the tenants", || async { app.admission.tenants.read_again(app.seams.clock.now()).await });
    tokio::select! {
        () = stop.cancelled() => {}
        () = heard => {}
        () = keys => {}
        () = tenants => {}
    }
}

/// Takes what is heard, one after the other. It waits for nothing else.
async fn listen(app: &App, errands: &Errands) {
    let mut news = app.seams.peers.hear();
    missed(app, errands);
    loop {
        match news.recv().await {
            Ok(News::Changed(Kind::CreatedTenant)) => errands.tenants.is_due(),
            Ok(News::Changed(Kind::SigningKey)) => errands.keys.is_due(),
            Ok(News::Changed(Kind::LogoutNotice)) => app.deliveries.wake(),
            Ok(News::Changed(_)) => {}
            Ok(News::Told(Topic::TokenTakenBack, text)) => app.review.heard(&text, app.seams.clock.now()),
            Ok(News::Missed) | Err(RecvError::Lagged(_)) => missed(app, errands),
            // There is no one to hear any more; the errands go on.
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// Everything may have changed.
fn missed(app: &App, errands: &Errands) {
    errands.keys.is_due();
    errands.tenants.is_due();
    app.deliveries.wake();
    app.admission.ids.forget();
    app.group_ids.forget();
}

impl Errand {
    fn is_due(&self) {
        self.0.notify_one();
    }

    /// Runs it whenever it is due, and once a minute.
    async fn run<E: Display, F: Future<Output = Result<(), E>>>(&self, what: &str, errand: impl Fn() -> F) {
        loop {
            _ = timeout(EVERY, self.0.notified()).await;
            while let Err(error) = errand().await {
                tracing::warn!(%error, "{what} could not be read again; it is tried again in a second");
                sleep(PAUSE).await;
            }
        }
    }
}
