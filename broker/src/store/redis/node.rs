//! One primary: the lanes on which it is written to, and the connections on which it is read.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use redis::{Cmd, Pipeline, Value, aio::ConnectionLike as _};
use tokio::sync::{Notify, watch};

use super::{
    connecting::{Address, Connecting},
    fault::Fault,
    lanes::{Acknowledged, Lanes},
    line::{Line, Open},
    scripts::{Call, Done},
};

/// Connections on which what must not be lost is written.
const KEPT: usize = 4;
/// The same for what may be lost, and for what nothing is waited for.
const OTHERS: usize = 2;
/// Connections on which is read.
const READERS: usize = 2;

/// A primary.
#[derive(Debug)]
pub(super) struct Node {
    address: Address,
    kept: Option<Lanes>,
    others: Lanes,
    readers: Vec<Line>,
    turn: AtomicUsize,
    silent: watch::Sender<()>,
}

impl Node {
    /// Begins to connect. `again` is told whenever the map of primaries may no longer be right. `acknowledged`: what must not be lost
    /// is answered once so many replicas have it.
    pub(super) fn start(address: Address, connecting: &Arc<Connecting>, again: &Arc<Notify>, acknowledged: Option<Acknowledged>) -> Self {
        let silent = watch::Sender::new(());
        let kept = acknowledged.map(|acknowledged| Lanes::start(KEPT, &address, connecting, again, &silent, Some(acknowledged)));
        let others = Lanes::start(OTHERS, &address, connecting, again, &silent, None);
        let readers =
            (0..READERS).map(|_| Line::start(address.clone(), Arc::clone(connecting), Arc::clone(again), silent.clone())).collect();
        Self { address, kept, others, readers, turn: AtomicUsize::new(0), silent }
    }

    /// Where it is.
    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// It did not answer in time: all connections to it are made anew.
    pub(super) fn is_silent(&self) {
        self.silent.send_replace(());
    }

    /// Whether it can be read and written.
    pub(super) fn is_open(&self) -> bool {
        let lanes = self.kept.iter().chain([&self.others]);
        self.reader().is_ok() && lanes.map(Lanes::are_open).all(|open| open.is_ok())
    }

    /// Carries a batch out. `must_be_kept`: it is answered as committed once replicas have it, where they are waited for at all.
    pub(super) async fn commit(&self, call: Arc<Call>, must_be_kept: bool) -> Result<Done, Fault> {
        let lanes = self.kept.as_ref().filter(|_| must_be_kept).unwrap_or(&self.others);
        lanes.are_open()?;
        lanes.commit(call).await
    }

    /// Asks one question.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        let mut open = self.reader()?;
        let answer = match open.connection.req_packed_command(command).await {
            Ok(Value::ServerError(error)) => Err(Fault::of_server(&error)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(Fault::of_call(error)),
        };
        give_up(&open, answer)
    }

    /// Asks several at once; one error of the server is an error of all.
    pub(super) async fn ask_all(&self, pipe: &Pipeline) -> Result<Vec<Value>, Fault> {
        let mut open = self.reader()?;
        let answers = match open.connection.req_packed_commands(pipe, 0, pipe.len()).await {
            Ok(answers) => answers
                .into_iter()
                .map(|answer| match answer {
                    Value::ServerError(error) => Err(Fault::of_server(&error)),
                    answer => Ok(answer),
                })
                .collect(),
            Err(error) => Err(Fault::of_call(error)),
        };
        give_up(&open, answers)
    }

    fn reader(&self) -> Result<Open, Fault> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut why = Fault::Unreachable(self.address.to_string());
        for line in self.readers.iter().cycle().skip(turn % READERS).take(READERS) {
            match line.open() {
                Ok(open) => return Ok(open),
                Err(fault) => why = fault,
            }
        }
        Err(why)
    }
}

fn give_up<T>(open: &Open, answer: Result<T, Fault>) -> Result<T, Fault> {
    if let Err(fault) = &answer
        && fault.ends_the_connection()
    {
        open.is_lost(fault);
    }
    answer
}
