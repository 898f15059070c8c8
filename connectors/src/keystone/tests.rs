//! Sign-in and tokens, against a stand-in.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BARE};
use claims_mapping::{ConnectorId, Tenant, TenantId, TenantLabel};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{
    remembered::Remembered,
    stand_in::{Asked, StandIn, build, error, issued, plain, token},
};
use crate::{
    Asks, AsksDomain, Audiences, Connector, ConnectorError, LoginName, Proven, Revocation, Secret, TokenBounds, UnverifiedToken, Verdict,
};

/// 2027-01-15T08:30:00Z: in the middle of [`token`]'s time.
const NOW: i64 = 1_800_001_800;

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(NOW).unwrap()
}

/// A text of Keystone's form.
fn fernet(fill: u8) -> String {
    let mut bytes = vec![0x80];
    bytes.extend(u64::try_from(NOW - 60).unwrap().to_be_bytes());
    bytes.extend([fill; 64]);
    BARE.encode(bytes)
}

fn tenant(external_id: &str) -> Arc<Tenant> {
    Arc::new(Tenant {
        id: TenantId::parse("acme").unwrap(),
        label: TenantLabel::parse("acme").unwrap(),
        display_name: "Acme".to_owned(),
        external_ids: [(ConnectorId::parse("cloud").unwrap(), external_id.to_owned())].into(),
        connectors: None,
        disabled: false,
    })
}

fn named(name: &str) -> LoginName {
    LoginName { name: name.to_owned(), tenant: Some(tenant("d1")), ..LoginName::default() }
}

async fn sign_in(connector: &Connector, login: &LoginName) -> Result<Option<Proven>, ConnectorError> {
    connector.password.as_ref().unwrap().authenticate(login, &Secret::new("secret".to_owned())).await
}

async fn review(connector: &Connector, text: &str) -> Result<Verdict, ConnectorError> {
    connector.token.as_ref().unwrap().authenticate(UnverifiedToken::new(text), now()).await
}

fn reason(verdict: Result<Verdict, ConnectorError>) -> String {
    match verdict.unwrap() {
        Verdict::Refused(why) => why,
        Verdict::Genuine(_) => panic!("it was taken"),
    }
}

fn body(stand_in: &StandIn) -> Value {
    serde_json::from_str(&stand_in.asked().pop().unwrap().body).unwrap()
}

