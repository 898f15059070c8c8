//! Which ways to sign in there are, for whom (home-realm discovery).
//!
//! It decides from what is known: the tenant that the sign-in is for, what someone typed or the application hinted, what this
//! browser chose before. Nothing that is not known already leads to a tenant or to a connector that is a tenant's own: where
//! a tenant, a domain or a label is not there, the offer is that for one which has no way of its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use claims_mapping::{ConnectorId, Tenant, TenantId, TenantRule};

use super::Attempt;
use crate::{
    config::TenantConfig,
    tenancy::{Admission, Tenants, Wired},
};

/// How far an application limits who signs in to it, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits<'a> {
    /// The tenants whose people may; all where absent.
    pub tenants: Option<&'a BTreeSet<TenantId>>,
    /// The connectors through which they may; all where absent.
    pub connectors: Option<&'a BTreeSet<ConnectorId>>,
}

impl Limits<'_> {
    fn take(self, way: &Wired, known: &Tenants) -> bool {
        let own =
            |ids: &BTreeSet<ConnectorId>| ids.contains(&way.id) || way.join.as_ref().is_some_and(|join| ids.contains(&join.directory));
        self.connectors.is_none_or(own)
            && self.tenants.is_none_or(|ids| ids.iter().filter_map(|id| known.enabled(id)).any(|tenant| way.serves(&tenant)))
    }

    /// Whether they say of themselves which ways may be shown to anyone.
    const fn are_given(self) -> bool {
        self.tenants.is_some() || self.connectors.is_some()
    }
}

/// What is known beside the attempt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// The connector that this browser signed in through before.
    pub remembered: Option<&'a str>,
    /// Whether they want to see what else there is.
    pub others: bool,
}

/// The ways that are offered.
#[derive(Debug)]
pub struct Offer<'a> {
    /// The connectors.
    pub ways: Vec<&'a Arc<Wired>>,
    /// Whether there are others, which an address or an organisation's name leads to.
    pub find: bool,
    /// Whether what was typed led nowhere.
    pub unknown: bool,
}

impl<'a> Offer<'a> {
    const fn of(ways: Vec<&'a Arc<Wired>>) -> Self {
        Self { ways, find: false, unknown: false }
    }

    /// The one way, where there is nothing to choose.
    #[must_use]
    pub fn only(&self) -> Option<&'a Arc<Wired>> {
        match self.ways.as_slice() {
            [only] if !self.find => Some(only),
            _ => None,
        }
    }
}

/// The use case.
#[derive(Debug)]
pub struct Ways {
    admission: Arc<Admission>,
    domains: HashMap<String, TenantId>,
    hosts: HashMap<String, TenantId>,
}

impl Ways {
    /// Ways through these connectors, found by these tenants' domains and hosts.
    #[must_use]
    pub fn new(admission: Arc<Admission>, tenants: &[TenantConfig]) -> Self {
        let by = |names: fn(&TenantConfig) -> &BTreeSet<String>| {
            tenants.iter().flat_map(|tenant| names(tenant).iter().map(|name| (name.clone(), tenant.id.clone()))).collect()
        };
        Self { admission, domains: by(|tenant| &tenant.email_domains), hosts: by(|tenant| &tenant.hosts) }
    }

    /// The tenant of a host name.
    #[must_use]
    pub fn of_host(&self, host: &str) -> Option<&TenantId> {
        self.hosts.get(host.trim_end_matches('.').to_ascii_lowercase().as_str())
    }

    /// The connectors that an application may be signed in to through.
    pub fn possible<'a>(&'a self, limits: Limits<'a>) -> impl Iterator<Item = &'a Arc<Wired>> {
        self.admission
            .connectors()
            .filter(move |way| (way.password.is_some() || way.redirect.is_some()) && limits.take(way, &self.admission.tenants))
    }

