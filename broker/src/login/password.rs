//! Sign-in with name and password.

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::{Tenant, TenantId, TenantLabel, TenantRule, UpstreamUser};
use connectors::{ConnectorError, LoginName, Secret};
use time::{Duration, OffsetDateTime};

use super::{
    Admitted,
    guessing::{Guesser, Guessing},
};
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
    #[error("not admitted: {why}")]
    NotAdmitted {
        /// Why not.
        why: AdmissionError,
        /// What the upstream said.
        user: Box<UpstreamUser>,
    },
    /// The upstream could not tell.
    #[error(transparent)]
    Upstream(#[from] ConnectorError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

/// A name that no one has.
const NO_ONE: &str = "no-one-33f1a2b86d0c4e57";

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

    /// Whose try this is; the browser's proof that the account has signed in on it is judged by the front door. What is
    /// counted does not depend on which tenants there are, and can not be varied by naming others.
    #[must_use]
    pub fn guesser(&self, connector: &Wired, typed: &Typed<'_>, known_browser: impl FnOnce(&str) -> bool) -> Guesser {
        let split = typed.name.rsplit_once('@');
        let label = |label: &str| self.tenants().by_label(label).map_or_else(|| label.to_owned(), |t| t.id.as_str().to_owned());
        let (name, tenant) = match (&connector.policy.tenant_rule, typed.tenant, split) {
            (TenantRule::Fixed(id) | TenantRule::Default(id), _, _) => {
                let own = split.filter(|(_, l)| label(l) == id.as_str());
                (own.map_or(typed.name, |(name, _)| name), Some(id.as_str().to_owned()))
            }
            (TenantRule::Mapped(_), Some(requested), _) => {
                let own = split.filter(|(_, l)| label(l) == requested);
                (own.map_or(typed.name, |(name, _)| name), Some(requested.to_owned()))
            }
            (TenantRule::Mapped(_), None, Some((name, l))) => (name, Some(label(l))),
            (TenantRule::Mapped(_), None, None) => (typed.name, None),
        };
        let of = |known| Guesser::new(connector.id.as_str(), tenant.as_deref(), name, typed.address, known);
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
    ) -> Result<Admitted, SignInError> {
        self.guessing.take(guesser, now).map_err(SignInError::Slowed)?;
        let result = self.look(connector, typed, now).await;
        if !matches!(result, Err(SignInError::Wrong)) {
            self.guessing.give_back(guesser);
        }
        result
    }

    async fn look(&self, connector: &Wired, typed: &Typed<'_>, now: OffsetDateTime) -> Result<Admitted, SignInError> {
        let password = connector.password.as_ref().ok_or(SignInError::Wrong)?;
        let (name, tenant) = self.split(typed).ok_or(SignInError::Wrong)?;
        // A tenant that this connector can not yield: the same way is gone for a name that no one has, so that no password of
        // anyone is tried at the upstream.
        let name = if tenant.as_ref().is_none_or(|t| connector.policy.tenant_rule.admits(&t.id)) { name } else { NO_ONE };
        let login = LoginName { name: name.to_owned(), tenant: tenant.clone(), ..LoginName::default() };
        let user = password.authenticate(&login, &typed.password).await?.ok_or(SignInError::Wrong)?.user;
        let (identity, mapped) = match self.admission.admit(connector, &user, now).await {
            Ok(admitted) => admitted,
            Err(AdmissionError::Store(error)) => return Err(error.into()),
            Err(AdmissionError::Directory(error)) => return Err(error.into()),
            Err(why) => return Err(SignInError::NotAdmitted { why, user: Box::new(user) }),
        };
        // The tenant was in the upstream's query; it is enforced on the answer too. Someone else's is no one's.
        match tenant {
            Some(tenant) if identity.id().tenant_id() != &tenant.id => Err(SignInError::Wrong),
            _ => Ok(Admitted { identity, mapped, user, upstream: None }),
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
