//! A real kube-apiserver asks the broker, over the webhook, who a token's bearer is.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{io::Write as _, path::PathBuf, sync::Arc};

use denizen_tests::{
    Authorization, Broker, Configuration, Tokens,
    configuration::{KUBERNETES, OPENCLOUD, REVIEWER_TOKEN, password_of},
    jwt,
    kube::{Credential, KubeApi, program},
};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock};

/// One broker and one API server for the whole suite: each takes seconds to start. Whoever restarts the broker holds the lock for
/// writing.
struct Rig {
    broker: RwLock<Broker>,
    api: KubeApi,
}

/// The rig, or `None` where there is no API server; that is said aloud.
async fn rig() -> Option<Arc<Rig>> {
    static RIG: OnceCell<Option<Arc<Rig>>> = OnceCell::const_new();
    RIG.get_or_init(async || {
        let path = api_server()?;
        // As it is to be deployed: TLS, and a client certificate of the API server's own.
        let configuration = Configuration::default()
            .with("/reviewers/0", json!({"id": "kubernetes", "certificateName": "kube-apiserver", "audiences": [KUBERNETES]}))
            .with("/lifetimes", json!({"accessTokenSeconds": 3600}));
        let broker = Broker::start_tls(configuration).await;
        let certificate = broker.authority().client(broker.folder(), "kube-apiserver");
        let api = KubeApi::start(&path, &broker, "v1", &Credential::Certificate(certificate)).await;
        Some(Arc::new(Rig { broker: RwLock::new(broker), api }))
    })
    .await
    .clone()
}

fn api_server() -> Option<PathBuf> {
    // Past the test runner, which keeps what a passing test prints to itself.
    program().inspect_err(|why| _ = writeln!(std::io::stderr(), "{why}")).ok()
}

async fn tokens(broker: &Broker, tenant: &str, username: &str) -> Tokens {
    broker.tokens(&Authorization::web(), tenant, username).await
}

/// Groups but for those that the API server itself adds.
fn groups(user: &Value) -> Vec<String> {
    let all = user["groups"].as_array().unwrap().iter().map(|g| g.as_str().unwrap().to_owned());
    all.filter(|group| group != "system:authenticated").collect()
}

#[tokio::test]
async fn tokens_of_both_tenants_are_their_people() {
    let Some(rig) = rig().await else { return };
    let broker = rig.broker.read().await;
    for (tenant, expected) in [("acme", vec!["acme:staff", "acme:admins"]), ("globex", vec!["globex:staff"])] {
        let tokens = tokens(&broker, tenant, "jane").await;
        let claims = jwt::claims(tokens.access());
        let user = rig.api.user(tokens.access()).await;
        assert_eq!(user["username"], format!("{tenant}:jane"));
        assert_eq!(groups(&user), expected);
        assert_eq!(user["uid"], claims["sub"]);
        assert_eq!(user["extra"]["denizen.dev/tenant-id"], json!([tenant]));
        assert_eq!(user["extra"]["denizen.dev/connector"], json!(["people"]));
        assert_eq!(user["extra"]["denizen.dev/client-id"], json!(["web"]));
        assert_eq!(
            user["extra"]["authentication.kubernetes.io/credential-id"],
            json!([format!("JTI={}", claims["jti"].as_str().unwrap())])
        );
    }
    let jane = rig.api.user(tokens(&broker, "acme", "jane").await.access()).await;
    assert_eq!(jane["extra"]["denizen.dev/roles"], json!(["editor"]), "roles pass the connector's allow-list");
}

#[tokio::test]
async fn a_workloads_own_token_is_no_person() {
    let Some(rig) = rig().await else { return };
    let broker = rig.broker.read().await;
    let tokens = broker.service().client_credentials("globex-workload").await;
    let user = rig.api.user(tokens.access()).await;
    assert_eq!(user["username"], "globex:service:globex-workload");
    assert_eq!(groups(&user), Vec::<String>::new());
}

#[tokio::test]
async fn t47_t57_a_token_for_another_audience_is_refused() {
    let Some(rig) = rig().await else { return };
    let broker = rig.broker.read().await;
    for audience in [OPENCLOUD.to_owned(), format!("{}/api", broker.issuer())] {
        let request = Authorization::web().add("resource", &audience);
        let tokens = broker.tokens(&request, "acme", "jane").await;
        rig.api.whoami(tokens.access()).await.expect(401);
    }
    let both = Authorization::web().add("resource", OPENCLOUD).add("resource", KUBERNETES);
    rig.api.whoami(broker.tokens(&both, "acme", "jane").await.access()).await.expect(201);
}

#[tokio::test]
async fn t51_a_refresh_token_or_an_id_token_is_no_access_token() {
    let Some(rig) = rig().await else { return };
    let broker = rig.broker.read().await;
    let tokens = tokens(&broker, "acme", "jane").await;
    rig.api.whoami(tokens.access()).await.expect(201);
    rig.api.whoami(tokens.refresh()).await.expect(401);
    rig.api.whoami(tokens.id()).await.expect(401);
}

