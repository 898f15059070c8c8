//! What a real Keystone answers, without the broker: the ground that the other parts of this suite stand on.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use denizen_tests::{
    Answer, Keystone, Relay,
    configuration::password_of,
    keystone::{
        Api, Scope, Settings, Tokens,
        fixtures::{DENIZEN, DENIZEN_ACME, DENIZEN_NARROW, ODD, ZOE},
    },
    relay::{Manner, Reply, When},
};
use serde_json::{Value, json};

const TOKENS: &str = "/v3/auth/tokens";

/// The names (or ids) of a list in an answer.
fn each(list: &Value, key: &str) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn token(answer: Answer) -> Value {
    answer.expect(200).json()["token"].clone()
}

#[tokio::test]
async fn a_token_says_who_it_is_for_in_every_scope() {
    let Some(keystone) = Keystone::start().await else { return };
    let denizen = keystone.denizen().await;
    let (acme, web) = (keystone.domain("acme"), keystone.project("acme", "web"));
    let check = async |text: &str| token(denizen.validate(text).await);

    let unscoped = check(&keystone.token("acme", "jane", Scope::Unscoped).await).await;
    assert_eq!(unscoped["user"]["id"], keystone.user("acme", "jane"));
    assert_eq!(unscoped["user"]["domain"], json!({"id": acme, "name": "acme"}));
    assert!(["project", "domain", "system", "roles", "is_domain"].iter().all(|key| unscoped[key].is_null()), "{unscoped}");

    let project = check(&keystone.token("acme", "jane", Scope::Project(web)).await).await;
    assert_eq!(project["project"]["domain"]["id"], acme);
    // The auditor by her group.
    assert_eq!(each(&project["roles"], "name"), set(&["auditor", "member", "reader"]));

    let domain = check(&keystone.token("acme", "jane", Scope::Domain(acme)).await).await;
    assert_eq!((&domain["domain"]["name"], each(&domain["roles"], "name")), (&json!("acme"), set(&["reader"])));

    let system = check(&keystone.token("Default", "olga", Scope::System).await).await;
    assert_eq!((&system["system"], &system["project"]), (&json!({"all": true}), &Value::Null));

    // The user's domain is not the project's.
    let abroad = check(&keystone.token("acme", "john", Scope::Project(keystone.project("globex", "web"))).await).await;
    assert_eq!((&abroad["user"]["domain"]["name"], &abroad["project"]["domain"]["name"]), (&json!("acme"), &json!("globex")));
    assert_ne!(keystone.user("acme", "jane"), keystone.user("globex", "jane"));
    for name in [ZOE, ODD] {
        assert_eq!(check(&keystone.token("acme", name, Scope::Unscoped).await).await["user"]["name"], name);
    }
}

