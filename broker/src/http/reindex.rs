//! `POST /v1/directory:reindex` on the admin listener: lists the directories and streams how it goes, one JSON object a line, for
//! `denizen directory reindex` beside a server that holds the store. An empty line says that it still goes on.
//!
//! No page may ask: the body must be `application/json`, which a page of another site can not send without being asked first, and what a browser
//! says of a page (`Origin`, `Sec-Fetch-Site`) is refused, for a name of the page's own site may be made to lead here (DNS rebinding).

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{State, rejection::JsonRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use tokio::{
    sync::mpsc::{Receiver, channel},
    time::timeout,
};

use super::failure::Failure;
use crate::{
    App,
    directory::{ReindexError, Told, Wanted},
};

/// After so long without a line there is an empty one.
const STILL_THERE: Duration = Duration::from_secs(10);

pub(crate) async fn reindex(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Result<Json<Wanted>, JsonRejection>,
) -> Result<Response, Failure> {
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        return Err(Failure::new(StatusCode::FORBIDDEN, "invalid_request", "this is for programs, and a browser sent it"));
    }
    let what = "the body must be `{}`, or name a `tenant`, a `connector` or both, as application/json";
    let Json(wanted) = body.map_err(|_| Failure::bad_request(what))?;
    let plan = app.reindex.plan(&wanted).map_err(|error| {
        let status = match error {
            ReindexError::NoTenant | ReindexError::NoConnector => StatusCode::NOT_FOUND,
            ReindexError::UnderWay => StatusCode::CONFLICT,
        };
        Failure::new(status, "invalid_request", error.to_string())
    })?;
    let (tell, told) = channel(64);
    tokio::spawn(plan.run(app.seams.clock.now(), tell));
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(stream::unfold(told, line))).into_response())
}

/// The next line; `None` at the end.
async fn line(mut told: Receiver<Told>) -> Option<(Result<Bytes, serde_json::Error>, Receiver<Told>)> {
    let line = match timeout(STILL_THERE, told.recv()).await {
        Err(_) => Ok(Vec::new()),
        Ok(told) => serde_json::to_vec(&told?),
    };
    let ended = line.map(|mut line| {
        line.push(b'\n');
        Bytes::from(line)
    });
    Some((ended, told))
}
