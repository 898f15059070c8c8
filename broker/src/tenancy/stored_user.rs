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
}

impl From<MappedUser> for StoredUser {
    fn from(user: MappedUser) -> Self {
        let MappedUser { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified } = user;
        Self { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified }
    }
}

impl From<StoredUser> for MappedUser {
    fn from(user: StoredUser) -> Self {
        let StoredUser { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified } = user;
        Self { subject, username, groups, uid, extra, tenant, roles, display_name, email, email_verified }
    }
}
