//! User search in a real directory of 100,000 people in 10,000 tenants, against the same LDAP search by a bare client that
//! keeps its connections. They take turns, search by search: over REST, and over CS3 on a Unix socket; all over plain LDAP, so that no TLS hides the difference.

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
    opencloud,
};

const PEOPLE: u32 = 100_000;
const TENANTS: u32 = 10_000;
/// The tenants that are searched.
const SEARCHED: u32 = 200;
/// It finds all ten people of any tenant.
const TEXT: &str = "user0";
const FOUND: usize = 10;
const ATTRIBUTES: [&str; 8] = ["uid", "openCloudUUID", "mail", "cn", "sn", "givenName", "displayName", "openCloudMemberOfSchool"];

/// The ways in which the same ten people are found.
const WAYS: [&str; 3] = ["bare client", "A search, median", "FindUsers, median"];

/// The medians of REST and CS3 against those of the bare client, round for round.
pub(crate) async fn measure(effort: &Effort, cores: &Cores, folder: &Path) -> Result<Vec<Figure>> {
    let slapd = Slapd::start_large(PEOPLE, TENANTS).await;
    cores.move_away(slapd.process_id());
    let (tenants, connectors) = configured(&slapd);
    let socket = folder.join("cs3.sock");
    let cs3 = json!({"cs3": {"socket": {"path": socket}, "jwtSecret": opencloud::SECRET}});
    let broker = Broker::start_with(folder, &tenants, &connectors, &cs3).await?;
    opencloud::serve(&broker).await?;
    let mut searched = Vec::new();
    for tenant in (0..TENANTS).step_by((TENANTS / SEARCHED) as usize) {
        let claims = json!({
            "uid": large_uid(tenant), "displayName": format!("Person {tenant} of {}", large_tenant(tenant)),
            "openCloudMemberOfSchool": [large_tenant_uuid(tenant)],
        });
        let audience = format!("{}/api", broker.app.issuer);
        searched.push((tenant, broker.sign_in("corp", &content::uuid(tenant), claims, &audience).await?));
    }
    let pool = Pool::open(&slapd.ldap_url()).await?;
    let mut http = Connection::open(broker.address).await?;
    let mut grpc = opencloud::client(&socket).await?;
    let path = format!("/api/v1/users?search={TEXT}");
    let mut medians = WAYS.map(|_| Vec::new());
    for round in 0..=effort.rounds {
        let mut times = WAYS.map(|_| Vec::new());
        for (index, (tenant, person)) in searched.iter().enumerate() {
            // Whoever comes first finds a colder server: they take turns in that too.
            for turn in 0..WAYS.len() {
                let way = (index + turn) % WAYS.len();
                let request = opencloud::search(&broker.app.issuer, &large_tenant(*tenant), person, TEXT)?;
                let begun = Instant::now();
                let (found, micros) = match way {
                    0 => (pool.search(&filter(*tenant)).await?.len(), begun.elapsed()),
                    1 => {
                        let answer = http.get(&path, &person.token).await?;
                        let micros = begun.elapsed();
                        let found: Value = serde_json::from_slice(answer)?;
                        (found.get("users").and_then(Value::as_array).context("the answer has users")?.len(), micros)
                    }
                    _ => (grpc.find_users(request).await?.into_inner().users.len(), begun.elapsed()),
                };
                ensure!(found == FOUND, "{found} people were found in tenant {tenant} ({})", WAYS.get(way).unwrap_or(&""));
                times.get_mut(way).into_iter().for_each(|times| times.push(micros.as_secs_f64() * 1e3));
            }
        }
        if round > 0 {
            medians.iter_mut().zip(times).for_each(|(medians, times)| medians.push(Spread::new(times).median()));
        }
    }
    let [floor, rest, cs3] = medians.map(Spread::new);
    Ok([rest, cs3].into_iter().zip(WAYS.into_iter().skip(1)).map(|(spread, name)| figure(name, spread, &floor)).collect())
}

fn figure(name: &'static str, spread: Spread, floor: &Spread) -> Figure {
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
    Figure { name, unit: Unit::Milliseconds, spread, bound: Bound::AtMost(bound), detail }
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
