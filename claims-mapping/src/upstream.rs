//! What an upstream said, unmapped.

use serde_json::{Map, Value};

use crate::Subject;

/// Claims as an upstream gave them: a JSON object of at most [`Claims::MAX_BYTES`]. LDAP attributes and Keystone tokens
/// are presented in the same form.
#[derive(Clone, PartialEq, Eq)]
pub struct Claims(Map<String, Value>);

/// Why claims were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// They serialise to more than [`Claims::MAX_BYTES`].
    #[error("the claims are larger than {} bytes", Claims::MAX_BYTES)]
    TooLarge,
    /// They nest deeper than [`Claims::MAX_DEPTH`].
    #[error("the claims nest deeper than {} levels", Claims::MAX_DEPTH)]
    TooDeep,
    /// They are no JSON object.
    #[error("the claims are not a JSON object")]
    NotAnObject,
}

impl Claims {
    /// The most bytes that a set of claims may have as JSON.
    pub const MAX_BYTES: usize = 64 * 1024;
    /// The most levels that lists and objects may nest.
    pub const MAX_DEPTH: usize = 32;

    /// # Errors
    /// When the value is no object, is larger than [`Self::MAX_BYTES`] as JSON, or nests deeper than [`Self::MAX_DEPTH`].
    pub fn new(value: Value) -> Result<Self, ClaimsError> {
        if depth_exceeds(&value, Self::MAX_DEPTH) {
            return Err(ClaimsError::TooDeep);
        }
        let mut bytes = Counter(0);
        if serde_json::to_writer(&mut bytes, &value).is_err() {
            return Err(ClaimsError::TooLarge);
        }
        match value {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(ClaimsError::NotAnObject),
        }
    }

    /// One claim by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// All claims.
    #[must_use]
    pub const fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl std::fmt::Debug for Claims {
    /// Names only: claim values are personal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Counts bytes, and fails at the first one past the bound, so that nothing large is ever built to be measured.
struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0 += buf.len();
        if self.0 > Claims::MAX_BYTES { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(buf.len()) }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn depth_exceeds(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left == 0 || items.iter().any(|v| depth_exceeds(v, left - 1)),
        Value::Object(map) => left == 0 || map.values().any(|v| depth_exceeds(v, left - 1)),
        _ => false,
    }
}

/// What a connector returns for one person: their immutable subject there, and what the upstream says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUser {
    /// Who, at that upstream.
    pub subject: Subject,
    /// What it says of them.
    pub claims: Claims,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_bounded() {
        assert!(Claims::new(json!({"a": "x".repeat(Claims::MAX_BYTES)})).is_err());
        assert!(Claims::new(json!({"a": "x".repeat(Claims::MAX_BYTES - 16)})).is_ok());
        assert_eq!(Claims::new(json!([])), Err(ClaimsError::NotAnObject));
        let mut deep = json!(1);
        for _ in 0..40 {
            deep = json!([deep]);
        }
        assert_eq!(Claims::new(json!({ "a": deep })), Err(ClaimsError::TooDeep));
    }
}