#[tokio::test]
async fn credentials_and_trusts_say_what_they_are() {
    let Some(keystone) = Keystone::start().await else { return };
    let (denizen, fixtures) = (keystone.denizen().await, keystone.fixtures());
    let (jane, john) = (keystone.user("acme", "jane"), keystone.user("acme", "john"));
    let check = async |text: &str| denizen.validate(text).await;

    let of_credential = keystone.token_of_application_credential(&fixtures.application_credential).await;
    let said = token(check(&of_credential).await);
    assert_eq!(said["application_credential"]["id"], fixtures.application_credential.id.as_str());
    assert_eq!((&said["methods"], &said["user"]["id"]), (&json!(["application_credential"]), &json!(jane)));
    let with_scope = keystone.api().authenticate(&fixtures.application_credential.identity(), &json!("unscoped")).await;
    assert_eq!(with_scope.status, 401, "{}", with_scope.text);

    let restricted = keystone.token_of_application_credential(&fixtures.restricted_credential).await;
    check(&restricted).await.expect(404);
    let rules = [("X-Subject-Token", restricted.as_str()), ("OpenStack-Identity-Access-Rules", "1.0")];
    denizen.send("GET", "/auth/tokens?nocatalog", &rules, &Value::Null).await.expect(200);

    for (domain, trustee, trust, user) in [
        ("acme", "john", &fixtures.trust, jane),
        ("globex", "gina", &fixtures.trust_abroad, jane),
        ("acme", "john", &fixtures.trust_without_impersonation, john),
    ] {
        let said = token(check(&keystone.token_of_trust(domain, trustee, trust).await).await);
        assert_eq!(said["user"]["id"], user, "{said}");
        let of = &said["OS-TRUST:trust"];
        assert_eq!((&of["trustor_user"]["id"], &of["trustee_user"]["id"]), (&json!(jane), &json!(keystone.user(domain, trustee))));
        assert_eq!(of["impersonation"], user == jane);
    }

    // Whom an identity provider knows is a user of its domain, whose groups are in the token only.
    let frida = keystone.token_of_federated_user("frida", Scope::Project(keystone.project("acme", "web"))).await;
    let said = token(check(&frida).await);
    let federated = &said["user"]["OS-FEDERATION"];
    assert_eq!((&said["user"]["domain"]["name"], &federated["identity_provider"]["id"]), (&json!("acme"), &json!("sso")));
    assert_eq!(each(&federated["groups"], "id"), set(&[keystone.group("acme", "staff")]));
    assert_eq!(each(&said["roles"], "name"), set(&["auditor"]));
    let groups = denizen.get(&format!("/users/{}/groups", said["user"]["id"].as_str().unwrap())).await.expect(200).json();
    assert_eq!(groups["groups"], json!([]));

    keystone.delete_application_credential(jane, &fixtures.application_credential.id).await;
    check(&of_credential).await.expect(404);
}

/// The table of what is answered to whom.
#[tokio::test]
async fn a_token_that_is_no_more_is_not_found_and_a_caller_without_rights_is_refused() {
    let Some(keystone) = Keystone::start().await else { return };
    let (denizen, web) = (keystone.denizen().await, Scope::Project(keystone.project("acme", "web")));
    let status = async |text: &str| denizen.validate(text).await.status;

    let good = keystone.token("acme", "jane", web).await;
    assert_eq!(status(&good).await, 200);
    keystone.revoke(&good).await;
    assert_eq!((status(&good).await, status("gAAAAABnothing").await, status("").await), (404, 404, 404));
    assert_eq!(denizen.get("/auth/tokens?nocatalog").await.status, 404);
    let of_initech = keystone.token("initech", "jane", Scope::Unscoped).await;
    assert_eq!(status(&of_initech).await, 200);
    keystone.disable_domain(keystone.domain("initech")).await;
    assert_eq!(status(&of_initech).await, 404);
    let of_john = keystone.token("acme", "john", web).await;
    keystone.disable_user(keystone.user("acme", "john")).await;
    assert_eq!(status(&of_john).await, 404);
    let of_gina = keystone.token("globex", "gina", Scope::Project(keystone.project("globex", "web"))).await;
    keystone.remove_role("member", keystone.user("globex", "gina"), Scope::Project(keystone.project("globex", "web"))).await;
    assert_eq!(status(&of_gina).await, 404);

    // Whoever asks must say who they are, and may then ask only what their roles allow.
    let token = keystone.token("acme", "jane", web).await;
    keystone.api().validate(&token).await.expect(401);
    keystone.api().with_token("gAAAAABnothing").validate(&token).await.expect(401);
    let narrow = keystone.token("Default", DENIZEN_NARROW, Scope::Project(keystone.project("Default", "service"))).await;
    let narrow = keystone.api().with_token(&narrow);
    narrow.validate(&token).await.expect(200);
    narrow.get("/users").await.expect(403);
    narrow.get(&format!("/users/{}/groups", keystone.user("acme", "jane"))).await.expect(403);
    let head = narrow.send("HEAD", "/auth/tokens?nocatalog", &[("X-Subject-Token", &token)], &Value::Null).await;
    let peer = keystone.api().with_token(&keystone.token("globex", "jane", Scope::Unscoped).await);
    peer.validate(&token).await.expect(403);
    head.expect(403);
    denizen.send("HEAD", "/auth/tokens?nocatalog", &[("X-Subject-Token", &token)], &Value::Null).await.expect(200);

    // Four ways to fail that look alike.
    let api = keystone.api();
    let refused = [
        keystone.sign_in("acme", "jane", "wrong", Scope::Unscoped).await,
        keystone.sign_in("acme", "dora", &password_of("acme", "dora"), Scope::Unscoped).await,
        api.password("nowhere", "jane", "wrong", &json!("unscoped")).await,
        keystone.sign_in("acme", ZOE, &password_of("acme", ZOE), web).await,
    ];
    let bodies: BTreeSet<_> = refused.into_iter().map(|answer| answer.expect(401).text).collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
}

