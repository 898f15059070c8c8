//! What a handshake is bound to, with an upstream that says what the test wants.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use claims_mapping::{
    ClaimMappings, ClaimOrExpression, Claims, ConnectorId, ConnectorPolicy, IdScheme, Mapping, MappingConfig, OperatedBy,
    PrefixedClaimOrExpression, Subject, Tenant, TenantId, TenantLabel, TenantRule,
};
use connectors::{Handshake, Proven, RedirectLogin, Renewal, Renewed, Secret, UpstreamSession, UpstreamUser};
use serde_json::json;
use time::{Duration, macros::datetime};

use super::*;
use crate::{
    login::{Attempts, Wanted},
    seams::SystemEntropy,
    store::{Store, embedded::Embedded},
    tenancy::{IdRecords, Tenants},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);
const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// An upstream that proves whoever the code names, as `<tenant>/<sub>`, and says how often it was asked.
#[derive(Default)]
struct Upstream(AtomicUsize);

#[async_trait]
impl RedirectLogin for Upstream {
    async fn begin(&self, handshake: &Handshake, wish: &Wish, _: OffsetDateTime) -> Result<Url, ConnectorError> {
        let mut url = Url::parse("https://up.example/authorize").unwrap();
        let hint = wish.login_hint.as_deref().unwrap_or_default();
        url.query_pairs_mut().append_pair("state", &handshake.state).append_pair("login_hint", hint);
        Ok(url)
    }
    async fn finish(&self, _: &Handshake, _: &Wish, callback: &Callback, _: OffsetDateTime) -> Result<Option<Proven>, ConnectorError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match callback.code.as_deref().and_then(|code| code.split_once('/')) {
            Some((tenant, sub)) => {
                let claims = Claims::new(json!({"sub": sub, "tenant_id": tenant})).unwrap();
                let user = UpstreamUser { subject: Subject::parse(sub).unwrap(), claims };
                Ok(Some(Proven { user, auth_time: Some(7), session: UpstreamSession::default() }))
            }
            None if callback.error.is_some() => Ok(None),
            None => Err(ConnectorError::Unavailable("it is down".to_owned())),
        }
    }
}

#[async_trait]
impl Renewal for Upstream {
    async fn renew(&self, _: &Subject, _: &Secret, _: OffsetDateTime) -> Result<Option<Renewed>, ConnectorError> {
        Ok(None)
    }
    fn believed_seconds(&self) -> u64 {
        60
    }
}

struct House {
    attempts: Attempts,
    sign_in: RedirectSignIn,
    a: Arc<Wired>,
    b: Arc<Wired>,
    upstream: Arc<Upstream>,
}

async fn house() -> House {
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    let entropy = Arc::new(SystemEntropy);
    let upstream = Arc::new(Upstream::default());
    let tenants = ["acme", "globex"].map(|id| {
        let id = TenantId::parse(id).unwrap();
        let (label, display_name) = (TenantLabel::derived(&id), id.to_string());
        Tenant { id, label, display_name, external_ids: Default::default(), connectors: None, disabled: false }
    });
    let wired = ["a", "b"].map(|id| {
        let id = ConnectorId::parse(id).unwrap();
        let claim_mappings = ClaimMappings {
            username: PrefixedClaimOrExpression::of_claim("sub"),
            tenant: ClaimOrExpression::of_claim("tenant_id"),
            ..ClaimMappings::default()
        };
        let policy = ConnectorPolicy {
            connector: id.clone(),
            issuer: Url::parse("https://id.example").unwrap(),
            operated_by: OperatedBy::Operator,
            tenant_rule: TenantRule::Mapped(None),
            ids: IdScheme::Derived,
            roles: Default::default(),
        };
        Arc::new(Wired {
            display_name: id.to_string(),
            id,
            disabled: false,
            is_keystone: false,
            mapping: Arc::new(Mapping::compile(&MappingConfig { claim_mappings, ..MappingConfig::default() }).unwrap()),
            policy,
            password: None,
            directory: None,
            redirect: Some(Arc::clone(&upstream) as Arc<dyn RedirectLogin>),
            renewal: Some(Arc::clone(&upstream) as Arc<dyn Renewal>),
            groups: None,
            credential: None,
            revocation: None,
            token: None,
            logout: None,
            join: None,
            listed: true,
            within: std::time::Duration::from_secs(5),
        })
    });
    let tenants = Arc::new(Tenants::open(tenants.into(), None, Arc::clone(&store), NOW).await.unwrap());
    let admission = Arc::new(Admission::new(tenants, IdRecords::new(Arc::clone(&store)), wired.to_vec()));
    let [a, b] = wired;
    let lifetime = Duration::minutes(30);
    let handshakes = Handshakes::new(Arc::clone(&store), Arc::clone(&entropy) as _, lifetime);
    House { attempts: Attempts::new(store, entropy, lifetime), sign_in: RedirectSignIn::new(admission, handshakes), a, b, upstream }
}

