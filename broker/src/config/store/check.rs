//! What a shape can not say of `store`.

use std::path::PathBuf;

use connectors::{ConfiguredSecret, Secret};

use super::{RedisConfig, SentinelConfig, StoreConfig};
use crate::config::{
    check::{readable, within},
    load::Parts,
    places::{Places, join},
};

/// Finds the faults of `store`, and what deserves a look.
pub(in crate::config) fn check(parts: &Parts, places: &mut Places) {
    let StoreConfig { file, redis, sealing_key_file } = &parts.store;
    sealing_key(sealing_key_file.as_ref(), places);
    let Some(redis) = redis else { return };
    if file.is_some() {
        places.fault("store.file", "give `file` or `redis`, not both");
    }
    if sealing_key_file.is_none() && !places.is_faulty("store") {
        places.fault(
            "store.redis",
            "`store.sealingKeyFile` is missing: without it whoever reads Redis has the signing keys; `openssl rand -base64 32` makes one, for all replicas the same",
        );
    }
    servers(redis, places);
    password("store.redis", redis.password.as_ref(), redis.password_file.as_ref(), places);
    tls(redis, places);
    let prefix = &redis.prefix;
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        places.fault("store.redis.prefix", "it must be 1 to 64 of a-z, A-Z, 0-9, `-`, `_` and `.`");
    }
    within("store.redis.acknowledgedBy", redis.acknowledged_by().into(), &(0..=8), places);
    within("store.redis.deadlineMilliseconds", redis.deadline_milliseconds, &(100..=30_000), places);
}

fn sealing_key(file: Option<&PathBuf>, places: &mut Places) {
    let path = "store.sealingKeyFile";
    let Some(text) = file.and_then(|file| readable(file, path, places)) else { return };
    if crate::sealing::keys_of(&text).is_none() {
        places.fault(
            path,
            "a sealing key is 32 bytes, as base64 or as 64 hexadecimal digits, one a line; `openssl rand -base64 32` makes one",
        );
    }
}

fn servers(redis: &RedisConfig, places: &mut Places) {
    let given = [redis.address.is_some(), redis.sentinel.is_some(), !redis.cluster.is_empty()];
    if given.into_iter().filter(|given| *given).count() != 1 && !places.is_faulty("store.redis") {
        places.fault("store.redis", "give exactly one of `address`, `sentinel` and `cluster`");
    }
    if let Some(own) = &redis.address {
        address("store.redis.address", own, places);
        if redis.acknowledged_by() == 0 {
            places.warning(
                "store.redis",
                "one server, whose replicas are not waited for: what was written in its last second may be lost when it fails, and people sign in again; see the README's table of what may be lost",
            );
        }
    }
    for (index, own) in redis.cluster.iter().enumerate() {
        address(&format!("store.redis.cluster[{index}]"), own, places);
    }
    if !redis.cluster.is_empty() && redis.database != 0 {
        places.fault("store.redis.database", "a Cluster has the database 0 only");
    }
    let Some(SentinelConfig { addresses, name, password: secret, password_file, .. }) = &redis.sentinel else { return };
    let path = "store.redis.sentinel";
    if addresses.is_empty() {
        places.fault(join(path, "addresses"), "name at least one sentinel");
    }
    for (index, own) in addresses.iter().enumerate() {
        address(&format!("{path}.addresses[{index}]"), own, places);
    }
    if name.is_empty() {
        places.fault(join(path, "name"), "it must be what the sentinels call the primary (`sentinel monitor NAME …`)");
    }
    password(path, secret.as_ref(), password_file.as_ref(), places);
}

