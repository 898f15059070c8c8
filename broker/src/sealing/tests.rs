//! Keys from the store and from files, several of them, and what is bound to where.

use super::*;
use crate::{
    seams::SystemEntropy,
    store::{Batch, embedded::Embedded},
};

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn sealing(key: u8) -> Sealing {
    Sealing::with(&Zeroizing::new([key; 32]), Arc::new(SystemEntropy)).unwrap()
}

#[test]
fn what_is_sealed_opens_where_it_belongs_and_nowhere_else() {
    let sealing = sealing(1);
    let sealed = sealing.seal(b"refresh", &["upstream-grant", "acme", "sso", "1"]).unwrap();
    let opened = |sealing: &Sealing, to: &[&str]| sealing.unseal(&sealed, to).map(|text| text.to_vec());
    assert_eq!(opened(&sealing, &["upstream-grant", "acme", "sso", "1"]).as_deref(), Some(b"refresh".as_slice()));
    for other in [
        &["upstream-grant", "globex", "sso", "1"][..],
        &["upstream-grant", "acme", "other", "1"],
        &["upstream-grant", "acme", "sso", "2"],
        &["upstream-grant", "acmes", "so", "1"],
        &["upstream-grant", "acme", "sso"],
    ] {
        assert_eq!(opened(&sealing, other), None, "{other:?}");
    }
    assert_eq!(opened(&self::sealing(2), &["upstream-grant", "acme", "sso", "1"]), None, "another key");
    assert!(!sealed.contains("refresh"));
    assert_ne!(sealing.seal(b"refresh", &["upstream-grant", "acme", "sso", "1"]).unwrap(), sealed, "each nonce is its own");
}

#[test]
fn what_was_touched_does_not_open() {
    let sealing = sealing(1);
    let sealed = sealing.seal(b"refresh", &["a"]).unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert!(sealing.unseal(&URL_SAFE_NO_PAD.encode(bytes), &["a"]).is_none(), "byte {at}");
    }
    for text in ["", "AAAA", "no base64 !", sealed.split_at(20).0] {
        assert!(sealing.unseal(text, &["a"]).is_none());
    }
}

#[test]
fn keys_of_files() {
    let key = [0xa5_u8; 32];
    let hex = "A5".repeat(32);
    for text in [hex.as_str(), &hex.to_lowercase(), &format!(" {} \n", STANDARD.encode(key)), &URL_SAFE_NO_PAD.encode(key)] {
        assert_eq!(key_of(text).map(|key| *key), Some(key), "{text}");
    }
    for text in ["", "short", hex.split_at(62).0, &"g".repeat(64), &STANDARD.encode([1; 31]), &STANDARD.encode([1; 33]), &"é".repeat(32)] {
        assert!(key_of(text).is_none(), "{text}");
    }
}

fn entropy() -> Arc<dyn Entropy> {
    Arc::new(SystemEntropy)
}

/// A file with these keys, one a line.
fn file(folder: &Path, keys: &[u8]) -> PathBuf {
    let path = folder.join("key");
    let lines: Vec<_> = keys.iter().map(|key| STANDARD.encode([*key; 32])).collect();
    std::fs::write(&path, format!("{}\n\n", lines.join("\n"))).unwrap();
    path
}

#[test]
fn the_first_of_several_seals_and_all_open() {
    let of = |keys: &[u8]| Sealing::of(&keys.iter().map(|key| Zeroizing::new([*key; 32])).collect::<Vec<_>>(), None, entropy()).unwrap();
    let by_old = sealing(1).seal(b"x", &["a"]).unwrap();
    let both = of(&[2, 1]);
    assert!(!both.unlock(&by_old, &["a"], String::new).unwrap().is_by_first);
    let by_new = both.seal(b"x", &["a"]).unwrap();
    assert!(both.unlock(&by_new, &["a"], String::new).unwrap().is_by_first);
    assert!(of(&[1, 2]).unseal(&by_new, &["a"]).is_some());
    assert!(of(&[1]).unseal(&by_new, &["a"]).is_none());
    assert!(of(&[2]).unseal(&by_old, &["a"]).is_none());
    assert!(both.unseal(&by_old, &["b"]).is_none(), "bound elsewhere");
}

