//! `denizen demo --once`: the demo's way, walked over HTTP by the program itself, each step with its real answer.

use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use reqwest::{Response, StatusCode, header};
use serde_json::{Value, json};
use url::Url;

use super::say;
use crate::{
    seams::SystemEntropy,
    secret_text::{fingerprint, random_text},
};

const KUBERNETES: &str = "https://kubernetes.default.svc";

/// What one person's walk showed, for the comparison at the end.
struct Seen {
    tenant: &'static str,
    token: String,
    people: Vec<String>,
    own_id: String,
}

/// A tenant's id and name, and the username, password and full name of its people.
pub(super) type Sample = (&'static str, &'static str, [[&'static str; 3]; 3]);

pub(super) async fn walk(issuer: &str, samples: &[Sample]) -> anyhow::Result<ExitCode> {
    let mut seen = Vec::new();
    for &(tenant, _, people) in samples {
        // The one whose name both tenants have.
        let [_, _, [username, password, _]] = people;
        seen.push(one(issuer, tenant, username, password).await.with_context(|| format!("{username} of {tenant}"))?);
    }
    let [acme, globex] = seen.as_slice() else { bail!("two tenants were expected") };
    say("\n7. Neither sees the other's people");
    for (one, other) in [(acme, globex), (globex, acme)] {
        ensure!(one.people.iter().all(|id| !other.people.contains(id)), "{} and {} share a user", one.tenant, other.tenant);
        let visitor = Visitor::new(issuer)?;
        for path in [format!("/api/v1/users/{}", other.own_id), format!("/api/v1/tenants/{}/users", other.tenant)] {
            let status = visitor.get(&path, Some(&one.token)).await?.status();
            say(format_args!("   {} asks for {path}: {status}", one.tenant));
            ensure!(status == StatusCode::NOT_FOUND, "{path} must be 404 for {}", one.tenant);
        }
    }
    say("\nAll of it held.");
    Ok(ExitCode::SUCCESS)
}

async fn one(issuer: &str, tenant: &'static str, username: &str, password: &str) -> anyhow::Result<Seen> {
    say(format_args!("\n== {username} of {tenant} =="));
    let mut visitor = Visitor::new(issuer)?;
    let verifier = random_text(&SystemEntropy);
    let authorize = authorize_address(issuer, tenant, &verifier)?;
    say(format_args!("1. The application asks for a sign-in\n   GET {}", authorize.path()));
    let login = visitor.follow(visitor.get(authorize.as_str(), None).await?).await?;
    let (at, page) = (login.url().clone(), login.text().await?);
    say(format_args!("2. {username} signs in at {}", at.path()));
    let form = [("attempt", hidden(&page, "attempt")?), ("csrf", hidden(&page, "csrf")?), ("username", username), ("password", password)];
    let answer = visitor.post_form(at.path(), &form).await?;
    ensure!(answer.status() == StatusCode::SEE_OTHER, "the sign-in was answered {}", answer.status());
    let back = Url::parse(location(&answer)?)?;
    let code = back.query_pairs().find(|(name, _)| name == "code").map(|(_, code)| code.into_owned()).context("no code came back")?;
    ensure!(back.query_pairs().any(|(name, value)| name == "iss" && value == issuer), "the answer names another issuer");
    say(format_args!("   303 back to {} with a code", back.path()));
    let redirect_uri = format!("{issuer}/demo/callback");
    let exchange = [
        ("grant_type", "authorization_code"),
        ("client_id", "demo"),
        ("code", &code),
        ("redirect_uri", &redirect_uri),
        ("code_verifier", &verifier),
    ];
    let granted = visitor.json(visitor.post_form("/oauth2/token", &exchange).await?).await?;
    let token = granted.get("access_token").and_then(Value::as_str).context("no access token came back")?.to_owned();
    let claims = claims(&token)?;
    say(format_args!("3. The token, taken apart\n{}", indented(&claims)?));
    ensure!(claims.get("tenant_id") == Some(&json!(tenant)), "the token is of another tenant");
    let review = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, "audiences": [KUBERNETES]},
    });
    let reviewed = visitor.json(visitor.post_json("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?).await?;
    say(format_args!("4. A TokenReview of it\n{}", indented(reviewed.get("status").unwrap_or(&reviewed))?));
    let expected = format!("{tenant}:{username}");
    ensure!(reviewed.pointer("/status/user/username") == Some(&json!(expected)), "the review does not say {expected}");
    let forged = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": forge(&token)?, "audiences": [KUBERNETES]},
    });
    let refused = visitor.json(visitor.post_json("/apis/authentication.k8s.io/v1/tokenreviews", &forged).await?).await?;
    let taken = refused.pointer("/status/authenticated").context("the review says nothing")?;
    say(format_args!("5. A TokenReview of it with the tenant edited: authenticated {taken}"));
    ensure!(taken == &json!(false), "an edited token was taken");
    let found = visitor.json(visitor.get("/api/v1/users?search=", Some(&token)).await?).await?;
    let users = found.get("users").and_then(Value::as_array).context("no users came back")?;
    say("6. A search for everyone");
    for user in users {
        say(format_args!("   {} ({}) of {}", text(user, "displayName"), text(user, "username"), text(user, "tenantId")));
        ensure!(user.get("tenantId") == Some(&json!(tenant)), "someone of another tenant was found");
    }
    ensure!(users.len() == 3, "{} people were found", users.len());
    Ok(Seen { tenant, people: users.iter().map(|user| text(user, "id")).collect(), own_id: text(&claims, "sub"), token })
}

