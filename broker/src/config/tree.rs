//! The YAML as a tree in which each key and value knows its place.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_json::Number;
use serde_saphyr::{DuplicateKeyPolicy, Error, Spanned};

use super::faults::{Fault, Place};

/// The largest file that is read, in bytes.
const MOST: usize = 16 << 20;

/// A value with its place.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) place: Place,
    pub(super) node: Node,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    Boolean(bool),
    Number(Number),
    /// A text, and whether a part of it came from the environment.
    Text(String, bool),
    List(Vec<Tree>),
    Map(Vec<(Place, String, Tree)>),
    /// Something of which a fault was reported already.
    Broken,
}

/// Reads the text. A text that is no YAML has one fault and no tree; one with a doubled key has both.
pub(super) fn parse(text: &str) -> (Option<Tree>, Option<Fault>) {
    if text.len() > MOST {
        let message = format!("the file is larger than {} MiB", MOST >> 20);
        return (None, Some(Fault { file: None, place: None, path: String::new(), message }));
    }
    match read(text, DuplicateKeyPolicy::Error) {
        Ok(tree) => (Some(tree), None),
        Err(error) => {
            let doubled = matches!(error.without_snippet(), Error::DuplicateMappingKey { .. });
            let tree = if doubled { read(text, DuplicateKeyPolicy::FirstWins).ok() } else { None };
            (tree, Some(fault(&error)))
        }
    }
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Tree, Error> {
    let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true, duplicate_keys: duplicate_keys };
    serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options).map(Tree::from)
}

/// In our own words: the parser's may quote the text.
fn fault(error: &Error) -> Fault {
    let message = match error.without_snippet() {
        Error::DuplicateMappingKey { .. } => "the key is given twice; keep one",
        Error::MultipleDocuments { .. } => "the file holds more than one YAML document; keep one",
        Error::UnknownAnchor { .. } => "the alias has no anchor; a text that begins with `*` stands in quotes",
        Error::InvalidUtf8Input => "the file is not UTF-8",
        Error::NonFiniteFloat { .. } => "the number is not finite",
        _ => "this is not YAML: look at the indentation, and at quotes, brackets and colons here and before",
    };
    let place = error.location().map(|location| Place { line: location.line(), column: location.column() });
    Fault { file: None, place, path: String::new(), message: message.to_owned() }
}

impl From<Spanned<Node>> for Tree {
    fn from(spanned: Spanned<Node>) -> Self {
        Self { place: place(&spanned), node: spanned.value }
    }
}

fn place<T>(spanned: &Spanned<T>) -> Place {
    Place { line: spanned.referenced.line(), column: spanned.referenced.column() }
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
        Ok(Node::Null)
    }
    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Boolean(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Number::from_f64(value).map_or(Node::Null, Node::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned(), false))
    }
    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value, false))
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = access.next_element::<Spanned<Node>>()? {
            list.push(element.into());
        }
        Ok(Node::List(list))
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = access.next_entry::<Spanned<String>, Spanned<Node>>()? {
            map.push((place(&key), key.value, value.into()));
        }
        Ok(Node::Map(map))
    }
}
