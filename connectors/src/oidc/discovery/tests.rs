use serde_json::json;

use super::*;
use crate::oidc::{
    plan::Plan,
    stand_in::{Answer, Signer, StandIn, at, jwks},
};

const DOCUMENT: &str = "/.well-known/openid-configuration";

fn provider(stand_in: &StandIn) -> Provider {
    let Plan { issuer, document, algorithms, http, .. } = Plan::new(&stand_in.config()).unwrap();
    Provider::new(&ConnectorId::parse("sso").unwrap(), Source { issuer, document, algorithms, http })
}

fn changed(stand_in: &StandIn, name: &str, value: &str) -> Answer {
    let mut document = stand_in.document();
    document[name] = value.into();
    Answer::json(&document)
}

async fn settle() {
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}

#[tokio::test]
async fn nothing_is_asked_before_it_is_needed_and_then_once() {
    let stand_in = StandIn::start(&[&Signer::es256("k1")]).await;
    let provider = provider(&stand_in);
    assert_eq!(stand_in.count(DOCUMENT), 0);
    for second in 0..5 {
        let metadata = provider.metadata(at(second)).await.unwrap();
        assert_eq!(metadata.token_endpoint().unwrap().path(), "/token");
        assert_eq!(metadata.authorization_endpoint().unwrap().path(), "/authorize");
        assert_eq!(metadata.userinfo_endpoint().unwrap().unwrap().path(), "/me");
        assert!(metadata.sends_iss);
        assert!(provider.keys(Some("k1"), at(second)).await.unwrap().has("k1"));
    }
    assert_eq!((stand_in.count(DOCUMENT), stand_in.count("/keys")), (1, 1));
}

#[tokio::test]
async fn a_document_of_another_issuer_is_not_taken() {
    let stand_in = StandIn::start(&[]).await;
    for issuer in [format!("{}/", stand_in.issuer), "https://evil.example".to_owned(), stand_in.issuer.to_uppercase()] {
        stand_in.answer(DOCUMENT, changed(&stand_in, "issuer", &issuer));
        let error = provider(&stand_in).metadata(at(0)).await.unwrap_err();
        assert!(matches!(&error, ConnectorError::Unusable(why) if why.contains("another `issuer`")), "{error}");
    }
}

#[tokio::test]
async fn t22_keys_at_a_metadata_address_or_without_tls_are_not_fetched() {
    let stand_in = StandIn::start(&[]).await;
    for (uri, why) in [
        ("http://169.254.169.254/latest/meta-data", "must be https"),
        ("https://169.254.169.254/keys", "not a public address"),
        ("https://[fd00:ec2::254]/keys", "not a public address"),
        ("https://[::ffff:10.0.0.1]/keys", "not a public address"),
        ("https://2130706434/keys", "not a public address"),
        ("http://sso.example/keys", "must be https"),
        ("file:///etc/passwd", "no host"),
        ("gopher://sso.example/keys", "must be https"),
    ] {
        stand_in.answer(DOCUMENT, changed(&stand_in, "jwks_uri", uri));
        let error = provider(&stand_in).keys(None, at(0)).await.unwrap_err().to_string();
        assert!(error.contains(why), "{uri}: {error}");
    }
    // A name that leads inside: found when it is resolved.
    let port = stand_in.issuer.rsplit(':').next().unwrap();
    let mut config = stand_in.config();
    config.allowed_networks.clear();
    config.issuer.url = format!("http://localhost:{port}");
    let Plan { issuer, document, algorithms, http, .. } = Plan::new(&config).unwrap();
    let provider = Provider::new(&ConnectorId::parse("sso").unwrap(), Source { issuer, document, algorithms, http });
    let error = provider.metadata(at(0)).await.unwrap_err();
    assert!(matches!(&error, ConnectorError::Unusable(why) if why.contains("not a public address")), "{error}");
    assert_eq!(stand_in.count("/keys"), 0);
}

#[tokio::test]
async fn t22_redirects_are_not_followed() {
    let stand_in = StandIn::start(&[&Signer::es256("k1")]).await;
    for status in [301, 302, 303, 307, 308] {
        stand_in.answer(DOCUMENT, Answer::Plain(status, "Location: /elsewhere\r\n", String::new()));
        let error = provider(&stand_in).metadata(at(0)).await.unwrap_err();
        assert!(matches!(&error, ConnectorError::Unusable(why) if why.contains("redirects are not followed")), "{error}");
    }
    stand_in.answer(DOCUMENT, Answer::json(&stand_in.document()));
    stand_in.answer("/keys", Answer::Plain(302, "Location: /elsewhere\r\n", String::new()));
    assert!(provider(&stand_in).keys(None, at(0)).await.is_err());
    assert_eq!(stand_in.count("/elsewhere"), 0);
}

