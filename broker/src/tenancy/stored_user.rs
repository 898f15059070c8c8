//! What a mapping gave, in its stored form. It is no identity: whoever reads it admits it anew.

use std::collections::BTreeMap;

use claims_mapping::{MappedUser, Subject};
use serde::{Deserialize, Serialize};

/// [`MappedUser`] in its stored form.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredUser {
    pub(crate) subject: Subject,
    pub(crate) username: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
    tenant: Vec<String>,
    roles: Vec<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) email: Option<String>,
    email_verified: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uid_number: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gid_number: Option<i64>,
}

impl From<MappedUser> for StoredUser {
    fn from(user: MappedUser) -> Self {
        let MappedUser {
            subject,
            username,
            groups,
            uid,
            extra,
            tenant,
            roles,
            display_name,
            email,
            email_verified,
            uid_number,
            gid_number,
        } = user;
        Self { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified, uid_number, gid_number }
    }
}

impl From<StoredUser> for MappedUser {
    fn from(user: StoredUser) -> Self {
        let StoredUser {
            subject,
            username,
            groups,
            uid,
            extra,
            tenant,
            roles,
            display_name,
            email,
            email_verified,
            uid_number,
            gid_number,
        } = user;
        Self { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified, uid_number, gid_number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_before_there_were_numbers_is_read() {
        let stored = r#"{"subject":"s","username":"jane","groups":[],"uid":"","extra":{},"tenant":["acme"],"roles":[],"display_name":null,
            "email":null,"email_verified":false}"#;
        let user: StoredUser = serde_json::from_str(stored).unwrap();
        assert_eq!((user.uid_number, user.gid_number), (None, None));
        let numbered = StoredUser { uid_number: Some(1000), gid_number: Some(i64::MAX), ..user };
        let text = serde_json::to_string(&numbered).unwrap();
        assert!(serde_json::from_str::<StoredUser>(&text).is_ok_and(|read| read == numbered));
    }
}
