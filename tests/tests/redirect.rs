//! Sign-in at an upstream's own pages, through the doors of a broker in this process. Its upstream is the test's own port:
//! it proves whomever the code names, and breaks on request, which no real provider does.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use claims_mapping::{Claims, Subject, UpstreamUser};
use connectors::{Callback, ConnectorError, Handshake, Proven, RedirectLogin, Renewal, Renewed, Secret, UpstreamSession, Wish};
use denizen::{config, seams, store};
use denizen_tests::{
    Answer, Authorization, Browser, Configuration,
    browser::{code, returned},
    form::links,
};
use serde_json::json;
use time::OffsetDateTime;
use url::Url;

struct Upstream;

#[async_trait]
impl RedirectLogin for Upstream {
    async fn begin(&self, handshake: &Handshake, wish: &Wish, _: OffsetDateTime) -> Result<Url, ConnectorError> {
        if wish.login_hint.as_deref() == Some("down") {
            return Err(ConnectorError::Unavailable("it is down".to_owned()));
        }
        let mut url = Url::parse("https://up.example/authorize").unwrap();
        url.query_pairs_mut()
            .append_pair("state", &handshake.state)
            .append_pair("login_hint", wish.login_hint.as_deref().unwrap_or_default())
            .append_pair("anew", &wish.anew.to_string())
            .append_pair("max_age", &wish.max_age.map(|age| age.to_string()).unwrap_or_default());
        Ok(url)
    }
    async fn finish(&self, _: &Handshake, _: &Wish, callback: &Callback, _: OffsetDateTime) -> Result<Option<Proven>, ConnectorError> {
        if callback.error.is_some() {
            return Ok(None);
        }
        match callback.code.as_deref().and_then(|code| code.split_once('/')) {
            Some((tenant, sub)) => {
                let claims = Claims::new(json!({"sub": sub, "preferred_username": sub, "tenant_id": tenant})).unwrap();
                let user = UpstreamUser { subject: Subject::parse(sub).unwrap(), claims };
                Ok(Some(Proven { user, auth_time: None, session: UpstreamSession::default() }))
            }
            None if callback.code.as_deref() == Some("unusable") => Err(ConnectorError::Unusable("the iss is another's".to_owned())),
            None => Err(ConnectorError::Unavailable("it is down".to_owned())),
        }
    }
}

#[async_trait]
impl Renewal for Upstream {
    async fn renew(&self, _: &Subject, _: &Secret, _: OffsetDateTime) -> Result<Option<Renewed>, ConnectorError> {
        Ok(None)
    }
    fn believed_seconds(&self) -> u64 {
        3_600
    }
}

/// A broker with the connectors `up` and `other`, both on that upstream, and the address of its admin doors.
async fn broker(edit: impl FnOnce(&mut Configuration)) -> (impl Fn() -> Browser, String) {
    denizen_tests::broker::install_providers();
    let oidc = |id: &str| {
        json!({
            "id": id, "displayName": "Up & away", "type": "oidc", "operatedBy": "operator", "tenants": ["acme", "globex"],
            "issuer": {"url": format!("https://{id}.example"), "audiences": ["denizen"]}, "clientId": "denizen",
        })
    };
    let mut configuration = Configuration::default().with_client("web", "connectors", json!(["up", "other"])).with("/store", json!({}));
    configuration.set("/connectors/-", oidc("up"));
    configuration.set("/connectors/-", oidc("other"));
    edit(&mut configuration);
    let (public, admin) = (listener().await, listener().await);
    let (address, admin_address) = (public.local_addr().unwrap(), admin.local_addr().unwrap());
    let (issuer, folder) = (format!("http://{address}"), std::env::temp_dir());
    let text = configuration.text(&issuer, address.port(), admin_address.port(), &folder);
    let mut loaded = config::load_text(&text, &folder, "test.yaml").unwrap();
    for loaded in loaded.connectors.iter_mut().filter(|c| ["up", "other"].contains(&c.config.id.as_str())) {
        loaded.connector.redirect = Some(Arc::new(Upstream));
        loaded.connector.renewal = Some(Arc::new(Upstream));
    }
    let seams = seams::Seams::alone(
        Arc::new(seams::SystemClock),
        Arc::new(seams::SystemEntropy),
        Arc::new(store::embedded::Embedded::in_memory().unwrap()),
    );
    let app = Arc::new(denizen::build(loaded, seams).await.unwrap());
    let doors = denizen::http::public(&app, None).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(public, doors).await });
    let doors = denizen::http::admin(&app);
    tokio::spawn(async move { axum::serve(admin, doors).await });
    let browser = move || {
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).tls_certs_only([]).build().unwrap();
        Browser::new(http, &issuer)
    };
    (browser, format!("http://{admin_address}"))
}

