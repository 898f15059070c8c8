//! The functions that an expression may call, and those that `cel` lacks or does without bound.

use std::sync::{Arc, LazyLock};

use cel::{
    Context, Env, ExecutionError, FunctionContext,
    common::{
        types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelOptional, CelString, CelUInt},
        value::{CowVal, Val},
    },
};

use super::{Pattern, budget::Budget, budget::NODE};

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `text.f(x)`
    Method,
    /// `f(text, x)`
    Global,
    /// Either.
    Both,
}

/// One function of CEL.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) style: Style,
    /// Arguments, at least and at most; the one before the dot counts.
    pub(super) arguments: (usize, usize),
    /// What a byte of each argument costs: how much work or memory it may come to.
    pub(super) price: i64,
    /// Our own function in its place, which pays by itself for what is more than proportional.
    pub(super) own: Option<&'static str>,
}

const fn function(name: &'static str, style: Style, least: usize, most: usize) -> Function {
    Function { name, style, arguments: (least, most), price: 1, own: None }
}

const fn priced(price: i64, function: Function) -> Function {
    Function { price, ..function }
}

const fn ours(own: &'static str, function: Function) -> Function {
    Function { own: Some(own), ..function }
}

/// To add one: a line here; where `cel`'s is missing or is more than proportional to its arguments, one in [`register`] too; and a
/// case of it in `examples/worst_expression.rs`.
pub(super) const FUNCTIONS: [Function; 23] = [
    function("bool", Style::Global, 1, 1),
    function("contains", Style::Method, 2, 2),
    function("double", Style::Global, 1, 1),
    function("endsWith", Style::Method, 2, 2),
    function("hasValue", Style::Method, 1, 1),
    function("int", Style::Global, 1, 1),
    ours("@join", function("join", Style::Method, 1, 2)),
    function("lowerAscii", Style::Method, 1, 1),
    ours("@matches", function("matches", Style::Both, 2, 2)),
    function("or", Style::Method, 2, 2),
    function("orValue", Style::Method, 2, 2),
    ours("@replace", function("replace", Style::Method, 3, 4)),
    ours("@sets.contains", function("sets.contains", Style::Global, 2, 2)),
    ours("@sets.equivalent", function("sets.equivalent", Style::Global, 2, 2)),
    ours("@sets.intersects", function("sets.intersects", Style::Global, 2, 2)),
    function("size", Style::Both, 1, 1),
    // One byte may become one value of a list.
    priced(NODE, function("split", Style::Method, 2, 3)),
    function("startsWith", Style::Method, 2, 2),
    function("string", Style::Global, 1, 1),
    priced(4, function("substring", Style::Method, 2, 3)),
    priced(2, function("trim", Style::Method, 1, 1)),
    function("upperAscii", Style::Method, 1, 1),
    function("value", Style::Method, 1, 1),
];

/// The macros, for messages; `cel` expands them while it parses.
pub(super) const MACROS: [&str; 7] = ["all", "exists", "exists_one", "existsOne", "filter", "has", "map"];

/// A function by its name; those of `sets` with it.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// All names that may be called.
pub(super) fn available() -> String {
    let mut names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).chain(MACROS).collect();
    names.sort_unstable();
    names.join(", ")
}

/// The standard library and the functions on strings, once for all contexts.
pub(super) fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut env = Env::stdlib();
        // It fails where a function is declared twice, which the tests of every function would show.
        let declared = env.add_extension(cel::extensions::strings);
        debug_assert!(declared.is_ok(), "{declared:?}");
        Arc::new(env)
    });
    Arc::clone(&ENVIRONMENT)
}

type Call<'b, 'v> = FunctionContext<'b, 'v>;
type Given<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;
type Boxed = Box<dyn for<'b, 'v> Fn(&mut Call<'b, 'v>) -> Given<'b, 'v> + Send + Sync>;

