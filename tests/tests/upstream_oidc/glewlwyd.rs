//! A second provider, which is not the one that everything else is tested with: ES256, no `iss` in its answers, no ID token at a
//! renewal, `auth_time` zero.

use denizen_tests::{ClockedBroker, Glewlwyd, browser::code, jwt};
use serde_json::json;

use super::{configuration, request};

#[tokio::test]
async fn t09_glewlwyds_person_signs_in_and_is_renewed_until_she_is_gone() {
    let glewlwyd = Glewlwyd::start().await;
    let mut connector = glewlwyd.connector("glewlwyd");
    connector["tenant"] = json!({"fixed": "globex"});
    let broker = ClockedBroker::start(configuration(std::slice::from_ref(&connector))).await;
    glewlwyd.register_at(broker.issuer(), &connector).await;
    let mut browser = broker.browser().visiting(&glewlwyd.issuer());
    let request = request(broker.issuer(), "glewlwyd");
    let page = browser.open(&request.path()).await;
    let answer = glewlwyd.sign_in(&mut browser, &page).await;
    let service = broker.service();
    let mut tokens = service.exchange(&request, &code(&answer)).await;
    let claims = jwt::claims(tokens.access());
    assert_eq!((&claims["tenant_id"], &claims["preferred_username"]), (&json!("globex"), &json!("gwen")));
    assert_eq!(service.userinfo(tokens.access()).await.expect(200).json()["email"], "gwen@globex.example");
    for _ in 0..2 {
        broker.pass(31);
        tokens = service.refresh("at-glewlwyd", tokens.refresh()).await;
        assert_eq!(jwt::claims(tokens.access())["sub"], claims["sub"]);
    }
    glewlwyd.remove().await;
    broker.pass(31);
    // Glewlwyd says 400 without saying why, which is not what a provider says of someone who is gone (RFC 6749, 5.2): the broker
    // may take it for a fault. It gives nothing either way.
    let answer = service.try_refresh("at-glewlwyd", tokens.refresh()).await;
    assert!([400, 503].contains(&answer.status), "{}: {}", answer.status, answer.text);
}
