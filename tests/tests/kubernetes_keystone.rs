//! A real kube-apiserver asks the broker about Keystone's tokens, and lets their bearers do what RBAC gives their names and groups: as
//! with k8s-keystone-auth, and with the two tenants kept apart.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

use std::{io::Write as _, path::PathBuf};

use denizen_tests::{
    Broker, Keystone, Relay,
    configuration::KUBERNETES,
    keystone::Scope,
    kube::{ADMINISTRATOR, Credential, KubeApi, program},
};
use serde_json::{Value, json};

const TOKENS: &str = "/v3/auth/tokens";

struct Rig {
    keystone: Keystone,
    relay: Relay,
    broker: Broker,
    api: KubeApi,
}

fn api_server() -> Option<PathBuf> {
    // Past the test runner, which keeps what a passing test prints to itself.
    program().inspect_err(|why| _ = writeln!(std::io::stderr(), "{why}")).ok()
}

impl Rig {
    /// As it is to be deployed: TLS, a client certificate of the API server's own, RBAC. `None` where a part is not installed.
    async fn start() -> Option<Self> {
        let (path, keystone) = (api_server()?, Keystone::start().await?);
        let relay = Relay::before(keystone.url().strip_suffix("/v3").unwrap());
        let mut connector = keystone.connector_at("cloud", &format!("{}/v3", relay.address()));
        for (key, value) in [
            ("tenants", json!(["acme", "globex"])),
            ("acceptTokens", json!(true)),
            ("deadlineSeconds", json!(2)),
            ("tokens", json!({"cacheSeconds": 3_600})),
        ] {
            connector[key] = value;
        }
        let reviewer = json!({
            "id": "kubernetes", "certificateName": "kube-apiserver", "audiences": [KUBERNETES],
            "upstreamTokens": [{"connector": "cloud", "compatibility": "k8s-keystone-auth"}],
        });
        let broker = Broker::start_tls(keystone.configuration(connector).with("/reviewers/0", reviewer)).await;
        let certificate = broker.authority().client(broker.folder(), "kube-apiserver");
        let api = KubeApi::start_rbac(&path, &broker, "v1", &Credential::Certificate(certificate)).await;
        Some(Self { keystone, relay, broker, api })
    }

    /// Someone's token for the project `web` of a domain.
    async fn token(&self, domain: &str, name: &str, project: &str) -> String {
        self.keystone.token(domain, name, Scope::Project(self.keystone.project(project, "web"))).await
    }

    async fn create(&self, path: &str, body: &Value) {
        self.api.send(ADMINISTRATOR, "POST", path, body).await.expect(201);
    }

