//! Lists of all that directories know.

use std::sync::atomic::AtomicUsize;

use tokio::sync::mpsc::channel;

use super::*;
use crate::directory::{Reindex, ReindexError, Summary, Told, Wanted};

/// A directory with some people in each tenant, which does not answer so many times.
struct Flaky {
    people: usize,
    silent: AtomicUsize,
    asked: AtomicUsize,
}

impl Flaky {
    fn new(people: usize, silent: usize) -> Arc<Self> {
        Arc::new(Self { people, silent: AtomicUsize::new(silent), asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Directory for Flaky {
    async fn search(&self, scope: &TenantScope, query: &UserQuery) -> Result<Found, ConnectorError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let down = |silent: usize| silent.checked_sub(1);
        if self.silent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, down).is_ok() {
            return Err(ConnectorError::Unavailable("it is down".to_owned()));
        }
        let tenant = scope.tenant_id().as_str();
        let users = (0..self.people.min(query.limit)).map(|n| in_book(&format!("{tenant}-{n}"), &format!("u{n}"), tenant)).collect();
        Ok(Found { users, truncated: false })
    }
    async fn get(&self, _: &TenantScope, _: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        Ok(None)
    }
}

/// A directory that takes every question and never answers.
struct Hanging;

#[async_trait]
impl Directory for Hanging {
    async fn search(&self, _: &TenantScope, _: &UserQuery) -> Result<Found, ConnectorError> {
        std::future::pending().await
    }
    async fn get(&self, _: &TenantScope, _: &Lookup) -> Result<Option<UpstreamUser>, ConnectorError> {
        Ok(None)
    }
}

/// Tenants `t00`, `t01` and so on, with these directories.
async fn admission<D: Directory + 'static>(tenants: usize, directories: Vec<(&str, Arc<D>)>) -> Arc<Admission> {
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    let tenants = (0..tenants).map(|n| tenant(&format!("t{n:02}"), false)).collect();
    let tenants = Arc::new(Tenants::open(tenants, None, Arc::clone(&store), NOW).await.unwrap());
    let wired = directories.into_iter().map(|(name, directory)| {
        Arc::new(Wired { directory: Some(directory as _), ..wired(name, OperatedBy::Operator, connectors::file::default_mapping()) })
    });
    Arc::new(Admission::new(tenants, IdRecords::new(store), wired.collect()))
}

async fn told(reindex: &Reindex, wanted: Wanted) -> Vec<Told> {
    let (tell, mut told) = channel(10_000);
    reindex.plan(&wanted).unwrap().run(NOW, tell).await;
    let mut all = Vec::new();
    while let Some(told) = told.recv().await {
        all.push(told);
    }
    all
}

fn summary(told: &[Told]) -> Summary {
    match told.last() {
        Some(Told::Ended(summary)) => summary.clone(),
        other => panic!("it has no end: {other:?}"),
    }
}

#[tokio::test]
async fn everyone_of_every_tenant_is_recorded_once() {
    let house = Plan::default().build().await;
    for (tenant, subject, name) in [("acme", "c1", "ann"), ("acme", "c2", "abe"), ("globex", "c3", "gil")] {
        house.book.with(tenant, subject, in_book(subject, name, tenant));
    }
    let reindex = Reindex::new(Arc::clone(&house.admission));
    let first = summary(&told(&reindex, Wanted::default()).await);
    let whole = Summary { tenants: 2, connectors: 1, people: 3, recorded: 3, ..Summary::default() };
    assert_eq!(first, whole);
    assert_eq!((house.records("acme", Kind::User, NOW).await.len(), house.records("globex", Kind::User, NOW).await.len()), (2, 1));
    assert_eq!(summary(&told(&reindex, Wanted::default()).await), Summary { recorded: 0, ..whole }, "again, and nothing is new");
    // Whoever comes by a search afterwards has the same record.
    assert_eq!(house.names("acme", "", NOW).await, ["abe", "ann"]);
    assert_eq!(house.records("acme", Kind::User, NOW).await.len(), 2);
}

#[tokio::test]
async fn t55_who_is_listed_in_the_wrong_tenant_is_not_recorded() {
    let house = Plan::default().build().await;
    house.book.with("acme", "c1", in_book("c1", "ann", "acme"));
    house.book.with("acme", "c2", in_book("c2", "gil", "globex"));
    let told = told(&Reindex::new(Arc::clone(&house.admission)), Wanted::default()).await;
    assert_eq!((summary(&told).people, summary(&told).recorded, summary(&told).refused), (2, 1, 1));
    assert_eq!((house.records("acme", Kind::User, NOW).await.len(), house.records("globex", Kind::User, NOW).await.len()), (1, 0));
}

#[tokio::test]
async fn one_tenant_or_one_connector_and_what_there_is_not() {
    let (corp, other) = (Flaky::new(2, 0), Flaky::new(1, 0));
    let reindex = Reindex::new(admission(3, vec![("corp", Arc::clone(&corp)), ("other", Arc::clone(&other))]).await);
    let of = |tenant: Option<&str>, connector: Option<&str>| Wanted {
        tenant: tenant.map(|id| TenantId::parse(id).unwrap()),
        connector: connector.map(id),
    };
    assert_eq!(summary(&told(&reindex, of(Some("t01"), None)).await).people, 3);
    assert_eq!(summary(&told(&reindex, of(None, Some("other"))).await).people, 3);
    assert_eq!((corp.asked.load(Ordering::Relaxed), other.asked.load(Ordering::Relaxed)), (1, 4));
    assert_eq!(reindex.plan(&of(Some("t09"), None)).unwrap_err(), ReindexError::NoTenant);
    assert_eq!(reindex.plan(&of(None, Some("nobody"))).unwrap_err(), ReindexError::NoConnector);
    let plan = reindex.plan(&Wanted::default()).unwrap();
    assert_eq!(reindex.plan(&Wanted::default()).unwrap_err(), ReindexError::UnderWay, "one at a time");
    drop(plan);
    assert!(reindex.plan(&Wanted::default()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_comes_back_costs_no_tenant_its_list() {
    let corp = Flaky::new(1_200, 3);
    let told = told(&Reindex::new(admission(2, vec![("corp", Arc::clone(&corp))]).await), Wanted::default()).await;
    assert_eq!((summary(&told).people, summary(&told).recorded, summary(&told).unreached), (2_400, 2_400, 0));
    assert_eq!(corp.asked.load(Ordering::Relaxed), 5);
    assert_eq!(told.iter().filter(|told| matches!(told, Told::Batch { .. })).count(), 6, "in batches of 500");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_stays_away_is_given_up_and_takes_nothing_from_another() {
    let (down, corp) = (Flaky::new(1, usize::MAX), Flaky::new(1, 0));
    let reindex = Reindex::new(admission(40, vec![("corp", Arc::clone(&corp)), ("down", Arc::clone(&down))]).await);
    let told = told(&reindex, Wanted::default()).await;
    let (summary, unreached) = (summary(&told), told.iter().filter(|told| matches!(told, Told::Unreached { .. })).count());
    assert_eq!((summary.people, summary.recorded, summary.unreached, summary.connectors), (40, 40, 40, 1));
    let given_up = told.iter().find_map(|told| match told {
        Told::GivenUp { connector, lists } if connector.as_str() == "down" => Some(*lists),
        _ => None,
    });
    assert_eq!(given_up, Some(40 - unreached));
    assert!((3..=6).contains(&unreached), "{unreached}");
    assert!(down.asked.load(Ordering::Relaxed) <= 30, "it is left alone");
}

#[tokio::test]
async fn who_goes_away_ends_it_and_what_was_recorded_stays() {
    let admission = admission(40, vec![("corp", Flaky::new(3, 0))]).await;
    let reindex = Reindex::new(Arc::clone(&admission));
    let (tell, mut told) = channel(1);
    let running = tokio::spawn(reindex.plan(&Wanted::default()).unwrap().run(NOW, tell));
    assert!(matches!(told.recv().await, Some(Told::Begun { lists: 40 })));
    assert!(told.recv().await.is_some());
    drop(told);
    running.await.unwrap();
    let again = summary(&self::told(&reindex, Wanted::default()).await);
    assert_eq!(again.people, 120);
    assert!((1..120).contains(&again.recorded), "{again:?}");
}

#[tokio::test]
async fn who_goes_away_leaves_the_turn_though_a_directory_hangs() {
    let reindex = Reindex::new(admission(1, vec![("corp", Arc::new(Hanging))]).await);
    let (tell, mut told) = channel(8);
    let running = tokio::spawn(reindex.plan(&Wanted::default()).unwrap().run(NOW, tell));
    assert!(matches!(told.recv().await, Some(Told::Begun { lists: 1 })));
    assert_eq!(reindex.plan(&Wanted::default()).unwrap_err(), ReindexError::UnderWay);
    drop(told);
    tokio::time::timeout(std::time::Duration::from_secs(10), running).await.unwrap().unwrap();
    assert!(reindex.plan(&Wanted::default()).is_ok());
}
