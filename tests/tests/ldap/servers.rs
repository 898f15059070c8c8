//! Servers: TLS, failover, silence, and those that cheat.

use std::{path::PathBuf, sync::Arc, time::Duration};

use connectors::ConnectorError;
use denizen_tests::{
    authority::Authority,
    ports,
    slapd::{
        Reading, Slapd,
        content::{PASSWORD, PEOPLE},
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{Corp, configured};

/// Whatever it waits for must end; this is no measurement.
async fn ends<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it ends")
}

#[tokio::test]
async fn tls_starttls_and_plain_all_work() {
    let slapd = Slapd::start().await;
    let tls = |_: &mut Value| {};
    let start_tls = |config: &mut Value| {
        config["url"] = slapd.ldap_url().into();
        config["startTls"] = true.into();
    };
    let plain = |config: &mut Value| {
        config["url"] = slapd.ldap_url().into();
        config["allowPlain"] = true.into();
    };
    for corp in [Corp::new(&slapd, tls), Corp::new(&slapd, start_tls), Corp::new(&slapd, plain)] {
        assert!(corp.finds_joe().await.unwrap());
        assert!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().is_some());
        assert!(corp.sign_in(Some(&corp.acme), "joe", "wrong").await.unwrap().is_none());
    }
    let unsaid = configured(&slapd, |config| config["url"] = slapd.ldap_url().into());
    let faults = Corp::build(&unsaid, Some("ou"), false, ("acme", "globex")).map(|_| ()).unwrap_err();
    assert_eq!(faults[0].0, "url", "plain must be asked for");
}

#[tokio::test]
async fn t26_the_host_name_and_the_authority_must_be_right() {
    let slapd = Slapd::start().await;
    let folder = tempfile::tempdir().unwrap();
    let other = Authority::new("Another authority").write(&folder.path().join("other.pem"));
    let cases: [(String, bool, &PathBuf); 4] = [
        (slapd.wrongly_named_url(), false, slapd.ca_path()),
        (slapd.wrongly_named_ldap_url(), true, slapd.ca_path()),
        (slapd.ldaps_url(), false, &other),
        (slapd.ldap_url(), true, &other),
    ];
    for (url, start_tls, ca) in cases {
        let corp = Corp::new(&slapd, |config| {
            config["url"] = url.clone().into();
            config["startTls"] = start_tls.into();
            config["caFile"] = json!(ca);
        });
        for result in [corp.finds_joe().await, corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.map(|user| user.is_some())] {
            let Err(ConnectorError::Unavailable(why)) = result else { panic!("{url}: {result:?}") };
            assert!(why.contains("certificate"), "{why}");
        }
    }
}

/// Answers every StartTLS request with `answer`, and gives back what came after it on the first connection.
async fn false_server(answer: &'static [u8]) -> (String, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ldap://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 512];
        let length = stream.read(&mut request).await.unwrap();
        let oid = b"1.3.6.1.4.1.1466.20037";
        assert!(request[..length].windows(oid.len()).any(|part| part == oid), "the first request is StartTLS");
        stream.write_all(answer).await.unwrap();
        let mut rest = Vec::new();
        _ = stream.read_to_end(&mut rest).await;
        rest
    });
    (url, task)
}

