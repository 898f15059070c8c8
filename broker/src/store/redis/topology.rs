//! Which servers are the primaries, and of which slots: one that is named, the one that the sentinels name, or those that a Cluster says. It
//! asks; `nodes.rs` owns when, and what follows.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use redis::{RedisError, Value, from_redis_value_ref};
use tokio::time::{Instant, timeout};

use super::connecting::{Address, ConnectError, Connecting, Connection, Unreached};
use crate::config::RedisConfig;

/// The slots of a Cluster; where there is none, the one primary has them all.
pub(super) const SLOTS: RangeInclusive<u16> = 0..=16_383;
/// Within how long a sentinel or a member answers, or is taken for gone.
const ANSWERS_WITHIN: Duration = Duration::from_millis(700);

/// One primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Primary {
    /// Where it listens.
    pub(super) address: Address,
    /// What it owns.
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

/// Where the primaries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    /// Each of them.
    pub(super) primaries: Vec<Primary>,
    /// When was asked, where so many said so that no others can say otherwise.
    pub(super) confirmed: Option<Instant>,
}

/// Why it is not known where the primaries are.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unresolved {
    /// No sentinel answers.
    #[error("no sentinel answers: {0}")]
    NoSentinel(String),
    /// The sentinels do not know the name.
    #[error("the sentinels know no primary of the name `{0}`")]
    UnknownName(String),
    /// They name different servers.
    #[error("the sentinels do not agree on where the primary is")]
    Disagree,
    /// No member of the Cluster says where its slots are.
    #[error("no member of the Cluster answers: {0}")]
    NoMember(String),
}

enum Kind {
    One(Address),
    Sentinels { addresses: Vec<Address>, name: String },
    Cluster(Vec<Address>),
}

/// The way to know them.
pub(super) struct Topology {
    kind: Kind,
    connecting: Arc<Connecting>,
    /// Kept between questions.
    connections: Mutex<HashMap<Address, Connection>>,
    /// Members that a Cluster named: asked besides those that are configured.
    members: Mutex<BTreeSet<Address>>,
}

impl Topology {
    /// # Errors
    /// When no servers, or servers of two kinds are named.
    pub(super) fn new(config: &RedisConfig, connecting: Arc<Connecting>) -> Result<Self, ConnectError> {
        let all = |texts: &[String]| texts.iter().map(|text| Address::parse(text)).collect::<Result<Vec<_>, _>>();
        let kind = match (&config.address, &config.sentinel, config.cluster.as_slice()) {
            (Some(address), None, []) => Kind::One(Address::parse(address)?),
            (None, Some(sentinel), []) if !sentinel.addresses.is_empty() => {
                Kind::Sentinels { addresses: all(&sentinel.addresses)?, name: sentinel.name.clone() }
            }
            (None, None, members @ [_, ..]) => Kind::Cluster(all(members)?),
            _ => return Err(ConnectError::Servers),
        };
        Ok(Self { kind, connecting, connections: Mutex::default(), members: Mutex::default() })
    }

    /// Whether slots are of different servers.
    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    /// Whether sentinels are asked.
    pub(super) const fn has_sentinels(&self) -> bool {
        matches!(self.kind, Kind::Sentinels { .. })
    }

    /// How often to ask. With sentinels, twice as often as a proof holds ([`Watch::confirm`](super::watch::Watch::confirm)).
    pub(super) const fn every(&self) -> Duration {
        match self.kind {
            Kind::One(_) => Duration::from_secs(60),
            Kind::Sentinels { .. } => Duration::from_millis(400),
            Kind::Cluster(_) => Duration::from_secs(5),
        }
    }

    /// Asks where the primaries are.
    pub(super) async fn primaries(&self) -> Result<Resolved, Unresolved> {
        match &self.kind {
            Kind::One(address) => Ok(Resolved { primaries: vec![whole(address.clone())], confirmed: None }),
            Kind::Sentinels { addresses, name } => self.ask_sentinels(addresses, name).await,
            Kind::Cluster(seeds) => self.ask_members(seeds).await,
        }
    }