#[tokio::test]
async fn t05_t18_an_edited_token_is_refused() {
    let Some(rig) = rig().await else { return };
    let broker = rig.broker.read().await;
    let tokens = tokens(&broker, "acme", "jane").await;
    let good = tokens.access();
    let (header, claims) = (jwt::header(good), jwt::claims(good));
    let mut unsigned = header.clone();
    unsigned["alg"] = json!("none");
    for forged in [
        jwt::with_claims(good, |c| c["tenant_id"] = json!("globex")),
        jwt::with_claims(good, |c| c["preferred_username"] = json!("system:admin")),
        jwt::with_header(good, |h| h["alg"] = json!("none")),
        jwt::hmac(&unsigned, &claims, b""),
        jwt::es256(&header, &claims),
    ] {
        rig.api.whoami(&forged).await.expect(401);
    }
}

#[tokio::test]
async fn a_revoked_or_signed_out_token_is_refused() {
    let Some(rig) = rig().await else { return };
    let broker = rig.broker.read().await;
    let revoked = tokens(&broker, "acme", "alice").await;
    let mut browser = broker.browser();
    let request = Authorization::web().with("tenant", "acme");
    let code = browser.sign_in(&request, "alice", &password_of("acme", "alice")).await;
    let signed_out = broker.service().exchange(&request, &code).await;
    let bystander = tokens(&broker, "acme", "alice").await;
    for tokens in [&revoked, &signed_out] {
        rig.api.whoami(tokens.access()).await.expect(201);
    }
    broker.service().revoke("web", revoked.access()).await.expect(200);
    browser.sign_out().await.expect(200);
    for tokens in [&revoked, &signed_out] {
        rig.api.refuses_soon(tokens.access()).await;
    }
    rig.api.whoami(bystander.access()).await.expect(201);
}

#[tokio::test]
async fn t11_t43_an_expired_token_is_refused_and_so_is_a_disabled_tenants() {
    let Some(rig) = rig().await else { return };
    let mut broker = rig.broker.write().await;
    let (acme, globex) = (tokens(&broker, "acme", "jane").await, tokens(&broker, "globex", "jane").await);
    rig.api.whoami(globex.access()).await.expect(201);

    broker.reconfigure(|c| c.set("/tenants/1/disabled", true)).await;
    rig.api.refuses_soon(globex.access()).await;
    rig.api.whoami(acme.access()).await.expect(201);
    broker.reconfigure(|c| c.set("/tenants/1/disabled", false)).await;
    rig.api.whoami(globex.access()).await.expect(201);

    broker.reconfigure(|c| c.set("/lifetimes", json!({"accessTokenSeconds": 1}))).await;
    let short = tokens(&broker, "acme", "jane").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    rig.api.whoami(short.access()).await.expect(401);
    broker.reconfigure(|c| c.set("/lifetimes", json!({"accessTokenSeconds": 3600}))).await;
}

#[tokio::test]
async fn an_outage_of_the_broker_is_no_yes_and_heals() {
    let Some(rig) = rig().await else { return };
    let mut broker = rig.broker.write().await;
    let tokens = tokens(&broker, "acme", "jane").await;
    broker.kill();
    rig.api.whoami(tokens.access()).await.expect(401);
    broker.restart().await;
    rig.api.whoami(tokens.access()).await.expect(201);
}

#[tokio::test]
async fn t50_only_the_certificate_makes_a_reviewer() {
    let Some(rig) = rig().await else { return };
    let broker = rig.broker.read().await;
    let body = review("v1", "x");
    for credential in [None, Some(REVIEWER_TOKEN), Some("nonsense")] {
        broker.service().review_request(credential, "v1", &body).await.expect(401);
    }
    let stranger = denizen_tests::Authority::new("a stranger's");
    let folder = tempfile::tempdir().unwrap();
    for (authority, name) in [(broker.authority(), "someone-else"), (&stranger, "kube-apiserver")] {
        let files = authority.client(folder.path(), name);
        let mut pem = std::fs::read(&files.certificate).unwrap();
        pem.extend(std::fs::read(&files.key).unwrap());
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([reqwest::Certificate::from_pem(broker.authority().certificate().as_bytes()).unwrap()])
            .identity(reqwest::Identity::from_pem(&pem).unwrap());
        let address = format!("{}/apis/authentication.k8s.io/v1/tokenreviews", broker.issuer());
        match client.build().unwrap().post(address).json(&body).send().await {
            Ok(answer) => assert_eq!(answer.status().as_u16(), 401, "{name} was taken for a reviewer"),
            Err(error) => assert!(error.is_connect() || error.is_request(), "{error}"),
        }
    }
}

#[tokio::test]
async fn t48_v1beta1_works_with_a_real_api_server() {
    let Some(path) = api_server() else { return };
    let broker = Broker::start_tls(Configuration::default()).await;
    let api = KubeApi::start(&path, &broker, "v1beta1", &Credential::Bearer).await;
    let tokens = tokens(&broker, "acme", "jane").await;
    assert_eq!(api.user(tokens.access()).await["username"], "acme:jane");
    api.whoami("nonsense").await.expect(401);
    let elsewhere = broker.tokens(&Authorization::web().add("resource", OPENCLOUD), "acme", "jane").await;
    api.whoami(elsewhere.access()).await.expect(401);
}

fn review(version: &str, token: &str) -> Value {
    json!({"kind": "TokenReview", "apiVersion": format!("authentication.k8s.io/{version}"), "spec": {"token": token}})
}
