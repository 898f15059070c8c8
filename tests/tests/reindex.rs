//! `denizen directory reindex`: beside a running Denizen and without one, on users of a file and on a real slapd.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;

use denizen_tests::{
    Authorization, Broker, Configuration,
    broker::{Said, command},
    slapd::{
        Slapd,
        content::{ACME, GLOBEX, PEOPLE, READER, READER_PASSWORD},
    },
};
use serde_json::{Value, json};

fn reindex(broker: &Broker, more: &[&str]) -> Said {
    let config = broker.folder().join("denizen.yaml");
    let mut arguments = vec!["directory", "reindex", "--config", config.to_str().unwrap()];
    arguments.extend(more);
    command(&arguments)
}

/// The lines of `--json`, the last of which is the summary.
fn told(said: &Said) -> Vec<Value> {
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn summary(said: &Said) -> Value {
    let told = told(said);
    let last = told.last().expect("it tells something").clone();
    assert_eq!(last["event"], "ended", "{said:?}");
    last
}

async fn token(broker: &Broker, tenant: &str) -> String {
    broker.tokens(&Authorization::for_search(broker.issuer()), tenant, "jane").await.access().to_owned()
}

/// A broker whose store knows no one but who signs in, and the path of someone who has not.
async fn forgetful() -> (Broker, String) {
    let mut broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let found = service.get_as(&token(&broker, "acme").await, "/api/v1/users?search=alice").await.expect(200).json();
    let path = format!("/api/v1/users/{}", found["users"][0]["id"].as_str().unwrap());
    broker.stop().await;
    fs::remove_file(broker.folder().join("denizen.redb")).unwrap();
    (broker, path)
}

#[tokio::test]
async fn a_running_denizen_does_it_and_says_how_it_goes() {
    let (mut broker, alice) = forgetful().await;
    broker.restart().await;
    let service = broker.service();
    let (acme, globex) = (token(&broker, "acme").await, token(&broker, "globex").await);
    service.get_as(&acme, &alice).await.expect(404);
    let said = reindex(&broker, &["--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(told(&said)[0], json!({"event": "begun", "lists": 3}));
    let ended = summary(&said);
    // Both janes have signed in, and so have their records.
    assert_eq!(
        (&ended["people"], &ended["recorded"], &ended["tenants"], &ended["connectors"]),
        (&json!(6), &json!(4), &json!(3), &json!(2))
    );
    service.get_as(&acme, &alice).await.expect(200);
    service.get_as(&globex, &alice).await.expect(404);
    assert_eq!(summary(&reindex(&broker, &["--json"]))["recorded"], 0, "again, and nothing is new");
    assert_eq!(summary(&reindex(&broker, &["--json", "--tenant", "globex"]))["people"], 2);
    let said = reindex(&broker, &["--connector", "operators"]);
    assert!(said.out.contains("system at operators: 1 people"), "{said:?}");
    for (arguments, text) in [(["--tenant", "nowhere"], "no such tenant"), (["--connector", "nobody"], "no such connector")] {
        let said = reindex(&broker, &arguments);
        assert_eq!(said.code, Some(1));
        assert!(said.err.contains(text), "{said:?}");
    }
}

#[tokio::test]
async fn without_a_running_one_the_command_does_it_itself() {
    let (mut broker, alice) = forgetful().await;
    let said = reindex(&broker, &[]);
    assert_eq!(said.code, Some(1), "there is no store, and none is made that another user owns");
    assert!(said.err.contains("there is no store yet"), "{said:?}");
    broker.restart().await;
    broker.stop().await;
    let said = reindex(&broker, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("acme at people: 3 people, 3 recorded anew") && said.out.contains("6 people of 3 tenants"), "{said:?}");
    broker.restart().await;
    broker.service().get_as(&token(&broker, "acme").await, &alice).await.expect(200);
}

#[tokio::test]
async fn the_door_is_the_admin_listeners_and_no_pages() {
    let broker = Broker::start(Configuration::default()).await;
    let http = broker.http();
    let at = |base: &str| http.post(format!("{base}/v1/directory:reindex"));
    assert_eq!(at(broker.issuer()).json(&json!({})).send().await.unwrap().status(), 404, "not at the public doors");
    let admin = broker.admin();
    for body in ["{}", ""] {
        // What a page of another site can send without being asked first.
        assert_eq!(at(&admin).header("content-type", "text/plain").body(body).send().await.unwrap().status(), 400);
    }
    // A page whose name leads here of a sudden (DNS rebinding) sends JSON unasked, and a browser says that a page it is.
    for (header, value) in [("origin", "http://evil.example"), ("origin", "null"), ("sec-fetch-site", "same-origin")] {
        let answer = at(&admin).header(header, value).json(&json!({})).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{header}: {value}");
        assert!(answer.text().await.unwrap().contains("a browser sent it"));
    }
    assert_eq!(at(&admin).json(&json!({"tenants": "acme"})).send().await.unwrap().status(), 400);
    let answer = at(&admin).json(&json!({})).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap()), (200, "application/x-ndjson"));
    assert!(answer.text().await.unwrap().lines().last().unwrap().contains(r#""event":"ended""#));
}

#[tokio::test]
async fn a_directory_is_listed_past_every_bound_of_a_search_and_its_absence_is_told() {
    let mut slapd = Slapd::start().await;
    let corp = json!({
        "id": "corp", "type": "ldap", "operatedBy": "operator", "tenants": ["acme", "globex"], "ids": "verbatim",
        "url": slapd.ldaps_url(), "caFile": slapd.ca_path(), "bindDn": READER, "bindPassword": READER_PASSWORD, "deadlineSeconds": 2,
        "userSearch": {"base": PEOPLE, "idAttribute": "openCloudUUID", "enabledFilter": "(!(openCloudUserEnabled=FALSE))"},
        "claimMappings": {"username": {"claim": "uid"}, "tenant": {"claim": "openCloudMemberOfSchool"}, "groups": {"claim": "groups"}},
    });
    let configuration = Configuration::default()
        .with("/connectors/-", corp)
        .with("/tenants/0/externalIds", json!({"corp": ACME}))
        .with("/tenants/1/externalIds", json!({"corp": GLOBEX}))
        .with("/search", json!({"pageSize": 1, "pageSizeMost": 1, "resultsMost": 1}));
    let broker = Broker::start(configuration).await;
    let said = reindex(&broker, &["--json", "--connector", "corp"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let ended = summary(&said);
    assert!(ended["people"].as_u64().unwrap() > 6 && ended["recorded"].as_u64().unwrap() > 6, "{ended}");
    assert_eq!((&ended["truncated"], &ended["unreached"]), (&json!(0), &json!(0)), "{ended}");
    slapd.stop();
    let said = reindex(&broker, &[]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for line in [
        "acme at corp: could not be listed: ",
        "globex at corp: could not be listed: ",
        "acme at people: 3 people",
        "2 lists could not be had",
    ] {
        assert!(said.out.contains(line), "{line}: {said:?}");
    }
}
