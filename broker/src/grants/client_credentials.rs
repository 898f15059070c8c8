//! A client in its own name (RFC 6749, 4.4): reviewers, operators, services of a tenant.

use time::OffsetDateTime;

use super::{Authentication, GrantError, Granted, Grants};
use crate::config::GrantType;

/// Scopes that speak of a person.
const OF_A_PERSON: [&str; 6] = ["openid", "profile", "email", "groups", "roles", "offline_access"];

impl Grants {
    /// A token for the client itself, in the tenant that the configuration gives it: nothing in the request chooses one.
    ///
    /// # Errors
    /// As [`GrantError`] says.
    pub fn client_credentials(
        &self,
        who: &Authentication,
        scope: &str,
        resources: &[String],
        now: OffsetDateTime,
    ) -> Result<Granted, GrantError> {
        let client = self.clients.authenticate(who)?;
        if client.is_public() || !client.may(GrantType::ClientCredentials) {
            return Err(GrantError::UnauthorizedClient);
        }
        let tenant = client.tenant.as_ref().ok_or(GrantError::UnauthorizedClient)?;
        let enabled = self.admission.tenants.enabled(tenant).ok_or(GrantError::InvalidGrant("the client's tenant is disabled"))?;
        let scopes = if scope.trim().is_empty() {
            client.scopes.iter().filter(|s| !OF_A_PERSON.contains(&s.as_str())).cloned().collect()
        } else {
            client.scopes_of(scope)?
        };
        if scopes.iter().any(|s| OF_A_PERSON.contains(&s.as_str())) {
            return Err(GrantError::InvalidScope("a scope speaks of a person, and there is none"));
        }
        self.issue_to_service(client, &enabled.id, &scopes, &client.audiences_of(resources)?, now)
    }
}
