//! A Keystone's files with everything of [`super::fixtures`], which takes some ten seconds to make: once, in the cache, in a folder
//! that is named by what it is made of. Each actor starts on a copy.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use aws_lc_rs::rand::{SystemRandom, generate};
use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::{
    Settings,
    api::{self, Api},
    fixtures::{DEFAULT_NAME, Fixtures},
    server::{self, Place},
};
use crate::{configuration::password_of, ports, tools};

/// Whatever changes what is in a template.
const MADE_FROM: [&[u8]; 5] = [
    tools::KEYSTONE_MADE_FROM,
    include_bytes!("api.rs"),
    include_bytes!("fixtures.rs"),
    include_bytes!("server.rs"),
    include_bytes!("template.rs"),
];
/// What is copied.
const FILES: [&str; 6] = ["keystone.db", "fixtures.json", "fernet/0", "fernet/1", "credential/0", "credential/1"];

/// Puts a copy into a folder, and tells what is in it.
pub(super) async fn copy(environment: &Path, to: &Path) -> Fixtures {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    let template = MADE.get_or_init(|| find_or_make(environment)).await;
    make_key_folders(to);
    for name in FILES {
        fs::copy(template.join(name), to.join(name)).unwrap();
    }
    serde_json::from_slice(&fs::read(to.join("fixtures.json")).unwrap()).unwrap()
}

async fn find_or_make(environment: &Path) -> PathBuf {
    let cache = tools::cache().expect("Keystone was found there");
    let template = cache.join(format!("keystone-template-{}", tools::hash(&MADE_FROM)));
    // Suites of several checkouts may be at it, each in a process of its own. The lock goes with this process, however it ends.
    let lock = File::create(cache.join("keystone-template.lock")).unwrap();
    while let Err(error) = lock.try_lock() {
        assert!(matches!(error, TryLockError::WouldBlock), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if !template.join("fixtures.json").is_file() {
        let made = TempDir::with_prefix_in("keystone-template-new-", &cache).unwrap();
        make(environment, made.path()).await;
        // What was left by one that was made halfway.
        _ = fs::remove_dir_all(&template);
        fs::rename(made.path(), &template).unwrap();
    }
    template
}

async fn make(environment: &Path, folder: &Path) {
    make_key_folders(folder);
    // As `keystone-manage fernet_setup` and `credential_setup` do it: 0 is the next key, 1 the present one.
    for name in ["fernet/0", "fernet/1", "credential/0", "credential/1"] {
        fs::write(folder.join(name), URL_SAFE.encode(generate::<[u8; 32]>(&SystemRandom::new()).unwrap().expose())).unwrap();
    }
    let place = Place { folder, port: ports::free(), tls: None };
    server::configure(&place, &Settings::default());
    let password = password_of(DEFAULT_NAME, "admin");
    manage(environment, folder, &["db_sync"]);
    manage(environment, folder, &["bootstrap", "--bootstrap-password", &password, "--bootstrap-public-url", &place.url()]);
    let mut process = server::run(environment, &place);
    server::ready(&mut process, &place.url(), None).await;
    let fixtures = Fixtures::make(&api::administrator(&Api::new(&place.url(), None)).await).await;
    process.stop().await;
    fs::write(folder.join("fixtures.json"), serde_json::to_vec(&fixtures).unwrap()).unwrap();
}

/// Keystone warns of keys that others may read.
fn make_key_folders(folder: &Path) {
    for name in ["fernet", "credential"] {
        fs::DirBuilder::new().mode(0o700).create(folder.join(name)).unwrap();
    }
}

fn manage(environment: &Path, folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(environment.join("bin/python"));
    command.arg("-B").arg(environment.join("bin/keystone-manage")).arg("--config-file").arg(folder.join("keystone.conf"));
    let output = command.args(arguments).env_remove("PYTHONPATH").output().unwrap();
    assert!(output.status.success(), "keystone-manage {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
