//! Faults of a configuration, and what a mapping makes of a person. Kubernetes' own cases are with the
//! OpenID Connect connector, which verifies their tokens as well.

use serde_json::{Value, json};

use super::*;
use crate::Claims;

fn config(value: Value) -> MappingConfig {
    serde_json::from_value(value).unwrap()
}

fn faults(value: Value) -> Vec<String> {
    Mapping::compile(&config(value)).map(drop).unwrap_err().into_iter().map(|fault| fault.path).collect()
}

fn user(claims: Value) -> UpstreamUser {
    UpstreamUser { subject: Subject::parse("s").unwrap(), claims: Claims::new(claims).unwrap() }
}

fn mapping(value: Value) -> Mapping {
    Mapping::compile(&config(value)).unwrap()
}

/// With `username: {claim: n}` besides.
fn map(rules: Value, claims: Value) -> Result<MappedUser, Rejection> {
    let (mut mappings, mut claims) = (rules, claims);
    mappings["username"] = json!({"claim": "n"});
    claims["n"] = json!("ada");
    mapping(json!({ "claimMappings": mappings })).evaluate(&user(claims))
}

#[test]
fn every_fault_is_told_with_its_place() {
    let found = faults(json!({
        "claimValidationRules": [
            {},
            {"claim": "a", "expression": "true"},
            {"claim": "a", "requiredValue": "b", "message": "c"},
            {"claim": "a", "requiredValue": "b"},
            {"expression": "true", "requiredValue": "b"},
            {"expression": "true"},
            {"expression": "'text'"},
        ],
        "claimMappings": {
            "groups": {"claim": "a", "expression": "claims.b"},
            "uid": {"expression": "claims.a("},
            "extra": [
                {"key": "example.org/a", "valueExpression": "claims.a"},
                {"key": "example.org/a", "valueExpression": ""},
                {"key": "Example.org/a", "valueExpression": "nothing"},
                {"key": "example.org/A", "valueExpression": "''"},
                {"key": "no-domain", "valueExpression": "''"},
                {"key": "a.k8s.io/b", "valueExpression": "''"},
                {"key": "kubernetes.io/b", "valueExpression": "''"},
                {"key": "x-kubernetes.io/b", "valueExpression": "''"},
                {"key": "example.org/", "valueExpression": "''"},
                {"key": "-a.org/b", "valueExpression": "''"},
            ],
            "tenant": {"expression": "1 + 1"},
            "displayName": {"expression": "[claims.a]"},
            "emailVerified": {"expression": "{}"},
            "uidNumber": {"expression": "true"},
            "gidNumber": {"claim": "a", "expression": "claims.b"},
        },
        "userValidationRules": [{"expression": "claims.a == 'b'"}, {"claim": "a", "expression": "true"}, {}, {"expression": "true"}],
    }));
    assert_eq!(
        found,
        [
            "claimValidationRules[0]",
            "claimValidationRules[1]",
            "claimValidationRules[2].message",
            "claimValidationRules[3].claim",
            "claimValidationRules[4].requiredValue",
            "claimValidationRules[5].expression",
            "claimValidationRules[6].expression",
            "claimMappings.username",
            "claimMappings.groups",
            "claimMappings.uid.expression",
            "claimMappings.extra[1].key",
            "claimMappings.extra[1].valueExpression",
            "claimMappings.extra[2].key",
            "claimMappings.extra[2].valueExpression",
            "claimMappings.extra[3].key",
            "claimMappings.extra[4].key",
            "claimMappings.extra[5].key",
            "claimMappings.extra[6].key",
            "claimMappings.extra[8].key",
            "claimMappings.extra[9].key",
            "userValidationRules[0].expression",
            "userValidationRules[1]",
            "userValidationRules[2].expression",
            "userValidationRules[3].expression",
            "claimMappings.tenant.expression",
            "claimMappings.displayName.expression",
            "claimMappings.emailVerified.expression",
            "claimMappings.uidNumber.expression",
            "claimMappings.gidNumber",
        ]
    );
}

