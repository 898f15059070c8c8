//! Who someone is whom one upstream proved and whose directory is another one.

use super::*;
use crate::login::SessionError;

async fn joined() -> House {
    Plan { joined: true, ..Plan::default() }.build().await
}

#[tokio::test]
async fn the_person_is_the_directorys() {
    let house = joined().await;
    house.book.with("acme", "s1", in_book("c1", "ann-of-corp", "acme"));
    house.book.with("globex", "s1", in_book("c2", "not-ann", "globex"));
    let identity = house.admit(&at_sso("s1", "ann", "acme")).await.unwrap();
    assert_eq!((identity.connector(), identity.subject().as_str(), identity.username()), (&id("corp"), "c1", "ann-of-corp"));
    // t55: nothing of what the upstream says but the proof.
    assert_eq!((identity.groups(), identity.email()), (["corp-staff".to_owned()].as_slice(), Some("ann-of-corp@corp.example")));
    let found = house.people.get(&scope("acme"), identity.id().opaque_id(), NOW).await.unwrap();
    assert_eq!(found.as_ref(), Some(&identity), "a look-up finds the same person");
}

#[tokio::test]
async fn no_one_two_or_another_tenants_is_no_one() {
    let house = joined().await;
    house.book.with("globex", "s1", in_book("c1", "ann", "globex"));
    house.book.with("acme", "s2", in_book("c2", "bea", "acme"));
    house.book.with("acme", "s2", in_book("c3", "bob", "acme"));
    // A directory that answers with someone of another tenant.
    house.book.with("acme", "s3", in_book("c4", "eve", "globex"));
    for subject in ["s0", "s1", "s2", "s3"] {
        let refused = house.admit(&at_sso(subject, "ann", "acme")).await;
        assert!(matches!(refused, Err(AdmissionError::JoinNoOne { .. })), "{subject}: {refused:?}");
    }
}

#[tokio::test]
async fn t06_only_a_plain_text_is_looked_for_and_nothing_else_links() {
    let house = joined().await;
    let ann = in_book("c1", "ann", "acme");
    house.book.with("acme", "", ann.clone());
    house.book.with("acme", "7", ann.clone());
    house.book.with("acme", "a\0", ann.clone());
    house.book.with("acme", " ", ann.clone());
    let long = "x".repeat(256);
    house.book.with("acme", "ann@corp.example", ann);
    for ext in [json!(null), json!(""), json!(" "), json!(7), json!(["7"]), json!("a\0"), json!(long)] {
        let said = user("s1", json!({ "preferred_username": "ann", "tenant_id": "acme", "email": "ann@corp.example", "ext": ext }));
        let refused = house.admit(&said).await;
        assert!(matches!(refused, Err(AdmissionError::JoinClaim(_))), "{ext}: {refused:?}");
    }
    let without = user("s1", json!({ "preferred_username": "ann", "tenant_id": "acme", "email": "ann@corp.example" }));
    assert!(matches!(house.admit(&without).await, Err(AdmissionError::JoinClaim(_))));
}

#[tokio::test]
async fn t56_a_tenants_connector_joins_no_one() {
    let house = Plan { joined: true, sso_is_tenants: true, ..Plan::default() }.build().await;
    house.book.with("acme", "s1", in_book("c1", "ann", "acme"));
    let refused = house.admit(&at_sso("s1", "ann", "acme")).await;
    assert!(matches!(refused, Err(AdmissionError::Rejected(claims_mapping::Rejection::ConnectorNotAllowed(_)))), "{refused:?}");
}

#[tokio::test]
async fn a_disabled_tenant_and_no_tenant_are_refused_before_anyone_is_looked_for() {
    let house = Plan { joined: true, globex_disabled: true, ..Plan::default() }.build().await;
    house.book.is_down.store(true, Ordering::Relaxed);
    for tenant in ["globex", "none", ""] {
        let refused = house.admit(&at_sso("s1", "ann", tenant)).await;
        assert!(matches!(refused, Err(AdmissionError::Rejected(_))), "{tenant}: {refused:?}");
    }
}

#[tokio::test]
async fn a_directory_that_could_not_tell_is_no_no() {
    let house = joined().await;
    house.book.with("acme", "s1", in_book("c1", "ann", "acme"));
    let said = at_sso("s1", "ann", "acme");
    let ann = house.enter(&said, Some("first"), NOW).await;
    house.book.is_down.store(true, Ordering::Relaxed);
    let refused = house.admit(&said).await.unwrap_err();
    assert!(refused.could_not_tell(), "{refused}");
    let later = NOW + HOUR;
    house.provider.will_say(Says::Still(Some(said), Some("second")));
    assert!(matches!(house.sessions.renew(&ann, later).await, Err(SessionError::Directory(_))));
    house.book.is_down.store(false, Ordering::Relaxed);
    // What could not be told is asked again at once, with the token that the upstream gave meanwhile.
    house.sessions.renew(&ann, later).await.unwrap();
    assert_eq!(house.provider.asked(), ["first", "second"]);
}

#[tokio::test]
async fn a_renewal_asks_both() {
    let house = joined().await;
    house.book.with("acme", "s1", in_book("c1", "ann", "acme"));
    house.book.with("acme", "s2", in_book("c2", "bea", "acme"));
    let ann = house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await;
    // The upstream says only that they still are; the directory is asked by its own subject.
    house.sessions.renew(&ann, NOW + HOUR).await.unwrap();
    // The upstream speaks of them anew.
    house.provider.will_say(Says::Still(Some(at_sso("s1", "renamed", "acme")), None));
    let (_, identity) = house.sessions.renew(&ann, NOW + HOUR * 2).await.unwrap();
    assert_eq!(identity.username(), "ann");
    house.book.without("s1");
    assert!(matches!(house.sessions.renew(&ann, NOW + HOUR * 3).await, Err(SessionError::Vanished)), "gone from the directory");

    let bea = house.enter(&at_sso("s2", "bea", "acme"), Some("first"), NOW).await;
    house.book.with("acme", "s1", in_book("c1", "ann", "acme"));
    let now_someone_else = user("s2", json!({ "preferred_username": "bea", "tenant_id": "acme", "ext": "s1" }));
    house.provider.will_say(Says::Still(Some(now_someone_else), None));
    assert!(matches!(house.sessions.renew(&bea, NOW + HOUR).await, Err(SessionError::Vanished)), "the claim names someone else now");
    assert!(matches!(house.sessions.find(&bea, NOW + HOUR).await, Err(SessionError::Ended)));
}

#[tokio::test]
async fn a_join_that_is_given_up_ends_its_sessions() {
    let house = joined().await;
    house.book.with("acme", "s1", in_book("c1", "ann", "acme"));
    let ann = house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await;
    let apart = Plan::default().over(Arc::clone(&house.store)).await;
    apart.book.with("acme", "s1", in_book("c1", "ann", "acme"));
    assert!(matches!(apart.sessions.find(&ann, NOW).await, Err(SessionError::NoLonger(_))));
}
