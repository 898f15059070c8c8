//! The door, and what reviews say before and after, with a Keystone whose tokens are what this file says they are.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request},
};
use claims_mapping::{Claims, Subject};
use connectors::{
    Audiences, ConnectorError, Revocation, TokenAuthentication, TokenBounds, TokenRevocation, UpstreamUser, Verdict, VerifiedToken,
};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tower::ServiceExt as _;

use super::*;
use crate::{
    review::Review,
    seams::{Clock, Seams, SystemEntropy},
    store::{
        Kind, Partition, Store as _,
        stand_in::{StandIn, stand_in},
    },
    tenancy::{Admission, IdRecords, Wired},
};

const BEGIN: i64 = 1_800_000_000;
const PROJECT: &str = "0123456789abcdef0123456789abcdef";

const BEGIN_TIME: OffsetDateTime = time::macros::datetime!(2027-01-15 08:00 UTC);

struct Still;

impl Clock for Still {
    fn now(&self) -> OffsetDateTime {
        assert_eq!(BEGIN_TIME.unix_timestamp(), BEGIN);
        BEGIN_TIME
    }
}

/// A Keystone: `gAAAAA-alice` is Alice's token while it is in force; whoever is called `admin` may take back all, others their own.
struct Keystone {
    in_force: Mutex<BTreeMap<String, Value>>,
    /// How often it was asked about a token, and to take one back.
    asked: [AtomicUsize; 2],
    is_down: AtomicBool,
    hangs: AtomicBool,
    go_on: Notify,
}

impl Keystone {
    fn new() -> Self {
        let person = |name: &str, domain: &str| {
            let claims = json!({
                "user_id": format!("{name}-id"), "user_name": name, "user_domain_id": domain, "user_domain_name": "a domain", "domain": domain,
                "project_id": PROJECT, "project_name": "web", "roles": ["member"], "groups": ["staff", "system:masters"],
            });
            (format!("gAAAAA-{name}-{domain}"), claims)
        };
        let people = [person("alice", "acme"), person("alice", "globex"), person("bob", "acme"), person("admin", "acme")];
        Self {
            in_force: Mutex::new(people.into()),
            asked: Default::default(),
            is_down: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            go_on: Notify::new(),
        }
    }

    fn asked(&self) -> [usize; 2] {
        [0, 1].map(|which| self.asked[which].load(Ordering::SeqCst))
    }

    fn end(&self, token: &str) {
        assert!(self.in_force.lock().unwrap().remove(token).is_some());
    }

