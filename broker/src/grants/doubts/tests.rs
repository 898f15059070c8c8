//! Two replicas on one store that leaves commits in doubt: whoever was given nothing is given something the next time, and no one
//! else is.

use std::sync::Arc;

use connectors::Lookup;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use time::Duration;
use uuid::Uuid;

use super::*;
use crate::{
    App,
    grants::{Authentication, CodeRequest, Family, GrantError, Granted, RefreshRequest, family, handle::RefreshHandle},
    login::{AuthorizeRequest, Entering, SignedIn},
    seams::{Clock, Seams, SystemEntropy},
    secret_text::{fingerprint, random_text},
    store::{
        Alone, Entry, Partition,
        stand_in::{Fate, StandIn, stand_in},
    },
    tests::{NOW, scope},
};

struct Still;

impl Clock for Still {
    fn now(&self) -> OffsetDateTime {
        NOW
    }
}

/// Two replicas, and Jane's session.
struct House {
    store: Arc<StandIn>,
    one: Arc<App>,
    other: Arc<App>,
    jane: SignedIn,
}

const URI: &str = "http://127.0.0.1/cb";

fn verifier() -> String {
    "v".repeat(43)
}

async fn replica(store: &Arc<StandIn>) -> Arc<App> {
    crate::cli::install_providers();
    let password = "$argon2id$v=19$m=19456,t=2,p=1$4m5hzu/sQhUXoj/NfPrWuw$hfb2JxdCKEqFFKM+61R2d2V8pDhlVuRCNfanapLLq+w";
    let client = |id: &str| json!({"id": id, "redirectUris": [URI], "scopes": ["openid", "profile", "offline_access"], "audiences": ["https://k.example"], "connectors": ["people"]});
    let text = json!({
        "issuer": "http://127.0.0.1:5556", "tenants": [{"id": "acme"}], "clients": [client("web"), client("thief")],
        "connectors": [{"id": "people", "type": "file", "tenant": {"fixed": "acme"}, "users": [{"id": "jane", "username": "jane", "password": password}]}],
    });
    let loaded = crate::config::load_text(&text.to_string(), &std::env::temp_dir(), "test.yaml").unwrap();
    let alone = Seams::alone(Arc::new(Still), Arc::new(SystemEntropy), Arc::clone(store) as _);
    let seams = Seams { peers: Arc::clone(store) as _, ..alone };
    Arc::new(crate::build(loaded, seams).await.unwrap())
}

impl House {
    async fn new() -> Self {
        let store = stand_in();
        let (one, other) = (replica(&store).await, replica(&store).await);
        let people = one.admission.connector("people").unwrap();
        let by = Lookup::Subject(claims_mapping::Subject::parse("jane").unwrap());
        let user = people.directory.as_ref().unwrap().get(&scope("acme"), &by).await.unwrap().unwrap();
        let (identity, mapped) = one.admission.admit(people, &user, NOW).await.unwrap();
        let entering = Entering { identity: &identity, mapped, upstream: None };
        let jane = one.sessions.begin(entering, None, NOW).await.unwrap();
        Self { store, one, other, jane }
    }

