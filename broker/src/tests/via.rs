//! Access tokens of people who came through another connector than their own.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};

use super::*;
use crate::{
    config::{KeysConfig, Lifetimes},
    grants::{Authentication, Client, Clients, CodeRequest, GrantParts, Grants},
    login::AuthorizeRequest,
    standing::{Fallen, Judge},
    tokens::{KeyRing, RingParts, UnverifiedToken, Verifier},
};

const CALLBACK: &str = "https://app.example/cb";
const VERIFIER: &str = "a-verifier-that-is-long-enough-to-be-one-0123456789";

/// What gives tokens in a house, and what judges them.
async fn doors(house: &House) -> (Grants, Judge) {
    let store: Arc<dyn Store> = Arc::clone(&house.store) as _;
    let sealing = Sealing::with(&Zeroizing::new([1; 32]), Arc::new(SystemEntropy)).unwrap();
    let (keys, lifetimes) = (&KeysConfig::default(), &Lifetimes::default());
    let parts = RingParts { store: Arc::clone(&store), sealing, holder: None, keys, lifetimes };
    let keys = Arc::new(KeyRing::open(parts, NOW).await.unwrap());
    let config = serde_json::from_value(json!({ "id": "app", "redirectUris": [CALLBACK] })).unwrap();
    let clients = Arc::new(Clients::new(vec![Client::new(&config).unwrap()]));
    let issuer = Url::parse("https://id.example").unwrap();
    let verifier = Verifier::new(Arc::clone(&keys), crate::issuer_text(&issuer));
    let judge = Judge::new(verifier, Arc::clone(&house.admission), Arc::clone(&clients), Arc::clone(&store));
    let grants = Grants::new(GrantParts {
        clients,
        keys,
        store,
        peers: Arc::new(Alone),
        entropy: Arc::new(SystemEntropy),
        sessions: house.sessions.clone(),
        admission: Arc::clone(&house.admission),
        lifetimes: Lifetimes::default(),
        issuer,
    });
    (grants, judge)
}

/// An access token in a session.
async fn token(house: &House, grants: &Grants, signed_in: &SignedIn) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, VERIFIER.as_bytes());
    let request = AuthorizeRequest {
        client_id: "app".to_owned(),
        redirect_uri: CALLBACK.to_owned(),
        scopes: Vec::new(),
        state: None,
        nonce: None,
        code_challenge: B64.encode(digest),
        audiences: vec!["app".to_owned()],
        tenant: None,
    };
    let (session, _) = house.sessions.find(signed_in, NOW).await.unwrap();
    let code = grants.give_code(&request, signed_in, &session, NOW).await.unwrap();
    let (redirect_uri, code_verifier) = (Some(CALLBACK.to_owned()), Some(VERIFIER.to_owned()));
    let request = CodeRequest { code, redirect_uri, code_verifier, resources: Vec::new() };
    let who = Authentication { id: "app".to_owned(), secret: None };
    grants.exchange_code(&who, request, NOW).await.unwrap().access_token
}

#[tokio::test]
async fn t09_a_token_falls_with_the_connector_that_its_person_came_through() {
    let plan = Plan { joined: true, ..Plan::default() };
    let house = plan.clone().build().await;
    house.book.with("acme", "s1", in_book("c1", "ann-of-corp", "acme"));
    let ann = house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await;
    let (grants, judge) = doors(&house).await;
    let token = token(&house, &grants, &ann).await;
    let standing = judge.judge(UnverifiedToken::new(&token), NOW).await.unwrap();
    assert_eq!((&standing.claims.connector, &standing.claims.via), (&Some(id("corp")), &Some(id("sso"))));
    for changed in [Plan { sso_disabled: true, ..plan }, Plan::default()] {
        let (_, judge) = doors(&changed.over(Arc::clone(&house.store)).await).await;
        let judged = judge.judge(UnverifiedToken::new(&token), NOW).await;
        assert!(matches!(judged, Err(Fallen::Connector)), "{judged:?}");
    }
}

#[tokio::test]
async fn a_token_of_someone_of_their_own_connector_names_no_other() {
    let house = Plan::default().build().await;
    let ann = house.enter(&at_sso("s1", "ann", "acme"), Some("first"), NOW).await;
    let (grants, judge) = doors(&house).await;
    let token = token(&house, &grants, &ann).await;
    assert_eq!(judge.judge(UnverifiedToken::new(&token), NOW).await.unwrap().claims.via, None);
}
