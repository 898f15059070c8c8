//! Who the bearer of a token is, by its scope, its method and its user's domain.

use denizen_tests::{
    configuration::{ARKTOS_TOKEN, KUBERNETES, OPENCLOUD, OPENCLOUD_TOKEN, REVIEWER_TOKEN},
    jwt,
    keystone::{Keystone, Scope, Settings, Tokens},
};
use serde_json::{Value, json};

use super::house::{CLOUD, House, TOKENS, extra, reviewed_by, texts};

/// The operators, of whom only a reviewer is told that asks for them.
async fn operator(house: &House, token: &str) -> Value {
    reviewed_by(&house.service, OPENCLOUD_TOKEN, token, &[]).await
}

#[tokio::test]
async fn t31_same_named_people_of_two_domains_are_two_whatever_the_scope() {
    let Some(house) = House::start().await else { return };
    let keystone = &house.keystone;
    let mut uids = Vec::new();
    for domain in ["acme", "globex"] {
        let mut of_domain = Vec::new();
        for scope in [Scope::Unscoped, Scope::Project(keystone.project(domain, "web"))] {
            let jane = house.reviewed(&keystone.token(domain, "jane", scope).await).await;
            assert_eq!(jane["username"], format!("{domain}:jane"), "{scope:?}");
            assert_eq!(extra(&jane, "denizen.dev/tenant-id"), [domain]);
            assert_eq!(extra(&jane, "denizen.dev/connector"), ["cloud"]);
            of_domain.push(jane["uid"].clone());
        }
        assert_eq!(of_domain[0], of_domain[1], "one person, whatever the scope");
        uids.push(of_domain.remove(0));
    }
    assert_ne!(uids[0], uids[1]);
    // Her rights on the whole of a domain say nothing else about who she is.
    let of_domain = house.reviewed(&keystone.token("acme", "jane", Scope::Domain(keystone.domain("acme"))).await).await;
    assert_eq!((&of_domain["uid"], extra(&of_domain, "denizen.dev/scope-domain-id")), (&uids[0], vec![keystone.domain("acme").to_owned()]));
    // It is the user's domain that decides: john's token is for a project of globex.
    let john = house.reviewed(&house.token("acme", "john", "globex").await).await;
    assert_eq!(john["username"], "acme:john");
    assert_eq!(extra(&john, "denizen.dev/project-domain-id"), [keystone.domain("globex")]);
    // Her own token says who she is, also where she has no role anywhere.
    let zoe = house.reviewed(&keystone.token("acme", denizen_tests::keystone::fixtures::ZOE, Scope::Unscoped).await).await;
    assert_eq!(zoe["username"], format!("acme:{}", denizen_tests::keystone::fixtures::ZOE));
}

#[tokio::test]
async fn t55_groups_are_those_of_the_users_own_domain() {
    let Some(house) = House::start().await else { return };
    let keystone = &house.keystone;
    // Acme's jane is in globex's group admins, by globex's will.
    let groups = async |domain: &str, name: &str| {
        let mut groups = texts(&house.reviewed(&keystone.token(domain, name, Scope::Unscoped).await).await["groups"]);
        groups.sort();
        groups
    };
    assert_eq!(groups("acme", "jane").await, ["acme:staff"]);
    assert_eq!(groups("acme", "john").await, ["acme:admins", "acme:staff"]);
    assert_eq!(groups("globex", "gina").await, ["globex:admins", "globex:staff"]);
    assert_eq!(groups("globex", "jane").await, ["globex:staff"]);
}

