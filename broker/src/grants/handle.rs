//! Opaque handles: codes and refresh tokens. Each names its partition, so that it is found without searching, and its secret
//! part is stored as a fingerprint only.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::TenantId;
use uuid::Uuid;

use crate::{
    seams::Entropy,
    secret_text::{digest, fingerprint, random_text},
};

/// An authorization code: `dzc_<tenant>.<secret>`.
pub(super) struct CodeHandle {
    pub(super) tenant: TenantId,
    /// The fingerprint under which it is stored.
    pub(super) id: String,
}

/// A refresh token: `dzr_<tenant>.<root>.<generation>.<secret>`. The family is stored under a digest of its root: access tokens
/// name the family, and whoever sees one can not make a refresh token of it, not even a wrong one.
///
/// Earlier versions gave `dzr_<tenant>.<root>.<secret>`. All that follows the root is one text for them, of which they keep the
/// fingerprint, and so it is here: each version checks the tokens of the other. The generation counts as part of what is secret.
pub(super) struct RefreshHandle {
    pub(super) tenant: TenantId,
    pub(super) root: Uuid,
    pub(super) family: Uuid,
    /// The how-manieth of its family it is; `None` in a token of an earlier version.
    pub(super) generation: Option<u64>,
    /// The fingerprint of its secret.
    pub(super) secret: String,
}

impl CodeHandle {
    /// A new code, and the handle that finds it.
    pub(super) fn issue(tenant: &TenantId, entropy: &dyn Entropy) -> (String, Self) {
        let secret = random_text(entropy);
        let text = format!("dzc_{}.{secret}", B64.encode(tenant.as_str()));
        (text, Self { tenant: tenant.clone(), id: fingerprint(&secret) })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (tenant, secret) = text.strip_prefix("dzc_")?.split_once('.')?;
        Some(Self { tenant: tenant_of(tenant)?, id: fingerprint(secret) })
    }
}

impl RefreshHandle {
    /// A new refresh token of the family of this root, and its fingerprint.
    pub(super) fn issue(tenant: &TenantId, root: Uuid, generation: u64, entropy: &dyn Entropy) -> (String, String) {
        let secret = format!("{generation}.{}", random_text(entropy));
        (format!("dzr_{}.{}.{secret}", B64.encode(tenant.as_str()), root.simple()), fingerprint(&secret))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("dzr_")?.splitn(3, '.');
        let (tenant, root, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let root = Uuid::try_parse(root).ok()?;
        let generation = secret.split_once('.').and_then(|(generation, _)| generation.parse().ok());
        Some(Self { tenant: tenant_of(tenant)?, root, family: family_of(root), generation, secret: fingerprint(secret) })
    }
}

/// The family of a root.
pub(super) fn family_of(root: Uuid) -> Uuid {
    let mut half = [0; 16];
    half.iter_mut().zip(digest(root.as_bytes())).for_each(|(to, from)| *to = from);
    uuid::Builder::from_custom_bytes(half).into_uuid()
}

fn tenant_of(encoded: &str) -> Option<TenantId> {
    TenantId::parse(std::str::from_utf8(&B64.decode(encoded).ok()?).ok()?).ok()
}
