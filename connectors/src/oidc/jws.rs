//! A compact JWS (RFC 7515) taken apart, and held against a provider's keys. The algorithm is one of those that are pinned and the
//! key's own; of the header only `typ`, `alg`, `kid` and `crit` are read, so that no key ever comes from a token.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::{Map, Value};
use time::{Duration, OffsetDateTime};

use super::{
    issuer::Issuer,
    keys::{Algorithm, KeySet, SignedBy, Unverified},
};
use crate::UnverifiedToken;

/// Why a token is not taken. It quotes nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no compact JWS of a JSON object, or too long.
    #[error("it is no JWT")]
    Malformed,
    /// It must be understood in a way that is not known here (`crit`).
    #[error("its header asks for what is not understood")]
    Critical,
    /// It is another kind of token.
    #[error("it is another kind of token")]
    Type,
    /// Its algorithm is not one of `signingAlgorithms`, or not its key's.
    #[error("its algorithm is not one that is taken, or not that of its key")]
    Algorithm,
    /// Another issuer's, or one for another of the provider's tenants than it names.
    #[error("it is another issuer's")]
    Issuer,
    /// For someone else.
    #[error("it is for another audience")]
    Audience,
    /// Its time is over, or it does not say until when it is good.
    #[error("it has expired, or says no expiry")]
    Expired,
    /// Its time has not come.
    #[error("it is not good yet")]
    NotYet,
    /// No key of the provider is its key.
    #[error("its key is not one of the provider's")]
    UnknownKey,
    /// Its key did not sign it.
    #[error("its signature is not valid")]
    Signature,
    /// A claim that it must have is missing or malformed.
    #[error("a claim that it must have is missing, or not as it must be")]
    Claims,
}

#[derive(Deserialize)]
struct Header {
    typ: Option<String>,
    alg: String,
    kid: Option<String>,
    #[serde(default)]
    crit: Present,
}

/// Whether a member is there, whatever its value.
#[derive(Default)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

/// A token taken apart. Nothing of it is proven.
pub(super) struct UnverifiedJws<'a> {
    header: Header,
    signed: &'a str,
    signature: Vec<u8>,
    claims: Map<String, Value>,
}

/// Whose tokens are asked for.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a Issuer,
    pub(super) algorithms: &'a [Algorithm],
    /// The types that are taken besides none at all, in lower case.
    pub(super) types: &'a [&'a str],
}

impl<'a> UnverifiedJws<'a> {
    pub(super) fn parse(token: UnverifiedToken<'a>) -> Result<Self, Refusal> {
        let text = Some(token.text()).filter(|text| text.len() <= UnverifiedToken::MAX_BYTES).ok_or(Refusal::Malformed)?;
        let (signed, signature) = text.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Refusal::Malformed)?;
        let decoded = |part: &str| B64.decode(part).map_err(|_| Refusal::Malformed);
        let header = serde_json::from_slice(&decoded(header)?).map_err(|_| Refusal::Malformed)?;
        let claims = serde_json::from_slice(&decoded(payload)?).map_err(|_| Refusal::Malformed)?;
        Ok(Self { header, signed, signature: decoded(signature)?, claims })
    }

    /// What it says, whoever wrote it: to refuse early, and never to take.
    pub(super) const fn unverified_claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// Its claims, proven: type, algorithm, issuer and signature are as expected. With a templated issuer its `tid` is the one that its
    /// `iss` names, or, where `tid` may be left out, absent.
    pub(super) fn verify(self, expected: &Expected<'_>, keys: &KeySet) -> Result<Map<String, Value>, Refusal> {
        if self.header.crit.0 {
            return Err(Refusal::Critical);
        }
        if self.header.typ.as_deref().is_some_and(|typ| !expected.types.contains(&media_type(typ).as_str())) {
            return Err(Refusal::Type);
        }
        let algorithm = Algorithm::parse(&self.header.alg).filter(|alg| expected.algorithms.contains(alg)).ok_or(Refusal::Algorithm)?;
        let iss = self.claims.get("iss").and_then(Value::as_str).filter(|iss| expected.issuer.accepts(iss)).ok_or(Refusal::Issuer)?;
        let tenant = expected.issuer.tenant_of(iss);
        if tenant.is_some() && self.claims.get("tid").is_some_and(|tid| tid.as_str() != tenant) {
            return Err(Refusal::Issuer);
        }
        let by = SignedBy { kid: self.header.kid.as_deref(), algorithm, iss, tenant };
        keys.verify(&by, self.signed.as_bytes(), &self.signature).map_err(|why| match why {
            Unverified::UnknownKey => Refusal::UnknownKey,
            Unverified::Algorithm => Refusal::Algorithm,
            Unverified::Signature => Refusal::Signature,
        })?;
        Ok(self.claims)
    }
}

/// A `typ` as it is compared (RFC 7515, 4.1.9).
fn media_type(typ: &str) -> String {
    let typ = typ.to_ascii_lowercase();
    typ.strip_prefix("application/").map(str::to_owned).unwrap_or(typ)
}

/// How long before its `nbf` a token is taken, for clocks that differ: Kubernetes' own allowance.
const EARLY: Duration = Duration::minutes(5);

/// Whether a token is good now; until when, in seconds since 1970. As Kubernetes does: nothing is added to `exp`, which must be there.
pub(super) fn in_time(claims: &Map<String, Value>, now: OffsetDateTime) -> Result<i64, Refusal> {
    let expires_at = seconds(claims, "exp")?.ok_or(Refusal::Expired)?;
    if instant(expires_at).is_none_or(|end| now > end) {
        return Err(Refusal::Expired);
    }
    match seconds(claims, "nbf")? {
        Some(from) if instant(from).is_none_or(|from| now + EARLY < from) => Err(Refusal::NotYet),
        _ => Ok(expires_at),
    }
}

/// A NumericDate (RFC 7519, 2) in whole seconds since 1970.
pub(super) fn seconds(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, Refusal> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => {
            #[expect(clippy::cast_possible_truncation, reason = "a float saturates, and `instant` refuses what is out of range")]
            let whole = number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds.floor() as i64));
            whole.map(Some).ok_or(Refusal::Claims)
        }
        Some(_) => Err(Refusal::Claims),
    }
}

/// `None` beyond the year 9999.
fn instant(seconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

/// The audiences of a token; none where the claim is missing or malformed.
pub(super) fn audiences(claims: &Map<String, Value>) -> Vec<&str> {
    match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().map(Value::as_str).collect::<Option<_>>().unwrap_or_default(),
        _ => Vec::new(),
    }
}