#[tokio::test]
async fn compatibility_adds_the_project_and_what_k8s_keystone_auth_said() {
    let edit = |_: &Keystone, configuration: &mut denizen_tests::Configuration| {
        configuration.set("/reviewers/0/upstreamTokens/0/compatibility", "k8s-keystone-auth");
    };
    let Some(house) = House::with(edit).await else { return };
    let (keystone, service) = (&house.keystone, &house.service);
    let (web, acme) = (keystone.project("acme", "web"), keystone.domain("acme"));
    let token = house.token("acme", "jane", "acme").await;
    let jane = house.reviewed(&token).await;
    let mut groups = texts(&jane["groups"]);
    groups.sort();
    let mut expected = ["acme:staff".to_owned(), format!("acme:{web}")];
    expected.sort();
    assert_eq!(groups, expected);
    for (key, value) in [
        ("project/id", vec![web]),
        ("project/name", vec!["web"]),
        ("user/domain/id", vec![acme]),
        ("user/domain/name", vec!["acme"]),
        ("roles", vec!["auditor", "member", "reader"]),
    ] {
        assert_eq!(extra(&jane, &format!("alpha.kubernetes.io/identity/{key}")), value, "{key}");
    }
    assert_eq!(extra(&jane, "denizen.dev/project-id"), [web]);
    // Whoever does not ask for it is told our own keys alone, of the same token.
    let plain = reviewed_by(service, OPENCLOUD_TOKEN, &token, &[]).await;
    assert_eq!((&plain["uid"], extra(&plain, "denizen.dev/project-id")), (&jane["uid"], vec![web.to_owned()]));
    assert!(!plain.to_string().contains("alpha.kubernetes.io") && texts(&plain["groups"]) == ["acme:staff"], "{plain}");
    // No one is put into a project by a group that is called like it.
    let admin = keystone.admin().await;
    let other = keystone.project("globex", "web");
    let group = admin.create("/groups", "group", &json!({"name": other, "domain_id": acme})).await;
    keystone.add_to_group(group["id"].as_str().unwrap(), keystone.user("acme", "john")).await;
    let john = house.reviewed(&house.token("acme", "john", "acme").await).await;
    assert!(!texts(&john["groups"]).contains(&format!("acme:{other}")), "{john}");
    assert!(texts(&john["groups"]).contains(&format!("acme:{web}")), "{john}");
}

#[tokio::test]
async fn a_system_scoped_token_is_an_operators_only_where_both_lists_say_so() {
    let set = |roles: bool, connectors: bool| {
        move |_: &Keystone, configuration: &mut denizen_tests::Configuration| {
            configuration.set("/reviewers/1/tenants", json!(["system", "acme"]));
            if roles {
                configuration.set(&format!("{CLOUD}/systemRoles"), json!(["admin"]));
            }
            if connectors {
                configuration.set("/systemTenant/connectors", json!(["operators", "cloud"]));
                configuration.set(&format!("{CLOUD}/tenants"), json!(["acme", "globex", "system"]));
            }
        }
    };
    for (roles, connectors) in [(false, false), (true, false), (false, true)] {
        let Some(house) = House::with(set(roles, connectors)).await else { return };
        let olga = house.keystone.token("Default", "olga", Scope::System).await;
        assert_eq!(operator(&house, &olga).await, Value::Null, "{roles} {connectors}");
    }
    let Some(house) = House::with(set(true, true)).await else { return };
    let keystone = &house.keystone;
    let olga = keystone.token("Default", "olga", Scope::System).await;
    let user = operator(&house, &olga).await;
    assert_eq!((&user["username"], extra(&user, "denizen.dev/system")), (&json!("operators:olga"), vec!["all".to_owned()]));
    assert_eq!(house.reviewed(&olga).await, Value::Null, "this reviewer is told of no operators");
    // The scope makes the operator, and the role on the system does: not the person, and not a role elsewhere.
    assert_eq!(operator(&house, &keystone.token("Default", "olga", Scope::Unscoped).await).await, Value::Null);
    assert_eq!(operator(&house, &keystone.token("Default", "denizen", Scope::System).await).await, Value::Null, "a reader is none");
    keystone.grant("reader", keystone.user("acme", "jane"), Scope::System).await;
    let jane = operator(&house, &keystone.token("acme", "jane", Scope::System).await).await;
    assert_eq!(jane["username"], "acme:jane", "a role that is not listed changes nothing about who she is");
    let globex = house.token("globex", "jane", "globex").await;
    assert_eq!(house.reviewed(&globex).await["username"], "globex:jane", "she is `admin` of a project");
}

#[tokio::test]
async fn a_domain_whose_id_is_system_makes_no_operators() {
    let Some(house) = House::with(|_, configuration| {
        configuration.set("/reviewers/1/tenants", json!(["system", "acme"]));
        configuration.set(&format!("{CLOUD}/systemRoles"), json!(["admin"]));
        configuration.set("/systemTenant/connectors", json!(["operators", "cloud"]));
        configuration.set(&format!("{CLOUD}/tenants"), json!(["acme", "globex", "system"]));
    })
    .await
    else {
        return;
    };
    let good = house.jane().await;
    assert!(house.reviewed(&good).await.is_object());
    let body = house.keystone.validate(&good).await.expect(200).json();
    // Keystone makes ids itself, but whoever moves its data may choose them.
    let answer = |body: &Value| denizen_tests::relay::Reply::new(200, body.to_string());
    let when = || denizen_tests::relay::When::path(TOKENS).method("GET");
    for (pointer, value) in [("/token/user/domain/id", "system"), ("/token/user/domain/name", "system")] {
        let mut body = body.clone();
        *body.pointer_mut(pointer).unwrap() = json!(value);
        house.relay.set(when(), denizen_tests::relay::Manner::Answer(answer(&body)));
        let user = operator(&house, &house.jane().await).await;
        assert!(user.is_null() || user["username"] == "acme:jane", "{pointer}: {user}");
    }
}

