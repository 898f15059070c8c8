//! Where each part of the configuration stands in the file, and what is known to be wrong so far.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use super::faults::{Fault, Place};

/// Collects faults, and finds their places.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) known: HashMap<String, Place>,
    /// What stands in another file: the parts that an entry there lent to one here.
    lent: HashMap<String, Lent>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
    /// Texts that no fault may show: secrets, and what came from the environment.
    pub(super) secrets: Vec<String>,
}

/// Where a part stands that another file lent.
#[derive(Debug)]
struct Lent {
    file: Arc<str>,
    /// Its path in that file.
    path: String,
    place: Place,
}

impl Places {
    pub(super) fn insert(&mut self, path: &str, place: Place) {
        self.known.insert(path.to_owned(), place);
    }

    /// Whether the file says something there, right or wrong; or another one does that lent the part.
    pub(super) fn has(&self, path: &str) -> bool {
        self.known.contains_key(path) || self.lent.contains_key(path)
    }

    /// The place of a path; of what is around it where the file does not have it.
    pub(super) fn of(&self, path: &str) -> Option<Place> {
        ancestors(path).find_map(|path| self.known.get(path).copied())
    }

    /// Notes that a part of this configuration stands in another file, so that what is wrong with it is told there.
    pub(super) fn lend(&mut self, file: &Arc<str>, theirs: &Self, their_path: &str, path: &str) {
        for (known, place) in &theirs.known {
            if let Some(rest) = known.strip_prefix(their_path).filter(|rest| rest.is_empty() || rest.starts_with(['.', '['])) {
                self.lent.insert(format!("{path}{rest}"), Lent { file: Arc::clone(file), path: known.clone(), place: *place });
            }
        }
    }

    pub(super) fn fault(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let fault = self.at(path.into(), message.into());
        self.faults.push(fault);
    }

    pub(super) fn warning(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let warning = self.at(path.into(), message.into());
        self.warnings.push(warning);
    }

    fn at(&self, path: String, message: String) -> Fault {
        let lent = ancestors(&path).take_while(|ancestor| !self.known.contains_key(*ancestor));
        let lent = lent.filter_map(|ancestor| Some((ancestor, self.lent.get(ancestor)?))).next();
        if let Some((ancestor, lent)) = lent {
            let path = format!("{}{}", lent.path, path.strip_prefix(ancestor).unwrap_or_default());
            return Fault { file: Some(lent.file.to_string()), place: Some(lent.place), path, message };
        }
        Fault { file: None, place: self.of(&path), path, message }
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

/// A path, and what is around it, up to the whole.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| parent(path))
}

fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    Some(path.rfind(['.', '[']).and_then(|at| path.get(..at)).unwrap_or_default())
}

/// The path of a property.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { [path, ".", key].concat() }
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
