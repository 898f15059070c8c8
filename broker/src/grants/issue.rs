//! The end of every grant: tokens for an identity.

use claims_mapping::{ConnectorId, Identity, TenantId, UserId, UserKind};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Client, Family, GrantError, Granted, GrantedTo, Grants, seconds};
use crate::{
    secret_text::{digest, random_uuid},
    tokens::{AccessClaims, Audience, IdClaims, MintError, Profile, TokenType},
};

/// A directory may know someone in thousands of groups; a token travels in headers. Groups that take more bytes than this are
/// left out of the tokens, all of them, and userinfo has them.
const MOST_GROUP_BYTES_IN_TOKEN: usize = 8 * 1024;

impl Grants {
    /// The access token, and with the scope `openid` the ID token, of a person who came through `via` where it is not their own
    /// connector.
    pub(super) fn issue(
        &self,
        client: &Client,
        identity: &Identity,
        (family_id, family, via): (Uuid, &Family, Option<&ConnectorId>),
        (scopes, audiences): (&[String], &[String]),
        refresh_token: Option<String>,
        now: OffsetDateTime,
    ) -> Result<Granted, GrantError> {
        let has = |scope: &str| scopes.iter().any(|s| s == scope);
        let iat = now.unix_timestamp();
        let groups = identity.groups();
        let groups_fit = groups.iter().map(|group| group.len() + 3).sum::<usize>() <= MOST_GROUP_BYTES_IN_TOKEN;
        let claims = AccessClaims {
            iss: self.issuer_text(),
            sub: identity.id().opaque_id(),
            aud: Audience::from(audiences.to_vec()),
            client_id: client.id.clone(),
            scope: scopes.join(" "),
            jti: random_uuid(&*self.entropy),
            sid: Some(family.sid),
            grant_id: Some(family_id),
            iat,
            exp: (now + seconds(self.lifetimes.access_token_seconds)).unix_timestamp(),
            auth_time: Some(family.auth_time),
            tenant_id: identity.id().tenant_id().clone(),
            groups: if groups_fit { groups.to_vec() } else { Vec::new() },
            roles: identity.roles().to_vec(),
            preferred_username: identity.username().to_owned(),
            connector: Some(identity.connector().clone()),
            via: via.filter(|via| *via != identity.connector()).cloned(),
        };
        let access_token = self.sign_access(client, &claims)?;
        let id_token = if has("openid") {
            let id = IdClaims {
                iss: claims.iss.clone(),
                sub: claims.sub,
                aud: client.id.clone(),
                iat,
                exp: (now + seconds(self.lifetimes.id_token_seconds)).unix_timestamp(),
                auth_time: family.auth_time,
                nonce: family.nonce.clone(),
                at_hash: Some(half_hash(&access_token)),
                sid: family.shown_sid(),
                profile: Profile::of(identity, |scope| has(scope) && (scope != "groups" || groups_fit)),
            };
            let alias = client.tenant_claim.as_deref().map(|name| (name, identity.id().tenant_id().as_str()));
            Some(self.keys.sign(TokenType::Id, &id, alias, client.algorithm, iat)?)
        } else {
            None
        };
        Ok(self.granted(access_token, refresh_token, id_token, &claims))
    }

    /// From one identity to access tokens, again and again, in one grant that no store knows: what the benchmarks hold against
    /// the bare signature.
    #[doc(hidden)]
    pub fn minting<'a>(
        &'a self,
        client: &'a Client,
        identity: &'a Identity,
    ) -> impl Fn(OffsetDateTime) -> Result<Granted, GrantError> + 'a {
        let (family_id, sid) = (random_uuid(&*self.entropy), random_uuid(&*self.entropy));
        let scopes = ["profile", "groups", "users.read"].map(str::to_owned).to_vec();
        let (client_id, audiences, current) = (client.id.clone(), client.audiences.clone(), None);
        let family = Family {
            client_id,
            sid,
            copied_from: None,
            scopes,
            audiences,
            nonce: None,
            auth_time: 0,
            current,
            refresh_until: 0,
            generation: None,
            previous: None,
        };
        move |now| self.issue(client, identity, (family_id, &family, None), (&family.scopes, &family.audiences), None, now)
    }

    /// The access token of a service.
    pub(super) fn issue_to_service(
        &self,
        client: &Client,
        tenant: &TenantId,
        scopes: &[String],
        audiences: &[String],
        now: OffsetDateTime,
    ) -> Result<Granted, GrantError> {
        // `:` is in no connector's id, so no person's id is ever a service's.
        let id = UserId::derived(self.issuer.clone(), UserKind::Service, tenant, ":client", &client.id);
        let claims = AccessClaims {
            iss: self.issuer_text(),
            sub: id.opaque_id(),
            aud: Audience::from(audiences.to_vec()),
            client_id: client.id.clone(),
            scope: scopes.join(" "),
            jti: random_uuid(&*self.entropy),
            sid: None,
            grant_id: None,
            iat: now.unix_timestamp(),
            exp: (now + seconds(self.lifetimes.access_token_seconds)).unix_timestamp(),
            auth_time: None,
            tenant_id: tenant.clone(),
            groups: Vec::new(),
            roles: Vec::new(),
            preferred_username: client.id.clone(),
            connector: None,
            via: None,
        };
        Ok(self.granted(self.sign_access(client, &claims)?, None, None, &claims))
    }

    fn sign_access(&self, client: &Client, claims: &AccessClaims) -> Result<String, MintError> {
        let alias = client.tenant_claim.as_deref().map(|name| (name, claims.tenant_id.as_str()));
        self.keys.sign(TokenType::Access, claims, alias, client.algorithm, claims.iat)
    }

    fn granted(&self, access_token: String, refresh_token: Option<String>, id_token: Option<String>, claims: &AccessClaims) -> Granted {
        Granted {
            access_token,
            token_type: "Bearer",
            expires_in: self.lifetimes.access_token_seconds,
            scope: claims.scope.clone(),
            refresh_token,
            id_token,
            subject: GrantedTo { tenant: claims.tenant_id.clone(), user: claims.sub },
        }
    }

    fn issuer_text(&self) -> String {
        crate::issuer_text(&self.issuer)
    }
}

/// The left half of a token's SHA-256 (OpenID Connect Core, 3.1.3.6), for the hashes that all our algorithms share.
fn half_hash(token: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
    B64.encode(digest(token.as_bytes()).get(..16).unwrap_or_default())
}
