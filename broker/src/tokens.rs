//! The tokens: what they say, who signs them, how they are told from forgeries.
//!
//! It owns keys, signing and verifying. Whether what a genuine token says is still so (tenant, session, revocation) is
//! [`standing`](crate::standing)'s business.

mod claims;
mod following;
mod keys;
mod ring;
mod rotation;
mod signing;
#[cfg(test)]
mod tests;
mod verifying;

pub use claims::{AccessClaims, Audience, IdClaims, LogoutClaims, LogoutEvents, Profile};
pub use keys::KeyError;
pub use ring::{KeyRing, RingParts};
pub use signing::{MintError, TokenType};
pub use verifying::{Forged, Unverified, UnverifiedToken, Verifier};
