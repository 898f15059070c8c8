//! Keystone's own tokens: what a review says of them, and the door at which they are taken back. A real Keystone judges; a relay before
//! it counts what reaches it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use denizen_tests::{
    Answer, Broker, Keystone, Relay,
    broker::command,
    configuration::{ARKTOS_TOKEN, KUBERNETES, REVIEWER_TOKEN},
    keystone::Scope,
    relay::{Manner, Reply, When},
};
use serde_json::{Value, json};

const TOKENS: &str = "/v3/auth/tokens";
const DOOR: &str = "/keystone/cloud/v3/auth/tokens";

struct House {
    keystone: Keystone,
    relay: Relay,
    broker: Broker,
}

impl House {
    async fn start() -> Option<Self> {
        let keystone = Keystone::start().await?;
        let relay = Relay::before(keystone.url().strip_suffix("/v3").unwrap());
        let mut connector = keystone.connector_at("cloud", &format!("{}/v3", relay.address()));
        connector["tenants"] = json!(["acme", "globex"]);
        connector["acceptTokens"] = json!(true);
        connector["deadlineSeconds"] = json!(2);
        connector["tokens"] = json!({"cacheSeconds": 3_600});
        let mut configuration = keystone.configuration(connector);
        configuration.set("/reviewers/0/upstreamTokens", json!([{"connector": "cloud", "compatibility": "k8s-keystone-auth"}]));
        configuration.set("/reviewers/2/upstreamTokens", json!([{"connector": "cloud"}]));
        let broker = Broker::start(configuration).await;
        Some(Self { keystone, relay, broker })
    }

    /// Someone's token for a project.
    async fn token(&self, domain: &str, name: &str, project: &str) -> String {
        self.keystone.token(domain, name, Scope::Project(self.keystone.project(project, "web"))).await
    }

    /// Whom `kubernetes` is told of; null where the token is refused.
    async fn reviewed(&self, token: &str) -> Value {
        let status = self.broker.service().review(REVIEWER_TOKEN, token, &[KUBERNETES]).await;
        assert_eq!(status["user"].is_null(), status["authenticated"] == false, "{status}");
        status["user"].clone()
    }

    async fn delete(&self, caller: &str, token: &str) -> Answer {
        let service = self.broker.service();
        let request = service.http().delete(service.at(DOOR)).header("X-Auth-Token", caller).header("X-Subject-Token", token);
        let answer = service.send(request).await;
        assert!(answer.headers.get("retry-after").is_none() && !answer.text.contains(token));
        answer
    }

    /// How often Keystone was asked about tokens, and to take one back.
    fn asked(&self) -> [usize; 2] {
        ["GET", "DELETE"].map(|method| self.relay.count(method, TOKENS))
    }
}

fn values(user: &Value, key: &str) -> Vec<String> {
    let mut values: Vec<_> = user["extra"][key].as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect();
    values.sort();
    values
}

