//! What each answer promised, held against all that came after it. Pure: it is given a history and the faults, and knows no clock.
//!
//! Requests that overlap are judged by their intervals: of two of which neither ended before the other began, each may have been
//! first. So only what no order of them allows counts.

mod errors;
mod lives;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::HashMap;

use super::history::{Access, Came, Deed, Fault, Id, Moment, Outage, SECOND, Told, Whose};
use lives::{Life, Lives};

pub use verdict::{Kind, Verdict, Violation};

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long a review, or another use of an access token, may still say yes after its end was answered.
    pub reviews: Moment,
    /// How long after a fault is over a 503 may still come.
    pub felt: Moment,
    /// How long someone who asks again and again may go without an answer that says how it stands.
    pub outage: Moment,
    /// How long before the end of a primary a record that may be lost with it was written at the latest, to be safe on its replica.
    pub unsettled: Moment,
    /// How long a code is good.
    pub code: Moment,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { reviews: SECOND, felt: 5 * SECOND, outage: 20 * SECOND, unsettled: 3 * SECOND, code: 540 * SECOND }
    }
}

/// Judges a whole run.
#[must_use]
pub fn judge(history: &[Told], outages: &[Outage], bounds: &Bounds) -> Verdict {
    let mut history: Vec<&Told> = history.iter().collect();
    history.sort_by_key(|told| told.begun);
    let mut judging = Judging { outages, bounds, lives: Lives::of_sessions(&history), verdict: Verdict::default() };
    judging.verdict.count(&history, outages);
    judging.answers(&history);
    judging.codes(&history);
    judging.families(&history);
    judging.tokens(&history);
    judging.browsers(&history);
    judging.sign_ins(&history);
    errors::judge(&history, outages, bounds, &mut judging.verdict);
    judging.verdict
}

struct Judging<'a> {
    outages: &'a [Outage],
    bounds: &'a Bounds,
    lives: Lives,
    verdict: Verdict,
}

/// The requests that this finds, by what they are about.
fn grouped<'a, K: std::hash::Hash + Eq>(history: &[&'a Told], key: impl Fn(&Told) -> Option<K>) -> HashMap<K, Vec<&'a Told>> {
    let mut groups: HashMap<K, Vec<&Told>> = HashMap::new();
    for told in history {
        if let Some(key) = key(told) {
            groups.entry(key).or_default().push(told);
        }
    }
    groups
}

