//! Expressions and claims made to cost as much as they can: read by the tests of the bounds and by `examples/worst_expression.rs`.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use claims_mapping::{
    Claims, ExtraMapping, LIMITS, Mapping, MappingConfig, MappingFault, PrefixedClaimOrExpression, Subject, UpstreamUser,
};
use serde_json::{Value, json};

/// Claims of nearly [`Claims::MAX_BYTES`], each under the names that the expressions use: `l` a list, `s` a text, `m` a map.
pub(crate) fn claims() -> Vec<(&'static str, Claims)> {
    let numbers = |count: usize| (0..count).map(|n| Value::from(n % 10)).collect::<Value>();
    let texts = |count: usize, text: &str| vec![Value::from(text); count].into_iter().collect::<Value>();
    let map = |count: usize| (0..count).map(|n| (format!("{n:04}"), Value::from(1))).collect::<Value>();
    let mut deep = json!(["x".repeat(60_000)]);
    for _ in 0..28 {
        deep = json!([deep]);
    }
    let all = vec![
        ("a list of 32,000 numbers", json!({"l": numbers(32_000), "s": "a", "m": {"a": 1}})),
        ("a list of 21,000 empty texts", json!({"l": texts(21_000, ""), "s": "", "m": {}})),
        ("a list of 16,000 texts", json!({"l": texts(16_000, "a"), "s": "a", "m": {}})),
        ("a list of 21,000 empty lists", json!({"l": vec![json!([]); 21_000], "s": "a", "m": {}})),
        ("a list of 21,000 empty maps", json!({"l": vec![json!({}); 21_000], "s": "a", "m": {}})),
        ("one text", json!({"l": ["a"], "s": "a".repeat(65_000), "m": {"a": 1}})),
        ("half a list of numbers, half a text", json!({"l": numbers(16_000), "s": "a".repeat(32_000), "m": {"a": 1}})),
        ("half a list of texts, half a map", json!({"l": texts(8_000, "a"), "s": "a", "m": map(3_500)})),
        ("a map of 7,000 entries", json!({"l": ["0001", "7000"], "s": "0001", "m": map(7_000)})),
        ("64 texts of 1,000", json!({"l": texts(64, &"ab".repeat(500)), "s": "ab".repeat(500), "m": map(10)})),
        ("a text 30 levels deep", json!({"l": deep, "s": "a", "m": {}})),
        ("a list of 1,000 numbers, and a text", json!({"l": numbers(1_000), "s": "ab".repeat(31_000), "m": {"a": 1}})),
    ];
    all.into_iter().map(|(name, value)| (name, Claims::new(value).expect("they are of an admitted size"))).collect()
}

