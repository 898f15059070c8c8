//! What a name that k8s-keystone-auth gave becomes: which tenant's it is, and whether Denizen admits it. Nothing is guessed, for a
//! wrong guess gives someone else's rights away.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use anyhow::{Context as _, bail};
use claims_mapping::{Identity, TenantLabel};

/// A tenant, and its domain's id in Keystone.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    pub(super) label: TenantLabel,
    pub(super) domain: String,
}

impl FromStr for Tenant {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (label, domain) = text.split_once('=').context("it is no LABEL=DOMAIN_ID")?;
        if domain.trim().is_empty() {
            bail!("the domain's id is missing");
        }
        let label = TenantLabel::parse(label).context("the label")?;
        Ok(Self { label, domain: domain.to_owned() })
    }
}

/// Users or groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    User,
    Group,
}

impl Kind {
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
        }
    }
}

/// What someone said of a name: whose it is. No label at all: it stays as it is.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// Both where absent.
    kind: Option<Kind>,
    name: String,
    labels: Vec<TenantLabel>,
}

impl FromStr for Rule {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        // A label has no `=`, a name may.
        let (name, labels) = text.rsplit_once('=').context("it is no NAME=LABEL[,LABEL]")?;
        let (kind, name) = match (name.strip_prefix("user:"), name.strip_prefix("group:")) {
            (Some(name), _) => (Some(Kind::User), name),
            (_, Some(name)) => (Some(Kind::Group), name),
            _ => (None, name),
        };
        if name.is_empty() {
            bail!("the name is missing");
        }
        let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty());
        let labels = labels.map(|label| TenantLabel::parse(label).context("a label")).collect::<anyhow::Result<_>>()?;
        Ok(Self { kind, name: name.to_owned(), labels })
    }
}

