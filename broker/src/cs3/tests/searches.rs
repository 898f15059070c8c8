//! `FindUsers`: what OpenCloud's dialogs send.

use super::*;

#[tokio::test]
async fn texts_are_found_in_names_and_all_of_them_must_be() {
    let house = House::new().await;
    let jane = house.user(JANE, "acme").await;
    let everyone = ["jane@acme", "joe@acme", "zoe@acme"];
    for (texts, expected) in [
        (&[][..], &everyone[..]),
        (&[""], &everyone),
        (&["\"\""], &everyone),
        (&["", ""], &everyone),
        (&["JOE"], &["joe@acme"]),
        (&["\"joe\""], &["joe@acme"]),
        (&["oe", "z"], &["zoe@acme"]),
        (&["z", "oe"], &["zoe@acme"]),
        (&["jane", "joe"], &[]),
        (&["0a1b.example"], &["jane@acme", "joe@acme"]),
        (&["0a1b.example", "JOE OF"], &["joe@acme"]),
        (&[JOE], &["joe@acme"]),
        (&[JOE, "jane"], &[]),
        (&[JOE, "joe"], &["joe@acme"]),
        (&[GUS], &[]),
        (&["joe@acme"], &["joe@acme"]),
        (&["gus"], &[]),
        (&["gus@globex"], &[]),
        (&["*"], &[]),
        (&["j*e"], &[]),
    ] {
        assert_eq!(house.found(&jane, texts).await.unwrap(), expected, "{texts:?}");
    }
    let none = Cs3Search { texts: vec![String::new()], is_empty: true, skip_groups: false };
    assert!(house.cs3.find(&jane, &none, NOW).await.unwrap().is_empty(), "a kind of user that there is none of");
    assert_eq!(said(house.found(&jane, &["x"; 17]).await.map(|names| names.len())), "invalid");
    assert_eq!(said(house.found(&jane, &[&"x".repeat(321)]).await.map(|names| names.len())), "invalid");
}

#[tokio::test]
async fn an_answer_is_cut_at_its_bound_in_the_order_of_names_and_is_no_error() {
    let house = House::new().await;
    let few = house.changed(|configuration| {
        let users = configuration["connectors"][0]["users"].as_array_mut().unwrap();
        for (index, name) in ["Bob", "bob-2", "anna", "ANNE"].into_iter().enumerate() {
            users.push(json!({"id": format!("0a000000-0000-4000-8000-00000000010{index}"), "username": name, "tenant": "0a1b"}));
        }
        configuration["cs3"]["results"] = json!(4);
    });
    let few = few.await;
    let jane = few.user(JANE, "acme").await;
    assert_eq!(few.found(&jane, &[""]).await.unwrap(), ["anna@acme", "ANNE@acme", "bob-2@acme", "Bob@acme"]);
}

#[tokio::test]
async fn the_fewest_characters_are_those_of_the_longest_text() {
    let house = House::new().await;
    let least = house.changed(|configuration| configuration["cs3"]["searchLeastCharacters"] = json!(3)).await;
    let jane = least.user(JANE, "acme").await;
    for (texts, expected) in [
        (&["jo"][..], "invalid"),
        (&[""], "invalid"),
        (&[], "invalid"),
        (&["\"jo\""], "invalid"),
        (&["joe"], "1"),
        (&["j", "joe"], "1"),
        (&["é", "ééé"], "0"),
    ] {
        assert_eq!(said(least.found(&jane, texts).await.map(|names| names.len())), expected, "{texts:?}");
    }
}

#[tokio::test]
async fn a_whole_name_is_found_where_another_directory_is_silent() {
    let house = House::new().await;
    let domains = house.changed(|configuration| {
        configuration["tenants"][0]["emailDomains"] = json!(["0a1b.example"]);
        configuration["cs3"]["usernames"] = json!("domain");
    });
    let domains = domains.await;
    let jane = domains.user(JANE, "acme").await;
    domains.annex_is_down.store(true, Ordering::Relaxed);
    assert_eq!(domains.found(&jane, &["joe@0a1b.example"]).await.unwrap(), ["joe@0a1b.example"]);
    assert_eq!(said(domains.found(&jane, &["zoe@0a1b.example"]).await.map(|names| names.len())), "could not tell");
    // Of the one name it can still not be told whose it is.
    assert_eq!(domains.by_claim(&jane, "username", "joe@0a1b.example").await, "could not tell");
}

#[tokio::test]
async fn disabled_people_are_hidden_from_searches_and_look_ups() {
    let house = House::new().await;
    let off = house.changed(|configuration| configuration["connectors"][0]["users"][1]["disabled"] = json!(true)).await;
    let (jane, service) = (off.user(JANE, "acme").await, off.service().await);
    assert_eq!(off.found(&jane, &[""]).await.unwrap(), ["jane@acme", "zoe@acme"]);
    for caller in [&jane, &service] {
        assert_eq!(off.by_id(caller, JOE, "").await, "not found");
        assert_eq!(off.by_claim(caller, "username", "joe@acme").await, "not found");
    }
}

#[tokio::test]
async fn names_end_in_the_domain_where_they_should() {
    let house = House::new().await;
    let domains = house.changed(|configuration| {
        configuration["tenants"][0]["emailDomains"] = json!(["zz.example", "acme.example"]);
        configuration["cs3"]["usernames"] = json!("domain");
    });
    let domains = domains.await;
    let service = domains.service().await;
    assert_eq!(domains.by_id(&service, JANE, "").await, "jane@acme.example");
    assert_eq!(domains.by_id(&service, GUS, "").await, "gus@globex");
    assert_eq!(domains.by_claim(&service, "username", "jane@acme.example").await, "jane@acme.example");
    for other in ["jane@acme", "jane@zz.example", "gus@acme.example"] {
        assert_eq!(domains.by_claim(&service, "username", other).await, "not found", "{other}");
    }
}
