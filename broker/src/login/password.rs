//! Sign-in with name and password: where the name is looked for, and what becomes of whom the upstream proves.

use std::{collections::BTreeMap, sync::Arc};

use claims_mapping::{Tenant, TenantId, TenantLabel, TenantRule, UpstreamUser};
use connectors::{AsksDomain, ConnectorError, LoginName, Proven, Secret};
use time::{Duration, OffsetDateTime};
use tokio::time::Instant;

use super::{
    Admitted, AtUpstream,
    guessing::{Guesser, Guessing, canonical},
};
use crate::tenancy::{Admission, AdmissionError, Tenants, Wired};

/// What someone typed, and what is known of where they come from.
#[derive(Debug)]
pub struct Typed<'a> {
    /// The name.
    pub name: &'a str,
    /// The password.
    pub password: Secret,
    /// The domain, where the upstream asks for it ([`PasswordSignIn::asks_domain`]); else it is not looked at. It may be left out
    /// beside `name@domain`.
    pub domain: Option<&'a str>,
    /// The project, likewise; it may always be left out.
    pub project: Option<&'a str>,
    /// The tenant that the client's request names.
    pub tenant: Option<&'a str>,
    /// The address that the try comes from.
    pub address: std::net::IpAddr,
}

/// A sign-in failed, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignInError {
    /// Wrong name, domain, project or password; a name that two people have, without a tenant; a tenant that there is not; a wrong
    /// credential. One answer for all.
    #[error("wrong name, password or credential")]
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

/// A name that no one has, and no credential.
pub(super) const NO_ONE: &str = "no-one-33f1a2b86d0c4e57";

/// The use case.
#[derive(Debug)]
pub struct PasswordSignIn {
    admission: Arc<Admission>,
    guessing: Arc<Guessing>,
}

/// Where a name is looked for.
struct Sought<'a> {
    name: &'a str,
    tenant: Option<Arc<Tenant>>,
    /// The domain, as it was typed: what the upstream calls it, unless the tenant says that.
    domain: Option<&'a str>,
}

impl PasswordSignIn {
    /// Sign-in through these connectors.
    #[must_use]
    pub const fn new(admission: Arc<Admission>, guessing: Arc<Guessing>) -> Self {
        Self { admission, guessing }
    }

    /// Whether a connector has to be told the domain: where it asks for it, and the tenant that the client's request names does
    /// not say. That tenant says nothing of a connector all of whose domains are one tenant, or whose tenants are no domains.
    #[must_use]
    pub fn asks_domain(connector: &Wired, requested: Option<&str>) -> bool {
        match connector.password.as_ref().map(|port| port.asks().domain) {
            None | Some(AsksDomain::Never) => false,
            Some(AsksDomain::WithoutTenant) => requested.is_none() || !Self::is_domain_a_tenant(connector),
            Some(AsksDomain::Always) => true,
        }
    }

    /// Whether tenants are this connector's domains, so that the one says the other.
    fn is_domain_a_tenant(connector: &Wired) -> bool {
        let is_mapped = matches!(connector.policy.tenant_rule, TenantRule::Mapped(_));
        is_mapped && connector.password.as_ref().is_some_and(|port| port.asks().domain == AsksDomain::WithoutTenant)
    }

    /// Whose try this is; the browser's proof that the account has signed in on it is judged by the front door. What is
    /// counted does not depend on which tenants there are, and can not be varied by naming others.
    ///
    /// Of a typed domain every name of a tenant is one account: its label, its id, what this connector calls it. Every other is
    /// counted as it was typed, folded. The upstream may know the same domain by a name that is none of these, which the broker
    /// can not know: whoever uses both has two budgets for an account, and not more.
    #[must_use]
    pub fn guesser(&self, connector: &Wired, typed: &Typed<'_>, known_browser: impl FnOnce(&str) -> bool) -> Guesser {
        let split = typed.name.rsplit_once('@');
        let label = |label: &str| self.tenants().by_label(label).map_or_else(|| canonical(label), |t| t.id.as_str().to_owned());
        let (name, tenant) = match (&connector.policy.tenant_rule, typed.tenant, split) {
            _ if Self::asks_domain(connector, typed.tenant) => {
                let Sought { name, tenant, domain } = self.in_domain(connector, typed);
                // No tenant's id has a line break.
                (name, Some(tenant.map_or_else(|| format!("\n{}", canonical(domain.unwrap_or_default())), |t| t.id.as_str().to_owned())))
            }
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
        Guesser::new(connector.id.as_str(), tenant.as_deref(), name, typed.address, false).shown_by(known_browser)
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
        counted(&self.guessing, guesser, now, in_even_time(connector, self.look(connector, typed, now))).await
    }

    async fn look(&self, connector: &Wired, typed: &Typed<'_>, now: OffsetDateTime) -> Result<Admitted, SignInError> {
        let password = connector.password.as_ref().ok_or(SignInError::Wrong)?;
        let Sought { name, tenant, domain } =
            if Self::asks_domain(connector, typed.tenant) { self.in_domain(connector, typed) } else { self.split(typed)? };
        let wanted = required(typed.tenant)?.or_else(|| tenant.as_ref().map(|tenant| tenant.id.clone()));
        // A tenant that this connector can not yield: the same way is gone for a name that no one has, so that no password of
        // anyone is tried at the upstream.
        let name = if wanted.as_ref().is_none_or(|id| connector.policy.tenant_rule.admits(id)) { name } else { NO_ONE };
        let project = typed.project.map(str::trim).filter(|project| password.asks().project && !project.is_empty());
        let login = LoginName { name: name.to_owned(), tenant, domain: domain.map(str::to_owned), project: project.map(str::to_owned) };
        let proven = password.authenticate(&login, &typed.password).await?.ok_or(SignInError::Wrong)?;
        // The tenant was in the upstream's query; it is enforced on the answer too.
        admitted(&self.admission, connector, proven, wanted.as_ref(), now).await
    }

    /// The same where the connector has to be told the domain. What is a tenant's label, id or name at this connector is that
    /// tenant, and no domain that is called so upstream; everything else goes on as it is, for the upstream knows its domains'
    /// names. `name@domain` says it too, where nothing else does. Where all of a connector's people are one tenant, or the tenant is
    /// something else than the domain, no domain is a tenant.
    fn in_domain<'a>(&self, connector: &Wired, typed: &Typed<'a>) -> Sought<'a> {
        let split = typed.name.rsplit_once('@').map(|(name, domain)| (name, domain.trim()));
        let given = typed.domain.map(str::trim).filter(|domain| !domain.is_empty());
        let Some(domain) = given.or(split.map(|(_, domain)| domain)) else {
            return Sought { name: typed.name, tenant: None, domain: None };
        };
        let tenant = self.tenants().called(&connector.id, domain).filter(|_| Self::is_domain_a_tenant(connector));
        let is_said_twice = |label: &str| {
            let labelled = self.tenants().by_label(label);
            labelled.zip(tenant.as_ref()).is_some_and(|(labelled, tenant)| labelled.id == tenant.id)
        };
        let name = split.filter(|(_, label)| given.is_none() || is_said_twice(label)).map_or(typed.name, |(name, _)| name);
        Sought { name, tenant, domain: Some(domain) }
    }

    /// The name to look for, and the tenant to look in: the client's request decides, then `name@label`. A tenant that there
    /// is not is looked in all the same, and no one is found: nothing shows which ones there are. An error where what the
    /// request names can not be a tenant's id.
    fn split<'a>(&self, typed: &Typed<'a>) -> Result<Sought<'a>, SignInError> {
        let labelled = typed.name.rsplit_once('@').and_then(|(name, label)| Some((name, self.tenants().by_label(label)?)));
        let (name, tenant) = match required(typed.tenant)? {
            None => labelled.map_or((typed.name, None), |(name, tenant)| (name, Some(tenant))),
            Some(id) => {
                let name = labelled.filter(|(_, labelled)| labelled.id == id).map_or(typed.name, |(name, _)| name);
                (name, Some(self.tenants().get(&id).unwrap_or_else(|| no_such_tenant(id))))
            }
        };
        Ok(Sought { name, tenant, domain: None })
    }

    fn tenants(&self) -> &Tenants {
        &self.admission.tenants
    }
}

