//! Groups within a domain, and who is in them.

use connectors::Groups;

use super::*;

fn port(cloud: &Cloud) -> &dyn Groups {
    cloud.connector.groups.as_deref().unwrap()
}

async fn names(cloud: &Cloud, domain: &str, text: &str, limit: usize) -> (Vec<String>, bool) {
    let found = port(cloud).search(&cloud.scope(domain), &UserQuery { text: text.to_owned(), limit }).await.unwrap();
    let mut names: Vec<_> = found.groups.into_iter().map(|group| group.name).collect();
    names.sort();
    (names, found.truncated)
}

async fn members(cloud: &Cloud, domain: &str, name: &str) -> Vec<String> {
    let found = port(cloud).members(&cloud.scope(domain), name, 10).await.unwrap();
    let mut names: Vec<_> = found.users.iter().map(|user| claim(user, "user_name").as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn t55_a_group_is_of_its_domain_and_so_are_its_people() {
    let Some(keystone) = Keystone::start().await else { return };
    let cloud = Cloud::new(&keystone, |_| {});
    let fixtures = keystone.fixtures();
    let [acme, globex] = ["acme", "globex"].map(|domain| fixtures.domains[domain].as_str());
    let both = vec!["admins".to_owned(), "staff".to_owned()];
    for domain in [acme, globex] {
        assert_eq!(names(&cloud, domain, "", 10).await, (both.clone(), false));
    }
    assert_eq!(names(&cloud, acme, "TAF", 10).await, (vec!["staff".to_owned()], false));
    assert!(names(&cloud, acme, "", 1).await.1);
    assert_eq!(members(&cloud, acme, "staff").await, ["jane", "john"]);
    assert_eq!(members(&cloud, globex, "admins").await, ["gina"], "it holds jane of acme, too");
    for name in ["STAFF", "staf_", "%", "staff ", "", "staff\0", "nobody"] {
        assert_eq!(port(&cloud).get(&cloud.scope(acme), name).await.unwrap(), None, "{name:?}");
        assert!(members(&cloud, acme, name).await.is_empty(), "{name:?}");
    }
    for text in ["%", "_", "\0", "staff\0"] {
        assert!(names(&cloud, acme, text, 10).await.0.is_empty(), "{text:?}");
    }
    let few = port(&cloud).members(&cloud.scope(acme), "staff", 1).await.unwrap();
    assert_eq!((few.users.len(), few.truncated), (1, true));
    let john = &fixtures.users["acme/john"];
    keystone.disable_user(john).await;
    assert_eq!(members(&cloud, acme, "staff").await, ["jane"]);
    keystone.enable_user(john).await;
    assert!(Cloud::new(&keystone, |config| config["groups"] = false.into()).connector.groups.is_none());
}
