//! Names that are unique over the instance, as OpenCloud needs them: it looks people up by name without regard to their tenant.
//!
//! One is `<username>@<label>`, or `<username>@<e-mail domain>`, of the tenant. It is taken apart at its last `@`, for a username may hold some.
//! A label has no dot and a domain has one, and each is one tenant's only, so that no two people of two tenants have one name. What a
//! username may be, [`Identity::admit`](claims_mapping::Identity::admit) says: neither a `:` nor a UUID gets this far.

use std::{collections::HashMap, sync::Arc};

use claims_mapping::{Tenant, TenantId};

use crate::{
    config::{Cs3Usernames, TenantConfig},
    login::canonical,
    tenancy::Tenants,
};

/// The most characters of a name: those of the longest e-mail address. Whoever's would be longer is left out.
const MOST_CHARACTERS: usize = 320;

/// The names of people of all tenants.
#[derive(Debug)]
pub(super) struct InstanceNames {
    tenants: Arc<Tenants>,
    /// The domain of each tenant that has one, where names end in it.
    domains: HashMap<TenantId, Box<str>>,
    /// The same, the other way.
    of_domains: HashMap<Box<str>, TenantId>,
}

impl InstanceNames {
    /// Names of this form, over these tenants as the configuration describes them.
    pub(super) fn new(form: Cs3Usernames, tenants: Arc<Tenants>, configured: &[TenantConfig]) -> Self {
        let mut of_domains: HashMap<Box<str>, Option<&TenantId>> = HashMap::new();
        let configured = configured.iter().filter(|_| form == Cs3Usernames::Domain);
        for (domain, tenant) in configured.filter_map(|tenant| Some((tenant.email_domains.first()?, &tenant.id))) {
            // A domain of two tenants names neither. The configuration allows none; this does not rely on it.
            of_domains.entry(domain.as_str().into()).and_modify(|of| *of = None).or_insert(Some(tenant));
        }
        let of_domains: HashMap<_, _> = of_domains
            .into_iter()
            .filter_map(|(domain, tenant)| Some((domain, tenant.cloned()?)))
            .filter(|(d, _)| d.contains('.'))
            .collect();
        let domains = of_domains.iter().map(|(domain, tenant)| (tenant.clone(), domain.clone())).collect();
        Self { tenants, domains, of_domains }
    }

    /// What the names of a tenant's people end in.
    fn ending<'n>(&'n self, tenant: &'n Tenant) -> &'n str {
        self.domains.get(&tenant.id).map_or_else(|| tenant.label.as_str(), |domain| domain)
    }

    /// The name of someone; `None` where it could not be used as one.
    pub(super) fn of(&self, tenant: &Tenant, username: &str) -> Option<String> {
        let name = format!("{username}@{}", self.ending(tenant));
        (is_usable(&name) && !username.is_empty()).then_some(name)
    }

    /// Whose name it is: someone's of this tenant, which may be disabled, with this username. Only the form that is given out is
    /// taken; without regard to case, as domains have none and directories seldom do.
    pub(super) fn whose<'n>(&self, name: &'n str) -> Option<(Arc<Tenant>, &'n str)> {
        let (username, ending) = name.rsplit_once('@').filter(|(username, _)| !username.is_empty() && is_usable(name))?;
        let ending = ending.to_ascii_lowercase();
        let tenant = match self.of_domains.get(ending.as_str()) {
            Some(tenant) => self.tenants.get(tenant),
            None => self.tenants.by_label(&ending),
        }?;
        (self.ending(&tenant) == ending).then_some((tenant, username))
    }

    /// Whether two names are one.
    pub(super) fn are_one(one: &str, other: &str) -> bool {
        canonical(one) == canonical(other)
    }
}

