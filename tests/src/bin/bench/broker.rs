//! The measured broker: the real one, in this process, on a store in a file, with people who have signed in.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, Result};
use axum::Router;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::{Claims, Identity, Subject, UpstreamUser};
use denizen::{
    App,
    config::{self, SigningAlgorithm},
    grants::{Authentication, CodeRequest},
    http::{self, server},
    login::{AuthorizeRequest, Entering, Session, SignedIn},
    seams::{Clock as _, Seams, SystemClock, SystemEntropy},
    secret_text::{fingerprint, random_text, random_uuid},
    store::embedded::Embedded,
    tokens::{AccessClaims, TokenType},
};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// The audience that the reviewer stands for.
pub(crate) const KUBERNETES: &str = "https://kubernetes.default.svc";
/// The reviewer's credential.
pub(crate) const REVIEWER_TOKEN: &str = "the-reviewer-of-the-benchmarks-has-this-long-token";
/// Where the application's codes go.
pub(crate) const REDIRECT_URI: &str = "http://127.0.0.1/callback";

/// A broker that listens.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) app: Arc<App>,
    pub(crate) address: SocketAddr,
}

/// Someone who has signed in.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) identity: Identity,
    pub(crate) signed_in: SignedIn,
    pub(crate) session: Session,
    pub(crate) token: String,
    claims: AccessClaims,
}

/// What clients and reviewers there are, beside the connectors and tenants that are given.
pub(crate) fn configuration(address: SocketAddr, store: &Path, tenants: &Value, connectors: &Value) -> Value {
    json!({
        "issuer": format!("http://{address}"),
        "listen": {"address": address, "adminAddress": "127.0.0.1:0"},
        "store": {"file": store},
        "tenants": tenants,
        "connectors": connectors,
        "clients": [{
            "id": "app", "redirectUris": [REDIRECT_URI], "audiences": [KUBERNETES, "${issuer}/api"],
            "scopes": ["openid", "profile", "email", "groups", "users.read"],
        }],
        "reviewers": [{"id": "kubernetes", "bearerToken": REVIEWER_TOKEN, "audiences": [KUBERNETES]}],
        // The codes of a round are made before it.
        "lifetimes": {"codeSeconds": 600, "accessTokenSeconds": 3600},
    })
}

/// Two tenants, whose people come from a file.
pub(crate) fn two_tenants() -> (Value, Value) {
    let tenants = json!([{"id": "acme", "displayName": "Acme Corporation"}, {"id": "globex", "displayName": "Globex"}]);
    let users: Vec<_> =
        (0..PEOPLE).map(|n| json!({"id": format!("u{n:03}"), "username": format!("user{n:03}"), "tenant": tenant_of(n)})).collect();
    (tenants, json!([{"id": "people", "type": "file", "operatedBy": "operator", "tenants": "all", "users": users}]))
}

const PEOPLE: usize = 100;

const fn tenant_of(person: usize) -> &'static str {
    if person.is_multiple_of(2) { "acme" } else { "globex" }
}

/// The time, as the broker's own clock has it.
pub(crate) fn now() -> OffsetDateTime {
    SystemClock.now()
}

impl Broker {
    /// Starts one on a free port.
    pub(crate) async fn start(folder: &Path, tenants: &Value, connectors: &Value) -> Result<Self> {
        Self::start_with(folder, tenants, connectors, &json!({})).await
    }

    /// The same, with more sections of the configuration, or others.
    pub(crate) async fn start_with(folder: &Path, tenants: &Value, connectors: &Value, sections: &Value) -> Result<Self> {
        let listener = server::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = listener.local_addr()?;
        let file = folder.join("denizen.redb");
        let mut configuration = configuration(address, &file, tenants, connectors);
        if let (Some(whole), Some(sections)) = (configuration.as_object_mut(), sections.as_object()) {
            whole.extend(sections.clone());
        }
        let loaded = config::load_text(&configuration.to_string(), folder, "the benchmark's configuration")?;
        let seams = Seams::alone(Arc::new(SystemClock), Arc::new(SystemEntropy), Arc::new(Embedded::open(&file)?));
        let app = Arc::new(denizen::build(loaded, seams).await?);
        serve(&app, listener, http::public(&app, None))?;
        Ok(Self { app, address })
    }

