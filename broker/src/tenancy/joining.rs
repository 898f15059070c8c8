//! Joins: someone whom one upstream proved is a person of another one's directory. DESIGN: operators' connectors only, by
//! something that never changes, in the same tenant, exactly one match. The upstream adds the proof, and nothing else: id,
//! names, groups and roles are the directory's.

use std::sync::Arc;

use claims_mapping::{ConnectorId, Identity, MappedUser, OperatedBy, Rejection, Tenant, UpstreamUser};
use connectors::{Directory, Lookup};
use serde_json::Value;
use time::OffsetDateTime;

use super::{Admission, AdmissionError, Caller, Join, Wired};

/// The most characters of a value to look for.
const MOST_CHARACTERS: usize = 255;

impl Admission {
    /// The directory's person behind someone whom the connector's upstream speaks of.
    pub(super) async fn joined(
        &self,
        via: &Wired,
        join: &Join,
        user: &UpstreamUser,
        mapped: &MappedUser,
        now: OffsetDateTime,
    ) -> Result<(Identity, MappedUser), AdmissionError> {
        let tenant = self.tenant_of(via, mapped, now).await?;
        let value = value(user, join).ok_or_else(|| AdmissionError::JoinClaim(join.claim.clone()))?;
        let (own, directory) = self.directory_of(via, join, &tenant)?;
        let by = Lookup::Attribute { name: join.attribute.clone(), value: value.to_owned() };
        let no_one = || AdmissionError::JoinNoOne { directory: own.id.clone(), attribute: join.attribute.clone() };
        let found = directory.get(&Caller::scope_of_sign_in(&tenant), &by).await?.ok_or_else(no_one)?;
        let mapped = own.mapping.evaluate(&found)?;
        let identity = self.readmit(own, mapped.clone(), now).await?;
        // The tenant was in the directory's query; it is enforced on the answer too.
        if identity.id().tenant_id() != &tenant.id {
            return Err(no_one());
        }
        Ok((identity, mapped))
    }

    /// The directory, where both connectors are on, an operator's, and may speak for the tenant, which is on.
    fn directory_of(&self, via: &Wired, join: &Join, tenant: &Tenant) -> Result<(&Arc<Wired>, &Arc<dyn Directory>), AdmissionError> {
        let own = self.connector(join.directory.as_str()).ok_or_else(|| AdmissionError::NoConnector(join.directory.clone()))?;
        let directory = own.directory.as_ref().ok_or_else(|| AdmissionError::NoConnector(join.directory.clone()))?;
        if tenant.disabled {
            return Err(Rejection::TenantDisabled.into());
        }
        let may = |wired: &Wired| wired.policy.operated_by == OperatedBy::Operator && wired.serves(tenant);
        let refused = |id: &ConnectorId| Err(Rejection::ConnectorNotAllowed(id.clone()).into());
        match (may(via), may(own)) {
            (false, _) => refused(&via.id),
            (_, false) => refused(&own.id),
            _ => Ok((own, directory)),
        }
    }
}

/// What to look for: a text, not empty, not longer than an id can be, without control characters.
fn value<'u>(user: &'u UpstreamUser, join: &Join) -> Option<&'u str> {
    let Some(Value::String(text)) = user.claims.get(&join.claim) else { return None };
    let is_id = !text.trim().is_empty() && text.chars().count() <= MOST_CHARACTERS && !text.chars().any(char::is_control);
    is_id.then_some(text)
}
