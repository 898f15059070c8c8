//! The scripts, and their calls: what a batch and a try of buckets are as keys and arguments. What a script does stands in it.

use std::{collections::BTreeSet, sync::LazyLock};

use redis::{Cmd, Script, Value, cmd};
use time::{Duration, OffsetDateTime};

use super::{fault::Fault, layout, layout::Layout};
use crate::store::{Batch, Bucket, Expect, Key, Kind, Outcome, record};

static COMMIT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("commit.lua")));
static LIMITS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("limits.lua")));

/// For how long a record is kept after it has expired, in milliseconds: whether it has is judged by its own expiry, with clocks that
/// may differ by so much.
const GRACE: i64 = 60_000;
/// The longest that Redis is asked to keep something, in milliseconds: a thousand years. It counts from 1970 and must not overflow.
const LONGEST: i64 = 1_000 * 365 * 86_400_000;

/// What makes the scripts known to a server.
pub(super) fn load() -> redis::Pipeline {
    let mut pipe = redis::pipe();
    for code in [include_str!("commit.lua"), include_str!("limits.lua")] {
        pipe.cmd("SCRIPT").arg("LOAD").arg(code).ignore();
    }
    pipe
}

/// A call of a script.
#[derive(Debug)]
pub(super) struct Call {
    script: &'static Script,
    code: &'static str,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    /// By the script's name, or with all of it for a server that does not know it.
    pub(super) fn command(&self, is_whole: bool) -> Cmd {
        let mut command = if is_whole { cmd("EVAL") } else { cmd("EVALSHA") };
        command.arg(if is_whole { self.code } else { self.script.get_hash() }).arg(self.keys.len()).arg(&self.keys).arg(&self.arguments);
        command
    }
}

/// What became of a batch, as the server says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) outcome: Outcome,
    /// When it was carried out, in microseconds of the server's clock: later than every version that any of its records had before, and
    /// earlier than those that it gave. 0 for a conflict.
    pub(super) time: u64,
}

/// A batch as a call; `None` for one without keys. The other replicas are told of each record that changes whose kind `is_named`; what is
/// there in a version below its `floor` counts as absent.
pub(super) fn commit(
    layout: &Layout,
    batch: &Batch,
    now: OffsetDateTime,
    is_named: impl Fn(Kind) -> bool,
    floor: impl Fn(&[u8]) -> u64,
) -> Option<Call> {
    let keys = || batch.expect.iter().map(|(key, _)| key).chain(&batch.delete).chain(batch.put.iter().map(|(key, ..)| key));
    let partition = keys().next()?.partition();
    let mut names: Vec<_> = keys().map(|key| layout.record(key)).collect();
    let now = record::moment(now);
    let changed = || batch.delete.iter().chain(batch.put.iter().map(|(key, ..)| key));
    let told: BTreeSet<_> = changed().map(Key::kind).filter(|kind| kind.is_told()).collect();
    let mut arguments: Vec<Vec<u8>> = vec![
        decimal(now),
        decimal(now.saturating_sub(GRACE)),
        layout.base(partition).into_bytes(),
        layout.channel().into_bytes(),
        decimal(batch.expect.len()),
        decimal(batch.delete.len()),
        decimal(batch.put.len()),
        decimal(told.len()),
    ];
    arguments.extend(batch.expect.iter().zip(&names).map(|((_, expect), name)| {
        let (what, version) = match expect {
            Expect::Absent => (b'a', 0),
            Expect::Present => (b'p', 0),
            Expect::Version(version) => (b'v', *version),
        };
        [[what].as_slice(), &floor(name).to_be_bytes(), &version.to_be_bytes()].concat()
    }));
    arguments.extend(told.into_iter().map(|kind| kind.as_str().as_bytes().to_vec()));
    arguments.extend(changed().map(|key| if is_named(key.kind()) { layout::told_as(&layout.record(key)).to_vec() } else { vec![] }));
    let whose = |key: &Key| {
        let listed = if key.kind().is_listed() { key.kind().as_str() } else { "" };
        [listed.as_bytes().to_vec(), key.id().as_bytes().to_vec()]
    };
    for key in &batch.delete {
        arguments.extend(whose(key));
    }
    for (key, value, expires_at) in &batch.put {
        arguments.extend(whose(key));
        let expiry = expires_at.map_or(record::NEVER, record::moment);
        let lasts = expires_at.map_or_else(Vec::new, |_| decimal(expiry.saturating_sub(now).saturating_add(GRACE).clamp(1, LONGEST)));
        arguments.extend([expiry.to_be_bytes().to_vec(), decimal(expiry), lasts, value.clone()]);
    }
    // Named, though the script knows them: so a Cluster that is moving the slot says no before the script, and not in the middle of it.
    let listed: BTreeSet<_> = changed().map(Key::kind).filter(|kind| kind.is_listed()).collect();
    if !listed.is_empty() {
        names.extend(listed.into_iter().map(|kind| layout.index(partition, kind).into_bytes()));
        names.push(layout.expiries(partition).into_bytes());
    }
    Some(Call { script: &COMMIT, code: include_str!("commit.lua"), keys: names, arguments })
}

