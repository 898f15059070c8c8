//! LibreGraph's door: two tenants in its form, what is understood of OData, and refusals as its clients read them.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use denizen_tests::{Answer, Authorization, Broker, Configuration, Service};
use serde_json::{Value, json};
use url::Url;

async fn token(broker: &Broker, tenant: &str, username: &str) -> String {
    broker.tokens(&Authorization::for_search(broker.issuer()), tenant, username).await.access().to_owned()
}

/// Asks for a path with these options.
async fn ask(service: &Service, token: &str, path: &str, options: &[(&str, &str)]) -> Answer {
    let mut address = Url::parse(&service.at(path)).unwrap();
    for (name, value) in options {
        address.query_pairs_mut().append_pair(name, value);
    }
    service.send(service.http().get(address).bearer_auth(token)).await
}

fn names(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let people = json["value"].as_array().unwrap_or_else(|| panic!("{}", answer.text));
    people.iter().map(|person| person["onPremisesSamAccountName"].as_str().unwrap().to_owned()).collect()
}

async fn search(service: &Service, token: &str, text: &str) -> Vec<String> {
    names(&ask(service, token, "/graph/v1.0/users", &[("$search", &format!("\"{text}\""))]).await.expect(200))
}

/// The one person of a search.
async fn found(service: &Service, token: &str, text: &str) -> Value {
    let answer = ask(service, token, "/graph/v1.0/users", &[("$search", &format!("\"{text}\""))]).await.expect(200).json();
    assert_eq!(answer["value"].as_array().unwrap().len(), 1, "{answer}");
    answer["value"][0].clone()
}

