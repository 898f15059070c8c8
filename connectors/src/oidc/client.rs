//! Denizen as a provider's client: the address of an authorization request, and what is asked of the token endpoint.
//!
//! It does not know what an ID token must hold (`oidc/id_token.rs`), and does not speak HTTP itself.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::StatusCode;
use openidconnect::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointNotSet, IssuerUrl, JsonWebKeySet,
    LoginHint, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    TokenResponse as _, TokenUrl,
    core::{CoreAuthPrompt, CoreAuthenticationFlow, CoreClient, CoreErrorResponseType, CoreIdToken, CoreTokenResponse, CoreTokenType},
};
use serde::Deserialize;
use time::OffsetDateTime;
use url::Url;

use super::{
    assertion::{Occasion, assertion},
    plan::{ClientPlan, ClientProof},
};
use crate::{ConnectorError, Handshake, Secret, Wish, http::Http};

const PROMPT: &str = "prompt";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// What Denizen is at the provider.
#[derive(Debug)]
pub(super) struct Client {
    plan: ClientPlan,
    redirect_uri: RedirectUrl,
    /// How many assertions its key has signed.
    assertions: AtomicU64,
}

/// One request and its answer: the way to a provider, or a test's.
#[async_trait]
pub(super) trait Exchange: Send + Sync {
    /// # Errors
    /// When there is no answer.
    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, ConnectorError>;
}

#[async_trait]
impl Exchange for Http {
    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, ConnectorError> {
        self.send(request).await
    }
}

/// The same for the crate, which reads a token endpoint's answers without looking at what is none.
struct Judged<'a>(&'a dyn Exchange);

impl<'c> AsyncHttpClient<'c> for Judged<'_> {
    type Error = ConnectorError;
    type Future = BoxFuture<'c, Result<http::Response<Vec<u8>>, ConnectorError>>;

    fn call(&'c self, request: http::Request<Vec<u8>>) -> Self::Future {
        async move { self.0.exchange(request).await.and_then(judged) }.boxed()
    }
}

/// With what tokens are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Grant<'a> {
    Code { code: &'a str, verifier: &'a str },
    Refresh(&'a Secret),
}

/// What the token endpoint says.
#[derive(Debug)]
pub(super) enum Answer {
    Tokens(Box<Tokens>),
    /// The grant is not, or no longer, good (`invalid_grant`), or the person has to sign in again.
    No,
}

/// What a grant gave.
#[derive(Debug)]
pub(super) struct Tokens {
    /// As it came; nothing of it is proven.
    pub(super) id_token: Option<CoreIdToken>,
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
}

type Bare = CoreClient<EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet>;

impl Client {
    /// The client whose browsers come back to `redirect_uri`.
    pub(super) fn new(plan: ClientPlan, redirect_uri: Url) -> Self {
        Self { plan, redirect_uri: RedirectUrl::from_url(redirect_uri), assertions: AtomicU64::new(0) }
    }

    /// Its id at the provider.
    pub(super) fn id(&self) -> &str {
        &self.plan.id
    }

    /// The crate's client. It is not told the provider's issuer and keys, as nothing is verified by it.
    fn bare(&self) -> Result<Bare, ConnectorError> {
        let nobody = IssuerUrl::new("https://issuer.invalid".to_owned()).map_err(|_| unusable("the client can not be made"))?;
        Ok(CoreClient::new(ClientId::new(self.plan.id.clone()), nobody, JsonWebKeySet::new(Vec::new()))
            .set_redirect_uri(self.redirect_uri.clone()))
    }

