//! From messages to what the use cases take: bounded, and without a guess at what was meant. It owns no right.

use super::messages::{group, user};
use crate::cs3::{Cs3Error, Cs3GroupSearch, Cs3Search, UserRef};

/// The longest id, claim value or address in a request, in bytes. A tenant's id has at most 255 characters of four bytes each.
const LONGEST_VALUE: usize = 1_024;
/// The longest name of a claim, in bytes.
const LONGEST_CLAIM: usize = 64;
/// The longest text of a search, in characters: as of the REST API.
const LONGEST_QUERY: usize = 128;
/// The most filters of a search.
const MOST_FILTERS: usize = 16;

/// Whom a request names.
pub(super) fn user_ref(id: Option<user::UserId>) -> Result<UserRef, Cs3Error> {
    let id = id.ok_or(Cs3Error::Invalid("`user_id` is missing"))?;
    let opaque_id = value(id.opaque_id, "`user_id.opaque_id` is missing")?;
    Ok(UserRef { opaque_id, idp: bounded(id.idp)?, tenant_id: bounded(id.tenant_id)? })
}

/// Which group a request names. Its `idp` says nothing that its id does not.
pub(super) fn group_ref(id: Option<group::GroupId>) -> Result<String, Cs3Error> {
    let id = id.ok_or(Cs3Error::Invalid("`group_id` is missing"))?;
    value(id.opaque_id, "`group_id.opaque_id` is missing")
}

/// A claim and its value.
pub(super) fn claim(claim: String, of: String) -> Result<(String, String), Cs3Error> {
    if claim.len() > LONGEST_CLAIM {
        return Err(Cs3Error::Invalid("`claim` is longer than 64 bytes"));
    }
    Ok((claim, value(of, "`value` is missing")?))
}

/// A text that must be there.
pub(super) fn value(text: String, missing: &'static str) -> Result<String, Cs3Error> {
    if text.is_empty() { Err(Cs3Error::Invalid(missing)) } else { bounded(text) }
}

fn bounded(text: String) -> Result<String, Cs3Error> {
    if text.len() > LONGEST_VALUE { Err(Cs3Error::Invalid("a value is longer than 1,024 bytes")) } else { Ok(text) }
}

/// What a filter asks for.
enum Part {
    Text(String),
    /// A kind that is ours, or one of which there is no one.
    Kind {
        is_ours: bool,
    },
}

/// A search for users: all of its filters hold.
pub(super) fn user_search(filters: Vec<user::Filter>, skip_groups: bool, least: usize) -> Result<Cs3Search, Cs3Error> {
    use user::filter::{Term, Type};
    let parts = filters.into_iter().map(|filter| match (filter.r#type(), filter.term) {
        (Type::Query, Some(Term::Query(text))) => Ok(Part::Text(text)),
        (Type::Usertype, Some(Term::Usertype(kind))) => Ok(Part::Kind { is_ours: kind == i32::from(user::UserType::Primary) }),
        _ => Err(MISFIT),
    });
    let (texts, is_empty) = all_of(parts, least)?;
    Ok(Cs3Search { texts, is_empty, skip_groups })
}

/// A search for groups: all of its filters hold.
pub(super) fn group_search(filters: Vec<group::Filter>, skip_members: bool, least: usize) -> Result<Cs3GroupSearch, Cs3Error> {
    use group::filter::{Term, Type};
    let parts = filters.into_iter().map(|filter| match (filter.r#type(), filter.term) {
        (Type::Query, Some(Term::Query(text))) => Ok(Part::Text(text)),
        (Type::Grouptype, Some(Term::Grouptype(kind))) => Ok(Part::Kind { is_ours: kind == i32::from(group::GroupType::Regular) }),
        _ => Err(MISFIT),
    });
    let (texts, is_empty) = all_of(parts, least)?;
    Ok(Cs3GroupSearch { texts, is_empty, skip_members })
}

const MISFIT: Cs3Error = Cs3Error::Invalid("a filter has no type that is known here, or a term that is not of its type");

/// The texts that are looked for, and whether some filter asks for a kind of which there is no one.
fn all_of(parts: impl ExactSizeIterator<Item = Result<Part, Cs3Error>>, least: usize) -> Result<(Vec<String>, bool), Cs3Error> {
    if parts.len() > MOST_FILTERS {
        return Err(Cs3Error::Invalid("there are more than 16 filters"));
    }
    let (mut texts, mut is_empty) = (Vec::new(), false);
    for part in parts {
        match part? {
            Part::Kind { is_ours } => is_empty |= !is_ours,
            Part::Text(text) => texts.push(unquoted(&text).to_owned()),
        }
    }
    let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    if longest > LONGEST_QUERY {
        return Err(Cs3Error::Invalid("a search is longer than 128 characters"));
    }
    if longest < least {
        return Err(Cs3Error::Invalid("the search is shorter than `cs3.searchLeastCharacters`"));
    }
    // What is in every name narrows nothing.
    texts.retain(|text| !text.is_empty());
    Ok((texts, is_empty))
}

