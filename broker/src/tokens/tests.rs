//! Several replicas over one store: whose keys they are, who makes them, when they sign, and what is not known of them.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::*;
use crate::{
    config::{KeysConfig, Lifetimes, SigningAlgorithm},
    sealing::{InTheClear, Sealing, SealingError},
    seams::SystemEntropy,
    store::{
        Batch, Expect, Key, Kind, Lease, Outcome, Partition, Store,
        stand_in::{StandIn, stand_in},
    },
};

const BEGIN: i64 = 1_800_000_000;
const DAY: i64 = 86_400;
const ISSUER: &str = "https://id.example";

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(BEGIN + seconds).unwrap()
}

fn config(algorithms: &[SigningAlgorithm]) -> KeysConfig {
    KeysConfig { algorithms: algorithms.iter().copied().collect(), ..KeysConfig::default() }
}

/// A sealing with these keys, in a file.
async fn sealing(keys: &[u8], store: &Arc<StandIn>, folder: &Path) -> Sealing {
    sealing_where(InTheClear::Sealed, keys, store, folder).await
}

async fn sealing_where(in_the_clear: InTheClear, keys: &[u8], store: &Arc<StandIn>, folder: &Path) -> Sealing {
    let lines: Vec<_> = keys.iter().map(|key| format!("{key:02x}").repeat(32)).collect();
    let path = folder.join("key");
    std::fs::write(&path, lines.join("\n")).unwrap();
    Sealing::open(&**store, Arc::new(SystemEntropy), (Some(&path), in_the_clear), at(0)).await.unwrap()
}

/// A sealing that leaves the keys in the clear.
fn none() -> Sealing {
    Sealing::with(&[1; 32].into(), Arc::new(SystemEntropy)).unwrap()
}

async fn opened(
    store: &Arc<StandIn>,
    sealing: Sealing,
    who: u128,
    keys: &KeysConfig,
    now: OffsetDateTime,
) -> Result<Arc<KeyRing>, KeyError> {
    let holder = Some(Uuid::from_u128(who));
    let parts = RingParts { store: Arc::clone(store) as _, sealing, holder, keys, lifetimes: &Lifetimes::default() };
    KeyRing::open(parts, now).await.map(Arc::new)
}

async fn ring(store: &Arc<StandIn>, who: u128, now: OffsetDateTime) -> Arc<KeyRing> {
    opened(store, none(), who, &config(&[SigningAlgorithm::Es256]), now).await.unwrap()
}

fn published(ring: &KeyRing) -> BTreeSet<String> {
    ring.jwks().keys.iter().map(|key| key.common.key_id.clone().unwrap()).collect()
}

fn signs_with(ring: &KeyRing, now: i64) -> String {
    ring.signing(SigningAlgorithm::Es256, BEGIN + now).unwrap().kid.clone()
}

/// An access token of this ring.
fn token(ring: &KeyRing, now: i64) -> String {
    let claims = json!({
        "iss": ISSUER, "sub": Uuid::from_u128(1), "aud": "app", "client_id": "app", "jti": Uuid::from_u128(2),
        "iat": BEGIN + now, "exp": BEGIN + now + 600, "tenant_id": "acme", "preferred_username": "jane",
    });
    ring.sign(TokenType::Access, &claims, None, SigningAlgorithm::Es256, BEGIN + now).unwrap()
}

/// The values of all signing keys.
async fn values(store: &StandIn) -> Vec<(String, Vec<u8>, u64)> {
    let listing = store.list(&Partition::System, Kind::SigningKey, None, 100, at(0)).await.unwrap();
    listing.entries.into_iter().map(|(slot, entry)| (slot, entry.value, entry.version)).collect()
}

