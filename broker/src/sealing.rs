//! Seals what the store keeps and we must be able to read again: signing keys, refresh tokens of upstreams. AES-256-GCM under keys
//! that lie in a file beside the configuration, so that a stolen store alone is worth nothing, or else under one in the store.
//!
//! It owns the keys and the sealed form. What is sealed, and what it is bound to, whoever keeps it says; `sealing/kept.rs` keeps
//! short secrets of our own.

pub(crate) mod kept;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::{
    seams::Entropy,
    store::{Key, Kind, Store, StoreError},
};

/// The bytes of a key.
pub type KeyBytes = Zeroizing<[u8; 32]>;

/// There is no key to seal with, or something could not be sealed or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealingError {
    /// `store.sealingKeyFile` can not be read.
    #[error("store.sealingKeyFile: {} can not be read: {source}; the user that Denizen runs as must be able to read it", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A line of it is no key, or it has none.
    #[error(
        "store.sealingKeyFile: {}: a sealing key is 32 bytes, as base64 or as 64 hexadecimal digits, one a line; `openssl rand -base64 32` makes one",
        .0.display()
    )]
    NoKey(PathBuf),
    /// What the store keeps there is no secret of ours.
    #[error("the store's {0} is damaged: restore the store from a copy")]
    Damaged(String),
    /// It was sealed with a key that is not at hand.
    #[error("{what} {}", what_to_do(.file.as_deref()))]
    Locked {
        /// What was sealed.
        what: String,
        /// `store.sealingKeyFile`, where there is one.
        file: Option<PathBuf>,
    },
    /// It lies in the clear where everything of ours is sealed.
    #[error(
        "{0} lies in the clear in Redis, where all keys are sealed: whoever can write there may have put it there. Where you brought it there \
         yourself, run `denizen store seal` once; else delete it, and look who can write to Redis"
    )]
    InTheClear(String),
    /// The cipher refused: more than it can take.
    #[error("it could not be sealed")]
    Refused,
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What becomes of a key of ours that lies in the clear, where a file has the key that should seal it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheClear {
    /// It is from before the file: it is believed, and sealed.
    Sealed,
    /// Others can write to the store, and may have planted it.
    Refused,
}

/// Seals and opens.
#[derive(Clone)]
pub struct Sealing {
    /// The first seals, all open what upstreams gave.
    keys: Arc<[LessSafeKey]>,
    /// So many of them, from the first on, open keys of ours. The store's own, which may have lain in the clear, does not.
    trusted: usize,
    in_the_clear: InTheClear,
    /// Where the first one lies, if not in the store.
    file: Option<Arc<Path>>,
    entropy: Arc<dyn Entropy>,
}

/// What was opened.
pub(crate) struct Unsealed {
    pub(crate) text: Zeroizing<Vec<u8>>,
    /// Whether the key that seals now had sealed it; else it wants to be sealed anew.
    pub(crate) is_by_first: bool,
}

impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealing").field("keys", &self.keys.len()).field("file", &self.file).finish_non_exhaustive()
    }
}

impl Sealing {
    /// With the keys of the file, or else with the store's own, which is made at the first start. Where there is a file and the store
    /// has a key from before, that one opens what upstreams gave; it is sealed itself from then on.
    ///
    /// # Errors
    /// When there is no key to be had, or the store's own lies in the clear where that is refused.
    pub async fn open(
        store: &dyn Store,
        entropy: Arc<dyn Entropy>,
        (file, in_the_clear): (Option<&Path>, InTheClear),
        now: OffsetDateTime,
    ) -> Result<Self, SealingError> {
        let own = Key::system(Kind::SealingKey, "upstreams");
        let Some(path) = file else {
            let key = kept::made_once(store, &own, None, &*entropy, now).await?;
            return Self::of(&[key], None, entropy);
        };
        let read = std::fs::read_to_string(path).map(Zeroizing::new);
        let text = read.map_err(|source| SealingError::File { path: path.to_owned(), source })?;
        let mut keys = keys_of(&text).ok_or_else(|| SealingError::NoKey(path.to_owned()))?;
        let sealing = Self { in_the_clear, ..Self::of(&keys, Some(path.into()), Arc::clone(&entropy))? };
        let Some(older) = kept::found(store, &own, Some(&sealing), now).await? else { return Ok(sealing) };
        let trusted = keys.len();
        keys.push(older);
        Ok(Self { in_the_clear, trusted, ..Self::of(&keys, Some(path.into()), entropy)? })
    }

    /// With this key, which lies in the store.
    ///
    /// # Errors
    /// None that this cipher knows.
    pub fn with(key: &KeyBytes, entropy: Arc<dyn Entropy>) -> Result<Self, SealingError> {
        Self::of(std::slice::from_ref(key), None, entropy)
    }

