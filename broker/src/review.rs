//! TokenReview: is this token good, for this reviewer, and who is it?
//!
//! It owns the decision: whose token it is to judge, which audiences, which names. The wire form is the front door's. A token
//! has one judge: one that names Denizen, or that nobody claims, Denizen itself; one that names an upstream whose tokens the
//! reviewer takes, that upstream alone. What the one could not tell, no other is asked.

mod answer;
mod openstack;
mod remembered;
mod reviewer;
mod revocation;
mod upstream;

use std::{collections::BTreeSet, sync::Arc};

use claims_mapping::{ConnectorId, Tenant, TenantId};
use connectors::{ConnectorError, Secret};
use time::OffsetDateTime;

pub use answer::{Extra, Reviewed, Unrepresentable};
pub use remembered::{Ground, Request, Said};
pub use reviewer::{Presented, Reviewer, ReviewerError, Reviewers};
pub use revocation::NotRevoked;

use self::{
    remembered::{Of, Remembered},
    revocation::Revocations,
    upstream::{Upstreams, Way},
};
use crate::{
    standing::{Fallen, Judge, Standing},
    store::{Peers, Store, StoreError},
    tenancy::{Admission, AdmissionError},
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
    /// It names an upstream, which does not vouch for it.
    #[error("the connector `{0}` does not vouch for it: {1}")]
    Upstream(ConnectorId, String),
    /// It is an upstream's own, and its bearer is no one here.
    #[error("its bearer is not admitted: {0}")]
    NotAdmitted(AdmissionError),
    /// Reviewer, request and token share no audience.
    #[error("no shared audience")]
    Audience,
    /// The reviewer does not take this tenant.
    #[error("the reviewer does not take this tenant")]
    Tenant,
    /// The reviewer does not take this connector, or no service's own tokens; or the connector may not speak for the tenant.
    #[error("the reviewer or the tenant does not take this connector")]
    Connector,
    /// The names can not be written for this reviewer.
    #[error(transparent)]
    Unrepresentable(#[from] Unrepresentable),
    /// It could not be told.
    #[error(transparent)]
    CouldNotTell(Untold),
}

/// Who could not tell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Untold {
    /// The store.
    #[error(transparent)]
    Store(StoreError),
    /// An upstream.
    #[error("the connector `{0}`: {1}")]
    Upstream(ConnectorId, ConnectorError),
}

impl Untold {
    /// Whether it is an upstream's trouble, or a crowd in front of it: the log is told of those once, and not for each token.
    #[must_use]
    pub const fn is_told_once(&self) -> bool {
        matches!(self, Self::Upstream(..))
    }
}

/// A token is good.
#[derive(Debug)]
pub struct Good {
    /// Who its bearer is, for the reviewer.
    pub reviewed: Reviewed,
    /// Their tenant.
    pub tenant: Arc<Tenant>,
    /// What that rests on, so that it can be said again.
    pub ground: Ground,
}

/// The use case.
#[derive(Debug)]
pub struct Review {
    judge: Arc<Judge>,
    remembered: Remembered,
    upstreams: Upstreams,
    revocations: Revocations,
}

impl Review {
    /// Reviews by this judge; tokens that do not name our issuer also by the connectors that take them.
    #[must_use]
    pub fn new(judge: Arc<Judge>, admission: Arc<Admission>, issuer: String, store: Arc<dyn Store>, peers: Arc<dyn Peers>) -> Self {
        let revocations = Revocations::new(Arc::clone(&admission));
        let upstreams = Upstreams::new(admission, issuer, store, peers);
        Self { judge, remembered: Remembered::new(), upstreams, revocations }
    }

    /// What was answered to the same request before, if it was a good answer, the token surely is still in force and its bearer who
    /// they were. What the reviewer takes does not change while the program runs.
    #[must_use]
    pub fn again(&self, request: Request, now: OffsetDateTime) -> Option<Arc<Said>> {
        self.remembered.get(request).filter(|said| match &said.ground.0 {
            Of::Own(standing) => self.judge.is_surely_still(standing, now),
            Of::Upstream(basis) => self.upstreams.surely_stands(basis, now),
        })
    }

    /// Remembers a good answer to a request.
    pub fn remember(&self, request: Request, said: Said) {
        self.remembered.insert(request, said);
    }

    /// Reviews a token. `asked` are the audiences that the request names; none means the reviewer's own.
    ///
    /// # Errors
    /// Why not, or that it could not be told; with the tenant, where there is one.
    pub async fn review(
        &self,
        reviewer: &Reviewer,
        token: UnverifiedToken<'_>,
        asked: &[String],
        now: OffsetDateTime,
    ) -> Result<Good, (Refused, Option<TenantId>)> {
        match self.upstreams.way(reviewer, token) {
            Some(way) => self.of_upstream(reviewer, &way, token, asked, now).await,
            None => self.of_own(reviewer, token, asked, now).await,
        }
    }