#[tokio::test]
async fn an_application_credentials_token_is_its_owners() {
    let Some(house) = House::start().await else { return };
    let (keystone, fixtures) = (&house.keystone, house.keystone.fixtures());
    let credential = &fixtures.application_credential;
    let token = keystone.token_of_application_credential(credential).await;
    let user = house.reviewed(&token).await;
    assert_eq!(user["username"], "acme:jane");
    assert_eq!(user["uid"], house.reviewed(&house.jane().await).await["uid"]);
    assert_eq!(extra(&user, "denizen.dev/application-credential-id"), [&*credential.id]);
    assert_eq!(extra(&user, "denizen.dev/project-id"), [keystone.project("acme", "web")]);
    // One for certain requests only is not one for whatever Kubernetes does.
    assert_eq!(house.reviewed(&keystone.token_of_application_credential(&fixtures.restricted_credential).await).await, Value::Null);
}

#[tokio::test]
async fn a_trusts_token_is_refused_where_its_bearer_is_not_whom_it_speaks_of() {
    for (allow, expected) in [(false, Value::Null), (true, json!("acme:jane"))] {
        let Some(house) = House::with(|_, configuration| {
            if allow {
                configuration.set(&format!("{CLOUD}/trusts"), "allow");
            }
        })
        .await
        else {
            return;
        };
        let (keystone, fixtures) = (&house.keystone, house.keystone.fixtures());
        let user = house.reviewed(&keystone.token_of_trust("acme", "john", &fixtures.trust).await).await;
        assert_eq!(user["username"], expected, "allow: {allow}");
        if allow {
            assert_eq!(extra(&user, "denizen.dev/trust-id"), [&*fixtures.trust]);
            assert_eq!(extra(&user, "denizen.dev/trustee-id"), [keystone.user("acme", "john")]);
        }
        let abroad = keystone.token_of_trust("globex", "gina", &fixtures.trust_abroad).await;
        assert_eq!(house.reviewed(&abroad).await, Value::Null, "globex' gina is never acme's jane (allow: {allow})");
        // Without impersonation the bearer is who the token says.
        let john = house.reviewed(&keystone.token_of_trust("acme", "john", &fixtures.trust_without_impersonation).await).await;
        assert_eq!(
            (&john["username"], extra(&john, "denizen.dev/trust-id")),
            (&json!("acme:john"), vec![fixtures.trust_without_impersonation.clone()])
        );
    }
}

#[tokio::test]
async fn an_identity_providers_people_are_their_domains() {
    let Some(house) = House::start().await else { return };
    let keystone = &house.keystone;
    let unscoped = house.reviewed(&keystone.token_of_federated_user("fred", Scope::Unscoped).await).await;
    assert_eq!((&unscoped["username"], texts(&unscoped["groups"])), (&json!("acme:fred"), vec!["acme:staff".to_owned()]));
    let scoped = house.reviewed(&keystone.token_of_federated_user("fred", Scope::Project(keystone.project("acme", "web"))).await).await;
    assert_eq!(scoped["uid"], unscoped["uid"]);
    // One who is called like someone of the domain is not that person.
    let jane = house.reviewed(&keystone.token_of_federated_user("jane", Scope::Unscoped).await).await;
    assert_ne!(jane["uid"], house.reviewed(&house.jane().await).await["uid"]);
}

