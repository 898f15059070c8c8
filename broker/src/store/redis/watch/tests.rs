//! Marks against real servers: frozen, cut off, replaced, with slots that move. Each test changes records as a script of another Denizen
//! does.

use std::{
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicI64, AtomicU64},
};

use redis::{AsyncConnectionConfig, Client, FromRedisValue, aio::MultiplexedConnection};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::*;
use crate::{
    config::RedisConfig,
    store::{
        Kind,
        redis::{connecting::Connecting, nodes::Nodes, topology::Topology},
    },
};

const CHANNEL: &str = "t:news";
const KEY: Digest = *b"a record";
const OTHER: Digest = *b"another!";

/// A server that dies with the test.
struct Server {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    async fn start(more: &[&str]) -> Self {
        Self::start_at(free_port(), more).await
    }

    async fn start_at(port: u16, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder.path()).args(more);
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        let server = Self { process, port, _folder: folder };
        for _ in 0..100 {
            if timeout(Duration::from_millis(200), server.ask::<String>(&["PING"])).await.is_ok_and(|answer| answer.is_ok()) {
                return server;
            }
            sleep(Duration::from_millis(30)).await;
        }
        panic!("redis-server does not start");
    }

    async fn connect(&self) -> Result<MultiplexedConnection, redis::RedisError> {
        let client = Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> Result<T, redis::RedisError> {
        let mut connection = self.connect().await?;
        let mut asked = redis::cmd(command[0]);
        asked.arg(&command[1..]);
        asked.query_async(&mut connection).await
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap().success());
    }
}

