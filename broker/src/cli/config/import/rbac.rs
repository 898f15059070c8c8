//! Bindings with the new names: the text is changed where a name stands, and everything else in it stays, comments too. What comes of
//! it is read again and held against what was meant.

use std::ops::Range;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{
    documents::{self, Item, Node},
    report::{Outcome, Report, SubjectTold},
    subjects::{Decision, Kind, Subjects},
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Rewrites one file's text, and tells of every person and group in its bindings.
///
/// # Errors
/// When a document with bindings is no YAML, or can not be changed in its place.
pub(super) fn rewrite(file: &str, text: &str, subjects: &Subjects, report: &mut Report) -> anyhow::Result<String> {
    let mut whole = String::with_capacity(text.len());
    for (line, document) in documents::split(text) {
        // What names no binding is none, and need not even be YAML.
        if !document.contains("RoleBinding") {
            whole.push_str(document);
            continue;
        }
        let rewritten = one(file, line, document, subjects, report).with_context(|| format!("the document at line {line}"))?;
        whole.push_str(&rewritten);
    }
    Ok(whole)
}

fn one(file: &str, line: usize, document: &str, subjects: &Subjects, report: &mut Report) -> anyhow::Result<String> {
    let root = Item::read(document)?;
    let ends = document.match_indices('\n').map(|(at, _)| at).collect();
    let mut work = Work { file, line, document, ends, subjects, report, edits: Vec::new(), names: Vec::new() };
    work.object(&root, false);
    let Work { edits, names, .. } = work;
    let rewritten = edited(document, edits)?;
    let mut meant = documents::value(document)?;
    let mut names = names.into_iter();
    rename(&mut meant, false, &mut names);
    if names.next().is_some() || documents::value(&rewritten)? != meant {
        bail!("it is written in a way that can not be changed in its place; have kubectl write it anew (kubectl get -o yaml)");
    }
    Ok(rewritten)
}

/// Whether an object is a binding, and whether it is a list of objects that may be.
fn what(kind: Option<&str>, version: Option<&str>, is_listed: bool) -> (bool, bool) {
    let is_ours = version.is_some_and(|version| version.starts_with("rbac.authorization.k8s.io/"));
    let is_binding = match (kind, version) {
        (Some("RoleBinding" | "ClusterRoleBinding"), _) => is_ours,
        // The items of a list of one kind need not say theirs.
        (None, None) => is_listed,
        _ => false,
    };
    (is_binding, matches!(kind, Some("List" | "RoleBindingList" | "ClusterRoleBindingList")))
}

fn kind_of(kind: Option<&str>, group: Option<&str>) -> Option<Kind> {
    match kind {
        _ if group.is_some_and(|group| !group.is_empty() && group != GROUP) => None,
        Some("User") => Some(Kind::User),
        Some("Group") => Some(Kind::Group),
        _ => None,
    }
}

/// What is known and found while one document is gone through.
struct Work<'w> {
    file: &'w str,
    /// The line of the file at which the document begins.
    line: usize,
    document: &'w str,
    /// Where its lines end.
    ends: Vec<usize>,
    subjects: &'w Subjects,
    report: &'w mut Report,
    edits: Vec<(Range<usize>, String)>,
    /// The names of each subject of a person or group that has one, in their order.
    names: Vec<Vec<String>>,
}

impl Work<'_> {
    fn object(&mut self, object: &Item, is_listed: bool) {
        let (is_binding, is_list) = what(object.text("kind"), object.text("apiVersion"), is_listed);
        if is_list {
            let of_one_kind = object.text("kind") != Some("List");
            object.get("items").map(Item::list).unwrap_or_default().iter().for_each(|item| self.object(item, of_one_kind));
        } else if let (true, Some(subjects)) = (is_binding, object.get("subjects")) {
            let metadata = |key| object.get("metadata").and_then(|metadata| metadata.text(key));
            let name = metadata("name").unwrap_or("(without a name)");
            let kind = object.text("kind").unwrap_or("binding");
            let binding = metadata("namespace").map_or_else(|| format!("{kind} {name}"), |space| format!("{kind} {space}/{name}"));
            subjects.list().iter().for_each(|subject| self.subject(&binding, subjects, subject));
        }
    }

    fn subject(&mut self, binding: &str, list: &Item, subject: &Item) {
        let Some(kind) = kind_of(subject.text("kind"), subject.text("apiGroup")) else { return };
        let Some((item, name)) = subject.get("name").and_then(|item| Some((item, text(item)?))) else { return };
        let (mut outcome, mut becomes, mut message) = match self.subjects.decide(kind, name) {
            Decision::Keep(why) => (Outcome::Kept, Vec::new(), Some(why.to_owned())),
            Decision::Unknown(why) => (Outcome::NotTranslated, Vec::new(), Some(why)),
            Decision::Become(names, said) => (Outcome::Translated, names, said.map(str::to_owned)),
        };
        if !becomes.is_empty() {
            match edit(self.document, list, subject, item, &becomes) {
                Some(edits) => self.edits.extend(edits),
                None => {
                    (outcome, becomes) = (Outcome::NotTranslated, Vec::new());
                    message = Some(
                        "it is written in a way that can not be changed or copied in its place (an alias, say); write it plainly, one key a line"
                            .to_owned(),
                    );
                }
            }
        }
        self.names.push(if becomes.is_empty() { vec![name.to_owned()] } else { becomes.clone() });
        self.report.subjects.push(SubjectTold {
            file: self.file.to_owned(),
            line: self.line + self.ends.partition_point(|end| *end < item.place.start),
            binding: binding.to_owned(),
            kind: kind.in_words(),
            name: name.to_owned(),
            outcome,
            becomes,
            message,
        });
    }
}

