//! Guessing is slowed, and no one is locked out by someone else's guesses.
//!
//! Three counts of failures, each a bucket that refills with time: one account from one address, one address over all
//! accounts, one account over all addresses. A browser on which the account has signed in before has a bucket of its own
//! instead, which no one else can fill: neither a spread attack nor a neighbour behind the same address slows the owner. A
//! try takes its place in the buckets before the password is looked at, and a success gives it back: of a hundred tries at
//! once no more than the bucket holds are looked at.

use std::{net::IpAddr, sync::Arc};

use time::{Duration, OffsetDateTime};

use crate::{
    config::GuessingConfig,
    secret_text::fingerprint,
    store::{Bucket, Limits, Rate, StoreError},
};

/// Who tries, at which account.
#[derive(Debug, Clone)]
pub struct Guesser {
    account: String,
    network: IpAddr,
    known_browser: bool,
}

impl Guesser {
    /// A try. The account is counted on its canonical name (NFKC, case folded, trimmed), so that `Jane` and `jane ` are one.
    /// So is the tenant, which a request may name as it likes: an upstream may take its spellings for one. Of an IPv6 address its
    /// /64 counts.
    #[must_use]
    pub fn new(connector: &str, tenant: Option<&str>, name: &str, address: IpAddr, known_browser: bool) -> Self {
        let tenant = claims_mapping::fold(tenant.unwrap_or_default());
        let account = fingerprint(&format!("{connector}\0{tenant}\0{}", canonical(name)));
        Self { account, network: network_of(address), known_browser }
    }

    /// The same try, on a browser that shows whether the account has signed in on it before.
    #[must_use]
    pub fn shown_by(self, known_browser: impl FnOnce(&str) -> bool) -> Self {
        Self { known_browser: known_browser(&self.account), ..self }
    }

    /// What a browser keeps to show later that this account has signed in on it; it is signed where it is set.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }
}

/// What is counted as one address: of IPv6 the /64.
pub(super) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// A name as it is counted.
#[must_use]
pub fn canonical(name: &str) -> String {
    claims_mapping::fold(name.trim())
}

/// The counts.
pub struct Guessing {
    limits: Arc<dyn Limits>,
    account: Rate,
    network: Rate,
    spread: Rate,
}

impl std::fmt::Debug for Guessing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guessing")
    }
}

impl Guessing {
    /// Counts with these bounds.
    #[must_use]
    pub fn new(limits: Arc<dyn Limits>, config: &GuessingConfig) -> Self {
        let rate = |burst, seconds: u64| Rate::new(burst, crate::config::seconds(seconds.min(86_400)));
        Self {
            limits,
            account: rate(config.account_burst, config.account_seconds),
            network: rate(config.address_burst, config.address_seconds),
            spread: rate(config.spread_burst, config.spread_seconds),
        }
    }

    /// Takes a place for a try.
    ///
    /// # Errors
    /// When it could not be told. The inner one: how long to wait, where there is none.
    pub async fn take(&self, guesser: &Guesser, now: OffsetDateTime) -> Result<Result<(), Duration>, StoreError> {
        self.limits.take(&self.buckets(guesser), now).await
    }

    /// Gives the place back: the password was right, or it could not be told. Where that fails, it comes free with time.
    pub async fn give_back(&self, guesser: &Guesser, now: OffsetDateTime) {
        if let Err(error) = self.limits.give_back(&self.buckets(guesser), now).await {
            tracing::warn!(%error, "a try that was right stays counted");
        }
    }

    fn buckets(&self, guesser: &Guesser) -> Vec<Bucket> {
        let Guesser { account, network, known_browser } = guesser;
        // The addresses are digested: the counts may be kept outside of this process.
        let bucket = |what: &str, rate| Bucket { id: fingerprint(what), rate };
        if *known_browser {
            return vec![bucket(&format!("known\0{account}"), self.account)];
        }
        vec![
            bucket(&format!("network\0{network}"), self.network),
            bucket(&format!("pair\0{account}\0{network}"), self.account),
            bucket(&format!("account\0{account}"), self.spread),
        ]
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::store::InProcess;

    const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);