/// A way to a server that can be cut so that neither end is told.
struct Cable {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Cable {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, to) = (listener.local_addr().unwrap().port(), server.port);
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                for (mut from, mut to) in [(near_read, far_write), (far_read, near_write)] {
                    let cut = Arc::clone(&cut);
                    tokio::spawn(async move {
                        let mut buffer = [0; 4_096];
                        while let Ok(read @ 1..) = from.read(&mut buffer).await {
                            while cut.load(Ordering::SeqCst) {
                                sleep(Duration::from_millis(5)).await;
                            }
                            if to.write_all(&buffer[..read]).await.is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        Self { port, is_cut }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }
}

fn watching(redis: serde_json::Value) -> (Arc<Watch>, Nodes<()>) {
    let config: RedisConfig = serde_json::from_value(redis).unwrap();
    let connecting = Arc::new(Connecting::new(&config).unwrap());
    let topology = Topology::new(&config, Arc::clone(&connecting)).unwrap();
    let watch = Arc::new(Watch::new(CHANNEL.to_owned(), topology.has_sentinels(), false));
    let nodes = Nodes::start(topology, connecting, Arc::clone(&watch), |_, _| Arc::new(()));
    (watch, nodes)
}

fn at(port: u16) -> serde_json::Value {
    json!({"address": format!("127.0.0.1:{port}")})
}

/// Waits until a look gets counts.
async fn heard(watch: &Watch) -> Counts {
    for _ in 0..600 {
        if let Some(counts) = watch.before_look([&KEY]).filter(|counts| watch.is_as_counted(counts)) {
            return counts;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it is not heard");
}

/// Waits until the counts do not hold, at most so long, and says after how long.
async fn until_over(watch: &Watch, counts: &Counts, most: u64) -> Duration {
    let begun = Instant::now();
    while watch.is_as_counted(counts) {
        assert!(begun.elapsed() < Duration::from_millis(most), "it still holds");
        sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}

fn changed(key: Digest) -> Vec<u8> {
    [b"cp".as_slice(), &key, &7_u64.to_be_bytes()].concat()
}

const WRITE: &str = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('PUBLISH', 't:news', ARGV[2])";

async fn write(connection: &mut MultiplexedConnection, value: i64, key: Digest) -> Result<(), redis::RedisError> {
    redis::cmd("EVAL").arg(WRITE).arg(1).arg("{t}record").arg(value).arg(changed(key)).query_async(connection).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_changes_is_heard_and_what_no_one_changes_holds() {
    let server = Server::start(&[]).await;
    let (watch, _nodes) = watching(at(server.port));
    assert_eq!(watch.before_look([&KEY]), None, "a look that begins before the subscription is confirmed has no mark");
    let counts = heard(&watch).await;
    let mut other = server.connect().await.unwrap();
    write(&mut other, 1, OTHER).await.unwrap();
    for _ in 0..150 {
        sleep(Duration::from_millis(10)).await;
        assert!(watch.is_as_counted(&counts), "nothing of it has changed");
    }
    write(&mut other, 1, KEY).await.unwrap();
    until_over(&watch, &counts, 200).await;
    let counts = heard(&watch).await;
    watch.touch(&KEY);
    assert!(!watch.is_as_counted(&counts), "a commit of our own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_proves_nothing_also_when_it_goes_on_with_what_was_waiting() {
    let server = Server::start(&[]).await;
    let (watch, _nodes) = watching(at(server.port));
    let counts = heard(&watch).await;
    let mut other = server.connect().await.unwrap();
    server.signal("-STOP");
    let waiting = tokio::spawn(async move { write(&mut other, 1, KEY).await });
    let after = until_over(&watch, &counts, 1_050).await;
    assert!(after > Duration::from_millis(500), "{after:?}: it should have held a while");
    sleep(Duration::from_millis(1_500)).await;
    server.signal("-CONT");
    for _ in 0..200 {
        assert!(!watch.is_as_counted(&counts), "it was changed, and more than that, was not heard in between");
        sleep(Duration::from_millis(5)).await;
    }
    waiting.await.unwrap().unwrap();
    let counts = heard(&watch).await;
    assert!(watch.is_as_counted(&counts));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_half_open_proves_nothing() {
    let server = Server::start(&[]).await;
    let cable = Cable::to(&server).await;
    let (watch, _nodes) = watching(at(cable.port));
    let counts = heard(&watch).await;
    let mut news = watch.hear();
    cable.cut(true);
    write(&mut server.connect().await.unwrap(), 1, KEY).await.unwrap();
    until_over(&watch, &counts, 1_050).await;
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(watch.before_look([&KEY]), None, "nothing is heard");
    cable.cut(false);
    let _ = heard(&watch).await;
    assert!(!watch.is_as_counted(&counts), "what was missed may be anything");
    assert_eq!(timeout(Duration::from_secs(1), news.recv()).await.unwrap().unwrap(), News::Missed);
}

#[tokio::test(flavor = "multi_thread")]
async fn being_cut_off_for_reading_too_slowly_is_a_loss() {
    let server = Server::start(&["--client-output-buffer-limit", "pubsub", "64kb", "64kb", "1"]).await;
    let cable = Cable::to(&server).await;
    let (watch, _nodes) = watching(at(cable.port));
    let counts = heard(&watch).await;
    cable.cut(true);
    let mut other = server.connect().await.unwrap();
    // More than what the sockets on the way take.
    let large = [b"t", "x".repeat(1 << 20).as_bytes(), b"\0"].concat();
    for _ in 0..20 {
        let _: i64 = redis::cmd("PUBLISH").arg(CHANNEL).arg(&large).query_async(&mut other).await.unwrap();
    }
    write(&mut other, 1, KEY).await.unwrap();
    let log: String = server.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]).await.unwrap();
    assert_eq!(log.trim(), "", "the server has cut it off");
    cable.cut(false);
    until_over(&watch, &counts, 1_050).await;
    let _ = heard(&watch).await;
    assert!(!watch.is_as_counted(&counts));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_becomes_a_replica_is_not_believed() {
    let (server, other) = (Server::start(&[]).await, Server::start(&[]).await);
    let (watch, _nodes) = watching(at(server.port));
    let counts = heard(&watch).await;
    let _: String = server.ask(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]).await.unwrap();
    until_over(&watch, &counts, 300).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(watch.before_look([&KEY]), None);
    let _: String = server.ask(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let _ = heard(&watch).await;
    assert!(!watch.is_as_counted(&counts));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_replaces_another_is_heard_before_anything_is_believed() {
    let (server, next) = (Server::start(&[]).await, Server::start(&[]).await);
    let cable = Cable::to(&next).await;
    cable.cut(true);
    let (watch, _nodes) = watching(at(server.port));
    let counts = heard(&watch).await;
    let config: RedisConfig = serde_json::from_value(at(cable.port)).unwrap();
    let connecting = Arc::new(Connecting::new(&config).unwrap());
    let address = super::super::connecting::Address::parse(&format!("127.0.0.1:{}", cable.port)).unwrap();
    let next = Hearing::start(address, false, connecting, Arc::clone(&watch), Arc::default());
    watch.set_primaries(vec![Arc::clone(next.primary())]);
    assert!(!watch.is_as_counted(&counts), "the old one proves nothing any longer");
    sleep(Duration::from_millis(300)).await;
    assert_eq!(watch.before_look([&KEY]), None, "the new one is not heard yet");
    cable.cut(false);
    let _ = heard(&watch).await;
    assert!(!watch.is_as_counted(&counts));
}

/// A sentinel that says what it is told to.
async fn sentinel(primary: Arc<AtomicU64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let primary = Arc::clone(&primary);
            tokio::spawn(async move {
                let mut buffer = [0; 4_096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    let named = primary.load(Ordering::SeqCst);
                    if named == 0 {
                        std::future::pending::<()>().await;
                    }
                    let port = named.to_string();
                    let answer = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_does_not_know_that_it_was_replaced_is_believed_only_while_the_sentinels_name_it() {
    let (server, next) = (Server::start(&[]).await, Server::start(&[]).await);
    let says: [_; 3] = std::array::from_fn(|_| Arc::new(AtomicU64::new(server.port.into())));
    let mut ports = Vec::new();
    for one in &says {
        ports.push(format!("127.0.0.1:{}", sentinel(Arc::clone(one)).await));
    }
    let (watch, _nodes) = watching(json!({"sentinel": {"addresses": ports, "name": "denizen"}}));
    let counts = heard(&watch).await;
    for _ in 0..200 {
        sleep(Duration::from_millis(10)).await;
        assert!(watch.is_as_counted(&counts), "it holds for as long as they say so");
    }
    // They are gone: the primary still answers, and may have been replaced.
    says.iter().for_each(|one| one.store(0, Ordering::SeqCst));
    until_over(&watch, &counts, 1_050).await;
    says.iter().for_each(|one| one.store(server.port.into(), Ordering::SeqCst));
    let counts = heard(&watch).await;
    // One of three names another.
    says[0].store(next.port.into(), Ordering::SeqCst);
    until_over(&watch, &counts, 1_500).await;
    says[1].store(next.port.into(), Ordering::SeqCst);
    says[2].store(next.port.into(), Ordering::SeqCst);
    sleep(Duration::from_millis(600)).await;
    let counts = heard(&watch).await;
    write(&mut next.connect().await.unwrap(), 1, KEY).await.unwrap();
    until_over(&watch, &counts, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_end_what_was_seen() {
    let members = [Server::start(&["--cluster-enabled", "yes"]).await, Server::start(&["--cluster-enabled", "yes"]).await];
    let [one, other] = &members;
    let ok = async |member: &Server, command: &[&str]| {
        let _: String = member.ask(command).await.unwrap();
    };
    ok(one, &["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]).await;
    ok(other, &["CLUSTER", "SET-CONFIG-EPOCH", "2"]).await;
    ok(other, &["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]).await;
    ok(one, &["CLUSTER", "MEET", "127.0.0.1", &other.port.to_string()]).await;
    let ids: [String; 2] = [one.ask(&["CLUSTER", "MYID"]).await.unwrap(), other.ask(&["CLUSTER", "MYID"]).await.unwrap()];
    let (watch, nodes) = watching(json!({"cluster": [format!("127.0.0.1:{}", one.port)]}));
    for _ in 0..600 {
        if nodes.all().len() == 2 {
            break;
        }
        nodes.again();
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(nodes.all().len(), 2);
    let counts = heard(&watch).await;
    assert!(!Arc::ptr_eq(&nodes.of(0).unwrap(), &nodes.of(16_383).unwrap()));
    sleep(Duration::from_millis(1_500)).await;
    assert!(watch.is_as_counted(&counts));

    // On its way: what the one does not have is asked for, and written, at the other.
    ok(other, &["CLUSTER", "SETSLOT", "5", "IMPORTING", &ids[0]]).await;
    ok(one, &["CLUSTER", "SETSLOT", "5", "MIGRATING", &ids[1]]).await;
    until_over(&watch, &counts, 300).await;
    assert_eq!(watch.before_look([&KEY]), None);
    ok(other, &["CLUSTER", "SETSLOT", "5", "STABLE"]).await;
    ok(one, &["CLUSTER", "SETSLOT", "5", "STABLE"]).await;
    let counts = heard(&watch).await;
    // At once at the other.
    ok(other, &["CLUSTER", "SETSLOT", "5", "NODE", &ids[1]]).await;
    ok(one, &["CLUSTER", "SETSLOT", "5", "NODE", &ids[1]]).await;
    until_over(&watch, &counts, 300).await;
    let _ = heard(&watch).await;
    nodes.again();
    sleep(Duration::from_millis(500)).await;
    assert!(Arc::ptr_eq(&nodes.of(5).unwrap(), &nodes.of(16_383).unwrap()));
    assert!(!Arc::ptr_eq(&nodes.of(5).unwrap(), &nodes.of(6).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_heard_by_all_and_what_can_not_be_read_is_not_passed_over() {
    let server = Server::start(&[]).await;
    let ((one, _one), (other, _other)) = (watching(at(server.port)), watching(at(server.port)));
    let (unheard, _unheard) = watching(at(free_port()));
    unheard.tell(Topic::TokenTakenBack, b"x").await.unwrap_err();
    let mut news = [one.hear(), other.hear()];
    let (_, counts) = (heard(&one).await, heard(&other).await);
    one.tell(Topic::TokenTakenBack, b"a token\0").await.unwrap();
    let mut publisher = server.connect().await.unwrap();
    let mut publish =
        async |bytes: &[u8]| -> i64 { redis::cmd("PUBLISH").arg(CHANNEL).arg(bytes).query_async(&mut publisher).await.unwrap() };
    assert_eq!(publish(b"ksigning-key").await, 2);
    assert!(other.is_as_counted(&counts));
    assert_eq!(publish(b"?what").await, 2);
    let told = News::Told(Topic::TokenTakenBack, b"a token\0".to_vec());
    for heard in &mut news {
        let mut next = async || timeout(Duration::from_secs(2), heard.recv()).await.unwrap().unwrap();
        // The beginning may have been said before we listened.
        let mut first = next().await;
        if first == News::Missed {
            first = next().await;
        }
        assert_eq!([first, next().await, next().await], [told.clone(), News::Changed(Kind::SigningKey), News::Missed]);
    }
    assert!(!other.is_as_counted(&counts), "what can not be read may be anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_that_changed_a_second_ago_is_as_seen_whatever_happens_to_the_connection_and_the_server() {
    let server = Arc::new(Server::start(&[]).await);
    let cable = Cable::to(&server).await;
    let (watch, _nodes) = watching(at(cable.port));
    let _ = heard(&watch).await;
    let begun = Instant::now();
    // Of each write that was answered, when: by its number.
    let answered: Arc<std::sync::Mutex<Vec<Instant>>> = Arc::default();
    let ends = begun + Duration::from_secs(14);
    let writer = {
        let (server, answered) = (Arc::clone(&server), Arc::clone(&answered));
        tokio::spawn(async move {
            let mut connection = server.connect().await.unwrap();
            while Instant::now() < ends {
                let number = answered.lock().unwrap().len() + 1;
                write(&mut connection, number.try_into().unwrap(), KEY).await.unwrap();
                answered.lock().unwrap().push(Instant::now());
                sleep(Duration::from_millis([20, 700, 150, 1_900][number % 4])).await;
            }
        })
    };
    let (held, met) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let reader = {
        let (server, answered, watch, held, met) =
            (Arc::clone(&server), Arc::clone(&answered), Arc::clone(&watch), Arc::clone(&held), Arc::clone(&met));
        tokio::spawn(async move {
            let mut connection = server.connect().await.unwrap();
            while Instant::now() < ends {
                let counts = watch.before_look([&KEY]);
                let seen: Option<usize> = redis::cmd("GET").arg("{t}record").query_async(&mut connection).await.unwrap();
                let Some(counts) = counts else {
                    sleep(Duration::from_millis(5)).await;
                    continue;
                };
                let looked = Instant::now();
                while looked.elapsed() < Duration::from_millis(3_000) {
                    // The writes after the one that was seen, of which the first was answered then:
                    let next = answered.lock().unwrap().get(seen.unwrap_or(0)).copied();
                    let asked = Instant::now();
                    if watch.is_as_counted(&counts) {
                        held.fetch_add(1, Ordering::SeqCst);
                        let age = next.map(|next| asked.saturating_duration_since(next));
                        assert!(age.is_none_or(|age| age <= HOLDS), "as seen, {age:?} after it changed");
                    } else {
                        met.fetch_add(i64::from(next.is_some()), Ordering::SeqCst);
                        break;
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            }
        })
    };
    let mut turn = 0;
    while Instant::now() + Duration::from_secs(2) < ends {
        match turn % 4 {
            0 => {
                cable.cut(true);
                sleep(Duration::from_millis(600)).await;
                cable.cut(false);
            }
            1 => {
                server.signal("-STOP");
                sleep(Duration::from_millis(1_300)).await;
                server.signal("-CONT");
            }
            2 => {
                let _: i64 = server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
            }
            _ => {
                cable.cut(true);
                sleep(Duration::from_millis(1_700)).await;
                cable.cut(false);
            }
        }
        turn += 1;
        sleep(Duration::from_millis(700)).await;
    }
    writer.await.unwrap();
    reader.await.unwrap();
    let (held, met) = (held.load(Ordering::SeqCst), met.load(Ordering::SeqCst));
    assert!(held > 100 && met > 3, "{held} times it held, {met} times a change came in between: this tests nothing");
}
