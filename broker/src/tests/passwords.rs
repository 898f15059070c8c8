//! Sign-in with name, domain and password, and with a credential: where a name is looked for, whose guesses are counted together, and
//! what the session rests on.

use std::net::IpAddr;

use super::*;
use crate::{
    config::GuessingConfig,
    login::{Admitted, CredentialSignIn, Guessing, PasswordSignIn, SessionError, SignInError, Typed, TypedCredential},
    store::InProcess,
};

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

/// The two ways in, which count guesses together.
fn ways_in(house: &House) -> (PasswordSignIn, CredentialSignIn) {
    let guessing = Arc::new(Guessing::new(Arc::new(InProcess::default()), &GuessingConfig::default()));
    let password = PasswordSignIn::new(Arc::clone(&house.admission), Arc::clone(&guessing));
    (password, CredentialSignIn::new(Arc::clone(&house.admission), guessing))
}

fn typed<'a>(name: &'a str, domain: &'a str, tenant: Option<&'a str>, password: &str) -> Typed<'a> {
    Typed { name, password: Secret::new(password.to_owned()), domain: Some(domain), project: Some(" web "), tenant, address: ADDRESS }
}

fn credential<'a>(id: &'a str, secret: &str, tenant: Option<&'a str>) -> TypedCredential<'a> {
    TypedCredential { id, secret: Secret::new(secret.to_owned()), tenant, address: ADDRESS }
}

fn ann_of(domain: &str) -> UpstreamUser {
    in_book("u1", "ann", domain)
}

impl House {
    fn cloud(&self) -> &Wired {
        self.admission.connector("cloud").unwrap()
    }

    async fn try_password(&self, ways: &PasswordSignIn, typed: &Typed<'_>, now: OffsetDateTime) -> Result<Admitted, SignInError> {
        let guesser = ways.guesser(self.cloud(), typed, |_| false);
        ways.sign_in(self.cloud(), typed, &guesser, now).await
    }

    async fn try_credential(&self, ways: &CredentialSignIn, typed: &TypedCredential<'_>) -> Result<Admitted, SignInError> {
        let guesser = CredentialSignIn::guesser(self.cloud(), typed, |_| false);
        ways.sign_in(self.cloud(), typed, &guesser, NOW).await
    }

    /// Where the cloud was asked for a name: the name, the tenant, the domain.
    async fn sought(&self, name: &str, domain: &str, tenant: Option<&str>) -> (String, Option<String>, Option<String>) {
        self.cloud.names.lock().unwrap().clear();
        let (ways, _) = ways_in(self);
        let result = self.try_password(&ways, &typed(name, domain, tenant, "wrong"), NOW).await;
        assert!(matches!(result, Err(SignInError::Wrong)), "{result:?}");
        let names = std::mem::take(&mut *self.cloud.names.lock().unwrap());
        let [login] = names.as_slice() else { panic!("{names:?}") };
        assert_eq!(login.project.as_deref(), Some("web"));
        (login.name.clone(), login.tenant.as_ref().map(|tenant| tenant.id.to_string()), login.domain.clone())
    }

    /// Signs ann of acme in with her password, after which the cloud leaves this.
    async fn enter_with_password(&self, leaves: Option<&'static str>, now: OffsetDateTime) -> SignedIn {
        *self.cloud.proves.lock().unwrap() = Some(ann_of("0a1b"));
        *self.cloud.leaves.lock().unwrap() = leaves;
        let (ways, _) = ways_in(self);
        let admitted = self.try_password(&ways, &typed("ann", "acme", None, "right"), now).await.unwrap();
        let Admitted { identity, mapped, upstream, .. } = admitted;
        self.sessions.begin(Entering { identity: &identity, mapped, upstream }, None, now).await.unwrap()
    }
}

fn sought(name: &str, tenant: Option<&str>, domain: Option<&str>) -> (String, Option<String>, Option<String>) {
    (name.to_owned(), tenant.map(str::to_owned), domain.map(str::to_owned))
}

fn after(seconds: i64) -> OffsetDateTime {
    NOW + Duration::seconds(seconds)
}

#[tokio::test]
async fn a_tenants_name_in_the_domains_field_is_the_tenant_and_every_other_is_the_upstreams() {
    let house = Plan::default().build().await;
    for domain in ["acme", " acme ", "ACME", "0a1b"] {
        let acme = sought("ann", Some("acme"), Some(domain.trim()));
        assert_eq!(house.sought("ann", domain, None).await, acme, "{domain}");
        assert_eq!(house.sought(&format!("ann@{domain}"), "", None).await, acme, "{domain}");
        assert_eq!(house.sought("ann@acme", domain, None).await, acme, "{domain}: said twice");
    }
    let globex = sought("ann@acme", Some("globex"), Some("globex"));
    assert_eq!(house.sought("ann@acme", "globex", None).await, globex, "the field decides");
    assert_eq!(house.sought("ann", "Acme Corp", None).await, sought("ann", None, Some("Acme Corp")));
    assert_eq!(house.sought("ann@Acme Corp", " ", None).await, sought("ann", None, Some("Acme Corp")));
    assert_eq!(house.sought("ann@x.example", "x.example", None).await, sought("ann@x.example", None, Some("x.example")));
}

