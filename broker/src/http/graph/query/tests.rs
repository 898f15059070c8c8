//! What is understood, and that nothing is passed over.

use super::*;

fn parameters(query: &str) -> Parameters {
    Parameters::parse(query.as_bytes()).unwrap()
}

fn listed(query: &str) -> Result<List, u16> {
    list(&parameters(query), &SearchConfig::default()).map_err(|failure| failure.status.as_u16())
}

#[test]
fn a_search_is_one_text() {
    for (option, text) in [
        (r#""jane""#, "jane"),
        (r#" "jane doe" "#, "jane doe"),
        (r#""\"jane doe\"""#, "jane doe"),
        (r#""a \"b\" c""#, r#"a "b" c"#),
        (r#""a\\b""#, r"a\b"),
        (r#""*)(uid=*""#, "*)(uid=*"),
        (r#""urn:x""#, "urn:x"),
        (r#""""#, ""),
        ("jane", "jane"),
    ] {
        assert_eq!(searched(option).map_err(|failure| failure.status.as_u16()), Ok(text.to_owned()), "{option}");
    }
    for (option, status) in [
        (r#""jane" AND "doe""#, 501),
        (r#""jane" OR "doe""#, 501),
        (r#"NOT "jane""#, 501),
        (r#"("jane")"#, 501),
        ("jane doe", 501),
        ("NOT", 501),
        (r#""displayName:jane""#, 501),
        ("mail:jane", 501),
        (r#""jane"#, 400),
        (r#""jane\""#, 400),
        (&"x".repeat(129), 400),
    ] {
        assert_eq!(searched(option).map_err(|failure| failure.status.as_u16()), Err(status), "{option}");
    }
}

#[test]
fn t27_a_filter_is_of_user_types_and_bounded() {
    for (filter, takes_members) in [
        ("userType eq 'Member'", true),
        ("userType eq 'Guest'", false),
        ("(userType eq 'Member' or userType eq 'Guest')", true),
        ("(userType eq 'Federated') or(userType eq 'Guest')", false),
        ("((userType  eq  'Guest' or (userType eq 'Member')))", true),
    ] {
        assert_eq!(members(filter).map_err(|failure| failure.status.as_u16()), Ok(takes_members), "{filter}");
    }
    let deep = |depth| format!("{}userType eq 'Member'{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(members(&deep(DEPTH_MOST)), Ok(true));
    for (filter, status) in [
        (deep(DEPTH_MOST + 1), 400),
        (deep(100_000), 400),
        (format!("userType eq 'Member'{}", " or userType eq 'Guest'".repeat(30)), 400),
        ("userType eq 'Owner'".to_owned(), 400),
        ("(userType eq 'Member'".to_owned(), 400),
        ("userType eq 'Member')".to_owned(), 400),
        ("userType eq 'Member' or".to_owned(), 501),
        ("userType eq 'Member' or ".to_owned(), 501),
        ("userType eq 'Member' and userType eq 'Guest'".to_owned(), 501),
        ("userType ne 'Member'".to_owned(), 501),
        ("not userType eq 'Member'".to_owned(), 501),
        ("userType eq 'Member' order by".to_owned(), 501),
        ("startswith(displayName,'j')".to_owned(), 501),
        ("memberOf/any(m:m/id eq 'x')".to_owned(), 501),
        ("userType eq 'Member".to_owned(), 501),
        ("()".to_owned(), 501),
    ] {
        assert_eq!(members(&filter).map_err(|failure| failure.status.as_u16()), Err(status), "{filter}");
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    for (query, status) in [
        ("$skip=5", 501),
        ("$count=true", 501),
        ("$count=maybe", 400),
        ("$apply=x", 501),
        ("$orderby=mail", 501),
        ("$orderby=onPremisesSamAccountName+desc", 501),
        ("$expand=manager", 501),
        ("$expand=memberOf,manager", 501),
        ("$select=id,passwordProfile", 400),
        ("$select=,", 400),
        ("$top=0", 400),
        ("$top=-1", 400),
        ("$top=1000000", 400),
        ("$top=51&$expand=memberOf", 400),
        ("$skiptoken=nonsense", 400),
        ("$top=1&$top=2", 400),
        ("search=jane", 400),
        ("$Search=jane", 400),
        ("$unheard=1", 400),
    ] {
        assert_eq!(listed(query).map(drop), Err(status), "{query}");
    }
    for query in ["$skip=5", "$search=x", "$top=1", "$filter=x", "x=1"] {
        assert!(one(&parameters(query)).is_err(), "{query}");
    }
}

#[test]
fn what_is_asked_for_is_what_is_shown() {
    let asked = listed("$top=7&$select=id,+mail&$expand=memberOf&$orderby=onPremisesSamAccountName&$count=false").unwrap();
    assert_eq!((asked.search.limit, asked.members), (7, true));
    assert!(asked.shown.groups && asked.shown.shows(Property::Mail) && !asked.shown.shows(Property::DisplayName));
    let all = listed("").unwrap();
    assert!(Property::ALL.into_iter().all(|property| all.shown.shows(property)) && !all.shown.groups);
    assert_eq!((all.search.text.as_str(), all.search.limit), ("", SearchConfig::default().page_size));
}
