//! One client: a person with a browser, their application, and the service that has its tokens reviewed. It signs in, works for a while,
//! ends in one of the ways that there are, and then does what it must not.

use std::{sync::Arc, time::Duration};

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use url::{Position, Url};

use super::{
    chance::Chance,
    door::{Door, came},
    history::{Access, Asker, Came, Deed, Id, SECOND, Told, Whose, id_of},
};
use crate::{
    Answer, Authorization, Browser, Tokens,
    configuration::{KUBERNETES, REVIEWER_TOKEN, password_of},
    form::Form,
};

/// Where the application gets its codes.
const CALLBACK: &str = "http://127.0.0.1:4711/cb";

/// How long the access tokens of the soak's configuration last.
pub(super) const ACCESS_SECONDS: u64 = 900;

/// How much a client does.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The longest it rests between two requests; half of that on average.
    pub rest: Duration,
    /// The most it does in one session, before it ends it.
    pub deeds: u64,
}

/// The client.
#[derive(Debug)]
pub struct Client {
    number: u32,
    door: Arc<Door>,
    asker: Asker,
    chance: Chance,
    pace: Pace,
}

/// A session as the client knows it.
pub(super) struct Visit {
    id: Id,
    family: Id,
    pub(super) browser: Browser,
    request: Authorization,
    code: String,
    refresh: String,
    /// Refresh tokens that were good once.
    pub(super) old: Vec<String>,
    /// The newest access token, as text.
    access: (String, Access),
}

/// What a browser does next: a path to open, or a form and where it is sent.
enum Step {
    Open(String),
    Send(String, Vec<(String, String)>),
}

/// An address without its replica.
fn path_of(address: &Url) -> String {
    address[Position::BeforePath..Position::AfterQuery].to_owned()
}

impl Client {
    /// A client with this number, for this person.
    #[must_use]
    pub fn new(number: u32, door: Arc<Door>, asker: Asker, pace: Pace) -> Self {
        Self { number, door, asker, chance: Chance::of(u64::from(number)), pace }
    }

    /// Comes again and again, until the door says that it is over.
    pub async fn live(mut self) {
        while !self.door.is_over() {
            self.rest().await;
            // Whatever is not answered to its end is left as it is; the next time is another session.
            let _ = self.visit().await;
        }
    }

    async fn rest(&mut self) {
        let longest = u64::try_from(self.pace.rest.as_millis()).unwrap_or(u64::MAX).max(1);
        tokio::time::sleep(Duration::from_millis(self.chance.below(longest))).await;
    }

    /// One session, from its sign-in to what is tried after its end. `None` where the run ended, or it was refused on the way.
    async fn visit(&mut self) -> Option<()> {
        let mut visit = self.sign_in().await?;
        if self.chance.below(10) == 0 {
            // A code for someone who signs out at once.
            self.log_out(&mut visit).await?;
            return self.exchange(&mut visit).await;
        }
        if self.chance.below(10) == 0 {
            return self.two_at_once(&mut visit).await;
        }
        if self.chance.below(3) == 0 {
            self.rest().await;
        }
        self.exchange(&mut visit).await?;
        for _ in 0..1 + self.chance.below(self.pace.deeds) {
            self.rest().await;
            match self.chance.below(10) {
                0 | 1 => self.refresh(&mut visit).await?,
                2 => _ = self.account(&mut visit).await?,
                3 => self.search(&visit).await?,
                _ => self.review(&visit).await?,
            }
        }
        match self.chance.below(10) {
            0 | 1 => self.shows_its_code_again(&mut visit).await,
            2..=4 => self.shows_an_old_token(&mut visit).await,
            5 => self.revokes(&mut visit).await,
            _ => self.logs_out_and_tries_on(&mut visit).await,
        }
    }

    async fn shows_its_code_again(&mut self, visit: &mut Visit) -> Option<()> {
        self.exchange(visit).await;
        self.after_the_end(visit).await
    }

