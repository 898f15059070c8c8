//! A page instead of what a browser asked for.

use axum::{http::StatusCode, response::Response};

use super::{
    browser::sign_in_gone,
    failure::Failure,
    pages::{ErrorPage, Link, POLICY, render},
};
use crate::{
    App,
    login::{AttemptError, SessionError},
};

/// A page instead of what was asked for.
pub(crate) struct Instead {
    status: StatusCode,
    page: Box<ErrorPage>,
}

impl Instead {
    /// This page.
    pub(crate) fn page(status: StatusCode, page: ErrorPage) -> Self {
        Self { status, page: Box::new(page) }
    }
}

impl From<Failure> for Instead {
    fn from(failure: Failure) -> Self {
        let (title, todo) = match failure.status {
            StatusCode::SERVICE_UNAVAILABLE => ("Not available just now", "Wait a moment and try again."),
            StatusCode::NOT_FOUND => ("There is nothing here", "Check the address, or go to your account."),
            StatusCode::TOO_MANY_REQUESTS => ("Too much at once", "Wait a moment and try again."),
            _ => ("This can not be used", "Go back to the application and sign in from there."),
        };
        let what = format!("What was asked for can not be given: {}.", failure.description);
        let account = Link { name: "My account".to_owned(), href: "/account".to_owned() };
        let next = (failure.status == StatusCode::NOT_FOUND).then_some(account);
        let page = ErrorPage { title: title.to_owned(), what, todo: todo.to_owned(), next, reference: None };
        Self::page(failure.status, page)
    }
}

impl From<AttemptError> for Instead {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::Gone => Self::page(StatusCode::BAD_REQUEST, sign_in_gone()),
            AttemptError::Slowed => {
                Failure::new(StatusCode::TOO_MANY_REQUESTS, "slow_down", "too many sign-ins are begun from this address").into()
            }
            AttemptError::Store(_) => Failure::unavailable().into(),
        }
    }
}

impl From<SessionError> for Instead {
    fn from(error: SessionError) -> Self {
        Failure::from(error).into()
    }
}

/// The page that was asked for, or the one instead of it.
pub(crate) fn shown(app: &App, result: Result<Response, Instead>) -> Response {
    result.unwrap_or_else(|Instead { status, page }| render(app.looks.of(None), status, &*page, POLICY))
}