#[tokio::test]
async fn t26_starttls_that_is_stripped_is_not_done_without() {
    let slapd = Slapd::start().await;
    // ExtendedResponse: protocolError; unavailable; and a success after which the server goes on in plain.
    let answers: [(&'static [u8], &str); 3] = [
        (b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x02\x04\x00\x04\x00", "refuses StartTLS"),
        (b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x34\x04\x00\x04\x00", "refuses StartTLS"),
        (b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00\x30\x0c\x02\x01\x02\x61\x07\x0a\x01\x00\x04\x00\x04\x00", "127.0.0.1"),
    ];
    for (answer, expected) in answers {
        let (url, server) = false_server(answer).await;
        let corp = Corp::new(&slapd, |config| {
            config["url"] = url.into();
            config["startTls"] = true.into();
            config["connectTimeoutSeconds"] = 0.5.into();
        });
        let error = ends(corp.finds_joe()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        drop(corp);
        let sent = ends(server).await.unwrap();
        // A TLS record (ClientHello: 0x16) may follow the false success; no bind and no password ever does.
        assert!(sent.first().is_none_or(|byte| *byte == 0x16), "{sent:?}");
        assert!(!sent.windows(10).any(|part| part == b"reads-only"));
    }
}

#[tokio::test]
async fn the_accounts_own_credential_is_the_operators_matter() {
    let slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |config| config["bindPassword"] = "wrong".into());
    assert!(matches!(corp.finds_joe().await, Err(ConnectorError::Refused(_))));
    assert!(
        matches!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await, Err(ConnectorError::Refused(_))),
        "and not a wrong password of joe's"
    );
    let corp = Corp::new(&slapd, |config| config["userSearch"]["base"] = "ou=nowhere,dc=denizen,dc=test".into());
    assert!(matches!(corp.finds_joe().await, Err(ConnectorError::Unusable(_))), "a base that is not there is not an empty one");
}

#[tokio::test]
async fn searches_may_be_anonymous() {
    let anonymous = |config: &mut Value| {
        let config = config.as_object_mut().unwrap();
        config.remove("bindDn");
        config.remove("bindPassword");
    };
    let closed = Slapd::start().await;
    assert!(Corp::new(&closed, anonymous).finds_joe().await.is_err(), "this server lets the account only");

    let open = Slapd::start_with(Reading::Anyone).await;
    let corp = Corp::new(&open, anonymous);
    assert!(corp.finds_joe().await.unwrap());
    assert!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().is_some());
    // This server gives three entries to those who did not bind, and says so: they are shown, and said not to be all.
    let found = corp.fixture().search(&corp.acme, "", 5).await;
    assert_eq!((found.users.len(), found.truncated), (3, true));
}

#[tokio::test]
async fn another_server_stands_in_for_one_that_is_gone() {
    let mut first = Slapd::start().await;
    let second = Slapd::start().await;
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.pem");
    let pem = [first.ca_path(), second.ca_path()].map(|path| std::fs::read_to_string(path).unwrap()).concat();
    std::fs::write(&both, pem).unwrap();
    let dead = format!("ldaps://localhost:{}", ports::free());
    let corp = Corp::new(&first, |config| {
        config["urls"] = json!([dead, first.ldaps_url(), second.ldaps_url()]);
        config["caFile"] = json!(both);
        config["operationTimeoutSeconds"] = 1.into();
        config["connectTimeoutSeconds"] = 1.into();
        config.as_object_mut().unwrap().remove("url");
    });
    assert!(corp.finds_joe().await.unwrap(), "the first address is dead");
    assert!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().is_some());
    // The kept connections go with the server; the next call is answered by another.
    first.stop();
    assert!(ends(corp.finds_joe()).await.unwrap());
    assert!(ends(corp.sign_in(Some(&corp.acme), "joe", PASSWORD)).await.unwrap().is_some());
    // One that falls silent costs the call that finds it out.
    first.restart().await;
    second.freeze();
    assert!(ends(corp.finds_joe()).await.is_err());
    assert!(ends(corp.finds_joe()).await.unwrap());
    second.thaw();
}

#[tokio::test]
async fn a_restart_of_the_server_is_not_noticed() {
    let mut slapd = Slapd::start().await;
    let corp = Corp::new(&slapd, |_| {});
    for _ in 0..3 {
        assert!(corp.finds_joe().await.unwrap());
        assert!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().is_some());
        slapd.restart().await;
    }
    assert!(corp.finds_joe().await.unwrap());
}

#[tokio::test]
async fn t28_a_silent_server_is_given_up() {
    let slapd = Slapd::start().await;
    let corp = Arc::new(Corp::new(&slapd, |config| {
        config["operationTimeoutSeconds"] = 0.5.into();
        config["connectTimeoutSeconds"] = 0.5.into();
    }));
    assert!(corp.finds_joe().await.unwrap());
    assert!(corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.unwrap().is_some());
    slapd.freeze();
    // First with kept connections, then with new ones; many at once, more than there are connections.
    for _ in 0..2 {
        let tasks: Vec<_> = (0..20)
            .map(|turn| {
                let corp = Arc::clone(&corp);
                tokio::spawn(async move {
                    if turn % 2 == 0 {
                        corp.finds_joe().await
                    } else {
                        corp.sign_in(Some(&corp.acme), "joe", PASSWORD).await.map(|user| user.is_some())
                    }
                })
            })
            .collect();
        for task in tasks {
            let result = ends(task).await.unwrap();
            assert!(matches!(result, Err(ConnectorError::Unavailable(_))), "silence is not a no: {result:?}");
        }
    }
    slapd.thaw();
    assert!(ends(corp.finds_joe()).await.unwrap());
    assert!(ends(corp.sign_in(Some(&corp.acme), "joe", PASSWORD)).await.unwrap().is_some());
}

#[tokio::test]
async fn t28_a_referral_is_not_followed() {
    let slapd = Slapd::start().await;
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let reference = |dn: String| {
        let url = format!("ldap://{}/ou=people,dc=denizen,dc=test", elsewhere.local_addr().unwrap());
        (dn, vec![("objectClass", texts(&["referral", "extensibleObject"])), ("ou", texts(&["elsewhere"])), ("ref", vec![url])])
    };
    slapd.add(reference(format!("ou=elsewhere,{PEOPLE}"))).await;
    let corp = Corp::new(&slapd, |_| {});
    assert!(ends(corp.finds_joe()).await.unwrap(), "references among the entries are passed over");
    assert!(ends(corp.sign_in(Some(&corp.acme), "joe", PASSWORD)).await.unwrap().is_some());
    // The base itself is elsewhere.
    let corp = Corp::new(&slapd, |config| config["userSearch"]["base"] = format!("ou=elsewhere,{PEOPLE}").into());
    assert!(matches!(ends(corp.finds_joe()).await, Err(ConnectorError::Unusable(_))));
    assert!(tokio::time::timeout(Duration::from_millis(200), elsewhere.accept()).await.is_err(), "no one came to the other server");
}
