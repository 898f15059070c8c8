//! Evaluating an admitted expression: the context, built once per person, and what comes out.

use std::{collections::BTreeMap, sync::Arc};

use cel::{Context, ExecutionError, common::value::Val};
use serde_json::Value;

use super::{Expression, Names, Pattern, Root, budget::Budget, functions, values};
use crate::Claims;

/// The variable that expressions see, and the work that they may still do together.
pub(crate) struct Scope<'v> {
    context: Context<'v, 'v>,
    budget: Budget,
}

/// What an expression gave.
pub(crate) struct Worth(cel::Value);

impl<'v> Scope<'v> {
    /// `claims`, as far as `names` says that anyone asks for them.
    pub(crate) fn of_claims(claims: &'v Claims, names: Option<&Names>, patterns: &Arc<[Pattern]>) -> Self {
        let wanted = |name: &str| names.is_some_and(|names| names.whole || names.fields.contains(name));
        let entries =
            claims.as_map().iter().filter(|(name, _)| wanted(name)).map(|(name, value)| (name.as_str(), values::from_json(value)));
        Self::of(Root::Claims, values::from_entries(entries), Budget::full(), patterns)
    }

    /// `user`, with what the expressions over claims have left over.
    pub(crate) fn of_user(user: &UserView<'v>, after: Option<&Scope<'_>>, patterns: &Arc<[Pattern]>) -> Self {
        let budget = after.map_or_else(Budget::full, |after| after.budget.clone());
        Self::of(Root::User, user.as_value(), budget, patterns)
    }

    fn of(root: Root, value: Box<dyn Val + 'v>, budget: Budget, patterns: &Arc<[Pattern]>) -> Self {
        let mut context = Context::with_env(functions::environment());
        functions::register(&mut context, &budget, patterns);
        context.add_variable_as_val(root.name(), value);
        Self { context, budget }
    }

    /// # Errors
    /// Why there is no value, without any value of the claims in the text.
    pub(crate) fn evaluate(&self, expression: &Expression) -> Result<Worth, String> {
        // Not `resolve_val`, which would be inlined into this crate, and in a debug build recurse with frames of 50 KiB.
        let outcome = self.budget.pay(expression.cost).and_then(|()| self.context.resolve(&expression.tree));
        // A spent budget is a refusal even where an operator has swallowed it.
        if self.budget.spent() {
            return Err("the expressions do more work on these claims than they may".to_owned());
        }
        outcome.map(Worth).map_err(|error| reason(&error, expression.names()))
    }
}

/// What `user` shows to a rule.
pub(crate) struct UserView<'u> {
    pub(crate) username: &'u str,
    pub(crate) uid: &'u str,
    pub(crate) groups: &'u [String],
    pub(crate) extra: &'u BTreeMap<String, Vec<String>>,
}

impl<'u> UserView<'u> {
    fn as_value(&self) -> Box<dyn Val + 'u> {
        let texts = |texts: &'u [String]| values::from_items(texts.iter().map(|text| values::from_text(text)));
        let extra = values::from_entries(self.extra.iter().map(|(key, items)| (key.as_str(), texts(items))));
        values::from_entries(
            [
                ("username", values::from_text(self.username)),
                ("uid", values::from_text(self.uid)),
                ("groups", texts(self.groups)),
                ("extra", extra),
            ]
            .into_iter(),
        )
    }
}

impl UserView<'_> {
    /// What of the user an expression names, as JSON for people.
    pub(crate) fn shown(&self, names: &Names) -> serde_json::Map<String, Value> {
        let all = [
            ("username", Value::from(self.username)),
            ("uid", Value::from(self.uid)),
            ("groups", self.groups.into()),
            ("extra", self.extra.iter().map(|(key, items)| (key.clone(), Value::from(items.as_slice()))).collect()),
        ];
        let named = all.into_iter().filter(|(field, _)| names.whole || names.fields.contains(*field));
        named.map(|(field, value)| (format!("user.{field}"), value)).collect()
    }
}

impl Worth {
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.0 {
            cel::Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        text(&self.0)
    }

    /// A whole number of 64 bits.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self.0 {
            cel::Value::Int(number) => Some(number),
            cel::Value::UInt(number) => i64::try_from(number).ok(),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.0, cel::Value::Null)
    }

    /// A string, a list of strings, or null: as a list, with empty items as they are.
    pub(crate) fn as_texts(&self) -> Option<Vec<String>> {
        match &self.0 {
            cel::Value::String(text) => Some(vec![text.as_ref().clone()]),
            cel::Value::Null => Some(Vec::new()),
            cel::Value::List(items) => items.iter().map(|item| text(item).map(ToOwned::to_owned)).collect(),
            _ => None,
        }
    }
}

fn text(value: &cel::Value) -> Option<&str> {
    match value {
        cel::Value::String(text) => Some(text.as_str()),
        _ => None,
    }
}

/// An error's text for operators. `cel`'s own texts quote values; here only types are told, and keys that stand in the expression.
fn reason(error: &ExecutionError, names: &Names) -> String {
    match error {
        ExecutionError::NoSuchKey(key) if names.written.contains(key.as_str()) => format!("there is no key `{key}`"),
        ExecutionError::NoSuchKey(_) => "there is no such key".to_owned(),
        ExecutionError::NoSuchOverload(error) => error.to_string(),
        ExecutionError::UnexpectedType { want, .. } => format!("a value has the wrong type; wanted is {want}"),
        ExecutionError::UnsupportedBinaryOperator(operator, ..) => format!("the types on both sides of `{operator}` do not fit"),
        ExecutionError::FunctionError { function, .. } => format!("the function `{function}` failed"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "a division by zero".to_owned(),
        ExecutionError::Overflow(..) => "a number is too large".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "an index is out of bounds".to_owned(),
        ExecutionError::DuplicateKey(_) => "a map has a key twice".to_owned(),
        _ => "the types of its values do not fit".to_owned(),
    }
}
