//! Who may share with whom: yes, no, and could not tell.

use claims_mapping::Identity;
use uuid::Uuid;

use super::*;
use crate::{
    config::{SharingConfig, SharingException},
    sharing::Sharing,
};

/// People of two tenants in the directory `corp`, recorded.
async fn house(plan: Plan) -> House {
    let house = plan.build().await;
    for (tenant, subject, name) in [("acme", "c1", "ann"), ("acme", "c2", "abe"), ("globex", "c3", "gil"), ("globex", "c4", "gus")] {
        house.book.with(tenant, subject, in_book(subject, name, tenant));
    }
    for tenant in ["acme", "globex"] {
        house.names(tenant, "", NOW).await;
    }
    house
}

async fn id_of(house: &House, tenant: &str, name: &str) -> Uuid {
    let search = Search { text: String::new(), limit: 50, after: None };
    let page = house.people.search(&scope(tenant), &search, NOW).await.unwrap();
    page.people.iter().find(|person| person.username() == name).map(Identity::id).unwrap().opaque_id()
}

fn sharing(house: &House, exceptions: &[(&str, &str)]) -> Sharing {
    let tenant = |id: &str| TenantId::parse(id).unwrap();
    let exceptions = exceptions.iter().map(|(from, to)| SharingException { from: tenant(from), to: tenant(to) }).collect();
    Sharing::new(Arc::clone(&house.people), Arc::clone(&house.admission.tenants), &SharingConfig { exceptions })
}

#[tokio::test]
async fn people_share_within_their_tenant_and_all_others_are_one_no() {
    let house = house(Plan::default()).await;
    let (ann, abe, gil) = (id_of(&house, "acme", "ann").await, id_of(&house, "acme", "abe").await, id_of(&house, "globex", "gil").await);
    let sharing = sharing(&house, &[]);
    let asked = async |tenant: &str, subject, target| sharing.allowed(&scope(tenant), subject, target, NOW).await.unwrap();
    assert!(asked("acme", ann, abe).await && asked("acme", abe, ann).await);
    let absent = Uuid::from_u128(7);
    for (tenant, subject, target) in [
        ("acme", ann, gil),
        ("acme", gil, ann),
        ("acme", ann, absent),
        ("acme", absent, ann),
        ("acme", absent, absent),
        ("globex", ann, abe),
        ("globex", gil, ann),
    ] {
        assert!(!asked(tenant, subject, target).await, "{tenant} {subject} {target}");
    }
    house.book.without("c2");
    assert!(!asked("acme", ann, abe).await, "whom the directory no longer has, or has disabled");
    assert!(!asked("acme", abe, ann).await);
}

#[tokio::test]
async fn an_exception_counts_one_way_and_widens_no_search() {
    let house = house(Plan::default()).await;
    let (ann, abe, gil) = (id_of(&house, "acme", "ann").await, id_of(&house, "acme", "abe").await, id_of(&house, "globex", "gil").await);
    let sharing = sharing(&house, &[("acme", "globex")]);
    let asked = async |tenant: &str, subject, target| sharing.allowed(&scope(tenant), subject, target, NOW).await.unwrap();
    assert!(asked("acme", ann, gil).await && asked("acme", ann, abe).await);
    assert!(!asked("globex", gil, ann).await, "not the other way round");
    assert!(!asked("acme", gil, ann).await && !asked("acme", gil, gil).await, "the subject is of the caller's tenant");
    assert_eq!(house.names("acme", "", NOW).await, ["abe", "ann"]);
    assert_eq!(house.people.get(&scope("acme"), gil, NOW).await.unwrap(), None);
    house.book.without("c3");
    assert!(!asked("acme", ann, gil).await);
}

#[tokio::test]
async fn t11_a_tenant_that_is_off_is_no_ones_exception() {
    let on = house(Plan::default()).await;
    let (ann, gil) = (id_of(&on, "acme", "ann").await, id_of(&on, "globex", "gil").await);
    let off = Plan { globex_disabled: true, ..Plan::default() }.over(Arc::clone(&on.store)).await;
    for (tenant, subject, name) in [("acme", "c1", "ann"), ("globex", "c3", "gil")] {
        off.book.with(tenant, subject, in_book(subject, name, tenant));
    }
    let asked = async |house: &House| sharing(house, &[("acme", "globex")]).allowed(&scope("acme"), ann, gil, NOW).await.unwrap();
    assert!(asked(&on).await && !asked(&off).await);
}

#[tokio::test]
async fn could_not_tell_is_never_no() {
    let house = house(Plan::default()).await;
    let (ann, abe, gil) = (id_of(&house, "acme", "ann").await, id_of(&house, "acme", "abe").await, id_of(&house, "globex", "gil").await);
    let sharing = sharing(&house, &[("acme", "globex")]);
    house.book.is_down.store(true, Ordering::Relaxed);
    for target in [abe, gil, Uuid::from_u128(7)] {
        assert!(sharing.allowed(&scope("acme"), ann, target, NOW).await.is_err(), "{target}");
    }
    house.book.is_down.store(false, Ordering::Relaxed);
    assert!(sharing.allowed(&scope("acme"), ann, abe, NOW).await.unwrap());
}
