//! Codes exchanged over HTTP, against the durable commits of the bare store: the same store, on the same disk, with as many
//! committers as there are connections, each commit of the same records and sizes as an exchange's.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use claims_mapping::TenantId;
use denizen::{
    seams::SystemEntropy,
    secret_text::random_uuid,
    store::{Batch, Expect, Key, Kind, Outcome, Partition, Store, embedded::Embedded},
};
use futures_util::{StreamExt as _, stream};

use super::{
    Effort,
    broker::{Broker, KUBERNETES, Person, REDIRECT_URI, now, request},
    figures::Figure,
    load::{Load, Requests, Round},
    machine::{Cores, cpu_seconds},
    review::Turns,
};

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// How many are prepared at once, so that a flush of the disk serves many.
const PREPARED_AT_ONCE: usize = 256;

/// The measurement, with few and with many connections.
pub(crate) async fn measure(effort: &Effort, cores: &Cores, folder: &Path, broker: &Broker, people: &[Person]) -> Result<Vec<Figure>> {
    let sizes = Sizes::of(broker).await?;
    let mut figures = Vec::new();
    for (connections, name) in [(16, "A code exchanged, 16 connections"), (64, "A code exchanged, 64 connections")] {
        let load = Load { cores, folder, connections, seconds: effort.seconds };
        figures.push(rounds(effort, &load, broker, people, sizes).await?.figure(name, 0.5));
    }
    Ok(figures)
}

async fn rounds(effort: &Effort, load: &Load<'_>, broker: &Broker, people: &[Person], sizes: Sizes) -> Result<Turns> {
    let requests = Requests { path: "/oauth2/token", content_type: "application/x-www-form-urlencoded", authorization: None };
    let file = load.folder.join("bare.redb");
    let bare: Arc<dyn Store> = Arc::new(Embedded::open(&file)?);
    let mut turns = Turns::default();
    // More than a round takes: each is used once.
    let mut many = 40_000 * usize::try_from(load.seconds)?;
    for round in 0..=effort.rounds {
        let keys = prepare(&bare, many, sizes.live).await?;
        let codes = codes(broker, people, many).await?;
        let forms = load.file("codes", &requests, codes.iter().map(|code| form(code)))?;
        let floor = commit(&bare, keys, load.connections, sizes, Duration::from_secs(load.seconds)).await?;
        let own = load.round(broker.address, &forms, false).await?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let next = (floor.answers.max(own.answers) * 2.0) as usize;
        many = many.max(next);
        turns.push(round, floor, own);
    }
    drop(bare);
    std::fs::remove_file(file)?;
    Ok(turns)
}

fn form(code: &str) -> String {
    format!(
        "grant_type=authorization_code&client_id=app&code={code}&redirect_uri={}&code_verifier={VERIFIER}",
        REDIRECT_URI.replace(':', "%3A").replace('/', "%2F")
    )
}

async fn codes(broker: &Broker, people: &[Person], many: usize) -> Result<Vec<String>> {
    let request = request(VERIFIER, KUBERNETES);
    let given = stream::iter((0..many).zip(people.iter().cycle()))
        .map(|(_, person)| broker.app.grants.give_code(&request, &person.signed_in, &person.session, now()))
        .buffer_unordered(PREPARED_AT_ONCE);
    Ok(given.collect::<Vec<_>>().await.into_iter().collect::<Result<_, _>>()?)
}

/// How many bytes the records of an exchange have.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    live: usize,
    used: usize,
    family: usize,
}

impl Sizes {
    /// As the people's own first exchanges left them; a code that still can be used holds its request.
    async fn of(broker: &Broker) -> Result<Self> {
        let partition = Partition::Tenant(TenantId::parse("acme")?);
        let store = &broker.app.seams.store;
        let one = async |kind| -> Result<usize> {
            let page = store.list(&partition, kind, None, 1, now()).await?;
            Ok(page.entries.first().context("someone has exchanged a code")?.1.value.len())
        };
        Ok(Self { live: 520, used: one(Kind::Code).await?, family: one(Kind::Grant).await? })
    }
}

async fn prepare(store: &Arc<dyn Store>, many: usize, size: usize) -> Result<Vec<Key>> {
    let tenant = TenantId::parse("acme")?;
    let keys: Vec<_> =
        (0..many).map(|_| Key::new(&tenant, Kind::Code, format!("{}-0123456789", random_uuid(&SystemEntropy).simple()))).collect();
    let put =
        keys.iter().map(|key| store.commit(Batch::new().put(key.clone(), vec![b'x'; size], Some(now() + Duration::from_secs(600))), now()));
    stream::iter(put).buffer_unordered(PREPARED_AT_ONCE).collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(keys)
}

/// One round of the bare store.
async fn commit(store: &Arc<dyn Store>, keys: Vec<Key>, committers: usize, sizes: Sizes, round: Duration) -> Result<Round> {
    let (keys, next, begun, before) = (Arc::new(keys), Arc::new(AtomicU64::new(0)), Instant::now(), cpu_seconds()?);
    let committer = || {
        let (store, keys, next) = (Arc::clone(store), Arc::clone(&keys), Arc::clone(&next));
        async move {
            let tenant = TenantId::parse("acme")?;
            let mut done = 0_u32;
            while begun.elapsed() < round {
                let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed))?;
                let code = keys.get(index).context("more was committed in a round than was prepared")?.clone();
                let until = Some(now() + Duration::from_secs(1_209_600));
                let family = Key::new(&tenant, Kind::Grant, random_uuid(&SystemEntropy).to_string());
                let batch = Batch::new().expect(code.clone(), Expect::Present).put(code, vec![b'x'; sizes.used], until);
                let outcome = store.commit(batch.put(family, vec![b'x'; sizes.family], until), now()).await?;
                ensure!(outcome == Outcome::Committed, "a commit of the bare store met a conflict");
                done += 1;
            }
            anyhow::Ok(f64::from(done))
        }
    };
    let running: Vec<_> = (0..committers).map(|_| tokio::spawn(committer())).collect();
    let mut answers = 0.0;
    for one in running {
        answers += one.await??;
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - before);
    Ok(Round { rate: answers / seconds, answers, cpu_micros: cpu / answers * 1e6, p95_micros: f64::NAN })
}
