//! TokenReview as the wire has it, without an API server: versions, audiences, reviewers, names, and bodies that are none.

use denizen_tests::{
    Authorization, Broker, Configuration, Tokens,
    configuration::{ARKTOS_TOKEN, KUBERNETES, OPENCLOUD, OPENCLOUD_TOKEN, REVIEWER_TOKEN, hash_of, secret_of},
    jwt,
};
use serde_json::{Value, json};

fn review(version: &str, token: &str) -> Value {
    json!({"kind": "TokenReview", "apiVersion": format!("authentication.k8s.io/{version}"), "spec": {"token": token}})
}

async fn broker() -> Broker {
    Broker::start(Configuration::default()).await
}

#[tokio::test]
async fn t47_t57_what_is_shared_is_effective_and_never_any() {
    let broker = broker().await;
    let service = broker.service();
    let kubernetes = broker.tokens(&Authorization::web(), "acme", "jane").await;
    let opencloud = broker.tokens(&Authorization::web().add("resource", OPENCLOUD), "acme", "jane").await;
    let refused = json!({"authenticated": false});
    let good = service.review(REVIEWER_TOKEN, kubernetes.access(), &[]).await;
    assert_eq!((&good["authenticated"], &good["user"]["username"]), (&json!(true), &json!("acme:jane")));
    let good = service.review(REVIEWER_TOKEN, kubernetes.access(), &[KUBERNETES, OPENCLOUD]).await;
    assert_eq!(good["audiences"], json!([KUBERNETES]), "the intersection is answered");
    for (reviewer, token, audiences) in [
        (REVIEWER_TOKEN, &opencloud, vec![]),
        (REVIEWER_TOKEN, &opencloud, vec![OPENCLOUD]),
        (REVIEWER_TOKEN, &opencloud, vec![KUBERNETES]),
        (OPENCLOUD_TOKEN, &kubernetes, vec![]),
        (OPENCLOUD_TOKEN, &kubernetes, vec![KUBERNETES]),
        (REVIEWER_TOKEN, &kubernetes, vec![OPENCLOUD]),
        (REVIEWER_TOKEN, &kubernetes, vec!["*"]),
        (REVIEWER_TOKEN, &kubernetes, vec![""]),
    ] {
        assert_eq!(service.review(reviewer, token.access(), &audiences).await, refused, "{reviewer} {audiences:?}");
    }
}

