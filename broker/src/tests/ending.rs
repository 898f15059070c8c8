//! The end of a session, where others write it at the same moment and the store leaves it in doubt.

use super::*;
use crate::{
    login::{SessionError, client_record, session_key},
    store::stand_in::Fate,
};

async fn ann(house: &House) -> SignedIn {
    house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await
}

async fn knows(house: &House, session: &SignedIn, client: &str) {
    let (key, value, until) = client_record(session, client, Uuid::from_u128(7), (NOW + HOUR).unix_timestamp());
    house.store.commit(Batch::new().put(key, value, until), NOW).await.unwrap();
}

async fn told(house: &House) -> Vec<String> {
    let page = house.store.list(&Partition::System, Kind::LogoutNotice, None, 1_000, NOW).await.unwrap();
    let client = |entry: &Entry| serde_json::from_slice::<Value>(&entry.value).unwrap()["client_id"].as_str().unwrap().to_owned();
    page.entries.iter().map(|(_, entry)| client(entry)).collect()
}

#[tokio::test]
async fn an_end_in_doubt_is_asked_for_again_and_done_to_its_end() {
    for fate in [Fate::Unanswered, Fate::Lost] {
        let house = Plan::default().build().await;
        let ann = ann(&house).await;
        // The look for clients comes before the end; this one was given its tokens in between.
        house.store.will(Kind::Session, fate);
        assert!(house.sessions.end(&ann, NOW).await.is_err(), "it could not be told");
        knows(&house, &ann, "late").await;
        let other = Plan::default().over(Arc::clone(&house.store)).await;
        assert_eq!(other.sessions.end(&ann, NOW).await.unwrap(), fate == Fate::Lost);
        assert!(matches!(house.sessions.find(&ann, NOW).await, Err(SessionError::Ended)));
        assert_eq!(told(&house).await, ["late"], "no client is left out");
        assert!(house.records("acme", Kind::SessionClient, NOW).await.is_empty());
    }
}

#[tokio::test]
async fn an_end_that_is_late_ends_it_and_a_renewal_that_is_late_brings_nothing_back() {
    let house = Plan::default().build().await;
    let ann = ann(&house).await;
    let after = NOW + Duration::minutes(10);
    let promoted = user("s1", json!({ "preferred_username": "ann", "tenant_id": "acme", "groups": ["owners"] }));
    house.provider.will_say(Says::Still(Some(promoted), None));
    house.store.will(Kind::Session, Fate::Late);
    assert!(matches!(house.sessions.renew_and_keep(&ann, after).await, Err(SessionError::Store(_))));
    assert!(house.sessions.end(&ann, after).await.unwrap());
    assert_eq!(house.store.late_ones_arrive().await, [Outcome::Conflict]);
    assert!(matches!(house.sessions.find(&ann, after).await, Err(SessionError::Ended)));

    let ann = self::ann(&house).await;
    house.store.will(Kind::Session, Fate::Late);
    assert!(house.sessions.end(&ann, NOW).await.is_err());
    house.sessions.find(&ann, NOW).await.unwrap();
    assert_eq!(house.store.late_ones_arrive().await, [Outcome::Committed]);
    assert!(matches!(house.sessions.find(&ann, NOW).await, Err(SessionError::Ended)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_revives_a_session_that_ends_among_renewals_and_sign_ins() {
    for round in 0..20 {
        let one = Arc::new(Plan::default().build().await);
        let other = Arc::new(Plan::default().over(Arc::clone(&one.store)).await);
        let ann = ann(&one).await;
        let after = NOW + Duration::minutes(10);
        let busy = (0..8).map(|n| {
            let (house, ann) = (Arc::clone(if n % 2 == 0 { &one } else { &other }), ann.clone());
            tokio::spawn(async move {
                if n < 4 {
                    drop(house.sessions.renew_and_keep(&ann, after).await);
                } else {
                    let said = at_sso("s1", "ann", "acme");
                    let (identity, mapped) = house.admission.admit(house.admission.connector("sso").unwrap(), &said, after).await.unwrap();
                    let session = UpstreamSession { sid: None, refresh_token: Some(Secret::new(format!("anew-{n}"))) };
                    let upstream = AtUpstream { connector: id("sso"), subject: said.subject.clone(), auth_time: None, session };
                    let entering = Entering { identity: &identity, mapped, upstream: Some(upstream) };
                    house.sessions.begin(entering, Some(&ann), after).await.unwrap();
                }
            })
        });
        let busy: Vec<_> = busy.collect();
        tokio::time::sleep(std::time::Duration::from_millis(round)).await;
        assert!(other.sessions.end(&ann, after).await.unwrap());
        assert!(one.store.get(&session_key(&ann), after).await.unwrap().is_none(), "at once");
        futures_util::future::join_all(busy).await.into_iter().for_each(|done| done.unwrap());
        assert!(one.store.get(&session_key(&ann), after).await.unwrap().is_none(), "and afterwards");
    }
}
