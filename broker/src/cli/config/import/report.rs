//! What an import did and what it could not do, for people and for programs.

use std::fmt;

use serde::Serialize;

/// Everything that is told of one import.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// k8s-keystone-auth's flags, and the variables that stand for them.
    pub(super) flags: Vec<FlagTold>,
    /// The subjects of bindings, of people and groups only.
    pub(super) subjects: Vec<SubjectTold>,
    /// What is to be done besides.
    pub(super) notes: Vec<String>,
}

/// What became of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    /// It says the same in Denizen's words.
    Translated,
    /// It is as it was, and is to be.
    Kept,
    /// It means nothing to Denizen.
    NotNeeded,
    /// It could not be: someone must see to it.
    NotTranslated,
}

/// One flag.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FlagTold {
    pub(super) flag: String,
    pub(super) outcome: Outcome,
    /// What it became, or why not and what to do.
    pub(super) message: String,
}

/// One subject of a binding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubjectTold {
    pub(super) file: String,
    /// From 1.
    pub(super) line: usize,
    /// Kind, namespace and name.
    pub(super) binding: String,
    /// `User` or `Group`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// The new names.
    pub(super) becomes: Vec<String>,
    /// Why it is so, where that is not plain.
    pub(super) message: Option<String>,
}

impl Report {
    pub(super) fn flag(&mut self, flag: impl Into<String>, outcome: Outcome, message: impl Into<String>) {
        self.flags.push(FlagTold { flag: flag.into(), outcome, message: message.into() });
    }

    /// Whether there is nothing that could not be translated.
    pub(super) fn is_whole(&self) -> bool {
        self.not_translated() == 0
    }

    fn not_translated(&self) -> usize {
        let flags = self.flags.iter().map(|told| told.outcome);
        let subjects = self.subjects.iter().map(|told| told.outcome);
        flags.chain(subjects).filter(|outcome| *outcome == Outcome::NotTranslated).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for FlagTold { flag, outcome, message } in &self.flags {
            writeln!(f, "{flag}: {}{message}", mark(*outcome))?;
        }
        for told in &self.subjects {
            write!(f, "{}:{}: {}: {} {}: ", told.file, told.line, shown(&told.binding), told.kind, shown(&told.name))?;
            match told.outcome {
                Outcome::Translated => {
                    write!(f, "now {}", told.becomes.iter().map(|name| shown(name)).collect::<Vec<_>>().join(" and "))?;
                    told.message.iter().try_for_each(|message| write!(f, " ({message})"))?;
                }
                outcome => f.write_str(mark(outcome)).and_then(|()| f.write_str(told.message.as_deref().unwrap_or_default()))?,
            }
            writeln!(f)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        match self.not_translated() {
            0 => writeln!(f, "all of it was translated"),
            n => writeln!(f, "not translated: {n}; see above"),
        }
    }
}

const fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Translated => "",
        Outcome::Kept => "as it was: ",
        Outcome::NotNeeded => "not needed: ",
        Outcome::NotTranslated => "NOT TRANSLATED: ",
    }
}

/// A name on one line, whatever it holds.
fn shown(name: &str) -> String {
    name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}