/// `host:port`; of an IPv6 address the host stands in brackets.
fn address(path: &str, text: &str, places: &mut Places) {
    let parts = text.rsplit_once(':').filter(|(host, port)| {
        let host_is_one = !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'));
        host_is_one && !host.contains(['/', '@', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if parts.is_none() {
        places.fault(path, "it must be `host:port`, without a scheme: redis.example:6379");
    }
}

fn password(path: &str, value: Option<&ConfiguredSecret>, file: Option<&PathBuf>, places: &mut Places) {
    let own = join(path, if file.is_some() { "passwordFile" } else { "password" });
    match (value, file) {
        (Some(_), Some(_)) => places.fault(own, "give `password` or `passwordFile`, not both"),
        (None, Some(file)) if readable(file, &own, places).is_none() => {}
        (None, None) => {}
        (value, file) => {
            if Secret::read(value, file.map(PathBuf::as_path)).ok().flatten().is_none() {
                places.fault(own, "it is empty");
            }
        }
    }
}

fn tls(redis: &RedisConfig, places: &mut Places) {
    let Some(tls) = &redis.tls else {
        let all = redis.address.iter().chain(&redis.cluster).chain(redis.sentinel.iter().flat_map(|sentinel| &sentinel.addresses));
        let is_far = |own: &String| !["127.", "localhost:", "[::1]"].iter().any(|near| own.starts_with(near));
        if all.into_iter().any(is_far) {
            places.warning(
                "store.redis",
                "everything that is kept crosses the network in the clear: give `tls`, or let the network be private",
            );
        }
        return;
    };
    let path = "store.redis.tls";
    for (key, file) in [("caFile", &tls.ca_file), ("certificateFile", &tls.certificate_file), ("keyFile", &tls.key_file)] {
        if let Some(file) = file {
            readable(file, &join(path, key), places);
        }
    }
    if tls.certificate_file.is_some() != tls.key_file.is_some() {
        places.fault(path, "give `certificateFile` and `keyFile`, or neither");
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load_text;

    /// What is told of such a store: the faults, else the warnings.
    fn told(store: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), format!("{}\n", "ab".repeat(32))).unwrap();
        std::fs::write(folder.path().join("two"), format!("{0}\n{0}\n", "ab".repeat(32))).unwrap();
        std::fs::write(folder.path().join("bad"), "short").unwrap();
        std::fs::write(folder.path().join("empty"), "").unwrap();
        let rest = "issuer: http://127.0.0.1:5556\ntenants: [{id: a}]\nconnectors: [{id: corp, type: file, tenants: [a], users: []}]\n";
        match load_text(&format!("{rest}store: {store}"), folder.path(), "test.yaml") {
            Ok(loaded) => loaded.warnings.iter().map(|warning| warning.line("")).filter(|line| line.contains("store")).collect(),
            Err(faults) => faults.to_string().lines().map(str::to_owned).collect(),
        }
    }

    #[test]
    fn what_is_wrong_is_told_where_it_stands() {
        let cases = [
            ("{sealingKeyFile: key, redis: {}}", "exactly one of"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', cluster: ['b:1']}}", "exactly one of"),
            ("{file: d, sealingKeyFile: key, redis: {address: '127.0.0.1:6379'}}", "`file` or `redis`"),
            ("{redis: {address: '127.0.0.1:6379'}}", "`store.sealingKeyFile` is missing"),
            ("{sealingKeyFile: bad}", "a sealing key is 32 bytes"),
            ("{sealingKeyFile: empty}", "a sealing key is 32 bytes"),
            ("{sealingKeyFile: key, redis: {address: 'redis://a:1'}}", "without a scheme"),
            ("{sealingKeyFile: key, redis: {address: 'a'}}", "`host:port`"),
            ("{sealingKeyFile: key, redis: {address: '::1:6379'}}", "`host:port`"),
            ("{sealingKeyFile: key, redis: {cluster: ['a:1', 'b:0']}}", "store.redis.cluster[1]"),
            ("{sealingKeyFile: key, redis: {cluster: ['a:1'], database: 1}}", "database 0 only"),
            ("{sealingKeyFile: key, redis: {sentinel: {addresses: [], name: x}}}", "at least one sentinel"),
            ("{sealingKeyFile: key, redis: {sentinel: {addresses: ['a:1'], name: ''}}}", "call the primary"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', password: x, passwordFile: key}}", "`password` or `passwordFile`"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', passwordFile: absent}}", "can not be read"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', passwordFile: empty}}", "it is empty"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', tls: {certificateFile: key}}}", "`certificateFile` and `keyFile`"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', prefix: 'a{b}'}}", "store.redis.prefix"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', deadlineMilliseconds: 5}}", "100 to 30000"),
            ("{sealingKeyFile: key, redis: {address: 'a:1', database: 256}}", "at most 255"),
        ];
        for (store, expected) in cases {
            let told = told(store);
            assert!(told.iter().any(|line| line.contains(expected)), "{store}: {told:?}");
        }
    }

    #[test]
    fn what_is_right_is_taken_and_what_may_be_lost_is_told() {
        assert!(told("{sealingKeyFile: two}").is_empty());
        assert!(told("{sealingKeyFile: key, redis: {sentinel: {addresses: ['127.0.0.1:26379'], name: denizen}}}").is_empty());
        assert!(told("{sealingKeyFile: key, redis: {cluster: ['127.0.0.1:7001'], tls: {}}}").is_empty());
        let one = told("{sealingKeyFile: key, redis: {address: '127.0.0.1:6379'}}");
        assert!(one.iter().any(|line| line.contains("may be lost")), "{one:?}");
        let far = told("{sealingKeyFile: key, redis: {cluster: ['redis.example:6379']}}");
        assert!(far.iter().any(|line| line.contains("in the clear")), "{far:?}");
    }
}
