//! Password hashes: how one is made, which stored ones are taken, and how many are computed at once.
//!
//! Hashing is meant to be costly, so it runs on threads of its own, as many at once as there are cores: a flood of
//! sign-ins waits in line, and neither fills the memory nor stops the runtime.

use std::{
    fmt,
    sync::{Arc, LazyLock},
    thread::available_parallelism,
};

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use bcrypt::HashParts;
use tokio::sync::Semaphore;

use crate::{ConnectorError, Secret};

/// The most memory that a stored argon2 hash may ask for, in KiB (256 MiB).
const MOST_MEMORY: u32 = 256 * 1024;
/// The most passes that a stored argon2 hash may ask for.
const MOST_PASSES: u32 = 10;
/// The most lanes that a stored argon2 hash may ask for.
const MOST_LANES: u32 = 16;
/// The highest cost of a stored bcrypt hash; each step doubles the time, 14 takes about a second.
const MOST_COST: u32 = 14;

static AT_ONCE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(available_parallelism().map_or(1, Into::into))));

/// Why a password was not hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// It could never be used to sign in.
    #[error("the password is empty or blank, or holds a NUL")]
    NotAPassword,
    /// The system gave no randomness, or not enough memory.
    #[error("the hash could not be computed")]
    Failed,
}

/// A password's argon2id hash as a PHC string, for a users file: 19 MiB, 2 passes, 1 lane (the first choice of OWASP's
/// password storage cheat sheet), a random salt of 16 bytes.
///
/// # Errors
/// When the password is empty, blank or holds NUL, or there is no randomness.
pub fn hash_password(password: &Secret) -> Result<String, HashError> {
    if !password.is_plausible_password() {
        return Err(HashError::NotAPassword);
    }
    let params = Params::new(19 * 1024, 2, 1, None).map_err(|_| HashError::Failed)?;
    let hash: PasswordHash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password(password.expose().as_bytes())
        .map_err(|_| HashError::Failed)?;
    Ok(hash.to_string())
}

/// A hash that was checked when the file was loaded, so that verifying can only say yes or no.
#[derive(Clone)]
pub(super) enum StoredHash {
    Argon2(Arc<PasswordHash>),
    Bcrypt(Arc<str>),
}

impl fmt::Debug for StoredHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl StoredHash {
    /// What is wrong with a hash, in words that do not quote it.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.starts_with("$2") {
            let parts: HashParts = text.parse().map_err(|_| "it is no well-formed bcrypt hash")?;
            if !(4..=MOST_COST).contains(&parts.get_cost()) {
                return Err("its bcrypt cost is not within 4 and 14");
            }
            return Ok(Self::Bcrypt(text.into()));
        }
        if !text.starts_with("$argon2") {
            return Err("it must be an argon2 or bcrypt hash; `denizen users hash-password` makes one");
        }
        let hash = PasswordHash::new(text).map_err(|_| "it is no well-formed argon2 hash")?;
        Algorithm::try_from(hash.algorithm.as_str()).map_err(|_| "its argon2 variant is unknown")?;
        if let Some(version) = hash.version {
            Version::try_from(version).map_err(|_| "its argon2 version is unknown")?;
        }
        let params = Params::try_from(&hash).map_err(|_| "its argon2 parameters are not valid")?;
        if params.m_cost() > MOST_MEMORY || params.t_cost() > MOST_PASSES || params.p_cost() > MOST_LANES {
            return Err("its argon2 parameters are too costly: at most m=262144 (256 MiB), t=10, p=16");
        }
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err("its salt or its hash is missing");
        }
        Ok(Self::Argon2(Arc::new(hash)))
    }

    /// A hash of nobody's password with the cost of [`hash_password`]: what a sign-in is checked against where the file
    /// has no hash at all.
    pub(super) fn of_nobody() -> Option<Self> {
        Self::parse("$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGlzIGhlcmU$dGhlcmUgaXMgbm8gcGFzc3dvcmQgYmVoaW5kIHRoaXM").ok()
    }

    fn verify(&self, password: &Secret) -> bool {
        let bytes = password.expose().as_bytes();
        match self {
            Self::Argon2(hash) => Argon2::default().verify_password(bytes, hash.as_ref()).is_ok(),
            Self::Bcrypt(hash) => bcrypt::verify(bytes, hash).unwrap_or(false),
        }
    }
}

/// Whether the password is the hashed one. Waits for its turn.
pub(super) async fn verify(hash: StoredHash, password: &Secret) -> Result<bool, ConnectorError> {
    let stopped = || ConnectorError::Unavailable("file: the password could not be checked".to_owned());
    let turn = Arc::clone(&AT_ONCE).acquire_owned().await.map_err(|_| stopped())?;
    let password = password.clone();
    // The turn goes with the work: a caller that gives up does not make room before the memory is free again.
    tokio::task::spawn_blocking(move || {
        let right = hash.verify(&password);
        drop(turn);
        right
    })
    .await
    .map_err(|_| stopped())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    #[tokio::test]
    async fn a_hash_is_made_and_verified() {
        let text = hash_password(&secret("correct horse")).unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        let hash = StoredHash::parse(&text).unwrap();
        assert!(verify(hash.clone(), &secret("correct horse")).await.unwrap());
        assert!(!verify(hash, &secret("correct horsE")).await.unwrap());
        let bcrypt = StoredHash::parse(&bcrypt::hash("battery", 4).unwrap()).unwrap();
        assert!(verify(bcrypt.clone(), &secret("battery")).await.unwrap());
        assert!(!verify(bcrypt, &secret("batter")).await.unwrap());
    }

    #[test]
    fn t23_no_hash_of_what_is_no_password() {
        for bad in ["", " ", "\t\n", "\0", "a\0b"] {
            assert_eq!(hash_password(&secret(bad)), Err(HashError::NotAPassword), "{bad:?}");
        }
    }

    #[test]
    fn costly_and_broken_hashes_are_refused() {
        assert!(StoredHash::of_nobody().is_some());
        let tail = "c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g";
        assert!(StoredHash::parse(&format!("$argon2id$v=19$m=262144,t=10,p=16${tail}")).is_ok());
        for bad in [
            format!("$argon2id$v=19$m=262145,t=2,p=1${tail}"),
            format!("$argon2id$v=19$m=19456,t=11,p=1${tail}"),
            format!("$argon2id$v=19$m=19456,t=2,p=17${tail}"),
            format!("$argon2id$v=77$m=19456,t=2,p=1${tail}"),
            format!("$argon2x$v=19$m=19456,t=2,p=1${tail}"),
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0".to_owned(),
            "$argon2id$v=19$m=19456,t=2,p=1".to_owned(),
            "$2b$15$abcdefghijklmnopqrstuuRq4wM2Ti0O5zMl3rbLkHk1Tx8u1P3Vy".to_owned(),
            "$2b$03$abcdefghijklmnopqrstuuRq4wM2Ti0O5zMl3rbLkHk1Tx8u1P3Vy".to_owned(),
            "$2b$10$short".to_owned(),
            "hunter2".to_owned(),
            String::new(),
        ] {
            assert!(StoredHash::parse(&bad).is_err(), "{bad}");
        }
    }
}