#[tokio::test]
async fn t48_each_version_is_answered_in_itself_and_bad_reviews_reach_no_keystone() {
    let Some(house) = House::start().await else { return };
    let token = house.jane().await;
    let ask = async |version: &str, body: &Value| house.service.review_request(Some(REVIEWER_TOKEN), version, body).await;
    let body = |version: &str, kind: &str| json!({"kind": kind, "apiVersion": format!("authentication.k8s.io/{version}"), "spec": {"token": token}});
    for (path, said, kind) in [("v1", "v1beta1", "TokenReview"), ("v1beta1", "v1", "TokenReview"), ("v1", "v1", "Pod")] {
        ask(path, &body(said, kind)).await.expect(400);
    }
    ask("v1", &json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1"})).await.expect(400);
    let mut huge = body("v1", "TokenReview");
    huge["spec"]["token"] = json!(token.repeat((10 << 20) / token.len()));
    let sent =
        house.service.http().post(house.service.at("/apis/authentication.k8s.io/v1/tokenreviews")).bearer_auth(REVIEWER_TOKEN).json(&huge);
    // It may hang up before the body is through.
    assert_eq!(house.service.try_send(sent).await.map_or(413, |answer| answer.status), 413);
    assert_eq!(house.relay.total(), 0);
    for version in ["v1", "v1beta1"] {
        let answer = ask(version, &body(version, "TokenReview")).await.expect(200).json();
        assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!(format!("authentication.k8s.io/{version}")), &json!("TokenReview")));
        assert_eq!(answer["status"]["user"]["username"], "acme:jane");
        let mut bad = body(version, "TokenReview");
        bad["spec"]["token"] = json!(format!("{}AAAA", &token[..token.len() - 4]));
        let refused = ask(version, &bad).await.expect(200).json();
        assert_eq!((&refused["apiVersion"], &refused["status"]), (&answer["apiVersion"], &json!({"authenticated": false})));
    }
    assert_eq!(house.asked()[0], 2, "the second version costs no question");
}

#[tokio::test]
async fn t47_t57_a_token_stands_for_the_reviewers_own_audiences_only() {
    let Some(house) = House::start().await else { return };
    let token = house.jane().await;
    for (reviewer, audiences, expected) in [
        (REVIEWER_TOKEN, &[][..], Some(KUBERNETES)),
        (REVIEWER_TOKEN, &[KUBERNETES], Some(KUBERNETES)),
        (REVIEWER_TOKEN, &[KUBERNETES, OPENCLOUD], Some(KUBERNETES)),
        (REVIEWER_TOKEN, &[OPENCLOUD], None),
        (REVIEWER_TOKEN, &["*"], None),
        (OPENCLOUD_TOKEN, &[KUBERNETES], None),
        (OPENCLOUD_TOKEN, &[OPENCLOUD], Some(OPENCLOUD)),
    ] {
        let status = house.service.review(reviewer, &token, audiences).await;
        assert_eq!(status["authenticated"], expected.is_some(), "{reviewer} {audiences:?}: {status}");
        let named: Vec<_> = expected.into_iter().filter(|_| !audiences.is_empty()).collect();
        assert_eq!(texts(&status["audiences"]), named, "{reviewer} {audiences:?}");
    }
}

#[tokio::test]
async fn t49_nothing_that_is_kubernetes_own_comes_of_keystones_names() {
    let Some(house) = House::start().await else { return };
    let (keystone, admin) = (&house.keystone, house.keystone.admin().await);
    let john = keystone.user("acme", "john");
    for name in ["system:masters", "masters", "kubeadm:cluster-admins", "globex:staff"] {
        let group = admin.create("/groups", "group", &json!({"name": name, "domain_id": keystone.domain("acme")})).await;
        keystone.add_to_group(group["id"].as_str().unwrap(), john).await;
    }
    let user = house.reviewed(&keystone.token("acme", "john", Scope::Unscoped).await).await;
    let mut groups = texts(&user["groups"]);
    groups.sort();
    assert_eq!(groups, ["acme:admins", "acme:masters", "acme:staff"], "what has a colon is left out");
    for name in ["system:admin", "system:anonymous", "globex:jane"] {
        keystone.create_user("acme", name).await;
        assert_eq!(house.reviewed(&keystone.token("acme", name, Scope::Unscoped).await).await, Value::Null, "{name}");
    }
}

