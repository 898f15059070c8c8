//! What people see: one struct for each page, its fields the data, its template in `templates/`.
//!
//! Nothing here decides anything. Handlers fill a struct and give it to [`render`]. Every page works without script and
//! without any resource from elsewhere, but for [`Demo`], which is a script.

use std::{any::Any, sync::Arc};

use askama::Template;
use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};
use url::{Host, Url};

use crate::branding::Look;

/// Content-Security-Policy of a page whose forms stay on this server ([`Account`], [`SignedOut`], [`ErrorPage`], [`Choose`]).
pub(crate) const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Content-Security-Policy of [`Demo`].
pub(crate) const DEMO_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// Content-Security-Policy of [`Password`], [`Credential`] and [`SignOut`], whose form may be answered by a redirect to `redirect_uri`: browsers hold
/// `form-action` against each step of the way. Where the address has no host that a policy can name, its scheme stands.
pub(crate) fn sign_in_policy(redirect_uri: Option<&Url>) -> String {
    let back = match redirect_uri {
        None => String::new(),
        Some(uri) => match uri.host() {
            Some(Host::Domain(_) | Host::Ipv4(_)) if uri.origin().is_tuple() => format!(" {}", uri.origin().ascii_serialization()),
            _ => format!(" {}:", uri.scheme()),
        },
    };
    POLICY.replace("form-action 'self'", &format!("form-action 'self'{back}"))
}

/// A page as an answer, never stored, with the headers that every page has. A `policy` that is no header value, and a
/// template that fails, give 500.
pub(crate) fn render(look: Arc<Look>, status: StatusCode, page: &impl Template, policy: &str) -> Response {
    let look: &dyn Any = &*look;
    let (Ok(policy), Ok(body)) = (HeaderValue::from_str(policy), page.render_with_values(&("look", look))) else {
        tracing::error!("a page could not be made");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let headers: [(HeaderName, HeaderValue); 6] = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    ];
    (status, headers, body).into_response()
}

/// The first letter or digit of a name, in upper case, for the badge beside it.
pub(crate) fn initial(name: &str) -> String {
    name.chars().find(|c| c.is_alphanumeric()).map_or_else(|| "·".to_owned(), |c| c.to_uppercase().collect())
}

/// Somewhere to go: a way to sign in, a next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// What people read.
    pub(crate) name: String,
    /// Where it leads.
    pub(crate) href: String,
}

/// More than one way to sign in, or none that can be told yet.
#[derive(Debug, Template)]
#[template(path = "choose.html")]
pub(crate) struct Choose {
    /// The application's name.
    pub(crate) client: Option<String>,
    /// The tenant's name, where the request named one.
    pub(crate) tenant: Option<String>,
    /// The connectors, by their display names.
    pub(crate) ways: Vec<Link>,
    /// Whether a form asks for an address or an organisation, for there are other ways. It posts `attempt`, `csrf`, `identifier`.
    pub(crate) find: bool,
    /// What stands in it.
    pub(crate) typed: String,
    /// Whether that led nowhere.
    pub(crate) unknown: bool,
    /// The token that ties the form to this browser.
    pub(crate) csrf: String,
    /// The sign-in that it belongs to.
    pub(crate) attempt: String,
}

/// On to an upstream's own pages, at once.
#[derive(Debug, Template)]
#[template(path = "onward.html")]
pub(crate) struct Onward {
    /// The connector.
    pub(crate) to: Link,
}

/// User name and password. The form posts `attempt`, `csrf`, `username`, `password`; where they are asked for, `domain` and
/// `project`.
#[derive(Template)]
#[template(path = "password.html")]
pub(crate) struct Password {
    /// The connector's display name.
    pub(crate) connector: String,
    /// The application's name.
    pub(crate) client: Option<String>,
    /// The tenant's name, where it is known.
    pub(crate) tenant: Option<String>,
    /// Whether the tenant of the sign-in is fixed already; else a hint says how to name it.
    pub(crate) tenant_known: bool,
    /// Where the form posts to.
    pub(crate) action: String,
    /// The token that ties the form to this browser.
    pub(crate) csrf: String,
    /// The sign-in that it belongs to.
    pub(crate) attempt: String,
    /// The user name as typed before, or as the application's `login_hint` gave it; else empty.
    pub(crate) name: String,
    /// Likewise the domain; `None` where it is not asked for.
    pub(crate) domain: Option<String>,
    /// Likewise the project.
    pub(crate) project: Option<String>,
    /// Why the last try failed.
    pub(crate) error: Option<PasswordError>,
    /// Where to sign in with a credential made for a program, if that can be.
    pub(crate) credential: Option<String>,
    /// Where to choose another way, if there is one.
    pub(crate) other_ways: Option<String>,
}

/// Why a try with a password, or a secret, failed, as far as people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PasswordError {
    /// Something was not given.
    Incomplete,
    /// They do not fit, for whatever reason.
    Wrong,
    /// Too many failures.
    Throttled {
        /// Until another try is heard.
        seconds: u64,
    },
    /// They could not be checked.
    Unavailable {
        /// Names the incident in the log.
        reference: String,
    },
}

impl PasswordError {
    /// Whether what was typed is at fault, and not the moment.
    const fn is_of_what_was_typed(&self) -> bool {
        matches!(self, Self::Incomplete | Self::Wrong)
    }
}

impl Password {
    fn mistyped(&self) -> bool {
        self.error.as_ref().is_some_and(PasswordError::is_of_what_was_typed)
    }

    /// Whether a hint beside the user name says how to name the organisation.
    const fn has_name_hint(&self) -> bool {
        !self.tenant_known && self.domain.is_none()
    }