#[test]
fn prefixes_go_with_claims_only() {
    for bad in [
        json!({"expression": "claims.a", "prefix": ""}),
        json!({"expression": "claims.a", "prefix": "x"}),
        json!({"claim": "a", "prefix": "x".repeat(257)}),
    ] {
        assert_eq!(faults(json!({"claimMappings": {"username": bad}})), ["claimMappings.username.prefix"]);
    }
    assert_eq!(faults(json!({"claimMappings": {"username": {"claim": "a"}, "groups": {"prefix": "x"}}})), ["claimMappings.groups.prefix"]);
    assert!(Mapping::compile(&config(json!({"claimMappings": {"username": {"claim": "a"}, "groups": {"prefix": ""}}}))).is_ok());
}

#[test]
fn an_address_as_username_needs_its_verification() {
    for username in ["claims.email", "claims['email']", "claims.?email.orValue('')", "has(claims.email) ? claims.email : claims.sub"] {
        let with = |more: Value| {
            let mut all = json!({"claimMappings": {"username": {"expression": username}}});
            for (key, value) in more.as_object().unwrap() {
                if key == "extra" { all["claimMappings"][key] = value.clone() } else { all[key] = value.clone() }
            }
            Mapping::compile(&config(all)).is_ok()
        };
        assert!(!with(json!({})), "{username}");
        assert!(!with(json!({"claimValidationRules": [{"claim": "email_verified", "requiredValue": "true"}]})));
        assert!(with(json!({"claimValidationRules": [{"expression": "claims.email_verified"}]})));
        assert!(with(json!({"extra": [{"key": "a.org/b", "valueExpression": "string(claims.email_verified)"}]})));
    }
    assert!(
        Mapping::compile(&config(
            json!({"claimMappings": {"username": {"expression": "claims.email_verified ? claims.email : claims.sub"}}})
        ))
        .is_ok()
    );
}

#[test]
fn a_username_from_the_email_claim_must_not_be_unverified() {
    let mapping = mapping(json!({"claimMappings": {"username": {"claim": "email"}}}));
    let name = |claims: Value| mapping.evaluate(&user(claims)).map(|user| user.username);
    assert_eq!(name(json!({"email": "a@b"})), Ok("a@b".to_owned()));
    assert_eq!(name(json!({"email": "a@b", "email_verified": true})), Ok("a@b".to_owned()));
    assert_eq!(name(json!({"email": "a@b", "email_verified": false})), Err(Rejection::EmailNotVerified));
    for odd in [json!("true"), json!(1), json!(null), json!([true])] {
        assert!(matches!(name(json!({"email": "a@b", "email_verified": odd})), Err(Rejection::ClaimType { .. })));
    }
}

#[test]
fn usernames_are_one_string() {
    let by_claim = mapping(json!({"claimMappings": {"username": {"claim": "u"}}}));
    let by_expression = mapping(json!({"claimMappings": {"username": {"expression": "claims.u"}}}));
    for odd in [json!(["ada"]), json!(["ada", "bob"]), json!(7), json!(null), json!({"a": 1}), json!(true)] {
        assert!(matches!(by_claim.evaluate(&user(json!({"u": odd}))), Err(Rejection::ClaimType { .. })), "{odd}");
        assert!(matches!(by_expression.evaluate(&user(json!({"u": odd}))), Err(Rejection::Expression { .. })), "{odd}");
    }
    assert_eq!(by_claim.evaluate(&user(json!({}))).unwrap_err(), Rejection::MissingClaim("u".to_owned()));
    assert_eq!(by_claim.evaluate(&user(json!({"u": ""}))).unwrap().username, "");
    assert_eq!(by_expression.evaluate(&user(json!({"u": ""}))).unwrap_err(), Rejection::EmptyUsername);
}

