//! Notices that a users file has changed, and loads it.
//!
//! The folder is watched, not the file: editors and Kubernetes replace a file, or a symbolic link on the way to it, and
//! a watch on the old file would never speak again.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use arc_swap::ArcSwap;
use claims_mapping::ConnectorId;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind};

use super::{parse, read, users::Users};

/// How long the folder must be quiet before the file is read, so that it is not read half written.
const QUIET: Duration = Duration::from_millis(100);
/// How many times the wait is prolonged in a folder that is never quiet.
const MOST_WAITS: usize = 10;

/// A watch; it ends when this is dropped.
pub(super) struct Watch {
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Starts to watch. Where the system does not let it, that is logged, and the users stay as they are.
    /// `text` is what was loaded: a change since then counts.
    pub(super) fn start(path: PathBuf, text: String, id: ConnectorId, fixed_tenant: bool, users: &Arc<ArcSwap<Users>>) -> Option<Self> {
        let (sender, changes) = mpsc::channel();
        let not_watched = |error: &dyn std::fmt::Display| {
            tracing::error!(connector.id = %id, file = %path.display(), %error, "the users file is not watched: changes need a restart");
        };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), PathBuf::from);
        let on_event = move |event: notify::Result<notify::Event>| {
            // Our own reading is an event too; following it would never end.
            let read_only = matches!(&event, Ok(e) if matches!(e.kind, EventKind::Access(AccessKind::Open(_) | AccessKind::Read)));
            if !read_only {
                _ = sender.send(());
            }
        };
        let watcher = notify::recommended_watcher(on_event).and_then(|mut watcher| {
            watcher.watch(&folder, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        let watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                not_watched(&error);
                return None;
            }
        };
        let thread = std::thread::Builder::new().name(format!("users-{id}")).spawn({
            let (users, id, path) = (Arc::downgrade(users), id.clone(), path.clone());
            move || {
                let mut last = Ok(text);
                loop {
                    let now = read(&path);
                    let Some(users) = users.upgrade() else { return };
                    if now != last {
                        reload(&path, &now, &id, fixed_tenant, &users);
                        last = now;
                    }
                    drop(users);
                    if changes.recv().is_err() {
                        return;
                    }
                    for _ in 0..MOST_WAITS {
                        if changes.recv_timeout(QUIET).is_err() {
                            break;
                        }
                    }
                    while changes.try_recv().is_ok() {}
                }
            }
        });
        if let Err(error) = thread {
            not_watched(&error);
            return None;
        }
        Some(Self { _watcher: watcher })
    }
}

fn reload(path: &Path, text: &Result<String, String>, id: &ConnectorId, fixed_tenant: bool, users: &ArcSwap<Users>) {
    match text.as_ref().map_err(|fault| vec![fault.clone()]).and_then(|text| parse(path, text, fixed_tenant)) {
        Ok(new) => {
            tracing::info!(connector.id = %id, file = %path.display(), users = new.len(), "the users file was read again");
            users.store(Arc::new(new));
        }
        Err(faults) => {
            for fault in faults {
                tracing::error!(connector.id = %id, %fault, "the users file has a fault; the users stay as they were");
            }
        }
    }
}
