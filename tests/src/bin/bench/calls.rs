//! gRPC load by h2load, on cores of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use prost::Message;

use super::{
    load::{LOG, Round},
    machine::{Cores, cpu_seconds},
};

/// A load of one h2load for each message.
#[derive(Debug)]
pub(crate) struct Calls<'a> {
    pub(crate) cores: &'a Cores,
    pub(crate) folder: &'a Path,
    /// Connections of each.
    pub(crate) connections: usize,
    /// Calls under way on one connection.
    pub(crate) streams: usize,
    /// Seconds that a round takes.
    pub(crate) seconds: u64,
}

/// What came of one h2load.
struct Loaded {
    rate: f64,
    answers: f64,
    /// Of each answer, in microseconds.
    micros: Vec<f64>,
}

impl Calls<'_> {
    /// Whether h2load is there.
    pub(crate) fn is_possible() -> bool {
        std::process::Command::new("h2load").arg("--version").output().is_ok()
    }

    /// Writes a message as gRPC sends it: not compressed, its length before it.
    pub(crate) fn file(&self, name: &str, message: &impl Message) -> Result<PathBuf> {
        let path = self.folder.join(name);
        let bytes = message.encode_to_vec();
        let length = u32::try_from(bytes.len())?.to_be_bytes();
        fs::write(&path, [&[0], &length[..], &bytes].concat())?;
        Ok(path)
    }

    /// Calls a method of the server on this socket for one round, as often as it answers; and how many microseconds 99 of a hundred answers took
    /// at most. With `rate`, so often in a second.
    pub(crate) async fn round(&self, to: &Path, method: &str, files: &[PathBuf], rate: Option<usize>) -> Result<(Round, f64)> {
        // The log begins anew, as in `load.rs`.
        fs::File::create(self.folder.join(LOG))?;
        let before = cpu_seconds()?;
        let each = rate.map(|rate| rate / files.len() / self.connections);
        let loads = try_join_all(files.iter().map(|file| self.load(to, method, file, each))).await?;
        let cpu = cpu_seconds()? - before;
        let (rate, answers) = (loads.iter().map(|load| load.rate).sum(), loads.iter().map(|load| load.answers).sum::<f64>());
        let mut micros: Vec<_> = loads.into_iter().flat_map(|load| load.micros).collect();
        micros.sort_by(f64::total_cmp);
        let within = |part: usize| micros.get(micros.len() * part / 100).copied().context("nothing was answered");
        let round = Round { rate, answers, cpu_micros: cpu / answers * 1e6, p95_micros: within(95)? };
        Ok((round, within(99)?))
    }

    async fn load(&self, to: &Path, method: &str, file: &Path, rate: Option<usize>) -> Result<Loaded> {
        let log = file.with_extension("answers");
        _ = fs::remove_file(&log);
        let mut command = self.cores.loading("h2load");
        command.args(["-t", "1", "-c", &self.connections.to_string(), "-m", &self.streams.to_string(), "-D", &self.seconds.to_string()]);
        command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]).arg("-d").arg(file);
        command.arg(format!("--log-file={}", log.display())).arg("-B").arg(format!("unix:{}", to.display()));
        rate.into_iter().for_each(|rate| _ = command.arg(format!("--rps={rate}")));
        command.arg(method);
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("h2load can not be started")?;
        read(&output, &fs::read_to_string(&log)?)
    }
}

fn read(output: &Output, log: &str) -> Result<Loaded> {
    let text = String::from_utf8_lossy(&output.stdout);
    let told = || format!("h2load: {text}{}", String::from_utf8_lossy(&output.stderr));
    // `finished in 2.00s, 1234.50 req/s, 1.2MB/s`, and `requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout`.
    let rate = text.lines().find_map(|line| line.strip_prefix("finished in ")?.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok());
    let counts = text.lines().find_map(|line| line.strip_prefix("requests: "));
    let count = |word: &str| -> Option<f64> { counts?.split(", ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok()) };
    let (answers, failed) = (count("succeeded").with_context(told)?, count("failed").with_context(told)?);
    ensure!(answers > 0.0 && failed == 0.0, "{}", told());
    let micros = log.lines().filter_map(|line| line.split('\t').nth(2)?.parse().ok()).collect();
    Ok(Loaded { rate: rate.with_context(told)?, answers, micros })
}
