//! What a browser's session holds, and its cookies.

use axum::http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tower_sessions::{Expiry, Session};

use super::{failure::Failure, pages::ErrorPage};
use crate::{App, login::SignedIn, secret_text::random_text};

/// What a browser's session holds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Browser {
    /// What its sign-ins under way are bound to.
    pub(crate) binding: String,
    /// Its signed-in session.
    pub(crate) signed_in: Option<SignedIn>,
}

const ENTRY: &str = "browser";

/// The browser behind a request; a newcomer is given a session that lasts as long as a sign-in may take.
///
/// # Errors
/// When the store could not tell.
pub(crate) async fn browser(session: &Session, app: &App) -> Result<Browser, Failure> {
    if let Some(browser) = session.get::<Browser>(ENTRY).await.map_err(unavailable)? {
        return Ok(browser);
    }
    let browser = Browser { binding: random_text(&*app.seams.entropy), signed_in: None };
    session.set_expiry(Some(expiry(app, app.config.lifetimes.attempt_seconds)));
    session.insert(ENTRY, &browser).await.map_err(unavailable)?;
    Ok(browser)
}

/// What the sign-ins of the browser behind a request are bound to; no session is made for a newcomer, who has none.
///
/// # Errors
/// When the store could not tell.
pub(crate) async fn binding(session: &Session) -> Result<Option<String>, Failure> {
    Ok(session.get::<Browser>(ENTRY).await.map_err(unavailable)?.map(|browser| browser.binding))
}

/// The session that a browser is signed in with, where it has one; no session is made for it.
///
/// # Errors
/// When the store could not tell.
pub(crate) async fn signed_in(session: &Session) -> Result<Option<SignedIn>, Failure> {
    Ok(session.get::<Browser>(ENTRY).await.map_err(unavailable)?.and_then(|browser| browser.signed_in))
}

/// Signs the browser in, under a new session id: whoever knew the old one knows nothing. Its other tabs' sign-ins go on.
///
/// # Errors
/// When the store could not tell.
pub(crate) async fn sign_in(session: &Session, signed_in: SignedIn, app: &App) -> Result<(), Failure> {
    let binding = binding(session).await?.unwrap_or_else(|| random_text(&*app.seams.entropy));
    session.cycle_id().await.map_err(unavailable)?;
    session.set_expiry(Some(expiry(app, app.config.lifetimes.session_seconds)));
    let browser = Browser { binding, signed_in: Some(signed_in) };
    session.insert(ENTRY, browser).await.map_err(unavailable)
}

/// Forgets the browser.
///
/// # Errors
/// When the store could not tell.
pub(crate) async fn forget(session: &Session) -> Result<(), Failure> {
    session.flush().await.map_err(unavailable)
}

fn expiry(app: &App, seconds: u64) -> Expiry {
    Expiry::AtDateTime(app.seams.clock.now() + crate::config::seconds(seconds))
}

fn unavailable(error: tower_sessions::session::Error) -> Failure {
    tracing::error!(%error, "a browser's session could not be read or written");
    Failure::unavailable()
}

/// One of our cookies that a request carries.
pub(crate) fn cookie<'h>(headers: &'h HeaderMap, app: &App, name: &str) -> Option<&'h str> {
    let name = cookie_name(app, name);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
    lines.flat_map(|line| line.split("; ")).filter_map(|pair| pair.split_once('=')).find(|(n, _)| *n == name).map(|(_, value)| value)
}

/// One of our cookies, to be set for a year.
pub(crate) fn set_cookie(app: &App, name: &str, value: &str) -> Option<HeaderValue> {
    let secure = if is_https(app) { "; Secure" } else { "" };
    let name = cookie_name(app, name);
    HeaderValue::from_str(&format!("{name}={value}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax{secure}")).ok()
}

/// A cookie's name: with `__Host-` a browser takes it only from this very host, over TLS (RFC 6265bis, 4.1.3.2).
pub(crate) fn cookie_name(app: &App, name: &str) -> String {
    if is_https(app) { format!("__Host-{name}") } else { name.to_owned() }
}

pub(crate) fn is_https(app: &App) -> bool {
    app.config.issuer.scheme() == "https"
}

/// The moment at which a stored second lies; the epoch where it lies outside of time's range.
pub(crate) fn moment(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The page for someone whose sign-in can not go on.
pub(crate) fn sign_in_gone() -> ErrorPage {
    ErrorPage {
        title: "This sign-in is over".to_owned(),
        what: "It was finished already, took too long, or was begun in another browser.".to_owned(),
        todo: "Go back to the application and sign in from there.".to_owned(),
        next: Some(super::pages::Link { name: "My account".to_owned(), href: "/account".to_owned() }),
        reference: None,
    }
}
