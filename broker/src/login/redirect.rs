//! Sign-in at an upstream's own pages: the browser is sent there, and what it comes back with is judged.

use std::{net::IpAddr, sync::Arc};

use connectors::{Callback, ConnectorError, Wish};
use time::OffsetDateTime;
use url::Url;

use super::{Admitted, AtUpstream, Attempt, AttemptError, Handshakes, Sent};
use crate::{
    store::StoreError,
    tenancy::{Admission, AdmissionError, Wired},
};

/// A sign-in at an upstream's pages did not come about, or it could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// The upstream says no: the person declined, or may not.
    #[error("the upstream says no")]
    Declined,
    /// The upstream proved who they are, and there is no identity all the same.
    #[error("not admitted: {why}")]
    NotAdmitted {
        /// Why not.
        why: AdmissionError,
        /// What the upstream said.
        user: Box<connectors::UpstreamUser>,
    },
    /// Someone of another tenant than the one that the sign-in must happen in.
    #[error("not of the tenant that the sign-in is for")]
    OtherTenant {
        /// What the upstream said.
        user: Box<connectors::UpstreamUser>,
    },
    /// The connector has no pages.
    #[error("the connector has no sign-in pages of its own")]
    NoPages,
    /// The handshake is not there for this browser and connector, or can not be begun.
    #[error(transparent)]
    Attempt(#[from] AttemptError),
    /// The upstream could not tell.
    #[error(transparent)]
    Upstream(#[from] ConnectorError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The use case.
#[derive(Debug)]
pub struct RedirectSignIn {
    admission: Arc<Admission>,
    handshakes: Handshakes,
}

impl RedirectSignIn {
    /// Sign-in through these connectors.
    #[must_use]
    pub const fn new(admission: Arc<Admission>, handshakes: Handshakes) -> Self {
        Self { admission, handshakes }
    }

    /// Where to send the browser. Each call is a handshake of its own, so that several tabs work.
    ///
    /// # Errors
    /// When too many are begun, or it could not be told where the upstream's pages are.
    pub async fn begin(
        &self,
        way: &Wired,
        (browser, address): (&str, IpAddr),
        attempt: &str,
        wish: &Wish,
        now: OffsetDateTime,
    ) -> Result<Url, RedirectError> {
        let port = way.redirect.as_ref().ok_or(RedirectError::NoPages)?;
        let handshake = self.handshakes.begin((browser, address), attempt, &way.id, wish, now).await?;
        Ok(port.begin(&handshake, wish, now).await?)
    }

    /// A browser is back at this connector's address: for which attempt it was sent. From here on its `state` is worth nothing.
    ///
    /// # Errors
    /// [`AttemptError::Gone`] where it was not sent there, or is back for the second time.
    pub async fn arrived(&self, way: &Wired, state: &str, browser: &str, now: OffsetDateTime) -> Result<Sent, AttemptError> {
        self.handshakes.take(state, browser, &way.id, now).await
    }

    /// Judges what it came back with, and admits whom the upstream proved.
    ///
    /// # Errors
    /// That it failed, or that it could not be told: the two are never mixed up.
    pub async fn finish(
        &self,
        way: &Wired,
        (sent, attempt): (&Sent, &Attempt),
        callback: &Callback,
        now: OffsetDateTime,
    ) -> Result<Admitted, RedirectError> {
        let port = way.redirect.as_ref().ok_or(RedirectError::NoPages)?;
        let proven = port.finish(&sent.handshake, &sent.wish, callback, now).await?.ok_or(RedirectError::Declined)?;
        let user = proven.user;
        let (identity, mapped) = match self.admission.admit(way, &user, now).await {
            Ok(admitted) => admitted,
            Err(AdmissionError::Store(error)) => return Err(error.into()),
            Err(why) => return Err(RedirectError::NotAdmitted { why, user: Box::new(user) }),
        };
        if attempt.tenant().is_some_and(|tenant| tenant != identity.id().tenant_id().as_str()) {
            return Err(RedirectError::OtherTenant { user: Box::new(user) });
        }
        let (connector, subject) = (way.id.clone(), user.subject.clone());
        let upstream = AtUpstream { connector, subject, auth_time: proven.auth_time, session: proven.session };
        Ok(Admitted { identity, mapped, user, upstream: Some(upstream) })
    }
}

#[cfg(test)]
mod tests;
