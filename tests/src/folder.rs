//! Folders for the servers' files.

use std::{fs, path::PathBuf, process::Child, sync::OnceLock};

use tempfile::{Builder, TempDir};

use crate::process::at_the_end;

/// A new folder. It is removed when it is dropped, and when the test program ends in any other way. Where `DENIZEN_TESTS_KEEP` names a
/// folder, it is made in that one and stays: what servers logged can be read afterwards.
///
/// # Panics
/// When none can be made.
#[must_use]
pub fn new(name: &str) -> TempDir {
    static ALL: OnceLock<(PathBuf, Child)> = OnceLock::new();
    if let Some(kept) = std::env::var_os("DENIZEN_TESTS_KEEP") {
        fs::create_dir_all(&kept).unwrap();
        return Builder::new().prefix(&format!("{name}-")).disable_cleanup(true).tempdir_in(kept).unwrap();
    }
    let (all, _) = ALL.get_or_init(|| {
        let all = TempDir::with_prefix("denizen-tests-").unwrap().keep();
        // The servers are killed at the same moment; one that is not quite gone may write once more.
        let watchdog = at_the_end("sleep 1; rm -rf \"$0\"; sleep 4; rm -rf \"$0\"", all.to_str().unwrap());
        (all, watchdog)
    });
    TempDir::with_prefix_in(format!("{name}-"), all).unwrap()
}
