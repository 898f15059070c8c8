//! Over TLS, with tokens that Keystone signs: whom someone sees who has signed in, and whom nobody sees.

use denizen_tests::{
    Authority,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    keystone::{Settings, Tokens as Kind},
};

use super::*;

#[tokio::test]
async fn t02_t03_people_of_another_domain_are_no_ones_to_see_t51_and_signed_tokens_are_keystones_own() {
    let Some(keystone) = Keystone::start_with(Settings { tls: true, tokens: Kind::JsonWeb, ..Settings::default() }).await else { return };
    let mut connector = keystone.connector("cloud");
    assert!(connector["url"].as_str().unwrap().starts_with("https://") && connector["certificateAuthorityFile"].is_string());
    (connector["tenants"], connector["acceptTokens"]) = (json!(["acme", "globex"]), json!(true));
    let configuration = keystone.configuration(connector.clone()).with_client("web", "connectors", json!(["cloud"]));
    let broker = Broker::start(configuration.with("/reviewers/0/upstreamTokens", json!([{"connector": "cloud"}]))).await;
    let service = broker.service();
    let signed_in = async |tenant: &str| {
        let request = Authorization::for_search(broker.issuer()).with("tenant", tenant);
        let code = broker.browser().sign_in(&request, "jane", &password_of(tenant, "jane")).await;
        service.exchange(&request, &code).await
    };
    let (ours, theirs) = (signed_in("acme").await, signed_in("globex").await);

    let found = service.search(ours.access(), "/api/v1/users", "").await;
    assert!(found.contains(&"acme/john".to_owned()) && found.iter().all(|name| name.starts_with("acme/")), "{found:?}");
    assert!(!found.contains(&"acme/dora".to_owned()), "she is disabled");
    assert_eq!(service.search(theirs.access(), "/api/v1/users", "gina").await, ["globex/gina"]);
    assert!(service.search(ours.access(), "/api/v1/users", "gina").await.is_empty());
    let [our_id, their_id] = [&ours, &theirs].map(|tokens| jwt::claims(tokens.access())["sub"].as_str().unwrap().to_owned());
    let of = |id: &str| format!("/api/v1/users/{id}");
    assert_eq!(service.get_as(ours.access(), &of(&our_id)).await.expect(200).json()["username"], "jane");
    let absent = service.get_as(ours.access(), &of("1f0e8b5e-3c86-4d6a-9a57-2f43b0a4d0aa")).await.expect(404);
    for path in [of(&their_id), format!("/api/v1/tenants/globex/users/{their_id}"), "/api/v1/tenants/globex/users?search=".to_owned()] {
        assert_eq!(service.get_as(ours.access(), &path).await.expect(404).text, absent.text, "{path}");
    }
    for path in [of(&our_id), "/api/v1/users?search=".to_owned()] {
        service.get(&path).await.expect(401);
    }

    // Keystone's own JWS is known by its form; a person's token of ours is no business of Keystone's, and the other way round.
    let token = keystone.token("acme", "jane", Scope::Unscoped).await;
    let answer = service.review(REVIEWER_TOKEN, &token, &[KUBERNETES]).await;
    assert_eq!(answer["user"]["username"], "acme:jane", "{answer}");
    service.get_as(&token, "/api/v1/me").await.expect(401);
    let (signed, _) = token.rsplit_once('.').unwrap();
    for forged in [format!("{signed}.{}", "A".repeat(86)), format!("{signed}.")] {
        assert_eq!(service.review(REVIEWER_TOKEN, &forged, &[KUBERNETES]).await["authenticated"], false, "{forged}");
    }

    // Another authority has not signed this server: it could not be told, and no password went there.
    let folder = denizen_tests::folder::new("another-authority");
    connector["certificateAuthorityFile"] = json!(Authority::new("another").write(&folder.path().join("ca.pem")));
    let broker = Broker::start(keystone.configuration(connector).with_client("web", "connectors", json!(["cloud"]))).await;
    let request = Authorization::for_search(broker.issuer()).with("tenant", "acme");
    broker.browser().try_sign_in(&request, "jane", &password_of("acme", "jane")).await.expect(503);
}