#[tokio::test]
async fn t48_a_version_is_answered_in_kind_and_nonsense_is_refused() {
    let broker = broker().await;
    let service = broker.service();
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    for version in ["v1", "v1beta1"] {
        let answer = service.review_request(Some(REVIEWER_TOKEN), version, &review(version, tokens.access())).await.expect(200).json();
        assert_eq!(answer["apiVersion"], format!("authentication.k8s.io/{version}"));
        assert_eq!((&answer["kind"], &answer["status"]["authenticated"]), (&json!("TokenReview"), &json!(true)));
    }
    let good = review("v1", tokens.access());
    let with = |pointer: &str, value: Value| {
        let mut body = good.clone();
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    for body in [
        with("/kind", json!("SubjectAccessReview")),
        with("/kind", json!("")),
        with("/apiVersion", json!("authentication.k8s.io/v1beta1")),
        with("/apiVersion", json!("v1")),
        with("/spec", Value::Null),
        with("/spec", json!({})),
        with("/spec/token", json!("")),
        with("/spec/token", json!(7)),
        with("/spec", json!({"token": "x", "audiences": "not a list"})),
        json!({}),
        json!([]),
        json!("x"),
        Value::Null,
    ] {
        let answer = service.review_request(Some(REVIEWER_TOKEN), "v1", &body).await.expect(400);
        assert_eq!(answer.json()["kind"], "Status", "{body}");
        assert!(!answer.text.contains(tokens.access()), "the token is told");
    }
    service.review_request(Some(REVIEWER_TOKEN), "v2", &good).await.expect(404);
    let at = service.at("/apis/authentication.k8s.io/v1/tokenreviews");
    let raw = |body: Vec<u8>| service.http().post(&at).bearer_auth(REVIEWER_TOKEN).header("content-type", "application/json").body(body);
    service.send(raw(b"{\"kind\":".to_vec())).await.expect(400);
    service.send(raw(vec![0xff; 100])).await.expect(400);
    service.send(raw("[".repeat(100_000).into_bytes())).await.expect(400);
    service.get("/apis/authentication.k8s.io/v1/tokenreviews").await.expect(405);
    // What is not known is left alone, as the API server leaves it.
    let mut more = good.clone();
    more["spec"]["novelty"] = json!({"a": 1});
    service.review_request(Some(REVIEWER_TOKEN), "v1", &more).await.expect(200);
}

#[tokio::test]
async fn t48_a_body_of_ten_megabytes_is_too_large() {
    let broker = broker().await;
    let service = broker.service();
    let body = review("v1", &"x".repeat(10 << 20));
    let request = service.http().post(service.at("/apis/authentication.k8s.io/v1/tokenreviews")).bearer_auth(REVIEWER_TOKEN).json(&body);
    // The broker may answer and hang up before the body is through.
    if let Ok(answer) = service.try_send(request).await {
        answer.expect(413);
    }
    let body = review("v1", &"x".repeat(300 << 10));
    service.review_request(Some(REVIEWER_TOKEN), "v1", &body).await.expect(413);
    assert!(!broker.log().contains("xxxxxxxxxxxxxxxx"));
}

#[tokio::test]
async fn t49_t53_no_upstream_name_becomes_kubernetes_own() {
    let mut configuration = Configuration::default();
    let strange = |id: &str, username: &str| {
        json!({
            "id": id, "tenant": "acme", "username": username, "password": hash_of("acme", username),
            "groups": ["system:masters", "kubeadm:cluster-admins", "cluster-admins", "masters", ""],
        })
    };
    configuration.set("/connectors/0/users/-", strange("s1", "eve"));
    configuration.set("/connectors/0/users/-", strange("s2", "system:admin"));
    configuration.set("/connectors/0/users/-", strange("s3", "7f0c3f4e-0a3a-4c53-9c57-3f6f2f1f0a01"));
    let broker = Broker::start(configuration).await;
    let tokens = broker.tokens(&Authorization::web(), "acme", "eve").await;
    let user = broker.service().review(REVIEWER_TOKEN, tokens.access(), &[]).await["user"].clone();
    for group in user["groups"].as_array().unwrap() {
        let group = group.as_str().unwrap();
        assert!(group.starts_with("acme:"), "{group}");
        assert!(!group.starts_with("system:") && group != "kubeadm:cluster-admins");
    }
    // A username that would be taken for something else is no identity at all.
    for username in ["system:admin", "7f0c3f4e-0a3a-4c53-9c57-3f6f2f1f0a01"] {
        let password = denizen_tests::configuration::password_of("acme", username);
        let answer = broker.browser().try_sign_in(&Authorization::web().with("tenant", "acme"), username, &password).await;
        assert!(answer.location().is_none() && answer.status >= 400, "{username} got in");
    }
}

#[tokio::test]
async fn t53_reserved_labels_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for label in ["kubeadm", "system", "all", "tenant", "kubernetes", "Acme", "a:b", ""] {
        let mut configuration = Configuration::default();
        configuration.set("/tenants/0/label", label);
        let path = folder.path().join("denizen.yaml");
        std::fs::write(&path, configuration.text("http://127.0.0.1:1", 1, 2, folder.path())).unwrap();
        let said = denizen_tests::broker::command(&["config", "check", "--config", path.to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "the label {label:?} is taken");
        assert!(format!("{}{}", said.out, said.err).contains("label"), "{}{}", said.out, said.err);
    }
}

#[tokio::test]
async fn t50_reviewers_prove_who_they_are() {
    let broker = broker().await;
    let service = broker.service();
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    let body = review("v1", tokens.access());
    for credential in [None, Some("wrong"), Some(tokens.access()), Some("Basic x")] {
        service.review_request(credential, "v1", &body).await.expect(401);
    }
    // A client's own token counts where it is for reviews, and is the configured client's.
    let own = service.client_credentials("reviewer").await;
    let answer = service.review_request(Some(own.access()), "v1", &body).await.expect(200).json();
    assert_eq!(answer["status"]["user"]["username"], "acme:jane");
    for other in ["acme-service", "globex-workload", "ops"] {
        let token = service.client_credentials(other).await;
        service.review_request(Some(token.access()), "v1", &body).await.expect(401);
    }
    // Before the body is looked at.
    service.review_request(None, "v1", &json!("nonsense")).await.expect(401);
}

#[tokio::test]
async fn t50_an_open_reviewer_is_open_to_this_machine_alone() {
    let mut configuration = Configuration::default();
    configuration.set("/reviewers", json!([{"id": "local", "audiences": [KUBERNETES]}]));
    let broker = Broker::start(configuration).await;
    let service = broker.service();
    let body = review("v1", "nonsense");
    service.review_request(None, "v1", &body).await.expect(200);
    service.review_request(Some("a credential that is wrong"), "v1", &body).await.expect(401);
    // Through a proxy on this machine, anyone may come.
    let at = service.at("/apis/authentication.k8s.io/v1/tokenreviews");
    for header in ["x-forwarded-for", "forwarded"] {
        service.send(service.http().post(&at).header(header, "203.0.113.1").json(&body)).await.expect(401);
    }
}

#[tokio::test]
async fn arktos_gets_the_tenant_twice() {
    let mut configuration = Configuration::default();
    configuration.set("/tenants/0", json!({"id": "Acme Corporation", "label": "acme-corp"}));
    configuration.set("/connectors/0/tenants", json!(["Acme Corporation", "globex"]));
    for client in ["/clients/2/tenants", "/clients/4/tenant", "/clients/6/tenant"] {
        configuration.set(client, if client.ends_with('s') { json!(["Acme Corporation"]) } else { json!("Acme Corporation") });
    }
    for user in 0..3 {
        configuration.set(&format!("/connectors/0/users/{user}/tenant"), "Acme Corporation");
    }
    let broker = Broker::start(configuration).await;
    let mut browser = broker.browser();
    let request = Authorization::web().with("tenant", "Acme Corporation");
    let code = browser.sign_in(&request, "jane", &denizen_tests::configuration::password_of("acme", "jane")).await;
    let tokens = broker.service().exchange(&request, &code).await;
    assert_eq!(jwt::claims(tokens.access())["tenant_id"], "Acme Corporation", "tokens carry the id");
    let user = broker.service().review(ARKTOS_TOKEN, tokens.access(), &[]).await["user"].clone();
    assert_eq!((&user["username"], &user["tenant"]), (&json!("acme-corp:jane"), &json!("acme-corp")));
    assert_eq!(user["extra"]["denizen.dev/tenant-id"], json!(["Acme Corporation"]));
    let plain = broker.service().review(REVIEWER_TOKEN, tokens.access(), &[]).await["user"].clone();
    assert!(plain.get("tenant").is_none());
}

#[tokio::test]
async fn a_reviewer_takes_its_own_tenants_and_connectors_only() {
    let mut configuration = Configuration::default();
    configuration.set("/reviewers/0/tenants", json!(["globex"]));
    configuration.set("/reviewers/2/connectors", json!(["operators"]));
    let broker = Broker::start(configuration).await;
    let service = broker.service();
    let (acme, globex) =
        (broker.tokens(&Authorization::web(), "acme", "jane").await, broker.tokens(&Authorization::web(), "globex", "jane").await);
    assert_eq!(service.review(REVIEWER_TOKEN, acme.access(), &[]).await, json!({"authenticated": false}));
    assert_eq!(service.review(REVIEWER_TOKEN, globex.access(), &[]).await["authenticated"], true);
    assert_eq!(service.review(ARKTOS_TOKEN, acme.access(), &[]).await, json!({"authenticated": false}));
}

#[tokio::test]
async fn an_operators_token_is_none_for_kubernetes_unless_the_reviewer_says_so() {
    let mut configuration = Configuration::default();
    configuration.set("/clients/5/audiences", json!(["${issuer}/api", KUBERNETES]));
    let broker = Broker::start(configuration).await;
    let service = broker.service();
    let form = [("grant_type", "client_credentials"), ("client_id", "ops"), ("client_secret", &secret_of("ops")), ("resource", KUBERNETES)];
    let token = service.token(&form).await.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(service.review(REVIEWER_TOKEN, &token, &[]).await, json!({"authenticated": false}));
}

#[tokio::test]
async fn t51_only_an_access_token_is_one() {
    let broker = broker().await;
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    for token in [tokens.refresh(), tokens.id(), "x", "a.b.c", "..", "gAAAAAB"] {
        assert_eq!(broker.service().review(REVIEWER_TOKEN, token, &[]).await, json!({"authenticated": false}));
    }
    for path in ["/api/v1/users", "/oauth2/userinfo"] {
        broker.service().get_as(tokens.id(), path).await.expect(401);
        broker.service().get_as(tokens.refresh(), path).await.expect(401);
    }
}

#[tokio::test]
async fn the_command_line_reviews_too() {
    let broker = broker().await;
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    let (token, credential) = (broker.folder().join("token"), broker.folder().join("credential"));
    std::fs::write(&credential, REVIEWER_TOKEN).unwrap();
    let ask = |text: &str| {
        std::fs::write(&token, text).unwrap();
        let (token, credential) = (token.to_str().unwrap(), credential.to_str().unwrap());
        denizen_tests::broker::command(&["token", "review", "--server", broker.issuer(), "--token", token, "--credential", credential])
    };
    let said = ask(tokens.access());
    assert_eq!((said.code, &said.json()["status"]["user"]["username"]), (Some(0), &json!("acme:jane")), "{}", said.err);
    assert_eq!(ask("nonsense").code, Some(1));
}

/// The same question, asked twice: the second answer is a remembered one, and must be as good.
async fn twice(broker: &Broker, reviewer: &str, token: &str) -> Value {
    let first = broker.service().review(reviewer, token, &[KUBERNETES]).await;
    let second = broker.service().review(reviewer, token, &[KUBERNETES]).await;
    assert_eq!(first, second);
    first
}

#[tokio::test]
async fn t50_a_remembered_answer_is_one_reviewers_and_one_versions() {
    let broker = broker().await;
    let service = broker.service();
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    let kubernetes = twice(&broker, REVIEWER_TOKEN, tokens.access()).await;
    assert_eq!((&kubernetes["authenticated"], kubernetes["user"].get("tenant")), (&json!(true), None));
    assert_eq!(twice(&broker, ARKTOS_TOKEN, tokens.access()).await["user"]["tenant"], "acme");
    assert_eq!(twice(&broker, OPENCLOUD_TOKEN, tokens.access()).await, json!({"authenticated": false}));
    assert_eq!(twice(&broker, REVIEWER_TOKEN, tokens.access()).await, kubernetes);
    for credential in [None, Some("wrong")] {
        service.review_request(credential, "v1", &review("v1", tokens.access())).await.expect(401);
    }
    for _ in 0..2 {
        let bare = service.review_request(Some(REVIEWER_TOKEN), "v1", &review("v1", tokens.access())).await.expect(200).json();
        assert!(bare["status"].get("audiences").is_none(), "no audience was asked for, and none is answered");
        let beta = service.review_request(Some(REVIEWER_TOKEN), "v1beta1", &review("v1beta1", tokens.access())).await.expect(200).json();
        assert_eq!(beta["apiVersion"], "authentication.k8s.io/v1beta1");
        // A body that was answered on one path is wrong on the other.
        service.review_request(Some(REVIEWER_TOKEN), "v1beta1", &review("v1", tokens.access())).await.expect(400);
        service.review_request(Some(REVIEWER_TOKEN), "v2", &review("v1", tokens.access())).await.expect(404);
    }
}

#[tokio::test]
async fn t43_a_remembered_answer_falls_at_once_with_token_grant_session_and_tenant() {
    let mut broker = broker().await;
    let refused = json!({"authenticated": false});
    let request = || Authorization::web().with("scope", "openid profile groups offline_access");
    let good = async |broker: &Broker, tokens: &Tokens| {
        assert_eq!(twice(broker, REVIEWER_TOKEN, tokens.access()).await["authenticated"], true);
    };
    for _ in 0..10 {
        let (one, other) = (broker.tokens(&request(), "acme", "jane").await, broker.tokens(&request(), "acme", "jane").await);
        good(&broker, &one).await;
        good(&broker, &other).await;
        broker.service().revoke("web", one.access()).await.expect(200);
        assert_eq!(twice(&broker, REVIEWER_TOKEN, one.access()).await, refused, "the token was revoked");
        good(&broker, &other).await;
        broker.service().revoke("web", other.refresh()).await.expect(200);
        assert_eq!(twice(&broker, REVIEWER_TOKEN, other.access()).await, refused, "its grant was revoked");
    }
    let tokens = broker.tokens(&request(), "acme", "jane").await;
    good(&broker, &tokens).await;
    // What is renewed meanwhile goes on, and the first token with it.
    let renewed = broker.service().refresh("web", tokens.refresh()).await;
    good(&broker, &tokens).await;
    good(&broker, &renewed).await;
    broker.reconfigure(|c| c.set("/tenants/0/disabled", true)).await;
    assert_eq!(twice(&broker, REVIEWER_TOKEN, tokens.access()).await, refused, "its tenant is switched off");
    broker.reconfigure(|c| c.set("/tenants/0/disabled", false)).await;
    good(&broker, &tokens).await;
    broker.reconfigure(|c| c.set("/tenants/0/label", "acme-corp")).await;
    let user = twice(&broker, REVIEWER_TOKEN, tokens.access()).await["user"].clone();
    assert_eq!(user["username"], "acme-corp:jane", "the label is the one of now");
}

#[tokio::test]
async fn every_review_is_audited_also_a_remembered_one() {
    let broker = broker().await;
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    for _ in 0..5 {
        broker.service().review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await;
    }
    let log = broker.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let lines: Vec<_> = lines.iter().filter(|line| line["event"] == "review").collect();
    assert_eq!(lines.len(), 5, "{log}");
    for line in lines {
        assert_eq!((&line["reviewer.id"], &line["tenant.id"]), (&json!("kubernetes"), &json!("acme")));
        assert_eq!(line["user.id"], jwt::claims(tokens.access())["sub"]);
    }
}
