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
    lost: Arc<Notify>,
}

impl Open {
    /// It is not to be used any longer.
    pub(super) fn is_lost(&self) {
        self.lost.notify_one();
    }
}

impl Line {
    /// Begins to connect. `again` is told whenever a connection fails.
    pub(super) fn start(address: Address, connecting: Arc<Connecting>, again: Arc<Notify>) -> Self {
        let (changed, state) = watch::channel(Err(Fault::Unreachable(format!("{address}: it is being connected to"))));
        let task = tokio::spawn(async move {
            let mut pause = FIRST;
            loop {
                let began = Instant::now();
                match open(&connecting, &address).await {
                    Ok(open) => {
                        let lost = Arc::clone(&open.lost);
                        drop(changed.send_replace(Ok(open)));
                        lost.notified().await;
                        drop(changed.send_replace(Err(Fault::Unreachable(format!("{address}: the connection is lost")))));
                    }
                    Err(fault) => drop(changed.send_replace(Err(fault))),
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

async fn open(connecting: &Connecting, address: &Address) -> Result<Open, Fault> {
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
    Ok(Open { connection, lost })
}
