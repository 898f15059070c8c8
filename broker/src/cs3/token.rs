//! OpenCloud's own access tokens (reva's): HS256 with a secret that both sides have. Here it is told whether one is genuine and in
//! time, and what it says; whether that is still so, `cs3/caller.rs` judges at each use.

use std::{collections::BTreeMap, fmt, sync::Arc};

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use connectors::Secret;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};
use time::OffsetDateTime;

use crate::slots::{Fingerprint, Slots};

/// The longest token that is looked at, in bytes. OpenCloud's hold the ids of all of their user's groups.
const MOST_BYTES: usize = 288 * 1024;
/// The audience of all of OpenCloud's own tokens.
const AUDIENCE: &str = "reva";
/// How far its clock and ours may differ, in seconds: OpenCloud's own allowance.
const LEEWAY: i64 = 5;
/// How many genuine tokens are remembered; well below 1 KiB each, for their groups are not kept.
const REMEMBERED: usize = 16_384;

/// The token is not to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Malformed,
    Header,
    Algorithm,
    Signature,
    Claims,
    Audience,
    Expired,
    NotYet,
}

impl Refused {
    /// Why, for the audit log; it quotes nothing of the token.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "it is no JWT, or too long",
            Self::Header => "its header is not that of OpenCloud's tokens",
            Self::Algorithm => "its algorithm is not HS256",
            Self::Signature => "its signature is not valid",
            Self::Claims => "it does not say what OpenCloud's tokens say",
            Self::Audience => "it is for another audience",
            Self::Expired => "it has expired",
            Self::NotYet => "it is not good yet",
        }
    }
}

/// `type` of a person (CS3 `USER_TYPE_PRIMARY`).
pub(super) const PRIMARY: i64 = 1;
/// `type` of a service account (CS3 `USER_TYPE_SERVICE`).
pub(super) const SERVICE: i64 = 3;

/// Whom a token is about, as it says: zero values are left out there.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct TokenUserId {
    pub(super) idp: String,
    pub(super) opaque_id: String,
    #[serde(rename = "type")]
    pub(super) kind: i64,
    pub(super) tenant_id: String,
}

/// What a token allows, as far as it concerns users. Scopes that are not known here allow nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// What its user may do.
    User,
    /// What someone may do whom its user gave a link.
    Link,
    /// Nothing here.
    Nothing,
}

impl Scope {
    /// The kinds of scope of those with a link. A scope's key is its kind, and `:` and what it is about where there is more than one of a kind.
    const LINKS: [&str; 4] = ["publicshare", "resourceinfo", "lightweight", "ocmshare"];

    fn of<'k>(mut keys: impl Iterator<Item = &'k str>) -> Self {
        let mut scope = Self::Nothing;
        for kind in keys.by_ref().map(|key| key.split_once(':').map_or(key, |(kind, _)| kind)) {
            match kind {
                "user" => return Self::User,
                kind if Self::LINKS.contains(&kind) => scope = Self::Link,
                _ => {}
            }
        }
        scope
    }
}

/// What a genuine token says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenClaims {
    pub(super) user: TokenUserId,
    pub(super) scope: Scope,
    expires_at: i64,
    /// From when on it is good: the later of `iat` and `nbf`.
    from: i64,
}

/// Two members, and no other that could choose a key or ask for anything: what is unknown is refused, not ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    typ: Option<String>,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default, deserialize_with = "one_or_more")]
    aud: Vec<String>,
    exp: i64,
    #[serde(default)]
    iat: i64,
    #[serde(default)]
    nbf: i64,
    user: PayloadUser,
    #[serde(default)]
    scope: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct PayloadUser {
    id: TokenUserId,
}

/// An audience, or a list of them (RFC 7519, 4.1.3).
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        More(Vec<String>),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::More(more) => more,
    })
}

/// Verifies OpenCloud's tokens.
pub(super) struct RevaTokens {
    key: hmac::Key,
    /// What genuine ones say, by their signature, which is what no one else can write. A flood of forgeries pushes nothing out.
    genuine: Slots<Arc<TokenClaims>>,
}

impl fmt::Debug for RevaTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RevaTokens")
    }
}

