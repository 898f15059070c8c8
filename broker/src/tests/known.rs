//! One person, exactly, and what is remembered of them.

use std::sync::atomic::AtomicUsize;

use claims_mapping::ClaimOrExpression;
use prometheus_client::metrics::{counter::Counter, family::Family};
use tokio::sync::Notify;

use super::*;
use crate::{
    config::Cs3Cache,
    directory::{DirectoryError, KnownPerson, PersonBy},
    metrics::Ended,
};

/// What a register says, whatever it is asked.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Well,
    Down,
    Refuses,
    Hangs,
}

/// A directory that finds people by all they have, and counts what it is asked.
#[derive(Default)]
struct Register {
    people: Mutex<Vec<UpstreamUser>>,
    mood: Mutex<Mood>,
    asked: AtomicUsize,
    go_on: Notify,
}

impl Register {
    fn has(&self, people: &[UpstreamUser]) {
        *self.people.lock().unwrap() = people.to_vec();
    }
    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
    /// How often it was asked since this was last called.
    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl Directory for Register {
    async fn search(&self, _: &TenantScope, _: &UserQuery) -> Result<Found, ConnectorError> {
        Ok(Found { users: self.people.lock().unwrap().clone(), truncated: false })
    }
    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mood = *self.mood.lock().unwrap();
        match mood {
            Mood::Down => return Err(ConnectorError::Unavailable("it is down".to_owned())),
            Mood::Refuses => return Err(ConnectorError::Refused("another password".to_owned())),
            Mood::Hangs => self.go_on.notified().await,
            Mood::Well => {}
        }
        let people = self.people.lock().unwrap();
        let mut found = people.iter().filter(|user| {
            let claim = |name: &str| user.claims.get(name).cloned().unwrap_or_default();
            claim("tenant") == scope.tenant_id().as_str()
                && match by {
                    Lookup::Subject(subject) => user.subject == *subject,
                    Lookup::Username(name) => claim("username") == name.as_str() || claim("alias") == name.as_str(),
                    Lookup::Mail(address) => claim("email") == address.as_str(),
                    Lookup::Number { attribute, number } => claim(attribute) == *number,
                    Lookup::Attribute { .. } => false,
                }
        });
        let first = found.next().cloned();
        Ok(first.filter(|_| found.next().is_none()))
    }
}

/// Two registers, and a provider whose people are found where they have signed in.
struct Office {
    corp: Arc<Register>,
    branch: Arc<Register>,
    admission: Arc<Admission>,
    people: People,
    lookups: Family<Ended, Counter>,
    store: Arc<dyn Store>,
}

const CACHE: Cs3Cache = Cs3Cache { seconds: 30, grace_seconds: 600, entries: 1_000, entries_per_tenant: 100 };

async fn office(cache: Cs3Cache) -> Office {
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    office_over(store, cache, |_| {}).await
}

async fn office_over(store: Arc<dyn Store>, cache: Cs3Cache, change: impl Fn(&mut Wired)) -> Office {
    let tenants = vec![tenant("acme", false), tenant("globex", false)];
    let tenants = Arc::new(Tenants::open(tenants, None, Arc::clone(&store), NOW).await.unwrap());
    let (corp, branch) = (Arc::new(Register::default()), Arc::new(Register::default()));
    let directory = |name: &str, register: &Arc<Register>| {
        let mut wired =
            Wired { directory: Some(Arc::clone(register) as _), ..wired(name, OperatedBy::Operator, connectors::file::default_mapping()) };
        change(&mut wired);
        Arc::new(wired)
    };
    let mut mapping = connectors::oidc::default_mapping();
    mapping.claim_mappings.uid_number = ClaimOrExpression::of_claim("uidNumber");
    let sso = Arc::new(wired("sso", OperatedBy::Operator, mapping));
    let connectors = vec![directory("corp", &corp), directory("branch", &branch), sso];
    let admission = Arc::new(Admission::new(tenants, IdRecords::new(Arc::clone(&store)), connectors));
    let lookups = Family::default();
    let signed_in = SignedInPeople::new(Arc::clone(&store), Duration::days(90));
    let people = People::new(Arc::clone(&admission), signed_in, SearchConfig::default()).remembering(&cache, &lookups);
    Office { corp, branch, admission, people, lookups, store }
}

type Answer = Result<Option<Arc<KnownPerson>>, DirectoryError>;

