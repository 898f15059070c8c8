//! What a run comes to, in figures and in words.

use std::{collections::BTreeMap, fmt};

use crate::soak::history::{Came, Fault, Moment, Outage, SECOND, Told};

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A code gave tokens twice.
    CodeUsedTwice,
    /// A refresh token that had been rotated gave tokens.
    OldRefreshToken,
    /// A family that was ended by a reuse gave or stood for something.
    FamilyAlive,
    /// A session that was ended gave or stood for something.
    SessionAlive,
    /// A browser that was signed out was signed in.
    BrowserAlive,
    /// A token that was revoked was in force.
    RevokedAlive,
    /// An answer was another tenant's.
    OtherTenant,
    /// An answer was another person's.
    OtherPerson,
    /// What was good was refused.
    Lost,
    /// An answer that none of these requests may get.
    WrongError,
    /// An error while nothing was down.
    ErrorWithoutFault,
    /// Tries without an answer for longer than the bound.
    NoAnswerInTime,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::CodeUsedTwice,
        Self::OldRefreshToken,
        Self::FamilyAlive,
        Self::SessionAlive,
        Self::BrowserAlive,
        Self::RevokedAlive,
        Self::OtherTenant,
        Self::OtherPerson,
        Self::Lost,
        Self::WrongError,
        Self::ErrorWithoutFault,
        Self::NoAnswerInTime,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CodeUsedTwice => "a code used twice",
            Self::OldRefreshToken => "an old refresh token accepted",
            Self::FamilyAlive => "an ended family alive",
            Self::SessionAlive => "an ended session alive",
            Self::BrowserAlive => "a signed-out browser signed in",
            Self::RevokedAlive => "a revoked token in force",
            Self::OtherTenant => "another tenant's answer",
            Self::OtherPerson => "another person's answer",
            Self::Lost => "something acknowledged lost",
            Self::WrongError => "an answer that may not be",
            Self::ErrorWithoutFault => "an error while nothing was down",
            Self::NoAnswerInTime => "no answer in time",
        }
    }
}

/// One answer that breaks a promise.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which promise.
    pub kind: Kind,
    /// The answer.
    pub told: Told,
    /// What had been promised.
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { client, request, replica, begun, ended, deed, came, .. } = self.told;
        let seconds = |moment: Moment| moment as f64 / SECOND as f64;
        let (begun, ended) = (seconds(begun), seconds(ended));
        write!(
            f,
            "{}: {} (client {client}, request {request}, replica {replica}, {begun:.3} s to {ended:.3} s, {came:?}): {deed:?}",
            self.kind.name(),
            self.why
        )
    }
}

/// What a run comes to.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What was broken; none should be.
    pub violations: Vec<Violation>,
    /// How many requests there were, by what they asked for and what came.
    pub answers: BTreeMap<(&'static str, Came), usize>,
    /// Proofs that were refused because a broker was killed before it had answered for them.
    pub cut_off: usize,
    /// Browsers that were forgotten with a primary.
    pub browsers_lost: usize,
    /// Sign-ins that a fault sent back to their beginning.
    pub begun_again: usize,
    /// The longest time that someone asked without an answer.
    pub longest_outage: Moment,
    /// How many brokers were killed, primaries killed, primaries frozen.
    pub faults: [usize; 3],
    /// What was done to each primary, in order, when, for how long, and how often another became the primary by it.
    pub primaries: Vec<Outage>,
}

impl Verdict {
    pub(super) fn count(&mut self, history: &[&Told], outages: &[Outage]) {
        for told in history {
            *self.answers.entry((told.deed.name(), told.came)).or_default() += 1;
        }
        let count = |is: fn(&Fault) -> bool| outages.iter().filter(|outage| is(&outage.fault)).count();
        self.faults = [
            count(|fault| matches!(fault, Fault::BrokerKilled(_))),
            count(|fault| matches!(fault, Fault::PrimaryKilled)),
            count(|fault| matches!(fault, Fault::PrimaryFrozen)),
        ];
        self.primaries = outages.iter().filter(|outage| !matches!(outage.fault, Fault::BrokerKilled(_))).copied().collect();
    }

    /// How many violations of a kind there are.
    #[must_use]
    pub fn of(&self, kind: Kind) -> usize {
        self.violations.iter().filter(|violation| violation.kind == kind).count()
    }

    /// Whether there are violations of each of these.
    #[must_use]
    pub fn shows(&self, kinds: &[Kind]) -> bool {
        kinds.iter().all(|kind| self.of(*kind) > 0)
    }

    /// How often another server became the store's primary.
    #[must_use]
    pub fn failovers(&self) -> usize {
        self.primaries.iter().map(|outage| outage.failovers).sum()
    }

    /// The kinds of which there are violations.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.of(*kind) > 0).collect()
    }

    /// How many requests got this.
    #[must_use]
    pub fn came(&self, came: Came) -> usize {
        self.answers.iter().filter(|((_, c), _)| *c == came).map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "requests                      {}", self.answers.values().sum::<usize>())?;
        for ((deed, came), count) in &self.answers {
            writeln!(f, "  {deed:<16} {:<12} {count}", format!("{came:?}"))?;
        }
        let [brokers, primaries, frozen] = self.faults;
        writeln!(f, "brokers killed                {brokers}")?;
        writeln!(f, "primaries killed              {primaries}")?;
        writeln!(f, "primaries frozen              {frozen}")?;
        writeln!(f, "failovers                     {}", self.failovers())?;
        for Outage { fault, from, until, failovers } in &self.primaries {
            let what = if *fault == Fault::PrimaryKilled { "killed" } else { "frozen" };
            let (at, took) = (*from as f64 / SECOND as f64, until.saturating_sub(*from) as f64 / SECOND as f64);
            writeln!(f, "  {what} at {at:.1} s, whole again after {took:.1} s, failovers: {failovers}")?;
        }
        writeln!(f, "longest time without answer   {:.2} s", self.longest_outage as f64 / SECOND as f64)?;
        writeln!(f, "cut off by a kill             {}", self.cut_off)?;
        writeln!(f, "sign-ins begun again          {}", self.begun_again)?;
        writeln!(f, "browsers lost with a primary  {}", self.browsers_lost)?;
        write!(f, "violations                    {}", self.violations.len())?;
        for kind in self.kinds() {
            write!(f, "\n  {}: {}", kind.name(), self.of(kind))?;
        }
        for violation in self.violations.iter().take(20) {
            write!(f, "\n    {violation}")?;
        }
        Ok(())
    }
}
