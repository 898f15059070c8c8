//! Sign-in with the id and the secret of a credential that a person made for a program of theirs. Whom it proves is admitted as
//! after a password; guesses are counted beside those at passwords.

use std::{net::IpAddr, sync::Arc};

use connectors::Secret;
use time::OffsetDateTime;

use super::{
    Admitted, SignInError,
    guessing::{Guesser, Guessing},
    password::{NO_ONE, admitted, counted, in_even_time, required},
};
use crate::tenancy::{Admission, Wired};

/// What someone typed, and what is known of where they come from.
#[derive(Debug)]
pub struct TypedCredential<'a> {
    /// The credential's id.
    pub id: &'a str,
    /// Its secret.
    pub secret: Secret,
    /// The tenant that the client's request names.
    pub tenant: Option<&'a str>,
    /// The address that the try comes from.
    pub address: IpAddr,
}

/// The use case.
#[derive(Debug)]
pub struct CredentialSignIn {
    admission: Arc<Admission>,
    guessing: Arc<Guessing>,
}

impl CredentialSignIn {
    /// Sign-in through these connectors.
    #[must_use]
    pub const fn new(admission: Arc<Admission>, guessing: Arc<Guessing>) -> Self {
        Self { admission, guessing }
    }

    /// Whose try this is: the credential is counted as an account of its own. No tenant's id has a line break.
    #[must_use]
    pub fn guesser(connector: &Wired, typed: &TypedCredential<'_>, known_browser: impl FnOnce(&str) -> bool) -> Guesser {
        Guesser::new(connector.id.as_str(), Some("\ncredential\n"), typed.id, typed.address, false).shown_by(known_browser)
    }

    /// Proves whose credential it is, and admits them.
    ///
    /// # Errors
    /// That it failed, or that it could not be told: the two are never mixed up.
    pub async fn sign_in(
        &self,
        connector: &Wired,
        typed: &TypedCredential<'_>,
        guesser: &Guesser,
        now: OffsetDateTime,
    ) -> Result<Admitted, SignInError> {
        counted(&self.guessing, guesser, now, in_even_time(connector, self.look(connector, typed, now))).await
    }

    async fn look(&self, connector: &Wired, typed: &TypedCredential<'_>, now: OffsetDateTime) -> Result<Admitted, SignInError> {
        let port = connector.credential.as_ref().ok_or(SignInError::Wrong)?;
        let (id, secret) = (typed.id.trim(), typed.secret.expose());
        // No credential looks like this, and no upstream is asked about it.
        if id.is_empty() || secret.trim().is_empty() || [id, secret].iter().any(|text| text.contains(char::is_control)) {
            return Err(SignInError::Wrong);
        }
        let wanted = required(typed.tenant)?;
        // As with a password: where the connector can not yield the tenant, no one's credential is tried.
        let id = if wanted.as_ref().is_none_or(|tenant| connector.policy.tenant_rule.admits(tenant)) { id } else { NO_ONE };
        let proven = port.authenticate(id, &typed.secret).await?.ok_or(SignInError::Wrong)?;
        admitted(&self.admission, connector, proven, wanted.as_ref(), now).await
    }
}