#[tokio::test]
async fn t50_t51_whoever_is_no_reviewer_and_whatever_is_no_keystone_token_costs_keystone_nothing() {
    let Some(house) = House::start().await else { return };
    let (service, good) = (&house.service, house.jane().await);
    let body = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": good}});
    for credential in [None, Some("nonsense"), Some(&*good)] {
        service.review_request(credential, "v1", &body).await.expect(401);
    }
    let own = house.broker.tokens(&denizen_tests::Authorization::web(), "acme", "jane").await;
    assert_eq!(house.reviewed(own.access()).await["username"], "acme:jane");
    for other in [own.refresh(), own.id()] {
        assert_eq!(house.reviewed(other).await, Value::Null);
    }
    let claims = json!({"sub": "u", "exp": 4_000_000_000_u64, "iat": 1, "openstack_methods": ["password"]});
    let mut foreign = claims.clone();
    foreign["iss"] = json!("https://kubernetes.default.svc");
    for text in [
        jwt::unsigned(&json!({"alg": "RS256"}), &json!({"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:a:b"})),
        jwt::es256(&json!({"alg": "ES256"}), &foreign),
        jwt::unsigned(&json!({"alg": "none"}), &claims),
        "gAAAAA".to_owned(),
        format!("{good} "),
        format!("{good}A"),
        good.replacen("gAAAAA", "gAAAAB", 1),
        "x".to_owned(),
    ] {
        assert_eq!(house.reviewed(&text).await, Value::Null, "{text}");
    }
    assert_eq!(house.relay.total(), 0, "{:?}", house.relay.counts());
    // What might be Keystone's is Keystone's to judge.
    assert_eq!(house.reviewed(&jwt::es256(&json!({"alg": "ES256", "typ": "JWT"}), &claims)).await, Value::Null);
    assert_eq!((house.asked()[0], house.reviewed(&good).await["username"].clone()), (1, json!("acme:jane")));
}

#[tokio::test]
async fn keystones_jws_tokens_are_taken_as_its_fernet_tokens_are() {
    let Some(keystone) = Keystone::start_with(Settings { tokens: Tokens::JsonWeb, ..Settings::default() }).await else { return };
    let mut configuration = keystone.configuration(keystone.connector("cloud"));
    super::house::accept_tokens(&mut configuration);
    let broker = denizen_tests::Broker::start(configuration).await;
    let service = broker.service();
    let token = keystone.token("acme", "jane", Scope::Project(keystone.project("acme", "web"))).await;
    assert_eq!(token.split('.').count(), 3, "{token}");
    assert_eq!(super::house::reviewed(&service, &token).await["username"], "acme:jane");
    // Whose it is, Keystone says: nothing in it is believed.
    let edited = jwt::with_claims(&token, |claims| claims["sub"] = json!(keystone.user("globex", "jane")));
    let own = jwt::es256(&jwt::header(&token), &jwt::claims(&token));
    for forged in [edited, own] {
        assert_eq!(super::house::reviewed(&service, &forged).await, Value::Null);
    }
}

#[tokio::test]
async fn t52_no_forged_token_makes_keystone_seem_to_be_down() {
    let Some(keystone) = Keystone::start_with(Settings { tokens: Tokens::JsonWeb, ..Settings::default() }).await else { return };
    let mut configuration = keystone.configuration(keystone.connector("cloud"));
    super::house::accept_tokens(&mut configuration);
    let broker = denizen_tests::Broker::start(configuration).await;
    let service = broker.service();
    let token = keystone.token("acme", "jane", Scope::Unscoped).await;
    for odd in [json!({"kid": 7}), json!({"crit": ["x"]}), json!({"crit": 7})] {
        let mut header = jwt::header(&token);
        header.as_object_mut().unwrap().extend(odd.as_object().unwrap().clone());
        for number in 0..6 {
            let forged = jwt::es256(&header, &json!({"exp": 4_000_000_000_u64, "openstack_methods": [number.to_string()]}));
            keystone.validate(&forged).await.expect(500);
            assert_eq!(super::house::reviewed(&service, &forged).await, Value::Null);
            // This door is open to anyone.
            let take_back = service.http().delete(service.at("/keystone/cloud/v3/auth/tokens"));
            service.send(take_back.header("X-Auth-Token", &forged).header("X-Subject-Token", &forged)).await.expect(401);
        }
        let good = keystone.token("acme", "jane", Scope::Unscoped).await;
        assert_eq!(super::house::reviewed(&service, &good).await["username"], "acme:jane", "{odd}");
    }
}

#[tokio::test]
async fn arktos_is_told_the_tenant_in_a_field_of_its_own() {
    let Some(house) = House::start().await else { return };
    for domain in ["acme", "globex"] {
        let user = reviewed_by(&house.service, ARKTOS_TOKEN, &house.token(domain, "jane", domain).await, &[KUBERNETES]).await;
        assert_eq!((&user["tenant"], &user["username"]), (&json!(domain), &json!(format!("{domain}:jane"))));
    }
    let plain = house.reviewed(&house.jane().await).await;
    assert!(plain.get("tenant").is_none(), "{plain}");
}