/// What is refused, in Graph's form: its status and its code.
fn refused(answer: &Answer) -> (u16, String) {
    let error = &answer.json()["error"];
    assert!(!error["message"].as_str().unwrap_or_default().is_empty(), "{}", answer.text);
    assert_eq!(error["innererror"]["request-id"], answer.header("x-request-id"), "{}", answer.text);
    assert!(error["innererror"]["date"].as_str().unwrap_or_default().ends_with('Z'), "{}", answer.text);
    assert_eq!(answer.header("content-type"), "application/json", "{}", answer.text);
    (answer.status, error["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn two_tenants_find_their_own_in_graphs_form() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let (acme, globex) = (token(&broker, "acme", "jane").await, token(&broker, "globex", "jane").await);
    let (ours, theirs) = (found(&service, &acme, "jane").await, found(&service, &globex, "jane").await);
    let id = ours["id"].clone();
    assert_ne!(id, theirs["id"]);
    assert_eq!(
        ours,
        json!({
            "id": id, "displayName": "Jane Jones", "userType": "Member", "onPremisesSamAccountName": "jane", "mail": "jane@acme.example",
            "identities": [{"issuer": broker.issuer(), "issuerAssignedId": id}],
        })
    );
    assert_eq!(search(&service, &acme, "").await, ["alice", "bob", "jane"], "an empty search lists the tenant");
    assert_eq!(search(&service, &globex, "").await, ["hank", "jane"]);
    assert!(search(&service, &acme, "hank").await.is_empty());
    // The web puts its text into quotes twice.
    assert_eq!(search(&service, &acme, r#"\"jane\""#).await, ["jane"]);
    let me = ask(&service, &acme, "/graph/v1.0/me", &[]).await.expect(200).json();
    assert_eq!(me, ours);
    let whole = ask(&service, &acme, &format!("/graph/v1.0/users/{}", id.as_str().unwrap()), &[]).await.expect(200).json();
    assert_eq!(whole, ours);
}

#[tokio::test]
async fn t01_t03_t12_a_foreign_id_is_an_unknown_one_and_nothing_names_a_tenant() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let (acme, globex) = (token(&broker, "acme", "jane").await, token(&broker, "globex", "jane").await);
    let hank = found(&service, &globex, "hank").await["id"].as_str().unwrap().to_owned();
    ask(&service, &globex, &format!("/graph/v1.0/users/{hank}"), &[]).await.expect(200);
    let mut bodies = Vec::new();
    for id in [hank.as_str(), "00000000-0000-4000-8000-000000000000", "nobody", "hank", "%00", "%FF", "a%2Fb"] {
        let answer = service.get_as(&acme, &format!("/graph/v1.0/users/{id}")).await;
        assert_eq!(refused(&answer), (404, "itemNotFound".to_owned()), "{id}");
        bodies.push(answer.json()["error"]["message"].clone());
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{bodies:?}");
    for option in ["tenant", "tenantId", "tenant_id", "$tenant"] {
        let answer = ask(&service, &acme, "/graph/v1.0/users", &[(option, "globex")]).await;
        assert_eq!(refused(&answer), (400, "invalidRequest".to_owned()), "{option}");
    }
    let with_header = service.http().get(service.at("/graph/v1.0/users")).bearer_auth(&acme).header("x-tenant", "globex");
    assert_eq!(names(&service.send(with_header).await.expect(200)), ["alice", "bob", "jane"]);
    // An operator's own tenant has no one in it, and is not all of them.
    let operator = broker.service().client_credentials("ops").await;
    assert!(!search(&service, operator.access(), "").await.iter().any(|name| name == "jane"));
}

#[tokio::test]
async fn a_username_names_someone_of_the_callers_tenant_and_no_one_else() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let (acme, globex) = (token(&broker, "acme", "jane").await, token(&broker, "globex", "jane").await);
    let (ours, theirs) = (found(&service, &acme, "jane").await, found(&service, &globex, "jane").await);
    for called in ["jane", "JANE", "Jane", ours["id"].as_str().unwrap()] {
        let person = ask(&service, &acme, &format!("/graph/v1.0/users/{called}"), &[]).await.expect(200).json();
        assert_eq!(person, ours, "{called}");
    }
    assert_eq!(ask(&service, &globex, "/graph/v1.0/users/jane", &[]).await.expect(200).json(), theirs, "the same name, and their own");
    let options = [("$select", "mail"), ("$expand", "memberOf")];
    let chosen = ask(&service, &acme, "/graph/v1.0/users/jane", &options).await.expect(200).json();
    assert_eq!((&chosen["mail"], chosen["memberOf"].as_array().unwrap().len()), (&json!("jane@acme.example"), 2));
    assert_eq!(chosen.as_object().unwrap().len(), 2, "{chosen}");
    // Neither the instance-wide name, nor an address, nor a part or a pattern of a name is one.
    for called in ["jane@acme", "jane@globex", "jane@acme.example", "jan", "jane%20", "j*", "*", "(uid=jane)"] {
        let answer = ask(&service, &acme, &format!("/graph/v1.0/users/{called}"), &[]).await;
        assert_eq!(refused(&answer), (404, "itemNotFound".to_owned()), "{called}");
    }
    // An operator's own tenant, which none of them is of.
    let operator = service.client_credentials("ops").await;
    assert_eq!(refused(&ask(&service, operator.access(), "/graph/v1.0/users/jane", &[]).await).0, 404);
}

#[tokio::test]
async fn texts_say_what_to_do_and_quote_nothing() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let acme = token(&broker, "acme", "jane").await;
    for (option, value, text) in [
        ("$search", "hunter2 and more", "`$search` takes one text; put it in quotes where it has blanks: `\"jane doe\"`"),
        ("$search", "\"hunter2", "`$search` has a quote at its beginning and none at its end"),
        ("$search", "\"mail:hunter2\"", "`$search` looks through all names at once: leave the property out"),
        ("$filter", "hunter2 eq 'x'", "`$filter` takes `userType eq 'Member'`, `'Guest'`, `'Federated'`, and `or` between several"),
        ("$filter", "userType eq 'hunter2'", "a `userType` is 'Member', 'Guest' or 'Federated'"),
        ("$expand", "hunter2", "`$expand` takes `memberOf` and nothing else"),
        ("$orderby", "hunter2", "the order is always `onPremisesSamAccountName asc`"),
        ("$top", "hunter2", "`$top` must be a number from 1 to 200"),
        ("$skiptoken", "hunter2", "`$skiptoken` must be that of an answer's `@odata.nextLink`"),
    ] {
        let answer = ask(&service, &acme, "/graph/v1.0/users", &[(option, value)]).await;
        assert_eq!(answer.json()["error"]["message"], text, "{option}={value}");
        assert!(!answer.text.contains("hunter2"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_token_of_a_page_opens_no_other_tenant() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let (acme, globex) = (token(&broker, "acme", "jane").await, token(&broker, "globex", "jane").await);
    let first = ask(&service, &acme, "/graph/v1.0/users", &[("$top", "1")]).await.expect(200).json();
    let next = first["@odata.nextLink"].as_str().unwrap().to_owned();
    // The link of another tenant is a place in one's own order: after `alice` there.
    let answer = service.send(service.http().get(&next).bearer_auth(&globex)).await.expect(200);
    assert_eq!(names(&answer), ["hank"]);
    assert_eq!(service.send(service.http().get(&next)).await.status, 401);
}

#[tokio::test]
async fn t24_what_means_something_in_a_filter_is_taken_literally() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let acme = token(&broker, "acme", "jane").await;
    for text in ["*", "*)(uid=*", "j*", r"\\2a", "\u{0}"] {
        assert!(search(&service, &acme, text).await.is_empty(), "{text:?}");
    }
}

#[tokio::test]
async fn options_choose_page_by_page() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let acme = token(&broker, "acme", "jane").await;
    let mut answer = ask(&service, &acme, "/graph/v1.0/users", &[("$top", "2"), ("$search", "\"a\"")]).await.expect(200);
    let mut all = names(&answer);
    assert_eq!(all.len(), 2);
    let next = answer.json()["@odata.nextLink"].as_str().unwrap().to_owned();
    assert!(next.starts_with(&format!("{}/graph/v1.0/users?", broker.issuer())), "{next}");
    answer = service.send(service.http().get(next).bearer_auth(&acme)).await.expect(200);
    all.extend(names(&answer));
    assert_eq!(all, ["alice", "bob", "jane"]);
    assert_eq!(answer.json().as_object().unwrap().len(), 1, "{}", answer.text);

    let of = |filter: &'static str| {
        let (service, acme) = (&service, &acme);
        async move { names(&ask(service, acme, "/graph/v1.0/users", &[("$filter", filter)]).await.expect(200)).len() }
    };
    assert_eq!((of("userType eq 'Member'").await, of("userType eq 'Guest'").await), (3, 0));
    assert_eq!(of("(userType eq 'Guest' or userType eq 'Member')").await, 3);

    let chosen = [("$select", "displayName"), ("$expand", "memberOf"), ("$search", "\"jane\"")];
    let answer = ask(&service, &acme, "/graph/v1.0/users", &chosen).await.expect(200).json();
    let jane = &answer["value"][0];
    assert_eq!(jane["displayName"], "Jane Jones");
    assert_eq!(jane.as_object().unwrap().len(), 2, "{jane}");
    let groups: Vec<_> = jane["memberOf"].as_array().unwrap().iter().map(|group| group["displayName"].as_str().unwrap()).collect();
    assert_eq!(groups, ["staff", "admins"]);
    assert!(jane["memberOf"][0]["id"].as_str().unwrap().len() == 36, "{jane}");
    // A group of the same name in another tenant is another group.
    let globex = token(&broker, "globex", "jane").await;
    let theirs = ask(&service, &globex, "/graph/v1.0/me", &[("$expand", "memberOf")]).await.expect(200).json();
    assert_eq!(theirs["memberOf"][0]["displayName"], "staff");
    assert_ne!(theirs["memberOf"][0]["id"], jane["memberOf"][0]["id"]);
}

#[tokio::test]
async fn refusals_are_in_graphs_form_wherever_they_come_from() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let acme = token(&broker, "acme", "jane").await;
    let without = |scope: &str| Authorization::web().with("scope", scope).add("resource", &format!("{}/api", broker.issuer()));
    let unscoped = broker.tokens(&without("openid"), "acme", "jane").await;
    let elsewhere = broker.tokens(&Authorization::web().with("scope", "openid users.read"), "acme", "jane").await;
    let got = |answer: Answer, status: u16, code: &str| assert_eq!(refused(&answer), (status, code.to_owned()), "{}", answer.url);

    for path in ["/graph/v1.0/users", "/graph/v1.0/me", "/graph/v1.0/users/x"] {
        let answer = service.get(path).await;
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        got(answer, 401, "unauthenticated");
        got(service.get_as("nonsense", path).await, 401, "unauthenticated");
        got(service.get_as(elsewhere.access(), path).await, 401, "unauthenticated");
        got(service.send(service.http().post(service.at(path)).bearer_auth(&acme)).await, 405, "notSupported");
    }
    got(service.get_as(unscoped.access(), "/graph/v1.0/users").await, 403, "accessDenied");
    got(service.get_as(unscoped.access(), "/graph/v1.0/users/x").await, 403, "accessDenied");
    service.get_as(unscoped.access(), "/graph/v1.0/me").await.expect(200);
    for path in ["/graph/v1.0/groups", "/graph/v1.0/users/a/b", "/graph/v1.0", "/graph/beta/users"] {
        got(service.get_as(&acme, path).await, 404, "itemNotFound");
    }
    for (option, value, status, code) in [
        ("$filter", "startswith(displayName,'j')", 501, "notSupported"),
        ("$search", "\"a\" AND \"b\"", 501, "notSupported"),
        ("$skip", "1", 501, "notSupported"),
        ("$select", "id,manager", 400, "invalidRequest"),
        ("$top", "0", 400, "invalidRequest"),
    ] {
        got(ask(&service, &acme, "/graph/v1.0/users", &[(option, value)]).await, status, code);
    }
    let parentheses = format!("{}userType eq 'Member'{}", "(".repeat(200), ")".repeat(200));
    got(ask(&service, &acme, "/graph/v1.0/users", &[("$filter", &parentheses)]).await, 400, "invalidRequest");
    // Scripts of an application read refusals too.
    let from_script = service.http().get(service.at("/graph/v1.0/me")).header("origin", "https://app.example");
    let answer = service.send(from_script).await;
    assert_eq!(answer.header("access-control-allow-origin"), "https://app.example");
    got(answer, 401, "unauthenticated");
    // Other doors keep their own form.
    assert_eq!(service.get("/api/v1/me").await.expect(401).error(), "invalid_token");
}

#[tokio::test]
async fn a_service_is_itself() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let workload = service.client_credentials("acme-service").await;
    let me = ask(&service, workload.access(), "/graph/v1.0/me", &[]).await.expect(200).json();
    assert_eq!((me["displayName"] == me["onPremisesSamAccountName"], me["mail"].is_null()), (true, true), "{me}");
    assert_eq!(search(&service, workload.access(), "jane").await, ["jane"]);
}
