//! One token may have less than what was granted, and never more.

use super::{Client, GrantError};

/// The audiences of this one token: those that were asked for at first, or some of them (RFC 8707, 2.2).
pub(super) fn audiences(granted: &[String], asked: &[String]) -> Result<Vec<String>, GrantError> {
    if asked.is_empty() {
        return Ok(granted.to_vec());
    }
    if asked.iter().all(|a| granted.contains(a)) {
        return Ok(granted.iter().filter(|g| asked.contains(g)).cloned().collect());
    }
    Err(GrantError::InvalidTarget("a resource was not part of the authorization request"))
}

/// The scopes of this one token: those that were granted at first, or some of them (RFC 6749, 6). What a client is granted unasked
/// it does not ask for here either.
pub(super) fn scopes(granted: &[String], asked: Option<&str>, client: &Client) -> Result<Vec<String>, GrantError> {
    let Some(asked) = asked else { return Ok(granted.to_vec()) };
    let asked: Vec<_> = asked.split(' ').filter(|s| !s.is_empty()).map(str::to_owned).collect();
    if asked.iter().all(|s| granted.contains(s)) {
        Ok(client.with_implied(asked).into_iter().filter(|scope| granted.contains(scope)).collect())
    } else {
        Err(GrantError::InvalidScope("a scope was not part of the authorization request"))
    }
}