    async fn code(&self, scopes: &[&str]) -> String {
        let request = AuthorizeRequest {
            client_id: "web".to_owned(),
            redirect_uri: URI.to_owned(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            state: None,
            nonce: None,
            code_challenge: fingerprint(&verifier()),
            audiences: vec!["https://k.example".to_owned()],
            tenant: None,
        };
        let (session, _) = self.one.sessions.find(&self.jane, NOW).await.unwrap();
        self.one.grants.give_code(&request, &self.jane, &session, NOW).await.unwrap()
    }

    /// A refresh token that was answered.
    async fn token(&self) -> String {
        exchange(&self.one, &self.code(&["openid"]).await).await.unwrap().refresh_token.unwrap()
    }

    async fn records(&self, kind: Kind) -> Vec<(String, Entry)> {
        self.store.list(&Partition::Tenant(self.jane.tenant.clone()), kind, None, 1_000, NOW).await.unwrap().entries
    }

    async fn family(&self, token: &str) -> Option<Family> {
        let handle = RefreshHandle::parse(token).unwrap();
        let entry = self.store.get(&family::key(&handle.tenant, handle.family), NOW).await.unwrap();
        entry.map(|entry| serde_json::from_slice(&entry.value).unwrap())
    }

    /// The token was used: whoever shows it gets nothing, and ends what it gave.
    async fn is_used(&self, token: &str) {
        refused(refresh(&self.other, token).await);
        assert!(self.family(token).await.is_none(), "the family has ended");
    }

    /// What is left of a doubt: one family, one session and its copies, and no note that is of use.
    async fn left(&self) -> (usize, usize) {
        (self.records(Kind::Grant).await.len(), self.records(Kind::Session).await.len())
    }
}

fn web() -> Authentication {
    Authentication { id: "web".to_owned(), secret: None }
}

async fn exchange_as(app: &App, who: &str, code: &str, verifier: String, now: OffsetDateTime) -> Result<Granted, GrantError> {
    let request =
        CodeRequest { code: code.to_owned(), redirect_uri: Some(URI.to_owned()), code_verifier: Some(verifier), resources: Vec::new() };
    app.grants.exchange_code(&Authentication { id: who.to_owned(), secret: None }, request, now).await
}

async fn exchange(app: &App, code: &str) -> Result<Granted, GrantError> {
    exchange_as(app, "web", code, verifier(), NOW).await
}

async fn refresh(app: &App, token: &str) -> Result<Granted, GrantError> {
    let request = RefreshRequest { refresh_token: token.to_owned(), scope: None, resources: Vec::new() };
    app.grants.refresh(&web(), request, NOW).await
}

fn next(granted: Result<Granted, GrantError>) -> String {
    granted.unwrap().refresh_token.unwrap()
}

fn refused(result: Result<Granted, GrantError>) {
    assert!(matches!(result, Err(GrantError::InvalidGrant(_))), "{result:?}");
}

fn in_doubt(result: Result<Granted, GrantError>) {
    assert!(matches!(result, Err(GrantError::Unavailable(_))), "{result:?}");
}

#[tokio::test]
async fn t37_a_rotation_in_doubt_is_tried_again_at_any_replica() {
    for fate in [Fate::Unanswered, Fate::Lost, Fate::Late] {
        let house = House::new().await;
        let first = house.token().await;
        house.store.will(Kind::Grant, fate);
        in_doubt(refresh(&house.one, &first).await);
        let second = next(refresh(&house.other, &first).await);
        let late = house.store.late_ones_arrive().await;
        assert!(late.iter().all(|outcome| *outcome == Outcome::Conflict), "what comes after the retry changes nothing");
        assert_eq!(late.len(), usize::from(fate == Fate::Late));
        let third = next(refresh(&house.one, &second).await);
        let generations = [&first, &second, &third].map(|token| RefreshHandle::parse(token).unwrap().generation.unwrap());
        assert!(generations.is_sorted_by(|a, b| a < b), "{generations:?}");
        house.is_used(&first).await;
        refused(refresh(&house.one, &third).await);
    }
}

#[tokio::test]
async fn a_late_commit_may_land_before_the_retry_or_within_it() {
    let house = House::new().await;
    let first = house.token().await;
    house.store.will(Kind::Grant, Fate::Late);
    in_doubt(refresh(&house.one, &first).await);
    assert_eq!(house.store.late_ones_arrive().await, [Outcome::Committed]);
    let second = next(refresh(&house.other, &first).await);

    house.store.will(Kind::Grant, Fate::Late);
    in_doubt(refresh(&house.one, &second).await);
    house.store.will(Kind::Grant, Fate::Held);
    let (app, token) = (Arc::clone(&house.other), second.clone());
    let retry = tokio::spawn(async move { refresh(&app, &token).await });
    house.store.has_stopped.notified().await;
    assert_eq!(house.store.late_ones_arrive().await, [Outcome::Committed], "the retry has read the record already");
    house.store.go_on.notify_one();
    let third = next(retry.await.unwrap());
    next(refresh(&house.one, &third).await);
    house.is_used(&second).await;
}

#[tokio::test]
async fn a_retry_may_be_in_doubt_too() {
    let house = House::new().await;
    let first = house.token().await;
    let fates = [Fate::Unanswered, Fate::Unanswered, Fate::Lost, Fate::Late, Fate::Unanswered];
    for (fate, app) in fates.into_iter().zip([&house.one, &house.other].into_iter().cycle()) {
        house.store.will(Kind::Grant, fate);
        in_doubt(refresh(app, &first).await);
    }
    let until = house.family(&first).await.unwrap().previous.unwrap().until;
    let second = next(refresh(&house.other, &first).await);
    assert_eq!(house.store.late_ones_arrive().await, [Outcome::Conflict]);
    assert_eq!(house.family(&first).await.unwrap().previous.unwrap().until, until, "a doubt makes nothing good for longer");
    next(refresh(&house.one, &second).await);
    house.is_used(&first).await;
}

#[tokio::test]
async fn whoever_goes_away_before_the_answer_can_come_again() {
    for (fate, notes_lost) in [(Fate::Silent, 0), (Fate::Held, 0), (Fate::Silent, 4)] {
        let house = House::new().await;
        let first = house.token().await;
        house.store.will(Kind::Grant, fate);
        let (app, token) = (Arc::clone(&house.one), first.clone());
        let request = tokio::spawn(async move { refresh(&app, &token).await });
        house.store.has_stopped.notified().await;
        // The note comes after the retry has begun, where the store does not take it at once.
        (0..notes_lost).for_each(|_| house.store.will(Kind::Doubt, Fate::Lost));
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        let second = next(refresh(&house.other, &first).await);
        next(refresh(&house.one, &second).await);
        house.is_used(&first).await;
    }
}

#[tokio::test]
async fn t37_without_a_note_it_was_used() {
    let house = House::new().await;
    let first = house.token().await;
    // As when the process is killed: the commit was carried out, and no note is ever kept.
    (0..1_000).for_each(|_| house.store.will(Kind::Doubt, Fate::Lost));
    house.store.will(Kind::Grant, Fate::Unanswered);
    in_doubt(refresh(&house.one, &first).await);
    house.is_used(&first).await;
}

#[tokio::test]
async fn a_process_alone_knows_its_doubts_and_waits_for_no_others() {
    let house = House::new().await;
    let alone = Doubts::new(Arc::clone(&house.store) as _, Arc::new(Alone));
    let (acme, now) = (&house.jane.tenant, NOW);
    assert!(!alone.is_undelivered(acme, "given", now).now_or_never().unwrap().unwrap(), "it is answered at the first look");
    assert!(house.one.grants.doubts.is_undelivered(acme, "given", now).now_or_never().is_none(), "another replica's note may come");
    (0..1_000).for_each(|_| house.store.will(Kind::Doubt, Fate::Lost));
    house.store.will(Kind::Grant, Fate::Unanswered);
    let batch = Batch::new().put(Key::new(acme, Kind::Grant, "any"), Vec::new(), None);
    alone.commit((acme, "lost"), batch, now).await.unwrap_err();
    assert!(alone.is_undelivered(acme, "lost", now).await.unwrap(), "the store has no note of it yet");
}

#[tokio::test]
async fn t37_a_note_of_an_old_doubt_says_nothing_of_later_tokens() {
    let house = House::new().await;
    let first = house.token().await;
    house.store.will(Kind::Grant, Fate::Unanswered);
    in_doubt(refresh(&house.one, &first).await);
    let undelivered = house.family(&first).await.unwrap().current.unwrap();
    let second = next(refresh(&house.other, &first).await);
    assert!(house.records(Kind::Doubt).await.is_empty(), "it was used up");
    // It may be written once more, by a try that was on its way.
    let note = Batch::new().put(key(&house.jane.tenant, &undelivered), Vec::new(), None);
    house.store.commit(note, NOW).await.unwrap();
    let third = next(refresh(&house.one, &second).await);
    assert_ne!(house.family(&first).await.unwrap().current.unwrap(), undelivered);
    refused(refresh(&house.other, &second).await);
    refused(refresh(&house.other, &third).await);
}

#[tokio::test]
async fn t38_of_many_retries_at_once_one_wins() {
    let house = House::new().await;
    let first = house.token().await;
    house.store.will(Kind::Grant, Fate::Unanswered);
    in_doubt(refresh(&house.one, &first).await);
    let tries = (0..16).map(|n| refresh(if n % 2 == 0 { &house.one } else { &house.other }, &first));
    let answers = futures_util::future::join_all(tries).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for answer in answers {
        if answer.is_err() {
            refused(answer);
        }
    }
}

#[tokio::test]
async fn a_doubt_is_of_no_use_to_another_client_or_after_the_sign_out() {
    let house = House::new().await;
    let first = house.token().await;
    house.store.will(Kind::Grant, Fate::Unanswered);
    in_doubt(refresh(&house.one, &first).await);
    let request = RefreshRequest { refresh_token: first.clone(), scope: None, resources: Vec::new() };
    refused(house.other.grants.refresh(&Authentication { id: "thief".to_owned(), secret: None }, request, NOW).await);
    assert!(house.family(&first).await.is_none(), "as it is without a doubt");

    let token = house.token().await;
    let code = house.code(&["openid"]).await;
    house.store.will(Kind::Grant, Fate::Late);
    in_doubt(refresh(&house.one, &token).await);
    house.store.will(Kind::Code, Fate::Late);
    in_doubt(exchange(&house.one, &code).await);
    assert!(house.other.sessions.end(&house.jane, NOW).await.unwrap());
    for gone in [refresh(&house.other, &token).await, exchange(&house.other, &code).await] {
        assert!(matches!(gone, Err(GrantError::Session(_))), "{gone:?}");
    }
    assert_eq!(house.store.late_ones_arrive().await, [Outcome::Conflict, Outcome::Conflict], "nothing is given in what has ended");
}

#[tokio::test]
async fn t35_an_exchange_in_doubt_is_tried_again_at_any_replica() {
    for fate in [Fate::Unanswered, Fate::Lost, Fate::Late] {
        let house = House::new().await;
        let code = house.code(&["openid", "offline_access"]).await;
        house.store.will(Kind::Code, fate);
        in_doubt(exchange(&house.one, &code).await);
        house.store.will(Kind::Code, fate);
        in_doubt(exchange(&house.other, &code).await);
        let token = next(exchange(&house.other, &code).await);
        assert!(house.store.late_ones_arrive().await.iter().all(|outcome| *outcome == Outcome::Conflict));
        assert_eq!(house.left().await, (1, 2), "what was not delivered died: one family, the session and one copy");
        let second = next(refresh(&house.one, &token).await);
        refused(exchange(&house.one, &code).await);
        assert!(house.family(&second).await.is_none(), "a code that is used twice takes back what it gave");
    }
}

#[tokio::test]
async fn a_late_exchange_may_land_before_the_retry_or_within_it() {
    let house = House::new().await;
    for within in [false, true] {
        let code = house.code(&["openid"]).await;
        house.store.will(Kind::Code, Fate::Late);
        in_doubt(exchange(&house.one, &code).await);
        let token = if within {
            house.store.will(Kind::Code, Fate::Held);
            let (app, code) = (Arc::clone(&house.other), code.clone());
            let retry = tokio::spawn(async move { exchange(&app, &code).await });
            house.store.has_stopped.notified().await;
            assert_eq!(house.store.late_ones_arrive().await, [Outcome::Committed]);
            house.store.go_on.notify_one();
            next(retry.await.unwrap())
        } else {
            assert_eq!(house.store.late_ones_arrive().await, [Outcome::Committed]);
            next(exchange(&house.other, &code).await)
        };
        next(refresh(&house.one, &token).await);
    }
    assert_eq!(house.left().await, (2, 1));
}

#[tokio::test]
async fn t36_a_code_in_doubt_needs_the_same_proof_and_is_not_good_for_longer() {
    let house = House::new().await;
    let doubtful = async || {
        let code = house.code(&["openid"]).await;
        house.store.will(Kind::Code, Fate::Unanswered);
        in_doubt(exchange(&house.one, &code).await);
        code
    };
    for (who, verifier) in [("web", "w".repeat(43)), ("thief", verifier())] {
        let code = doubtful().await;
        refused(exchange_as(&house.other, who, &code, verifier, NOW).await);
        refused(exchange(&house.other, &code).await);
    }
    let code = doubtful().await;
    let late = NOW + Duration::seconds(i64::try_from(house.one.config.lifetimes.code_seconds).unwrap());
    refused(exchange_as(&house.other, "web", &code, verifier(), late).await);
    assert!(house.records(Kind::Grant).await.is_empty());
}

#[tokio::test]
async fn t38_of_many_exchanges_at_once_at_most_one_wins() {
    let house = House::new().await;
    let code = house.code(&["openid"]).await;
    house.store.will(Kind::Code, Fate::Unanswered);
    in_doubt(exchange(&house.one, &code).await);
    let tries = (0..16).map(|n| exchange(if n % 2 == 0 { &house.one } else { &house.other }, &code));
    let answers = futures_util::future::join_all(tries).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    answers.into_iter().filter(Result::is_err).for_each(refused);
    assert!(house.records(Kind::Grant).await.is_empty(), "a code that is used twice takes back what it gave");
}

#[tokio::test]
async fn t37_a_token_of_a_later_generation_than_the_store_has_ends_the_family() {
    let house = House::new().await;
    let first = house.token().await;
    let handle = RefreshHandle::parse(&first).unwrap();
    let key = family::key(&handle.tenant, handle.family);
    let before = house.store.get(&key, NOW).await.unwrap().unwrap();
    let second = next(refresh(&house.one, &first).await);
    house.store.commit(Batch::new().put(key, before.value, None), NOW).await.unwrap();
    let family = house.family(&first).await.unwrap();
    assert_eq!(family.shown(&RefreshHandle::parse(&second).unwrap(), NOW), family::Shown::Later);
    house.is_used(&second).await;
    refused(refresh(&house.one, &first).await);
}

/// What the version before does with a refresh token: the record has neither generation nor predecessor, and all that follows the
/// root is the secret.
async fn rotated_by_the_version_before(house: &House, token: &str) -> String {
    let mut parts = token.splitn(3, '.');
    let (tenant, root, secret) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let key = family::key(&house.jane.tenant, crate::grants::handle::family_of(Uuid::try_parse(root).unwrap()));
    let entry = house.store.get(&key, NOW).await.unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&entry.value).unwrap();
    assert_eq!(record["current"], json!(fingerprint(secret)), "the version before takes it");
    let next = random_text(&SystemEntropy);
    let object = record.as_object_mut().unwrap();
    object.insert("current".to_owned(), json!(fingerprint(&next)));
    for newer in ["generation", "previous"] {
        object.remove(newer);
    }
    let batch = Batch::new().put(key, serde_json::to_vec(&record).unwrap(), None);
    assert_eq!(house.store.commit(batch, NOW).await.unwrap(), Outcome::Committed);
    format!("{tenant}.{root}.{next}")
}