    fn guessing() -> Guessing {
        let config = GuessingConfig {
            account_burst: 3,
            account_seconds: 30,
            address_burst: 5,
            address_seconds: 10,
            spread_burst: 6,
            spread_seconds: 60,
        };
        Guessing::new(Arc::new(InProcess::default()), &config)
    }

    fn jane(address: [u8; 4], known: bool) -> Guesser {
        Guesser::new("people", Some("acme"), "jane", IpAddr::from(address), known)
    }

    #[tokio::test]
    async fn one_account_from_one_address_is_slowed_and_refills() {
        let guessing = guessing();
        for _ in 0..3 {
            guessing.take(&jane([10, 0, 0, 1], false), NOW).await.unwrap().unwrap();
        }
        assert_eq!(guessing.take(&jane([10, 0, 0, 1], false), NOW).await.unwrap(), Err(Duration::seconds(30)));
        guessing.take(&jane([10, 0, 0, 1], false), NOW + Duration::seconds(30)).await.unwrap().unwrap();
    }

    #[test]
    fn names_are_counted_canonically() {
        let account = |name: &str| Guesser::new("people", None, name, IpAddr::from([10, 0, 0, 1]), false).account;
        assert_eq!(account("Jane "), account("jane"));
        assert_eq!(account("ｊａｎｅ"), account("jane"));
        assert_ne!(account("jane"), account("joan"));
        let at = |tenant| Guesser::new("people", Some(tenant), "jane", IpAddr::from([10, 0, 0, 1]), false).account;
        assert_eq!(at("acme"), at("AcMe"), "no request has more guesses by another spelling of the tenant");
        assert!(at("acme") != at("globex") && at("acme") != at("\nacme"));
    }

    #[tokio::test]
    async fn no_one_else_locks_the_owner_out() {
        let guessing = guessing();
        for i in 0..6 {
            guessing.take(&jane([10, 0, 1, i], false), NOW).await.unwrap().unwrap();
        }
        assert!(guessing.take(&jane([10, 0, 2, 1], false), NOW).await.unwrap().is_err(), "newcomers wait");
        for i in 0..5 {
            let name = format!("user{i}");
            guessing.take(&Guesser::new("people", None, &name, IpAddr::from([10, 0, 2, 1]), false), NOW).await.unwrap().unwrap();
        }
        for _ in 0..3 {
            guessing.take(&jane([10, 0, 2, 1], true), NOW).await.unwrap().unwrap();
        }
        assert!(guessing.take(&jane([10, 0, 2, 1], true), NOW).await.unwrap().is_err(), "and the owner's own guesses are slowed too");
    }

    #[tokio::test]
    async fn one_address_over_many_accounts_is_slowed_and_others_are_not() {
        let guessing = guessing();
        let at = |name: String, last| Guesser::new("people", None, &name, IpAddr::from([10, 0, 0, last]), false);
        for i in 0..5 {
            guessing.take(&at(format!("user{i}"), 1), NOW).await.unwrap().unwrap();
        }
        assert!(guessing.take(&at("user9".into(), 1), NOW).await.unwrap().is_err());
        guessing.take(&at("user9".into(), 2), NOW).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_success_gives_its_place_back() {
        let guessing = guessing();
        for _ in 0..50 {
            guessing.take(&jane([10, 0, 0, 1], false), NOW).await.unwrap().unwrap();
            guessing.give_back(&jane([10, 0, 0, 1], false), NOW).await;
        }
    }

    #[test]
    fn ipv6_counts_by_its_64() {
        let network = |a: &str| Guesser::new("p", None, "j", a.parse().unwrap(), false).network;
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), IpAddr::from([10, 0, 0, 1]));
    }
}
