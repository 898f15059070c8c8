//! A directory that is stopped, frozen and back again: what it said earlier within the grace, UNAVAILABLE otherwise, and never NOT_FOUND.

use std::time::{Duration, Instant};

use denizen_tests::{
    Reva,
    cs3::rpc::Code,
    reva::{Answered, query},
    slapd::content::{person_dn, uuid},
};
use serde_json::{Value, json};

use super::{Door, id};

const STALE: &str = "denizen_user_lookups_total{outcome=\"stale\"}";
const ASKED: &str = "denizen_user_lookups_total{outcome=\"asked\"}";
const UNAVAILABLE: &str = "denizen_user_lookups_total{outcome=\"unavailable\"}";
const PATIENCE: Duration = Duration::from_secs(30);

/// What is remembered for a second, and longer where the directory is silent.
fn brief(grace: u32) -> Value {
    json!({"cache": {"seconds": 1, "graceSeconds": grace}})
}

/// Asks until it holds; each answer is first shown to `seen`.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn code<T>(answer: Answered<T>) -> Option<Code> {
    answer.err().map(|refusal| refusal.cs3())
}

/// Every call about people and groups who are not remembered says that it could not be told.
async fn says_unavailable(reva: &Reva, token: &str, group: &str) {
    let told = [
        code(reva.user(None, &uuid(3)).await),
        code(reva.user(Some(token), &uuid(3)).await),
        code(reva.user_by_claim(None, "userid", &uuid(3)).await),
        code(reva.user_by_claim(None, "username", "joe@acme").await),
        code(reva.user_by_claim(None, "username", "never-seen@acme").await),
        code(reva.user_by_claim(Some(token), "mail", "joe@acme.example").await),
        code(reva.user_by_claim(Some(token), "uid", "1000").await),
        code(reva.groups_of(Some(token), &uuid(3)).await),
        code(reva.find_users(Some(token), &[query("jo")]).await),
        code(reva.find_users(Some(token), &[]).await),
        code(reva.find_groups(Some(token), Default::default()).await),
        code(reva.group(Some(token), group).await),
        code(reva.members(Some(token), group).await),
        code(reva.has_member(Some(token), group, &uuid(3)).await),
    ];
    assert!(told.iter().all(|told| *told == Some(Code::Unavailable)), "{told:?}");
}

/// Records joe's id, without anything of him being remembered.
async fn record_joe(reva: &Reva, token: &str) {
    use denizen_tests::cs3::user::{FindUsersRequest, user_api_client::UserApiClient};
    let request = FindUsersRequest { filters: vec![query("joe")], skip_fetching_user_groups: true, opaque: None };
    let found = UserApiClient::new(reva.channel()).find_users(denizen_tests::reva::with(Some(token), request)).await;
    assert_eq!(found.unwrap().into_inner().users.len(), 1);
}

#[tokio::test]
async fn a_stopped_directory_is_answered_stale_within_the_grace_and_never_not_found() {
    let (mut slapd, door) = Door::of_directory_with(brief(600)).await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    record_joe(&reva, &jane.token).await;
    assert_eq!(door.count(STALE).await, 0);
    slapd.stop();
    // The proxy's call goes on being answered, from what is remembered, then stale.
    until(async || {
        assert_eq!(reva.sign_in(id(&jane), super::SECRET).await.unwrap().user, jane.user);
        door.count(STALE).await > 2
    })
    .await;
    assert_eq!(reva.user_by_claim(None, "username", "jane@acme").await.unwrap(), jane.user);
    let before = door.count(UNAVAILABLE).await;
    says_unavailable(&reva, &jane.token, &jane.user.groups[0]).await;
    assert!(door.count(UNAVAILABLE).await > before);
    // What needs no directory is answered: someone whose id has no record is known to be no one.
    assert_eq!(code(reva.user(None, super::NOBODY).await), Some(Code::NotFound));
    assert_eq!(reva.tenant(Some(&jane.token), "acme").await.unwrap().id, "acme");

    slapd.restart().await;
    until(async || match code(reva.user(None, &uuid(3)).await) {
        None => true,
        told => {
            assert_eq!(told, Some(Code::Unavailable));
            false
        }
    })
    .await;
    assert_eq!(reva.search(&jane.token, "doe").await.unwrap(), ["jane@acme", "joe@acme"]);
    // Fresh again: what changes there shows.
    slapd.modify(&person_dn("acme", "jane"), "displayName", &["Jane After All"]).await;
    until(async || reva.sign_in(id(&jane), super::SECRET).await.unwrap().user.display_name == "Jane After All").await;
    let stale = door.count(STALE).await;
    assert_eq!(reva.user(None, id(&jane)).await.unwrap().display_name, "Jane After All");
    assert_eq!(door.count(STALE).await, stale);
}

