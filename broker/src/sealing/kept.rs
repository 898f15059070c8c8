//! Secrets of our own, 32 bytes each, that the store keeps: made once, the same for all replicas, and sealed where a key to seal with
//! lies outside of the store.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::{KeyBytes, Sealing, SealingError};
use crate::{
    seams::Entropy,
    store::{Batch, Expect, Key, Store},
};

/// The form that is stored; in the clear it is the 32 bytes alone.
#[derive(Serialize, Deserialize)]
struct Sealed {
    sealed: String,
}

/// The secret of a slot, which is made where there is none; of two replicas that make it at once, one wins, and both take up the
/// winner's.
///
/// # Errors
/// When it can not be opened, or the store could not tell.
pub(crate) async fn made_once(
    store: &dyn Store,
    slot: &Key,
    sealing: Option<&Sealing>,
    entropy: &dyn Entropy,
    now: OffsetDateTime,
) -> Result<KeyBytes, SealingError> {
    if let Some(secret) = found(store, slot, sealing, now).await? {
        return Ok(secret);
    }
    let mut made = Zeroizing::new([0; 32]);
    entropy.fill(&mut made[..]);
    let value = stored(&made, slot, outside(sealing))?;
    store.commit(Batch::new().expect(slot.clone(), Expect::Absent).put(slot.clone(), value, None), now).await?;
    found(store, slot, sealing, now).await?.ok_or_else(|| SealingError::Damaged(name(slot)))
}

/// The secret of a slot, where there is one. What lies in the clear, where that is believed, or is sealed with a key that does not seal any more, is sealed
/// anew; of two replicas that do so at once, one does it, and the secret is the same.
///
/// # Errors
/// When it can not be opened, or the store could not tell.
pub(crate) async fn found(
    store: &dyn Store,
    slot: &Key,
    sealing: Option<&Sealing>,
    now: OffsetDateTime,
) -> Result<Option<KeyBytes>, SealingError> {
    let Some(entry) = store.get(slot, now).await? else { return Ok(None) };
    let value = Zeroizing::new(entry.value);
    let damaged = || SealingError::Damaged(name(slot));
    let what = || format!("the store's {}", name(slot));
    let clear = <[u8; 32]>::try_from(value.as_slice()).map(Zeroizing::new);
    let lay_in_the_clear = clear.is_ok();
    let (secret, is_as_wanted) = if let Ok(clear) = clear {
        sealing.map_or(Ok(()), |sealing| sealing.believes_in_the_clear(what))?;
        (clear, outside(sealing).is_none())
    } else {
        let Sealed { sealed } = serde_json::from_slice(&value).map_err(|_| damaged())?;
        let sealing = sealing.ok_or_else(|| SealingError::Locked { what: what(), file: None })?;
        let unsealed = sealing.unlock(&sealed, &bound_to(slot), what)?;
        (Zeroizing::new(<[u8; 32]>::try_from(unsealed.text.as_slice()).map_err(|_| damaged())?), unsealed.is_by_first)
    };
    if !is_as_wanted {
        let anew = stored(&secret, slot, outside(sealing))?;
        store.commit(Batch::new().expect(slot.clone(), Expect::Version(entry.version)).put(slot.clone(), anew, None), now).await?;
        if lay_in_the_clear {
            tracing::warn!(kept = name(slot), "lay in the clear until now; copies of the store from before still have it so");
        }
        tracing::info!(kept = name(slot), "sealed with the first key of store.sealingKeyFile");
    }
    Ok(Some(secret))
}

fn stored(secret: &KeyBytes, slot: &Key, sealing: Option<&Sealing>) -> Result<Vec<u8>, SealingError> {
    let Some(sealing) = sealing else { return Ok(secret.to_vec()) };
    let sealed = Sealed { sealed: sealing.seal(&secret[..], &bound_to(slot))? };
    serde_json::to_vec(&sealed).map_err(|_| SealingError::Refused)
}

/// Only a key that is not in the store itself.
fn outside(sealing: Option<&Sealing>) -> Option<&Sealing> {
    sealing.filter(|sealing| sealing.lies_outside())
}

fn bound_to(slot: &Key) -> [&str; 2] {
    [slot.kind().as_str(), slot.id()]
}

fn name(slot: &Key) -> String {
    format!("{} `{}`", slot.kind().as_str(), slot.id())
}
