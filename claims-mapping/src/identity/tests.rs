//! Who is admitted, and as whom.

use super::*;
use crate::TenantLabel;

const SUBJECT: &str = "1B4E28BA-2FA1-11D2-883F-0016D3CCA427";

fn tenant(id: &str) -> Tenant {
    let id = TenantId::parse(id).unwrap();
    Tenant {
        label: TenantLabel::derived(&id),
        display_name: id.to_string(),
        id,
        external_ids: BTreeMap::new(),
        connectors: None,
        disabled: false,
    }
}

fn policy() -> ConnectorPolicy {
    ConnectorPolicy {
        connector: ConnectorId::parse("corp").unwrap(),
        issuer: Url::parse("https://id.example").unwrap(),
        operated_by: OperatedBy::Tenant,
        tenant_rule: TenantRule::Mapped(Some(["acme", "system"].map(|id| TenantId::parse(id).unwrap()).into())),
        ids: IdScheme::Derived,
        roles: BTreeSet::new(),
    }
}

fn user(name: &str) -> MappedUser {
    MappedUser {
        subject: Subject::parse(SUBJECT).unwrap(),
        username: name.to_owned(),
        groups: Vec::new(),
        uid: String::new(),
        extra: BTreeMap::new(),
        tenant: Vec::new(),
        roles: Vec::new(),
        display_name: None,
        email: None,
        email_verified: false,
        uid_number: None,
        gid_number: None,
    }
}

fn not_allowed<T>() -> Result<T, Rejection> {
    Err(Rejection::ConnectorNotAllowed(ConnectorId::parse("corp").unwrap()))
}

#[test]
fn t11_a_disabled_tenant_admits_nobody() {
    let acme = Tenant { disabled: true, ..tenant("acme") };
    assert_eq!(Identity::admit(user("ada"), &acme, &policy()), Err(Rejection::TenantDisabled));
    assert!(Identity::admit(user("ada"), &tenant("acme"), &policy()).is_ok());
}

#[test]
fn a_connector_speaks_for_its_own_tenants_only() {
    assert_eq!(Identity::admit(user("ada"), &tenant("globex"), &policy()), not_allowed());
    let acme = TenantId::parse("acme").unwrap();
    for rule in [TenantRule::Fixed(acme.clone()), TenantRule::Default(acme)] {
        let policy = ConnectorPolicy { tenant_rule: rule, ..policy() };
        assert!(Identity::admit(user("ada"), &tenant("acme"), &policy).is_ok());
        assert_eq!(Identity::admit(user("ada"), &tenant("globex"), &policy), not_allowed());
        assert_eq!(Identity::admit(user("ada"), &tenant("ACME"), &policy), not_allowed());
    }
    let choosy = |connectors: &[&str]| Tenant {
        connectors: Some(connectors.iter().map(|id| ConnectorId::parse(id).unwrap()).collect()),
        ..tenant("acme")
    };
    assert_eq!(Identity::admit(user("ada"), &choosy(&["other"]), &policy()), not_allowed());
    assert_eq!(Identity::admit(user("ada"), &choosy(&[]), &policy()), not_allowed());
    assert!(Identity::admit(user("ada"), &choosy(&["other", "corp"]), &policy()).is_ok());
}

#[test]
fn all_tenants_and_the_system_tenant_are_the_operators() {
    let operator = ConnectorPolicy { operated_by: OperatedBy::Operator, ..policy() };
    assert_eq!(Identity::admit(user("ada"), &tenant("system"), &policy()), not_allowed());
    assert!(Identity::admit(user("ada"), &tenant("system"), &operator).is_ok());
    let all = TenantRule::Mapped(None);
    assert_eq!(Identity::admit(user("ada"), &tenant("acme"), &ConnectorPolicy { tenant_rule: all.clone(), ..policy() }), not_allowed());
    assert!(Identity::admit(user("ada"), &tenant("acme"), &ConnectorPolicy { tenant_rule: all, ..operator }).is_ok());
}

