//! A browser without a screen: it keeps cookies, follows redirects within the broker and the other servers that it was told of, and
//! fills in forms as they stand on the page.

use std::collections::BTreeMap;

use reqwest::{
    Client, RequestBuilder,
    header::{COOKIE, SET_COOKIE},
};
use url::Url;

use crate::{Answer, Authorization, form::Form};

/// A browser.
#[derive(Debug, Clone)]
pub struct Browser {
    http: Client,
    home: Url,
    /// The broker's cookies, by name.
    pub cookies: BTreeMap<String, String>,
    /// Headers that each request to the broker carries, as a proxy before it would add them.
    pub headers: Vec<(String, String)>,
    elsewhere: BTreeMap<String, Cookies>,
}

/// The cookies of a server besides the broker, by name and path (RFC 6265, 5.3): two sign-ins at once do not take each other's.
type Cookies = BTreeMap<(String, String), String>;

impl Browser {
    /// A browser for the broker at this address.
    ///
    /// # Panics
    /// When that is no address.
    #[must_use]
    pub fn new(http: Client, home: &str) -> Self {
        Self { http, home: Url::parse(home).unwrap(), cookies: BTreeMap::new(), headers: Vec::new(), elsewhere: BTreeMap::new() }
    }

    /// The browser, which also goes where the server at this address sends it.
    ///
    /// # Panics
    /// When that is no address.
    #[must_use]
    pub fn visiting(mut self, address: &str) -> Self {
        self.elsewhere.insert(origin(&Url::parse(address).unwrap()), Cookies::new());
        self
    }

    /// Opens a page, and goes where it is sent as long as that is the broker, or a server that it was told of.
    pub async fn open(&mut self, path: &str) -> Answer {
        let answer = self.get(path).await;
        self.follow(answer).await
    }

    /// Opens a page, and follows nothing.
    pub async fn get(&mut self, path: &str) -> Answer {
        let address = self.home.join(path).unwrap();
        self.send(&address, self.http.get(address.clone())).await
    }

    /// Goes to another replica of the broker from now on, with the cookies that it has, as behind a balancer.
    ///
    /// # Panics
    /// When that is no address.
    pub fn move_to(&mut self, home: &str) {
        self.home = Url::parse(home).unwrap();
    }