#[tokio::test]
async fn someone_signs_in_in_the_domain_of_their_tenant() {
    let stand_in = StandIn::start(|_| issued("theirs", &token(json!({})))).await;
    let connector = stand_in.connector(json!({}));
    let proven = sign_in(&connector, &named("alice")).await.unwrap().unwrap();
    assert_eq!((proven.user.subject.as_str(), proven.auth_time), ("u1", None));
    assert_eq!(proven.user.claims.get("domain"), Some(&json!("d1")));
    let user = json!({"name": "alice", "domain": {"id": "d1"}, "password": "secret"});
    assert_eq!(body(&stand_in), json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": "unscoped"}}));
    let remembered = Remembered::of(&proven.session.refresh_token.unwrap()).unwrap();
    let expected = Remembered { token: Some("theirs".to_owned()), methods: vec!["password".to_owned()], ..Remembered::default() };
    assert!(remembered == expected);
    assert_eq!(stand_in.logins(), 0, "one question, and none to the service account");
    // What it gave is left alone.
    assert_eq!(stand_in.lines(), ["POST /v3/auth/tokens?nocatalog"]);
}

#[tokio::test]
async fn t23_what_can_be_nobodys_is_not_sent() {
    let stand_in = StandIn::start(|_| issued("theirs", &token(json!({})))).await;
    let connector = stand_in.connector(json!({"scope": "ask"}));
    let login = connector.password.as_ref().unwrap();
    for password in ["", " ", "\t\n", "a\0b", &"x".repeat(5_000)] {
        assert!(login.authenticate(&named("alice"), &Secret::new(password.to_owned())).await.unwrap().is_none());
        assert!(connector.credential.as_ref().unwrap().authenticate("c1", &Secret::new(password.to_owned())).await.unwrap().is_none());
    }
    let secret = || Secret::new("secret".to_owned());
    for name in ["", " ", "a\0b", "a\nb", &"x".repeat(256)] {
        assert!(sign_in(&connector, &named(name)).await.unwrap().is_none(), "{name:?}");
        assert!(connector.credential.as_ref().unwrap().authenticate(name, &secret()).await.unwrap().is_none());
        let elsewhere = LoginName { name: "alice".to_owned(), domain: Some(name.to_owned()), ..LoginName::default() };
        assert!(sign_in(&connector, &elsewhere).await.unwrap().is_none());
    }
    let project = LoginName { project: Some("a\nb".to_owned()), ..named("alice") };
    assert!(sign_in(&connector, &project).await.unwrap().is_none());
    // Nothing says which domain.
    let nowhere = LoginName { name: "alice".to_owned(), ..LoginName::default() };
    assert!(sign_in(&connector, &nowhere).await.unwrap().is_none());
    assert!(stand_in.asked().is_empty());
    let empty = LoginName { tenant: Some(tenant("")), ..named("alice") };
    assert!(matches!(sign_in(&connector, &empty).await, Err(ConnectorError::Unusable(_))));
}

#[tokio::test]
async fn t29_a_wrong_password_is_no_and_everything_else_could_not_be_told() {
    let stand_in = StandIn::start(|_| error(401, "secret")).await;
    let connector = stand_in.connector(json!({}));
    assert!(sign_in(&connector, &named("alice")).await.unwrap().is_none());
    for answer in [plain(403, ""), plain(404, ""), plain(500, ""), plain(201, "secret"), plain(200, "{}")] {
        stand_in.answer(move |_| answer.clone());
        let error = sign_in(&connector, &named("alice")).await.unwrap_err();
        assert!(!error.to_string().contains("secret") && !format!("{error:?}").contains("secret"), "{error:?}");
    }
    let user = |user: Value| token(json!({ "user": user }));
    let domain = || json!({"id": "d1", "name": "acme"});
    let incomplete = [
        user(json!({"name": "alice", "domain": domain()})),
        user(json!({"id": "u1", "domain": domain()})),
        user(json!({"id": "u1", "name": "alice"})),
        user(json!({"id": "u1", "name": "alice", "domain": {"name": "acme"}})),
        user(json!({"id": "", "name": "alice", "domain": domain()})),
        user(json!({"id": 7, "name": "alice", "domain": domain()})),
        user(Value::Null),
        token(json!({"expires_at": "tomorrow"})),
        token(json!({"expires_at": null})),
        token(json!({"roles": {}})),
        token(json!({"system": {"all": true}, "project": {"id": "p"}})),
        token(json!({"system": {"all": "some"}})),
    ];
    for said in incomplete {
        let shown = said.to_string();
        stand_in.answer(move |_| issued("theirs", &said));
        assert!(matches!(sign_in(&connector, &named("alice")).await, Err(ConnectorError::Unusable(_))), "{shown}");
    }
}

#[tokio::test]
async fn the_answer_must_be_about_whom_was_asked() {
    let stand_in = StandIn::start(|_| issued("theirs", &token(json!({})))).await;
    let by_id = stand_in.connector(json!({}));
    let in_domain = |external_id: &str| LoginName { tenant: Some(tenant(external_id)), ..named("alice") };
    // Nor by a domain's id that a database takes for another one: what the client's request names may be anything.
    for loosely in ["D1", "d\u{301}1", "d2"] {
        assert!(sign_in(&by_id, &in_domain(loosely)).await.unwrap().is_none(), "{loosely}");
    }
    let typed = |domain: &str| LoginName { name: "alice".to_owned(), domain: Some(domain.to_owned()), ..LoginName::default() };
    assert!(sign_in(&by_id, &typed("ACME")).await.unwrap().is_some());
    assert_eq!(body(&stand_in)["auth"]["identity"]["password"]["user"]["domain"], json!({"name": "ACME"}));
    // No one learns that a password is right which was typed for another domain.
    for loosely in ["globex", "acmé"] {
        assert!(sign_in(&by_id, &typed(loosely)).await.unwrap().is_none(), "{loosely}");
    }
    // A database that compares loosely does not give one account many names.
    assert!(sign_in(&by_id, &named("ALICE")).await.unwrap().is_some());
    for loosely in ["alice ", "älice"] {
        assert!(sign_in(&by_id, &named(loosely)).await.unwrap().is_none(), "{loosely}");
    }
    // Asked for nothing, and given something.
    stand_in.answer(|_| issued("theirs", &token(json!({"project": {"id": "p1", "name": "web"}, "roles": []}))));
    assert!(matches!(sign_in(&by_id, &named("alice")).await, Err(ConnectorError::Unusable(_))));
}

#[tokio::test]
async fn a_connector_of_one_domain_has_its_people_only() {
    let stand_in = StandIn::start(|_| issued("theirs", &token(json!({})))).await;
    let connector = stand_in.connector(json!({"domainId": "d1"}));
    let typed = LoginName { name: "alice".to_owned(), domain: Some("globex".to_owned()), ..LoginName::default() };
    assert!(sign_in(&connector, &typed).await.unwrap().is_some());
    assert_eq!(body(&stand_in)["auth"]["identity"]["password"]["user"]["domain"], json!({"id": "d1"}));
    let before = stand_in.asked().len();
    let foreign = LoginName { tenant: Some(tenant("d2")), ..named("alice") };
    assert!(sign_in(&connector, &foreign).await.unwrap().is_none());
    assert_eq!(stand_in.asked().len(), before);
    let asks = |more: Value| stand_in.connector(more).password.unwrap().asks();
    assert_eq!(asks(json!({"domainId": "d1"})), Asks { domain: AsksDomain::Never, project: false });
    assert_eq!(asks(json!({"scope": "ask"})), Asks { domain: AsksDomain::WithoutTenant, project: true });
    // Where tenants are something else than the users' domains, no tenant says the domain.
    let mut mapping = super::default_mapping();
    mapping.claim_mappings.tenant.claim = "project_domain_id".to_owned();
    let elsewhere = build(&stand_in.config(json!({"userDirectory": false})), &mapping, false).unwrap();
    assert_eq!(elsewhere.password.as_ref().unwrap().asks().domain, AsksDomain::Always);
    let typed = LoginName { domain: Some("acme".to_owned()), ..named("alice") };
    assert!(sign_in(&elsewhere, &typed).await.unwrap().is_some());
    assert_eq!(body(&stand_in)["auth"]["identity"]["password"]["user"]["domain"], json!({"name": "acme"}));
    // The same in reviews, and by application credential.
    let other = stand_in.connector(json!({"domainId": "d2"}));
    let credential = json!({"application_credential": {"id": "c1", "name": "ci", "restricted": true}});
    stand_in.answer(move |asked| match asked.is_login() {
        true => issued("x", &token(credential.clone())),
        false => plain(200, json!({"token": token(json!({}))})),
    });
    assert!(reason(review(&other, &fernet(1)).await).contains("another domain"));
    let secret = Secret::new("secret".to_owned());
    assert!(other.credential.unwrap().authenticate("c1", &secret).await.unwrap().is_none());
    assert!(connector.credential.unwrap().authenticate("c1", &secret).await.unwrap().is_some());
}

#[tokio::test]
async fn t31_one_name_in_two_domains_is_two_people() {
    let stand_in = StandIn::start(|asked| {
        let domain = if asked.body.contains("\"d2\"") { "d2" } else { "d1" };
        issued(
            "theirs",
            &token(json!({"user": {"id": format!("alice-of-{domain}"), "name": "alice", "domain": {"id": domain, "name": domain}}})),
        )
    })
    .await;
    let connector = stand_in.connector(json!({}));
    let one = sign_in(&connector, &named("alice")).await.unwrap().unwrap().user;
    let other = LoginName { tenant: Some(tenant("d2")), ..named("alice") };
    let other = sign_in(&connector, &other).await.unwrap().unwrap().user;
    assert_eq!((one.subject.as_str(), other.subject.as_str()), ("alice-of-d1", "alice-of-d2"));
    assert_eq!((one.claims.get("domain"), other.claims.get("domain")), (Some(&json!("d1")), Some(&json!("d2"))));
}

#[tokio::test]
async fn a_sign_in_is_for_what_the_configuration_and_the_person_say() {
    let hex = "0123456789abcdef0123456789abcdef";
    let answers = |asked: &Asked| {
        let scope = serde_json::from_str::<Value>(&asked.body).unwrap()["auth"]["scope"].clone();
        let mut more = json!({"roles": [{"id": "r", "name": "member"}]});
        match &scope {
            Value::String(_) => more = json!({}),
            scope if scope.get("system").is_some() => more["system"] = json!({"all": true}),
            scope if scope.get("domain").is_some() => more["domain"] = json!({"id": "d1", "name": "acme"}),
            scope => {
                let id = scope["project"]["id"].as_str().unwrap_or("p1");
                more["project"] = json!({"id": id, "name": "web", "domain": {"id": "d1", "name": "acme"}});
            }
        }
        issued("theirs", &token(more))
    };
    let stand_in = StandIn::start(answers).await;
    let project = |by: Value| json!({ "project": by });
    let own = json!({"id": "d1"});
    let cases = [
        (json!("unscoped"), None, json!("unscoped"), "unscoped"),
        (json!("domain"), None, json!({"domain": own}), "domain"),
        (json!("system"), None, json!({"system": {"all": true}}), "system"),
        (project(json!({"id": "p7"})), None, project(json!({"id": "p7"})), "project"),
        (project(json!({"name": "web"})), None, project(json!({"name": "web", "domain": own})), "project"),
        (
            project(json!({"name": "web", "domain": {"name": "Default"}})),
            None,
            project(json!({"name": "web", "domain": {"name": "Default"}})),
            "project",
        ),
        (json!("ask"), None, json!("unscoped"), "unscoped"),
        (json!("ask"), Some(""), json!("unscoped"), "unscoped"),
        (json!("ask"), Some("web"), project(json!({"name": "web", "domain": own})), "project"),
        (json!("ask"), Some(hex), project(json!({"id": hex})), "project"),
        // What is typed where nothing is asked does not matter.
        (json!("unscoped"), Some("web"), json!("unscoped"), "unscoped"),
    ];
    for (scope, typed, asked, said) in cases {
        let connector = stand_in.connector(json!({ "scope": scope }));
        let login = LoginName { project: typed.map(str::to_owned), ..named("alice") };
        let proven = sign_in(&connector, &login).await.unwrap().unwrap();
        assert_eq!(body(&stand_in)["auth"]["scope"], asked);
        assert_eq!(proven.user.claims.get("scope"), Some(&json!(said)));
        let remembered = Remembered::of(&proven.session.refresh_token.unwrap()).unwrap();
        assert_eq!(
            (remembered.project.is_some(), remembered.domain, remembered.system),
            (said == "project", said == "domain", said == "system")
        );
    }
}

#[tokio::test]
async fn an_application_credential_is_its_owners_unless_it_is_for_certain_requests() {
    let said =
        |credential: Value| token(json!({"application_credential": credential, "project": {"id": "p1", "name": "web"}, "roles": []}));
    let stand_in = StandIn::start(move |_| issued("theirs", &said(json!({"id": "c1", "name": "ci", "restricted": true})))).await;
    let connector = stand_in.connector(json!({}));
    let credential = connector.credential.unwrap();
    let secret = Secret::new("secret".to_owned());
    let proven = credential.authenticate("c1", &secret).await.unwrap().unwrap();
    assert_eq!(proven.user.claims.get("application_credential_id"), Some(&json!("c1")));
    let expected =
        json!({"auth": {"identity": {"methods": ["application_credential"], "application_credential": {"id": "c1", "secret": "secret"}}}});
    assert_eq!(body(&stand_in), expected, "a scope would be an error");
    let remembered = Remembered::of(&proven.session.refresh_token.unwrap()).unwrap();
    assert_eq!((remembered.application_credential.as_deref(), remembered.project.as_deref()), (Some("c1"), Some("p1")));
    // A right secret is not told from a wrong one by an id that a database takes for another one.
    assert!(credential.authenticate("C1", &secret).await.unwrap().is_none());
    stand_in.answer(move |_| issued("theirs", &said(json!({"id": "c1", "name": "ci", "access_rules": [{"path": "/x"}]}))));
    assert!(credential.authenticate("c1", &secret).await.unwrap().is_none());
    stand_in.answer(move |_| issued("theirs", &said(Value::Null)));
    assert!(matches!(credential.authenticate("c1", &secret).await, Err(ConnectorError::Unusable(_))));
    stand_in.answer(|_| error(401, ""));
    assert!(credential.authenticate("c1", &secret).await.unwrap().is_none());
}

#[tokio::test]
async fn a_token_in_force_is_its_users_until_it_ends() {
    let stand_in =
        StandIn::start(|_| plain(200, json!({"token": token(json!({"roles": [{"name": "member"}], "project": {"id": "p1"}}))}))).await;
    let connector = stand_in.connector(json!({"tokens": {"cacheSeconds": 60, "refusalSeconds": 5, "inFlight": 3}}));
    let Verdict::Genuine(verified) = review(&connector, &fernet(1)).await.unwrap() else { panic!() };
    assert_eq!((verified.user.subject.as_str(), &verified.audiences, verified.expires_at), ("u1", &Audiences::Unbound, NOW + 1_800));
    assert_eq!(verified.user.claims.get("roles"), Some(&json!(["member"])));
    assert_eq!(stand_in.lines(), ["GET /v3/auth/tokens?nocatalog"], "one question for a token");
    let bounds = TokenBounds { believed_seconds: 60, refused_seconds: 5, in_flight: 3, asks_upstream: true };
    assert_eq!(connector.token.as_ref().unwrap().bounds(), bounds);
    // To the second.
    for (expires_at, taken) in [("2027-01-15T08:30:01.000000Z", true), ("2027-01-15T08:30:00.999999Z", false)] {
        stand_in.answer(move |_| plain(200, json!({"token": token(json!({"expires_at": expires_at}))})));
        assert_eq!(matches!(review(&connector, &fernet(1)).await.unwrap(), Verdict::Genuine(_)), taken, "{expires_at}");
    }
    stand_in.answer(|_| error(404, fernet(1)));
    assert!(!reason(review(&connector, &fernet(1)).await).contains("gAAAAA"));
    for status in [401, 403, 500] {
        stand_in.answer(move |_| plain(status, fernet(1)));
        let error = review(&connector, &fernet(1)).await.unwrap_err();
        assert!(!error.to_string().contains("gAAAAA"), "{error}");
    }
}

#[tokio::test]
async fn t52_what_is_no_keystone_token_never_reaches_keystone() {
    let stand_in = StandIn::start(|_| plain(200, json!({"token": token(json!({}))}))).await;
    let connector = stand_in.connector(json!({}));
    let jws =
        |header: &str, payload: Value| format!("{}.{}.{}", BARE.encode(header), BARE.encode(payload.to_string()), BARE.encode([7; 64]));
    let jwt = |payload: Value| jws(r#"{"alg":"ES256"}"#, payload);
    let mut ahead = vec![0x80];
    ahead.extend(u64::try_from(NOW + 301).unwrap().to_be_bytes());
    ahead.extend([1; 64]);
    let account = jwt(json!({"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:a:b", "exp": NOW + 60}));
    let expired = jwt(json!({"openstack_methods": ["password"], "exp": NOW}));
    // A real Keystone answers it with an error of its own (500).
    let odd = jws(r#"{"alg":"ES256","kid":7}"#, json!({"openstack_methods": ["password"], "exp": NOW + 60}));
    for text in [account.as_str(), &expired, &odd, &BARE.encode(ahead), "gAAAAA", "opaque", "", " "] {
        reason(review(&connector, text).await);
    }
    let tokens = connector.token.as_ref().unwrap();
    assert!(!tokens.claims_to_be_ours(UnverifiedToken::new(&account)) && tokens.claims_to_be_ours(UnverifiedToken::new(&fernet(1))));
    let revocation = connector.revocation.as_ref().unwrap();
    let caller = Secret::new(fernet(2));
    assert_eq!(revocation.revoke(&caller, UnverifiedToken::new(&account)).await.unwrap(), Revocation::Unknown);
    let foreign = Secret::new(account);
    assert_eq!(revocation.revoke(&foreign, UnverifiedToken::new(&fernet(1))).await.unwrap(), Revocation::CallerUnknown);
    assert!(stand_in.asked().is_empty());
    stand_in.answer(|_| plain(204, ""));
    assert_eq!(revocation.revoke(&caller, UnverifiedToken::new(&fernet(1))).await.unwrap(), Revocation::Revoked);
    assert_eq!((stand_in.lines().len(), stand_in.logins()), (1, 0));
    // A token of the right form is asked about.
    stand_in.answer(|_| plain(200, json!({"token": token(json!({}))})));
    assert!(matches!(review(&connector, &jwt(json!({"openstack_methods": ["password"], "exp": NOW + 1}))).await, Ok(Verdict::Genuine(_))));
}

#[tokio::test]
async fn tokens_that_others_bear_are_refused() {
    let stand_in = StandIn::start(|_| error(404, "")).await;
    let connector = stand_in.connector(json!({}));
    let trust = |impersonation: Value| json!({"OS-TRUST:trust": {"id": "t1", "trustor_user": {"id": "u1"}, "trustee_user": {"id": "u2"}, "impersonation": impersonation}});
    let cases = [
        (trust(json!(true)), "trusts: refuse"),
        (trust(Value::Null), "trusts: refuse"),
        (json!({"OS-OAUTH1": {"consumer_id": "x"}}), "OAuth"),
        (json!({"oauth2_credential": {"x5t#S256": "x"}}), "certificate"),
        (json!({"application_credential": {"id": "c", "access_rules": []}}), "access rules"),
    ];
    for (more, expected) in cases {
        stand_in.answer(move |_| plain(200, json!({"token": token(more.clone())})));
        let why = reason(review(&connector, &fernet(1)).await);
        assert!(why.contains(expected), "{why}");
    }
    // Without impersonation it speaks of its bearer.
    stand_in.answer(move |_| plain(200, json!({"token": token(trust(json!(false)))})));
    assert!(matches!(review(&connector, &fernet(1)).await.unwrap(), Verdict::Genuine(_)));
}

#[tokio::test]
async fn a_trust_within_a_domain_is_taken_where_that_is_allowed() {
    let stand_in = StandIn::start(|_| error(404, "")).await;
    let connector = stand_in.connector(json!({"trusts": "allow", "userDirectory": true, "groups": false}));
    let answers = |trustor: &'static str, trustee_domain: &'static str| {
        move |asked: &Asked| match asked.line.contains("/users/") {
            true => plain(200, json!({"user": {"id": "u2", "name": "bob", "domain_id": trustee_domain, "enabled": true}})),
            false => {
                let trust = json!({"id": "t1", "trustor_user": {"id": trustor}, "trustee_user": {"id": "u2"}, "impersonation": true});
                plain(200, json!({"token": token(json!({"OS-TRUST:trust": trust}))}))
            }
        }
    };
    stand_in.answer(answers("u1", "d1"));
    let Verdict::Genuine(verified) = review(&connector, &fernet(1)).await.unwrap() else { panic!() };
    let claim = |name: &str| verified.user.claims.get(name).cloned().unwrap_or_default();
    assert_eq!([claim("user_id"), claim("trustee_id"), claim("impersonation")], [json!("u1"), json!("u2"), json!(true)]);
    for (trustor, domain) in [("u1", "d2"), ("u3", "d1")] {
        stand_in.answer(answers(trustor, domain));
        assert!(reason(review(&connector, &fernet(1)).await).contains("trustor's domain"));
    }
}

#[test]
fn a_connector_does_not_print_its_secrets() {
    let config = json!({"url": "https://k.example/v3", "serviceAccount": {"name": "d", "domain": {"id": "x"}, "password": "hush", "scope": {"system": "all"}}});
    let config: super::KeystoneConfig = serde_json::from_value(config).unwrap();
    let connector = build(&config, &super::default_mapping(), false).unwrap();
    assert!(!format!("{config:?}{connector:?}{}", serde_json::to_string(&config).unwrap()).contains("hush"));
    assert!(connector.token.is_none() && connector.revocation.is_none() && connector.directory.is_some());
}
