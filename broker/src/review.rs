//! TokenReview: is this token good, for this reviewer, and who is it?
//!
//! It owns the decision: which reviewer, which audiences, which names. The wire form is the front door's.

mod answer;
mod remembered;
mod reviewer;

use std::{collections::BTreeSet, sync::Arc};

use claims_mapping::TenantId;
use time::OffsetDateTime;

pub use answer::{Reviewed, Unrepresentable};
pub use remembered::{Request, Said};
pub use reviewer::{Presented, Reviewer, ReviewerError, Reviewers};

use self::remembered::Remembered;
use crate::{
    standing::{Fallen, Judge, Standing},
    store::StoreError,
    tokens::UnverifiedToken,
};

/// A token is not good for this reviewer, or it could not be told. The reasons are for the audit log: the reviewer is told
/// "no" alone, because a reason would make an error of a refusal, and the API server caches refusals and not errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is forged, expired, revoked, or its tenant is off.
    #[error("the token is not in force: {0}")]
    Fallen(Fallen),
    /// Reviewer, request and token share no audience.
    #[error("no shared audience")]
    Audience,
    /// The reviewer does not take this tenant.
    #[error("the reviewer does not take this tenant")]
    Tenant,
    /// The reviewer does not take this connector, or no service's own tokens.
    #[error("the reviewer does not take this connector")]
    Connector,
    /// The names can not be written for this reviewer.
    #[error(transparent)]
    Unrepresentable(#[from] Unrepresentable),
    /// The store could not tell.
    #[error(transparent)]
    CouldNotTell(StoreError),
}

/// The use case.
#[derive(Debug)]
pub struct Review {
    judge: Arc<Judge>,
    remembered: Remembered,
}

impl Review {
    /// Reviews by this judge.
    #[must_use]
    pub fn new(judge: Arc<Judge>) -> Self {
        Self { judge, remembered: Remembered::new() }
    }

    /// What was answered to the same request before, if it was a good answer and the token surely is still in force. What the
    /// reviewer takes does not change while the program runs.
    #[must_use]
    pub fn again(&self, request: Request, now: OffsetDateTime) -> Option<Arc<Said>> {
        self.remembered.get(request).filter(|said| self.judge.is_surely_still(&said.standing, now))
    }

    /// Remembers a good answer to a request.
    pub fn remember(&self, request: Request, said: Said) {
        self.remembered.insert(request, said);
    }

    /// Reviews a token. `asked` are the audiences that the request names; none means the reviewer's own.
    ///
    /// # Errors
    /// Why not, or that it could not be told.
    pub async fn review(
        &self,
        reviewer: &Reviewer,
        token: UnverifiedToken<'_>,
        asked: &[String],
        now: OffsetDateTime,
    ) -> Result<(Reviewed, Standing), (Refused, Option<TenantId>)> {
        let standing = self.judge.judge(token, now).await.map_err(|fallen| match fallen {
            Fallen::Store(error) => (Refused::CouldNotTell(error), None),
            fallen => (Refused::Fallen(fallen), None),
        })?;
        match judge_for(reviewer, &standing, asked) {
            Ok(reviewed) => Ok((reviewed, standing)),
            Err(refused) => Err((refused, Some(standing.tenant.id.clone()))),
        }
    }
}

/// What is effective is what request, reviewer and token share; never "any".
fn judge_for(reviewer: &Reviewer, standing: &Standing, asked: &[String]) -> Result<Reviewed, Refused> {
    let claims = &standing.claims;
    let wanted: BTreeSet<&str> = if asked.is_empty() {
        reviewer.audiences.iter().map(String::as_str).collect()
    } else {
        asked.iter().map(String::as_str).filter(|a| reviewer.audiences.contains(*a)).collect()
    };
    let audiences: Vec<String> = wanted.into_iter().filter(|a| claims.aud.contains(a)).map(str::to_owned).collect();
    if audiences.is_empty() {
        return Err(Refused::Audience);
    }
    let takes_tenant = match &reviewer.tenants {
        Some(list) => list.contains(&standing.tenant.id),
        None => !standing.tenant.id.is_system(),
    };
    if !takes_tenant {
        return Err(Refused::Tenant);
    }
    if let Some(list) = &reviewer.connectors
        && !claims.connector.as_ref().is_some_and(|c| list.contains(c))
    {
        return Err(Refused::Connector);
    }
    Ok(Reviewed::new(reviewer.format, standing, audiences)?)
}
