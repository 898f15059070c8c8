//! The CS3 door of the running broker, as OpenCloud's parts call it: the proxy, the web's search, sharing, notifications and links; over users
//! of a file and a real directory with OpenCloud's attribute names.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

#[path = "cs3/attacks.rs"]
mod attacks;
#[path = "cs3/directory_attacks.rs"]
mod directory_attacks;
#[path = "cs3/groups.rs"]
mod groups;
#[path = "cs3/listening.rs"]
mod listening;
#[path = "cs3/outages.rs"]
mod outages;
#[path = "cs3/provider.rs"]
mod provider;
#[path = "cs3/search.rs"]
mod search;
#[path = "cs3/sign_in.rs"]
mod sign_in;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use denizen_tests::{
    Broker, Configuration, Reva, folder, ports,
    reva::Session,
    slapd::{
        Slapd,
        content::{ACME, GLOBEX, GROUPS, PEOPLE, READER, READER_PASSWORD},
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// OpenCloud's `OC_JWT_SECRET`.
const SECRET: &str = "the-jwt-secret-of-these-tests-0123456789";
/// An id of no one's.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// A broker whose door is at a socket and at an address.
struct Door {
    broker: Broker,
    folder: TempDir,
    address: SocketAddr,
}

impl Door {
    /// Over these tenants and connectors, with more, or other, members of `cs3`.
    async fn open(mut configuration: Configuration, more: &Value) -> Self {
        let folder = folder::new("cs3");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let mut cs3 = json!({
            "socket": {"path": folder.path().join("cs3.sock"), "mode": "0600"}, "address": address.to_string(), "jwtSecret": SECRET,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            cs3[name] = value.clone();
        }
        configuration.set("/cs3", cs3);
        Self { broker: Broker::start(configuration).await, folder, address }
    }

    /// Over the usual users of a file.
    async fn of_file() -> Self {
        Self::open(Configuration::default(), &json!({})).await
    }

    /// Over a real directory.
    async fn of_directory() -> (Slapd, Self) {
        Self::of_directory_with(json!({})).await
    }

    async fn of_directory_with(more: Value) -> (Slapd, Self) {
        let slapd = Slapd::start().await;
        let door = Self::open(of_slapd(&slapd), &more).await;
        (slapd, door)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cs3.sock")
    }

    async fn socket(&self) -> Reva {
        Reva::socket(&self.path()).await.unwrap()
    }

    async fn tcp(&self) -> Reva {
        Reva::tcp(self.address).await
    }

    /// What OpenCloud's proxy does for someone, by the name that is unique over the instance: their token, and what it was made of.
    async fn session(&self, name: &str) -> Session {
        let reva = self.socket().await;
        let user = reva.user_by_claim(None, "username", name).await.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        reva.sign_in(&user.id.unwrap().opaque_id, SECRET).await.unwrap()
    }

    /// How often something was counted: a line of `/metrics` without its number.
    async fn count(&self, what: &str) -> u64 {
        let answer = self.broker.http().get(format!("{}/metrics", self.broker.admin())).send().await.unwrap().text().await.unwrap();
        let number = answer.lines().find_map(|line| line.strip_prefix(what)?.trim().parse().ok());
        number.unwrap_or(0)
    }
}

/// The opaque id of someone who has signed in.
fn id(session: &Session) -> &str {
    &session.user.id.as_ref().unwrap().opaque_id
}

/// OpenCloud's multi-tenant deployment: one operator's directory, the tenant in `openCloudMemberOfSchool`, ids as they are.
fn of_slapd(slapd: &Slapd) -> Configuration {
    let corp = json!({
        "id": "corp", "displayName": "The directory", "type": "ldap", "operatedBy": "operator", "tenants": ["acme", "globex"],
        "ids": "verbatim", "url": slapd.ldaps_url(), "caFile": slapd.ca_path(), "bindDn": READER, "bindPassword": READER_PASSWORD,
        "deadlineSeconds": 2,
        "userSearch": {
            "base": PEOPLE, "idAttribute": "openCloudUUID", "enabledFilter": "(!(openCloudUserEnabled=FALSE))",
            "usernameAttributes": ["uid", "mail"], "searchAttributes": ["uid", "displayName", "mail"],
        },
        "groups": {"search": {"base": GROUPS}, "nested": true},
        "claimMappings": {
            "username": {"claim": "uid"}, "tenant": {"claim": "openCloudMemberOfSchool"}, "groups": {"claim": "groups"},
            "displayName": {"claim": "displayName"}, "email": {"claim": "mail"}, "uidNumber": {"claim": "uidNumber"},
            "gidNumber": {"claim": "gidNumber"},
        },
    });
    let mut clients = Configuration::default().0["clients"].clone();
    for client in clients.as_array_mut().unwrap() {
        client.as_object_mut().unwrap().remove("connectors");
    }
    Configuration::default()
        .with("/connectors", json!([corp]))
        .with("/systemTenant", Value::Null)
        .with("/tenants/0/externalIds", json!({"corp": ACME}))
        .with("/tenants/1/externalIds", json!({"corp": GLOBEX}))
        .with("/clients", clients.as_array().unwrap().iter().filter(|c| c["tenant"] != "system").cloned().collect::<Value>())
}

/// The names of people, in the order in which they were told.
fn names(users: &[denizen_tests::cs3::user::User]) -> Vec<&str> {
    users.iter().map(|user| user.username.as_str()).collect()
}
