//! Faults of a configuration: where, what, and what to do. No fault holds a value of the file.

use std::fmt;

/// A place in the file, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The character within it.
    pub column: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, where it is not the configuration itself but one that it names.
    pub file: Option<String>,
    /// Where in the file; `None` where the file itself can not be read.
    pub place: Option<Place>,
    /// Where in the configuration, as `connectors[1].claimMappings.username`; empty for the whole of it.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Fault {
    /// The fault as one line: `file:line:column: path: message`. `file` is the configuration's name.
    #[must_use]
    pub fn line(&self, file: &str) -> String {
        let mut line = self.file.as_deref().unwrap_or(file).to_owned();
        if let Some(Place { line: row, column }) = self.place {
            line = format!("{line}:{row}:{column}");
        }
        for part in [&self.path, &self.message] {
            if !part.is_empty() {
                line = format!("{line}: {part}");
            }
        }
        line
    }
}

/// Everything that is wrong with one file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    file: String,
    list: Vec<Fault>,
}

impl Faults {
    pub(super) fn new(file: &str, mut list: Vec<Fault>) -> Self {
        sort(&mut list);
        Self { file: file.to_owned(), list }
    }
    /// The faults.
    #[must_use]
    pub fn list(&self) -> &[Fault] {
        &self.list
    }
    /// The file's name, as it was given.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.list.iter().map(|fault| fault.line(&self.file)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Faults {}

/// In the order of the file, then of those that it names; each once.
pub(super) fn sort(list: &mut Vec<Fault>) {
    list.sort_by(|a, b| (&a.file, a.place, &a.path, &a.message).cmp(&(&b.file, b.place, &b.path, &b.message)));
    list.dedup();
}
