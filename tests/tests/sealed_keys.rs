//! Keys in the clear on their way from a file to Redis, and keys that someone put into Redis.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use denizen_tests::{
    Authorization, Broker, Configuration, Redis,
    broker::{command, program},
};
use serde_json::Value;

/// Where Redis has the key that vouches for browsers.
const MAC_KEY: &[u8] = b"denizen:{s}:mac-key:browsers";

/// What a start says that fails.
fn failing_start(configuration: &Path) -> String {
    let mut start = program().args(["serve", "--config"]).arg(configuration).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while start.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            start.kill().unwrap();
            panic!("it started: {:?}", start.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = start.wait_with_output().unwrap();
    assert!(!output.status.success());
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn keys_in_the_clear_are_sealed_on_their_way_to_redis_and_what_is_planted_there_starts_nothing() {
    let redis = Redis::single().await;
    let mut broker = Broker::start(Configuration::default()).await;
    let tokens = broker.tokens(&Authorization::web(), "acme", "jane").await;
    assert!(broker.stop().await.success());
    let new = broker.folder().join("denizen.yaml");
    let old = broker.folder().join("old.yaml");
    let text = fs::read_to_string(&new).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["store"] = redis.as_store();
    fs::write(&old, text).unwrap();
    fs::write(&new, value.to_string()).unwrap();
    let (old, path) = (old.to_str().unwrap(), new.to_str().unwrap());
    let carried = command(&["store", "migrate", "--from-config", old, "--to-config", path]);
    assert_eq!(carried.code, Some(0), "{}{}", carried.out, carried.err);
    for values in redis.server().contents().values().flatten() {
        assert!(!String::from_utf8_lossy(values).contains("pkcs8"), "a signing key lies in the clear");
    }
    let store = redis.as_store();
    broker.reconfigure(|configuration| configuration.0["store"] = store).await;
    let next = broker.service().refresh("web", tokens.refresh()).await;
    broker.service().userinfo(next.access()).await.expect(200);
    assert!(broker.stop().await.success());

    // Whoever can write to Redis puts a key there that they know.
    let mut there = redis.server().connect().unwrap();
    let kept = there.ask(&[b"GET", MAC_KEY]).unwrap().good();
    let planted = [kept.bytes().get(..16).unwrap(), &[9; 32]].concat();
    _ = there.ask(&[b"SET", MAC_KEY, &planted]).unwrap().good();
    let said = failing_start(&new);
    assert!(said.contains("lies in the clear") && said.contains("mac-key") && said.contains("denizen store seal"), "{said}");
    assert_eq!(there.ask(&[b"GET", MAC_KEY]).unwrap().good().bytes(), planted, "nothing was sealed");
    // Only who says that it is theirs has it sealed.
    let sealed = command(&["store", "seal", "--config", path]);
    assert_eq!(sealed.code, Some(0), "{}{}", sealed.out, sealed.err);
    assert_ne!(there.ask(&[b"GET", MAC_KEY]).unwrap().good().bytes(), planted);
    broker.restart().await;
    broker.service().userinfo(next.access()).await.expect(200);
}
