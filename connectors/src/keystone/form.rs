//! Whether a text has the form of a Keystone token, so that other tokens never reach Keystone: Fernet, or a JWS of Keystone's own.
//!
//! Proves nothing; the times in it are for whoever wrote it to choose. It is strict all the same: a Keystone may answer a token that
//! it could not have made with an error (500) or not at all, and whoever wrote such ones would make it seem to be down.

use base64::{
    Engine as _,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;
use serde_json::Value;
use time::{Duration, OffsetDateTime};

/// The longest text that is looked at, in bytes. Keystone's tokens have some hundred, and those of a person whom an identity provider put into a
/// hundred groups less than this; two of them, and the rest of a request, are within what every HTTP server takes (8 KiB for a header, nginx and gunicorn).
const MOST_BYTES: usize = 3 * 1024;
/// The length of an ES256 signature, in bytes (RFC 7518, 3.4).
const SIGNATURE: usize = 64;
/// Version, time, one vector, one signature (the Fernet specification): what a token has besides its blocks of 16 bytes.
const FRAME: usize = 1 + 8 + 16 + 32;
/// How far ahead of ours the clock of a Keystone may be.
const MOST_AHEAD: Duration = Duration::minutes(5);
/// Keystone strips the padding, and takes tokens that have it.
const B64: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// The form of a token, with the times that it says of itself, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Fernet { made_at: u64 },
    Jws { expires_at: i64 },
}

impl Form {
    /// The form of a Keystone token; `None` where the text is none.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text.len() > MOST_BYTES {
            return None;
        }
        fernet(text).or_else(|| jws(text))
    }

    /// Whether it may be in force, by what it says itself.
    pub(super) fn may_be_in_force(self, now: OffsetDateTime) -> bool {
        match self {
            Self::Fernet { made_at } => i64::try_from(made_at).is_ok_and(|made_at| made_at <= (now + MOST_AHEAD).unix_timestamp()),
            Self::Jws { expires_at } => expires_at > now.unix_timestamp(),
        }
    }
}

fn fernet(text: &str) -> Option<Form> {
    // The version and the upper bytes of any time until the year 4147.
    if !text.starts_with("gAAAAA") {
        return None;
    }
    let bytes = B64.decode(text).ok()?;
    let (&version, rest) = bytes.split_first()?;
    let (time, _) = rest.split_first_chunk::<8>()?;
    let blocks = bytes.len().checked_sub(FRAME)?;
    (version == 0x80 && blocks > 0 && blocks % 16 == 0).then_some(Form::Fernet { made_at: u64::from_be_bytes(*time) })
}

