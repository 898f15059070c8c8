//! People who sign in through providers of their own: real, certified ones, two of which serve a tenant each and one serves both.
//!
//! The providers are shared by the tests of this file and of its parts; each test has a broker of its own, and accounts of its own
//! where it changes them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

#[path = "upstream_oidc/attacks.rs"]
mod attacks;
#[path = "upstream_oidc/clients.rs"]
mod clients;
#[path = "upstream_oidc/glewlwyd.rs"]
mod glewlwyd;
#[path = "upstream_oidc/logout.rs"]
mod logout;
#[path = "upstream_oidc/pages.rs"]
mod pages;
#[path = "upstream_oidc/renewal.rs"]
mod renewal;
#[path = "upstream_oidc/unavailable.rs"]
mod unavailable;

use std::collections::BTreeSet;

use denizen_tests::{
    Answer, Authorization, Broker, Browser, Configuration, OidcProvider, Service, Tokens, Tools,
    browser::code,
    configuration::{KUBERNETES, REVIEWER_TOKEN},
    jwt,
    oidc_provider::{Settings, account},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The three providers.
struct Providers {
    /// The tenant acme's own.
    acme: OidcProvider,
    /// The tenant globex' own, whose people have the same `sub`s.
    globex: OidcProvider,
    /// An operator's, whose claim `tenant_id` says of which tenant someone is.
    shared: OidcProvider,
}

/// The providers, or `None` where they can not be started here.
async fn providers() -> Option<&'static Providers> {
    static PROVIDERS: OnceCell<Option<Providers>> = OnceCell::const_new();
    let start = || async {
        let tools = Tools::find()?;
        let person = |provider: &str, sub: &str, login: &str, more: Value| account(provider, sub, login, &more);
        let own = |provider: &'static str| {
            let email = json!({"email": format!("jane@{provider}.example"), "email_verified": true, "groups": ["staff"]});
            Settings::new(provider, vec![person(provider, "1", "jane", email)])
        };
        let of = |tenant: &str| json!({"tenant_id": tenant, "email": "sue@shared.example", "email_verified": true, "groups": ["staff"]});
        let both = vec![person("shared", "1", "sue-acme", of("acme")), person("shared", "2", "sue-globex", of("globex"))];
        let (acme, globex, shared) = tokio::join!(
            OidcProvider::start(&tools, own("acme")),
            OidcProvider::start(&tools, own("globex")),
            OidcProvider::start(&tools, Settings::new("shared", both)),
        );
        Some(Providers { acme, globex, shared })
    };
    PROVIDERS.get_or_init(start).await.as_ref()
}

/// One connector each, named after the provider; `change` may make them different.
fn connectors(providers: &Providers, change: impl FnOnce(&mut Vec<Value>)) -> Vec<Value> {
    let mut acme = providers.acme.connector("acme-sso");
    acme["tenant"] = json!({"fixed": "acme"});
    let mut globex = providers.globex.connector("globex-sso");
    globex["tenant"] = json!({"fixed": "globex"});
    let mut shared = providers.shared.connector("shared-sso");
    shared["operatedBy"] = "operator".into();
    shared["tenants"] = json!(["acme", "globex"]);
    let mut all = vec![acme, globex, shared];
    change(&mut all);
    all
}

/// The usual configuration with these connectors besides, and for each a public client `at-{connector}` that knows no other way.
fn configuration(connectors: &[Value]) -> Configuration {
    let mut configuration = Configuration::default();
    for connector in connectors {
        let id = connector["id"].as_str().unwrap();
        configuration.set("/connectors/-", connector.clone());
        configuration.set(
            "/clients/-",
            json!({
                "id": format!("at-{id}"), "displayName": "The application", "redirectUris": ["http://127.0.0.1/cb"], "connectors": [id],
                "scopes": ["openid", "profile", "email", "groups", "roles", "offline_access", "users.read"],
                "audiences": [KUBERNETES, "${issuer}/api"],
            }),
        );
    }
    configuration
}

/// A request of the client that knows this connector only, for tokens that Kubernetes and the search take.
fn request(issuer: &str, connector: &str) -> Authorization {
    Authorization::new(&format!("at-{connector}"), "http://127.0.0.1:4711/cb")
        .with("scope", "openid profile email groups roles users.read")
        .add("resource", KUBERNETES)
        .add("resource", &format!("{issuer}/api"))
}

/// A broker with the three connectors.
struct House {
    providers: &'static Providers,
    broker: Broker,
}

impl House {
    async fn start() -> Option<Self> {
        Self::start_with(|_| ()).await
    }

    async fn start_with(change: impl FnOnce(&mut Vec<Value>)) -> Option<Self> {
        let providers = providers().await?;
        let connectors = connectors(providers, change);
        let broker = Broker::start(configuration(&connectors)).await;
        for connector in &connectors {
            providers.of(connector).register(&broker, connector).await;
        }
        Some(Self { providers, broker })
    }

    fn request(&self, connector: &str) -> Authorization {
        request(self.broker.issuer(), connector)
    }

    fn browser(&self) -> Browser {
        self.providers.visited_by(self.broker.browser())
    }

    fn service(&self) -> Service {
        self.broker.service()
    }

    /// Goes the whole way with a new browser, as far as it leads.
    async fn try_sign_in(&self, connector: &str, login: &str) -> Answer {
        self.try_sign_in_with(&mut self.browser(), &self.request(connector), login).await
    }

