//! Sign-outs that a provider tells of (OpenID Connect Back-Channel Logout 1.0).

use denizen_tests::{
    Browser,
    browser::code,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    jwt,
    process::PATIENCE,
};
use serde_json::json;

use super::{House, is_signed_out};

/// The provider tells while its own page is being answered, or a moment later.
async fn becomes_signed_out(browser: &mut Browser) {
    let begun = std::time::Instant::now();
    while browser.get("/account").await.status != 303 {
        assert!(begun.elapsed() < PATIENCE, "still signed in");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_sign_out_at_the_provider_ends_that_session_and_no_other() {
    let Some(house) = House::start().await else { return };
    let (provider, service, request) = (&house.providers.acme, house.service(), house.request("acme-sso"));
    let (mut first, mut second) = (house.browser(), house.browser());
    let mut tokens = Vec::new();
    for browser in [&mut first, &mut second] {
        let answer = house.try_sign_in_with(browser, &request, "jane").await;
        tokens.push(service.exchange(&request, &code(&answer)).await);
    }
    let others = house.sign_in("globex-sso", "jane").await;
    provider.sign_out(&mut first).await;
    becomes_signed_out(&mut first).await;
    assert_eq!(service.try_refresh("at-acme-sso", tokens[0].refresh()).await.expect(400).error(), "invalid_grant");
    assert_eq!(service.review(REVIEWER_TOKEN, tokens[0].access(), &[KUBERNETES]).await["authenticated"], false);
    // Jane's other browser, and the other jane.
    second.get("/account").await.expect(200);
    service.refresh("at-acme-sso", tokens[1].refresh()).await;
    service.refresh("at-globex-sso", others.refresh()).await;
    assert!(!provider.log().contains("backchannel.error"), "{}", provider.log());
}

#[tokio::test]
async fn t21_a_logout_token_that_the_provider_did_not_sign_is_refused() {
    let Some(house) = House::start().await else { return };
    let mut browser = house.browser();
    let answer = house.try_sign_in_with(&mut browser, &house.request("acme-sso"), "jane").await;
    assert!(!code(&answer).is_empty());
    #[expect(clippy::disallowed_methods, reason = "the program under test runs on the machine's clock")]
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    let claims = json!({
        "iss": house.providers.acme.issuer(), "sub": "1", "aud": house.providers.acme.connector("x")["clientId"], "iat": now,
        "exp": now + 60, "jti": "forged", "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    });
    let unsigned = jwt::es256(&json!({"alg": "none", "typ": "logout+jwt"}), &claims);
    let unsigned = format!("{}.", unsigned.rsplit_once('.').unwrap().0);
    let forged = [
        unsigned,
        jwt::es256(&json!({"alg": "ES256", "typ": "logout+jwt"}), &claims),
        jwt::hmac(&json!({"alg": "HS256", "typ": "logout+jwt"}), &claims, b"secret"),
        String::new(),
        "nonsense".to_owned(),
    ];
    for token in forged {
        let door = house.service().at("/login/acme-sso/backchannel-logout");
        let request = house.service().http().post(door).form(&[("logout_token", token.as_str())]);
        house.service().send(request).await.expect(400);
    }
    browser.get("/account").await.expect(200);
    is_signed_out(&mut house.browser()).await;
}
