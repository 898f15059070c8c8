//! The patterns of `matches`: compiled when loaded, bounded in size, each with its own price per byte.

use regex::{Regex, RegexBuilder};

use super::{ExpressionFault, LIMITS};

/// A compiled pattern, and what one byte of text costs with it.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(super) regex: Regex,
    pub(super) price: i64,
}

/// All patterns of a mapping; the tree of an expression names them by number.
pub(crate) type Patterns = Vec<Pattern>;

/// Bytes of a compiled pattern, and the price of a byte of text with one of at most that size. At its worst the engine visits each
/// state for each byte, so the price grows with the size.
const SIZES: [(usize, i64); 4] = [(2 * 1024, 8), (8 * 1024, 24), (32 * 1024, 100), (128 * 1024, 400)];

impl Pattern {
    /// # Errors
    /// When it is no regular expression, or is too large as written or compiled.
    pub(super) fn compile(source: &str) -> Result<Self, ExpressionFault> {
        if source.chars().take(LIMITS.pattern + 1).count() > LIMITS.pattern {
            return Err(ExpressionFault(format!("a pattern of `matches` is longer than {} characters", LIMITS.pattern)));
        }
        let mut fault = ExpressionFault::new("a pattern of `matches` is too large");
        for (size, price) in SIZES {
            match RegexBuilder::new(source).size_limit(size).dfa_size_limit(512 * 1024).nest_limit(32).build() {
                Ok(regex) => return Ok(Self { regex, price }),
                Err(regex::Error::Syntax(_)) => {
                    fault = ExpressionFault::new("a pattern of `matches` is not a regular expression (RE2 syntax)");
                    break;
                }
                Err(_) => {}
            }
        }
        Err(fault)
    }
}
