//! The use cases over connectors that say what a test wants them to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use async_trait::async_trait;
use claims_mapping::{ClaimMappings, Claims, MappingConfig, OperatedBy, PrefixedClaimOrExpression, Subject, TenantRule, UpstreamUser};
use connectors::{Directory, Found, FoundGroups, Groups, Lookup, UserQuery};
use serde_json::json;
use time::Duration;

use super::*;
use crate::{
    config::{Config, SearchConfig},
    cs3::Cs3Parts,
    directory::People,
    store::{Store, embedded::Embedded},
    tenancy::{Admission, Caller, IdRecords, InstanceLookup, SignedInPeople, Tenants, Wired},
    tests::{NOW, tenant, wired},
};

/// A directory of people and the groups that they name, of whatever tenant; it says of a group what it was told to.
#[derive(Default)]
struct Book {
    /// Subject, tenant, groups.
    people: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    /// Members that it lists though they are of another tenant.
    foreign: BTreeMap<(&'static str, &'static str), &'static str>,
    is_down: Mutex<bool>,
}

impl Book {
    fn up(&self) -> Result<(), ConnectorError> {
        if *self.is_down.lock().unwrap() { Err(ConnectorError::Unavailable("down".to_owned())) } else { Ok(()) }
    }
    fn user(&self, subject: &str, with_groups: bool) -> Option<UpstreamUser> {
        let (subject, tenant, groups) = self.people.iter().find(|(own, ..)| *own == subject)?;
        let groups: &[_] = if with_groups { groups } else { &[] };
        let claims = json!({ "username": subject, "tenant": tenant, "groups": groups });
        Some(UpstreamUser { subject: Subject::parse(subject).unwrap(), claims: Claims::new(claims).unwrap() })
    }
    fn names(&self, tenant: &TenantId) -> BTreeSet<&'static str> {
        let own = self.people.iter().filter(|(_, of, _)| *of == tenant.as_str());
        own.flat_map(|(.., groups)| groups.iter().copied()).collect()
    }
}

#[async_trait]
impl Directory for Book {
    async fn search(&self, _: &TenantScope, _: &UserQuery) -> Result<Found, ConnectorError> {
        self.up().map(|()| Found::default())
    }
    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        self.up()?;
        let Lookup::Subject(subject) = by else { return Ok(None) };
        let is_theirs = |user: &UpstreamUser| user.claims.get("tenant") == Some(&json!(scope.tenant_id().as_str()));
        Ok(self.user(subject.as_str(), true).filter(is_theirs))
    }
}

#[async_trait]
impl Groups for Book {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<FoundGroups, ConnectorError> {
        self.up()?;
        let hits = self.names(scope.tenant_id()).into_iter().filter(|name| name.to_lowercase().contains(&query.text.to_lowercase()));
        let group = |name: &str| UpstreamGroup { name: name.to_owned(), display_name: None, mail: None };
        Ok(FoundGroups { groups: hits.take(query.limit).map(group).collect(), truncated: false })
    }
    async fn get(&self, scope: &TenantScope, name: &str) -> Result<Option<UpstreamGroup>, ConnectorError> {
        self.up()?;
        let mail = Some(format!("{name}@{}.example", scope.tenant_id()));
        Ok(self.names(scope.tenant_id()).contains(name).then(|| UpstreamGroup { name: name.to_owned(), display_name: None, mail }))
    }
    async fn members(&self, scope: &TenantScope, name: &str, limit: usize) -> Result<Found, ConnectorError> {
        self.up()?;
        let own = self.people.iter().filter(|(_, of, groups)| *of == scope.tenant_id().as_str() && groups.contains(&name));
        let foreign = self.foreign.get(&(scope.tenant_id().as_str(), name));
        let subjects = own.map(|(subject, ..)| *subject).chain(foreign.copied());
        Ok(Found { users: subjects.take(limit).filter_map(|subject| self.user(subject, false)).collect(), truncated: false })
    }
}

/// Three connectors: one that gives groups as they are, one of acme's that puts something before them, and one that makes something else of them.
struct Office {
    cs3: Cs3,
    book: Arc<Book>,
    annex: Arc<Book>,
    tenants: Arc<Tenants>,
}

