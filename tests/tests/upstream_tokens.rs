//! Upstreams' own tokens in reviews: whose are taken, by whom, what it costs the upstream, and what a forger can do. Time is
//! injected; the provider is real enough to be stopped, to hang, and to lie.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use axum::{
    Router,
    body::{Body, to_bytes},
};
use denizen::{
    config,
    seams::{Clock, Seams, SystemEntropy},
    store::embedded::Embedded,
};
use denizen_tests::{
    Configuration, Issuer,
    broker::{command, install_providers},
    configuration::{ARKTOS_TOKEN, KUBERNETES, OPENCLOUD, OPENCLOUD_TOKEN, REVIEWER_TOKEN},
    issuer::Manner,
    jwt,
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tower::ServiceExt as _;

const BEGIN: i64 = 1_800_000_000;
const REFUSED: (u16, Value) = (200, Value::Null);

struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

struct House {
    doors: Router,
    clock: Arc<Hand>,
}

/// A connector for a provider's tokens.
fn connector(id: &str, tenant: &str, issuer: &str) -> Value {
    json!({
        "id": id, "type": "oidc", "tenant": {"fixed": tenant}, "acceptTokens": true, "allowedNetworks": ["127.0.0.1"], "deadlineSeconds": 1,
        "issuer": {"url": issuer, "audiences": ["kube", "cloud"], "audienceMatchPolicy": "MatchAny"},
    })
}

/// The reviewer `kubernetes` takes both tenants' providers, `opencloud` the first for another audience, `arktos` none.
fn configuration(acme: &str, globex: &str) -> Configuration {
    let mut configuration = Configuration::default();
    configuration.set("/connectors/-", connector("acme-sso", "acme", acme));
    configuration.set("/connectors/-", connector("globex-sso", "globex", globex));
    let takes = |id: &str, audience: &str| json!({"connector": id, "audiences": [audience]});
    configuration.set("/reviewers/0/upstreamTokens", json!([takes("acme-sso", "kube"), takes("globex-sso", "kube")]));
    configuration.set("/reviewers/1/upstreamTokens", json!([takes("acme-sso", "cloud")]));
    configuration
}

impl House {
    async fn new(configuration: Configuration) -> Self {
        install_providers();
        let folder = std::env::temp_dir();
        let text = configuration.with("/store", json!({})).text("http://127.0.0.1:5556", 5556, 5558, &folder);
        let loaded = config::load_text(&text, &folder, "test.yaml").unwrap_or_else(|faults| panic!("{faults}"));
        let clock = Arc::new(Hand(AtomicI64::new(BEGIN)));
        let seams = Seams::alone(Arc::clone(&clock) as _, Arc::new(SystemEntropy), Arc::new(Embedded::in_memory().unwrap()));
        let app = Arc::new(denizen::build(loaded, seams).await.unwrap());
        Self { doors: denizen::http::public(&app, None), clock }
    }

    fn pass(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// The status, and the user where there is one.
    async fn review(&self, token: &str) -> (u16, Value) {
        self.review_by(REVIEWER_TOKEN, token, &[KUBERNETES]).await
    }

    async fn review_by(&self, reviewer: &str, token: &str, audiences: &[&str]) -> (u16, Value) {
        let body =
            json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, "audiences": audiences}});
        let mut request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {reviewer}"))
            .body(Body::from(body.to_string()))
            .unwrap();
        request.extensions_mut().insert(axum::extract::ConnectInfo(std::net::SocketAddr::from(([127, 0, 0, 1], 9))));
        let response = self.doors.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let answer: Value = serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap();
        if status == 200 {
            assert_eq!(answer["status"]["authenticated"], json!(answer["status"].get("user").is_some()), "{answer}");
            assert!(answer["status"].get("error").is_none(), "{answer}");
        }
        (status, answer["status"].get("user").cloned().unwrap_or_default())
    }
}

/// Two tenants with a provider each.
async fn houses() -> (House, Issuer, Issuer) {
    let (acme, globex) = (Issuer::start().await, Issuer::start().await);
    (House::new(configuration(acme.url(), globex.url())).await, acme, globex)
}

