//! No admitted expression overflows a small stack, panics, or does more than the work it has; no source overflows the parser.
//! What that comes to in time and memory, `examples/worst_expression.rs` measures.

#![expect(clippy::unwrap_used, reason = "tests")]

mod adversary;

use adversary::{compile, drawn, fits, fixed, user};
use claims_mapping::{ClaimMappings, Claims, LIMITS, Mapping, MappingConfig, PrefixedClaimOrExpression, Rejection, ValidationRule};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Runs on a thread with an eighth of the stack that tokio gives its workers.
fn on_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| std::thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, work).unwrap().join().unwrap())
}

fn spent(outcome: &Result<claims_mapping::MappedUser, Rejection>) -> bool {
    matches!(outcome, Err(Rejection::Expression { reason, .. }) if reason.contains("more work"))
}

/// The sum of a user's texts: each of them was paid for.
fn bytes(user: &claims_mapping::MappedUser) -> usize {
    user.extra.values().flatten().map(String::len).sum()
}

#[test]
fn the_adversarial_expressions_stay_within_their_work_and_stack() {
    let claims: Vec<_> = adversary::claims().into_iter().map(|(_, claims)| user(claims)).collect();
    let (mut admitted, mut stopped) = (0, 0);
    for source in fixed().into_iter().chain(drawn(7).filter(|source| fits(source)).take(100)) {
        let Ok(mapping) = compile(&source) else { continue };
        admitted += 1;
        on_small_stack(|| {
            for user in &claims {
                let outcome = mapping.evaluate(user);
                stopped += usize::from(spent(&outcome));
                assert!(outcome.map_or(0, |user| bytes(&user)) <= usize::try_from(LIMITS.work).unwrap(), "{source}");
            }
        });
    }
    assert!(admitted > 150, "only {admitted} are admitted");
    assert!(stopped > 100, "only {stopped} of them were stopped: the set is too tame");
}

/// Every way of nesting, each as deep as is admitted: both what is parsed and what is evaluated.
#[test]
fn the_deepest_admitted_expressions_fit_a_small_stack() {
    type Nested = fn(usize) -> String;
    let nested: [(&str, Nested); 12] = [
        ("brackets", |n| format!("{}1{}", "(".repeat(n), ")".repeat(n))),
        ("lists", |n| format!("{}1{}", "[".repeat(n), "]".repeat(n))),
        ("maps", |n| format!("{}1{}", "{'a':".repeat(n), "}".repeat(n))),
        ("sums", |n| format!("claims.n{}", "+claims.n".repeat(n))),
        ("differences", |n| format!("{}1{}", "claims.n-(".repeat(n), ")".repeat(n))),
        ("conditions", |n| format!("{}1{}", "claims.t?(".repeat(n), "):2".repeat(n))),
        ("alternatives", |n| format!("{}1", "claims.f?2:".repeat(n))),
        ("fields", |n| format!("claims{}", ".a".repeat(n))),
        ("optional fields", |n| format!("claims{}.orValue(1)", ".?a".repeat(n))),
        ("indices", |n| format!("claims{}", "[claims.k]".repeat(n))),
        ("calls", |n| format!("{}'a'{}", "string(".repeat(n), ")".repeat(n))),
        ("methods", |n| format!("claims.s{}", ".trim()".repeat(n))),
    ];
    let claims = user(Claims::new(json!({"n": 1, "t": true, "f": false, "k": "a", "a": {"a": 1}, "s": "s"})).unwrap());
    for (name, make) in nested {
        let deepest = (1..200).take_while(|n| compile(&make(*n)).is_ok()).last();
        let deepest = deepest.unwrap_or_else(|| panic!("{name}: not even one"));
        assert!((10..100).contains(&deepest), "{name}: {deepest} levels are admitted");
        let mapping = compile(&make(deepest)).unwrap();
        on_small_stack(|| mapping.evaluate(&claims).is_ok());
    }
}

/// The parser is what overflows first: none of these may, and most are refused.
#[test]
fn hostile_sources_are_refused_without_a_crash() {
    for part in [
        "(", "[", "{", "!", "-", "a.", "a?", "a[", "f(", "1+", "a||", "a&&b||", "a?b:", "{'a':", "[[", ")", "\"", "'", "`", "\u{0}", "é",
        "a.?", "[?", "has(", "x.map(y,",
    ] {
        for ending in ["", "1", "a"] {
            let source = format!("{}{ending}", part.repeat(1020 / part.len()));
            assert!(compile(&source).is_err(), "{part}");
        }
    }
    assert!(compile(&"a".repeat(2_000)).is_err());
}