impl RevaTokens {
    /// Tokens under this secret, which is OpenCloud's `OC_JWT_SECRET`, byte for byte.
    pub(super) fn new(secret: &Secret) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes()), genuine: Slots::new(REMEMBERED) }
    }

    /// What a genuine token says that is in time. Its header is judged first, then its signature, and nothing of its claims is read before.
    pub(super) fn verify(&self, token: &str, now: OffsetDateTime) -> Result<Arc<TokenClaims>, Refused> {
        let claims = self.genuine(token)?;
        let now = now.unix_timestamp();
        if now >= claims.expires_at.saturating_add(LEEWAY) {
            return Err(Refused::Expired);
        }
        if now < claims.from.saturating_sub(LEEWAY) {
            return Err(Refused::NotYet);
        }
        Ok(claims)
    }

    /// The same, whatever its times.
    fn genuine(&self, token: &str) -> Result<Arc<TokenClaims>, Refused> {
        let text = Some(token).filter(|text| text.len() <= MOST_BYTES).ok_or(Refused::Malformed)?;
        let (signed, signature) = text.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Refused::Malformed)?;
        let header: Header = json(header, Refused::Header)?;
        if header.alg != "HS256" {
            return Err(Refused::Algorithm);
        }
        if header.typ.is_some_and(|typ| typ != "JWT") {
            return Err(Refused::Header);
        }
        let signature = B64.decode(signature).ok().and_then(|bytes| Fingerprint::try_from(bytes).ok()).ok_or(Refused::Signature)?;
        // Compared in constant time.
        hmac::verify(&self.key, signed.as_bytes(), &signature).map_err(|_| Refused::Signature)?;
        if let Some(claims) = self.genuine.get(&signature) {
            return Ok(claims);
        }
        let Payload { aud, exp, iat, nbf, user, scope } = json(payload, Refused::Claims)?;
        if !aud.iter().any(|audience| audience == AUDIENCE) {
            return Err(Refused::Audience);
        }
        let scope = Scope::of(scope.keys().map(String::as_str));
        let claims = Arc::new(TokenClaims { user: user.id, scope, expires_at: exp, from: iat.max(nbf) });
        self.genuine.insert(signature, Arc::clone(&claims));
        Ok(claims)
    }
}

