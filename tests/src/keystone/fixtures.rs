//! Who and what is in the Keystone of the tests: made once through its own API, and found in every copy under the same ids.
//!
//! Everyone's password is `password_of(domain, name)`, also that of the service's own users.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::{Api, Scope, application_credential_identity, token_of};
use crate::configuration::password_of;

/// The domain that Keystone makes by itself; its id.
pub const DEFAULT: &str = "default";
/// The name of that domain.
pub const DEFAULT_NAME: &str = "Default";
/// A user of acme whose name is not ASCII.
pub const ZOE: &str = "Zoë Ångström";
/// A user of acme whose name has characters that mean something in an address and in a query.
pub const ODD: &str = "o'hara & söhne (50%)*?_";

/// The identity provider whose people are acme's, in its group staff, from their first token on.
pub const IDENTITY_PROVIDER: &str = "sso";

/// Domain, name and description of everyone but the first administrator.
const PEOPLE: [(&str, &str, &str); 12] = [
    ("acme", "jane", "Jane Jones"),
    ("acme", "john", "John Johnson"),
    ("acme", "dora", "Dora, who is disabled"),
    ("acme", ZOE, ZOE),
    ("acme", ODD, ""),
    ("globex", "jane", "Jane Joyce"),
    ("globex", "gina", "Gina Gold"),
    ("initech", "jane", "Jane Initech"),
    (DEFAULT_NAME, "olga", "Olga, who operates all of it"),
    (DEFAULT_NAME, DENIZEN, ""),
    (DEFAULT_NAME, DENIZEN_NARROW, ""),
    (DEFAULT_NAME, DENIZEN_ACME, ""),
];

/// The service account that may do all that Denizen asks for: reader on the system, and the role `service` on the project `service`.
pub const DENIZEN: &str = "denizen";
/// One that may only ask what a token says: the role `service` on the project `service`.
pub const DENIZEN_NARROW: &str = "denizen-narrow";
/// One that may only read the domain acme.
pub const DENIZEN_ACME: &str = "denizen-acme";

/// Ids, by names; those of what is in a domain by `{domain}/{name}`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Fixtures {
    /// `acme`, `globex`, `initech`, `Default`.
    pub domains: BTreeMap<String, String>,
    /// People and the service's own users.
    pub users: BTreeMap<String, String>,
    /// `acme/web`, `globex/web`, `initech/web`, `Default/service`, `Default/admin`.
    pub projects: BTreeMap<String, String>,
    /// `acme/staff`, `acme/admins`, `globex/staff`, `globex/admins`.
    pub groups: BTreeMap<String, String>,
    /// Keystone's own (`admin`, `manager`, `member`, `reader`, `service`) and `auditor`.
    pub roles: BTreeMap<String, String>,
    /// Of acme's jane on acme's project `web`, with the role `member`.
    pub application_credential: ApplicationCredential,
    /// The same with access rules.
    pub restricted_credential: ApplicationCredential,
    /// Of the user `denizen` on the project `service`, with the role `service`.
    pub service_credential: ApplicationCredential,
    /// From acme's jane to acme's john, who then is jane.
    pub trust: String,
    /// From acme's jane to globex' gina, who then is jane.
    pub trust_abroad: String,
    /// From acme's jane to acme's john, who stays john.
    pub trust_without_impersonation: String,
}

/// An application credential.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ApplicationCredential {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: String,
}

impl ApplicationCredential {
    /// What a request for a token says with it.
    #[must_use]
    pub fn identity(&self) -> Value {
        application_credential_identity(&self.id, &self.secret)
    }
}

impl Fixtures {
    /// Makes everything, as the administrator whose token `admin` has.
    pub(super) async fn make(admin: &Api) -> Self {
        let mut all = Self::default();
        all.domains.insert(DEFAULT_NAME.to_owned(), DEFAULT.to_owned());
        for name in ["acme", "globex", "initech"] {
            let domain = admin.create("/domains", "domain", &json!({"name": name})).await;
            all.domains.insert(name.to_owned(), id(&domain));
        }
        for (kind, ids) in [("roles", &mut all.roles), ("projects", &mut all.projects)] {
            let prefix = if kind == "projects" { "Default/" } else { "" };
            for found in admin.get(&format!("/{kind}")).await.expect(200).json()[kind].as_array().unwrap() {
                ids.insert(format!("{prefix}{}", found["name"].as_str().unwrap()), id(found));
            }
        }
        let auditor = admin.create("/roles", "role", &json!({"name": "auditor"})).await;
        all.roles.insert("auditor".to_owned(), id(&auditor));
        all.make_users(admin).await;
        for (domain, name) in [("acme", "web"), ("globex", "web"), ("initech", "web"), (DEFAULT_NAME, "service")] {
            let made = admin.create("/projects", "project", &json!({"name": name, "domain_id": all.domains[domain]})).await;
            all.projects.insert(format!("{domain}/{name}"), id(&made));
        }
        all.make_groups(admin).await;
        all.federate(admin).await;
        all.grant(admin).await;
        all.delegate(admin).await;
        all
    }

    async fn make_users(&mut self, admin: &Api) {
        for (domain, name, description) in PEOPLE {
            let mut user = json!({"name": name, "domain_id": self.domains[domain], "password": password_of(domain, name)});
            if !description.is_empty() {
                user["description"] = description.into();
            }
            if name.is_ascii() && domain != DEFAULT_NAME && name != ODD {
                user["email"] = format!("{name}@{domain}.example").into();
            }
            if name == "dora" {
                user["enabled"] = false.into();
            }
            let made = admin.create("/users", "user", &user).await;
            self.users.insert(format!("{domain}/{name}"), id(&made));
        }
    }

