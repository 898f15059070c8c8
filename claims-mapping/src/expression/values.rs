//! Claims as CEL values.

use std::collections::HashMap;

use cel::common::{
    types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt},
    value::Val,
};
use serde_json::{Number, Value};

/// A JSON value as a CEL one; text is borrowed. A number without a fraction is an `int` (Kubernetes makes every number a `double`, in
/// which large ids are no longer apart).
pub(super) fn from_json(value: &Value) -> Box<dyn Val + '_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(truth) => Box::new(CelBool::from(*truth)),
        Value::Number(number) => from_number(number),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => from_items(items.iter().map(from_json)),
        Value::Object(object) => from_entries(object.iter().map(|(key, value)| (key.as_str(), from_json(value)))),
    }
}

fn from_number<'v>(number: &Number) -> Box<dyn Val + 'v> {
    if let Some(int) = number.as_i64() {
        Box::new(CelInt::from(int))
    } else if let Some(uint) = number.as_u64() {
        Box::new(CelUInt::from(uint))
    } else {
        Box::new(CelDouble::from(number.as_f64().unwrap_or_default()))
    }
}

pub(super) fn from_text<'v>(text: &'v str) -> Box<dyn Val + 'v> {
    Box::new(CelString::from(text))
}

pub(super) fn from_items<'v>(items: impl Iterator<Item = Box<dyn Val + 'v>>) -> Box<dyn Val + 'v> {
    Box::new(CelList::from(items.collect::<Vec<_>>()))
}

pub(super) fn from_entries<'v>(entries: impl Iterator<Item = (&'v str, Box<dyn Val + 'v>)>) -> Box<dyn Val + 'v> {
    let entries: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> =
        entries.map(|(key, value)| (CelMapKey::String(CelString::from(key)), value)).collect();
    Box::new(CelMap::from(entries))
}
