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
        let source = ascii_classes(source);
        let mut fault = ExpressionFault::new("a pattern of `matches` is too large");
        for (size, price) in SIZES {
            match RegexBuilder::new(&source).size_limit(size).dfa_size_limit(512 * 1024).nest_limit(32).build() {
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

/// Go's `\d`, `\w` and `\s` are of ASCII alone; Rust's are of all scripts, and would match more than the same rule does in Kubernetes.
fn ascii_classes(source: &str) -> String {
    let (mut plain, mut characters) = (String::with_capacity(source.len()), source.chars());
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('d') => plain.push_str("[0-9]"),
            Some('D') => plain.push_str("[^0-9]"),
            Some('w') => plain.push_str("[0-9A-Za-z_]"),
            Some('W') => plain.push_str("[^0-9A-Za-z_]"),
            Some('s') => plain.push_str("[\\t\\n\\f\\r ]"),
            Some('S') => plain.push_str("[^\\t\\n\\f\\r ]"),
            Some('b') => plain.push_str("(?-u:\\b)"),
            other => {
                plain.push('\\');
                plain.extend(other);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_of_ascii_as_in_go() {
        let matches = |pattern: &str, text: &str| Pattern::compile(pattern).unwrap().regex.is_match(text);
        assert!(matches(r"^\w+\s\d+$", "ada 7"));
        assert!(!matches(r"^\w+$", "\u{e9}"));
        assert!(!matches(r"^\d$", "\u{0663}"));
        assert!(matches(r"^[\w.-]+@\S+\.example$", "a.b-c@x.example"));
        assert!(matches(r"^\\w\.\W$", r"\w.!"));
        assert!(matches(r"\bb\b", "a b c"));
    }

    #[test]
    fn large_patterns_are_refused_and_larger_ones_cost_more() {
        let price = |pattern: &str| Pattern::compile(pattern).map(|pattern| pattern.price);
        assert!(price("^[a-z]+$").unwrap() < price("(a.{20}){5}b").unwrap());
        for bad in ["(", "(a{1000}){1000}", "[", "(?P<x", "*a", &"a".repeat(LIMITS.pattern + 1), &"(".repeat(100)] {
            assert!(Pattern::compile(bad).is_err(), "{bad}");
        }
    }
}
