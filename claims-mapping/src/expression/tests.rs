//! What is admitted, what is refused, and what it gives.

use serde_json::{Value, json};

use super::*;
use crate::Claims;

const ANY: &[Kind] = &[Kind::Bool, Kind::Number, Kind::String, Kind::List, Kind::Map, Kind::Null];

fn compile(source: &str, root: Root, gives: &[Kind]) -> Result<(Expression, Patterns), String> {
    on_deep_stack(|| {
        let mut patterns = Vec::new();
        Expression::compile(source, root, gives, &mut patterns).map(|expression| (expression, patterns)).map_err(|fault| fault.to_string())
    })
    .unwrap()
}

fn outcome(source: &str, claims: Value) -> Result<Worth, String> {
    let (expression, patterns) = compile(source, Root::Claims, ANY).unwrap_or_else(|fault| panic!("{source}: {fault}"));
    let claims = Claims::new(claims).unwrap();
    Scope::of_claims(&claims, Some(expression.names()), &patterns.into()).evaluate(&expression)
}

fn holds(source: &str, claims: Value) {
    assert_eq!(outcome(source, claims).map(|worth| worth.as_bool()), Ok(Some(true)), "{source}");
}

fn fault(source: &str) -> String {
    match compile(source, Root::Claims, ANY) {
        Ok(_) => panic!("{source} was admitted"),
        Err(fault) => fault,
    }
}

#[test]
fn every_available_function_works() {
    let claims = json!({"l": ["b", "a"], "s": "Ab-c", "n": 7, "m": {"k": "v"}, "f": 1.5, "big": 9_007_199_254_740_993_i64});
    for source in [
        "bool('true') && bool(true)",
        "claims.s.contains('b-')",
        "double('1.5') == claims.f && double(claims.n) == 7.0",
        "claims.s.endsWith('-c') && claims.s.startsWith('A')",
        "claims.?s.hasValue() && !claims.?x.hasValue()",
        "int('7') == claims.n && int(claims.f) == 1",
        "claims.l.join(',') == 'b,a' && claims.l.join() == 'ba' && [].join('-') == ''",
        "claims.s.lowerAscii() == 'ab-c' && claims.s.upperAscii() == 'AB-C'",
        "claims.s.matches('^[A-Z]b') && matches(claims.s, 'c$') && !claims.s.matches('^b')",
        "claims.?x.or(claims.?s).orValue('') == 'Ab-c' && claims.?s.value() == 'Ab-c'",
        "claims.s.replace('b', 'xyz') == 'Axyz-c' && 'aaa'.replace('a', 'b', 2) == 'bba' && 'ab'.replace('', '-') == '-a-b-'",
        "'aaa'.replace('a', 'b', -1) == 'bbb' && 'aaa'.replace('a', 'b', 0) == 'aaa'",
        "sets.contains(claims.l, ['a']) && !sets.contains(claims.l, ['a', 'z']) && sets.contains(claims.l, [])",
        "sets.equivalent(claims.l, ['a', 'b', 'a']) && !sets.equivalent(claims.l, ['a'])",
        "sets.intersects(claims.l, ['z', 'b']) && !sets.intersects(claims.l, ['z']) && !sets.intersects(claims.l, [])",
        "sets.contains([1, 2], [1.0, 2u]) && sets.contains([[1]], [[1]])",
        "claims.l.size() == 2 && size(claims.s) == 4 && size(claims.m) == 1 && 'é'.size() == 1",
        "claims.s.split('-') == ['Ab', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "string(claims.n) == '7' && string(true) == 'true' && string(claims.f) == '1.5'",
        "claims.s.substring(1) == 'b-c' && claims.s.substring(1, 2) == 'b'",
        "' a '.trim() == 'a'",
        "has(claims.m.k) && !has(claims.m.x) && !has(claims.x)",
        "claims.l.all(x, x != 'z') && claims.l.exists(x, x == 'a') && claims.l.exists_one(x, x == 'a')",
        "claims.l.map(x, x + '!') == ['b!', 'a!'] && claims.l.map(x, x == 'a', x + '?') == ['a?'] && claims.l.filter(x, x > 'a') == ['b']",
        "claims.m.all(k, claims.m[k] == 'v')",
        "'a' in claims.l && !('z' in claims.l) && 'k' in claims.m && !(1 in claims.l) && 1 in [1.0] && [1] in [[1]]",
        "claims.l[0] == 'b' && claims['s'] == 'Ab-c' && claims.l[?5].orValue('none') == 'none' && claims[?'x'].a.b.orValue(1) == 1",
        "(claims.n > 5 ? 'many' : 'few') == 'many' && -claims.n == 0 - 7 && claims.n % 4 == 3 && claims.n * 2 / 7 == 2",
        "[1, 2] + [3] == [1, 2, 3] && [?claims.?x, ?claims.?n] == [7] && {'a': 1, ?'b': claims.?x} == {'a': 1}",
        "claims.big + 1 == 9007199254740994",
        "claims.l.exists(x, claims.l.exists(y, x + y == 'ab'))",
    ] {
        holds(source, claims.clone());
    }
}

#[test]
fn escapes_are_kubernetes() {
    let claims = json!({"a.b": 1, "c/d-e": {"f__g": 2, "in": 3}, "namespace": 4, "x__dot__y": 5});
    holds("claims.a__dot__b == 1 && has(claims.a__dot__b) && claims.?a__dot__b.orValue(0) == 1", claims.clone());
    holds("claims.c__slash__d__dash__e.f__underscores__g == 2 && claims.c__slash__d__dash__e.__in__ == 3", claims.clone());
    holds("claims.__namespace__ == 4 && claims.namespace == 4 && claims['a.b'] == 1 && claims['x__dot__y'] == 5", claims);
}

