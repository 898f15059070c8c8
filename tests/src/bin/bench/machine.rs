//! The machine: which cores serve and which ones load them, and what a process used of them.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail};

/// Cores that are apart, so that the load does not take the time that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Cores {
    /// Those of the broker and its floors.
    pub(crate) serving: Vec<u32>,
    /// Those of the load; empty where there are too few, or no `taskset`.
    pub(crate) loading: Vec<u32>,
}

impl Cores {
    /// Moves this process to the first half of its cores, so that the rest is for the load. Before the runtime begins: it
    /// makes as many threads as there are cores.
    pub(crate) fn part() -> Result<Self> {
        let all = allowed()?;
        let (serving, loading) = all.split_at(all.len().div_ceil(2));
        if loading.is_empty() {
            return Ok(Self { serving: all, loading: Vec::new() });
        }
        let moved = Command::new("taskset").args(["-a", "-c", "-p", &listed(serving), &std::process::id().to_string()]).output();
        if moved.is_ok_and(|output| output.status.success()) {
            Ok(Self { serving: serving.to_vec(), loading: loading.to_vec() })
        } else {
            Ok(Self { serving: all, loading: Vec::new() })
        }
    }

    /// A command that runs on the cores of the load.
    pub(crate) fn loading(&self, program: &str) -> Command {
        if self.loading.is_empty() {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", &listed(&self.loading), program]);
        command
    }

    /// Moves another process to the cores of the load.
    pub(crate) fn move_away(&self, process: u32) {
        if !self.loading.is_empty() {
            // A process that stays where it is makes the figures worse, not wrong.
            _ = Command::new("taskset").args(["-a", "-c", "-p", &listed(&self.loading), &process.to_string()]).output();
        }
    }
}

fn listed(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The cores that this process may use (proc(5), `Cpus_allowed_list`).
fn allowed() -> Result<Vec<u32>> {
    let list = status_line("self", "Cpus_allowed_list:")?;
    let mut cores = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cores.extend(first.trim().parse::<u32>()?..=last.trim().parse::<u32>()?);
    }
    Ok(cores)
}

fn status_line(process: &str, key: &str) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("/proc has no {key}"))?;
    Ok(line.trim().to_owned())
}

/// What a process holds in memory, in bytes: everything, and what is its own and not a file's.
pub(crate) fn memory(process: u32) -> Result<(f64, f64)> {
    let of = |key| -> Result<f64> {
        let line = status_line(&process.to_string(), key)?;
        let Some(kilobytes) = line.strip_suffix(" kB") else { bail!("/proc tells memory in another unit") };
        Ok(kilobytes.trim().parse::<f64>()? * 1024.0)
    };
    Ok((of("VmRSS:")?, of("RssAnon:")?))
}

/// The seconds of processor time that this process has used so far (proc(5): hundredths on Linux).
pub(crate) fn cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat has another form")?;
    let ticks = |index| -> Result<f64> { Ok(fields.split(' ').nth(index).context("/proc/self/stat is too short")?.parse::<f64>()?) };
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

/// What the machine is, for the drawing.
pub(crate) fn told() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |l| l.trim_start_matches([' ', '\t', ':']));
    format!("{model}, {} cores.", info.lines().filter(|line| line.starts_with("processor")).count())
}
