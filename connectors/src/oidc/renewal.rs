//! Asking a provider again about someone who signed in earlier: what the answer must be for them to be believed further.
//!
//! A provider that says less at a renewal than at the sign-in is taken at its word: the claims that it gives now are the ones that count.

use claims_mapping::{Claims, Subject, UpstreamUser};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::{
    client::{self, Grant, Tokens},
    discovery::Metadata,
    issuer::{Issuer, PLACEHOLDER},
    login::{Gathered, SignIn},
    userinfo,
};
use crate::{ConnectorError, Renewed, Secret};

/// What a provider says of someone whom it proved before.
enum Said {
    Claims(Claims),
    /// Nothing but that they still are.
    Still,
    Gone,
}

impl SignIn {
    /// Spends a refresh token: `None` where the provider says that the person no longer is.
    ///
    /// # Errors
    /// When the token endpoint could not tell.
    pub(super) async fn renewed(
        &self,
        subject: &Subject,
        refresh_token: &Secret,
        now: OffsetDateTime,
    ) -> Result<Option<Renewed>, ConnectorError> {
        // Someone of a provider's tenant that is no longer taken is no longer anyone here.
        let Some(known) = known_of(subject, self.provider.issuer()) else { return Ok(None) };
        let metadata = self.provider.metadata(now).await?;
        let client::Answer::Tokens(mut tokens) = self.tokens(&metadata, Grant::Refresh(refresh_token), now).await? else { return Ok(None) };
        let next = tokens.refresh_token.take().filter(|next| next.expose() != refresh_token.expose());
        // From here on the old token may be spent: whatever else fails, the new one is handed on.
        let user = match self.said(&metadata, (subject, known), &tokens, now).await {
            Ok(Said::Gone) => return Ok(None),
            Ok(Said::Still) => Ok(None),
            Ok(Said::Claims(claims)) => Ok(Some(UpstreamUser { subject: subject.clone(), claims })),
            Err(error) => Err(error),
        };
        Ok(Some(Renewed { user, refresh_token: next }))
    }

    /// What fresh tokens say of the person whose they must be.
    async fn said(
        &self,
        metadata: &Metadata,
        (subject, known): (&Subject, Map<String, Value>),
        tokens: &Tokens,
        now: OffsetDateTime,
    ) -> Result<Said, ConnectorError> {
        if let Some(id_token) = &tokens.id_token {
            let verified = self.verified(id_token, &tokens.access_token, None, now).await?;
            if self.subject(&verified.claims)? != *subject {
                return Ok(self.someone_else());
            }
            return Ok(match self.gathered(metadata, verified, tokens).await? {
                Gathered::Claims(claims) => Said::Claims(claims),
                Gathered::NotGiven => Said::Gone,
            });
        }
        let Some(endpoint) = metadata.userinfo_endpoint()?.filter(|_| self.need.alone()) else { return Ok(Said::Still) };
        let userinfo::Answer::Claims(answer) = self.userinfo(endpoint, &tokens.access_token).await? else { return Ok(Said::Gone) };
        match of_userinfo(known, answer) {
            Some(claims) => self.claims(claims).map(Said::Claims),
            None => Ok(self.someone_else()),
        }
    }

    fn someone_else(&self) -> Said {
        tracing::warn!(connector.id = %self.id, "a refresh token gave someone else than it was given for; the sign-in ends");
        Said::Gone
    }
}

/// What the sign-in has proven of someone, and userinfo does not repeat; `None` where the issuer is none that is taken now.
fn known_of(subject: &Subject, issuer: &Issuer) -> Option<Map<String, Value>> {
    let (tenant, sub) = match subject.as_str().split_once('/') {
        Some((tenant, sub)) if issuer.is_template() => (Some(tenant), sub),
        _ => (None, subject.as_str()),
    };
    let iss = tenant.map_or_else(|| issuer.as_str().to_owned(), |tenant| issuer.as_str().replace(PLACEHOLDER, tenant));
    if !issuer.accepts(&iss) {
        return None;
    }
    let known = [("iss", Some(iss.as_str())), ("tid", tenant), ("sub", Some(sub))];
    Some(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?)))).collect())
}

/// What userinfo alone says: with what is `known` of the person from the sign-in (`iss`, `sub`, `tid`), which it can not change. `None` where
/// it is about someone else.
fn of_userinfo(mut known: Map<String, Value>, answer: Map<String, Value>) -> Option<Map<String, Value>> {
    let sub = known.get("sub").and_then(Value::as_str)?.to_owned();
    userinfo::add(&mut known, userinfo::about(answer, &sub).ok()?);
    Some(known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn t07_someone_of_a_providers_tenant_that_is_no_longer_taken_is_gone() {
        let known = |issuer: &Issuer, subject: &str| known_of(&Subject::parse(subject).unwrap(), issuer).map(Value::Object);
        let templated = Issuer::new("https://op.example/{tenantid}/v2.0", &["t1".to_owned()]);
        assert_eq!(known(&templated, "t1/a/b"), Some(json!({"iss": "https://op.example/t1/v2.0", "tid": "t1", "sub": "a/b"})));
        assert_eq!(known(&templated, "t2/ada"), None);
        assert_eq!(known(&templated, "ada"), None);
        let plain = Issuer::new("https://op.example", &[]);
        assert_eq!(known(&plain, "t1/ada"), Some(json!({"iss": "https://op.example", "sub": "t1/ada"})));
    }

    #[test]
    fn userinfo_alone_changes_nothing_of_what_is_known() {
        let known = || Map::from_iter([("iss".to_owned(), json!("https://op.example")), ("sub".to_owned(), json!("ada"))]);
        let answer = |value: Value| value.as_object().unwrap().clone();
        let claims = of_userinfo(known(), answer(json!({"sub": "ada", "iss": "https://evil.example", "name": "Ada"})));
        assert_eq!(claims.map(Value::Object), Some(json!({"iss": "https://op.example", "sub": "ada", "name": "Ada"})));
        assert_eq!(of_userinfo(known(), answer(json!({"sub": "bob"}))), None);
    }
}
