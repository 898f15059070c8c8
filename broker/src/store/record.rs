//! The bytes of a stored record, the same in every store: version (8 bytes), expiry (8 bytes, milliseconds since 1970), value.

use time::OffsetDateTime;

use super::Entry;

/// Never: what stands for "no expiry".
pub(super) const NEVER: i64 = i64::MAX;

/// Milliseconds since 1970; far times are the nearest that fits.
pub(super) fn moment(at: OffsetDateTime) -> i64 {
    let milliseconds = at.unix_timestamp_nanos().div_euclid(1_000_000);
    i64::try_from(milliseconds).unwrap_or(if milliseconds > 0 { NEVER } else { i64::MIN })
}

/// The expiry as a time; `None` for [`NEVER`], and for what no calendar has.
pub(super) fn expiry(moment: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(moment) * 1_000_000).ok()
}

/// A value as it is stored.
pub(super) fn value(version: u64, expires_at: i64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + value.len());
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&expires_at.to_be_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// Version, expiry and value of what is stored; `None` where it is too short to be ours.
pub(super) fn parts(stored: &[u8]) -> Option<(u64, i64, &[u8])> {
    let (version, rest) = stored.split_first_chunk::<8>()?;
    let (expires_at, value) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*version), i64::from_be_bytes(*expires_at), value))
}

/// When the record expires, if it has not.
pub(super) fn live_until(stored: &[u8], now: i64) -> Option<i64> {
    parts(stored).map(|(_, expires_at, _)| expires_at).filter(|expires_at| now < *expires_at)
}

/// The record, if it has not expired.
pub(super) fn live(stored: &[u8], now: i64) -> Option<Entry> {
    let (version, expires_at, value) = parts(stored)?;
    (now < expires_at).then(|| Entry { value: value.to_vec(), version })
}
