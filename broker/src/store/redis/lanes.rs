//! Where batches are written: connections of their own, each with a task that takes all batches that wait, sends them together, and
//! behind those that must not be lost one `WAIT` for the server's replicas.
//!
//! The order is what makes it right. The `WAIT` is sent on the very connection that wrote, after what was written; that connection is
//! never made anew under us; so what it answers is about these batches, or there is no answer. And no batch is sent twice by itself
//! unless the server said that it did not run.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join, select};
use redis::{Value, aio::ConnectionLike as _, cmd};
use tokio::{
    sync::{Mutex, Notify, mpsc, oneshot, watch},
    task::{AbortHandle, JoinSet, unconstrained},
};

use super::{
    connecting::{Address, Connecting},
    fault::Fault,
    line::{Line, Open, State},
    scripts::{self, Call, Done},
};
use crate::store::Outcome;

/// The most batches that are sent together.
const GROUP: usize = 256;
/// The most batches that wait before callers do.
const QUEUE: usize = 1_024;

/// How many replicas must have it, and for how long they are waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledged {
    pub(super) by: u8,
    pub(super) within: Duration,
}

/// A batch on its way.
struct Job {
    call: Arc<Call>,
    answer: oneshot::Sender<Result<Done, Fault>>,
}

/// Some lanes with one queue.
#[derive(Debug)]
pub(super) struct Lanes {
    queue: mpsc::Sender<Job>,
    states: Vec<watch::Receiver<State>>,
    _tasks: JoinSet<()>,
}

impl Lanes {
    /// Starts so many. Where `acknowledged` is `None`, nothing is waited for.
    pub(super) fn start(
        count: usize,
        address: &Address,
        connecting: &Arc<Connecting>,
        again: &Arc<Notify>,
        silent: &watch::Sender<()>,
        acknowledged: Option<Acknowledged>,
    ) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        let (mut states, mut tasks) = (Vec::with_capacity(count), JoinSet::new());
        for _ in 0..count {
            let line = Line::start(address.clone(), Arc::clone(connecting), Arc::clone(again), silent.clone());
            states.push(line.state());
            // Nothing needs it: a JoinSet ends its tasks when it is dropped.
            let _: AbortHandle = tasks.spawn(run(line, Arc::clone(&jobs), acknowledged));
        }
        Self { queue, states, _tasks: tasks }
    }

    /// Whether one of them has a connection.
    ///
    /// # Errors
    /// Why none has.
    pub(super) fn are_open(&self) -> Result<(), Fault> {
        let mut why = Fault::Unreachable("there are no lanes".to_owned());
        for state in &self.states {
            match &*state.borrow() {
                Ok(_) => return Ok(()),
                Err(fault) => why = fault.clone(),
            }
        }
        Err(why)
    }

    /// Carries a batch out. Whoever stops waiting does not know whether it was; where it was not sent yet, it will not be.
    pub(super) async fn commit(&self, call: Arc<Call>) -> Result<Done, Fault> {
        let (answer, answered) = oneshot::channel();
        let is_gone = || Fault::Unanswered("the connection was given up".to_owned());
        self.queue.send(Job { call, answer }).await.map_err(|_| is_gone())?;
        answered.await.map_err(|_| is_gone())?
    }
}

/// One lane.
async fn run(line: Line, jobs: Arc<Mutex<mpsc::Receiver<Job>>>, acknowledged: Option<Acknowledged>) {
    let mut state = line.state();
    loop {
        let Ok(open) = state.wait_for(Result::is_ok).await.map(|open| open.clone()) else { return };
        let Ok(open) = open else { continue };
        loop {
            let group = {
                let changed = std::pin::pin!(state.changed());
                let taken = std::pin::pin!(take(&jobs));
                match select(changed, taken).await {
                    futures_util::future::Either::Left(_) => break,
                    futures_util::future::Either::Right((group, _)) => group,
                }
            };
            let Some(group) = group else { return };
            if let Err(fault) = carry_out(&open, group, acknowledged).await {
                open.is_lost(&fault);
                // Not the same connection once more.
                if state.changed().await.is_err() {
                    return;
                }
                break;
            }
        }
    }
}