    async fn ask_sentinels(&self, addresses: &[Address], name: &str) -> Result<Resolved, Unresolved> {
        let asked = Instant::now();
        let mut question = redis::pipe();
        question.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let answers = join_all(addresses.iter().map(|address| self.ask(address, &question))).await;
        let named = answers.iter().map(|answer| answer.as_ref().map(|values| values.first().and_then(named)).map_err(Clone::clone));
        let (primary, is_certain) = elected(named, name)?;
        Ok(Resolved { primaries: vec![whole(primary)], confirmed: is_certain.then_some(asked) })
    }

    async fn ask_members(&self, seeds: &[Address]) -> Result<Resolved, Unresolved> {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner).clone();
        members.extend(seeds.iter().cloned());
        let mut question = redis::pipe();
        question.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let answers = join_all(members.iter().map(|address| self.ask(address, &question))).await;
        let mut trouble = String::from("it has no slots");
        let mut newest: Option<(Standing, Vec<Primary>)> = None;
        for (address, answer) in members.iter().zip(answers) {
            let values = match answer {
                Ok(values) => values,
                Err(error) => {
                    trouble = error;
                    continue;
                }
            };
            let [info, slots] = values.as_slice() else { continue };
            let (Some(standing), Some(primaries)) = (Standing::read(info), slots_in(slots, address)) else { continue };
            if !primaries.is_empty() && newest.as_ref().is_none_or(|(before, _)| standing > *before) {
                newest = Some((standing, primaries));
            }
        }
        let (_, primaries) = newest.ok_or(Unresolved::NoMember(trouble))?;
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = primaries.iter().map(|primary| primary.address.clone()).collect();
        self.forget_all_but(&primaries, seeds);
        Ok(Resolved { primaries, confirmed: None })
    }

    fn forget_all_but(&self, primaries: &[Primary], seeds: &[Address]) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|address, _| seeds.contains(address) || primaries.iter().any(|primary| primary.address == *address));
    }

    /// Asks a sentinel or a member, in words what went wrong.
    async fn ask(&self, address: &Address, question: &redis::Pipeline) -> Result<Vec<Value>, String> {
        let asking = async {
            let mut connection = self.connection(address).await.map_err(|error| error.to_string())?;
            let answer: Result<Vec<Value>, RedisError> = question.query_async(&mut connection).await;
            answer.map_err(|error| format!("{address}: {error}"))
        };
        let answer = timeout(ANSWERS_WITHIN, asking).await.unwrap_or_else(|_| Err(format!("{address} does not answer")));
        if answer.is_err() {
            self.connections.lock().unwrap_or_else(PoisonError::into_inner).remove(address);
        }
        answer
    }

    async fn connection(&self, address: &Address) -> Result<Connection, Unreached> {
        let kept = self.connections.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let opened =
            if self.is_cluster() { self.connecting.open_member(address).await? } else { self.connecting.open_sentinel(address).await? };
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).insert(address.clone(), opened.clone());
        Ok(opened)
    }
}

fn whole(address: Address) -> Primary {
    Primary { address, slots: vec![SLOTS] }
}

/// How much a member's word on the Cluster is worth: one that sees it as up first, then the later epoch.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    is_up: bool,
    epoch: u64,
}

impl Standing {
    fn read(info: &Value) -> Option<Self> {
        let text: String = from_redis_value_ref(info).ok()?;
        let field = |name: &str| text.lines().filter_map(|line| line.trim().split_once(':')).find(|(own, _)| *own == name).map(|(_, v)| v);
        Some(Self { is_up: field("cluster_state")? == "ok", epoch: field("cluster_current_epoch")?.parse().ok()? })
    }
}

/// The address in an answer of a sentinel: host and port.
fn named(answer: &Value) -> Option<Address> {
    let (host, port): (String, String) = from_redis_value_ref(answer).ok()?;
    Some(Address::new(host, port.parse().ok()?))
}

/// Which address most of those that answered name, and whether that is more than half of all and no other is named by any.
fn elected(answers: impl ExactSizeIterator<Item = Result<Option<Address>, String>>, name: &str) -> Result<(Address, bool), Unresolved> {
    let all = answers.len();
    let mut votes: BTreeMap<Address, usize> = BTreeMap::new();
    let (mut answered, mut trouble) = (0_usize, String::new());
    for answer in answers {
        match answer {
            Ok(named) => {
                answered += 1;
                if let Some(address) = named {
                    *votes.entry(address).or_default() += 1;
                }
            }
            Err(error) => trouble = error,
        }
    }
    if answered == 0 {
        return Err(Unresolved::NoSentinel(trouble));
    }
    if votes.is_empty() {
        return Err(Unresolved::UnknownName(name.to_owned()));
    }
    let is_only = votes.len() == 1;
    let most = votes.into_iter().find(|(_, votes)| votes * 2 > answered).ok_or(Unresolved::Disagree)?;
    let (address, votes) = most;
    Ok((address, is_only && votes * 2 > all))
}