    /// Has the upstream of a connector take a token back, by the right of `caller`, a token of the same upstream. From then on it is
    /// refused here too.
    ///
    /// # Errors
    /// Why it was not taken back, or that it could not be told.
    pub async fn revoke(
        &self,
        connector: &str,
        caller: &Secret,
        token: UnverifiedToken<'_>,
        now: OffsetDateTime,
    ) -> Result<(), NotRevoked> {
        self.revocations.revoke(&self.upstreams, connector, caller, token, now).await
    }

    /// Takes up what a replica told of an upstream's token that was taken back ([`Topic::TokenTakenBack`](crate::store::Topic)).
    pub(crate) fn heard(&self, text: &[u8], now: OffsetDateTime) {
        self.upstreams.heard(text, now);
    }

    async fn of_own(
        &self,
        reviewer: &Reviewer,
        token: UnverifiedToken<'_>,
        asked: &[String],
        now: OffsetDateTime,
    ) -> Result<Good, (Refused, Option<TenantId>)> {
        let standing = self.judge.judge(token, now).await.map_err(|fallen| match fallen {
            Fallen::Store(error) => (Refused::CouldNotTell(Untold::Store(error)), None),
            fallen => (Refused::Fallen(fallen), None),
        })?;
        let tenant = Arc::clone(&standing.tenant);
        match judge_for(reviewer, &standing, asked) {
            Ok(reviewed) => Ok(Good { reviewed, tenant, ground: Ground(Of::Own(standing)) }),
            Err(refused) => Err((refused, Some(tenant.id.clone()))),
        }
    }

    async fn of_upstream(
        &self,
        reviewer: &Reviewer,
        way: &Way<'_>,
        token: UnverifiedToken<'_>,
        asked: &[String],
        now: OffsetDateTime,
    ) -> Result<Good, (Refused, Option<TenantId>)> {
        let nobody = |refused| (refused, None);
        let genuine = self.upstreams.genuine(way, token, now).await.map_err(nobody)?;
        let audiences: Vec<String> = wanted(reviewer, asked).into_iter().map(str::to_owned).collect();
        // A token that was meant for someone else stands for nothing here, and leaves no trace of its bearer.
        if !genuine.is_for(way.entry) || audiences.is_empty() {
            return Err(nobody(Refused::Audience));
        }
        let upstream::Bearer { identity, tenant } = self.upstreams.bearer(way, &genuine, now).await.map_err(nobody)?;
        takes(reviewer, &tenant.id, Some(identity.connector()))
            .and_then(|()| Ok(Reviewed::of_bearer(reviewer.format, &identity, &tenant, genuine.openstack(way), audiences)?))
            .map(|reviewed| Good {
                reviewed,
                tenant: Arc::clone(&tenant),
                ground: Ground(Of::Upstream(Upstreams::basis(way, &genuine, &tenant))),
            })
            .map_err(|refused| (refused, Some(tenant.id.clone())))
    }
}

/// The audiences that request and reviewer share; the reviewer's, where the request names none. Never "any".
fn wanted<'a>(reviewer: &'a Reviewer, asked: &'a [String]) -> BTreeSet<&'a str> {
    if asked.is_empty() {
        reviewer.audiences.iter().map(String::as_str).collect()
    } else {
        asked.iter().map(String::as_str).filter(|a| reviewer.audiences.contains(*a)).collect()
    }
}

/// Whether the reviewer takes the users of this tenant and connector.
fn takes(reviewer: &Reviewer, tenant: &TenantId, connector: Option<&ConnectorId>) -> Result<(), Refused> {
    let takes_tenant = match &reviewer.tenants {
        Some(list) => list.contains(tenant),
        None => !tenant.is_system(),
    };
    if !takes_tenant {
        return Err(Refused::Tenant);
    }
    let takes_connector = reviewer.connectors.as_ref().is_none_or(|list| connector.is_some_and(|connector| list.contains(connector)));
    if takes_connector { Ok(()) } else { Err(Refused::Connector) }
}

/// What is effective is what request, reviewer and token share.
fn judge_for(reviewer: &Reviewer, standing: &Standing, asked: &[String]) -> Result<Reviewed, Refused> {
    let claims = &standing.claims;
    let audiences: Vec<String> = wanted(reviewer, asked).into_iter().filter(|a| claims.aud.contains(a)).map(str::to_owned).collect();
    if audiences.is_empty() {
        return Err(Refused::Audience);
    }
    takes(reviewer, &standing.tenant.id, claims.connector.as_ref())?;
    Ok(Reviewed::of_own(reviewer.format, standing, audiences)?)
}
