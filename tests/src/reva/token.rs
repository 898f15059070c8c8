//! Reva tokens as OpenCloud mints them, and as it never would.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Map, Value, json};

use crate::cs3::user::User;

/// How long OpenCloud's tokens are good, in seconds.
const SECONDS: i64 = 86_400;

/// A token that is not signed yet. Members that would be empty or zero are left out, as OpenCloud leaves them out.
#[derive(Debug, Clone)]
pub struct RevaToken {
    header: Value,
    claims: Value,
}

impl RevaToken {
    /// What OpenCloud's gateway gives someone who has signed in: their id and their tenant, and everything that the scope `user` allows.
    #[must_use]
    pub fn user(id: &str, tenant: &str) -> Self {
        let user = json!({"id": {"idp": "https://id.example", "opaque_id": id, "type": 1, "tenant_id": tenant}, "username": "someone"});
        Self::of("https://id.example", user, ("user", json!({"path": "/"}), 1))
    }

    /// The same of what a users provider answered, which is how the gateway comes by it.
    ///
    /// # Panics
    /// When the answer has no id.
    #[must_use]
    pub fn of_user(user: &User) -> Self {
        let id = user.id.as_ref().expect("a user has an id");
        let claims = json!({
            "id": {"idp": id.idp, "opaque_id": id.opaque_id, "type": id.r#type, "tenant_id": id.tenant_id},
            "username": user.username, "mail": user.mail, "mail_verified": user.mail_verified, "display_name": user.display_name,
            "groups": user.groups, "uid_number": user.uid_number, "gid_number": user.gid_number,
        });
        Self::of(&id.idp, claims, ("user", json!({"path": "/"}), 1))
    }

    /// One of OpenCloud's own services, of no tenant: userlog and notifications look people up so.
    #[must_use]
    pub fn service_account(id: &str) -> Self {
        Self::of("none", json!({"id": {"idp": "none", "opaque_id": id, "type": 3}}), ("user", json!({"path": "/"}), 1))
    }

    /// A visitor of a public link. The user in it is the link's owner.
    #[must_use]
    pub fn public_share(owner: &str, tenant: &str) -> Self {
        let share = json!({"id": {"opaque_id": "share-1"}, "token": "link-token"});
        Self::user(owner, tenant).scoped("publicshare:share-1", &share, 3)
    }

    fn of(issuer: &str, user: Value, scope: (&str, Value, u32)) -> Self {
        let now = now();
        let mut claims = json!({"iss": issuer, "aud": ["reva"], "exp": now + SECONDS, "iat": now, "user": user});
        leave_out_the_empty(&mut claims);
        Self { header: json!({"alg": "HS256", "typ": "JWT"}), claims }.scoped(scope.0, &scope.1, scope.2)
    }

    /// With this scope and no other: its key, what it is of, and its role (1 owner, 3 viewer, 4 editor).
    #[must_use]
    pub fn scoped(self, key: &str, resource: &Value, role: u32) -> Self {
        let value = STANDARD.encode(resource.to_string());
        self.with("/scope", json!({key: {"resource": {"decoder": "json", "value": value}, "role": role}}))
    }

    /// With none of OpenCloud's scopes.
    #[must_use]
    pub fn unscoped(self) -> Self {
        self.without("/scope")
    }

    /// Of no tenant.
    #[must_use]
    pub fn tenantless(self) -> Self {
        self.without("/user/id/tenant_id")
    }

    /// It expires so many seconds from now; before, where that is negative.
    #[must_use]
    pub fn expires_in(self, seconds: i64) -> Self {
        self.with("/exp", now() + seconds)
    }

    /// Its header says another algorithm, by which it is then signed: `HS256`, `HS384`, `HS512`, or `none`.
    #[must_use]
    pub fn by(mut self, algorithm: &str) -> Self {
        self.header["alg"] = json!(algorithm);
        self
    }

    /// With another claim, by its JSON pointer: `/user/id/type`.
    ///
    /// # Panics
    /// When the pointer's parent is not there.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let (object, name) = self.parent(pointer);
        object.insert(name, value.into());
        self
    }

    /// Without a claim.
    ///
    /// # Panics
    /// When it is not there: then the test is about nothing.
    #[must_use]
    pub fn without(mut self, pointer: &str) -> Self {
        let (object, name) = self.parent(pointer);
        assert!(object.remove(&name).is_some(), "there is no {pointer}");
        self
    }

    fn parent(&mut self, pointer: &str) -> (&mut Map<String, Value>, String) {
        let (parent, name) = pointer.rsplit_once('/').expect("a JSON pointer begins with /");
        let object = self.claims.pointer_mut(parent).and_then(Value::as_object_mut);
        (object.unwrap_or_else(|| panic!("there is no object {parent:?}")), name.replace("~1", "/").replace("~0", "~"))
    }

    /// Its claims.
    #[must_use]
    pub const fn claims(&self) -> &Value {
        &self.claims
    }

    /// The token, signed with this secret as its header says.
    ///
    /// # Panics
    /// When the header says an algorithm that is none of those of [`Self::by`].
    #[must_use]
    pub fn sign(&self, secret: &str) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(self.header.to_string()), URL_SAFE_NO_PAD.encode(self.claims.to_string()));
        let algorithm = match self.header["alg"].as_str() {
            Some("HS256") => hmac::HMAC_SHA256,
            Some("HS384") => hmac::HMAC_SHA384,
            Some("HS512") => hmac::HMAC_SHA512,
            Some("none") => return format!("{signed}."),
            other => panic!("not signed by {other:?}"),
        };
        let signature = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn leave_out_the_empty(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    object.values_mut().for_each(leave_out_the_empty);
    object.retain(|_, value| match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(value) => value.as_i64() != Some(0),
        Value::String(value) => !value.is_empty(),
        Value::Array(value) => !value.is_empty(),
        Value::Object(_) => true,
    });
}

#[expect(clippy::disallowed_methods, reason = "OpenCloud has a clock of its own")]
fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}