#[test]
fn t49_usernames_that_mean_something_downstream_are_refused() {
    let long = "x".repeat(256);
    for bad in [
        "",
        " ",
        "\t",
        "a\nb",
        "a\u{0}",
        "a\u{7f}",
        "a\u{85}",
        "system:admin",
        "acme:ada",
        ":",
        " ada",
        "ada ",
        "\u{a0}ada",
        &long,
        SUBJECT,
        "1b4e28ba2fa111d2883f0016d3cca427",
        "{1b4e28ba-2fa1-11d2-883f-0016d3cca427}",
        "urn:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    ] {
        let outcome = Identity::admit(user(bad), &tenant("acme"), &policy());
        assert!(matches!(outcome, Err(Rejection::Name { what: "username", .. })), "{bad:?}: {outcome:?}");
    }
    for good in ["ada", "ada@example.org", "Ada Lovelace", "é", "system", &"x".repeat(255)] {
        assert_eq!(Identity::admit(user(good), &tenant("acme"), &policy()).unwrap().username(), good);
    }
}

#[test]
fn t49_groups_that_mean_something_downstream_are_left_out() {
    let groups = ["system:masters", "kubeadm:cluster-admins", "", " ", "a\u{1b}[0m", "math", "Domain Users"].map(str::to_owned).into();
    let identity = Identity::admit(MappedUser { groups, ..user("ada") }, &tenant("acme"), &policy()).unwrap();
    assert_eq!(identity.groups(), ["math", "Domain Users"]);
}

#[test]
fn t54_roles_pass_the_allow_list_only() {
    let ada = || MappedUser { roles: vec!["opencloudAdmin".to_owned(), "opencloudUser".to_owned()], ..user("ada") };
    assert!(Identity::admit(ada(), &tenant("acme"), &policy()).unwrap().roles().is_empty());
    let policy = ConnectorPolicy { roles: ["opencloudUser".to_owned(), "other".to_owned()].into(), ..policy() };
    assert_eq!(Identity::admit(ada(), &tenant("acme"), &policy).unwrap().roles(), ["opencloudUser"]);
}

#[test]
fn t56_only_an_operators_connector_keeps_the_upstreams_ids() {
    let verbatim = ConnectorPolicy { ids: IdScheme::Verbatim, ..policy() };
    assert_eq!(Identity::admit(user("ada"), &tenant("acme"), &verbatim), not_allowed());
    let verbatim = ConnectorPolicy { operated_by: OperatedBy::Operator, ..verbatim };
    let identity = Identity::admit(user("ada"), &tenant("acme"), &verbatim).unwrap();
    assert_eq!(identity.id().opaque_id().to_string(), SUBJECT.to_lowercase());
    for bad in ["ada", "00000000-0000-0000-0000-000000000000"] {
        let ada = MappedUser { subject: Subject::parse(bad).unwrap(), ..user("ada") };
        assert_eq!(Identity::admit(ada, &tenant("acme"), &verbatim), Err(Rejection::SubjectNotUuid));
    }
    let derived = Identity::admit(user("ada"), &tenant("acme"), &policy()).unwrap();
    assert_ne!(derived.id().opaque_id(), identity.id().opaque_id());
}

#[test]
fn t31_the_same_person_of_two_tenants_or_connectors_is_two() {
    let id = |tenant_id: &str, connector: &str| {
        let policy = ConnectorPolicy {
            connector: ConnectorId::parse(connector).unwrap(),
            operated_by: OperatedBy::Operator,
            tenant_rule: TenantRule::Mapped(None),
            ..policy()
        };
        Identity::admit(user("ada"), &tenant(tenant_id), &policy).unwrap().id().opaque_id()
    };
    assert_eq!(id("acme", "corp"), id("acme", "corp"));
    assert_ne!(id("acme", "corp"), id("globex", "corp"));
    assert_ne!(id("acme", "corp"), id("acme", "other"));
}
