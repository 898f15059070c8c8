//! Who has an id, over the whole instance: whoever came first, whatever happens at the same moment.

use std::sync::atomic::Ordering;

use claims_mapping::{Claims, ConnectorPolicy, IdScheme, Mapping, OperatedBy, Tenant, TenantLabel, TenantRule, UpstreamUser};
use serde_json::json;

use super::*;
use crate::{store::stand_in::stand_in, tests::NOW};

fn id(tenant: &str) -> TenantId {
    TenantId::parse(tenant).unwrap()
}

/// Someone as a connector's upstream describes them.
fn someone(ids: IdScheme, connector: &str, tenant: &str, subject: &str) -> Identity {
    let connector = ConnectorId::parse(connector).unwrap();
    let policy = ConnectorPolicy {
        connector,
        issuer: url::Url::parse("https://id.example").unwrap(),
        operated_by: OperatedBy::Operator,
        tenant_rule: TenantRule::Mapped(None),
        ids,
        roles: std::collections::BTreeSet::default(),
    };
    let tenant = id(tenant);
    let tenant = Tenant {
        label: TenantLabel::derived(&tenant),
        display_name: tenant.to_string(),
        id: tenant,
        external_ids: std::collections::BTreeMap::default(),
        connectors: None,
        disabled: false,
    };
    let claims = Claims::new(json!({"username": "someone", "tenant": tenant.id.as_str()})).unwrap();
    let user = UpstreamUser { subject: Subject::parse(subject).unwrap(), claims };
    let mapped = Mapping::compile(&connectors::file::default_mapping()).unwrap().evaluate(&user).unwrap();
    Identity::admit(mapped, &tenant, &policy).unwrap()
}

const UUID: &str = "0a000000-0000-4000-8000-000000000001";

fn derived(tenant: &str, subject: &str) -> Identity {
    someone(IdScheme::Derived, "sso", tenant, subject)
}

/// The tenants that there are.
async fn tenants() -> Tenants {
    let tenant = |text: &str| Tenant {
        label: TenantLabel::derived(&id(text)),
        display_name: text.to_owned(),
        id: id(text),
        external_ids: std::collections::BTreeMap::default(),
        connectors: None,
        disabled: text == "acme",
    };
    Tenants::open(vec![tenant("acme"), tenant("globex")], None, stand_in(), NOW).await.unwrap()
}

async fn keeps(ids: &IdRecords, person: &Identity) -> bool {
    !ids.keep(&tenants().await, person.id().tenant_id(), vec![person.clone()], NOW).await.unwrap().is_empty()
}

#[tokio::test]
async fn every_id_leads_to_its_tenant_also_after_a_restart() {
    let store = stand_in();
    let ids = IdRecords::new(Arc::clone(&store) as _);
    let (ann, jane) = (derived("acme", "s1"), someone(IdScheme::Verbatim, "corp", "globex", UUID));
    assert!(keeps(&ids, &ann).await && keeps(&ids, &jane).await);
    for ids in [ids, IdRecords::new(store)] {
        for (person, tenant) in [(&ann, "acme"), (&jane, "globex")] {
            assert_eq!(ids.owner(person.id().opaque_id(), NOW).await.unwrap(), Some(id(tenant)));
            assert_eq!(ids.get(&id(tenant), person.id().opaque_id(), NOW).await.unwrap().unwrap().subject, *person.subject());
        }
        assert_eq!(ids.get(&id("acme"), jane.id().opaque_id(), NOW).await.unwrap(), None);
        assert_eq!(ids.owner(Uuid::nil(), NOW).await.unwrap(), None);
    }
}

#[tokio::test]
async fn t04_t56_t58_an_id_stays_with_whoever_had_it_first() {
    let store = stand_in();
    let ids = IdRecords::new(Arc::clone(&store) as _);
    let ann = derived("acme", "s1");
    assert!(keeps(&ids, &ann).await);
    let forged = ann.id().opaque_id().to_string();
    for other in [
        someone(IdScheme::Verbatim, "corp", "globex", &forged),
        someone(IdScheme::Verbatim, "corp", "acme", &forged),
        someone(IdScheme::Verbatim, "sso", "acme", &forged),
    ] {
        assert!(!keeps(&ids, &other).await, "{other:?}");
        assert!(!keeps(&IdRecords::new(Arc::clone(&store) as _), &other).await, "{other:?}");
    }
    assert!(keeps(&ids, &ann).await);
    assert_eq!(ids.owner(ann.id().opaque_id(), NOW).await.unwrap(), Some(id("acme")));
    // Of two on one page the first has it.
    let (one, two) = (someone(IdScheme::Verbatim, "corp", "acme", UUID), someone(IdScheme::Verbatim, "other", "acme", UUID));
    let kept = ids.keep(&tenants().await, &id("acme"), vec![one.clone(), two, one.clone()], NOW).await.unwrap();
    assert_eq!(kept, [one.clone(), one]);
}