    /// Acme's jane is in groups of globex, too, as Keystone allows.
    async fn make_groups(&mut self, admin: &Api) {
        for (domain, name, members) in [
            ("acme", "staff", ["acme/jane", "acme/john"].as_slice()),
            ("acme", "admins", &["acme/john"]),
            ("globex", "staff", &["globex/jane", "globex/gina"]),
            ("globex", "admins", &["globex/gina", "acme/jane"]),
        ] {
            let made = admin.create("/groups", "group", &json!({"name": name, "domain_id": self.domains[domain]})).await;
            for member in members {
                admin.put(&format!("/groups/{}/users/{}", id(&made), self.users[*member])).await;
            }
            self.groups.insert(format!("{domain}/{name}"), id(&made));
        }
    }

    /// People of an identity provider of acme's are in acme's group staff. A web server's module for single sign-on would say who they
    /// are, by what it sets in the request; here the request says it itself.
    async fn federate(&self, admin: &Api) {
        let provider = format!("/OS-FEDERATION/identity_providers/{IDENTITY_PROVIDER}");
        let staff = json!({"group": {"id": self.groups["acme/staff"]}});
        let rule = json!({"local": [{"user": {"name": "{0}"}}, staff], "remote": [{"type": "HTTP_X_SSO_USER"}]});
        for (path, body) in [
            (provider.as_str(), json!({"identity_provider": {"enabled": true, "domain_id": self.domains["acme"]}})),
            ("/OS-FEDERATION/mappings/sso", json!({"mapping": {"rules": [rule]}})),
            (&format!("{provider}/protocols/mapped"), json!({"protocol": {"mapping_id": "sso"}})),
        ] {
            admin.send("PUT", path, &[], &body).await.expect(201);
        }
    }

    async fn grant(&self, admin: &Api) {
        let project = |name: &str| Scope::Project(&self.projects[name]);
        let domain = |name: &str| Scope::Domain(&self.domains[name]);
        for (role, user, scope) in [
            ("member", "acme/jane", project("acme/web")),
            ("reader", "acme/jane", domain("acme")),
            ("reader", "acme/john", project("acme/web")),
            ("member", "acme/john", project("globex/web")),
            ("member", "acme/dora", project("acme/web")),
            ("admin", "globex/jane", project("globex/web")),
            ("member", "globex/gina", project("globex/web")),
            ("member", "initech/jane", project("initech/web")),
            ("admin", "Default/olga", Scope::System),
            ("service", "Default/denizen", project("Default/service")),
            ("reader", "Default/denizen", Scope::System),
            ("service", "Default/denizen-narrow", project("Default/service")),
            ("reader", "Default/denizen-acme", domain("acme")),
        ] {
            admin.grant(&self.roles[role], &self.users[user], scope).await;
        }
        admin.grant_group(&self.roles["auditor"], &self.groups["acme/staff"], project("acme/web")).await;
    }

    async fn delegate(&mut self, admin: &Api) {
        let (jane, member) = (self.users["acme/jane"].clone(), json!([{"name": "member"}]));
        let as_jane = self.signed_in(admin, "acme", "jane", "acme/web").await;
        let rules = json!([{"service": "identity", "method": "GET", "path": "/v3/projects"}]);
        let path = format!("/users/{jane}/application_credentials");
        self.application_credential = credential(&as_jane, &path, &json!({"name": "web", "roles": member})).await;
        let restricted = json!({"name": "web-restricted", "roles": member, "access_rules": rules});
        self.restricted_credential = credential(&as_jane, &path, &restricted).await;
        let as_denizen = self.signed_in(admin, DEFAULT_NAME, DENIZEN, "Default/service").await;
        let path = format!("/users/{}/application_credentials", self.users["Default/denizen"]);
        self.service_credential = credential(&as_denizen, &path, &json!({"name": "broker"})).await;

        let mut trusts = Vec::new();
        for (trustee, impersonation) in [("acme/john", true), ("globex/gina", true), ("acme/john", false)] {
            let trust = json!({
                "trustor_user_id": jane, "trustee_user_id": self.users[trustee], "project_id": self.projects["acme/web"],
                "impersonation": impersonation, "roles": member,
            });
            trusts.push(id(&as_jane.create("/OS-TRUST/trusts", "trust", &trust).await));
        }
        let mut trusts = trusts.into_iter();
        let mut next = || trusts.next().unwrap();
        (self.trust, self.trust_abroad, self.trust_without_impersonation) = (next(), next(), next());
    }

    async fn signed_in(&self, api: &Api, domain: &str, user: &str, project: &str) -> Api {
        let scope = Scope::Project(&self.projects[project]).json();
        api.with_token(&token_of(api.password(&self.domains[domain], user, &password_of(domain, user), &scope).await))
    }
}

async fn credential(api: &Api, path: &str, body: &Value) -> ApplicationCredential {
    let made = api.create(path, "application_credential", body).await;
    ApplicationCredential { id: id(&made), secret: made["secret"].as_str().unwrap().to_owned() }
}

/// The id of what Keystone gave.
pub(super) fn id(made: &Value) -> String {
    made["id"].as_str().unwrap().to_owned()
}
