//! The web's dialog for sharing: whom it finds, in which form it asks, and who is never shown.

use denizen_tests::{
    Configuration,
    cs3::{
        rpc::Code,
        user::{FindUsersRequest, GetUserByClaimRequest, GetUserRequest, UserId, user_api_client::UserApiClient},
    },
    reva::{of_type, query, with},
    slapd::content::{ACME, PASSWORD, PEOPLE, person, person_dn, uuid},
};
use serde_json::json;

use super::{Door, NOBODY, id, names};

#[tokio::test]
async fn the_webs_dialog_finds_colleagues_in_its_own_quotes() {
    let door = Door::of_file().await;
    for reva in [door.socket().await, door.tcp().await] {
        let (acme, globex) = (door.session("jane@acme").await, door.session("jane@globex").await);
        for text in ["\"jane\"", "jane", "\"Jane Jo\"", "JANE"] {
            assert_eq!(reva.search(&acme.token, text).await.unwrap(), ["jane@acme"], "{text}");
            assert_eq!(reva.search(&globex.token, text).await.unwrap(), ["jane@globex"], "{text}");
        }
        // What an administrator's page asks without a text.
        for all in ["", "\"\""] {
            assert_eq!(reva.search(&acme.token, all).await.unwrap(), ["alice@acme", "bob@acme", "jane@acme"], "sorted by username");
            assert_eq!(reva.search(&globex.token, all).await.unwrap(), ["hank@globex", "jane@globex"]);
        }
        assert_eq!(names(&reva.find_users(Some(&acme.token), &[]).await.unwrap()), ["alice@acme", "bob@acme", "jane@acme"]);
        for text in [id(&acme), "jane@acme", "jane@acme.example"] {
            assert_eq!(reva.search(&acme.token, text).await.unwrap(), ["jane@acme"], "{text}");
            assert!(reva.search(&globex.token, text).await.unwrap().is_empty(), "{text}");
        }
        assert!(reva.search(&acme.token, "hank").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn every_filter_counts() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    let find = async |filters: &[_]| {
        let found = reva.find_users(Some(&jane.token), filters).await.map_err(|refusal| refusal.cs3())?;
        Ok::<_, Code>(found.into_iter().map(|user| user.username).collect::<Vec<_>>())
    };
    let (people, federated) = (of_type(1), of_type(6));
    assert_eq!(find(&[query("a"), query("archer")]).await.unwrap(), ["alice@acme"]);
    assert_eq!(find(&[query("archer"), query("a")]).await.unwrap(), ["alice@acme"], "in any order");
    assert!(find(&[query("jane"), query("alice")]).await.unwrap().is_empty(), "the second counts as the first");
    assert!(find(&[query("alice"), query("jane")]).await.unwrap().is_empty());
    assert_eq!(find(&[people.clone(), query("alice")]).await.unwrap(), ["alice@acme"]);
    assert_eq!(find(std::slice::from_ref(&people)).await.unwrap().len(), 3);
    for filters in [vec![federated.clone()], vec![query("jane"), federated.clone()], vec![people.clone(), federated]] {
        assert!(find(&filters).await.unwrap().is_empty(), "{filters:?}");
    }
    let mut misfit = query("jane");
    misfit.r#type = people.r#type;
    for filters in [vec![misfit.clone()], vec![query("jane"), misfit], vec![query("jane"), Default::default()]] {
        assert_eq!(find(&filters).await, Err(Code::InvalidArgument), "{filters:?}: never passed over");
    }
}

#[tokio::test]
async fn a_search_has_a_least_length_and_is_cut_with_ok() {
    let door = Door::open(Configuration::default(), &json!({"searchLeastCharacters": 3, "results": 2})).await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    for short in ["", "\"\"", "ja", "\"ja\"", "  a "] {
        assert_eq!(reva.search(&jane.token, short).await.unwrap_err().cs3(), Code::InvalidArgument, "{short:?}");
    }
    assert_eq!(reva.search(&jane.token, "jan").await.unwrap(), ["jane@acme"]);
    assert_eq!(reva.search(&jane.token, "acme").await.unwrap(), ["alice@acme", "bob@acme"], "of three, the first two by name");
    assert_eq!(reva.search(&jane.token, &"a".repeat(129)).await.unwrap_err().cs3(), Code::InvalidArgument);
}

#[tokio::test]
async fn groups_are_left_out_where_the_caller_says_so() {
    let (_slapd, door) = Door::of_directory().await;
    let jane = door.session("jane@acme").await;
    let mut client = UserApiClient::new(door.socket().await.channel());
    for (skip_fetching_user_groups, has_groups) in [(false, true), (true, false)] {
        let filters = vec![query("jane")];
        let found =
            client.find_users(with(Some(&jane.token), FindUsersRequest { filters, skip_fetching_user_groups, ..Default::default() }));
        let found = found.await.unwrap().into_inner().users;
        let user_id = Some(UserId { opaque_id: uuid(1), ..UserId::default() });
        let by_id = client.get_user(with(None, GetUserRequest { user_id, skip_fetching_user_groups, ..Default::default() }));
        let by_id = by_id.await.unwrap().into_inner().user.unwrap();
        let (claim, value) = ("username".to_owned(), "jane@acme".to_owned());
        let by_name = client.get_user_by_claim(with(None, GetUserByClaimRequest { claim, value, skip_fetching_user_groups, opaque: None }));
        let by_name = by_name.await.unwrap().into_inner().user.unwrap();
        assert_eq!(found.len(), 1);
        for user in [&found[0], &by_id, &by_name] {
            assert_eq!(user.username, "jane@acme");
            assert_eq!(!user.groups.is_empty(), has_groups, "{user:?}");
        }
        if has_groups {
            assert_eq!((&found[0].groups, &by_name.groups), (&by_id.groups, &by_id.groups), "the same by each way");
        }
    }
}

#[tokio::test]
async fn a_real_directory_finds_the_callers_tenant_alone_and_nobody_who_is_disabled() {
    let (_slapd, door) = Door::of_directory().await;
    let (acme, globex) = (door.session("jane@acme").await, door.session("jane@globex").await);
    let reva = door.socket().await;
    assert_eq!(reva.search(&acme.token, "\"doe\"").await.unwrap(), ["jane@acme", "joe@acme"]);
    assert_eq!(reva.search(&globex.token, "\"roe\"").await.unwrap(), ["greta@globex", "jane@globex"]);
    assert!(reva.search(&globex.token, "doe").await.unwrap().is_empty());
    let everyone = reva.search(&acme.token, "").await.unwrap();
    assert_eq!(everyone, ["a*b@acme", "back\\slash@acme", "jane@acme", "joe@acme", "p(q@acme", "r)s@acme"]);
    // dora is disabled: her neighbours are found, and she is not, by any call.
    assert!(reva.search(&acme.token, "dora").await.unwrap().is_empty());
    for token in [None, Some(acme.token.as_str())] {
        assert_eq!(reva.user(token, &uuid(7)).await.unwrap_err().cs3(), Code::NotFound);
        assert_eq!(reva.user_by_claim(token, "userid", &uuid(7)).await.unwrap_err().cs3(), Code::NotFound);
        assert_eq!(reva.user_by_claim(token, "username", "dora@acme").await.unwrap_err().cs3(), Code::NotFound);
    }
    assert_eq!(reva.user_by_claim(Some(&acme.token), "mail", "dora@acme.example").await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.groups_of(Some(&acme.token), &uuid(7)).await.unwrap_err().cs3(), Code::NotFound);
    // Someone who is switched off while they are known is so for as long as `cache.seconds` says, and no longer; see `outages`.
    assert_eq!(reva.user(Some(&acme.token), &uuid(3)).await.unwrap().username, "joe@acme");
}

#[tokio::test]
async fn names_that_opencloud_would_take_for_something_else_are_no_ones() {
    let (slapd, door) = Door::of_directory().await;
    // OpenCloud's machine login is `<claim>:<value>`, and graph takes a name before an id.
    let odd = [("ja:ne", 50), (NOBODY, 51), ("right", 52)];
    for (uid, number) in odd {
        slapd.add(person(&format!("uid={uid},ou=acme,{PEOPLE}"), uid, "Odd Name", number, &[ACME], PASSWORD)).await;
    }
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    assert_eq!(reva.search(&jane.token, "Odd Name").await.unwrap(), ["right@acme"]);
    for (uid, number) in &odd[..2] {
        assert_eq!(reva.user_by_claim(None, "username", &format!("{uid}@acme")).await.unwrap_err().cs3(), Code::NotFound, "{uid}");
        assert_eq!(reva.user_by_claim(None, "username", uid).await.unwrap_err().cs3(), Code::NotFound, "{uid}");
        assert_eq!(reva.user(Some(&jane.token), &uuid(*number)).await.unwrap_err().cs3(), Code::NotFound, "{uid}");
        let mail = denizen_tests::slapd::content::mail(uid, "acme");
        assert_eq!(reva.user_by_claim(Some(&jane.token), "mail", &mail).await.unwrap_err().cs3(), Code::NotFound, "{uid}");
    }
    assert_eq!(reva.user(Some(&jane.token), &uuid(52)).await.unwrap().username, "right@acme");
    // A name with another tenant's ending within it is its own tenant's still.
    slapd
        .add(person(&person_dn("globex", "joe@acme"), "joe@acme", "Not Joe", 53, &[denizen_tests::slapd::content::GLOBEX], PASSWORD))
        .await;
    assert_eq!(id(&door.session("joe@acme").await), uuid(3));
    assert_eq!(id(&door.session("joe@acme@globex").await), uuid(53));
}
