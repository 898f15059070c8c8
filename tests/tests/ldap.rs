//! The `ldap` connector against a real slapd, and against servers that cheat.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

#[path = "ldap/attacks.rs"]
mod attacks;
#[path = "ldap/groups.rs"]
mod groups;
#[path = "ldap/members.rs"]
mod members;
#[path = "ldap/people.rs"]
mod people;
#[path = "ldap/servers.rs"]
mod servers;

use std::sync::Arc;

use claims_mapping::{ClaimOrExpression, ConnectorId, Mapping, Tenant, UpstreamUser};
use connectors::{
    Connector, ConnectorError, Directory, LoginName, Lookup, PasswordLogin, Secret, UserQuery,
    config::{Context, Upstream},
};
use denizen_tests::{
    directory_conformance::{Fixture, Lacks, conforms, groups as groups_of, subjects, tenant},
    slapd::{
        Slapd,
        content::{ACME, ACME_JANE_PASSWORD, GLOBEX, PASSWORD, PEOPLE, READER, READER_PASSWORD, uuid},
    },
};
use serde_json::{Value, json};

/// A connector to `slapd` over TLS, as OpenCloud's directory is usually configured, after a change.
fn configured(slapd: &Slapd, change: impl FnOnce(&mut Value)) -> Upstream {
    let mut config = json!({
        "type": "ldap",
        "url": slapd.ldaps_url(),
        "caFile": slapd.ca_path(),
        "bindDn": READER,
        "bindPassword": READER_PASSWORD,
        "userSearch": {
            "base": PEOPLE,
            "idAttribute": "openCloudUUID",
            "enabledFilter": "(!(openCloudUserEnabled=FALSE))"
        },
        "groups": { "memberOf": {} }
    });
    change(&mut config);
    serde_json::from_value(config).unwrap()
}

/// A connector, its mapping, and the two tenants as it knows them.
struct Corp {
    connector: Connector,
    mapping: Mapping,
    acme: Arc<Tenant>,
    globex: Arc<Tenant>,
}

impl Corp {
    /// The tenant is in `openCloudMemberOfSchool`.
    fn new(slapd: &Slapd, change: impl FnOnce(&mut Value)) -> Self {
        Self::build(&configured(slapd, change), Some("openCloudMemberOfSchool"), false, (ACME, GLOBEX)).unwrap()
    }

    fn build(
        upstream: &Upstream,
        claim: Option<&str>,
        fixed_tenant: bool,
        (acme, globex): (&str, &str),
    ) -> Result<Self, Vec<(String, String)>> {
        let id = ConnectorId::parse("corp").unwrap();
        let mut mapping = upstream.default_mapping();
        mapping.claim_mappings.tenant.claim = claim.unwrap_or_default().to_owned();
        mapping.claim_mappings.uid_number = ClaimOrExpression::of_claim("uidNumber");
        mapping.claim_mappings.gid_number = ClaimOrExpression::of_claim("gidNumber");
        let mapping = Mapping::compile(&mapping).unwrap();
        let connector = upstream.build(Context { id: &id, mapping: &mapping, fixed_tenant, issuer: None })?;
        Ok(Self { connector, mapping, acme: tenant("acme", &id, acme), globex: tenant("globex", &id, globex) })
    }

    fn fixture(&self) -> Fixture<'_> {
        Fixture {
            connector: &self.connector,
            id_attribute: "openCloudUUID",
            acme: Arc::clone(&self.acme),
            globex: Arc::clone(&self.globex),
            lacks: Lacks::default(),
        }
    }

    fn directory(&self) -> &dyn Directory {
        self.connector.directory.as_deref().unwrap()
    }

    async fn sign_in(&self, tenant: Option<&Arc<Tenant>>, name: &str, password: &str) -> Result<Option<UpstreamUser>, ConnectorError> {
        let login = LoginName { name: name.to_owned(), tenant: tenant.cloned(), ..LoginName::default() };
        let login_port: &dyn PasswordLogin = self.connector.password.as_deref().unwrap();
        Ok(login_port.authenticate(&login, &Secret::new(password.to_owned())).await?.map(|proven| proven.user))
    }

    /// How a search for joe of acme ends: whether he is found.
    async fn finds_joe(&self) -> Result<bool, ConnectorError> {
        let scope = claims_mapping::TenantScope::of_verified_caller(Arc::clone(&self.acme));
        let found = self.directory().search(&scope, &UserQuery { text: "joe".to_owned(), limit: 10 }).await?;
        Ok(found.users.iter().any(|user| user.subject.as_str() == uuid(3)))
    }
}

/// Without the one who is in two tenants: a search finds her in both, and it is for the broker not to admit her.
async fn without_zoe() -> Slapd {
    let slapd = Slapd::start().await;
    slapd.delete(&format!("uid=zoe,{PEOPLE}")).await;
    slapd
}

