//! Use cases over a store in memory, an injected clock, and upstreams that say what a test wants them to.

mod ending;
mod joining;
mod known;
mod passwords;
mod people;
mod reindex;
mod renewal;
mod sharing;
mod via;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use claims_mapping::{
    Claims, ConnectorId, ConnectorPolicy, IdScheme, Mapping, MappingConfig, OperatedBy, Subject, Tenant, TenantId, TenantLabel, TenantRule,
    TenantScope, UpstreamUser,
};
use connectors::{
    Asks, AsksDomain, Callback, ConnectorError, CredentialLogin, Directory, Found, Handshake, LoginName, Lookup, PasswordLogin, Proven,
    RedirectLogin, Renewal, Renewed, Secret, UpstreamSession, UserQuery, Wish,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};
use url::Url;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{
    config::SearchConfig,
    directory::{People, Search},
    login::{AtUpstream, Ending, Entering, SessionParts, Sessions, SignedIn, UpstreamGrants},
    logout_notices::Outbox,
    sealing::Sealing,
    seams::{Entropy, SystemEntropy},
    store::{
        Batch, Entry, Key, Kind, Outcome, Partition, Store,
        embedded::Embedded,
        stand_in::{StandIn, stand_in},
    },
    tenancy::{Admission, AdmissionError, IdRecords, Join, SignedInPeople, Tenants, Wired},
};

pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);
const HOUR: Duration = Duration::HOUR;

/// What a provider says when it is asked again.
enum Says {
    Gone,
    Unavailable,
    /// What it says of the person, and the next refresh token.
    Still(Option<UpstreamUser>, Option<&'static str>),
}

/// An OpenID provider that says what a test tells it to, and then that nothing has changed.
#[derive(Default)]
struct Provider {
    says: Mutex<VecDeque<Says>>,
    /// The refresh tokens that it was asked with.
    asked: Mutex<Vec<String>>,
    believed_seconds: u64,
}

impl Provider {
    fn will_say(&self, says: Says) {
        self.says.lock().unwrap().push_back(says);
    }
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl RedirectLogin for Provider {
    async fn begin(&self, _: &Handshake, _: &Wish, _: OffsetDateTime) -> Result<Url, ConnectorError> {
        Err(ConnectorError::Unavailable("not part of this test".to_owned()))
    }
    async fn finish(&self, _: &Handshake, _: &Wish, _: &Callback, _: OffsetDateTime) -> Result<Option<Proven>, ConnectorError> {
        Err(ConnectorError::Unavailable("not part of this test".to_owned()))
    }
}

#[async_trait]
impl Renewal for Provider {
    async fn renew(&self, _: &Subject, refresh_token: &Secret, _: OffsetDateTime) -> Result<Option<Renewed>, ConnectorError> {
        self.asked.lock().unwrap().push(refresh_token.expose().to_owned());
        let says = self.says.lock().unwrap().pop_front();
        // Long enough for another renewal to come in between.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        match says {
            Some(Says::Gone) => Ok(None),
            Some(Says::Unavailable) => Err(ConnectorError::Unavailable("it is down".to_owned())),
            Some(Says::Still(user, token)) => {
                Ok(Some(Renewed { user: Ok(user), refresh_token: token.map(|token| Secret::new(token.to_owned())) }))
            }
            None => Ok(Some(Renewed { user: Ok(None), refresh_token: None })),
        }
    }
    fn believed_seconds(&self) -> u64 {
        self.believed_seconds
    }
}

/// A directory of people, each with their tenant and the value of the attribute `externalId`.
#[derive(Default)]
struct Book {
    people: Mutex<Vec<(&'static str, &'static str, UpstreamUser)>>,
    is_down: AtomicBool,
}

impl Book {
    fn with(&self, tenant: &'static str, external: &'static str, user: UpstreamUser) {
        self.people.lock().unwrap().push((tenant, external, user));
    }
    fn without(&self, external: &str) {
        self.people.lock().unwrap().retain(|(_, own, _)| *own != external);
    }
}

#[async_trait]
impl Directory for Book {
    async fn search(&self, scope: &TenantScope, _: &UserQuery) -> Result<Found, ConnectorError> {
        let people = self.people.lock().unwrap();
        let users = people.iter().filter(|(t, ..)| *t == scope.tenant_id().as_str()).map(|(.., user)| user.clone()).collect();
        Ok(Found { users, truncated: false })
    }
    async fn get(&self, scope: &TenantScope, by: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(ConnectorError::Unavailable("it is down".to_owned()));
        }
        let people = self.people.lock().unwrap();
        let mut found = people.iter().filter(|(tenant, external, user)| {
            *tenant == scope.tenant_id().as_str()
                && match by {
                    Lookup::Subject(subject) => user.subject == *subject,
                    Lookup::Attribute { name, value } => name == "externalId" && external == value,
                    Lookup::Username(_) | Lookup::Mail(_) | Lookup::Number { .. } => false,
                }
        });
        let first = found.next().map(|(.., user)| user.clone());
        Ok(first.filter(|_| found.next().is_none()))
    }
}

