//! The door, with an upstream that takes any token of the form `sub,sid,jti` for genuine.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::Request,
};
use claims_mapping::{Claims, Subject};
use connectors::{ConnectorError, LogoutNotice, LogoutNotices, Secret, UpstreamSession, UpstreamUser};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tower::ServiceExt as _;

use super::*;
use crate::{
    login::{AtUpstream, Entering, SignedIn, Wanted, enter},
    seams::{Clock, Seams, SystemEntropy},
    store::embedded::Embedded,
    tenancy::{Admission, IdRecords, Wired},
};

const BEGIN: i64 = 1_800_000_000;

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(BEGIN).unwrap()
}

struct Still;

impl Clock for Still {
    fn now(&self) -> OffsetDateTime {
        now()
    }
}

#[derive(Default)]
struct Upstream {
    down: AtomicBool,
}

#[async_trait]
impl LogoutNotices for Upstream {
    async fn verify(&self, token: UnverifiedToken<'_>, _: OffsetDateTime) -> Result<Option<LogoutNotice>, ConnectorError> {
        if self.down.load(Ordering::SeqCst) {
            return Err(ConnectorError::Unavailable("no keys".to_owned()));
        }
        let parts: Vec<_> = token.text().split(',').collect();
        let [sub, sid, jti] = parts.as_slice() else { return Ok(None) };
        let subject = (!sub.is_empty()).then(|| Subject::parse(sub).unwrap());
        let sid = (!sid.is_empty()).then(|| (*sid).to_owned());
        Ok(Some(LogoutNotice { subject, sid, jti: (*jti).to_owned(), expires_at: BEGIN + 120 }))
    }
}

struct House {
    app: Arc<App>,
    doors: Router,
    upstream: Arc<Upstream>,
}

impl House {
    async fn new() -> Self {
        crate::cli::install_providers();
        let user = |id: &str, tenant: &str| json!({"id": id, "tenant": tenant, "username": id, "password": HASH});
        let people = |id: &str| {
            let users = json!([user("jane", "acme"), user("joe", "acme"), user("gil", "globex")]);
            json!({"id": id, "type": "file", "operatedBy": "operator", "tenants": ["acme", "globex"], "users": users})
        };
        let text = json!({
            "issuer": "http://127.0.0.1:5556", "tenants": [{"id": "acme"}, {"id": "globex"}],
            "connectors": [people("sso"), people("other"), people("plain")],
        });
        let loaded = crate::config::load_text(&text.to_string(), &std::env::temp_dir(), "test.yaml").unwrap();
        let store: Arc<dyn crate::store::Store> = Arc::new(Embedded::in_memory().unwrap());
        let seams = Seams::alone(Arc::new(Still), Arc::new(SystemEntropy), Arc::clone(&store));
        let mut app = crate::build(loaded, seams).await.unwrap();
        let upstream = Arc::new(Upstream::default());
        let wired = app.admission.connectors().map(|way| {
            Arc::new(Wired {
                id: way.id.clone(),
                display_name: way.display_name.clone(),
                disabled: false,
                is_keystone: false,
                mapping: Arc::clone(&way.mapping),
                policy: way.policy.clone(),
                password: None,
                directory: None,
                redirect: None,
                groups: None,
                credential: None,
                renewal: None,
                revocation: None,
                token: None,
                logout: (way.id.as_str() != "plain").then(|| Arc::clone(&upstream) as _),
                join: None,
                listed: true,
                within: std::time::Duration::from_secs(5),
            })
        });
        app.admission = Arc::new(Admission::new(Arc::clone(&app.admission.tenants), IdRecords::new(store), wired.collect()));
        let app = Arc::new(app);
        Self { doors: crate::http::public(&app, None), app, upstream }
    }

    /// Signs someone in through a connector, in whose upstream they have this session.
    async fn enter(&self, connector: &str, who: &str, sid: Option<&str>, before: Option<&SignedIn>) -> SignedIn {
        let (app, way) = (&self.app, self.app.admission.connector(connector).unwrap());
        let tenant = if who == "gil" { "globex" } else { "acme" };
        let subject = Subject::parse(who).unwrap();
        let user = UpstreamUser { subject: subject.clone(), claims: Claims::new(json!({"username": who, "tenant": tenant})).unwrap() };
        let (identity, mapped) = app.admission.admit(way, &user, now()).await.unwrap();
        let attempt = app.attempts.begin(("browser", [127, 0, 0, 1].into()), None, Wanted::default(), now()).await.unwrap();
        let session = UpstreamSession { sid: sid.map(str::to_owned), refresh_token: Some(Secret::new("to-ask-again-with".to_owned())) };
        let upstream = Some(AtUpstream { connector: way.id.clone(), subject, auth_time: None, session });
        let entering = Entering { identity: &identity, mapped, upstream };
        enter((&app.attempts, &attempt), &app.sessions, entering, before, now()).await.unwrap()
    }

    async fn stands(&self, session: &SignedIn) -> bool {
        self.app.sessions.load(session, now()).await.is_ok()
    }