    /// Serves other routes by the same server, under the same layers.
    pub(crate) fn serve_floor(&self, routes: Router<Arc<App>>) -> Result<SocketAddr> {
        let listener = server::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = listener.local_addr()?;
        serve(&self.app, listener, http::with_layers(routes, &self.app))?;
        Ok(address)
    }

    /// Signs the people of [`two_tenants`] in, and gives each a token, through the use cases behind the pages.
    pub(crate) async fn people(&self) -> Result<Vec<Person>> {
        let mut people = Vec::with_capacity(PEOPLE);
        for n in 0..PEOPLE {
            let groups: Vec<_> = ["staff", "developers", "on-call", "readers", "project-apollo"].into();
            let claims = json!({
                "username": format!("user{n:03}"), "tenant": tenant_of(n), "groups": groups, "displayName": format!("User {n:03}"),
                "email": format!("user{n:03}@{}.example", tenant_of(n)), "email_verified": true,
            });
            people.push(self.sign_in("people", &format!("u{n:03}"), claims, KUBERNETES).await?);
        }
        Ok(people)
    }

    /// Signs one person in, of whom the connector's upstream says this.
    pub(crate) async fn sign_in(&self, connector: &str, subject: &str, claims: Value, audience: &str) -> Result<Person> {
        let (app, now) = (&self.app, now());
        let connector = app.admission.connector(connector).context("the connector is configured")?;
        let upstream = UpstreamUser { subject: Subject::parse(subject)?, claims: Claims::new(claims)? };
        let (identity, mapped) = app.admission.admit(connector, &upstream, now).await?;
        let signed_in = app.sessions.begin(Entering { identity: &identity, mapped, upstream: None }, None, now).await?;
        let (session, identity) = app.sessions.find(&signed_in, now).await?;
        let verifier = random_text(&SystemEntropy);
        let code = app.grants.give_code(&request(&verifier, audience), &signed_in, &session, now).await?;
        let exchange =
            CodeRequest { code, redirect_uri: Some(REDIRECT_URI.to_owned()), code_verifier: Some(verifier), resources: Vec::new() };
        let who = Authentication { id: "app".to_owned(), secret: None };
        let token = app.grants.exchange_code(&who, exchange, now).await?.access_token;
        let payload = token.split('.').nth(1).context("a token has three parts")?;
        let claims = serde_json::from_slice(&B64.decode(payload)?)?;
        Ok(Person { identity, signed_in, session, token, claims })
    }

    /// A token that no one has seen yet, of the same sign-in.
    pub(crate) fn new_token(&self, person: &Person) -> Result<String> {
        let claims = AccessClaims { jti: random_uuid(&SystemEntropy), ..person.claims.clone() };
        Ok(self.app.keys.sign(TokenType::Access, &claims, None, SigningAlgorithm::Es256, claims.iat)?)
    }
}

/// The application's request, as the authorization endpoint has proven it.
pub(crate) fn request(verifier: &str, audience: &str) -> AuthorizeRequest {
    AuthorizeRequest {
        client_id: "app".to_owned(),
        redirect_uri: REDIRECT_URI.to_owned(),
        scopes: ["openid", "profile", "email", "groups", "users.read"].map(str::to_owned).to_vec(),
        state: None,
        nonce: Some("n-0S6_WzA2Mj".to_owned()),
        code_challenge: fingerprint(verifier),
        audiences: vec![audience.to_owned()],
        tenant: None,
    }
}

fn serve(app: &Arc<App>, listener: TcpListener, routes: Router) -> Result<()> {
    let admin = server::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let served = server::serve(Arc::clone(app), (listener, routes), (admin, http::admin(app)), std::future::pending());
    // It ends with the process.
    drop(tokio::spawn(served));
    Ok(())
}
