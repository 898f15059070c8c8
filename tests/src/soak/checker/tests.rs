//! Histories that hold exactly one fault each, and the same without it.

use super::*;
use crate::soak::history::Access;

const SESSION: Id = 1;
const FAMILY: Id = 2;
const CODE: Id = 3;

/// A history in which each request takes a tenth of a second, one after the other.
#[derive(Default)]
struct Story {
    told: Vec<Told>,
    outages: Vec<Outage>,
    now: Moment,
}

const TENTH: Moment = SECOND / 10;

impl Story {
    fn then(self, deed: Deed, came: Came) -> Self {
        let request = self.told.len() as Id;
        self.again(request, deed, came)
    }

    fn again(mut self, request: Id, deed: Deed, came: Came) -> Self {
        let (begun, ended) = (self.now, self.now + TENTH);
        self.told.push(Told { client: 1, request, replica: 0, begun, ended, deed, came, whose: Whose::Own });
        self.now = ended;
        self
    }

    fn whose(mut self, whose: Whose) -> Self {
        self.told.last_mut().unwrap().whose = whose;
        self
    }

    /// The last two overlap.
    fn at_once(mut self) -> Self {
        let begun = self.told[self.told.len() - 2].begun;
        self.told.last_mut().unwrap().begun = begun;
        self
    }

    fn after(mut self, time: Moment) -> Self {
        self.now += time;
        self
    }

    fn with(mut self, fault: Fault, from: Moment, until: Moment) -> Self {
        self.outages.push(Outage { fault, from, until, failovers: 0 });
        self
    }

    fn verdict(&self) -> Verdict {
        judge(&self.told, &self.outages, &Bounds::default())
    }

    #[track_caller]
    fn is_clean(&self) {
        let verdict = self.verdict();
        assert!(verdict.violations.is_empty(), "{verdict}");
    }

    #[track_caller]
    fn shows(&self, kind: Kind) {
        let verdict = self.verdict();
        let kinds: Vec<Kind> = verdict.violations.iter().map(|violation| violation.kind).collect();
        assert_eq!(kinds, [kind], "{verdict}");
    }
}

fn page() -> Deed {
    Deed::Page { session: SESSION }
}

fn exchange() -> Deed {
    Deed::Exchange { code: CODE, session: SESSION, family: FAMILY }
}

fn refresh(token: Id) -> Deed {
    Deed::Refresh { token, family: FAMILY, session: SESSION }
}

fn access() -> Access {
    Access { token: 90, family: FAMILY, session: SESSION, until: 500 * SECOND }
}

fn review() -> Deed {
    Deed::Review(access())
}

const ACCOUNT: Deed = Deed::Account { session: SESSION };
const LOGOUT: Deed = Deed::Logout { session: SESSION };

/// Someone who has signed in, and exchanged the code.
fn signed_in() -> Story {
    Story::default().then(page(), Good).then(exchange(), Good)
}

use Came::{Good, Nothing, Odd, Refused, Unavailable};

#[test]
fn what_is_right_is_clean() {
    signed_in().then(exchange(), Refused).after(SECOND).then(review(), Refused).then(refresh(10), Refused).is_clean();
    signed_in().then(refresh(10), Good).then(refresh(11), Good).then(refresh(10), Refused).then(refresh(12), Refused).is_clean();
    signed_in()
        .then(review(), Good)
        .then(Deed::Revoke(access()), Good)
        .after(SECOND)
        .then(review(), Refused)
        .then(refresh(10), Good)
        .is_clean();
    let logout = signed_in().then(ACCOUNT, Good).then(LOGOUT, Good).then(ACCOUNT, Refused).then(refresh(10), Refused);
    logout.after(SECOND).then(review(), Refused).then(exchange(), Refused).is_clean();
}

#[test]
fn a_code_used_twice_is_seen() {
    signed_in().then(exchange(), Good).shows(Kind::CodeUsedTwice);
    signed_in().then(exchange(), Good).at_once().shows(Kind::CodeUsedTwice);
    signed_in().then(exchange(), Refused).at_once().is_clean();
}

#[test]
fn an_old_refresh_token_is_seen() {
    let rotated = || signed_in().then(refresh(10), Good);
    rotated().then(refresh(10), Good).shows(Kind::OldRefreshToken);
    rotated().then(refresh(10), Good).at_once().shows(Kind::OldRefreshToken);
    rotated().then(refresh(11), Good).is_clean();
}

#[test]
fn a_family_that_lives_on_after_a_reuse_is_seen() {
    let reused = || signed_in().then(refresh(10), Good).then(refresh(10), Refused);
    reused().then(refresh(11), Good).shows(Kind::FamilyAlive);
    reused().then(refresh(11), Good).at_once().is_clean();
    reused().then(review(), Good).is_clean();
    reused().after(SECOND).then(review(), Good).shows(Kind::FamilyAlive);
    signed_in().then(exchange(), Refused).then(refresh(10), Good).shows(Kind::FamilyAlive);
}

