//! What each caller may know: every cell of the table in the folder's README, from both sides of the wall between two tenants.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use claims_mapping::{TenantScope, UpstreamUser};
use connectors::{ConnectorError, Directory, Found, Lookup, UserQuery};
use serde_json::{Value, json};
use time::Duration;

use super::{token::tests::minted, *};
use crate::{
    seams::{Seams, SystemClock, SystemEntropy},
    store::{Key, Kind, Store, embedded::Embedded},
    tenancy::Wired,
    tests::NOW,
};

mod searches;
mod tokens;

const JANE: &str = "0a000000-0000-4000-8000-000000000001";
const JOE: &str = "0a000000-0000-4000-8000-000000000002";
const GUS: &str = "0b000000-0000-4000-8000-000000000001";
const EVE: &str = "0c000000-0000-4000-8000-000000000001";
/// Recorded nowhere.
const NOBODY: &str = "0d000000-0000-4000-8000-000000000001";
const SERVICE: &str = "0e000000-0000-4000-8000-000000000001";

/// A directory that can be told not to answer.
struct Steered {
    inner: Arc<dyn Directory>,
    is_down: Arc<AtomicBool>,
}

impl Steered {
    fn answers(&self) -> Result<(), ConnectorError> {
        if self.is_down.load(Ordering::Relaxed) { Err(ConnectorError::Unavailable("it is down".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl Directory for Steered {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError> {
        self.answers()?;
        self.inner.search(scope, query).await
    }
    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        self.answers()?;
        self.inner.get(scope, by).await
    }
}

/// Two tenants with a directory of the operator's, `corp`, one of acme's own, `annex`; and a third tenant.
struct House {
    cs3: Cs3,
    store: Arc<dyn Store>,
    corp_is_down: Arc<AtomicBool>,
    annex_is_down: Arc<AtomicBool>,
}

fn configuration() -> Value {
    let user = |id: &str, name: &str, tenant: &str| {
        json!({
            "id": id, "username": name, "tenant": tenant, "displayName": format!("{name} of {tenant}"),
            "email": format!("{name}@{tenant}.example"), "groups": ["staff", "all"],
        })
    };
    json!({
        "issuer": "https://id.example",
        "tenants": [
            {"id": "acme", "externalIds": {"corp": "0a1b"}},
            {"id": "globex", "externalIds": {"corp": "9f8e"}},
            {"id": "initech"},
        ],
        "connectors": [
            {"id": "corp", "type": "file", "operatedBy": "operator", "tenants": "all", "ids": "verbatim", "users": [
                user(JANE, "jane", "0a1b"), user(JOE, "joe", "0a1b"), user(GUS, "gus", "9f8e"), user(EVE, "eve", "initech"),
            ]},
            {"id": "annex", "type": "file", "tenant": {"fixed": "acme"}, "users": [{"id": "z1", "username": "zoe", "displayName": "Zoe"}]},
        ],
        "cs3": {"socket": {"path": "cs3.sock"}, "jwtSecret": token::tests::SECRET, "externalIdsOf": "corp"},
    })
}

impl House {
    async fn new() -> Self {
        let house = Self::over(configuration(), Arc::new(Embedded::in_memory().unwrap())).await;
        for tenant in ["acme", "globex", "initech"] {
            house.seen(tenant).await;
        }
        house
    }

    /// The program over a store that there is, with this configuration.
    async fn over(configuration: Value, store: Arc<dyn Store>) -> Self {
        crate::cli::install_providers();
        let loaded = crate::config::load_text(&configuration.to_string(), &std::env::temp_dir(), "test.yaml");
        let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
        let (config, seams) = (loaded.config.clone(), Seams::alone(Arc::new(SystemClock), Arc::new(SystemEntropy), Arc::clone(&store)));
        let app = crate::build(loaded, seams).await.unwrap();
        let (corp_is_down, annex_is_down) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let wired = app.admission.connectors().map(|way| {
            let is_down = Arc::clone(if way.id.as_str() == "corp" { &corp_is_down } else { &annex_is_down });
            let steered = way.directory.as_ref().map(|inner| Steered { inner: Arc::clone(inner), is_down });
            Arc::new(Wired {
                id: way.id.clone(),
                display_name: way.display_name.clone(),
                disabled: false,
                is_keystone: false,
                mapping: Arc::clone(&way.mapping),
                policy: way.policy.clone(),
                password: None,
                directory: steered.map(|directory| Arc::new(directory) as _),
                redirect: None,
                groups: None,
                credential: None,
                renewal: None,
                revocation: None,
                token: None,
                logout: None,
                join: None,
                listed: true,
                within: way.within,
            })
        });
        let ids = crate::tenancy::IdRecords::new(Arc::clone(&store));
        let admission = Arc::new(Admission::new(Arc::clone(&app.admission.tenants), ids, wired.collect()));
        let signed_in = crate::tenancy::SignedInPeople::new(Arc::clone(&store), Duration::days(90));
        let people = Arc::new(People::new(Arc::clone(&admission), signed_in, config.search.clone()));
        let parts = Cs3Parts { admission, people, group_ids: Arc::new(GroupIds::new(Arc::clone(&store))), config: &config };
        Self { cs3: Cs3::new(parts).unwrap().unwrap(), store, corp_is_down, annex_is_down }
    }

    /// The same store under a configuration that was changed.
    async fn changed(&self, change: impl FnOnce(&mut Value)) -> Self {
        let mut configuration = configuration();
        change(&mut configuration);
        Self::over(configuration, Arc::clone(&self.store)).await
    }

    /// Has everyone of a tenant seen once, so that they are recorded.
    async fn seen(&self, tenant: &str) {
        let tenant = self.cs3.admission.tenants.get(&claims_mapping::TenantId::parse(tenant).unwrap()).unwrap();
        let search = crate::directory::Search { text: String::new(), limit: 50, after: None };
        self.cs3.people.search(&TenantScope::of_verified_caller(tenant), &search, NOW).await.unwrap();
    }

    async fn caller(&self, token: Option<&str>, channel: Channel) -> Result<Cs3Caller, Cs3Error> {
        self.cs3.caller(token, channel, NOW).await
    }

    async fn with(&self, id: Value, scope: &str) -> Result<Cs3Caller, Cs3Error> {
        self.caller(Some(&minted(&token::tests::payload(NOW, &id, scope))), Channel::Address).await
    }

    async fn user(&self, id: &str, tenant: &str) -> Cs3Caller {
        self.with(person(id, tenant), "user").await.unwrap()
    }

    async fn service(&self) -> Cs3Caller {
        self.with(json!({"idp": "none", "opaque_id": SERVICE, "type": 3}), "user").await.unwrap()
    }

    async fn found(&self, caller: &Cs3Caller, texts: &[&str]) -> Result<Vec<String>, Cs3Error> {
        let search = Cs3Search { texts: texts.iter().map(|text| (*text).to_owned()).collect(), is_empty: false, skip_groups: true };
        Ok(self.cs3.find(caller, &search, NOW).await?.into_iter().map(|user| user.username).collect())
    }

    async fn by_claim(&self, caller: &Cs3Caller, claim: &str, value: &str) -> String {
        said(self.cs3.user_by_claim(caller, claim, value, false, NOW).await.map(|user| user.username))
    }

    async fn by_id(&self, caller: &Cs3Caller, id: &str, tenant: &str) -> String {
        said(self.cs3.user(caller, &who(id, tenant), true, NOW).await.map(|user| user.username))
    }
}

fn person(id: &str, tenant: &str) -> Value {
    json!({"idp": "https://id.example", "opaque_id": id, "type": 1, "tenant_id": tenant})
}

fn who(id: &str, tenant: &str) -> UserRef {
    UserRef { opaque_id: id.to_owned(), idp: String::new(), tenant_id: tenant.to_owned() }
}

/// An outcome in a word.
fn said<T: ToString>(answer: Result<T, Cs3Error>) -> String {
    match answer {
        Ok(answer) => answer.to_string(),
        Err(Cs3Error::NoToken) => "no token".to_owned(),
        Err(Cs3Error::BadToken(_)) => "bad token".to_owned(),
        Err(Cs3Error::NotAllowed(_)) => "not allowed".to_owned(),
        Err(Cs3Error::NotFound) => "not found".to_owned(),
        Err(Cs3Error::Invalid(_)) => "invalid".to_owned(),
        Err(Cs3Error::Directory(_) | Cs3Error::Store(_)) => "could not tell".to_owned(),
    }
}

#[tokio::test]
async fn t02_t03_every_cell_of_the_table_from_both_sides() {
    let house = House::new().await;
    let jane = house.user(JANE, "acme").await;
    let link = house.with(person(JANE, "acme"), "publicshare:abc").await.unwrap();
    let service = house.service().await;
    let socket = house.caller(None, Channel::Socket).await.unwrap();
    let callers = [&jane, &link, &service, &socket];
    let no = "not found";
    // Whom: themselves, a colleague, someone of either other tenant, and no one at all.
    for (id, name, expected) in [
        (JANE, "jane@acme", ["jane@acme", "jane@acme", "jane@acme", "jane@acme"]),
        (JOE, "joe@acme", ["joe@acme", no, "joe@acme", "joe@acme"]),
        (GUS, "gus@globex", [no, no, "gus@globex", "gus@globex"]),
        (EVE, "eve@initech", [no, no, "eve@initech", "eve@initech"]),
        (NOBODY, "nobody@acme", [no; 4]),
    ] {
        for (caller, expected) in callers.into_iter().zip(expected) {
            assert_eq!(house.by_id(caller, id, "").await, expected, "{id} {caller:?}");
            assert_eq!(house.by_claim(caller, "userid", id).await, expected, "{id} {caller:?}");
            assert_eq!(house.by_claim(caller, "username", name).await, expected, "{name} {caller:?}");
        }
    }
    for (claim, value, expected) in [
        ("mail", "joe@0a1b.example", ["joe@acme", "not allowed", "not allowed", "no token"]),
        ("mail", "gus@9f8e.example", [no, "not allowed", "not allowed", "no token"]),
        ("uid", "1000", [no, "not allowed", "not allowed", "no token"]),
        ("gid", "1000", [no, "not allowed", "not allowed", "no token"]),
    ] {
        for (caller, expected) in callers.into_iter().zip(expected) {
            assert_eq!(house.by_claim(caller, claim, value).await, expected, "{claim} {caller:?}");
        }
    }
    let groups = |caller, id| {
        let house = &house;
        async move { said(house.cs3.groups_of(caller, &who(id, ""), NOW).await.map(|groups| groups.len())) }
    };
    for (id, expected) in [
        (JANE, ["2", "2", "2", "no token"]),
        (JOE, ["2", no, "2", "no token"]),
        (GUS, [no, no, "2", "no token"]),
        (NOBODY, [no, no, no, "no token"]),
    ] {
        for (caller, expected) in callers.into_iter().zip(expected) {
            assert_eq!(groups(caller, id).await, expected, "{id} {caller:?}");
        }
    }
    for (caller, expected) in callers.into_iter().zip(["jane@acme joe@acme zoe@acme", "not allowed", "not allowed", "no token"]) {
        assert_eq!(said(house.found(caller, &[""]).await.map(|names| names.join(" "))), expected, "{caller:?}");
    }
    for (id, external, expected) in [
        ("acme", "0a1b", ["acme", "not allowed", "acme", "no token"]),
        ("globex", "9f8e", [no, "not allowed", "globex", "no token"]),
        ("nowhere", "acme", [no, "not allowed", no, "no token"]),
    ] {
        for (caller, expected) in callers.into_iter().zip(expected) {
            let tenant = |answer: Result<Arc<claims_mapping::Tenant>, Cs3Error>| said(answer.map(|tenant| tenant.id.clone()));
            assert_eq!(tenant(house.cs3.tenant(caller, id)), expected, "{id} {caller:?}");
            assert_eq!(tenant(house.cs3.tenant_by_claim(caller, "id", id)), expected, "{id} {caller:?}");
            assert_eq!(tenant(house.cs3.tenant_by_claim(caller, "externalid", external)), expected, "{external} {caller:?}");
        }
    }
    let gus = house.user(GUS, "globex").await;
    assert_eq!(house.by_id(&gus, GUS, "").await, "gus@globex");
    assert_eq!(house.by_id(&gus, JANE, "").await, no);
    assert_eq!(house.found(&gus, &[""]).await.unwrap(), ["gus@globex"]);
}

#[tokio::test]
async fn t02_without_a_token_the_address_answers_nothing_unless_it_may() {
    let house = House::new().await;
    assert_eq!(said(house.caller(None, Channel::Address).await.map(|_| "ok")), "no token");
    let open = house.changed(|configuration| {
        configuration["cs3"]["address"] = json!("127.0.0.1:9144");
        configuration["cs3"]["tokenlessLookups"] = json!(true);
    });
    let open = open.await;
    let proxy = open.caller(None, Channel::Address).await.unwrap();
    assert_eq!(open.by_claim(&proxy, "userid", GUS).await, "gus@globex");
    assert_eq!(open.by_claim(&proxy, "mail", "gus@9f8e.example").await, "no token");
    assert_eq!(said(open.found(&proxy, &["gus"]).await.map(|names| names.len())), "no token");
    // A token that is there and bad is not left out of account, wherever none is needed.
    for channel in [Channel::Socket, Channel::Address] {
        for bad in ["", "x", "x.y.z"] {
            assert_eq!(said(open.caller(Some(bad), channel).await.map(|_| "ok")), "bad token", "{bad}");
        }
    }
}

#[tokio::test]
async fn t12_a_tenant_in_the_request_never_widens() {
    let house = House::new().await;
    let (jane, service) = (house.user(JANE, "acme").await, house.service().await);
    let socket = house.caller(None, Channel::Socket).await.unwrap();
    for caller in [&jane, &service, &socket] {
        assert_eq!(house.by_id(caller, JANE, "acme").await, "jane@acme");
        for tenant in ["globex", "Acme", "nowhere", "acme ", "*"] {
            assert_eq!(house.by_id(caller, JANE, tenant).await, "not found", "{tenant}");
        }
    }
    assert_eq!(house.by_id(&jane, GUS, "globex").await, "not found");
    assert_eq!(house.by_id(&service, GUS, "globex").await, "gus@globex");
}

#[tokio::test]
async fn ids_and_claims_are_taken_in_one_form_only() {
    let house = House::new().await;
    let jane = house.user(JANE, "acme").await;
    for other in [
        JANE.to_uppercase(),
        format!("{{{JANE}}}"),
        JANE.replace('-', ""),
        format!("urn:uuid:{JANE}"),
        format!(" {JANE}"),
        "jane".to_owned(),
    ] {
        assert_eq!(house.by_id(&jane, &other, "").await, "not found", "{other}");
        assert_eq!(house.by_claim(&jane, "userid", &other).await, "not found", "{other}");
    }
    assert_eq!(house.by_id(&jane, "", "").await, "invalid");
    for (claim, value) in [
        ("", "jane"),
        ("Mail", "joe@0a1b.example"),
        ("email", "x"),
        ("user_name", "jane"),
        ("userid", ""),
        ("mail", "a\nb"),
        ("uid", "x"),
        ("uid", "-1"),
        ("gid", "+1"),
        ("uid", "01"),
        ("uid", "99999999999999999999"),
        ("username", &"x".repeat(321)),
    ] {
        assert_eq!(house.by_claim(&jane, claim, value).await, "invalid", "{claim}={value}");
    }
    for name in ["jane", "jane@", "jane@nowhere", "@acme", "jane@0a1b.example", "jane@acme@globex"] {
        assert_eq!(house.by_claim(&jane, "username", name).await, "not found", "{name}");
    }
    assert_eq!(house.by_claim(&jane, "username", "Jane@ACME").await, "jane@acme");
    let mut elsewhere = who(JANE, "");
    for (idp, expected) in [("https://id.example", "jane@acme"), ("https://id.example/", "jane@acme"), ("https://sso.example", "not found")]
    {
        elsewhere.idp = idp.to_owned();
        assert_eq!(said(house.cs3.user(&jane, &elsewhere, true, NOW).await.map(|user| user.username)), expected, "{idp}");
    }
}

#[tokio::test]
async fn an_outage_is_never_no_one() {
    let house = House::new().await;
    let (jane, service) = (house.user(JANE, "acme").await, house.service().await);
    let socket = house.caller(None, Channel::Socket).await.unwrap();
    house.corp_is_down.store(true, Ordering::Relaxed);
    for caller in [&jane, &service, &socket] {
        assert_eq!(house.by_id(caller, JANE, "").await, "could not tell");
        assert_eq!(house.by_claim(caller, "userid", JANE).await, "could not tell");
    }
    assert_eq!(said(house.cs3.groups_of(&jane, &who(JANE, ""), NOW).await.map(|groups| groups.len())), "could not tell");
    // Whoever another directory knows is shown; that there is no one else is not said.
    assert_eq!(house.found(&jane, &[""]).await.unwrap(), ["zoe@acme"]);
    assert_eq!(said(house.found(&jane, &["jane"]).await.map(|names| names.len())), "could not tell");
    house.annex_is_down.store(true, Ordering::Relaxed);
    assert_eq!(said(house.found(&jane, &[""]).await.map(|names| names.len())), "could not tell");
    house.corp_is_down.store(false, Ordering::Relaxed);
    assert_eq!(house.found(&jane, &["jane"]).await.unwrap(), ["jane@acme"]);
}

#[tokio::test]
async fn groups_are_the_tenants_own_and_can_be_left_out() {
    let house = House::new().await;
    let service = house.service().await;
    let groups = |id: &'static str, skip| {
        let (house, service) = (&house, &service);
        async move { house.cs3.user(service, &who(id, ""), skip, NOW).await.unwrap().groups }
    };
    let (jane, joe, gus) = (groups(JANE, false).await, groups(JOE, false).await, groups(GUS, false).await);
    assert_eq!((jane.len(), &jane), (2, &joe));
    assert!(gus.iter().all(|group| !jane.contains(group)), "another tenant's staff are other people");
    assert_eq!(house.cs3.groups_of(&service, &who(JANE, ""), NOW).await.unwrap(), jane);
    assert!(groups(JANE, true).await.is_empty());
    // A search leaves groups out of the directory's answer; whoever asks for them gets them all the same.
    let user = house.user(JANE, "acme").await;
    for (skip_groups, expected) in [(true, [0, 0, 0]), (false, [2, 2, 0])] {
        let search = Cs3Search { texts: vec![String::new()], is_empty: false, skip_groups };
        let found = house.cs3.find(&user, &search, NOW).await.unwrap();
        assert_eq!(found.iter().map(|user| user.groups.len()).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_tenants_external_id_is_one_tenants() {
    let house = House::new().await;
    let service = house.service().await;
    let tenant = house.cs3.tenant(&service, "acme").unwrap();
    assert_eq!((house.cs3.external_id(&tenant), house.cs3.issuer()), ("0a1b", "https://id.example"));
    let initech = house.cs3.tenant_by_claim(&service, "externalid", "initech").unwrap();
    assert_eq!(house.cs3.external_id(&initech), "initech");
    for (claim, value, expected) in
        [("externalid", "", "invalid"), ("id", "", "invalid"), ("name", "acme", "invalid"), ("externalid", "0A1B", "not found")]
    {
        assert_eq!(said(house.cs3.tenant_by_claim(&service, claim, value).map(|tenant| tenant.id.clone())), expected, "{claim}={value}");
    }
    let plain = house.changed(|configuration| drop(configuration["cs3"].as_object_mut().unwrap().remove("externalIdsOf"))).await;
    let acme = plain.cs3.tenant_by_claim(&service, "externalid", "acme").unwrap();
    assert_eq!(plain.cs3.external_id(&acme), "acme");
    assert!(plain.cs3.tenant_by_claim(&service, "externalid", "0a1b").is_err());
}

#[tokio::test]
async fn t11_a_tenant_that_is_switched_off_is_gone_at_once_for_everyone() {
    let house = House::new().await;
    let service = house.service().await;
    assert_eq!(house.by_id(&service, GUS, "").await, "gus@globex");
    let off = house.changed(|configuration| configuration["tenants"][1]["disabled"] = json!(true)).await;
    assert_eq!(said(off.with(person(GUS, "globex"), "user").await.map(|_| "ok")), "bad token");
    let socket = off.caller(None, Channel::Socket).await.unwrap();
    for caller in [&service, &socket] {
        assert_eq!(off.by_id(caller, GUS, "").await, "not found");
        assert_eq!(off.by_claim(caller, "username", "gus@globex").await, "not found");
    }
    assert_eq!(said(off.cs3.tenant(&service, "globex").map(|tenant| tenant.id.clone())), "not found");
    assert_eq!(said(off.cs3.tenant_by_claim(&service, "externalid", "9f8e").map(|tenant| tenant.id.clone())), "not found");
}
