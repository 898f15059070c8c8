//! What stands beside a message: OpenCloud's token, and by which id a call is found again. The token is never logged.

use tonic::metadata::MetadataMap;

use crate::cs3::Cs3Error;

/// Where OpenCloud's token is.
const TOKEN: &str = "x-access-token";
/// The longest id of a call that is taken over, in characters.
const LONGEST_ID: usize = 64;

/// The token, where there is one.
///
/// # Errors
/// Where there is something that can be no token: several values, an empty one, bytes that are no visible ASCII. None of these counts as
/// "no token", for that has rights of its own.
pub(super) fn token(metadata: &MetadataMap) -> Result<Option<&str>, Cs3Error> {
    let mut values = metadata.get_all(TOKEN).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Cs3Error::BadToken("there are several values"));
    }
    match value.to_str() {
        Ok("") => Err(Cs3Error::BadToken("it is empty")),
        Ok(token) => Ok(Some(token)),
        Err(_) => Err(Cs3Error::BadToken("it is not ASCII")),
    }
}

/// By which id the caller's own logs name the call: the trace of `traceparent` (W3C), else `x-request-id`; empty where there is neither.
pub(super) fn trace(metadata: &MetadataMap) -> &str {
    let text = |name: &str| metadata.get(name).and_then(|value| value.to_str().ok());
    let traced = text("traceparent").and_then(|parent| parent.split('-').nth(1));
    let traced = traced.filter(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_id = |id: &&str| id.len() <= LONGEST_ID && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    traced.or_else(|| text("x-request-id").filter(is_id)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tonic::metadata::MetadataValue;

    use super::*;

    fn with(pairs: &[(&'static str, &[u8])]) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        for (name, value) in pairs {
            metadata.append(*name, MetadataValue::try_from(*value).unwrap());
        }
        metadata
    }

    #[test]
    fn what_can_be_no_token_is_refused_and_does_not_count_as_none() {
        assert!(token(&with(&[])).unwrap().is_none());
        assert!(token(&with(&[("authorization", b"Bearer a")])).unwrap().is_none(), "only the one place");
        assert_eq!(token(&with(&[(TOKEN, b"a.b.c")])).unwrap(), Some("a.b.c"));
        for bad in
            [&[(TOKEN, b"a".as_slice()), (TOKEN, b"b")][..], &[(TOKEN, b"")], &[(TOKEN, "é".as_bytes())], &[(TOKEN, b"a"), (TOKEN, b"a")]]
        {
            assert!(matches!(token(&with(bad)), Err(Cs3Error::BadToken(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_call_is_found_again_by_the_callers_own_id() {
        let parent: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace(&with(&[("traceparent", parent), ("x-request-id", b"r1")])), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(trace(&with(&[("traceparent", b"00-zz-1-1"), ("x-request-id", b"r1")])), "r1");
        assert_eq!(trace(&with(&[("x-request-id", b"a b\"c")])), "", "no text of a stranger's own making");
        assert_eq!(trace(&with(&[("x-request-id", [b'a'; 65].as_slice())])), "");
    }
}
