//! What may come instead of an answer: a 503 while something is down, nothing at all from a replica that is being killed; and that it
//! does not go on for long.

use super::{
    super::history::{Came, Fault, Moment, Outage, Told},
    Bounds, Kind, Verdict, Violation, grouped,
};

pub(super) fn judge(history: &[&Told], outages: &[Outage], bounds: &Bounds, verdict: &mut Verdict) {
    for told in history {
        let violation = match told.came {
            Came::Good | Came::Refused => None,
            Came::Odd(_) => Some((Kind::WrongError, "no such answer is foreseen")),
            Came::Unavailable => (!outages.iter().any(|outage| outage.touches(told.begun, told.ended, bounds.felt)))
                .then_some((Kind::ErrorWithoutFault, "a 503, and nothing was down")),
            Came::Nothing => (!outages.iter().any(|outage| is_killed(outage, told)))
                .then_some((Kind::ErrorWithoutFault, "no answer came from a replica that was not killed")),
        };
        if let Some((kind, why)) = violation {
            verdict.violations.push(Violation { kind, told: **told, why: why.to_owned() });
        }
    }
    let mut longest = 0;
    for tries in grouped(history, |told| Some((told.client, told.request))).values() {
        let Some(first) = tries.first().filter(|first| matches!(first.came, Came::Unavailable | Came::Nothing)) else { continue };
        let answered = tries.iter().find(|told| told.came.is_told());
        let without: Moment = answered.or(tries.last()).map_or(0, |last| last.ended - first.begun);
        longest = longest.max(without);
        if without > bounds.outage {
            let why = "it was asked again and again, and not answered in time".to_owned();
            verdict.violations.push(Violation { kind: Kind::NoAnswerInTime, told: **first, why });
        }
    }
    verdict.longest_outage = longest;
}

fn is_killed(outage: &Outage, told: &Told) -> bool {
    outage.fault == Fault::BrokerKilled(told.replica) && outage.touches(told.begun, told.ended, 0)
}