/// Adds what the metered tree calls.
pub(super) fn register(context: &mut Context<'_, '_>, budget: &Budget, patterns: &Arc<[Pattern]>) {
    let mut add = |name: &str, make: fn(Budget) -> Boxed| {
        let added = context.add_function(name, make(budget.clone()));
        debug_assert!(added.is_ok(), "{name}");
    };
    add("@tick", |budget| Box::new(move |call| budget.pay(NODE).and_then(|()| first(call))));
    add("@charge", |budget| {
        Box::new(move |call| {
            let price = call.args.get(1).and_then(|price| price.downcast_ref::<CelInt>()).map_or(1, |price| *price.inner());
            let value = first(call)?;
            budget.pay_for(value.as_ref(), price)?;
            Ok(value)
        })
    });
    add("@own", |budget| Box::new(move |call| own(call, &budget)));
    add("@key", |budget| Box::new(move |call| key(call, &budget)));
    add("@loop", |budget| Box::new(move |call| enter_loop(call, &budget)));
    add("@in_list", |budget| Box::new(move |call| is_in(call, &budget)));
    add("@join", |budget| Box::new(move |call| join(call, &budget)));
    add("@replace", |budget| Box::new(move |call| replace(call, &budget)));
    add("@sets.contains", |budget| Box::new(move |call| two_lists(call, |a, b| contains_all(a, b, &budget))));
    add("@sets.equivalent", |budget| {
        Box::new(move |call| two_lists(call, |a, b| Ok(contains_all(a, b, &budget)? && contains_all(b, a, &budget)?)))
    });
    add("@sets.intersects", |budget| Box::new(move |call| two_lists(call, |a, b| contains_any(a, b, &budget))));
    if !patterns.is_empty() {
        let (budget, patterns) = (budget.clone(), Arc::clone(patterns));
        let matches: Boxed = Box::new(move |call| matches(call, &budget, &patterns));
        let added = context.add_function("@matches", matches);
        debug_assert!(added.is_ok(), "@matches");
    }
}

fn first<'b, 'v>(call: &mut Call<'b, 'v>) -> Given<'b, 'v> {
    if call.args.is_empty() { Err(ExecutionError::missing_argument_or_target()) } else { Ok(call.args.swap_remove(0)) }
}

fn argument<'a, 'v>(call: &'a Call<'_, 'v>, index: usize) -> Result<&'a (dyn Val + 'v), ExecutionError> {
    call.args.get(index).map(CowVal::as_ref).ok_or_else(ExecutionError::missing_argument_or_target)
}

fn text<'a>(call: &'a Call<'_, '_>, index: usize) -> Result<&'a str, ExecutionError> {
    let value = argument(call, index)?;
    value.downcast_ref::<CelString>().map(CelString::inner).ok_or_else(|| wrong(value, "string"))
}

/// The types do not fit; the message holds no value.
fn wrong(value: &dyn Val, want: &str) -> ExecutionError {
    ExecutionError::UnexpectedType { got: value.get_type().name().to_owned(), want: want.to_owned() }
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A value that is about to be copied into a list or a map. Optionals may not be: selecting a field of one that a variable holds
/// would copy the field each time, unseen.
fn own<'b, 'v>(call: &mut Call<'b, 'v>, budget: &Budget) -> Given<'b, 'v> {
    let value = first(call)?;
    if value.downcast_ref::<CelOptional>().is_some() {
        return Err(wrong(value.as_ref(), "anything but an optional (use orValue())"));
    }
    budget.pay_for(value.as_ref(), 1)?;
    Ok(value)
}

/// An index. A fractional one would make `cel` copy the whole list into its error.
fn key<'b, 'v>(call: &mut Call<'b, 'v>, budget: &Budget) -> Given<'b, 'v> {
    let value = first(call)?;
    if value.downcast_ref::<CelDouble>().is_some() {
        return Err(wrong(value.as_ref(), "int or string (use int() on the index)"));
    }
    budget.pay_for(value.as_ref(), 1)?;
    Ok(value)
}

/// What a loop runs over, and the price of one turn: each element is copied once, and the steps of the body are taken for each.
fn enter_loop<'b, 'v>(call: &mut Call<'b, 'v>, budget: &Budget) -> Given<'b, 'v> {
    let turn = argument(call, 1)?.downcast_ref::<CelInt>().map_or(i64::MAX, |turn| *turn.inner());
    let range = first(call)?;
    let turns = if let Some(list) = range.downcast_ref::<CelList>() {
        list.inner().len()
    } else if let Some(map) = range.downcast_ref::<CelMap>() {
        map.inner().len()
    } else {
        return Err(wrong(range.as_ref(), "list or map"));
    };
    budget.pay(length(turns).saturating_mul(turn))?;
    budget.pay_for(range.as_ref(), 1)?;
    Ok(range)
}

fn join<'b, 'v>(call: &mut Call<'b, 'v>, budget: &Budget) -> Given<'b, 'v> {
    let separator = if call.args.len() > 1 { text(call, 1)? } else { "" };
    let list = list(argument(call, 0)?)?;
    let mut parts = Vec::with_capacity(list.len());
    for item in list {
        parts.push(item.downcast_ref::<CelString>().map(CelString::inner).ok_or_else(|| wrong(item.as_ref(), "list of strings"))?);
    }
    budget.pay(length(parts.len()).saturating_mul(length(separator.len())))?;
    Ok(CowVal::owned(CelString::from(parts.join(separator))))
}

fn replace<'b, 'v>(call: &mut Call<'b, 'v>, budget: &Budget) -> Given<'b, 'v> {
    let (source, from, to) = (text(call, 0)?, text(call, 1)?, text(call, 2)?);
    let most = match call.args.get(3) {
        // A negative count is "all of them", as in Go.
        Some(count) => usize::try_from(*count.downcast_ref::<CelInt>().ok_or_else(|| wrong(count.as_ref(), "int"))?.inner()).ok(),
        None => None,
    };
    let found = source.matches(from).take(most.unwrap_or(usize::MAX)).count();
    budget.pay(length(found).saturating_mul(length(to.len()) + 1))?;
    Ok(CowVal::owned(CelString::from(source.replacen(from, to, found))))
}

fn list<'a, 'v>(value: &'a (dyn Val + 'v)) -> Result<&'a [Box<dyn Val + 'v>], ExecutionError> {
    value.downcast_ref::<CelList>().map(CelList::inner).ok_or_else(|| wrong(value, "list"))
}

