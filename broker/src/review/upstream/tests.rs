//! What is asked of an upstream, what is remembered, and what is judged anew.

mod flights;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::{Claims, ConnectorPolicy, IdScheme, Mapping, OperatedBy, Subject, TenantId, TenantLabel, TenantRule, UpstreamUser};
use connectors::{ConnectorError, TokenAuthentication, TokenBounds, Verdict, VerifiedToken};
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::{
    config::ReviewFormat,
    store::{Alone, embedded::Embedded},
    tenancy::{IdRecords, Tenants},
};

const NOW: i64 = 1_800_000_000;
const ISSUER: &str = "https://id.example";
const SSO: &str = "https://sso.example";

/// An upstream whose tokens' payload is the truth, where the signature is `good`.
#[derive(Default)]
struct Fake {
    bounds: TokenBounds,
    asked: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    is_down: AtomicBool,
    hangs: AtomicBool,
    go_on: Notify,
}

#[async_trait]
impl TokenAuthentication for Fake {
    fn claims_to_be_ours(&self, token: UnverifiedToken<'_>) -> bool {
        token.unverified_issuer().as_deref() == Some(SSO)
    }
    async fn authenticate(&self, token: UnverifiedToken<'_>, now: OffsetDateTime) -> Result<Verdict, ConnectorError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.most_at_once.fetch_max(self.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            self.go_on.notified().await;
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        if self.is_down.load(Ordering::SeqCst) {
            return Err(ConnectorError::Unavailable("it is down".to_owned()));
        }
        assert!(!token.text().ends_with("panics"), "a port that is broken");
        let (payload, signature) = token.text().trim_end_matches('=').split_once('.').unwrap().1.split_once('.').unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&B64.decode(payload).unwrap()).unwrap();
        let expires_at = claims["exp"].as_i64().unwrap();
        if !["good", "fine"].contains(&signature) || expires_at <= now.unix_timestamp() {
            return Ok(Verdict::Refused("its signature is not valid".to_owned()));
        }
        let user = UpstreamUser { subject: Subject::parse("s1").unwrap(), claims: Claims::new(claims.clone()).unwrap() };
        Ok(Verdict::Genuine(VerifiedToken {
            user,
            audiences: Audiences::Named(vec![claims["aud"].as_str().unwrap().to_owned()]),
            expires_at,
        }))
    }
    fn bounds(&self) -> TokenBounds {
        self.bounds
    }
}

struct House {
    upstreams: Upstreams,
    fake: Arc<Fake>,
    reviewer: Reviewer,
}

fn tenant(disabled: bool) -> Tenant {
    Tenant {
        id: TenantId::parse("acme").unwrap(),
        label: TenantLabel::parse("acme").unwrap(),
        display_name: "Acme".to_owned(),
        external_ids: BTreeMap::new(),
        connectors: None,
        disabled,
    }
}

fn wired(fake: Arc<Fake>, is_off: bool) -> Wired {
    let id = ConnectorId::parse("sso").unwrap();
    Wired {
        id: id.clone(),
        display_name: "SSO".to_owned(),
        disabled: is_off,
        is_keystone: false,
        mapping: Arc::new(Mapping::compile(&connectors::oidc::default_mapping()).unwrap()),
        policy: ConnectorPolicy {
            connector: id.clone(),
            issuer: url::Url::parse(ISSUER).unwrap(),
            operated_by: OperatedBy::Tenant,
            tenant_rule: TenantRule::Fixed(TenantId::parse("acme").unwrap()),
            ids: IdScheme::Derived,
            roles: BTreeSet::new(),
        },
        password: None,
        directory: None,
        redirect: None,
        groups: None,
        credential: None,
        renewal: None,
        revocation: None,
        token: Some(fake as _),
        logout: None,
        join: None,
        listed: true,
        within: std::time::Duration::from_secs(5),
    }
}

