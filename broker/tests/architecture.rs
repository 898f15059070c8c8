//! What the house promises of itself, held against its sources.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[expect(clippy::unwrap_used, clippy::panic, reason = "a test's own reading")]
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            if path.ends_with("tests") {
                continue;
            } else if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") && !path.ends_with("conformance.rs") {
                let text = fs::read_to_string(&path).unwrap();
                // What stands in a file's own tests is no part of the program.
                let program = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
                found.push((path, program));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

fn is_below(path: &Path, names: &[&str]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let relative = path.strip_prefix(&root).unwrap_or(path);
    let first = relative.components().next().map(|c| c.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned());
    first.is_some_and(|first| names.contains(&first.as_str()))
}

#[test]
fn nothing_below_the_front_doors_names_their_libraries() {
    for (path, text) in sources("src") {
        if !is_below(&path, &["http", "grpc", "cli", "main"]) {
            for library in ["axum", "tonic", "tonic_health", "tonic_prost", "tonic_reflection", "prost", "grpc", "askama", "clap"] {
                let named = text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(&format!("{library}::")));
                assert!(!named, "{} names {library}", path.display());
            }
        }
    }
}

#[test]
fn a_scope_is_made_in_one_place() {
    let places: Vec<_> =
        sources("src").into_iter().chain(sources("../connectors/src")).filter(|(_, t)| t.contains("of_verified_caller")).collect();
    let places: Vec<_> = places.iter().map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(places, ["caller.rs"]);
}

#[test]
fn every_module_says_what_it_owns_and_stays_short() {
    for (path, text) in sources("src").into_iter().chain(sources("../connectors/src")).chain(sources("../claims-mapping/src")) {
        assert!(text.starts_with("//!"), "{} does not open with //!", path.display());
        assert!(text.lines().count() <= 600, "{} is longer than 600 lines", path.display());
    }
    assert!(fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs")).unwrap().lines().count() <= 60);
}
