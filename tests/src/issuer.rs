//! An OpenID provider of the tests' own: a discovery document, a key set, and tokens as the test wants them, right or wrong.
//! It signs nobody in.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::{KeyPair, KeySize, PublicKeyComponents},
    signature::{KeyPair as _, RSA_PKCS1_SHA256},
};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// How it answers.
#[derive(Debug, Clone)]
pub enum Manner {
    /// As it should.
    Serving,
    /// Never.
    Hanging,
    /// With 500.
    Failing,
    /// With a redirect to this address.
    Redirecting(String),
    /// With this `issuer` in its document.
    Naming(String),
}

/// The provider.
#[derive(Debug)]
pub struct Issuer {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    url: String,
    keys: Mutex<Vec<Key>>,
    manner: Mutex<Manner>,
    documents: AtomicUsize,
    key_sets: AtomicUsize,
}

#[derive(Debug)]
struct Key {
    id: String,
    pair: KeyPair,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Issuer {
    /// Starts one, with one key.
    ///
    /// # Panics
    /// When it can not listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            url: format!("http://{address}"),
            keys: Mutex::new(vec![Key::new("key-0")]),
            manner: Mutex::new(Manner::Serving),
            documents: AtomicUsize::new(0),
            key_sets: AtomicUsize::new(0),
        });
        let mut issuer = Self { address, shared, serving: None };
        issuer.serve(listener);
        issuer
    }

    fn serve(&mut self, listener: TcpListener) {
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(document))
            .route("/keys", get(key_set))
            .with_state(Arc::clone(&self.shared));
        self.serving = Some(tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }));
    }

    /// Its `iss`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// How it answers from now on.
    ///
    /// # Panics
    /// Never, unless a handler did.
    pub fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// Goes away: nothing listens any more.
    pub fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// Comes back at the same address.
    ///
    /// # Panics
    /// When the address is taken meanwhile.
    pub async fn start_again(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serve(listener);
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.documents.load(Ordering::SeqCst) + self.key_fetches()
    }

    /// Requests of the key set so far.
    #[must_use]
    pub fn key_fetches(&self) -> usize {
        self.shared.key_sets.load(Ordering::SeqCst)
    }

    /// Signs with a new key from now on; the key set has both.
    ///
    /// # Panics
    /// When no key can be made.
    pub fn rotate(&self) {
        let mut keys = self.shared.keys.lock().unwrap();
        let key = Key::new(&format!("key-{}", keys.len()));
        keys.push(key);
    }

    /// The claims of someone's token, good for an hour.
    #[must_use]
    pub fn claims(&self, name: &str, audience: &str, now: i64) -> Value {
        json!({
            "iss": self.url(), "sub": format!("subject-of-{name}"), "aud": audience, "iat": now, "exp": now + 3_600, "jti": format!("jti-of-{name}"),
            "preferred_username": name, "groups": ["developers"],
        })
    }

    /// The header of its tokens.
    ///
    /// # Panics
    /// Never: there is a key.
    #[must_use]
    pub fn header(&self) -> Value {
        json!({"typ": "JWT", "alg": "RS256", "kid": self.shared.keys.lock().unwrap().last().unwrap().id})
    }

    /// A token of these claims.
    #[must_use]
    pub fn mint(&self, claims: &Value) -> String {
        self.sign(&self.header(), claims)
    }

    /// A token of this header and these claims, signed by the latest key (RS256), whatever the header says.
    ///
    /// # Panics
    /// When it can not be signed.
    #[must_use]
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
        let keys = self.shared.keys.lock().unwrap();
        let pair = &keys.last().unwrap().pair;
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
        format!("{signed}.{}", B64.encode(signature))
    }

    /// The latest public key as DER (RFC 8017, A.1.1): what a forger has.
    ///
    /// # Panics
    /// Never: there is a key.
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        self.shared.keys.lock().unwrap().last().unwrap().pair.public_key().as_ref().to_vec()
    }

    /// The latest public key as a JSON Web Key.
    ///
    /// # Panics
    /// Never: there is a key.
    #[must_use]
    pub fn jwk(&self) -> Value {
        self.shared.keys.lock().unwrap().last().unwrap().jwk()
    }
}

impl Key {
    fn new(id: &str) -> Self {
        Self { id: id.to_owned(), pair: KeyPair::generate(KeySize::Rsa2048).unwrap() }
    }

    fn jwk(&self) -> Value {
        let public: PublicKeyComponents<Vec<u8>> = self.pair.public_key().into();
        json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.id, "n": B64.encode(public.n), "e": B64.encode(public.e)})
    }
}

async fn document(State(shared): State<Arc<Shared>>) -> Response {
    shared.documents.fetch_add(1, Ordering::SeqCst);
    let url = &shared.url;
    let body = json!({
        "issuer": url, "jwks_uri": format!("{url}/keys"), "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"), "response_types_supported": ["code"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    });
    answer(&shared, body).await
}

async fn key_set(State(shared): State<Arc<Shared>>) -> Response {
    shared.key_sets.fetch_add(1, Ordering::SeqCst);
    let keys: Vec<_> = shared.keys.lock().unwrap().iter().map(Key::jwk).collect();
    answer(&shared, json!({ "keys": keys })).await
}

async fn answer(shared: &Shared, mut body: Value) -> Response {
    let manner = shared.manner.lock().unwrap().clone();
    match manner {
        Manner::Serving => {}
        Manner::Hanging => std::future::pending().await,
        Manner::Failing => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Manner::Redirecting(to) => return (StatusCode::FOUND, [(header::LOCATION, to)]).into_response(),
        Manner::Naming(other) => _ = body.get_mut("issuer").map(|issuer| *issuer = other.into()),
    }
    // Each connection is for one request, so that none outlives the server.
    ([(header::CONNECTION, "close")], Json(body)).into_response()
}
