//! How a reindex goes, for people and for programs: a bar on a terminal, a line for each list elsewhere, JSON where it is asked for.

use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::say;
use crate::directory::{List, Summary, Told};

/// What is shown where.
pub(super) struct Progress {
    json: bool,
    /// Hidden where standard error is no terminal.
    bar: ProgressBar,
    people: usize,
    all_reached: Option<bool>,
}

impl Progress {
    pub(super) fn new(json: bool) -> Self {
        let bar = if json || !stderr().is_terminal() { ProgressBar::hidden() } else { ProgressBar::new(0) };
        Self { json, bar, people: 0, all_reached: None }
    }

    /// Whether all lists were had; `None` before the end.
    pub(super) const fn ended(&self) -> Option<bool> {
        self.all_reached
    }

    pub(super) fn show(&mut self, told: &Told) -> anyhow::Result<()> {
        if let Told::Ended(summary) = told {
            self.all_reached = Some(summary.unreached == 0);
        }
        if self.json {
            say(serde_json::to_string(told)?);
            return Ok(());
        }
        match told {
            Told::Begun { lists } => {
                self.bar.set_length(*lists as u64);
                self.bar.set_style(ProgressStyle::with_template("{bar:32} {pos}/{len} lists  {msg}  {elapsed} (left: {eta})")?);
            }
            Told::Batch { people } => {
                self.people += people;
                self.bar.set_message(format!("{} people", self.people));
            }
            Told::Listed(list) => {
                self.bar.inc(1);
                // On a terminal the bar tells what goes well.
                if list.truncated || self.bar.is_hidden() {
                    self.line(&listed(list));
                }
            }
            Told::Unreached { tenant, connector, why } => {
                self.bar.inc(1);
                self.line(&format!("{tenant} at {connector}: could not be listed: {why}"));
            }
            Told::GivenUp { connector, lists } => {
                self.bar.inc(*lists as u64);
                self.line(&format!("{connector}: it did not answer, and was not asked for {lists} more lists"));
            }
            Told::Ended(summary) => {
                self.bar.finish_and_clear();
                say(ended(summary));
            }
        }
        Ok(())
    }

    fn line(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }
}

fn listed(list: &List) -> String {
    let List { tenant, connector, people, recorded, refused, truncated } = list;
    let cut = if *truncated { "; the directory cut the list: there are more, raise its limits for Denizen's account" } else { "" };
    format!("{tenant} at {connector}: {people} people, {recorded} recorded anew, {refused} not admitted{cut}")
}

fn ended(summary: &Summary) -> String {
    let Summary { tenants, connectors, people, recorded, refused, truncated, unreached } = summary;
    let mut text = format!(
        "{people} people of {tenants} tenants at {connectors} connectors: {recorded} recorded anew, {refused} not admitted (`denizen claims explain` says why)"
    );
    if *truncated > 0 {
        text += &format!("\n{truncated} lists were cut by their directories: there are more people");
    }
    if *unreached > 0 {
        text += &format!("\n{unreached} lists could not be had: run it again, nothing is lost");
    }
    text
}