#[test]
fn files_of_several_keys() {
    let (one, two) = (STANDARD.encode([1; 32]), "02".repeat(32));
    let read = keys_of(&format!("\n {one}\r\n\n{two}")).unwrap();
    assert_eq!(read.iter().map(|key| key[0]).collect::<Vec<_>>(), [1, 2]);
    for text in ["", "\n \n", "short", &format!("{one}\nshort"), &format!("{one} {two}")] {
        assert!(keys_of(text).is_none(), "{text}");
    }
}

#[tokio::test]
async fn the_store_keeps_its_own_key() {
    let store = Embedded::in_memory().unwrap();
    let sealed = Sealing::open(&store, entropy(), (None, InTheClear::Sealed), NOW).await.unwrap().seal(b"x", &["a"]).unwrap();
    let again = Sealing::open(&store, entropy(), (None, InTheClear::Sealed), NOW).await.unwrap();
    assert!(again.unseal(&sealed, &["a"]).is_some(), "the same after a restart");
    assert!(!again.lies_outside());
}

#[tokio::test]
async fn what_is_wrong_with_the_file_is_told_with_its_path() {
    let store = Embedded::in_memory().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let open = || Sealing::open(&store, entropy(), (Some(&path), InTheClear::Sealed), NOW);
    let told = |error: SealingError| {
        let text = error.to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        text
    };
    assert!(told(open().await.unwrap_err()).contains("can not be read"));
    for text in ["not a key", "", &format!("{}\nsecret-but-short", STANDARD.encode([7; 32]))] {
        std::fs::write(&path, text).unwrap();
        let told = told(open().await.unwrap_err());
        assert!(told.contains("openssl rand") && !told.contains("secret-but-short"), "{told}");
    }
}