#[tokio::test]
async fn t28_a_frozen_directory_holds_no_call_for_longer_than_its_deadline() {
    let (slapd, door) = Door::of_directory_with(brief(600)).await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    record_joe(&reva, &jane.token).await;
    slapd.freeze();
    until(async || {
        let begun = Instant::now();
        assert_eq!(reva.sign_in(id(&jane), super::SECRET).await.unwrap().user, jane.user);
        assert!(begun.elapsed() < Duration::from_secs(2), "the proxy waits {:?}", begun.elapsed());
        door.count(STALE).await > 2
    })
    .await;
    let begun = Instant::now();
    assert_eq!(code(reva.user(None, &uuid(3)).await), Some(Code::Unavailable));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    says_unavailable(&reva, &jane.token, &jane.user.groups[0]).await;
    slapd.thaw();
    until(async || match code(reva.user(None, &uuid(3)).await) {
        None => true,
        told => {
            assert_eq!(told, Some(Code::Unavailable));
            false
        }
    })
    .await;
    assert_eq!(reva.user_by_claim(None, "username", "joe@acme").await.unwrap().username, "joe@acme");
}

#[tokio::test]
async fn without_a_grace_an_outage_is_told_at_once() {
    let (mut slapd, door) = Door::of_directory_with(brief(0)).await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    slapd.stop();
    until(async || match code(reva.sign_in(id(&jane), super::SECRET).await) {
        None => false,
        told => {
            assert_eq!(told, Some(Code::Unavailable));
            true
        }
    })
    .await;
    assert_eq!(door.count(STALE).await, 0);
    slapd.restart().await;
    until(async || reva.sign_in(id(&jane), super::SECRET).await.is_ok()).await;
}

#[tokio::test]
async fn who_is_deleted_or_disabled_is_gone_when_the_time_is_over_and_the_grace_keeps_no_one() {
    let (mut slapd, door) = Door::of_directory_with(brief(600)).await;
    let (jane, joe) = (door.session("jane@acme").await, door.session("joe@acme").await);
    let reva = door.socket().await;
    let (by_id, by_name) = (
        async |id: &str| code(reva.user_by_claim(None, "userid", id).await),
        async |name: &str| code(reva.user_by_claim(None, "username", name).await),
    );
    // The directory answers, and says no: the grace is for silence only.
    slapd.modify(&person_dn("acme", "joe"), "openCloudUserEnabled", &["FALSE"]).await;
    // Past the time that he is remembered, and without a question in between that would renew it.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    until(async || {
        let asked = door.count(ASKED).await;
        let told = by_id(id(&joe)).await;
        assert!(told == Some(Code::NotFound) || door.count(ASKED).await == asked, "it was asked, and its answer is not given");
        told == Some(Code::NotFound)
    })
    .await;
    assert_eq!(by_name("joe@acme").await, Some(Code::NotFound));
    // And it stays so in an outage: that there is no one is not remembered, so that it can not be told.
    assert_eq!(by_id(id(&jane)).await, None);
    slapd.stop();
    until(async || {
        assert_eq!(by_id(id(&jane)).await, None);
        door.count(STALE).await > 0
    })
    .await;
    assert_eq!(by_id(id(&joe)).await, Some(Code::Unavailable));
    // Who was answered stale and is deleted when it is back is gone, and not answered stale once more.
    slapd.restart().await;
    slapd.delete(&person_dn("acme", "jane")).await;
    until(async || by_id(id(&jane)).await == Some(Code::NotFound)).await;
    for _ in 0..5 {
        assert_eq!(by_id(id(&jane)).await, Some(Code::NotFound));
        assert_eq!(by_name("jane@acme").await, Some(Code::NotFound));
    }
}
