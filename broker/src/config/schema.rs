//! The JSON Schema of the configuration, made from the types, and how it is read.
//!
//! Of JSON Schema it knows what the types need, no more: `$ref`, `type`, `properties`, `required`, `additionalProperties`,
//! `propertyNames`, `items`, `const`, `enum`, `anyOf`, `oneOf`. An object is closed unless it says otherwise.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Config, tree::Node};

/// The JSON Schema (draft 2020-12) of the configuration, for editors.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    if let Some(connector) = schema.pointer_mut("/$defs/ConnectorConfig").and_then(Value::as_object_mut) {
        connector.insert("unevaluatedProperties".to_owned(), json!(false));
    }
    schema
}

/// A schema as a walk needs it, read once: a configuration may have thousands of entries of one shape.
pub(super) struct Form<'s> {
    pub(super) resolved: Resolved<'s>,
    /// Schemas of which one is enough.
    pub(super) any_of: Option<&'s [Value]>,
    /// Whether they are choices: texts, and keys that hold something.
    pub(super) is_choice: bool,
    /// The texts that it allows, where it lists them.
    pub(super) choices: Option<Vec<&'s str>>,
    /// The kinds that it allows otherwise.
    pub(super) kinds: Vec<Kind>,
    /// What it may hold, where it may be keys with values.
    pub(super) shape: Shape<'s>,
    /// What selects a shape with more in it.
    pub(super) tag: Option<Tag<'s>>,
}

impl<'s> Form<'s> {
    pub(super) fn of(root: &'s Value, schema: &'s Value) -> Self {
        let resolved = resolve(root, schema);
        let schema = resolved.schema;
        let kinds = kinds(schema);
        let is_map = kinds.contains(&Kind::Map);
        let shape = if is_map { Shape::of(schema) } else { Shape::default() };
        let tag = tagged(root, schema).filter(|_| is_map).map(|(name, branches)| {
            let shapes = branches.into_iter().map(|(value, branch)| (value, shape.with(branch))).collect();
            Tag { name, shapes }
        });
        let choices = choices(schema);
        let branches = |key| schema.get(key).and_then(Value::as_array).map(Vec::as_slice);
        let one_of = branches("oneOf").filter(|_| choices.is_none() && tag.is_none());
        Self { resolved, any_of: branches("anyOf").or(one_of), is_choice: one_of.is_some(), choices, kinds, shape, tag }
    }

    /// The key of a choice that holds something.
    pub(super) fn choice_key(&self) -> Option<&'s str> {
        self.shape.required.first().copied()
    }
}

/// A schema, its references followed, with the name of the definition that it came from.
#[derive(Clone, Copy)]
pub(super) struct Resolved<'s> {
    pub(super) schema: &'s Value,
    pub(super) name: &'s str,
}

/// Follows `$ref`.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> Resolved<'s> {
    let mut resolved = Resolved { schema, name: "" };
    // References of types that the program has do not go round in circles; a bound costs nothing.
    for _ in 0..16 {
        let Some(name) = resolved.schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/")) else { break };
        let Some(schema) = root.get("$defs").and_then(|defs| defs.get(name)) else { break };
        resolved = Resolved { schema, name };
    }
    resolved
}

/// The kinds of value, as people call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    Text,
    List,
    Map,
}

impl Kind {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::Text,
            "array" => Self::List,
            "object" => Self::Map,
            _ => return None,
        })
    }

    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean => "`true` or `false`",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Map => "keys with values",
        }
    }
}

impl Node {
    /// Whether the value is of the kind, or a variable may have filled in one.
    pub(super) fn may_be(&self, kind: Kind) -> bool {
        match self {
            Self::Null => kind == Kind::Null,
            Self::Boolean(_) => kind == Kind::Boolean,
            Self::Number(number) => kind == Kind::Number || kind == Kind::Integer && (number.is_u64() || number.is_i64()),
            Self::Text(_, false) => kind == Kind::Text,
            Self::Text(text, true) => match kind {
                Kind::Text => true,
                Kind::Boolean => text.parse::<bool>().is_ok(),
                Kind::Integer => text.parse::<i64>().is_ok(),
                Kind::Number => text.parse::<f64>().is_ok_and(f64::is_finite),
                _ => false,
            },
            Self::List(_) => kind == Kind::List,
            Self::Map(_) => kind == Kind::Map,
            Self::Broken => true,
        }
    }
}