#[tokio::test]
async fn each_version_rotates_the_tokens_of_the_other() {
    let house = House::new().await;
    let ours = house.token().await;
    let theirs = rotated_by_the_version_before(&house, &ours).await;
    assert_eq!(RefreshHandle::parse(&theirs).unwrap().generation, None);
    let theirs = rotated_by_the_version_before(&house, &theirs).await;
    house.store.will(Kind::Grant, Fate::Unanswered);
    in_doubt(refresh(&house.one, &theirs).await);
    let again = next(refresh(&house.other, &theirs).await);
    let theirs = rotated_by_the_version_before(&house, &again).await;
    let last = next(refresh(&house.other, &theirs).await);
    assert_eq!(RefreshHandle::parse(&last).unwrap().generation, Some(1), "they are counted anew");
    house.is_used(&theirs).await;
}

#[tokio::test]
async fn a_code_of_the_version_before_is_exchanged_and_a_tombstone_is_read_by_it() {
    #[derive(serde::Deserialize)]
    enum Before {
        Used { family: Option<Uuid> },
    }
    let house = House::new().await;
    let code = house.code(&["openid"]).await;
    let (id, entry) = house.records(Kind::Code).await.remove(0);
    let live: Value = serde_json::from_slice(&entry.value).unwrap();
    let mut names: Vec<_> = live["Live"].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["audiences", "auth_time", "challenge", "client_id", "nonce", "redirect_uri", "scopes", "sid"], "as ever");
    next(exchange(&house.one, &code).await);
    let used = house.records(Kind::Code).await.into_iter().find(|(own, _)| *own == id).unwrap().1;
    let Before::Used { family } = serde_json::from_slice(&used.value).unwrap();
    // What the version before leaves says of no way to exchange it again.
    let key = Key::new(&house.jane.tenant, Kind::Code, id);
    house.store.commit(Batch::new().put(key, json!({"Used": {"family": family}}).to_string().into_bytes(), None), NOW).await.unwrap();
    refused(exchange(&house.other, &code).await);
    assert!(house.records(Kind::Grant).await.is_empty());
}
