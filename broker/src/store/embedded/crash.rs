//! `kill -9`: a child process writes and says what was answered; after its death every one of those writes is there.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use time::OffsetDateTime;

use super::Embedded;
use crate::store::{Batch, Expect, Key, Kind, Outcome, Store as _};

const FILE: &str = "DENIZEN_TEST_CRASH_FILE";
const ROUND: &str = "DENIZEN_TEST_CRASH_ROUND";
const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn key(id: impl Into<String>) -> Key {
    Key::system(Kind::Attempt, id)
}

/// The child. Four tasks write pairs of records, each pair in one batch, and print its name once it is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is the child process of the test below"]
async fn child() {
    let (Ok(file), Ok(round)) = (std::env::var(FILE), std::env::var(ROUND)) else { return };
    let store = std::sync::Arc::new(Embedded::open(Path::new(&file)).unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (store, round) = (std::sync::Arc::clone(&store), round.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    let id = format!("{round}-{task}-{n}");
                    let batch = Batch::new().expect(key(id.as_str()), Expect::Absent).put(key(id.as_str()), vec![1; 200], None).put(
                        key(format!("{id}-twin")),
                        vec![2; 200],
                        None,
                    );
                    assert_eq!(store.commit(batch, NOW).await.unwrap(), Outcome::Committed);
                    // One write, so that no line is torn by another task's.
                    std::io::stdout().write_all(format!("answered {id}\n").as_bytes()).unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn what_was_answered_outlives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("denizen.db");
    let mut answered = Vec::new();
    let mut last_version = 0;
    // The moment of death differs from round to round by the number of answers that are waited for.
    for (round, wait_for) in [0, 1, 7, 40, 133, 300].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::embedded::crash::child", "--ignored", "--nocapture", "--test-threads=1"])
            .env(FILE, &path)
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The test harness's own text may stand on the line before ours.
        let id_of = |line: String| line.split_once("answered ").map(|(_, id)| id.to_owned());
        let mut this_round: Vec<_> = lines.by_ref().filter_map(id_of).take(wait_for).collect();
        assert_eq!(this_round.len(), wait_for, "the child wrote");
        child.kill().unwrap();
        child.wait().unwrap();
        this_round.extend(lines.filter_map(id_of));
        answered.extend(this_round);

        let store = Embedded::open(&path).unwrap();
        for id in &answered {
            for id in [id.clone(), format!("{id}-twin")] {
                let entry = store.get(&key(id.as_str()), NOW).await.unwrap();
                assert_eq!(entry.map(|entry| entry.value.len()), Some(200), "{id} was answered, and is lost");
            }
        }
        // A batch that was not answered is there wholly or not at all.
        let (mut cursor, mut whole, mut twins) = (None, 0, 0);
        loop {
            let page = store.list(&crate::store::Partition::System, Kind::Attempt, cursor.as_deref(), 1_000, NOW).await.unwrap();
            let of_page = page.entries.iter().filter(|(id, _)| id.ends_with("-twin")).count();
            twins += of_page;
            whole += page.entries.len() - of_page;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(whole, twins);
        store.commit(Batch::new().put(key("~last"), vec![], None).put(key("~last-twin"), vec![], None), NOW).await.unwrap();
        let version = store.get(&key("~last"), NOW).await.unwrap().unwrap().version;
        assert!(version > last_version, "{version} after {last_version}");
        last_version = version;
    }
    assert!(answered.len() >= 481);
}
