//! Asking again about those who signed in.

use connectors::{Renewed, Secret};
use time::OffsetDateTime;

use super::*;

impl Cloud {
    /// What is said of someone now who left this at their sign-in.
    async fn again(&self, user: &str, left: &Value) -> Option<UpstreamUser> {
        let renewal = self.connector.renewal.as_deref().expect("it can be asked again");
        let subject = Subject::parse(user).unwrap();
        let renewed = renewal.renew(&subject, &Secret::new(left.to_string()), OffsetDateTime::UNIX_EPOCH).await.unwrap();
        renewed.map(|Renewed { user, .. }| user.unwrap().expect("the claims are read anew"))
    }
}

#[tokio::test]
async fn t30_who_is_disabled_deleted_or_of_a_disabled_domain_is_no_longer() {
    let Some(keystone) = Keystone::start().await else { return };
    let (cloud, acme) = (Cloud::new(&keystone, |_| {}), keystone.domain("acme"));
    let (jane, left) = (keystone.user("acme", "jane"), json!({"userDomain": acme, "methods": ["password"]}));
    let said = cloud.again(jane, &left).await.unwrap();
    assert_eq!(
        (claim(&said, "methods"), claim(&said, "groups"), claim(&said, "scope")),
        (json!(["password"]), json!(["staff"]), json!("unscoped"))
    );
    keystone.remove_from_group(keystone.group("acme", "staff"), jane).await;
    assert_eq!(claim(&cloud.again(jane, &left).await.unwrap(), "groups"), json!([]));
    assert_eq!(cloud.again(jane, &json!({"userDomain": keystone.domain("globex")})).await, None, "of another domain");
    for nothing in [
        json!({}),
        json!({"project": keystone.project("acme", "web")}),
        json!("refresh"),
        json!({"userDomain": acme, "system": true, "domain": true}),
    ] {
        assert_eq!(cloud.again(jane, &nothing).await, None, "{nothing}");
    }
    keystone.disable_user(jane).await;
    assert_eq!(cloud.again(jane, &left).await, None);
    keystone.enable_user(jane).await;
    assert!(cloud.again(jane, &left).await.is_some());
    keystone.disable_domain(keystone.domain("acme")).await;
    assert_eq!(cloud.again(jane, &left).await, None);
    keystone.enable_domain(keystone.domain("acme")).await;
    keystone.delete_user(jane).await;
    assert_eq!(cloud.again(jane, &left).await, None);
}

#[tokio::test]
async fn t30_a_role_or_project_that_is_gone_ends_it() {
    let Some(keystone) = Keystone::start().await else { return };
    let (cloud, acme) = (Cloud::new(&keystone, |_| {}), keystone.domain("acme"));
    let (john, abroad) = (keystone.user("acme", "john"), keystone.project("globex", "web"));
    let left = json!({"userDomain": acme, "project": abroad});
    let said = cloud.again(john, &left).await.unwrap();
    assert_eq!((claim(&said, "roles"), claim(&said, "project_name")), (json!(["member", "reader"]), json!("web")));
    assert_eq!((claim(&said, "domain"), claim(&said, "project_domain_name")), (json!(acme), json!("globex")));
    // The same as of a token.
    let token = keystone.validate(&keystone.token("acme", "john", Scope::Project(abroad)).await).await.expect(200).json();
    assert_eq!(token["token"]["roles"].as_array().unwrap().len(), 2);
    keystone.disable_domain(keystone.domain("globex")).await;
    assert_eq!(cloud.again(john, &left).await, None, "the project's domain is disabled");
    keystone.enable_domain(keystone.domain("globex")).await;
    keystone.disable_project(abroad).await;
    assert_eq!(cloud.again(john, &left).await, None);
    keystone.admin().await.change(&format!("/projects/{abroad}"), "project", &json!({"enabled": true})).await;
    assert!(cloud.again(john, &left).await.is_some());
    keystone.remove_role("member", john, Scope::Project(abroad)).await;
    assert_eq!(cloud.again(john, &left).await, None);

    let jane = keystone.user("acme", "jane");
    let by_domain = json!({"userDomain": acme, "domain": true});
    assert_eq!(claim(&cloud.again(jane, &by_domain).await.unwrap(), "roles"), json!(["reader"]));
    keystone.remove_role("reader", jane, Scope::Domain(acme)).await;
    assert_eq!(cloud.again(jane, &by_domain).await, None);
    let (olga, by_system) = (keystone.user("Default", "olga"), json!({"userDomain": "default", "system": true}));
    assert_eq!(claim(&cloud.again(olga, &by_system).await.unwrap(), "system"), "all");
    assert_eq!(cloud.again(jane, &json!({"userDomain": acme, "system": true})).await, None);
}

#[tokio::test]
async fn t30_an_application_credential_must_still_be_there_and_gives_what_it_has() {
    let Some(keystone) = Keystone::start().await else { return };
    let (cloud, acme) = (Cloud::new(&keystone, |_| {}), keystone.domain("acme"));
    let (jane, web) = (keystone.user("acme", "jane"), keystone.project("acme", "web"));
    let id = keystone.fixtures().application_credential.id.as_str();
    let left = json!({"userDomain": acme, "project": web, "applicationCredential": id, "methods": ["application_credential"]});
    let said = cloud.again(jane, &left).await.unwrap();
    // On the project she has `auditor` besides.
    let mut roles: Vec<String> = serde_json::from_value(claim(&said, "roles")).unwrap();
    let token = keystone.validate(&keystone.token_of_application_credential(&keystone.fixtures().application_credential).await).await;
    let token = token.expect(200).json();
    let mut expected: Vec<_> = token["token"]["roles"].as_array().unwrap().iter().map(|role| role["name"].as_str().unwrap()).collect();
    roles.sort();
    expected.sort_unstable();
    assert_eq!(roles, expected, "the same as of a token");
    assert!(!roles.contains(&"auditor".to_owned()));
    assert_eq!((claim(&said, "application_credential_id"), claim(&said, "application_credential_name")), (json!(id), json!("web")));
    let elsewhere = json!({"userDomain": acme, "project": keystone.project("globex", "web"), "applicationCredential": id});
    let without = json!({"userDomain": acme, "applicationCredential": id});
    for (who, wrong) in [(jane, &elsewhere), (jane, &without), (keystone.user("acme", "john"), &left)] {
        assert_eq!(cloud.again(who, wrong).await, None, "{wrong}");
    }
    keystone.delete_application_credential(jane, id).await;
    assert_eq!(cloud.again(jane, &left).await, None);
}

#[tokio::test]
async fn t30_without_a_directory_the_persons_own_token_says_how_long() {
    let Some(keystone) = Keystone::start().await else { return };
    let cloud = Cloud::new(&keystone, |config| config["userDirectory"] = json!(false));
    assert!(cloud.connector.directory.is_none());
    let (jane, token) =
        (keystone.user("acme", "jane"), keystone.token("acme", "jane", Scope::Project(keystone.project("acme", "web"))).await);
    let left = json!({"token": token, "project": keystone.project("acme", "web")});
    assert_eq!(claim(&cloud.again(jane, &left).await.unwrap(), "roles"), json!(["auditor", "member", "reader"]));
    assert_eq!(cloud.again(keystone.user("acme", "john"), &left).await, None, "someone else's token");
    assert_eq!(cloud.again(jane, &json!({"userDomain": keystone.domain("acme")})).await, None, "there is no directory to ask");
    keystone.revoke(&token).await;
    assert_eq!(cloud.again(jane, &left).await, None);
}
