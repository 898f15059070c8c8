//! What is understood of OData's system query options (OData 4.01 URL, 5.1); everything else is refused, and nothing passed over: a filter
//! that is left out would show more than was asked for.

use std::collections::BTreeSet;

use super::super::{failure::Failure, parameters::Parameters, users::position};
use crate::{config::SearchConfig, directory::Search};

/// The most characters of `$search`.
const SEARCH_MOST: usize = 128;
/// The most characters of `$filter`, `$select` and `$expand`.
const OPTION_MOST: usize = 512;
/// The most parentheses within each other.
const DEPTH_MOST: usize = 8;
/// The most people of a page that shows their groups: each is asked for one by one.
const EXPANDED_MOST: usize = 50;
/// What OData has, and this door has not.
const NOT_SUPPORTED: [&str; 10] =
    ["$apply", "$compute", "$skip", "$format", "$levels", "$index", "$schemaversion", "$deltatoken", "$id", "$root"];

/// A property of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Property {
    Id,
    DisplayName,
    UserType,
    Identities,
    OnPremisesSamAccountName,
    Mail,
}

impl Property {
    pub(super) const ALL: [Self; 6] =
        [Self::Id, Self::DisplayName, Self::UserType, Self::Identities, Self::OnPremisesSamAccountName, Self::Mail];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::DisplayName => "displayName",
            Self::UserType => "userType",
            Self::Identities => "identities",
            Self::OnPremisesSamAccountName => "onPremisesSamAccountName",
            Self::Mail => "mail",
        }
    }
}

/// What of people is shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The properties that were named; all of them where none were.
    selected: Option<BTreeSet<Property>>,
    /// Whether their groups are.
    pub(super) groups: bool,
}

impl Shown {
    pub(super) fn shows(&self, property: Property) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.contains(&property))
    }
}

/// A list that was asked for.
#[derive(Debug)]
pub(super) struct List {
    pub(super) search: Search,
    /// Whether members are among those who were asked for.
    pub(super) members: bool,
    pub(super) shown: Shown,
}

/// The options of a list.
pub(super) fn list(parameters: &Parameters, bounds: &SearchConfig) -> Result<List, Failure> {
    understood(parameters, &["$search", "$top", "$filter", "$select", "$expand", "$orderby", "$count", "$skiptoken"])?;
    let shown = shown(parameters)?;
    let most = if shown.groups { bounds.page_size_most.min(EXPANDED_MOST) } else { bounds.page_size_most };
    let limit = match parameters.one("$top")? {
        None => bounds.page_size.min(most),
        Some(text) => {
            let top = text.parse().ok().filter(|n| (1..=most).contains(n));
            let why = if shown.groups { " where `$expand` is given" } else { "" };
            top.ok_or_else(|| Failure::bad_request(format!("`$top` must be a number from 1 to {most}{why}")))?
        }
    };
    let after = match parameters.one("$skiptoken")? {
        None => None,
        Some(token) => {
            Some(position(token).ok_or_else(|| Failure::bad_request("`$skiptoken` must be that of an answer's `@odata.nextLink`"))?)
        }
    };
    match parameters.one("$orderby")? {
        None | Some("onPremisesSamAccountName" | "onPremisesSamAccountName asc") => {}
        Some(_) => return Err(Failure::not_supported("the order is always `onPremisesSamAccountName asc`")),
    }
    match parameters.one("$count")? {
        None | Some("false") => {}
        Some("true") => return Err(Failure::not_supported("how many there are is not counted: leave `$count` out")),
        Some(_) => return Err(Failure::bad_request("`$count` must be `true` or `false`")),
    }
    let text = parameters.one("$search")?.map_or_else(|| Ok(String::new()), searched)?;
    let members = parameters.one("$filter")?.map_or(Ok(true), members)?;
    Ok(List { search: Search { text, limit, after }, members, shown })
}

/// The options of one person.
pub(super) fn one(parameters: &Parameters) -> Result<Shown, Failure> {
    understood(parameters, &["$select", "$expand"])?;
    shown(parameters)
}

fn understood(parameters: &Parameters, known: &[&str]) -> Result<(), Failure> {
    if let Some(name) = NOT_SUPPORTED.iter().find(|option| parameters.pairs().any(|(name, _)| name == **option)) {
        return Err(Failure::not_supported(format!("`{name}` is not supported; supported are: {}", known.join(", "))));
    }
    parameters.only(known)
}

