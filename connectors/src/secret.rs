//! Secrets: a type that does not print itself, and where one comes from.

use std::{fmt, path::Path};

use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

/// A password or another secret text; zeroed when dropped, redacted in `Debug`.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a secret.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text.into())
    }
    /// The secret itself: for the protocol that needs it, and nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether this can be anyone's password: not empty, not blank, without NUL. An LDAP server takes an empty one for
    /// an anonymous bind and says yes (RFC 4513, 5.1.2), and C programs end a text at NUL.
    pub(crate) fn is_plausible_password(&self) -> bool {
        !self.expose().trim().is_empty() && !self.expose().contains('\0')
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A secret as it stands in the configuration, usually from `${ENV}`; redacted in `Debug` and where it is serialised.
/// Beside each such field `name` stands a `nameFile`.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ConfiguredSecret(String);

impl ConfiguredSecret {
    /// A secret for a configuration that is made in the program, as the demo's is.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConfiguredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Serialize for ConfiguredSecret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("[redacted]")
    }
}

impl Secret {
    /// Reads a secret from the field `name` or the file of the field `nameFile` (its content, without trailing line
    /// ends); `None` where neither is given.
    ///
    /// # Errors
    /// When both are given, the file can not be read, or the secret is empty. The text names the file.
    pub fn read(value: Option<&ConfiguredSecret>, file: Option<&Path>) -> Result<Option<Self>, String> {
        let text = match (value, file) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err("give the secret itself or its file, not both".to_owned()),
            (Some(value), None) => value.0.clone(),
            (None, Some(path)) => std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?,
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() { Err("the secret is empty".to_owned()) } else { Ok(Some(Self::new(text.to_owned()))) }
    }
}