#[tokio::test]
async fn a_page_is_two_batches_and_nothing_when_it_is_known() {
    let store = stand_in();
    let ids = IdRecords::new(Arc::clone(&store) as _);
    let people: Vec<_> = (0..500).map(|n| derived("acme", &format!("s{n}"))).collect();
    assert_eq!(ids.keep(&tenants().await, &id("acme"), people.clone(), NOW).await.unwrap().len(), 500);
    assert_eq!(store.commits.load(Ordering::SeqCst), 2);
    let reads = store.reads.load(Ordering::SeqCst);
    assert_eq!(ids.keep(&tenants().await, &id("acme"), people.clone(), NOW).await.unwrap().len(), 500);
    assert_eq!((store.commits.load(Ordering::SeqCst), store.reads.load(Ordering::SeqCst)), (2, reads));
    // What is on the way of each request of OpenCloud's is not read again, either.
    let first = people[0].id().opaque_id();
    for _ in 0..3 {
        assert!(ids.owner(first, NOW).await.unwrap().is_some() && ids.get(&id("acme"), first, NOW).await.unwrap().is_some());
    }
    assert_eq!(store.reads.load(Ordering::SeqCst), reads + 2);
}

#[tokio::test]
async fn what_an_end_in_between_left_is_finished_at_the_next_sight() {
    let store = stand_in();
    let ann = derived("acme", "s1");
    let opaque_id = ann.id().opaque_id();
    store.left.store(1, Ordering::SeqCst);
    let ids = IdRecords::new(Arc::clone(&store) as _);
    assert!(ids.keep(&tenants().await, &id("acme"), vec![ann.clone()], NOW).await.is_err());
    assert_eq!(ids.owner(opaque_id, NOW).await.unwrap(), Some(id("acme")));
    assert_eq!(ids.get(&id("acme"), opaque_id, NOW).await.unwrap(), None, "its tenant's, and nobody's yet");
    store.left.store(usize::MAX / 2, Ordering::SeqCst);
    let elsewhere = someone(IdScheme::Verbatim, "corp", "globex", &opaque_id.to_string());
    assert!(!keeps(&ids, &elsewhere).await);
    assert!(keeps(&ids, &ann).await);
    assert!(ids.get(&id("acme"), opaque_id, NOW).await.unwrap().is_some());
}

#[tokio::test]
async fn t56_a_derived_id_of_an_earlier_version_is_its_tenants_before_the_next_sight_and_after() {
    let store = stand_in();
    let ann = derived("acme", "s1");
    let opaque_id = ann.id().opaque_id();
    let record = UserRecord { connector: ann.connector().clone(), subject: ann.subject().clone() };
    let key = Key::new(&id("acme"), Kind::User, opaque_id.to_string());
    store.commit(Batch::new().put(key, serde_json::to_vec(&record).unwrap(), None), NOW).await.unwrap();
    let ids = IdRecords::new(Arc::clone(&store) as _);
    assert_eq!(ids.owner(opaque_id, NOW).await.unwrap(), None);
    // Until then it is nobody else's, either: acme is off, which changes nothing.
    let forged = someone(IdScheme::Verbatim, "corp", "globex", &opaque_id.to_string());
    assert!(!keeps(&ids, &forged).await, "t56: another tenant's directory claims it");
    assert_eq!(ids.owner(opaque_id, NOW).await.unwrap(), None);
    assert!(keeps(&ids, &ann).await);
    assert_eq!(ids.owner(opaque_id, NOW).await.unwrap(), Some(id("acme")));
    assert!(!keeps(&ids, &forged).await);
    // Of version 5 are others' ids, too.
    let other = Uuid::new_v5(&Uuid::nil(), b"someone").to_string();
    assert!(keeps(&ids, &someone(IdScheme::Verbatim, "corp", "globex", &other)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_see_the_same_people_at_once_all_get_them() {
    let store = stand_in();
    let ids = Arc::new(IdRecords::new(Arc::clone(&store) as _));
    let people: Arc<Vec<_>> = Arc::new((0..200).map(|n| derived("acme", &format!("s{n}"))).collect());
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let (ids, people) = (Arc::clone(&ids), Arc::clone(&people));
            // Pages that overlap, and are not the same.
            tokio::spawn(async move {
                let page: Vec<_> = people.iter().skip(n * 5).take(100).cloned().collect();
                let many = page.len();
                (ids.keep(&tenants().await, &id("acme"), page, NOW).await.unwrap().len(), many)
            })
        })
        .collect();
    for task in tasks {
        let (kept, many) = task.await.unwrap();
        assert_eq!(kept, many);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t04_of_two_tenants_that_claim_an_id_at_once_one_has_it() {
    for n in 0..50 {
        let ids = Arc::new(IdRecords::new(stand_in() as _));
        let uuid = format!("0a000000-0000-4000-8000-0000000000{n:02}");
        let claim = |tenant: &'static str| {
            let (ids, person) = (Arc::clone(&ids), someone(IdScheme::Verbatim, "corp", tenant, &uuid));
            tokio::spawn(async move { keeps(&ids, &person).await })
        };
        let (acme, globex) = (claim("acme"), claim("globex"));
        assert!(acme.await.unwrap() ^ globex.await.unwrap());
    }
}