fn shown(parameters: &Parameters) -> Result<Shown, Failure> {
    let selected = match parameters.one("$select")? {
        None => None,
        Some(list) => {
            bounded("$select", list)?;
            let names = Property::ALL.map(Property::name).join(", ");
            let property = |name: &str| Property::ALL.into_iter().find(|property| property.name() == name.trim());
            let selected: Option<BTreeSet<_>> = list.split(',').map(property).collect();
            Some(
                selected
                    .ok_or_else(|| Failure::bad_request(format!("`$select` takes these properties, with commas between them: {names}")))?,
            )
        }
    };
    let groups = match parameters.one("$expand")? {
        None => false,
        Some("memberOf") => true,
        Some(_) => return Err(Failure::not_supported("`$expand` takes `memberOf` and nothing else")),
    };
    Ok(Shown { selected, groups })
}

fn bounded(option: &str, text: &str) -> Result<(), Failure> {
    if text.chars().count() > OPTION_MOST {
        return Err(Failure::bad_request(format!("`{option}` is longer than {OPTION_MOST} characters")));
    }
    Ok(())
}

/// The text of `$search`: one word, or one phrase in quotes, in which `\` stands before a quote of its own. OpenCloud's web puts a text into
/// quotes that may have some already, so that those at the ends are no part of it.
fn searched(option: &str) -> Result<String, Failure> {
    let option = option.trim();
    let several = || Failure::not_supported("`$search` takes one text; put it in quotes where it has blanks: `\"jane doe\"`");
    let text = match option.strip_prefix('"') {
        Some(phrase) => {
            let (mut text, mut characters) = (String::new(), phrase.chars());
            loop {
                match characters.next() {
                    Some('"') => break,
                    Some('\\') => text.extend(characters.next()),
                    Some(character) => text.push(character),
                    None => return Err(Failure::bad_request("`$search` has a quote at its beginning and none at its end")),
                }
            }
            if !characters.as_str().trim().is_empty() {
                return Err(several());
            }
            text
        }
        None if option.chars().any(|c| c.is_whitespace() || matches!(c, '"' | '(' | ')')) || matches!(option, "AND" | "OR" | "NOT") => {
            return Err(several());
        }
        None => option.to_owned(),
    };
    let text = text.trim().trim_matches('"').trim();
    if text.chars().count() > SEARCH_MOST {
        return Err(Failure::bad_request(format!("`$search` is longer than {SEARCH_MOST} characters")));
    }
    let of_property = ["givenName", "surname", "userPrincipalName", "displayName", "mail", "id", "userType", "onPremisesSamAccountName"];
    if text.split_once(':').is_some_and(|(name, _)| of_property.contains(&name)) {
        return Err(Failure::not_supported("`$search` looks through all names at once: leave the property out"));
    }
    Ok(text.to_owned())
}

/// Whether a `$filter` takes members: `userType eq '…'`, with `or` between several, in parentheses or not. It is read from the left, and never
/// by way of a recursion.
fn members(filter: &str) -> Result<bool, Failure> {
    bounded("$filter", filter)?;
    let unbalanced = || Failure::bad_request("`$filter` ends too early, or its parentheses do not fit together");
    let other = || Failure::not_supported("`$filter` takes `userType eq 'Member'`, `'Guest'`, `'Federated'`, and `or` between several");
    let (mut depth, mut members, mut wants_one) = (0_usize, false, true);
    let mut rest = filter.trim();
    while !rest.is_empty() {
        rest = if let (true, Some(inner)) = (wants_one, rest.strip_prefix('(')) {
            depth += 1;
            if depth > DEPTH_MOST {
                return Err(Failure::bad_request(format!("`$filter` has more than {DEPTH_MOST} parentheses within each other")));
            }
            inner
        } else if wants_one {
            wants_one = false;
            let (kind, after) = comparison(rest).ok_or_else(other)?;
            match kind {
                "Member" => members = true,
                "Guest" | "Federated" => {}
                _ => return Err(Failure::bad_request("a `userType` is 'Member', 'Guest' or 'Federated'")),
            }
            after
        } else if let Some(after) = rest.strip_prefix(')') {
            depth = depth.checked_sub(1).ok_or_else(unbalanced)?;
            after
        } else {
            wants_one = true;
            rest.strip_prefix("or").filter(|after| after.starts_with([' ', '('])).ok_or_else(other)?
        }
        .trim_start();
    }
    if wants_one || depth > 0 { Err(unbalanced()) } else { Ok(members) }
}

/// The type of `userType eq '…'`, and what follows it.
fn comparison(text: &str) -> Option<(&str, &str)> {
    let value = text.strip_prefix("userType ")?.trim_start().strip_prefix("eq ")?.trim_start().strip_prefix('\'')?;
    value.split_once('\'')
}

#[cfg(test)]
mod tests;