#[tokio::test]
async fn the_directory_is_read_by_those_who_may() {
    let Some(keystone) = Keystone::start_with(Settings { list_limit: Some(3), ..Settings::default() }).await else { return };
    let (denizen, acme) = (keystone.denizen().await, keystone.domain("acme"));
    let jane = keystone.user("acme", "jane");
    let list = async |api: &Api, path: &str, kind: &str| api.get(path).await.expect(200).json()[kind].clone();

    // A list that is cut says where it goes on.
    let first = denizen.get(&format!("/users?domain_id={acme}")).await.expect(200).json();
    assert_eq!((first["users"].as_array().unwrap().len(), &first["truncated"]), (3, &json!(true)), "{first}");
    let mut names = each(&first["users"], "name");
    let mut next = first["links"]["next"].clone();
    while let Some(address) = next.as_str() {
        let page = denizen.get(address.strip_prefix(&keystone.url()).unwrap()).await.expect(200).json();
        names.extend(each(&page["users"], "name"));
        next = page["links"]["next"].clone();
    }
    assert_eq!(names, set(&["dora", "jane", "john", ODD, ZOE]));

    let found = list(&denizen, &format!("/users?domain_id={acme}&name__icontains=JAN"), "users").await;
    assert_eq!((each(&found, "id"), &found[0]["email"]), (set(&[jane]), &json!("jane@acme.example")));
    // Her groups are of two domains.
    let groups = list(&denizen, &format!("/users/{jane}/groups"), "groups").await;
    assert_eq!(each(&groups, "id"), set(&[keystone.group("acme", "staff"), keystone.group("globex", "admins")]));
    let assigned = list(&denizen, &format!("/role_assignments?user.id={jane}&effective&include_names"), "role_assignments").await;
    assert!(assigned.as_array().unwrap().iter().any(|one| one["role"]["name"] == "auditor"), "{assigned}");
    // Roles on the system are never among the effective ones.
    let olga = keystone.user("Default", "olga");
    for (query, roles) in [("effective&include_names", 0), ("effective&scope.system=all", 0), ("scope.system=all&include_names", 1)] {
        let assigned = list(&denizen, &format!("/role_assignments?user.id={olga}&{query}"), "role_assignments").await;
        assert_eq!(assigned.as_array().unwrap().len(), roles, "{query}: {assigned}");
    }
    // A filter that Keystone does not know is none.
    let all = list(&denizen, &format!("/users?domain_id={acme}&email__contains=jane&limit=2"), "users").await;
    assert!(each(&all, "name") != set(&["jane"]), "{all}");

    let of_acme = keystone.token("Default", DENIZEN_ACME, Scope::Domain(acme)).await;
    let of_acme = keystone.api().with_token(&of_acme);
    of_acme.get(&format!("/users/{jane}")).await.expect(200);
    of_acme.get(&format!("/users/{}", keystone.user("globex", "jane"))).await.expect(403);
    assert_eq!(list(&of_acme, &format!("/users?domain_id={}", keystone.domain("globex")), "users").await, json!([]));
    // What an application credential of the service account is for, its project, reads nobody.
    let by_credential = keystone.token_of_application_credential(&keystone.fixtures().service_credential).await;
    keystone.api().with_token(&by_credential).get("/users").await.expect(403);
    // The same user may read with a token of another scope only.
    let of_project = keystone.token("Default", DENIZEN, Scope::Project(keystone.project("Default", "service"))).await;
    keystone.api().with_token(&of_project).get("/users").await.expect(403);
}

