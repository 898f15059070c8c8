//! What a browser's session holds, and its cookies.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tower_sessions::{Expiry, Session};

use super::{failure::Failure, pages::ErrorPage};
use crate::{
    App,
    login::{AttemptError, AuthorizeRequest, SignedIn, Wanted},
    secret_text::random_text,
    store::StoreError,
};

/// What a browser's session holds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Browser {
    /// What its sign-ins under way are bound to.
    pub(crate) binding: String,
    /// Its signed-in session.
    pub(crate) signed_in: Option<SignedIn>,
}

const ENTRY: &str = "browser";

/// Begins a sign-in of the browser behind a request, and gives its id. A newcomer is given a session that lasts as long as a
/// sign-in may take; whoever is slowed is given none, so that a flood leaves no more records than it begins sign-ins.
///
/// # Errors
/// [`AttemptError::Slowed`] where too many are begun; else when the store could not tell.
pub(crate) async fn begin(
    app: &App,
    session: &Session,
    address: IpAddr,
    (request, wanted): (Option<AuthorizeRequest>, Wanted),
    now: OffsetDateTime,
) -> Result<String, AttemptError> {
    let unknown = |error| AttemptError::Store(StoreError::Unavailable(Box::new(error)));
    if let Some(known) = session.get::<Browser>(ENTRY).await.map_err(unknown)? {
        return app.attempts.begin((&known.binding, address), request, wanted, now).await;
    }
    let newcomer = Browser { binding: random_text(&*app.seams.entropy), signed_in: None };
    let id = app.attempts.begin((&newcomer.binding, address), request, wanted, now).await?;
    session.set_expiry(Some(expiry(app, app.config.lifetimes.attempt_seconds)));
    session.insert(ENTRY, &newcomer).await.map_err(unknown)?;
    // Here, where a store that can not tell is a 503; what is saved is not written again at the end of the request.
    session.save().await.map_err(unknown)?;
    Ok(id)
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
    session.insert(ENTRY, browser).await.map_err(unavailable)?;
    session.save().await.map_err(unavailable)
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

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, sync::Arc};

    use axum::{
        Router,
        body::Body,
        extract::ConnectInfo,
        http::{Request, StatusCode},
        middleware::{from_fn_with_state, map_response},
        response::Response,
        routing::get,
    };
    use tower::ServiceExt as _;

    use crate::{
        App,
        http::layers,
        seams::{Clock, Seams, SystemEntropy},
        store::{
            Kind, Partition, Store,
            embedded::Embedded,
            stand_in::{Fate, stand_in},
        },
    };

    struct Still;

    impl Clock for Still {
        fn now(&self) -> time::OffsetDateTime {
            time::macros::datetime!(2026-11-21 08:00 UTC)
        }
    }

    async fn app(store: Arc<dyn Store>) -> Arc<App> {
        crate::cli::install_providers();
        let user = serde_json::json!({"id": "jane", "username": "jane", "password": "$argon2id$v=19$m=19456,t=2,p=1$4m5hzu/sQhUXoj/NfPrWuw$hfb2JxdCKEqFFKM+61R2d2V8pDhlVuRCNfanapLLq+w"});
        let text = serde_json::json!({
            "issuer": "http://127.0.0.1:5556", "tenants": [{"id": "acme"}],
            "connectors": [{"id": "people", "type": "file", "tenant": {"fixed": "acme"}, "users": [user]}],
        });
        let loaded = crate::config::load_text(&text.to_string(), &std::env::temp_dir(), "test.yaml").unwrap();
        let seams = Seams::alone(Arc::new(Still), Arc::new(SystemEntropy), store);
        Arc::new(crate::build(loaded, seams).await.unwrap())
    }

    async fn newcomer(doors: &Router) -> Response {
        let mut request = Request::get("/login").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 4711))));
        doors.clone().oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn what_the_sessions_layer_answers_in_a_doors_stead_is_a_503() {
        let app = app(Arc::new(Embedded::in_memory().unwrap())).await;
        let failure = || async { StatusCode::INTERNAL_SERVER_ERROR };
        let doors = Router::new()
            .route("/door", get(failure).layer(map_response(layers::answered)))
            .route("/instead", get(failure))
            .layer(from_fn_with_state(Arc::clone(&app), layers::session_not_kept));
        for (path, expected) in [("/door", StatusCode::INTERNAL_SERVER_ERROR), ("/instead", StatusCode::SERVICE_UNAVAILABLE)] {
            let response = doors.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status(), expected, "{path}");
        }
    }

    #[tokio::test]
    async fn a_browser_that_can_not_be_remembered_is_asked_to_come_again() {
        let store = stand_in();
        let doors = crate::http::public(&app(Arc::clone(&store) as _).await, None);
        store.will(Kind::Browser, Fate::Lost);
        let response = newcomer(&doors).await;
        assert_eq!((response.status(), response.headers().get("set-cookie")), (StatusCode::SERVICE_UNAVAILABLE, None));
        assert!(newcomer(&doors).await.headers().get("set-cookie").is_some());
    }

    #[tokio::test]
    async fn a_flood_of_newcomers_leaves_no_more_records_than_it_begins_sign_ins() {
        let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
        let doors = crate::http::public(&app(Arc::clone(&store)).await, None);
        let mut slowed = 0;
        for _ in 0..700 {
            let response = newcomer(&doors).await;
            if response.status() == 429 {
                slowed += 1;
                assert!(response.headers().get("set-cookie").is_none());
            } else {
                assert!(response.headers().get("set-cookie").is_some(), "{response:?}");
            }
        }
        assert_eq!(slowed, 100);
        for kind in [Kind::Browser, Kind::Attempt] {
            let page = store.list(&Partition::System, kind, None, 1_000, Clock::now(&Still)).await.unwrap();
            assert_eq!(page.entries.len(), 600, "{kind:?}");
        }
    }
}
