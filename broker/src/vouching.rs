//! What a browser is given to show later, and what only we can have written: that an account has signed in on it before, and
//! through which connector.

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use time::OffsetDateTime;

use crate::{
    sealing::{Sealing, SealingError, kept},
    seams::Entropy,
    store::{Key, Kind, Store},
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
    /// Reads the key, and makes it at the first start. It is sealed where the key to seal with is not in the store.
    ///
    /// # Errors
    /// When it can not be opened, or the store could not tell.
    pub async fn open(store: &dyn Store, sealing: &Sealing, entropy: &dyn Entropy, now: OffsetDateTime) -> Result<Self, SealingError> {
        let key = kept::made_once(store, &Key::system(Kind::MacKey, "browsers"), Some(sealing), entropy, now).await?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key[..])))
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

    /// The cookie that remembers through which connector someone signed in.
    #[must_use]
    pub fn remember_way(&self, connector: &str) -> String {
        format!("{connector}.{}", B64.encode(hmac::sign(&self.0, of_way(connector).as_bytes())))
    }

    /// The connector that such a cookie remembers.
    #[must_use]
    pub fn way<'c>(&self, cookie: &'c str) -> Option<&'c str> {
        let (connector, tag) = cookie.rsplit_once('.')?;
        let tag = B64.decode(tag).ok()?;
        hmac::verify(&self.0, of_way(connector).as_bytes(), &tag).ok().map(|()| connector)
    }

    fn accounts<'c>(&self, cookie: Option<&'c str>) -> impl Iterator<Item = &'c str> {
        let genuine = cookie
            .and_then(|cookie| cookie.rsplit_once('.'))
            .filter(|(text, tag)| B64.decode(tag).is_ok_and(|tag| hmac::verify(&self.0, text.as_bytes(), &tag).is_ok()));
        genuine.into_iter().flat_map(|(text, _)| text.split('~'))
    }
}

/// What is signed for a connector; it is no list of accounts, whatever the connector's id.
fn of_way(connector: &str) -> String {
    format!("way\0{connector}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remembered_way_is_our_own_and_no_account() {
        let vouching = Vouching(hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]));
        let cookie = vouching.remember_way("acme.sso");
        assert_eq!(vouching.way(&cookie), Some("acme.sso"));
        assert!(!vouching.vouches(Some(&cookie), "acme.sso"));
        assert_eq!(vouching.way(&vouching.remember(None, "acme.sso")), None);
        assert_eq!(vouching.way(&cookie.replace("acme", "evil")), None);
        assert_eq!(vouching.way("acme.sso"), None);
    }
}