    async fn shows_an_old_token(&mut self, visit: &mut Visit) -> Option<()> {
        self.refresh(visit).await?;
        self.rest().await;
        let which = usize::try_from(self.chance.below(visit.old.len() as u64)).unwrap_or_default();
        let old = visit.old.get(which).cloned()?;
        self.refresh_with(visit, &old).await;
        self.after_the_end(visit).await
    }

    async fn revokes(&mut self, visit: &mut Visit) -> Option<()> {
        self.revoke(visit).await?;
        self.review(visit).await?;
        self.past_the_bound().await;
        self.review(visit).await?;
        self.review(visit).await?;
        // The token alone was revoked.
        self.refresh(visit).await?;
        self.review(visit).await
    }

    async fn logs_out_and_tries_on(&mut self, visit: &mut Visit) -> Option<()> {
        let mut kept = visit.browser.clone();
        self.log_out(visit).await?;
        std::mem::swap(&mut kept, &mut visit.browser);
        self.account(visit).await;
        self.after_the_end(visit).await?;
        self.account(visit).await;
        Some(())
    }

    /// What no one may do any more, once an end was answered: at once, and after the second that reviews have.
    async fn after_the_end(&mut self, visit: &mut Visit) -> Option<()> {
        self.review(visit).await?;
        let current = visit.refresh.clone();
        self.refresh_with(visit, &current).await;
        self.past_the_bound().await;
        self.review(visit).await?;
        self.search(visit).await?;
        self.review(visit).await?;
        self.refresh_with(visit, &current).await;
        Some(())
    }

    async fn past_the_bound(&self) {
        tokio::time::sleep(Duration::from_millis(1050)).await;
    }

    pub(super) async fn sign_in(&mut self) -> Option<Visit> {
        let id = self.door.number();
        let (asker, deed) = (self.asker.clone(), Deed::Page { session: id });
        let (_, home) = self.door.replica();
        let mut browser = Browser::new(self.door.http().clone(), home);
        let request = Authorization::new("web", CALLBACK)
            .with("tenant", &asker.tenant)
            .with("scope", "openid profile email groups roles users.read")
            .add("resource", KUBERNETES)
            .add("resource", &format!("{}/api", self.door.issuer()));
        let mut next = Step::Open(request.path());
        for _ in 0..12 {
            let answer = self.browse(deed, &mut browser, &next).await?;
            match answer.location() {
                Some(to) if to.as_str().starts_with(CALLBACK) => {
                    let code = to.query_pairs().find(|(name, _)| name == "code").map(|(_, code)| code.into_owned())?;
                    let access = Access { token: 0, family: self.door.number(), session: id, until: 0 };
                    let family = access.family;
                    let (refresh, old) = (String::new(), Vec::new());
                    return Some(Visit { id, family, browser, request, code, refresh, old, access: (String::new(), access) });
                }
                Some(to) => next = Step::Open(path_of(&to)),
                None => {
                    let mut form = Form::of(&answer.text)?;
                    form.fill("username", &asker.username);
                    form.fill("password", &password_of(&asker.tenant, &asker.username));
                    next = Step::Send(path_of(&answer.url.join(&form.action).ok()?), form.fields);
                }
            }
        }
        None
    }

    /// One page of a sign-in; `None` where it leads nowhere.
    async fn browse(&mut self, deed: Deed, browser: &mut Browser, step: &Step) -> Option<Answer> {
        let judged = |answer: &Answer| match answer.status {
            303 => Came::Good,
            200 if Form::of(&answer.text).is_some() => Came::Good,
            // Its attempt is gone, or was carried through by a try that was not answered.
            200 | 400 | 404 | 409 | 410 | 422 => Came::Refused,
            _ => came(answer, 200),
        };
        self.ask_with(deed, browser, step, judged, &[]).await.filter(|(_, came)| *came == Came::Good).map(|(answer, _)| answer)
    }

    pub(super) async fn account(&mut self, visit: &mut Visit) -> Option<Answer> {
        let judged = |answer: &Answer| if answer.status == 303 { Came::Refused } else { came(answer, 200) };
        let name = format!("{}@{}.example", self.asker.username, self.asker.tenant);
        let deed = Deed::Account { session: visit.id };
        let (answer, came) = self.ask_with(deed, &mut visit.browser, &Step::Open("/account".to_owned()), judged, &[&name]).await?;
        (came == Came::Good).then_some(answer)
    }

