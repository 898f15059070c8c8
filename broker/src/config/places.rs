//! Where each part of the configuration stands in the file, and what is known to be wrong so far.

use std::collections::HashMap;

use serde_json::Value;

use super::faults::{Fault, Place};

/// Collects faults, and finds their places.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) known: HashMap<String, Place>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
    /// Texts that no fault may show: secrets, and what came from the environment.
    pub(super) secrets: Vec<String>,
}

impl Places {
    pub(super) fn insert(&mut self, path: &str, place: Place) {
        self.known.insert(path.to_owned(), place);
    }

    /// Whether the file says something there, right or wrong.
    pub(super) fn has(&self, path: &str) -> bool {
        self.known.contains_key(path)
    }

    /// The place of a path; of what is around it where the file does not have it.
    pub(super) fn of(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.known.get(path) {
                return Some(*place);
            }
            path = parent(path)?;
        }
    }

    pub(super) fn fault(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let path = path.into();
        self.faults.push(Fault { place: self.of(&path), path, message: message.into() });
    }

    pub(super) fn warning(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let path = path.into();
        self.warnings.push(Fault { place: self.of(&path), path, message: message.into() });
    }

    /// Whether something is wrong at the path or below it.
    pub(super) fn is_faulty(&self, path: &str) -> bool {
        let below = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        self.faults.iter().any(|fault| path.is_empty() || fault.path.strip_prefix(path).is_some_and(below))
    }

    /// Where a path stands, in words, for a fault elsewhere that has to do with it.
    pub(super) fn line_of(&self, path: &str) -> String {
        self.of(path).map_or_else(|| "elsewhere".to_owned(), |place| format!("at line {}", place.line))
    }
}

fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    Some(path.rfind(['.', '[']).and_then(|at| path.get(..at)).unwrap_or_default())
}

/// The path of a property.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The value at a path.
pub(super) fn at<'v>(root: &'v Value, path: &str) -> Option<&'v Value> {
    path.split(['.', '[']).filter(|segment| !segment.is_empty()).try_fold(root, |value, segment| match segment.strip_suffix(']') {
        Some(index) => value.get(index.parse::<usize>().ok()?),
        None => value.get(segment),
    })
}

/// The path of the element of a list that has this text.
pub(super) fn element(root: &Value, list: &str, text: &str) -> String {
    let elements = at(root, list).and_then(Value::as_array);
    let index = elements.and_then(|elements| elements.iter().position(|value| value.as_str() == Some(text)));
    index.map_or_else(|| list.to_owned(), |index| format!("{list}[{index}]"))
}
