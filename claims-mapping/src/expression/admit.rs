//! What may be written: the walk over a parsed expression that refuses what is too deep, too large or not available, and notes
//! which claims it names.

use std::collections::BTreeSet;

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators},
};

use super::{
    ExpressionFault, Kind, LIMITS,
    functions::{self, MACROS, Style},
};

/// The variable that an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// `claims`, what the upstream said.
    Claims,
    /// `user`, what came out of the mapping.
    User,
}

impl Root {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::User => "user",
        }
    }
}

/// The fields of `user`.
const USER_FIELDS: [&str; 4] = ["extra", "groups", "uid", "username"];

/// What an expression names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Whether the root is used as a whole, or by a name that is not known before it is evaluated.
    pub(crate) whole: bool,
    /// The fields of the root that are used: top-level claims.
    pub(crate) fields: BTreeSet<String>,
    /// Every name and text that stands in the expression: an error may tell a key that is one of them.
    pub(crate) written: BTreeSet<String>,
}

impl Names {
    /// Adds what `other` names of the root.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.whole |= other.whole;
        self.fields.extend(other.fields.iter().cloned());
    }
}

/// `name` without Kubernetes' escapes for what CEL does not allow in a name (KEP-2876): `__dot__`, `__dash__`, `__slash__`,
/// `__underscores__`, and `__in__`-like ones for reserved words. A claim that is really called `a__dot__b` is `claims["a__dot__b"]`.
pub(super) fn unescaped(name: &str) -> String {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    const ESCAPES: [(&str, &str); 4] = [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    if let Some(word) = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return word.to_owned();
    }
    let (mut plain, mut rest) = (String::with_capacity(name.len()), name);
    while !rest.is_empty() {
        if let Some((after, meant)) = ESCAPES.iter().find_map(|(escape, meant)| rest.strip_prefix(escape).map(|after| (after, meant))) {
            plain.push_str(meant);
            rest = after;
        } else {
            let mut characters = rest.chars();
            plain.extend(characters.next());
            rest = characters.as_str();
        }
    }
    plain
}

/// # Errors
/// The first thing that is not allowed.
pub(super) fn admit(tree: &IdedExpr, root: Root, gives: &[Kind]) -> Result<Names, ExpressionFault> {
    let mut walk = Walk { root, names: Names::default(), nodes: 0, variables: Vec::new() };
    walk.visit(tree, 1)?;
    if let Some(kind) = evident(tree)
        && !gives.contains(&kind)
    {
        let wanted: Vec<_> = gives.iter().map(ToString::to_string).collect();
        return Err(ExpressionFault(format!("the expression gives {kind}; here it must give {}", wanted.join(" or "))));
    }
    Ok(walk.names)
}

struct Walk {
    root: Root,
    names: Names,
    nodes: usize,
    /// The variables of the loops around, innermost last.
    variables: Vec<String>,
}

type Walked = Result<(), ExpressionFault>;