/// All that wait and are still waited for; `None` at the end.
async fn take(jobs: &Mutex<mpsc::Receiver<Job>>) -> Option<Vec<Job>> {
    let mut jobs = jobs.lock().await;
    let mut group = Vec::new();
    loop {
        if jobs.recv_many(&mut group, GROUP).await == 0 {
            return None;
        }
        group.retain(|job| !job.answer.is_closed());
        if !group.is_empty() {
            return Some(group);
        }
    }
}

/// Sends a group; those whose script the server does not know, once more with all of it.
async fn carry_out(open: &Open, group: Vec<Job>, acknowledged: Option<Acknowledged>) -> Result<(), Fault> {
    let unknown = send(open, group, false, acknowledged).await?;
    if unknown.is_empty() {
        return Ok(());
    }
    for job in send(open, unknown, true, acknowledged).await? {
        _ = job.answer.send(Err(Fault::Refused("it does not know the script that it was just given".to_owned())));
    }
    Ok(())
}

/// Sends a group and answers it, but for the jobs whose script is not known. An error: the connection is of no use any longer.
async fn send(open: &Open, group: Vec<Job>, is_whole: bool, acknowledged: Option<Acknowledged>) -> Result<Vec<Job>, Fault> {
    let mut pipe = redis::pipe();
    for job in &group {
        pipe.add_command(job.call.command(is_whole));
    }
    let (mut writing, mut waiting) = (open.connection.clone(), open.connection.clone());
    let batches = async {
        let answers = match writing.req_packed_commands(&pipe, 0, group.len()).await {
            Ok(answers) if answers.len() == group.len() => answers,
            other => {
                let fault = other.map_or_else(Fault::of_call, |_| Fault::Unanswered("fewer answers than batches".to_owned()));
                group.into_iter().for_each(|job| drop(job.answer.send(Err(fault.clone()))));
                return Err(fault);
            }
        };
        Ok(sort(group, answers, acknowledged.is_some()))
    };
    let Some(Acknowledged { by, within }) = acknowledged else {
        let Sorted { unknown, ends, .. } = batches.await?;
        return ends.map_or(Ok(unknown), Err);
    };
    let wait = cmd("WAIT").arg(by).arg(within.as_millis().max(1).to_string()).take();
    // The first poll of each hands its commands to the connection, the batches' before the `WAIT`: `join` polls in this order, the
    // connection's queue is empty, and `unconstrained` keeps the runtime from putting either off.
    let (sorted, had) = unconstrained(join(batches, waiting.req_packed_command(&wait))).await;
    let Sorted { unknown, committed, ends } = sorted?;
    let had = match had {
        Ok(Value::Int(had)) => Ok(had),
        Ok(Value::ServerError(error)) => Err(Fault::of_server(&error)),
        Ok(_) => Err(Fault::Unanswered("an answer that WAIT has not".to_owned())),
        Err(error) => Err(Fault::of_call(error)),
    };
    for (job, done) in committed {
        _ = job.answer.send(match &had {
            Ok(had) if *had >= i64::from(by) => Ok(done),
            Ok(had) => Err(Fault::Unacknowledged(*had)),
            // Whatever it said to the WAIT: the batch was carried out.
            Err(fault) if fault.is_surely_undone() => Err(Fault::Unacknowledged(0)),
            Err(fault) => Err(fault.clone()),
        });
    }
    match (ends, had) {
        (Some(fault), _) => Err(fault),
        (None, Err(fault)) if fault.ends_the_connection() => Err(fault),
        _ => Ok(unknown),
    }
}

/// A group that the server has answered.
struct Sorted {
    /// Those whose script it does not know.
    unknown: Vec<Job>,
    /// Those that were carried out, and are answered once replicas have them.
    committed: Vec<(Job, Done)>,
    /// Why the connection is of no use any longer.
    ends: Option<Fault>,
}

/// Answers what needs no replica: conflicts and refusals, and everything where nothing is waited for.
fn sort(group: Vec<Job>, answers: Vec<Value>, waits: bool) -> Sorted {
    let mut sorted = Sorted { unknown: vec![], committed: vec![], ends: None };
    for (job, answer) in group.into_iter().zip(answers) {
        match scripts::done(answer) {
            Ok(done) if waits && done.outcome == Outcome::Committed => sorted.committed.push((job, done)),
            Err(Fault::NoScript) => sorted.unknown.push(job),
            answer => {
                if let Err(fault) = &answer
                    && fault.ends_the_connection()
                {
                    sorted.ends = Some(fault.clone());
                }
                _ = job.answer.send(answer);
            }
        }
    }
    sorted
}