    async fn try_sign_in_with(&self, browser: &mut Browser, request: &Authorization, login: &str) -> Answer {
        let page = browser.open(&request.path()).await;
        self.providers.at(&page).sign_in(browser, &page, login).await
    }

    async fn sign_in(&self, connector: &str, login: &str) -> Tokens {
        let answer = self.try_sign_in(connector, login).await;
        self.service().exchange(&self.request(connector), &code(&answer)).await
    }
}

impl Providers {
    const fn all(&self) -> [&OidcProvider; 3] {
        [&self.acme, &self.globex, &self.shared]
    }

    /// The provider of a connector.
    fn of(&self, connector: &Value) -> &OidcProvider {
        self.all().into_iter().find(|one| connector["issuer"]["url"] == one.issuer()).unwrap()
    }

    /// The provider whose page this is.
    #[track_caller]
    fn at(&self, page: &Answer) -> &OidcProvider {
        let found = self.all().into_iter().find(|one| page.url.as_str().starts_with(one.issuer()));
        found.unwrap_or_else(|| panic!("the browser is at {} ({}): {}", page.url, page.status, page.text))
    }

    fn visited_by(&self, browser: Browser) -> Browser {
        self.all().into_iter().fold(browser, |browser, provider| browser.visiting(provider.issuer()))
    }
}

/// That a sign-in ended on a page of the broker's which says so, and nowhere else. It is 502 where the provider's answer does not fit.
#[track_caller]
fn refused(answer: &Answer) {
    assert!(answer.location().is_none(), "it went on to {:?}", answer.location());
    assert!((400..=502).contains(&answer.status) && answer.status != 500, "{} answered {}: {}", answer.url, answer.status, answer.text);
}

/// That a browser has no session at the broker.
async fn is_signed_out(browser: &mut Browser) {
    assert_eq!(browser.get("/account").await.status, 303);
}

#[tokio::test]
async fn two_tenants_with_their_own_providers_and_with_a_shared_one_are_never_confused() {
    let Some(house) = House::start().await else { return };
    let service = house.service();
    let ways = [
        ("acme-sso", "jane", "acme", "jane@acme.example"),
        ("globex-sso", "jane", "globex", "jane@globex.example"),
        ("shared-sso", "sue-acme", "acme", "sue@shared.example"),
        ("shared-sso", "sue-globex", "globex", "sue@shared.example"),
    ];
    let mut people = Vec::new();
    for (connector, login, tenant, email) in ways {
        let tokens = house.sign_in(connector, login).await;
        let claims = jwt::claims(tokens.access());
        assert_eq!(
            (&claims["tenant_id"], &claims["connector"], &claims["preferred_username"], &claims["groups"]),
            (&json!(tenant), &json!(connector), &json!(login), &json!(["staff"]))
        );
        assert_eq!(jwt::claims(tokens.id())["email"], email);
        let info = service.userinfo(tokens.access()).await.expect(200).json();
        assert_eq!((&info["tenant_id"], &info["sub"], &info["email_verified"]), (&json!(tenant), &claims["sub"], &json!(true)));
        let review = service.review(REVIEWER_TOKEN, tokens.access(), &[KUBERNETES]).await;
        assert_eq!((&review["authenticated"], &review["user"]["username"]), (&json!(true), &json!(format!("{tenant}:{login}"))));
        people.push((tenant, login, claims["sub"].as_str().unwrap().to_owned(), tokens));
    }
    let ids: BTreeSet<_> = people.iter().map(|(_, _, id, _)| id).collect();
    assert_eq!(ids.len(), 4, "the same `sub`s and addresses are four people");
    // A second sign-in is the same person.
    assert_eq!(jwt::claims(house.sign_in("shared-sso", "sue-acme").await.access())["sub"], people[2].2);

    for (tenant, _, _, tokens) in &people {
        for (theirs, login, id, _) in &people {
            let found = service.search(tokens.access(), "/api/v1/users", login).await;
            let answer = service.get_as(tokens.access(), &format!("/api/v1/users/{id}")).await;
            if theirs == tenant {
                assert!(found.contains(&format!("{tenant}/{login}")), "{tenant} looks for {login}: {found:?}");
                assert_eq!(answer.expect(200).json()["tenantId"], *tenant);
            } else {
                assert!(found.iter().all(|name| name.starts_with(&format!("{tenant}/"))), "{tenant} looks for {login}: {found:?}");
                let absent = service.get_as(tokens.access(), "/api/v1/users/00000000-0000-4000-8000-000000000000").await.expect(404);
                assert_eq!(answer.expect(404).text, absent.text, "someone of another tenant is as absent");
            }
        }
        // Renewed, it is still the same person of the same tenant.
        let renewed = service.refresh(&client_of(tokens), tokens.refresh()).await;
        assert_eq!(jwt::claims(renewed.access())["tenant_id"], *tenant);
        assert_eq!(jwt::claims(renewed.access())["sub"], jwt::claims(tokens.access())["sub"]);
    }
    assert!(!house.broker.log().contains("\"level\":\"ERROR\""), "{}", house.broker.log());
}

fn client_of(tokens: &Tokens) -> String {
    jwt::claims(tokens.access())["client_id"].as_str().unwrap().to_owned()
}