#[tokio::test]
async fn it_stops_and_starts_and_speaks_tls_and_signs_its_tokens() {
    let settings = Settings { tls: true, tokens: Tokens::JsonWeb, ..Settings::default() };
    let Some(mut keystone) = Keystone::start_with(settings).await else { return };
    let token = keystone.token("acme", "jane", Scope::Unscoped).await;
    let claims = denizen_tests::jwt::claims(&token);
    assert!(claims["openstack_methods"].is_array() && claims["iss"].is_null(), "{claims}");
    keystone.freeze();
    let api = keystone.api();
    let asked = tokio::spawn(async move { api.get("").await.status });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!asked.is_finished());
    keystone.thaw();
    assert_eq!(asked.await.unwrap(), 200);
    keystone.stop();
    let refused = std::net::TcpStream::connect(keystone.url().trim_start_matches("https://").trim_end_matches("/v3"));
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    keystone.restart().await;
    keystone.validate(&token).await.expect(200);
}

#[tokio::test]
async fn the_relay_counts_and_answers_as_it_is_told() {
    let Some(keystone) = Keystone::start().await else { return };
    let relay = Relay::before(keystone.url().trim_end_matches("/v3"));
    let api = Api::new(&format!("{}/v3", relay.address()), None).with_token(&keystone.token("Default", "olga", Scope::System).await);
    let good = keystone.token("acme", "jane", Scope::Unscoped).await;
    let one = api.get("/users?limit=1").await.expect(200).json();
    assert!(one["links"]["next"].as_str().unwrap().starts_with(&relay.address()), "{one}");

    relay.set(When::path(TOKENS).method("GET").next(2), Manner::Answer(Reply::new(503, "{}")));
    relay.set(When::path(TOKENS).next(1), Manner::Break);
    let broken = reqwest::get(format!("{}{TOKENS}", relay.address())).await;
    assert!(broken.is_err(), "{broken:?}");
    let statuses = [api.validate(&good).await.status, api.validate(&good).await.status, api.validate(&good).await.status];
    assert_eq!((statuses, relay.count("GET", TOKENS), relay.count("POST", TOKENS)), ([503, 503, 200], 4, 0));

    relay.forget();
    relay.freeze();
    let held: Vec<_> = (0..5)
        .map(|_| {
            tokio::spawn({
                let (api, good) = (api.clone(), good.clone());
                async move { api.validate(&good).await.status }
            })
        })
        .collect();
    relay.wait_for("GET", TOKENS, 5).await;
    assert_eq!((relay.in_flight(TOKENS), relay.most_at_once(TOKENS)), (5, 5));
    relay.pass_on();
    for answer in held {
        assert_eq!(answer.await.unwrap(), 200);
    }
    assert_eq!((relay.in_flight(TOKENS), relay.total()), (0, 5));

    relay.refuse().await;
    let refused = reqwest::get(relay.address()).await.unwrap_err();
    assert!(refused.is_connect(), "{refused:?}");
    relay.listen().await;
    api.validate(&good).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_relay_stands_in_for_a_server_under_a_flood() {
    let relay =
        Relay::stand_in(
            |request| if request.headers.contains_key("X-Subject-Token") { Reply::new(404, "{}") } else { Reply::new(200, "{}") },
        );
    let api = Api::new(&format!("{}/v3", relay.address()), None);
    let begun = Instant::now();
    let workers: Vec<_> = (0..32)
        .map(|_| {
            let api = api.clone();
            tokio::spawn(async move {
                for _ in 0..500 {
                    api.validate("gAAAAAB").await.expect(404);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(relay.count("GET", TOKENS), 16_000);
    assert!((1..=32).contains(&relay.most_at_once(TOKENS)));
    println!("16,000 requests in {:?}", begun.elapsed());
}