fn authorize_address(issuer: &str, tenant: &str, verifier: &str) -> anyhow::Result<Url> {
    let mut address = Url::parse(issuer)?.join("/oauth2/authorize")?;
    address.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", "demo"),
        ("redirect_uri", &format!("{issuer}/demo/callback")),
        ("scope", "openid profile email groups users.read"),
        ("resource", &format!("{issuer}/api")),
        ("resource", KUBERNETES),
        ("state", "state"),
        ("nonce", "nonce"),
        ("code_challenge", &fingerprint(verifier)),
        ("code_challenge_method", "S256"),
        ("tenant", tenant),
    ]);
    Ok(address)
}

fn text(object: &Value, member: &str) -> String {
    object.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The value of a hidden field of a page.
fn hidden<'p>(page: &'p str, name: &str) -> anyhow::Result<&'p str> {
    let field =
        page.split("<input").find(|field| field.contains(&format!("name=\"{name}\""))).with_context(|| format!("no field {name}"))?;
    let value = field.split_once("value=\"").and_then(|(_, rest)| rest.split_once('"'));
    value.map(|(value, _)| value).with_context(|| format!("the field {name} has no value"))
}

fn claims(token: &str) -> anyhow::Result<Value> {
    let payload = token.split('.').nth(1).context("the token is no JWT")?;
    Ok(serde_json::from_slice(&B64.decode(payload)?)?)
}

/// The token with the other tenant in it, and the signature as it was.
fn forge(token: &str) -> anyhow::Result<String> {
    let parts: Vec<_> = token.split('.').collect();
    let [header, _, signature] = parts.as_slice() else { bail!("the token is no JWT") };
    let mut edited = claims(token)?;
    let other = if text(&edited, "tenant_id") == "acme" { "globex" } else { "acme" };
    edited.as_object_mut().context("the claims are no object")?.insert("tenant_id".to_owned(), json!(other));
    Ok(format!("{header}.{}.{signature}", B64.encode(edited.to_string())))
}

fn indented(value: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)?.lines().map(|line| format!("   {line}")).collect::<Vec<_>>().join("\n"))
}

fn location(response: &Response) -> anyhow::Result<&str> {
    Ok(response.headers().get(header::LOCATION).context("the answer leads nowhere")?.to_str()?)
}

/// A browser as far as the walk needs one: it keeps cookies and follows redirects on this server.
struct Visitor {
    http: reqwest::Client,
    issuer: Url,
    cookies: std::collections::BTreeMap<String, String>,
}

impl Visitor {
    fn new(issuer: &str) -> anyhow::Result<Self> {
        let http =
            reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().timeout(std::time::Duration::from_secs(10));
        Ok(Self { http: http.build()?, issuer: Url::parse(issuer)?, cookies: std::collections::BTreeMap::new() })
    }

    fn cookie(&self) -> String {
        self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    async fn get(&self, path: &str, token: Option<&str>) -> anyhow::Result<Response> {
        let request = self.http.get(self.issuer.join(path)?).header(header::COOKIE, self.cookie());
        Ok(token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth).send().await?)
    }

    async fn post_form(&self, path: &str, form: &[(&str, &str)]) -> anyhow::Result<Response> {
        Ok(self.http.post(self.issuer.join(path)?).header(header::COOKIE, self.cookie()).form(form).send().await?)
    }

    async fn post_json(&self, path: &str, body: &Value) -> anyhow::Result<Response> {
        Ok(self.http.post(self.issuer.join(path)?).json(body).send().await?)
    }

    async fn json(&self, response: Response) -> anyhow::Result<Value> {
        let (status, path) = (response.status(), response.url().path().to_owned());
        let body = response.text().await?;
        ensure!(status.is_success(), "{path} answered {status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }

    async fn follow(&mut self, mut response: Response) -> anyhow::Result<Response> {
        for _ in 0..5 {
            for cookie in response.headers().get_all(header::SET_COOKIE) {
                let pair = cookie.to_str()?.split(';').next().unwrap_or_default();
                if let Some((name, value)) = pair.split_once('=') {
                    self.cookies.insert(name.to_owned(), value.to_owned());
                }
            }
            if response.status() != StatusCode::SEE_OTHER {
                ensure!(response.status().is_success(), "{} answered {}", response.url().path(), response.status());
                return Ok(response);
            }
            let next = location(&response)?.to_owned();
            response = self.get(&next, None).await?;
        }
        bail!("too many redirects")
    }
}
