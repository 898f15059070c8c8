//! Signing out of OpenCloud: back to its page, and its proxy is told.

use denizen_tests::{Broker, LogoutReceiver, jwt};
use serde_json::json;

use super::{CLOUD, app, configuration, signed_in, verified, web};

fn logout(parameters: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    format!("/oauth2/logout?{}", query.extend_pairs(parameters).finish())
}

#[tokio::test]
async fn a_sign_out_leads_back_to_its_page() {
    let broker = Broker::start(configuration(CLOUD)).await;
    let (mut browser, tokens) = signed_in(&broker, &web(CLOUD), "acme", "jane").await;
    let path = logout(&[("id_token_hint", tokens.id()), ("post_logout_redirect_uri", "https://cloud.example/")]);
    let answer = browser.get(&path).await.expect(303);
    assert_eq!(answer.header("location"), "https://cloud.example/");
    broker.service().userinfo(tokens.access()).await.expect(401);
    let silent = web(CLOUD).with("prompt", "none");
    assert_eq!(denizen_tests::browser::returned(&browser.get(&silent.path()).await.expect(303), "error"), "login_required");
    for elsewhere in ["https://cloud.example", "https://cloud.example/x", "https://evil.example/", "oc://android.opencloud.eu"] {
        let path = logout(&[("id_token_hint", tokens.id()), ("post_logout_redirect_uri", elsewhere)]);
        assert_eq!(browser.get(&path).await.expect(400).header("location"), "", "{elsewhere}");
    }
}

#[tokio::test]
async fn the_proxy_is_told_with_a_signature_that_it_takes() {
    for (algorithms, algorithm) in [(json!(["ES256"]), "ES256"), (json!(["EdDSA", "RS256"]), "RS256"), (json!(["EdDSA", "ES256"]), "ES256")]
    {
        let cloud = LogoutReceiver::start([]).await;
        let broker = Broker::start(configuration(cloud.origin()).with("/keys", json!({"algorithms": algorithms}))).await;
        let (mut browser, tokens) = signed_in(&broker, &web(cloud.origin()), "acme", "jane").await;
        // The desktop's session is its own, and goes on.
        let (_, desktop) = signed_in(&broker, &app("OpenCloudDesktop", "http://localhost:1"), "acme", "jane").await;
        let home = format!("{}/", cloud.origin());
        let path = logout(&[("id_token_hint", tokens.id()), ("post_logout_redirect_uri", &home)]);
        assert_eq!(browser.get(&path).await.expect(303).header("location"), home);

        let token = cloud.wait_for(1).await.remove(0);
        let claims = verified(&broker, &token).await;
        let access = jwt::claims(tokens.access());
        assert_eq!(
            (&claims["sub"], &claims["sid"]),
            (&access["sub"], &access["sid"]),
            "as the access token names them, which the proxy has"
        );
        assert_eq!(claims["events"], json!({"http://schemas.openid.net/event/backchannel-logout": {}}));
        assert_eq!((claims.get("nonce"), &claims["aud"]), (None, &json!("web")));
        for token in [token.as_str(), tokens.access(), tokens.id()] {
            assert_eq!(jwt::header(token)["alg"], algorithm);
        }
        assert_eq!(cloud.tokens().len(), 1);
        broker.service().userinfo(desktop.access()).await.expect(200);
    }
}