#[test]
fn all_expressions_of_a_mapping_share_the_work() {
    let one = "claims.l.all(x, x != 77)";
    let rules = |count: usize| {
        let claim_validation_rules =
            (0..count).map(|n| ValidationRule { expression: format!("{one} || {n} == -1"), ..Default::default() }).collect();
        let username = PrefixedClaimOrExpression { claim: "s".to_owned(), ..Default::default() };
        let config = MappingConfig {
            claim_validation_rules,
            claim_mappings: ClaimMappings { username, ..Default::default() },
            ..Default::default()
        };
        Mapping::compile(&config).unwrap()
    };
    let user = user(Claims::new(json!({"s": "ada", "l": vec![1; 1_000]})).unwrap());
    assert!(rules(1).evaluate(&user).is_ok());
    assert!(spent(&rules(40).evaluate(&user)));
}

/// What people write goes through with claims as large as they come.
#[test]
fn everyday_expressions_are_cheap_enough() {
    let groups: Vec<_> = (0..1_000).map(|n| format!("group-{n:04}-of-the-corporation")).collect();
    let user = user(Claims::new(json!({"s": "ada", "groups": groups, "roles": groups.join(","), "allowed": groups[..20]})).unwrap());
    for source in [
        "claims.groups.map(g, 'corp-' + g)",
        "claims.groups.filter(g, g.startsWith('group-1')).map(g, g.substring(6))",
        "claims.groups.filter(g, ['group-00', 'group-01'].exists(p, g.startsWith(p)))",
        "claims.groups.filter(g, g.matches('^group-[0-9]+-of'))",
        "claims.groups.filter(g, g in claims.allowed)",
        "claims.roles.split(',').map(r, r.upperAscii())",
        "sets.contains(claims.groups, claims.allowed) ? 'yes' : 'no'",
    ] {
        assert!(compile(source).unwrap().evaluate(&user).is_ok(), "{source}: {:?}", compile(source).unwrap().evaluate(&user));
    }
}

/// The figure that the README names.
#[test]
fn five_thousand_groups_can_be_prefixed() {
    let groups = (0..5_000).map(|n| format!("team-{n:04}")).collect::<Value>();
    let user = user(Claims::new(json!({"s": "ada", "g": groups})).unwrap());
    let outcome = compile("claims.g.map(g, 'corp-' + g)").unwrap().evaluate(&user);
    assert!(outcome.is_ok(), "{outcome:?}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!(i64::MIN)),
        Just(json!("true")),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z_.]{0,4}", inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the claims are, an evaluation ends with a user or a rejection; the explanation says the same.
    #[test]
    fn evaluating_never_panics(l in any_json(), s in any_json(), m in any_json(), seed in any::<u64>()) {
        let claims = user(Claims::new(json!({"l": l, "s": s, "m": m, "email": s, "email_verified": l, "jti": m})).unwrap());
        let own = drawn(seed).filter(|source| fits(source)).take(4);
        let arithmetic = ["claims.l / claims.s", "claims.l % claims.s", "-claims.l", "claims.l * claims.s - claims.m", "claims.l[claims.s]", "int(claims.l)"];
        for source in own.chain(arithmetic.map(str::to_owned)) {
            let mapping = compile(&source).unwrap();
            let outcome = mapping.evaluate(&claims);
            let steps = mapping.explain(&claims).steps;
            prop_assert_eq!(steps.last().and_then(|step| step.gave.clone().err()), outcome.err().map(|rejection| rejection.to_string()));
        }
        for claim in ["l", "s", "m", "email"] {
            let rule = || claims_mapping::ClaimOrExpression { claim: claim.to_owned(), ..Default::default() };
            let prefixed = || PrefixedClaimOrExpression { claim: claim.to_owned(), ..Default::default() };
            let mappings = ClaimMappings { username: prefixed(), groups: prefixed(), uid: rule(), tenant: rule(), roles: rule(), display_name: rule(), email: rule(), email_verified: rule(), ..Default::default() };
            let mapping = Mapping::compile(&MappingConfig { claim_mappings: mappings, ..Default::default() }).unwrap();
            let _ = mapping.evaluate(&claims);
            let _ = mapping.explain(&claims).to_string();
        }
    }

    /// No text that is read as an expression crashes the parser or the walk.
    #[test]
    fn compiling_never_panics(source in "[a-z0-9_.?:()\\[\\]{}'\" +=<>&|!,-]{0,80}") {
        let _ = compile(&source);
    }
}