impl Office {
    async fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
        let tenants = vec![tenant("acme", false), tenant("globex", false), tenant("closed", true)];
        let tenants = Arc::new(Tenants::open(tenants, None, Arc::clone(&store), NOW).await.unwrap());
        let book = Arc::new(Book {
            people: vec![
                ("jane", "acme", vec!["staff", "admins"]),
                ("joe", "acme", vec!["staff", "a:b"]),
                ("greta", "globex", vec!["staff", "owners"]),
                ("carl", "closed", vec!["staff"]),
            ],
            foreign: [(("globex", "owners"), "jane")].into(),
            ..Book::default()
        });
        let annex = Arc::new(Book { people: vec![("ann", "acme", vec!["taff", "eu"]), ("bea", "acme", vec!["eu"])], ..Book::default() });
        let odd = Arc::new(Book { people: vec![("olga", "acme", vec!["odd"])], ..Book::default() });
        let groups = |groups: PrefixedClaimOrExpression| {
            let default = connectors::file::default_mapping();
            MappingConfig { claim_mappings: ClaimMappings { groups, ..default.claim_mappings.clone() }, ..default }
        };
        let prefixed = PrefixedClaimOrExpression { prefix: Some("s".to_owned()), ..PrefixedClaimOrExpression::of_claim("groups") };
        let made = PrefixedClaimOrExpression { expression: "claims.groups".to_owned(), ..PrefixedClaimOrExpression::default() };
        let whole = |name: &str, book: &Arc<Book>, mapping| Wired {
            directory: Some(Arc::clone(book) as _),
            groups: Some(Arc::clone(book) as _),
            ..wired(name, OperatedBy::Operator, mapping)
        };
        let mut annexed = whole("annex", &annex, groups(prefixed));
        annexed.policy.tenant_rule = TenantRule::Mapped(Some([TenantId::parse("acme").unwrap()].into()));
        let connectors = vec![whole("book", &book, connectors::file::default_mapping()), annexed, whole("odd", &odd, groups(made))];
        let connectors = connectors.into_iter().map(Arc::new).collect();
        let admission = Arc::new(Admission::new(Arc::clone(&tenants), IdRecords::new(Arc::clone(&store)), connectors));
        let signed_in = SignedInPeople::new(Arc::clone(&store), Duration::days(90));
        let people = Arc::new(People::new(Arc::clone(&admission), signed_in, SearchConfig::default()));
        let cs3 = json!({ "results": 3, "jwtSecret": "a secret of the tests" });
        let config: Config = serde_json::from_value(json!({ "issuer": "https://id.example", "cs3": cs3 })).unwrap();
        let parts = Cs3Parts { admission, people, group_ids: Arc::new(GroupIds::new(store)), config: &config };
        Self { cs3: Cs3::new(parts).unwrap().unwrap(), book, annex, tenants }
    }

    fn user(&self, of: &str) -> Cs3Caller {
        let tenant = self.tenants.get(&TenantId::parse(of).unwrap()).unwrap();
        Cs3Caller::User(Caller::of_record(tenant, Uuid::from_u128(1)))
    }

    fn service() -> Cs3Caller {
        Cs3Caller::Service { id: Subject::parse("service").unwrap(), lookup: InstanceLookup::of_instance() }
    }

    /// The id that someone of the group would have.
    async fn id(&self, tenant: &str, name: &str) -> String {
        let tenant = TenantId::parse(tenant).unwrap();
        self.cs3.group_ids.ids_of(&tenant, &[name.to_owned()], NOW).await.unwrap()[0].to_string()
    }

    /// Who a subject of a connector is.
    async fn who(&self, connector: &str, of: &str, subject: &str) -> UserRef {
        let scope = crate::tests::scope(of);
        let wired = self.cs3.admission.connector(connector).unwrap();
        let by = Lookup::Subject(Subject::parse(subject).unwrap());
        let user = wired.directory.as_ref().unwrap().get(&scope, &by).await.unwrap().unwrap();
        let found = self.cs3.admission.admit_found(wired, vec![user], scope.tenant_id(), NOW).await.unwrap();
        UserRef { opaque_id: found[0].id().opaque_id().to_string(), idp: String::new(), tenant_id: String::new() }
    }

    async fn members(&self, caller: &Cs3Caller, id: &str) -> Result<Vec<String>, Cs3Error> {
        let members = self.cs3.members(caller, id, NOW).await?;
        Ok(members.iter().map(|id| id.opaque_id().to_string()).collect())
    }

    async fn find(&self, caller: &Cs3Caller, texts: &[&str]) -> Result<Vec<Cs3Group>, Cs3Error> {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        self.cs3.find_groups(caller, &Cs3GroupSearch { texts, ..Cs3GroupSearch::default() }, NOW).await
    }
}

fn sorted(people: &[&UserRef]) -> Vec<String> {
    let mut ids: Vec<_> = people.iter().map(|who| who.opaque_id.clone()).collect();
    ids.sort();
    ids
}

fn is_not_found<T: std::fmt::Debug>(result: Result<T, Cs3Error>) -> bool {
    matches!(result, Err(Cs3Error::NotFound))
}