/// The shapes that are known to have hurt CEL, `cel`, or a version of this crate.
pub(crate) fn fixed() -> Vec<String> {
    let long = "y".repeat(700);
    let mut all: Vec<String> = [
        "claims.l.exists(x, x == 77)",
        "claims.l.all(x, x != 77)",
        "claims.l.all(x, claims.l.all(y, y == x || true))",
        "claims.l.exists(x, claims.l.exists(y, y == 77))",
        "claims.l.exists(x, x in claims.l && false)",
        "claims.l.exists(x, 77 in claims.l)",
        "claims.l in claims.l",
        "[claims.s] in claims.l",
        "claims.s in claims.l",
        "claims in claims.l",
        "[[claims.s]] in claims.l.map(x, [x])",
        "[[claims.s]] in claims.l.map(x, [[1]])",
        "sets.contains(claims.l, [claims.l, claims.s, [claims.s]])",
        "claims.l.map(x, x)",
        "claims.l.map(x, claims.s)",
        "claims.l.map(x, claims.l)",
        "claims.l.map(x, claims)",
        "claims.l.map(x, claims.m)",
        "claims.l.map(x, claims.s + claims.s)",
        "claims.l.map(x, {'a': claims.s, 'b': claims.l})",
        "claims.l.map(x, [[[claims.s]]])",
        "claims.l.map(x, claims.l.map(y, [x, y]))",
        "claims.l.filter(x, true).filter(x, true).filter(x, true).filter(x, true)",
        "claims.l.filter(x, claims.l.filter(y, true) == claims.l)",
        "claims.l.exists_one(x, x == 5)",
        "claims.l + claims.l + claims.l + claims.l + claims.l + claims.l + claims.l + claims.l",
        "claims.s.split('')",
        "claims.l.map(x, claims.s.split(''))",
        "claims.s.split('').map(x, claims.s.split('')).map(x, x + x)",
        "claims.s.split('').join(claims.s)",
        "claims.s.replace('', claims.s)",
        "claims.s.replace('a', claims.s).replace('a', claims.s)",
        "claims.l.map(x, claims.s.replace('a', 'aaaaaaaaaaaaaaaa'))",
        "sets.equivalent(claims.l, claims.l)",
        "sets.contains(claims.l, claims.l)",
        "sets.intersects(claims.l, claims.l.map(x, [77]))",
        "claims.l.exists(x, sets.contains(claims.l, [x, 77]))",
        "claims.l.exists(x, sets.equivalent(claims.l, claims.l) && false)",
        "claims.l.exists(x, claims.?s.orValue('') == 'b')",
        "claims.l.exists(x, claims.?l[0].orValue('') == 'b')",
        "claims.l.exists(x, claims.?m.a.b.c.orValue('') == 'b')",
        "claims.l.exists(x, claims[?'l'].hasValue() && false)",
        "claims.l.exists(x, claims.l[?5].hasValue() && false)",
        "claims.l.exists(x, claims.?m.?a.or(claims.?l).hasValue() && false)",
        "claims.l.exists(x, [?claims.?l, ?claims.?m].size() == 7)",
        "claims.l.exists(x, claims + 1 == 2)",
        "claims.l.exists(x, claims.l - 1 == 2)",
        "claims.l.exists(x, claims.l < 2)",
        "claims.l.exists(x, -claims.l == 2)",
        "claims.l.exists(x, claims.l)",
        "claims.l.exists(x, !claims.l)",
        "claims.l.exists(x, x.a)",
        "claims.l.exists(x, x[0])",
        "claims.l.exists(x, claims.l[double(0)] == 1)",
        "claims.l.exists(x, claims.l[claims.s])",
        "claims.l.exists(x, claims.m[claims.s])",
        "claims.l.exists(x, claims.m[claims.l])",
        "claims.l.exists(x, claims.l in claims.m)",
        "claims.l.exists(x, claims.nothing.at.all.of.this.is.there)",
        "claims.l.exists(x, has(claims.m.a.b))",
        "claims.l.exists(x, {claims.s: 1}[claims.s] == 2)",
        "claims.l.exists(x, {'a': claims.s}.a == 2)",
        "claims.l.exists(x, claims == claims && false)",
        "claims.l.exists(x, claims.m == claims.m && false)",
        "claims.l.exists(x, [claims.l] == [claims.l] && false)",
        "claims.l.exists(x, claims.s < claims.s)",
        "claims.l.exists(x, 1 < 1)",
        "claims.l.exists(x, x < 1 && x > 1)",
        "claims.l.exists(x, 1 + 1 * 2 - 3 / 4 % 5 == 77)",
        "claims.l.exists(x, 9223372036854775807 + 1 == 77)",
        "claims.l.exists(x, 1 / 0 == 77)",
        "claims.l.exists(x, 1 % 0 == 77)",
        "claims.l.exists(x, -9223372036854775808 / -1 == 77 || -9223372036854775808 % -1 == 77)",
        "claims.l.exists(x, string(x) == 'b')",
        "claims.l.exists(x, int('no number') == 1)",
        "claims.l.exists(x, int(claims.s) == 1)",
        "claims.l.exists(x, double(claims.s) == 1.0)",
        "claims.l.exists(x, bool(claims.s))",
        "claims.l.exists(x, size(claims.s) == 1 && false)",
        "claims.l.exists(x, claims.s.size() == 70000)",
        "claims.l.exists(x, claims.l.size() == 70000)",
        "claims.l.exists(x, claims.s.contains('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'))",
        "claims.l.exists(x, claims.s.contains(claims.s + 'b'))",
        "claims.l.exists(x, claims.s.startsWith(claims.s + 'b'))",
        "claims.l.exists(x, claims.s.endsWith('b' + claims.s))",
        "claims.l.exists(x, claims.s.lowerAscii().upperAscii().trim() == 'b')",
        "claims.l.exists(x, claims.s.substring(1) == 'b')",
        "claims.l.exists(x, claims.s.substring(0, 60000) == 'b')",
        "claims.l.exists(x, claims.s.substring(70000) == 'b')",
        "claims.l.exists(x, claims.s.matches('b$'))",
        "claims.l.exists(x, claims.s.matches('^(a|aa|aaa|aaaa)*b$'))",
        "claims.s.matches('(a?){40}(a){40}b')",
        "claims.s.matches('(.*)(.*)(.*)(.*)(.*)[^a]')",
        "claims.s.matches('(a*)*(a|b)*(a|c)*(a|d)*$b')",
        "claims.s.matches('[a-q][^u-z]{13}x')",
        "claims.s.matches('(?i)(a.{0,60}b|a.{0,60}c)')",
        "claims.s.matches('\\\\w{30}\\\\W')",
        "claims.s.matches('\\\\w+\\\\s\\\\w+@')",
        "claims.s.matches('(a.{20}){5}b')",
        "claims.l.all(x, x.matches('^(a|b)*c') || true)",
        "[0,1,2,3,4,5,6,7].map(a, [0,1,2,3,4,5,6,7].map(b, claims.s + claims.s))",
        "[0,1,2,3,4,5,6,7].map(a, claims.l + claims.l).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a)",
        "[claims.l, claims.l, claims.l, claims.l].map(a, [a, a, a, a]).map(a, [a, a, a, a]).map(a, [a, a, a, a]).map(a, [a, a, a, a])",
        "claims.m.map(k, claims.m[k])",
        "claims.m.exists(k, claims.m.exists(j, k == j + 'z'))",
        "claims.m.map(k, {k: claims.m})",
    ]
    .map(str::to_owned)
    .into();
    all.push(format!("claims.l.map(x, '{long}')"));
    all.push(format!("claims.l.exists(x, '{long}' + '{}' == claims.s)", "z".repeat(200)));
    all.push(format!("claims.s.split('').join('{long}')"));
    all.push(format!("claims.s.replace('', '{long}')"));
    all.push(format!("claims.l.all(x, [{}] == [x] || true)", "1,".repeat(63) + "1"));
    all.push(format!("claims.l.map(x, [{}])", "x,".repeat(63) + "x"));
    all.push(format!("claims.l.exists(x, {} == 77)", vec!["x"; 25].join(" + ")));
    all.push(format!("claims.l.exists(x, {})", vec!["x == 77"; 50].join(" || ")));
    all.push(format!("claims.l.exists(x, {})", vec!["1 > 2"; 90].join(" || ")));
    all.push(format!("claims.l.exists(x, {})", vec!["x.a"; 100].join(" || ")));
    all.push(format!("claims.l.exists(x, claims{})", ".a".repeat(28)));
    all.push(format!("claims.l.exists(x, {}true)", "!".repeat(26)));
    all.push(format!("claims.l.exists(x, {}x == 1)", "-".repeat(26)));
    all.push(format!("claims.l.exists(x, {}1{} == 2)", "[".repeat(24), "]".repeat(24)));
    all
}

