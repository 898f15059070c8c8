//! The texts of a search, for people or for groups: each of them must be part of what is found.

use std::cmp::Reverse;

use claims_mapping::fold;

use super::Cs3Error;

/// The most texts of one search.
const MOST_TEXTS: usize = 16;
/// The most characters of one of them.
const MOST_CHARACTERS: usize = 320;

/// The longest text, which the connectors are asked for, and the others, case folded. They come as OpenCloud sends them: in quotes, or nothing
/// but quotes.
///
/// # Errors
/// Where they are too many, too long, or the longest has fewer than `least` characters.
pub(super) fn longest_and_others(texts: &[String], least: usize) -> Result<(&str, Vec<String>), Cs3Error> {
    let mut texts: Vec<_> = texts.iter().map(|text| text.trim_matches('"').trim()).collect();
    if texts.len() > MOST_TEXTS || texts.iter().any(|text| text.chars().take(MOST_CHARACTERS + 1).count() > MOST_CHARACTERS) {
        return Err(Cs3Error::Invalid("a search is for at most 16 texts of at most 320 characters"));
    }
    texts.sort_by_key(|text| Reverse(text.chars().count()));
    let longest = texts.first().copied().unwrap_or_default();
    if longest.chars().count() < least {
        return Err(Cs3Error::Invalid("the search is for fewer characters than `cs3.searchLeastCharacters`"));
    }
    Ok((longest, texts.into_iter().skip(1).map(fold).collect()))
}