fn is_usable(name: &str) -> bool {
    name.chars().take(MOST_CHARACTERS + 1).count() <= MOST_CHARACTERS && !name.chars().any(|c| c == ':' || c.is_control())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use claims_mapping::{Identity, TenantLabel};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::{store::embedded::Embedded, tests::NOW};

    fn configured(id: &str, label: &str, domains: &[&str]) -> TenantConfig {
        let domains: BTreeSet<_> = domains.iter().map(|domain| (*domain).to_owned()).collect();
        serde_json::from_value(serde_json::json!({"id": id, "label": label, "emailDomains": domains})).unwrap()
    }

    fn tenant(config: &TenantConfig) -> Tenant {
        Tenant {
            id: config.id.clone(),
            label: config.label.clone().unwrap_or_else(|| TenantLabel::derived(&config.id)),
            display_name: config.id.to_string(),
            external_ids: std::collections::BTreeMap::default(),
            connectors: None,
            disabled: config.disabled,
        }
    }

    fn names(form: Cs3Usernames, configured: &[TenantConfig]) -> (InstanceNames, Vec<Tenant>) {
        let list: Vec<_> = configured.iter().map(tenant).collect();
        let store = Arc::new(Embedded::in_memory().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tenants = Arc::new(runtime.block_on(Tenants::open(list.clone(), None, store, NOW)).unwrap());
        (InstanceNames::new(form, tenants, configured), list)
    }

    fn three() -> Vec<TenantConfig> {
        vec![
            configured("T 1", "acme", &["acme.example", "zz.example"]),
            configured("globex", "globex", &["globex.example"]),
            configured("initech", "initech", &[]),
        ]
    }

    #[test]
    fn a_name_ends_in_label_or_domain_and_only_the_form_that_is_given_out_is_taken() {
        for (form, given, ones) in [
            (Cs3Usernames::Label, "jane@acme", ["jane@ACME", "jane@acme.example", "jane@zz.example", "jane@T 1"]),
            (Cs3Usernames::Domain, "jane@acme.example", ["jane@Acme.Example", "jane@acme", "jane@zz.example", "jane@T 1"]),
        ] {
            let (names, tenants) = names(form, &three());
            assert_eq!(names.of(&tenants[0], "jane").unwrap(), given);
            let (tenant, username) = names.whose(given).unwrap();
            assert_eq!((tenant.id.as_str(), username), ("T 1", "jane"));
            let [case, others @ ..] = ones;
            assert_eq!(names.whose(case).unwrap().0.id.as_str(), "T 1");
            for other in others {
                assert!(names.whose(other).is_none(), "{form:?} {other}");
            }
            // A tenant without a domain has its label in either form.
            assert_eq!(names.of(&tenants[2], "joe").unwrap(), "joe@initech");
            assert_eq!(names.whose("joe@initech").unwrap().0.id.as_str(), "initech");
        }
    }

    #[test]
    fn the_last_at_sign_counts() {
        let (names, tenants) = names(Cs3Usernames::Label, &three());
        let name = names.of(&tenants[1], "jane@acme").unwrap();
        assert_eq!(name, "jane@acme@globex");
        let (tenant, username) = names.whose(&name).unwrap();
        assert_eq!((tenant.id.as_str(), username), ("globex", "jane@acme"), "someone of globex who calls themselves so is of globex");
    }

    #[test]
    fn what_could_not_be_used_is_no_name() {
        let (names, tenants) = names(Cs3Usernames::Domain, &three());
        for username in ["", "ja:ne", "ja\nne", &"x".repeat(308)] {
            assert_eq!(names.of(&tenants[0], username), None, "{username}");
        }
        assert!(names.of(&tenants[0], &"é".repeat(307)).is_some());
        for name in
            ["", "@", "jane", "@acme.example", "jane@", "jane@nowhere", "jane@acme.example@", &format!("{}@acme.example", "x".repeat(308))]
        {
            assert!(names.whose(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_domain_of_two_tenants_names_neither() {
        let both = [configured("a", "a", &["shared.example"]), configured("b", "b", &["shared.example"])];
        let (names, tenants) = names(Cs3Usernames::Domain, &both);
        assert_eq!(names.of(&tenants[0], "jane").unwrap(), "jane@a");
        assert_eq!(names.of(&tenants[1], "jane").unwrap(), "jane@b");
        assert!(names.whose("jane@shared.example").is_none());
    }

    proptest! {
        #[test]
        fn names_lead_back_and_no_two_people_have_one(
            one in "[ -~é@]{1,40}", other in "[ -~é@]{1,40}", first in 0_usize..3, second in 0_usize..3, domain in any::<bool>(),
        ) {
            let (names, tenants) = names(if domain { Cs3Usernames::Domain } else { Cs3Usernames::Label }, &three());
            let of = |username: &str, at: usize| Identity::username_fault(username).is_none().then(|| names.of(&tenants[at], username)).flatten();
            let (a, b) = (of(&one, first), of(&other, second));
            for (name, username, at) in [(&a, &one, first), (&b, &other, second)] {
                let Some(name) = name else { continue };
                let (tenant, back) = names.whose(name).unwrap();
                prop_assert_eq!((&tenant.id, back), (&tenants[at].id, username.as_str()));
                prop_assert!(!name.contains(':') && Uuid::try_parse(name).is_err());
            }
            if let (Some(a), Some(b)) = (a, b) {
                prop_assert_eq!(a == b, (&one, first) == (&other, second));
            }
        }
    }
}
