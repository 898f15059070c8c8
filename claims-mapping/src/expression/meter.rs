//! What an admitted expression pays: the tree is rewritten so that every operation pays before it works.
//!
//! `cel` evaluates without a budget, but a tree may call functions of ours. So what an operation works on is wrapped:
//! `a + b` becomes `@charge(a) + @charge(b)`, an element of a list literal becomes `@own(a)`, an index `@key(i)`, and a loop runs
//! over `@loop(range, price of one turn)`. Each of these hands on its argument uncopied, having paid for its size. What is left unwrapped does
//! work that does not grow with the claims; it is paid for by the number of nodes, before the expression and before each loop.

use cel::{
    IdedExpr,
    common::{
        ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, operators},
        types::{CelInt, CelString},
    },
};

use super::{
    ExpressionFault, Pattern, Patterns,
    admit::{gives_bool, is_sets, literal_text, unescaped},
    budget::NODE,
    functions::{self, Function},
};

/// # Errors
/// When a pattern is no regular expression or too large.
pub(super) fn metered(tree: IdedExpr, patterns: &mut Patterns) -> Result<IdedExpr, ExpressionFault> {
    // What comes out is copied.
    Ok(charged(Meter { patterns }.node(tree)?, 1))
}

/// What it costs to walk through a tree once; each further turn of a loop pays for itself.
pub(super) fn cost(tree: &IdedExpr) -> i64 {
    nodes(tree).saturating_mul(NODE)
}

/// The nodes of a tree, a literal text being one more for each 16 bytes.
fn nodes(tree: &IdedExpr) -> i64 {
    let sum = |parts: &[&IdedExpr]| parts.iter().map(|part| nodes(part)).sum::<i64>();
    1 + match &tree.expr {
        Expr::Literal(LiteralValue::String(text)) => i64::try_from(text.inner().len()).unwrap_or(i64::MAX) / NODE,
        Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) | Expr::Unspecified => 0,
        Expr::Select(select) => nodes(&select.operand),
        Expr::Call(call) => call.target.iter().map(|target| nodes(target)).sum::<i64>() + call.args.iter().map(nodes).sum::<i64>(),
        Expr::List(list) => list.elements.iter().map(nodes).sum(),
        Expr::Map(map) => map
            .entries
            .iter()
            .map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => sum(&[&entry.key, &entry.value]),
                EntryExpr::StructField(field) => nodes(&field.value),
            })
            .sum(),
        Expr::Comprehension(loops) => sum(&[&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result]),
    }
}

struct Meter<'p> {
    patterns: &'p mut Patterns,
}

