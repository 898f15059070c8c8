//! What the soak's clients tell: each request and its answer, and each fault that was made, with their times. It judges nothing.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// What tells one session, family, code or token from another. It is a digest, or a count of the client's own.
pub type Id = u64;

/// Microseconds since the soak began.
pub type Moment = u64;

/// One second, in moments.
pub const SECOND: Moment = 1_000_000;

/// The id of a text that is too long to keep.
#[must_use]
pub fn id_of(text: &str) -> Id {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// An access token, with what it hangs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The token.
    pub token: Id,
    /// The refresh tokens that it came with.
    pub family: Id,
    /// The session in which it was given.
    pub session: Id,
    /// When it ends by itself.
    pub until: Moment,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// A page of a sign-in, up to the code. All pages of one sign-in have its session's id.
    Page {
        /// The session that comes of it.
        session: Id,
    },
    /// A code for tokens.
    Exchange {
        /// The code.
        code: Id,
        /// Its session.
        session: Id,
        /// The family that it gives. The same for each try of one code.
        family: Id,
    },
    /// A refresh token for the next one.
    Refresh {
        /// The token that is shown.
        token: Id,
        /// Its family.
        family: Id,
        /// Its session.
        session: Id,
    },
    /// A TokenReview.
    Review(Access),
    /// A search for people.
    Search(Access),
    /// The page of someone's account.
    Account {
        /// The session of the browser's cookie.
        session: Id,
    },
    /// Signing out at that page.
    Logout {
        /// The session.
        session: Id,
    },
    /// Revoking an access token.
    Revoke(Access),
}

impl Deed {
    /// Its name, for people.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Page { .. } => "sign-in page",
            Self::Exchange { .. } => "code exchange",
            Self::Refresh { .. } => "refresh",
            Self::Review(_) => "review",
            Self::Search(_) => "search",
            Self::Account { .. } => "account page",
            Self::Logout { .. } => "logout",
            Self::Revoke(_) => "revocation",
        }
    }

    /// The session that it is about.
    #[must_use]
    pub const fn session(&self) -> Id {
        match self {
            Self::Page { session }
            | Self::Exchange { session, .. }
            | Self::Refresh { session, .. }
            | Self::Account { session }
            | Self::Logout { session } => *session,
            Self::Review(access) | Self::Search(access) | Self::Revoke(access) => access.session,
        }
    }
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Came {
    /// What was asked for: tokens, `authenticated: true`, the page of someone who is signed in.
    Good,
    /// That it is not good: 400 or 401, `authenticated: false`, the way to the sign-in.
    Refused,
    /// 503.
    Unavailable,
    /// No whole answer.
    Nothing,
    /// Any other status.
    Odd(u16),
}

impl Came {
    /// Whether it says how it stands.
    #[must_use]
    pub const fn is_told(self) -> bool {
        matches!(self, Self::Good | Self::Refused)
    }
}

/// Whose an answer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Of the one who asked, or of no one.
    Own,
    /// It names someone else of the tenant, where it should name the one who asked.
    OtherPerson,
    /// It names another tenant, or an id of one.
    OtherTenant,
}

/// One request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// Who asked.
    pub client: u32,
    /// The same for each try of one request.
    pub request: Id,
    /// Which replica was asked.
    pub replica: usize,
    /// Before the first byte was sent.
    pub begun: Moment,
    /// After the last byte came.
    pub ended: Moment,
    /// What was asked.
    pub deed: Deed,
    /// What came.
    pub came: Came,
    /// Whose it was.
    pub whose: Whose,
}

/// A fault that was made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9` of a replica of the broker, until it is ready again.
    BrokerKilled(usize),
    /// `kill -9` of the store's primary, until another takes writes.
    PrimaryKilled,
    /// The store's primary stands still, or has just been waked.
    PrimaryFrozen,
}

/// When it was.
#[derive(Debug, Clone, Copy)]
pub struct Outage {
    /// What.
    pub fault: Fault,
    /// Before it was made.
    pub from: Moment,
    /// When all was well again.
    pub until: Moment,
    /// How often the store's primary became another because of it.
    pub failovers: usize,
}

impl Outage {
    /// Whether it had a part in a time, if it is felt for so long after its end.
    #[must_use]
    pub const fn touches(&self, from: Moment, until: Moment, felt: Moment) -> bool {
        self.from <= until && from <= self.until.saturating_add(felt)
    }
}

/// Whose ids are whose: each UUID belongs to the tenant in whose answer it first stood.
#[derive(Debug, Default)]
pub struct Ids(HashMap<String, String>);

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The tenant.
    pub tenant: String,
    /// The name in it.
    pub username: String,
}

impl Ids {
    /// Whose an answer is: `text` is all of it, with what its tokens say; `names` are the people that it should name, as it writes them.
    pub fn whose(&mut self, asker: &Asker, tenants: &[&str], text: &str, names: &[&str]) -> Whose {
        if tenants.iter().any(|tenant| *tenant != asker.tenant && stands_in(text, tenant)) {
            return Whose::OtherTenant;
        }
        for id in uuids(text) {
            if *self.0.entry(id.to_owned()).or_insert_with(|| asker.tenant.clone()) != asker.tenant {
                return Whose::OtherTenant;
            }
        }
        if names.iter().all(|name| text.contains(name)) { Whose::Own } else { Whose::OtherPerson }
    }
}

/// Whether a name stands in a text as a word, or behind an escaped character of a URL. Four letters stand in a random text by chance:
/// about once in seventeen million characters.
fn stands_in(text: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let pieces: Vec<&str> = text.split(name).collect();
    pieces.iter().zip(pieces.iter().skip(1)).any(|(before, after)| {
        let is_escaped = before.as_bytes().iter().rev().nth(2) == Some(&b'%');
        (is_escaped || !before.ends_with(goes_on)) && !after.starts_with(goes_on)
    })
}

fn uuids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_hexdigit() && c != '-')
        .filter(|part| part.len() == 36 && part.bytes().filter(|b| *b == b'-').count() == 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_others_are_told_apart() {
        let (mut ids, tenants) = (Ids::default(), ["acme", "globex"]);
        let acme = Asker { tenant: "acme".to_owned(), username: "p1".to_owned() };
        let globex = Asker { tenant: "globex".to_owned(), ..acme.clone() };
        let id = "00000000-0000-4000-8000-000000000001";
        let own = format!("{{\"uid\":\"{id}\",\"name\":\"acme:p1\"}}");
        assert_eq!(ids.whose(&acme, &tenants, &own, &["acme:p1\""]), Whose::Own);
        assert_eq!(ids.whose(&acme, &tenants, &own.replace("p1", "p12"), &["acme:p1\""]), Whose::OtherPerson);
        assert_eq!(ids.whose(&globex, &tenants, &own, &[]), Whose::OtherTenant, "by its name");
        for (text, whose) in [("jane%40acme.example", Whose::OtherTenant), ("code=acme.x", Whose::OtherTenant), ("3XacmeQ", Whose::Own)] {
            assert_eq!(ids.whose(&globex, &tenants, text, &[]), whose, "{text}");
        }
        assert_eq!(ids.whose(&globex, &tenants, &format!("[\"{id}\"]"), &[]), Whose::OtherTenant, "by an id alone");
        assert_eq!(ids.whose(&globex, &tenants, "[\"00000000-0000-4000-8000-000000000002\"]", &[]), Whose::Own);
    }
}
