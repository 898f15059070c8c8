use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    keystone::{
        auth::{By, Proof, Wanted},
        stand_in::{Answer, Asked, PASSWORD, StandIn, error, issued, plain, token},
    },
    network::Networks,
};

fn api(stand_in: &StandIn, pause: Duration) -> Api {
    let http = Http::new("keystone", crate::http::Roots::Platform, Networks::parse(&["127.0.0.1".to_owned()]).unwrap());
    let server = Arc::new(Server { base: Url::parse(&stand_in.url).unwrap(), http });
    let proof = Proof::Password {
        name: "denizen".to_owned(),
        domain: By::Id("default".to_owned()),
        password: Secret::new(PASSWORD.to_owned()),
        wanted: Wanted::System,
    };
    Api::new(Arc::clone(&server), Account::with_pause(server, proof, pause), None)
}

const LONG: Duration = Duration::from_secs(60);

async fn user(api: &Api) -> Result<Option<Value>, ConnectorError> {
    api.get("a user", &["users", "u1"], &[]).await
}

fn good() -> Answer {
    plain(200, json!({"user": {"id": "u1"}}))
}

/// Answers 401 to this token of the service account's.
fn except(stale: &'static str) -> impl FnMut(&Asked) -> Answer + Send + 'static {
    move |asked| if asked.header("x-auth-token") == Some(stale) { plain(401, "{}") } else { good() }
}

#[tokio::test]
async fn the_account_logs_in_once_for_a_hundred_questions() {
    let stand_in = StandIn::start(|_| good()).await;
    let api = api(&stand_in, LONG);
    let all = futures_util::future::join_all((0..100).map(|_| user(&api))).await;
    assert!(all.into_iter().all(|answer| answer.unwrap().is_some()));
    assert_eq!((stand_in.logins(), stand_in.lines().len()), (1, 100));
    let login: Value = serde_json::from_str(&stand_in.asked()[0].body).unwrap();
    let expected = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"name": "denizen", "domain": {"id": "default"}, "password": PASSWORD}}},
        "scope": {"system": {"all": true}},
    }});
    assert_eq!(login, expected);
    assert_eq!(stand_in.asked()[0].line, "POST /v3/auth/tokens?nocatalog");
}

#[tokio::test]
async fn t29_a_token_that_is_refused_is_replaced_once_whoever_meets_it() {
    let stand_in = StandIn::start(except("service-1")).await;
    let api = api(&stand_in, LONG);
    let all = futures_util::future::join_all((0..50).map(|_| user(&api))).await;
    assert!(all.into_iter().all(|answer| answer.unwrap().is_some()));
    assert_eq!(stand_in.logins(), 2);
    assert!(user(&api).await.unwrap().is_some());
    assert_eq!(stand_in.logins(), 2);
}

#[tokio::test]
async fn t29_an_account_whose_new_token_is_refused_is_not_logged_in_again_and_again() {
    let stand_in = StandIn::start(|_| plain(401, "{}")).await;
    let api = api(&stand_in, Duration::from_millis(300));
    for _ in 0..5 {
        assert!(matches!(user(&api).await, Err(ConnectorError::Refused(_))));
    }
    assert_eq!((stand_in.logins(), stand_in.lines().len()), (2, 2));
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert!(matches!(user(&api).await, Err(ConnectorError::Refused(_))));
    assert_eq!(stand_in.logins(), 4, "after the pause it is tried again");
}

#[tokio::test]
async fn t29_a_wrong_password_of_the_account_is_not_tried_again_and_again() {
    let stand_in = StandIn::start_whole(|_| error(401, PASSWORD)).await;
    let api = api(&stand_in, Duration::from_millis(300));
    for _ in 0..5 {
        let Err(ConnectorError::Refused(why)) = user(&api).await else { panic!() };
        assert!(why.contains("serviceAccount") && !why.contains(PASSWORD), "{why}");
    }
    assert_eq!((stand_in.logins(), stand_in.asked().len()), (1, 1));
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert!(user(&api).await.is_err());
    assert_eq!(stand_in.logins(), 2);
    // Who is only away has refused nothing.
    stand_in.answer(|_| plain(503, ""));
    tokio::time::sleep(Duration::from_millis(350)).await;
    for logins in 3..6 {
        assert!(matches!(user(&api).await, Err(ConnectorError::Unavailable(_))));
        assert_eq!(stand_in.logins(), logins);
    }
}

