//! `denizen store …` by hand: from a file to Redis and back with everyone still signed in, through a file of records, and what is refused.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;

use denizen_tests::{
    Authorization, Broker, Configuration, Redis, RedisPair, Service, Tokens,
    broker::{Said, command},
    configuration::password_of,
    redis::PASSWORD,
};
use serde_json::{Value, json};

fn web() -> Authorization {
    Authorization::web().with("tenant", "acme")
}

/// The text of a broker's configuration as it is, with another store.
fn configured(broker: &Broker, name: &str, store: &Value) -> String {
    let mut value: Value = serde_json::from_str(&fs::read_to_string(broker.folder().join("denizen.yaml")).unwrap()).unwrap();
    value["store"] = store.clone();
    let path = broker.folder().join(name);
    fs::write(&path, value.to_string()).unwrap();
    path.to_string_lossy().into_owned()
}

fn everything(said: &Said) -> String {
    format!("{}{}", said.out, said.err)
}

fn good(arguments: &[&str]) -> String {
    let said = command(arguments);
    assert_eq!(said.code, Some(0), "{arguments:?}: {}", everything(&said));
    everything(&said)
}

fn refused(arguments: &[&str]) -> String {
    let said = command(arguments);
    assert_eq!(said.code, Some(1), "{arguments:?}: {}", everything(&said));
    everything(&said)
}

/// The tokens still stand, and are renewed; gives the new ones.
async fn goes_on(service: &Service, tokens: &Tokens) -> Tokens {
    service.userinfo(tokens.access()).await.expect(200);
    service.refresh("web", tokens.refresh()).await
}

#[tokio::test]
async fn from_a_file_to_redis_and_back_everyone_stays_signed_in() {
    let redis = Redis::single().await;
    let mut broker = Broker::start(Configuration::default()).await;
    let mut jane = broker.browser();
    let code = jane.sign_in(&web(), "jane", &password_of("acme", "jane")).await;
    let tokens = broker.service().exchange(&web(), &code).await;
    let keys = broker.service().get("/oauth2/jwks").await.expect(200).text;
    let file = json!({"file": broker.folder().join("denizen.redb")});
    let (on_file, on_redis) = (configured(&broker, "on-file.yaml", &file), configured(&broker, "on-redis.yaml", &redis.as_store()));

    let said = refused(&["store", "migrate", "--from-config", &on_file, "--to-config", &on_redis]);
    assert!(said.contains("another process has the store open"), "{said}");
    broker.stop().await;
    let said = good(&["store", "migrate", "--from-config", &on_file, "--to-config", &on_redis]);
    assert!(said.contains("records written") && said.contains("do not start Denizen on the old store"), "{said}");
    let again = good(&["store", "migrate", "--from-config", &on_file, "--to-config", &on_redis]);
    assert!(again.contains("0 records written"), "{again}");

    broker.reconfigure(|configuration| configuration.0["store"] = redis.as_store()).await;
    let tokens = goes_on(&broker.service(), &tokens).await;
    jane.get("/account").await.expect(200);
    assert_eq!(broker.service().get("/oauth2/jwks").await.expect(200).text, keys);
    let said = refused(&["store", "migrate", "--from-config", &on_redis, "--to-config", &on_file]);
    assert!(said.contains("1 replicas of Denizen are at work"), "{said}");
    broker.stop().await;

    // Back, to a new file.
    let back = json!({"file": broker.folder().join("back.redb"), "sealingKeyFile": redis.as_store()["sealingKeyFile"]});
    let back_on_file = configured(&broker, "back.yaml", &back);
    good(&["store", "migrate", "--from-config", &on_redis, "--to-config", &back_on_file]);
    broker.reconfigure(|configuration| configuration.0["store"] = back).await;
    goes_on(&broker.service(), &tokens).await;
    jane.get("/account").await.expect(200);
    assert_eq!(broker.service().get("/oauth2/jwks").await.expect(200).text, keys);
}