#[tokio::test]
async fn t31_a_review_says_whose_token_it_is_and_where_its_rights_are() {
    let Some(house) = House::start().await else { return };
    let keystone = &house.keystone;
    let (web, acme) = (keystone.project("acme", "web"), keystone.domain("acme"));
    let jane = house.reviewed(&house.token("acme", "jane", "acme").await).await;
    assert_eq!(jane["username"], "acme:jane");
    let groups: Vec<_> = jane["groups"].as_array().unwrap().iter().map(|group| group.as_str().unwrap()).collect();
    assert!(groups.contains(&&*format!("acme:{web}")) && groups.contains(&"acme:staff") && !groups.contains(&"acme:admins"), "{groups:?}");
    for (key, value) in [
        ("denizen.dev/project-id", web),
        ("denizen.dev/project-name", "web"),
        ("denizen.dev/project-domain-id", acme),
        ("denizen.dev/user-domain-id", acme),
        ("alpha.kubernetes.io/identity/project/id", web),
        ("alpha.kubernetes.io/identity/project/name", "web"),
        ("alpha.kubernetes.io/identity/user/domain/id", acme),
        ("alpha.kubernetes.io/identity/user/domain/name", "acme"),
    ] {
        assert_eq!(values(&jane, key), [value], "{key}");
    }
    assert_eq!(values(&jane, "alpha.kubernetes.io/identity/roles"), ["auditor", "member", "reader"]);
    assert!(jane["extra"].get("denizen.dev/roles").is_none(), "the connector's allow-list is empty: {jane}");

    let other = house.reviewed(&house.token("globex", "jane", "globex").await).await;
    assert_eq!(other["username"], "globex:jane");
    assert_ne!(other["uid"], jane["uid"]);

    // The user's domain is not the project's.
    let john = house.reviewed(&house.token("acme", "john", "globex").await).await;
    assert_eq!(
        (&john["username"], values(&john, "denizen.dev/project-domain-id")),
        (&json!("acme:john"), vec![keystone.domain("globex").to_owned()])
    );

    let unscoped = house.reviewed(&keystone.token("acme", "jane", Scope::Unscoped).await).await;
    assert_eq!((&unscoped["uid"], values(&unscoped, "denizen.dev/user-domain-id")), (&jane["uid"], vec![acme.to_owned()]));
    for key in ["denizen.dev/project-id", "alpha.kubernetes.io/identity/project/id", "alpha.kubernetes.io/identity/roles"] {
        assert!(unscoped["extra"].get(key).is_none(), "{key}");
    }
    let of_domain = house.reviewed(&keystone.token("acme", "jane", Scope::Domain(acme)).await).await;
    assert_eq!(values(&of_domain, "denizen.dev/scope-domain-id"), [acme]);
    let credential = &keystone.fixtures().application_credential;
    let by_credential = house.reviewed(&keystone.token_of_application_credential(credential).await).await;
    assert_eq!(values(&by_credential, "denizen.dev/application-credential-id"), [&*credential.id]);

    let body = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1beta1", "spec": {"token": house.token("acme", "jane", "acme").await}});
    let arktos = house.broker.service().review_request(Some(ARKTOS_TOKEN), "v1beta1", &body).await.expect(200).json();
    let arktos = &arktos["status"]["user"];
    assert_eq!(
        (&arktos["tenant"], &arktos["username"], values(arktos, "denizen.dev/project-id")),
        (&json!("acme"), &json!("acme:jane"), vec![web.to_owned()])
    );
    assert!(!arktos.to_string().contains("alpha.kubernetes.io"), "this reviewer did not ask for it: {arktos}");
    assert!(!arktos["groups"].to_string().contains(web));
}

#[tokio::test]
async fn a_token_that_is_taken_back_through_denizen_is_refused_at_once() {
    let Some(house) = House::start().await else { return };
    let jane = house.token("acme", "jane", "acme").await;
    let john = house.token("acme", "john", "globex").await;
    for token in [&jane, &john] {
        assert!(house.reviewed(token).await.is_object());
    }
    house.delete(&john, &jane).await.expect(403);
    assert_eq!(house.reviewed(&jane).await["username"], "acme:jane", "he had no right to it");

    house.relay.forget();
    house.delete(&jane, &jane).await.expect(204);
    assert_eq!(house.reviewed(&jane).await, Value::Null);
    assert_eq!(house.asked(), [0, 1], "Keystone need not be asked for that");
    house.keystone.validate(&jane).await.expect(404);
    assert_eq!(house.reviewed(&john).await["username"], "acme:john");
    // She is signed in no less for it: another token of hers is as good as before.
    assert_eq!(house.reviewed(&house.token("acme", "jane", "acme").await).await["username"], "acme:jane");

    let log = house.broker.log();
    assert!(log.contains("upstream_token.revoked") && log.contains("upstream_token.not_revoked"));
    assert!(!log.contains(&jane) && !log.contains(&john));
}

#[tokio::test]
async fn a_token_that_was_taken_back_at_keystone_is_forgotten_by_whoever_shows_it() {
    let Some(house) = House::start().await else { return };
    let (jane, john) = (house.token("acme", "jane", "acme").await, house.token("acme", "john", "globex").await);
    for token in [&jane, &john] {
        assert!(house.reviewed(token).await.is_object());
        house.keystone.revoke(token).await;
        assert!(house.reviewed(token).await.is_object(), "it is remembered for `tokens.cacheSeconds`");
    }
    // Her own token proves nothing any more, and takes nothing away but itself.
    house.delete(&jane, &john).await.expect(401);
    assert_eq!(house.reviewed(&jane).await, Value::Null);
    assert!(house.reviewed(&john).await.is_object());
    let other = house.token("globex", "jane", "globex").await;
    house.delete(&other, &john).await.expect(404);
    assert_eq!(house.reviewed(&john).await, Value::Null);
    assert_eq!(house.reviewed(&other).await["username"], "globex:jane");
}