    pub(super) async fn log_out(&mut self, visit: &mut Visit) -> Option<()> {
        let page = self.account(visit).await?;
        let step = Step::Send("/account".to_owned(), Form::of(&page.text)?.fields);
        let deed = Deed::Logout { session: visit.id };
        self.ask_with(deed, &mut visit.browser, &step, |answer| came(answer, 200), &[]).await.map(|_| ())
    }

    fn exchange_form(visit: &Visit) -> Vec<(String, String)> {
        let Visit { request, code, .. } = visit;
        let pairs = [
            ("grant_type", "authorization_code"),
            ("client_id", "web"),
            ("code", code),
            ("redirect_uri", request.get("redirect_uri")),
            ("code_verifier", &request.verifier),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    pub(super) async fn exchange(&mut self, visit: &mut Visit) -> Option<()> {
        let deed = Deed::Exchange { code: id_of(&visit.code), session: visit.id, family: visit.family };
        let form = Self::exchange_form(visit);
        let answer = self.token(deed, &form).await?;
        self.take(visit, answer)
    }

    /// Two at once with one code: one of them at most gets tokens.
    async fn two_at_once(&mut self, visit: &mut Visit) -> Option<()> {
        let deed = Deed::Exchange { code: id_of(&visit.code), session: visit.id, family: visit.family };
        let form = Self::exchange_form(visit);
        let (first, second) = tokio::join!(self.token(deed, &form), self.token(deed, &form));
        self.take(visit, first.or(second)?)?;
        self.review(visit).await
    }

    pub(super) async fn refresh(&mut self, visit: &mut Visit) -> Option<()> {
        let current = visit.refresh.clone();
        self.refresh_with(visit, &current).await
    }

    pub(super) async fn refresh_with(&mut self, visit: &mut Visit, token: &str) -> Option<()> {
        let deed = Deed::Refresh { token: id_of(token), family: visit.family, session: visit.id };
        let form = [("grant_type", "refresh_token"), ("client_id", "web"), ("refresh_token", token)];
        let form = form.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let answer = self.token(deed, &form).await?;
        visit.old.push(token.to_owned());
        self.take(visit, answer)
    }

    pub(super) async fn revoke(&self, visit: &Visit) -> Option<()> {
        let (token, access) = &visit.access;
        let form = [("client_id", "web"), ("token", token.as_str())];
        self.ask(Deed::Revoke(*access), |http, at| http.post(format!("{at}/oauth2/revoke")).form(&form), 200, &[]).await.map(|_| ())
    }

    /// Asks the token endpoint.
    async fn token(&self, deed: Deed, form: &[(String, String)]) -> Option<Answer> {
        let name = format!("\"preferred_username\":\"{}\"", self.asker.username);
        self.ask(deed, |http, at| http.post(format!("{at}/oauth2/token")).form(form), 200, &[&name]).await
    }

    fn take(&self, visit: &mut Visit, answer: Answer) -> Option<()> {
        let tokens = Tokens(answer.json());
        if tokens.0["refresh_token"].is_null() {
            return None;
        }
        let token = tokens.access().to_owned();
        // What stands for less than the bound on either side is not judged.
        let until = self.door.now() + (ACCESS_SECONDS - 5) * SECOND;
        let access = Access { token: id_of(&token), family: visit.family, session: visit.id, until };
        visit.access = (token, access);
        visit.refresh = tokens.refresh().to_owned();
        Some(())
    }

    pub(super) async fn review(&self, visit: &Visit) -> Option<()> {
        let (token, access) = &visit.access;
        if token.is_empty() {
            return None;
        }
        let body = json!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
            "spec": {"token": token, "audiences": [KUBERNETES]},
        });
        let judged = |answer: &Answer| match (answer.status, &answer.json()["status"]["authenticated"]) {
            (200, Value::Bool(true)) => Came::Good,
            (200, Value::Bool(false)) => Came::Refused,
            // The reviewer's own proof is right.
            (status @ (200 | 400 | 401), _) => Came::Odd(status),
            _ => came(answer, 200),
        };
        let path = "apis/authentication.k8s.io/v1/tokenreviews";
        let name = format!("\"{}:{}\"", self.asker.tenant, self.asker.username);
        let request = |http: &reqwest::Client, at: &str| http.post(format!("{at}/{path}")).json(&body).bearer_auth(REVIEWER_TOKEN);
        self.ask_judged(Deed::Review(*access), request, judged, &[&name]).await.map(|_| ())
    }