/// The kinds that a schema without branches allows.
pub(super) fn kinds(schema: &Value) -> Vec<Kind> {
    match schema.get("type") {
        Some(Value::String(name)) => Kind::of_name(name).into_iter().collect(),
        Some(Value::Array(names)) => names.iter().filter_map(|name| Kind::of_name(name.as_str()?)).collect(),
        _ if schema.get("properties").is_some() => vec![Kind::Map],
        _ => Vec::new(),
    }
}

/// The texts that a schema allows, where it lists them.
fn choices(schema: &Value) -> Option<Vec<&str>> {
    if let Some(only) = schema.get("const") {
        return only.as_str().map(|text| vec![text]);
    }
    if let Some(list) = schema.get("enum").and_then(Value::as_array) {
        return list.iter().map(Value::as_str).collect();
    }
    let branches = schema.get("oneOf")?.as_array()?;
    let lists: Option<Vec<_>> = branches.iter().map(choices).collect();
    lists.map(|lists| lists.into_iter().flatten().collect())
}

/// The property that selects what else an object may hold, and the whole of that by each value of it.
pub(super) struct Tag<'s> {
    pub(super) name: &'s str,
    pub(super) shapes: BTreeMap<&'s str, Shape<'s>>,
}

/// What an object may hold.
#[derive(Default, Clone)]
pub(super) struct Shape<'s> {
    pub(super) properties: BTreeMap<&'s str, &'s Value>,
    pub(super) required: BTreeSet<&'s str>,
    /// The schema of all other values, where there may be others.
    pub(super) others: Option<&'s Value>,
    /// The schema of all keys.
    pub(super) names: Option<&'s Value>,
}

impl<'s> Shape<'s> {
    /// The shape of one schema, its branches left out.
    fn of(schema: &'s Value) -> Self {
        let mut shape = Self { names: schema.get("propertyNames"), ..Self::default() };
        shape.others = schema.get("additionalProperties").filter(|others| others.is_object());
        shape.add(schema);
        shape
    }

    /// The same with the branch that one value of a tag selects.
    fn with(&self, branch: &'s Value) -> Self {
        let mut shape = self.clone();
        shape.add(branch);
        shape
    }

    fn add(&mut self, schema: &'s Value) {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter);
        self.properties.extend(properties.map(|(key, schema)| (key.as_str(), schema)));
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        self.required.extend(required.filter_map(Value::as_str));
    }
}

/// The property that selects the branch of a tagged object, and each branch by its value.
fn tagged<'s>(root: &'s Value, schema: &'s Value) -> Option<(&'s str, BTreeMap<&'s str, &'s Value>)> {
    let branches = schema.get("oneOf")?.as_array()?;
    let mut tag = None;
    let mut by_value = BTreeMap::new();
    for branch in branches {
        let branch = resolve(root, branch).schema;
        let properties = branch.get("properties")?.as_object()?;
        let (name, value) = properties.iter().find_map(|(name, schema)| Some((name.as_str(), schema.get("const")?.as_str()?)))?;
        if *tag.get_or_insert(name) != name {
            return None;
        }
        by_value.insert(value, branch);
    }
    tag.map(|tag| (tag, by_value))
}

/// A key as faults show it: one that does not look like a key may be a value that went astray.
pub(super) fn shown(key: &str) -> &str {
    let is_plain = !key.is_empty() && key.len() <= 63 && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_plain { key } else { "…" }
}

/// The known key that a wrong one was meant to be: at most two letters differ.
pub(super) fn nearest<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if key.len() > 64 {
        return None;
    }
    let fold = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], "");
    let wrong = fold(key);
    let near = known.map(|known| (distance(&wrong, &fold(known)), known)).filter(|(distance, _)| *distance <= 2);
    near.filter(|(distance, known)| distance * 3 <= known.len()).min().map(|(_, known)| known)
}

/// How many letters must be changed, added or left out (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(b.chars()) {
            let best = (diagonal + usize::from(from != to)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