/// The answer to `CLUSTER SLOTS`. Where it names no host, it means the one that was asked.
fn slots_in(answer: &Value, asked: &Address) -> Option<Vec<Primary>> {
    let Value::Array(ranges) = answer else { return None };
    let mut primaries: BTreeMap<Address, Vec<RangeInclusive<u16>>> = BTreeMap::new();
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let [first, last, Value::Array(primary), ..] = parts.as_slice() else { return None };
        let [host, port, ..] = primary.as_slice() else { return None };
        let host = match host {
            Value::Nil => None,
            host => from_redis_value_ref::<String>(host).ok().filter(|host| !matches!(host.as_str(), "" | "?")),
        };
        let address = Address::new(host.unwrap_or_else(|| asked.host().to_owned()), from_redis_value_ref(port).ok()?);
        let (first, last) = (from_redis_value_ref(first).ok()?, from_redis_value_ref(last).ok()?);
        primaries.entry(address).or_default().push(first..=last);
    }
    Some(primaries.into_iter().map(|(address, slots)| Primary { address, slots }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(answers: &[Result<Option<&str>, &str>]) -> Result<(String, bool), Unresolved> {
        let answers: Vec<_> = answers
            .iter()
            .map(|answer| answer.map(|named| named.map(|text| Address::parse(text).unwrap())).map_err(str::to_owned))
            .collect();
        elected(answers.into_iter(), "denizen").map(|(address, is_certain)| (address.to_string(), is_certain))
    }

    #[test]
    fn the_sentinels_that_answer_elect_and_only_more_than_half_of_all_make_it_certain() {
        let (a, b) = (Ok(Some("a:1")), Ok(Some("b:1")));
        let is = |text: &str, is_certain| (text.to_owned(), is_certain);
        assert_eq!(vote(&[a, a, a]).unwrap(), is("a:1", true));
        assert_eq!(vote(&[a, a, Err("gone")]).unwrap(), is("a:1", true));
        assert_eq!(vote(&[a, Err("gone"), Err("gone")]).unwrap(), is("a:1", false));
        assert_eq!(vote(&[a, b, b]).unwrap(), is("b:1", false), "one says otherwise");
        assert!(matches!(vote(&[a, b, Err("gone")]), Err(Unresolved::Disagree)));
        assert!(matches!(vote(&[a, Ok(None), Ok(None)]), Err(Unresolved::Disagree)));
        assert!(matches!(vote(&[Ok(None), Err("gone")]), Err(Unresolved::UnknownName(_))));
        assert!(matches!(vote(&[Err("gone")]), Err(Unresolved::NoSentinel(_))));
    }

    #[test]
    fn a_clusters_slots_are_read() {
        let text = |text: &str| Value::BulkString(text.into());
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])]);
        let range =
            |first, last, host, port| Value::Array(vec![Value::Int(first), Value::Int(last), node(host, port), node(text("replica"), 9)]);
        let answer = Value::Array(vec![
            range(0, 99, text("10.0.0.1"), 7001),
            range(100, 199, Value::Nil, 7002),
            range(200, 16_383, text("10.0.0.1"), 7001),
        ]);
        let read = slots_in(&answer, &Address::new("asked", 1)).unwrap();
        assert_eq!(
            read,
            [
                Primary { address: Address::new("10.0.0.1", 7001), slots: vec![0..=99, 200..=16_383] },
                Primary { address: Address::new("asked", 7002), slots: vec![100..=199] },
            ]
        );
        assert_eq!(slots_in(&Value::Nil, &Address::new("asked", 1)), None);
        let info = |state: &str, epoch: u64| {
            Standing::read(&text(&format!("cluster_state:{state}\r\ncluster_current_epoch:{epoch}\r\n"))).unwrap()
        };
        assert!(info("ok", 3) > info("ok", 2) && info("ok", 2) > info("fail", 9));
    }
}