#[tokio::test]
async fn t52_what_can_be_no_token_does_not_reach_keystone_from_the_door() {
    let Some(house) = House::start().await else { return };
    let jane = house.token("acme", "jane", "acme").await;
    house.relay.forget();
    let service_account = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ.c2ln";
    for text in ["x", "gAAAAA", "gAAAAAB", service_account, &"gAAAAA".repeat(2_000)] {
        house.delete(text, &jane).await.expect(401);
        let unknown = house.delete(&jane, text).await.expect(404);
        assert_eq!(unknown.json()["error"]["title"], "Not Found");
    }
    let service = house.broker.service();
    let request = || service.http().delete(service.at("/keystone/people/v3/auth/tokens"));
    let nowhere = service.send(request().header("X-Auth-Token", &jane).header("X-Subject-Token", &jane)).await.expect(404);
    assert_eq!(house.relay.count("DELETE", TOKENS), 0);
    // What might be one, Keystone is asked about; the answer is the same to the byte.
    let forged = format!("{}AAAA", jane.get(..jane.len() - 4).unwrap());
    assert_eq!(house.delete(&jane, &forged).await.expect(404).text, nowhere.text);
    house.delete(&forged, &jane).await.expect(401);
    assert_eq!(house.relay.count("DELETE", TOKENS), 2);
}

#[tokio::test]
async fn t29_whatever_keystone_answers_the_door_does_not_say_what_it_does_not_know() {
    let Some(house) = House::start().await else { return };
    let jane = house.token("acme", "jane", "acme").await;
    assert!(house.reviewed(&jane).await.is_object());
    let deletes = || When::path(TOKENS).method("DELETE");
    for reply in [
        Reply::new(500, "{}"),
        Reply::new(503, "a page"),
        Reply::new(200, "{}"),
        Reply::new(418, ""),
        Reply::new(302, "").with_header("location", "http://127.0.0.1:1/"),
    ] {
        house.relay.set(deletes(), Manner::Answer(reply));
        assert_eq!(house.delete(&jane, &jane).await.expect(503).json()["error"]["code"], 503);
    }
    house.relay.set(deletes(), Manner::Break);
    house.delete(&jane, &jane).await.expect(503);
    house.relay.set(deletes(), Manner::Hold);
    house.delete(&jane, &jane).await.expect(503);
    assert_eq!(house.reviewed(&jane).await["username"], "acme:jane", "nothing was taken back");
    // Whoever asks this of Keystone in vain, and that may be anyone, stands in no reviewer's way.
    house.relay.set(deletes(), Manner::Answer(Reply::new(503, "a page")));
    for _ in 0..10 {
        house.delete(&jane, &jane).await.expect(503);
    }
    let other = house.token("globex", "jane", "globex").await;
    assert_eq!(house.reviewed(&other).await["username"], "globex:jane");
    house.relay.pass_on();
}

#[tokio::test]
async fn a_token_of_a_keystone_is_explained_step_by_step() {
    let Some(house) = House::start().await else { return };
    let path = house.broker.folder().join("denizen.yaml").to_str().unwrap().to_owned();
    let explain = async |token: &str| {
        let all = ["claims", "explain", "--config", &path, "--token", token].map(str::to_owned);
        tokio::task::spawn_blocking(move || command(&all.each_ref().map(String::as_str))).await.unwrap()
    };
    let jane = house.token("acme", "jane", "acme").await;
    let said = explain(&jane).await;
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for part in ["token.form", "in force until", "it names none", "claimMappings.username", "admitted: jane of tenant acme"] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    house.keystone.revoke(&jane).await;
    let said = explain(&jane).await;
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("REFUSED") && !said.out.contains("jane"), "{}", said.out);
    let said = explain("gAAAAAB").await;
    assert!(said.code == Some(1) && said.err.contains("nor a token of a Keystone"), "{}", said.err);
}