#[tokio::test]
async fn the_ldap_connector_conforms() {
    let slapd = without_zoe().await;
    conforms(&Corp::new(&slapd, |_| {}).fixture()).await;
    // The groups by search, and a page of one connection.
    let by_search = |config: &mut Value| {
        config["groups"] = json!({ "search": { "base": "ou=groups,dc=denizen,dc=test" } });
        config["connections"] = 1.into();
    };
    conforms(&Corp::new(&slapd, by_search).fixture()).await;
}

#[tokio::test]
async fn the_tenant_may_stand_in_a_filter_or_a_base() {
    let slapd = Slapd::start().await;
    let by_filter = configured(&slapd, |config| {
        config["userSearch"]["tenantFilter"] = "(ou={tenant})".into();
        config["groups"]["tenantFilter"] = "(ou:dn:={tenant})".into();
    });
    let corp = Corp::build(&by_filter, None, false, ("acme", "globex")).unwrap();
    conforms(&corp.fixture()).await;
    // t55: `admins` of globex lists her too.
    let jane = corp.fixture().sign_in(Some(&corp.acme), "jane", ACME_JANE_PASSWORD).await.unwrap();
    assert_eq!(groups_of(&jane), ["inner", "staff"]);

    let by_base = configured(&slapd, |config| {
        config["userSearch"]["tenantBase"] = format!("ou={{tenant}},{PEOPLE}").into();
        config["groups"] = json!({ "search": { "base": "ou={tenant},ou=groups,dc=denizen,dc=test" } });
    });
    let corp = Corp::build(&by_base, None, false, ("acme", "globex")).unwrap();
    let fixture = corp.fixture();
    assert_eq!(fixture.named(&corp.acme, "jane").await.unwrap().as_str(), uuid(1));
    assert_eq!(fixture.named(&corp.globex, "jane").await.unwrap().as_str(), uuid(2));
    assert_eq!(fixture.named(&corp.acme, "greta").await, None);
    let jane = fixture.sign_in(Some(&corp.acme), "jane", ACME_JANE_PASSWORD).await.unwrap();
    assert_eq!(groups_of(&jane), ["inner", "staff"]);

    // A tenant that the directory has no place for has nobody, and one that means something in a DN is a name.
    for name in ["initech", "acme,ou=people", "acme+ou=globex", "*", "people,dc=denizen"] {
        let corp = Corp::build(&by_base, None, false, (name, "globex")).unwrap();
        assert!(corp.fixture().search(&corp.acme, "", 10).await.users.is_empty(), "{name}");
        let corp = Corp::build(&by_filter, None, false, (name, "globex")).unwrap();
        assert!(corp.fixture().search(&corp.acme, "", 10).await.users.is_empty(), "{name}");
    }
    // A tenant that is called nothing is a fault of the configuration, and never everyone.
    for upstream in [&by_base, &by_filter] {
        let corp = Corp::build(upstream, None, false, ("", "globex")).unwrap();
        assert!(matches!(corp.finds_joe().await, Err(ConnectorError::Unusable(_))));
        assert!(matches!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await, Err(ConnectorError::Unusable(_))));
    }
}

#[tokio::test]
async fn a_fixed_tenant_needs_no_filter() {
    let slapd = Slapd::start().await;
    let acme_only = configured(&slapd, |config| config["userSearch"]["base"] = format!("ou=acme,{PEOPLE}").into());
    let corp = Corp::build(&acme_only, None, true, ("acme", "globex")).unwrap();
    assert!(corp.finds_joe().await.unwrap());
    let jane = corp.sign_in(None, "jane", ACME_JANE_PASSWORD).await.unwrap().unwrap();
    assert_eq!(jane.subject.as_str(), uuid(1));
}

#[tokio::test]
async fn t10_no_tenant_or_two_is_no_tenant() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    // Nobody's search shows someone who has no tenant; someone with two is for the mapping to refuse.
    for (name, values) in [("nils", 0), ("zoe", 2)] {
        let user = corp.sign_in(None, name, PASSWORD).await.unwrap().expect("the password is right");
        assert_eq!(corp.mapping.evaluate(&user).unwrap().tenant.len(), values, "{name}");
        assert!(groups_of(&user).is_empty(), "no group is known to be of their tenant");
    }
    assert!(corp.fixture().search(&corp.acme, "nils", 10).await.users.is_empty());
    assert_eq!(corp.sign_in(Some(&corp.acme), "nils", PASSWORD).await.unwrap(), None);
    let joe = corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().unwrap();
    assert_eq!(corp.mapping.evaluate(&joe).unwrap().tenant, [ACME]);
}