    /// Where the browser is sent (OpenID Connect Core, 3.1.2.1): with code, PKCE S256, state and nonce, always.
    ///
    /// # Errors
    /// When the handshake is not one.
    pub(super) fn authorize(&self, endpoint: &Url, handshake: &Handshake, wish: &Wish) -> Result<Url, ConnectorError> {
        let enough = |text: &str| (43..=128).contains(&text.len());
        if ![&handshake.state, &handshake.nonce, &handshake.code_verifier].into_iter().all(|text| enough(text)) {
            return Err(unusable("the handshake is too short to bind the sign-in"));
        }
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(handshake.code_verifier.clone()));
        let (state, nonce) = (CsrfToken::new(handshake.state.clone()), Nonce::new(handshake.nonce.clone()));
        let client = self.bare()?.set_auth_uri(AuthUrl::from_url(endpoint.clone()));
        // The crate adds `openid` itself.
        let scopes = self.plan.scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new);
        let mut request = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, || state, || nonce)
            .set_pkce_challenge(challenge)
            .add_scopes(scopes);
        if let Some(hint) = &wish.login_hint {
            request = request.set_login_hint(LoginHint::new(hint.clone()));
        }
        if wish.anew {
            request = request.add_prompt(CoreAuthPrompt::Login);
        }
        if let Some(seconds) = wish.max_age {
            request = request.set_max_age(Duration::from_secs(seconds.into()));
        }
        let extra = self.plan.extra_parameters.iter().filter(|(name, _)| !(wish.anew && *name == PROMPT));
        let (url, _, _) = extra.fold(request, |request, (name, value)| request.add_extra_param(name, value)).url();
        Ok(url)
    }

    /// Asks the token endpoint, once.
    ///
    /// # Errors
    /// When it could not tell, refuses the client, or answers nonsense.
    pub(super) async fn tokens(
        &self,
        endpoint: &Url,
        grant: Grant<'_>,
        now: OffsetDateTime,
        http: &dyn Exchange,
    ) -> Result<Answer, ConnectorError> {
        let http = Judged(http);
        let client = self.bare()?.set_token_uri(TokenUrl::from_url(endpoint.clone()));
        let client = match &self.plan.proof {
            ClientProof::Basic(secret) => client.set_auth_type(AuthType::BasicAuth).set_client_secret(secret_of(secret)),
            ClientProof::Post(secret) => client.set_auth_type(AuthType::RequestBody).set_client_secret(secret_of(secret)),
            ClientProof::Key(_) | ClientProof::Public => client.set_auth_type(AuthType::RequestBody),
        };
        let with = match grant {
            Grant::Code { code, .. } => code,
            Grant::Refresh(token) => token.expose(),
        };
        let proof = self.proof(endpoint, with, now)?;
        let answer = match grant {
            Grant::Code { code, verifier } => {
                let request = client
                    .exchange_code(AuthorizationCode::new(code.to_owned()))
                    .set_pkce_verifier(PkceCodeVerifier::new(verifier.to_owned()));
                proof.into_iter().fold(request, |request, (name, value)| request.add_extra_param(name, value)).request_async(&http).await
            }
            Grant::Refresh(token) => {
                let token = RefreshToken::new(token.expose().to_owned());
                let request = client.exchange_refresh_token(&token);
                proof.into_iter().fold(request, |request, (name, value)| request.add_extra_param(name, value)).request_async(&http).await
            }
        };
        match answer {
            Ok(answer) => tokens_of(&answer).map(|tokens| Answer::Tokens(Box::new(tokens))),
            Err(RequestTokenError::Request(error)) => Err(error),
            Err(RequestTokenError::ServerResponse(error)) => refused(error.error()),
            Err(_) => Err(unusable(
                "the token endpoint's answer is not one: it is no JSON, a token is missing, or the ID token is broken, encrypted, or of an unknown algorithm",
            )),
        }
    }

    /// What goes with a request to prove who asks, where that is a signature.
    fn proof(&self, endpoint: &Url, grant: &str, now: OffsetDateTime) -> Result<Vec<(&'static str, Cow<'static, str>)>, ConnectorError> {
        let ClientProof::Key(key) = &self.plan.proof else { return Ok(Vec::new()) };
        let number = self.assertions.fetch_add(1, Ordering::Relaxed);
        let assertion = assertion(key, Occasion { client_id: &self.plan.id, audience: endpoint.as_str(), grant, number, now })?;
        Ok(vec![("client_assertion_type", Cow::Borrowed(ASSERTION_TYPE)), ("client_assertion", Cow::Owned(assertion))])
    }
}

fn secret_of(secret: &Secret) -> ClientSecret {
    ClientSecret::new(secret.expose().to_owned())
}

pub(super) fn unusable(text: &str) -> ConnectorError {
    ConnectorError::Unusable(format!("oidc: {text}"))
}

/// Whether a status says that a server can not answer now.
pub(super) fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT
}

/// Sorts out what is no answer of a token endpoint (RFC 6749, 5.1 and 5.2), before it is read.
fn judged(response: http::Response<Vec<u8>>) -> Result<http::Response<Vec<u8>>, ConnectorError> {
    #[derive(Deserialize)]
    struct Code {
        #[serde(rename = "error")]
        _error: String,
    }
    let status = response.status();
    let is_error = || serde_json::from_slice::<Code>(response.body()).is_ok();
    if is_busy(status) {
        return Err(ConnectorError::Unavailable(format!("oidc: the token endpoint answers with status {}", status.as_u16())));
    }
    match status {
        StatusCode::OK => Ok(response),
        _ if status.is_client_error() && is_error() => Ok(response),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Err(ConnectorError::Refused(format!("oidc: the token endpoint does not take the client (status {})", status.as_u16())))
        }
        _ => Err(ConnectorError::Unusable(format!("oidc: the token endpoint answers with status {}", status.as_u16()))),
    }
}

/// What an error of the token endpoint means. Only a registered code is told again: any other may be anything.
fn refused(error: &CoreErrorResponseType) -> Result<Answer, ConnectorError> {
    let operator =
        |code: &str| Err(ConnectorError::Refused(format!("oidc: the token endpoint says `{code}`: check the client's registration there")));
    match error {
        CoreErrorResponseType::InvalidGrant => Ok(Answer::No),
        CoreErrorResponseType::InvalidClient => operator("invalid_client"),
        CoreErrorResponseType::UnauthorizedClient => operator("unauthorized_client"),
        CoreErrorResponseType::InvalidRequest => operator("invalid_request"),
        CoreErrorResponseType::InvalidScope => operator("invalid_scope"),
        CoreErrorResponseType::UnsupportedGrantType => operator("unsupported_grant_type"),
        CoreErrorResponseType::Extension(code) => match code.as_str() {
            // Of the authorization endpoint, and used by providers here where a person is disabled or has to prove more.
            "access_denied" | "interaction_required" | "login_required" | "account_selection_required" | "consent_required" => {
                Ok(Answer::No)
            }
            "temporarily_unavailable" | "server_error" => {
                Err(ConnectorError::Unavailable(format!("oidc: the token endpoint says `{code}`")))
            }
            "invalid_target" | "invalid_dpop_proof" | "use_dpop_nonce" => operator(code),
            _ => Err(unusable("the token endpoint answers with an error that is not registered")),
        },
    }
}

fn tokens_of(answer: &CoreTokenResponse) -> Result<Tokens, ConnectorError> {
    if !matches!(answer.token_type(), CoreTokenType::Bearer) {
        return Err(unusable("the access token is no bearer token"));
    }
    Ok(Tokens {
        id_token: answer.id_token().cloned(),
        access_token: Secret::new(answer.access_token().secret().clone()),
        refresh_token: answer.refresh_token().map(|token| Secret::new(token.secret().clone())).filter(|token| !token.expose().is_empty()),
    })
}

#[cfg(test)]
mod tests;
