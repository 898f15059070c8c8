//! Holds the tree against the schema and gives it back as JSON: every unknown key, missing key, wrong kind and unreadable
//! name in one go. What is faulty is left out of the result, so that the checks that follow can go on with the rest.

use std::{collections::HashMap, path::Path, rc::Rc};

use claims_mapping::{ConnectorId, TenantId, TenantLabel};
use serde_json::{Map, Value};
use url::Url;

use super::{
    faults::Place,
    places::{Places, join},
    schema::{Form, Kind, Resolved, Shape, Tag, kinds, nearest, shown},
    tree::{Node, Tree},
};

/// A walk through one tree.
pub(super) struct Walk<'a> {
    /// The whole schema.
    schema: &'a Value,
    /// The folder that relative paths begin at.
    folder: &'a Path,
    places: &'a mut Places,
    /// The parts of the schema that were met so far, by where they are in memory.
    forms: HashMap<*const Value, Rc<Form<'a>>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(schema: &'a Value, folder: &'a Path, places: &'a mut Places) -> Self {
        Self { schema, folder, places, forms: HashMap::new() }
    }

    fn form(&mut self, schema: &'a Value) -> Rc<Form<'a>> {
        let root = self.schema;
        Rc::clone(self.forms.entry(std::ptr::from_ref(schema)).or_insert_with(|| Rc::new(Form::of(root, schema))))
    }

    /// The value, where nothing is wrong with it. An object stays without its faulty parts, and so does a list of the first
    /// level, where `null` stands for them.
    pub(super) fn value(&mut self, tree: &Tree, schema: &'a Value, path: &str) -> Option<Value> {
        self.places.insert(path, tree.place);
        let form = self.form(schema);
        let Resolved { schema, name } = form.resolved;
        if matches!(tree.node, Node::Broken) {
            return None;
        }
        if let Some(branches) = form.any_of {
            return self.any_of(tree, branches, form.is_choice, path);
        }
        if let Some(choices) = &form.choices {
            return match &tree.node {
                Node::Text(text, _) if choices.contains(&text.as_str()) => Some(Value::String(text.clone())),
                _ => self.refuse(path, format!("it must be {}", alternatives(choices.iter().map(|choice| format!("`{choice}`"))))),
            };
        }
        let kinds = &form.kinds;
        // An empty schema takes anything; no type of ours has one.
        let Some(kind) = kinds.iter().copied().find(|kind| tree.node.may_be(*kind)) else {
            let quotes = kinds.contains(&Kind::Text) && matches!(tree.node, Node::Number(_) | Node::Boolean(_));
            let hint = if quotes { "; put it in quotes" } else { "" };
            let words = kinds.iter().filter(|kind| **kind != Kind::Null).map(|kind| kind.in_words().to_owned());
            return self.refuse(path, format!("it must be {}{hint}", alternatives(words)));
        };
        match (&tree.node, kind) {
            (Node::Boolean(value), _) => Some(Value::Bool(*value)),
            (Node::Text(text, _), Kind::Boolean) => text.parse().ok().map(Value::Bool),
            (Node::Text(text, _), Kind::Integer) => {
                let number = text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from));
                number.ok().and_then(|number| self.number(number, schema, path))
            }
            (Node::Text(text, _), Kind::Number) => text.parse::<f64>().ok().map(Value::from),
            (Node::Text(text, _), _) => self.text(text, schema, name, path),
            (Node::Number(number), _) => self.number(Value::Number(number.clone()), schema, path),
            (Node::List(list), _) => self.list(list, schema, path),
            (Node::Map(map), _) => self.map(map, &form, path),
            (Node::Null | Node::Broken, _) => Some(Value::Null),
        }
    }

    fn refuse(&mut self, path: &str, message: impl Into<String>) -> Option<Value> {
        self.places.fault(path, message);
        None
    }

    fn any_of(&mut self, tree: &Tree, branches: &'a [Value], is_choice: bool, path: &str) -> Option<Value> {
        for branch in branches {
            let form = self.form(branch);
            let accepts = match (form.any_of, &form.choices, &tree.node) {
                (Some(inner), _, node) => !matches!(node, Node::Null) && !inner.is_empty(),
                (None, Some(choices), Node::Text(text, _)) => choices.contains(&text.as_str()),
                (None, Some(_), _) => false,
                (None, None, Node::Map(map)) if is_choice => {
                    form.choice_key().is_some_and(|key| map.iter().any(|(_, given, _)| given == key))
                }
                (None, None, node) => form.kinds.iter().any(|kind| node.may_be(*kind)),
            };
            if accepts {
                return self.value(tree, branch, path);
            }
        }
        let given: Vec<&'a Value> = branches.iter().filter(|branch| !kinds(branch).contains(&Kind::Null)).collect();
        if let [only] = given.as_slice() {
            return self.value(tree, only, path);
        }
        let words = given.into_iter().flat_map(|branch| {
            let form = self.form(branch);
            match &form.choices {
                Some(choices) => choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>(),
                None if is_choice => form.choice_key().into_iter().map(|key| format!("the key `{key}`")).collect(),
                None => form.kinds.iter().map(|kind| kind.in_words().to_owned()).collect(),
            }
        });
        let message = format!("it must be {}", alternatives(words));
        self.refuse(path, message)
    }

    fn number(&mut self, number: Value, schema: &Value, path: &str) -> Option<Value> {
        let least = schema.get("minimum").and_then(Value::as_i64);
        let most = match schema.get("format").and_then(Value::as_str) {
            Some("uint32") => u64::from(u32::MAX),
            Some("uint16") => u64::from(u16::MAX),
            Some("uint8") => u64::from(u8::MAX),
            _ => u64::MAX,
        };
        if let Some(least) = least.filter(|least| number.as_i64().is_some_and(|number| number < *least)) {
            return self.refuse(path, format!("it must be at least {least}"));
        }
        if number.as_u64().is_some_and(|number| number > most) {
            return self.refuse(path, format!("it must be at most {most}"));
        }
        Some(number)
    }

    fn text(&mut self, text: &str, schema: &Value, name: &str, path: &str) -> Option<Value> {
        if name == "ConfiguredSecret" {
            self.places.secrets.push(text.to_owned());
        }
        match unreadable(text, schema, name) {
            Some(message) => self.refuse(path, message),
            None => Some(Value::String(text.to_owned())),
        }
    }

    fn list(&mut self, list: &[Tree], schema: &'a Value, path: &str) -> Option<Value> {
        let items = schema.get("items").unwrap_or(const { &Value::Null });
        let values: Vec<_> =
            list.iter().enumerate().map(|(index, element)| self.value(element, items, &format!("{path}[{index}]"))).collect();
        if path.contains(['.', '[']) {
            values.into_iter().collect::<Option<_>>().map(Value::Array)
        } else {
            Some(values.into_iter().map(Option::unwrap_or_default).collect())
        }
    }

    fn map(&mut self, map: &[(Place, String, Tree)], form: &Form<'a>, path: &str) -> Option<Value> {
        let mut shape = &form.shape;
        let mut is_closed = true;
        if let Some(Tag { name, shapes }) = &form.tag {
            let given = map.iter().find(|(_, key, _)| key == name).map(|(_, _, value)| value);
            let selected = given.and_then(|value| if let Node::Text(text, _) = &value.node { shapes.get(text.as_str()) } else { None });
            if let Some(selected) = selected {
                shape = selected;
            } else {
                is_closed = false;
                let choices = alternatives(shapes.keys().map(|choice| format!("`{choice}`")));
                if let Some(value) = given {
                    self.places.insert(&join(path, name), value.place);
                    self.places.fault(join(path, name), format!("it must be {choices}"));
                } else {
                    self.places.fault(path, format!("`{name}` is missing: {choices}"));
                }
            }
        }
        let mut object = Map::new();
        for (place, key, value) in map {
            let here = join(path, shown(key));
            let known = shape.properties.get(key.as_str()).copied();
            let Some(schema) = known.or(shape.others) else {
                self.places.insert(&here, *place);
                if is_closed {
                    self.unknown(key, &here, shape);
                }
                continue;
            };
            if let Some(names) = shape.names.filter(|_| known.is_none()) {
                let Resolved { schema, name } = self.form(names).resolved;
                if let Some(message) = unreadable(key, schema, name) {
                    self.places.insert(&here, *place);
                    self.places.fault(here, message);
                    continue;
                }
            }
            if let Some(mut value) = self.value(value, schema, &here) {
                if known.is_some() {
                    self.resolve_path(key, &mut value);
                }
                object.insert(key.clone(), value);
            }
        }
        for key in &shape.required {
            if !map.iter().any(|(_, given, _)| given == key) && form.tag.as_ref().is_none_or(|tag| tag.name != *key) {
                self.places.fault(path, format!("`{key}` is missing"));
            }
        }
        Some(Value::Object(object))
    }

    fn unknown(&mut self, key: &str, path: &str, shape: &Shape<'_>) {
        let hint = match nearest(key, shape.properties.keys().copied()) {
            Some(near) => format!("is it `{near}`?"),
            None => format!("known here are {}", shape.properties.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")),
        };
        self.places.fault(path, format!("unknown key; {hint}"));
    }

    /// Relative paths of files begin at the folder of the configuration. Which keys name files, their names say.
    fn resolve_path(&self, key: &str, value: &mut Value) {
        let is_file = key == "file" || key == "path" || key.ends_with("File") || key == "authenticationConfiguration";
        match value {
            Value::String(text) if is_file && !text.is_empty() => *text = self.folder.join(&*text).to_string_lossy().into_owned(),
            Value::Array(list) if key.ends_with("Files") => {
                let texts = list.iter_mut().filter_map(|value| if let Value::String(text) = value { Some(text) } else { None });
                texts.for_each(|text| *text = self.folder.join(&*text).to_string_lossy().into_owned());
            }
            _ => {}
        }
    }
}

/// Why a text is not what its type wants, without the text.
fn unreadable(text: &str, schema: &Value, name: &str) -> Option<String> {
    let id = match name {
        "TenantId" => TenantId::parse(text).err(),
        "TenantLabel" => TenantLabel::parse(text).err(),
        "ConnectorId" => ConnectorId::parse(text).err(),
        _ => None,
    };
    if let Some(error) = id {
        return Some(error.to_string());
    }
    match schema.get("format").and_then(Value::as_str) {
        Some("uri") if Url::parse(text).is_err() => Some("it must be an address with its scheme, as `https://id.example`".to_owned()),
        Some("socket-address") if text.parse::<std::net::SocketAddr>().is_err() => {
            Some("it must be an IP address and a port, as `127.0.0.1:5556` or `[::]:5556`".to_owned())
        }
        _ => None,
    }
}

fn alternatives(words: impl Iterator<Item = String>) -> String {
    let words: Vec<_> = words.collect();
    match words.as_slice() {
        [] => "something else".to_owned(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
