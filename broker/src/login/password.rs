//! Sign-in with name and password.

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::{Identity, MappedUser, Tenant, TenantId, TenantLabel};
use connectors::{ConnectorError, LoginName, Secret};
use time::{Duration, OffsetDateTime};

use super::guessing::{Guesser, Guessing};
use crate::tenancy::{Admission, AdmissionError, Tenants, Wired};

/// What someone typed, and what is known of where they come from.
#[derive(Debug)]
pub struct Typed<'a> {
    /// The name.
    pub name: &'a str,
    /// The password.
    pub password: Secret,
    /// The tenant that the client's request names.
    pub tenant: Option<&'a str>,
    /// The address that the try comes from.
    pub address: std::net::IpAddr,
}

/// A sign-in failed, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignInError {
    /// Wrong name or password; a name that two people have, without a tenant; a tenant that there is not. One answer for all.
    #[error("wrong name or password")]
    Wrong,
    /// Too many failures.
    #[error("too many failures; wait {0}")]
    Slowed(Duration),
    /// The password was right, and there is no identity all the same.
    #[error("not admitted: {0}")]
    NotAdmitted(AdmissionError),
    /// The upstream could not tell.
    #[error(transparent)]
    Upstream(#[from] ConnectorError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

/// The use case.
#[derive(Debug)]
pub struct PasswordSignIn {
    admission: Arc<Admission>,
    guessing: Guessing,
}

impl PasswordSignIn {
    /// Sign-in through these connectors.
    #[must_use]
    pub const fn new(admission: Arc<Admission>, guessing: Guessing) -> Self {
        Self { admission, guessing }
    }

    /// Whose try this is; the browser's proof that the account has signed in on it is judged by the front door.
    #[must_use]
    pub fn guesser(&self, connector: &Wired, typed: &Typed<'_>, known_browser: impl FnOnce(&str) -> bool) -> Guesser {
        let (name, tenant) = self.split(typed).unwrap_or((typed.name, None));
        let of = |known| Guesser::new(connector.id.as_str(), tenant.as_ref().map(|t| t.id.as_str()), name, typed.address, known);
        let known = known_browser(of(false).account());
        of(known)
    }

    /// Proves who someone is, and admits them.
    ///
    /// # Errors
    /// That it failed, or that it could not be told: the two are never mixed up.
    pub async fn sign_in(
        &self,
        connector: &Wired,
        typed: &Typed<'_>,
        guesser: &Guesser,
        now: OffsetDateTime,
    ) -> Result<(Identity, MappedUser), SignInError> {
        self.guessing.take(guesser, now).map_err(SignInError::Slowed)?;
        let result = self.look(connector, typed, now).await;
        if !matches!(result, Err(SignInError::Wrong)) {
            self.guessing.give_back(guesser);
        }
        result
    }

    async fn look(&self, connector: &Wired, typed: &Typed<'_>, now: OffsetDateTime) -> Result<(Identity, MappedUser), SignInError> {
        let password = connector.password.as_ref().ok_or(SignInError::Wrong)?;
        let (name, tenant) = self.split(typed).ok_or(SignInError::Wrong)?;
        let login = LoginName { name: name.to_owned(), tenant: tenant.clone() };
        let user = password.authenticate(&login, &typed.password).await?.ok_or(SignInError::Wrong)?;
        let admitted = self.admission.admit(connector, &user, now).await.map_err(|error| match error {
            AdmissionError::Store(error) => SignInError::Store(error),
            error => SignInError::NotAdmitted(error),
        })?;
        // The tenant was in the upstream's query; it is enforced on the answer too. Someone else's is no one's.
        match tenant {
            Some(tenant) if admitted.0.id().tenant_id() != &tenant.id => Err(SignInError::Wrong),
            _ => Ok(admitted),
        }
    }

    /// The name to look for, and the tenant to look in: the client's request decides, then `name@label`. A tenant that there
    /// is not is looked in all the same, and no one is found: nothing shows which ones there are. `None` where what the
    /// request names can not be a tenant's id.
    fn split<'n>(&self, typed: &Typed<'n>) -> Option<(&'n str, Option<Arc<Tenant>>)> {
        let labelled = typed.name.rsplit_once('@').and_then(|(name, label)| Some((name, self.tenants().by_label(label)?)));
        let Some(requested) = typed.tenant else {
            return Some(labelled.map_or((typed.name, None), |(name, tenant)| (name, Some(tenant))));
        };
        let id = TenantId::parse(requested).ok()?;
        let name = labelled.filter(|(_, labelled)| labelled.id == id).map_or(typed.name, |(name, _)| name);
        Some((name, Some(self.tenants().get(&id).unwrap_or_else(|| no_such_tenant(id)))))
    }

    fn tenants(&self) -> &Tenants {
        &self.admission.tenants
    }
}

fn no_such_tenant(id: TenantId) -> Arc<Tenant> {
    let (label, external_ids) = (TenantLabel::derived(&id), BTreeMap::new());
    Arc::new(Tenant { id, label, display_name: String::new(), external_ids, connectors: None, disabled: true })
}
