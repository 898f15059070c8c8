//! Who a person is, before and after mapping, and which tenant may be seen.
//!
//! Pure: no I/O, no async, no clock. The way through is
//! [`UpstreamUser`] (what a connector says) → [`Mapping::evaluate`] (Kubernetes' structured-authentication semantics) →
//! [`MappedUser`] → [`Identity::admit`] (the only way to an [`Identity`]: tenant, names, roles).

mod explain;
mod expression;
mod id;
mod identity;
mod mapping;
mod rejection;
mod scope;
mod tenant;
mod upstream;

pub use explain::{Explanation, Step};
pub use expression::{ExpressionFault, LIMITS, Limits};
pub use id::{ConnectorId, GroupId, IdError, Subject, TenantId, TenantLabel, UserId, UserKind, fold};
pub use identity::{ConnectorPolicy, IdScheme, Identity, OperatedBy, TenantRule};
pub use mapping::{
    ClaimMappings, ClaimOrExpression, ExtraMapping, MappedUser, Mapping, MappingConfig, MappingFault, PrefixedClaimOrExpression,
    ValidationRule,
};
pub use rejection::Rejection;
pub use scope::TenantScope;
pub use tenant::Tenant;
pub use upstream::{Claims, ClaimsError, UpstreamUser};