    /// The ids of the texts that describe the user name's field.
    const fn name_described_by(&self) -> &'static str {
        match (self.error.is_some(), self.has_name_hint()) {
            (true, false) => "error",
            (true, true) => "error username-hint",
            (false, false) => "",
            (false, true) => "username-hint",
        }
    }

    /// The name of the field that has the focus: the first one that is still to be filled in.
    fn focus(&self) -> &'static str {
        // `name@domain` needs no domain besides.
        if self.domain.as_ref().is_some_and(String::is_empty) && !self.name.contains('@') {
            "domain"
        } else if self.name.is_empty() {
            "username"
        } else {
            "password"
        }
    }

    fn names_project(&self) -> bool {
        self.project.as_ref().is_some_and(|project| !project.is_empty())
    }

    /// What may be wrong about a try. It is not said, for it is not known, which of them is.
    fn what_may_be_wrong(&self) -> &'static str {
        match (self.domain.is_some(), self.names_project()) {
            (false, false) => "The user name or the password is wrong. Check both and try again.",
            (true, false) => "The domain, the user name or the password is wrong. Check them and try again.",
            (false, true) => "The user name, the password or the project is wrong. Check them and try again.",
            (true, true) => "The domain, the user name, the password or the project is wrong. Check them and try again.",
        }
    }
}

/// The id and the secret of a credential made for a program. The form posts `attempt`, `csrf`, `credential_id`,
/// `credential_secret`.
#[derive(Template)]
#[template(path = "credential.html")]
pub(crate) struct Credential {
    /// The connector's display name.
    pub(crate) connector: String,
    /// The application's name.
    pub(crate) client: Option<String>,
    /// The tenant's name, where it is known.
    pub(crate) tenant: Option<String>,
    /// Where the form posts to.
    pub(crate) action: String,
    /// The token that ties the form to this browser.
    pub(crate) csrf: String,
    /// The sign-in that it belongs to.
    pub(crate) attempt: String,
    /// The id as typed before; else empty.
    pub(crate) id: String,
    /// Why the last try failed.
    pub(crate) error: Option<PasswordError>,
    /// Where the form for name and password is.
    pub(crate) password: String,
}

impl Credential {
    fn mistyped(&self) -> bool {
        self.error.as_ref().is_some_and(PasswordError::is_of_what_was_typed)
    }
}

/// Who is signed in. The form posts `csrf`.
#[derive(Template)]
#[template(path = "account.html")]
pub(crate) struct Account {
    /// The person's name for people; the user name where there is no other.
    pub(crate) display_name: String,
    /// The user name.
    pub(crate) username: String,
    /// The tenant's name.
    pub(crate) tenant: String,
    /// The mail address, if known.
    pub(crate) email: Option<String>,
    /// The groups.
    pub(crate) groups: Vec<String>,
    /// The roles.
    pub(crate) roles: Vec<String>,
    /// When the sign-in was.
    pub(crate) since: OffsetDateTime,
    /// The connector's display name.
    pub(crate) connector: String,
    /// Where the sign-out form posts to.
    pub(crate) sign_out: String,
    /// The token that ties the form to this browser.
    pub(crate) csrf: String,
}

impl Account {
    fn since_machine(&self) -> String {
        self.since.format(&Rfc3339).unwrap_or_default()
    }
    fn since_text(&self) -> String {
        let format = format_description!("[day padding:none] [month repr:long] [year], [hour]:[minute]");
        self.since.to_utc().format(format).map_or_else(|_| self.since_machine(), |text| format!("{text} UTC"))
    }
}

/// Whether to sign out, after an application sent a person here. The form posts `csrf` and what the application sent.
#[derive(Template)]
#[template(path = "sign_out.html")]
pub(crate) struct SignOut {
    /// The application's name, where it said which it is.
    pub(crate) client: Option<String>,
    /// The person's name, where they are still admitted.
    pub(crate) person: Option<String>,
    /// The token that ties the form to this browser's session.
    pub(crate) csrf: String,
    /// What the application sent, by name.
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// After the sign-out.
#[derive(Debug, Template)]
#[template(path = "signed_out.html")]
pub(crate) struct SignedOut {
    /// Where to sign in again.
    pub(crate) sign_in: String,
}

/// What went wrong, and what to do about it.
#[derive(Debug, Template)]
#[template(path = "error.html")]
pub(crate) struct ErrorPage {
    /// The heading.
    pub(crate) title: String,
    /// What happened, in a sentence.
    pub(crate) what: String,
    /// What the person can do, in a sentence.
    pub(crate) todo: String,
    /// The way on, if there is one.
    pub(crate) next: Option<Link>,
    /// Names the incident in the log.
    pub(crate) reference: Option<String>,
}

/// The walk for newcomers, served at `/demo` and at `/demo/callback`, in demo mode only: it shows passwords. Its script is
/// the public client `demo`, with the redirect URI `<issuer>/demo/callback`.
#[derive(Template)]
#[template(path = "demo.html")]
pub(crate) struct Demo {
    /// The tenants, at least two.
    pub(crate) tenants: Vec<DemoTenant>,
}

/// A tenant of the demo.
pub(crate) struct DemoTenant {
    /// Its id, as paths carry it.
    pub(crate) id: String,
    /// Its label, as `name@label` carries it.
    pub(crate) label: String,
    /// Its name.
    pub(crate) name: String,
    /// Its people.
    pub(crate) people: Vec<DemoPerson>,
}

/// A person of the demo.
pub(crate) struct DemoPerson {
    /// The user name, without the tenant.
    pub(crate) username: String,
    /// The password, for all to see.
    pub(crate) password: String,
    /// The name.
    pub(crate) display_name: String,
}

#[cfg(test)]
mod tests;