#[tokio::test]
async fn the_tenant_that_the_request_names_decides_whatever_is_typed() {
    let house = Plan::default().build().await;
    for domain in ["", "globex", "Default"] {
        assert_eq!(house.sought("ann", domain, Some("acme")).await, sought("ann", Some("acme"), None), "{domain}");
    }
    assert_eq!(house.sought("ann", "", Some("nowhere")).await, sought("ann", Some("nowhere"), None), "it is looked in all the same");
    // Where all domains are one tenant, that tenant says nothing of the domain.
    let house = Plan { cloud_is_acmes: true, ..Plan::default() }.build().await;
    for tenant in [None, Some("acme")] {
        for domain in ["globex", "acme", "0a1b"] {
            assert_eq!(house.sought("ann", domain, tenant).await, sought("ann", None, Some(domain)));
        }
    }
    // Where tenants are something else than the upstream's domains, the domain goes on as it was typed, and the tenant is held
    // against whoever comes out.
    let elsewhere = Plan { cloud_tenants_are_no_domains: true, ..Plan::default() }.build().await;
    for tenant in [None, Some("acme")] {
        assert!(PasswordSignIn::asks_domain(elsewhere.cloud(), tenant));
        assert_eq!(elsewhere.sought("ann", "globex", tenant).await, sought("ann", None, Some("globex")));
    }
    *elsewhere.cloud.proves.lock().unwrap() = Some(ann_of("0a1b"));
    let (ways, _) = ways_in(&elsewhere);
    let admitted = elsewhere.try_password(&ways, &typed("ann", "globex", Some("acme"), "right"), NOW).await.unwrap();
    assert_eq!(admitted.identity.id().tenant_id().as_str(), "acme");
    let foreign = elsewhere.try_password(&ways, &typed("ann", "globex", Some("globex"), "right"), NOW).await;
    assert!(matches!(foreign, Err(SignInError::Wrong)), "{foreign:?}");
    let (name, ..) = house.sought("ann", "Default", Some("globex")).await;
    assert_ne!(name, "ann", "no one's password is tried for a tenant that can not come out");
}

#[tokio::test]
async fn whoever_is_of_another_tenant_than_the_one_that_was_asked_for_is_no_one() {
    let house = Plan::default().build().await;
    let (ways, credentials) = ways_in(&house);
    *house.cloud.proves.lock().unwrap() = Some(ann_of("9f8e"));
    for (name, domain, tenant) in
        [("ann", "acme", None), ("ann", "0a1b", None), ("ann@acme", "", None), ("ann", "", Some("acme")), ("ann", "", Some("globex/"))]
    {
        let result = house.try_password(&ways, &typed(name, domain, tenant, "right"), NOW).await;
        assert!(matches!(result, Err(SignInError::Wrong)), "{name} {domain} {tenant:?}: {result:?}");
    }
    for tenant in ["acme", "nowhere", "globex/"] {
        let result = house.try_credential(&credentials, &credential("c1", "right", Some(tenant))).await;
        assert!(matches!(result, Err(SignInError::Wrong)), "{tenant}: {result:?}");
    }
    for (domain, tenant) in [("globex", None), ("Globex & Co", None), ("", Some("globex"))] {
        let admitted = house.try_password(&ways, &typed("ann", domain, tenant, "right"), NOW).await.unwrap();
        assert_eq!(admitted.identity.id().tenant_id().as_str(), "globex");
    }
    for tenant in [None, Some("globex")] {
        let admitted = house.try_credential(&credentials, &credential("c1", "right", tenant)).await.unwrap();
        assert_eq!(admitted.identity.id().tenant_id().as_str(), "globex");
    }
    // What could not be told is no "wrong".
    let down = house.try_password(&ways, &typed("ann", "acme", None, "down"), NOW).await;
    assert!(matches!(down, Err(SignInError::Upstream(_))), "{down:?}");
    let down = house.try_credential(&credentials, &credential("c1", "down", None)).await;
    assert!(matches!(down, Err(SignInError::Upstream(_))), "{down:?}");
}