impl Office {
    async fn find(&self, tenant: &str, by: &PersonBy, seconds: i64) -> Answer {
        self.people.person(&scope(tenant), by, NOW + Duration::seconds(seconds)).await
    }
    /// The username of whom is found.
    async fn name(&self, tenant: &str, by: &PersonBy, seconds: i64) -> Option<String> {
        self.find(tenant, by, seconds).await.unwrap().map(|known| known.identity.username().to_owned())
    }
    async fn is_untold(&self, tenant: &str, by: &PersonBy, seconds: i64) -> bool {
        self.find(tenant, by, seconds).await.is_err()
    }
    fn counted(&self, outcome: &'static str) -> u64 {
        self.lookups.get_or_create(&Ended { outcome }).get()
    }
    fn asked(&self) -> (usize, usize) {
        (self.corp.asked(), self.branch.asked())
    }
    /// Someone signs in at the provider.
    async fn enters(&self, person: &UpstreamUser) -> Uuid {
        let sso = self.admission.connector("sso").unwrap();
        let (identity, mapped) = self.admission.admit(sso, person, NOW).await.unwrap();
        let seen = SignedInPeople::new(Arc::clone(&self.store), Duration::days(90));
        self.store.commit(seen.seen(&identity, &mapped, NOW).await.unwrap(), NOW).await.unwrap();
        identity.id().opaque_id()
    }
}

fn person(subject: &str, name: &str, tenant: &str) -> UpstreamUser {
    person_with(subject, name, tenant, json!({}))
}

fn person_with(subject: &str, name: &str, tenant: &str, more: Value) -> UpstreamUser {
    let mut claims =
        json!({ "username": name, "tenant": tenant, "email": format!("{name}@{tenant}.example"), "groups": ["staff"], "roles": [] });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    user(subject, claims)
}

fn named(name: &str) -> PersonBy {
    PersonBy::Username(name.to_owned())
}

fn mailed(address: &str) -> PersonBy {
    PersonBy::Mail(address.to_owned())
}

/// Lets the questions in the background go on.
async fn a_while() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_person_is_found_by_each_of_what_they_have() {
    let office = office(CACHE).await;
    let numbers = json!({ "uidNumber": 1000, "gidNumber": 100 });
    office.corp.has(&[person_with("s1", "jane", "acme", numbers), person_with("s2", "joe", "acme", json!({ "gidNumber": 7 }))]);
    office.branch.has(&[person_with("b1", "bo", "acme", json!({ "gidNumber": 7 }))]);
    let jane = office.find("acme", &named("jane"), 0).await.unwrap().unwrap();
    assert_eq!((jane.identity.groups(), jane.identity.uid_number()), (["staff".to_owned()].as_slice(), Some(1000)));
    let id = PersonBy::Id(jane.identity.id().opaque_id());
    for by in [id, mailed("jane@acme.example"), PersonBy::UidNumber(1000), PersonBy::GidNumber(100)] {
        assert_eq!(office.name("acme", &by, 0).await.as_deref(), Some("jane"), "{by:?}");
        assert_eq!(office.name("globex", &by, 0).await, None, "t02, t03: another tenant's: {by:?}");
    }
    assert_eq!(office.name("acme", &PersonBy::GidNumber(7), 0).await, None, "two have it");
    office.asked();
    let long = "x".repeat(1_025);
    for by in [named(""), named(" "), named("a\0"), named(&long), mailed(""), PersonBy::UidNumber(-1), PersonBy::Id(Uuid::from_u128(7))] {
        assert_eq!(office.name("acme", &by, 0).await, None, "{by:?}");
    }
    assert_eq!(office.asked(), (0, 0), "nobody could have that");
}

#[tokio::test]
async fn a_name_of_two_directories_is_nobodys_and_a_silent_one_is_no_no() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme"), person("s2", "joe", "acme")]);
    office.branch.has(&[person("b1", "jane", "acme")]);
    assert_eq!(office.name("acme", &named("jane"), 0).await, None, "t25");
    let joe = office.find("acme", &named("joe"), 0).await.unwrap().unwrap();
    for mood in [Mood::Down, Mood::Refuses] {
        office.branch.is(mood);
        assert!(office.is_untold("acme", &mailed("joe@acme.example"), 0).await, "someone there might have the address too");
        assert!(office.is_untold("acme", &named("nobody"), 0).await);
    }
    // The record of an id says whose it is: no one else need be asked.
    assert_eq!(office.name("acme", &PersonBy::Id(joe.identity.id().opaque_id()), 700).await.as_deref(), Some("joe"));
    assert_eq!(office.counted("unavailable"), 4);
}

