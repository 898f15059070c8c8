//! One redis-server or redis-sentinel: a process, its configuration and its data in a folder of its own.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{
    monitor::Monitor,
    wire::{Connection, Reply},
};
use crate::{
    folder, ports,
    process::{PATIENCE, Process},
};

const ADMIN: &str = "admin";
const ADMIN_PASSWORD: &str = "password-of-the-tests-at-redis";

/// A running server.
#[derive(Debug)]
pub struct Server {
    process: Process,
    of: Prepared,
}

/// One that has not been started.
#[derive(Debug)]
pub(super) struct Prepared {
    program: &'static str,
    folder: TempDir,
    port: u16,
    is_closed: bool,
}

impl Server {
    /// A server with more lines of configuration.
    pub(super) fn prepare(name: &str, lines: &str) -> Prepared {
        Prepared::new("/usr/bin/redis-server", name, false).with(&format!("appendonly yes\nsave \"\"\n{lines}\n"))
    }

    /// One at which the default user is off. The actor itself is a user that may do everything.
    pub(super) fn prepare_closed(name: &str, lines: &str) -> Prepared {
        let users = format!("user default off\nuser {ADMIN} on >{ADMIN_PASSWORD} ~* &* +@all\n");
        let prepared = Prepared::new("/usr/bin/redis-server", name, true);
        prepared.with(&format!("appendonly yes\nsave \"\"\n{users}{lines}\n"))
    }

    /// A sentinel.
    pub(super) fn prepare_sentinel(lines: &str) -> Prepared {
        Prepared::new("/usr/bin/redis-sentinel", "sentinel", false).with(lines)
    }