#[test]
fn groups_are_a_string_a_list_or_nothing() {
    let claim = json!({"groups": {"claim": "g", "prefix": "p-"}});
    let expression = json!({"groups": {"expression": "claims.g"}});
    for (given, by_claim, by_expression) in [
        (json!("a"), vec!["p-a"], vec!["a"]),
        (json!(["a", "b"]), vec!["p-a", "p-b"], vec!["a", "b"]),
        (json!([]), vec![], vec![]),
        (json!(null), vec![], vec![]),
        (json!(["a", ""]), vec!["p-a", "p-"], vec!["a"]),
    ] {
        assert_eq!(map(claim.clone(), json!({"g": given})).unwrap().groups, by_claim, "{given}");
        assert_eq!(map(expression.clone(), json!({"g": given})).unwrap().groups, by_expression, "{given}");
    }
    for odd in [json!(1), json!(["a", 1]), json!([["a"]]), json!({"a": "b"})] {
        assert!(map(claim.clone(), json!({"g": odd})).is_err(), "{odd}");
        assert!(map(expression.clone(), json!({"g": odd})).is_err(), "{odd}");
    }
    assert!(map(claim, json!({})).unwrap().groups.is_empty());
    assert!(map(expression, json!({})).is_err());
}

#[test]
fn t10_tenants_are_given_as_they_are_and_never_healed() {
    for rule in [json!({"tenant": {"claim": "t"}}), json!({"tenant": {"expression": "claims.t"}})] {
        let tenant = |value: Value| map(rule.clone(), json!({"t": value})).map(|user| user.tenant);
        assert_eq!(tenant(json!("acme")).unwrap(), ["acme"]);
        assert_eq!(tenant(json!(["acme"])).unwrap(), ["acme"]);
        assert_eq!(tenant(json!(["acme", "globex"])).unwrap(), ["acme", "globex"]);
        assert_eq!(tenant(json!(["acme", "acme"])).unwrap(), ["acme", "acme"]);
        assert_eq!(tenant(json!(["acme", ""])).unwrap(), ["acme", ""]);
        assert_eq!(tenant(json!("ACME ")).unwrap(), ["ACME "]);
        for none in [json!(""), json!([]), json!(null), json!([""])] {
            assert!(tenant(none).unwrap().is_empty());
        }
        for odd in [json!(1), json!(["acme", 1]), json!({"acme": 1}), json!([["acme"]]), json!(true)] {
            assert!(tenant(odd).is_err());
        }
    }
    assert!(map(json!({"tenant": {"claim": "t"}}), json!({})).unwrap().tenant.is_empty());
    assert!(map(json!({"tenant": {"expression": "claims.t"}}), json!({})).is_err());
}

#[test]
fn t32_an_address_is_verified_only_where_the_upstream_says_so() {
    for rule in [json!({"emailVerified": {"claim": "v"}}), json!({"emailVerified": {"expression": "claims.v"}})] {
        for (given, truth) in [
            (json!(true), true),
            (json!("true"), true),
            (json!("TRUE"), true),
            (json!(false), false),
            (json!("False"), false),
            (json!(null), false),
        ] {
            assert_eq!(map(rule.clone(), json!({"v": given})).unwrap().email_verified, truth, "{given}");
        }
        for odd in [json!("yes"), json!(1), json!(""), json!([true])] {
            assert!(map(rule.clone(), json!({"v": odd})).is_err(), "{odd}");
        }
    }
    assert!(!map(json!({"email": {"claim": "e"}}), json!({"e": "a@b", "email_verified": true})).unwrap().email_verified);
    assert!(!map(json!({"emailVerified": {"claim": "v"}}), json!({})).unwrap().email_verified);
}