#[tokio::test]
async fn a_name_counts_as_the_mapping_gives_it() {
    let office = office(CACHE).await;
    office.corp.has(&[person_with("s1", "jane", "acme", json!({ "alias": "root" }))]);
    assert_eq!(office.name("acme", &named("root"), 0).await, None, "it is not the name by which they are known downstream");
    assert_eq!(office.name("acme", &named("jane"), 0).await.as_deref(), Some("jane"));
}

#[tokio::test]
async fn who_has_signed_in_is_found_exactly() {
    let office = office(CACHE).await;
    let at = |subject: &str, name: &str, tenant: &str, uid: i64| {
        let claims = json!({ "preferred_username": name, "tenant_id": tenant, "email": format!("{name}@x.example"), "uidNumber": uid });
        user(subject, claims)
    };
    let ann = office.enters(&at("s1", "Ann", "acme", 5)).await;
    office.enters(&at("s2", "anna", "acme", 6)).await;
    office.enters(&at("s3", "ann", "globex", 5)).await;
    for by in [named("ANN"), mailed("ann@X.example"), PersonBy::UidNumber(5), PersonBy::Id(ann)] {
        assert_eq!(office.name("acme", &by, 0).await.as_deref(), Some("Ann"), "{by:?}");
    }
    for by in [named("an"), named("anna@x.example"), mailed("ann"), PersonBy::UidNumber(7), PersonBy::GidNumber(5)] {
        assert_eq!(office.name("acme", &by, 0).await, None, "{by:?}");
    }
    office.corp.has(&[person("c1", "anna", "acme")]);
    assert_eq!(office.name("acme", &named("anna"), 0).await, None, "a directory's person has the name too");
    office.enters(&at("s4", "ann", "acme", 8)).await;
    assert_eq!(office.name("acme", &named("ann"), 0).await, None, "two have it");
}

#[tokio::test]
async fn what_was_told_counts_for_its_time_and_is_renewed_ahead_of_its_end() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    for second in 0..20 {
        assert_eq!(office.name("acme", &named("jane"), second).await.as_deref(), Some("jane"));
    }
    assert_eq!(office.asked(), (1, 1), "once, of each directory");
    // By whatever way they were found, they are known by their id.
    let id = office.find("acme", &named("jane"), 1).await.unwrap().unwrap().identity.id().opaque_id();
    assert_eq!(office.name("acme", &PersonBy::Id(id), 19).await.as_deref(), Some("jane"));
    assert_eq!(office.asked(), (0, 0));
    for _ in 0..10 {
        assert_eq!(office.name("acme", &named("jane"), 20).await.as_deref(), Some("jane"));
    }
    a_while().await;
    assert_eq!(office.asked(), (1, 1), "in the background, once");
    assert_eq!(office.name("acme", &named("jane"), 39).await.as_deref(), Some("jane"));
    assert_eq!(office.asked(), (0, 0));
    assert_eq!(office.name("acme", &named("jane"), 50).await.as_deref(), Some("jane"));
    assert_eq!(office.asked(), (1, 1), "its time is over");
    assert_eq!((office.counted("asked"), office.counted("stale"), office.counted("unavailable")), (2, 0, 0));
    assert_eq!(office.name("acme", &named("nobody"), 50).await, None);
    assert_eq!(office.name("acme", &named("nobody"), 50).await, None);
    assert_eq!(office.asked(), (2, 2), "that there is nobody is not remembered");
    // A clock that was set back makes nothing younger.
    office.corp.has(&[]);
    assert_eq!(office.name("acme", &named("jane"), 50 - 700).await, None);
}

#[tokio::test]
async fn t09_whoever_is_gone_is_let_go_by_every_name_as_soon_as_it_is_told() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    let by_id = PersonBy::Id(office.find("acme", &named("jane"), 0).await.unwrap().unwrap().identity.id().opaque_id());
    office.corp.has(&[]);
    assert_eq!(office.name("acme", &named("jane"), 19).await.as_deref(), Some("jane"), "for the time that is configured");
    assert_eq!(office.name("acme", &by_id, 25).await.as_deref(), Some("jane"));
    a_while().await;
    assert_eq!(office.name("acme", &by_id, 25).await, None, "the question in the background was answered");
    assert_eq!(office.name("acme", &named("jane"), 25).await, None, "by no other name either");
    office.corp.is(Mood::Down);
    assert!(office.is_untold("acme", &named("jane"), 26).await, "and nothing of it is given when nobody answers");
}

