//! Each step of a mapping, told to people.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mapping::Watch;

/// What each step of a mapping saw and gave. It holds claim values: it is for the operator who asked for it, never for a log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The steps, in the order of evaluation, up to and with the one that failed.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// Where it stands in the configuration: `claimMappings.username`.
    pub place: String,
    /// The claim or the expression.
    pub rule: String,
    /// The claims that it names, as they were (`null`: absent).
    pub saw: serde_json::Map<String, Value>,
    /// What it gave, or why it failed.
    pub gave: Result<Value, String>,
}

impl Watch for Explanation {
    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.steps.push(step());
    }
}

/// For a terminal: a paragraph for each step, without control characters of the claims' own.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{}. {}", number + 1, step.place)?;
            for (index, line) in step.rule.lines().enumerate() {
                writeln!(f, "   {} {}", if index == 0 { "rule:" } else { "     " }, line.trim_end())?;
            }
            for (name, value) in &step.saw {
                // `null` and absent look alike in `saw`, and are nearly always the latter.
                let value = if value.is_null() { "absent or null".to_owned() } else { shown(value) };
                writeln!(f, "   saw:  {} = {value}", printable(name))?;
            }
            match &step.gave {
                Ok(value) => writeln!(f, "   gave: {}", shown(value))?,
                Err(reason) => writeln!(f, "   REFUSED: {}", printable(reason))?,
            }
        }
        Ok(())
    }
}

/// JSON escapes the ASCII controls; what else could move a terminal's cursor is escaped here.
fn shown(value: &Value) -> String {
    printable(&value.to_string())
}

fn printable(text: &str) -> String {
    const DIRECTION: [std::ops::RangeInclusive<char>; 3] = ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || DIRECTION.iter().any(|range| range.contains(&character)) {
            plain.extend(character.escape_unicode());
        } else {
            plain.push(character);
        }
    }
    plain
}
