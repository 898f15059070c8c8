//! Who may ask for reviews, about what.

use std::collections::BTreeSet;

use claims_mapping::{ConnectorId, TenantId};
use connectors::Secret;
use subtle::ConstantTimeEq as _;

use crate::{
    config::{ReviewFormat, ReviewerConfig, UpstreamTokens},
    secret_text::digest,
    standing::Fallen,
};

/// A reviewer.
#[derive(Clone)]
pub struct Reviewer {
    /// Its name in the audit log.
    pub id: String,
    /// SHA-256 of its token.
    bearer: Option<[u8; 32]>,
    certificate_name: Option<String>,
    client: Option<String>,
    /// The audiences that it stands for.
    pub audiences: BTreeSet<String>,
    /// The tenants whose tokens it takes; all but `system` where `None`.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// The connectors whose users it takes.
    pub connectors: Option<BTreeSet<ConnectorId>>,
    /// How names are written.
    pub format: ReviewFormat,
    /// The upstreams whose own tokens it takes.
    pub upstream_tokens: Vec<UpstreamTokens>,
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a caller shows to be taken for a reviewer.
#[derive(Debug, Default)]
pub struct Presented<'a> {
    /// The bearer token of the request.
    pub bearer: Option<&'a str>,
    /// The names in the client certificate, where it was verified.
    pub certificate_names: &'a [String],
    /// Whether the caller is taken to be of this machine: the connection comes from it, through no proxy, and no credential
    /// was sent, not even one of a kind that is not read here.
    pub is_local: bool,
}

/// The caller is no reviewer, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewerError {
    /// No credential, or a wrong one.
    #[error("not a reviewer")]
    Unauthenticated,
    /// The store could not tell.
    #[error(transparent)]
    CouldNotTell(#[from] crate::store::StoreError),
}

impl Reviewer {
    /// A reviewer as it is configured, its credential read.
    ///
    /// # Errors
    /// When the credential can not be read.
    pub fn new(config: &ReviewerConfig) -> Result<Self, String> {
        let bearer = Secret::read(config.bearer_token.as_ref(), config.bearer_token_file.as_deref())?;
        Ok(Self {
            id: config.id.clone(),
            bearer: bearer.map(|secret| digest(secret.expose().as_bytes())),
            certificate_name: config.certificate_name.clone(),
            client: config.client.clone(),
            audiences: config.audiences.clone(),
            tenants: config.tenants.clone(),
            connectors: config.connectors.clone(),
            format: config.format,
            upstream_tokens: config.upstream_tokens.clone(),
        })
    }

    const fn has_credential(&self) -> bool {
        self.bearer.is_some() || self.certificate_name.is_some() || self.client.is_some()
    }
}

/// The reviewers.
#[derive(Debug)]
pub struct Reviewers {
    list: Vec<Reviewer>,
    /// The audience that a reviewer's `client_credentials` token must be for.
    audience: String,
}

impl Reviewers {
    /// These, at this issuer.
    #[must_use]
    pub fn new(list: Vec<Reviewer>, issuer: &str) -> Self {
        Self { list, audience: format!("{issuer}/review") }
    }

    /// The reviewer that the caller proves to be: by a certificate, a bearer token, a `client_credentials` token for
    /// `<issuer>/review`; on loopback also the one that has no credential. A credential that is shown must be right,
    /// a certificate too: it is never passed over in favour of the address.
    ///
    /// # Errors
    /// When the caller is none, or it could not be told.
    pub async fn find(
        &self,
        presented: &Presented<'_>,
        judge: &crate::standing::Judge,
        now: time::OffsetDateTime,
    ) -> Result<&Reviewer, ReviewerError> {
        if let Some(bearer) = presented.bearer {
            let sent = digest(bearer.as_bytes());
            let matches = |r: &&Reviewer| r.bearer.as_ref().is_some_and(|kept| kept.ct_eq(&sent).into());
            if let Some(reviewer) = self.list.iter().find(matches) {
                return Ok(reviewer);
            }
            if self.list.iter().all(|r| r.client.is_none()) {
                return Err(ReviewerError::Unauthenticated);
            }
            let standing = match judge.judge(crate::tokens::UnverifiedToken::new(bearer), now).await {
                Ok(standing) => standing,
                Err(Fallen::Store(error)) => return Err(error.into()),
                Err(_) => return Err(ReviewerError::Unauthenticated),
            };
            let claims = &standing.claims;
            // A client's own token, not one of a person who signed in to that client.
            let of_client = |r: &&Reviewer| claims.connector.is_none() && r.client.as_ref() == Some(&claims.client_id);
            let found = self.list.iter().find(of_client).filter(|_| claims.aud.contains(&self.audience));
            return found.ok_or(ReviewerError::Unauthenticated);
        }
        let by_certificate = |r: &&Reviewer| r.certificate_name.as_ref().is_some_and(|name| presented.certificate_names.contains(name));
        if let Some(reviewer) = self.list.iter().find(by_certificate) {
            return Ok(reviewer);
        }
        let shows_nothing = presented.is_local && presented.certificate_names.is_empty();
        let open = self.list.iter().find(|r| !r.has_credential()).filter(|_| shows_nothing);
        open.ok_or(ReviewerError::Unauthenticated)
    }
}
