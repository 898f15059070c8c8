//! What is asked of the upstream that proved someone, and what its answer does to their session.

use super::*;
use crate::login::SessionError;

/// The time after so many seconds.
fn after(seconds: i64) -> OffsetDateTime {
    NOW + Duration::seconds(seconds)
}

async fn signed_in(house: &House) -> SignedIn {
    house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await
}

async fn ended(house: &House, signed_in: &SignedIn, now: OffsetDateTime) -> bool {
    matches!(house.sessions.find(signed_in, now).await, Err(SessionError::Ended))
}

#[tokio::test]
async fn t30_who_is_refused_at_a_renewal_loses_the_session_and_all_that_hangs_on_it() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    let (session, _) = house.sessions.find(&ann, NOW).await.unwrap();
    assert_eq!((session.via.as_ref(), session.auth_time), (Some(&id("sso")), NOW.unix_timestamp() - 60));
    let (offline, batch) = house.sessions.offline_copy(&session, &ann.tenant, Duration::days(14), NOW);
    house.store.commit(batch, NOW).await.unwrap();
    house.provider.will_say(Says::Gone);
    let refused = house.sessions.renew(&ann, after(600)).await;
    assert!(matches!(refused, Err(SessionError::Refused)), "{refused:?}");
    assert!(ended(&house, &ann, after(600)).await);
    // The offline session that shares it is not asked for once more: it ends too.
    let other = house.sessions.renew(&offline, after(600)).await;
    assert!(matches!(other, Err(SessionError::GrantLost)), "{other:?}");
    assert!(ended(&house, &offline, after(600)).await);
    assert_eq!(house.provider.asked(), ["first"]);
}

#[tokio::test]
async fn t10_a_tenant_that_has_changed_is_missing_or_doubled_ends_the_session() {
    let claims = |tenant: Value| user("s1", json!({ "preferred_username": "ann", "tenant_id": tenant }));
    let without = user("s1", json!({ "preferred_username": "ann" }));
    for said in [claims(json!("globex")), claims(json!(["acme", "globex"])), claims(json!("ACME")), claims(json!("")), without] {
        let house = Plan::default().build().await;
        let ann = signed_in(&house).await;
        house.provider.will_say(Says::Still(Some(said), None));
        let renewed = house.sessions.renew(&ann, after(600)).await;
        assert!(renewed.as_ref().is_err_and(SessionError::is_final), "{renewed:?}");
        assert!(ended(&house, &ann, after(600)).await);
        assert!(house.records("acme", Kind::UpstreamGrant, after(600)).await.is_empty(), "nothing is left to ask with");
        assert!(house.names("acme", "", after(600)).await.is_empty(), "who is no longer of the tenant is no longer found in it");
    }
}

#[tokio::test]
async fn t58_another_subject_is_another_person() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    house.provider.will_say(Says::Still(Some(at_sso("s2", "ann", "acme")), None));
    let renewed = house.sessions.renew(&ann, after(600)).await;
    assert!(matches!(renewed, Err(SessionError::Vanished)), "{renewed:?}");
    assert!(ended(&house, &ann, after(600)).await);
}

#[tokio::test]
async fn t09_a_connector_that_is_switched_off_ends_the_session_without_being_asked() {
    for joined in [false, true] {
        let house = Plan { joined, ..Plan::default() }.build().await;
        house.book.with("acme", "s1", in_book("c1", "ann-of-corp", "acme"));
        let ann = signed_in(&house).await;
        let off = Plan { joined, sso_disabled: true, ..Plan::default() }.over(Arc::clone(&house.store)).await;
        off.book.with("acme", "s1", in_book("c1", "ann-of-corp", "acme"));
        assert!(matches!(off.sessions.find(&ann, after(5)).await, Err(SessionError::NoLonger(_))));
        assert!(matches!(off.sessions.renew(&ann, after(600)).await, Err(SessionError::NoLonger(AdmissionError::NoConnector(_)))));
        assert!(ended(&off, &ann, after(600)).await);
        assert!(off.provider.asked().is_empty());
    }
}

