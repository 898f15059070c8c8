//! CEL, bounded when it is loaded: what may be written, and what an admitted expression may cost.
//!
//! The crate `cel` parses and evaluates; it has no budget of its own. So an expression is admitted in two steps, once, when the
//! configuration is read: [`admit`] refuses what is too long, too deep or not on the list of functions, and [`meter`] rewrites the
//! tree so that every operation whose work grows with the claims pays for it first. One [`budget::Budget`] pays for all expressions
//! of a mapping and one person.

mod admit;
mod budget;
mod evaluate;
mod functions;
mod meter;
mod pattern;
mod values;

pub(crate) use admit::{Names, Root};
pub(crate) use evaluate::{Scope, UserView, Worth};
pub(crate) use pattern::{Pattern, Patterns};

use cel::{IdedExpr, parser::Parser};

/// What an expression and its claims may be, at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Characters of the source.
    pub source: usize,
    /// Levels of the parsed tree, macros expanded.
    pub depth: usize,
    /// Nodes of the parsed tree, macros expanded.
    pub nodes: usize,
    /// Elements of one list or map literal.
    pub elements: usize,
    /// Macros that loop (`all`, `exists`, `map`, ...) within one another.
    pub nested_loops: usize,
    /// Characters of a pattern of `matches`.
    pub pattern: usize,
    /// Units of work that all expressions of a mapping may do together for one person. A unit is about one byte that is copied or
    /// compared; a value is 16 besides its bytes, and so is one step of the evaluation.
    pub work: i64,
}

/// The bounds in force.
pub const LIMITS: Limits = Limits { source: 1024, depth: 32, nodes: 400, elements: 64, nested_loops: 2, pattern: 128, work: 2_000_000 };

/// Why an expression is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpressionFault(pub String);

impl ExpressionFault {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// What an expression is evaluated to; what its place in the mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Number,
    String,
    List,
    Map,
    Null,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bool => "a bool",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Null => "null",
        })
    }
}

/// An admitted expression, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Expression {
    source: String,
    tree: IdedExpr,
    /// What entering the expression costs, whatever the claims are.
    cost: i64,
    names: Names,
}

impl Expression {
    /// Parses, bounds and meters `source`. Parsing is deeply recursive: call it within [`on_deep_stack`].
    ///
    /// # Errors
    /// When the source is no CEL, is too large, or uses what is not available; or when it plainly gives none of `gives`.
    pub(crate) fn compile(source: &str, root: Root, gives: &[Kind], patterns: &mut Patterns) -> Result<Self, ExpressionFault> {
        if source.chars().take(LIMITS.source + 1).count() > LIMITS.source {
            return Err(ExpressionFault(format!("the expression is longer than {} characters", LIMITS.source)));
        }
        if source.trim().is_empty() {
            return Err(ExpressionFault::new("the expression is empty"));
        }
        let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(PARSER_DEPTH).error_recovery_limit(1);
        let tree = parser.parse(source).map_err(|faults| {
            let first = faults.errors.first();
            let message = first.map_or_else(String::new, |fault| format!(", line {} column {}: {}", fault.pos.0, fault.pos.1, fault.msg));
            ExpressionFault(format!("the expression is not CEL{message}"))
        })?;
        let names = admit::admit(&tree, root, gives)?;
        let tree = meter::metered(tree, patterns)?;
        Ok(Self { source: source.to_owned(), cost: meter::cost(&tree), tree, names })
    }

    /// The text as it was written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The claims and fields that it names.
    pub(crate) const fn names(&self) -> &Names {
        &self.names
    }
}

/// Brackets within brackets that the parser itself takes; [`LIMITS`]`.depth` is the bound that counts.
const PARSER_DEPTH: u16 = 40;
/// Bytes. The parser needs up to 20 KiB for a bracket, and more in a debug build.
const DEEP_STACK: usize = 32 * 1024 * 1024;

/// Runs `work` on a thread with a stack that no admitted length of source can overflow in the parser.
///
/// # Errors
/// When there is no thread to be had, or the parser panicked.
pub(crate) fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ExpressionFault> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cel-parser".to_owned()).stack_size(DEEP_STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| ExpressionFault(format!("no thread to parse expressions on: {error}")))?;
        thread.join().map_err(|_| ExpressionFault::new("the CEL parser failed on one of the expressions"))
    })
}

#[cfg(test)]
mod tests;
