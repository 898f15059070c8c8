//! What a browser is given to show later, and what only we can have written: that an account has signed in on it before.

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use time::OffsetDateTime;

use crate::{
    seams::Entropy,
    store::{Batch, Expect, Key, Kind, Store, StoreError},
};

/// Vouches for accounts, by HMAC-SHA256 under a key that lives in the store.
pub struct Vouching(hmac::Key);

impl std::fmt::Debug for Vouching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vouching")
    }
}

/// The most accounts that one browser is remembered for.
const MOST_ACCOUNTS: usize = 8;

impl Vouching {
    /// Reads the key, and makes it at the first start.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn open(store: &dyn Store, entropy: &dyn Entropy, now: OffsetDateTime) -> Result<Self, StoreError> {
        let key = Key::system(Kind::MacKey, "browsers");
        let mut bytes = vec![0; 32];
        entropy.fill(&mut bytes);
        store.commit(Batch::new().expect(key.clone(), Expect::Absent).put(key.clone(), bytes.clone(), None), now).await?;
        let bytes = store.get(&key, now).await?.map_or(bytes, |entry| entry.value);
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Whether a browser's cookie vouches for this account.
    #[must_use]
    pub fn vouches(&self, cookie: Option<&str>, account: &str) -> bool {
        self.accounts(cookie).any(|known| known == account)
    }

    /// The cookie that vouches for this account too; the oldest one is forgotten.
    #[must_use]
    pub fn remember(&self, cookie: Option<&str>, account: &str) -> String {
        let others = self.accounts(cookie).filter(|known| *known != account).take(MOST_ACCOUNTS - 1);
        let accounts: Vec<_> = std::iter::once(account).chain(others).collect();
        let text = accounts.join("~");
        format!("{text}.{}", B64.encode(hmac::sign(&self.0, text.as_bytes())))
    }

    fn accounts<'c>(&self, cookie: Option<&'c str>) -> impl Iterator<Item = &'c str> {
        let genuine = cookie
            .and_then(|cookie| cookie.rsplit_once('.'))
            .filter(|(text, tag)| B64.decode(tag).is_ok_and(|tag| hmac::verify(&self.0, text.as_bytes(), &tag).is_ok()));
        genuine.into_iter().flat_map(|(text, _)| text.split('~'))
    }
}
