//! What a test does to a Keystone while it runs: tokens for whoever is there, and an administrator's changes.

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{
    Keystone,
    api::{Scope, password_identity, token_of},
    fixtures::{ApplicationCredential, IDENTITY_PROVIDER, id},
};
use crate::{Answer, configuration::password_of};

impl Keystone {
    /// Asks for a token with someone's password.
    pub async fn sign_in(&self, domain: &str, user: &str, password: &str, scope: Scope<'_>) -> Answer {
        self.api().password(self.domain(domain), user, password, &scope.json()).await
    }

    /// A token of someone's.
    pub async fn token(&self, domain: &str, user: &str, scope: Scope<'_>) -> String {
        token_of(self.sign_in(domain, user, &password_of(domain, user), scope).await)
    }

    /// A token of an application credential.
    pub async fn token_of_application_credential(&self, credential: &ApplicationCredential) -> String {
        token_of(self.api().authenticate(&credential.identity(), &Value::Null).await)
    }

    /// A token of a trust, for its trustee.
    pub async fn token_of_trust(&self, domain: &str, trustee: &str, trust: &str) -> String {
        let identity = password_identity(self.domain(domain), trustee, &password_of(domain, trustee));
        token_of(self.api().authenticate(&identity, &json!({"OS-TRUST:trust": {"id": trust}})).await)
    }

    /// A token of someone whom acme's identity provider knows by this name (ASCII), and Keystone from now on.
    pub async fn token_of_federated_user(&self, name: &str, scope: Scope<'_>) -> String {
        let path = format!("/OS-FEDERATION/identity_providers/{IDENTITY_PROVIDER}/protocols/mapped/auth");
        let unscoped = token_of(self.api().send("GET", &path, &[("X-SSO-User", name)], &Value::Null).await);
        match scope {
            Scope::Unscoped => unscoped,
            scope => token_of(self.api().authenticate(&json!({"methods": ["token"], "token": {"id": unscoped}}), &scope.json()).await),
        }
    }

    /// Asks what a token says, as Denizen's service account.
    pub async fn validate(&self, token: &str) -> Answer {
        self.denizen().await.validate(token).await
    }

    /// Revokes a token.
    pub async fn revoke(&self, token: &str) {
        self.admin().await.send("DELETE", "/auth/tokens", &[("X-Subject-Token", token)], &Value::Null).await.expect(204);
    }

    /// Makes a user, and gives its id.
    pub async fn create_user(&self, domain: &str, name: &str) -> String {
        let user = json!({"name": name, "domain_id": self.domain(domain), "password": password_of(domain, name)});
        id(&self.admin().await.create("/users", "user", &user).await)
    }

    /// Makes so many users, `person-0000` and so on (some 60 ms each), and gives their ids.
    pub async fn create_users(&self, domain: &str, count: usize) -> Vec<String> {
        let (admin, domain_id) = (&self.admin().await, self.domain(domain));
        let make = |number: usize| async move {
            let name = format!("person-{number:04}");
            let user = json!({"name": name, "domain_id": domain_id, "password": password_of(domain, &name)});
            id(&admin.create("/users", "user", &user).await)
        };
        stream::iter(0..count).map(make).buffered(4).collect().await
    }

    /// Changes a user.
    pub async fn change_user(&self, user: &str, change: &Value) {
        self.admin().await.change(&format!("/users/{user}"), "user", change).await;
    }

    /// Disables a user.
    pub async fn disable_user(&self, user: &str) {
        self.change_user(user, &json!({"enabled": false})).await;
    }

    /// Enables a user.
    pub async fn enable_user(&self, user: &str) {
        self.change_user(user, &json!({"enabled": true})).await;
    }

    /// Deletes a user.
    pub async fn delete_user(&self, user: &str) {
        self.admin().await.delete(&format!("/users/{user}")).await;
    }

    /// Changes a domain.
    pub async fn change_domain(&self, domain: &str, change: &Value) {
        self.admin().await.change(&format!("/domains/{domain}"), "domain", change).await;
    }

    /// Disables a domain.
    pub async fn disable_domain(&self, domain: &str) {
        self.change_domain(domain, &json!({"enabled": false})).await;
    }

    /// Enables a domain.
    pub async fn enable_domain(&self, domain: &str) {
        self.change_domain(domain, &json!({"enabled": true})).await;
    }

    /// Gives a domain another name.
    pub async fn rename_domain(&self, domain: &str, name: &str) {
        self.change_domain(domain, &json!({"name": name})).await;
    }

    /// Disables a project.
    pub async fn disable_project(&self, project: &str) {
        self.admin().await.change(&format!("/projects/{project}"), "project", &json!({"enabled": false})).await;
    }

    /// Gives a user a role, by its name.
    pub async fn grant(&self, role: &str, user: &str, scope: Scope<'_>) {
        self.admin().await.grant(self.role(role), user, scope).await;
    }

    /// Takes a role from a user, by its name.
    pub async fn remove_role(&self, role: &str, user: &str, scope: Scope<'_>) {
        self.admin().await.remove_role(self.role(role), user, scope).await;
    }

    /// Puts a user into a group.
    pub async fn add_to_group(&self, group: &str, user: &str) {
        self.admin().await.put(&format!("/groups/{group}/users/{user}")).await;
    }

    /// Takes a user out of a group.
    pub async fn remove_from_group(&self, group: &str, user: &str) {
        self.admin().await.delete(&format!("/groups/{group}/users/{user}")).await;
    }

    /// Deletes an application credential of this user's.
    pub async fn delete_application_credential(&self, user: &str, credential: &str) {
        self.admin().await.delete(&format!("/users/{user}/application_credentials/{credential}")).await;
    }

    /// Deletes a trust.
    pub async fn delete_trust(&self, trust: &str) {
        self.admin().await.delete(&format!("/OS-TRUST/trusts/{trust}")).await;
    }
}