    /// [`Self::get`] of a broker that may be killed meanwhile.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn try_get(&mut self, path: &str) -> reqwest::Result<Answer> {
        let address = self.home.join(path).unwrap();
        self.try_send(&address, self.http.get(address.clone())).await
    }

    /// [`Self::post`] to a broker that may be killed meanwhile.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn try_post(&mut self, path: &str, fields: &[(String, String)]) -> reqwest::Result<Answer> {
        let address = self.home.join(path).unwrap();
        self.try_send(&address, self.http.post(address.clone()).form(fields)).await
    }

    /// Sends a form, and follows nothing.
    pub async fn post(&mut self, path: &str, fields: &[(String, String)]) -> Answer {
        let address = self.home.join(path).unwrap();
        self.send(&address, self.http.post(address.clone()).form(fields)).await
    }

    /// Sends JSON, as a page's script does.
    ///
    /// # Panics
    /// When that is no method.
    pub async fn send_json(&mut self, method: &str, path: &str, body: &serde_json::Value) -> Answer {
        let address = self.home.join(path).unwrap();
        let request = self.http.request(method.parse().unwrap(), address.clone()).json(body);
        self.send(&address, request).await
    }

    /// Sends the form of a page with some fields filled in, and goes where that leads as [`Self::open`] does.
    ///
    /// # Panics
    /// When the page has no form.
    pub async fn submit(&mut self, page: &Answer, fields: &[(&str, &str)]) -> Answer {
        let answer = self.send_form(page, fields).await;
        self.follow(answer).await
    }

    /// The same, as far as the redirect whose target begins like this, which is not followed.
    ///
    /// # Panics
    /// When the page has no form, or leads elsewhere.
    pub async fn submit_until(&mut self, page: &Answer, fields: &[(&str, &str)], target: &str) -> Url {
        let mut answer = self.send_form(page, fields).await;
        for _ in 0..10 {
            let Some(next) = answer.location() else { panic!("{} led nowhere ({}): {}", answer.url, answer.status, answer.text) };
            if next.as_str().starts_with(target) {
                return next;
            }
            answer = self.get(next.as_str()).await;
        }
        panic!("{target} does not come; the browser is at {}", answer.url);
    }

    async fn send_form(&mut self, page: &Answer, fields: &[(&str, &str)]) -> Answer {
        let mut form = Form::of(&page.text).unwrap_or_else(|| panic!("no form on the page of {}: {}", page.url.path(), page.text));
        for (name, value) in fields {
            form.fill(name, value);
        }
        let address = page.url.join(&form.action).unwrap();
        self.post(address.as_str(), &form.fields).await
    }

    /// Walks from an authorization request to its end: to the application with an answer, or to a page that goes no further.
    pub async fn try_sign_in(&mut self, request: &Authorization, username: &str, password: &str) -> Answer {
        let page = self.open(&request.path()).await;
        if page.location().is_some() || Form::of(&page.text).is_none() {
            return page;
        }
        self.submit(&page, &[("username", username), ("password", password)]).await
    }

    /// The same, and the code that the application gets.
    ///
    /// # Panics
    /// When it gets none.
    pub async fn sign_in(&mut self, request: &Authorization, username: &str, password: &str) -> String {
        code(&self.try_sign_in(request, username, password).await)
    }

    /// Signs in at the account page, for no application.
    pub async fn sign_in_to_account(&mut self, username: &str, password: &str) -> Answer {
        let mut page = self.open("/login").await;
        if let Some(first) = crate::form::links(&page.text).into_iter().find(|link| link.starts_with("/login/people")) {
            page = self.open(&first).await;
        }
        self.submit(&page, &[("username", username), ("password", password)]).await
    }

    /// Signs out at the account page.
    pub async fn sign_out(&mut self) -> Answer {
        let page = self.open("/account").await;
        self.submit(&page, &[]).await
    }

    async fn follow(&mut self, mut answer: Answer) -> Answer {
        for _ in 0..15 {
            match answer.location().filter(|next| self.goes_to(next)) {
                Some(next) => answer = self.get(next.as_str()).await,
                None => return answer,
            }
        }
        panic!("redirected in a circle at {}", answer.url);
    }

    fn goes_to(&self, address: &Url) -> bool {
        self.is_home(address) || self.elsewhere.contains_key(&origin(address))
    }

    fn is_home(&self, address: &Url) -> bool {
        address.origin() == self.home.origin()
    }

    async fn send(&mut self, address: &Url, request: RequestBuilder) -> Answer {
        self.try_send(address, request).await.unwrap_or_else(|error| panic!("{address} does not answer: {error:?}"))
    }

    async fn try_send(&mut self, address: &Url, request: RequestBuilder) -> reqwest::Result<Answer> {
        let cookies = self.cookies_for(address);
        let headers = self.headers.iter().filter(|_| self.is_home(address));
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let request = if cookies.is_empty() { request } else { request.header(COOKIE, cookies) };
        let answer = Answer::read(request.send().await?).await?;
        for cookie in answer.headers.get_all(SET_COOKIE) {
            self.keep(address, cookie.to_str().unwrap());
        }
        Ok(answer)
    }

    fn cookies_for(&self, address: &Url) -> String {
        let pair = |(name, value)| format!("{name}={value}");
        let all: Vec<_> = if self.is_home(address) {
            self.cookies.iter().map(pair).collect()
        } else {
            let kept = self.elsewhere.get(&origin(address)).into_iter().flatten();
            kept.filter(|((_, path), _)| is_below(address.path(), path)).map(|((name, _), value)| pair((name, value))).collect()
        };
        all.join("; ")
    }

    fn keep(&mut self, address: &Url, cookie: &str) {
        let (name, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).unwrap();
        let attribute = |wanted: &str| {
            let pairs = cookie.split(';').skip(1).filter_map(|pair| pair.trim().split_once('='));
            pairs.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned()).next()
        };
        let gone = value.is_empty() || attribute("max-age").is_some_and(|age| age == "0");
        if self.is_home(address) {
            match gone {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        } else if let Some(kept) = self.elsewhere.get_mut(&origin(address)) {
            let key = (name.to_owned(), attribute("path").unwrap_or_else(|| "/".to_owned()));
            match gone {
                true => kept.remove(&key),
                false => kept.insert(key, value.to_owned()),
            };
        }
    }
}

fn origin(address: &Url) -> String {
    address.origin().ascii_serialization()
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder.ends_with('/'))
}

/// A parameter of the answer that an application gets through the browser; empty where it is absent.
///
/// # Panics
/// When the browser was not sent anywhere.
#[must_use]
pub fn returned(answer: &Answer, name: &str) -> String {
    let location = answer.location().unwrap_or_else(|| panic!("{} led nowhere ({}): {}", answer.url.path(), answer.status, answer.text));
    location.query_pairs().find(|(n, _)| n == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// The code that an application gets.
///
/// # Panics
/// When it gets none.
#[must_use]
pub fn code(answer: &Answer) -> String {
    let code = returned(answer, "code");
    assert!(!code.is_empty(), "no code in {:?}", answer.location());
    code
}