#[tokio::test]
async fn t11_a_disabled_tenant_admits_no_one_by_any_of_its_names() {
    let house = Plan { globex_disabled: true, ..Plan::default() }.build().await;
    let (ways, credentials) = ways_in(&house);
    *house.cloud.proves.lock().unwrap() = Some(ann_of("9f8e"));
    for (domain, tenant) in [("globex", None), ("9f8e", None), ("Globex & Co", None), ("", Some("globex"))] {
        let result = house.try_password(&ways, &typed("ann", domain, tenant, "right"), NOW).await;
        assert!(matches!(result, Err(SignInError::NotAdmitted { .. })), "{domain}: {result:?}");
    }
    let result = house.try_credential(&credentials, &credential("c1", "right", None)).await;
    assert!(matches!(result, Err(SignInError::NotAdmitted { .. })), "{result:?}");
}

#[tokio::test]
async fn an_account_has_one_budget_however_its_domain_is_written() {
    let house = Plan::default().build().await;
    let (ways, _) = ways_in(&house);
    let account = |name: &str, domain: &str, tenant: Option<&str>| {
        ways.guesser(house.cloud(), &typed(name, domain, tenant, ""), |_| false).account().to_owned()
    };
    let acme = account("ann", "acme", None);
    for (name, domain, tenant) in [
        ("Ann ", " ACME", None),
        ("ann", "0a1b", None),
        ("ann@acme", "", None),
        ("ann@0a1b", "", None),
        ("ann@acme", "acme", None),
        ("ann", "", Some("acme")),
        ("ann", "whatever", Some("acme")),
    ] {
        assert_eq!(account(name, domain, tenant), acme, "{name} {domain} {tenant:?}");
    }
    let by_name = account("ann", "Acme Corp", None);
    for (name, domain) in [("ann", "acme corp "), ("ANN", "ＡＣＭＥ Corp"), ("ann@Acme Corp", "")] {
        assert_eq!(account(name, domain, None), by_name, "{name} {domain}");
    }
    let others = [acme, by_name, account("ann", "globex", None), account("ann", "Default", None), account("bob", "acme", None)];
    let different: std::collections::BTreeSet<_> = others.iter().collect();
    assert_eq!(different.len(), others.len());
}

#[tokio::test]
async fn guesses_at_credentials_are_slowed_by_id_and_with_passwords_by_address() {
    let house = Plan::default().build().await;
    let GuessingConfig { account_burst, address_burst, .. } = GuessingConfig::default();
    let (ways, credentials) = ways_in(&house);
    for _ in 0..account_burst {
        let result = house.try_credential(&credentials, &credential("c1", "wrong", None)).await;
        assert!(matches!(result, Err(SignInError::Wrong)), "{result:?}");
    }
    *house.cloud.proves.lock().unwrap() = Some(ann_of("0a1b"));
    let slowed = house.try_credential(&credentials, &credential("C1 ", "right", None)).await;
    assert!(matches!(slowed, Err(SignInError::Slowed(_))), "{slowed:?}");
    assert_eq!(house.cloud.credentials.lock().unwrap().len(), account_burst as usize);
    house.try_credential(&credentials, &credential("c2", "right", None)).await.unwrap();
    for i in account_burst..address_burst {
        let result = house.try_credential(&credentials, &credential(&format!("other{i}"), "wrong", None)).await;
        assert!(matches!(result, Err(SignInError::Wrong)), "{result:?}");
    }
    let slowed = house.try_password(&ways, &typed("ann", "acme", None, "right"), NOW).await;
    assert!(matches!(slowed, Err(SignInError::Slowed(_))), "{slowed:?}");
}

#[tokio::test]
async fn t23_what_can_be_no_credential_is_not_asked_about() {
    let house = Plan::default().build().await;
    *house.cloud.proves.lock().unwrap() = Some(ann_of("0a1b"));
    let (_, credentials) = ways_in(&house);
    for (id, secret) in [("", "right"), (" ", "right"), ("c1", ""), ("c1", "  "), ("c1", "\0"), ("c1\0", "right"), ("c1", "ri\nght")] {
        let result = house.try_credential(&credentials, &credential(id, secret, None)).await;
        assert!(matches!(result, Err(SignInError::Wrong)), "{id:?} {secret:?}: {result:?}");
    }
    assert!(house.cloud.credentials.lock().unwrap().is_empty());
}

