//! Sign-ins through a provider that works, while another one answers nothing and people try to sign in there all the same; against
//! the same sign-ins while nobody does; and sign-ins beside 999 other connectors. The providers are real ones (npm's oidc-provider).

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use denizen_tests::{
    Answer, Authorization, Browser, OidcProvider, Tools,
    oidc_provider::{Settings, account},
};
use serde_json::{Value, json};

use super::{
    Effort,
    broker::{Broker, REDIRECT_URI},
    figures::{Bound, Figure, Spread, Unit},
    process,
};

/// Sign-ins in one turn; its 95th of a hundred is looked at.
const SIGN_INS: usize = 60;
/// People who try the other provider at once, and how long each waits before the next try.
const TRYING: usize = 8;
const PAUSE: Duration = Duration::from_millis(200);

/// The measurement; `None` where Node is not installed.
pub(crate) async fn measure(effort: &Effort, folder: &Path) -> Result<Option<Figure>> {
    let Some(tools) = Tools::find() else { return Ok(None) };
    let person = |provider: &str| vec![account(provider, "1", "jane", &json!({}))];
    let working = OidcProvider::start(&tools, Settings::new("working", person("working"))).await;
    let silent = OidcProvider::start(&tools, Settings::new("silent", person("silent"))).await;
    let tenants = json!([{"id": "acme"}, {"id": "globex"}]);
    let connectors = [(&working, "acme"), (&silent, "globex")].map(|(provider, tenant)| {
        let mut connector = provider.connector(&format!("{tenant}-sso"));
        if let Some(entry) = connector.as_object_mut() {
            entry.insert("tenant".to_owned(), json!({"fixed": tenant}));
        }
        connector
    });
    fs::create_dir_all(folder)?;
    let broker = Broker::start(folder, &tenants, &json!(connectors)).await?;
    let issuer = format!("http://{}", broker.address);
    for (provider, connector) in [&working, &silent].into_iter().zip(&connectors) {
        provider.register_at(&issuer, connector, &Value::Null).await;
    }
    silent.freeze();
    for _ in 0..SIGN_INS {
        sign_in(&issuer, &working).await?;
    }
    let (mut ratios, mut quiet, mut tried) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let alone = turn(&issuer, &working).await?;
        let trying = Trying::begin(&issuer);
        let beside = turn(&issuer, &working).await?;
        trying.end().await;
        ratios.push(beside / alone);
        quiet.push(alone);
        tried.push(beside);
    }
    let detail = format!(
        "Denizen's own two answers of a sign-in, 95th of a hundred: {:.1} ms, without the others {:.1} ms; {TRYING} people try the silent provider",
        Spread::new(tried).median() * 1e3,
        Spread::new(quiet).median() * 1e3
    );
    let name = "A sign-in beside a silent provider, p95";
    Ok(Some(Figure { name, unit: Unit::Ratio, spread: Spread::new(ratios), bound: Bound::AtMost(1.5), detail }))
}

/// Sign-ins where there are 1,000 connectors, one for each tenant, against those where there is one; `None` where Node is not
/// installed. Each of the two brokers has a provider of its own.
pub(crate) async fn among_many(effort: &Effort, folder: &Path) -> Result<Option<Figure>> {
    let Some(tools) = Tools::find() else { return Ok(None) };
    let mut brokers = Vec::new();
    for (name, others) in [("one", 0), ("many", 999)] {
        let provider = OidcProvider::start(&tools, Settings::new(name, vec![account(name, "1", "jane", &json!({}))])).await;
        let mut connector = provider.connector("acme-sso");
        if let Some(entry) = connector.as_object_mut() {
            entry.insert("tenant".to_owned(), json!({"fixed": "acme"}));
        }
        let home = folder.join(name);
        fs::create_dir_all(&home)?;
        let tenants: Vec<_> = (0..others).map(|n| json!({"id": format!("tenant-{n}")})).chain([json!({"id": "acme"})]).collect();
        let connectors: Vec<_> = (0..others).map(process::connector).chain([connector.clone()]).collect();
        let broker = Broker::start(&home, &json!(tenants), &json!(connectors)).await?;
        let issuer = format!("http://{}", broker.address);
        provider.register_at(&issuer, &connector, &Value::Null).await;
        for _ in 0..SIGN_INS {
            sign_in(&issuer, &provider).await?;
        }
        brokers.push((issuer, provider));
    }
    let (mut ratios, mut ones, mut manys) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let mut times = [Vec::new(), Vec::new()];
        // Sign-in by sign-in, so that what else the machine does meets both.
        for _ in 0..SIGN_INS {
            for ((issuer, provider), times) in brokers.iter().zip(&mut times) {
                times.push(sign_in(issuer, provider).await?.as_secs_f64() * 1e3);
            }
        }
        let [one, many] = times.map(|times| Spread::new(times).median());
        ratios.push(many / one);
        ones.push(one);
        manys.push(many);
    }
    let detail = format!(
        "Denizen's own two answers of a sign-in, median: with one {:.1} ms, with 1,000, one for each tenant, {:.1} ms",
        Spread::new(ones).median(),
        Spread::new(manys).median()
    );
    let name = "A sign-in with 1,000 connectors / with one";
    Ok(Some(Figure { name, unit: Unit::Ratio, spread: Spread::new(ratios), bound: Bound::AtMost(1.3), detail }))
}

/// The 95th of a hundred of a turn's sign-ins, in seconds.
async fn turn(issuer: &str, provider: &OidcProvider) -> Result<f64> {
    let mut times = Vec::with_capacity(SIGN_INS);
    for _ in 0..SIGN_INS {
        times.push(sign_in(issuer, provider).await?.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    times.get(SIGN_INS * 95 / 100).copied().context("there were sign-ins")
}

/// Signs someone in with a new browser, and gives the time that passed while the broker had to answer.
async fn sign_in(issuer: &str, provider: &OidcProvider) -> Result<Duration> {
    let mut browser = browser(issuer)?;
    let begun = Instant::now();
    let away = browser.open(&request("acme").path()).await;
    let first = begun.elapsed();
    let next = away.location().with_context(|| format!("no way to the provider: {}", away.text))?;
    let mut browser = browser.visiting(provider.issuer());
    let page: Answer = browser.open(next.as_str()).await;
    let back = browser.submit_until(&page, &provider.fields("jane"), issuer).await;
    let begun = Instant::now();
    let answer = browser.open(back.as_str()).await;
    answer.location().with_context(|| format!("no code: {}", answer.text))?;
    Ok(first + begun.elapsed())
}

fn browser(issuer: &str) -> Result<Browser> {
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).tls_certs_only([]);
    Ok(Browser::new(http.build()?, issuer))
}

fn request(tenant: &str) -> Authorization {
    Authorization::new("app", REDIRECT_URI).with("scope", "openid profile").with("tenant", tenant)
}

/// People at the silent provider's door.
struct Trying {
    over: Arc<AtomicBool>,
    people: Vec<tokio::task::JoinHandle<()>>,
}

impl Trying {
    fn begin(issuer: &str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let person = |_| {
            let (over, issuer) = (Arc::clone(&over), issuer.to_owned());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    if let Ok(mut browser) = browser(&issuer) {
                        browser.open(&request("globex").path()).await;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            })
        };
        Self { people: (0..TRYING).map(person).collect(), over }
    }

    /// Waits until each has their answer, so that none of them is in the next turn.
    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for person in self.people {
            _ = person.await;
        }
    }
}