#[test]
fn a_session_that_lives_on_after_its_end_is_seen() {
    let ended = || signed_in().then(LOGOUT, Good);
    ended().then(review(), Good).is_clean();
    ended().after(SECOND).then(review(), Good).shows(Kind::SessionAlive);
    ended().after(SECOND).then(Deed::Search(access()), Good).shows(Kind::SessionAlive);
    ended().then(refresh(10), Good).shows(Kind::SessionAlive);
    ended().then(ACCOUNT, Good).shows(Kind::BrowserAlive);
    ended().then(ACCOUNT, Good).at_once().is_clean();
    Story::default().then(page(), Good).then(LOGOUT, Good).then(exchange(), Good).shows(Kind::SessionAlive);
    // Whether a logout that was not answered has ended it, is not known.
    let unknown = || signed_in().then(LOGOUT, Unavailable).with(Fault::PrimaryFrozen, 0, SECOND);
    unknown().then(ACCOUNT, Good).after(SECOND).then(review(), Good).is_clean();
    unknown().then(ACCOUNT, Refused).after(SECOND).then(review(), Refused).is_clean();
}

#[test]
fn a_revoked_token_is_seen() {
    let revoked = || signed_in().then(Deed::Revoke(access()), Good);
    revoked().after(SECOND).then(review(), Good).shows(Kind::RevokedAlive);
    revoked().then(review(), Good).is_clean();
}

#[test]
fn the_answer_of_another_is_seen() {
    signed_in().then(review(), Good).whose(Whose::OtherTenant).shows(Kind::OtherTenant);
    signed_in().then(review(), Good).whose(Whose::OtherPerson).shows(Kind::OtherPerson);
}

#[test]
fn what_is_lost_is_seen() {
    signed_in().then(refresh(10), Refused).shows(Kind::Lost);
    signed_in().then(review(), Refused).then(review(), Refused).shows(Kind::Lost);
    signed_in().then(ACCOUNT, Refused).shows(Kind::Lost);
    Story::default().then(page(), Good).then(exchange(), Refused).shows(Kind::Lost);
    Story::default().then(page(), Refused).shows(Kind::Lost);
    // Tokens end by themselves.
    signed_in().after(500 * SECOND).then(review(), Refused).is_clean();
    Story::default().then(page(), Good).after(600 * SECOND).then(exchange(), Refused).is_clean();
}

#[test]
fn a_kill_in_the_middle_is_counted_apart() {
    let cut_off = || signed_in().again(7, refresh(10), Nothing).again(7, refresh(10), Refused);
    let killed = cut_off().with(Fault::BrokerKilled(0), 2 * TENTH, SECOND);
    killed.is_clean();
    assert_eq!(killed.verdict().cut_off, 1);
    killed.then(refresh(10), Good).shows(Kind::FamilyAlive);
    // Another was killed; and one long after.
    let other = cut_off().with(Fault::BrokerKilled(1), 2 * TENTH, SECOND).verdict();
    assert_eq!(other.kinds(), [Kind::Lost, Kind::ErrorWithoutFault]);
    assert_eq!(cut_off().with(Fault::BrokerKilled(0), SECOND, SECOND).verdict().of(Kind::Lost), 1);
    // After a 503, with nobody killed, the retry succeeds.
    let retried = |came| signed_in().again(7, refresh(10), Unavailable).with(Fault::PrimaryFrozen, 0, SECOND).again(7, refresh(10), came);
    retried(Good).is_clean();
    retried(Refused).shows(Kind::Lost);
}

#[test]
fn a_browser_is_lost_with_a_primary_only_if_it_was_just_written() {
    let lost = |age| signed_in().after(age).then(ACCOUNT, Refused).with(Fault::PrimaryKilled, age, age + SECOND);
    lost(SECOND).is_clean();
    assert_eq!(lost(SECOND).verdict().browsers_lost, 1);
    lost(10 * SECOND).shows(Kind::Lost);
}

#[test]
fn a_sign_in_begins_again_only_where_something_failed() {
    let story = Story::default().then(page(), Good).then(page(), Refused).with(Fault::BrokerKilled(1), TENTH, SECOND);
    story.is_clean();
    assert_eq!(story.verdict().begun_again, 1);
}

#[test]
fn errors_are_seen() {
    signed_in().then(review(), Unavailable).shows(Kind::ErrorWithoutFault);
    signed_in().then(review(), Nothing).shows(Kind::ErrorWithoutFault);
    signed_in().then(review(), Odd(500)).shows(Kind::WrongError);
    let down = |fault| signed_in().then(review(), Nothing).with(fault, 0, SECOND);
    down(Fault::BrokerKilled(0)).is_clean();
    down(Fault::BrokerKilled(1)).shows(Kind::ErrorWithoutFault);
    down(Fault::PrimaryKilled).shows(Kind::ErrorWithoutFault);
    let frozen = |until| signed_in().after(10 * SECOND).then(review(), Unavailable).with(Fault::PrimaryFrozen, 0, until);
    frozen(6 * SECOND).is_clean();
    frozen(5 * SECOND).shows(Kind::ErrorWithoutFault);
}

#[test]
fn an_outage_that_goes_on_is_seen() {
    let down = |time| {
        let story = signed_in().with(Fault::PrimaryKilled, 0, 100 * SECOND);
        story.again(7, review(), Unavailable).after(time).again(7, review(), Good)
    };
    down(15 * SECOND).is_clean();
    assert_eq!(down(15 * SECOND).verdict().longest_outage, 15 * SECOND + 2 * TENTH);
    down(20 * SECOND).shows(Kind::NoAnswerInTime);
}