impl Walk {
    fn visit(&mut self, node: &IdedExpr, depth: usize) -> Walked {
        self.nodes += 1;
        if depth > LIMITS.depth {
            return Err(ExpressionFault(format!("the expression nests deeper than {} levels", LIMITS.depth)));
        }
        if self.nodes > LIMITS.nodes {
            return Err(ExpressionFault(format!("the expression has more than {} parts", LIMITS.nodes)));
        }
        match &node.expr {
            Expr::Literal(literal) => {
                if let LiteralValue::String(text) = literal {
                    self.names.written.insert(text.inner().to_owned());
                }
                Ok(())
            }
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                self.field(&select.operand, Some(&unescaped(&select.field)))?;
                self.visit_operand(&select.operand, depth)
            }
            Expr::Call(call) => self.call(call, depth),
            Expr::List(list) => {
                self.literal_size(list.elements.len())?;
                list.elements.iter().try_for_each(|element| self.visit(element, depth + 1))
            }
            Expr::Map(map) => {
                self.literal_size(map.entries.len())?;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(ExpressionFault::new("messages are not available"));
                    };
                    self.visit(&entry.key, depth + 1)?;
                    self.visit(&entry.value, depth + 1)?;
                }
                Ok(())
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
            Expr::Struct(_) => Err(ExpressionFault::new("messages are not available")),
            Expr::Unspecified => Err(ExpressionFault::new("the expression is not CEL")),
        }
    }

    fn literal_size(&self, elements: usize) -> Walked {
        if elements > LIMITS.elements {
            return Err(ExpressionFault(format!("a list or map has more than {} elements", LIMITS.elements)));
        }
        Ok(())
    }

    fn variable(&mut self, name: &str) -> Walked {
        if name == self.root.name() {
            self.names.whole = true;
            Ok(())
        } else if name.starts_with('@') || self.variables.iter().any(|variable| variable == name) {
            Ok(())
        } else {
            Err(ExpressionFault(format!("`{name}` is not known here; available is `{}`", self.root.name())))
        }
    }

    /// The left side of a dot or bracket: where that is the root itself, the field has been noted, and the root is not used whole.
    fn visit_operand(&mut self, operand: &IdedExpr, depth: usize) -> Walked {
        if self.is_root(operand) {
            self.nodes += 1;
            return Ok(());
        }
        self.visit(operand, depth + 1)
    }

    fn is_root(&self, node: &IdedExpr) -> bool {
        matches!(&node.expr, Expr::Ident(name) if name == self.root.name())
    }

    /// Notes a field, `None` being one that only the evaluation knows.
    fn field(&mut self, operand: &IdedExpr, field: Option<&str>) -> Walked {
        self.names.written.extend(field.map(ToOwned::to_owned));
        if !self.is_root(operand) {
            return Ok(());
        }
        match field {
            Some(field) if self.root == Root::User && !USER_FIELDS.contains(&field) => {
                Err(ExpressionFault(format!("`user` has no field `{field}`; it has {}", USER_FIELDS.join(", "))))
            }
            Some(field) => {
                self.names.fields.insert(field.to_owned());
                Ok(())
            }
            None => {
                self.names.whole = true;
                Ok(())
            }
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Walked {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::OPT_SELECT, [operand, field]) => {
                let name = literal_text(field).ok_or_else(|| ExpressionFault::new("a field must be a name"))?;
                self.field(operand, Some(&unescaped(name)))?;
                self.visit_operand(operand, depth)
            }
            (operators::INDEX | operators::OPT_INDEX, [operand, index]) => {
                if matches!(index.expr, Expr::Literal(LiteralValue::Double(_))) {
                    return Err(ExpressionFault::new("an index must be an int or a string"));
                }
                self.field(operand, literal_text(index))?;
                self.visit_operand(operand, depth)?;
                self.visit(index, depth + 1)
            }
            (name, arguments) if is_operator(name) => arguments.iter().try_for_each(|argument| self.visit(argument, depth + 1)),
            (_, arguments) => {
                self.function(call)?;
                if let Some(target) = call.target.as_deref().filter(|target| !self.is_sets(target)) {
                    self.visit(target, depth + 1)?;
                }
                arguments.iter().try_for_each(|argument| self.visit(argument, depth + 1))
            }
        }
    }

    fn is_sets(&self, target: &IdedExpr) -> bool {
        is_sets(target) && !self.variables.iter().any(|variable| variable == "sets")
    }

    fn function(&self, call: &CallExpr) -> Walked {
        let of_sets = call.target.as_deref().is_some_and(|target| self.is_sets(target));
        let name = if of_sets { format!("sets.{}", call.func_name) } else { call.func_name.clone() };
        let Some(function) = functions::find(&name) else {
            if MACROS.contains(&name.as_str()) {
                return Err(ExpressionFault(format!("`{name}` has other arguments than its macro: `list.{name}(x, …)`, `has(a.b)`")));
            }
            return Err(ExpressionFault(format!("function `{name}` is not available; available are {}", functions::available())));
        };
        let method = call.target.is_some() && !of_sets;
        if (method && function.style == Style::Global) || (!method && function.style == Style::Method) {
            let way = if method { "name(x)" } else { "x.name()" };
            return Err(ExpressionFault(format!("function `{name}` is called as {}", way.replace("name", &name))));
        }
        let given = call.args.len() + usize::from(method);
        if given < function.arguments.0 || given > function.arguments.1 {
            return Err(ExpressionFault(format!("function `{name}` is called with too many or too few arguments")));
        }
        if name == "matches" && call.args.last().and_then(literal_text).is_none() {
            return Err(ExpressionFault::new("the pattern of `matches` must be written out, so that it can be checked when it is loaded"));
        }
        Ok(())
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr, depth: usize) -> Walked {
        if loops.accu_var != "@result" || loops.iter_var2.is_some() {
            return Err(ExpressionFault::new("this macro is not available"));
        }
        if [Root::Claims.name(), Root::User.name(), "sets"].contains(&loops.iter_var.as_str()) {
            return Err(ExpressionFault(format!("`{}` can not be the name of a loop's variable", loops.iter_var)));
        }
        self.visit(&loops.iter_range, depth + 1)?;
        if self.variables.len() >= LIMITS.nested_loops {
            return Err(ExpressionFault(format!("more than {} loops (all, exists, map, …) are within one another", LIMITS.nested_loops)));
        }
        self.variables.push(loops.iter_var.clone());
        for part in [&loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result] {
            self.visit(part, depth + 1)?;
        }
        self.variables.pop();
        Ok(())
    }
}

