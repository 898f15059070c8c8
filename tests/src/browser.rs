//! A browser without a screen: it keeps cookies, follows redirects within the broker, and fills in forms as they stand on the page.

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
    /// The cookies, by name.
    pub cookies: BTreeMap<String, String>,
    /// Headers that each request carries, as a proxy before the broker would add them.
    pub headers: Vec<(String, String)>,
}

impl Browser {
    /// A browser for the broker at this address.
    ///
    /// # Panics
    /// When that is no address.
    #[must_use]
    pub fn new(http: Client, home: &str) -> Self {
        Self { http, home: Url::parse(home).unwrap(), cookies: BTreeMap::new(), headers: Vec::new() }
    }

    /// Opens a page of the broker, and goes where it is sent as long as that is the broker.
    pub async fn open(&mut self, path: &str) -> Answer {
        let answer = self.get(path).await;
        self.follow(answer).await
    }

    /// Opens a page, and follows nothing.
    pub async fn get(&mut self, path: &str) -> Answer {
        let address = self.home.join(path).unwrap();
        self.send(self.http.get(address)).await
    }

    /// Sends a form, and follows nothing.
    pub async fn post(&mut self, path: &str, fields: &[(String, String)]) -> Answer {
        let address = self.home.join(path).unwrap();
        self.send(self.http.post(address).form(fields)).await
    }

    /// Sends the form of a page with some fields filled in, and goes where that leads as long as that is the broker.
    ///
    /// # Panics
    /// When the page has no form.
    pub async fn submit(&mut self, page: &Answer, fields: &[(&str, &str)]) -> Answer {
        let mut form = Form::of(&page.text).unwrap_or_else(|| panic!("no form on the page of {}: {}", page.url.path(), page.text));
        for (name, value) in fields {
            form.fill(name, value);
        }
        let address = page.url.join(&form.action).unwrap();
        let answer = self.post(address.as_str(), &form.fields).await;
        self.follow(answer).await
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
        for _ in 0..10 {
            match answer.location().filter(|next| next.origin() == self.home.origin()) {
                Some(next) => answer = self.get(next.as_str()).await,
                None => return answer,
            }
        }
        panic!("redirected in a circle at {}", answer.url.path());
    }

    async fn send(&mut self, request: RequestBuilder) -> Answer {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let request = self.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = if cookies.is_empty() { request } else { request.header(COOKIE, cookies) };
        let answer = Answer::read(request.send().await.expect("the broker answers")).await.expect("the answer comes whole");
        for cookie in answer.headers.get_all(SET_COOKIE) {
            let text = cookie.to_str().unwrap();
            let (name, value) = text.split(';').next().and_then(|pair| pair.split_once('=')).unwrap();
            if value.is_empty() || text.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
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
