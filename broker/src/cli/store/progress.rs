//! How a transfer goes: a bar on a terminal, nothing elsewhere.

use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// For so many records, where that is known.
    pub(super) fn new(records: Option<usize>) -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let (bar, template) = match records {
            Some(records) => (ProgressBar::new(records as u64), "{bar:32} {pos}/{len} records  {per_sec}  (left: {eta})"),
            None => (ProgressBar::new_spinner(), "{spinner} {pos} records  {per_sec}  {elapsed}"),
        };
        Self(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// So many are done.
    pub(super) fn at(&self, records: usize) {
        self.0.set_position(records as u64);
    }

    /// All are done.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}