#[tokio::test]
async fn t09_a_disabled_tenant_ends_the_session() {
    let house = Plan::default().build().await;
    let greta = house.enter(&at_sso("s9", "greta", "globex"), Some("first"), NOW).await;
    let off = Plan { globex_disabled: true, ..Plan::default() }.over(Arc::clone(&house.store)).await;
    assert!(matches!(off.sessions.find(&greta, after(5)).await, Err(SessionError::NoLonger(_))));
    assert!(matches!(off.sessions.renew(&greta, after(600)).await, Err(SessionError::NoLonger(_))));
}

#[tokio::test]
async fn an_upstream_that_could_not_tell_ends_nothing() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    house.provider.will_say(Says::Unavailable);
    assert!(matches!(house.sessions.renew(&ann, after(600)).await, Err(SessionError::Directory(_))));
    house.sessions.find(&ann, after(600)).await.unwrap();
    house.sessions.renew(&ann, after(601)).await.unwrap();
    assert_eq!(house.provider.asked(), ["first", "first"], "it is asked again at once");
}

#[tokio::test]
async fn what_was_heard_lately_stands_also_for_the_other_sessions_of_one_sign_in() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    let (session, _) = house.sessions.find(&ann, NOW).await.unwrap();
    let (offline, batch) = house.sessions.offline_copy(&session, &ann.tenant, Duration::days(14), NOW);
    house.store.commit(batch, NOW).await.unwrap();
    house.sessions.renew_and_keep(&ann, after(29)).await.unwrap();
    assert!(house.provider.asked().is_empty(), "the sign-in was a moment ago");
    let promoted = user("s1", json!({ "preferred_username": "ann", "tenant_id": "acme", "groups": ["owners"] }));
    house.provider.will_say(Says::Still(Some(promoted), None));
    house.sessions.renew_and_keep(&ann, after(30)).await.unwrap();
    let (_, identity) = house.sessions.renew_and_keep(&offline, after(59)).await.unwrap();
    assert_eq!(identity.groups(), ["owners"], "not what the offline session began with");
    assert_eq!(house.provider.asked().len(), 1);
    house.sessions.renew_and_keep(&ann, after(60)).await.unwrap();
    assert_eq!(house.provider.asked().len(), 2);
    let (_, identity) = house.sessions.find(&ann, after(60)).await.unwrap();
    assert_eq!(identity.groups(), ["owners"]);
}

#[tokio::test]
async fn renewals_at_once_ask_once_and_the_next_token_is_kept() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    house.provider.will_say(Says::Still(None, Some("second")));
    let all = futures_util::future::join_all((0..8).map(|_| house.sessions.renew_and_keep(&ann, after(600)))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(house.provider.asked(), ["first"]);
    house.sessions.renew(&ann, after(1_200)).await.unwrap();
    assert_eq!(house.provider.asked(), ["first", "second"]);
    for (_, entry) in house.records("acme", Kind::UpstreamGrant, after(1_200)).await {
        let text = String::from_utf8(entry.value).unwrap();
        assert!(!text.contains("first") && !text.contains("second"), "it lies sealed");
    }
}

#[tokio::test]
async fn a_token_that_the_store_did_not_take_is_not_lost() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    house.provider.will_say(Says::Still(None, Some("second")));
    house.store.refuses.store(true, Ordering::Relaxed);
    assert!(matches!(house.sessions.renew(&ann, after(600)).await, Err(SessionError::Store(_))), "it could not be told");
    house.store.refuses.store(false, Ordering::Relaxed);
    // It is saved as soon as the store takes it, and whoever asks meanwhile waits for that.
    house.sessions.renew(&ann, after(601)).await.unwrap();
    assert_eq!(house.provider.asked(), ["first"]);
    house.sessions.renew(&ann, after(700)).await.unwrap();
    assert_eq!(house.provider.asked(), ["first", "second"]);
    let restarted = Plan::default().over(Arc::clone(&house.store)).await;
    restarted.sessions.renew(&ann, after(800)).await.unwrap();
    assert_eq!(restarted.provider.asked(), ["second"]);
}

