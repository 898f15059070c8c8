//! A token as someone sent it: what can be read of it before anything is proven.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde::Deserialize;

/// A token as someone sent it. It prints its length only.
#[derive(Clone, Copy)]
pub struct UnverifiedToken<'a>(&'a str);

impl<'a> UnverifiedToken<'a> {
    /// The longest token that is looked at, in bytes.
    pub const MAX_BYTES: usize = 32 * 1024;

    /// Takes a token.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The token, for whoever verifies it.
    #[must_use]
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// The `iss` that a compact JWS names, whoever wrote it; `None` where it is none, is too long, or names none.
    #[must_use]
    pub fn unverified_issuer(self) -> Option<String> {
        #[derive(Deserialize)]
        struct Issuer {
            iss: String,
        }
        if self.0.len() > Self::MAX_BYTES {
            return None;
        }
        let mut parts = self.0.split('.');
        let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
        let Issuer { iss } = serde_json::from_slice(&B64.decode(payload).ok()?).ok()?;
        Some(iss)
    }
}

impl fmt::Debug for UnverifiedToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnverifiedToken({} bytes)", self.0.len())
    }
}
