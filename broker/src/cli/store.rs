//! `denizen store …`.

mod check;
mod progress;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use time::{Duration, OffsetDateTime};

use self::progress::Progress;
use super::say;
use crate::{
    app,
    config::{self, Config},
    replicas,
    seams::{Clock as _, Seams, SystemClock},
    store::Backend,
    transfer::{
        self, PAGE, Selection, Tally,
        export_file::{Reading, Writing},
    },
};

/// How old an export may be whose sessions and tokens are taken up without being asked for.
const FRESH: Duration = Duration::hours(1);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Say whether the store can be used, what it may lose when a server of it fails, and which replicas are on it. 0: it can be used;
    /// 1: it can not.
    Check {
        /// The configuration.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
    },
    /// Write all records to a file. It holds secrets, and is its owner's only. One that broke off is gone on with.
    Export {
        /// The configuration.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
        /// The file; it must not be there yet.
        #[arg(long)]
        to: PathBuf,
        /// Also while replicas are at work: what they write meanwhile may or may not be in it. Such a file is for keys, ids and people
        /// (`import --lasting`).
        #[arg(long)]
        online: bool,
    },
    /// Read the records of a file into the store. What is there stays as it is, so that an import that broke off is simply begun again.
    Import {
        /// The configuration.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
        /// The file.
        #[arg(long)]
        from: PathBuf,
        #[command(flatten)]
        selection: Selected,
    },
    /// Seal the keys that lie in the clear, with the first key of `store.sealingKeyFile`; `import` and `migrate` do it themselves. Over Redis
    /// Denizen believes no such key, for whoever can write there could have made it: only where you brought them there yourself.
    Seal {
        /// The configuration.
        #[arg(long, env = "DENIZEN_CONFIG")]
        config: PathBuf,
    },
    /// Carry all records from the store of one configuration to the store of another: from a file to Redis, or back. Denizen must not run
    /// meanwhile, and afterwards not on the old store. One that broke off is simply begun again.
    Migrate {
        /// The configuration with the store that was used so far.
        #[arg(long)]
        from_config: PathBuf,
        /// The configuration with the store that is used from now on.
        #[arg(long)]
        to_config: PathBuf,
    },
}

/// What is taken of an export.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(super) struct Selected {
    /// Only keys, ids, people and tenants: everyone signs in anew, and nothing that was used or ended can come back.
    #[arg(long)]
    lasting: bool,
    /// Everything, also of an export that is older than an hour. Only where no Denizen has worked since: tokens that were used, and sessions
    /// that were ended since then, would be good again.
    #[arg(long)]
    everything: bool,
}

pub(super) async fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let now = SystemClock.now();
    match command {
        Command::Check { config } => return check::run(config, now).await,
        Command::Export { config, to, online } => {
            let from = open(config).await?;
            if !online {
                from.nobody_works().await?;
            }
            let (writing, progress) = export(&from.backend, to, *online, now).await?;
            if !online && let Err(error) = from.nobody_works().await {
                // One started meanwhile: what is in the file may be older than what is there now.
                writing.give_up()?;
                return Err(error);
            }
            progress.end();
            let records = writing.end()?;
            say(format!("{records} records are in {}; it holds secrets: keep it as you keep keys, and remove it afterwards", to.display()));
        }
        Command::Import { config, from, selection } => {
            let reading = Reading::open(from)?;
            let selection = selection.of(&reading, now)?;
            let to = open(config).await?;
            to.nobody_works().await?;
            told(&import(reading, &to.backend, selection, now).await?);
            to.seal().await?;
        }
        Command::Seal { config } => {
            let store = open(config).await?;
            store.nobody_works().await?;
            store.seal().await?;
        }
        Command::Migrate { from_config, to_config } => {
            let (from, to) = (open(from_config).await?, open(to_config).await?);
            from.nobody_works().await?;
            to.nobody_works().await?;
            let progress = Progress::new(None);
            let tally =
                transfer::copy(&*from.backend.scan, &*to.backend.store, Selection::Everything, now, |tally| progress.at(tally.all()))
                    .await?;
            progress.end();
            told(&tally);
            from.nobody_works().await.context("what was carried may be older than what is there now")?;
            to.seal().await?;
            say("do not start Denizen on the old store again: what is used or ended from now on would be good there");
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Selected {
    fn of(&self, reading: &Reading, now: OffsetDateTime) -> anyhow::Result<Selection> {
        let age = now - reading.begun_at;
        match self {
            Self { lasting: true, .. } => Ok(Selection::Lasting),
            Self { everything: false, .. } if reading.is_online => bail!(
                "the export was written while replicas may have been at work (`--online`): tokens that were used and sessions that were ended meanwhile would be \
                 good again; `--lasting` takes only what can not come back"
            ),
            Self { everything: false, .. } if age > FRESH => bail!(
                "the export is {} h old: tokens that were used and sessions that were ended since then would be good again; `--lasting` takes only what can not \
                 come back, `--everything` all of it, where no Denizen has worked since",
                age.whole_hours()
            ),
            Self { .. } => Ok(Selection::Everything),
        }
    }
}

/// The store of a configuration, as it lies there: its values are not read.
struct Opened<'a> {
    path: &'a Path,
    config: Config,
    backend: Backend,
}

async fn open(path: &Path) -> anyhow::Result<Opened<'_>> {
    let config = config::load(path)?.config;
    if config.store.file.is_none() && config.store.redis.is_none() {
        bail!("{}: it has neither `store.file` nor `store.redis`, so that there is nothing to work on", path.display());
    }
    let backend = Backend::open(&config.store).await.with_context(|| path.display().to_string())?;
    Ok(Opened { path, config, backend })
}