fn text(item: &Item) -> Option<&str> {
    match &item.node {
        Node::Text(text) => Some(text),
        _ => None,
    }
}

/// What is to be written where: the first name in its place, a copy of the subject behind it for each other one. `None` where
/// that is not possible.
fn edit(document: &str, list: &Item, subject: &Item, name: &Item, names: &[String]) -> Option<Vec<(Range<usize>, String)>> {
    let (first, others) = names.split_first()?;
    let written = document.get(name.place.clone())?;
    // A block of text stands otherwise than it reads.
    let is_plain = written.starts_with(['"', '\'']) || text(name) == Some(written);
    if name.is_alias || subject.is_alias || list.is_alias || !is_plain {
        return None;
    }
    let mut edits = vec![(name.place.clone(), quoted(first))];
    if others.is_empty() {
        return Some(edits);
    }
    let start = subject.place.start;
    let rest = document.get(start..)?;
    let mut end = subject.end();
    if rest.starts_with('{') {
        let after = document.get(end..)?;
        let closed = after.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        closed.strip_prefix('}')?;
        end += after.len() - closed.len() + 1;
    }
    let (at, before) = if document.get(list.place.start..)?.starts_with('[') {
        (end, ", ".to_owned())
    } else {
        let line = document.get(..start)?.rfind('\n').map_or(0, |at| at + 1);
        let lead = document.get(line..start)?;
        if lead.trim() != "-" {
            return None;
        }
        // Behind what else stands in the line, which is a comment at most.
        let tail = document.get(end..)?.lines().next().unwrap_or_default();
        if !tail.trim_start().is_empty() && !tail.trim_start().starts_with('#') {
            return None;
        }
        (end + tail.len(), format!("\n{lead}"))
    };
    let (head, foot) = (document.get(start..name.place.start)?, document.get(name.place.end..end)?);
    let copies = others.iter().map(|other| [&before, head, &quoted(other), foot].concat());
    edits.push((at..at, copies.collect()));
    Some(edits)
}

/// In double quotes JSON and YAML say the same.
fn quoted(name: &str) -> String {
    Value::String(name.to_owned()).to_string()
}

fn edited(document: &str, mut edits: Vec<(Range<usize>, String)>) -> anyhow::Result<String> {
    edits.sort_by_key(|(place, _)| place.start);
    let mut text = String::with_capacity(document.len());
    let mut at = 0;
    for (place, written) in edits {
        // A place before the last one: one text stands for two values.
        let between = document.get(at..place.start).context("two values stand in one place; write each of them out")?;
        text.push_str(between);
        text.push_str(&written);
        at = place.end;
    }
    text.push_str(document.get(at..).unwrap_or_default());
    Ok(text)
}

/// The same in plain values.
fn rename(object: &mut Value, is_listed: bool, names: &mut impl Iterator<Item = Vec<String>>) {
    let field = |key: &str| object.get(key).and_then(Value::as_str);
    let (is_binding, is_list) = what(field("kind"), field("apiVersion"), is_listed);
    let of_one_kind = field("kind") != Some("List");
    if is_list {
        if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
            items.iter_mut().for_each(|item| rename(item, of_one_kind, names));
        }
    } else if let (true, Some(subjects)) = (is_binding, object.get_mut("subjects").and_then(Value::as_array_mut)) {
        let old = std::mem::take(subjects);
        for subject in old {
            let field = |key: &str| subject.get(key).and_then(Value::as_str);
            if kind_of(field("kind"), field("apiGroup")).is_none() || field("name").is_none() {
                subjects.push(subject);
                continue;
            }
            for name in names.next().unwrap_or_default() {
                let mut copy = subject.clone();
                if let Some(place) = copy.get_mut("name") {
                    *place = Value::String(name);
                }
                subjects.push(copy);
            }
        }
    }
}

#[cfg(test)]
mod tests;