fn jws(text: &str) -> Option<Form> {
    /// Keystone signs with ES256, and writes nothing else. PyJWT, by which it reads tokens, rejects some other members with errors that
    /// Keystone does not expect (500).
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Header {
        alg: String,
        typ: Option<String>,
    }
    #[derive(Deserialize)]
    struct Payload {
        openstack_methods: Vec<String>,
        exp: i64,
        iss: Option<Value>,
    }
    let mut parts = text.split('.');
    let (Some(header), Some(payload), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    if !B64.decode(signature).is_ok_and(|signature| signature.len() == SIGNATURE) {
        return None;
    }
    let header: Header = serde_json::from_slice(&B64.decode(header).ok()?).ok()?;
    let payload: Payload = serde_json::from_slice(&B64.decode(payload).ok()?).ok()?;
    // Keystone says nobody's name.
    let own = header.alg == "ES256"
        && header.typ.is_none_or(|typ| typ == "JWT")
        && payload.iss.is_none()
        && !payload.openstack_methods.is_empty();
    own.then_some(Form::Jws { expires_at: payload.exp })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{URL_SAFE as PADDED, URL_SAFE_NO_PAD as BARE};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn bytes(version: u8, made_at: u64, rest: usize) -> Vec<u8> {
        let mut bytes = vec![version];
        bytes.extend(made_at.to_be_bytes());
        bytes.extend((0..rest).map(|n| u8::try_from(n * 37 % 251).unwrap()));
        bytes
    }

    fn signed(header: &Value, payload: &Value) -> String {
        format!("{}.{}.{}", BARE.encode(header.to_string()), BARE.encode(payload.to_string()), BARE.encode([7; 64]))
    }

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(i64::try_from(NOW).unwrap() + seconds).unwrap()
    }

    #[test]
    fn fernet_tokens_are_known_with_and_without_padding() {
        for blocks in 1..20 {
            let token = bytes(0x80, NOW, 48 + 16 * blocks);
            for text in [PADDED.encode(&token), BARE.encode(&token)] {
                assert_eq!(Form::of(&text), Some(Form::Fernet { made_at: NOW }), "{text}");
            }
        }
    }

    #[test]
    fn what_only_looks_like_fernet_is_not_taken() {
        for (version, rest) in [(0x80, 48), (0x80, 0), (0x80, 48 + 15), (0x80, 48 + 17), (0x81, 64), (0x00, 64)] {
            assert_eq!(Form::of(&BARE.encode(bytes(version, NOW, rest))), None, "{version} {rest}");
        }
        let good = BARE.encode(bytes(0x80, NOW, 64));
        for wrong in [
            format!("{good}!"),
            format!(" {good}"),
            format!("{good}\n"),
            good.replacen("gAAAAA", "gAAAAA+", 1),
            "gAAAAA".to_owned(),
            "gAAAAA=".to_owned(),
            String::new(),
        ] {
            assert_eq!(Form::of(&wrong), None, "{wrong}");
        }
        assert!(Form::of(&BARE.encode(bytes(0x80, NOW, 48 + 16 * 140))).is_some());
        assert_eq!(Form::of(&BARE.encode(bytes(0x80, NOW, 48 + 16 * 144))), None, "longer than any token");
    }

    #[test]
    fn t03_tokens_of_service_accounts_of_denizen_and_of_others_are_not_keystones() {
        let header = json!({"alg": "ES256", "typ": "JWT"});
        let own = json!({"sub": "u", "iat": NOW, "exp": NOW + 60, "openstack_methods": ["password"], "openstack_audit_ids": ["a"]});
        assert_eq!(Form::of(&signed(&header, &own)), Some(Form::Jws { expires_at: 1_800_000_060 }));
        let others = [
            json!({"iss": "https://kubernetes.default.svc.cluster.local", "sub": "system:serviceaccount:default:default", "exp": NOW + 60}),
            json!({"iss": "https://denizen.example", "sub": "u", "exp": NOW + 60, "tenant_id": "t"}),
            json!({"iss": "https://kubernetes.default.svc", "exp": NOW + 60, "openstack_methods": ["password"]}),
            json!({"sub": "u", "exp": NOW + 60}),
            json!({"sub": "u", "exp": NOW + 60, "openstack_methods": []}),
            json!({"sub": "u", "exp": NOW + 60, "openstack_methods": "password"}),
            json!({"sub": "u", "openstack_methods": ["password"]}),
            json!([]),
        ];
        for payload in others {
            assert_eq!(Form::of(&signed(&header, &payload)), None, "{payload}");
        }
        for alg in ["none", "HS256", "RS256"] {
            assert_eq!(Form::of(&signed(&json!({"alg": alg}), &own)), None, "{alg}");
        }
        for header in [
            json!({"alg": "ES256", "kid": 7}),
            json!({"alg": "ES256", "kid": "../key"}),
            json!({"alg": "ES256", "crit": ["x"]}),
            json!({"alg": "ES256", "crit": 7}),
            json!({"alg": "ES256", "typ": "JWT", "b64": false}),
            json!({"alg": "ES256", "typ": "at+jwt"}),
            json!({"alg": "ES256", "typ": 7}),
            json!({"alg": ["ES256"]}),
            json!({"typ": "JWT"}),
        ] {
            assert_eq!(Form::of(&signed(&header, &own)), None, "{header}");
        }
        assert!(Form::of(&signed(&json!({"alg": "ES256"}), &own)).is_some());
        let token = signed(&header, &own);
        let (unsigned_part, _) = token.rsplit_once('.').unwrap();
        for length in [1, 63, 65, 96, 128] {
            assert_eq!(Form::of(&format!("{unsigned_part}.{}", BARE.encode(vec![7; length]))), None, "a signature of {length} bytes");
        }
        let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
        for wrong in [unsigned, format!("{token}.x"), token.replacen('.', "", 1), format!(".{token}"), "a.b.c".to_owned(), "..".to_owned()]
        {
            assert_eq!(Form::of(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_token_says_of_its_own_time_can_rule_it_out() {
        let fernet = |made_at| Form::Fernet { made_at };
        assert!(fernet(NOW).may_be_in_force(at(0)) && fernet(NOW + 300).may_be_in_force(at(0)) && fernet(0).may_be_in_force(at(0)));
        assert!(!fernet(NOW + 301).may_be_in_force(at(0)) && !fernet(u64::MAX).may_be_in_force(at(0)));
        let jws = Form::Jws { expires_at: at(10).unix_timestamp() };
        assert!(jws.may_be_in_force(at(9)) && !jws.may_be_in_force(at(10)));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC*", more in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Form::of(&text);
            let fernet = Form::of(&format!("gAAAAA{}", BARE.encode(&more)));
            let is_jws = matches!(fernet, Some(Form::Jws { .. }));
            prop_assert!(!is_jws);
        }
    }
}