#[tokio::test]
async fn whoever_goes_away_does_not_stop_the_renewal() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    house.provider.will_say(Says::Still(None, Some("second")));
    let gone = tokio::time::timeout(std::time::Duration::from_millis(5), house.sessions.renew(&ann, after(600))).await;
    assert!(gone.is_err());
    house.sessions.renew(&ann, after(605)).await.unwrap();
    house.sessions.renew(&ann, after(700)).await.unwrap();
    assert_eq!(house.provider.asked(), ["first", "second"]);
}

#[tokio::test]
async fn without_a_refresh_token_the_sign_in_is_believed_for_so_long_and_no_longer() {
    let house = Plan { believed_seconds: Some(3_600), ..Plan::default() }.build().await;
    let ann = house.enter(&at_sso("s1", "ann", "acme"), None, NOW).await;
    let (session, _) = house.sessions.renew(&ann, after(3_599)).await.unwrap();
    assert_eq!(session.expires_at, after(3_600).unix_timestamp());
    let (offline, batch) = house.sessions.offline_copy(&session, &ann.tenant, Duration::days(14), after(3_599));
    house.store.commit(batch, after(3_599)).await.unwrap();
    let (mut copy, _) = house.sessions.renew(&offline, after(3_599)).await.unwrap();
    copy.extend(after(1_000_000));
    assert_eq!(copy.expires_at, after(3_600).unix_timestamp(), "no renewal of ours makes the upstream's word good for longer");
    for session in [&ann, &offline] {
        assert!(ended(&house, session, after(3_600)).await);
    }
    // A shorter belief in the configuration is one at once.
    let shorter = Plan { believed_seconds: Some(60), ..Plan::default() }.over(Arc::clone(&house.store)).await;
    let renewed = shorter.sessions.renew(&ann, after(60)).await;
    assert!(matches!(renewed, Err(SessionError::NoLongerBelieved)), "{renewed:?}");
    assert!(ended(&house, &ann, after(60)).await);
}

#[tokio::test]
async fn offline_sessions_are_asked_for_as_long_as_they_last() {
    let house = Plan { believed_seconds: Some(90 * 86_400), ..Plan::default() }.build().await;
    for token in [Some("first"), None] {
        let ann = house.enter(&at_sso("s1", "ann", "acme"), token, NOW).await;
        let (session, _) = house.sessions.find(&ann, NOW).await.unwrap();
        let at = |days: i64| NOW + Duration::days(days);
        let (offline, batch) = house.sessions.offline_copy(&session, &ann.tenant, Duration::days(14), after(600));
        house.store.commit(batch, after(600)).await.unwrap();
        // The sign-out takes nothing from it.
        assert!(house.sessions.end(&ann, after(700)).await.unwrap());
        for days in [13, 26, 39, 52] {
            let (mut copy, _) = house.sessions.renew(&offline, at(days)).await.unwrap();
            copy.extend(at(days + 14));
            let written = house.store.commit(house.sessions.write(&offline, &copy), at(days)).await.unwrap();
            assert_eq!(written, Outcome::Committed);
        }
        if token.is_some() {
            house.provider.will_say(Says::Gone);
            assert!(matches!(house.sessions.renew(&offline, at(65)).await, Err(SessionError::Refused)));
        } else {
            assert!(house.sessions.renew(&offline, at(65)).await.is_ok());
        }
    }
}

#[tokio::test]
async fn a_sign_out_leaves_nothing_to_ask_with() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    assert_eq!(house.records("acme", Kind::UpstreamGrant, NOW).await.len(), 1);
    assert!(house.sessions.end(&ann, NOW).await.unwrap());
    assert!(house.records("acme", Kind::UpstreamGrant, NOW).await.is_empty());
    assert!(!house.sessions.end(&ann, NOW).await.unwrap(), "it has ended already");
}

