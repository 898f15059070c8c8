//! `denizen demo`: the whole way on embedded defaults, with two tenants that have people of the same name.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, ensure};

use super::{
    say, serve,
    walk::{self, Sample},
};
use crate::{
    config,
    http::{
        demo::{Walk, WalkTenant},
        server,
    },
    store::Release,
};

/// The demo's configuration; `ADDRESS` stands for where it listens.
const CONFIGURATION: &str = include_str!("demo.yaml");

/// Who can sign in. The hashes of their passwords are in `demo.yaml`.
const PEOPLE: [Sample; 2] = [
    (
        "acme",
        "Acme Corporation",
        [["alice", "alice-of-acme", "Alice Archer"], ["bob", "bob-of-acme", "Bob Baker"], ["jane", "jane-of-acme", "Jane Jones"]],
    ),
    (
        "globex",
        "Globex",
        [["hank", "hank-of-globex", "Hank Hill"], ["ines", "ines-of-globex", "Ines Ivers"], ["jane", "jane-of-globex", "Jane Joyce"]],
    ),
];

fn people() -> Walk {
    let person = |person: &[&str; 3]| person.map(str::to_owned);
    let tenant = |(id, name, people): &Sample| WalkTenant {
        id: (*id).to_owned(),
        label: (*id).to_owned(),
        name: (*name).to_owned(),
        people: people.iter().map(person).collect(),
    };
    Walk { tenants: PEOPLE.iter().map(tenant).collect() }
}

async fn start(address: SocketAddr, release: &Release) -> anyhow::Result<(Arc<crate::App>, (TcpListener, TcpListener))> {
    ensure!(address.ip().is_loopback(), "the demo shows its passwords: it listens on loopback only");
    let public = server::bind(address).context("choose another address with --address")?;
    let admin = server::bind(SocketAddr::new(address.ip(), 0))?;
    let text = CONFIGURATION.replace("ADDRESS", &public.local_addr()?.to_string());
    let app = serve::app(config::load_text(&text, Path::new("."), "demo.yaml")?, release).await?;
    Ok((app, (public, admin)))
}

pub(super) async fn run(address: SocketAddr, release: &Release) -> anyhow::Result<ExitCode> {
    let (app, listeners) = start(address, release).await?;
    say(format_args!("Denizen's demo: open {}/demo\n", app.issuer));
    say("  the account page       /account");
    say("  discovery              /.well-known/openid-configuration");
    say(format_args!("  health and metrics     http://{}/healthz, /metrics\n", listeners.1.local_addr()?));
    for (tenant, name, people) in &PEOPLE {
        say(format_args!("  {name} ({tenant})"));
        for [username, password, display_name] in people {
            say(format_args!("    {:<14} password {password:<16} {display_name}", format!("{username}@{tenant}")));
        }
    }
    say("\nEverything is in memory. Ctrl-C ends it.");
    serve::serve(app, Some(people()), listeners, serve::stopped()).await?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn once(release: &Release) -> anyhow::Result<ExitCode> {
    let (app, listeners) = start(SocketAddr::from(([127, 0, 0, 1], 0)), release).await?;
    let issuer = app.issuer.clone();
    let walked = async { walk::walk(&issuer, &PEOPLE).await };
    tokio::select! {
        walked = walked => walked,
        ended = serve::serve(app, Some(people()), listeners, std::future::pending()) => ended.map(|()| ExitCode::FAILURE),
    }
}
