//! The operator's name, logo and colours on the pages, and what a tenant changes of them.
#![expect(clippy::unwrap_used, reason = "tests")]

use denizen_tests::{Answer, Authorization, Broker, Configuration, configuration::password_of, form::links};
use serde_json::json;

const LOGO: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><script>alert(1)</script><rect width="8" height="8" fill="#1a5fb4"/></svg>"##;

fn configuration(folder: &std::path::Path) -> Configuration {
    let logo = folder.join("logo.svg");
    std::fs::write(&logo, LOGO).unwrap();
    let mut configuration = Configuration::default();
    configuration.set("/branding", json!({"name": "Example Hosting", "logoFile": logo, "accent": "#1a5fb4", "support": "the help desk"}));
    configuration.set("/tenants/0/branding", json!({"name": "Acme at work", "accent": "#8f1d1d"}));
    configuration
}

/// The name beside the logo, and the style that is the tenant's or the operator's own.
fn look(page: &Answer) -> (String, String) {
    let name = page.text.split_once("<header class=\"brand\">").and_then(|(_, rest)| rest.split_once("<span>")).unwrap().1;
    let style = page.text.split("href=\"").filter(|rest| rest.starts_with("/brand/")).map(|rest| rest.split('"').next().unwrap());
    (name.split("</span>").next().unwrap().to_owned(), style.last().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn pages_look_as_the_operator_and_the_tenant_say() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(configuration(folder.path())).await;
    let request = || Authorization::new("console", "https://console.example/cb").with("scope", "openid");
    let of = async |request: Authorization| look(&broker.browser().open(&request.path()).await);
    let operators = of(request()).await;
    assert_eq!(operators.0, "Example Hosting");
    assert_eq!(of(request().with("tenant", "globex")).await, operators, "it has no look of its own");
    assert_eq!(of(request().with("tenant", "nowhere")).await, operators);
    let acmes = of(request().with("tenant", "acme")).await;
    assert_eq!(acmes.0, "Acme at work");
    assert_ne!(acmes.1, operators.1);
    let limited = of(Authorization::new("acme-only", "https://acme-only.example/cb")).await;
    assert_eq!(limited, acmes, "an application of one tenant's people looks as that tenant");

    let style = broker.browser().get(&acmes.1).await.expect(200);
    assert!(style.text.contains("--accent: #8f1d1d") && style.header("content-type").starts_with("text/css"), "{}", style.text);

    let mut jane = broker.browser();
    assert_eq!(look(&jane.sign_in_to_account("jane@acme", &password_of("acme", "jane")).await), acmes);
    let mut globex = broker.browser();
    assert_eq!(look(&globex.sign_in_to_account("jane@globex", &password_of("globex", "jane")).await), operators);
    // A page that someone gets instead.
    let lost = broker.browser().open("/login/nowhere?attempt=x").await;
    assert_eq!((look(&lost), lost.status >= 400), (operators, true));
}

#[tokio::test]
async fn a_logo_may_do_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(configuration(folder.path())).await;
    let page = broker.browser().open("/login").await;
    let address = page.text.split("src=\"").find(|rest| rest.starts_with("/brand/")).unwrap().split('"').next().unwrap().to_owned();
    let logo = broker.browser().get(&address).await.expect(200);
    assert_eq!((logo.text.as_str(), logo.header("content-type")), (LOGO, "image/svg+xml"));
    let policy = logo.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{policy}");
    assert_eq!(logo.header("x-content-type-options"), "nosniff");
    for other in ["/brand/", "/brand/nowhere", "/brand/..%2fdenizen.yaml"] {
        assert_eq!(broker.browser().get(other).await.status, 404, "{other}");
    }
    assert!(links(&page.text).iter().all(|link| !link.starts_with("http")), "nothing comes from elsewhere");
}