#[tokio::test]
async fn two_tenants_with_two_providers_are_never_confused() {
    let (house, acme, globex) = houses().await;
    let (status, user) = house.review(&acme.mint(&acme.claims("jane", "kube", BEGIN))).await;
    assert_eq!((status, &user["username"], &user["groups"]), (200, &json!("acme:jane"), &json!(["acme:developers"])));
    assert_eq!(user["extra"]["authentication.kubernetes.io/credential-id"], json!(["JTI=jti-of-jane"]));
    assert_eq!(
        (&user["extra"]["denizen.dev/connector"], &user["extra"]["denizen.dev/tenant-id"]),
        (&json!(["acme-sso"]), &json!(["acme"]))
    );
    let (_, other) = house.review(&globex.mint(&globex.claims("jane", "kube", BEGIN))).await;
    assert_eq!(other["username"], "globex:jane");
    assert_ne!(user["uid"], other["uid"]);
    // Who takes none takes none, whoever has asked before; and nothing leads upstream.
    let asked = acme.requests();
    assert_eq!(house.review_by(ARKTOS_TOKEN, &acme.mint(&acme.claims("jane", "kube", BEGIN)), &[]).await, REFUSED);
    assert_eq!(house.review_by(OPENCLOUD_TOKEN, &globex.mint(&globex.claims("jane", "cloud", BEGIN)), &[]).await, REFUSED);
    for opaque in ["gAAAAABopaque", "a.b.c", "x", "e30.e30.e30"] {
        assert_eq!(house.review(opaque).await, REFUSED);
    }
    assert_eq!(acme.requests(), asked);
}

#[tokio::test]
async fn a_disabled_connector_is_not_asked() {
    let acme = Issuer::start().await;
    let mut configuration = configuration(acme.url(), "https://globex.example");
    configuration.set("/connectors/2/disabled", true);
    let house = House::new(configuration).await;
    assert_eq!(house.review(&acme.mint(&acme.claims("jane", "kube", BEGIN))).await, REFUSED);
    assert_eq!(acme.requests(), 0);
}

#[tokio::test]
async fn a_token_that_is_reviewed_again_costs_no_upstream_call() {
    let (house, acme, _globex) = houses().await;
    let token = acme.mint(&acme.claims("jane", "kube", BEGIN));
    assert_eq!(acme.requests(), 0, "discovery is lazy");
    assert_eq!(house.review(&token).await.1["username"], "acme:jane");
    let asked = acme.requests();
    for _ in 0..100 {
        assert_eq!(house.review(&token).await.1["username"], "acme:jane");
        house.pass(2);
    }
    assert_eq!(acme.requests(), asked);
}

#[tokio::test]
async fn a_provider_that_is_stopped_takes_no_one_away_who_is_there() {
    let (house, mut acme, globex) = houses().await;
    let (jane, alice) = (acme.mint(&acme.claims("jane", "kube", BEGIN)), acme.mint(&acme.claims("alice", "kube", BEGIN)));
    assert_eq!(house.review(&jane).await.1["username"], "acme:jane");
    acme.stop();
    for _ in 0..10 {
        house.pass(60);
        assert_eq!(house.review(&jane).await.1["username"], "acme:jane");
    }
    assert_eq!(house.review(&alice).await.1["username"], "acme:alice", "the keys are known, though not the token");
    assert_eq!(house.review(&globex.mint(&globex.claims("hank", "kube", BEGIN))).await.1["username"], "globex:hank");
    // What only new keys could tell could not be told; it is no refusal.
    acme.rotate();
    let new = acme.mint(&acme.claims("bob", "kube", BEGIN));
    assert_eq!(house.review(&new).await.0, 503);
    acme.start_again().await;
    house.pass(11);
    assert_eq!(house.review(&new).await.1["username"], "acme:bob");
    house.pass(3_000);
    assert_eq!(house.review(&jane).await, REFUSED, "it has expired");
}

