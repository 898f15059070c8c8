//! `denizen token …`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::json;

use super::say;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Ask a running Denizen whether a token is good, as the API server does. 0: it is; 1: it is not, or it could not be told.
    Review {
        /// Where Denizen listens.
        #[arg(long, default_value = "http://127.0.0.1:5556")]
        server: url::Url,
        /// A file with the token; `-` reads standard input.
        #[arg(long)]
        token: PathBuf,
        /// An audience that the token must be for; may be repeated.
        #[arg(long = "audience")]
        audiences: Vec<String>,
        /// A file with the reviewer's bearer token, where it has one.
        #[arg(long)]
        credential: Option<PathBuf>,
        /// A file with the authorities of Denizen's certificate, in PEM.
        #[arg(long)]
        ca: Option<PathBuf>,
    },
}

pub(super) async fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Review { server, token, audiences, credential, ca } = command;
    let body = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": super::read(token)?.trim(), "audiences": audiences},
    });
    let mut client = reqwest::Client::builder().timeout(std::time::Duration::from_secs(10)).redirect(reqwest::redirect::Policy::none());
    if let Some(path) = ca {
        let pem = std::fs::read(path).with_context(|| path.display().to_string())?;
        client = client.tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem)?);
    }
    let mut request = client.build()?.post(server.join("/apis/authentication.k8s.io/v1/tokenreviews")?).json(&body);
    if let Some(path) = credential {
        request = request.bearer_auth(super::read(path)?.trim());
    }
    let response = request.send().await.with_context(|| format!("{server} does not answer"))?;
    let status = response.status();
    let answer: serde_json::Value = response.json().await.with_context(|| format!("{server} answered {status} and no JSON"))?;
    say(serde_json::to_string_pretty(&answer)?);
    let good = status.is_success() && answer.pointer("/status/authenticated") == Some(&json!(true));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
