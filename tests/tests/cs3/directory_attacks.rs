//! Attack rows on this door that a directory's content makes: names and ids that come again, tenants that are missing, and odd texts.

use denizen_tests::{
    Reva,
    cs3::rpc::Code,
    reva::Session,
    slapd::content::{ACME, GLOBEX, PASSWORD, group, mail, person, person_dn, uuid},
};
use serde_json::json;
use tonic::Code as GrpcCode;

use super::{Door, id};

/// Nothing is remembered, so that what the directory says counts at once.
async fn forgetful() -> (denizen_tests::slapd::Slapd, Door) {
    Door::of_directory_with(json!({"cache": {"seconds": 0, "graceSeconds": 0}})).await
}

/// That no call shows the id to this caller.
async fn shows_nothing(reva: &Reva, caller: &Session, id: &str) {
    let token = Some(caller.token.as_str());
    assert_eq!(reva.user(token, id).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.user_by_claim(token, "userid", id).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.groups_of(token, id).await.unwrap_err().cs3(), Code::NotFound);
    assert!(reva.search(&caller.token, id).await.unwrap().is_empty());
}

#[tokio::test]
async fn t04_an_id_that_comes_again_in_another_tenant_is_no_ones() {
    let (slapd, door) = forgetful().await;
    let joe = door.session("joe@acme").await;
    let (jane, greta) = (door.session("jane@acme").await, door.session("greta@globex").await);
    assert_eq!(id(&joe), uuid(3));
    let reva = door.socket().await;
    assert_eq!(reva.user(Some(&jane.token), &uuid(3)).await.unwrap(), joe.user);
    slapd.delete(&person_dn("acme", "joe")).await;
    slapd.add(person(&person_dn("globex", "joe"), "joe", "Joe Again", 3, &[GLOBEX], PASSWORD)).await;
    for caller in [&jane, &greta] {
        shows_nothing(&reva, caller, &uuid(3)).await;
    }
    assert_eq!(reva.user(None, &uuid(3)).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.user_by_claim(None, "username", "joe@globex").await.unwrap_err().cs3(), Code::NotFound);
    assert!(reva.search(&greta.token, "Joe").await.unwrap().is_empty());
    // Nor does the token of the one who was deleted show anything of the new tenant.
    assert_eq!(reva.user(Some(&joe.token), id(&greta)).await.unwrap_err().cs3(), Code::NotFound);
    let forged = denizen_tests::RevaToken::of_user(&joe.user).with("/user/id/tenant_id", "globex").sign(super::SECRET);
    assert_eq!(reva.search(&forged, "").await.unwrap_err().grpc(), GrpcCode::PermissionDenied);
    // An id of its own makes them someone.
    slapd.modify(&person_dn("globex", "joe"), "openCloudUUID", &[&uuid(60)]).await;
    assert_eq!(id(&door.session("joe@globex").await), uuid(60));
    assert!(door.broker.log().contains("user.id_taken"));
}

#[tokio::test]
async fn t10_no_tenant_two_tenants_and_a_tenant_that_changes_are_no_one() {
    let (slapd, door) = forgetful().await;
    let joe = door.session("joe@acme").await;
    let (jane, greta) = (door.session("jane@acme").await, door.session("greta@globex").await);
    let reva = door.socket().await;
    // nils is in no tenant, zoe in two.
    for (uid, number) in [("nils", 5), ("zoe", 6)] {
        for caller in [&jane, &greta] {
            assert!(reva.search(&caller.token, uid).await.unwrap().is_empty(), "{uid}");
            shows_nothing(&reva, caller, &uuid(number)).await;
        }
        for tenant in ["acme", "globex"] {
            let told = reva.user_by_claim(None, "username", &format!("{uid}@{tenant}")).await;
            assert_eq!(told.unwrap_err().cs3(), Code::NotFound, "{uid} of {tenant}");
        }
        assert_eq!(reva.user(None, &uuid(number)).await.unwrap_err().cs3(), Code::NotFound);
    }
    assert_eq!(reva.search(&jane.token, "joe").await.unwrap(), ["joe@acme"]);
    let dn = person_dn("acme", "joe");
    for tenants in [&[GLOBEX][..], &[], &[ACME, GLOBEX]] {
        slapd.modify(&dn, "openCloudMemberOfSchool", tenants).await;
        for caller in [&jane, &greta] {
            shows_nothing(&reva, caller, &uuid(3)).await;
            assert!(reva.search(&caller.token, "joe").await.unwrap().is_empty(), "{tenants:?}");
        }
        assert_eq!(reva.user(None, &uuid(3)).await.unwrap_err().cs3(), Code::NotFound, "{tenants:?}");
        assert_eq!(reva.sign_in(&uuid(3), super::SECRET).await.unwrap_err().cs3(), Code::NotFound, "{tenants:?}");
    }
    slapd.modify(&dn, "openCloudMemberOfSchool", &[ACME]).await;
    assert_eq!(reva.user(None, &uuid(3)).await.unwrap(), joe.user, "as before");
}

