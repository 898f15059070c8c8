//! What clients ask a Redis server, one line a command, in order (`MONITOR`): how many round trips something takes.

use std::{
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use super::Server;
use crate::process::PATIENCE;

/// It listens until it is dropped.
#[derive(Debug)]
pub struct Monitor {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
    stream: TcpStream,
}

impl Monitor {
    pub(super) fn start(server: &Server) -> Self {
        let mut connection = server.connect().expect("it answers");
        _ = connection.ask(&[b"MONITOR"]).unwrap().good();
        let stream = connection.wait_long().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let of_thread = Arc::clone(&lines);
        thread::spawn(move || {
            while let Ok(line) = connection.read() {
                of_thread.lock().unwrap().push(line.text());
            }
        });
        Self { port: server.port(), lines, stream }
    }

    /// The commands of clients since the last call, each as Redis writes it (`"GET" "denizen:…"`). Left out is what a script does inside, and
    /// what makes and keeps a connection.
    ///
    /// # Panics
    /// When the server is gone.
    pub fn take(&self, server: &Server) -> Vec<String> {
        assert_eq!(self.port, server.port(), "it listens at another server");
        // What came before this is in the lines when this is.
        let mark = format!("mark-{:?}", Instant::now());
        _ = server.cli(&["ECHO", &mark]);
        let begun = Instant::now();
        loop {
            let mut lines = self.lines.lock().unwrap();
            if let Some(end) = lines.iter().position(|line| line.contains(&mark.replace('"', "\\\""))) {
                let taken: Vec<String> = lines.drain(..=end).collect();
                return taken.iter().filter_map(|line| command(line)).collect();
            }
            drop(lines);
            assert!(begun.elapsed() < PATIENCE, "MONITOR is silent");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// `1700000000.123456 [0 127.0.0.1:5000] "GET" "key"`; of a script's inside, `[0 lua]`.
fn command(line: &str) -> Option<String> {
    let (head, command) = line.split_once("] ")?;
    let upper = command.to_ascii_uppercase();
    let is_ours =
        ["\"ECHO\" \"MARK-", "\"AUTH\"", "\"HELLO\"", "\"CLIENT\"", "\"PING\"", "\"REPLCONF\""].iter().any(|own| upper.starts_with(own));
    (!head.ends_with(" lua") && !is_ours).then(|| command.to_owned())
}