#[tokio::test]
async fn a_join_finds_exactly_one_letter_for_letter() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    let by_entry_uuid = Corp::new(&slapd, |config| config["userSearch"]["idAttribute"] = "entryUUID".into());
    let (fixture, by) = (corp.fixture(), |name: &str, value: &str| Lookup::Attribute { name: name.to_owned(), value: value.to_owned() });
    let subject = |user: UpstreamUser| user.subject.as_str().to_owned();
    let joe = by_entry_uuid.fixture().named(&corp.acme, "joe").await.unwrap();
    // An attribute that the configuration does not name; a UUID in another writing; the id's own attribute in another.
    let shouted = joe.as_str().to_uppercase();
    for lookup in [by("entryUUID", joe.as_str()), by("ENTRYUUID", &shouted), by("opencloudUUID", &uuid(3).to_uppercase())] {
        assert_eq!(fixture.get(&corp.acme, lookup.clone()).await.map(subject), Some(uuid(3)), "{lookup:?}");
        assert_eq!(fixture.get(&corp.globex, lookup.clone()).await, None, "{lookup:?}");
    }
    assert_eq!(fixture.get(&corp.acme, by("sn", "Doe")).await, None, "jane and joe; dora is disabled");
    assert_eq!(fixture.get(&corp.acme, by("givenName", "Joe")).await, None, "no one has it");
    let entry_dn = format!("uid=joe,ou=acme,{PEOPLE}");
    assert_eq!(fixture.get(&corp.acme, by("entryDN", &entry_dn)).await.map(subject), Some(uuid(3)));
    assert_eq!(
        fixture.get(&corp.acme, by("entryDN", &entry_dn.to_uppercase())).await,
        None,
        "the directory holds it for the same; a join does not"
    );
    // t06: what changes hands, and what no one reads.
    for name in ["mail", "uid", "cn", "userPassword", "dn", "a)(b"] {
        let scope = claims_mapping::TenantScope::of_verified_caller(Arc::clone(&corp.acme));
        assert!(matches!(corp.directory().get(&scope, &by(name, "joe")).await, Err(ConnectorError::Unusable(_))), "{name}");
    }
}

#[tokio::test]
async fn claims_are_mapped_as_the_defaults_say() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    let user = corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().unwrap();
    let mapped = corp.mapping.evaluate(&user).unwrap();
    assert_eq!(
        (mapped.username.as_str(), mapped.display_name.as_deref(), mapped.email.as_deref(), mapped.email_verified),
        ("joe", Some("Joe Doe"), Some("joe@acme.example"), false)
    );
    assert_eq!(mapped.groups, ["staff"]);
    assert!(user.claims.get("userPassword").is_none());
    // A user id that the server itself gives.
    let by_entry_uuid = Corp::new(&slapd, |config| config["userSearch"]["idAttribute"] = "entryUUID".into());
    let again = by_entry_uuid.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().unwrap();
    assert_ne!(again.subject, user.subject);
    let found = by_entry_uuid.fixture().get(&corp.acme, Lookup::Subject(again.subject.clone())).await.unwrap();
    assert_eq!(found.subject, again.subject);
}

#[tokio::test]
async fn sign_in_by_mail_where_it_is_configured() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |config| config["userSearch"]["usernameAttributes"] = json!(["uid", "mail"]));
    for name in ["joe", "joe@acme.example", "JOE@acme.example"] {
        let user = corp.sign_in(None, name, PASSWORD).await.unwrap().unwrap();
        assert_eq!(user.subject.as_str(), uuid(3), "{name}");
    }
    // t25: one person's name is another one's address.
    let dn = denizen_tests::slapd::content::person_dn("acme", "jane");
    slapd.modify(&dn, "mail", &["joe"]).await;
    assert_eq!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap(), None);
    assert!(corp.sign_in(Some(&corp.acme), "joe@acme.example", PASSWORD).await.unwrap().is_some());
}

#[tokio::test]
async fn pages_are_turned_and_limits_are_told() {
    let slapd = Slapd::start_large(2_500, 2).await;
    let school = denizen_tests::slapd::large_tenant_uuid;
    let corp =
        Corp::build(&configured(&slapd, |c| c["groups"] = Value::Null), Some("openCloudMemberOfSchool"), false, (&school(0), &school(1)))
            .unwrap();
    let fixture = corp.fixture();
    // The server gives 1,000 entries at a time.
    for (limit, count, truncated) in
        [(5_000, 1_250, false), (1_250, 1_250, false), (1_249, 1_249, true), (1_001, 1_001, true), (1_000, 1_000, true), (1, 1, true)]
    {
        let found = fixture.search(&corp.acme, "user", limit).await;
        assert_eq!((found.users.len(), found.truncated), (count, truncated), "{limit}");
        let mut distinct = subjects(&found);
        distinct.dedup();
        assert_eq!(distinct.len(), count, "no one twice");
    }
    assert_eq!(fixture.search(&corp.acme, "user00001", 100).await.users.len(), 5, "of ten, half are of this tenant");
}