#[tokio::test]
async fn an_export_is_its_owners_only_and_is_taken_up_whole_or_refused() {
    let mut broker = Broker::start(Configuration::default()).await;
    let tokens = broker.tokens(&web(), "acme", "jane").await;
    let keys = broker.service().get("/oauth2/jwks").await.expect(200).text;
    let on_file = configured(&broker, "on-file.yaml", &json!({"file": broker.folder().join("denizen.redb")}));
    let export = broker.folder().join("export").to_string_lossy().into_owned();
    broker.stop().await;
    let said = good(&["store", "export", "--config", &on_file, "--to", &export]);
    assert!(said.contains("it holds secrets"), "{said}");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&export).unwrap().permissions()) & 0o777, 0o600);
    assert!(refused(&["store", "export", "--config", &on_file, "--to", &export]).contains("such a file already"));

    // One that is cut short, or old.
    let text = fs::read_to_string(&export).unwrap();
    let cut = broker.folder().join("cut").to_string_lossy().into_owned();
    fs::write(&cut, text.trim_end().rsplit_once('\n').unwrap().0).unwrap();
    let elsewhere = json!({"file": broker.folder().join("elsewhere.redb")});
    let there = configured(&broker, "elsewhere.yaml", &elsewhere);
    assert!(refused(&["store", "import", "--config", &there, "--from", &cut]).contains("not whole"));
    let old = broker.folder().join("old").to_string_lossy().into_owned();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(first).unwrap();
    header["denizen"]["begunAt"] = (header["denizen"]["begunAt"].as_i64().unwrap() - 30 * 3_600).into();
    fs::write(&old, format!("{header}\n{rest}")).unwrap();
    let said = refused(&["store", "import", "--config", &there, "--from", &old]);
    assert!(said.contains("30 h old") && said.contains("--lasting"), "{said}");

    // Only what lasts: the keys are the same, and nobody is signed in.
    good(&["store", "import", "--config", &there, "--from", &old, "--lasting"]);
    broker.reconfigure(|configuration| configuration.0["store"] = elsewhere).await;
    assert_eq!(broker.service().get("/oauth2/jwks").await.expect(200).text, keys);
    broker.service().userinfo(tokens.access()).await.expect(401);
    broker.service().try_refresh("web", tokens.refresh()).await.expect(400);
    broker.stop().await;

    // All of it.
    let whole = json!({"file": broker.folder().join("whole.redb")});
    let there = configured(&broker, "whole.yaml", &whole);
    good(&["store", "import", "--config", &there, "--from", &export]);
    broker.reconfigure(|configuration| configuration.0["store"] = whole).await;
    goes_on(&broker.service(), &tokens).await;
}

#[tokio::test]
async fn a_check_says_what_may_be_lost_and_what_is_wrong() {
    let pair = RedisPair::start().await;
    let broker = Broker::start(Configuration::default().with("/store", pair.as_store())).await;
    let config = broker.folder().join("denizen.yaml").to_string_lossy().into_owned();
    let said = good(&["store", "check", "--config", &config]);
    for expected in
        ["primary, 1 replica in step, append-only file on", "replicas of Denizen at work: 1", "may be lost: nothing that was answered"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains(PASSWORD), "{said}");

    let bare = Redis::with("appendonly no\nmaxmemory 100mb\nmaxmemory-policy allkeys-lru\n").await;
    let config = configured(&broker, "bare.yaml", &bare.as_store());
    let said = refused(&["store", "check", "--config", &config]);
    assert!(said.contains("WRONG") && said.contains("appendonly yes") && said.contains("noeviction"), "{said}");

    let mut gone = bare.as_store();
    gone["redis"]["address"] = "127.0.0.1:1".into();
    let said = refused(&["store", "check", "--config", &configured(&broker, "gone.yaml", &gone)]);
    assert!(said.contains("Redis can not be asked"), "{said}");
}