type Metered = Result<IdedExpr, ExpressionFault>;

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn integer(value: i64) -> IdedExpr {
    node(Expr::Literal(LiteralValue::Int(CelInt::from(value))))
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

/// Whether an operand's size can not grow with the claims, or was paid for while it was made.
fn is_paid(operand: &IdedExpr) -> bool {
    match &operand.expr {
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => true,
        Expr::Ident(name) => name.starts_with('@'),
        Expr::Call(call) => gives_bool(&call.func_name) || matches!(call.func_name.as_str(), "size" | "@charge" | "@matches" | "@in_list"),
        Expr::Select(select) => select.test,
        Expr::Comprehension(loops) => !matches!(loops.accu_init.expr, Expr::List(_)),
        Expr::Struct(_) | Expr::Unspecified => false,
    }
}

fn charged(operand: IdedExpr, price: i64) -> IdedExpr {
    if price == 1 {
        if is_paid(&operand) { operand } else { call("@charge", vec![operand]) }
    } else if matches!(operand.expr, Expr::Literal(_)) {
        operand
    } else {
        call("@charge", vec![operand, integer(price)])
    }
}

fn owned(element: IdedExpr) -> IdedExpr {
    // What `@charge` wraps may be an optional, and so may what a call gives.
    let charge = matches!(&element.expr, Expr::Call(call) if call.func_name == "@charge");
    if is_paid(&element) && !charge { element } else { call("@own", vec![element]) }
}

impl Meter<'_> {
    fn node(&mut self, tree: IdedExpr) -> Metered {
        let IdedExpr { id, expr } = tree;
        let expr = match expr {
            Expr::Select(mut select) => {
                *select.operand = self.node(*select.operand)?;
                select.field = unescaped(&select.field);
                Expr::Select(select)
            }
            Expr::Call(call) => return self.call(id, call),
            Expr::List(list) => self.list(list)?,
            Expr::Map(map) => self.map(map)?,
            Expr::Comprehension(loops) => Expr::Comprehension(Box::new(self.comprehension(*loops)?)),
            Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) | Expr::Unspecified => expr,
        };
        Ok(IdedExpr { id, expr })
    }

    fn all(&mut self, nodes: Vec<IdedExpr>) -> Result<Vec<IdedExpr>, ExpressionFault> {
        nodes.into_iter().map(|node| self.node(node)).collect()
    }

    fn list(&mut self, list: ListExpr) -> Result<Expr, ExpressionFault> {
        let mut elements = Vec::with_capacity(list.elements.len());
        for (index, element) in self.all(list.elements)?.into_iter().enumerate() {
            let optional = list.optional_indices.contains(&index);
            elements.push(if optional { charged(element, 1) } else { owned(element) });
        }
        Ok(Expr::List(ListExpr::new_with_optionals(elements, list.optional_indices)))
    }

    fn map(&mut self, map: MapExpr) -> Result<Expr, ExpressionFault> {
        let mut entries = Vec::with_capacity(map.entries.len());
        for mut entry in map.entries {
            if let EntryExpr::MapEntry(pair) = &mut entry.expr {
                pair.key = owned(self.node(std::mem::take(&mut pair.key))?);
                let value = self.node(std::mem::take(&mut pair.value))?;
                pair.value = if pair.optional { charged(value, 1) } else { owned(value) };
            }
            entries.push(entry);
        }
        Ok(Expr::Map(MapExpr { entries }))
    }

    fn comprehension(&mut self, mut loops: ComprehensionExpr) -> Result<ComprehensionExpr, ExpressionFault> {
        loops.iter_range = self.node(loops.iter_range)?;
        // The step of a macro, `@result + [x]` say, keeps its form: `cel` then appends in place.
        loops.loop_step = self.node(loops.loop_step)?;
        // Two more, for the element that is bound and for the result of the step.
        let turn = (nodes(&loops.loop_cond) + nodes(&loops.loop_step) + 2).saturating_mul(NODE);
        loops.iter_range = call("@loop", vec![loops.iter_range, integer(turn)]);
        Ok(loops)
    }

    fn call(&mut self, id: u64, called: CallExpr) -> Metered {
        let CallExpr { func_name, target, args } = called;
        let mut args = self.all(args)?;
        let rebuilt = |args| IdedExpr { id, expr: Expr::Call(CallExpr { func_name: func_name.clone(), target: None, args }) };
        match func_name.as_str() {
            operators::CONDITIONAL
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NEGATE
            | operators::NOT_STRICTLY_FALSE => Ok(rebuilt(args)),
            operators::IN => Ok(call("@in_list", args)),
            operators::INDEX => {
                if let Some(index) = args.get_mut(1) {
                    keyed(index);
                }
                Ok(rebuilt(args))
            }
            operators::OPT_INDEX | operators::OPT_SELECT => {
                // `cel` copies what it finds here before anyone can pay for it: so nothing is looked for when all is spent.
                if let [operand, index] = args.as_mut_slice() {
                    let wrapped = std::mem::take(operand);
                    let paid = matches!(&wrapped.expr, Expr::Call(call) if call.func_name == "@charge");
                    *operand = if paid { wrapped } else { call("@tick", vec![wrapped]) };
                    if func_name == operators::OPT_SELECT {
                        let name = unescaped(literal_text(index).unwrap_or_default());
                        index.expr = Expr::Literal(LiteralValue::String(CelString::from(name)));
                    } else {
                        keyed(index);
                    }
                }
                Ok(call("@charge", vec![rebuilt(args)]))
            }
            name if functions::find(name).is_some() || target.is_some() => self.function(id, &func_name, target, args),
            _ => Ok(rebuilt(args.into_iter().map(|argument| charged(argument, 1)).collect())),
        }
    }

    fn function(&mut self, id: u64, name: &str, target: Option<Box<IdedExpr>>, args: Vec<IdedExpr>) -> Metered {
        let (function, target) = match target {
            Some(target) if is_sets(&target) => (functions::find(&format!("sets.{name}")), None),
            Some(target) => (functions::find(name), Some(self.node(*target)?)),
            None => (functions::find(name), None),
        };
        let Some(&Function { price, own, .. }) = function else {
            return Err(ExpressionFault(format!("function `{name}` is not available")));
        };
        let Some(own) = own else {
            return Ok(IdedExpr {
                id,
                expr: Expr::Call(CallExpr {
                    func_name: name.to_owned(),
                    target: target.map(|target| Box::new(charged(target, price))),
                    args: args.into_iter().map(|argument| charged(argument, price)).collect(),
                }),
            });
        };
        let mut all: Vec<_> = target.into_iter().chain(args).map(|argument| charged(argument, price)).collect();
        if own == "@matches"
            && let Some(pattern) = all.get_mut(1)
        {
            let compiled = Pattern::compile(literal_text(pattern).unwrap_or_default())?;
            *pattern = integer(i64::try_from(self.patterns.len()).unwrap_or(i64::MAX));
            self.patterns.push(compiled);
        }
        Ok(call(own, all))
    }
}

fn keyed(index: &mut IdedExpr) {
    if !matches!(index.expr, Expr::Literal(_)) {
        *index = call("@key", vec![std::mem::take(index)]);
    }
}