fn json<T: DeserializeOwned>(part: &str, otherwise: Refused) -> Result<T, Refused> {
    let bytes = B64.decode(part).map_err(|_| Refused::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| otherwise)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;

    pub(in crate::cs3) const SECRET: &str = "a secret of OpenCloud's, long enough";
    const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);

    fn tokens() -> RevaTokens {
        RevaTokens::new(&Secret::new(SECRET.to_owned()))
    }

    /// What a token says of a person whom OpenCloud signed in, in its own form.
    pub(in crate::cs3) fn payload(now: OffsetDateTime, id: &Value, scope: &str) -> Value {
        let now = now.unix_timestamp();
        json!({
            "iss": "https://id.example", "aud": ["reva"], "exp": now + 86_400, "iat": now,
            "user": {"id": id, "username": "jane@acme", "mail": "jane@acme.example", "display_name": "Jane", "groups": ["g"], "uid_number": 7},
            "scope": {scope: {"resource": {"decoder": "json", "value": "eyJwYXRoIjoiLyJ9"}, "role": 1}},
        })
    }

    pub(in crate::cs3) fn sign(header: &Value, payload: &Value, secret: &str) -> String {
        let signed = format!("{}.{}", B64.encode(header.to_string()), B64.encode(payload.to_string()));
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        format!("{signed}.{}", B64.encode(hmac::sign(&key, signed.as_bytes())))
    }

    pub(in crate::cs3) fn minted(payload: &Value) -> String {
        sign(&json!({"alg": "HS256", "typ": "JWT"}), payload, SECRET)
    }

    fn jane() -> Value {
        json!({"idp": "https://id.example", "opaque_id": "0a", "type": 1, "tenant_id": "acme"})
    }

    /// A token as OpenCloud makes it, changed in one place.
    fn with(path: &str, value: Value) -> String {
        let mut payload = payload(NOW, &jane(), "user");
        match payload.pointer_mut(path) {
            Some(at) => *at = value,
            None => payload[path.trim_start_matches('/')] = value,
        }
        minted(&payload)
    }

    fn without(key: &str) -> String {
        let mut payload = payload(NOW, &jane(), "user");
        payload.as_object_mut().unwrap().remove(key).unwrap();
        minted(&payload)
    }

    #[test]
    fn what_open_cloud_makes_is_read_and_remembered() {
        let tokens = tokens();
        let token = minted(&payload(NOW, &jane(), "user"));
        let claims = tokens.verify(&token, NOW).unwrap();
        let user = TokenUserId { idp: "https://id.example".to_owned(), opaque_id: "0a".to_owned(), kind: 1, tenant_id: "acme".to_owned() };
        assert_eq!((&claims.user, claims.scope), (&user, Scope::User));
        assert!(Arc::ptr_eq(&claims, &tokens.verify(&token, NOW).unwrap()), "it is taken apart once");
        // Zero values are left out there.
        let bare = minted(&payload(NOW, &json!({}), "user"));
        assert_eq!(tokens.verify(&bare, NOW).unwrap().user, TokenUserId::default());
        assert!(tokens.verify(&with("/aud", json!("reva")), NOW).is_ok());
        assert!(tokens.verify(&with("/aud", json!(["other", "reva"])), NOW).is_ok());
        let untyped = sign(&json!({"alg": "HS256"}), &payload(NOW, &jane(), "user"), SECRET);
        assert!(tokens.verify(&untyped, NOW).is_ok());
    }

    #[test]
    fn t05_forged_and_edited_tokens_are_refused() {
        let tokens = tokens();
        let payload = payload(NOW, &jane(), "user");
        let genuine = minted(&payload);
        assert!(tokens.verify(&genuine, NOW).is_ok());
        let (signed, signature) = genuine.rsplit_once('.').unwrap();
        let (header, body) = signed.split_once('.').unwrap();
        let globex = B64.encode(payload.to_string().replace("\"acme\"", "\"globex\""));
        let mut bytes = B64.decode(signature).unwrap();
        bytes[0] ^= 1;
        for forged in [
            format!("{header}.{globex}.{signature}"),
            format!("{header}.{body}.{}", B64.encode(&bytes)),
            format!("{header}.{body}.{}", B64.encode(&bytes[..16])),
            format!("{header}.{body}."),
            sign(&json!({"alg": "HS256", "typ": "JWT"}), &payload, "another secret of someone else's"),
            sign(&json!({"alg": "HS256", "typ": "JWT"}), &payload, ""),
        ] {
            assert_eq!(tokens.verify(&forged, NOW), Err(Refused::Signature), "{forged}");
        }
        for malformed in ["", ".", "..", "a.b", "not a token", &format!("{genuine}="), &format!(" {genuine}"), &"x.".repeat(40_000)] {
            assert!(tokens.verify(malformed, NOW).is_err(), "{malformed}");
        }
        assert_eq!(tokens.verify(&with("/more", json!("x".repeat(MOST_BYTES))), NOW), Err(Refused::Malformed));
    }

    #[test]
    fn t18_the_algorithm_is_ours_and_no_header_chooses_anything() {
        let (tokens, payload) = (tokens(), payload(NOW, &jane(), "user"));
        for alg in ["none", "None", "HS512", "HS384", "RS256", "ES256", "hs256", "HS256 ", ""] {
            for typ in [json!("JWT"), Value::Null] {
                let token = sign(&json!({"alg": alg, "typ": typ}), &payload, SECRET);
                assert_eq!(tokens.verify(&token, NOW), Err(Refused::Algorithm), "{alg}");
            }
        }
        for (key, value) in [
            ("crit", json!(["exp"])),
            ("kid", json!("../../dev/null")),
            ("jwk", json!({"kty": "oct"})),
            ("jku", json!("https://e")),
            ("x5u", json!("")),
        ] {
            let mut header = json!({"alg": "HS256", "typ": "JWT"});
            header[key] = value;
            assert_eq!(tokens.verify(&sign(&header, &payload, SECRET), NOW), Err(Refused::Header), "{key}");
        }
        for typ in ["at+jwt", "logout+jwt", ""] {
            let token = sign(&json!({"alg": "HS256", "typ": typ}), &payload, SECRET);
            assert_eq!(tokens.verify(&token, NOW), Err(Refused::Header), "{typ}");
        }
        assert_eq!(tokens.verify(&sign(&json!({"typ": "JWT"}), &payload, SECRET), NOW), Err(Refused::Header));
    }

    #[test]
    fn times_are_judged_at_each_use() {
        let (tokens, now) = (tokens(), NOW.unix_timestamp());
        let at = |seconds: i64| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        let token = minted(&payload(NOW, &jane(), "user"));
        assert!(tokens.verify(&token, at(now + 86_404)).is_ok());
        assert_eq!(tokens.verify(&token, at(now + 86_405)), Err(Refused::Expired), "though it was good a moment ago");
        assert!(tokens.verify(&token, at(now - 5)).is_ok());
        assert_eq!(tokens.verify(&token, at(now - 6)), Err(Refused::NotYet));
        assert!(tokens.verify(&with("/nbf", json!(now + 5)), NOW).is_ok());
        assert_eq!(tokens.verify(&with("/nbf", json!(now + 6)), NOW), Err(Refused::NotYet));
        assert_eq!(tokens.verify(&with("/exp", json!(now - 5)), NOW), Err(Refused::Expired));
        assert_eq!(tokens.verify(&with("/exp", json!(0)), NOW), Err(Refused::Expired));
        assert_eq!(tokens.verify(&with("/exp", json!(i64::MIN)), NOW), Err(Refused::Expired));
        assert!(tokens.verify(&with("/exp", json!(i64::MAX)), NOW).is_ok());
        for nonsense in [json!("2030"), json!(1e300), json!(u64::MAX), Value::Null] {
            assert_eq!(tokens.verify(&with("/exp", nonsense.clone()), NOW), Err(Refused::Claims), "{nonsense}");
        }
        assert_eq!(tokens.verify(&without("exp"), NOW), Err(Refused::Claims));
    }

    #[test]
    fn what_it_says_must_be_what_such_a_token_says() {
        let tokens = tokens();
        for aud in [json!([]), json!(["denizen"]), json!("Reva"), json!("reva,other"), json!(["reva "])] {
            assert_eq!(tokens.verify(&with("/aud", aud.clone()), NOW), Err(Refused::Audience), "{aud}");
        }
        assert_eq!(tokens.verify(&without("aud"), NOW), Err(Refused::Audience));
        assert_eq!(tokens.verify(&without("user"), NOW), Err(Refused::Claims));
        for (path, wrong) in [
            ("/user/id/tenant_id", json!(["acme", "globex"])),
            ("/user/id/tenant_id", Value::Null),
            ("/user/id/type", json!("USER_TYPE_PRIMARY")),
            ("/user/id/type", json!(1.0)),
            ("/user/id/opaque_id", json!(7)),
            ("/user/id", json!("0a")),
            ("/scope", json!(["user"])),
            ("/aud", json!(7)),
        ] {
            assert_eq!(tokens.verify(&with(path, wrong.clone()), NOW), Err(Refused::Claims), "{path}: {wrong}");
        }
        // Said twice, it could be read in two ways.
        let twice = payload(NOW, &jane(), "user").to_string();
        let twice = twice.replacen("\"id\":{", "\"id\":{\"tenant_id\":\"globex\"},\"id\":{", 1);
        let twice = format!("{}.{}", B64.encode("{\"alg\":\"HS256\"}"), B64.encode(twice));
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let twice = format!("{twice}.{}", B64.encode(hmac::sign(&key, twice.as_bytes())));
        assert_eq!(tokens.verify(&twice, NOW), Err(Refused::Claims));
    }

    #[test]
    fn scopes_count_by_their_kind_and_unknown_ones_grant_nothing() {
        for (keys, scope) in [
            (&["user"][..], Scope::User),
            (&["user:abc"], Scope::User),
            (&["publicshare:1", "user"], Scope::User),
            (&["publicshare:1"], Scope::Link),
            (&["resourceinfo:1"], Scope::Link),
            (&["lightweight"], Scope::Link),
            (&["ocmshare:user"], Scope::Link),
            (&[], Scope::Nothing),
            (&["users"], Scope::Nothing),
            (&["User", "user ", " user", "userx:1", "useradmin", ":user", ""], Scope::Nothing),
            (&["share:1", "admin"], Scope::Nothing),
        ] {
            assert_eq!(Scope::of(keys.iter().copied()), scope, "{keys:?}");
        }
        assert_eq!(tokens().verify(&without("scope"), NOW).unwrap().scope, Scope::Nothing);
    }
}