fn two_lists<'b, 'v>(call: &Call<'b, 'v>, answer: impl Fn(&dyn Val, &dyn Val) -> Result<bool, ExecutionError>) -> Given<'b, 'v> {
    let (a, b) = (argument(call, 0)?, argument(call, 1)?);
    Ok(CowVal::owned(CelBool::from(answer(a, b)?)))
}

/// Whether each element of `b` is one of `a`.
fn contains_all(a: &dyn Val, b: &dyn Val, budget: &Budget) -> Result<bool, ExecutionError> {
    let (a, weight) = (list(a)?, budget.pay_for(a, 1)?);
    for item in list(b)? {
        budget.pay(weight)?;
        if !has_item(a, item.as_ref(), budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains_any(a: &dyn Val, b: &dyn Val, budget: &Budget) -> Result<bool, ExecutionError> {
    let (a, weight) = (list(a)?, budget.pay_for(a, 1)?);
    for item in list(b)? {
        budget.pay(weight)?;
        if has_item(a, item.as_ref(), budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_in<'b, 'v>(call: &Call<'b, 'v>, budget: &Budget) -> Given<'b, 'v> {
    let (item, container) = (argument(call, 0)?, argument(call, 1)?);
    let found = match container.downcast_ref::<CelList>() {
        Some(list) => {
            budget.pay_for(container, 1)?;
            has_item(list.inner(), item, budget)?
        }
        None => {
            budget.pay_for(item, 1)?;
            let container = container.as_container().ok_or_else(|| wrong(container, "list or map"))?;
            container.contains(item)?
        }
    };
    Ok(CowVal::owned(CelBool::from(found)))
}

/// Whether `items`, for which the caller has paid, have this one. `cel` copies whatever it compares with a number and is none: that
/// is not done for a plain item, and paid for, once for each of `items`, where the item itself holds others.
fn has_item(items: &[Box<dyn Val + '_>], item: &dyn Val, budget: &Budget) -> Result<bool, ExecutionError> {
    let plain =
        item.downcast_ref::<CelList>().is_none() && item.downcast_ref::<CelMap>().is_none() && item.downcast_ref::<CelOptional>().is_none();
    budget.pay_for(item, if plain { 1 } else { length(items.len()) })?;
    let number = is_number(item);
    Ok(items.iter().any(|other| (!plain || is_number(other.as_ref()) == number) && other.equals(item)))
}

fn is_number(value: &dyn Val) -> bool {
    value.downcast_ref::<CelInt>().is_some() || value.downcast_ref::<CelDouble>().is_some() || value.downcast_ref::<CelUInt>().is_some()
}

fn matches<'b, 'v>(call: &Call<'b, 'v>, budget: &Budget, patterns: &[Pattern]) -> Given<'b, 'v> {
    let index = argument(call, 1)?.downcast_ref::<CelInt>().and_then(|index| usize::try_from(*index.inner()).ok());
    let pattern = index.and_then(|index| patterns.get(index)).ok_or_else(ExecutionError::missing_argument_or_target)?;
    let text = text(call, 0)?;
    budget.pay((length(text.len()) + NODE).saturating_mul(pattern.price))?;
    Ok(CowVal::owned(CelBool::from(pattern.regex.is_match(text))))
}
