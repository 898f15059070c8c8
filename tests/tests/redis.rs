//! The Redis servers that the other suites rely on: they start, keep what they took, and fail over.

use denizen_tests::{
    Redis, RedisCluster, RedisPair,
    redis::{Reply, USER},
};

#[tokio::test]
async fn one_server_keeps_what_it_took_through_kill_9() {
    let mut redis = Redis::single().await;
    let server = redis.server_mut();
    _ = server.cli(&["SET", "a", "1"]);
    server.kill();
    assert!(server.try_cli(&["PING"]).is_err());
    server.restart().await;
    assert_eq!(server.cli(&["GET", "a"]).text(), "1");
    server.freeze();
    assert!(server.try_cli(&["PING"]).is_err());
    server.thaw();
    let monitor = server.monitor();
    _ = server.cli(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "a"]);
    let seen = monitor.take(server);
    assert!(seen.len() == 1 && seen[0].starts_with("\"EVAL\""), "a script is one round trip: {seen:?}");
    assert_eq!(server.commands()["get"], 2);
    assert_eq!(server.contents()[b"a".as_slice()], [b"1".to_vec()]);
}

#[tokio::test]
async fn the_user_over_tls_may_do_little() {
    let redis = Redis::tls().await;
    let store = redis.as_store();
    let file = |pointer: &str| store.pointer(pointer).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    let ask = |command: &[&str]| {
        let (host, port) =
            file("/redis/address").rsplit_once(':').map(|(host, port)| (host.to_owned(), port.to_owned())).unwrap_or_default();
        let mut cli = std::process::Command::new("/usr/bin/redis-cli");
        cli.args(["-h", &host, "-p", &port, "--tls", "--user", USER, "--pass", denizen_tests::redis::PASSWORD, "--no-auth-warning"]);
        cli.args([
            "--cacert",
            &file("/redis/tls/caFile"),
            "--cert",
            &file("/redis/tls/certificateFile"),
            "--key",
            &file("/redis/tls/keyFile"),
        ]);
        String::from_utf8_lossy(&cli.args(command).output().map(|output| output.stdout).unwrap_or_default()).trim().to_owned()
    };
    assert_eq!(ask(&["SET", "denizen:a", "1"]), "OK");
    assert!(ask(&["SET", "other:a", "1"]).starts_with("NOPERM"));
    assert!(ask(&["FLUSHALL"]).starts_with("NOPERM"));
    assert!(ask(&["KEYS", "*"]).starts_with("NOPERM"));
    assert!(redis.server().refused().iter().any(|(user, what)| user == USER && what.contains("flushall")));
    let stranger = redis.server().connect().map(|_| ()).and_then(|()| denizen_tests::redis::Connection::open(redis.server().port()));
    let answer = stranger.and_then(|mut stranger| stranger.ask(&[b"PING"]));
    assert!(matches!(&answer, Ok(Reply::Refused(text)) if text.starts_with("NOAUTH")), "{answer:?}");
}

#[tokio::test]
async fn the_pair_fails_over_and_is_whole_again() {
    let mut pair = RedisPair::start().await;
    _ = pair.primary().cli(&["SET", "a", "1"]);
    pair.primary().wait_until_acknowledged();
    let first = pair.kill_primary();
    println!("failover: {:?}", pair.wait_for_failover(first).await);
    assert_eq!(pair.primary().cli(&["GET", "a"]).text(), "1");
    let alone = pair.primary().try_cli(&["SET", "a", "2"]);
    assert!(alone.is_ok_and(|reply| reply.text().starts_with("NOREPLICAS")), "alone it takes no writes");
    pair.server_mut(first).restart().await;
    println!("whole again: {:?}", pair.wait_until_whole().await);
    assert_eq!(pair.primary_index(), 1 - first);
    _ = pair.primary().cli(&["SET", "a", "3"]);
    pair.primary().wait_until_acknowledged();
    pair.primary().freeze();
    println!("failover from a frozen one: {:?}", pair.wait_for_failover(1 - first).await);
    pair.servers()[1 - first].thaw();
    pair.wait_until_whole().await;
    assert_eq!(pair.primary().cli(&["GET", "a"]).text(), "3");
}

#[tokio::test]
async fn a_cluster_has_all_slots_and_its_replicas_take_over() {
    let cluster = RedisCluster::three().await;
    assert_eq!([0, 8_000, 16_383].map(|slot| cluster.primary_of(slot)), [0, 1, 2]);
    let mut cluster = RedisCluster::three_with_replicas().await;
    let slot = cluster.slot_of("denizen:{t:acme}:x");
    let first = cluster.primary_of(slot);
    _ = cluster.servers()[first].cli(&["SET", "denizen:{t:acme}:x", "1"]);
    cluster.servers()[first].wait_until_acknowledged();
    cluster.server_mut(first).kill();
    println!("failover: {:?}", cluster.wait_for_failover(slot, first).await);
    let next = cluster.primary_of(slot);
    assert_ne!(next, first);
    assert_eq!(cluster.servers()[next].cli(&["GET", "denizen:{t:acme}:x"]).text(), "1");
    cluster.server_mut(first).restart().await;
    cluster.wait_until_whole().await;
}