async fn house(tenant: Tenant, is_off: bool) -> House {
    house_of(tenant, is_off, TokenBounds::default()).await
}

async fn house_of(tenant: Tenant, is_off: bool, bounds: TokenBounds) -> House {
    let (store, id) = (Arc::new(Embedded::in_memory().unwrap()), ConnectorId::parse("sso").unwrap());
    let now = OffsetDateTime::from_unix_timestamp(NOW).unwrap();
    let tenants = Tenants::open(vec![tenant], None, Arc::clone(&store) as _, now).await.unwrap();
    let fake = Arc::new(Fake { bounds, ..Fake::default() });
    let wired = wired(Arc::clone(&fake), is_off);
    let admission = Admission::new(Arc::new(tenants), IdRecords::new(Arc::clone(&store) as _), vec![Arc::new(wired)]);
    let reviewer = Reviewer::new(&crate::config::ReviewerConfig {
        id: "kubernetes".to_owned(),
        bearer_token: None,
        bearer_token_file: None,
        certificate_name: None,
        client: None,
        audiences: ["kube".to_owned()].into(),
        tenants: None,
        connectors: None,
        format: ReviewFormat::Kubernetes,
        upstream_tokens: vec![UpstreamTokens { connector: id, audiences: ["kube-upstream".to_owned()].into(), compatibility: None }],
    })
    .unwrap();
    House { upstreams: Upstreams::new(Arc::new(admission), ISSUER.to_owned(), store, Arc::new(Alone)), fake, reviewer }
}

fn token(issuer: &str, name: &str, signature: &str) -> String {
    let claims = json!({"iss": issuer, "preferred_username": name, "aud": "kube-upstream", "exp": NOW + 3_600});
    format!("e30.{}.{signature}", B64.encode(claims.to_string()))
}

impl House {
    async fn review(&self, token: &str, after: i64) -> Result<Bearer, Refused> {
        let (token, now) = (UnverifiedToken::new(token), OffsetDateTime::from_unix_timestamp(NOW + after).unwrap());
        let way = self.upstreams.way(&self.reviewer, token).expect("it is the upstream's");
        let genuine = self.upstreams.genuine(&way, token, now).await?;
        assert!(genuine.is_for(way.entry));
        self.upstreams.bearer(&way, &genuine, now).await
    }

