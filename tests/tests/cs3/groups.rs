//! Sharing with people and groups: the groups of a person are the ids that `GroupAPI` knows, within the tenant, nested ones too.

use std::collections::{BTreeMap, BTreeSet};

use denizen_tests::{
    Reva, RevaToken,
    cs3::{
        group::{Filter, FindGroupsRequest, GetGroupRequest, GroupId, filter, group_api_client::GroupApiClient},
        rpc::Code,
    },
    reva::with,
    slapd::content::{person_dn, uuid},
};

use super::{Door, NOBODY, SECRET, id};

/// The groups of someone, by name.
async fn groups_of(reva: &Reva, token: &str, user: &str) -> BTreeMap<String, String> {
    let mut named = BTreeMap::new();
    for group in reva.groups_of(Some(token), user).await.unwrap() {
        named.insert(reva.group(Some(token), &group).await.unwrap().group_name, group);
    }
    named
}

fn search(text: &str) -> FindGroupsRequest {
    let term = filter::Term::Query(text.to_owned());
    let filters = vec![Filter { r#type: filter::Type::Query.into(), term: Some(term) }];
    FindGroupsRequest { filters, ..FindGroupsRequest::default() }
}

async fn find(reva: &Reva, token: &str, text: &str) -> Vec<String> {
    reva.find_groups(Some(token), search(text)).await.unwrap().into_iter().map(|group| group.group_name).collect()
}

#[tokio::test]
async fn sharing_finds_a_colleague_and_their_groups_in_a_directory() {
    let (_slapd, door) = Door::of_directory().await;
    let (jane, theirs) = (door.session("jane@acme").await, door.session("jane@globex").await);
    for reva in [door.socket().await, door.tcp().await] {
        // The dialog has found him: an id is known once its person was returned.
        assert_eq!(reva.search(&jane.token, "\"joe\"").await.unwrap(), ["joe@acme"]);
        let joe = reva.user(Some(&jane.token), &uuid(3)).await.unwrap();
        assert_eq!((joe.username.as_str(), joe.groups.len()), ("joe@acme", 1));
        // Directly, and by groups in groups, which are in a circle.
        let groups = groups_of(&reva, &jane.token, id(&jane)).await;
        assert_eq!(groups.keys().collect::<Vec<_>>(), ["inner@acme", "outer@acme", "staff@acme"]);
        let of_user: BTreeSet<_> = jane.user.groups.iter().collect();
        assert_eq!(of_user, groups.values().collect(), "User.groups are these ids");
        assert_eq!(joe.groups[0], groups["staff@acme"]);

        let staff = reva.group(Some(&jane.token), &groups["staff@acme"]).await.unwrap();
        assert_eq!((staff.display_name.as_str(), staff.id.as_ref().unwrap().r#type), ("staff", 1));
        let members: BTreeSet<_> = staff.members.iter().map(|id| (id.opaque_id.clone(), id.tenant_id.as_str())).collect();
        assert_eq!(members, BTreeSet::from([(uuid(1), "acme"), (uuid(3), "acme")]));
        let told: BTreeSet<_> = reva.members(Some(&jane.token), &groups["staff@acme"]).await.unwrap().into_iter().collect();
        assert_eq!(told, BTreeSet::from([uuid(1), uuid(3)]));
        assert_eq!(reva.members(Some(&jane.token), &groups["outer@acme"]).await.unwrap(), [uuid(1)], "through the group in it");
        for (group, user, is_in) in [("staff", 1, true), ("staff", 3, true), ("outer", 1, true), ("outer", 3, false), ("staff", 2, false)] {
            let told = reva.has_member(Some(&jane.token), &groups[&format!("{group}@acme")], &uuid(user)).await.unwrap();
            assert_eq!(told, is_in, "{user} in {group}");
        }
        let by_name = reva.group_by_claim(Some(&jane.token), "group_name", "staff@acme").await.unwrap();
        assert_eq!(by_name, staff);
        assert_eq!(find(&reva, &jane.token, "\"sta\"").await, ["staff@acme"]);
        assert_eq!(find(&reva, &jane.token, "").await, ["beyond@acme", "inner@acme", "outer@acme", "staff@acme"]);
        assert_eq!(find(&reva, &theirs.token, "sta").await, ["staff@globex"]);
    }
}

#[tokio::test]
async fn sharing_finds_groups_of_a_file() {
    let door = Door::of_file().await;
    let (jane, hank) = (door.session("jane@acme").await, door.session("hank@globex").await);
    let reva = door.tcp().await;
    let alice = door.session("alice@acme").await;
    let groups = groups_of(&reva, &jane.token, id(&jane)).await;
    assert_eq!(groups.keys().collect::<Vec<_>>(), ["admins@acme", "staff@acme"]);
    let told: BTreeSet<_> = reva.members(Some(&jane.token), &groups["staff@acme"]).await.unwrap().into_iter().collect();
    assert_eq!(told, BTreeSet::from([id(&jane).to_owned(), id(&alice).to_owned()]));
    assert!(reva.has_member(Some(&jane.token), &groups["staff@acme"], id(&alice)).await.unwrap());
    assert!(!reva.has_member(Some(&jane.token), &groups["admins@acme"], id(&alice)).await.unwrap());
    // Groups of one name in two tenants are two groups.
    let of_globex = groups_of(&reva, &hank.token, id(&hank)).await;
    assert_eq!(of_globex.keys().collect::<Vec<_>>(), ["admins@globex", "staff@globex"]);
    assert!(groups.values().all(|id| !of_globex.values().any(|other| other == id)));
    assert_eq!(find(&reva, &jane.token, "").await, ["admins@acme", "staff@acme"]);
}

#[tokio::test]
async fn members_are_left_out_where_the_caller_says_so_and_every_filter_counts() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    let group_id = Some(GroupId { opaque_id: jane.user.groups[0].clone(), ..GroupId::default() });
    let mut client = GroupApiClient::new(reva.channel());
    for skip_fetching_members in [false, true] {
        let request = GetGroupRequest { group_id: group_id.clone(), skip_fetching_members, opaque: None };
        let group = client.get_group(with(Some(&jane.token), request)).await.unwrap().into_inner().group.unwrap();
        assert_eq!(group.members.is_empty(), skip_fetching_members);
        let request = FindGroupsRequest { skip_fetching_members, ..search("") };
        let found = reva.find_groups(Some(&jane.token), request).await.unwrap();
        assert!(found.iter().all(|group| group.members.is_empty() == skip_fetching_members), "{found:?}");
    }
    let both = FindGroupsRequest { filters: [search("sta").filters, search("adm").filters].concat(), ..search("") };
    assert!(reva.find_groups(Some(&jane.token), both).await.unwrap().is_empty(), "no group is both");
    let federated = Filter { r#type: filter::Type::Grouptype.into(), term: Some(filter::Term::Grouptype(2)) };
    let request = FindGroupsRequest { filters: [search("sta").filters, vec![federated]].concat(), ..search("") };
    assert!(reva.find_groups(Some(&jane.token), request).await.unwrap().is_empty());
}

#[tokio::test]
async fn t03_t55_another_tenants_group_is_as_absent_and_has_none_of_ours() {
    let (_slapd, door) = Door::of_directory().await;
    let (jane, theirs) = (door.session("jane@acme").await, door.session("jane@globex").await);
    let greta = door.session("greta@globex").await;
    let reva = door.socket().await;
    // `admins` of globex lists jane of acme; `beyond` of acme has her only through globex' `bridge`.
    let groups = groups_of(&reva, &jane.token, id(&jane)).await;
    assert!(!groups.keys().any(|name| name.contains("admins") || name.contains("bridge") || name.contains("beyond")), "{groups:?}");
    let admins = groups_of(&reva, &greta.token, id(&greta)).await["admins@globex"].clone();
    assert_eq!(reva.members(Some(&greta.token), &admins).await.unwrap(), [uuid(4)], "jane of acme is no member");
    assert!(!reva.has_member(Some(&greta.token), &admins, id(&jane)).await.unwrap());
    assert!(reva.has_member(Some(&greta.token), &admins, &uuid(4)).await.unwrap());
    let service = RevaToken::service_account("notifications").sign(SECRET);
    assert!(!reva.has_member(Some(&service), &admins, id(&jane)).await.unwrap(), "whoever asks");

    let absent = format!("{:?}", reva.group(Some(&jane.token), NOBODY).await.unwrap_err());
    assert_eq!(format!("{:?}", reva.group(Some(&jane.token), &admins).await.unwrap_err()), absent, "a foreign id is as absent");
    assert_eq!(reva.members(Some(&jane.token), &admins).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.has_member(Some(&jane.token), &admins, id(&jane)).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.group_by_claim(Some(&jane.token), "group_name", "admins@globex").await.unwrap_err().cs3(), Code::NotFound);
    assert!(find(&reva, &jane.token, "admins").await.is_empty());
    assert_eq!(find(&reva, &theirs.token, "admins").await, ["admins@globex"]);
}

#[tokio::test]
async fn t24_a_groups_name_is_taken_literally() {
    let (slapd, door) = Door::of_directory().await;
    let odd = denizen_tests::slapd::content::group("acme", "odd", denizen_tests::slapd::content::ACME, &[person_dn("acme", "jane")]);
    let (dn, mut attributes) = odd;
    attributes.retain(|(name, _)| *name != "cn");
    attributes.push(("cn", vec!["a*)(cn=*".to_owned()]));
    slapd.add((dn.replace("cn=odd", "cn=a*)(cn\\3d*"), attributes)).await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    for text in ["*", "*)(cn=*"] {
        assert_eq!(find(&reva, &jane.token, text).await, ["a*)(cn=*@acme"], "{text}");
    }
    for text in ["st*", "s*f", ")(objectClass=*", "\\", "\u{0}"] {
        assert!(find(&reva, &jane.token, text).await.is_empty(), "{text:?}");
    }
    let groups = groups_of(&reva, &jane.token, id(&jane)).await;
    let group = &groups["a*)(cn=*@acme"];
    assert_eq!(reva.members(Some(&jane.token), group).await.unwrap(), [uuid(1)]);
    assert!(!reva.has_member(Some(&jane.token), group, &uuid(3)).await.unwrap());
}
