//! `denizen claims explain --token`: is it genuine, and whom does it give?

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use claims_mapping::{ConnectorId, Explanation, Step};
use connectors::{Audiences, TokenAuthentication, UnverifiedToken, Verdict, VerifiedToken};
use serde_json::{Map, Value};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{find, say, told};
use crate::{
    config::{Loaded, LoadedConnector},
    deadline::Deadline,
    seams::{Clock as _, SystemClock},
};

pub(super) async fn explain(loaded: &Loaded, named: Option<&ConnectorId>, text: &str) -> anyhow::Result<ExitCode> {
    let token = UnverifiedToken::new(text);
    let entry = match named {
        Some(id) => find(loaded, id)?,
        None => of_issuer(loaded, token)?,
    };
    let id = &entry.config.id;
    let port =
        entry.connector.token.as_ref().with_context(|| format!("the connector `{id}` takes no tokens: it needs `acceptTokens: true`"))?;
    let port = Deadline::<dyn TokenAuthentication>::new(Arc::clone(port), Duration::from_secs(entry.config.deadline_seconds));
    if !port.claims_to_be_ours(token) {
        say(steps([("token.issuer", "issuer.url", Err("it is another issuer's".to_owned()))]));
        say("refused: the connector does not vouch for the token");
        return Ok(ExitCode::FAILURE);
    }
    let verdict = port.authenticate(token, SystemClock.now()).await;
    match verdict.with_context(|| format!("whether the token is genuine could not be told; connector `{id}`"))? {
        Verdict::Genuine(verified) => {
            let VerifiedToken { user, audiences, expires_at } = verified;
            let audiences = match audiences {
                Audiences::Named(named) => named.into(),
                Audiences::Unbound => "it names none: a reviewer's `upstreamTokens` says where it is taken".into(),
            };
            let ends = OffsetDateTime::from_unix_timestamp(expires_at).ok().and_then(|time| time.format(&Rfc3339).ok());
            let before = steps([
                ("token.issuer", "issuer.url", Ok(format!("that of the connector `{id}`").into())),
                ("token.time", "exp, nbf", Ok(format!("in force until {}", ends.unwrap_or_else(|| expires_at.to_string())).into())),
                ("token.audience", "issuer.audiences", Ok(audiences)),
                ("token.signature", "signingAlgorithms, and the issuer's keys", Ok("genuine".into())),
            ]);
            Ok(told(loaded, entry, before, &user))
        }
        // What it says is worth nothing, and is not shown as if it were.
        Verdict::Refused(reason) => {
            say(steps([
                ("token.issuer", "issuer.url", Ok(format!("that of the connector `{id}`").into())),
                ("token", "time, audience, type, algorithm, key, signature", Err(reason.clone())),
            ]));
            say(format_args!("refused: the connector does not vouch for the token: {reason}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The connector that the token says it is of.
fn of_issuer<'l>(loaded: &'l Loaded, token: UnverifiedToken<'_>) -> anyhow::Result<&'l LoadedConnector> {
    let Some(issuer) = token.unverified_issuer() else { bail!("it is no JWT that names an issuer; connectors take no other tokens here") };
    if issuer == crate::issuer_text(&loaded.config.issuer) {
        bail!("it names Denizen itself as its issuer: `denizen token review` asks the running one");
    }
    let claims = |entry: &&LoadedConnector| entry.connector.token.as_ref().is_some_and(|port| port.claims_to_be_ours(token));
    let found = loaded.connectors.iter().find(|entry| !entry.config.disabled && claims(entry));
    // In quotes, with whatever could move a terminal's cursor escaped: anyone may have written it.
    found.with_context(|| format!("no connector with `acceptTokens: true` has the issuer that the token names, {issuer:?}"))
}

fn steps<const N: usize>(list: [(&str, &str, Result<Value, String>); N]) -> Explanation {
    let step = |(place, rule, gave): (&str, &str, _)| Step { place: place.to_owned(), rule: rule.to_owned(), saw: Map::new(), gave };
    Explanation { steps: list.into_iter().map(step).collect() }
}