/// A cloud that asks for domain and project. The password `right`, and the secret, prove whoever a test says.
#[derive(Default)]
struct Cloud {
    asks_domain: AsksDomain,
    proves: Mutex<Option<UpstreamUser>>,
    /// What it leaves to ask again with.
    leaves: Mutex<Option<&'static str>>,
    /// The names that it was asked about.
    names: Mutex<Vec<LoginName>>,
    /// The credentials that it was asked about.
    credentials: Mutex<Vec<String>>,
}

impl Cloud {
    fn says(&self, secret: &Secret) -> Result<Option<Proven>, ConnectorError> {
        let refresh_token = self.leaves.lock().unwrap().map(|token| Secret::new(token.to_owned()));
        match secret.expose() {
            "down" => Err(ConnectorError::Unavailable("it is down".to_owned())),
            "right" => Ok(self
                .proves
                .lock()
                .unwrap()
                .clone()
                .map(|user| Proven { session: UpstreamSession { sid: None, refresh_token }, ..user.into() })),
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl PasswordLogin for Cloud {
    fn asks(&self) -> Asks {
        Asks { domain: self.asks_domain, project: true }
    }
    async fn authenticate(&self, login: &LoginName, password: &Secret) -> Result<Option<Proven>, ConnectorError> {
        self.names.lock().unwrap().push(login.clone());
        self.says(password)
    }
}

#[async_trait]
impl CredentialLogin for Cloud {
    async fn authenticate(&self, id: &str, secret: &Secret) -> Result<Option<Proven>, ConnectorError> {
        self.credentials.lock().unwrap().push(id.to_owned());
        self.says(secret)
    }
}

/// Two tenants, a provider `sso`, a directory `corp`, a cloud `cloud`; what differs from that, a test says.
struct House {
    store: Arc<StandIn>,
    provider: Arc<Provider>,
    book: Arc<Book>,
    cloud: Arc<Cloud>,
    admission: Arc<Admission>,
    sessions: Sessions,
    people: Arc<People>,
}

/// What of a house a test wants otherwise.
#[derive(Clone, Default)]
struct Plan {
    joined: bool,
    sso_disabled: bool,
    sso_is_tenants: bool,
    globex_disabled: bool,
    /// Whether the cloud's people are all of one tenant.
    cloud_is_acmes: bool,
    /// Whether their tenant is something else than their domain.
    cloud_tenants_are_no_domains: bool,
    /// Whether they can be looked up, in the same directory as `corp`'s.
    cloud_has_directory: bool,
    cloud_has_no_renewal: bool,
    believed_seconds: Option<u64>,
    sealing_key: u8,
}

impl Plan {
    async fn build(self) -> House {
        self.over(stand_in()).await
    }

    /// The house over a store that there is: the same program after a restart with another configuration.
    async fn over(self, store: Arc<StandIn>) -> House {
        let shared: Arc<dyn Store> = Arc::clone(&store) as _;
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let tenants = [("acme", false), ("globex", self.globex_disabled)].map(|(id, disabled)| tenant(id, disabled)).to_vec();
        let external = |tenant: Tenant| {
            let own = if tenant.id.as_str() == "acme" { "0a1b" } else { "9f8e" };
            Tenant { external_ids: [(id("cloud"), own.to_owned())].into(), ..tenant }
        };
        let tenants = tenants.into_iter().map(external).collect();
        let tenants = Arc::new(Tenants::open(tenants, None, Arc::clone(&shared), NOW).await.unwrap());
        let provider = Arc::new(Provider { believed_seconds: self.believed_seconds.unwrap_or(43_200), ..Provider::default() });
        let book = Arc::new(Book::default());
        let operated_by = if self.sso_is_tenants { OperatedBy::Tenant } else { OperatedBy::Operator };
        let sso = Wired {
            redirect: Some(Arc::clone(&provider) as _),
            renewal: Some(Arc::clone(&provider) as _),
            disabled: self.sso_disabled,
            join: self.joined.then(|| Join { directory: id("corp"), claim: "ext".to_owned(), attribute: "externalId".to_owned() }),
            ..wired("sso", operated_by, connectors::oidc::default_mapping())
        };
        let corp =
            Wired { directory: Some(Arc::clone(&book) as _), ..wired("corp", OperatedBy::Operator, connectors::file::default_mapping()) };
        let asks_domain = if self.cloud_tenants_are_no_domains { AsksDomain::Always } else { AsksDomain::WithoutTenant };
        let cloud = Arc::new(Cloud { asks_domain, ..Cloud::default() });
        let ours = Wired {
            password: Some(Arc::clone(&cloud) as _),
            credential: Some(Arc::clone(&cloud) as _),
            renewal: (!self.cloud_has_no_renewal).then(|| Arc::clone(&provider) as _),
            directory: self.cloud_has_directory.then(|| Arc::clone(&book) as _),
            ..wired("cloud", OperatedBy::Operator, connectors::file::default_mapping())
        };
        let acme = TenantRule::Fixed(TenantId::parse("acme").unwrap());
        let rule = if self.cloud_is_acmes { acme } else { ours.policy.tenant_rule.clone() };
        let ours = Wired { policy: ConnectorPolicy { tenant_rule: rule, ..ours.policy.clone() }, ..ours };
        let connectors = vec![Arc::new(sso), Arc::new(corp), Arc::new(ours)];
        let admission = Arc::new(Admission::new(tenants, IdRecords::new(Arc::clone(&shared)), connectors));
        let sealing = Sealing::with(&Zeroizing::new([self.sealing_key; 32]), Arc::clone(&entropy)).unwrap();
        let grants =
            Arc::new(UpstreamGrants::new(Arc::clone(&shared), Arc::clone(&entropy), sealing, Arc::clone(&admission), Duration::days(14)));
        let signed_in = SignedInPeople::new(Arc::clone(&shared), Duration::days(90));
        let ending = Ending::new(Arc::clone(&shared), Outbox::new(Arc::clone(&shared)));
        let parts = SessionParts {
            store: shared,
            entropy,
            admission: Arc::clone(&admission),
            grants,
            people: signed_in.clone(),
            ending,
            lifetime: Duration::hours(12),
        };
        let people = Arc::new(People::new(Arc::clone(&admission), signed_in, SearchConfig::default()));
        House { store, provider, book, cloud, admission, sessions: Sessions::new(parts), people }
    }
}

impl House {
    /// Admits someone of whom `sso` says this.
    async fn admit(&self, user: &UpstreamUser) -> Result<claims_mapping::Identity, AdmissionError> {
        self.admission.admit(self.admission.connector("sso").unwrap(), user, NOW).await.map(|(identity, _)| identity)
    }

    /// Signs someone in at that time, of whom `sso` says this.
    async fn enter(&self, user: &UpstreamUser, refresh_token: Option<&str>, now: OffsetDateTime) -> SignedIn {
        let (identity, mapped) = self.admission.admit(self.admission.connector("sso").unwrap(), user, now).await.unwrap();
        let refresh_token = refresh_token.map(|token| Secret::new(token.to_owned()));
        let upstream = AtUpstream {
            connector: id("sso"),
            subject: user.subject.clone(),
            auth_time: Some(NOW.unix_timestamp() - 60),
            session: UpstreamSession { sid: None, refresh_token },
        };
        let entering = Entering { identity: &identity, mapped, upstream: Some(upstream) };
        self.sessions.begin(entering, None, now).await.unwrap()
    }

    async fn names(&self, tenant: &str, text: &str, now: OffsetDateTime) -> Vec<String> {
        let search = Search { text: text.to_owned(), limit: 50, after: None };
        let page = self.people.search(&scope(tenant), &search, now).await.unwrap();
        page.people.iter().map(|person| person.username().to_owned()).collect()
    }

    /// The records of a kind in a tenant.
    async fn records(&self, tenant: &str, kind: Kind, now: OffsetDateTime) -> Vec<(String, Entry)> {
        self.store.list(&Partition::Tenant(TenantId::parse(tenant).unwrap()), kind, None, 1_000, now).await.unwrap().entries
    }
}

fn id(text: &str) -> ConnectorId {
    ConnectorId::parse(text).unwrap()
}

pub(crate) fn tenant(id: &str, disabled: bool) -> Tenant {
    let id = TenantId::parse(id).unwrap();
    Tenant {
        label: TenantLabel::derived(&id),
        display_name: id.to_string(),
        id,
        external_ids: std::collections::BTreeMap::default(),
        connectors: None,
        disabled,
    }
}

pub(crate) fn scope(name: &str) -> TenantScope {
    TenantScope::of_verified_caller(Arc::new(tenant(name, false)))
}

pub(crate) fn wired(name: &str, operated_by: OperatedBy, mapping: MappingConfig) -> Wired {
    let tenant_rule = TenantRule::Mapped(match operated_by {
        OperatedBy::Operator => None,
        OperatedBy::Tenant => Some(["acme", "globex"].map(|id| TenantId::parse(id).unwrap()).into()),
    });
    Wired {
        id: id(name),
        display_name: name.to_owned(),
        disabled: false,
        is_keystone: false,
        mapping: Arc::new(Mapping::compile(&mapping).unwrap()),
        policy: ConnectorPolicy {
            connector: id(name),
            issuer: Url::parse("https://id.example").unwrap(),
            operated_by,
            tenant_rule,
            ids: IdScheme::Derived,
            roles: std::collections::BTreeSet::default(),
        },
        password: None,
        directory: None,
        redirect: None,
        groups: None,
        credential: None,
        renewal: None,
        revocation: None,
        token: None,
        logout: None,
        join: None,
        listed: true,
        within: std::time::Duration::from_secs(5),
    }
}

/// What an upstream says of someone.
fn user(subject: &str, claims: Value) -> UpstreamUser {
    UpstreamUser { subject: Subject::parse(subject).unwrap(), claims: Claims::new(claims).unwrap() }
}

/// Someone as `sso` says.
fn at_sso(subject: &str, name: &str, tenant: &str) -> UpstreamUser {
    user(
        subject,
        json!({ "preferred_username": name, "tenant_id": tenant, "groups": ["sso-staff"], "email": format!("{name}@sso.example"), "ext": subject }),
    )
}

/// Someone as `corp` says.
fn in_book(subject: &str, name: &str, tenant: &str) -> UpstreamUser {
    user(
        subject,
        json!({ "username": name, "tenant": tenant, "groups": ["corp-staff"], "email": format!("{name}@corp.example"), "displayName": "From Corp" }),
    )
}
