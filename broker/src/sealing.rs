//! Seals what the store keeps and we must be able to read again: refresh tokens of upstreams. AES-256-GCM under one key,
//! which lives in the store or, so that a stolen store alone is worth nothing, in a file beside the configuration.
//!
//! It owns the key and the sealed form. What is sealed, and what it is bound to, whoever keeps it says.

use std::{path::Path, sync::Arc};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::{
    seams::Entropy,
    store::{Batch, Expect, Key, Kind, Store, StoreError},
};

/// The bytes of a key.
pub type KeyBytes = Zeroizing<[u8; 32]>;

/// There is no key to seal with, or something could not be sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealingError {
    /// `store.sealingKeyFile` can not be read.
    #[error("store.sealingKeyFile: the file can not be read: {0}")]
    File(#[source] std::io::Error),
    /// There is no key in it, or the store's own is none.
    #[error("{0}: a sealing key is 32 bytes, as base64 or as 64 hexadecimal digits")]
    NoKey(&'static str),
    /// The cipher refused: more than it can take.
    #[error("it could not be sealed")]
    Refused,
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Seals and opens.
pub struct Sealing {
    key: LessSafeKey,
    entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealing")
    }
}

impl Sealing {
    /// With the key of the file, or else with the store's own, which is made at the first start.
    ///
    /// # Errors
    /// When there is no key to be had.
    pub async fn open(
        store: &dyn Store,
        entropy: Arc<dyn Entropy>,
        file: Option<&Path>,
        now: OffsetDateTime,
    ) -> Result<Self, SealingError> {
        let key = match file {
            Some(path) => {
                let text = Zeroizing::new(std::fs::read_to_string(path).map_err(SealingError::File)?);
                key_of(&text).ok_or(SealingError::NoKey("store.sealingKeyFile"))?
            }
            None => kept(store, &*entropy, now).await?,
        };
        Self::with(&key, entropy)
    }

    /// With this key.
    ///
    /// # Errors
    /// None that this cipher knows.
    pub fn with(key: &KeyBytes, entropy: Arc<dyn Entropy>) -> Result<Self, SealingError> {
        let key = UnboundKey::new(&AES_256_GCM, &key[..]).map_err(|_| SealingError::Refused)?;
        Ok(Self { key: LessSafeKey::new(key), entropy })
    }

    /// Seals a text, bound to where it is kept: who opens it must name the same parts. The nonces are random, so that one key
    /// is good for 2^32 texts (NIST SP 800-38D, 8.3).
    ///
    /// # Errors
    /// When the cipher refuses.
    pub fn seal(&self, text: &[u8], bound_to: &[&str]) -> Result<String, SealingError> {
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce);
        let mut sealed = text.to_vec();
        let binding = Aad::from(binding(bound_to));
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), binding, &mut sealed).map_err(|_| SealingError::Refused)?;
        Ok(URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// Opens what was sealed; `None` where it was sealed with another key, bound to something else, or touched.
    #[must_use]
    pub fn unseal(&self, sealed: &str, bound_to: &[&str]) -> Option<Zeroizing<Vec<u8>>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut text = Zeroizing::new(sealed.to_vec());
        let length = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(binding(bound_to)), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

/// A key as a file has it: 32 bytes as base64, in either alphabet, or as hexadecimal digits; blanks around it do not matter.
#[must_use]
pub fn key_of(text: &str) -> Option<KeyBytes> {
    let text = text.trim();
    let bytes = match text.len() {
        64 => Zeroizing::new((0..32).map(|n| u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()).collect::<Option<Vec<_>>>()?),
        _ => {
            Zeroizing::new([&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD].into_iter().find_map(|form| form.decode(text).ok())?)
        }
    };
    Some(Zeroizing::new(<[u8; 32]>::try_from(bytes.as_slice()).ok()?))
}

/// The store's own key; of two processes that make it at once, one wins, and both take up the winner's.
async fn kept(store: &dyn Store, entropy: &dyn Entropy, now: OffsetDateTime) -> Result<KeyBytes, SealingError> {
    let key = Key::system(Kind::SealingKey, "upstreams");
    let mut made = Zeroizing::new([0; 32]);
    entropy.fill(&mut made[..]);
    store.commit(Batch::new().expect(key.clone(), Expect::Absent).put(key.clone(), made.to_vec(), None), now).await?;
    let entry = store.get(&key, now).await?.ok_or(SealingError::NoKey("the store's own"))?;
    let value = Zeroizing::new(entry.value);
    <[u8; 32]>::try_from(value.as_slice()).map(Zeroizing::new).map_err(|_| SealingError::NoKey("the store's own"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{seams::SystemEntropy, store::embedded::Embedded};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn sealing(key: u8) -> Sealing {
        Sealing::with(&Zeroizing::new([key; 32]), Arc::new(SystemEntropy)).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_where_it_belongs_and_nowhere_else() {
        let sealing = sealing(1);
        let sealed = sealing.seal(b"refresh", &["upstream-grant", "acme", "sso", "1"]).unwrap();
        let opened = |sealing: &Sealing, to: &[&str]| sealing.unseal(&sealed, to).map(|text| text.to_vec());
        assert_eq!(opened(&sealing, &["upstream-grant", "acme", "sso", "1"]).as_deref(), Some(b"refresh".as_slice()));
        for other in [
            &["upstream-grant", "globex", "sso", "1"][..],
            &["upstream-grant", "acme", "other", "1"],
            &["upstream-grant", "acme", "sso", "2"],
            &["upstream-grant", "acmes", "so", "1"],
            &["upstream-grant", "acme", "sso"],
        ] {
            assert_eq!(opened(&sealing, other), None, "{other:?}");
        }
        assert_eq!(opened(&self::sealing(2), &["upstream-grant", "acme", "sso", "1"]), None, "another key");
        assert!(!sealed.contains("refresh"));
        assert_ne!(sealing.seal(b"refresh", &["upstream-grant", "acme", "sso", "1"]).unwrap(), sealed, "each nonce is its own");
    }

    #[test]
    fn what_was_touched_does_not_open() {
        let sealing = sealing(1);
        let sealed = sealing.seal(b"refresh", &["a"]).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(sealing.unseal(&URL_SAFE_NO_PAD.encode(bytes), &["a"]).is_none(), "byte {at}");
        }
        for text in ["", "AAAA", "no base64 !", sealed.split_at(20).0] {
            assert!(sealing.unseal(text, &["a"]).is_none());
        }
    }

    #[test]
    fn keys_of_files() {
        let key = [0xa5_u8; 32];
        let hex = "A5".repeat(32);
        for text in [hex.as_str(), &hex.to_lowercase(), &format!(" {} \n", STANDARD.encode(key)), &URL_SAFE_NO_PAD.encode(key)] {
            assert_eq!(key_of(text).map(|key| *key), Some(key), "{text}");
        }
        for text in
            ["", "short", hex.split_at(62).0, &"g".repeat(64), &STANDARD.encode([1; 31]), &STANDARD.encode([1; 33]), &"é".repeat(32)]
        {
            assert!(key_of(text).is_none(), "{text}");
        }
    }

    #[tokio::test]
    async fn the_store_keeps_its_own_key() {
        let store = Embedded::in_memory().unwrap();
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let sealed = Sealing::open(&store, Arc::clone(&entropy), None, NOW).await.unwrap().seal(b"x", &["a"]).unwrap();
        let again = Sealing::open(&store, Arc::clone(&entropy), None, NOW).await.unwrap();
        assert!(again.unseal(&sealed, &["a"]).is_some(), "the same after a restart");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let open = || Sealing::open(&store, Arc::clone(&entropy), Some(&path), NOW);
        assert!(matches!(open().await, Err(SealingError::File(_))));
        std::fs::write(&path, "not a key").unwrap();
        assert!(matches!(open().await, Err(SealingError::NoKey(_))));
        std::fs::write(&path, STANDARD.encode([7; 32])).unwrap();
        assert!(open().await.unwrap().unseal(&sealed, &["a"]).is_none(), "the file's key is another one");
    }
}