/// What becomes of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It stays, for this reason.
    Keep(&'static str),
    /// These names, and what is to be said of it.
    Become(Vec<String>, Option<&'static str>),
    /// It stays, and no longer means whom it meant.
    Unknown(String),
}

/// The tenants, and what was said of names.
#[derive(Debug)]
pub(super) struct Subjects {
    labels: Vec<TenantLabel>,
    rules: BTreeMap<(Kind, String), Vec<TenantLabel>>,
}

impl Subjects {
    /// # Errors
    /// A label or domain that is given twice, a rule that names an unknown label, or two rules for one name.
    pub(super) fn new(tenants: &[Tenant], rules: Vec<Rule>) -> anyhow::Result<Self> {
        let labels: BTreeSet<_> = tenants.iter().map(|tenant| tenant.label.as_str()).collect();
        let domains: BTreeSet<_> = tenants.iter().map(|tenant| tenant.domain.as_str()).collect();
        if labels.len() < tenants.len() || domains.len() < tenants.len() {
            bail!("--tenant: a label or a domain is given twice; each tenant has its own");
        }
        let mut by_name = BTreeMap::new();
        for rule in rules {
            if let Some(label) = rule.labels.iter().find(|label| !labels.contains(label.as_str())) {
                bail!("--subject {}: no --tenant has the label `{label}`", rule.name);
            }
            for kind in [Kind::User, Kind::Group].into_iter().filter(|kind| rule.kind.is_none_or(|only| only == *kind)) {
                if by_name.insert((kind, rule.name.clone()), rule.labels.clone()).is_some() {
                    bail!("--subject {}: it is said twice whose this is; keep one", rule.name);
                }
            }
        }
        Ok(Self { labels: tenants.iter().map(|tenant| tenant.label.clone()).collect(), rules: by_name })
    }

    /// What becomes of a subject's name.
    pub(super) fn decide(&self, kind: Kind, name: &str) -> Decision {
        if name.starts_with("system:") || name.starts_with("kubeadm:") {
            return Decision::Keep("a name of Kubernetes itself");
        }
        let rule = self.rules.get(&(kind, name.to_owned()));
        if rule.is_some_and(Vec::is_empty) {
            return Decision::Keep("as it was said of it");
        }
        let is_new =
            |label: &TenantLabel| name.split_once(':').is_some_and(|(before, after)| before == label.as_str() && !after.is_empty());
        if self.labels.iter().any(is_new) {
            return Decision::Keep("a name with a tenant already");
        }
        let fault = match kind {
            Kind::User => Identity::username_fault(name),
            Kind::Group => Identity::group_fault(name),
        };
        if let Some(fault) = fault {
            return Decision::Unknown(format!("Denizen gives no such name: {fault}; rename it in Keystone, or take the subject out"));
        }
        let named = |labels: &[TenantLabel]| labels.iter().map(|label| format!("{label}:{name}")).collect::<Vec<_>>();
        match (rule, self.labels.as_slice()) {
            (Some(labels), _) => Decision::Become(named(labels), None),
            // kubeadm's administrators have certificates with these names.
            (None, _) if kind == Kind::User && ["kubernetes-admin", "kubernetes-super-admin"].contains(&name) => {
                Decision::Keep("the name of a certificate that kubeadm makes; if it is a user of Keystone, say whose by --subject")
            }
            (None, [one]) => Decision::Become(named(std::slice::from_ref(one)), None),
            // Whoever has a token for the project is in this group, of whichever domain they are; so it was before.
            (None, all) if kind == Kind::Group && is_project(name) => Decision::Become(
                named(all),
                Some("a project's id, expanded: its members of every tenant, as before; name one tenant by --subject to narrow it"),
            ),
            (None, _) => Decision::Unknown(format!(
                "it meant whoever has this name, in any domain; say whose it is by --subject '{}:{name}=LABEL'",
                kind.in_words().to_ascii_lowercase()
            )),
        }
    }
}

/// Keystone's ids of projects are 32 hexadecimal digits.
fn is_project(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = "423d41d3a02f4b77b4a9bbfbc3a1b3c6";

    fn subjects(tenants: &[&str], rules: &[&str]) -> anyhow::Result<Subjects> {
        let tenants: Vec<Tenant> = tenants.iter().map(|text| text.parse().unwrap()).collect();
        Subjects::new(&tenants, rules.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn becomes(names: &[&str]) -> Decision {
        Decision::Become(names.iter().map(|&name| name.to_owned()).collect(), None)
    }

    #[test]
    fn with_one_tenant_names_are_its_own() {
        let one = subjects(&["acme=default"], &[]).unwrap();
        assert_eq!(one.decide(Kind::User, "alice"), becomes(&["acme:alice"]));
        assert_eq!(one.decide(Kind::Group, "staff"), becomes(&["acme:staff"]));
        assert_eq!(one.decide(Kind::Group, PROJECT), becomes(&[&format!("acme:{PROJECT}")]));
    }

    #[test]
    fn t02_with_several_tenants_no_name_is_guessed() {
        let two = subjects(&["acme=d1", "globex=d2"], &[]).unwrap();
        assert!(matches!(two.decide(Kind::User, "alice"), Decision::Unknown(_)));
        assert!(matches!(two.decide(Kind::Group, "staff"), Decision::Unknown(_)));
        let Decision::Become(names, Some(_)) = two.decide(Kind::Group, PROJECT) else {
            panic!("a project's id is expanded, and it is said")
        };
        assert_eq!(names, [format!("acme:{PROJECT}"), format!("globex:{PROJECT}")]);
        // The same text as a name of a person can not be one.
        assert!(matches!(two.decide(Kind::User, PROJECT), Decision::Unknown(_)));
        let said = subjects(&["acme=d1", "globex=d2"], &["user:alice=acme", "staff=acme,globex", &format!("{PROJECT}=globex")]).unwrap();
        assert_eq!(said.decide(Kind::User, "alice"), becomes(&["acme:alice"]));
        assert!(matches!(said.decide(Kind::Group, "alice"), Decision::Unknown(_)), "it was said of the user only");
        assert_eq!(said.decide(Kind::Group, "staff"), becomes(&["acme:staff", "globex:staff"]));
        assert_eq!(said.decide(Kind::Group, PROJECT), becomes(&[&format!("globex:{PROJECT}")]));
    }

    #[test]
    fn t53_names_of_kubernetes_and_new_ones_stay() {
        let one = subjects(&["acme=d"], &["admin="]).unwrap();
        for name in ["system:masters", "system:serviceaccount:a:b", "kubeadm:cluster-admins", "acme:alice", "kubernetes-admin", "admin"] {
            assert!(matches!(one.decide(Kind::User, name), Decision::Keep(_)), "{name}");
        }
        for name in ["other:alice", "acme:", "", " alice", "a\u{7}", PROJECT, &"x".repeat(256)] {
            assert!(matches!(one.decide(Kind::User, name), Decision::Unknown(_)), "{name:?}");
        }
        assert_eq!(one.decide(Kind::User, &"x".repeat(255)), becomes(&[&format!("acme:{}", "x".repeat(255))]));
    }

    #[test]
    fn what_is_said_twice_or_of_no_one_is_refused() {
        for (tenants, rules) in [
            (vec!["acme=d", "acme=e"], vec![]),
            (vec!["acme=d", "globex=d"], vec![]),
            (vec!["acme=d"], vec!["alice=globex"]),
            (vec!["acme=d"], vec!["alice=acme", "user:alice=acme"]),
        ] {
            assert!(subjects(&tenants, &rules).is_err(), "{tenants:?} {rules:?}");
        }
        for text in ["acme", "acme=", "system=d", "Acme=d", "=d"] {
            assert!(text.parse::<Tenant>().is_err(), "{text}");
        }
        for text in ["alice", "=acme", "user:=acme", "alice=a b"] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