#[tokio::test]
async fn a_group_of_one_name_through_two_connectors_is_one_group() {
    let office = Office::new().await;
    let (jane, joe) = (office.who("book", "acme", "jane").await, office.who("book", "acme", "joe").await);
    let ann = office.who("annex", "acme", "ann").await;
    let id = office.id("acme", "staff").await;
    let user = office.user("acme");
    let group = office.cs3.group(&user, &id, false, NOW).await.unwrap();
    assert_eq!((group.id.to_string(), group.name.as_str(), group.display_name.as_str()), (id.clone(), "staff@acme", "staff"));
    assert!(group.mail.is_some());
    assert!(group.members.iter().all(|member| member.tenant_id().as_str() == "acme"));
    assert_eq!(office.members(&user, &id).await.unwrap(), sorted(&[&jane, &joe, &ann]), "`taff` of the annex is `staff` here");
    for who in [&jane, &joe, &ann] {
        assert!(office.cs3.has_member(&user, &id, who, NOW).await.unwrap());
    }
    let bea = office.who("annex", "acme", "bea").await;
    assert!(!office.cs3.has_member(&user, &id, &bea, NOW).await.unwrap());
    assert!(office.cs3.group(&user, &id, true, NOW).await.unwrap().members.is_empty());
    for (claim, value) in [("group_name", "staff@acme"), ("group_id", id.as_str()), ("groupid", id.as_str())] {
        assert_eq!(office.cs3.group_by_claim(&user, claim, value, false, NOW).await.unwrap(), group, "{claim}");
    }
    for (claim, value) in [("mail", "staff@acme.example"), ("gid_number", "7"), ("", "staff@acme")] {
        assert!(matches!(office.cs3.group_by_claim(&user, claim, value, true, NOW).await, Err(Cs3Error::Invalid(_))), "{claim}");
    }
    for name in ["staff", "staff@", "@acme", "STAFF@acme", "staff@acme@globex", "taff@acme", "none@acme", "staff@nowhere"] {
        assert!(is_not_found(office.cs3.group_by_claim(&user, "group_name", name, true, NOW).await), "{name}");
    }
}

#[tokio::test]
async fn t03_another_tenants_group_is_an_unknown_group() {
    let office = Office::new().await;
    let (ours, theirs) = (office.user("acme"), office.user("globex"));
    let greta = office.who("book", "globex", "greta").await;
    let id = office.id("globex", "staff").await;
    let never = Uuid::from_u128(9).to_string();
    for id in [&id, &never, "staff", &office.id("acme", "gone").await] {
        assert!(is_not_found(office.cs3.group(&ours, id, true, NOW).await), "{id}");
        assert!(is_not_found(office.members(&ours, id).await), "{id}");
    }
    assert!(is_not_found(office.cs3.has_member(&ours, &id, &greta, NOW).await));
    assert!(is_not_found(office.cs3.group_by_claim(&ours, "group_name", "staff@globex", true, NOW).await));
    assert_eq!(office.members(&theirs, &id).await.unwrap(), sorted(&[&greta]));
    // A tenant that is off has no groups for anyone.
    let closed = office.id("closed", "staff").await;
    assert!(is_not_found(office.cs3.group(&Office::service(), &closed, true, NOW).await));
    // The tenant of a request narrows, and never widens.
    let jane = office.who("book", "acme", "jane").await;
    let (staff, elsewhere) = (office.id("acme", "staff").await, UserRef { tenant_id: "globex".to_owned(), ..jane.clone() });
    assert!(!office.cs3.has_member(&ours, &staff, &elsewhere, NOW).await.unwrap());
    assert!(office.cs3.has_member(&ours, &staff, &UserRef { tenant_id: "acme".to_owned(), ..jane }, NOW).await.unwrap());
}

#[tokio::test]
async fn t55_a_group_that_lists_another_tenants_user_does_not_have_them() {
    let office = Office::new().await;
    let (jane, greta) = (office.who("book", "acme", "jane").await, office.who("book", "globex", "greta").await);
    let id = office.id("globex", "owners").await;
    assert_eq!(office.members(&office.user("globex"), &id).await.unwrap(), sorted(&[&greta]), "the directory gave jane, too");
    for caller in [office.user("globex"), Office::service()] {
        assert!(!office.cs3.has_member(&caller, &id, &jane, NOW).await.unwrap());
    }
}