#[test]
fn posix_numbers_are_whole_and_not_negative_and_what_is_none_keeps_nobody_out() {
    for (field, read) in [("uidNumber", (|user| user.uid_number) as fn(MappedUser) -> Option<i64>), ("gidNumber", |user| user.gid_number)] {
        for rule in [json!({"claim": "x"}), json!({"expression": "claims.x"})] {
            let rules = json!({ field: rule });
            for (given, number) in [(json!(0), 0), (json!("0"), 0), (json!(1000), 1000), (json!("1000"), 1000), (json!(i64::MAX), i64::MAX)]
            {
                assert_eq!(read(map(rules.clone(), json!({"x": given})).unwrap()), Some(number), "{given}");
            }
            let odd = ["", " ", "+1", "-1", "01", "1 ", "1.0", "0x1", "9223372036854775808", "many", "١"].map(Value::from);
            for odd in odd.into_iter().chain([json!(-1), json!(1.0), json!(u64::MAX), json!(null), json!(true), json!([1000]), json!({})]) {
                assert_eq!(read(map(rules.clone(), json!({"x": odd})).unwrap()), None, "{odd}");
            }
        }
    }
    assert_eq!(map(json!({"uidNumber": {"claim": "x"}}), json!({})).unwrap().uid_number, None, "absent");
    assert!(map(json!({"uidNumber": {"expression": "claims.x"}}), json!({})).is_err(), "an expression that fails refuses, as any other");
    let plain = mapping(
        json!({"claimMappings": {"username": {"claim": "username"}, "uidNumber": {"claim": "u"}, "gidNumber": {"expression": "claims.g"}}}),
    );
    assert_eq!((plain.uid_number_claim(), plain.gid_number_claim()), (Some("u"), None));
    assert!(plain.claim_names().unwrap().is_superset(&["u", "g"].into()));
    let told = mapping(json!({"claimMappings": {"username": {"claim": "username"}, "uidNumber": {"claim": "u"}}}))
        .explain(&user(json!({"username": "jane", "u": "-1"})));
    let step = told.steps.iter().find(|step| step.place == "claimMappings.uidNumber").unwrap();
    assert_eq!((step.saw.get("u"), &step.gave), (Some(&json!("-1")), &Ok(Value::Null)));
}

#[test]
fn names_and_addresses_are_text_or_nothing() {
    for (field, read) in [("displayName", (|user| user.display_name) as fn(MappedUser) -> Option<String>), ("email", |user| user.email)] {
        for rule in [json!({"claim": "x"}), json!({"expression": "claims.x"})] {
            let rules = json!({ field: rule });
            assert_eq!(read(map(rules.clone(), json!({"x": "A"})).unwrap()).as_deref(), Some("A"));
            assert_eq!(read(map(rules.clone(), json!({"x": ""})).unwrap()), None);
            assert_eq!(read(map(rules.clone(), json!({"x": null})).unwrap()), None);
            assert!(map(rules, json!({"x": ["A"]})).is_err());
        }
    }
}

#[test]
fn the_order_is_kubernetes_and_the_explanation_stops_where_it_fails() {
    let mapping = mapping(json!({
        "claimValidationRules": [{"expression": "claims.level > 1", "message": "level"}, {"claim": "hd", "requiredValue": "example.org"}],
        "claimMappings": {
            "username": {"claim": "u", "prefix": "x-"},
            "groups": {"expression": "claims.g"},
            "extra": [{"key": "example.org/a", "valueExpression": "claims.?a.orValue('')"}],
            "tenant": {"claim": "t"},
        },
        "userValidationRules": [{"expression": "user.username != 'x-root'"}],
    }));
    let all = json!({"u": "ada", "g": ["m"], "level": 2, "hd": "example.org", "t": "acme", "jti": "7"});
    let places = |claims: Value| {
        let explanation = mapping.explain(&user(claims.clone()));
        let refused = explanation.steps.last().unwrap().gave.clone().err();
        assert_eq!(refused, mapping.evaluate(&user(claims)).err().map(|rejection| rejection.to_string()));
        (explanation.steps.into_iter().map(|step| step.place).collect::<Vec<_>>(), refused)
    };
    let order = [
        "claimMappings.username",
        "claimMappings.groups",
        "claimMappings.extra[0] (example.org/a)",
        "claimValidationRules[1]",
        "claimValidationRules[0]",
        "userValidationRules[0]",
        "claimMappings.tenant",
    ];
    assert_eq!(places(all.clone()), (order.map(str::to_owned).to_vec(), None));
    for (steps, key, value, says) in [
        (1, "u", json!(1), "must be a string"),
        (2, "g", json!(1), "it must give a string or a list of strings"),
        (4, "hd", json!("example.com"), "required value"),
        (5, "level", json!(1), "claimValidationRules[0]: level"),
        (6, "u", json!("root"), "`user.username != 'x-root'` does not hold"),
        (7, "t", json!(1), "the claim `t` must be"),
    ] {
        let mut claims = all.clone();
        claims[key] = value;
        let (places, refused) = places(claims);
        assert_eq!(places, order[..steps].iter().map(|place| (*place).to_owned()).collect::<Vec<_>>());
        assert!(refused.as_deref().unwrap().contains(says), "{refused:?}");
    }
    assert_eq!(mapping.tenant_claim(), Some("t"));
    assert!(mapping.has_tenant_rule());
}

