//! Why there is no identity.

use crate::{ClaimsError, ConnectorId};

/// Why a user is not admitted. The text is for operators and their log: it names claims and rules, never claim values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A required claim is missing.
    #[error("the claim `{0}` is missing")]
    MissingClaim(String),
    /// A claim has a type that its use does not allow.
    #[error("the claim `{claim}` must be {expected}")]
    ClaimType {
        /// Its name.
        claim: String,
        /// What it had to be.
        expected: &'static str,
    },
    /// The e-mail address is the username and the upstream says that it is not verified.
    #[error("the e-mail address is not verified")]
    EmailNotVerified,
    /// A required claim has another value.
    #[error("the claim `{0}` does not have the required value")]
    RequiredValue(String),
    /// An expression failed or gave another type than its place allows.
    #[error("{place}: {reason}")]
    Expression {
        /// Which expression, as a path in the mapping (`claimMappings.username`).
        place: String,
        /// What went wrong, without values.
        reason: String,
    },
    /// A validation rule said no.
    #[error("{place}: {message}")]
    Rule {
        /// Which rule (`userValidationRules[1]`).
        place: String,
        /// The operator's message.
        message: String,
    },
    /// The username is empty.
    #[error("the username is empty")]
    EmptyUsername,
    /// The name can not be used downstream.
    #[error("the {what} can not be used: {reason}")]
    Name {
        /// Which name.
        what: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// The tenant rule gave nothing.
    #[error("no tenant: the connector's tenant rule gave none")]
    NoTenant,
    /// The tenant rule gave more than one value.
    #[error("no tenant: the connector's tenant rule gave more than one value")]
    SeveralTenants,
    /// The tenant that the upstream names is not configured.
    #[error("the tenant that the upstream names is unknown")]
    UnknownTenant,
    /// The tenant is switched off.
    #[error("the tenant is disabled")]
    TenantDisabled,
    /// The connector may not speak for the tenant.
    #[error("the connector `{0}` may not speak for that tenant")]
    ConnectorNotAllowed(ConnectorId),
    /// `ids: verbatim`, and the subject is no UUID.
    #[error("the connector keeps upstream ids, and the subject is not a UUID")]
    SubjectNotUuid,
    /// The claims are too large or too deep.
    #[error(transparent)]
    Claims(#[from] ClaimsError),
}
