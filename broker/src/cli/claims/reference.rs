//! `denizen claims explain --reference`: why a sign-in was refused, as the running Denizen kept it.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, bail, ensure};
use claims_mapping::{Explanation, Step};
use reqwest::StatusCode;
use serde::Deserialize;

use super::say;
use crate::{cli::admin, config::Config};

/// What is kept of a refusal.
#[derive(Deserialize)]
struct Refusal {
    connector: String,
    reason: String,
    at: String,
    #[serde(default)]
    steps: Vec<Step>,
}

pub(super) async fn explain(config: &Config, reference: &str) -> anyhow::Result<ExitCode> {
    let is_one = !reference.is_empty() && reference.len() <= 64 && reference.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    ensure!(is_one, "a reference is the number on the page of a refused sign-in: letters and digits");
    let address = admin::reachable(config.listen.admin_address);
    let client = admin::client().timeout(Duration::from_secs(10)).build()?;
    let request = client.get(format!("http://{address}/refusals/{reference}"));
    let answer = request.send().await.with_context(|| {
        format!("no Denizen answers at {address}, the `listen.adminAddress` of this configuration; refusals are kept by the running one")
    })?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => bail!(
            "nothing is kept under `{reference}`: the number is wrong, or its time is over (`refusals.keptSeconds`, {} s), or too much was refused at that moment; the audit log has it",
            config.refusals.kept_seconds
        ),
        status => bail!("{address} answered {status}"),
    }
    let Refusal { connector, reason, at, steps } =
        answer.json().await.with_context(|| format!("{address} answered something that is no refusal"))?;
    say(Explanation { steps });
    say(format_args!("refused at {at} by the connector `{connector}`: {reason}"));
    Ok(ExitCode::SUCCESS)
}