#[test]
fn an_explanation_reads_well_and_moves_no_cursor() {
    let mapping = mapping(json!({
        "claimMappings": {"username": {"claim": "u"}, "groups": {"expression": "claims.g.map(x, 'p-' + x)"}},
        "userValidationRules": [{"expression": "user.groups.size() == 2", "message": "two groups"}],
    }));
    let text = mapping.explain(&user(json!({"u": "a\u{1b}[2J\u{202e}da", "g": ["m"]}))).to_string();
    assert_eq!(
        text,
        r#"1. claimMappings.username
   rule: claim `u`
   saw:  u = "a\u001b[2J\u{202e}da"
   gave: "a\u001b[2J\u{202e}da"
2. claimMappings.groups
   rule: claims.g.map(x, 'p-' + x)
   saw:  g = ["m"]
   gave: ["p-m"]
3. userValidationRules[0]
   rule: user.groups.size() == 2
   saw:  user.groups = ["p-m"]
   REFUSED: userValidationRules[0]: two groups
"#
    );
}

#[test]
fn a_rejection_tells_no_claim_value() {
    let mapping = mapping(json!({
        "claimMappings": {"username": {"claim": "u"}},
        "claimValidationRules": [{"expression": "claims.u + 1 == ''"}, {"claim": "h", "requiredValue": "x"}],
    }));
    for claims in [json!({"u": "s3cret", "h": "s3cret"}), json!({"u": "s3cret", "h": "x"}), json!({"u": ["s3cret"]})] {
        let rejection = mapping.evaluate(&user(claims)).unwrap_err();
        assert!(!format!("{rejection} {rejection:?}").contains("s3cret"), "{rejection:?}");
    }
}

#[test]
fn a_mapping_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Mapping>();
}

#[test]
fn the_claims_that_a_mapping_names_are_known() {
    let names = |value: Value| mapping(value).claim_names().map(|names| names.into_iter().collect::<Vec<_>>().join(" "));
    let told = names(json!({
        "claimValidationRules": [{"claim": "h", "requiredValue": "x"}, {"expression": "claims.v == 1 && claims['w-x'] == 2"}],
        "claimMappings": {
            "username": {"claim": "u"}, "groups": {"claim": "g"}, "tenant": {"claim": "t"},
            "email": {"expression": "has(claims.e) ? claims.e : ''"},
            "extra": [{"key": "example.org/a", "valueExpression": "claims.?x.orValue('')"}],
        },
        "userValidationRules": [{"expression": "user.username != 'root'"}],
    }));
    assert_eq!(told.as_deref(), Some("e g h t u v w-x x"));
    let joined = mapping(json!({"claimMappings": {"username": {"claim": "u"}}})).with_claim("employee_number");
    assert_eq!(joined.claim_names(), Some(["employee_number", "u"].into()));
    assert_eq!(names(json!({"claimMappings": {"username": {"claim": "email"}}})).as_deref(), Some("email email_verified"));
    assert_eq!(names(json!({"claimMappings": {"username": {"claim": "u"}, "groups": {"expression": "claims.map(c, c)"}}})), None);
    assert_eq!(names(json!({"claimMappings": {"username": {"claim": "u"}, "groups": {"expression": "claims[claims.a]"}}})), None);
}
