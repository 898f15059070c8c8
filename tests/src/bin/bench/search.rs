//! User search in a real directory of 100,000 people in 10,000 tenants, against the same LDAP search by a bare client that
//! keeps its connections. The two take turns, search by search; both over plain LDAP, so that no TLS hides the difference.

use std::{path::Path, time::Instant};

use anyhow::{Context as _, Result, ensure};
use denizen_tests::slapd::{
    Slapd, content,
    content::{READER, READER_PASSWORD},
    large_tenant, large_tenant_uuid, large_uid,
};
use ldap3::{Ldap, LdapConnAsync, Scope, SearchEntry, controls::PagedResults};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{
    Effort,
    broker::Broker,
    client::Connection,
    figures::{Bound, Figure, Spread, Unit},
    machine::Cores,
};

const PEOPLE: u32 = 100_000;
const TENANTS: u32 = 10_000;
/// The tenants that are searched.
const SEARCHED: u32 = 200;
/// It finds all ten people of any tenant.
const TEXT: &str = "user0";
const FOUND: usize = 10;
const ATTRIBUTES: [&str; 8] = ["uid", "openCloudUUID", "mail", "cn", "sn", "givenName", "displayName", "openCloudMemberOfSchool"];

/// The medians of both, round for round.
pub(crate) async fn measure(effort: &Effort, cores: &Cores, folder: &Path) -> Result<Figure> {
    let slapd = Slapd::start_large(PEOPLE, TENANTS).await;
    cores.move_away(slapd.process_id());
    let (tenants, connectors) = configured(&slapd);
    let broker = Broker::start(folder, &tenants, &connectors).await?;
    let mut searched = Vec::new();
    for tenant in (0..TENANTS).step_by((TENANTS / SEARCHED) as usize) {
        let claims = json!({
            "uid": large_uid(tenant), "displayName": format!("Person {tenant} of {}", large_tenant(tenant)),
            "openCloudMemberOfSchool": [large_tenant_uuid(tenant)],
        });
        let audience = format!("{}/api", broker.app.issuer);
        let person = broker.sign_in("corp", &content::uuid(tenant), claims, &audience).await?;
        searched.push((tenant, person.token));
    }
    let pool = Pool::open(&slapd.ldap_url()).await?;
    let mut http = Connection::open(broker.address).await?;
    let path = format!("/api/v1/users?search={TEXT}");
    let (mut floors, mut owns) = (Vec::new(), Vec::new());
    for round in 0..=effort.rounds {
        let (mut floor, mut own) = (Vec::new(), Vec::new());
        for (index, (tenant, token)) in searched.iter().enumerate() {
            // Whoever comes first finds a colder server: they take turns in that too.
            for first in [true, false] {
                let begun = Instant::now();
                if first == (index % 2 == 0) {
                    let found = pool.search(&filter(*tenant)).await?;
                    floor.push(begun.elapsed().as_secs_f64() * 1e3);
                    ensure!(found.len() == FOUND, "the directory has {} such people in tenant {tenant}", found.len());
                } else {
                    let answer = http.get(&path, token).await?;
                    own.push(begun.elapsed().as_secs_f64() * 1e3);
                    let found: Value = serde_json::from_slice(answer)?;
                    let users = found.get("users").and_then(Value::as_array).context("the answer has users")?.len();
                    ensure!(users == FOUND, "Denizen found {users} people in tenant {tenant}: {found}");
                }
            }
        }
        if round > 0 {
            floors.push(Spread::new(floor).median());
            owns.push(Spread::new(own).median());
        }
    }
    let floor = Spread::new(floors);
    let spread = Spread::new(owns);
    let bound = (floor.median() * 1.5).max(floor.median() + 0.5);
    let detail = format!(
        "Denizen {:.2} ms, bare client {:.2} ms ({:.2} to {:.2} ms): {:.2} times, {:.2} ms more; {FOUND} of 100 000 people found",
        spread.median(),
        floor.median(),
        floor.min(),
        floor.max(),
        spread.median() / floor.median(),
        spread.median() - floor.median(),
    );
    Ok(Figure { name: "A search, median", unit: Unit::Milliseconds, spread, bound: Bound::AtMost(bound), detail })
}

fn configured(slapd: &Slapd) -> (Value, Value) {
    let tenant = |n| json!({"id": large_tenant(n), "externalIds": {"corp": large_tenant_uuid(n)}});
    let connector = json!({
        "id": "corp", "type": "ldap", "operatedBy": "operator", "tenants": "all", "ids": "verbatim",
        "url": slapd.ldap_url(), "allowPlain": true, "bindDn": READER, "bindPassword": READER_PASSWORD,
        "userSearch": {
            "base": content::PEOPLE, "filter": "(objectClass=inetOrgPerson)", "enabledFilter": "(!(openCloudUserEnabled=FALSE))",
            "idAttribute": "openCloudUUID", "searchAttributes": ["uid", "displayName", "mail"],
        },
        "claimMappings": {
            "username": {"claim": "uid", "prefix": ""}, "tenant": {"claim": "openCloudMemberOfSchool"},
            "displayName": {"claim": "displayName"}, "email": {"claim": "mail"},
        },
    });
    (Value::Array((0..TENANTS).map(tenant).collect()), json!([connector]))
}

/// What Denizen asks for.
fn filter(tenant: u32) -> String {
    format!(
        "(&(&(objectClass=inetOrgPerson)(!(openCloudUserEnabled=FALSE)))(openCloudMemberOfSchool={})\
         (|(uid=*{TEXT}*)(displayName=*{TEXT}*)(mail=*{TEXT}*)))",
        large_tenant_uuid(tenant)
    )
}

/// Connections that are kept, and nothing else.
struct Pool(Mutex<Vec<Ldap>>);

impl Pool {
    async fn open(url: &str) -> Result<Self> {
        let mut kept = Vec::new();
        for _ in 0..4 {
            let (connection, mut ldap) = LdapConnAsync::new(url).await?;
            tokio::spawn(connection.drive());
            ldap.simple_bind(READER, READER_PASSWORD).await?.success()?;
            kept.push(ldap);
        }
        Ok(Self(Mutex::new(kept)))
    }

    async fn search(&self, filter: &str) -> Result<Vec<SearchEntry>> {
        let mut ldap = self.0.lock().await.pop().context("a connection is free")?;
        ldap.with_controls(PagedResults { size: 1_000, cookie: Vec::new() });
        let (entries, _) = ldap.search(content::PEOPLE, Scope::Subtree, filter, ATTRIBUTES).await?.success()?;
        self.0.lock().await.push(ldap);
        Ok(entries.into_iter().map(SearchEntry::construct).collect())
    }
}
