//! What goes over the channel on which replicas hear of each other, as bytes: the first says what it is.
//!
//! `c`: records changed, each told as `p` (written) or `d` (deleted), eight bytes of the digest of its key, and eight bytes (big endian):
//! the version that it was given, or when it was deleted (the server's time in microseconds, no less than the version that it had); the
//! script of a commit makes these. `k`: records of the kind of this name changed. `t`: a topic, NUL, and what is told.

use crate::store::{Kind, Topic};

/// Eight bytes of the digest of a record's key.
pub(super) type Digest = [u8; 8];

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// These records changed.
    Records(Vec<(Digest, Change)>),
    /// Records of this kind changed.
    Changed(Kind),
    /// Someone told this.
    Told(Topic, Vec<u8>),
    /// Something of a newer version, which is nothing to this one.
    Newer,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It has this version.
    Written(u64),
    /// It had a version no larger than this.
    Deleted(u64),
}

/// A message that tells something to all.
pub(super) fn telling(topic: Topic, text: &[u8]) -> Vec<u8> {
    [b"t".as_slice(), topic.as_str().as_bytes(), b"\0", text].concat()
}

/// What a message says; `None` for one that can not be read, which may say anything.
pub(super) fn parse(bytes: &[u8]) -> Option<Message> {
    let (tag, rest) = bytes.split_first()?;
    match tag {
        b'c' => records(rest).map(Message::Records),
        b'k' => Some(Kind::parse(std::str::from_utf8(rest).ok()?).map_or(Message::Newer, Message::Changed)),
        b't' => {
            let mut halves = rest.splitn(2, |byte| *byte == 0);
            let (topic, text) = (halves.next()?, halves.next()?);
            let topic = Topic::parse(std::str::from_utf8(topic).ok()?);
            Some(topic.map_or(Message::Newer, |topic| Message::Told(topic, text.to_vec())))
        }
        _ => None,
    }
}

fn records(mut rest: &[u8]) -> Option<Vec<(Digest, Change)>> {
    let mut records = Vec::with_capacity(rest.len() / 17);
    while let Some((tag, after)) = rest.split_first() {
        let (digest, after) = after.split_first_chunk::<8>()?;
        let (number, after) = after.split_first_chunk::<8>()?;
        let number = u64::from_be_bytes(*number);
        let change = match tag {
            b'p' => Change::Written(number),
            b'd' => Change::Deleted(number),
            _ => return None,
        };
        records.push((*digest, change));
        rest = after;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
        let records = b"cp12345678\0\0\0\0\0\0\0\x07dabcdefgh\0\0\0\0\0\0\x01\0";
        let expected = vec![(*b"12345678", Change::Written(7)), (*b"abcdefgh", Change::Deleted(256))];
        assert_eq!(parse(records), Some(Message::Records(expected)));
        assert_eq!(parse(b"ksigning-key"), Some(Message::Changed(Kind::SigningKey)));
        let told = telling(Topic::TokenTakenBack, b"\0 a token");
        assert_eq!(parse(&told), Some(Message::Told(Topic::TokenTakenBack, b"\0 a token".to_vec())));
    }

    #[test]
    fn what_is_newer_is_nothing_and_what_is_broken_may_be_anything() {
        assert_eq!(parse(b"knew"), Some(Message::Newer));
        assert_eq!(parse(b"tnew\0x"), Some(Message::Newer));
        for broken in [b"".as_slice(), b"x", b"cp1234567", b"cx12345678\0\0\0\0\0\0\0\x07", b"tnew", b"k\xff", b"cp12345678\0\0\0\0\0\0\0"]
        {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }
}
