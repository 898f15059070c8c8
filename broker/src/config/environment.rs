//! `${NAME}` in a text is the environment variable of that name; `$${` is `${` itself; `${issuer}` is the issuer. What is
//! filled in is text, never YAML, and is not looked through again.

use std::fmt::Write as _;

use super::{
    places::Places,
    schema::shown,
    tree::{Node, Tree},
};

/// What a variable is: `None` where there is none, an error where it is no UTF-8.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<Result<String, ()>>;

/// The process' own environment.
pub(super) fn process(name: &str) -> Option<Result<String, ()>> {
    std::env::var_os(name).map(|value| value.into_string().map_err(|_| ()))
}

/// Fills in the whole tree.
pub(super) fn fill_in(tree: &mut Tree, lookup: Lookup<'_>, places: &mut Places) {
    let mut issuer = None;
    if let Node::Map(map) = &mut tree.node
        && let Some((_, _, value)) = map.iter_mut().find(|(_, key, _)| key == "issuer")
    {
        fill(value, &mut "issuer".to_owned(), lookup, None, places);
        if let Node::Text(text, _) = &value.node {
            issuer = Some(text.trim_end_matches('/').to_owned());
        }
    }
    let mut path = String::new();
    if let Node::Map(map) = &mut tree.node {
        for (_, key, value) in map.iter_mut().filter(|(_, key, _)| key != "issuer") {
            path.clear();
            path.push_str(key);
            fill(value, &mut path, lookup, issuer.as_deref(), places);
        }
    }
}

/// Fills in one value. `path` is where it is; what is below it is written behind that, and taken away again.
fn fill(tree: &mut Tree, path: &mut String, lookup: Lookup<'_>, issuer: Option<&str>, places: &mut Places) {
    let here = path.len();
    match &mut tree.node {
        Node::List(list) => {
            for (index, element) in list.iter_mut().enumerate() {
                // Writing to a text does not fail.
                _ = write!(path, "[{index}]");
                fill(element, path, lookup, issuer, places);
                path.truncate(here);
            }
        }
        Node::Map(map) => {
            for (_, key, value) in map {
                path.push('.');
                path.push_str(shown(key));
                fill(value, path, lookup, issuer, places);
                path.truncate(here);
            }
        }
        Node::Text(text, _) if text.contains("${") => {
            let place = tree.place;
            match expand(text, lookup, issuer, &mut places.secrets) {
                Ok(filled) => tree.node = filled,
                Err(message) => {
                    places.insert(path, place);
                    places.fault(path.as_str(), message);
                    tree.node = Node::Broken;
                }
            }
        }
        _ => {}
    }
}

/// The names of variables are no secrets, and are shown; anything else between the braces is not.
fn expand(text: &str, lookup: Lookup<'_>, issuer: Option<&str>, secrets: &mut Vec<String>) -> Result<Node, String> {
    let mut filled = String::with_capacity(text.len());
    let mut from_environment = false;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        }
        filled.push_str(before);
        let (name, after) = after.split_once('}').filter(|(name, _)| is_name(name)).ok_or(
            "`${` begins the name of an environment variable and ends with `}`: letters, digits and `_`; write `$${` for `${` itself",
        )?;
        rest = after;
        if name == "issuer" {
            filled.push_str(issuer.ok_or("`${issuer}` stands for the issuer, which can not be read")?);
            continue;
        }
        match lookup(name) {
            Some(Ok(value)) => {
                from_environment = true;
                filled.push_str(&value);
                secrets.push(value);
            }
            Some(Err(())) => return Err(format!("the environment variable {name} is not UTF-8")),
            None => return Err(format!("the environment variable {name} is not set")),
        }
    }
    filled.push_str(rest);
    Ok(Node::Text(filled, from_environment))
}

fn is_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