#[tokio::test]
async fn t58_a_name_that_was_given_again_is_another_person() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    let old = office.find("acme", &named("jane"), 0).await.unwrap().unwrap();
    let old_id = PersonBy::Id(old.identity.id().opaque_id());
    office.corp.has(&[person("s2", "jane", "acme")]);
    let new = office.find("acme", &named("jane"), 31).await.unwrap().unwrap();
    assert_ne!(old.identity.id(), new.identity.id());
    assert_eq!(new.identity.subject().as_str(), "s2");
    assert_eq!(office.name("acme", &old_id, 31).await, None);
    // Whoever is called otherwise now is not found by the old name, as soon as that is known by any way.
    office.corp.has(&[person("s2", "joan", "acme")]);
    let id = PersonBy::Id(new.identity.id().opaque_id());
    assert_eq!(office.name("acme", &id, 62).await.as_deref(), Some("joan"));
    assert_eq!(office.name("acme", &named("jane"), 45).await, None);
}

#[tokio::test]
async fn a_directory_that_is_down_is_bridged_for_the_grace_and_no_longer() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    office.name("acme", &named("jane"), 0).await;
    office.corp.is(Mood::Down);
    assert_eq!(office.name("acme", &named("jane"), 31).await.as_deref(), Some("jane"));
    assert_eq!(office.counted("stale"), 1);
    office.asked();
    for _ in 0..100 {
        assert_eq!(office.name("acme", &named("jane"), 40).await.as_deref(), Some("jane"));
    }
    a_while().await;
    assert_eq!(office.asked(), (1, 1), "once in a second, and in the background");
    assert_eq!(office.name("acme", &named("jane"), 629).await.as_deref(), Some("jane"));
    assert_eq!(office.counted("stale"), 102);
    a_while().await;
    assert!(office.is_untold("acme", &named("jane"), 630).await, "the grace is over, and that is no `none`");
    // A directory that says no is believed at once, also where it was silent before.
    office.corp.is(Mood::Well);
    office.name("acme", &named("jane"), 700).await;
    office.corp.is(Mood::Down);
    office.name("acme", &named("jane"), 740).await;
    office.corp.is(Mood::Well);
    office.corp.has(&[]);
    assert_eq!(office.name("acme", &named("jane"), 741).await.as_deref(), Some("jane"), "nobody waits for whom is silent");
    a_while().await;
    assert_eq!(office.name("acme", &named("jane"), 741).await, None);
}

#[tokio::test]
async fn what_an_operator_must_see_to_is_not_bridged() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    office.name("acme", &named("jane"), 0).await;
    office.corp.is(Mood::Refuses);
    assert!(office.is_untold("acme", &named("jane"), 31).await);
    office.corp.is(Mood::Down);
    assert_eq!(office.name("acme", &named("jane"), 32).await.as_deref(), Some("jane"));
    office.corp.is(Mood::Refuses);
    office.name("acme", &named("jane"), 33).await;
    a_while().await;
    assert!(office.is_untold("acme", &named("jane"), 33).await, "as soon as it is known");
    let none = Cs3Cache { grace_seconds: 0, ..CACHE };
    let office = self::office(none).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    office.name("acme", &named("jane"), 0).await;
    office.corp.is(Mood::Down);
    assert!(office.is_untold("acme", &named("jane"), 31).await, "without a grace");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_hangs_keeps_nobody_waiting_who_can_be_answered() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    office.name("acme", &named("jane"), 0).await;
    office.corp.is(Mood::Hangs);
    let begun = tokio::time::Instant::now();
    assert_eq!(office.name("acme", &named("jane"), 31).await.as_deref(), Some("jane"));
    assert_eq!(begun.elapsed().as_millis(), 500, "the first one waits, and not for long");
    for second in 31..60 {
        assert_eq!(office.name("acme", &named("jane"), second).await.as_deref(), Some("jane"));
    }
    a_while().await;
    assert_eq!(begun.elapsed().as_millis(), 500, "and the others do not");
    assert_eq!(office.corp.asked(), 2, "one question, which is still under way");
    office.corp.has(&[]);
    office.corp.is(Mood::Well);
    office.corp.go_on.notify_waiters();
    a_while().await;
    assert_eq!(office.name("acme", &named("jane"), 60).await, None, "what it says at last counts");
}

