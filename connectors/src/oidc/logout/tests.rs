use serde_json::json;

use super::*;
use crate::oidc::stand_in::{NOW, Signer, StandIn, at};

fn claims(stand_in: &StandIn, changes: &Value) -> Value {
    let mut whole = json!({
        "iss": stand_in.issuer, "aud": "denizen", "sub": "ada", "sid": "s-1", "jti": "j-1", "iat": NOW, "exp": NOW + 120,
        "events": {EVENT: {}},
    });
    for (name, value) in changes.as_object().unwrap() {
        whole[name] = value.clone();
    }
    whole.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    whole
}

#[tokio::test]
async fn t21_a_logout_token_must_be_genuine_and_one() {
    let (key, forger) = (Signer::es256("k1"), Signer::es256("k1"));
    let stand_in = StandIn::start(&[&key]).await;
    let notices = stand_in.connector().logout.unwrap();
    let outcome = async |token: &str| notices.verify(UnverifiedToken::new(token), at(0)).await.unwrap();
    let good = claims(&stand_in, &json!({}));
    let notice = outcome(&key.token_with(&json!({"typ": "logout+jwt"}), &good)).await.unwrap();
    assert_eq!((notice.subject.unwrap().as_str(), notice.sid.as_deref(), notice.jti.as_str()), ("ada", Some("s-1"), "j-1"));
    assert_eq!(notice.expires_at, NOW + 121);
    for typ in [json!(null), json!("JWT")] {
        assert!(outcome(&key.token_with(&json!({"typ": typ}), &good)).await.is_some(), "{typ}");
    }
    // One of the two is enough.
    assert!(outcome(&key.token(&claims(&stand_in, &json!({"sub": null})))).await.unwrap().subject.is_none());
    assert!(outcome(&key.token(&claims(&stand_in, &json!({"sid": null})))).await.unwrap().sid.is_none());

    let unsigned = key.token_with(&json!({"alg": "none"}), &good);
    let forged = [
        unsigned.clone(),
        format!("{}.", unsigned.rsplit_once('.').unwrap().0),
        forger.token(&good),
        key.token_with(&json!({"alg": "HS256"}), &good),
        key.token_with(&json!({"typ": "at+jwt"}), &good),
        key.token_with(&json!({"crit": ["x"]}), &good),
    ];
    for token in forged {
        assert!(outcome(&token).await.is_none());
    }
    for changes in [
        json!({"iss": "https://other.example"}),
        json!({"iss": null}),
        json!({"aud": "other"}),
        json!({"aud": null}),
        json!({"exp": NOW - 1}),
        json!({"exp": null}),
        json!({"iat": null}),
        json!({"iat": NOW - 601}),
        json!({"iat": NOW + 61}),
        json!({"jti": null}),
        json!({"jti": ""}),
        json!({"jti": 7}),
        json!({"jti": "x".repeat(256)}),
        json!({"events": null}),
        json!({"events": {}}),
        json!({"events": [EVENT]}),
        json!({"events": EVENT}),
        json!({"events": {EVENT: "yes"}}),
        json!({"events": {"http://schemas.openid.net/event/other": {}}}),
        json!({"nonce": "n"}),
        json!({"sub": null, "sid": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"sid": ""}),
        json!({"sid": ["s-1"]}),
    ] {
        assert!(outcome(&key.token(&claims(&stand_in, &changes))).await.is_none(), "{changes}");
    }
}

#[tokio::test]
async fn t21_a_notice_is_remembered_as_long_as_it_would_be_taken() {
    let key = Signer::es256("k1");
    let stand_in = StandIn::start(&[&key]).await;
    let notices = stand_in.connector().logout.unwrap();
    let token = key.token(&claims(&stand_in, &json!({"exp": NOW + 86_400})));
    let notice = notices.verify(UnverifiedToken::new(&token), at(0)).await.unwrap().unwrap();
    for second in [0, 300, 600] {
        assert!(notices.verify(UnverifiedToken::new(&token), at(second)).await.unwrap().is_some());
        assert!(notice.expires_at > NOW + second);
    }
    assert!(notices.verify(UnverifiedToken::new(&token), at(601)).await.unwrap().is_none());
}

#[tokio::test]
async fn t21_without_keys_nobody_can_tell() {
    let key = Signer::es256("k1");
    let stand_in = StandIn::start(&[&key]).await;
    stand_in.stop();
    let token = key.token(&claims(&stand_in, &json!({})));
    let outcome = stand_in.connector().logout.unwrap().verify(UnverifiedToken::new(&token), at(0)).await;
    assert!(matches!(outcome, Err(ConnectorError::Unavailable(_))), "{outcome:?}");
}