async fn listener() -> tokio::net::TcpListener {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Begins at `up`, and gives what the upstream is sent.
async fn begin(browser: &mut Browser, request: &Authorization) -> Answer {
    let page = browser.open(&request.path()).await;
    let link = links(&page.text).into_iter().find(|link| link.starts_with("/login/up")).unwrap();
    browser.get(&link).await.expect(303)
}

async fn come_back(browser: &mut Browser, connector: &str, state: &str, rest: &[(&str, &str)]) -> Answer {
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("state", state).extend_pairs(rest).finish();
    browser.get(&format!("/login/{connector}/callback?{query}")).await
}

#[tokio::test]
async fn whoever_the_upstream_proves_goes_in_and_the_way_is_remembered() {
    let (browser, _) = broker(|_| ()).await;
    let mut browser = browser();
    let request = Authorization::web().with("login_hint", "jane@acme.example").with("max_age", "60").with("prompt", "login");
    let sent = begin(&mut browser, &request).await;
    assert_eq!(sent.location().unwrap().host_str(), Some("up.example"));
    let told = ["login_hint", "anew", "max_age"].map(|name| returned(&sent, name));
    assert_eq!(told, ["jane@acme.example", "true", "60"]);
    let session = browser.cookies.get("denizen").cloned();
    let answer = come_back(&mut browser, "up", &returned(&sent, "state"), &[("code", "acme/jane")]).await;
    assert!(!code(&answer).is_empty() && returned(&answer, "state") == "the-state");
    assert_ne!(browser.cookies.get("denizen").cloned(), session, "t46: another session id after the sign-in");
    let account = browser.open("/account").await.expect(200);
    assert!(account.text.contains("jane") && account.text.contains("Acme Corporation"), "{}", account.text);
    browser.sign_out().await.expect(200);
    let next = browser.open(&Authorization::web().path()).await;
    assert_eq!(next.location().unwrap().host_str(), Some("up.example"), "straight to the remembered way");
}

#[tokio::test]
async fn t20_a_second_use_another_browser_and_another_connector_are_refused() {
    let (browser, _) = broker(|_| ()).await;
    let mut jane = browser();
    let state = returned(&begin(&mut jane, &Authorization::web()).await, "state");
    let mut mallory = browser();
    begin(&mut mallory, &Authorization::web()).await;
    let code = [("code", "acme/jane")];
    for (who, connector) in [(&mut mallory, "up"), (&mut browser(), "up"), (&mut jane, "other")] {
        let page = come_back(who, connector, &state, &code).await.expect(400);
        assert!(page.text.contains("This sign-in is over"), "{connector}: {}", page.text);
    }
    assert!(come_back(&mut jane, "up", &state, &code).await.location().is_some(), "and none of them burnt it");
    let page = come_back(&mut jane, "up", &state, &code).await.expect(400);
    assert!(page.text.contains("You are signed in already") && links(&page.text).contains(&"/account".to_owned()), "{}", page.text);
}

#[tokio::test]
async fn tabs_each_come_to_their_end() {
    let (browser, _) = broker(|_| ()).await;
    let mut browser = browser();
    let first = returned(&begin(&mut browser, &Authorization::web().with("state", "1")).await, "state");
    let second = returned(&begin(&mut browser, &Authorization::web().with("state", "2")).await, "state");
    for (state, own) in [(second, "2"), (first, "1")] {
        assert_eq!(returned(&come_back(&mut browser, "up", &state, &[("code", "acme/jane")]).await, "state"), own);
    }
}

#[tokio::test]
async fn no_could_not_tell_and_not_admitted_each_have_a_page() {
    let (browser, admin) = broker(|_| ()).await;
    for (answer, status, says, has_number) in [
        (("error", "access_denied"), 403, "You did not sign in", false),
        (("code", "down"), 503, "does not work at the moment", true),
        (("code", "unusable"), 502, "does not work at the moment", true),
        (("code", "nowhere/jane"), 403, "You can not sign in here", true),
        (("code", "/jane"), 403, "You can not sign in here", true),
    ] {
        let mut browser = browser();
        let state = returned(&begin(&mut browser, &Authorization::web()).await, "state");
        let page = come_back(&mut browser, "up", &state, &[answer]).await.expect(status);
        assert!(page.text.contains(says), "{answer:?}: {}", page.text);
        let number = page.text.split_once("<code>").map(|(_, rest)| rest.split("</code>").next().unwrap());
        assert_eq!(number.is_some(), has_number, "{answer:?}");
        if let Some(number) = number {
            let kept = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
            let kept = Answer::read(kept.get(format!("{admin}/refusals/{number}")).send().await.unwrap()).await.unwrap().expect(200);
            assert_eq!(kept.json()["steps"].as_array().unwrap().is_empty(), status != 403, "{answer:?}: {}", kept.text);
        }
        // The way on is open: the attempt is not over.
        let next = links(&page.text).into_iter().find(|link| link.starts_with("/login")).unwrap();
        assert!(browser.open(&next).await.expect(200).text.contains("Choose how you sign in"), "{answer:?}");
    }
    let page = browser().open(&Authorization::web().path()).await;
    assert!(!links(&page.text).is_empty());
    let mut browser = browser();
    let page = browser.open(&Authorization::web().with("login_hint", "down").path()).await;
    let up = links(&page.text).into_iter().find(|link| link.starts_with("/login/up")).unwrap();
    assert!(browser.get(&up).await.expect(503).text.contains("does not work at the moment"));
}

#[tokio::test]
async fn t12_the_requests_tenant_and_the_clients_are_held_against_whoever_comes() {
    let (browser, _) = broker(|configuration| {
        configuration.set("/clients/2/connectors", json!(["up"]));
    })
    .await;
    let mut jane = browser();
    let asks = |tenant: &str| Authorization::web().with("tenant", tenant);
    let state = returned(&begin(&mut jane, &asks("globex")).await, "state");
    come_back(&mut jane, "up", &state, &[("code", "acme/jane")]).await.expect(403);
    let state = returned(&begin(&mut jane, &asks("acme")).await, "state");
    assert!(come_back(&mut jane, "up", &state, &[("code", "acme/jane")]).await.location().is_some());
    let mut hank = browser();
    let sent = hank.open(&Authorization::new("acme-only", "https://acme-only.example/cb").path()).await.expect(303);
    come_back(&mut hank, "up", &returned(&sent, "state"), &[("code", "globex/hank"), ("tenant", "acme")]).await.expect(403);
    assert!(hank.open("/account").await.location().is_some() || !hank.open("/account").await.text.contains("You are signed in"));
}

#[tokio::test]
async fn a_doubled_parameter_is_refused_and_burns_nothing() {
    let (browser, _) = broker(|_| ()).await;
    let mut jane = browser();
    let state = returned(&begin(&mut jane, &Authorization::web()).await, "state");
    come_back(&mut jane, "up", &state, &[("code", "acme/jane"), ("code", "acme/mallory")]).await.expect(400);
    come_back(&mut jane, "up", &state, &[("state", "x"), ("code", "acme/jane")]).await.expect(400);
    assert!(come_back(&mut jane, "up", &state, &[("code", "acme/jane")]).await.location().is_some());
}

#[tokio::test]
async fn a_typed_address_leads_to_the_upstreams_pages_by_a_navigation_of_its_own() {
    let (browser, _) = broker(|configuration| {
        configuration.set("/tenants/0/emailDomains", json!(["acme.example"]));
        for index in [2, 3] {
            configuration.set(&format!("/connectors/{index}/listed"), index == 3);
        }
        configuration.set("/connectors/2/tenants", json!(["acme"]));
        configuration.set("/tenants/0/connectors", json!(["up"]));
        configuration.set("/clients/3/connectors", serde_json::Value::Null);
    })
    .await;
    let mut browser = browser();
    let page = browser.open(&Authorization::new("console", "https://console.example/cb").with("scope", "openid").path()).await;
    let page = browser.submit(&page, &[("identifier", "jane@acme.example")]).await.expect(200);
    let up = links(&page.text).into_iter().find(|link| link.starts_with("/login/up")).unwrap();
    assert!(page.text.contains(&format!("content=\"0; url={up}\"")), "{}", page.text);
    let sent = browser.get(&up).await.expect(303);
    assert_eq!((sent.location().unwrap().host_str(), returned(&sent, "login_hint").as_str()), (Some("up.example"), "jane@acme.example"));
}