#[tokio::test]
async fn a_new_sign_in_of_the_same_person_replaces_what_there_was_to_ask_with() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    let said = at_sso("s1", "ann", "acme");
    let (identity, mapped) = house.admission.admit(house.admission.connector("sso").unwrap(), &said, after(100)).await.unwrap();
    let session = UpstreamSession { sid: None, refresh_token: Some(Secret::new("anew".to_owned())) };
    let upstream =
        AtUpstream { connector: id("sso"), subject: said.subject.clone(), auth_time: Some(after(9_999).unix_timestamp()), session };
    let entering = Entering { identity: &identity, mapped, upstream: Some(upstream) };
    assert_eq!(house.sessions.begin(entering, Some(&ann), after(100)).await.unwrap(), ann, "the session goes on");
    let (session, _) = house.sessions.renew(&ann, after(600)).await.unwrap();
    assert_eq!(session.auth_time, after(100).unix_timestamp(), "a proof is not of the future");
    assert_eq!(house.provider.asked(), ["anew"]);
    assert_eq!(house.records("acme", Kind::UpstreamGrant, after(600)).await.len(), 1);
}

#[tokio::test]
async fn another_sealing_key_ends_what_was_sealed() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    let other = Plan { sealing_key: 1, ..Plan::default() }.over(Arc::clone(&house.store)).await;
    assert!(matches!(other.sessions.renew(&ann, after(600)).await, Err(SessionError::GrantLost)));
    assert!(ended(&other, &ann, after(600)).await);
    assert!(other.provider.asked().is_empty());
}

#[tokio::test]
async fn a_record_that_is_carried_to_another_tenant_does_not_open() {
    let house = Plan::default().build().await;
    let (ann, greta) = (signed_in(&house).await, house.enter(&at_sso("s9", "greta", "globex"), Some("other"), NOW).await);
    let (own, foreign) = (house.records("acme", Kind::UpstreamGrant, NOW).await, house.records("globex", Kind::UpstreamGrant, NOW).await);
    let key = Key::new(&greta.tenant, Kind::UpstreamGrant, foreign[0].0.clone());
    house.store.commit(Batch::new().put(key, own[0].1.value.clone(), None), NOW).await.unwrap();
    assert!(matches!(house.sessions.renew(&greta, after(600)).await, Err(SessionError::GrantLost)));
    assert!(house.sessions.renew(&ann, after(600)).await.is_ok());
    assert_eq!(house.provider.asked(), ["first"]);
}

#[tokio::test]
async fn whoever_waits_and_goes_away_asks_nothing() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    let wait = |millis| std::time::Duration::from_millis(millis);
    // The first is at the upstream, which could not tell; a flood waits behind it, and no one stays to hear.
    house.provider.will_say(Says::Unavailable);
    let flood = (0..50).map(|_| tokio::time::timeout(wait(5), house.sessions.renew(&ann, after(600))));
    assert!(futures_util::future::join_all(flood).await.iter().all(Result::is_err));
    tokio::time::sleep(wait(100)).await;
    assert_eq!(house.provider.asked().len(), 1);
}

#[tokio::test]
async fn a_sign_in_meanwhile_outlives_the_end_of_the_one_before() {
    let house = Plan::default().build().await;
    let ann = signed_in(&house).await;
    house.provider.will_say(Says::Gone);
    let anew = async {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let user = at_sso("s1", "ann", "acme");
        let (identity, mapped) = house.admission.admit(house.admission.connector("sso").unwrap(), &user, after(600)).await.unwrap();
        let session = UpstreamSession { sid: None, refresh_token: Some(Secret::new("second".to_owned())) };
        let upstream = AtUpstream { connector: id("sso"), subject: user.subject.clone(), auth_time: None, session };
        let entering = Entering { identity: &identity, mapped, upstream: Some(upstream) };
        house.sessions.begin(entering, Some(&ann), after(600)).await.unwrap()
    };
    let (renewed, again) = tokio::join!(house.sessions.renew(&ann, after(600)), anew);
    assert_eq!(again, ann, "the session goes on");
    assert!(matches!(renewed, Err(SessionError::Store(_))), "{renewed:?}");
    house.sessions.find(&ann, after(600)).await.unwrap();
    assert_eq!(house.names("acme", "", after(600)).await, ["ann"]);
    house.sessions.renew(&ann, after(700)).await.unwrap();
    assert_eq!(house.provider.asked(), ["first", "second"]);
}
