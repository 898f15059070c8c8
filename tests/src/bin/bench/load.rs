//! HTTP load by wrk, on cores of its own.

use std::{
    fs,
    io::{BufWriter, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use super::machine::{Cores, cpu_seconds};

/// The name of the broker's log in the folder of the run.
pub(crate) const LOG: &str = "log";
const SCRIPT: &str = include_str!("load.lua");

/// What is sent: POST requests that differ in their bodies.
#[derive(Debug, Clone)]
pub(crate) struct Requests<'a> {
    pub(crate) path: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) authorization: Option<&'a str>,
}

/// What came of one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// Answers in a second.
    pub(crate) rate: f64,
    /// Answers in all.
    pub(crate) answers: f64,
    /// Microseconds of processor time of this process for each answer.
    pub(crate) cpu_micros: f64,
    /// Microseconds within which 95 of a hundred answers came; no number where that was not measured.
    pub(crate) p95_micros: f64,
}

/// A load of so many connections.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) cores: &'a Cores,
    pub(crate) folder: &'a Path,
    pub(crate) connections: usize,
    /// Seconds that a round takes.
    pub(crate) seconds: u64,
}

impl Load<'_> {
    /// Whether wrk is there.
    pub(crate) fn is_possible() -> bool {
        std::process::Command::new("wrk").arg("-v").output().is_ok()
    }

    /// Writes a file of requests.
    pub(crate) fn file(&self, name: &str, requests: &Requests<'_>, bodies: impl IntoIterator<Item = String>) -> Result<PathBuf> {
        let path = self.folder.join(name);
        let mut file = BufWriter::new(fs::File::create(&path)?);
        writeln!(file, "{}\n{}\n{}", requests.path, requests.content_type, requests.authorization.unwrap_or("-"))?;
        for body in bodies {
            writeln!(file, "{body}")?;
        }
        file.flush()?;
        Ok(path)
    }

    /// Sends the requests of a file for one round, each once, or again and again. Every answer must be a success.
    pub(crate) async fn round(&self, to: SocketAddr, file: &Path, again: bool) -> Result<Round> {
        let script = self.folder.join("load.lua");
        fs::write(&script, SCRIPT)?;
        let mut command = self.cores.loading("wrk");
        command.args(["-t", "1", "-c", &self.connections.to_string(), "-d", &format!("{}s", self.seconds), "--timeout", "20s", "-s"]);
        command.arg(&script).arg(format!("http://{to}/")).arg("--").arg(file).arg(if again { "again" } else { "once" });
        // It is appended to, so that it begins anew; what is left unwritten of it must not slow the next flush of the store.
        fs::File::create(self.folder.join(LOG))?;
        let before = cpu_seconds()?;
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("wrk can not be started")?;
        let cpu = cpu_seconds()? - before;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let result = text.lines().find_map(|line| line.strip_prefix("RESULT "));
        let result = result.with_context(|| format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
        let numbers = result.split(' ').map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
        let [answers, micros, broken, refused, ended, _, p95, ..] = numbers.as_slice() else { anyhow::bail!("wrk answered {text}") };
        let name = file.display();
        ensure!(*ended == 0.0, "{name}: more was answered in a round than there were requests for");
        ensure!(*broken == 0.0 && *refused == 0.0, "{name}: {broken} connections broke, {refused} of {answers} answers were no success");
        Ok(Round { rate: answers / micros * 1e6, answers: *answers, cpu_micros: cpu / answers * 1e6, p95_micros: *p95 })
    }
}
