//! Who asks at the CS3 door: someone with OpenCloud's token, one of its service accounts, or OpenCloud's proxy, which has none.
//!
//! Whoever has the secret of these tokens can write any of them. So a token is believed about nothing that is known here: the tenant of an
//! id is that of its durable record, and tenant and connector must be on, at each call. It proves who asks, and nothing besides.

use claims_mapping::{Subject, TenantId};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Cs3, Cs3Error,
    token::{PRIMARY, SERVICE, Scope, TokenUserId},
};
use crate::tenancy::{Caller, InstanceLookup};

/// By which way a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The Unix socket, whose permissions say who may.
    Socket,
    /// The address.
    Address,
}

/// Who asks, and so what they may know.
#[derive(Debug, Clone)]
pub enum Cs3Caller {
    /// A user, within their tenant.
    User(Caller),
    /// Someone with a link: they may know its owner, and no one else.
    Link {
        /// The owner.
        owner: Caller,
    },
    /// A service account of OpenCloud's: one person at a time, exactly, of whatever tenant.
    Service {
        /// The account's id, as OpenCloud is configured with it.
        id: Subject,
        /// Its right.
        lookup: InstanceLookup,
    },
    /// OpenCloud's proxy, without a token: the same, and less of it.
    Tokenless(InstanceLookup),
}

impl Cs3 {
    /// Who asks. A token that is there and not good is refused, also where none is needed.
    ///
    /// # Errors
    /// Where there is a token and it is not good, there is none where one is needed, or it could not be told.
    pub async fn caller(&self, token: Option<&str>, channel: Channel, now: OffsetDateTime) -> Result<Cs3Caller, Cs3Error> {
        let Some(token) = token else {
            let may = channel == Channel::Socket || self.config.tokenless_lookups;
            return if may { Ok(Cs3Caller::Tokenless(InstanceLookup::of_instance())) } else { Err(Cs3Error::NoToken) };
        };
        let claims = self.tokens.verify(token, now).map_err(|refused| {
            tracing::info!(target: "audit", event = "cs3.token_refused", reason = refused.reason());
            Cs3Error::BadToken(refused.reason())
        })?;
        let caller = match (claims.user.kind, claims.scope) {
            (_, Scope::Nothing) => Err(Cs3Error::BadToken("it has no scope that is known here")),
            (PRIMARY, Scope::User) => self.person(&claims.user, now).await.map(Cs3Caller::User),
            (PRIMARY, Scope::Link) => self.person(&claims.user, now).await.map(|owner| Cs3Caller::Link { owner }),
            (SERVICE, Scope::User) => self.service(&claims.user, now).await,
            (SERVICE, Scope::Link) => Err(Cs3Error::BadToken("it is a service account's with a link")),
            _ => Err(Cs3Error::BadToken("its user is neither a person nor a service account")),
        };
        caller.inspect_err(|error| {
            if let Cs3Error::BadToken(reason) = error {
                // Only what is an id here can be written down of what the token says.
                let tenant = TenantId::parse(&claims.user.tenant_id).ok().filter(|id| self.admission.tenants.get(id).is_some());
                tracing::warn!(
                    target: "audit",
                    event = "cs3.token_refused",
                    reason,
                    tenant.id = tenant.as_ref().map(TenantId::as_str),
                    user.id = opaque_id(&claims.user.opaque_id).map(tracing::field::display),
                    "a token with OpenCloud's signature names someone who can not be its bearer"
                );
            }
        })
    }

    /// The user whom a genuine token names: their id is recorded in the tenant that it names, tenant and connector are on.
    async fn person(&self, user: &TokenUserId, now: OffsetDateTime) -> Result<Caller, Cs3Error> {
        if user.tenant_id.is_empty() {
            return Err(Cs3Error::BadToken("its tenant is empty"));
        }
        if !self.is_ours(&user.idp) {
            return Err(Cs3Error::BadToken("its identity provider is another"));
        }
        let id = opaque_id(&user.opaque_id).ok_or(Cs3Error::BadToken("its user's id is none of ours"))?;
        let tenant = match TenantId::parse(&user.tenant_id) {
            Ok(id) => self.admission.tenants.enabled_anywhere(&id, now).await?,
            Err(_) => None,
        };
        let tenant = tenant.ok_or(Cs3Error::BadToken("its tenant is disabled or unknown"))?;
        let record = self.admission.ids.get(&tenant.id, id, now).await?;
        let record = record.ok_or(Cs3Error::BadToken("its user's id is not recorded in its tenant"))?;
        let is_served = self.admission.connector(record.connector.as_str()).is_some_and(|connector| connector.serves(&tenant));
        if !is_served {
            return Err(Cs3Error::BadToken("its user's connector is disabled or no longer speaks for the tenant"));
        }
        Ok(Caller::of_record(tenant, id))
    }

    /// The service account that a genuine token names: OpenCloud's own, of no tenant, and none of our users.
    async fn service(&self, user: &TokenUserId, now: OffsetDateTime) -> Result<Cs3Caller, Cs3Error> {
        if !user.tenant_id.is_empty() {
            return Err(Cs3Error::BadToken("it is a service account's and names a tenant"));
        }
        if !matches!(user.idp.as_str(), "" | "none") {
            return Err(Cs3Error::BadToken("it is a service account's and names an identity provider"));
        }
        let id = Subject::parse(&user.opaque_id).map_err(|_| Cs3Error::BadToken("it is a service account's without an id"))?;
        if let Ok(uuid) = Uuid::try_parse(id.as_str())
            && self.admission.ids.owner(uuid, now).await?.is_some()
        {
            return Err(Cs3Error::BadToken("it is a service account's with the id of a user"));
        }
        Ok(Cs3Caller::Service { id, lookup: InstanceLookup::of_instance() })
    }

    /// Whether an identity provider is ours, or not named.
    pub(super) fn is_ours(&self, idp: &str) -> bool {
        idp.is_empty() || idp.strip_suffix('/').unwrap_or(idp) == self.issuer
    }
}

/// An opaque id in the form that is given out, and in no other.
pub(super) fn opaque_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text).then_some(id)
}