#[tokio::test]
async fn t30_whoever_came_with_a_password_is_asked_about_with_what_it_left() {
    let house = Plan { cloud_has_directory: true, ..Plan::default() }.build().await;
    let ann = house.enter_with_password(Some("left"), NOW).await;
    let (session, _) = house.sessions.find(&ann, NOW).await.unwrap();
    assert_eq!((session.via.as_ref(), session.auth_time, session.is_time_known), (Some(&id("cloud")), NOW.unix_timestamp(), true));
    // The sign-in was a moment ago: neither the upstream nor its directory, which has no one, is asked.
    house.sessions.renew_and_keep(&ann, after(29)).await.unwrap();
    assert!(house.provider.asked().is_empty());
    // "Still so" stands, and so does what it says.
    house.sessions.renew_and_keep(&ann, after(60)).await.unwrap();
    let promoted = user("u1", json!({ "username": "ann", "tenant": "0a1b", "groups": ["owners"] }));
    house.provider.will_say(Says::Still(Some(promoted), None));
    house.sessions.renew_and_keep(&ann, after(100)).await.unwrap();
    let (_, identity) = house.sessions.renew_and_keep(&ann, after(129)).await.unwrap();
    assert_eq!(identity.groups(), ["owners"]);
    assert_eq!(house.provider.asked(), ["left", "left"]);
    house.provider.will_say(Says::Unavailable);
    let renewed = house.sessions.renew(&ann, after(200)).await;
    assert!(matches!(renewed, Err(SessionError::Directory(_))), "{renewed:?}");
    house.sessions.find(&ann, after(200)).await.unwrap();
    house.provider.will_say(Says::Gone);
    let renewed = house.sessions.renew(&ann, after(201)).await;
    assert!(matches!(renewed, Err(SessionError::Refused)), "{renewed:?}");
    assert!(matches!(house.sessions.find(&ann, after(201)).await, Err(SessionError::Ended)));
    assert!(house.records("acme", Kind::UpstreamGrant, after(201)).await.is_empty());
}

#[tokio::test]
async fn t10_someone_whose_domain_has_changed_loses_the_session() {
    let house = Plan::default().build().await;
    let ann = house.enter_with_password(Some("left"), NOW).await;
    assert_eq!(house.names("acme", "", NOW).await, ["ann"], "without a directory, those who have signed in are found");
    house.provider.will_say(Says::Still(Some(ann_of("9f8e")), None));
    let renewed = house.sessions.renew(&ann, after(600)).await;
    assert!(matches!(renewed, Err(SessionError::Vanished)), "{renewed:?}");
    assert!(matches!(house.sessions.find(&ann, after(600)).await, Err(SessionError::Ended)));
    assert!(house.names("acme", "", after(600)).await.is_empty());
}

#[tokio::test]
async fn a_credentials_session_rests_on_what_it_left_too() {
    let house = Plan::default().build().await;
    *house.cloud.proves.lock().unwrap() = Some(ann_of("0a1b"));
    *house.cloud.leaves.lock().unwrap() = Some("left");
    let (_, credentials) = ways_in(&house);
    let admitted = house.try_credential(&credentials, &credential(" c1 ", "right", None)).await.unwrap();
    assert_eq!(*house.cloud.credentials.lock().unwrap(), ["c1"]);
    let Admitted { identity, mapped, upstream, .. } = admitted;
    let ann = house.sessions.begin(Entering { identity: &identity, mapped, upstream }, None, NOW).await.unwrap();
    house.provider.will_say(Says::Gone);
    let renewed = house.sessions.renew(&ann, after(600)).await;
    assert!(matches!(renewed, Err(SessionError::Refused)), "{renewed:?}");
    assert_eq!(house.provider.asked(), ["left"]);
}

#[tokio::test]
async fn where_nothing_was_left_the_directory_is_asked_each_time_or_the_word_is_believed_for_so_long() {
    let house = Plan { cloud_has_directory: true, ..Plan::default() }.build().await;
    house.book.with("acme", "-", ann_of("0a1b"));
    let ann = house.enter_with_password(None, NOW).await;
    house.sessions.renew(&ann, after(1)).await.unwrap();
    house.book.without("-");
    let renewed = house.sessions.renew(&ann, after(2)).await;
    assert!(matches!(renewed, Err(SessionError::Vanished)), "{renewed:?}");

    let house = Plan { believed_seconds: Some(3_600), ..Plan::default() }.build().await;
    let ann = house.enter_with_password(None, NOW).await;
    house.sessions.renew(&ann, after(3_599)).await.unwrap();
    assert!(matches!(house.sessions.find(&ann, after(3_600)).await, Err(SessionError::Ended)));

    let house = Plan { cloud_has_no_renewal: true, ..Plan::default() }.build().await;
    let ann = house.enter_with_password(None, NOW).await;
    let (session, _) = house.sessions.renew(&ann, after(3_600)).await.unwrap();
    assert_eq!((session.via, session.upstream), (None, None), "as it was before");
    assert!(house.provider.asked().is_empty());
}