/// So often a "no" of such an upstream is told: at the next full step from the question on.
const STEP: Duration = Duration::milliseconds(500);

/// A try that is counted before it is made, and is not one where it was right or could not be told.
pub(super) async fn counted<T>(
    guessing: &Guessing,
    guesser: &Guesser,
    now: OffsetDateTime,
    look: impl Future<Output = Result<T, SignInError>>,
) -> Result<T, SignInError> {
    guessing.take(guesser, now).await?.map_err(SignInError::Slowed)?;
    let result = look.await;
    if !matches!(result, Err(SignInError::Wrong)) {
        guessing.give_back(guesser, now).await;
    }
    result
}

/// A try, whose failure says nothing by how long it took: a Keystone tells of an unknown domain or user at once, and of a wrong
/// password once it has hashed it.
pub(super) async fn in_even_time<T>(connector: &Wired, tried: impl Future<Output = Result<T, SignInError>>) -> Result<T, SignInError> {
    let began = Instant::now();
    let result = tried.await;
    if connector.is_keystone && matches!(result, Err(SignInError::Wrong)) {
        let steps = began.elapsed().as_millis() / STEP.unsigned_abs().as_millis() + 1;
        tokio::time::sleep_until(began + STEP.unsigned_abs() * u32::try_from(steps).unwrap_or(1)).await;
    }
    result
}

/// The tenant that the client's request names; what can be no tenant's id is no one's.
pub(super) fn required(tenant: Option<&str>) -> Result<Option<TenantId>, SignInError> {
    tenant.map(|id| TenantId::parse(id).map_err(|_| SignInError::Wrong)).transpose()
}

/// Admits whom an upstream has just proven without pages of its own. Someone of another tenant than the one that was wanted is no one.
pub(super) async fn admitted(
    admission: &Admission,
    connector: &Wired,
    proven: Proven,
    wanted: Option<&TenantId>,
    now: OffsetDateTime,
) -> Result<Admitted, SignInError> {
    let Proven { user, session, .. } = proven;
    let (identity, mapped) = match admission.admit(connector, &user, now).await {
        Ok(admitted) => admitted,
        Err(AdmissionError::Store(error)) => return Err(error.into()),
        Err(AdmissionError::Directory(error)) => return Err(error.into()),
        Err(why) => return Err(SignInError::NotAdmitted { why, user: Box::new(user) }),
    };
    if wanted.is_some_and(|wanted| identity.id().tenant_id() != wanted) {
        return Err(SignInError::Wrong);
    }
    // Where neither the upstream nor a directory can be asked again, its word is believed for as long as the connector says.
    let goes_on = session.refresh_token.is_some() || (connector.renewal.is_some() && connector.directory.is_none());
    let upstream = goes_on.then(|| AtUpstream {
        connector: connector.id.clone(),
        subject: user.subject.clone(),
        auth_time: Some(now.unix_timestamp()),
        session,
    });
    Ok(Admitted { identity, mapped, user, upstream })
}

fn no_such_tenant(id: TenantId) -> Arc<Tenant> {
    let (label, external_ids) = (TenantLabel::derived(&id), BTreeMap::new());
    Arc::new(Tenant { id, label, display_name: String::new(), external_ids, connectors: None, disabled: true })
}
