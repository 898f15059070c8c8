//! `denizen claims explain --token`: is it genuine, and whom does it give?

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use claims_mapping::{ConnectorId, Explanation, Step};
use connectors::{Audiences, TokenAuthentication, UnverifiedToken, Verdict, VerifiedToken, config::Upstream};
use serde_json::{Map, Value};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{find, say, told};
use crate::{
    config::{Loaded, LoadedConnector},
    deadline::Deadline,
    seams::{Clock as _, SystemClock},
};

/// How a Keystone's token is known.
const FORM: &str = "Fernet, or a JWS with openstack_methods";
/// Who says whether it is good.
const JUDGED: &str = "Keystone, and trusts";

pub(super) async fn explain(loaded: &Loaded, named: Option<&ConnectorId>, text: &str) -> anyhow::Result<ExitCode> {
    let token = UnverifiedToken::new(text);
    let entry = match named {
        Some(id) => find(loaded, id)?,
        None => of_token(loaded, token)?,
    };
    let id = &entry.config.id;
    let port =
        entry.connector.token.as_ref().with_context(|| format!("the connector `{id}` takes no tokens: it needs `acceptTokens: true`"))?;
    let port = Deadline::<dyn TokenAuthentication>::new(Arc::clone(port), Duration::from_secs(entry.config.deadline_seconds));
    let is_keystone = matches!(entry.config.upstream, Upstream::Keystone(_));
    let ours = Ok(format!("that of the connector `{id}`").into());
    if !port.claims_to_be_ours(token) {
        say(if is_keystone {
            steps([("token.form", FORM, Err("it is another's".to_owned()))])
        } else {
            steps([("token.issuer", "issuer.url", Err("it is another issuer's".to_owned()))])
        });
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
            let in_force = Ok(format!("in force until {}", ends.unwrap_or_else(|| expires_at.to_string())).into());
            let before = if is_keystone {
                steps([("token.form", FORM, ours), ("token", JUDGED, in_force), ("token.audience", "none", Ok(audiences))])
            } else {
                steps([
                    ("token.issuer", "issuer.url", ours),
                    ("token.time", "exp, nbf", in_force),
                    ("token.audience", "issuer.audiences", Ok(audiences)),
                    ("token.signature", "signingAlgorithms, and the issuer's keys", Ok("genuine".into())),
                ])
            };
            Ok(told(loaded, entry, before, &user))
        }
        // What it says is worth nothing, and is not shown as if it were.
        Verdict::Refused(reason) => {
            say(if is_keystone {
                steps([("token.form", FORM, ours), ("token", JUDGED, Err(reason.clone()))])
            } else {
                let judged = "time, audience, type, algorithm, key, signature";
                steps([("token.issuer", "issuer.url", ours), ("token", judged, Err(reason.clone()))])
            });
            say(format_args!("refused: the connector does not vouch for the token: {reason}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The connector that the token says it is of; of a token that names no issuer the only one whose form it has.
fn of_token<'l>(loaded: &'l Loaded, token: UnverifiedToken<'_>) -> anyhow::Result<&'l LoadedConnector> {
    let claims = |entry: &&LoadedConnector| entry.connector.token.as_ref().is_some_and(|port| port.claims_to_be_ours(token));
    let mut found = loaded.connectors.iter().filter(|entry| !entry.config.disabled).filter(claims);
    let Some(issuer) = token.unverified_issuer() else {
        return match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => bail!("it names no issuer, and may be of more than one connector: name one by --connector"),
            (None, _) => bail!(
                "it is neither a JWT that names an issuer nor a token of a Keystone whose connector has `acceptTokens: true`; connectors take no other tokens here"
            ),
        };
    };
    if issuer == crate::issuer_text(&loaded.config.issuer) {
        bail!("it names Denizen itself as its issuer: `denizen token review` asks the running one");
    }
    let found = found.next();
    // In quotes, with whatever could move a terminal's cursor escaped: anyone may have written it.
    found.with_context(|| format!("no connector with `acceptTokens: true` has the issuer that the token names, {issuer:?}"))
}

fn steps<const N: usize>(list: [(&str, &str, Result<Value, String>); N]) -> Explanation {
    let step = |(place, rule, gave): (&str, &str, _)| Step { place: place.to_owned(), rule: rule.to_owned(), saw: Map::new(), gave };
    Explanation { steps: list.into_iter().map(step).collect() }
}