#[tokio::test]
async fn many_who_ask_at_once_are_one_question() {
    let office = Arc::new(office(CACHE).await);
    office.corp.has(&[person("s1", "jane", "acme")]);
    office.corp.is(Mood::Hangs);
    let ask = |office: Arc<Office>| async move { office.name("acme", &named("jane"), 0).await };
    let first = tokio::spawn(ask(Arc::clone(&office)));
    let all: Vec<_> = (0..50).map(|_| tokio::spawn(ask(Arc::clone(&office)))).collect();
    a_while().await;
    // Whoever asked first goes away, and takes no answer from the others.
    first.abort();
    a_while().await;
    office.corp.is(Mood::Well);
    office.corp.go_on.notify_waiters();
    for one in all {
        assert_eq!(one.await.unwrap().as_deref(), Some("jane"));
    }
    assert_eq!(office.asked(), (1, 1));
}

#[tokio::test]
async fn nothing_is_remembered_where_that_is_configured() {
    let none = Cs3Cache { seconds: 0, grace_seconds: 0, ..CACHE };
    let office = office(none).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    for _ in 0..3 {
        assert_eq!(office.name("acme", &named("jane"), 0).await.as_deref(), Some("jane"));
    }
    assert_eq!(office.asked(), (3, 3));
    office.corp.is(Mood::Down);
    assert!(office.is_untold("acme", &named("jane"), 0).await);
}

#[tokio::test]
async fn t11_tenants_and_connectors_are_judged_at_every_use() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme"), person("s2", "jane", "globex")]);
    for name in ["acme", "globex"] {
        assert_eq!(office.name(name, &named("jane"), 0).await.as_deref(), Some("jane"));
    }
    let tenants = &office.admission.tenants;
    let described = Tenant { display_name: "Acme Corp.".to_owned(), ..tenant("acme", false) };
    tenants.describe(&described);
    let jane = office.find("acme", &named("jane"), 1).await.unwrap().unwrap();
    assert_eq!(jane.tenant.display_name, "Acme Corp.", "described anew, nobody is asked again");
    office.asked();
    tenants.describe(&tenant("acme", true));
    assert_eq!(office.name("acme", &named("jane"), 1).await, None, "switched off");
    assert_eq!(office.name("globex", &named("jane"), 1).await.as_deref(), Some("jane"));
    tenants.describe(&Tenant { connectors: Some([id("branch")].into()), ..tenant("acme", false) });
    assert_eq!(office.name("acme", &named("jane"), 1).await, None, "the connector may no longer speak for it");
    office.corp.is(Mood::Down);
    tenants.describe(&tenant("acme", false));
    assert!(office.is_untold("acme", &named("jane"), 1).await, "what did not stand was let go");
    // The tenant's name at the connector is another's now: the rule gives this tenant no longer.
    tenants.describe(&Tenant { external_ids: [(id("corp"), "elsewhere".to_owned())].into(), ..tenant("globex", false) });
    assert!(office.is_untold("globex", &named("jane"), 1).await, "t10");
}

#[tokio::test]
async fn t09_a_connector_that_is_switched_off_shows_no_one() {
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    let before = office_over(Arc::clone(&store), CACHE, |_| {}).await;
    before.corp.has(&[person("s1", "jane", "acme")]);
    let jane = PersonBy::Id(before.find("acme", &named("jane"), 0).await.unwrap().unwrap().identity.id().opaque_id());
    let after = office_over(store, CACHE, |wired| wired.disabled = wired.id == id("corp")).await;
    after.corp.has(&[person("s1", "jane", "acme")]);
    for by in [jane, named("jane"), mailed("jane@acme.example")] {
        assert_eq!(after.name("acme", &by, 0).await, None, "{by:?}");
    }
    assert_eq!(after.corp.asked(), 0);
}

