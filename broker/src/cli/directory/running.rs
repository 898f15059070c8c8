//! Has a running Denizen reindex, and passes on what it tells.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail};
use tokio::sync::mpsc::Sender;

use crate::{
    cli::admin,
    directory::{Told, Wanted},
};

/// The longest line that is read, in bytes.
const LINE_MOST: usize = 64 * 1024;

/// Asks at the admin listener's address.
pub(super) async fn reindex(address: SocketAddr, wanted: &Wanted, tell: Sender<Told>) -> anyhow::Result<()> {
    let address = format!("http://{}/v1/directory:reindex", admin::reachable(address));
    // Over HTTP/2 its pings keep the connection alive while a directory takes its time.
    let client =
        admin::client().http2_prior_knowledge().connect_timeout(Duration::from_secs(5)).read_timeout(Duration::from_secs(60)).build()?;
    let asked = client.post(&address).json(wanted).send().await;
    let mut answer =
        asked.with_context(|| format!("no Denizen answers at {address}; is `listen.adminAddress` the one that it runs with?"))?;
    let status = answer.status();
    if !status.is_success() {
        let refusal: serde_json::Value = answer.json().await.unwrap_or_default();
        bail!(
            "{address} answered {status}: {}",
            refusal.get("error_description").and_then(serde_json::Value::as_str).unwrap_or("it does not say why")
        );
    }
    let mut rest = Vec::new();
    while let Some(chunk) = answer.chunk().await.context("the running Denizen went away; what was recorded stays, run it again")? {
        for byte in chunk {
            if byte != b'\n' {
                rest.push(byte);
            } else if !rest.is_empty() {
                let told = serde_json::from_slice(&rest).context("the running Denizen is of another version")?;
                rest.clear();
                tell.send(told).await?;
            }
            if rest.len() > LINE_MOST {
                bail!("{address} does not answer as Denizen does");
            }
        }
    }
    Ok(())
}
