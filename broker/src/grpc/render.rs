//! From what the use cases say to messages. Never the upstream's own name for someone.

use std::sync::Arc;

use claims_mapping::{Tenant, UserId, UserKind};

use super::messages::{group, tenant, user};
use crate::cs3::{Cs3, Cs3Group, Cs3User};

/// A person. Their names are never empty: OpenCloud shows `display_name` alone in its lists.
pub(super) fn user(issuer: &str, found: &Cs3User) -> user::User {
    let identity = &found.person.identity;
    user::User {
        id: Some(user_id(issuer, identity.id())),
        username: found.username.clone(),
        mail: identity.email().unwrap_or_default().to_owned(),
        mail_verified: identity.email_verified(),
        display_name: identity.display_name().filter(|name| !name.trim().is_empty()).unwrap_or_else(|| identity.username()).to_owned(),
        groups: found.groups.iter().map(ToString::to_string).collect(),
        opaque: None,
        uid_number: identity.uid_number().unwrap_or_default(),
        gid_number: identity.gid_number().unwrap_or_default(),
        status: user::UserStatus::Active.into(),
    }
}

/// An id, which always has its tenant.
pub(super) fn user_id(issuer: &str, id: &UserId) -> user::UserId {
    let kind = match id.kind() {
        UserKind::Primary => user::UserType::Primary,
        UserKind::Service => user::UserType::Service,
    };
    user::UserId {
        idp: issuer.to_owned(),
        opaque_id: id.opaque_id().to_string(),
        r#type: kind.into(),
        tenant_id: id.tenant_id().as_str().to_owned(),
    }
}

/// A tenant.
pub(super) fn tenant(cs3: &Cs3, found: &Arc<Tenant>) -> tenant::Tenant {
    tenant::Tenant { id: found.id.as_str().to_owned(), name: found.display_name.clone(), external_id: cs3.external_id(found).to_owned() }
}

/// A group.
pub(super) fn group(issuer: &str, found: &Cs3Group) -> group::Group {
    let id = group::GroupId { idp: issuer.to_owned(), opaque_id: found.id.to_string(), r#type: group::GroupType::Regular.into() };
    group::Group {
        id: Some(id),
        group_name: found.name.clone(),
        gid_number: 0,
        mail: found.mail.clone().unwrap_or_default(),
        mail_verified: false,
        display_name: found.display_name.clone(),
        members: found.members.iter().map(|id| user_id(issuer, id)).collect(),
        opaque: None,
    }
}
