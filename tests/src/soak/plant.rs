//! Faults that no broker is known to have, made on purpose in a real run: so that the checker is seen to see each kind.

use super::{
    checker::Kind,
    history::{Asker, Deed},
};
use crate::Answer;

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// The balancer gives someone the answer of another tenant.
    OtherTenantsAnswer,
    /// The balancer gives someone the answer of another person of their tenant.
    OtherPersonsAnswer,
    /// The balancer makes a failure of an answer.
    Failure,
    /// A broker is killed, and no one is told.
    SilentKill,
    /// A broker is not started again for longer than [`super::checker::Bounds::outage`] allows.
    LongOutage,
}

impl Plant {
    /// What the checker must say of it.
    #[must_use]
    pub const fn shows(self) -> &'static [Kind] {
        match self {
            Self::OtherTenantsAnswer => &[Kind::OtherTenant],
            Self::OtherPersonsAnswer => &[Kind::OtherPerson],
            Self::Failure => &[Kind::WrongError],
            Self::SilentKill => &[Kind::ErrorWithoutFault],
            Self::LongOutage => &[Kind::NoAnswerInTime],
        }
    }
}

/// What the balancer does to one answer.
#[derive(Debug, Default)]
pub(super) enum Falsifying {
    /// Nothing.
    #[default]
    No,
    /// It is about to do this.
    Soon(Plant),
    /// It has kept the answer of this person, for the next one to whom it must not go.
    Kept(Plant, Asker, Box<Answer>),
}

impl Falsifying {
    /// The answer that a client gets for its own.
    pub(super) fn pass_on(&mut self, asker: &Asker, deed: &Deed, mut answer: Answer) -> Answer {
        // Reviews name their person, and come from all.
        if !matches!(deed, Deed::Review(_)) || !answer.text.contains(":true") {
            return answer;
        }
        match std::mem::take(self) {
            Self::Soon(plant @ (Plant::OtherTenantsAnswer | Plant::OtherPersonsAnswer)) => {
                *self = Self::Kept(plant, asker.clone(), Box::new(answer.clone()))
            }
            Self::Soon(Plant::Failure) => answer.status = 500,
            Self::Kept(plant, whose, kept) => {
                let is_other_tenant = whose.tenant != asker.tenant;
                let is_other_name = whose.username != asker.username;
                if (plant == Plant::OtherTenantsAnswer && is_other_tenant)
                    || (plant == Plant::OtherPersonsAnswer && !is_other_tenant && is_other_name)
                {
                    return *kept;
                }
                *self = Self::Kept(plant, whose, kept);
            }
            Self::No | Self::Soon(_) => {}
        }
        answer
    }
}
