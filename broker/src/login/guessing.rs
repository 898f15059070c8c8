//! Guessing is slowed, and no one is locked out by someone else's guesses.
//!
//! Three counts of failures, each a bucket that refills with time: one account from one address, one address over all
//! accounts, one account over all addresses. A browser on which the account has signed in before has a bucket of its own
//! instead, which no one else can fill: neither a spread attack nor a neighbour behind the same address slows the owner. A
//! try takes its place in the buckets before the password is looked at, and a success gives it back: of a hundred tries at
//! once no more than the bucket holds are looked at.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use time::{Duration, OffsetDateTime};

use crate::{config::GuessingConfig, secret_text::fingerprint};

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

/// The counts, in this process.
#[derive(Debug)]
pub struct Guessing {
    account_at_network: Buckets<(String, IpAddr)>,
    network: Buckets<IpAddr>,
    account: Buckets<String>,
    known_browser: Buckets<String>,
}

impl Guessing {
    /// Counts with these bounds.
    #[must_use]
    pub fn new(config: &GuessingConfig) -> Self {
        Self {
            account_at_network: Buckets::new(config.account_burst, config.account_seconds),
            network: Buckets::new(config.address_burst, config.address_seconds),
            account: Buckets::new(config.spread_burst, config.spread_seconds),
            known_browser: Buckets::new(config.account_burst, config.account_seconds),
        }
    }

    /// Takes a place for a try.
    ///
    /// # Errors
    /// How long to wait, where there is none.
    pub fn take(&self, guesser: &Guesser, now: OffsetDateTime) -> Result<(), Duration> {
        if guesser.known_browser {
            return self.known_browser.take(guesser.account.clone(), now);
        }
        self.network.take(guesser.network, now)?;
        let pair = (guesser.account.clone(), guesser.network);
        if let Err(wait) = self.account_at_network.take(pair.clone(), now) {
            self.network.give_back(&guesser.network);
            return Err(wait);
        }
        if let Err(wait) = self.account.take(guesser.account.clone(), now) {
            self.network.give_back(&guesser.network);
            self.account_at_network.give_back(&pair);
            return Err(wait);
        }
        Ok(())
    }

    /// Gives the place back: the password was right, or it could not be told.
    pub fn give_back(&self, guesser: &Guesser) {
        if guesser.known_browser {
            return self.known_browser.give_back(&guesser.account);
        }
        self.network.give_back(&guesser.network);
        self.account_at_network.give_back(&(guesser.account.clone(), guesser.network));
        self.account.give_back(&guesser.account);
    }
}

/// Buckets by key, as the moment until which each is paid (the generic cell rate algorithm).
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    paid_until: Mutex<HashMap<K, OffsetDateTime>>,
    burst: i32,
    each: Duration,
}

/// The most keys that are counted. Beyond them those that are paid up are forgotten, then the ones nearest to it.
const MOST_KEYS: usize = 50_000;

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(burst: u32, seconds: u64) -> Self {
        Self::refilling(burst, crate::config::seconds(seconds.min(86_400)))
    }

    /// Buckets of this size, in which one place comes free so often.
    pub(crate) fn refilling(burst: u32, each: Duration) -> Self {
        Self { paid_until: Mutex::default(), burst: i32::try_from(burst).unwrap_or(i32::MAX).min(100_000), each }
    }

    /// Takes a place; where there is none, says how long to wait.
    pub(crate) fn take(&self, key: K, now: OffsetDateTime) -> Result<(), Duration> {
        let mut paid = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        if paid.len() >= MOST_KEYS && !paid.contains_key(&key) {
            make_room(&mut paid, now);
        }
        let until = paid.entry(key).or_insert(now);
        let next = (*until).max(now) + self.each;
        let wait = next - (now + self.each * self.burst);
        if wait.is_positive() {
            return Err(wait);
        }
        *until = next;
        Ok(())
    }

    fn give_back(&self, key: &K) {
        let mut paid = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = paid.get_mut(key) {
            *until -= self.each;
        }
    }
}

fn make_room<K: Hash + Eq + Clone>(paid: &mut HashMap<K, OffsetDateTime>, now: OffsetDateTime) {
    paid.retain(|_, until| *until > now);
    if paid.len() >= MOST_KEYS {
        let mut ends: Vec<_> = paid.values().copied().collect();
        let middle = ends.len() / 2;
        let (_, median, _) = ends.select_nth_unstable(middle);
        let median = *median;
        paid.retain(|_, until| *until > median);
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);

    fn guessing() -> Guessing {
        Guessing::new(&GuessingConfig {
            account_burst: 3,
            account_seconds: 30,
            address_burst: 5,
            address_seconds: 10,
            spread_burst: 6,
            spread_seconds: 60,
        })
    }

    fn jane(address: [u8; 4], known: bool) -> Guesser {
        Guesser::new("people", Some("acme"), "jane", IpAddr::from(address), known)
    }

    #[test]
    fn one_account_from_one_address_is_slowed_and_refills() {
        let guessing = guessing();
        for _ in 0..3 {
            guessing.take(&jane([10, 0, 0, 1], false), NOW).unwrap();
        }
        assert_eq!(guessing.take(&jane([10, 0, 0, 1], false), NOW), Err(Duration::seconds(30)));
        guessing.take(&jane([10, 0, 0, 1], false), NOW + Duration::seconds(30)).unwrap();
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

    #[test]
    fn no_one_else_locks_the_owner_out() {
        let guessing = guessing();
        for i in 0..6 {
            guessing.take(&jane([10, 0, 1, i], false), NOW).unwrap();
        }
        assert!(guessing.take(&jane([10, 0, 2, 1], false), NOW).is_err(), "newcomers wait");
        for i in 0..5 {
            let name = format!("user{i}");
            guessing.take(&Guesser::new("people", None, &name, IpAddr::from([10, 0, 2, 1]), false), NOW).unwrap();
        }
        for _ in 0..3 {
            guessing.take(&jane([10, 0, 2, 1], true), NOW).unwrap();
        }
        assert!(guessing.take(&jane([10, 0, 2, 1], true), NOW).is_err(), "and the owner's own guesses are slowed too");
    }

    #[test]
    fn one_address_over_many_accounts_is_slowed_and_others_are_not() {
        let guessing = guessing();
        let at = |name: String, last| Guesser::new("people", None, &name, IpAddr::from([10, 0, 0, last]), false);
        for i in 0..5 {
            guessing.take(&at(format!("user{i}"), 1), NOW).unwrap();
        }
        assert!(guessing.take(&at("user9".into(), 1), NOW).is_err());
        guessing.take(&at("user9".into(), 2), NOW).unwrap();
    }

    #[test]
    fn a_success_gives_its_place_back() {
        let guessing = guessing();
        for _ in 0..50 {
            guessing.take(&jane([10, 0, 0, 1], false), NOW).unwrap();
            guessing.give_back(&jane([10, 0, 0, 1], false));
        }
    }

    #[test]
    fn ipv6_counts_by_its_64() {
        let network = |a: &str| Guesser::new("p", None, "j", a.parse().unwrap(), false).network;
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), IpAddr::from([10, 0, 0, 1]));
    }

    #[test]
    fn keys_are_bounded() {
        let buckets = Buckets::new(3, 30);
        for i in 0..(MOST_KEYS * 2) {
            buckets.take(i, NOW).unwrap();
        }
        assert!(buckets.paid_until.lock().unwrap().len() <= MOST_KEYS);
    }
}