    fn asked(&self) -> usize {
        self.fake.asked.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_token_is_asked_about_once_within_its_life_and_five_minutes() {
    let house = house(tenant(false), false).await;
    let jane = token(SSO, "jane", "good");
    for after in [0, 1, 299] {
        assert_eq!(house.review(&jane, after).await.ok().unwrap().identity.username(), "jane");
        assert_eq!(house.asked(), 1);
    }
    assert!(house.review(&jane, 300).await.is_ok());
    assert_eq!(house.asked(), 2);
    // At its end it is refused, though it was believed a moment ago.
    assert!(house.review(&jane, 3_599).await.is_ok());
    assert!(matches!(house.review(&jane, 3_600).await, Err(Refused::Upstream(..))));
}

#[tokio::test]
async fn t52_a_refusal_is_remembered_for_ten_seconds_and_pushes_no_genuine_token_out() {
    let house = house(tenant(false), false).await;
    let (jane, bad) = (token(SSO, "jane", "good"), token(SSO, "jane", "bad"));
    assert!(house.review(&jane, 0).await.is_ok());
    for after in [0, 5, 9] {
        assert!(matches!(house.review(&bad, after).await, Err(Refused::Upstream(..))));
        assert_eq!(house.asked(), 2);
    }
    assert!(house.review(&bad, 10).await.is_err());
    assert_eq!(house.asked(), 3);
    for n in 0..30_000 {
        assert!(house.review(&token(SSO, "jane", &format!("bad{n}")), 10).await.is_err());
    }
    assert!(house.upstreams.memory.refusals() <= known::REFUSALS);
    let asked = house.asked();
    assert!(house.review(&jane, 11).await.is_ok());
    assert_eq!(house.asked(), asked, "the genuine one is still known");
}

#[tokio::test]
async fn who_could_not_tell_is_not_remembered_and_is_no_refusal() {
    let house = house(tenant(false), false).await;
    let jane = token(SSO, "jane", "good");
    house.fake.is_down.store(true, Ordering::SeqCst);
    for asked in 1..3 {
        assert!(matches!(house.review(&jane, 0).await, Err(Refused::CouldNotTell(Untold::Upstream(..)))));
        assert_eq!(house.asked(), asked);
    }
    house.fake.is_down.store(false, Ordering::SeqCst);
    assert!(house.review(&jane, 0).await.is_ok());
    house.fake.is_down.store(true, Ordering::SeqCst);
    assert!(house.review(&jane, 299).await.is_ok(), "what is known needs no one");
}

#[tokio::test]
async fn so_many_are_asked_about_at_once_and_no_more() {
    let house = Arc::new(house(tenant(false), false).await);
    let at_once = TokenBounds::default().in_flight;
    house.fake.hangs.store(true, Ordering::SeqCst);
    let under_way: Vec<_> = (0..at_once)
        .map(|n| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.review(&token(SSO, &format!("user{n}"), "good"), 0).await.is_ok() })
        })
        .collect();
    while house.asked() < at_once {
        tokio::task::yield_now().await;
    }
    assert!(matches!(house.review(&token(SSO, "jane", "good"), 0).await, Err(Refused::CouldNotTell(Untold::Upstream(..)))));
    assert_eq!(house.asked(), at_once + 1);
    // A crowd that waits for the upstream, as of tokens with unknown keys, shuts no one out who need not wait.
    house.fake.hangs.store(false, Ordering::SeqCst);
    assert!(house.review(&token(SSO, "joe", "good"), 0).await.is_ok());
    assert!(matches!(house.review(&token(SSO, "joe", "bad"), 0).await, Err(Refused::Upstream(..))));
    house.fake.go_on.notify_waiters();
    for task in under_way {
        assert!(task.await.unwrap());
    }
    assert!(house.review(&token(SSO, "jane", "good"), 0).await.is_ok());
}

#[tokio::test]
async fn no_upstream_hears_of_what_is_not_its_own() {
    let mut house = house(tenant(false), false).await;
    for other in [token(ISSUER, "jane", "good"), token("https://other.example", "jane", "good"), "gAAAAAB".to_owned(), "a.b".to_owned()] {
        assert!(house.upstreams.way(&house.reviewer, UnverifiedToken::new(&other)).is_none(), "{other}");
    }
    let long = format!("{}{}", token(SSO, "jane", "good"), "x".repeat(UnverifiedToken::MAX_BYTES));
    assert!(house.upstreams.way(&house.reviewer, UnverifiedToken::new(&long)).is_none());
    let jane = token(SSO, "jane", "good");
    assert!(house.review(&jane, 0).await.is_ok());
    house.reviewer.upstream_tokens.clear();
    assert!(house.upstreams.way(&house.reviewer, UnverifiedToken::new(&jane)).is_none(), "another reviewer does not profit");
}

#[tokio::test]
async fn tenant_and_connector_are_judged_at_every_use() {
    let off = house(tenant(true), false).await;
    for _ in 0..2 {
        assert!(matches!(off.review(&token(SSO, "jane", "good"), 0).await, Err(Refused::NotAdmitted(_))));
    }
    assert_eq!(off.asked(), 1, "the token is genuine all the same, and known");
    let off = house(tenant(false), true).await;
    assert!(off.upstreams.way(&off.reviewer, UnverifiedToken::new(&token(SSO, "jane", "good"))).is_none());
    let closed = Tenant { connectors: Some([ConnectorId::parse("other").unwrap()].into()), ..tenant(false) };
    assert!(house(closed, false).await.review(&token(SSO, "jane", "good"), 0).await.is_err());
}
