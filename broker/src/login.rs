//! Browser sign-in as a state machine: an [`Attempt`] is begun for an application's request (or for the account page),
//! someone proves who they are, the attempt is consumed, and a [`Session`] stands.
//!
//! It owns attempts, sessions and how they end, the slowing of guesses, what a browser is bound to while it is at an upstream's
//! own pages, what goes on there later, and which ways to sign in there are for whom. What an application then gets, grants decides.

mod attempt;
mod browser;
mod credential;
mod ending;
mod guessing;
mod handshake;
mod password;
mod redirect;
mod session;
mod turns;
mod upstream_grant;
mod upstream_logout;
mod way;

use claims_mapping::{ConnectorId, Identity, MappedUser, Subject, UpstreamUser};
use connectors::UpstreamSession;
use time::OffsetDateTime;

pub use attempt::{Attempt, AttemptError, Attempts, AuthorizeRequest, Wanted};
pub use browser::BrowserStore;
pub use credential::{CredentialSignIn, TypedCredential};
pub use ending::Ending;
pub(crate) use ending::client_record;
pub use guessing::{Guesser, Guessing, canonical};
pub use handshake::{Handshakes, Sent};
pub use password::{PasswordSignIn, SignInError, Typed};
pub use redirect::{RedirectError, RedirectSignIn};
pub use session::{Session, SessionError, SessionParts, Sessions, SignedIn};
pub use upstream_grant::UpstreamGrants;
pub use upstream_logout::{UpstreamLogoutError, UpstreamLogouts};
pub use way::{Known, Limits, Offer, Ways, listed_by_default};

/// Someone who was proven and admitted.
#[derive(Debug)]
pub struct Admitted {
    /// Who.
    pub identity: Identity,
    /// What the mapping gave, to be judged anew at each use.
    pub mapped: MappedUser,
    /// What the upstream said.
    pub user: UpstreamUser,
    /// What goes on at the upstream, where they proved it at its own pages, or where it left something to ask again with.
    pub upstream: Option<AtUpstream>,
}

/// Someone who was proven and admitted, about to go in.
#[derive(Debug)]
pub struct Entering<'a> {
    /// Who.
    pub identity: &'a Identity,
    /// What the mapping gave, to be judged anew at each use.
    pub mapped: MappedUser,
    /// What goes on at the upstream: [`Admitted::upstream`].
    pub upstream: Option<AtUpstream>,
}

/// What goes on at an upstream of someone who proved there who they are.
#[derive(Debug, Clone)]
pub struct AtUpstream {
    /// The connector that they came through; not the identity's own where it is joined to a directory.
    pub connector: ConnectorId,
    /// As whom.
    pub subject: Subject,
    /// When they proved it there, in seconds since 1970, where the upstream says so.
    pub auth_time: Option<i64>,
    /// The session there, and what it can be asked again with.
    pub session: UpstreamSession,
}

/// Someone who was proven and admitted goes in: the attempt is used up, and a session stands. Of two that finish one attempt
/// at once, one goes in.
///
/// # Errors
/// [`AttemptError::Gone`] where the attempt was used already; else when the store could not tell.
pub async fn enter(
    (attempts, attempt): (&Attempts, &str),
    sessions: &Sessions,
    entering: Entering<'_>,
    before: Option<&SignedIn>,
    now: OffsetDateTime,
) -> Result<SignedIn, AttemptError> {
    attempts.consume(attempt, now).await?;
    let upstream = entering.upstream.clone();
    let signed_in = sessions.begin(entering, before, now).await?;
    if let Some(upstream) = upstream
        && let Err(error) = upstream_logout::remember(sessions, &upstream, &signed_in, now).await
    {
        // A session that the upstream could not end does not stay.
        drop(sessions.end(&signed_in, now).await);
        return Err(error.into());
    }
    Ok(signed_in)
}

/// Where a session stands in the store.
pub(crate) fn session_key(signed_in: &SignedIn) -> crate::store::Key {
    session::key(&signed_in.tenant, signed_in.sid)
}