    async fn search(&self, visit: &Visit) -> Option<()> {
        let (token, access) = &visit.access;
        let path = format!("/api/v1/users?search={}", self.asker.username);
        let name = format!("\"{}\"", self.asker.username);
        let request = |http: &reqwest::Client, at: &str| http.get(format!("{at}{path}")).bearer_auth(token);
        self.ask_judged(Deed::Search(*access), request, |answer| came(answer, 200), &[&name]).await.map(|_| ())
    }

    async fn ask(
        &self,
        deed: Deed,
        request: impl Fn(&reqwest::Client, &str) -> RequestBuilder,
        good: u16,
        names: &[&str],
    ) -> Option<Answer> {
        self.ask_judged(deed, request, |answer| came(answer, good), names).await.map(|(answer, _)| answer)
    }

    /// Asks until it is told how it stands.
    async fn ask_judged(
        &self,
        deed: Deed,
        request: impl Fn(&reqwest::Client, &str) -> RequestBuilder,
        judged: impl Fn(&Answer) -> Came,
        names: &[&str],
    ) -> Option<(Answer, Came)> {
        let number = self.door.number();
        loop {
            let (replica, at) = self.door.replica();
            let begun = self.door.now();
            let answer = match request(self.door.http(), at).send().await {
                Ok(answer) => Answer::read(answer).await.ok(),
                Err(_) => None,
            };
            if let Some(told) = self.heard(deed, (number, replica, begun), answer, &judged, names).await {
                return Some(told);
            }
            if self.door.is_over() {
                return None;
            }
        }
    }

    /// The same with a browser.
    async fn ask_with(
        &self,
        deed: Deed,
        browser: &mut Browser,
        step: &Step,
        judged: impl Fn(&Answer) -> Came,
        names: &[&str],
    ) -> Option<(Answer, Came)> {
        let number = self.door.number();
        loop {
            let (replica, at) = self.door.replica();
            browser.move_to(at);
            let begun = self.door.now();
            let answer = match step {
                Step::Open(path) => browser.try_get(path).await,
                Step::Send(path, fields) => browser.try_post(path, fields).await,
            };
            if let Some(told) = self.heard(deed, (number, replica, begun), answer.ok(), &judged, names).await {
                return Some(told);
            }
            if self.door.is_over() {
                return None;
            }
        }
    }

    /// Tells what came; `None`, after a rest, where it must be asked again.
    async fn heard(
        &self,
        deed: Deed,
        (request, replica, begun): (Id, usize, u64),
        answer: Option<Answer>,
        judged: impl Fn(&Answer) -> Came,
        names: &[&str],
    ) -> Option<(Answer, Came)> {
        let ended = self.door.now();
        let answer = answer.map(|answer| self.door.passed_on(&self.asker, &deed, answer));
        let came = answer.as_ref().map_or(Came::Nothing, judged);
        let names = if came == Came::Good { names } else { &[] };
        let whose = answer.as_ref().map_or(Whose::Own, |answer| self.door.whose(&self.asker, answer, names));
        self.door.tell(Told { client: self.number, request, replica, begun, ended, deed, came, whose });
        if matches!(came, Came::Unavailable | Came::Nothing) {
            // Where the replica is down it says so at once.
            tokio::time::sleep(Duration::from_millis(200 + request % 100)).await;
            return None;
        }
        answer.map(|answer| (answer, came))
    }
}
