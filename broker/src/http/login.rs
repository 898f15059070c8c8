//! `/login`: choose a way to sign in, or find it, and the form of the one that was chosen. Its submission is `http/password.rs`;
//! the way to an upstream's own pages and back is `http/callback.rs`.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use tower_sessions::Session;

use super::{
    authorize::see_other,
    browser::begin as begin_sign_in,
    callback::sent,
    caller::Peer,
    entering::{Entrance, other_ways},
    instead::{Instead, shown},
    pages::{Choose, Link, Onward, POLICY, render},
    parameters::{Form, Parameters, Query},
    password::{Filled, page},
    way::{begun, client_name, limits, look, no_way, posted, remembered, way},
};
use crate::{
    App,
    login::{Attempt, Known, Wanted},
    tenancy::Wired,
};

/// `GET /login`: the ways there are; straight to the one where there is only one.
pub(crate) async fn choose(
    State(app): State<Arc<App>>,
    session: Session,
    peer: Peer,
    headers: HeaderMap,
    Query(parameters): Query,
) -> Response {
    shown(&app, choose_way(&app, &session, (&peer, &headers), &parameters).await)
}

async fn choose_way(
    app: &App,
    session: &Session,
    (peer, headers): (&Peer, &HeaderMap),
    parameters: &Parameters,
) -> Result<Response, Instead> {
    let now = app.seams.clock.now();
    if parameters.one("attempt")?.is_none() {
        let id = begin_sign_in(app, session, peer.address, (None, wanted(parameters)?), now).await?;
        return Ok(see_other(&format!("/login?attempt={id}")));
    }
    let (id, attempt) = begun(app, session, parameters, now).await?;
    let known = Known { remembered: remembered(app, headers), others: parameters.one("others")?.is_some() };
    let offer = app.ways.offer(&attempt, limits(app, &attempt), known);
    if let Some(only) = offer.only() {
        return Ok(see_other(&address(only, &id)));
    }
    if offer.ways.is_empty() && !offer.find {
        return Err(no_way());
    }
    let typed = attempt.typed.clone().filter(|_| offer.unknown);
    let page = Choose {
        client: client_name(app, &attempt),
        tenant: None,
        ways: offer.ways.iter().map(|way| Link { name: way.display_name.clone(), href: address(way, &id) }).collect(),
        find: offer.find,
        typed: typed.or_else(|| attempt.wanted.login_hint.clone()).unwrap_or_default(),
        unknown: offer.unknown,
        csrf: attempt.csrf.clone(),
        attempt: id,
    };
    Ok(render(look(app, &attempt), if offer.unknown { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }, &page, POLICY))
}

/// What the account page's own address says of the sign-in.
fn wanted(parameters: &Parameters) -> Result<Wanted, Instead> {
    let bounded = |name| parameters.one(name).map(|text| text.filter(|text| text.len() <= 255).map(str::to_owned));
    let select = parameters.one("prompt")?.is_some_and(|prompt| prompt.split(' ').any(|p| p == "select_account"));
    Ok(Wanted { tenant: bounded("tenant")?, login_hint: bounded("login_hint")?, anew: select, select, max_age: None })
}

/// `POST /login`: someone says who they are, or where they belong, to find their way.
pub(crate) async fn find(State(app): State<Arc<App>>, session: Session, Form(parameters): Form) -> Response {
    shown(&app, find_way(&app, &session, &parameters).await)
}

async fn find_way(app: &App, session: &Session, parameters: &Parameters) -> Result<Response, Instead> {
    let now = app.seams.clock.now();
    let (id, attempt) = posted(app, session, parameters, now).await?;
    let typed = parameters.one("identifier")?.unwrap_or_default().trim();
    if typed.is_empty() || typed.len() > 255 {
        return Ok(see_other(&other_ways(&id)));
    }
    let attempt = app.attempts.keep_typed(&id, attempt, typed, now).await?;
    match app.ways.offer(&attempt, limits(app, &attempt), Known::default()).only() {
        // A form's answer may not redirect to another site, and an upstream may send the browser on through others still: its
        // pages are opened by a navigation of their own.
        Some(way) if way.password.is_none() => Ok(render(
            look(app, &attempt),
            StatusCode::OK,
            &Onward { to: Link { name: way.display_name.clone(), href: address(way, &id) } },
            POLICY,
        )),
        Some(way) => Ok(see_other(&address(way, &id))),
        None => Ok(see_other(&format!("/login?attempt={id}"))),
    }
}

/// `GET /login/{connector}`: its form, or on to the upstream's own pages.
pub(crate) async fn begin(
    State(app): State<Arc<App>>,
    session: Session,
    Path(connector): Path<String>,
    peer: Peer,
    Query(parameters): Query,
) -> Response {
    shown(&app, begin_way(&app, &session, &connector, &peer, &parameters).await)
}

async fn begin_way(app: &App, session: &Session, connector: &str, peer: &Peer, parameters: &Parameters) -> Result<Response, Instead> {
    let (id, attempt) = begun(app, session, parameters, app.seams.clock.now()).await?;
    let way = way(app, &attempt, connector)?;
    if way.password.is_some() {
        return Ok(form(app, way, &id, &attempt));
    }
    sent(&Entrance { app, session, peer, way, id: &id, attempt: &attempt }, parameters).await
}

fn form(app: &App, way: &Wired, id: &str, attempt: &Attempt) -> Response {
    // What someone typed to find their way, and that names no person, is where they belong.
    let domain = attempt.typed.as_deref().filter(|typed| !typed.contains('@')).unwrap_or_default();
    page(app, way, (id, attempt), &Filled { name: attempt.hint().unwrap_or_default(), domain, project: "" }, None)
}

fn address(way: &Wired, attempt: &str) -> String {
    format!("/login/{}?attempt={attempt}", way.id)
}