/// Buckets as a call: to take a place in each, or to give one back.
pub(super) fn limits(layout: &Layout, buckets: &[Bucket], takes: bool, now: OffsetDateTime) -> Call {
    let verb: &[u8] = if takes { b"take" } else { b"give" };
    let mut arguments = vec![verb.to_vec(), decimal(now.unix_timestamp_nanos() / 1_000)];
    for Bucket { rate, .. } in buckets {
        arguments.extend([decimal(rate.burst()), decimal(rate.each().whole_microseconds())]);
    }
    let keys = buckets.iter().map(|bucket| layout.bucket(&bucket.id)).collect();
    Call { script: &LIMITS, code: include_str!("limits.lua"), keys, arguments }
}

/// What a batch came to.
pub(super) fn done(answer: Value) -> Result<Done, Fault> {
    let numbers = numbers(answer)?;
    match numbers.as_slice() {
        [0] => Ok(Done { outcome: Outcome::Conflict, time: 0 }),
        [1, time] => Ok(Done { outcome: Outcome::Committed, time: *time }),
        _ => Err(Fault::Unanswered("an answer that no batch has".to_owned())),
    }
}

/// What a try of buckets came to.
pub(super) fn taken(answer: Value) -> Result<Result<(), Duration>, Fault> {
    match numbers(answer)?.as_slice() {
        [1] => Ok(Ok(())),
        [0, wait] => Ok(Err(Duration::microseconds(i64::try_from(*wait).unwrap_or(i64::MAX)))),
        _ => Err(Fault::Unanswered("an answer that no try has".to_owned())),
    }
}

fn numbers(answer: Value) -> Result<Vec<u64>, Fault> {
    let parts = match answer {
        Value::Array(parts) => parts,
        Value::ServerError(error) => return Err(Fault::of_server(&error)),
        _ => return Err(Fault::Unanswered("an answer of another form".to_owned())),
    };
    let number = |part| match part {
        Value::Int(number) => u64::try_from(number).map_err(|_| Fault::Unanswered("a number below zero".to_owned())),
        _ => Err(Fault::Unanswered("an answer of another form".to_owned())),
    };
    parts.into_iter().map(number).collect()
}

fn decimal(number: impl std::fmt::Display) -> Vec<u8> {
    number.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_kept_exactly_and_lifetimes_never_overflow() {
        let layout = Layout::new("d", 0);
        let far = OffsetDateTime::from_unix_timestamp(253_402_300_799).unwrap();
        let now = OffsetDateTime::UNIX_EPOCH;
        let lasts = |expires_at| {
            let batch = Batch::new().put(Key::system(Kind::Probe, "x"), vec![7], expires_at);
            let call = commit(&layout, &batch, now, |_| false, |_| 0).unwrap();
            let [.., expiry, _, lasts, value] = call.arguments.as_slice() else { panic!("too few") };
            assert_eq!(value, &[7]);
            (i64::from_be_bytes(expiry.as_slice().try_into().unwrap()), String::from_utf8(lasts.clone()).unwrap())
        };
        assert_eq!(lasts(None), (i64::MAX, String::new()));
        assert_eq!(lasts(Some(now + Duration::seconds(1))), (1_000, "61000".to_owned()));
        assert_eq!(lasts(Some(now - Duration::hours(1))), (-3_600_000, "1".to_owned()));
        assert_eq!(lasts(Some(far)), (253_402_300_799_000, LONGEST.to_string()));
    }

    #[test]
    fn an_answer_that_is_not_understood_is_no_answer() {
        assert_eq!(done(Value::Array(vec![Value::Int(0)])).unwrap().outcome, Outcome::Conflict);
        let committed = done(Value::Array(vec![Value::Int(1), Value::Int(5)])).unwrap();
        assert_eq!(committed, Done { outcome: Outcome::Committed, time: 5 });
        for other in [Value::Nil, Value::Okay, Value::Array(vec![]), Value::Array(vec![Value::Int(2)]), Value::Array(vec![Value::Int(-1)])]
        {
            assert!(matches!(done(other), Err(Fault::Unanswered(_))));
        }
    }
}
