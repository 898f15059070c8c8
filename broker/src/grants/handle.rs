//! Opaque handles: codes and refresh tokens. Each names its partition, so that it is found without searching, and its secret
//! part is stored as a fingerprint only.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::TenantId;
use uuid::Uuid;

use crate::{
    seams::Entropy,
    secret_text::{fingerprint, random_text},
};

/// An authorization code: `dzc_<tenant>.<secret>`.
pub(super) struct CodeHandle {
    pub(super) tenant: TenantId,
    /// The fingerprint under which it is stored.
    pub(super) id: String,
}

/// A refresh token: `dzr_<tenant>.<family>.<secret>`.
pub(super) struct RefreshHandle {
    pub(super) tenant: TenantId,
    pub(super) family: Uuid,
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
    /// A new refresh token of a family, and its fingerprint.
    pub(super) fn issue(tenant: &TenantId, family: Uuid, entropy: &dyn Entropy) -> (String, String) {
        let secret = random_text(entropy);
        (format!("dzr_{}.{}.{secret}", B64.encode(tenant.as_str()), family.simple()), fingerprint(&secret))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("dzr_")?.splitn(3, '.');
        let (tenant, family, secret) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { tenant: tenant_of(tenant)?, family: Uuid::try_parse(family).ok()?, secret: fingerprint(secret) })
    }
}

fn tenant_of(encoded: &str) -> Option<TenantId> {
    TenantId::parse(std::str::from_utf8(&B64.decode(encoded).ok()?).ok()?).ok()
}
