//! By what a token that was shown is known: the text, and what of it is signed.
//!
//! A signature can be written in more than one way (RFC 4648, 3.5; and ECDSA has two for each). What an upstream said is remembered for the
//! very text. A token that was taken back is meant in every writing, so that nobody keeps another one for then.

use connectors::UnverifiedToken;

use crate::{secret_text::digest, slots::Fingerprint};

/// A token as it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::review) struct Shown {
    text: Fingerprint,
    /// Header and payload of a JWS; the text of any other token.
    signed: Fingerprint,
}

/// What is taken back.
#[derive(Debug, Clone, Copy)]
pub(in crate::review) enum TakenBack {
    /// The token, however its signature is written: the upstream has taken it for genuine, and back.
    Token(Shown),
    /// This text: the upstream knows no such token.
    Text(Shown),
}

impl Shown {
    /// Padding says nothing (base64url, RFC 4648, 3.2): with and without it, it is the same token.
    pub(super) fn of(token: UnverifiedToken<'_>) -> Self {
        let bare;
        let mut text = token.text();
        if text.contains('=') {
            bare = text.replace('=', "");
            text = &bare;
        }
        let whole = digest(text.as_bytes());
        let signed = text.rsplit_once('.').map_or(whole, |(signed, _)| digest(signed.as_bytes()));
        Self { text: whole, signed }
    }

    /// By what it may have been taken back.
    pub(super) fn forms(&self) -> impl Iterator<Item = Fingerprint> + use<> {
        let signed = Some(self.signed).filter(|signed| *signed != self.text);
        std::iter::once(self.text).chain(signed)
    }
}

impl TakenBack {
    /// One that the upstream has taken back.
    pub(in crate::review) fn token(token: UnverifiedToken<'_>) -> Self {
        Self::Token(Shown::of(token))
    }

    /// One that it does not know.
    pub(in crate::review) fn text(token: UnverifiedToken<'_>) -> Self {
        Self::Text(Shown::of(token))
    }

    pub(super) const fn form(&self) -> Fingerprint {
        match self {
            Self::Token(shown) => shown.signed,
            Self::Text(shown) => shown.text,
        }
    }

    /// The length of what is told of it, in bytes.
    pub(super) const TOLD: usize = 65;

    /// What other replicas are told: which of the two it is, and both digests.
    pub(super) fn told(&self) -> [u8; Self::TOLD] {
        let (which, Shown { text, signed }) = match self {
            Self::Token(shown) => (0, shown),
            Self::Text(shown) => (1, shown),
        };
        let mut told = [which; Self::TOLD];
        told.iter_mut().skip(1).zip(text.iter().chain(signed)).for_each(|(to, from)| *to = *from);
        told
    }

    /// What was told.
    pub(super) fn of_told(told: &[u8]) -> Option<Self> {
        let (which, digests) = told.split_first()?;
        let (text, signed) = digests.split_first_chunk()?;
        let shown = Shown { text: *text, signed: signed.try_into().ok()? };
        match which {
            0 => Some(Self::Token(shown)),
            1 => Some(Self::Text(shown)),
            _ => None,
        }
    }

    /// Whether a token is meant.
    pub(super) fn has(&self, other: &Shown) -> bool {
        other.forms().any(|form| form == self.form())
    }
}