impl House {
    /// Sends a browser to connector `a`, and gives attempt and state.
    async fn send(&self, browser: &str, wanted: Wanted) -> (String, String) {
        let id = self.attempts.begin((browser, HOME), None, wanted, NOW).await.unwrap();
        let state = self.send_again(browser, &id).await;
        (id, state)
    }

    async fn send_again(&self, browser: &str, id: &str) -> String {
        let wish = self.attempts.find(id, browser, NOW).await.unwrap().wish();
        let url = self.sign_in.begin(&self.a, (browser, HOME), id, &wish, NOW).await.unwrap();
        url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned()
    }

    async fn come_back(&self, way: &Wired, state: &str, browser: &str, code: &str) -> Result<Admitted, RedirectError> {
        let sent = self.sign_in.arrived(way, state, browser, NOW).await?;
        let attempt = self.attempts.find(&sent.attempt, browser, NOW).await?;
        let callback = match code {
            "declined" => Callback { error: Some("access_denied".to_owned()), ..Callback::default() },
            "" => Callback::default(),
            code => Callback { code: Some(code.to_owned()), ..Callback::default() },
        };
        self.sign_in.finish(way, (&sent, &attempt), &callback, NOW).await
    }
}

fn is_gone(result: Result<Admitted, RedirectError>) -> bool {
    matches!(result, Err(RedirectError::Attempt(AttemptError::Gone)))
}

#[tokio::test]
async fn t20_a_state_is_good_once_and_in_its_own_browser() {
    let house = house().await;
    let (_, state) = house.send("jane's", Wanted::default()).await;
    assert!(is_gone(house.come_back(&house.a, &state, "mallory's", "acme/mallory").await));
    assert!(is_gone(house.come_back(&house.a, &state, "", "acme/mallory").await));
    let admitted = house.come_back(&house.a, &state, "jane's", "acme/jane").await.unwrap();
    assert_eq!((admitted.identity.username(), admitted.identity.id().tenant_id().as_str()), ("jane", "acme"));
    let upstream = admitted.upstream.unwrap();
    assert_eq!((upstream.connector.as_str(), upstream.subject.as_str(), upstream.auth_time), ("a", "jane", Some(7)));
    assert!(is_gone(house.come_back(&house.a, &state, "jane's", "acme/jane").await), "a second use");
    assert_eq!(house.upstream.0.load(Ordering::SeqCst), 1, "and no one else's code reached the upstream");
}