    /// Its loopback port, in the clear.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.of.port
    }

    /// Its address in the clear, as a configuration has it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.of.port)
    }

    /// The folder of its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.of.folder.path()
    }

    /// What it wrote to its log, in all its runs.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.output()
    }

    /// A connection of the actor's own.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn connect(&self) -> io::Result<Connection> {
        self.of.connect()
    }

    /// Asks it something, as the program redis-cli does.
    ///
    /// # Panics
    /// When it does not answer within two seconds, or refuses.
    #[track_caller]
    pub fn cli(&self, command: &[&str]) -> Reply {
        self.try_cli(command).unwrap_or_else(|error| panic!("Redis at {} does not answer: {error}", self.of.port)).good()
    }

    /// The same of one that may be gone, frozen, or refuse. The thread waits for the answer.
    ///
    /// # Errors
    /// When it does not answer within two seconds.
    pub fn try_cli(&self, command: &[&str]) -> io::Result<Reply> {
        self.of.ask(command)
    }

    /// A field of `INFO`; empty where there is none.
    #[must_use]
    pub fn info(&self, section: &str, field: &str) -> String {
        let text = self.try_cli(&["INFO", section]).map(|reply| reply.text()).unwrap_or_default();
        let values = text.lines().filter_map(|line| line.trim().split_once(':'));
        values.filter(|(name, _)| *name == field).map(|(_, value)| value.to_owned()).next().unwrap_or_default()
    }

    /// How often each command has run since the start or [`Self::forget_commands`] (`INFO commandstats`), those inside of scripts too.
    #[must_use]
    pub fn commands(&self) -> BTreeMap<String, u64> {
        let text = self.cli(&["INFO", "commandstats"]).text();
        let line = |line: &str| {
            let (name, rest) = line.trim().strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    /// Counts commands from zero again.
    pub fn forget_commands(&self) {
        _ = self.cli(&["CONFIG", "RESETSTAT"]);
    }

    /// Waits until a replica has everything that was written before this.
    ///
    /// # Panics
    /// When none has.
    pub fn wait_until_acknowledged(&self) {
        let begun = Instant::now();
        // WAIT speaks for its own connection's writes, and this one has none: the offsets say it for all.
        let written = self.info("replication", "master_repl_offset").parse::<u64>().unwrap();
        let has = |line: &str| line.split(',').find_map(|pair| pair.strip_prefix("offset=")?.parse::<u64>().ok());
        while has(&self.info("replication", "slave0")).is_none_or(|offset| offset < written) {
            assert!(begun.elapsed() < PATIENCE, "no replica has it");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes down what clients ask from now on.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::start(self)
    }

    /// What users were refused by the ACL: the user and the command (or key, or channel) of each.
    #[must_use]
    pub fn refused(&self) -> Vec<(String, String)> {
        let entry = |entry: &Reply| {
            let pairs = entry.parts();
            let field = |name: &str| {
                let value = pairs.windows(2).step_by(2).find(|pair| pair[0].text() == name);
                value.map(|pair| pair[1].text()).unwrap_or_default()
            };
            (field("username"), format!("{} {}", field("reason"), field("object")))
        };
        self.cli(&["ACL", "LOG"]).parts().iter().map(entry).collect()
    }

    /// Everything that it keeps: each key, with its members and values.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn contents(&self) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
        let mut connection = self.connect().unwrap();
        let mut ask = |command: &[&[u8]]| connection.ask(command).unwrap().good();
        let mut contents = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let page = ask(&[b"SCAN", &cursor, b"COUNT", b"1000"]);
            for key in page.parts()[1].parts().iter().map(Reply::bytes) {
                let read: Vec<&[u8]> = match ask(&[b"TYPE", key]).text().as_str() {
                    "string" => vec![b"GET", key],
                    "hash" => vec![b"HGETALL", key],
                    "set" => vec![b"SMEMBERS", key],
                    "zset" => vec![b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
                    "list" => vec![b"LRANGE", key, b"0", b"-1"],
                    // It expired meanwhile.
                    "none" => continue,
                    other => panic!("what is a {other}?"),
                };
                let value = match ask(&read) {
                    Reply::List(parts) => parts.iter().map(|part| part.bytes().to_vec()).collect(),
                    one => vec![one.bytes().to_vec()],
                };
                contents.insert(key.to_vec(), value);
            }
            cursor = page.parts()[0].bytes().to_vec();
            if cursor == b"0" {
                return contents;
            }
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it in the middle of whatever it does (SIGSTOP); its connections stay.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.signal("CONT");
    }

    /// Asks it to end, and waits for it.
    pub async fn stop(&mut self) {
        _ = self.process.stop().await;
    }

    /// Starts it anew at the same port on what it kept; one that still runs is killed.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = self.of.run();
        self.of.ready(&mut self.process).await;
    }
}

impl Prepared {
    fn new(program: &'static str, name: &str, is_closed: bool) -> Self {
        let (folder, port) = (folder::new(name), ports::free());
        let lines = format!("port {port}\nbind 127.0.0.1\ndir {}\n", folder.path().display());
        fs::write(folder.path().join("redis.conf"), lines).unwrap();
        Self { program, folder, port, is_closed }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn with(self, lines: &str) -> Self {
        let path = self.folder.path().join("redis.conf");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{lines}")).unwrap();
        self
    }

    pub(super) async fn start(self) -> Server {
        let mut process = self.run();
        self.ready(&mut process).await;
        Server { process, of: self }
    }

    fn run(&self) -> Process {
        let folder = self.folder.path();
        Process::start(Command::new(self.program).arg(folder.join("redis.conf")), &folder.join("redis.log"))
    }

    /// Until it answers, with all that it kept loaded.
    async fn ready(&self, process: &mut Process) {
        process.wait_until(async || self.ask(&["PING"]).is_ok_and(|reply| reply.text() == "PONG")).await;
    }

    fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(self.port)?;
        if self.is_closed {
            _ = connection.ask(&[b"AUTH", ADMIN.as_bytes(), ADMIN_PASSWORD.as_bytes()])?;
        }
        Ok(connection)
    }

    fn ask(&self, command: &[&str]) -> io::Result<Reply> {
        let parts: Vec<&[u8]> = command.iter().map(|part| part.as_bytes()).collect();
        self.connect()?.ask(&parts)
    }
}
