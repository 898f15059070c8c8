//! Those who have signed in, found where there is no directory.

use super::*;
use crate::directory::PeoplePage;

#[tokio::test]
async fn each_tenant_finds_its_own() {
    let house = Plan::default().build().await;
    for (subject, name, tenant) in [("s1", "Jane", "acme"), ("s2", "joe", "acme"), ("s3", "jane", "globex")] {
        house.enter(&at_sso(subject, name, tenant), None, NOW).await;
    }
    assert_eq!(house.names("acme", "", NOW).await, ["Jane", "joe"]);
    assert_eq!(house.names("acme", "JAN", NOW).await, ["Jane"], "without regard to case");
    assert_eq!(house.names("acme", "joe@sso", NOW).await, ["joe"], "by e-mail address");
    assert_eq!(house.names("globex", "jane", NOW).await, ["jane"]);
    assert!(house.names("globex", "joe", NOW).await.is_empty());
    assert!(house.names("acme", "j*", NOW).await.is_empty());
    let jane = house.admit(&at_sso("s3", "jane", "globex")).await.unwrap();
    let id = jane.id().opaque_id();
    assert_eq!(house.people.get(&scope("globex"), id, NOW).await.unwrap(), Some(jane));
    assert_eq!(house.people.get(&scope("acme"), id, NOW).await.unwrap(), None, "another tenant's id is an unknown id");
}

#[tokio::test]
async fn pages_and_bounds() {
    let house = Plan::default().build().await;
    for n in 0..12 {
        house.enter(&at_sso(&format!("s{n}"), &format!("user{n:02}"), "acme"), None, NOW).await;
    }
    let mut search = Search { text: "user".to_owned(), limit: 5, after: None };
    let mut found = Vec::new();
    loop {
        let PeoplePage { people, next, truncated, incomplete } = house.people.search(&scope("acme"), &search, NOW).await.unwrap();
        assert!(!truncated && incomplete.is_empty());
        found.extend(people.iter().map(|person| person.username().to_owned()));
        search.after = next;
        if search.after.is_none() {
            break;
        }
    }
    assert_eq!(found, (0..12).map(|n| format!("user{n:02}")).collect::<Vec<_>>());
    let few = SearchConfig { results_most: 11, ..SearchConfig::default() };
    let people = People::new(Arc::clone(&house.admission), SignedInPeople::new(Arc::clone(&house.store) as _, Duration::days(90)), few);
    let page = people.search(&scope("acme"), &Search { text: String::new(), limit: 50, after: None }, NOW).await.unwrap();
    assert!(page.truncated && page.people.len() == 11);
}

#[tokio::test]
async fn who_was_not_seen_for_long_is_forgotten_and_seeing_them_keeps_them() {
    let house = Plan::default().build().await;
    let at = |days: i64| NOW + Duration::days(days);
    house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await;
    house.enter(&at_sso("s2", "bea", "acme"), Some("first"), NOW).await;
    let first = house.records("acme", Kind::Person, NOW).await;
    // Within a day nothing is written, unless something has changed.
    house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW + HOUR).await;
    assert_eq!(house.records("acme", Kind::Person, NOW).await, first);
    house.enter(&at_sso("s1", "anna", "acme"), Some("first"), NOW + HOUR * 2).await;
    assert_eq!(house.names("acme", "", NOW + HOUR * 2).await, ["anna", "bea"]);
    // A renewal is a seeing too.
    let bea = house.enter(&at_sso("s2", "bea", "acme"), Some("first"), at(80)).await;
    house.provider.will_say(Says::Still(Some(at_sso("s2", "beatrice", "acme")), None));
    house.sessions.renew(&bea, at(80) + HOUR).await.unwrap();
    assert_eq!(house.names("acme", "", at(89)).await, ["anna", "beatrice"]);
    assert_eq!(house.names("acme", "", at(91)).await, ["beatrice"]);
    assert!(house.names("acme", "", at(171)).await.is_empty());
}

#[tokio::test]
async fn who_is_of_another_tenant_now_is_not_found_in_the_old_one() {
    let house = Plan::default().build().await;
    let ann = house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await;
    house.provider.will_say(Says::Unavailable);
    drop(house.sessions.renew(&ann, NOW + HOUR).await);
    assert_eq!(house.names("acme", "ann", NOW + HOUR).await, ["ann"], "it could not be told");
    house.provider.will_say(Says::Gone);
    drop(house.sessions.renew(&ann, NOW + HOUR).await);
    assert_eq!(house.names("acme", "ann", NOW + HOUR).await, ["ann"], "a refusal may mean that a session ended there, and no more");
    let ann = house.enter(&at_sso("s1", "ann", "acme"), Some("second"), NOW + HOUR).await;
    house.provider.will_say(Says::Still(Some(at_sso("s1", "ann", "globex")), None));
    drop(house.sessions.renew(&ann, NOW + HOUR * 2).await);
    assert!(house.names("acme", "ann", NOW + HOUR * 2).await.is_empty());
}

#[tokio::test]
async fn whoever_is_found_is_admitted_by_the_configuration_of_this_moment() {
    let house = Plan::default().build().await;
    house.enter(&at_sso("s1", "ann", "acme"), None, NOW).await;
    for plan in [Plan { sso_disabled: true, ..Plan::default() }, Plan { joined: true, ..Plan::default() }] {
        let changed = plan.over(Arc::clone(&house.store)).await;
        assert!(changed.names("acme", "", NOW).await.is_empty());
        let id = house.admit(&at_sso("s1", "ann", "acme")).await.unwrap().id().opaque_id();
        assert_eq!(changed.people.get(&scope("acme"), id, NOW).await.unwrap(), None);
    }
    assert_eq!(house.names("acme", "", NOW).await, ["ann"]);
}

#[tokio::test]
async fn t04_a_record_in_the_wrong_tenant_shows_no_one() {
    let house = Plan::default().build().await;
    house.enter(&at_sso("s1", "ann", "acme"), None, NOW).await;
    let (id, entry) = house.records("acme", Kind::Person, NOW).await.remove(0);
    let key = Key::new(&TenantId::parse("globex").unwrap(), Kind::Person, id.clone());
    house.store.commit(Batch::new().put(key, entry.value, None), NOW).await.unwrap();
    assert!(house.names("globex", "", NOW).await.is_empty());
    assert_eq!(house.people.get(&scope("globex"), id.parse().unwrap(), NOW).await.unwrap(), None);
}

#[tokio::test]
async fn one_broken_record_does_not_hide_the_others() {
    let house = Plan::default().build().await;
    house.enter(&at_sso("s1", "ann", "acme"), None, NOW).await;
    let key = Key::new(&TenantId::parse("acme").unwrap(), Kind::Person, "00000000-broken");
    house.store.commit(Batch::new().put(key, b"{".to_vec(), None), NOW).await.unwrap();
    assert_eq!(house.names("acme", "", NOW).await, ["ann"]);
}