#[tokio::test]
async fn answers_are_bounded() {
    let stand_in = StandIn::start(&[]).await;
    stand_in.answer(DOCUMENT, Answer::Endless);
    let error = provider(&stand_in).metadata(at(0)).await.unwrap_err().to_string();
    assert!(error.contains("larger than 524288 bytes"), "{error}");
    stand_in.answer(DOCUMENT, Answer::Plain(200, "", " ".repeat(600_000)));
    assert!(provider(&stand_in).metadata(at(0)).await.unwrap_err().to_string().contains("larger"));
    stand_in.answer(DOCUMENT, Answer::Silent);
    let begun = std::time::Instant::now();
    let error = provider(&stand_in).metadata(at(0)).await.unwrap_err();
    assert!(matches!(&error, ConnectorError::Unavailable(why) if why.contains("no answer in time")), "{error}");
    assert!((3..6).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    stand_in.answer(DOCUMENT, Answer::json(&stand_in.document()));
    stand_in.answer("/keys", Answer::json(&json!({"keys": vec![json!({"kty": "RSA"}); 101]})));
    let error = provider(&stand_in).keys(None, at(0)).await.unwrap_err().to_string();
    assert!(error.contains("more than 100 keys"), "{error}");
}

#[tokio::test]
async fn a_provider_that_is_down_costs_one_fetch_in_five_seconds_and_its_keys_stay() {
    let stand_in = StandIn::start(&[&Signer::es256("k1")]).await;
    let up = provider(&stand_in);
    up.keys(Some("k1"), at(0)).await.unwrap();
    stand_in.stop();
    let down = provider(&stand_in);
    for tenth in 0..100 {
        let error = down.metadata(at(tenth / 10)).await.unwrap_err();
        assert!(matches!(error, ConnectorError::Unavailable(_)), "{error}");
    }
    assert_eq!(stand_in.count(DOCUMENT), 1 + 2);
    for minute in (0..24 * 60).step_by(10) {
        assert!(up.keys(Some("k1"), at(minute * 60)).await.unwrap().has("k1"), "minute {minute}");
    }
    let error = up.keys(Some("k1"), at(24 * 3_600 + 1)).await.unwrap_err();
    assert!(matches!(error, ConnectorError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn t19_ten_thousand_unknown_kids_cost_one_fetch_in_ten_seconds() {
    let stand_in = StandIn::start(&[&Signer::es256("k1")]).await;
    let provider = provider(&stand_in);
    provider.keys(Some("k1"), at(0)).await.unwrap();
    for number in 0..10_000 {
        let keys = provider.keys(Some(&format!("../unknown-{number}")), at(5 + number / 1_000)).await.unwrap();
        assert!(!keys.has(&format!("../unknown-{number}")));
    }
    assert_eq!(stand_in.count("/keys"), 2, "at 0 and at 10");
    // All at once, while nothing answers: one, and nobody is told that the key is unknown.
    stand_in.stop();
    let all = (0..200).map(|number| async move { format!("unknown-{number}") });
    let all = futures_util::future::join_all(all).await;
    let all = all.iter().map(|kid| provider.keys(Some(kid), at(30)));
    assert!(futures_util::future::join_all(all).await.iter().all(|outcome| matches!(outcome, Err(ConnectorError::Unavailable(_)))));
    assert_eq!(stand_in.count("/keys"), 3);
    assert!(provider.keys(Some("k1"), at(31)).await.is_ok());
}

#[tokio::test]
async fn a_new_key_is_found_and_a_removed_one_is_dropped_when_the_set_ends() {
    let (old, new) = (Signer::es256("old"), Signer::es256("new"));
    let stand_in = StandIn::start(&[&old]).await;
    let provider = provider(&stand_in);
    provider.keys(Some("old"), at(0)).await.unwrap();
    stand_in.answer("/keys", Answer::Plain(200, "Cache-Control: public, max-age=600\r\n", jwks(&[&new]).to_string()));
    let keys = provider.keys(Some("new"), at(60)).await.unwrap();
    assert!(keys.has("new") && !keys.has("old"));
    // Ten minutes of life: refreshed in the background in the last two.
    stand_in.answer("/keys", Answer::json(&jwks(&[&old, &new])));
    assert!(!provider.keys(None, at(60 + 590)).await.unwrap().has("old"));
    settle().await;
    assert!(provider.keys(None, at(60 + 591)).await.unwrap().has("old"));
}

#[test]
fn cache_control_is_read_within_bounds() {
    assert_eq!(max_age("max-age=600"), Some(Duration::minutes(10)));
    assert_eq!(max_age("public, Max-Age=\"60\", must-revalidate"), Some(Duration::minutes(1)));
    assert_eq!(max_age("no-store"), Some(Duration::ZERO));
    for none in ["", "private", "max-age=", "max-age=-1", "max-age=99999999999999", "s-maxage=5"] {
        assert_eq!(max_age(none), None, "{none}");
    }
}
