//! A server as a child process, with its output in a file.

use std::{
    fs::{self, File, OpenOptions},
    net::{Ipv4Addr, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// A running server. It is killed, with whatever it started itself, when this is dropped, and also when the test program ends
/// in any other way.
#[derive(Debug)]
pub struct Process {
    child: Child,
    watchdog: Child,
    log: PathBuf,
    name: String,
}

/// How long any server may take until it answers.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl Process {
    /// Starts a command. What it writes is appended to the log: a held pipe would stop it once full.
    ///
    /// # Panics
    /// When the program is not there.
    #[must_use]
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let open = || -> File { OpenOptions::new().create(true).append(true).open(log).unwrap() };
        let child = command.process_group(0).stdin(Stdio::null()).stdout(open()).stderr(open()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} can not be started ({error}); tests/run installs what is missing"));
        let watchdog = at_the_end(KILL_GROUP, &child.id().to_string());
        Self { child, watchdog, log: log.to_owned(), name }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` says so.
    ///
    /// # Panics
    /// When the server ends, or is not ready in time; with what it wrote.
    pub async fn wait_until(&mut self, mut ready: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !ready().await {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended with {status}:\n{}", self.name, self.output());
            }
            assert!(begun.elapsed() < PATIENCE, "{} is not ready after {PATIENCE:?}:\n{}", self.name, self.output());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until something listens on a loopback port.
    pub async fn wait_for_port(&mut self, port: u16) {
        self.wait_until(async || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()).await;
    }

    /// What it wrote.
    #[must_use]
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        // Until it is waited for, its id is no one else's.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = shell(KILL_GROUP, &self.id().to_string()).status();
            // Should the shell have failed, at least the server itself ends, and the wait does too.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, signal: &str) {
        let sent = shell(&format!("kill -s {signal} \"$0\""), &self.id().to_string()).status();
        assert!(sent.unwrap().success(), "{} has ended already", self.name);
    }

    /// Sends a signal to it and to whatever it started itself.
    pub fn signal_group(&self, signal: &str) {
        let sent = shell(&format!("kill -{signal} \"-$0\""), &self.id().to_string()).status();
        assert!(sent.unwrap().success(), "{} has ended already", self.name);
    }

    /// Stops it in the middle of whatever it does, and waits until none of its threads runs: a busy machine takes its time over that, and
    /// one that still runs may still answer.
    ///
    /// # Panics
    /// When it does not stand still in time.
    pub fn freeze(&self) {
        self.signal("STOP");
        let begun = Instant::now();
        while !stands_still(self.id()) {
            assert!(begun.elapsed() < PATIENCE, "{} does not stand still", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Asks the server to end, and waits for it.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "{} does not end", self.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: it must not kill whoever is given the same process id later.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        self.kill();
    }
}

/// Whether all threads of a process are stopped (proc(5): the state follows the name in brackets).
fn stands_still(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// Kills the group of a process, which it leads. Without `--`, which dash's own `kill` does not know.
const KILL_GROUP: &str = "kill -9 \"-$0\"";

/// A shell that runs a script on one argument, `$0`.
fn shell(script: &str, argument: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, argument]).stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

/// Runs a script on one argument when this process is gone, however it went: the shell waits for the end of its input, which
/// comes then.
///
/// # Panics
/// When there is no shell.
pub(crate) fn at_the_end(script: &str, argument: &str) -> Child {
    let mut shell = shell(&format!("cat >/dev/null; {script}"), argument);
    // A Ctrl-C at the terminal is for the tests; this must outlive them.
    shell.process_group(0).stdin(Stdio::piped()).spawn().expect("there is a shell")
}