#[tokio::test]
async fn t02_who_may_ask() {
    let office = Office::new().await;
    let (jane, id) = (office.who("book", "acme", "jane").await, office.id("acme", "staff").await);
    let Cs3Caller::User(owner) = office.user("acme") else { panic!() };
    let link = Cs3Caller::Link { owner };
    let tokenless = Cs3Caller::Tokenless(InstanceLookup::of_instance());
    for id in [id.as_str(), "nonsense", ""] {
        assert!(matches!(office.members(&link, id).await, Err(Cs3Error::NotAllowed(_))));
        assert!(matches!(office.members(&tokenless, id).await, Err(Cs3Error::NoToken)));
        assert!(matches!(office.cs3.has_member(&link, id, &jane, NOW).await, Err(Cs3Error::NotAllowed(_))));
        assert!(matches!(office.cs3.has_member(&tokenless, id, &jane, NOW).await, Err(Cs3Error::NoToken)));
    }
    assert!(matches!(office.cs3.group_by_claim(&tokenless, "group_name", "staff@acme", true, NOW).await, Err(Cs3Error::NoToken)));
    assert!(matches!(office.find(&link, &[""]).await, Err(Cs3Error::NotAllowed(_))));
    assert!(matches!(office.find(&tokenless, &[""]).await, Err(Cs3Error::NoToken)));
    // A service account asks for one group at a time, of whatever tenant, and does not search.
    for of in ["acme", "globex"] {
        assert!(!office.members(&Office::service(), &office.id(of, "staff").await).await.unwrap().is_empty());
    }
    assert!(matches!(office.find(&Office::service(), &[""]).await, Err(Cs3Error::NotAllowed(_))));
}

#[tokio::test]
async fn searches_are_of_the_callers_tenant_sorted_and_truncated() {
    let office = Office::new().await;
    let names = async |of: &str, texts: &[&str]| {
        let found = office.find(&office.user(of), texts).await.unwrap();
        found.into_iter().map(|group| group.name).collect::<Vec<_>>()
    };
    assert_eq!(names("acme", &["\"\""]).await, ["admins@acme", "seu@acme", "staff@acme"], "`a:b` can not be used, and `odd` is made");
    assert_eq!(names("acme", &[]).await, ["admins@acme", "seu@acme", "staff@acme"]);
    assert_eq!(names("globex", &[""]).await, ["owners@globex", "staff@globex"]);
    assert_eq!(names("acme", &["STA"]).await, ["staff@acme"], "also where a part of it is what stands before the annex's");
    assert_eq!(names("acme", &["s", "\"mi\""]).await, ["admins@acme"], "all of them hold");
    assert!(names("acme", &["owners"]).await.is_empty());
    let found = office.find(&office.user("acme"), &["staff"]).await.unwrap();
    assert_eq!(found[0].id.to_string(), office.id("acme", "staff").await);
    assert_eq!(found[0].members.len(), 3);
    let search = Cs3GroupSearch { is_empty: true, ..Cs3GroupSearch::default() };
    assert!(office.cs3.find_groups(&office.user("acme"), &search, NOW).await.unwrap().is_empty());
    let long = "x".repeat(321);
    for texts in [vec![long.as_str()], vec!["a"; 17]] {
        assert!(matches!(office.find(&office.user("acme"), &texts).await, Err(Cs3Error::Invalid(_))));
    }
}

#[tokio::test]
async fn an_outage_is_never_an_empty_group() {
    let office = Office::new().await;
    let user = office.user("acme");
    let (jane, staff, eu) = (office.who("book", "acme", "jane").await, office.id("acme", "staff").await, office.id("acme", "seu").await);
    let is_down = |result: Result<(), Cs3Error>| matches!(result, Err(Cs3Error::Directory(DirectoryError::Connector(_))));
    *office.annex.is_down.lock().unwrap() = true;
    // The one that answers has the group, and not all of its people.
    assert!(is_down(office.members(&user, &staff).await.map(drop)));
    assert!(is_down(office.cs3.group(&user, &staff, false, NOW).await.map(drop)));
    assert!(office.cs3.group(&user, &staff, true, NOW).await.is_ok());
    assert!(is_down(office.cs3.group(&user, &eu, true, NOW).await.map(drop)));
    assert!(office.cs3.has_member(&user, &staff, &jane, NOW).await.unwrap());
    let search = |text: &str| Cs3GroupSearch { texts: vec![text.to_owned()], is_empty: false, skip_members: true };
    assert_eq!(office.cs3.find_groups(&user, &search("staff"), NOW).await.unwrap().len(), 1);
    assert!(is_down(office.cs3.find_groups(&user, &search("eu"), NOW).await.map(drop)));
    *office.book.is_down.lock().unwrap() = true;
    assert!(is_down(office.cs3.group(&user, &staff, true, NOW).await.map(drop)));
    assert!(is_down(office.cs3.has_member(&user, &staff, &jane, NOW).await.map(drop)));
    assert!(is_down(office.cs3.find_groups(&user, &search(""), NOW).await.map(drop)));
}

#[tokio::test]
async fn groups_that_a_mapping_makes_are_known_by_their_people_only() {
    let office = Office::new().await;
    let user = office.user("acme");
    let (olga, odd) = (office.who("odd", "acme", "olga").await, office.id("acme", "odd").await);
    assert!(office.cs3.has_member(&user, &odd, &olga, NOW).await.unwrap());
    assert!(is_not_found(office.cs3.group(&user, &odd, true, NOW).await));
    assert!(office.find(&user, &["odd"]).await.unwrap().is_empty());
}