#[test]
fn what_is_not_available_is_refused_by_name() {
    let listed = fault("claims.s.reverse()");
    assert!(listed.starts_with("function `reverse` is not available; available are all, bool, contains, double"), "{listed}");
    for (source, says) in [
        ("quantity('1')", "function `quantity`"),
        ("optional.of(1)", "function `of`"),
        ("sets.union([1], [2])", "function `sets.union`"),
        ("type(claims.s) == string", "function `type`"),
        ("claims.s.format([1])", "function `format`"),
        ("claims.l.map(x)", "`map` has other arguments"),
        ("claims.l.all(i, v, i == v)", "`all` has other arguments"),
        ("split('a', ',')", "called as x.split()"),
        ("'a'.int()", "called as int(x)"),
        ("claims.s.trim(1)", "too many or too few"),
        ("claims.s.matches(claims.p)", "must be written out"),
        ("claims.s.matches('(')", "not a regular expression"),
        ("claims.l[1.5]", "an index must be"),
        ("user.username == 'a'", "`user` is not known here"),
        ("x == 1", "`x` is not known here"),
        ("claims.l.map(claims, claims)", "can not be the name"),
        ("Message{a: 1}", "messages are not available"),
        ("claims.a ==", "not CEL"),
        ("@charge(claims.a)", "not CEL"),
        ("claims.l.map(a, claims.l.map(b, claims.l.map(c, 1)))", "more than 2 loops"),
        (" ", "is empty"),
    ] {
        assert!(fault(source).contains(says), "{source}: {}", fault(source));
    }
    assert!(fault(&format!("[{}1]", "1,".repeat(64))).contains("more than 64 elements"));
    assert!(fault(&format!("[{}]", vec!["[1,1,1,1,1,1]"; 64].join(","))).contains("more than 400 parts"));
    assert!(fault(&"1".repeat(1025)).contains("longer than 1024"));
    assert!(fault(&format!("claims{}", ".a".repeat(40))).contains("deeper than 32"));
}

#[test]
fn a_result_that_is_plainly_of_another_type_is_refused() {
    for (source, gives) in [
        ("'a'", &[Kind::Bool][..]),
        ("claims.a == 1", &[Kind::String]),
        ("claims.l.map(x, x)", &[Kind::Bool, Kind::String]),
        ("1", &[Kind::String]),
    ] {
        let fault = compile(source, Root::Claims, gives).map(drop).unwrap_err();
        assert!(fault.contains("here it must give"), "{source}: {fault}");
    }
    assert!(compile("claims.a", Root::Claims, &[Kind::Bool]).is_ok());
    assert!(compile("user.name", Root::User, &[Kind::String]).map(drop).unwrap_err().contains("`user` has no field `name`"));
    assert!(compile("user['name']", Root::User, &[Kind::String]).is_err());
}

#[test]
fn reasons_tell_no_values() {
    let claims = json!({"secret": "s3cret", "l": ["s3cret"], "n": 1});
    for source in [
        "claims.secret + 1 == ''",
        "claims.l[claims.secret] == ''",
        "claims.n[claims.secret] == ''",
        "{'a': 1}[claims.secret] == 1",
        "int(claims.secret) == 1",
        "claims.secret < 1",
        "claims.secret && true",
        "claims.l.map(x, x.y)",
        "claims.l.join(1) == ''",
        "claims.secret[claims.l] == 1",
        "claims.l in claims.n",
    ] {
        let reason = outcome(source, claims.clone()).map(|_| ()).unwrap_err();
        assert!(!reason.contains("s3cret"), "{source}: {reason}");
    }
    assert_eq!(outcome("claims.hd == 'a'", json!({})).map(|_| ()).unwrap_err(), "there is no key `hd`");
}

#[test]
fn a_spent_budget_is_a_refusal_even_where_it_is_swallowed() {
    let claims = json!({"l": vec![1; 20_000]});
    for source in [
        "claims.l.exists(x, claims.l.exists(y, x + y == 77)) || true",
        "[claims.l.map(x, claims.l)][?0].hasValue()",
        "claims.l.exists(x, claims.l.exists(y, x + y == 77)) ? true : true",
    ] {
        let reason = outcome(source, claims.clone()).map(|worth| worth.as_bool()).unwrap_err();
        assert!(reason.contains("more work"), "{source}: {reason}");
    }
    // What `||` never looks at is no work.
    holds("true || claims.l.exists(x, claims.l.exists(y, x + y == 77))", claims);
}

#[test]
fn the_claims_that_are_named_are_known() {
    let names = |source: &str| compile(source, Root::Claims, ANY).unwrap().0.names().clone();
    let some = names("claims.a.b + claims['c'] + claims.?d.orValue('') + (has(claims.e__dot__f) ? claims[?'g'].orValue('') : '')");
    assert_eq!(some.fields.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "c", "d", "e.f", "g"]);
    assert!(!some.whole);
    for source in ["claims.size() == 1", "claims[claims.a] == 1", "claims == {}", "'a' in claims", "claims.map(k, k)"] {
        assert!(names(source).whole, "{source}");
    }
    holds("'a' in claims && size(claims) == 2", json!({"a": 1, "b": 2}));
}