#[tokio::test]
async fn t06_the_same_name_and_address_in_two_tenants_are_two() {
    let office = office(CACHE).await;
    let at = |subject, tenant| person_with(subject, "jane", tenant, json!({ "email": "jane@shared.example", "uidNumber": 1 }));
    office.corp.has(&[at("s1", "acme"), at("s2", "globex")]);
    for by in [named("jane"), mailed("jane@shared.example"), PersonBy::UidNumber(1)] {
        for (name, subject) in [("acme", "s1"), ("globex", "s2"), ("acme", "s1")] {
            let jane = office.find(name, &by, 0).await.unwrap().unwrap();
            assert_eq!((jane.identity.subject().as_str(), jane.tenant.id.as_str()), (subject, name));
            let other = if name == "acme" { "globex" } else { "acme" };
            assert_eq!(office.name(other, &PersonBy::Id(jane.identity.id().opaque_id()), 0).await, None, "t03");
        }
    }
}

#[tokio::test]
async fn t10_whoever_is_of_another_tenant_now_or_of_none_is_not_found() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    let jane = PersonBy::Id(office.find("acme", &named("jane"), 0).await.unwrap().unwrap().identity.id().opaque_id());
    for (second, tenant) in [(31, json!("globex")), (62, json!(["acme", "globex"])), (93, json!("ACME")), (124, json!(null))] {
        office.corp.has(&[person_with("s1", "jane", "acme", json!({ "tenant": tenant }))]);
        assert_eq!(office.name("acme", &named("jane"), second).await, None, "{tenant}");
        assert_eq!(office.name("acme", &jane, second).await, None, "{tenant}");
    }
}

#[tokio::test]
async fn a_tenant_has_its_share_of_the_memory_and_no_more() {
    let office = office(Cs3Cache { entries: 10, entries_per_tenant: 3, ..CACHE }).await;
    let people: Vec<_> =
        (0..20).map(|n| person(&format!("g{n}"), &format!("u{n}"), "globex")).chain([person("s1", "jane", "acme")]).collect();
    office.corp.has(&people);
    office.name("acme", &named("jane"), 0).await;
    for n in 0..20 {
        assert!(office.name("globex", &named(&format!("u{n}")), 0).await.is_some());
    }
    office.asked();
    assert!(office.name("acme", &named("jane"), 1).await.is_some());
    for n in [17, 18, 19] {
        assert!(office.name("globex", &named(&format!("u{n}")), 1).await.is_some());
    }
    assert_eq!(office.asked(), (0, 0));
    assert!(office.name("globex", &named("u0"), 1).await.is_some());
    assert_eq!(office.asked(), (1, 1), "the oldest one was let go");
}

#[tokio::test]
async fn people_of_a_search_get_their_groups_in_order_and_who_is_gone_is_left_out() {
    let office = office(CACHE).await;
    let people: Vec<_> = (0..30).map(|n| person(&format!("s{n}"), &format!("u{n:02}"), "acme")).collect();
    office.corp.has(&people);
    let search = Search { text: String::new(), limit: 50, after: None };
    let page = office.people.search(&scope("acme"), &search, NOW).await.unwrap();
    office.corp.has(&people[1..]);
    let known = office.people.with_groups(&scope("acme"), &page.people, NOW).await.unwrap();
    let names: Vec<_> = known.iter().map(|known| known.identity.username().to_owned()).collect();
    assert_eq!(names, (1..30).map(|n| format!("u{n:02}")).collect::<Vec<_>>());
    assert_eq!(office.asked(), (30, 0));
    office.corp.is(Mood::Down);
    assert!(office.people.with_groups(&scope("acme"), &page.people, NOW).await.is_err(), "of one of them it could not be told");
    assert_eq!(office.people.with_groups(&scope("acme"), &page.people[1..], NOW).await.unwrap(), known);
}

/// What a use of the memory costs: `cargo test -p denizen --lib what_a_use_costs -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "it measures"]
async fn what_a_use_costs() {
    let office = office(CACHE).await;
    office.corp.has(&[person("s1", "jane", "acme")]);
    let by = [named("jane"), PersonBy::Id(office.find("acme", &named("jane"), 0).await.unwrap().unwrap().identity.id().opaque_id())];
    let scope = scope("acme");
    for by in by {
        let begun = std::time::Instant::now();
        for _ in 0..100_000 {
            assert!(office.people.person(&scope, &by, NOW).await.unwrap().is_some());
        }
        println!("{by:?}: {:?} each", begun.elapsed() / 100_000);
    }
    assert_eq!(office.asked(), (1, 1));
}
