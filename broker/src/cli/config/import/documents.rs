//! YAML of several documents, and where in the text each value of one stands, so that it can be changed without touching the rest.

use std::{fmt, ops::Range};

use anyhow::bail;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, Spanned};

/// The documents of a text, each with the line that it begins at. Joined by nothing they are the text again: each but the first
/// begins with its `---`.
pub(super) fn split(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut begin, mut begins_at) = (0, 1);
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let marks = line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marks && at > 0 {
            documents.push((begins_at, text.get(begin..at).unwrap_or_default()));
            (begin, begins_at) = (at, index + 1);
        }
        at += line.len();
    }
    documents.push((begins_at, text.get(begin..).unwrap_or_default()));
    documents
}

/// A document as plain values.
///
/// # Errors
/// When it is no YAML. The text is not quoted.
pub(super) fn value(document: &str) -> anyhow::Result<Value> {
    read(document)
}

/// A value, and the bytes of the document at which it stands; of a list or map, at least where it begins.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Range<usize>,
    /// It is not written there, but refers to another one.
    pub(super) is_alias: bool,
    pub(super) node: Node,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    List(Vec<Item>),
    Map(Vec<(String, Item)>),
    Other,
}

impl Item {
    /// A document with its places.
    ///
    /// # Errors
    /// When it is no YAML.
    pub(super) fn read(document: &str) -> anyhow::Result<Self> {
        read::<Spanned<Node>>(document)?.try_into()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.node {
            Node::Map(map) => map.iter().find(|(known, _)| known == key).map(|(_, item)| item),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> &[Self] {
        match &self.node {
            Node::List(list) => list,
            _ => &[],
        }
    }

    /// Where the last text or number in it ends.
    pub(super) fn end(&self) -> usize {
        match &self.node {
            Node::List(list) => list.iter().map(Self::end).max().unwrap_or(self.place.start),
            Node::Map(map) => map.iter().map(|(_, item)| item.end()).max().unwrap_or(self.place.start),
            Node::Text(_) | Node::Other => self.place.end,
        }
    }
}

fn read<'t, T: Deserialize<'t>>(document: &'t str) -> anyhow::Result<T> {
    // All bindings of a large cluster are one document.
    let budget = serde_saphyr::budget! { max_events: 8_000_000, max_nodes: 4_000_000 };
    let options = serde_saphyr::options! {
        with_snippet: false, strict_booleans: true, duplicate_keys: DuplicateKeyPolicy::Error, budget: budget,
    };
    serde_saphyr::from_str_with_options(document, options).or_else(|error| {
        // In our own words: the parser's may quote the text.
        let what = match error.without_snippet() {
            Error::DuplicateMappingKey { .. } => "a key is given twice",
            _ => "this is not YAML; a template is to be filled in first",
        };
        match error.location() {
            Some(place) => bail!("{what} (line {} of it, column {})", place.line(), place.column()),
            None => bail!("{what}"),
        }
    })
}

impl TryFrom<Spanned<Node>> for Item {
    type Error = anyhow::Error;
    fn try_from(spanned: Spanned<Node>) -> anyhow::Result<Self> {
        let span = spanned.referenced.span();
        let (Some(start), Some(length)) = (span.byte_offset(), span.byte_len()) else { bail!("the places of its values are not known") };
        let start = usize::try_from(start)?;
        let place = start..start.saturating_add(usize::try_from(length)?);
        Ok(Self { place, is_alias: spanned.referenced != spanned.defined, node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> de::Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }
    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }
    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Other)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Other)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Other)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Other)
    }
    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = access.next_element::<Spanned<Node>>()? {
            list.push(Item::try_from(element).map_err(de::Error::custom)?);
        }
        Ok(Node::List(list))
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = access.next_entry::<String, Spanned<Node>>()? {
            map.push((key, Item::try_from(value).map_err(de::Error::custom)?));
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_at_their_marks_alone() {
        let text = "# first\na: |\n  ---\n  x\n--- # second\nb: 1\n---x: 2\n---\n";
        let documents = split(text);
        assert_eq!(documents.iter().map(|(_, document)| *document).collect::<String>(), text);
        assert_eq!(documents.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 5, 8]);
        assert_eq!(split("---\na: 1\n"), [(1, "---\na: 1\n")]);
        assert_eq!(split(""), [(1, "")]);
    }

    #[test]
    fn texts_know_where_they_stand() {
        let text = "# é\n---\nname: alice # c\nlist:\n- kind: 'User'\n  name: \"bo\\u0062\"\n- {name: x}\nflow: [ {a: 1} ]\n";
        let item = Item::read(text).unwrap();
        let at = |item: &Item| text.get(item.place.clone()).unwrap().to_owned();
        assert_eq!(at(item.get("name").unwrap()), "alice");
        let list = item.get("list").unwrap();
        assert_eq!(
            (at(list.list()[0].get("kind").unwrap()), at(list.list()[0].get("name").unwrap())),
            ("'User'".into(), "\"bo\\u0062\"".into())
        );
        assert!(text.get(list.list()[0].place.start..).unwrap().starts_with("kind:"));
        assert!(text.get(list.list()[1].place.start..).unwrap().starts_with("{name"));
        assert!(text.get(item.get("flow").unwrap().place.start..).unwrap().starts_with("[ {a"));
    }
}