/// A small generator, so that a seed is a case for ever.
pub(crate) struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len())]
    }

    /// An expression out of everything that is available, with at most `depth` levels and two loops within one another.
    fn expression(&mut self, depth: usize, loops: usize) -> String {
        let leaves = ["claims.l", "claims.s", "claims.m", "claims", "x", "y", "'a'", "''", "7", "claims.?s", "claims.?l", "[x, y]"];
        if depth == 0 {
            let leaf = self.of(&leaves);
            return match (leaf, loops) {
                ("x" | "[x, y]", 0) => "claims.l".to_owned(),
                ("y" | "[x, y]", 1) => "x".to_owned(),
                ("y", 0) => "claims.s".to_owned(),
                _ => leaf.to_owned(),
            };
        }
        let a = self.expression(depth - 1, loops);
        let b = {
            let depth = self.roll(depth);
            self.expression(depth, loops)
        };
        match self.roll(16) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} {} {b})", self.of(&["==", "!=", "<", ">=", "in"])),
            3 => format!("({a} {} {b})", self.of(&["&&", "||", "-", "*", "/"])),
            4 => format!("({a} == {b} ? {a} : {b})"),
            5 => format!("[{a}, {b}, {a}]"),
            6 => format!("{{'a': {a}, string({b}): {a}}}"),
            7 => format!("({a})[{b}]"),
            8 => format!("({a})[?{b}].orValue({b})"),
            9 => format!("sets.{}({a}, {b})", self.of(&["contains", "equivalent", "intersects"])),
            10 => format!(
                "({a}).{}",
                self.of(&["split('')", "lowerAscii()", "size()", "join('ab')", "trim()", "substring(1)", "matches('(a|b)*c')"])
            ),
            11 => format!("({a}).replace('', {b})"),
            _ if loops < 2 => {
                let body = self.expression(depth - 1, loops + 1);
                let variable = if loops == 0 { "x" } else { "y" };
                format!("({a}).{}({variable}, {body})", self.of(&["map", "map", "filter", "all", "exists", "exists_one"]))
            }
            _ => format!("({a} + {b})"),
        }
    }
}

/// Expressions drawn from the generator that are admitted.
pub(crate) fn drawn(seed: u64) -> impl Iterator<Item = String> {
    let mut dice = Dice(seed);
    std::iter::repeat_with(move || {
        let depth = 2 + dice.roll(3);
        dice.expression(depth, 0)
    })
    .filter(|source| compile(source).is_ok())
}

/// A mapping with this expression where it may give anything at all.
pub(crate) fn compile(source: &str) -> Result<Mapping, Vec<MappingFault>> {
    Mapping::compile(&MappingConfig {
        claim_mappings: claims_mapping::ClaimMappings {
            username: PrefixedClaimOrExpression { claim: "s".to_owned(), ..Default::default() },
            // The list keeps the expression from being refused for its type alone.
            extra: vec![ExtraMapping { key: "example.org/a".to_owned(), value_expression: format!("['', {source}][1]") }],
            ..Default::default()
        },
        ..Default::default()
    })
}

pub(crate) fn user(claims: Claims) -> UpstreamUser {
    UpstreamUser { subject: Subject::parse("someone").expect("a subject"), claims }
}

/// Whether the source is short enough to be compiled at all; the wrapping of [`compile`] takes some of it.
pub(crate) fn fits(source: &str) -> bool {
    source.len() + 16 <= LIMITS.source
}
