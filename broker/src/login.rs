//! Browser sign-in as a state machine: an [`Attempt`] is begun for an application's request (or for the account page),
//! someone proves who they are, the attempt is consumed, and a [`Session`] stands.
//!
//! It owns attempts, sessions and the slowing of guesses. What an application then gets, grants decides.

mod attempt;
mod browser;
mod guessing;
mod password;
mod session;

pub use attempt::{Attempt, AttemptError, Attempts, AuthorizeRequest};
pub use browser::BrowserStore;
pub use guessing::{Guesser, Guessing, canonical};
pub use password::{PasswordSignIn, SignInError, Typed};
pub use session::{Session, SessionError, Sessions, SignedIn};

/// Where a session stands in the store.
pub(crate) fn session_key(signed_in: &SignedIn) -> crate::store::Key {
    session::key(&signed_in.tenant, signed_in.sid)
}