    /// What is offered for an attempt.
    #[must_use]
    pub fn offer<'a>(&'a self, attempt: &Attempt, limits: Limits<'a>, known: Known<'_>) -> Offer<'a> {
        let possible: Vec<_> = self.possible(limits).collect();
        let remembered = known.remembered.filter(|_| !known.others && !attempt.wanted.select);
        let chosen = |ways: Vec<&'a Arc<Wired>>| {
            let before = ways.iter().copied().find(|way| Some(way.id.as_str()) == remembered);
            Offer::of(before.map_or(ways, |way| vec![way]))
        };
        if let Some(tenant) = attempt.tenant() {
            let tenant = TenantId::parse(tenant).ok().and_then(|id| self.admission.tenants.enabled(&id));
            return chosen(of_tenant(&possible, tenant.as_deref(), limits).unwrap_or_else(|| of_any(&possible, limits)));
        }
        if let Some(typed) = attempt.typed.as_deref().filter(|_| !known.others) {
            let ways = of_tenant(&possible, self.tenant_of(typed, true).as_deref(), limits).unwrap_or_else(|| shared(&possible));
            let nowhere = ways.is_empty();
            return Offer { find: nowhere, unknown: nowhere, ..Offer::of(ways) };
        }
        let hinted = attempt.wanted.login_hint.as_deref().filter(|_| !known.others).and_then(|hint| self.tenant_of(hint, false));
        if let Some(ways) = of_tenant(&possible, hinted.as_deref(), limits) {
            return chosen(ways);
        }
        if let Some(way) = possible.iter().copied().find(|way| Some(way.id.as_str()) == remembered) {
            return Offer::of(vec![way]);
        }
        let (ways, hidden): (Vec<_>, Vec<_>) = possible.into_iter().partition(|way| is_public(way, limits));
        // The operators know their way: people are not asked for an address because of them.
        let find = hidden.iter().any(|way| known.others || ways.is_empty() || !is_for_operators_alone(way));
        Offer { find, ..Offer::of(ways) }
    }

    /// The tenant that an e-mail address or `name@label` belongs to; with `alone` also a domain or a label by itself.
    fn tenant_of(&self, text: &str, alone: bool) -> Option<Arc<Tenant>> {
        let text = text.trim();
        let name = match text.rsplit_once('@') {
            Some((_, name)) => name,
            None if alone => text,
            None => return None,
        };
        let name = name.trim_end_matches('.').to_lowercase();
        let tenants = &self.admission.tenants;
        let by_domain = self.domains.get(&name).and_then(|id| tenants.get(id));
        by_domain.or_else(|| tenants.by_label(&name)).filter(|tenant| !tenant.disabled)
    }
}

/// The ways of a tenant that has ways which are not everyone's, its own first; `None` for every other, be it there or not.
fn of_tenant<'a>(possible: &[&'a Arc<Wired>], tenant: Option<&Tenant>, limits: Limits<'_>) -> Option<Vec<&'a Arc<Wired>>> {
    let tenant = tenant.filter(|tenant| limits.tenants.is_none_or(|tenants| tenants.contains(&tenant.id)))?;
    let mut ways: Vec<_> = possible.iter().copied().filter(|way| way.serves(tenant)).collect();
    ways.sort_by_key(|way| is_shared(way));
    ways.iter().any(|way| !is_shared(way)).then_some(ways)
}

/// The ways that are offered for a tenant of which nothing more is known.
fn shared<'a>(possible: &[&'a Arc<Wired>]) -> Vec<&'a Arc<Wired>> {
    possible.iter().copied().filter(|way| is_shared(way)).collect()
}

/// The same where an application asks for the tenant: where there are none, those that it has for anyone.
fn of_any<'a>(possible: &[&'a Arc<Wired>], limits: Limits<'_>) -> Vec<&'a Arc<Wired>> {
    let shared = shared(possible);
    if shared.is_empty() { possible.iter().copied().filter(|way| is_public(way, limits)).collect() } else { shared }
}

/// Whether it is shown to anyone. An application with limits of its own tells by them which ways are its people's.
const fn is_public(way: &Wired, limits: Limits<'_>) -> bool {
    way.listed || limits.are_given()
}

fn is_shared(way: &Wired) -> bool {
    way.listed && only_tenant(&way.policy.tenant_rule).is_none()
}

fn is_for_operators_alone(way: &Wired) -> bool {
    only_tenant(&way.policy.tenant_rule).is_some_and(TenantId::is_system)
}

/// The tenant that a rule is fixed to.
fn only_tenant(rule: &TenantRule) -> Option<&TenantId> {
    match rule {
        TenantRule::Fixed(id) | TenantRule::Default(id) => Some(id),
        TenantRule::Mapped(Some(list)) if list.len() == 1 => list.first(),
        TenantRule::Mapped(_) => None,
    }
}

/// Whether a connector is offered to people of whom nothing is known yet, where the configuration does not say: not where it
/// is one tenant's own, and there are others. The default tenant's ways are for whoever has no other.
#[must_use]
pub fn listed_by_default(rule: &TenantRule, tenants: &[TenantConfig], may_grow: bool) -> bool {
    match only_tenant(rule) {
        Some(id) if id.is_system() => tenants.is_empty() && !may_grow,
        Some(_) => (tenants.len() <= 1 && !may_grow) || matches!(rule, TenantRule::Default(_)),
        None => true,
    }
}

#[cfg(test)]
mod tests;