#[tokio::test]
async fn a_file_that_comes_later_opens_what_was_sealed_before_and_shuts_the_stores_own_key() {
    let store = Embedded::in_memory().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let before = Sealing::open(&store, entropy(), (None, InTheClear::Sealed), NOW).await.unwrap().seal(b"x", &["a"]).unwrap();
    let own = Key::system(Kind::SealingKey, "upstreams");
    let clear = store.get(&own, NOW).await.unwrap().unwrap().value;
    let path = file(folder.path(), &[7]);
    for _ in 0..2 {
        let sealing = Sealing::open(&store, entropy(), (Some(&path), InTheClear::Sealed), NOW).await.unwrap();
        assert!(sealing.lies_outside());
        assert_eq!(sealing.unseal(&before, &["a"]).unwrap().as_slice(), b"x");
        let after = sealing.seal(b"y", &["a"]).unwrap();
        assert!(self::sealing(7).unseal(&after, &["a"]).is_some(), "the file's key seals");
    }
    let shut = store.get(&own, NOW).await.unwrap().unwrap().value;
    assert!(shut.len() > 32 && !shut.windows(8).any(|part| clear.windows(8).any(|other| part == other)));
    // Without the file, or with another key, it says so.
    let error = Sealing::open(&store, entropy(), (None, InTheClear::Sealed), NOW).await.unwrap_err();
    assert!(matches!(error, SealingError::Locked { file: None, .. }), "{error}");
    assert!(error.to_string().contains("no store.sealingKeyFile"), "{error}");
    let error = Sealing::open(&store, entropy(), (Some(&file(folder.path(), &[8])), InTheClear::Sealed), NOW).await.unwrap_err();
    assert!(error.to_string().contains("as its last line") && error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_new_store_with_a_file_has_no_key_of_its_own() {
    let store = Embedded::in_memory().unwrap();
    let folder = tempfile::tempdir().unwrap();
    Sealing::open(&store, entropy(), (Some(&file(folder.path(), &[7])), InTheClear::Sealed), NOW).await.unwrap();
    assert!(store.get(&Key::system(Kind::SealingKey, "upstreams"), NOW).await.unwrap().is_none());
}

#[tokio::test]
async fn kept_secrets_are_made_once_and_sealed_anew_under_the_first_key() {
    let store = Arc::new(Embedded::in_memory().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let slot = Key::system(Kind::MacKey, "browsers");
    let under = async |keys: &[u8]| {
        let sealing = Sealing::open(&*store, entropy(), (Some(&file(folder.path(), keys)), InTheClear::Sealed), NOW).await.unwrap();
        kept::made_once(&*store, &slot, Some(&sealing), &SystemEntropy, NOW).await
    };
    let version = async || store.get(&slot, NOW).await.unwrap().unwrap().version;
    let (one, other) = tokio::join!(under(&[1]), under(&[1]));
    let made = one.unwrap();
    assert_eq!(*made, *other.unwrap(), "of two that make it at once, both have the winner's");
    // The three steps of an operator: added, first, alone.
    assert_eq!(*under(&[1, 2]).await.unwrap(), *made);
    let before = version().await;
    assert_eq!(*under(&[2, 1]).await.unwrap(), *made);
    let after = version().await;
    assert!(after > before, "sealed anew");
    assert_eq!(*under(&[2]).await.unwrap(), *made);
    assert_eq!(version().await, after, "nothing is written without need");
    assert!(matches!(under(&[1]).await, Err(SealingError::Locked { .. })));
    // What lay in the clear is sealed; what is neither is told.
    let put = async |value: Vec<u8>| {
        store.commit(Batch::new().put(slot.clone(), value, None), NOW).await.unwrap();
    };
    put(vec![9; 32]).await;
    assert_eq!(*under(&[2]).await.unwrap(), [9; 32]);
    let value = store.get(&slot, NOW).await.unwrap().unwrap().value;
    assert!(value.starts_with(b"{") && !value.windows(4).any(|part| part == [9; 4]));
    for value in [vec![9; 31], b"{}".to_vec(), Vec::new()] {
        put(value).await;
        assert!(matches!(under(&[2]).await, Err(SealingError::Damaged(_))));
    }
    // Another slot's does not open here.
    let sealing = Sealing::open(&*store, entropy(), (Some(&file(folder.path(), &[2])), InTheClear::Sealed), NOW).await.unwrap();
    let elsewhere = Key::system(Kind::MacKey, "elsewhere");
    kept::made_once(&*store, &elsewhere, Some(&sealing), &SystemEntropy, NOW).await.unwrap();
    put(store.get(&elsewhere, NOW).await.unwrap().unwrap().value).await;
    assert!(matches!(under(&[2]).await, Err(SealingError::Locked { .. })));
}

#[tokio::test]
async fn what_was_planted_in_the_clear_is_not_believed_where_others_can_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &[7]);
    let open = async |store: &Embedded, what| Sealing::open(store, entropy(), (Some(&path), what), NOW).await;
    for slot in [Key::system(Kind::SealingKey, "upstreams"), Key::system(Kind::MacKey, "browsers")] {
        let store = Embedded::in_memory().unwrap();
        let planted = Batch::new().put(slot.clone(), vec![9; 32], None);
        store.commit(planted, NOW).await.unwrap();
        let refused = match open(&store, InTheClear::Refused).await {
            Ok(sealing) => kept::made_once(&store, &slot, Some(&sealing), &SystemEntropy, NOW).await.map(drop),
            Err(error) => Err(error),
        };
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(slot.id()) && text.contains("denizen store seal"), "{text}");
        assert_eq!(store.get(&slot, NOW).await.unwrap().unwrap().value, [9; 32], "nothing was sealed");
        let sealing = open(&store, InTheClear::Sealed).await.unwrap();
        assert_eq!(*kept::made_once(&store, &slot, Some(&sealing), &SystemEntropy, NOW).await.unwrap(), [9; 32]);
        let sealing = open(&store, InTheClear::Refused).await.unwrap();
        assert_eq!(*kept::made_once(&store, &slot, Some(&sealing), &SystemEntropy, NOW).await.unwrap(), [9; 32], "sealed once, it is good");
    }
}

#[tokio::test]
async fn the_stores_own_key_opens_what_upstreams_gave_and_no_key_of_ours() {
    let (store, folder) = (Embedded::in_memory().unwrap(), tempfile::tempdir().unwrap());
    // It lay in the clear once, so whoever has a copy of the store from then has it.
    let known = Sealing::open(&store, entropy(), (None, InTheClear::Sealed), NOW).await.unwrap();
    let sealed = known.seal(b"x", &["a"]).unwrap();
    let sealing = Sealing::open(&store, entropy(), (Some(&file(folder.path(), &[7])), InTheClear::Sealed), NOW).await.unwrap();
    assert!(sealing.unseal(&sealed, &["a"]).is_some());
    assert!(matches!(sealing.unlock(&sealed, &["a"], String::new), Err(SealingError::Locked { .. })));
}