#[tokio::test]
async fn t20_of_two_uses_at_once_one_goes_on() {
    let house = house().await;
    let (_, state) = house.send("jane's", Wanted::default()).await;
    let uses = (0..20).map(|_| house.come_back(&house.a, &state, "jane's", "acme/jane"));
    let ended = futures_util::future::join_all(uses).await;
    assert_eq!(ended.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(house.upstream.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn t17_another_connectors_answer_is_refused_and_burns_nothing() {
    let house = house().await;
    let (_, state) = house.send("jane's", Wanted::default()).await;
    assert!(is_gone(house.come_back(&house.b, &state, "jane's", "acme/jane").await));
    assert_eq!(house.upstream.0.load(Ordering::SeqCst), 0, "the code stayed here");
    house.come_back(&house.a, &state, "jane's", "acme/jane").await.unwrap();
}

#[tokio::test]
async fn t34_a_state_can_not_be_guessed_from_what_the_browser_or_the_store_has() {
    let house = house().await;
    let (id, state) = house.send("jane's", Wanted::default()).await;
    for guess in [id.as_str(), "", "jane's", &crate::secret_text::fingerprint(&state), &state.to_lowercase()] {
        assert!(is_gone(house.come_back(&house.a, guess, "jane's", "acme/jane").await), "{guess}");
    }
    house.come_back(&house.a, &state, "jane's", "acme/jane").await.unwrap();
}

#[tokio::test]
async fn tabs_do_not_disturb_one_another() {
    let house = house().await;
    let (_, first) = house.send("jane's", Wanted::default()).await;
    let (second_attempt, second) = house.send("jane's", Wanted::default()).await;
    let again = house.send_again("jane's", &second_attempt).await;
    for state in [&again, &first, &second] {
        house.come_back(&house.a, state, "jane's", "acme/jane").await.unwrap();
    }
}

#[tokio::test]
async fn a_handshake_ends_with_its_time() {
    let house = house().await;
    let (_, state) = house.send("jane's", Wanted::default()).await;
    let later = house.sign_in.arrived(&house.a, &state, "jane's", NOW + Duration::minutes(30)).await;
    assert!(matches!(later, Err(AttemptError::Gone)));
}

#[tokio::test]
async fn no_yes_and_could_not_tell_are_three() {
    let house = house().await;
    let (id, state) = house.send("jane's", Wanted::default()).await;
    assert!(matches!(house.come_back(&house.a, &state, "jane's", "declined").await, Err(RedirectError::Declined)));
    let state = house.send_again("jane's", &id).await;
    assert!(matches!(house.come_back(&house.a, &state, "jane's", "").await, Err(RedirectError::Upstream(ConnectorError::Unavailable(_)))));
    let state = house.send_again("jane's", &id).await;
    let refused = house.come_back(&house.a, &state, "jane's", "nowhere/jane").await;
    assert!(matches!(refused, Err(RedirectError::NotAdmitted { ref user, .. }) if user.subject.as_str() == "jane"), "{refused:?}");
}

#[tokio::test]
async fn t12_the_tenant_that_is_asked_for_is_the_one_that_is_entered_or_none() {
    let house = house().await;
    let wanted = |tenant: &str| Wanted { tenant: Some(tenant.to_owned()), ..Wanted::default() };
    let (_, state) = house.send("jane's", wanted("globex")).await;
    assert!(matches!(house.come_back(&house.a, &state, "jane's", "acme/jane").await, Err(RedirectError::OtherTenant { .. })));
    let (_, state) = house.send("jane's", wanted("acme")).await;
    house.come_back(&house.a, &state, "jane's", "acme/jane").await.unwrap();
}

#[tokio::test]
async fn an_address_begins_so_many() {
    let house = house().await;
    let (id, _) = house.send("jane's", Wanted::default()).await;
    let mut ended = Ok(());
    for _ in 0..700 {
        ended = house.sign_in.begin(&house.a, ("jane's", HOME), &id, &Wish::default(), NOW).await.map(drop);
    }
    assert!(matches!(ended, Err(RedirectError::Attempt(AttemptError::Slowed))));
    house.sign_in.begin(&house.a, ("jane's", IpAddr::from([10, 0, 0, 1])), &id, &Wish::default(), NOW).await.unwrap();
}

#[test]
fn an_upstream_is_told_an_address_whole_and_a_name_without_our_label() {
    let attempt = |typed: Option<&str>, hint: Option<&str>| -> Attempt {
        let wanted = json!({"tenant": null, "login_hint": hint, "anew": false, "select": false, "max_age": null});
        serde_json::from_value(json!({"request": null, "wanted": wanted, "typed": typed, "csrf": "", "browser": "", "until": 0})).unwrap()
    };
    for (typed, hint, told) in [
        (None, None, None),
        (None, Some("jane"), Some("jane")),
        (None, Some("jane@acme.example"), Some("jane@acme.example")),
        (Some("jane@acme"), Some("old"), Some("jane")),
        (Some("jane@nowhere"), None, Some("jane")),
        (Some("acme"), None, None),
        (Some("acme"), Some("jane"), Some("jane")),
        (Some("@acme"), None, None),
    ] {
        assert_eq!(attempt(typed, hint).wish().login_hint.as_deref(), told, "{typed:?} {hint:?}");
    }
}