    async fn answers(&self, which: usize) -> Result<(), ConnectorError> {
        self.asked[which].fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            self.go_on.notified().await;
        }
        if self.is_down.load(Ordering::SeqCst) { Err(ConnectorError::Unavailable("it is down".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl TokenAuthentication for Keystone {
    fn claims_to_be_ours(&self, token: UnverifiedToken<'_>) -> bool {
        token.text().starts_with("gAAAAA")
    }
    async fn authenticate(&self, token: UnverifiedToken<'_>, _: OffsetDateTime) -> Result<Verdict, ConnectorError> {
        self.answers(0).await?;
        let Some(claims) = self.in_force.lock().unwrap().get(token.text()).cloned() else {
            return Ok(Verdict::Refused("Keystone knows no such token".to_owned()));
        };
        let subject = Subject::parse(claims["user_id"].as_str().unwrap()).unwrap();
        let user = UpstreamUser { subject, claims: Claims::new(claims).unwrap() };
        Ok(Verdict::Genuine(VerifiedToken { user, audiences: Audiences::Unbound, expires_at: BEGIN + 3_600 }))
    }
    fn bounds(&self) -> TokenBounds {
        TokenBounds { believed_seconds: 120, refused_seconds: 10, in_flight: 8, asks_upstream: true }
    }
}

#[async_trait]
impl TokenRevocation for Keystone {
    async fn revoke(&self, caller: &Secret, token: UnverifiedToken<'_>) -> Result<Revocation, ConnectorError> {
        self.answers(1).await?;
        let mut in_force = self.in_force.lock().unwrap();
        Ok(match (in_force.contains_key(caller.expose()), in_force.contains_key(token.text())) {
            (false, _) => Revocation::CallerUnknown,
            (true, false) => Revocation::Unknown,
            (true, true) if caller.expose() == token.text() || caller.expose().contains("-admin-") => {
                in_force.remove(token.text());
                Revocation::Revoked
            }
            (true, true) => Revocation::Forbidden,
        })
    }
}

struct House {
    doors: Router,
    keystone: Arc<Keystone>,
    store: Arc<StandIn>,
}

impl House {
    async fn new() -> Self {
        Self::with("operator", true).await
    }

    async fn with(operated_by: &str, is_compatible: bool) -> Self {
        Self::over(stand_in(), Arc::new(Keystone::new()), operated_by, is_compatible).await
    }

    /// Another replica on the same store, in front of the same Keystone.
    async fn another(&self) -> Self {
        Self::over(Arc::clone(&self.store), Arc::clone(&self.keystone), "operator", true).await
    }

    async fn over(stands_on: Arc<StandIn>, keystone_of_all: Arc<Keystone>, operated_by: &str, is_compatible: bool) -> Self {
        crate::cli::install_providers();
        let keystone = |id: &str, accepts: bool| {
            json!({
                "id": id, "type": "keystone", "operatedBy": operated_by, "tenants": ["acme", "globex"], "url": format!("http://127.0.0.1:5000/{id}/v3"),
                "allowedNetworks": ["127.0.0.1"], "userDirectory": false, "acceptTokens": accepts,
                "serviceAccount": {"applicationCredentialId": "denizen", "applicationCredentialSecret": "of-denizen"},
                "claimMappings": {"extra": [{"key": "acme.example/project", "valueExpression": "claims.project_name"}]},
            })
        };
        let mut entry = json!({"connector": "cloud"});
        if is_compatible {
            entry["compatibility"] = "k8s-keystone-auth".into();
        }
        let reviewer = |id: &str, format: &str| json!({"id": id, "bearerToken": format!("of-{id}"), "audiences": ["kube"], "format": format, "upstreamTokens": [entry]});
        let text = json!({
            "issuer": "http://127.0.0.1:5556", "tenants": [{"id": "acme"}, {"id": "globex"}],
            "connectors": [keystone("cloud", true), keystone("plain", false)],
            "reviewers": [reviewer("kubernetes", "kubernetes"), reviewer("arktos", "arktos")],
        });
        let loaded =
            crate::config::load_text(&text.to_string(), &std::env::temp_dir(), "test.yaml").unwrap_or_else(|faults| panic!("{faults}"));
        let store: Arc<dyn crate::store::Store> = Arc::clone(&stands_on) as _;
        let seams = Seams::alone(Arc::new(Still), Arc::new(SystemEntropy), Arc::clone(&store));
        let seams = Seams { peers: Arc::clone(&stands_on) as _, ..seams };
        let mut app = crate::build(loaded, seams).await.unwrap();
        let keystone = keystone_of_all;
        let wired = app.admission.connectors().map(|way| {
            let takes = way.id.as_str() == "cloud";
            Arc::new(Wired {
                id: way.id.clone(),
                display_name: way.display_name.clone(),
                disabled: false,
                is_keystone: way.is_keystone,
                mapping: Arc::clone(&way.mapping),
                policy: way.policy.clone(),
                password: None,
                directory: None,
                redirect: None,
                groups: None,
                credential: None,
                renewal: None,
                revocation: takes.then(|| Arc::clone(&keystone) as _),
                token: takes.then(|| Arc::clone(&keystone) as _),
                logout: None,
                join: None,
                listed: true,
                within: way.within,
            })
        });
        app.admission = Arc::new(Admission::new(Arc::clone(&app.admission.tenants), IdRecords::new(store), wired.collect()));
        app.review = Review::new(
            Arc::clone(&app.judge),
            Arc::clone(&app.admission),
            app.issuer.clone(),
            Arc::clone(&app.seams.store),
            Arc::clone(&app.seams.peers),
        );
        let app = Arc::new(app);
        tokio::spawn(crate::hearing::hear(Arc::clone(&app), tokio_util::sync::CancellationToken::new()));
        Self { doors: crate::http::public(&app, None), keystone, store: stands_on }
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, HeaderMap, Value) {
        let mut request = request;
        request.extensions_mut().insert(axum::extract::ConnectInfo(std::net::SocketAddr::from(([127, 0, 0, 1], 5000))));
        let response = self.doors.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
        (status, headers, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Whom a reviewer is told of; null where the token is refused.
    async fn reviewed(&self, reviewer: &str, token: &str) -> Value {
        let version = if reviewer == "arktos" { "v1beta1" } else { "v1" };
        let body = json!({"apiVersion": format!("authentication.k8s.io/{version}"), "kind": "TokenReview", "spec": {"token": token}});
        let request = Request::post(format!("/apis/authentication.k8s.io/{version}/tokenreviews"));
        let request = request.header("content-type", "application/json").header("authorization", format!("Bearer of-{reviewer}"));
        let (status, _, body) = self.send(request.body(Body::from(body.to_string())).unwrap()).await;
        assert_eq!(status, 200, "{body}");
        body["status"]["user"].clone()
    }

    /// Takes a token back; the status, and the message of the error.
    async fn delete(&self, connector: &str, caller: Option<&str>, token: Option<&str>) -> (u16, String) {
        let mut request = Request::builder().method(Method::DELETE).uri(format!("/keystone/{connector}/v3/auth/tokens"));
        for (name, token) in [("X-Auth-Token", caller), ("X-Subject-Token", token)] {
            request = token.into_iter().fold(request, |request, token| request.header(name, token));
        }
        let (status, headers, body) = self.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers.get("www-authenticate").map(|value| value.to_str().unwrap()), (status == 401).then_some("Keystone"));
        for absent in ["retry-after", "access-control-allow-origin", "set-cookie"] {
            assert!(headers.get(absent).is_none(), "{absent}");
        }
        if status == 204 {
            assert_eq!(body, Value::Null);
            return (204, String::new());
        }
        let error = &body["error"];
        assert_eq!((&error["code"], &error["title"]), (&json!(status.as_u16()), &json!(status.canonical_reason())));
        (status.as_u16(), error["message"].as_str().unwrap().to_owned())
    }
}

const ALICE: &str = "gAAAAA-alice-acme";
const BOB: &str = "gAAAAA-bob-acme";
const ADMIN: &str = "gAAAAA-admin-acme";

#[tokio::test]
async fn t31_kubernetes_is_told_where_in_openstack_a_bearer_has_rights() {
    let house = House::new().await;
    let alice = house.reviewed("kubernetes", ALICE).await;
    assert_eq!(alice["username"], "acme:alice");
    assert_eq!(alice["groups"], json!(["acme:staff", format!("acme:{PROJECT}")]));
    let extra = json!({
        "acme.example/project": ["web"],
        "alpha.kubernetes.io/identity/project/id": [PROJECT], "alpha.kubernetes.io/identity/project/name": ["web"],
        "alpha.kubernetes.io/identity/roles": ["member"],
        "alpha.kubernetes.io/identity/user/domain/id": ["acme"], "alpha.kubernetes.io/identity/user/domain/name": ["a domain"],
        "denizen.dev/connector": ["cloud"], "denizen.dev/project-id": [PROJECT], "denizen.dev/project-name": ["web"],
        "denizen.dev/tenant-id": ["acme"], "denizen.dev/user-domain-id": ["acme"],
    });
    assert_eq!(alice["extra"], extra);
    let other = house.reviewed("kubernetes", "gAAAAA-alice-globex").await;
    assert_eq!(other["username"], "globex:alice");
    assert_ne!(other["uid"], alice["uid"]);
    let arktos = house.reviewed("arktos", ALICE).await;
    assert_eq!((&arktos["tenant"], &arktos["extra"], &arktos["groups"]), (&json!("acme"), &extra, &alice["groups"]));
}

#[tokio::test]
async fn without_compatibility_there_are_our_own_keys_alone() {
    let house = House::with("operator", false).await;
    let alice = house.reviewed("kubernetes", ALICE).await;
    assert_eq!(alice["groups"], json!(["acme:staff"]));
    let keys: Vec<_> = alice["extra"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "acme.example/project",
            "denizen.dev/connector",
            "denizen.dev/project-id",
            "denizen.dev/project-name",
            "denizen.dev/tenant-id",
            "denizen.dev/user-domain-id"
        ]
    );
}

#[tokio::test]
async fn t54_a_tenants_own_keystone_names_no_projects() {
    let house = House::with("tenant", false).await;
    let alice = house.reviewed("kubernetes", ALICE).await;
    assert_eq!(alice["username"], "acme:alice");
    let keys: Vec<_> = alice["extra"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["acme.example/project", "denizen.dev/connector", "denizen.dev/tenant-id"]);
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_refused_at_once() {
    let house = House::new().await;
    assert_eq!(house.reviewed("kubernetes", ALICE).await["username"], "acme:alice");
    assert_eq!(house.delete("cloud", Some(ALICE), Some(ALICE)).await.0, 204);
    assert_eq!(house.reviewed("kubernetes", ALICE).await, Value::Null);
    assert_eq!(house.keystone.asked(), [1, 1], "it need not be asked again");
    assert_eq!(house.reviewed("kubernetes", BOB).await["username"], "acme:bob");
    assert_eq!(house.delete("cloud", Some(ADMIN), Some(BOB)).await.0, 204);
    for reviewer in ["kubernetes", "arktos"] {
        assert_eq!(house.reviewed(reviewer, BOB).await, Value::Null);
    }
    assert_eq!(house.reviewed("kubernetes", "gAAAAA-alice-globex").await["username"], "globex:alice");
}

#[tokio::test]
async fn what_keystone_says_is_gone_is_forgotten_and_nothing_else() {
    let house = House::new().await;
    for token in [ALICE, BOB, ADMIN] {
        assert!(house.reviewed("kubernetes", token).await.is_object());
    }
    assert_eq!(house.delete("cloud", Some(BOB), Some(ALICE)).await.0, 403);
    assert_eq!(house.delete("cloud", Some("gAAAAA-forged"), Some(ALICE)).await.0, 401);
    assert_eq!(house.reviewed("kubernetes", ALICE).await["username"], "acme:alice", "neither had the right");

    // Taken back at Keystone itself: Bob shows it to be gone by asking for it, and Alice by showing it as her own.
    house.keystone.end(ALICE);
    assert_eq!(house.reviewed("kubernetes", ALICE).await["username"], "acme:alice", "it is remembered");
    assert_eq!(house.delete("cloud", Some(BOB), Some(ALICE)).await.0, 404);
    assert_eq!(house.reviewed("kubernetes", ALICE).await, Value::Null);
    house.keystone.end(ADMIN);
    assert_eq!(house.delete("cloud", Some(ADMIN), Some(BOB)).await.0, 401);
    assert_eq!(house.reviewed("kubernetes", ADMIN).await, Value::Null);
    assert_eq!(house.reviewed("kubernetes", BOB).await["username"], "acme:bob");
}

#[tokio::test]
async fn t52_what_can_be_no_token_of_keystones_does_not_reach_it() {
    let house = House::new().await;
    let jwt = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjU1NTYifQ.c2ln";
    let unknown = house.delete("nowhere", Some(ALICE), Some(ALICE)).await;
    assert_eq!(unknown.0, 404);
    for (connector, caller, token) in [
        ("plain", Some(ALICE), Some(ALICE)),
        ("cloud", Some(ALICE), Some(jwt)),
        ("cloud", Some(ALICE), Some("")),
        ("cloud", Some(ALICE), None),
    ] {
        assert_eq!(house.delete(connector, caller, token).await, unknown);
    }
    let long = format!("gAAAAA{}", "A".repeat(UnverifiedToken::MAX_BYTES));
    assert_eq!(house.delete("cloud", Some(ALICE), Some(&long)).await, unknown);
    for caller in [None, Some(""), Some(jwt), Some(&*long)] {
        assert_eq!(house.delete("cloud", caller, Some(ALICE)).await.0, 401);
    }
    assert_eq!(house.keystone.asked(), [0, 0]);
    assert_eq!(house.delete("cloud", Some(ALICE), Some("gAAAAA-forged")).await, unknown, "as one that there is not");
    let request = Request::delete("/keystone/cloud/v3/auth/tokens").header("X-Auth-Token", ALICE);
    let twice = request.header("X-Subject-Token", ALICE).header("X-Subject-Token", BOB).body(Body::empty()).unwrap();
    assert_eq!(house.send(twice).await.0, 404, "which of the two is anyone's guess");
    assert_eq!(house.keystone.asked(), [0, 1]);
}

#[tokio::test]
async fn t29_a_keystone_that_is_down_has_taken_nothing_back() {
    let house = House::new().await;
    assert!(house.reviewed("kubernetes", ALICE).await.is_object());
    house.keystone.is_down.store(true, Ordering::SeqCst);
    assert_eq!(house.delete("cloud", Some(ALICE), Some(ALICE)).await.0, 503);
    assert_eq!(house.reviewed("kubernetes", ALICE).await["username"], "acme:alice");
    house.keystone.is_down.store(false, Ordering::SeqCst);
    assert_eq!(house.delete("cloud", Some(ALICE), Some(ALICE)).await.0, 204);
}

#[tokio::test]
async fn t52_a_flood_at_the_door_leaves_reviews_their_turns() {
    let house = Arc::new(House::new().await);
    house.keystone.hangs.store(true, Ordering::SeqCst);
    let flood: Vec<_> = (0..50)
        .map(|n| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.delete("cloud", Some(&format!("gAAAAA-forged-{n}")), Some(ALICE)).await.0 })
        })
        .collect();
    while house.keystone.asked()[1] < 2 || flood.iter().filter(|one| one.is_finished()).count() < 48 {
        tokio::task::yield_now().await;
    }
    assert_eq!(house.keystone.asked(), [0, 2], "a quarter of the 8 that may be under way");
    house.keystone.hangs.store(false, Ordering::SeqCst);
    assert_eq!(house.reviewed("kubernetes", BOB).await["username"], "acme:bob", "a new token is asked about all the same");
    house.keystone.go_on.notify_waiters();
    let mut answers = BTreeMap::new();
    for one in flood {
        *answers.entry(one.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(answers, [(401, 2), (503, 48)].into());
}

/// It is done by a task of its own.
async fn soon_nobody(house: &House, token: &str) -> bool {
    for _ in 0..50 {
        if house.reviewed("kubernetes", token).await == Value::Null {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn what_one_replica_took_back_all_refuse() {
    let one = House::new().await;
    let other = one.another().await;
    for house in [&one, &other] {
        assert_eq!(house.reviewed("kubernetes", ALICE).await["username"], "acme:alice");
    }
    assert_eq!(one.keystone.asked(), [2, 0]);
    // Nothing is told: the record is what counts.
    one.store.is_quiet.store(true, Ordering::SeqCst);
    assert_eq!(one.delete("cloud", Some(ALICE), Some(ALICE)).await.0, 204);
    one.keystone.in_force.lock().unwrap().extend(Keystone::new().in_force.into_inner().unwrap());
    for house in [&one, &other, &one.another().await] {
        for reviewer in ["kubernetes", "arktos"] {
            assert_eq!(house.reviewed(reviewer, ALICE).await, Value::Null);
        }
    }
    assert_eq!(other.reviewed("kubernetes", BOB).await["username"], "acme:bob");
    let records = one.store.list(&Partition::System, Kind::TakenBack, None, 10, BEGIN_TIME).await.unwrap().entries;
    assert_eq!(records.len(), 1);
    assert!(records.iter().all(|(id, entry)| entry.value.is_empty() && !id.contains("gAAAAA") && !id.contains("alice")));
    let over = BEGIN_TIME + time::Duration::seconds(120 + 60);
    assert!(one.store.list(&Partition::System, Kind::TakenBack, None, 10, over).await.unwrap().entries.is_empty());
}

#[tokio::test]
async fn a_review_that_is_remembered_asks_the_store_nothing_and_another_once() {
    let house = House::new().await;
    assert!(house.reviewed("kubernetes", ALICE).await.is_object());
    let reads = || house.store.reads.load(Ordering::SeqCst);
    let before = reads();
    assert!(house.reviewed("kubernetes", ALICE).await.is_object());
    assert!(house.reviewed("arktos", ALICE).await.is_object());
    assert_eq!(reads(), before, "the upstream's word and the look are remembered");
    // Where it is not known that nothing has changed, once.
    assert_eq!(house.delete("cloud", Some(BOB), Some(BOB)).await.0, 204);
    assert!(house.reviewed("kubernetes", ALICE).await.is_object());
    assert!(reads() <= before + 1);
}

#[tokio::test]
async fn a_text_that_the_upstream_no_longer_knows_is_forgotten_by_all() {
    let one = House::new().await;
    let other = one.another().await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(other.reviewed("kubernetes", ALICE).await.is_object());
    one.keystone.end(ALICE);
    assert!(other.reviewed("kubernetes", ALICE).await.is_object(), "it is remembered");
    assert_eq!(one.delete("cloud", Some(BOB), Some(ALICE)).await.0, 404);
    assert!(soon_nobody(&other, ALICE).await);
    let records = one.store.list(&Partition::System, Kind::TakenBack, None, 10, BEGIN_TIME).await.unwrap().entries;
    assert!(records.is_empty(), "anyone can say a text: nothing of it is kept");
}

#[tokio::test]
async fn what_the_store_did_not_take_is_written_when_it_does() {
    let one = House::new().await;
    let other = one.another().await;
    assert!(other.reviewed("kubernetes", ALICE).await.is_object());
    one.store.is_quiet.store(true, Ordering::SeqCst);
    one.store.refuses.store(true, Ordering::SeqCst);
    assert_eq!(one.delete("cloud", Some(ALICE), Some(ALICE)).await.0, 503, "not all replicas know it");
    assert_eq!(one.reviewed("kubernetes", ALICE).await, Value::Null);
    one.store.refuses.store(false, Ordering::SeqCst);
    assert!(soon_nobody(&other, ALICE).await);
}
