//! From when on a session, a family or a token may have ended, and from when on it surely has.

use std::collections::HashMap;

use crate::soak::history::{Came, Deed, Id, Moment, Told};

/// What is known of one end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Life {
    may: Option<Moment>,
    surely: Option<Moment>,
}

impl Life {
    /// Something that may end it began.
    pub(super) fn may_end(&mut self, begun: Moment) {
        self.may = Some(self.may.map_or(begun, |may| may.min(begun)));
    }

    /// Something that began then has ended it, as an answer at this time said.
    pub(super) fn ends(&mut self, begun: Moment, answered: Moment) {
        self.may_end(begun);
        self.surely = Some(self.surely.map_or(answered, |surely| surely.min(answered)));
    }

    /// Whether it had surely ended before something began.
    pub(super) fn is_over(&self, begun: Moment) -> bool {
        self.surely.is_some_and(|surely| surely <= begun)
    }

    /// Whether it may have ended before something was answered.
    pub(super) fn may_be_over(&self, answered: Moment) -> bool {
        self.may.is_some_and(|may| may <= answered)
    }
}

/// All of a run.
#[derive(Debug, Default)]
pub(super) struct Lives {
    sessions: HashMap<Id, Life>,
    families: HashMap<Id, Life>,
    tokens: HashMap<Id, Life>,
}

impl Lives {
    /// What logouts and revocations say. What reuse says comes later.
    pub(super) fn of_sessions(history: &[&Told]) -> Self {
        let mut lives = Self::default();
        for told in history {
            let life = match told.deed {
                Deed::Logout { session } => lives.sessions.entry(session).or_default(),
                Deed::Revoke(access) => lives.tokens.entry(access.token).or_default(),
                _ => continue,
            };
            life.may_end(told.begun);
            if told.came == Came::Good {
                life.ends(told.begun, told.ended);
            }
        }
        lives
    }

    pub(super) fn session(&self, id: Id) -> Life {
        self.sessions.get(&id).copied().unwrap_or_default()
    }

    pub(super) fn family(&self, id: Id) -> Life {
        self.families.get(&id).copied().unwrap_or_default()
    }

    pub(super) fn family_mut(&mut self, id: Id) -> &mut Life {
        self.families.entry(id).or_default()
    }

    pub(super) fn token(&self, id: Id) -> Life {
        self.tokens.get(&id).copied().unwrap_or_default()
    }

    pub(super) fn token_mut(&mut self, id: Id) -> &mut Life {
        self.tokens.entry(id).or_default()
    }
}