    /// A namespace whose configmaps a subject may list.
    async fn allow(&self, namespace: &str, kind: &str, name: &str) {
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
        self.create(&format!("{rbac}/roles"), &json!({"metadata": {"name": "lister"}, "rules": rules})).await;
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": "lister"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "lister"},
            "subjects": [{"apiGroup": group, "kind": kind, "name": name}],
        });
        self.create(&format!("{rbac}/rolebindings"), &binding).await;
        // RBAC's own view of what was written follows some milliseconds later, and this one is of the last that was.
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": if kind == "User" { name } else { "someone" }, "groups": if kind == "Group" { json!([name]) } else { json!([]) },
                "resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "configmaps"},
            },
        });
        let begun = std::time::Instant::now();
        loop {
            let answer =
                self.api.send(ADMINISTRATOR, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.expect(201);
            if answer.json()["status"]["allowed"] == true {
                return;
            }
            assert!(begun.elapsed() < denizen_tests::process::PATIENCE, "{}", answer.text);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// The status with which someone lists the configmaps of a namespace.
    async fn list(&self, token: &str, namespace: &str) -> u16 {
        self.api.send(token, "GET", &format!("/api/v1/namespaces/{namespace}/configmaps"), &Value::Null).await.status
    }

    /// How many reviews ended so.
    async fn reviews(&self, outcome: &str) -> u64 {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let text = http.get(format!("{}/metrics", self.broker.admin())).send().await.unwrap().text().await.unwrap();
        let line = text.lines().find(|line| line.contains("token_reviews_total") && line.contains(&format!("\"{outcome}\"")));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }
}

#[tokio::test]
async fn t31_rbac_gives_rights_to_names_groups_and_projects_of_one_tenant() {
    let Some(rig) = Rig::start().await else { return };
    let (web, others) = (rig.keystone.project("acme", "web").to_owned(), rig.keystone.project("globex", "web").to_owned());
    rig.allow("by-name", "User", "acme:jane").await;
    rig.allow("by-group", "Group", "acme:admins").await;
    rig.allow("by-project", "Group", &format!("acme:{web}")).await;
    // Names as k8s-keystone-auth gave them are nobody's now.
    rig.allow("by-old-name", "User", "jane").await;
    rig.allow("by-old-project", "Group", &web).await;
    let token = async |domain: &str, name: &str, project: &str| rig.token(domain, name, project).await;
    for (who, token, [name, group, project]) in [
        ("acme:jane", token("acme", "jane", "acme").await, [200, 403, 200]),
        ("acme:jane, of no project", rig.keystone.token("acme", "jane", Scope::Unscoped).await, [200, 403, 403]),
        ("acme:john", token("acme", "john", "acme").await, [403, 200, 200]),
        ("acme:john, at globex", token("acme", "john", "globex").await, [403, 200, 403]),
        ("globex:jane", token("globex", "jane", "globex").await, [403, 403, 403]),
        ("globex:gina, of globex' admins", token("globex", "gina", "globex").await, [403, 403, 403]),
    ] {
        for (namespace, status) in
            [("by-name", name), ("by-group", group), ("by-project", project), ("by-old-name", 403), ("by-old-project", 403)]
        {
            assert_eq!(rig.list(&token, namespace).await, status, "{who}, {namespace}");
        }
    }
    let jane = rig.api.user(&token("acme", "jane", "acme").await).await;
    assert_eq!(jane["extra"]["alpha.kubernetes.io/identity/project/id"], json!([web]));
    assert_eq!(jane["extra"]["denizen.dev/tenant-id"], json!(["acme"]));
    assert!(!jane["groups"].to_string().contains(&others) && !jane["groups"].to_string().contains("system:masters"), "{jane}");
}

#[tokio::test]
async fn what_is_no_token_of_keystones_is_401_and_one_taken_back_through_denizen_is_so_at_once() {
    let Some(rig) = Rig::start().await else { return };
    let (jane, other) = (rig.token("acme", "jane", "acme").await, rig.token("acme", "jane", "acme").await);
    rig.api.whoami(&jane).await.expect(201);
    let forged = format!("{}AAAA", &jane[..jane.len() - 4]);
    for bad in [&*forged, "gAAAAABnothing", "x"] {
        rig.api.whoami(bad).await.expect(401);
    }
    let asked = rig.relay.count("GET", TOKENS);
    for _ in 0..20 {
        rig.api.whoami(&jane).await.expect(201);
        rig.api.whoami(&forged).await.expect(401);
    }
    assert_eq!(rig.relay.count("GET", TOKENS), asked, "Keystone is not asked again");

    let service = rig.broker.service();
    let back = async |token: &str| {
        let request = service.http().delete(service.at("/keystone/cloud/v3/auth/tokens"));
        service.send(request.header("X-Auth-Token", token).header("X-Subject-Token", token)).await.expect(204)
    };
    // One that the API server has not seen is refused at once; of one that it has, it remembers the yes itself for seconds.
    back(&other).await;
    rig.api.whoami(&other).await.expect(401);
    back(&jane).await;
    rig.api.refuses_soon(&jane).await;
    rig.api.whoami(&rig.token("acme", "jane", "acme").await).await.expect(201);
}

#[tokio::test]
async fn a_keystone_that_is_stopped_costs_one_question_for_each_request_and_takes_no_one_away() {
    let Some(mut rig) = Rig::start().await else { return };
    let (known, new) = (rig.token("acme", "jane", "acme").await, rig.token("globex", "jane", "globex").await);
    rig.api.whoami(&known).await.expect(201);
    rig.keystone.stop();
    for _ in 0..3 {
        let before = rig.reviews("unavailable").await;
        let answer = rig.api.whoami(&new).await;
        assert!(matches!(answer.status, 401 | 500), "{} {}", answer.status, answer.text);
        assert_eq!(rig.reviews("unavailable").await, before + 1, "the API server does not repeat it");
    }
    rig.api.whoami(&known).await.expect(201);
    rig.keystone.restart().await;
    let begun = std::time::Instant::now();
    while rig.api.whoami(&new).await.status != 201 {
        assert!(begun.elapsed() < denizen_tests::process::PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(rig.api.user(&new).await["username"], "globex:jane");
}