#[tokio::test]
async fn who_hangs_fails_or_leads_elsewhere_could_not_tell() {
    let (house, acme, globex) = houses().await;
    let token = acme.mint(&acme.claims("jane", "kube", BEGIN));
    for manner in [
        Manner::Failing,
        Manner::Redirecting(format!("{}/.well-known/openid-configuration", globex.url())),
        Manner::Naming(globex.url().to_owned()),
        Manner::Hanging,
    ] {
        acme.behave(manner.clone());
        let begun = std::time::Instant::now();
        assert_eq!(house.review(&token).await.0, 503, "{manner:?}");
        assert!(begun.elapsed().as_secs() < 5, "the deadline is one second");
        house.pass(11);
    }
    assert_eq!(globex.requests(), 0, "a redirect is not followed");
    acme.behave(Manner::Serving);
    // The request that hangs is given up after four seconds of the machine's own; until then no other is sent.
    let begun = std::time::Instant::now();
    loop {
        house.pass(11);
        match house.review(&token).await {
            (503, _) => assert!(begun.elapsed().as_secs() < 10, "it is forgotten"),
            (_, user) => break assert_eq!(user["username"], "acme:jane"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn t05_t51_forged_edited_expired_and_other_kinds_of_tokens_are_refused() {
    let (house, acme, _globex) = houses().await;
    let claims = acme.claims("jane", "kube", BEGIN);
    let good = acme.mint(&claims);
    assert_eq!(house.review(&good).await.1["username"], "acme:jane");
    let edited = jwt::with_claims(&good, |claims| claims["preferred_username"] = json!("alice"));
    let cut = good.rsplit_once('.').unwrap().0;
    let with = |claim: &str, value: Value| {
        let mut claims = claims.clone();
        claims[claim] = value;
        acme.mint(&claims)
    };
    let logout = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
    for bad in [
        edited,
        cut.to_owned(),
        format!("{cut}."),
        format!("{cut}.{}", "A".repeat(342)),
        with("exp", json!(BEGIN - 1)),
        with("exp", Value::Null),
        with("nbf", json!(BEGIN + 3_600)),
        with("sub", Value::Null),
        with("iss", json!("http://127.0.0.1:5556")),
        with("iss", json!(format!("{}/", acme.url()))),
        with("events", logout),
        acme.sign(&json!({"typ": "logout+jwt", "alg": "RS256", "kid": "key-0"}), &claims),
    ] {
        assert_eq!(house.review(&bad).await, REFUSED, "{}", jwt::claims(&format!("{bad}.x.x")));
    }
}

#[tokio::test]
async fn t08_one_issuers_key_signs_nothing_of_anothers() {
    let (house, acme, globex) = houses().await;
    let claims = globex.claims("hank", "kube", BEGIN);
    assert_eq!(house.review(&globex.mint(&claims)).await.1["username"], "globex:hank");
    assert_eq!(house.review(&acme.mint(&claims)).await, REFUSED);
    assert_eq!(house.review(&globex.mint(&acme.claims("jane", "kube", BEGIN))).await, REFUSED);
}

#[tokio::test]
async fn t18_the_algorithm_belongs_to_the_key_and_no_key_comes_with_the_token() {
    let (house, acme, _globex) = houses().await;
    let forger = Issuer::start().await;
    let claims = acme.claims("jane", "kube", BEGIN);
    let unsigned = |alg: &str| {
        let token = acme.sign(&json!({"typ": "JWT", "alg": alg, "kid": "key-0"}), &claims);
        format!("{}.", token.rsplit_once('.').unwrap().0)
    };
    let mut bad = vec![unsigned("none"), unsigned("None"), unsigned("RS256")];
    bad.push(jwt::hmac(&json!({"typ": "JWT", "alg": "HS256", "kid": "key-0"}), &claims, &acme.public_key()));
    bad.push(jwt::es256(&json!({"typ": "JWT", "alg": "ES256", "kid": "key-0"}), &claims));
    for alg in ["RS384", "PS256", "HS256", "EdDSA", ""] {
        bad.push(acme.sign(&json!({"typ": "JWT", "alg": alg, "kid": "key-0"}), &claims));
    }
    for (member, value) in [
        ("jwk", forger.jwk()),
        ("jku", json!(format!("{}/keys", forger.url()))),
        ("x5u", json!(format!("{}/keys", forger.url()))),
        ("kid", json!("../../../../dev/null")),
        ("kid", json!(format!("{}/keys", forger.url()))),
    ] {
        let mut header = json!({"typ": "JWT", "alg": "RS256", "kid": "key-0"});
        header[member] = value;
        bad.push(forger.sign(&header, &claims));
    }
    bad.push(acme.sign(&json!({"typ": "JWT", "alg": "RS256", "kid": "key-0", "crit": ["exp"]}), &claims));
    for token in bad {
        assert_eq!(house.review(&token).await, REFUSED, "{}", jwt::header(&token));
    }
    assert_eq!(forger.requests(), 0);
}

#[tokio::test]
async fn t19_ten_thousand_unknown_keys_cost_one_fetch_in_ten_seconds() {
    let (house, acme, _globex) = houses().await;
    let jane = acme.mint(&acme.claims("jane", "kube", BEGIN));
    assert_eq!(house.review(&jane).await.1["username"], "acme:jane");
    let first = acme.key_fetches();
    let real = jwt::claims(&jane);
    let unknown = |n: usize| jwt::unsigned(&json!({"typ": "JWT", "alg": "RS256", "kid": format!("unknown-{n}")}), &real);
    for n in 0..10_000 {
        assert_eq!(house.review(&unknown(n)).await, REFUSED);
    }
    assert!(acme.key_fetches() <= first + 1, "{} fetches", acme.key_fetches() - first);
    for n in 10_000..10_100 {
        house.pass(1);
        assert_eq!(house.review(&unknown(n)).await, REFUSED);
    }
    assert!(acme.key_fetches() <= first + 11, "{} fetches", acme.key_fetches() - first);
    assert_eq!(house.review(&jane).await.1["username"], "acme:jane");
}

#[tokio::test]
async fn t52_a_flood_of_invalid_tokens_is_nothing_to_the_upstream() {
    let (house, acme, _globex) = houses().await;
    let jane = acme.mint(&acme.claims("jane", "kube", BEGIN));
    assert_eq!(house.review(&jane).await.1["username"], "acme:jane");
    let asked = acme.requests();
    let claims = jwt::claims(&jane);
    for n in 0..2_000 {
        let bad = jwt::unsigned(&json!({"typ": "JWT", "alg": "RS256", "kid": "key-0", "n": n}), &claims);
        assert_eq!(house.review(&bad).await, REFUSED);
        assert_eq!(house.review(&format!("service.account.token-{n}")).await, REFUSED);
    }
    assert_eq!(acme.requests(), asked);
}

#[tokio::test]
async fn t47_t57_a_token_stands_for_what_it_was_meant_for() {
    let (house, acme, _globex) = houses().await;
    let (kube, cloud) = (acme.mint(&acme.claims("jane", "kube", BEGIN)), acme.mint(&acme.claims("jane", "cloud", BEGIN)));
    let none: [&str; 0] = [];
    for (reviewer, token, audiences, is_good) in [
        (REVIEWER_TOKEN, &kube, &[KUBERNETES][..], true),
        (REVIEWER_TOKEN, &kube, &none[..], true),
        (REVIEWER_TOKEN, &kube, &[OPENCLOUD][..], false),
        (REVIEWER_TOKEN, &kube, &["kube"][..], false),
        (REVIEWER_TOKEN, &kube, &["*"][..], false),
        (REVIEWER_TOKEN, &cloud, &none[..], false),
        (REVIEWER_TOKEN, &cloud, &[KUBERNETES][..], false),
        (OPENCLOUD_TOKEN, &kube, &none[..], false),
        (OPENCLOUD_TOKEN, &cloud, &none[..], true),
    ] {
        let (status, user) = house.review_by(reviewer, token, audiences).await;
        assert_eq!((status, !user.is_null()), (200, is_good), "{reviewer} {audiences:?}");
    }
    let other = acme.mint(&acme.claims("jane", "another", BEGIN));
    assert_eq!(house.review(&other).await, REFUSED);
}

#[tokio::test]
async fn t49_t53_no_name_of_an_upstream_becomes_kubernetes_own() {
    let acme = Issuer::start().await;
    let mut configuration = configuration(acme.url(), "https://globex.example");
    let extra =
        json!([{"key": "denizen.dev/tenant-id", "valueExpression": "'globex'"}, {"key": "acme.example/team", "valueExpression": "'blue'"}]);
    configuration.set("/connectors/2/claimMappings", json!({ "extra": extra }));
    configuration.set("/connectors/2/roles", json!(["editor"]));
    let house = House::new(configuration).await;
    let mut claims = acme.claims("jane", "kube", BEGIN);
    claims["groups"] = json!(["system:masters", "masters", "kubeadm:cluster-admins", "globex:developers", ""]);
    claims["roles"] = json!(["editor", "admin"]);
    claims["tenant_id"] = json!("globex");
    let (_, user) = house.review(&acme.mint(&claims)).await;
    assert_eq!((&user["username"], &user["groups"]), (&json!("acme:jane"), &json!(["acme:masters"])));
    assert_eq!(user["extra"]["denizen.dev/tenant-id"], json!(["acme"]), "an upstream says nothing about that");
    assert_eq!(user["extra"]["acme.example/team"], json!(["blue"]));
    assert_eq!(user["extra"]["denizen.dev/roles"], json!(["editor"]));
    for name in ["system:admin", "system:anonymous", "globex:jane", "7f0c3f4e-0a3a-4c53-9c57-3f6f2f1f0a01", ""] {
        let mut claims = acme.claims(name, "kube", BEGIN);
        claims["sub"] = json!("someone");
        assert_eq!(house.review(&acme.mint(&claims)).await, REFUSED, "{name}");
    }
}

#[tokio::test]
async fn t07_a_templated_issuer_is_one_of_its_allowed_tenants() {
    let acme = Issuer::start().await;
    let mut configuration = configuration("https://acme.example", "https://globex.example");
    let template = format!("{}/{{tenantid}}/v2.0", acme.url());
    configuration.set(
        "/connectors/2/issuer",
        json!({
            "url": template, "discoveryURL": format!("{}/.well-known/openid-configuration", acme.url()),
            "audiences": ["kube", "cloud"], "audienceMatchPolicy": "MatchAny", "allowedTenantIds": ["t1", "t2"],
        }),
    );
    let house = House::new(configuration).await;
    acme.behave(Manner::Naming(template.clone()));
    let of = |iss: &str, tid: Value| {
        let mut claims = acme.claims("jane", "kube", BEGIN);
        claims["iss"] = json!(format!("{}/{iss}/v2.0", acme.url()));
        claims["tid"] = tid;
        acme.mint(&claims)
    };
    let (_, one) = house.review(&of("t1", json!("t1"))).await;
    let (_, other) = house.review(&of("t2", json!("t2"))).await;
    assert_eq!((&one["username"], &other["username"]), (&json!("acme:jane"), &json!("acme:jane")));
    assert_ne!(one["uid"], other["uid"], "one `sub` in two of the provider's tenants is two people");
    for bad in [of("t1", json!("t2")), of("t3", json!("t3")), of("t1", Value::Null), of("{tenantid}", json!("t1")), of("t1", json!(["t1"]))]
    {
        assert_eq!(house.review(&bad).await, REFUSED, "{}", jwt::claims(&bad));
    }
}

/// The machine's time: the program that is run has no other.
fn today() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map(|since| i64::try_from(since.as_secs()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_explained_step_by_step() {
    let acme = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("denizen.yaml");
    std::fs::write(&path, configuration(acme.url(), "https://globex.example").text("http://127.0.0.1:1", 1, 2, folder.path())).unwrap();
    let run = async |arguments: &[&str]| {
        let mut all = vec!["claims".to_owned(), "explain".to_owned(), "--config".to_owned(), path.to_str().unwrap().to_owned()];
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        tokio::task::spawn_blocking(move || command(&all.iter().map(String::as_str).collect::<Vec<_>>())).await.unwrap()
    };
    let good = acme.mint(&acme.claims("jane", "kube", today()));
    let said = run(&["--token", &good]).await;
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for part in ["token.signature", "genuine", "claimMappings.username", "admitted: jane of tenant acme"] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    let late = acme.mint(&acme.claims("jane", "kube", BEGIN / 2));
    let edited = jwt::with_claims(&good, |claims| claims["preferred_username"] = json!("mallory"));
    let elsewhere = acme.mint(&acme.claims("jane", "elsewhere", today()));
    for (bad, reason) in [(&late, "expired"), (&edited, "signature"), (&elsewhere, "audience")] {
        let said = run(&["--token", bad]).await;
        assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
        assert!(said.out.contains(reason) && said.out.contains("REFUSED"), "{reason}\n{}", said.out);
        assert!(!said.out.contains("mallory") && !said.out.contains("jane"), "nothing of it is shown as if it were good\n{}", said.out);
    }
    let said = run(&["--token", "x.e30.x"]).await;
    assert!(said.code == Some(1) && said.err.contains("neither a JWT that names an issuer"), "{}", said.err);
    let said = run(&["--reference", "0123456789ab"]).await;
    assert!(said.code == Some(1) && said.err.contains("no Denizen answers at 127.0.0.1:2"), "{}", said.err);
    for wrong in [&[][..], &["--token", "x", "--reference", "y"][..], &["--claims", "-"][..]] {
        assert_eq!(run(wrong).await.code, Some(2), "{wrong:?}");
    }
}