    async fn post(&self, connector: &str, body: &str) -> (u16, String, Value) {
        let request = Request::post(format!("/login/{connector}/backchannel-logout"));
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(Body::from(body.to_owned())).unwrap();
        let response = self.doors.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        assert!(response.headers().get("set-cookie").is_none() && response.headers().get("access-control-allow-origin").is_none());
        let cache = response.headers().get("cache-control").unwrap().to_str().unwrap().to_owned();
        let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
        (status, cache, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn told(&self, connector: &str, token: &str) -> u16 {
        let (status, cache, body) = self.post(connector, &format!("logout_token={token}")).await;
        assert_eq!(cache, "no-store");
        assert_eq!(body["error"].is_string(), status != 200, "{body}");
        status
    }
}

const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$4m5hzu/sQhUXoj/NfPrWuw$hfb2JxdCKEqFFKM+61R2d2V8pDhlVuRCNfanapLLq+w";

#[tokio::test]
async fn a_session_of_the_upstream_ends_ours_and_no_other() {
    let house = House::new().await;
    let first = house.enter("sso", "jane", Some("s1"), None).await;
    let second = house.enter("sso", "jane", Some("s2"), None).await;
    let joe = house.enter("sso", "joe", Some("s3"), None).await;
    let elsewhere = house.enter("other", "jane", Some("s1"), None).await;
    assert_eq!(house.told("sso", "joe,s1,a").await, 200, "the session is not that person's: there is nothing to end");
    assert!(house.stands(&first).await && house.stands(&joe).await);
    assert_eq!(house.told("sso", "jane,s1,b").await, 200);
    assert!(!house.stands(&first).await);
    assert_eq!(house.told("sso", ",s3,c").await, 200, "a session alone is enough");
    assert!(!house.stands(&joe).await);
    assert!(house.stands(&second).await && house.stands(&elsewhere).await);
}

#[tokio::test]
async fn a_subject_ends_all_its_sessions_in_every_browser() {
    let house = House::new().await;
    let janes = [house.enter("sso", "jane", Some("s1"), None).await, house.enter("sso", "jane", None, None).await];
    let (joe, gil) = (house.enter("sso", "joe", Some("s2"), None).await, house.enter("sso", "gil", None, None).await);
    assert_eq!(house.told("sso", "jane,,a").await, 200);
    for jane in &janes {
        assert!(!house.stands(jane).await);
    }
    assert!(house.stands(&joe).await && house.stands(&gil).await);
    assert_eq!(house.told("sso", "gil,s9,b").await, 200, "what the upstream calls the session is not known: it may be this one");
    assert!(!house.stands(&gil).await);
    assert_eq!(house.told("sso", "jane,,c").await, 200, "there is nothing left to end");
}

#[tokio::test]
async fn an_upstream_session_that_was_followed_by_another_ends_nothing() {
    let house = House::new().await;
    let session = house.enter("sso", "jane", Some("s1"), None).await;
    let again = house.enter("sso", "jane", Some("s2"), Some(&session)).await;
    assert_eq!(again, session, "the same person on the same browser");
    assert_eq!(house.told("sso", "jane,s1,a").await, 200);
    assert!(house.stands(&session).await);
    assert_eq!(house.told("sso", "jane,s2,b").await, 200);
    assert!(!house.stands(&session).await);
}

#[tokio::test]
async fn t21_what_is_not_genuine_or_was_used_or_is_not_for_us_is_refused() {
    let house = House::new().await;
    let session = house.enter("sso", "jane", Some("s1"), None).await;
    assert_eq!(house.told("sso", "not-genuine").await, 400);
    assert_eq!(house.told("sso", ",,neither").await, 400);
    for connector in ["plain", "nowhere"] {
        assert_eq!(house.told(connector, "jane,s1,a").await, 400, "{connector}");
    }
    assert_eq!(house.post("sso", "token=jane,s1,a").await.0, 400);
    assert_eq!(house.post("sso", "logout_token=jane,s1,a&logout_token=x").await.0, 400);
    assert_eq!(house.told("sso", &format!("jane,s1,{}", "a".repeat(UnverifiedToken::MAX_BYTES))).await, 400);
    assert!(house.stands(&session).await);

    assert_eq!(house.told("sso", "jane,s1,once").await, 200);
    let next = house.enter("sso", "jane", Some("s1"), None).await;
    assert_eq!(house.told("sso", "jane,s1,once").await, 400, "a second use");
    assert!(house.stands(&next).await);
    assert_eq!(house.told("other", "jane,s1,once").await, 200, "another upstream's ids are its own");
}

#[tokio::test]
async fn an_upstream_whose_keys_can_not_be_had_is_told_to_come_again() {
    let house = House::new().await;
    let session = house.enter("sso", "jane", Some("s1"), None).await;
    house.upstream.down.store(true, Ordering::SeqCst);
    assert_eq!(house.told("sso", "jane,s1,a").await, 503);
    assert!(house.stands(&session).await);
    house.upstream.down.store(false, Ordering::SeqCst);
    assert_eq!(house.told("sso", "jane,s1,a").await, 200, "the same token: nothing was used up");
    assert!(!house.stands(&session).await);
}
