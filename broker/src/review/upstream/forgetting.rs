//! Tokens that are to be forgotten, and other questions within the same bound.

use super::*;

impl Upstreams {
    /// Forgets what is known of a token, and refuses it for as long as refusals are remembered.
    pub(in crate::review) fn forget(&self, connector: &ConnectorId, token: UnverifiedToken<'_>, now: OffsetDateTime) {
        let fingerprint = digest(token.text().as_bytes());
        let until = now.unix_timestamp().saturating_add(REFUSED);
        self.bad.insert(fingerprint, Bad { connector: connector.clone(), reason: "it was taken back".to_owned(), until });
        self.genuine.invalidate(&fingerprint);
    }

    /// Asks the upstream of a connector something else, within the bound of its authentications.
    pub(in crate::review) async fn within_bound<T>(
        &self,
        connector: &ConnectorId,
        question: impl Future<Output = Result<T, ConnectorError>>,
    ) -> Result<T, ConnectorError> {
        match self.under_way.get(connector).map(Semaphore::try_acquire) {
            Some(Ok(_turn)) => question.await,
            _ => Err(ConnectorError::Unavailable("too much is being asked already".to_owned())),
        }
    }
}