pub(super) fn is_sets(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name) if name == "sets")
}

pub(super) fn literal_text(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Operators and what macros expand to have names that can not be written.
fn is_operator(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.trim_matches('_').starts_with(|first: char| first.is_ascii_alphanumeric())
        || name == operators::IN
        || name == operators::NOT_STRICTLY_FALSE
}

/// What an expression gives, where that is plain from its outermost part.
fn evident(tree: &IdedExpr) -> Option<Kind> {
    match &tree.expr {
        Expr::Literal(literal) => match literal {
            LiteralValue::Boolean(_) => Some(Kind::Bool),
            LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Some(Kind::Number),
            LiteralValue::String(_) => Some(Kind::String),
            LiteralValue::Null => Some(Kind::Null),
            LiteralValue::Bytes(_) => None,
        },
        Expr::List(_) => Some(Kind::List),
        Expr::Map(_) => Some(Kind::Map),
        Expr::Select(select) if select.test => Some(Kind::Bool),
        Expr::Comprehension(loops) => match &loops.accu_init.expr {
            Expr::List(_) => Some(Kind::List),
            _ => Some(Kind::Bool),
        },
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::ADD, [left, right]) => evident(left).or_else(|| evident(right)),
            (operators::CONDITIONAL, [_, left, right]) => evident(left).or_else(|| evident(right)),
            (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO | operators::NEGATE, _) => {
                Some(Kind::Number)
            }
            (name, _) if gives_bool(name) => Some(Kind::Bool),
            ("int" | "double" | "size", _) => Some(Kind::Number),
            ("string" | "join" | "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring", _) => Some(Kind::String),
            ("split", _) => Some(Kind::List),
            _ => None,
        },
        Expr::Ident(_) | Expr::Select(_) | Expr::Struct(_) | Expr::Unspecified => None,
    }
}

/// Calls whose result is a bool, so that no copy of it is worth a price.
pub(super) fn gives_bool(name: &str) -> bool {
    const BOOLS: [&str; 17] = [
        operators::LOGICAL_AND,
        operators::LOGICAL_OR,
        operators::LOGICAL_NOT,
        operators::EQUALS,
        operators::NOT_EQUALS,
        operators::GREATER,
        operators::GREATER_EQUALS,
        operators::LESS,
        operators::LESS_EQUALS,
        operators::IN,
        operators::NOT_STRICTLY_FALSE,
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "hasValue",
        "bool",
    ];
    BOOLS.contains(&name)
}