#[tokio::test]
async fn t24_what_means_something_to_a_directory_is_taken_literally() {
    let (_slapd, door) = Door::of_directory().await;
    let jane = door.session("jane@acme").await;
    let reva = door.socket().await;
    for (text, found) in [
        ("*", &["a*b@acme"][..]),
        ("p(q", &["p(q@acme"]),
        (")", &["r)s@acme"]),
        ("\\", &["back\\slash@acme"]),
        ("*)(uid=*", &[]),
        ("j*e", &[]),
        ("\\2a", &[]),
        ("jane)(openCloudMemberOfSchool=*", &[]),
        ("\u{0}", &[]),
    ] {
        assert_eq!(reva.search(&jane.token, text).await.unwrap(), found, "{text:?}");
    }
    for name in ["a*b", "p(q", "r)s", "back\\slash"] {
        let session = door.session(&format!("{name}@acme")).await;
        assert_eq!(session.user.username, format!("{name}@acme"));
        assert_eq!(reva.user_by_claim(Some(&jane.token), "mail", &mail(name, "acme")).await.unwrap().username, session.user.username);
    }
    for name in ["*@acme", "j*@acme", "*)(uid=jane@acme", "jane)(uid=*@acme", "\\6aane@acme"] {
        assert_eq!(reva.user_by_claim(None, "username", name).await.unwrap_err().cs3(), Code::NotFound, "{name}");
    }
    for value in ["*@acme.example", "jane@*", "*"] {
        assert_eq!(reva.user_by_claim(Some(&jane.token), "mail", value).await.unwrap_err().cs3(), Code::NotFound, "{value}");
    }
}

#[tokio::test]
async fn t28_many_groups_and_circles_of_them_end() {
    let (slapd, door) = forgetful().await;
    let joe = person_dn("acme", "joe");
    slapd.add_all((0..1_200).map(|n| group("acme", &format!("many{n:04}"), ACME, std::slice::from_ref(&joe)))).await;
    let reva = door.socket().await;
    let session = door.session("joe@acme").await;
    assert_eq!(session.user.groups.len(), 1_201, "past the directory's page of 1,000");
    let jane = door.session("jane@acme").await;
    assert_eq!(jane.user.groups.len(), 3, "`inner` and `outer` are in each other");
    let last = reva.group_by_claim(Some(&jane.token), "group_name", "many1199@acme").await.unwrap();
    assert_eq!(reva.members(Some(&jane.token), &last.id.unwrap().opaque_id).await.unwrap(), [uuid(3)]);
    assert_eq!(reva.find_groups(Some(&jane.token), Default::default()).await.unwrap().len(), 200, "cut with OK");
}

#[tokio::test]
async fn t56_a_directory_that_gives_one_id_twice_changes_no_record() {
    let (slapd, door) = forgetful().await;
    let jane = door.session("jane@acme").await;
    // Someone else of the same tenant, and someone of the other, take her id.
    slapd.add(person(&person_dn("globex", "mallory"), "mallory", "Mallory", 1, &[GLOBEX], PASSWORD)).await;
    let reva = door.socket().await;
    assert_eq!(reva.user_by_claim(None, "username", "mallory@globex").await.unwrap_err().cs3(), Code::NotFound);
    let theirs = door.session("jane@globex").await;
    assert!(reva.search(&theirs.token, "mallory").await.unwrap().is_empty());
    assert_eq!(reva.user(None, &uuid(1)).await.unwrap(), jane.user, "the record's owner stays");
    assert_eq!(reva.user(Some(&theirs.token), &uuid(1)).await.unwrap_err().cs3(), Code::NotFound);
}

#[tokio::test]
async fn t58_a_name_that_is_used_again_is_someone_else() {
    let (slapd, door) = forgetful().await;
    let before = door.session("joe@acme").await;
    slapd.delete(&person_dn("acme", "joe")).await;
    let reva = door.socket().await;
    assert_eq!(
        reva.sign_in(id(&before), super::SECRET).await.unwrap_err().cs3(),
        Code::NotFound,
        "an account that is gone signs in no more"
    );
    slapd.add(person(&person_dn("acme", "joe"), "joe", "Another Joe", 90, &[ACME], PASSWORD)).await;
    let after = door.session("joe@acme").await;
    assert_eq!((id(&before), id(&after)), (uuid(3).as_str(), uuid(90).as_str()));
    assert_eq!(reva.user(Some(&after.token), &uuid(3)).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.user(None, &uuid(3)).await.unwrap_err().cs3(), Code::NotFound);
    assert_eq!(reva.search(&after.token, "Joe").await.unwrap(), ["joe@acme"]);
}