    fn of(keys: &[KeyBytes], file: Option<Arc<Path>>, entropy: Arc<dyn Entropy>) -> Result<Self, SealingError> {
        let key = |key: &KeyBytes| UnboundKey::new(&AES_256_GCM, &key[..]).map(LessSafeKey::new).map_err(|_| SealingError::Refused);
        let in_the_clear = InTheClear::Sealed;
        Ok(Self { keys: keys.iter().map(key).collect::<Result<_, _>>()?, trusted: keys.len(), in_the_clear, file, entropy })
    }

    /// Whether it seals with a key that is not in the store. Only then is it worth sealing what lies beside such a key otherwise.
    #[must_use]
    pub const fn lies_outside(&self) -> bool {
        self.file.is_some()
    }

    /// Whether a key of ours that lies in the clear, and should not, may be believed.
    pub(crate) fn believes_in_the_clear(&self, what: impl FnOnce() -> String) -> Result<(), SealingError> {
        let is_refused = self.lies_outside() && self.in_the_clear == InTheClear::Refused;
        if is_refused { Err(SealingError::InTheClear(what())) } else { Ok(()) }
    }

    /// Seals a text, bound to where it is kept: who opens it must name the same parts. The nonces are random, so that one key
    /// is good for 2^32 texts (NIST SP 800-38D, 8.3), over all replicas that have it.
    ///
    /// # Errors
    /// When the cipher refuses.
    pub fn seal(&self, text: &[u8], bound_to: &[&str]) -> Result<String, SealingError> {
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce);
        let mut sealed = text.to_vec();
        let binding = Aad::from(binding(bound_to));
        let first = self.keys.first().ok_or(SealingError::Refused)?;
        first.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), binding, &mut sealed).map_err(|_| SealingError::Refused)?;
        Ok(URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// Opens what was sealed; `None` where it was sealed with a key that is not at hand, bound to something else, or touched.
    #[must_use]
    pub fn unseal(&self, sealed: &str, bound_to: &[&str]) -> Option<Zeroizing<Vec<u8>>> {
        Self::tried(&self.keys, sealed, bound_to).map(|unsealed| unsealed.text)
    }

    /// Opens a key of ours; `what` names it for whoever reads the error.
    pub(crate) fn unlock(&self, sealed: &str, bound_to: &[&str], what: impl FnOnce() -> String) -> Result<Unsealed, SealingError> {
        let locked = || SealingError::Locked { what: what(), file: self.file.as_deref().map(Path::to_owned) };
        Self::tried(self.keys.get(..self.trusted).unwrap_or_default(), sealed, bound_to).ok_or_else(locked)
    }

    /// Each key in turn: the sealed form names none, as it did not when there was only one.
    fn tried(keys: &[LessSafeKey], sealed: &str, bound_to: &[&str]) -> Option<Unsealed> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let bound = binding(bound_to);
        keys.iter().enumerate().find_map(|(index, key)| {
            let mut text = Zeroizing::new(sealed.to_vec());
            let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(&bound), &mut text);
            let length = opened.ok()?.len();
            text.truncate(length);
            Some(Unsealed { text, is_by_first: index == 0 })
        })
    }
}

fn what_to_do(file: Option<&Path>) -> String {
    match file {
        Some(path) => format!(
            "was sealed with a key that is not in store.sealingKeyFile ({}), or was changed since: add the key that sealed it to the file, as its last line",
            path.display()
        ),
        None => "is sealed, and no store.sealingKeyFile is configured: name the file that has the key which sealed it".to_owned(),
    }
}

/// The keys of a file: one a line, empty lines apart; `None` where there is none, or a line is no key.
#[must_use]
pub fn keys_of(text: &str) -> Option<Vec<KeyBytes>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(key_of).collect::<Option<Vec<_>>>().filter(|keys| !keys.is_empty())
}

/// A key as a line has it: 32 bytes as base64, in either alphabet, or as hexadecimal digits; blanks around it do not matter.
fn key_of(text: &str) -> Option<KeyBytes> {
    let text = text.trim();
    let bytes = match text.len() {
        64 => Zeroizing::new((0..32).map(|n| u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()).collect::<Option<Vec<_>>>()?),
        _ => {
            Zeroizing::new([&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD].into_iter().find_map(|form| form.decode(text).ok())?)
        }
    };
    Some(Zeroizing::new(<[u8; 32]>::try_from(bytes.as_slice()).ok()?))
}

/// The parts, each with its length before it, so that no two lists are the same bytes.
fn binding(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}
