//! What a sign-in leaves to ask again with: a small JSON text, which the broker keeps as a secret.

use serde::{Deserialize, Serialize};

use crate::Secret;

/// What the person's roles were of, and by what they were proven.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Remembered {
    /// The id of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<String>,
    /// The person's own domain.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) domain: bool,
    /// The system.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) system: bool,
    /// The id of the application credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) application_credential: Option<String>,
    /// The id of the person's own domain, where there is a directory to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user_domain: Option<String>,
    /// By what they were proven, as Keystone calls it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) methods: Vec<String>,
    /// The person's own token, where there is no directory to ask: then they are believed until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl Remembered {
    pub(super) fn to_secret(&self) -> Secret {
        // Texts and truth values always serialise.
        Secret::new(serde_json::to_string(self).unwrap_or_default())
    }

    /// What a sign-in left; `None` where this is no such text.
    pub(super) fn of(secret: &Secret) -> Option<Self> {
        serde_json::from_str(secret.expose()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_comes_back_and_says_no_more_than_is_needed() {
        let nothing = Remembered::default();
        assert_eq!(nothing.to_secret().expose(), "{}");
        let all = Remembered {
            project: Some("p".to_owned()),
            domain: true,
            system: true,
            application_credential: Some("c".to_owned()),
            user_domain: Some("d".to_owned()),
            methods: vec!["m".to_owned()],
            token: Some("t".to_owned()),
        };
        let text =
            r#"{"project":"p","domain":true,"system":true,"applicationCredential":"c","userDomain":"d","methods":["m"],"token":"t"}"#;
        assert_eq!(all.to_secret().expose(), text);
        for remembered in [nothing, all] {
            assert!(Remembered::of(&remembered.to_secret()) == Some(remembered));
        }
        for wrong in ["", "7", "refresh", r#"{"projekt":"p"}"#] {
            assert!(Remembered::of(&Secret::new(wrong.to_owned())).is_none(), "{wrong}");
        }
    }
}