impl Opened<'_> {
    /// Seals the keys that lie in the clear, where there is a key to do it with.
    async fn seal(&self) -> anyhow::Result<()> {
        let Some(file) = &self.config.store.sealing_key_file else { return Ok(()) };
        let seams = Seams::of_machine(self.backend.clone());
        app::seal_keys(&self.config, seams).await.with_context(|| self.path.display().to_string())?;
        say(format!("the keys in the store are sealed with the first key of {}", file.display()));
        Ok(())
    }

    async fn nobody_works(&self) -> anyhow::Result<()> {
        // Whose clock is behind is alive for longer than it seems.
        let live = replicas::live(&*self.backend.store, SystemClock.now() - replicas::APART).await?;
        if live.is_empty() {
            return Ok(());
        }
        bail!(
            "{}: {} replicas of Denizen are at work on this store; stop them first (one that was killed is forgotten after 75 s)",
            self.path.display(),
            live.len()
        );
    }
}

async fn export(from: &Backend, to: &Path, online: bool, now: OffsetDateTime) -> anyhow::Result<(Writing, Progress)> {
    let (mut writing, mut cursor) = Writing::begin(to, online, now)?;
    if cursor.is_some() {
        say(format!("going on with the export that broke off after {} records", writing.records()));
    }
    let progress = Progress::new(None);
    loop {
        let page = from.scan.scan(cursor.as_deref(), PAGE).await?;
        let records: Vec<_> = page.records.into_iter().filter(|record| Selection::Everything.takes(record.key.kind())).collect();
        writing.page(&records, page.next.as_deref())?;
        progress.at(writing.records());
        cursor = page.next;
        if cursor.is_none() {
            return Ok((writing, progress));
        }
    }
}

async fn import(mut reading: Reading, to: &Backend, selection: Selection, now: OffsetDateTime) -> anyhow::Result<Tally> {
    let progress = Progress::new(Some(reading.records));
    let mut tally = Tally::default();
    loop {
        let page = reading.page(PAGE)?;
        if page.is_empty() {
            progress.end();
            return Ok(tally);
        }
        tally.add(transfer::write(&*to.store, &page, selection, now).await?);
        progress.at(tally.all());
    }
}

fn told(tally: &Tally) {
    let Tally { written, there, left } = tally;
    say(format!(
        "{written} records written, {there} were there already and stay as they are, {left} left out (expired, or not to be carried)"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_bring_something_back_is_taken_where_someone_says_so_only() {
        let folder = tempfile::tempdir().unwrap();
        let now = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000);
        let selected = |online: bool, age: Duration, lasting: bool, everything: bool| {
            let path = folder.path().join(format!("{online}-{}", age.whole_minutes()));
            if !path.exists() {
                Writing::begin(&path, online, now - age).unwrap().0.end().unwrap();
            }
            Selected { lasting, everything }.of(&Reading::open(&path).unwrap(), now)
        };
        let (fresh, old) = (Duration::minutes(5), Duration::hours(2));
        assert_eq!(selected(false, fresh, false, false).unwrap(), Selection::Everything);
        assert!(selected(false, old, false, false).unwrap_err().to_string().contains("2 h old"));
        assert!(selected(true, fresh, false, false).unwrap_err().to_string().contains("`--online`"));
        for (online, age) in [(true, fresh), (false, old)] {
            assert_eq!(selected(online, age, true, false).unwrap(), Selection::Lasting);
            assert_eq!(selected(online, age, false, true).unwrap(), Selection::Everything);
        }
    }
}
