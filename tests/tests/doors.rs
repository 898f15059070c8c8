//! The doors as other people's clients and proxies knock at them: how they write a secret, a form's type, an address.

use denizen_tests::{
    Authorization, Broker, Configuration, Service,
    configuration::{KUBERNETES, password_of},
};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

const OWN: [(&str, &str); 1] = [("grant_type", "client_credentials")];

fn token(service: &Service) -> RequestBuilder {
    service.http().post(service.at("/oauth2/token"))
}

#[tokio::test]
async fn a_secret_in_the_header_may_be_encoded_or_not() {
    let configuration = Configuration::default().with_client("acme-service", "secret", "a+b%20c%&=:ä");
    let broker = Broker::start(configuration).await;
    let service = broker.service();
    let basic = |secret: &str| service.send(token(&service).basic_auth("acme-service", Some(secret)).form(&OWN));
    for right in ["a+b%20c%&=:ä", "a%2Bb%2520c%25%26%3D%3A%C3%A4"] {
        basic(right).await.expect(200);
    }
    for wrong in ["a b c%&=:ä", "a+b c%&=:ä", "a%2Bb%20c%25%26%3D%3A%C3%A4", "a%252Bb%252520c%2525", "", " "] {
        assert_eq!(basic(wrong).await.expect(401).error(), "invalid_client", "{wrong}");
    }
    // In the body there is one reading.
    let body = |secret: &str| service.send(token(&service).form(&[OWN[0], ("client_id", "acme-service"), ("client_secret", secret)]));
    body("a+b%20c%&=:ä").await.expect(200);
    body("a%2Bb%2520c%25%26%3D%3A%C3%A4").await.expect(401);
}

#[tokio::test]
async fn a_public_client_may_name_itself_in_the_header() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let request = Authorization::web().with("tenant", "acme");
    let code = broker.browser().sign_in(&request, "jane", &password_of("acme", "jane")).await;
    service.send(service.exchange_request(&request, &code).basic_auth("web", Some("x"))).await.expect(401);
    service.send(service.exchange_request(&request, &code).basic_auth("web", Some(""))).await.expect(200);
    // And the header and the body must name one client, and give one secret.
    let other = [OWN[0], ("client_id", "backend")];
    service.send(token(&service).basic_auth("acme-service", Some("secret-of-acme-service")).form(&other)).await.expect(400);
    let both = [OWN[0], ("client_secret", "secret-of-acme-service")];
    service.send(token(&service).basic_auth("acme-service", Some("")).form(&both)).await.expect(400);
}

fn open_reviewer() -> Configuration {
    let mut configuration = Configuration::default();
    configuration.set("/reviewers", json!([{"id": "local", "audiences": [KUBERNETES]}]));
    configuration
}

fn review(http: &reqwest::Client, broker: &Broker) -> RequestBuilder {
    let body: Value = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": "nonsense"}});
    http.post(broker.service().at("/apis/authentication.k8s.io/v1/tokenreviews")).json(&body)
}

#[tokio::test]
async fn t50_the_open_reviewer_is_not_for_what_comes_through_a_proxy_or_shows_something() {
    let broker = Broker::start(open_reviewer()).await;
    let service = broker.service();
    let ask = |name: &'static str, value: &'static str| service.send(review(service.http(), &broker).header(name, value));
    ask("accept", "*/*").await.expect(200);
    for name in ["via", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"] {
        for value in ["127.0.0.1", "1.1 proxy", ""] {
            assert_eq!(ask(name, value).await.status, 401, "{name}: {value}");
        }
    }
    for value in ["Basic bG9jYWw6eA==", "Bearer", "Bearer ", "Bearer x", "x", ""] {
        assert_eq!(ask("authorization", value).await.status, 401, "authorization: {value}");
    }
    let twice = review(service.http(), &broker).header("authorization", "Bearer x").header("authorization", "Bearer y");
    service.send(twice).await.expect(401);
}

#[tokio::test]
async fn t50_a_certificate_of_someone_else_is_not_passed_over() {
    let broker = Broker::start_tls(open_reviewer()).await;
    let authority = broker.authority();
    let files = authority.client(broker.folder(), "someone");
    let pem = [std::fs::read(&files.certificate).unwrap(), std::fs::read(&files.key).unwrap()].concat();
    let roots = [reqwest::Certificate::from_pem(authority.certificate().as_bytes()).unwrap()];
    let with_certificate =
        reqwest::Client::builder().no_proxy().tls_certs_only(roots).identity(reqwest::Identity::from_pem(&pem).unwrap()).build().unwrap();
    let service = broker.service();
    service.send(review(service.http(), &broker)).await.expect(200);
    service.send(review(&with_certificate, &broker)).await.expect(401);
}

#[tokio::test]
async fn a_head_and_a_forms_type_in_capitals_are_understood() {
    let broker = Broker::start(Configuration::default()).await;
    let service = broker.service();
    let path = Authorization::web().with("tenant", "acme").path();
    let get = service.get(&path).await;
    let head = service.send(service.http().head(service.at(&path))).await.expect(get.status);
    assert!(get.status < 400 && head.text.is_empty());
    let form = |content_type: &'static str| {
        let body = "grant_type=client_credentials&client_id=acme-service&client_secret=secret-of-acme-service";
        service.send(token(&service).header("content-type", content_type).body(body))
    };
    form("Application/X-WWW-Form-URLEncoded; Charset=UTF-8").await.expect(200);
    form("application/x-www-form-urlencodedness").await.expect(415);
}

#[tokio::test]
async fn the_port_of_a_forwarded_address_is_not_part_of_it() {
    let configuration = Configuration::default()
        .with("/listen", json!({"trustedProxies": ["127.0.0.1"]}))
        .with("/guessing", json!({"accountBurst": 2, "accountSeconds": 3600, "addressBurst": 100, "spreadBurst": 100}));
    let broker = Broker::start(configuration).await;
    let guess = async |address: &str| {
        let mut browser = broker.browser();
        browser.headers.push(("x-forwarded-for".to_owned(), address.to_owned()));
        browser.try_sign_in(&Authorization::web().with("tenant", "acme"), "jane", "wrong").await.status
    };
    for (address, status) in [
        ("203.0.113.1:1111", 422),
        ("203.0.113.1:2222", 422),
        ("203.0.113.1", 429),
        ("203.0.113.2:1111", 422),
        ("[2001:db8::1]:443", 422),
        ("[2001:db8::1]", 422),
        ("2001:db8::1", 429),
        ("[2001:db8:1::1]:443", 422),
    ] {
        assert_eq!(guess(address).await, status, "{address}");
    }
}