#[tokio::test]
async fn replicas_that_begin_at_once_with_clocks_apart_end_with_the_same_keys() {
    for (ahead, algorithms) in [
        (0, &[SigningAlgorithm::Es256][..]),
        (60, &[SigningAlgorithm::Es256]),
        (-60, &[SigningAlgorithm::Es256]),
        (60, &[SigningAlgorithm::Es256, SigningAlgorithm::Rs256, SigningAlgorithm::EdDsa]),
    ] {
        let store = stand_in();
        let folder = tempfile::tempdir().unwrap();
        let shut = sealing(&[7], &store, folder.path()).await;
        let config = config(algorithms);
        let (one, two, three) = tokio::join!(
            opened(&store, shut.clone(), 1, &config, at(0)),
            opened(&store, shut.clone(), 2, &config, at(ahead)),
            opened(&store, shut, 3, &config, at(ahead / 2)),
        );
        let (one, two, three) = (one.unwrap(), two.unwrap(), three.unwrap());
        assert_eq!(values(&store).await.len(), algorithms.len(), "none was made twice: {ahead} {algorithms:?}");
        assert!(published(&one).len() == algorithms.len() && published(&one) == published(&two) && published(&two) == published(&three));
        // Each signs with them, also where its clock is behind that of whoever made them.
        for ring in [&one, &two, &three] {
            for algorithm in algorithms {
                assert!(ring.signing(*algorithm, BEGIN - 60).is_some());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_whoever_makes_the_first_keys_and_takes_over_where_they_ended() {
    let store = stand_in();
    let dead = Lease::take(&*store, "keys", Uuid::from_u128(9), Duration::seconds(20), at(50)).await.unwrap();
    assert!(dead.is_some());
    let begun = tokio::time::Instant::now();
    let ring = ring(&store, 1, at(0)).await;
    assert!((70..80).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(published(&ring).len(), 1);
    // Whoever lost the turn writes nothing, were it only slow.
    let late = dead.unwrap().fence(Batch::new().put(Key::system(Kind::SigningKey, "late"), b"{}".to_vec(), None));
    assert_eq!(store.commit(late, at(60)).await.unwrap(), Outcome::Conflict);
}

#[tokio::test]
async fn one_replica_rotates_and_none_signs_before_all_publish() {
    let store = stand_in();
    // The third's clock is a minute behind, the second's a minute ahead.
    let skew = [0, 60, -60];
    let mut rings = Vec::new();
    for (who, skew) in (1..).zip(skew) {
        rings.push(ring(&store, who, at(skew)).await);
    }
    let mut first_published = std::collections::BTreeMap::<String, i64>::new();
    let mut first_signed = std::collections::BTreeMap::<String, i64>::new();
    // 100 days, a look each minute around the rotations and each hour otherwise; each replica's minute begins elsewhere.
    let mut now = 0;
    while now < 100 * DAY {
        let phase = now % (30 * DAY);
        let is_near = (29 * DAY - 3_600..29 * DAY + 600).contains(&phase) || !(600..30 * DAY - 3_600).contains(&phase);
        for (ring, skew) in rings.iter().zip(skew) {
            ring.rotate(at(now + skew)).await.unwrap();
            first_signed.entry(signs_with(ring, now + skew)).or_insert(now);
            now += 20;
        }
        let by_all = rings.iter().map(|ring| published(ring)).reduce(|one, other| &one & &other).unwrap();
        for kid in by_all {
            first_published.entry(kid).or_insert(now);
        }
        now += if is_near { 0 } else { 3_600 - now % 3_600 };
    }
    assert_eq!(first_published.len(), 4);
    assert_eq!(values(&store).await.len(), 4, "a key for each 30 days, and none twice");
    let mut by_time: Vec<_> = first_signed.iter().map(|(kid, signed)| (*signed, signed - first_published[kid])).collect();
    by_time.sort_unstable();
    for (signed, ahead) in by_time.iter().skip(1) {
        assert!(*ahead >= DAY, "at {signed} one signed with a key that all had published for {ahead} s only");
    }
}

#[tokio::test]
async fn a_rotation_that_comes_late_lets_the_key_before_sign_on_until_all_have_the_next() {
    let store = stand_in();
    let (one, other) = (ring(&store, 1, at(0)).await, ring(&store, 2, at(0)).await);
    let first = signs_with(&one, 0);
    // Nobody was there for a day before and an hour after its end.
    let late = 30 * DAY + 3_600;
    one.rotate(at(late)).await.unwrap();
    assert_eq!(published(&one).len(), 2);
    assert_eq!(signs_with(&one, late), first);
    assert_eq!(signs_with(&one, late + 119), first);
    other.rotate(at(late + 60)).await.unwrap();
    assert_eq!(published(&other), published(&one));
    assert_ne!(signs_with(&one, late + 120), first);
    assert_eq!(signs_with(&one, late + 120), signs_with(&other, late + 120));
    // What the first one signed last ends while it is published.
    one.rotate(at(late + 119 + 600)).await.unwrap();
    assert!(published(&one).contains(&first));
}

#[tokio::test]
async fn what_lay_in_the_clear_is_sealed_and_stays_the_same_key() {
    let store = stand_in();
    let folder = tempfile::tempdir().unwrap();
    let config = config(&[SigningAlgorithm::Es256, SigningAlgorithm::Rs256, SigningAlgorithm::EdDsa]);
    let before = opened(&store, none(), 1, &config, at(0)).await.unwrap();
    let private = |value: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(value).unwrap();
        value["pkcs8"].as_str().map(str::to_owned)
    };
    let clear: Vec<_> = values(&store).await.iter().map(|(_, value, _)| private(value).unwrap()).collect();
    assert_eq!(clear.len(), 3);
    let after = opened(&store, sealing(&[7], &store, folder.path()).await, 2, &config, at(1)).await.unwrap();
    assert_eq!(published(&after), published(&before));
    for (slot, value, _) in values(&store).await {
        assert_eq!(private(&value), None, "{slot}");
        let text = String::from_utf8(value).unwrap();
        assert!(clear.iter().all(|clear| !text.contains(clear.as_str())), "{slot}");
    }
    // Who has no file is told so, and makes no keys of their own.
    let error = opened(&store, none(), 3, &config, at(2)).await.unwrap_err();
    assert!(matches!(&error, KeyError::Sealing(SealingError::Locked { file: None, .. })), "{error}");
    assert_eq!(values(&store).await.len(), 3);
}

#[tokio::test]
async fn a_planted_key_in_the_clear_signs_nothing_and_stops_a_start_until_it_is_said_to_be_ours() {
    let (store, elsewhere, folder) = (stand_in(), stand_in(), tempfile::tempdir().unwrap());
    let config = config(&[SigningAlgorithm::Es256]);
    let shut = sealing_where(InTheClear::Refused, &[7], &store, folder.path()).await;
    let running = opened(&store, shut.clone(), 1, &config, at(0)).await.unwrap();
    let before = published(&running);
    // Whoever can write to the store has made a key of their own.
    let theirs = ring(&elsewhere, 2, at(5)).await;
    let (slot, value, _) = values(&elsewhere).await.remove(0);
    let put = Batch::new().put(Key::system(Kind::SigningKey, slot), value, None);
    assert_eq!(store.commit(put, at(5)).await.unwrap(), Outcome::Committed);
    let refused = |error: KeyError| assert!(matches!(error, KeyError::Sealing(SealingError::InTheClear(_))), "{error}");
    refused(running.read_again(at(10)).await.unwrap_err());
    refused(running.rotate(at(10)).await.unwrap_err());
    assert_eq!(published(&running), before, "the keys in force stay");
    let verifier = Verifier::new(Arc::clone(&running), ISSUER.to_owned());
    assert!(verifier.verify(UnverifiedToken::new(&token(&theirs, 10)), at(10)).await.is_err());
    refused(opened(&store, shut.clone(), 3, &config, at(10)).await.unwrap_err());
    // Said to be ours, it is sealed once, and good from then on.
    let open = sealing_where(InTheClear::Sealed, &[7], &store, folder.path()).await;
    assert_eq!(published(&opened(&store, open, 4, &config, at(20)).await.unwrap()).len(), 2);
    assert_eq!(published(&opened(&store, shut, 5, &config, at(30)).await.unwrap()).len(), 2);
}

#[tokio::test]
async fn the_sealing_key_is_changed_in_three_steps_and_the_ring_in_force_stays_where_one_is_missed() {
    let store = stand_in();
    let folder = tempfile::tempdir().unwrap();
    let config = config(&[SigningAlgorithm::Es256]);
    let start = async |keys: &[u8], who| opened(&store, sealing(keys, &store, folder.path()).await, who, &config, at(0)).await;
    let old = start(&[1], 1).await.unwrap();
    let kids = published(&old);
    let sealed_first = values(&store).await;
    // 1. The new key is added, at one replica after the other.
    let one = start(&[1, 2], 1).await.unwrap();
    assert_eq!(values(&store).await, sealed_first, "nothing is written without need");
    // 2. It comes first, at one replica after the other: the one that has not begun anew opens it all the same.
    let two = start(&[2, 1], 2).await.unwrap();
    let sealed_anew = values(&store).await;
    assert_ne!(sealed_anew, sealed_first);
    for ring in [&one, &two] {
        ring.rotate(at(1)).await.unwrap();
        assert_eq!(published(ring), kids);
    }
    assert_eq!(values(&store).await, sealed_anew, "it does not seal it back");
    start(&[2, 1], 1).await.unwrap();
    // 3. The old one goes.
    let alone = start(&[2], 1).await.unwrap();
    assert_eq!(published(&alone), kids);
    // A replica that missed it all keeps what is in force, and says why at each turn.
    let error = old.rotate(at(2)).await.unwrap_err();
    assert!(matches!(&error, KeyError::Sealing(SealingError::Locked { file: Some(_), .. })), "{error}");
    assert_eq!((published(&old), signs_with(&old, 2)), (kids, signs_with(&alone, 2)));
    // Begun anew, it does not begin, and says which file.
    let error = start(&[1], 1).await.unwrap_err().to_string();
    assert!(error.contains(folder.path().to_str().unwrap()) && error.contains("as its last line"), "{error}");
}

#[tokio::test]
async fn a_sealed_key_is_bound_to_its_slot_and_its_times() {
    let store = stand_in();
    let folder = tempfile::tempdir().unwrap();
    let config = config(&[SigningAlgorithm::Es256]);
    let shut = sealing(&[1], &store, folder.path()).await;
    let ring = opened(&store, shut, 1, &config, at(0)).await.unwrap();
    let (slot, value, _) = values(&store).await.remove(0);
    let stored: serde_json::Value = serde_json::from_slice(&value).unwrap();
    let put = async |slot: &str, value: &serde_json::Value| {
        store.commit(Batch::new().put(Key::system(Kind::SigningKey, slot), value.to_string().into_bytes(), None), at(0)).await.unwrap();
    };
    for (member, other) in [("signs_from", 0), ("signs_until", i64::MAX / 1_000_000), ("published_until", BEGIN + 99 * DAY)] {
        let mut changed = stored.clone();
        changed[member] = json!(other);
        put(&slot, &changed).await;
        assert!(matches!(ring.rotate(at(1)).await, Err(KeyError::Sealing(_))), "{member}");
    }
    put(&slot, &stored).await;
    ring.rotate(at(1)).await.unwrap();
    put("es256-1", &stored).await;
    assert!(matches!(ring.rotate(at(1)).await, Err(KeyError::Sealing(_))), "another slot");
}

#[tokio::test(start_paused = true)]
async fn a_token_with_an_unknown_key_has_the_store_read_once_for_all_and_not_again_for_five_seconds() {
    let store = stand_in();
    let (one, other) = (ring(&store, 1, at(0)).await, ring(&store, 2, at(0)).await);
    // The first makes a key of which the second has not heard, and signs with it.
    one.rotate(at(29 * DAY)).await.unwrap();
    let genuine = token(&one, 31 * DAY);
    let verifier = Arc::new(Verifier::new(Arc::clone(&other), ISSUER.to_owned()));
    let forged = |n: usize| {
        let header = format!(r#"{{"typ":"at+jwt","alg":"ES256","kid":"{n:043}"}}"#);
        format!("{}.{}", B64.encode(header), genuine.split_once('.').unwrap().1)
    };
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    let lists = || store.lists.load(Ordering::SeqCst);
    let before = lists();
    let flood: Vec<_> = (0..200).map(forged).collect();
    let judge = async |text: &str| verifier.verify(UnverifiedToken::new(text), at(31 * DAY)).await;
    let judged = futures_util::future::join_all(flood.iter().map(|text| judge(text))).await;
    assert!(judged.iter().all(|judged| matches!(judged, Err(Unverified::Forged(Forged::UnknownKey)))));
    assert_eq!(lists() - before, 1, "once for all");
    assert_eq!(judge(&genuine).await.unwrap().preferred_username, "jane", "it is known now");
    for text in &flood {
        assert!(judge(text).await.is_err());
    }
    assert_eq!(lists() - before, 1, "and not again");
    // What is no thumbprint is no key's name, however long it goes on.
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    let odd = format!("{}.e30.AA", B64.encode(r#"{"typ":"at+jwt","alg":"ES256","kid":"x"}"#));
    assert!(matches!(judge(&odd).await, Err(Unverified::Forged(Forged::UnknownKey))));
    assert_eq!(lists() - before, 1);
    assert!(judge(&forged(7)).await.is_err());
    assert_eq!(lists() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_told_is_not_forged() {
    let store = stand_in();
    let (one, other) = (ring(&store, 1, at(0)).await, ring(&store, 2, at(0)).await);
    one.rotate(at(29 * DAY)).await.unwrap();
    let genuine = token(&one, 31 * DAY);
    let verifier = Verifier::new(Arc::clone(&other), ISSUER.to_owned());
    let judge = async || verifier.verify(UnverifiedToken::new(&genuine), at(31 * DAY)).await;
    tokio::time::advance(std::time::Duration::from_secs(6)).await;
    store.is_gone.store(true, Ordering::Relaxed);
    let before = store.lists.load(Ordering::SeqCst);
    for _ in 0..50 {
        assert!(matches!(judge().await, Err(Unverified::Store(_))));
    }
    assert_eq!(store.lists.load(Ordering::SeqCst) - before, 1, "a store that is gone is not asked for each");
    assert!(matches!(verifier.id_token(UnverifiedToken::new(&genuine), at(31 * DAY)).await, Ok(None)), "it is no ID token, for sure");
    // What is known is verified without it.
    let known = token(&other, 0);
    assert!(verifier.verify(UnverifiedToken::new(&known), at(0)).await.is_ok());
    store.is_gone.store(false, Ordering::Relaxed);
    assert!(judge().await.is_err(), "it was asked just now");
    tokio::time::advance(std::time::Duration::from_secs(6)).await;
    assert!(judge().await.is_ok());
}

#[tokio::test]
async fn what_others_made_is_taken_up() {
    let store = stand_in();
    let (one, other) = (ring(&store, 1, at(0)).await, ring(&store, 2, at(0)).await);
    one.rotate(at(29 * DAY)).await.unwrap();
    assert_ne!(published(&other), published(&one));
    other.read_again(at(29 * DAY)).await.unwrap();
    assert_eq!(published(&other), published(&one));
    store.is_gone.store(true, Ordering::Relaxed);
    assert!(other.read_again(at(29 * DAY)).await.is_err());
    assert_eq!(published(&other), published(&one), "those in force stay");
}

#[tokio::test]
async fn a_store_that_takes_no_writes_leaves_the_keys_in_force_and_what_others_made_is_taken_up() {
    let store = stand_in();
    let (one, other) = (ring(&store, 1, at(0)).await, ring(&store, 2, at(0)).await);
    one.rotate(at(29 * DAY)).await.unwrap();
    store.refuses.store(true, Ordering::Relaxed);
    other.rotate(at(29 * DAY)).await.unwrap();
    assert_eq!(published(&other), published(&one));
    assert!(other.rotate(at(60 * DAY)).await.is_err());
    assert_eq!(published(&other).len(), 1, "the first has ended");
    store.is_gone.store(true, Ordering::Relaxed);
    let kids = published(&other);
    assert!(other.rotate(at(60 * DAY)).await.is_err());
    assert_eq!(published(&other), kids);
    // A turn that could not be given back ends by itself.
    store.is_gone.store(false, Ordering::Relaxed);
    store.refuses.store(false, Ordering::Relaxed);
    let held = Batch::new().expect(Key::system(Kind::Lease, "keys"), Expect::Absent);
    assert_eq!(store.commit(held, at(60 * DAY)).await.unwrap(), Outcome::Committed);
    other.rotate(at(60 * DAY)).await.unwrap();
    assert_eq!(published(&other).len(), 2);
}
