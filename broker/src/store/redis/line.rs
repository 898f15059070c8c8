//! One connection to one server, made anew by a task whenever it breaks, with growing pauses.

use std::{sync::Arc, time::Duration};

use redis::PushKind;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{
    connecting::{Address, Connecting, Connection},
    fault::Fault,
    scripts,
};

/// The pause after the first failure.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// The connection, or why there is none.
pub(super) type State = Result<Open, Fault>;

/// A connection that is kept up.
#[derive(Debug)]
pub(super) struct Line {
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

/// A connection. It is never made anew under its user: what was asked on it is answered on it, or not at all.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) connection: Connection,
    address: Arc<Address>,
    lost: Arc<Notify>,
    silent: watch::Sender<()>,
}

impl Open {
    /// It is not to be used any longer, nor are the others to the same server: it may be silent on all of them, and each would find that
    /// out by a call of its own that is not answered in time.
    pub(super) fn is_lost(&self, why: &Fault) {
        tracing::debug!(server.address = %self.address, fault = %why, "a connection to the store is given up");
        self.lost.notify_one();
        self.silent.send_replace(());
    }
}

impl Line {
    /// Begins to connect. `again` is told whenever a connection fails, `silent` is one for all that lead to this server.
    pub(super) fn start(address: Address, connecting: Arc<Connecting>, again: Arc<Notify>, silent: watch::Sender<()>) -> Self {
        let address = Arc::new(address);
        let (changed, state) = watch::channel(Err(Fault::Unreachable(format!("{address}: it is being connected to"))));
        let task = tokio::spawn(async move {
            let mut pause = FIRST;
            loop {
                let began = Instant::now();
                let mut silenced = silent.subscribe();
                match open(&connecting, &address, &silent).await {
                    Ok(open) => {
                        let lost = Arc::clone(&open.lost);
                        drop(changed.send_replace(Ok(open)));
                        tokio::select! {
                            () = lost.notified() => {}
                            _ = silenced.changed() => {}
                        }
                        drop(changed.send_replace(Err(Fault::Unreachable(format!("{address}: the connection is lost")))));
                    }
                    Err(fault) => {
                        tracing::debug!(server.address = %address, %fault, "no connection to the store");
                        drop(changed.send_replace(Err(fault)));
                    }
                }
                again.notify_one();
                if began.elapsed() > LONGEST * 4 {
                    pause = FIRST;
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        });
        Self { state, task }
    }

    /// The connection, or why there is none.
    pub(super) fn open(&self) -> State {
        self.state.borrow().clone()
    }

    /// What tells of its connection.
    pub(super) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn open(connecting: &Connecting, address: &Arc<Address>, silent: &watch::Sender<()>) -> Result<Open, Fault> {
    let lost = Arc::new(Notify::new());
    let tell = Arc::clone(&lost);
    let mut connection = connecting
        .open_hearing(address, connecting.deadline(), move |push| {
            if push.kind == PushKind::Disconnection {
                tell.notify_one();
            }
        })
        .await?;
    scripts::load().exec_async(&mut connection).await.map_err(Fault::of_call)?;
    Ok(Open { connection, address: Arc::clone(address), lost, silent: silent.clone() })
}