#[tokio::test]
async fn a_token_is_replaced_ahead_of_its_end_while_the_old_one_serves() {
    // Good for a second; the machine's own clock is not asked.
    let short = || token(json!({"issued_at": "2001-01-01T00:00:00.000000Z", "expires_at": "2001-01-01T00:00:01.500000Z"}));
    let mut number = 0;
    let stand_in = StandIn::start_whole(move |asked| {
        if !asked.is_service() {
            return good();
        }
        number += 1;
        issued(&format!("service-{number}"), &short())
    })
    .await;
    let api = api(&stand_in, LONG);
    let shown = |index: usize| stand_in.asked()[index].header("x-auth-token").map(str::to_owned);
    assert!(user(&api).await.unwrap().is_some() && user(&api).await.unwrap().is_some());
    assert_eq!(stand_in.logins(), 1);
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert!(user(&api).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(stand_in.logins(), 2, "four fifths of its life are over");
    assert!(user(&api).await.unwrap().is_some());
    assert_eq!(shown(stand_in.asked().len() - 1).as_deref(), Some("service-2"));
}

#[tokio::test]
async fn t29_each_answer_is_what_it_means_and_nothing_of_it_is_told() {
    use ConnectorError::{Refused, Unavailable, Unusable};
    let stand_in = StandIn::start(|_| good()).await;
    let api = api(&stand_in, LONG);
    let said = async |answer: Answer| {
        stand_in.answer(move |_| answer.clone());
        let outcomes = [user(&api).await.map(|found| found.is_some()), api.validate("their-token").await.map(|found| found.is_some())];
        let texts = outcomes.iter().map(|outcome| outcome.as_ref().err().map(ToString::to_string).unwrap_or_default());
        for text in texts.collect::<Vec<_>>() {
            assert!(!text.contains("sensitive") && !text.contains("their-token") && !text.contains("service-1"), "{text}");
        }
        outcomes
    };
    user(&api).await.unwrap();
    assert!(matches!(said(error(404, "sensitive")).await, [Ok(false), Ok(false)]));
    for not_its_own in ["sensitive", "<html>", "{}", r#"{"error": {"code": 403}}"#, r#"{"error": {"code": "404"}}"#] {
        assert!(matches!(said(plain(404, not_its_own)).await, [Err(Unusable(_)), Err(Unusable(_))]), "{not_its_own}");
    }
    assert!(matches!(said(plain(403, "sensitive")).await, [Err(Refused(_)), Err(Refused(_))]));
    for status in [500, 502, 503, 504, 429] {
        assert!(matches!(said(plain(status, "sensitive")).await, [Err(Unavailable(_)), Err(Unavailable(_))]), "{status}");
    }
    for status in [201, 204, 300, 302, 400, 405, 418] {
        assert!(matches!(said(plain(status, "sensitive")).await, [Err(Unusable(_)), Err(Unusable(_))]), "{status}");
    }
    for nonsense in ["", "<html>sensitive</html>", "{\"token\": {\"sensitive\"", "sensitive"] {
        assert!(matches!(said(plain(200, nonsense)).await, [Err(Unusable(_)), Err(Unusable(_))]), "{nonsense}");
    }
    for no_token in ["{}", "[]", "{\"token\": null}", "{\"token\": \"sensitive\"}"] {
        assert!(matches!(said(plain(200, no_token)).await, [Ok(true), Err(Unusable(_))]), "{no_token}");
    }
    assert!(matches!(said(plain(200, format!("\"{}\"", "x".repeat(600 * 1024)))).await, [Err(Unusable(_)), Err(Unusable(_))]));
    assert_eq!(stand_in.logins(), 1);
}

#[tokio::test]
async fn t29_a_keystone_that_is_silent_or_not_there_could_not_tell() {
    let stand_in = StandIn::start(|_| plain(0, "")).await;
    let Err(ConnectorError::Unavailable(why)) = user(&api(&stand_in, LONG)).await else { panic!() };
    assert_eq!(why, format!("keystone: {}: no answer in time", stand_in.url), "whom it was asked about is not for the log");
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut gone = StandIn::start(|_| good()).await;
    gone.url = format!("http://{closed}/v3");
    assert!(matches!(user(&api(&gone, LONG)).await, Err(ConnectorError::Unavailable(_))));
}

#[tokio::test]
async fn t29_a_proof_is_right_wrong_or_could_not_be_told() {
    let stand_in = StandIn::start(|_| good()).await;
    let api = api(&stand_in, LONG);
    let outcome = async |answer: Answer| {
        stand_in.answer(move |_| answer.clone());
        api.issue(json!({})).await
    };
    assert_eq!(outcome(issued("theirs", &token(json!({})))).await.unwrap().unwrap().token.expose(), "theirs");
    assert!(outcome(error(401, "")).await.unwrap().is_none());
    assert!(matches!(outcome(plain(401, "a proxy wants to know who you are")).await, Err(ConnectorError::Unusable(_))));
    for (status, body) in [(201, json!({"token": {}}).to_string()), (200, String::new()), (404, String::new()), (400, String::new())] {
        assert!(matches!(outcome(plain(status, body)).await, Err(ConnectorError::Unusable(_))), "{status}");
    }
    assert!(matches!(outcome((201, Some("theirs".to_owned()), "nonsense".to_owned())).await, Err(ConnectorError::Unusable(_))));
    assert!(matches!(outcome(plain(500, "")).await, Err(ConnectorError::Unavailable(_))));
    assert!(matches!(outcome(plain(403, "")).await, Err(ConnectorError::Refused(_))));
}

#[tokio::test]
async fn tokens_go_out_in_headers_that_do_not_print_themselves() {
    let stand_in = StandIn::start(|_| plain(200, json!({"token": {"x": 1}}))).await;
    let api = api(&stand_in, LONG);
    assert_eq!(api.validate("their-token").await.unwrap(), Some(json!({"x": 1})));
    let asked = stand_in.asked().pop().unwrap();
    assert_eq!(asked.line, "GET /v3/auth/tokens?nocatalog");
    assert_eq!((asked.header("x-auth-token"), asked.header("x-subject-token")), (Some("service-1"), Some("their-token")));
    assert_eq!(asked.header("openstack-identity-access-rules"), None);
    assert_eq!(format!("{:?}", secret_header("their-token").unwrap()), "Sensitive");
    let before = stand_in.asked().len();
    for unsendable in ["", "a\nb", "a\u{0}"] {
        assert_eq!(api.validate(unsendable).await.unwrap(), None);
    }
    assert_eq!(stand_in.asked().len(), before);
}

#[tokio::test]
async fn a_path_leads_nowhere_else() {
    let stand_in = StandIn::start(|_| good()).await;
    let api = api(&stand_in, LONG);
    for id in ["", ".", "..", "u1/groups", "../domains"] {
        assert_eq!(api.get("a user", &["users", id], &[]).await.unwrap(), None);
    }
    assert!(stand_in.lines().is_empty());
    api.get("a user", &["users", "..a?b=c%2Fd%2e#e"], &[("name", "a&b"), ("effective", "")]).await.unwrap();
    assert_eq!(stand_in.lines(), ["GET /v3/users/..a%3Fb=c%252Fd%252e%23e?name=a%26b&effective"]);
}

#[tokio::test]
async fn lists_are_followed_within_bounds_and_never_elsewhere() {
    let pages = |asked: &Asked| {
        let next = match asked.line.split_once("marker=").map(|(_, marker)| marker) {
            None => json!("http://elsewhere.example/v3/projects?domain_id=other&limit=2&marker=b"),
            Some("b") => json!("?marker=c"),
            Some(_) => Value::Null,
        };
        plain(200, json!({"users": [{"id": 1}, {"id": 2}], "links": {"next": next}, "truncated": true}))
    };
    let stand_in = StandIn::start(pages).await;
    let api = api(&stand_in, LONG);
    let list = async |most| api.list("users", &["users"], &[("domain_id", "d1")], "users", most).await;
    let all = list(10).await.unwrap();
    assert_eq!((all.items.len(), all.truncated), (6, true), "Keystone says that there are more, and not where");
    let lines = ["GET /v3/users?domain_id=d1", "GET /v3/users?domain_id=d1&limit=2&marker=b", "GET /v3/users?domain_id=d1&marker=c"];
    assert_eq!(stand_in.lines(), lines);
    for (most, expected, questions) in [(3, 3, 2), (4, 4, 2), (2, 2, 1), (1, 1, 1)] {
        let before = stand_in.lines().len();
        let some = list(most).await.unwrap();
        assert_eq!((some.items.len(), some.truncated, stand_in.lines().len() - before), (expected, true, questions), "{most}");
    }
    stand_in.answer(|_| plain(200, json!({"users": [{"id": 1}], "links": {"next": null}})));
    let one = list(1).await.unwrap();
    assert_eq!((one.items.len(), one.truncated), (1, false));
    // A page that leads to itself, and pages without end.
    stand_in.answer(|_| plain(200, json!({"users": [], "links": {"next": "?marker=a"}})));
    assert!(matches!(list(5).await, Err(ConnectorError::Unusable(_))));
    let mut page = 0;
    stand_in.answer(move |_| {
        page += 1;
        plain(200, json!({"users": [], "links": {"next": format!("?marker={page}")}}))
    });
    let before = stand_in.lines().len();
    let none = list(5).await.unwrap();
    assert_eq!((none.items.len(), none.truncated, stand_in.lines().len() - before), (0, true, MOST_PAGES));
    for wrong in [json!({}), json!({"users": {}}), json!({"users": [], "links": {"next": 7}})] {
        stand_in.answer(move |_| plain(200, &wrong));
        assert!(matches!(list(5).await, Err(ConnectorError::Unusable(_))));
    }
    stand_in.answer(|_| plain(404, ""));
    assert!(matches!(list(5).await, Err(ConnectorError::Unusable(_))));
}

#[tokio::test]
async fn a_token_is_taken_back_by_the_right_of_whoever_asks() {
    let stand_in = StandIn::start(|_| good()).await;
    let api = api(&stand_in, LONG);
    let caller = Secret::new("callers".to_owned());
    let outcomes = [(204, Revocation::Revoked), (404, Revocation::Unknown), (401, Revocation::CallerUnknown), (403, Revocation::Forbidden)];
    for (status, expected) in outcomes {
        stand_in.answer(move |_| if status == 204 { plain(status, "") } else { error(status, "") });
        assert_eq!(api.delete(&caller, "theirs").await.unwrap(), expected);
    }
    let asked = stand_in.asked().pop().unwrap();
    assert_eq!(asked.line, "DELETE /v3/auth/tokens");
    assert_eq!((asked.header("x-auth-token"), asked.header("x-subject-token")), (Some("callers"), Some("theirs")));
    stand_in.answer(|_| plain(404, "a page"));
    assert!(matches!(api.delete(&caller, "theirs").await, Err(ConnectorError::Unusable(_))));
    stand_in.answer(|_| plain(500, ""));
    assert!(matches!(api.delete(&caller, "theirs").await, Err(ConnectorError::Unavailable(_))));
    stand_in.answer(|_| plain(200, ""));
    assert!(matches!(api.delete(&caller, "theirs").await, Err(ConnectorError::Unusable(_))));
    assert_eq!(stand_in.logins(), 0, "the service account has no part in it");
}
