//! The programs that do not come from Debian: a pinned Node and Python with their packages, as `tests/run` installs them in its cache.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use aws_lc_rs::digest::{SHA256, digest};

/// Where they are.
#[derive(Debug, Clone)]
pub struct Tools {
    folder: PathBuf,
}

/// What they are made from; the cache names their folder by it. `tests/install.sh` computes the same.
const MADE_FROM: [&[u8]; 3] =
    [include_bytes!("../python/requirements.txt"), include_bytes!("../node/package.json"), include_bytes!("../node/package-lock.json")];

/// The same for Keystone.
pub(crate) const KEYSTONE_MADE_FROM: &[u8] = include_bytes!("../python/keystone-requirements.txt");

impl Tools {
    /// Where they are, or `None` where they are not installed: then a suite says that it did not run.
    ///
    /// # Panics
    /// Where they are not installed, and the environment says that every suite must run.
    #[must_use]
    pub fn find() -> Option<Self> {
        Some(Self { folder: installed("tools", &MADE_FROM, "Node and Python with their packages")? })
    }

    /// Runs one of the scripts in `tests/node`.
    #[must_use]
    pub fn node(&self, script: &str) -> Command {
        let mut command = Command::new(self.folder.join("node"));
        command.arg(script_path("node", script)).env("NODE_PATH", self.folder.join("node_modules")).env_remove("NODE_OPTIONS");
        command
    }

    /// Runs one of the scripts in `tests/python`.
    #[must_use]
    pub fn python(&self, script: &str) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.arg("-B").arg(script_path("python", script)).env("PYTHONUNBUFFERED", "1").env_remove("PYTHONPATH");
        command
    }
}

/// The Python environment that Keystone is in, or `None` where it is not installed: then a suite says that it did not run.
///
/// # Panics
/// Where it is not installed, and the environment says that every suite must run.
pub(crate) fn keystone() -> Option<PathBuf> {
    Some(installed("keystone", &[KEYSTONE_MADE_FROM], "Keystone")?.join("venv"))
}

/// The Python environment that CS3's own package is in, or `None` where it is not installed: then a suite says that it did not run.
///
/// # Panics
/// Where it is not installed, and the environment says that every suite must run.
pub(crate) fn cs3apis() -> Option<PathBuf> {
    Some(installed("cs3apis", &[include_bytes!("../python/cs3apis-requirements.txt")], "cs3apis")?.join("venv"))
}

/// What OpenCloud's program is made from, in the order of `tests/install.sh`.
const OPENCLOUD_MADE_FROM: [&[u8]; 8] = [
    include_bytes!("../opencloud/adapt"),
    include_bytes!("../opencloud/go.mod"),
    include_bytes!("../opencloud/go.sum"),
    include_bytes!("../opencloud/main.go"),
    include_bytes!("../opencloud/sources/go.mod"),
    include_bytes!("../opencloud/sources/go.sum"),
    include_bytes!("../opencloud/added/reva/cmd/revad/runtime/loader.go"),
    include_bytes!("../opencloud/added/reva/pkg/utils/ldap/extended.go"),
];

/// OpenCloud's program, or `None` where it is not built: then a suite says that it did not run.
///
/// # Panics
/// Where it is not built, and the environment says that every suite must run.
pub(crate) fn opencloud() -> Option<PathBuf> {
    let program = cache()?.join(format!("opencloud-{}", hash(&OPENCLOUD_MADE_FROM)));
    there(program.is_file(), &program, "OpenCloud").then_some(program)
}

fn installed(name: &str, made_from: &[&[u8]], what: &str) -> Option<PathBuf> {
    let folder = cache()?.join(format!("{name}-{}", hash(made_from)));
    there(folder.join("complete").is_file(), &folder, what).then_some(folder)
}

/// Whether it is there. Where not, this says so, or panics where every suite must run.
fn there(is_there: bool, path: &Path, what: &str) -> bool {
    let is_set = |name: &str| std::env::var(name).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    if !is_there {
        assert!(!is_set("CI") && !is_set("DENIZEN_REQUIRE_ALL"), "{} is not there: tests/run installs it", path.display());
        tell(what);
    }
    is_there
}

/// Past the test runner, which keeps what a passing test prints to itself.
fn tell(what: &str) {
    _ = writeln!(std::io::stderr(), "NOT RUN: not installed: {what}; tests/run installs what is missing");
}

pub(crate) fn script_path(folder: &str, script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(script)
}

pub(crate) fn cache() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    Some(named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?.join("denizen-tests"))
}

pub(crate) fn hash(made_from: &[&[u8]]) -> String {
    let hash = digest(&SHA256, &made_from.concat());
    hash.as_ref().iter().take(6).fold(String::new(), |mut name, byte| {
        write!(name, "{byte:02x}").unwrap();
        name
    })
}