impl Judging<'_> {
    fn violated(&mut self, kind: Kind, told: &Told, why: &str) {
        self.verdict.violations.push(Violation { kind, told: *told, why: why.to_owned() });
    }

    /// Each by itself: whose it is, and that it is one of those that there are.
    fn answers(&mut self, history: &[&Told]) {
        for told in history {
            match told.whose {
                Whose::Own => {}
                Whose::OtherTenant => self.violated(Kind::OtherTenant, told, "the answer names another tenant, or an id of one"),
                Whose::OtherPerson => self.violated(Kind::OtherPerson, told, "the answer does not name the one who asked"),
            }
        }
    }

    /// Codes are good once. Whoever shows one again takes back what it gave.
    fn codes(&mut self, history: &[&Told]) {
        let codes = grouped(history, |told| match told.deed {
            Deed::Exchange { code, .. } => Some(code),
            _ => None,
        });
        let mut codes: Vec<_> = codes.into_values().collect();
        codes.sort_by_key(|tries| tries.first().map(|first| first.begun));
        for tries in codes {
            let Some(Deed::Exchange { session, family, .. }) = tries.first().map(|first| first.deed) else { continue };
            let session_life = self.lives.session(session);
            let good = self.good_once(&tries, Kind::CodeUsedTwice, "the code had been exchanged before");
            if let Some(good) = good {
                if session_life.is_over(good.begun) {
                    self.violated(Kind::SessionAlive, good, "the code's session had ended");
                }
                self.ended_by_reuse(family, &tries, good);
            } else if let Some(refused) = tries.iter().find(|told| told.came == Came::Refused) {
                let given = history_of_page(history, session).unwrap_or(refused.begun);
                let is_expired = refused.ended > given + self.bounds.code;
                if !session_life.may_be_over(refused.ended) && !is_expired {
                    self.lost_or_cut_off(&tries, refused, "the code was good");
                }
                self.lives.family_mut(family).ends(tries[0].begun, refused.ended);
            }
        }
    }

    /// The first try that was answered with yes; each further one is a violation.
    fn good_once<'a>(&mut self, tries: &[&'a Told], kind: Kind, why: &str) -> Option<&'a Told> {
        let mut goods: Vec<&Told> = tries.iter().copied().filter(|told| told.came == Came::Good).collect();
        goods.sort_by_key(|told| told.ended);
        for again in goods.iter().skip(1) {
            self.violated(kind, again, why);
        }
        goods.first().copied()
    }

    /// What was shown again after `good` may have ended its family; where that was refused, it has.
    fn ended_by_reuse(&mut self, family: Id, tries: &[&Told], good: &Told) {
        for told in tries.iter().filter(|told| !std::ptr::eq(**told, good) && told.ended > good.begun) {
            self.lives.family_mut(family).may_end(told.begun);
            if told.came == Came::Refused && told.begun >= good.ended {
                self.lives.family_mut(family).ends(told.begun, told.ended);
            }
        }
    }

    /// Refresh tokens are good once, in families that end at once.
    fn families(&mut self, history: &[&Told]) {
        let families = grouped(history, |told| match told.deed {
            Deed::Refresh { family, .. } => Some(family),
            _ => None,
        });
        let mut families: Vec<_> = families.into_iter().collect();
        families.sort_by_key(|(_, shown)| shown.first().map(|first| first.begun));
        for (family, shown) in families {
            let tokens = grouped(&shown, |told| match told.deed {
                Deed::Refresh { token, .. } => Some(token),
                _ => None,
            });
            let mut tokens: Vec<_> = tokens.into_values().collect();
            tokens.sort_by_key(|tries| tries[0].begun);
            // First what ended the family, whichever of its tokens it was; then what each token was answered.
            let mut goods = Vec::new();
            for tries in &tokens {
                let good = self.good_once(tries, Kind::OldRefreshToken, "the refresh token had been rotated before");
                if let Some(good) = good {
                    self.ended_by_reuse(family, tries, good);
                }
                goods.push(good);
            }
            for (tries, good) in tokens.iter().zip(&goods) {
                self.shown(family, tries, *good);
            }
        }
    }

    fn shown(&mut self, family: Id, tries: &[&Told], good: Option<&Told>) {
        let session_life = self.lives.session(tries[0].deed.session());
        for told in tries.iter().filter(|told| told.came == Came::Good) {
            if session_life.is_over(told.begun) {
                self.violated(Kind::SessionAlive, told, "the refresh token's session had ended");
            }
            if self.lives.family(family).is_over(told.begun) {
                self.violated(Kind::FamilyAlive, told, "its family had ended");
            }
        }
        let Some(refused) = tries.iter().find(|told| told.came == Came::Refused) else { return };
        if good.is_none() {
            if !session_life.may_be_over(refused.ended) && !self.lives.family(family).may_be_over(refused.ended) {
                self.lost_or_cut_off(tries, refused, "the refresh token was the current one");
            }
            self.lives.family_mut(family).ends(tries[0].begun, refused.ended);
        } else if good.is_some_and(|good| refused.ended <= good.begun) {
            self.violated(Kind::FamilyAlive, refused, "it was refused first, and good later");
        }
    }

    /// Access tokens in reviews and searches.
    fn tokens(&mut self, history: &[&Told]) {
        for told in history {
            let (Deed::Review(access) | Deed::Search(access)) = told.deed else { continue };
            let lives = self.lives_of(&access);
            match told.came {
                Came::Good => {
                    let at = told.begun.saturating_sub(self.bounds.reviews);
                    let kinds = [
                        (Kind::SessionAlive, "its session had ended"),
                        (Kind::FamilyAlive, "its family had ended"),
                        (Kind::RevokedAlive, "it had been revoked"),
                    ];
                    for (life, (kind, why)) in lives.iter().zip(kinds) {
                        if told.begun >= self.bounds.reviews && life.is_over(at) {
                            self.violated(kind, told, why);
                        }
                    }
                }
                Came::Refused if told.ended < access.until && !lives.iter().any(|life| life.may_be_over(told.ended)) => {
                    self.violated(Kind::Lost, told, "the token was good");
                    // Said once.
                    self.lives.token_mut(access.token).may_end(told.begun);
                }
                _ => {}
            }
        }
    }

    fn lives_of(&self, access: &Access) -> [Life; 3] {
        [self.lives.session(access.session), self.lives.family(access.family), self.lives.token(access.token)]
    }

    /// Browsers by their cookies.
    fn browsers(&mut self, history: &[&Told]) {
        for told in history {
            let Deed::Account { session } = told.deed else { continue };
            let life = self.lives.session(session);
            match told.came {
                Came::Good if life.is_over(told.begun) => self.violated(Kind::BrowserAlive, told, "the browser was signed out"),
                Came::Refused if !life.may_be_over(told.ended) => {
                    // The browser's own record may be lost with a primary; its session, and what was issued in it, may not.
                    let is_lost_with_primary = self.outages.iter().any(|outage| {
                        let since = history.iter().filter(|t| t.deed.session() == session && is_of_browser(t) && t.begun < outage.from);
                        let last = since.map(|t| t.ended).max().unwrap_or_default();
                        outage.fault == Fault::PrimaryKilled && outage.from <= told.ended && outage.from <= last + self.bounds.unsettled
                    });
                    if is_lost_with_primary {
                        self.verdict.browsers_lost += 1;
                    } else {
                        self.violated(Kind::Lost, told, "the browser was signed in");
                    }
                }
                _ => {}
            }
        }
    }

    /// Sign-ins that lead nowhere.
    fn sign_ins(&mut self, history: &[&Told]) {
        let flows = grouped(history, |told| match told.deed {
            Deed::Page { session } => Some(session),
            _ => None,
        });
        for pages in flows.into_values() {
            let Some(refused) = pages.iter().find(|told| told.came == Came::Refused) else { continue };
            if self.outages.iter().any(|outage| outage.touches(pages[0].begun, refused.ended, self.bounds.felt)) {
                self.verdict.begun_again += 1;
            } else {
                self.violated(Kind::Lost, refused, "a sign-in led nowhere, and nothing had failed");
            }
        }
    }

    /// What was good was refused. That is so where a replica was killed between carrying out and answering an earlier try: it is not known
    /// then who has what was given, and the second use is one.
    fn lost_or_cut_off(&mut self, tries: &[&Told], refused: &Told, why: &str) {
        let unknown = tries.iter().filter(|told| !told.came.is_told() && told.begun <= refused.begun);
        let is_cut_off = unknown.into_iter().any(|told| {
            self.outages
                .iter()
                .any(|outage| outage.fault == Fault::BrokerKilled(told.replica) && outage.touches(told.begun, refused.ended, 0))
        });
        if is_cut_off {
            self.verdict.cut_off += 1;
        } else {
            self.violated(Kind::Lost, refused, why);
        }
    }
}

fn is_of_browser(told: &Told) -> bool {
    matches!(told.deed, Deed::Page { .. } | Deed::Account { .. })
}

/// When the last page of a sign-in came.
fn history_of_page(history: &[&Told], session: Id) -> Option<Moment> {
    history.iter().filter(|told| told.deed == Deed::Page { session } && told.came == Came::Good).map(|told| told.ended).max()
}