/// The text without blanks and one pair of quotes around it, as OpenCloud's web page sends it.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map_or(text, str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use user::{
        Filter, UserType,
        filter::{Term, Type},
    };

    fn query(text: &str) -> Filter {
        Filter { r#type: Type::Query.into(), term: Some(Term::Query(text.to_owned())) }
    }

    fn kind(kind: UserType) -> Filter {
        Filter { r#type: Type::Usertype.into(), term: Some(Term::Usertype(kind.into())) }
    }

    fn texts(filters: Vec<Filter>) -> Vec<String> {
        user_search(filters, false, 0).unwrap().texts
    }

    #[test]
    fn every_filter_counts_not_only_the_first() {
        let found = user_search(vec![query("jane"), query("doe"), kind(UserType::Primary)], true, 0).unwrap();
        assert_eq!(found, Cs3Search { texts: vec!["jane".into(), "doe".into()], is_empty: false, skip_groups: true });
        let none = user_search(vec![query("jane"), kind(UserType::Primary), kind(UserType::Guest)], false, 0).unwrap();
        assert!(none.is_empty, "nobody is both");
        for other in [UserType::Invalid, UserType::Service, UserType::Federated, UserType::SpaceOwner] {
            assert!(user_search(vec![kind(other)], false, 0).unwrap().is_empty, "{other:?}");
        }
    }

    #[test]
    fn quotes_are_the_web_pages_own() {
        assert_eq!(texts(vec![query("\"jane doe\"")]), ["jane doe"]);
        assert_eq!(texts(vec![query("  \" jane \"  ")]), ["jane"]);
        assert_eq!(texts(vec![query("ja\"ne")]), ["ja\"ne"]);
        assert_eq!(texts(vec![query("\"")]), ["\""], "one quote is no pair");
        assert_eq!(texts(vec![query("\"\"jane\"\"")]), ["\"jane\""], "one pair");
        for all in ["", "\"\"", " ", "\" \""] {
            assert!(texts(vec![query(all)]).is_empty(), "{all:?} lists the tenant");
        }
        assert!(texts(vec![]).is_empty());
    }

    #[test]
    fn the_least_length_is_of_the_longest_text() {
        assert!(user_search(vec![query("ab")], false, 3).is_err());
        assert!(user_search(vec![query("\"ab\"")], false, 3).is_err(), "quotes do not count");
        assert!(user_search(vec![query("äbc")], false, 3).is_ok(), "characters, not bytes");
        assert!(user_search(vec![query("ab"), query("abc")], false, 3).is_ok());
        assert!(user_search(vec![query("")], false, 1).is_err() && user_search(vec![], false, 1).is_err());
        assert!(user_search(vec![], false, 0).is_ok());
    }

    #[test]
    fn filters_that_make_no_sense_are_refused_and_never_left_out() {
        let wrong = [
            Filter { r#type: Type::Invalid.into(), term: Some(Term::Query("jane".into())) },
            Filter { r#type: 7, term: Some(Term::Query("jane".into())) },
            Filter { r#type: Type::Query.into(), term: None },
            Filter { r#type: Type::Query.into(), term: Some(Term::Usertype(1)) },
            Filter { r#type: Type::Usertype.into(), term: Some(Term::Query("jane".into())) },
            query(&"a".repeat(129)),
        ];
        for filter in wrong {
            let told = user_search(vec![query("jane"), filter.clone()], false, 0);
            assert!(matches!(told, Err(Cs3Error::Invalid(_))), "{filter:?}");
        }
        assert!(user_search(vec![query("a"); 16], false, 0).is_ok());
        assert!(user_search(vec![query("a"); 17], false, 0).is_err());
    }

    #[test]
    fn ids_and_values_are_bounded() {
        let id = |opaque_id: &str, idp: &str, tenant_id: &str| {
            let text = str::to_owned;
            user_ref(Some(user::UserId { opaque_id: text(opaque_id), idp: text(idp), r#type: 1, tenant_id: text(tenant_id) }))
        };
        let long = "a".repeat(1_025);
        assert!(id("a", "", "").is_ok() && user_ref(None).is_err() && id("", "", "").is_err());
        assert!(id(&long, "", "").is_err() && id("a", &long, "").is_err() && id("a", "", &long).is_err());
        assert!(claim("mail".into(), "a".into()).is_ok() && claim("mail".into(), String::new()).is_err());
        assert!(claim("mail".into(), long).is_err() && claim("a".repeat(65), "a".into()).is_err());
        assert!(group_ref(None).is_err());
    }
}
